/* Gemma 3, text (arXiv:2503.19786): embeddings scaled by sqrt(d), norms before and after attention and
 * feed-forward (the file's weights already hold the +1), norms on q and k, GeGLU, sliding windows with every
 * sixth layer global; local layers rotate with base 10,000, global ones with the file's base. */
#include "base/limits.h"
#include "model/model.h"
#include <math.h>

#define GEMMA3_GLOBAL_EVERY 6
#define GEMMA3_LOCAL_THETA 10000.0f

hasten_status family_gemma3(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    int32_t window = 0, global_every = GEMMA3_GLOBAL_EVERY;
    const int32_t no_window = 0;
    const float local_theta = GEMMA3_LOCAL_THETA, no_scale = 1.0f;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_i32(g, m, "attention.sliding_window", 1, LIMIT_CONTEXT, &no_window, &window, err)) ||
        (st = bind_i32(g, m, "attention.sliding_window_pattern", 1, LIMIT_LAYERS, &global_every,
                       &global_every, err)))
        return st;
    m->embd_scale = sqrtf((float)m->d_model);
    m->ropes[0].neox = true;
    m->ropes[1] = m->ropes[0];
    m->n_ropes = 2;
    if ((st =
             bind_f32(g, m, "rope.scaling.factor", 1e-3f, 1e6f, &no_scale, &m->ropes[0].linear_scale, err)) ||
        (st = bind_f32(g, m, "rope.freq_base_swa", 1.0f, 1e12f, &local_theta, &m->ropes[1].theta, err)))
        return st;
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        const bool global = (i + 1) % global_every == 0 || window == 0;
        l->attn = ATTN_GQA;
        l->ffn = FFN_GEGLU;
        l->window = global ? 0 : window;
        l->rope = global ? 0 : 1;
        if ((st = bind_block(g, m, i, err)) ||
            (st = bind_layer_vector(g, m, i, "attn_q_norm.weight", l->d_k, false, &l->q_norm, err)) ||
            (st = bind_layer_vector(g, m, i, "attn_k_norm.weight", l->d_k, false, &l->k_norm, err)) ||
            (st = bind_layer_vector(g, m, i, "post_attention_norm.weight", m->d_model, false,
                                    &l->attn_post_norm, err)) ||
            (st = bind_layer_vector(g, m, i, "post_ffw_norm.weight", m->d_model, false, &l->ffn_post_norm,
                                    err)))
            return st;
    }
    return HASTEN_OK;
}
