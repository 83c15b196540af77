/* Experts under a memory limit: their matrices lie in the map of the file, and a page that is read stays present until
 * it is given back. Where a plan has room for some of them only, this file counts what may be present and gives all of
 * it back before a layer would go beyond the plan; what is chosen again is read again. Bits do not depend on it.
 *
 * The unit is a chunk of the file, as large as what one touch of a page can bring: Linux maps the whole folio of a
 * page (6.18, before that up to a huge page). A chunk that holds anything else than experts is never given back. */
#include "base/file.h"
#include "base/mem.h"
#include "engine/engine.h"
#include <string.h>

#define CHUNK ((int64_t)2 << 20)

enum { /* states of a chunk */
    CHUNK_KEPT,
    CHUNK_ABSENT,
    CHUNK_PRESENT
};

/* Chunks [first, end) of all parts of a model, counted through. */
struct span {
    int64_t first, end;
};

static int64_t chunks_of(uint64_t size)
{
    return ((int64_t)size + CHUNK - 1) / CHUNK;
}

static int64_t n_chunks(const struct gguf *g)
{
    int64_t n = 0;
    for (int32_t i = 0; i < gguf_n_parts(g); i++)
        n += chunks_of(gguf_part_at(g, i).size);
    return n;
}

/* A matrix as bytes [at, at + size) of a part whose chunks begin with number `base`. */
struct place {
    int64_t base, at, size;
};

static bool place_of(const struct gguf *g, const struct weight *w, struct place *out)
{
    out->base = 0;
    out->size = w->n_rows * w->row_bytes;
    for (int32_t i = 0; i < gguf_n_parts(g); i++) {
        const struct gguf_part part = gguf_part_at(g, i);
        out->at = w->data - part.data;
        if (w->data >= part.data && w->data < part.data + part.size)
            return part.mapped;
        out->base += chunks_of(part.size);
    }
    return false;
}

static struct span span_of(const struct place *p)
{
    return (struct span){p->base + p->at / CHUNK, p->base + (p->at + p->size - 1) / CHUNK + 1};
}

/* Matrix j of a layer's experts: gate, up and down of each in turn. */
static const struct weight *matrix_at(const struct moe *m, int64_t j)
{
    const struct weight *const parts[] = {m->gate, m->up, m->down};
    return &parts[j % 3][j / 3];
}

static int64_t n_matrices(const struct layer *l)
{
    return l->ffn == FFN_MOE ? 3 * (int64_t)l->moe.n_expert : 0;
}

/* Adds what bytes each chunk has of a matrix. */
static void count_bytes(const struct place *p, int32_t *bytes)
{
    const struct span s = span_of(p);
    for (int64_t i = s.first; i < s.end; i++) {
        const int64_t begin = (i - p->base) * CHUNK, end = begin + CHUNK;
        const int64_t from = p->at > begin ? p->at : begin,
                      to = p->at + p->size < end ? p->at + p->size : end;
        bytes[i] += (int32_t)(to - from);
    }
}

/* The state of each chunk at the start, and how many are not kept; NULL when out of memory. */
static uint8_t *chunk_states(const struct hasten_model *m, int64_t *n_free)
{
    const int64_t n = n_chunks(m->gguf);
    int32_t *bytes = mem_calloc((size_t)n, sizeof *bytes);
    uint8_t *states = bytes ? mem_calloc((size_t)n, sizeof *states) : NULL;
    *n_free = 0;
    for (int32_t i = 0; states && i < m->desc.n_layer; i++)
        for (int64_t j = 0; j < n_matrices(&m->desc.layers[i]); j++) {
            struct place p;
            if (place_of(m->gguf, matrix_at(&m->desc.layers[i].moe, j), &p))
                count_bytes(&p, bytes);
        }
    for (int64_t i = 0; states && i < n; i++)
        if (bytes[i] >= CHUNK && !m->copied && !m->locked) { /* what is no map does not come back */
            states[i] = CHUNK_ABSENT;
            ++*n_free;
        }
    mem_free(bytes);
    return states;
}

/* Marks the absent chunks of a matrix as present; how many they are. */
static int64_t take(const struct hasten_model *m, const struct weight *w, uint8_t *states)
{
    struct place p;
    int64_t n = 0;
    if (!place_of(m->gguf, w, &p))
        return 0;
    const struct span s = span_of(&p);
    for (int64_t i = s.first; i < s.end; i++)
        if (states[i] == CHUNK_ABSENT) {
            states[i] = CHUNK_PRESENT;
            n++;
        }
    return n;
}

/* The most chunks that a pass of n_batch rows may need of a layer. Leaves the layer's chunks marked. */
static int64_t layer_need(const struct hasten_model *m, const struct layer *l, int32_t n_batch,
                          uint8_t *states)
{
    int64_t all = 0, each = 0;
    for (int64_t j = 0; j < n_matrices(l); j++)
        all += take(m, matrix_at(&l->moe, j), states);
    for (int64_t j = 0; j < 3 && n_matrices(l); j++) {
        const struct weight *w = matrix_at(&l->moe, j);
        each += (w->n_rows * w->row_bytes - 1) / CHUNK + 2;
    }
    const int64_t chosen = (int64_t)n_batch * l->moe.n_used * each;
    return chosen < all ? chosen : all;
}

hasten_status experts_plan(const struct hasten_model *m, int32_t n_batch, struct expert_plan *out,
                           struct hasten_error *err)
{
    int64_t n_free = 0, least = 0;
    *out = (struct expert_plan){0};
    if (!m->desc.experts)
        return HASTEN_OK;
    uint8_t *states = chunk_states(m, &n_free);
    if (!states)
        return error_set(err, HASTEN_ERR_MEMORY, "planning memory: out of memory for the experts' chunks");
    for (int32_t i = 0; i < m->desc.n_layer; i++) {
        const int64_t n = layer_need(m, &m->desc.layers[i], n_batch, states);
        least = n > least ? n : least;
    }
    mem_free(states);
    *out = (struct expert_plan){(uint64_t)(n_free * CHUNK), (uint64_t)(least * CHUNK)};
    return HASTEN_OK;
}

static void give_back(struct hasten_engine *e)
{
    const struct gguf *g = e->model->gguf;
    int64_t base = 0;
    for (int32_t i = 0; i < gguf_n_parts(g); i++) {
        const struct gguf_part part = gguf_part_at(g, i);
        for (int64_t j = 0; j < chunks_of(part.size); j++)
            if (e->experts.states[base + j] == CHUNK_PRESENT) {
                e->experts.states[base + j] = CHUNK_ABSENT;
                file_release(part.data + j * CHUNK, (uint64_t)CHUNK);
            }
        base += chunks_of(part.size);
    }
    e->experts.n_present = 0;
}

hasten_status experts_limit(struct hasten_engine *e, uint64_t bytes, struct hasten_error *err)
{
    int64_t n_free;
    e->experts.n_most = (int64_t)bytes / CHUNK;
    e->experts.states = chunk_states(e->model, &n_free);
    return e->experts.states ? HASTEN_OK
                             : error_set(err, HASTEN_ERR_MEMORY,
                                         "opening the engine: out of memory for the experts' chunks");
}

/* Takes the matrices of the experts of all groups. */
static void take_groups(struct hasten_engine *e, const struct layer *l, int32_t n_groups)
{
    for (int32_t i = 0; i < n_groups; i++)
        for (int64_t j = 0; j < 3; j++)
            e->experts.n_present += take(
                e->model, matrix_at(&l->moe, 3 * (int64_t)e->buf.moe.group_expert[i] + j), e->experts.states);
}

void experts_make_room(struct hasten_engine *e, const struct layer *l, int32_t n_groups)
{
    if (!e->experts.states)
        return;
    take_groups(e, l, n_groups);
    if (e->experts.n_present <= e->experts.n_most)
        return;
    give_back(e);
    take_groups(e, l, n_groups);
}
