/* Split models: the shards of one GGUF model, joined.
 *
 * llama.cpp's splitter (tools/gguf-split) names the files NAME-00001-of-0000N.gguf and writes into each
 * split.no (from 0), split.count and split.tensors.count; the first holds all other keys. Owns finding the other
 * shards, holding each to what the first says, and the joined table of tensors. Does not parse: each shard is a
 * struct gguf of its own, which the first keeps. */
#include "base/limits.h"
#include "base/mem.h"
#include "formats/gguf_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX_BYTES 20 /* "-00001-of-00003.gguf" */

struct split {
    uint32_t no, count, n_tensors; /* count 0: not split; n_tensors UINT32_MAX: not said */
};

static hasten_status read_split(const struct gguf *g, struct split *out, struct hasten_error *err)
{
    *out = (struct split){.n_tensors = UINT32_MAX};
    hasten_status s = gguf_opt_u32(g, "split.count", &out->count, err);
    if (s == HASTEN_OK)
        s = gguf_opt_u32(g, "split.no", &out->no, err);
    return s == HASTEN_OK ? gguf_opt_u32(g, "split.tensors.count", &out->n_tensors, err) : s;
}

/* The path of shard no (from 0), given that of another one; NULL when that is not named as a shard of count is, or
 * without memory (*no_memory). */
static char *shard_path(const char *path, uint32_t own, uint32_t no, uint32_t count, bool *no_memory)
{
    char suffix[40];
    const size_t len = strlen(path);
    snprintf(suffix, sizeof suffix, "-%05u-of-%05u.gguf", own + 1, count);
    *no_memory = false;
    if (strlen(suffix) != SUFFIX_BYTES || len <= SUFFIX_BYTES ||
        strcmp(path + len - SUFFIX_BYTES, suffix) != 0)
        return NULL;
    char *out = mem_strndup(path, len);
    if (out)
        snprintf(out + len - SUFFIX_BYTES, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", no + 1, count);
    *no_memory = !out;
    return out;
}

static hasten_status no_memory(const struct gguf *g, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for the table of shards", g->shown_path);
}

static hasten_status refuse_later_shard(const struct gguf *g, const struct split *s, struct hasten_error *err)
{
    bool lacking;
    char *first = shard_path(g->path, s->no, 0, s->count, &lacking);
    error_set(err, HASTEN_ERR_FILE,
              "%s: split.no: found %u, shard %" PRIu64 " of %u (expected the first shard%s%s)", g->shown_path,
              s->no, (uint64_t)s->no + 1, s->count, first ? ", " : "", first ? first : "");
    mem_free(first);
    return HASTEN_ERR_FILE;
}

static hasten_status check_shard(const struct gguf *g, const struct gguf *shard, const struct split *first,
                                 uint32_t no, struct hasten_error *err)
{
    struct split s;
    hasten_status st = read_split(shard, &s, err);
    if (st != HASTEN_OK)
        return st;
    if (s.no != no || s.count != first->count)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: split.no, split.count: found %u of %u (expected %u of %u, as a shard of %s)",
                         shard->shown_path, s.no, s.count, no, first->count, g->shown_path);
    if (s.n_tensors != first->n_tensors)
        return error_set(err, HASTEN_ERR_FILE, "%s: split.tensors.count: found %u (expected %u, as in %s)",
                         shard->shown_path, s.n_tensors, first->n_tensors, g->shown_path);
    return HASTEN_OK;
}

static hasten_status open_shards(struct gguf *g, const struct split *first, struct hasten_error *err)
{
    g->shards = mem_calloc(first->count - 1, sizeof(struct gguf *));
    if (!g->shards)
        return no_memory(g, err);
    for (uint32_t no = 1; no < first->count; no++) {
        bool lacking;
        char *path = shard_path(g->path, 0, no, first->count, &lacking);
        if (lacking)
            return no_memory(g, err);
        if (!path)
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: split.count: found %u shards (expected a name that ends in "
                             "-00001-of-%05u.gguf, by which the others are found)",
                             g->shown_path, first->count, first->count);
        hasten_status st = gguf_open_one(path, &g->shards[g->n_shards], err);
        mem_free(path);
        if (st != HASTEN_OK) {
            error_prefix(err, "%s: opening shard %u of %u", g->shown_path, no + 1, first->count);
            return st;
        }
        g->n_shards++;
        if ((st = check_shard(g, g->shards[g->n_shards - 1], first, no, err)) != HASTEN_OK)
            return st;
    }
    return HASTEN_OK;
}

/* Adds the tensors of one part behind those that names and tensors hold already. */
static hasten_status add_tensors(const struct gguf *g, const struct gguf *from, int32_t part, int64_t *at,
                                 struct gguf_names *names, struct gguf_tensor *tensors,
                                 struct hasten_error *err)
{
    for (int64_t i = 0; i < from->tensor_names.n; i++, (*at)++) {
        const struct gguf_tensor *t = &from->tensors[i];
        const int64_t found = gguf_names_add(names, *at, t->name, strlen(t->name));
        char quoted[GGUF_QUOTED];
        gguf_quote(quoted, t->name, strlen(t->name));
        if (found == -2)
            return error_set(err, HASTEN_ERR_LIMIT,
                             "%s: name of tensor %s: more than %d names collide in their hashes",
                             from->shown_path, quoted, LIMIT_GGUF_PROBES);
        if (found >= 0)
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tensor %s: found it in %s too (expected every tensor in one shard)",
                             from->shown_path, quoted, gguf_part_at(g, tensors[found].part).path);
        tensors[*at] = *t;
        tensors[*at].part = part;
    }
    return HASTEN_OK;
}

static hasten_status join_tensors(struct gguf *g, const struct split *first, struct hasten_error *err)
{
    int64_t n = g->tensor_names.n, at = 0;
    for (int32_t i = 0; i < g->n_shards; i++)
        n += g->shards[i]->tensor_names.n;
    if (first->n_tensors != UINT32_MAX && n != (int64_t)first->n_tensors)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: split.tensors.count: found %u (expected %" PRId64
                         ", the tensors of its %u shards)",
                         g->shown_path, first->n_tensors, n, first->count);
    if (n > LIMIT_GGUF_TENSORS)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: %" PRId64 " tensors in %u shards (expected at most %d)",
                         g->shown_path, n, first->count, LIMIT_GGUF_TENSORS);
    struct gguf_names names = {0};
    struct gguf_tensor *tensors = mem_calloc((size_t)n + 1, sizeof *tensors);
    hasten_status s = gguf_names_init(&names, n) || !tensors
                          ? no_memory(g, err)
                          : add_tensors(g, g, 0, &at, &names, tensors, err);
    for (int32_t i = 0; i < g->n_shards && s == HASTEN_OK; i++)
        s = add_tensors(g, g->shards[i], i + 1, &at, &names, tensors, err);
    if (s == HASTEN_OK) { /* what was there is freed below */
        struct gguf_names old_names = g->tensor_names;
        struct gguf_tensor *old_tensors = g->tensors;
        g->tensor_names = names;
        g->tensors = tensors;
        names = old_names;
        tensors = old_tensors;
    }
    mem_free(names.at);
    mem_free(names.slots);
    mem_free(tensors);
    return s;
}

hasten_status gguf_join_shards(struct gguf *g, struct hasten_error *err)
{
    struct split first;
    hasten_status s = read_split(g, &first, err);
    if (s != HASTEN_OK || first.count < 2)
        return s;
    if (first.count > LIMIT_GGUF_SHARDS)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: split.count: found %u shards (expected at most %d)",
                         g->shown_path, first.count, LIMIT_GGUF_SHARDS);
    if (first.no != 0)
        return refuse_later_shard(g, &first, err);
    s = open_shards(g, &first, err);
    return s == HASTEN_OK ? join_tensors(g, &first, err) : s;
}
