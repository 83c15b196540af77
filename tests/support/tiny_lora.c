/* See tiny_lora.h. */
#include "tiny_lora.h"
#include "tiny_weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tiny_lora tiny_lora_default(uint64_t seed)
{
    return (struct tiny_lora){.seed = seed, .rank = 4, .alpha = 6.0f, .type = "F32"};
}

static const struct quant_type *type_of(const char *name)
{
    for (uint32_t id = 0; id < 64; id++) {
        const struct quant_type *t = quant_type_get(id);
        if (t && strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

static bool adapted(const struct gguf_tensor *t, const char *only)
{
    static const char *const stems[] = {"attn_q.",   "attn_k.", "attn_v.",   "attn_qkv.",    "attn_output.",
                                        "ffn_gate.", "ffn_up.", "ffn_down.", "output.weight"};
    const char *dot = strncmp(t->name, "blk.", 4) == 0 ? strchr(t->name + 4, '.') : NULL;
    if (t->n_dims != 2 || !strstr(t->name, ".weight") || (only && !strstr(t->name, only)))
        return false;
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
        if (strncmp(dot ? dot + 1 : t->name, stems[i], strlen(stems[i])) == 0)
            return true;
    return false;
}

static int add(struct gguf_writer *w, const char *base, const char *suffix, const struct quant_type *type,
               int64_t ne0, int64_t ne1, struct tiny_rng *rng)
{
    char name[300];
    const size_t size = (size_t)(ne0 * ne1 / type->block * type->block_bytes);
    void *data = ne0 % type->block ? NULL : malloc(size);
    int bad = !data || tiny_weights(type, ne0 * ne1, 0.2f, rng, data);
    snprintf(name, sizeof name, "%s%s", base, suffix);
    if (!bad)
        gguf_writer_tensor(w, name, type->id, 2, (const uint64_t[]){(uint64_t)ne0, (uint64_t)ne1}, data,
                           size);
    free(data);
    return bad;
}

struct gguf_writer *tiny_lora_writer(const struct gguf *base, const struct tiny_lora *o)
{
    struct gguf_writer *w = gguf_writer_new();
    const struct quant_type *type = type_of(o->type);
    struct gguf_str arch = {"", 0};
    struct tiny_rng rng = tiny_rng_make(o->seed, 17);
    int bad = !w || !type || gguf_opt_str(base, "general.architecture", &arch, NULL) != HASTEN_OK;
    if (!bad) {
        gguf_writer_str(w, "general.type", "adapter");
        gguf_writer_strn(w, "general.architecture", arch.data, arch.len);
        gguf_writer_str(w, "adapter.type", "lora");
        gguf_writer_f32(w, "adapter.lora.alpha", o->alpha);
    }
    for (int64_t i = 0; i < gguf_n_tensors(base) && !bad; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(base, i);
        if (adapted(t, o->only))
            bad = add(w, t->name, ".lora_a", type, t->ne[0], o->rank, &rng) ||
                  add(w, t->name, ".lora_b", type, o->rank, t->ne[1], &rng);
    }
    if (bad) {
        gguf_writer_free(w);
        return NULL;
    }
    return w;
}

int tiny_lora_save(const char *base, const struct tiny_lora *o, const char *path)
{
    struct gguf *g = NULL;
    if (gguf_open(base, &g, NULL))
        return -1;
    struct gguf_writer *w = tiny_lora_writer(g, o);
    const int bad = !w || gguf_writer_save(w, NULL, 0, path);
    gguf_writer_free(w);
    gguf_close(g);
    return bad ? -1 : 0;
}
