/* Gemma 3, text (arXiv:2503.19786): embeddings scaled by sqrt(d), norms before and after attention and
 * feed-forward (the file's weights already hold the +1), norms on q and k, GeGLU, sliding windows with every
 * sixth layer global; local layers rotate with base 10,000, global ones with the file's base and its scaling.
 * Queries are scaled by the head size, in the 27B by width / heads. */
#include "model/model.h"
#include <math.h>

#define GEMMA3_GLOBAL_EVERY 6
#define GEMMA3_LOCAL_THETA 10000.0f
#define GEMMA3_LAYERS_27B 62

/* ropes[1] is the local one. */
static hasten_status bind_ropes(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    const float local_theta = GEMMA3_LOCAL_THETA;
    if (m->n_ropes != 1)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: gemma3.rope.scaling.type: unsupported longrope in architecture gemma3",
                         gguf_path(g));
    m->ropes[1] = m->ropes[0];
    m->n_ropes = 2;
    bind_rope_neox(m);
    rope_unscaled(&m->ropes[1]);
    return bind_f32(g, m, "rope.freq_base_swa", 1.0f, 1e12f, &local_theta, &m->ropes[1].theta, err);
}

static hasten_status bind_layer(const struct gguf *g, struct model_desc *m, int32_t i,
                                struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    hasten_status st;
    if ((st = bind_block(g, m, i, err)) ||
        (st = bind_layer_vector(g, m, i, "attn_q_norm.weight", l->d_k, false, &l->q_norm, err)) ||
        (st = bind_layer_vector(g, m, i, "attn_k_norm.weight", l->d_k, false, &l->k_norm, err)) ||
        (st = bind_layer_vector(g, m, i, "post_attention_norm.weight", m->d_model, false, &l->attn_post_norm,
                                err)))
        return st;
    return bind_layer_vector(g, m, i, "post_ffw_norm.weight", m->d_model, false, &l->ffn_post_norm, err);
}

hasten_status family_gemma3(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    const float no_cap = 0.0f;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_window(g, m, 0, GEMMA3_GLOBAL_EVERY, err)) || (st = bind_ropes(g, m, err)) ||
        (st = bind_f32(g, m, "final_logit_softcapping", 0.0f, 1e6f, &no_cap, &m->logit_softcap, err)) ||
        (m->n_layer == GEMMA3_LAYERS_27B && (st = bind_q_scale(g, m, m->d_model / m->layers[0].n_head, err))))
        return st;
    m->embd_scale = sqrtf((float)m->d_model);
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->ffn = FFN_GEGLU;
        l->rope = l->window ? 1 : 0;
        if ((st = bind_layer(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
