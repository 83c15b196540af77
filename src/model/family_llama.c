/* Llama 1 to 3 (Touvron et al., arXiv:2302.13971 and 2307.09288; arXiv:2407.21783) and Mistral (arXiv:2310.06825):
 * pre-norm blocks, RoPE on interleaved pairs (the converter permutes q and k for it), SwiGLU, grouped-query attention,
 * biases where the file has them, a window in every layer where it has one. Also SmolLM2.
 *
 * With expert_count it is Mixtral (arXiv:2401.04088): experts in place of the feed-forward block of every layer. */
#include "model/model.h"

hasten_status family_llama(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    int32_t n_expert = 0;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_window(g, m, 0, BIND_ALL_LOCAL, err)) || (st = bind_experts(g, m, &n_expert, err)))
        return st;
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->ffn = n_expert ? FFN_MOE : FFN_SWIGLU;
        if ((st = bind_attention(g, m, i, err)) ||
            (st = bind_layer_vector(g, m, i, "ffn_norm.weight", m->d_model, false, &l->ffn_norm, err)) ||
            (st = n_expert ? bind_moe(g, m, i, err) : bind_gated(g, m, i, err)) ||
            (st = bind_biases(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
