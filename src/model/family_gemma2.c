/* Gemma 2 (arXiv:2408.00118): embeddings scaled by sqrt(d), norms before and after attention and feed-forward (the
 * file's weights already hold the +1), GeGLU, soft caps on attention scores (50) and on the final logits (30),
 * every other layer, the first one too, local. Queries are scaled by the head size, in the 27B by width / heads. */
#include "model/model.h"
#include <math.h>

#define GEMMA2_PERIOD 2
#define GEMMA2_WINDOW 4096
#define GEMMA2_LAYERS_27B 46
#define GEMMA2_ATTN_CAP 50.0f
#define GEMMA2_LOGIT_CAP 30.0f

static hasten_status bind_layer(const struct gguf *g, struct model_desc *m, int32_t i,
                                struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    hasten_status st = bind_block(g, m, i, err);
    if (st || (st = bind_layer_vector(g, m, i, "post_attention_norm.weight", m->d_model, false,
                                      &l->attn_post_norm, err)))
        return st;
    return bind_layer_vector(g, m, i, "post_ffw_norm.weight", m->d_model, false, &l->ffn_post_norm, err);
}

hasten_status family_gemma2(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    const float attn_cap = GEMMA2_ATTN_CAP, logit_cap = GEMMA2_LOGIT_CAP;
    float cap = 0;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_window(g, m, GEMMA2_WINDOW, GEMMA2_PERIOD, err)) ||
        (st = bind_f32(g, m, "attn_logit_softcapping", 0.0f, 1e6f, &attn_cap, &cap, err)) ||
        (st = bind_f32(g, m, "final_logit_softcapping", 0.0f, 1e6f, &logit_cap, &m->logit_softcap, err)) ||
        (m->n_layer == GEMMA2_LAYERS_27B && (st = bind_q_scale(g, m, m->d_model / m->layers[0].n_head, err))))
        return st;
    m->embd_scale = sqrtf((float)m->d_model);
    bind_rope_neox(m);
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->ffn = FFN_GEGLU;
        l->softcap = cap;
        if ((st = bind_layer(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
