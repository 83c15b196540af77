/* Qwen 3, dense (arXiv:2505.09388): as Qwen 2 without biases, and a norm on each head of q and k before RoPE. The
 * heads need not add up to the width: their size is attention.key_length. */
#include "model/model.h"

hasten_status family_qwen3(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)))
        return st;
    bind_rope_neox(m);
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->ffn = FFN_SWIGLU;
        if ((st = bind_block(g, m, i, err)) || (st = bind_biases(g, m, i, err)) ||
            (st = bind_layer_vector(g, m, i, "attn_q_norm.weight", l->d_k, false, &l->q_norm, err)) ||
            (st = bind_layer_vector(g, m, i, "attn_k_norm.weight", l->d_k, false, &l->k_norm, err)))
            return st;
    }
    return HASTEN_OK;
}
