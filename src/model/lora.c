/* Reading adapters, with every check before a number is used (lora.h). A tensor that cannot be applied is refused by
 * its name: an adapter applied in part would give wrong answers without a word. */
#include "model/lora.h"
#include "base/checked.h"
#include "base/limits.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX_BYTES 7 /* ".lora_a" */

/* ---- keys ------------------------------------------------------------------------------------------------- */

static hasten_status expect_text(const struct gguf *g, const char *key, const char *expected,
                                 hasten_status status, const char *note, struct hasten_error *err)
{
    struct gguf_str s;
    const hasten_status st = gguf_get_str(g, key, &s, err);
    if (st || (s.len == strlen(expected) && memcmp(s.data, expected, s.len) == 0))
        return st;
    return error_set(err, status, "%s: %s: found %s'%.*s' (expected '%s'%s)", gguf_path(g), key,
                     status == HASTEN_ERR_UNSUPPORTED ? "unsupported " : "", s.len < 64 ? (int)s.len : 64,
                     s.data, expected, note);
}

static hasten_status read_keys(const struct hasten_model *m, const struct gguf *g, float *alpha,
                               struct hasten_error *err)
{
    hasten_status st;
    *alpha = 0;
    if ((st = expect_text(g, "general.type", "adapter", HASTEN_ERR_FILE, "", err)) ||
        (st = expect_text(g, "adapter.type", "lora", HASTEN_ERR_UNSUPPORTED, "", err)) ||
        (st = expect_text(g, "general.architecture", m->desc.arch, HASTEN_ERR_FILE, ", as the model", err)) ||
        (st = gguf_opt_f32(g, "adapter.lora.alpha", alpha, err)))
        return st;
    if (!isfinite(*alpha))
        return error_set(err, HASTEN_ERR_FILE, "%s: adapter.lora.alpha: found %g (expected a finite number)",
                         gguf_path(g), (double)*alpha);
    if (gguf_find(g, "adapter.alora.invocation_tokens") >= 0)
        return error_set(
            err, HASTEN_ERR_UNSUPPORTED,
            "%s: adapter.alora.invocation_tokens: unsupported (expected an adapter that holds for "
            "all tokens)",
            gguf_path(g));
    return HASTEN_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------ */

static hasten_status no_memory(const struct gguf *g, const char *name, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "%s: tensor '%s': out of memory", gguf_path(g), name);
}

/* The tensor as floats that the adapter owns. */
static hasten_status decode_tensor(struct hasten_lora *l, const struct gguf *g, const struct gguf_tensor *t,
                                   const float **out, struct hasten_error *err)
{
    const int64_t n = t->ne[0] * t->ne[1];
    if (!t->type->decode)
        return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: tensor '%s': unsupported type %s", gguf_path(g),
                         t->name, t->type->name);
    if (l->n_values == l->cap_values) {
        const int32_t cap = l->cap_values ? 2 * l->cap_values : 64;
        float **p = mem_realloc(l->values, (size_t)cap * sizeof *p);
        if (!p)
            return no_memory(g, t->name, err);
        l->values = p;
        l->cap_values = cap;
    }
    float *v = mem_array((size_t)n, sizeof *v);
    if (!v)
        return no_memory(g, t->name, err);
    l->values[l->n_values++] = v;
    for (int64_t r = 0; r < t->ne[1]; r++)
        t->type->decode(t->data + r * t->row_bytes, t->ne[0], v + r * t->ne[0]);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tensor '%s': value %lld is not finite (expected numbers)", gguf_path(g),
                             t->name, (long long)i);
    *out = v;
    return HASTEN_OK;
}

static hasten_status check_shape(const struct gguf *g, const struct gguf_tensor *t, int64_t ne0, int64_t ne1,
                                 struct hasten_error *err)
{
    if (t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == 1 && t->ne[3] == 1)
        return HASTEN_OK;
    return error_set(err, HASTEN_ERR_FILE,
                     "%s: tensor '%s': found shape [%lld, %lld, %lld, %lld] (expected [%lld, %lld])",
                     gguf_path(g), t->name, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2],
                     (long long)t->ne[3], (long long)ne0, (long long)ne1);
}

/* Is w among the rows of tensor t? */
static bool lies_in(const struct weight *w, const struct gguf_tensor *t)
{
    return w->type && w->k == t->ne[0] && (uintptr_t)w->data >= (uintptr_t)t->data &&
           (uintptr_t)w->data < (uintptr_t)t->data + t->size_bytes;
}

static int add_pair(struct hasten_lora *l, const struct weight *w, const struct gguf_tensor *t,
                    const struct lora_pair *whole)
{
    if (l->n_pairs == l->cap_pairs) {
        const int32_t cap = l->cap_pairs ? 2 * l->cap_pairs : 64;
        struct lora_pair *p = mem_realloc(l->pairs, (size_t)cap * sizeof *p);
        if (!p)
            return -1;
        l->pairs = p;
        l->cap_pairs = cap;
    }
    struct lora_pair *p = &l->pairs[l->n_pairs++];
    *p = *whole;
    p->base = w;
    p->b += (w->data - t->data) / w->row_bytes * whole->rank;
    return 0;
}

/* The matrices of the model that are rows of t and go through linear_group: all but the router of experts, and but the
 * embedding, which rows are taken from. Their number, at most `most`. */
static int32_t matrices_in(const struct hasten_model *m, const struct gguf_tensor *t, int32_t most,
                           const struct weight **out)
{
    const struct model_desc *d = &m->desc;
    int32_t n = 0;
    if (lies_in(&d->token_embd, t))
        return 0;
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct weight *w[LAYER_MATRICES];
        const int32_t n_w = layer_matrices(&d->layers[i], w);
        for (int32_t j = 0; j < n_w && n < most; j++)
            if (w[j] != &d->layers[i].moe.router && lies_in(w[j], t))
                out[n++] = w[j];
    }
    if (n < most && lies_in(&d->output, t))
        out[n++] = &d->output;
    return n;
}

/* The pair of tensors of a base tensor, whose name is that of a without its suffix. */
static hasten_status read_pair(struct hasten_lora *l, const struct gguf *g, const struct gguf_tensor *a,
                               const struct gguf_tensor *b, const char *name, float alpha,
                               struct hasten_error *err)
{
    const struct weight *w[LAYER_MATRICES];
    const struct gguf_tensor *t = gguf_tensor_find(model_gguf(l->model), name);
    if (!t)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: tensor '%s': found no '%s' in the model (expected its name)", gguf_path(g),
                         a->name, name);
    const int32_t n = matrices_in(l->model, t, LAYER_MATRICES, w);
    if (n == 0)
        return error_set(
            err, HASTEN_ERR_UNSUPPORTED,
            "%s: tensor '%s': unsupported in an adapter (expected matrices of attention, of dense "
            "feed-forward blocks, and the output)",
            gguf_path(g), a->name);
    if (a->ne[1] < 1 || a->ne[1] > LIMIT_LORA_RANK)
        return error_set(err, HASTEN_ERR_FILE, "%s: tensor '%s': found rank %lld (expected 1 to %d)",
                         gguf_path(g), a->name, (long long)a->ne[1], LIMIT_LORA_RANK);
    struct lora_pair whole = {.rank = (int32_t)a->ne[1]};
    whole.factor = alpha == 0.0f ? 1.0f : alpha / (float)whole.rank;
    hasten_status st;
    if ((st = check_shape(g, a, t->ne[0], whole.rank, err)) ||
        (st = check_shape(g, b, whole.rank, t->ne[1], err)) || (st = decode_tensor(l, g, a, &whole.a, err)) ||
        (st = decode_tensor(l, g, b, &whole.b, err)))
        return st;
    for (int32_t i = 0; i < n; i++)
        if (add_pair(l, w[i], t, &whole))
            return no_memory(g, a->name, err);
    return HASTEN_OK;
}

/* Tensor i with its other half; a pair is read at its a. */
static hasten_status read_tensor(struct hasten_lora *l, const struct gguf *g, int64_t i, float alpha,
                                 struct hasten_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_at(g, i), *other;
    const size_t len = strlen(t->name), stem = len > SUFFIX_BYTES ? len - SUFFIX_BYTES : 0;
    const char *suffix = t->name + stem;
    const bool is_a = strcmp(suffix, ".lora_a") == 0;
    char name[LIMIT_GGUF_NAME_BYTES + 1];
    if (stem == 0 || len > LIMIT_GGUF_NAME_BYTES || (!is_a && strcmp(suffix, ".lora_b") != 0))
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: tensor '%s': unsupported in an adapter (expected NAME.lora_a and NAME.lora_b)",
                         gguf_path(g), t->name);
    snprintf(name, sizeof name, "%.*s%s", (int)stem, t->name, is_a ? ".lora_b" : ".lora_a");
    other = gguf_tensor_find(g, name);
    if (!other)
        return error_set(err, HASTEN_ERR_FILE, "%s: tensor '%s': missing (expected beside '%s')",
                         gguf_path(g), name, t->name);
    if (!is_a)
        return HASTEN_OK;
    name[stem] = 0;
    return read_pair(l, g, t, other, name, alpha, err);
}

/* ---- the adapter ---------------------------------------------------------------------------------------------- */

static hasten_status read_all(struct hasten_lora *l, const struct gguf *g, struct hasten_error *err)
{
    float alpha;
    hasten_status st = read_keys(l->model, g, &alpha, err);
    if (!st && gguf_n_tensors(g) == 0)
        st = error_set(err, HASTEN_ERR_FILE, "%s: found no tensors (expected NAME.lora_a and NAME.lora_b)",
                       gguf_path(g));
    for (int64_t i = 0; i < gguf_n_tensors(g) && !st; i++)
        st = read_tensor(l, g, i, alpha, err);
    return st;
}

hasten_status lora_read(const struct hasten_model *m, const struct gguf *g, struct hasten_lora **out,
                        struct hasten_error *err)
{
    struct hasten_lora *l = mem_calloc(1, sizeof *l);
    if (!l)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for an adapter", gguf_path(g));
    l->model = m;
    const hasten_status st = read_all(l, g, err);
    if (st)
        hasten_lora_close(l);
    else
        *out = l;
    return st;
}

hasten_status hasten_lora_open(const struct hasten_model *m, const char *path, struct hasten_lora **out,
                               struct hasten_error *err)
{
    struct gguf *g = NULL;
    hasten_status st = gguf_open(path, &g, err);
    if (!st)
        st = lora_read(m, g, out, err);
    gguf_close(g);
    return st;
}

void hasten_lora_close(struct hasten_lora *l)
{
    if (!l)
        return;
    for (int32_t i = 0; i < l->n_values; i++)
        mem_free(l->values[i]);
    mem_free(l->values);
    mem_free(l->pairs);
    mem_free(l);
}
