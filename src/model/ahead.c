/* Which parts of a model's files are read ahead: all that every step reads. That is everything but an embedding that
 * is not the head too, of which a step reads a few rows, and the experts, of which it reads those chosen: a file
 * whose experts are larger than memory runs from the map. */
#include "base/mem.h"
#include "base/prefault.h"
#include "model/loaded.h"
#include <stdlib.h>

/* Parts of the files, ascending by address once sorted. */
struct list {
    struct prefault_range *range;
    int32_t n;
};

static void add_weight(struct list *holes, const struct weight *w)
{
    holes->range[holes->n++] = (struct prefault_range){w->data, (uint64_t)(w->n_rows * w->row_bytes)};
}

static int by_address(const void *a, const void *b)
{
    const struct prefault_range *x = a, *y = b;
    const uintptr_t at = (uintptr_t)x->data, other = (uintptr_t)y->data;
    return at < other ? -1 : at > other;
}

static void find_holes(const struct model_desc *d, struct list *holes)
{
    if (d->output.data != d->token_embd.data)
        add_weight(holes, &d->token_embd);
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct moe *m = &d->layers[i].moe;
        for (int32_t e = 0; d->layers[i].ffn == FFN_MOE && e < m->n_expert; e++) {
            add_weight(holes, &m->gate[e]);
            add_weight(holes, &m->up[e]);
            add_weight(holes, &m->down[e]);
        }
    }
    qsort(holes->range, (size_t)holes->n, sizeof *holes->range, by_address);
}

/* What of [at, end) the holes leave. */
static void add_rest(const uint8_t *at, const uint8_t *end, const struct list *holes, struct list *out)
{
    for (int32_t i = 0; i < holes->n; i++) {
        const uint8_t *hole = holes->range[i].data;
        if (hole < at || hole >= end)
            continue;
        if (hole > at)
            out->range[out->n++] = (struct prefault_range){at, (uint64_t)(hole - at)};
        at = hole + holes->range[i].size;
    }
    if (at < end)
        out->range[out->n++] = (struct prefault_range){at, (uint64_t)(end - at)};
}

hasten_status model_ahead_ranges(const struct hasten_model *m, struct prefault_range **range, int32_t *n,
                                 struct hasten_error *err)
{
    const struct model_desc *d = &m->desc;
    const int32_t n_parts = gguf_n_parts(m->gguf);
    size_t most = 1;
    for (int32_t i = 0; i < d->n_layer; i++)
        most += 3 * (size_t)d->layers[i].moe.n_expert;
    struct list holes = {mem_array(most, sizeof *holes.range), 0},
                out = {mem_array(most + (size_t)n_parts, sizeof *out.range), 0};
    const bool room = holes.range && out.range;
    if (room)
        find_holes(d, &holes);
    for (int32_t i = 0; room && i < n_parts; i++) {
        const struct gguf_part part = gguf_part_at(m->gguf, i);
        add_rest(part.data, part.data + part.size, &holes, &out);
    }
    mem_free(holes.range);
    if (!room)
        mem_free(out.range);
    *range = room ? out.range : NULL;
    *n = out.n;
    return room ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", gguf_path(m->gguf));
}

hasten_status model_read_ahead(struct hasten_model *m, struct hasten_error *err)
{
    struct prefault_range *range;
    int32_t n;
    hasten_status st = model_ahead_ranges(m, &range, &n, err);
    if (!st)
        st = prefault_start(range, n, &m->ahead, err);
    mem_free(range);
    return st;
}
