/* BERT (Devlin et al., arXiv:1810.04805), an encoder: learned positions and token types added to the embedding, a layer
 * norm behind each sum, biases everywhere, gelu by erf, every position sees every other. Its last rows are the answer:
 * there is no head. Also the sentence encoders built on it (MiniLM, BGE, E5, GTE-base).
 *
 * Texts are of token type 0. */
#include "base/limits.h"
#include "model/model.h"
#include <stdio.h>

static hasten_status bind_embedding(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    static const char name[] = "token_embd.weight";
    const struct gguf_tensor *t = gguf_tensor_find(g, name),
                             *types = gguf_tensor_find(g, "token_types.weight");
    hasten_status st;
    if (t && (t->ne[1] < 1 || t->ne[1] > LIMIT_VOCAB))
        return error_set(err, HASTEN_ERR_FILE, "%s: tensor '%s': found %lld rows (expected 1 to %d)",
                         gguf_path(g), name, (long long)t->ne[1], LIMIT_VOCAB);
    m->n_vocab = t ? (int32_t)t->ne[1] : 1;
    if ((st = bind_weight(g, m, name, m->d_model, m->n_vocab, &m->token_embd, err)) ||
        (st =
             bind_weight(g, m, "position_embd.weight", m->d_model, m->n_ctx_train, &m->position_embd, err)) ||
        (st = bind_weight(g, m, "token_types.weight", m->d_model, types ? types->ne[1] : 1, &m->token_types,
                          err)) ||
        (st = bind_vector(g, m, "token_embd_norm.weight", m->d_model, false, &m->embd_norm, err)))
        return st;
    return bind_vector(g, m, "token_embd_norm.bias", m->d_model, false, &m->embd_norm_bias, err);
}

static hasten_status bind_layer(const struct gguf *g, struct model_desc *m, int32_t i,
                                struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    const int64_t d = m->d_model, dq = (int64_t)l->n_head * l->d_k, dv = (int64_t)l->n_head * l->d_v;
    const struct {
        const char *suffix;
        int64_t k, n_rows;
        struct weight *weight;
        const float **bias;
    } mats[] = {
        {"attn_q", d, dq, &l->wq, &l->bq},          {"attn_k", d, dq, &l->wk, &l->bk},
        {"attn_v", d, dv, &l->wv, &l->bv},          {"attn_output", dv, d, &l->wo, &l->bo},
        {"ffn_up", d, l->d_ff, &l->w_up, &l->b_up}, {"ffn_down", l->d_ff, d, &l->w_down, &l->b_down},
    };
    const struct {
        const char *suffix;
        const float **out;
    } norms[] = {
        {"attn_output_norm.weight", &l->attn_post_norm},
        {"attn_output_norm.bias", &l->attn_post_bias},
        {"layer_output_norm.weight", &l->ffn_post_norm},
        {"layer_output_norm.bias", &l->ffn_post_bias},
    };
    hasten_status st = HASTEN_OK;
    char name[128];
    for (size_t j = 0; j < sizeof mats / sizeof *mats && !st; j++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", i, mats[j].suffix);
        st = bind_weight(g, m, name, mats[j].k, mats[j].n_rows, mats[j].weight, err);
        snprintf(name, sizeof name, "blk.%d.%s.bias", i, mats[j].suffix);
        if (!st)
            st = bind_vector(g, m, name, mats[j].n_rows, false, mats[j].bias, err);
    }
    for (size_t j = 0; j < sizeof norms / sizeof *norms && !st; j++)
        st = bind_layer_vector(g, m, i, norms[j].suffix, d, false, norms[j].out, err);
    return st;
}

hasten_status family_bert(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    const float eps = 1e-12f;
    bool causal = false;
    if ((st = bind_common(g, m, err)) || (st = bind_embedding(g, m, err)) ||
        (st = bind_f32(g, m, "attention.layer_norm_epsilon", 0.0f, 1.0f, &eps, &m->norm_eps, err)) ||
        (st = gguf_opt_bool(g, "bert.attention.causal", &causal, err)))
        return st;
    const int64_t at = gguf_find(g, "bert.attention.causal");
    if (at >= 0)
        m->read_keys[at] = 1;
    if (causal)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: bert.attention.causal: unsupported value true (expected false)", gguf_path(g));
    m->encoder = true;
    m->n_ropes = 0;
    m->n_kv_slots = 1; /* a pass is done with a layer's keys before the next one's are stored */
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_ALL;
        l->ffn = FFN_GELU;
        l->kv_slot = 0;
        if (l->n_head_kv != l->n_head)
            return error_set(
                err, HASTEN_ERR_UNSUPPORTED,
                "%s: bert.attention.head_count_kv: unsupported value %d (expected %d, the heads)",
                gguf_path(g), l->n_head_kv, l->n_head);
        if ((st = bind_layer(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
