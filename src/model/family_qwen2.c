/* Qwen2 and Qwen2.5 (arXiv:2407.10671): as Llama, with biases on q, k and v, and RoPE on halves. */
#include "model/model.h"

hasten_status family_qwen2(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)))
        return st;
    m->ropes[0].neox = true;
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->ffn = FFN_SWIGLU;
        if ((st = bind_block(g, m, i, err)) ||
            (st =
                 bind_layer_vector(g, m, i, "attn_q.bias", (int64_t)l->n_head * l->d_k, true, &l->bq, err)) ||
            (st = bind_layer_vector(g, m, i, "attn_k.bias", (int64_t)l->n_head_kv * l->d_k, true, &l->bk,
                                    err)) ||
            (st = bind_layer_vector(g, m, i, "attn_v.bias", (int64_t)l->n_head_kv * l->d_v, true, &l->bv,
                                    err)))
            return st;
    }
    return HASTEN_OK;
}
