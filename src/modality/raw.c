/* Vectors from a file before the prompt: soft prompts, and what an encoder somewhere else made of a picture or a sound. */
#include "engine/modality.h"
#include "base/checked.h"
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include <math.h>
#include <string.h>

struct raw_knobs {
    const char *file, *tensor;
};

static const struct knob raw_table[] = {
    {"file", KNOB_TEXT, offsetof(struct raw_knobs, file), 0, 0, NULL, NULL, NULL,
     "a .gguf or .safetensors file with a tensor [rows, width]; any other: float32, row by row"},
    {"tensor", KNOB_TEXT, offsetof(struct raw_knobs, tensor), 0, 0, NULL, NULL, NULL,
     "its name [the only one of the model's width]"},
};

struct rows {
    float *v; /* [n × d] */
    int32_t n, d;
};

/* ---- files ---------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static hasten_status make_room(const struct raw_knobs *k, int64_t n, struct rows *out,
                               struct hasten_error *err)
{
    if (n < 1 || n > LIMIT_CONTEXT)
        return error_set(err, HASTEN_ERR_FILE, "%s: found %lld rows of %d (expected 1 to %d)", k->file,
                         (long long)n, (int)out->d, LIMIT_CONTEXT);
    out->n = (int32_t)n;
    out->v = mem_array((size_t)n * (size_t)out->d, sizeof *out->v);
    return out->v ? HASTEN_OK
                  : error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for %lld rows of %d", k->file,
                              (long long)n, (int)out->d);
}

static hasten_status no_tensor(const struct raw_knobs *k, int32_t d, int n_found, struct hasten_error *err)
{
    if (k->tensor)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: tensor %s: not there, or not of rows of %d numbers (expected [rows, %d])",
                         k->file, k->tensor, (int)d, (int)d);
    return error_set(err, HASTEN_ERR_FILE, "%s: %s of rows of %d numbers (expected one, or raw:tensor=NAME)",
                     k->file, n_found ? "several tensors" : "no tensor", (int)d);
}

static hasten_status read_gguf(const struct raw_knobs *k, struct rows *out, struct hasten_error *err)
{
    struct gguf *g = NULL;
    const struct gguf_tensor *found = NULL;
    int n_found = 0;
    hasten_status st = gguf_open(k->file, &g, err);
    if (st)
        return st;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (t->ne[0] != out->d || t->n_dims > 2 || !t->type->decode ||
            (k->tensor && strcmp(k->tensor, t->name) != 0))
            continue;
        found = t;
        n_found++;
    }
    st = n_found == 1 ? make_room(k, found->ne[1], out, err) : no_tensor(k, out->d, n_found, err);
    for (int32_t i = 0; i < out->n && !st; i++)
        found->type->decode(found->data + i * found->row_bytes, out->d, out->v + (int64_t)i * out->d);
    gguf_close(g);
    return st;
}

static hasten_status read_safetensors(const struct raw_knobs *k, struct rows *out, struct hasten_error *err)
{
    struct safetensors *s = NULL;
    const struct st_tensor *found = NULL;
    int n_found = 0;
    hasten_status st = st_open(k->file, &s, err);
    if (st)
        return st;
    for (int64_t i = 0; i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (t->n_dims != 2 || t->shape[1] != out->d || !t->type ||
            (k->tensor && strcmp(k->tensor, t->name) != 0))
            continue;
        found = t;
        n_found++;
    }
    st = n_found == 1 ? make_room(k, found->shape[0], out, err) : no_tensor(k, out->d, n_found, err);
    const size_t row = st ? 0 : (size_t)(found->size_bytes / (uint64_t)out->n);
    for (int32_t i = 0; i < out->n && !st; i++)
        found->type->decode(found->data + (size_t)i * row, out->d, out->v + (int64_t)i * out->d);
    st_close(s);
    return st;
}

static hasten_status read_floats(const struct raw_knobs *k, struct rows *out, struct hasten_error *err)
{
    struct file *f = NULL;
    uint64_t size = 0;
    const uint64_t row = (uint64_t)out->d * sizeof(float);
    hasten_status st = file_open(k->file, FILE_READ, &f, err);
    if (!st)
        st = file_size(f, &size, err);
    if (!st && size % row)
        st = error_set(err, HASTEN_ERR_FILE,
                       "%s: found %llu bytes (expected rows of %d float32, %llu bytes each)", k->file,
                       (unsigned long long)size, (int)out->d, (unsigned long long)row);
    if (!st)
        st = make_room(k, (int64_t)(size / row), out, err);
    if (!st)
        st = file_pread(f, out->v, (size_t)size, 0, err);
    file_close(f);
    return st;
}

static hasten_status read_rows(const struct method_site *site, const struct raw_knobs *k, struct rows *out,
                               struct hasten_error *err)
{
    out->d = site->desc->d_model;
    hasten_status st = ends_with(k->file, ".gguf")          ? read_gguf(k, out, err)
                       : ends_with(k->file, ".safetensors") ? read_safetensors(k, out, err)
                                                            : read_floats(k, out, err);
    for (int64_t i = 0; i < (int64_t)out->n * out->d && !st; i++)
        if (!isfinite(out->v[i]))
            st = error_set(err, HASTEN_ERR_NON_FINITE, "%s: row %lld, number %lld is not finite", k->file,
                           (long long)(i / out->d), (long long)(i % out->d));
    if (st)
        mem_free(out->v);
    if (st)
        out->v = NULL;
    return st;
}

/* ---- the method ----------------------------------------------------------------------------------------------- */

static hasten_status raw_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct raw_knobs *k = knobs;
    if (!k->file)
        return error_set(err, HASTEN_ERR_USAGE,
                         "--modality raw:file: found none (expected a file of vectors)");
    if (site->desc->rope_switch)
        return error_set(err, HASTEN_ERR_USAGE,
                         "--modality raw: not with a model that rotates long sequences anew (LongRoPE)");
    struct rows r = {0};
    const hasten_status st = read_rows(site, k, &r, err);
    mem_free(r.v);
    return st;
}

static uint64_t raw_bytes(const struct method_site *site, const void *knobs)
{
    struct rows r = {0};
    const uint64_t bytes =
        read_rows(site, knobs, &r, NULL) ? 0 : (uint64_t)r.n * (uint64_t)r.d * sizeof(float);
    mem_free(r.v);
    return bytes + sizeof r;
}

static hasten_status raw_attach(const struct method_site *site, const void *knobs, void **state,
                                struct hasten_error *err)
{
    struct rows *r = mem_calloc(1, sizeof *r);
    if (!r)
        return error_set(err, HASTEN_ERR_MEMORY, "--modality raw: out of memory");
    const hasten_status st = read_rows(site, knobs, r, err);
    if (st)
        mem_free(r);
    else
        *state = r;
    return st;
}

static void raw_detach(void *state)
{
    struct rows *r = state;
    mem_free(r->v);
    mem_free(r);
}

static void raw_rows(const void *state, const float **rows, int32_t *n)
{
    const struct rows *r = state;
    *rows = r->v;
    *n = r->n;
}

static const struct modality_ops raw_ops = {.rows = raw_rows};

static const struct method_conflict raw_conflicts[] = {
    {STAGE_CACHE, NULL, "a prompt must be computable from its tokens", "score"},
    {STAGE_STOP, NULL, "it looks at the prompt's tokens, and vectors are none", NULL},
    {STAGE_CONTEXT, NULL, "it judges the prompt without the vectors before it", NULL},
};

const struct method method_raw = {
    .name = "raw",
    .title = "reads vectors from a file before the prompt",
    .paper =
        "soft prompts: Lester et al., The Power of Scale for Parameter-Efficient Prompt Tuning, arXiv:2104.08691",
    .stage = STAGE_MODALITY,
    .guarantee = METHOD_EXACT,
    .exact_to = "the plain engine: vectors of tokens (hasten_token_rows) give the bits of these tokens",
    .role = "prefix",
    .knobs = raw_table,
    .n_knobs = sizeof raw_table / sizeof *raw_table,
    .knobs_bytes = sizeof(struct raw_knobs),
    .needs = METHOD_NEEDS_DECODER,
    .conflicts = raw_conflicts,
    .n_conflicts = sizeof raw_conflicts / sizeof *raw_conflicts,
    .text =
        "A row takes a position before the first token, a BOS too, and goes into the residual stream as it is: a model's own "
        "scale of embeddings (Gemma) is not applied. Rows count as prompt and are read again only when the sequence does "
        "not hold them. In a sequence a row is known by a hash of its bits.",
    .check = raw_check,
    .model_bytes = raw_bytes,
    .attach = raw_attach,
    .detach = raw_detach,
    .hosted = &raw_ops,
};
