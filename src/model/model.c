/* The table of families, and the way from a file to a description. What a family's keys and tensors are
 * called stands in family_*.c; how they are read and checked stands in bind.c. */
#include "model/model.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *arch;
    family_fn map;
} families[] = {
    {"llama", family_llama},       {"qwen2", family_qwen2},     {"qwen3", family_qwen3},
    {"gemma2", family_gemma2},     {"gemma3", family_gemma3},   {"phi3", family_phi3},
    {"qwen3moe", family_qwen3moe}, {"gpt-oss", family_gpt_oss}, {"bert", family_bert},
};

const char *model_families(void)
{
    return "llama, qwen2, qwen3, gemma2, gemma3, phi3, qwen3moe, gpt-oss, bert";
}

/* Architectures whose kind of layer has a place in model.h and is not there yet. */
static const struct {
    const char *arch, *kind;
} to_come[] = {
    {"deepseek2", "mla, attention to latent keys and values"},
    {"minicpm3", "mla, attention to latent keys and values"},
    {"plm", "mla, attention to latent keys and values"},
    {"qwen3next", "gdn, gated delta rules"},
    {"qwen35", "gdn, gated delta rules"},
    {"qwen35moe", "gdn, gated delta rules"},
    {"kimi-linear", "kda, delta attention"},
    {"dream", "diffusion of tokens"},
    {"llada", "diffusion of tokens"},
    {"llada-moe", "diffusion of tokens"},
};

static hasten_status refuse_arch(const struct gguf *g, struct gguf_str arch, struct hasten_error *err)
{
    const int len = (int)(arch.len < 64 ? arch.len : 64);
    for (size_t i = 0; i < sizeof to_come / sizeof *to_come; i++)
        if (arch.len == strlen(to_come[i].arch) && memcmp(arch.data, to_come[i].arch, arch.len) == 0)
            return error_set(
                err, HASTEN_ERR_UNSUPPORTED,
                "%s: general.architecture: unsupported architecture '%.*s' (its layers need %s, which is not there yet; supported: %s)",
                gguf_path(g), len, arch.data, to_come[i].kind, model_families());
    return error_set(err, HASTEN_ERR_UNSUPPORTED,
                     "%s: general.architecture: unsupported architecture '%.*s' (supported: %s)",
                     gguf_path(g), len, arch.data, model_families());
}

/* Keys that change the arithmetic of some model, and the value with which they do not. A file that has one with
 * another value must have it read by its family, or the answers would be wrong without a word. */
static const struct {
    const char *name;
    double neutral[2];
} arithmetic_keys[] = {
    {"attention.clamp_kqv", {0, 0}},
    {"attention.max_alibi_bias", {0, 0}},
    {"attention.output_scale", {0, 1}},
    {"attention.temperature_length", {0, 0}},
    {"attention.temperature_scale", {0, 0}},
    {"attention.shared_kv_layers", {0, 0}},
    {"attention.causal", {1, 1}},
    {"attn_logit_softcapping", {0, 0}},
    {"final_logit_softcapping", {0, 0}},
    {"logit_scale", {0, 1}},
    {"embedding_scale", {0, 1}},
    {"residual_scale", {0, 1}},
    {"use_parallel_residual", {0, 0}},
    {"rope.scaling.alpha", {0, 1}},
    {"rope.scaling.yarn_ext_factor", {1, 1}},
    {"rope.scaling.yarn_log_multiplier", {0, 0}},
};

/* A window as wide as the context hides nothing. */
static hasten_status check_window(const struct gguf *g, const struct model_desc *m, struct hasten_error *err)
{
    char key[96];
    uint32_t window = 0;
    snprintf(key, sizeof key, "%s.attention.sliding_window", m->arch);
    const int64_t at = gguf_find(g, key);
    if (at < 0 || m->read_keys[at])
        return HASTEN_OK;
    const hasten_status st = gguf_get_u32(g, key, &window, err);
    if (st == HASTEN_OK && window > 0 && window < (uint32_t)m->n_ctx_train)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: %s: unsupported value %u in architecture %s (expected none)", gguf_path(g), key,
                         window, m->arch);
    return st;
}

static hasten_status check_keys(const struct gguf *g, const struct model_desc *m, struct hasten_error *err)
{
    for (size_t i = 0; i < sizeof arithmetic_keys / sizeof *arithmetic_keys; i++) {
        char key[96];
        struct gguf_value v;
        snprintf(key, sizeof key, "%s.%s", m->arch, arithmetic_keys[i].name);
        const int64_t at = gguf_find(g, key);
        if (at < 0 || m->read_keys[at])
            continue;
        const bool list = gguf_key_type(g, at) == GGUF_ARRAY;
        if (!list)
            gguf_value_at(g, at, 0, &v);
        const double value = list                                       ? NAN
                             : v.type == GGUF_BOOL                      ? (double)v.boolean
                             : v.type == GGUF_F32 || v.type == GGUF_F64 ? v.real
                             : v.negative                               ? -(double)v.magnitude
                                                                        : (double)v.magnitude;
        if (value != arithmetic_keys[i].neutral[0] && value != arithmetic_keys[i].neutral[1])
            return error_set(err, HASTEN_ERR_UNSUPPORTED,
                             "%s: %s: unsupported in architecture %s (expected none, or %g)", gguf_path(g),
                             key, m->arch, arithmetic_keys[i].neutral[1]);
    }
    return check_window(g, m, err);
}

/* Every tensor of the file has found its place? */
static hasten_status check_claimed(const struct gguf *g, const struct model_desc *m, struct hasten_error *err)
{
    for (int64_t i = 0; i < gguf_n_tensors(g); i++)
        if (!m->claimed[i])
            return error_set(
                err, HASTEN_ERR_UNSUPPORTED,
                "%s: tensor '%s': unsupported in architecture %s with %d layers (expected only tensors it has a use for)",
                gguf_path(g), gguf_tensor_at(g, i)->name, m->arch, m->n_layer);
    return HASTEN_OK;
}

/* A file that states its vocabulary's size must mean the rows it holds. */
static hasten_status check_vocab_size(const struct gguf *g, const struct model_desc *m,
                                      struct hasten_error *err)
{
    char key[64];
    uint32_t n = (uint32_t)m->n_vocab;
    snprintf(key, sizeof key, "%s.vocab_size", m->arch);
    const hasten_status st = gguf_opt_u32(g, key, &n, err);
    if (st == HASTEN_OK && n != (uint32_t)m->n_vocab)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: %s: found %u (expected %d, the rows of token_embd.weight)", gguf_path(g), key,
                         n, m->n_vocab);
    return st;
}

static hasten_status map_family(const struct gguf *g, family_fn map, struct model_desc *m,
                                struct hasten_error *err)
{
    hasten_status st;
    m->claimed = mem_calloc((size_t)gguf_n_tensors(g) + 1, 1);
    m->read_keys = mem_calloc((size_t)gguf_n_keys(g) + 1, 1);
    if (!m->claimed || !m->read_keys)
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for the list of tensors", gguf_path(g));
    else if ((st = map(g, m, err)) == HASTEN_OK && (st = check_claimed(g, m, err)) == HASTEN_OK &&
             (st = check_keys(g, m, err)) == HASTEN_OK)
        st = check_vocab_size(g, m, err);
    mem_free(m->claimed);
    mem_free(m->read_keys);
    m->claimed = m->read_keys = NULL;
    return st;
}

hasten_status model_map(const struct gguf *g, struct model_desc *out, struct hasten_error *err)
{
    struct gguf_str arch;
    hasten_status st = gguf_get_str(g, "general.architecture", &arch, err);
    if (st)
        return st;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (arch.len != strlen(families[i].arch) || memcmp(arch.data, families[i].arch, arch.len) != 0)
            continue;
        out->arch = families[i].arch;
        out->embd_scale = 1.0f;
        st = map_family(g, families[i].map, out, err);
        if (st)
            model_unmap(out);
        return st;
    }
    return refuse_arch(g, arch, err);
}

int32_t layer_matrices(const struct layer *l, const struct weight *out[LAYER_MATRICES])
{
    const struct weight *const all[LAYER_MATRICES] = {&l->wq,         &l->wk,     &l->wv,   &l->wo,
                                                      &l->moe.router, &l->w_gate, &l->w_up, &l->w_down};
    int32_t n = 0;
    for (int32_t i = 0; i < LAYER_MATRICES; i++)
        if (all[i]->type)
            out[n++] = all[i];
    return n;
}

void model_unmap(struct model_desc *m)
{
    for (int32_t i = 0; i < m->n_decoded; i++)
        mem_free(m->decoded[i]);
    mem_free(m->decoded);
    mem_free(m->layers);
    mem_free(m->experts);
    memset(m, 0, sizeof *m);
}
