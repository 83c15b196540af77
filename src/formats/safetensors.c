/* The safetensors reader (safetensors.h). Owns the map, the parsed header, whose strings are the names, and the table
 * of tensors. Does not know what a model is, nor look at data. */
#include "formats/safetensors.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define LENGTH_BYTES 8

struct safetensors {
    char *path;
    const uint8_t *data;
    uint64_t size;
    bool mapped;
    json_t *header;
    struct st_tensor *tensors; /* [n] by offset */
    int64_t n;
};

/* ---- one tensor ---- */

static const struct dtype {
    const char *name;
    uint32_t bits;
    int64_t quant; /* id of the same type in quant.h; -1: none */
} dtypes[] = {
    {"F32", 32, QUANT_F32}, {"F16", 16, QUANT_F16}, {"BF16", 16, QUANT_BF16}, {"BOOL", 8, -1},
    {"U8", 8, -1},          {"I8", 8, -1},          {"I16", 16, -1},          {"U16", 16, -1},
    {"I32", 32, -1},        {"U32", 32, -1},        {"I64", 64, -1},          {"U64", 64, -1},
    {"F64", 64, -1},        {"F8_E4M3", 8, -1},     {"F8_E5M2", 8, -1},       {"F8_E8M0", 8, -1},
    {"C64", 64, -1},
};

static hasten_status refuse(const struct safetensors *s, const char *name, const char *field,
                            const char *expected, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_FILE, "%s: tensor '%.100s': %s (expected %s)", s->path, name, field,
                     expected);
}

static hasten_status read_dtype(const struct safetensors *s, struct st_tensor *t, const json_t *v,
                                const struct dtype **out, struct hasten_error *err)
{
    const char *name = json_string_value(v);
    if (!name)
        return refuse(s, t->name, "dtype: missing or not a string", "\"F32\", \"F16\", \"BF16\", ...", err);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = &dtypes[i];
            t->dtype = dtypes[i].name;
            t->type = dtypes[i].quant < 0 ? NULL : quant_type_get((uint32_t)dtypes[i].quant);
            return HASTEN_OK;
        }
    return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: tensor '%.100s': dtype: unsupported value '%.40s'",
                     s->path, t->name, name);
}

/* The shape, and the bytes that it means. */
static hasten_status read_shape(const struct safetensors *s, struct st_tensor *t, const json_t *v,
                                const struct dtype *type, uint64_t *bytes, struct hasten_error *err)
{
    if (!json_is_array(v) || json_array_size(v) > LIMIT_ST_DIMS)
        return refuse(s, t->name, "shape: missing, not an array or too long", "at most 8 dimensions", err);
    uint64_t n = 1;
    t->n_dims = (int32_t)json_array_size(v);
    for (int32_t i = 0; i < t->n_dims; i++) {
        const json_t *d = json_array_get(v, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0 || json_integer_value(d) > LIMIT_GGUF_DIM)
            return refuse(s, t->name, "shape: found something else than a size", "whole numbers up to 2^40",
                          err);
        t->shape[i] = json_integer_value(d);
        if (checked_mul_u64(n, (uint64_t)t->shape[i], &n))
            return refuse(s, t->name, "shape: too many elements", "fewer than 2^64", err);
    }
    if (checked_mul_u64(n, type->bits / 8, bytes))
        return refuse(s, t->name, "shape: too many bytes", "fewer than 2^64", err);
    return HASTEN_OK;
}

static hasten_status read_offsets(const struct safetensors *s, struct st_tensor *t, const json_t *v,
                                  uint64_t start, uint64_t bytes, struct hasten_error *err)
{
    const json_t *b = json_array_get(v, 0), *e = json_array_get(v, 1);
    if (!json_is_array(v) || json_array_size(v) != 2 || !json_is_integer(b) || !json_is_integer(e) ||
        json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b))
        return refuse(s, t->name, "data_offsets: missing or not a range", "[begin, end]", err);
    const uint64_t begin = (uint64_t)json_integer_value(b), end = (uint64_t)json_integer_value(e);
    if (end > s->size - start)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: tensor '%.100s': data_offsets: found the end %" PRIu64
                         " (expected at most %" PRIu64 ", the bytes of data in the file)",
                         s->path, t->name, end, s->size - start);
    if (end - begin != bytes)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: tensor '%.100s': data_offsets: found %" PRIu64 " bytes (expected %" PRIu64
                         ", as shape and dtype say)",
                         s->path, t->name, end - begin, bytes);
    t->size_bytes = bytes;
    t->offset = start + begin;
    t->data = s->data + t->offset;
    return HASTEN_OK;
}

static hasten_status read_tensor(const struct safetensors *s, struct st_tensor *t, const json_t *v,
                                 uint64_t start, struct hasten_error *err)
{
    const struct dtype *type = NULL;
    uint64_t bytes = 0;
    if (strlen(t->name) < 1 || strlen(t->name) > LIMIT_GGUF_NAME_BYTES)
        return refuse(s, t->name, "name: too long or empty", "1 to 256 bytes", err);
    if (!json_is_object(v))
        return refuse(s, t->name, "found something else than an object", "dtype, shape and data_offsets",
                      err);
    hasten_status st = read_dtype(s, t, json_object_get(v, "dtype"), &type, err);
    if (!st)
        st = read_shape(s, t, json_object_get(v, "shape"), type, &bytes, err);
    if (!st)
        st = read_offsets(s, t, json_object_get(v, "data_offsets"), start, bytes, err);
    return st;
}

/* ---- the table ---- */

/* Puts the tensors in the order of their data, which must follow each other and end with the file. */
static hasten_status order_tensors(struct safetensors *s, uint64_t start, struct hasten_error *err)
{
    const size_t n = (size_t)s->n;
    uint32_t *order = mem_array(n + 1, sizeof *order);
    struct st_tensor *sorted = mem_array(n + 1, sizeof *sorted);
    hasten_status st = HASTEN_OK;
    uint64_t at = start;
    if (!order || !sorted)
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for %zu tensors", s->path, n);
    else if (n)
        sort_indices(order, n, &s->tensors->offset, sizeof *s->tensors);
    /* An empty tensor shares its offset with the next one: it may come after it, and is no overlap. */
    for (size_t i = 0; i < n && !st; i++) {
        const struct st_tensor *t = &s->tensors[order[i]];
        sorted[i] = *t;
        if (t->offset != at && t->size_bytes)
            st = error_set(err, HASTEN_ERR_FILE,
                           "%s: tensor '%.100s': data_offsets: found its data at byte %" PRIu64
                           " (expected byte %" PRIu64 ", where those before it end)",
                           s->path, t->name, t->offset, at);
        at += t->size_bytes;
    }
    if (!st && at != s->size)
        st = error_set(err, HASTEN_ERR_FILE,
                       "%s: found %" PRIu64 " bytes behind the last tensor (expected none)", s->path,
                       s->size - at);
    mem_free(order);
    if (st) {
        mem_free(sorted);
        return st;
    }
    mem_free(s->tensors);
    s->tensors = sorted;
    return HASTEN_OK;
}

static hasten_status check_metadata(const struct safetensors *s, json_t *v, struct hasten_error *err)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(v);
    json_object_foreach(v, key, value) good = good && json_is_string(value);
    return good ? HASTEN_OK
                : error_set(err, HASTEN_ERR_FILE,
                            "%s: __metadata__: found something else than strings (expected an object of "
                            "strings)",
                            s->path);
}

static hasten_status read_table(struct safetensors *s, uint64_t start, struct hasten_error *err)
{
    const char *name;
    json_t *v;
    if (!json_is_object(s->header))
        return error_set(err, HASTEN_ERR_FILE, "%s: header: found JSON of another kind (expected an object)",
                         s->path);
    const size_t n = json_object_size(s->header);
    if (n > LIMIT_ST_TENSORS)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: found %zu tensors (expected at most %d)", s->path, n,
                         LIMIT_ST_TENSORS);
    s->tensors = mem_calloc(n + 1, sizeof *s->tensors);
    if (!s->tensors)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for %zu tensors", s->path, n);
    json_object_foreach(s->header, name, v)
    {
        hasten_status st;
        if (strcmp(name, "__metadata__") == 0) {
            st = check_metadata(s, v, err);
        } else {
            struct st_tensor *t = &s->tensors[s->n++];
            t->name = name;
            st = read_tensor(s, t, v, start, err);
        }
        if (st)
            return st;
    }
    return order_tensors(s, start, err);
}

static hasten_status parse(struct safetensors *s, struct hasten_error *err)
{
    uint64_t len = 0;
    if (s->size < LENGTH_BYTES)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: length of the header: found a file of %" PRIu64 " bytes (expected at least %d)",
                         s->path, s->size, LENGTH_BYTES);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        len = len << 8 | s->data[i];
    if (len > s->size - LENGTH_BYTES)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: length of the header: found %" PRIu64 " (expected at most %" PRIu64
                         ", the bytes that follow)",
                         s->path, len, s->size - LENGTH_BYTES);
    if (len < 2 || s->data[LENGTH_BYTES] != '{')
        return error_set(err, HASTEN_ERR_FILE, "%s: header: found no JSON object (expected a '{' at byte %d)",
                         s->path, LENGTH_BYTES);
    hasten_status st =
        json_parse_unique(s->path, (const char *)s->data + LENGTH_BYTES, (size_t)len, &s->header, err);
    return st ? st : read_table(s, LENGTH_BYTES + len, err);
}

/* ---- opening and closing ---- */

static hasten_status new_safetensors(const char *path, struct safetensors **out, struct hasten_error *err)
{
    struct safetensors *s = mem_calloc(1, sizeof *s);
    if (s)
        s->path = mem_strndup(path, strlen(path));
    if (!s || !s->path) {
        mem_free(s);
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory while opening a safetensors file");
    }
    *out = s;
    return HASTEN_OK;
}

static hasten_status finish(struct safetensors *s, hasten_status st, struct safetensors **out,
                            struct hasten_error *err)
{
    if (!st)
        st = parse(s, err);
    if (st)
        st_close(s);
    else
        *out = s;
    return st;
}

static hasten_status map_file(struct safetensors *s, struct hasten_error *err)
{
    struct file *f = NULL;
    const void *data = NULL;
    hasten_status st = file_open(s->path, FILE_READ, &f, err);
    if (st)
        return st;
    st = file_size(f, &s->size, err);
    if (!st && s->size) { /* an empty file is refused by its length */
        st = file_map(f, &data, &s->size, err);
        s->mapped = !st;
        s->data = data;
    }
    file_close(f);
    return st;
}

hasten_status st_open(const char *path, struct safetensors **out, struct hasten_error *err)
{
    struct safetensors *s = NULL;
    *out = NULL;
    hasten_status st = new_safetensors(path, &s, err);
    return st ? st : finish(s, map_file(s, err), out, err);
}

hasten_status st_open_memory(const void *data, size_t size, const char *name, struct safetensors **out,
                             struct hasten_error *err)
{
    struct safetensors *s = NULL;
    *out = NULL;
    hasten_status st = new_safetensors(name, &s, err);
    if (st)
        return st;
    s->data = data;
    s->size = size;
    return finish(s, HASTEN_OK, out, err);
}

void st_close(struct safetensors *s)
{
    if (!s)
        return;
    json_decref(s->header);
    mem_free(s->tensors);
    if (s->mapped)
        file_unmap(s->data, s->size);
    mem_free(s->path);
    mem_free(s);
}

const char *st_path(const struct safetensors *s)
{
    return s->path;
}

uint64_t st_file_bytes(const struct safetensors *s)
{
    return s->size;
}

const uint8_t *st_bytes(const struct safetensors *s)
{
    return s->data;
}

int64_t st_n_tensors(const struct safetensors *s)
{
    return s->n;
}

const struct st_tensor *st_tensor_at(const struct safetensors *s, int64_t i)
{
    return &s->tensors[i];
}
