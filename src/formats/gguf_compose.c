/* Composing a gguf (gguf_compose.h): the keys are written as a header of GGUF without tensors, which the parser reads
 * as it reads any other; the tensors are then entered beside it. Owns that header and the lists until finish. */
#include "formats/gguf_compose.h"
#include "base/checked.h"
#include "base/limits.h"
#include "base/mem.h"
#include "formats/gguf_internal.h"
#include <inttypes.h>
#include <string.h>

#define HEADER_BYTES 24 /* magic, version, number of tensors, number of keys */

struct gguf_compose {
    char *path;
    struct buf header;
    uint64_t n_keys;
    struct gguf_tensor *tensors; /* names are offsets into names until finish */
    size_t *name_at;
    int64_t n_tensors, cap_tensors;
    struct buf names;
    struct gguf_part *parts;
    int32_t n_parts;
    bool failed; /* out of memory */
};

/* ---- writing keys ---- */

static void put(struct gguf_compose *c, const void *data, size_t len)
{
    c->failed |= buf_put(&c->header, data, len) != 0;
}

static void put_number(struct gguf_compose *c, uint64_t v, int bytes)
{
    char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (char)(v >> 8 * i);
    put(c, b, (size_t)bytes);
}

static void put_str(struct gguf_compose *c, const char *s, size_t len)
{
    put_number(c, len, 8);
    put(c, s, len);
}

static void put_key(struct gguf_compose *c, const char *key, enum gguf_value_type type)
{
    put_str(c, key, strlen(key));
    put_number(c, (uint64_t)type, 4);
    c->n_keys++;
}

static void put_array(struct gguf_compose *c, const char *key, enum gguf_value_type elem, uint64_t n)
{
    put_key(c, key, GGUF_ARRAY);
    put_number(c, (uint64_t)elem, 4);
    put_number(c, n, 8);
}

static void put_f32(struct gguf_compose *c, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(c, bits, 4);
}

void gguf_compose_u32(struct gguf_compose *c, const char *key, uint32_t value)
{
    put_key(c, key, GGUF_U32);
    put_number(c, value, 4);
}

void gguf_compose_f32(struct gguf_compose *c, const char *key, float value)
{
    put_key(c, key, GGUF_F32);
    put_f32(c, value);
}

void gguf_compose_bool(struct gguf_compose *c, const char *key, bool value)
{
    put_key(c, key, GGUF_BOOL);
    put_number(c, value, 1);
}

void gguf_compose_str(struct gguf_compose *c, const char *key, const char *value, size_t len)
{
    put_key(c, key, GGUF_STRING);
    put_str(c, value, len);
}

void gguf_compose_bools(struct gguf_compose *c, const char *key, const bool *values, uint64_t n)
{
    put_array(c, key, GGUF_BOOL, n);
    for (uint64_t i = 0; i < n; i++)
        put_number(c, values[i], 1);
}

void gguf_compose_i32s(struct gguf_compose *c, const char *key, const int32_t *values, uint64_t n)
{
    put_array(c, key, GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++)
        put_number(c, (uint32_t)values[i], 4);
}

void gguf_compose_f32s(struct gguf_compose *c, const char *key, const float *values, uint64_t n)
{
    put_array(c, key, GGUF_F32, n);
    for (uint64_t i = 0; i < n; i++)
        put_f32(c, values[i]);
}

void gguf_compose_strs(struct gguf_compose *c, const char *key, const struct gguf_str *values, uint64_t n)
{
    put_array(c, key, GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        put_str(c, values[i].data, values[i].len);
}

/* ---- tensors and their files ---- */

int32_t gguf_compose_part(struct gguf_compose *c, struct gguf_part part)
{
    struct gguf_part *p = mem_realloc(c->parts, (size_t)(c->n_parts + 1) * sizeof *p);
    if (!p) {
        c->failed = true;
        return 0;
    }
    c->parts = p;
    p[c->n_parts] = part;
    return c->n_parts++;
}

static bool grow(struct gguf_compose *c)
{
    if (c->n_tensors < c->cap_tensors)
        return true;
    const int64_t cap = c->cap_tensors ? 2 * c->cap_tensors : 64;
    struct gguf_tensor *t = mem_realloc(c->tensors, (size_t)cap * sizeof *t);
    if (t)
        c->tensors = t;
    size_t *at = t ? mem_realloc(c->name_at, (size_t)cap * sizeof *at) : NULL;
    if (!at)
        return false;
    c->name_at = at;
    c->cap_tensors = cap;
    return true;
}

void gguf_compose_tensor(struct gguf_compose *c, const struct gguf_tensor *t)
{
    if (c->failed || !grow(c)) {
        c->failed = true;
        return;
    }
    struct gguf_tensor *to = &c->tensors[c->n_tensors];
    *to = *t;
    for (int32_t i = t->n_dims; i < 4; i++)
        to->ne[i] = 1;
    to->row_bytes = to->ne[0] / to->type->block * to->type->block_bytes;
    to->size_bytes = (uint64_t)(to->row_bytes * to->ne[1] * to->ne[2] * to->ne[3]);
    c->name_at[c->n_tensors++] = c->names.len;
    c->failed |= buf_put(&c->names, t->name, strlen(t->name) + 1) != 0;
}

/* ---- the whole ---- */

struct gguf_compose *gguf_compose_open(const char *path)
{
    struct gguf_compose *c = mem_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->path = mem_strndup(path, strlen(path));
    c->failed = !c->path;
    put(c, "GGUF\3\0\0\0", 8);
    put_number(c, 0, 8);
    put_number(c, 0, 8); /* the number of keys: patched by finish */
    return c;
}

void gguf_compose_close(struct gguf_compose *c)
{
    if (!c)
        return;
    mem_free(c->path);
    buf_free(&c->header);
    mem_free(c->tensors);
    mem_free(c->name_at);
    buf_free(&c->names);
    mem_free(c->parts);
    mem_free(c);
}

/* Moves the tensors and their names into g, whose table of tensors is empty. */
static hasten_status enter_tensors(struct gguf_compose *c, struct gguf *g, struct hasten_error *err)
{
    struct gguf_names names = {0};
    hasten_status s = gguf_names_init(&names, c->n_tensors)
                          ? error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for its tensors", c->path)
                          : HASTEN_OK;
    for (int64_t i = 0; i < c->n_tensors && s == HASTEN_OK; i++) {
        const char *name = c->names.data + c->name_at[i];
        const int64_t found = gguf_names_add(&names, i, name, strlen(name));
        c->tensors[i].name = name;
        if (found != -1)
            s = error_set(err, HASTEN_ERR_FILE, "%s: tensor '%.100s': found it twice (expected it once)",
                          c->path, name);
    }
    if (s != HASTEN_OK) {
        mem_free(names.at);
        mem_free(names.slots);
        return s;
    }
    mem_free(g->tensor_names.at);
    mem_free(g->tensor_names.slots);
    g->tensor_names = names;
    if (c->tensors) {
        mem_free(g->tensors);
        g->tensors = c->tensors;
    }
    g->names = c->names.data;
    c->tensors = NULL;
    c->names = (struct buf){0};
    return HASTEN_OK;
}

hasten_status gguf_compose_finish(struct gguf_compose *c, void *owner, void (*close_owner)(void *),
                                  struct gguf **out, struct hasten_error *err)
{
    *out = NULL;
    if (c->failed)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for its keys and tensors", c->path);
    for (int i = 0; i < 8; i++)
        c->header.data[HEADER_BYTES - 8 + i] = (char)(c->n_keys >> 8 * i);
    struct gguf *g = NULL;
    hasten_status s = gguf_open_memory(c->header.data, c->header.len, c->path, &g, err);
    if (s == HASTEN_OK)
        s = enter_tensors(c, g, err);
    if (s != HASTEN_OK) {
        gguf_close(g);
        return s;
    }
    g->composed = true;
    g->version = 0;
    g->header = c->header.data;
    g->parts = c->parts;
    g->n_parts = c->n_parts;
    g->owner = owner;
    g->close_owner = close_owner;
    c->header = (struct buf){0};
    c->parts = NULL;
    *out = g;
    return HASTEN_OK;
}
