/* gpt-oss (OpenAI, gpt-oss-120b & gpt-oss-20b model card, arXiv:2508.10925, and the published configuration): grouped
 * attention with biases and a learned sink per head, every other layer (the first one too) local, experts with biases
 * and a clamped SwiGLU, RoPE on halves by YaRN. The norm before the experts is called post_attention_norm in its files. */
#include "model/model.h"

#define GPT_OSS_WINDOW 128
#define GPT_OSS_GLOBAL_EVERY 2

static hasten_status bind_layer(const struct gguf *g, struct model_desc *m, int32_t i,
                                struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    hasten_status st;
    if ((st = bind_attention(g, m, i, err)) ||
        (st = bind_layer_vector(g, m, i, "attn_q.bias", (int64_t)l->n_head * l->d_k, false, &l->bq, err)) ||
        (st =
             bind_layer_vector(g, m, i, "attn_k.bias", (int64_t)l->n_head_kv * l->d_k, false, &l->bk, err)) ||
        (st =
             bind_layer_vector(g, m, i, "attn_v.bias", (int64_t)l->n_head_kv * l->d_v, false, &l->bv, err)) ||
        (st = bind_layer_vector(g, m, i, "attn_output.bias", m->d_model, false, &l->bo, err)) ||
        (st = bind_layer_vector(g, m, i, "attn_sinks.weight", l->n_head, false, &l->sinks, err)) ||
        (st = bind_layer_vector(g, m, i, "post_attention_norm.weight", m->d_model, false, &l->ffn_norm, err)))
        return st;
    return bind_moe(g, m, i, err);
}

hasten_status family_gpt_oss(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    int32_t n_expert = 0;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_window(g, m, GPT_OSS_WINDOW, GPT_OSS_GLOBAL_EVERY, err)) ||
        (st = bind_experts(g, m, &n_expert, err)))
        return st;
    if (!n_expert)
        return error_set(err, HASTEN_ERR_FILE, "%s: gpt-oss.expert_count: found 0 (expected at least 1)",
                         gguf_path(g));
    bind_rope_neox(m);
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->moe.act = EXPERT_SWIGLU_CLAMPED;
        if ((st = bind_layer(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
