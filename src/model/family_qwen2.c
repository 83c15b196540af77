/* Qwen2 and Qwen2.5 (arXiv:2407.10671): as Llama, with biases on q, k and v, and RoPE on halves. */
#include "model/model.h"

hasten_status family_qwen2(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)))
        return st;
    bind_rope_neox(m);
    for (int32_t i = 0; i < m->n_layer; i++) {
        m->layers[i].attn = ATTN_GQA;
        m->layers[i].ffn = FFN_SWIGLU;
        if ((st = bind_block(g, m, i, err)) || (st = bind_biases(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
