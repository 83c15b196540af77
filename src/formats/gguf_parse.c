/* The parser of GGUF: one pass over the header that checks every number before it is used.
 *
 * Layout (GGUF specification): magic, version, number of tensors, number of keys; the keys with typed values;
 * the tensor records; padding to the alignment; the tensors' data. Everything is little-endian. Versions 2 and 3
 * lie alike (3 only allowed big-endian files beside them); version 1 had counts and lengths of 32 bits.
 *
 * Nothing is trusted: a count is compared with the bytes that are left before anything is allocated for it, a
 * product is checked before it is used, and the header as a whole is bounded, so that no file takes more than
 * seconds or 256 MiB. This file owns the header, the keys and their values; gguf_tensors.c the records of the
 * tensors. Does not: look at tensor data, or judge whether the keys make a model. */
#include "base/checked.h"
#include "base/depth.h"
#include "base/limits.h"
#include "base/mem.h"
#include "formats/gguf_cursor.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_ALIGNMENT 32
#define MIN_KEY_BYTES 14    /* key length 8, key 1, type 4, value 1 */
#define MIN_TENSOR_BYTES 33 /* name length 8, name 1, n_dims 4, one dimension 8, type 4, offset 8 */

/* ---- magic, version, counts ---- */

static const char *foreign_kind(const uint8_t *data, uint64_t size)
{
    static const struct {
        const char *magic;
        size_t len;
        const char *kind;
    } kinds[] = {
        {"FUGG", 4, "a big-endian GGUF file"},
        {"PK\3\4", 4, "a zip archive, such as a PyTorch checkpoint"},
        {"\177ELF", 4, "an ELF program"},
        {"lmgg", 4, "a GGML file from before GGUF"},
        {"fmgg", 4, "a GGMF file from before GGUF"},
        {"tjgg", 4, "a GGJT file from before GGUF"},
        {"version https://git-lfs", 23, "a Git LFS pointer instead of the file itself"},
        {"\x1f\x8b", 2, "a gzip archive"},
        {"\x28\xb5\x2f\xfd", 4, "a zstd archive"},
        {"\x80\x02", 2, "a Python pickle"},
        {"<", 1, "an HTML or XML page"},
        {"{", 1, "a JSON text"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (size >= kinds[i].len && memcmp(data, kinds[i].magic, kinds[i].len) == 0)
            return kinds[i].kind;
    if (size > 8 && data[8] == '{' && gguf_load_u64(data) < (1u << 30))
        return "a safetensors file";
    return NULL;
}

static hasten_status read_magic(struct gguf_cursor *c)
{
    const uint8_t *data = c->g->data;
    char quoted[GGUF_QUOTED];
    uint64_t size = c->g->size;
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        c->pos = 4;
        return HASTEN_OK;
    }
    if (size < 4 && memcmp(data, "GGUF", (size_t)size) == 0)
        return gguf_need(c, 4, "magic");
    const char *kind = foreign_kind(data, size);
    return gguf_refuse(c, kind ? HASTEN_ERR_UNSUPPORTED : HASTEN_ERR_FILE, 0, "magic",
                       "expected \"GGUF\", found %s%s%s%s",
                       gguf_quote(quoted, data, size < 4 ? (size_t)size : 4), kind ? " (" : "",
                       kind ? kind : "", kind ? ")" : "");
}

static hasten_status read_version(struct gguf_cursor *c)
{
    uint32_t version;
    hasten_status s = gguf_take_u32(c, "version", &version);
    if (s != HASTEN_OK)
        return s;
    c->g->version = version;
    if (version == 2 || version == 3)
        return HASTEN_OK;
    if (version == 0)
        return gguf_refuse(c, HASTEN_ERR_FILE, 4, "version", "expected 2 or 3, found 0");
    if ((version & 0xffff) == 0)
        return gguf_refuse(c, HASTEN_ERR_UNSUPPORTED, 4, "version",
                           "expected 2 or 3, found 0x%08x: big-endian GGUF is unsupported", version);
    return gguf_refuse(c, HASTEN_ERR_UNSUPPORTED, 4, "version",
                       "expected 2 or 3, found %u: GGUF version %u is unsupported", version, version);
}

/* A count of items of at least min_bytes each, read from byte `at`: they must fit the bytes that are left. */
static hasten_status check_count(const struct gguf_cursor *c, const char *field, uint64_t at, uint64_t count,
                                 uint32_t min_bytes, uint32_t limit)
{
    uint64_t left = gguf_bytes_left(c);
    if (count > left / min_bytes)
        return gguf_refuse(c, HASTEN_ERR_FILE, at, field,
                           "expected at most %" PRIu64 " in the %" PRIu64
                           " bytes that follow, found %" PRIu64,
                           left / min_bytes, left, count);
    if (count > limit)
        return gguf_refuse(c, HASTEN_ERR_LIMIT, at, field, "expected at most %u, found %" PRIu64, limit,
                           count);
    return HASTEN_OK;
}

static hasten_status read_counts(struct gguf_cursor *c, uint64_t *n_keys, uint64_t *n_tensors)
{
    static const char tensors[] = "number of tensors", keys[] = "number of keys";
    hasten_status s = gguf_take_u64(c, tensors, n_tensors);
    if (s == HASTEN_OK)
        s = gguf_take_u64(c, keys, n_keys);
    if (s == HASTEN_OK)
        s = check_count(c, tensors, c->pos - 16, *n_tensors, MIN_TENSOR_BYTES, LIMIT_GGUF_TENSORS);
    if (s == HASTEN_OK)
        s = check_count(c, keys, c->pos - 8, *n_keys, MIN_KEY_BYTES, LIMIT_GGUF_KEYS);
    return s;
}

/* ---- values ---- */

static hasten_status check_bools(const struct gguf_cursor *c, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (c->g->data[at + i] > 1)
            return gguf_refuse(c, HASTEN_ERR_FILE, at + i, "bool value", "expected 0 or 1, found %u",
                               c->g->data[at + i]);
    return HASTEN_OK;
}

static hasten_status skip_string(struct gguf_cursor *c)
{
    uint64_t len, at = c->pos;
    hasten_status s = gguf_take_u64(c, "string length", &len);
    if (s != HASTEN_OK)
        return s;
    if (len > gguf_bytes_left(c))
        return gguf_refuse(c, HASTEN_ERR_FILE, at, "string length",
                           "expected at most the %" PRIu64 " bytes that follow, found %" PRIu64,
                           gguf_bytes_left(c), len);
    if (len > LIMIT_GGUF_STRING_BYTES)
        return gguf_refuse(c, HASTEN_ERR_LIMIT, at, "string length", "expected at most %u, found %" PRIu64,
                           LIMIT_GGUF_STRING_BYTES, len);
    if ((s = gguf_need(c, len, "string bytes")) != HASTEN_OK)
        return s;
    c->pos += len;
    return HASTEN_OK;
}

static hasten_status read_type(struct gguf_cursor *c, const char *field, enum gguf_value_type *out)
{
    uint32_t type;
    uint64_t at = c->pos;
    hasten_status s = gguf_take_u32(c, field, &type);
    if (s != HASTEN_OK)
        return s;
    if (type > GGUF_F64)
        return gguf_refuse(c, HASTEN_ERR_FILE, at, field, "expected a type from 0 to %d, found %u", GGUF_F64,
                           type);
    *out = (enum gguf_value_type)type;
    return HASTEN_OK;
}

/* Element type and count of an array; the count fits the bytes that follow. */
static hasten_status read_array_head(struct gguf_cursor *c, enum gguf_value_type *elem, uint64_t *n)
{
    hasten_status s = read_type(c, "array element type", elem);
    if (s != HASTEN_OK)
        return s;
    uint32_t number_bytes = gguf_number_bytes(*elem);
    uint32_t min_bytes = number_bytes ? number_bytes : *elem == GGUF_STRING ? 8 : 12;
    if ((s = gguf_take_u64(c, "array length", n)) != HASTEN_OK)
        return s;
    return check_count(c, "array length", c->pos - 8, *n, min_bytes, LIMIT_GGUF_ARRAY);
}

static hasten_status skip_numbers(struct gguf_cursor *c, enum gguf_value_type type, uint64_t n)
{
    uint64_t bytes;
    if (checked_mul_u64(n, gguf_number_bytes(type), &bytes))
        return gguf_refuse(c, HASTEN_ERR_FILE, c->pos, "value", "expected a size below 2^64, found more");
    hasten_status s = gguf_need(c, bytes, "value");
    if (s == HASTEN_OK && type == GGUF_BOOL)
        s = check_bools(c, c->pos, n);
    if (s == HASTEN_OK)
        c->pos += bytes;
    return s;
}

static hasten_status skip_nested_array(struct gguf_cursor *c, struct depth *depth);

static hasten_status skip_nested_elements(struct gguf_cursor *c, enum gguf_value_type elem, uint64_t n,
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

static hasten_status skip_nested_array(struct gguf_cursor *c, struct depth *depth)
{
    enum gguf_value_type elem;
    uint64_t n;
    if (depth_enter(depth))
        return gguf_refuse(c, HASTEN_ERR_LIMIT, c->pos, "array element",
                           "expected arrays nested at most %d deep, found more", LIMIT_GGUF_ARRAY_DEPTH);
    hasten_status s = read_array_head(c, &elem, &n);
    if (s == HASTEN_OK)
        s = skip_nested_elements(c, elem, n, depth);
    depth_leave(depth);
    return s;
}

/* An array of strings gets the offset of each element, so that element i is found without walking. */
static hasten_status index_strings(struct gguf_cursor *c, struct gguf_entry *e)
{
    e->strings = mem_array(e->n ? (size_t)e->n : 1, sizeof *e->strings);
    if (!e->strings)
        return gguf_no_memory(c, "the index of a string array", e->n * sizeof *e->strings);
    for (uint64_t i = 0; i < e->n; i++) {
        e->strings[i] = (uint32_t)c->pos; /* fits: read_u64 keeps c->pos below LIMIT_GGUF_HEADER_BYTES */
        hasten_status s = skip_string(c);
        if (s != HASTEN_OK)
            return s;
    }
    return HASTEN_OK;
}

static hasten_status read_array(struct gguf_cursor *c, struct gguf_entry *e)
{
    struct depth depth = {.used = 1, .limit = LIMIT_GGUF_ARRAY_DEPTH};
    hasten_status s = read_array_head(c, &e->elem, &e->n);
    if (s != HASTEN_OK)
        return s;
    e->at = c->pos;
    return e->elem == GGUF_STRING ? index_strings(c, e) : skip_nested_elements(c, e->elem, e->n, &depth);
}

static hasten_status read_value(struct gguf_cursor *c, struct gguf_entry *e)
{
    hasten_status s = read_type(c, "value type", &e->type);
    if (s != HASTEN_OK)
        return s;
    e->at = c->pos;
    if (e->type == GGUF_ARRAY)
        return read_array(c, e);
    return e->type == GGUF_STRING ? skip_string(c) : skip_numbers(c, e->type, 1);
}

static hasten_status read_keys(struct gguf_cursor *c)
{
    struct gguf *g = c->g;
    c->part = GGUF_IN_KEY;
    for (c->item = 0; c->item < g->key_names.n; c->item++) {
        c->name = NULL;
        uint64_t at = c->pos + 8;
        hasten_status s = gguf_take_name(c, "key length", "key bytes", LIMIT_GGUF_KEY_BYTES);
        if (s == HASTEN_OK)
            s = gguf_add_name(c, &g->key_names, at, "name");
        g->entries[c->item].begin = c->pos;
        if (s == HASTEN_OK)
            s = read_value(c, &g->entries[c->item]);
        if (s != HASTEN_OK)
            return s;
        g->entries[c->item].end = c->pos;
    }
    return HASTEN_OK;
}

static hasten_status read_alignment(struct gguf_cursor *c, uint64_t *out)
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
        return gguf_refuse(c, HASTEN_ERR_FILE, e->at, "value", "expected type u32, found %s",
                           gguf_type_name(e->type));
    *out = gguf_load_u32(g->data + e->at);
    if (*out < 8 || *out > 65536 || (*out & (*out - 1)))
        return gguf_refuse(c, HASTEN_ERR_FILE, e->at, "value",
                           "expected a power of two from 8 to 65536, found %" PRIu64, *out);
    return HASTEN_OK;
}

/* ---- the whole ---- */

static hasten_status allocate_tables(struct gguf_cursor *c, uint64_t n_keys, uint64_t n_tensors)
{
    struct gguf *g = c->g;
    if (gguf_names_init(&g->key_names, (int64_t)n_keys) ||
        gguf_names_init(&g->tensor_names, (int64_t)n_tensors))
        return gguf_no_memory(c, "the table of names", (n_keys + n_tensors) * sizeof(struct gguf_name));
    g->entries = mem_calloc(n_keys ? n_keys : 1, sizeof *g->entries);
    g->tensors = mem_calloc(n_tensors ? n_tensors : 1, sizeof *g->tensors);
    if (!g->entries || !g->tensors)
        return gguf_no_memory(c, "the table of keys and tensors",
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
static hasten_status keep_names(struct gguf_cursor *c)
{
    struct gguf *g = c->g;
    uint64_t bytes = 1;
    for (int64_t i = 0; i < g->key_names.n; i++)
        bytes += g->key_names.at[i].len + 1u;
    for (int64_t i = 0; i < g->tensor_names.n; i++)
        bytes += g->tensor_names.at[i].len + 1u;
    g->arena = mem_alloc((size_t)bytes);
    if (!g->arena)
        return gguf_no_memory(c, "the names", bytes);
    copy_names(&g->tensor_names, copy_names(&g->key_names, g->arena));
    for (int64_t i = 0; i < g->tensor_names.n; i++)
        g->tensors[i].name = g->tensor_names.at[i].data;
    return HASTEN_OK;
}

hasten_status gguf_parse(struct gguf *g, struct hasten_error *err)
{
    struct gguf_cursor c = {.g = g, .err = err};
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
    if (s == HASTEN_OK) {
        g->alignment = (uint32_t)alignment; /* at most 65536 */
        s = gguf_parse_tensors(&c, alignment);
    }
    if (s == HASTEN_OK)
        s = keep_names(&c);
    return s;
}
