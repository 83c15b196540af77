/* The GGUF reader's object: opening, closing, finding keys and tensors by name.
 *
 * Owns the map and the tables that gguf_parse.c fills. Does not read values: that is gguf_value.c. */
#include "formats/gguf.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "formats/gguf_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

/* FNV-1a, then a multiply-and-fold so that all bits reach the low ones that choose the slot. */
static uint64_t hash_bytes(const char *data, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)data[i]) * 0x100000001b3u;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

int gguf_names_init(struct gguf_names *names, int64_t n)
{
    uint64_t slots = 2;
    while (slots < 2 * (uint64_t)n)
        slots *= 2;
    names->at = mem_calloc((size_t)(n ? n : 1), sizeof *names->at);
    names->slots = mem_calloc((size_t)slots, sizeof *names->slots);
    names->mask = slots - 1;
    names->n = 0;
    if (!names->at || !names->slots)
        return -1;
    names->n = n;
    return 0;
}

static bool name_equals(const struct gguf_name *name, uint64_t hash, const char *data, size_t len)
{
    return name->hash == hash && name->len == len && memcmp(name->data, data, len) == 0;
}

int64_t gguf_names_add(struct gguf_names *names, int64_t index, const char *data, size_t len)
{
    uint64_t hash = hash_bytes(data, len), slot = hash & names->mask;
    for (int probes = 0; names->slots[slot]; slot = (slot + 1) & names->mask, probes++) {
        int64_t other = (int64_t)names->slots[slot] - 1;
        if (name_equals(&names->at[other], hash, data, len))
            return other;
        if (probes == LIMIT_GGUF_PROBES)
            return -2;
    }
    names->slots[slot] = (uint32_t)(index + 1);
    names->at[index] = (struct gguf_name){.data = data, .hash = hash, .len = (uint32_t)len};
    return -1;
}

int64_t gguf_names_find(const struct gguf_names *names, const char *data, size_t len)
{
    uint64_t hash = hash_bytes(data, len), slot = hash & names->mask;
    for (; names->slots[slot]; slot = (slot + 1) & names->mask)
        if (name_equals(&names->at[names->slots[slot] - 1], hash, data, len))
            return (int64_t)names->slots[slot] - 1;
    return -1;
}

const char *gguf_quote(char out[GGUF_QUOTED], const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t used = 0;
    out[used++] = '"';
    for (size_t i = 0; i < len; i++) {
        if (used > GGUF_QUOTED - 12) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (p[i] >= ' ' && p[i] < 0x7f && p[i] != '"' && p[i] != '\\')
            out[used++] = (char)p[i];
        else
            used += (size_t)snprintf(out + used, GGUF_QUOTED - used, "\\x%02x", p[i]);
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}

/* ---- opening and closing ---- */

static struct gguf *gguf_new(const char *path, struct hasten_error *err)
{
    size_t len = strlen(path);
    struct gguf *g = mem_calloc(1, sizeof *g);
    if (g)
        g->path = mem_strndup(path, len);
    if (!g || !g->path) {
        mem_free(g);
        error_set(err, HASTEN_ERR_MEMORY, "out of memory while opening a GGUF file");
        return NULL;
    }
    if (len < sizeof g->shown_path)
        memcpy(g->shown_path, path, len + 1);
    else
        snprintf(g->shown_path, sizeof g->shown_path, "...%s", path + len - (sizeof g->shown_path - 4));
    return g;
}

static hasten_status gguf_finish(struct gguf *g, struct gguf **out, struct hasten_error *err)
{
    hasten_status s = gguf_parse(g, err);
    if (s == HASTEN_OK)
        *out = g;
    else
        gguf_close(g);
    return s;
}

static hasten_status map_file(struct gguf *g, struct hasten_error *err)
{
    struct file *f = NULL;
    const void *data = NULL;
    hasten_status s = file_open(g->path, FILE_READ, &f, err);
    if (s != HASTEN_OK)
        return s;
    s = file_size(f, &g->size, err);
    if (s == HASTEN_OK && g->size == 0)
        s = error_set(err, HASTEN_ERR_FILE, "%s: magic at byte 0: expected 4 bytes, found an empty file",
                      g->shown_path);
    if (s == HASTEN_OK)
        s = file_map(f, &data, &g->size, err);
    if (s == HASTEN_OK) {
        g->data = data;
        g->mapped = true;
    }
    file_close(f);
    return s;
}

hasten_status gguf_open_one(const char *path, struct gguf **out, struct hasten_error *err)
{
    *out = NULL;
    struct gguf *g = gguf_new(path, err);
    if (!g)
        return HASTEN_ERR_MEMORY;
    hasten_status s = map_file(g, err);
    if (s != HASTEN_OK) {
        gguf_close(g);
        return s;
    }
    return gguf_finish(g, out, err);
}

hasten_status gguf_open(const char *path, struct gguf **out, struct hasten_error *err)
{
    hasten_status s = gguf_open_one(path, out, err);
    if (s == HASTEN_OK)
        s = gguf_join_shards(*out, err);
    if (s != HASTEN_OK) {
        gguf_close(*out);
        *out = NULL;
    }
    return s;
}

hasten_status gguf_open_memory(const void *data, size_t size, const char *name, struct gguf **out,
                               struct hasten_error *err)
{
    *out = NULL;
    struct gguf *g = gguf_new(name, err);
    if (!g)
        return HASTEN_ERR_MEMORY;
    g->data = data;
    g->size = size;
    return gguf_finish(g, out, err);
}

static void names_free(struct gguf_names *names)
{
    mem_free(names->at);
    mem_free(names->slots);
}

/* A shard of another gguf, or that one without its shards; g itself too. */
static void close_one(struct gguf *g)
{
    if (g->entries)
        for (int64_t i = 0; i < g->key_names.n; i++)
            mem_free(g->entries[i].strings);
    mem_free(g->entries);
    mem_free(g->tensors);
    mem_free(g->arena);
    names_free(&g->key_names);
    names_free(&g->tensor_names);
    mem_free(g->shards);
    if (g->mapped)
        file_unmap(g->data, g->size);
    if (g->close_owner)
        g->close_owner(g->owner);
    mem_free(g->header);
    mem_free(g->names);
    mem_free(g->parts);
    mem_free(g->path);
    mem_free(g);
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    for (int32_t i = 0; i < g->n_shards; i++)
        close_one(g->shards[i]);
    close_one(g);
}

/* ---- the file, its keys, its tensors ---- */

const char *gguf_path(const struct gguf *g)
{
    return g->path;
}

uint64_t gguf_file_bytes(const struct gguf *g)
{
    uint64_t sum = 0; /* of at most LIMIT_GGUF_SHARDS files that are mapped: far below 2^64 */
    for (int32_t i = 0; i < gguf_n_parts(g); i++)
        sum += gguf_part_at(g, i).size;
    return sum;
}

int32_t gguf_n_parts(const struct gguf *g)
{
    return g->composed ? g->n_parts : 1 + g->n_shards;
}

struct gguf_part gguf_part_at(const struct gguf *g, int32_t i)
{
    if (g->composed)
        return g->parts[i];
    const struct gguf *of = i ? g->shards[i - 1] : g;
    return (struct gguf_part){.path = of->path, .data = of->data, .size = of->size, .mapped = of->mapped};
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->version;
}

int64_t gguf_n_keys(const struct gguf *g)
{
    return g->key_names.n;
}

const char *gguf_key(const struct gguf *g, int64_t i)
{
    return g->key_names.at[i].data;
}

enum gguf_value_type gguf_key_type(const struct gguf *g, int64_t i)
{
    return g->entries[i].type;
}

int64_t gguf_find(const struct gguf *g, const char *key)
{
    return gguf_names_find(&g->key_names, key, strlen(key));
}

struct gguf_str gguf_value_raw(const struct gguf *g, int64_t i)
{
    const struct gguf_entry *e = &g->entries[i];
    return (struct gguf_str){(const char *)g->data + e->begin, (size_t)(e->end - e->begin)};
}

uint32_t gguf_alignment(const struct gguf *g)
{
    return g->alignment;
}

int64_t gguf_n_tensors(const struct gguf *g)
{
    return g->tensor_names.n;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int64_t i)
{
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    int64_t i = gguf_names_find(&g->tensor_names, name, strlen(name));
    return i < 0 ? NULL : &g->tensors[i];
}
