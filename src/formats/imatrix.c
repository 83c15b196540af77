/* The reader of importance matrices (imatrix.h), on top of the checked GGUF reader. */
#include "formats/imatrix.h"

#include "base/limits.h"
#include "base/mem.h"
#include "formats/gguf.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SUMS ".in_sum2"
#define COUNTS ".counts"

struct entry {
    char *name;
    const struct gguf_tensor *sums, *counts;
};

struct imatrix {
    struct gguf *gguf;
    struct entry *entries;
    int64_t n_entries;
    uint32_t chunk_count;
    char *dataset;
};

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

static hasten_status no_memory(const struct imatrix *m, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for the importance matrix",
                     gguf_path(m->gguf));
}

static hasten_status check_kind(const struct imatrix *m, struct hasten_error *err)
{
    static const char kind[] = "imatrix";
    struct gguf_str type = {NULL, 0};
    hasten_status st = gguf_opt_str(m->gguf, "general.type", &type, err);
    if (st == HASTEN_OK && (type.len != sizeof kind - 1 || memcmp(type.data, kind, type.len) != 0))
        st = error_set(
            err, HASTEN_ERR_FILE,
            "%s: general.type: found '%.*s' (expected 'imatrix': a file that `hasten imatrix` writes)",
            gguf_path(m->gguf), (int)(type.len < 64 ? type.len : 64), type.data ? type.data : "");
    return st;
}

/* Sums of squares and counts of rows are finite and not negative in any file that was not damaged. */
static hasten_status check_values(const struct imatrix *m, const struct gguf_tensor *t,
                                  struct hasten_error *err)
{
    const uint64_t n = t->size_bytes / sizeof(float);
    for (uint64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, t->data + i * sizeof v, sizeof v);
        if (!isfinite(v) || v < 0)
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tensor '%s': value %llu is %g (expected finite numbers from 0 up)",
                             gguf_path(m->gguf), t->name, (unsigned long long)i, (double)v);
    }
    return HASTEN_OK;
}

/* The other half of an entry, and whether both fit. */
static hasten_status check_entry(const struct imatrix *m, struct entry *e, struct hasten_error *err)
{
    char *name = mem_alloc(strlen(e->name) + sizeof COUNTS);
    if (!name)
        return no_memory(m, err);
    strcpy(name, e->name);
    strcat(name, COUNTS);
    e->counts = gguf_tensor_find(m->gguf, name);
    hasten_status st = HASTEN_OK;
    if (!e->counts)
        st = error_set(err, HASTEN_ERR_FILE, "%s: tensor '%s' is missing (expected it beside %s)",
                       gguf_path(m->gguf), name, e->sums->name);
    else if (e->sums->type->id != QUANT_F32 || e->counts->type->id != QUANT_F32)
        st = error_set(err, HASTEN_ERR_FILE, "%s: entry '%s' has types %s and %s (expected F32)",
                       gguf_path(m->gguf), e->name, e->sums->type->name, e->counts->type->name);
    else if (e->counts->size_bytes != (uint64_t)e->sums->ne[1] * sizeof(float) || e->sums->ne[2] != 1 ||
             e->sums->ne[3] != 1)
        st = error_set(err, HASTEN_ERR_FILE,
                       "%s: entry '%s' has %lld rows of sums and %llu counts (expected one count a row)",
                       gguf_path(m->gguf), e->name, (long long)e->sums->ne[1],
                       (unsigned long long)(e->counts->size_bytes / sizeof(float)));
    mem_free(name);
    if (st == HASTEN_OK)
        st = check_values(m, e->sums, err);
    return st == HASTEN_OK ? check_values(m, e->counts, err) : st;
}

static hasten_status collect_entries(struct imatrix *m, struct hasten_error *err)
{
    const int64_t n = gguf_n_tensors(m->gguf);
    m->entries = mem_calloc((size_t)(n ? n : 1), sizeof *m->entries);
    if (!m->entries)
        return no_memory(m, err);
    for (int64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
        if (!ends_with(t->name, SUMS))
            continue;
        struct entry *e = &m->entries[m->n_entries];
        e->sums = t;
        e->name = mem_strndup(t->name, strlen(t->name) - strlen(SUMS));
        if (!e->name)
            return no_memory(m, err);
        m->n_entries++;
        hasten_status st = check_entry(m, e, err);
        if (st != HASTEN_OK)
            return st;
    }
    if (m->n_entries == 0)
        return error_set(err, HASTEN_ERR_FILE, "%s: no tensor NAME" SUMS " (expected an importance matrix)",
                         gguf_path(m->gguf));
    return HASTEN_OK;
}

/* What describes the file: optional, but of the right types. */
static hasten_status read_keys(struct imatrix *m, struct hasten_error *err)
{
    enum gguf_value_type elem;
    struct gguf_str first = {"", 0};
    int64_t n = 0;
    hasten_status st = gguf_opt_u32(m->gguf, "imatrix.chunk_count", &m->chunk_count, err);
    if (st == HASTEN_OK)
        st = gguf_array_info(m->gguf, "imatrix.datasets", &elem, &n, err);
    if (st == HASTEN_OK && n > 0)
        st = gguf_array_str(m->gguf, "imatrix.datasets", 0, &first, err);
    if (st == HASTEN_OK && !(m->dataset = mem_strndup(first.data, first.len)))
        st = no_memory(m, err);
    return st;
}

hasten_status imatrix_open(const char *path, struct imatrix **out, struct hasten_error *err)
{
    *out = NULL;
    struct imatrix *m = mem_calloc(1, sizeof *m);
    if (!m)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for the importance matrix", path);
    hasten_status st = gguf_open(path, &m->gguf, err);
    if (st == HASTEN_OK)
        st = check_kind(m, err);
    if (st == HASTEN_OK)
        st = collect_entries(m, err);
    if (st == HASTEN_OK)
        st = read_keys(m, err);
    if (st == HASTEN_OK)
        *out = m;
    else
        imatrix_close(m);
    return st;
}

void imatrix_close(struct imatrix *m)
{
    if (!m)
        return;
    for (int64_t i = 0; i < m->n_entries; i++)
        mem_free(m->entries[i].name);
    mem_free(m->entries);
    mem_free(m->dataset);
    gguf_close(m->gguf);
    mem_free(m);
}

int64_t imatrix_n_entries(const struct imatrix *m)
{
    return m->n_entries;
}

const char *imatrix_entry_name(const struct imatrix *m, int64_t i)
{
    return m->entries[i].name;
}

uint32_t imatrix_chunk_count(const struct imatrix *m)
{
    return m->chunk_count;
}

const char *imatrix_dataset(const struct imatrix *m)
{
    return m->dataset;
}

int64_t imatrix_find(const struct imatrix *m, const char *name)
{
    char full[LIMIT_GGUF_NAME_BYTES + sizeof SUMS];
    const size_t len = strlen(name);
    if (len > LIMIT_GGUF_NAME_BYTES)
        return -1;
    memcpy(full, name, len);
    memcpy(full + len, SUMS, sizeof SUMS);
    const struct gguf_tensor *t = gguf_tensor_find(m->gguf, full);
    int64_t lo = 0, hi = m->n_entries; /* entries stand in the order of the file's tensors */
    while (t && lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (m->entries[mid].sums == t)
            return mid;
        if (m->entries[mid].sums < t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

hasten_status imatrix_get(const struct imatrix *m, int64_t i, int64_t k, int64_t n_mat, float *out,
                          struct hasten_error *err)
{
    const struct entry *e = &m->entries[i];
    if (e->sums->ne[0] != k || e->sums->ne[1] != n_mat)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: entry '%s' is for %lld matrices of %lld columns (expected %lld of %lld)",
                         gguf_path(m->gguf), e->name, (long long)e->sums->ne[1], (long long)e->sums->ne[0],
                         (long long)n_mat, (long long)k);
    memcpy(out, e->sums->data, (size_t)(k * n_mat) * sizeof *out);
    for (int64_t j = 0; j < n_mat; j++) {
        float count;
        memcpy(&count, e->counts->data + (size_t)j * sizeof count, sizeof count);
        float scale = count > 0 ? 1.0f / count : 0.0f;
        scale = scale < FLT_MAX ? scale : FLT_MAX; /* of a denormal count */
        for (int64_t c = 0; c < k; c++) {
            out[j * k + c] *= scale;
            if (out[j * k + c] > FLT_MAX)
                out[j * k + c] = FLT_MAX;
        }
    }
    return HASTEN_OK;
}
