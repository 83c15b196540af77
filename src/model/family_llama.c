/* Llama (Touvron et al., arXiv:2302.13971 and 2307.09288): pre-norm blocks, RoPE on interleaved pairs (the
 * converter permutes q and k for it), SwiGLU, no biases, grouped-query attention. Also SmolLM2.
 *
 * With expert_count it is Mixtral (arXiv:2401.04088): experts in place of the feed-forward block of every layer.
 *
 * Not here yet, and refused: rope scaling other than none and linear, per-dimension factors. */
#include "model/model.h"
#include <string.h>

static hasten_status refuse_extensions(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    struct gguf_str scaling = {"none", 4};
    hasten_status st = gguf_opt_str(g, "llama.rope.scaling.type", &scaling, err);
    if (st)
        return st;
    if (scaling.len == 6 && memcmp(scaling.data, "linear", 6) == 0) {
        const float one = 1.0f;
        return bind_f32(g, m, "rope.scaling.factor", 1e-3f, 1e6f, &one, &m->ropes[0].linear_scale, err);
    }
    if (scaling.len != 4 || memcmp(scaling.data, "none", 4) != 0)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: llama.rope.scaling.type: unsupported value '%.*s' (supported: none, linear)",
                         gguf_path(g), (int)(scaling.len < 32 ? scaling.len : 32), scaling.data);
    if (gguf_tensor_find(g, "rope_freqs.weight"))
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: tensor 'rope_freqs.weight': unsupported (Llama-3 rope factors)", gguf_path(g));
    return HASTEN_OK;
}

hasten_status family_llama(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    int32_t n_expert = 0;
    if ((st = bind_common(g, m, err)) || (st = refuse_extensions(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_experts(g, m, &n_expert, err)))
        return st;
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->ffn = n_expert ? FFN_MOE : FFN_SWIGLU;
        if ((st = bind_attention(g, m, i, err)) ||
            (st = bind_layer_vector(g, m, i, "ffn_norm.weight", m->d_model, false, &l->ffn_norm, err)) ||
            (st = n_expert ? bind_moe(g, m, i, err) : bind_gated(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
