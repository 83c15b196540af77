/* Weights change from the file's rows to packed panels (kernels/packed.h), which a decode step reads at nearly the
 * bus's speed: a part before each pass but the first, so that the first token does not wait. What has been packed is
 * forgotten in the map (it can be read from the file again), so memory grows by a part at most. Packing happens when
 * the machine has room for it beside the file's pages; every weight also runs in place, with the same bits.
 *
 * Experts stay in place: only some are read, and the file may be larger than memory. */
#include "base/mem.h"
#include "base/meminfo.h"
#include "engine/engine.h"
#include "kernels/packed.h"
#include <string.h>

#define PART_BYTES                                                                                           \
    ((size_t)32 << 20)   /* packed before a pass of few rows: 5 ms, more where memory is new to the system */
#define ROWS_PER_PART 64 /* so many more rows of a pass bear one more part */

_Static_assert(PACKING_PIECE_BYTES <= PART_BYTES, "pieces of a part");

static size_t size_of(const struct weight *w)
{
    return w->type ? packed_bytes(w) : 0;
}

/* Bytes of all that can be packed, and how many of these are padding. */
static size_t total_of(const struct model_desc *d, size_t *padding)
{
    const struct weight *w[LAYER_MATRICES];
    size_t total = size_of(&d->output), source = total ? (size_t)(d->output.n_rows * d->output.row_bytes) : 0;
    for (int32_t i = 0; i < d->n_layer; i++) {
        const int32_t n = layer_matrices(&d->layers[i], w);
        for (int32_t j = 0; j < n; j++) {
            total += size_of(w[j]);
            source += size_of(w[j]) ? (size_t)(w[j]->n_rows * w[j]->row_bytes) : 0;
        }
    }
    *padding = total - source;
    return total;
}

static bool wanted(const struct hasten_engine_settings *s)
{
    return !s->in_place && engine_kernels(s)->reads_packed;
}

/* Whether memory would not come back: the files were copied or are locked; or a limit makes experts come and go, whose
 * plan counts what of the map is present. */
static bool bound(const struct hasten_engine *e)
{
    bool experts = false;
    for (int32_t i = 0; i < e->model->desc.n_layer; i++)
        experts = experts || e->layers[i].ffn == FFN_MOE;
    return e->model->copied || e->model->locked || (experts && e->settings.memory_limit);
}

uint64_t packing_plan(const struct hasten_model *m, const struct hasten_engine_settings *s, uint64_t *bytes)
{
    size_t padding = 0;
    *bytes = wanted(s) ? total_of(&m->desc, &padding) : 0;
    return *bytes ? padding + PACKING_PIECE_BYTES + ((uint64_t)8 << 20) : 0; /* huge pages begun, folios */
}

/* Whether there is room beside what the map may keep: the system can drop the file's pages, but must not have to. */
static hasten_status has_room(uint64_t bytes, bool *room, struct hasten_error *err)
{
    uint64_t available = 0;
    const hasten_status st = meminfo_available("/proc/meminfo", "/sys/fs/cgroup", &available, err);
    *room = bytes < available / 4 * 3;
    return st;
}

/* Matrices that a method made (weights.h) stay as it made them. */
static bool is_made(const struct hasten_engine *e, const struct weight *w)
{
    const struct reweighting *r = &e->methods.reweighting;
    if (e->methods.heading.use && w == &e->output)
        return true;
    return r->memory && w->data >= r->memory && w->data < r->memory + r->bytes;
}

static void add_weight(struct hasten_engine *e, struct weight *w, size_t *at)
{
    struct packing *p = &e->packing;
    if (!size_of(w) || is_made(e, w))
        return;
    p->item[p->n] = (struct packing_item){w, *at};
    *at += size_of(w);
    p->n++;
}

hasten_status packing_open(struct hasten_engine *e, struct hasten_error *err)
{
    const struct model_desc *d = &e->model->desc;
    struct packing *p = &e->packing;
    size_t padding, at = 0;
    bool room = false;
    hasten_status st;
    e->layers = mem_array((size_t)d->n_layer, sizeof *e->layers);
    if (!e->layers)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for %d layers",
                         d->n_layer);
    memcpy(e->layers, d->layers, (size_t)d->n_layer * sizeof *e->layers);
    e->output = d->output;
    e->token_embd = d->token_embd;
    if ((st = reweighting_open(e, err)) || (st = head_open(e, err)))
        return st;
    p->bytes = wanted(&e->settings) && !bound(e) ? total_of(d, &padding) : 0;
    if (!p->bytes || (st = has_room(p->bytes, &room, err)) || !room)
        return p->bytes ? st : HASTEN_OK;
    p->item = mem_array((size_t)d->n_layer * LAYER_MATRICES + 1, sizeof *p->item);
    p->memory = mem_map(p->bytes);
    if (!p->item || !p->memory)
        return error_set(err, HASTEN_ERR_MEMORY,
                         "opening the engine: out of memory for %zu bytes of packed weights", p->bytes);
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct weight *w[LAYER_MATRICES];
        const int32_t n = layer_matrices(&e->layers[i], w);
        for (int32_t j = 0; j < n; j++)
            add_weight(e, (struct weight *)(uintptr_t)w[j], &at); /* of our own copy */
    }
    add_weight(e, &e->output, &at);
    return HASTEN_OK;
}

void packing_close(struct hasten_engine *e)
{
    if (e->packing.memory)
        mem_unmap(e->packing.memory, e->packing.bytes);
    mem_free(e->packing.item);
    mem_free(e->layers);
}

struct piece {
    const struct weight *w;
    uint8_t *dst; /* where panel 0 goes */
    size_t panel_bytes;
    int64_t first;
};

static void pack_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct piece *p = ctx;
    (void)worker;
    packed_make(p->w, p->first + begin, p->first + end, p->dst + (size_t)(p->first + begin) * p->panel_bytes);
}

/* Packs the next piece of the weight at hand; returns its bytes. */
static size_t pack_piece(struct hasten_engine *e)
{
    struct packing *p = &e->packing;
    struct weight *w = p->item[p->next].w;
    model_stop_ahead(e->model); /* or it would bring back what is forgotten */
    const int64_t n_panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS, left = n_panels - p->panel;
    struct piece piece = {.w = w, .dst = p->memory + p->item[p->next].at, .first = p->panel};
    piece.panel_bytes = packed_panel_bytes(w);
    const int64_t fit = (int64_t)(PACKING_PIECE_BYTES / piece.panel_bytes) + 1, n = fit < left ? fit : left;
    pool_for(e->pool, n, 4, pack_panels, &piece);
    model_forget(e->model, w->data + p->panel * PANEL_ROWS * w->row_bytes,
                 (uint64_t)(n * PANEL_ROWS * w->row_bytes));
    p->panel += n;
    if (p->panel == n_panels) {
        w->packed = piece.dst; /* no late worker sees it: products hold copies of weights */
        if (w == &e->output && e->output.data == e->token_embd.data)
            e->token_embd.packed = w->packed;
        p->next++;
        p->panel = 0;
    }
    return (size_t)n * piece.panel_bytes;
}

void packing_advance(struct hasten_engine *e, int32_t n_rows)
{
    const size_t part = PART_BYTES * (size_t)(1 + n_rows / ROWS_PER_PART);
    if (e->counters.passes == 0)
        return;
    /* Whole weights: a pass would bring back what has been forgotten of one that it still reads in place. */
    for (size_t done = 0; (done < part || e->packing.panel) && e->packing.next < e->packing.n;)
        done += pack_piece(e);
}

void packing_finish(struct hasten_engine *e)
{
    while (e->packing.next < e->packing.n)
        pack_piece(e);
}
