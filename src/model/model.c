/* The table of families, and the way from a file to a description. What a family's keys and tensors are
 * called stands in family_*.c; how they are read and checked stands in bind.c. */
#include "model/model.h"
#include "base/mem.h"
#include <string.h>

static const struct {
    const char *arch;
    family_fn map;
} families[] = {
    {"llama", family_llama},
    {"qwen2", family_qwen2},
    {"gemma3", family_gemma3},
};

const char *model_families(void)
{
    return "llama, qwen2, gemma3";
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
        st = families[i].map(g, out, err);
        if (st)
            model_unmap(out);
        return st;
    }
    return error_set(err, HASTEN_ERR_UNSUPPORTED,
                     "%s: general.architecture: unsupported architecture '%.*s' (supported: %s)",
                     gguf_path(g), (int)(arch.len < 64 ? arch.len : 64), arch.data, model_families());
}

void model_unmap(struct model_desc *m)
{
    for (int32_t i = 0; i < m->n_decoded; i++)
        mem_free(m->decoded[i]);
    mem_free(m->decoded);
    mem_free(m->layers);
    memset(m, 0, sizeof *m);
}
