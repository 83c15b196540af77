/* The table of families, and the way from a file to a description. What a family's keys and tensors are
 * called stands in family_*.c; how they are read and checked stands in bind.c. */
#include "model/model.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *arch;
    family_fn map;
} families[] = {
    {"llama", family_llama},       {"qwen2", family_qwen2},     {"gemma3", family_gemma3},
    {"qwen3moe", family_qwen3moe}, {"gpt-oss", family_gpt_oss},
};

const char *model_families(void)
{
    return "llama, qwen2, gemma3, qwen3moe, gpt-oss";
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
    if (!m->claimed)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for the list of tensors", gguf_path(g));
    if ((st = map(g, m, err)) == HASTEN_OK && (st = check_claimed(g, m, err)) == HASTEN_OK)
        st = check_vocab_size(g, m, err);
    mem_free(m->claimed);
    m->claimed = NULL;
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
    return error_set(err, HASTEN_ERR_UNSUPPORTED,
                     "%s: general.architecture: unsupported architecture '%.*s' (supported: %s)",
                     gguf_path(g), (int)(arch.len < 64 ? arch.len : 64), arch.data, model_families());
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
