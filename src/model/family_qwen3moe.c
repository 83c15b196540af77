/* Qwen 3 with experts (arXiv:2505.09388): as Llama, with norms on q and k before RoPE on halves, and experts in
 * every layer, weighted by a softmax over the chosen ones (norm_topk_prob) or over all. */
#include "model/model.h"

hasten_status family_qwen3moe(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    int32_t n_expert = 0;
    bool over_chosen = true; /* the files of published models do not say */
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_experts(g, m, &n_expert, err)) ||
        (st = gguf_opt_bool(g, "qwen3moe.expert_weights_norm", &over_chosen, err)))
        return st;
    if (!n_expert)
        return error_set(err, HASTEN_ERR_FILE, "%s: qwen3moe.expert_count: found 0 (expected at least 1)",
                         gguf_path(g));
    bind_rope_neox(m);
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->attn = ATTN_GQA;
        l->moe.over_all = !over_chosen;
        if ((st = bind_attention(g, m, i, err)) ||
            (st = bind_layer_vector(g, m, i, "attn_q_norm.weight", l->d_k, false, &l->q_norm, err)) ||
            (st = bind_layer_vector(g, m, i, "attn_k_norm.weight", l->d_k, false, &l->k_norm, err)) ||
            (st = bind_layer_vector(g, m, i, "ffn_norm.weight", m->d_model, false, &l->ffn_norm, err)) ||
            (st = bind_moe(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
