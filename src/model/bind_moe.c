/* Mixtures of experts in files: their numbers, the router, and the experts' matrices, which stand in three stacked
 * tensors of a layer or, in older files, in one tensor for each expert. */
#include "base/limits.h"
#include "base/mem.h"
#include "model/model.h"
#include <stdio.h>

/* The matrices of all layers' experts are one array: [layer][gate, up, down][expert]. */
static hasten_status allot(const struct gguf *g, struct model_desc *m, int32_t n_expert, int32_t n_used,
                           struct hasten_error *err)
{
    const size_t n = (size_t)m->n_layer * 3 * (size_t)n_expert;
    m->experts = mem_calloc(n, sizeof *m->experts);
    if (!m->experts)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for %d layers of %d experts",
                         gguf_path(g), m->n_layer, n_expert);
    m->owned_bytes += (uint64_t)n * sizeof *m->experts;
    struct weight *at = m->experts;
    for (int32_t i = 0; i < m->n_layer; i++, at += 3 * (int64_t)n_expert) {
        m->layers[i].ffn = FFN_MOE;
        m->layers[i].moe = (struct moe){.n_expert = n_expert,
                                        .n_used = n_used,
                                        .gate = at,
                                        .up = at + n_expert,
                                        .down = at + 2 * (int64_t)n_expert};
    }
    return HASTEN_OK;
}

/* What other families do with experts, and these do not. */
static hasten_status refuse_kinds(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    static const struct {
        const char *name;
        uint32_t allowed[2];
    } keys[] = {
        {"expert_shared_count", {0, 0}},
        {"expert_group_count", {0, 1}},
        {"expert_gating_func", {1, 3}}, /* softmax over all experts, over the chosen ones */
    };
    char key[96];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t v = keys[i].allowed[0];
        snprintf(key, sizeof key, "%s.%s", m->arch, keys[i].name);
        hasten_status st = gguf_opt_u32(g, key, &v, err);
        if (st)
            return st;
        if (v != keys[i].allowed[0] && v != keys[i].allowed[1])
            return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: %s: unsupported value %u (expected %u or %u)",
                             gguf_path(g), key, v, keys[i].allowed[0], keys[i].allowed[1]);
    }
    float scale = 1.0f;
    snprintf(key, sizeof key, "%s.expert_weights_scale", m->arch);
    hasten_status st = gguf_opt_f32(g, key, &scale, err);
    if (st == HASTEN_OK && scale != 1.0f && scale != 0.0f)
        return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: %s: unsupported value %g (expected 1)",
                         gguf_path(g), key, (double)scale);
    return st;
}

hasten_status bind_experts(const struct gguf *g, struct model_desc *m, int32_t *n_expert,
                           struct hasten_error *err)
{
    const int32_t none = 0;
    int32_t n_used = 0, d_ff = m->layers[0].d_ff;
    hasten_status st = bind_i32(g, m, "expert_count", 0, LIMIT_EXPERTS, &none, n_expert, err);
    if (st || !*n_expert)
        return st;
    const int32_t most = *n_expert < LIMIT_EXPERTS_USED ? *n_expert : LIMIT_EXPERTS_USED;
    if ((st = bind_i32(g, m, "expert_used_count", 1, most, NULL, &n_used, err)) ||
        (st = bind_i32(g, m, "expert_feed_forward_length", 1, LIMIT_WIDTH, &d_ff, &d_ff, err)) ||
        (st = refuse_kinds(g, m, err)))
        return st;
    for (int32_t i = 0; i < m->n_layer; i++)
        m->layers[i].d_ff = d_ff;
    return allot(g, m, *n_expert, n_used, err);
}

/* Experts "blk.<layer>.<part>_exps.weight", or "blk.<layer>.<part>.<expert>.weight" for each. */
static hasten_status bind_part(const struct gguf *g, struct model_desc *m, int32_t layer, const char *part,
                               int64_t k, int64_t n_rows, struct weight *out, struct hasten_error *err)
{
    char name[128];
    const int32_t n = m->layers[layer].moe.n_expert;
    snprintf(name, sizeof name, "blk.%d.%s.0.weight", layer, part);
    if (!gguf_tensor_find(g, name)) {
        snprintf(name, sizeof name, "blk.%d.%s_exps.weight", layer, part);
        return bind_stack(g, m, name, k, n_rows, n, out, err);
    }
    for (int32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blk.%d.%s.%d.weight", layer, part, i);
        hasten_status st = bind_weight(g, m, name, k, n_rows, &out[i], err);
        if (st)
            return st;
        if (out[i].type != out[0].type)
            return error_set(err, HASTEN_ERR_UNSUPPORTED,
                             "%s: tensor '%s': unsupported type %s beside expert 0 in %s (expected the same)",
                             gguf_path(g), name, out[i].type->name, out[0].type->name);
    }
    return HASTEN_OK;
}

static hasten_status bind_expert_biases(const struct gguf *g, struct model_desc *m, int32_t layer,
                                        struct hasten_error *err)
{
    struct layer *l = &m->layers[layer];
    const struct {
        const char *part;
        int64_t n;
        const float **out;
    } all[] = {{"ffn_gate_exps", l->d_ff, &l->moe.gate_bias},
               {"ffn_up_exps", l->d_ff, &l->moe.up_bias},
               {"ffn_down_exps", m->d_model, &l->moe.down_bias}};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        char name[128];
        snprintf(name, sizeof name, "blk.%d.%s.bias", layer, all[j].part);
        hasten_status st = bind_vectors(g, m, name, all[j].n, l->moe.n_expert, true, all[j].out, err);
        if (st)
            return st;
    }
    return bind_layer_vector(g, m, layer, "ffn_gate_inp.bias", l->moe.n_expert, true, &l->moe.router_bias,
                             err);
}

hasten_status bind_moe(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    const int64_t d = m->d_model;
    char name[128];
    hasten_status st;
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", i);
    if ((st = bind_weight(g, m, name, d, l->moe.n_expert, &l->moe.router, err)) ||
        (st = bind_part(g, m, i, "ffn_gate", d, l->d_ff, l->moe.gate, err)) ||
        (st = bind_part(g, m, i, "ffn_up", d, l->d_ff, l->moe.up, err)) ||
        (st = bind_part(g, m, i, "ffn_down", l->d_ff, d, l->moe.down, err)))
        return st;
    return bind_expert_biases(g, m, i, err);
}
