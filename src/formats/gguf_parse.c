/* The parser of GGUF v3: one pass over the header that checks every number before it is used.
 *
 * Layout (GGUF specification): magic, version, number of tensors, number of keys; the keys with typed values;
 * the tensor records; padding to the alignment; the tensors' data. Everything is little-endian.
 *
 * Nothing is trusted: a count is compared with the bytes that are left before anything is allocated for it, a
 * product is checked before it is used, and the header as a whole is bounded, so that no file takes more than
 * seconds or a few hundred MiB. Each refusal is one sentence: file, field, byte offset, expected, found.
 * Does not: look at tensor data, or judge whether the keys make a model. */
#include "base/checked.h"
#include "base/depth.h"
#include "base/limits.h"
#include "base/mem.h"
#include "formats/gguf_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_ALIGNMENT 32
#define MIN_KEY_BYTES 14    /* key length 8, key 1, type 4, value 1 */
#define MIN_TENSOR_BYTES 33 /* name length 8, name 1, n_dims 4, one dimension 8, type 4, offset 8 */

enum part { PART_HEADER, PART_KEY, PART_TENSOR };

struct cursor {
    struct gguf *g;
    struct hasten_error *err;
    uint64_t pos;
    enum part part; /* what is being read, for messages: key or tensor number `item` */
    int64_t item;
    const uint8_t *name; /* its name once read, else NULL */
    size_t name_len;
};

/* ---- refusals ---- */

/* "FILE: FIELD of key 3 "name" at byte 120: " + fmt, which says what was expected and what was found. */
__attribute__((format(printf, 5, 6))) static hasten_status refuse(const struct cursor *c, hasten_status status,
                                                                  uint64_t at, const char *field,
                                                                  const char *fmt, ...)
{
    char what[160] = "", quoted[GGUF_QUOTED], detail[400];
    const char *kind = c->part == PART_KEY ? "key" : "tensor";
    if (c->part != PART_HEADER && c->name)
        snprintf(what, sizeof what, " of %s %" PRId64 " %s", kind, c->item,
                 gguf_quote(quoted, c->name, c->name_len));
    else if (c->part != PART_HEADER)
        snprintf(what, sizeof what, " of %s %" PRId64, kind, c->item);
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    return error_set(c->err, status, "%s: %s%s at byte %" PRIu64 ": %s", c->g->shown_path, field, what, at,
                     detail);
}

static hasten_status out_of_memory(const struct cursor *c, const char *what, uint64_t bytes)
{
    return error_set(c->err, HASTEN_ERR_MEMORY, "%s: out of memory for %s (%" PRIu64 " bytes)",
                     c->g->shown_path, what, bytes);
}

/* ---- reading ---- */

static uint64_t bytes_left(const struct cursor *c)
{
    return c->g->size - c->pos;
}

/* The next n bytes lie in the file and in the part of it that a header may fill. */
static hasten_status need(const struct cursor *c, uint64_t n, const char *field)
{
    if (n > bytes_left(c))
        return refuse(c, HASTEN_ERR_FILE, c->pos, field,
                      "expected %" PRIu64 " bytes, found the end of the file after %" PRIu64, n, bytes_left(c));
    if (n > LIMIT_GGUF_HEADER_BYTES || c->pos > LIMIT_GGUF_HEADER_BYTES - n)
        return refuse(c, HASTEN_ERR_LIMIT, c->pos, field,
                      "expected a header of at most %u bytes, found one that reaches byte %" PRIu64,
                      LIMIT_GGUF_HEADER_BYTES, c->pos + n);
    return HASTEN_OK;
}

static hasten_status read_u32(struct cursor *c, const char *field, uint32_t *out)
{
    hasten_status s = need(c, 4, field);
    if (s != HASTEN_OK)
        return s;
    *out = gguf_load_u32(c->g->data + c->pos);
    c->pos += 4;
    return HASTEN_OK;
}

static hasten_status read_u64(struct cursor *c, const char *field, uint64_t *out)
{
    hasten_status s = need(c, 8, field);
    if (s != HASTEN_OK)
        return s;
    *out = gguf_load_u64(c->g->data + c->pos);
    c->pos += 8;
    return HASTEN_OK;
}

size_t gguf_utf8_sequence(const uint8_t *s, size_t len)
{
    uint8_t low = 0x80, high = 0xbf;
    size_t n = 1;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] == 0xe0)
        low = 0xa0;
    if (s[0] == 0xed)
        high = 0x9f;
    if (s[0] == 0xf0)
        low = 0x90;
    if (s[0] == 0xf4)
        high = 0x8f;
    if (len < n || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return n;
}

/* The name of a key or tensor: 1 to limit bytes of UTF-8 without NUL. Becomes the cursor's name. */
static hasten_status read_name(struct cursor *c, const char *len_field, const char *field, uint32_t limit)
{
    uint64_t len, start = c->pos;
    hasten_status s = read_u64(c, len_field, &len);
    if (s != HASTEN_OK)
        return s;
    if (len == 0)
        return refuse(c, HASTEN_ERR_FILE, start, len_field, "expected 1 to %u, found 0", limit);
    if ((s = need(c, len, field)) != HASTEN_OK)
        return s;
    if (len > limit)
        return refuse(c, HASTEN_ERR_LIMIT, start, len_field, "expected 1 to %u, found %" PRIu64, limit, len);
    const uint8_t *name = c->g->data + c->pos;
    for (size_t i = 0, n; i < len; i += n) {
        n = name[i] ? gguf_utf8_sequence(name + i, len - i) : 0;
        if (n == 0)
            return refuse(c, HASTEN_ERR_FILE, c->pos + i, field, "expected UTF-8 without NUL, found byte 0x%02x",
                          name[i]);
    }
    c->name = name;
    c->name_len = len;
    c->pos += len;
    return HASTEN_OK;
}

static hasten_status add_name(struct cursor *c, struct gguf_names *names, uint64_t at, const char *field)
{
    int64_t found = gguf_names_add(names, c->item, (const char *)c->name, c->name_len);
    if (found == -2)
        return refuse(c, HASTEN_ERR_LIMIT, at, field,
                      "expected names that differ in their hashes, found more than %d that collide",
                      LIMIT_GGUF_PROBES);
    if (found >= 0)
        return refuse(c, HASTEN_ERR_FILE, at, field, "expected a new name, found that of number %" PRId64, found);
    return HASTEN_OK;
}

/* ---- magic, version, counts ---- */

static const char *foreign_kind(const uint8_t *data, uint64_t size)
{
    static const struct {
        const char *magic;
        size_t len;
        const char *kind;
    } kinds[] = {
        { "FUGG", 4, "a big-endian GGUF file" },
        { "PK\3\4", 4, "a zip archive, such as a PyTorch checkpoint" },
        { "\177ELF", 4, "an ELF program" },
        { "lmgg", 4, "a GGML file from before GGUF" },
        { "fmgg", 4, "a GGMF file from before GGUF" },
        { "tjgg", 4, "a GGJT file from before GGUF" },
        { "version https://git-lfs", 23, "a Git LFS pointer instead of the file itself" },
        { "\x1f\x8b", 2, "a gzip archive" },
        { "\x28\xb5\x2f\xfd", 4, "a zstd archive" },
        { "\x80\x02", 2, "a Python pickle" },
        { "<", 1, "an HTML or XML page" },
        { "{", 1, "a JSON text" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (size >= kinds[i].len && memcmp(data, kinds[i].magic, kinds[i].len) == 0)
            return kinds[i].kind;
    if (size > 8 && data[8] == '{' && gguf_load_u64(data) < (1u << 30))
        return "a safetensors file";
    return NULL;
}

static hasten_status read_magic(struct cursor *c)
{
    const uint8_t *data = c->g->data;
    char quoted[GGUF_QUOTED];
    uint64_t size = c->g->size;
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        c->pos = 4;
        return HASTEN_OK;
    }
    if (size < 4 && memcmp(data, "GGUF", (size_t)size) == 0)
        return need(c, 4, "magic");
    const char *kind = foreign_kind(data, size);
    return refuse(c, kind ? HASTEN_ERR_UNSUPPORTED : HASTEN_ERR_FILE, 0, "magic", "expected \"GGUF\", found %s%s%s%s",
                  gguf_quote(quoted, data, size < 4 ? (size_t)size : 4), kind ? " (" : "", kind ? kind : "",
                  kind ? ")" : "");
}

static hasten_status read_version(struct cursor *c)
{
    uint32_t version;
    hasten_status s = read_u32(c, "version", &version);
    if (s != HASTEN_OK)
        return s;
    c->g->version = version;
    if (version == 3)
        return HASTEN_OK;
    if (version == 0)
        return refuse(c, HASTEN_ERR_FILE, 4, "version", "expected 3, found 0");
    if ((version & 0xffff) == 0)
        return refuse(c, HASTEN_ERR_UNSUPPORTED, 4, "version",
                      "expected 3, found 0x%08x: big-endian GGUF is not supported yet", version);
    return refuse(c, HASTEN_ERR_UNSUPPORTED, 4, "version",
                  "expected 3, found %u: GGUF version %u is not supported yet", version, version);
}

/* A count of items of at least min_bytes each, read from byte `at`: they must fit the bytes that are left. */
static hasten_status check_count(const struct cursor *c, const char *field, uint64_t at, uint64_t count,
                                 uint32_t min_bytes, uint32_t limit)
{
    uint64_t left = bytes_left(c);
    if (count > left / min_bytes)
        return refuse(c, HASTEN_ERR_FILE, at, field,
                      "expected at most %" PRIu64 " in the %" PRIu64 " bytes that follow, found %" PRIu64,
                      left / min_bytes, left, count);
    if (count > limit)
        return refuse(c, HASTEN_ERR_LIMIT, at, field, "expected at most %u, found %" PRIu64, limit, count);
    return HASTEN_OK;
}

static hasten_status read_counts(struct cursor *c, uint64_t *n_keys, uint64_t *n_tensors)
{
    static const char tensors[] = "number of tensors", keys[] = "number of keys";
    hasten_status s = read_u64(c, tensors, n_tensors);
    if (s == HASTEN_OK)
        s = read_u64(c, keys, n_keys);
    if (s == HASTEN_OK)
        s = check_count(c, tensors, c->pos - 16, *n_tensors, MIN_TENSOR_BYTES, LIMIT_GGUF_TENSORS);
    if (s == HASTEN_OK)
        s = check_count(c, keys, c->pos - 8, *n_keys, MIN_KEY_BYTES, LIMIT_GGUF_KEYS);
    return s;
}

/* ---- values ---- */

static hasten_status check_bools(const struct cursor *c, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (c->g->data[at + i] > 1)
            return refuse(c, HASTEN_ERR_FILE, at + i, "bool value", "expected 0 or 1, found %u",
                          c->g->data[at + i]);
    return HASTEN_OK;
}

static hasten_status skip_string(struct cursor *c)
{
    uint64_t len, at = c->pos;
    hasten_status s = read_u64(c, "string length", &len);
    if (s != HASTEN_OK)
        return s;
    if (len > bytes_left(c))
        return refuse(c, HASTEN_ERR_FILE, at, "string length",
                      "expected at most the %" PRIu64 " bytes that follow, found %" PRIu64, bytes_left(c), len);
    if (len > LIMIT_GGUF_STRING_BYTES)
        return refuse(c, HASTEN_ERR_LIMIT, at, "string length", "expected at most %u, found %" PRIu64,
                      LIMIT_GGUF_STRING_BYTES, len);
    if ((s = need(c, len, "string bytes")) != HASTEN_OK)
        return s;
    c->pos += len;
    return HASTEN_OK;
}

static hasten_status read_type(struct cursor *c, const char *field, enum gguf_value_type *out)
{
    uint32_t type;
    uint64_t at = c->pos;
    hasten_status s = read_u32(c, field, &type);
    if (s != HASTEN_OK)
        return s;
    if (type > GGUF_F64)
        return refuse(c, HASTEN_ERR_FILE, at, field, "expected a type from 0 to %d, found %u", GGUF_F64, type);
    *out = (enum gguf_value_type)type;
    return HASTEN_OK;
}

/* Element type and count of an array; the count fits the bytes that follow. */
static hasten_status read_array_head(struct cursor *c, enum gguf_value_type *elem, uint64_t *n)
{
    hasten_status s = read_type(c, "array element type", elem);
    if (s != HASTEN_OK)
        return s;
    uint32_t number_bytes = gguf_number_bytes(*elem);
    uint32_t min_bytes = number_bytes ? number_bytes : *elem == GGUF_STRING ? 8 : 12;
    if ((s = read_u64(c, "array length", n)) != HASTEN_OK)
        return s;
    return check_count(c, "array length", c->pos - 8, *n, min_bytes, LIMIT_GGUF_ARRAY);
}

static hasten_status skip_numbers(struct cursor *c, enum gguf_value_type type, uint64_t n)
{
    uint64_t bytes;
    if (checked_mul_u64(n, gguf_number_bytes(type), &bytes))
        return refuse(c, HASTEN_ERR_FILE, c->pos, "value", "expected a size below 2^64, found more");
    hasten_status s = need(c, bytes, "value");
    if (s == HASTEN_OK && type == GGUF_BOOL)
        s = check_bools(c, c->pos, n);
    if (s == HASTEN_OK)
        c->pos += bytes;
    return s;
}

static hasten_status skip_nested_array(struct cursor *c, struct depth *depth);

static hasten_status skip_nested_elements(struct cursor *c, enum gguf_value_type elem, uint64_t n,
                                          struct depth *depth)
{
    hasten_status s = HASTEN_OK;
    if (elem == GGUF_ARRAY)
        for (uint64_t i = 0; i < n && s == HASTEN_OK; i++)
            s = skip_nested_array(c, depth);
    else if (elem == GGUF_STRING)
        for (uint64_t i = 0; i < n && s == HASTEN_OK; i++)
            s = skip_string(c);
    else
        s = skip_numbers(c, elem, n);
    return s;
}

static hasten_status skip_nested_array(struct cursor *c, struct depth *depth)
{
    enum gguf_value_type elem;
    uint64_t n;
    if (depth_enter(depth))
        return refuse(c, HASTEN_ERR_LIMIT, c->pos, "array element", "expected arrays nested at most %d deep, found more",
                      LIMIT_GGUF_ARRAY_DEPTH);
    hasten_status s = read_array_head(c, &elem, &n);
    if (s == HASTEN_OK)
        s = skip_nested_elements(c, elem, n, depth);
    depth_leave(depth);
    return s;
}

/* An array of strings gets the offset of each element, so that element i is found without walking. */
static hasten_status index_strings(struct cursor *c, struct gguf_entry *e)
{
    e->strings = mem_array(e->n ? (size_t)e->n : 1, sizeof *e->strings);
    if (!e->strings)
        return out_of_memory(c, "the index of a string array", e->n * sizeof *e->strings);
    for (uint64_t i = 0; i < e->n; i++) {
        e->strings[i] = (uint32_t)c->pos; /* fits: read_u64 keeps c->pos below LIMIT_GGUF_HEADER_BYTES */
        hasten_status s = skip_string(c);
        if (s != HASTEN_OK)
            return s;
    }
    return HASTEN_OK;
}

static hasten_status read_array(struct cursor *c, struct gguf_entry *e)
{
    struct depth depth = { .used = 1, .limit = LIMIT_GGUF_ARRAY_DEPTH };
    hasten_status s = read_array_head(c, &e->elem, &e->n);
    if (s != HASTEN_OK)
        return s;
    e->at = c->pos;
    return e->elem == GGUF_STRING ? index_strings(c, e) : skip_nested_elements(c, e->elem, e->n, &depth);
}

static hasten_status read_value(struct cursor *c, struct gguf_entry *e)
{
    hasten_status s = read_type(c, "value type", &e->type);
    if (s != HASTEN_OK)
        return s;
    e->at = c->pos;
    if (e->type == GGUF_ARRAY)
        return read_array(c, e);
    return e->type == GGUF_STRING ? skip_string(c) : skip_numbers(c, e->type, 1);
}

static hasten_status read_keys(struct cursor *c)
{
    struct gguf *g = c->g;
    c->part = PART_KEY;
    for (c->item = 0; c->item < g->key_names.n; c->item++) {
        c->name = NULL;
        uint64_t at = c->pos + 8;
        hasten_status s = read_name(c, "key length", "key bytes", LIMIT_GGUF_KEY_BYTES);
        if (s == HASTEN_OK)
            s = add_name(c, &g->key_names, at, "name");
        if (s == HASTEN_OK)
            s = read_value(c, &g->entries[c->item]);
        if (s != HASTEN_OK)
            return s;
    }
    return HASTEN_OK;
}

static hasten_status read_alignment(struct cursor *c, uint64_t *out)
{
    static const char key[] = "general.alignment";
    struct gguf *g = c->g;
    int64_t i = gguf_names_find(&g->key_names, key, sizeof key - 1);
    *out = DEFAULT_ALIGNMENT;
    if (i < 0)
        return HASTEN_OK;
    c->item = i;
    c->name = (const uint8_t *)key;
    c->name_len = sizeof key - 1;
    const struct gguf_entry *e = &g->entries[i];
    if (e->type != GGUF_U32)
        return refuse(c, HASTEN_ERR_FILE, e->at, "value", "expected type u32, found %s", gguf_type_name(e->type));
    *out = gguf_load_u32(g->data + e->at);
    if (*out < 8 || *out > 65536 || (*out & (*out - 1)))
        return refuse(c, HASTEN_ERR_FILE, e->at, "value",
                      "expected a power of two from 8 to 65536, found %" PRIu64, *out);
    return HASTEN_OK;
}

/* ---- tensors ---- */

static hasten_status read_dims(struct cursor *c, struct gguf_tensor *t)
{
    static const char *const fields[4] = { "dimension 0", "dimension 1", "dimension 2", "dimension 3" };
    uint32_t n_dims;
    uint64_t at = c->pos;
    hasten_status s = read_u32(c, "number of dimensions", &n_dims);
    if (s != HASTEN_OK)
        return s;
    if (n_dims < 1 || n_dims > 4)
        return refuse(c, HASTEN_ERR_FILE, at, "number of dimensions", "expected 1 to 4, found %u", n_dims);
    t->n_dims = (int32_t)n_dims;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t ne = 1;
        at = c->pos;
        if (i < n_dims && (s = read_u64(c, fields[i], &ne)) != HASTEN_OK)
            return s;
        if (ne == 0)
            return refuse(c, HASTEN_ERR_FILE, at, fields[i], "expected at least 1, found 0");
        if (ne > LIMIT_GGUF_DIM)
            return refuse(c, HASTEN_ERR_LIMIT, at, fields[i], "expected at most %lld, found %" PRIu64,
                          LIMIT_GGUF_DIM, ne);
        t->ne[i] = (int64_t)ne;
    }
    return HASTEN_OK;
}

/* Type, and from it the bytes of a row and of the tensor. dims_at: where the dimensions begin. */
static hasten_status read_tensor_type(struct cursor *c, struct gguf_tensor *t, uint64_t dims_at)
{
    uint32_t id;
    uint64_t at = c->pos, row, size;
    hasten_status s = read_u32(c, "type", &id);
    if (s != HASTEN_OK)
        return s;
    t->type = quant_type_get(id);
    if (!t->type)
        return refuse(c, HASTEN_ERR_UNSUPPORTED, at, "type", "expected the id of a known block format, found %u", id);
    if (t->ne[0] % t->type->block)
        return refuse(c, HASTEN_ERR_FILE, dims_at, "dimension 0",
                      "expected a multiple of %d for type %s, found %" PRId64, t->type->block, t->type->name,
                      t->ne[0]);
    if (checked_mul_u64((uint64_t)(t->ne[0] / t->type->block), (uint64_t)t->type->block_bytes, &row) ||
        checked_mul_u64(row, (uint64_t)t->ne[1], &size) || checked_mul_u64(size, (uint64_t)t->ne[2], &size) ||
        checked_mul_u64(size, (uint64_t)t->ne[3], &size) || size > INT64_MAX)
        return refuse(c, HASTEN_ERR_FILE, dims_at, "dimensions",
                      "expected a size below 2^63 bytes, found %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                      " of type %s", t->ne[0], t->ne[1], t->ne[2], t->ne[3], t->type->name);
    t->row_bytes = (int64_t)row;
    t->size_bytes = size;
    return HASTEN_OK;
}

static hasten_status read_tensors(struct cursor *c, uint64_t alignment)
{
    struct gguf *g = c->g;
    c->part = PART_TENSOR;
    for (c->item = 0; c->item < g->tensor_names.n; c->item++) {
        struct gguf_tensor *t = &g->tensors[c->item];
        c->name = NULL;
        uint64_t at = c->pos + 8;
        hasten_status s = read_name(c, "name length", "name bytes", LIMIT_GGUF_NAME_BYTES);
        if (s == HASTEN_OK)
            s = add_name(c, &g->tensor_names, at, "name");
        if (s == HASTEN_OK)
            s = read_dims(c, t);
        if (s == HASTEN_OK)
            s = read_tensor_type(c, t, c->pos - 8 * (uint64_t)t->n_dims);
        if (s != HASTEN_OK)
            return s;
        at = c->pos;
        if ((s = read_u64(c, "offset", &t->offset)) != HASTEN_OK)
            return s;
        if (t->offset % alignment)
            return refuse(c, HASTEN_ERR_FILE, at, "offset", "expected a multiple of %" PRIu64 ", found %" PRIu64,
                          alignment, t->offset);
    }
    return HASTEN_OK;
}

/* Moves each tensor's offset from the data section to the file, and checks that its data lie in the file. */
static hasten_status place_tensors(struct cursor *c, uint64_t alignment)
{
    struct gguf *g = c->g;
    uint64_t start;
    if (checked_align_u64(c->pos, alignment, &start))
        return refuse(c, HASTEN_ERR_FILE, c->pos, "padding", "expected an end below 2^64, found more");
    for (c->item = 0; c->item < g->tensor_names.n; c->item++) {
        struct gguf_tensor *t = &g->tensors[c->item];
        const struct gguf_name *name = &g->tensor_names.at[c->item];
        uint64_t begin, end;
        c->name = (const uint8_t *)name->data;
        c->name_len = name->len;
        if (checked_add_u64(start, t->offset, &begin) || checked_add_u64(begin, t->size_bytes, &end))
            return refuse(c, HASTEN_ERR_FILE, start, "data",
                          "expected an end below 2^64, found offset %" PRIu64 " and %" PRIu64 " bytes", t->offset,
                          t->size_bytes);
        if (end > g->size)
            return refuse(c, HASTEN_ERR_FILE, begin, "data",
                          "expected %" PRIu64 " bytes up to byte %" PRIu64 ", found a file of %" PRIu64 " bytes",
                          t->size_bytes, end, g->size);
        t->offset = begin;
        t->data = g->data + begin;
    }
    return HASTEN_OK;
}

/* Restores the heap order (largest offset on top) below node i of order[0..n). */
static void sift_down(uint32_t *order, const struct gguf_tensor *tensors, size_t i, size_t n)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && tensors[order[child + 1]].offset > tensors[order[child]].offset)
            child++;
        if (tensors[order[i]].offset >= tensors[order[child]].offset)
            return;
        uint32_t swap = order[i];
        order[i] = order[child];
        order[child] = swap;
    }
}

/* Heap sort: in place and never quadratic, which qsort does not promise. */
static void sort_by_offset(uint32_t *order, const struct gguf_tensor *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(order, tensors, i, n);
    for (size_t end = n; end-- > 1;) {
        uint32_t top = order[0];
        order[0] = order[end];
        order[end] = top;
        sift_down(order, tensors, 0, end);
    }
}

static hasten_status check_overlaps(struct cursor *c)
{
    struct gguf *g = c->g;
    size_t n = (size_t)g->tensor_names.n;
    hasten_status s = HASTEN_OK;
    uint32_t *order = mem_array(n ? n : 1, sizeof *order);
    if (!order)
        return out_of_memory(c, "the order of the tensors", n * sizeof *order);
    sort_by_offset(order, g->tensors, n);
    for (size_t i = 1; i < n && s == HASTEN_OK; i++) {
        const struct gguf_tensor *a = &g->tensors[order[i - 1]], *b = &g->tensors[order[i]];
        if (a->offset + a->size_bytes <= b->offset)
            continue;
        char quoted[GGUF_QUOTED];
        const struct gguf_name *before = &g->tensor_names.at[order[i - 1]], *name = &g->tensor_names.at[order[i]];
        c->item = order[i];
        c->name = (const uint8_t *)name->data;
        c->name_len = name->len;
        s = refuse(c, HASTEN_ERR_FILE, b->offset, "data",
                   "expected a place after byte %" PRIu64 ", found an overlap with tensor %u %s",
                   a->offset + a->size_bytes, order[i - 1], gguf_quote(quoted, before->data, before->len));
    }
    mem_free(order);
    return s;
}

/* ---- the whole ---- */

static hasten_status allocate_tables(struct cursor *c, uint64_t n_keys, uint64_t n_tensors)
{
    struct gguf *g = c->g;
    if (gguf_names_init(&g->key_names, (int64_t)n_keys) || gguf_names_init(&g->tensor_names, (int64_t)n_tensors))
        return out_of_memory(c, "the table of names", (n_keys + n_tensors) * sizeof(struct gguf_name));
    g->entries = mem_calloc(n_keys ? n_keys : 1, sizeof *g->entries);
    g->tensors = mem_calloc(n_tensors ? n_tensors : 1, sizeof *g->tensors);
    if (!g->entries || !g->tensors)
        return out_of_memory(c, "the table of keys and tensors",
                             n_keys * sizeof *g->entries + n_tensors * sizeof *g->tensors);
    return HASTEN_OK;
}

static char *copy_names(struct gguf_names *names, char *to)
{
    for (int64_t i = 0; i < names->n; i++) {
        struct gguf_name *name = &names->at[i];
        memcpy(to, name->data, name->len);
        to[name->len] = '\0';
        name->data = to;
        to += name->len + 1;
    }
    return to;
}

/* One allocation for all names, once their lengths are known: nothing is doubled while parsing. */
static hasten_status keep_names(struct cursor *c)
{
    struct gguf *g = c->g;
    uint64_t bytes = 1;
    for (int64_t i = 0; i < g->key_names.n; i++)
        bytes += g->key_names.at[i].len + 1u;
    for (int64_t i = 0; i < g->tensor_names.n; i++)
        bytes += g->tensor_names.at[i].len + 1u;
    g->arena = mem_alloc((size_t)bytes);
    if (!g->arena)
        return out_of_memory(c, "the names", bytes);
    copy_names(&g->tensor_names, copy_names(&g->key_names, g->arena));
    for (int64_t i = 0; i < g->tensor_names.n; i++)
        g->tensors[i].name = g->tensor_names.at[i].data;
    return HASTEN_OK;
}

hasten_status gguf_parse(struct gguf *g, struct hasten_error *err)
{
    struct cursor c = { .g = g, .err = err };
    uint64_t n_keys, n_tensors, alignment;
    hasten_status s = read_magic(&c);
    if (s == HASTEN_OK)
        s = read_version(&c);
    if (s == HASTEN_OK)
        s = read_counts(&c, &n_keys, &n_tensors);
    if (s == HASTEN_OK)
        s = allocate_tables(&c, n_keys, n_tensors);
    if (s == HASTEN_OK)
        s = read_keys(&c);
    if (s == HASTEN_OK)
        s = read_alignment(&c, &alignment);
    if (s == HASTEN_OK)
        s = read_tensors(&c, alignment);
    if (s == HASTEN_OK)
        s = place_tensors(&c, alignment);
    if (s == HASTEN_OK)
        s = check_overlaps(&c);
    if (s == HASTEN_OK)
        s = keep_names(&c);
    return s;
}
