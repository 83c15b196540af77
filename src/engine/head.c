/* See head.h. */
#include "engine/head.h"
#include "engine/engine.h"
#include "engine/overlay.h"
#include "engine/weights.h"
#include "kernels/packed.h"
#include <math.h>
#include <string.h>

#define CAP_VALUES 4096 /* logits capped by one claim */
#define SPARSE_SHARE 4  /* fewer panels than one in so many: they alone are read */
#define PANELS_PER_CLAIM 8

/* ---- rows that a method keeps --------------------------------------------------------------------------------- */

static size_t padded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static struct weight with_rows(const struct weight *w, int32_t n)
{
    struct weight to = *w;
    to.n_rows = n;
    to.packed = NULL;
    return to;
}

static size_t rows_bytes(const struct weight *w)
{
    return padded((size_t)(w->n_rows * w->row_bytes)) + 64; /* kernels may read a little beyond */
}

static size_t matrix_bytes(const struct method_site *site, const struct weight *w)
{
    const size_t packed = !site->settings->in_place && site->kernels->reads_packed ? packed_bytes(w) : 0;
    return packed ? packed : rows_bytes(w);
}

uint64_t head_bytes(const struct method_site *site, const struct method_use *u,
                    const struct method_use *other)
{
    const struct weight *file = &site->desc->output;
    const struct quant_type *to =
        other ? other->m->weights->becomes(other->knobs, -1, MATRIX_HEAD, file) : NULL;
    const struct weight own = to ? weight_as(file, to) : *file;
    const int32_t n = u->m->weights->rows(site, u->knobs, NULL);
    const struct weight w = with_rows(&own, n);
    return matrix_bytes(site, &w) + rows_bytes(&w) /* while it is packed */ +
           padded((size_t)n * sizeof(int32_t)) +
           padded((size_t)n * (size_t)site->settings->n_logits * sizeof(float));
}

static void copy_rows(const struct heading *h, const struct weight *from, uint8_t *to)
{
    for (int32_t i = 0; i < h->n; i++)
        memcpy(to + i * from->row_bytes, from->data + h->ids[i] * from->row_bytes, (size_t)from->row_bytes);
}

/* The copy itself: packed, where the kernels read that, by way of the rows as they lie. */
static hasten_status make_matrix(struct hasten_engine *e, const struct method_site *site, uint8_t *to,
                                 struct hasten_error *err)
{
    const struct heading *h = &e->methods.heading;
    struct weight w = with_rows(&e->output, h->n);
    const bool pack = !site->settings->in_place && site->kernels->reads_packed && packed_bytes(&w);
    uint8_t *rows = pack ? mem_map(rows_bytes(&w)) : to;
    if (!rows)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for %d rows of the head",
                         (int)h->n);
    copy_rows(h, &e->output, rows);
    w.data = rows;
    if (pack) {
        packed_make(&w, 0, (w.n_rows + PANEL_ROWS - 1) / PANEL_ROWS, to);
        mem_unmap(rows, rows_bytes(&w));
        w.packed = to;
    }
    w.data = to;
    e->output = w;
    return HASTEN_OK;
}

hasten_status head_open(struct hasten_engine *e, struct hasten_error *err)
{
    struct heading *h = &e->methods.heading;
    const struct method_site site = method_site_of(e->model, &e->settings);
    if (!h->use)
        return HASTEN_OK;
    h->n = h->use->m->weights->rows(&site, h->use->knobs, NULL);
    if (h->n < 1)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for rows of the head");
    struct weight w = with_rows(&e->output, h->n);
    const size_t ids = padded((size_t)h->n * sizeof *h->ids),
                 rows = padded((size_t)h->n * (size_t)e->settings.n_logits * sizeof(float));
    h->bytes = ids + rows + matrix_bytes(&site, &w);
    h->memory = mem_map(h->bytes);
    if (!h->memory)
        return error_set(err, HASTEN_ERR_MEMORY,
                         "opening the engine: out of memory for %zu bytes of the head", h->bytes);
    h->ids = (int32_t *)(void *)h->memory;
    h->rows = (float *)(void *)(h->memory + ids);
    if (h->use->m->weights->rows(&site, h->use->knobs, h->ids) != h->n)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the engine: out of memory for rows of the head");
    return make_matrix(e, &site, h->memory + ids + rows, err);
}

void head_close(struct heading *h)
{
    if (h->memory)
        mem_unmap(h->memory, h->bytes);
    *h = (struct heading){0};
}

/* Logits of the kept rows to where they belong, for row i of n. */
static void scatter(struct hasten_engine *e, int32_t n)
{
    const struct heading *h = &e->methods.heading;
    const int64_t n_vocab = e->model->desc.n_vocab;
    for (int64_t i = 0; h->use && i < n; i++) {
        float *to = e->buf.logits + i * n_vocab;
        const float *from = h->rows + i * h->n;
        for (int64_t j = 0; j < n_vocab; j++)
            to[j] = -INFINITY;
        for (int32_t j = 0; j < h->n; j++)
            to[h->ids[j]] = from[j];
    }
}

/* ---- soft cap ------------------------------------------------------------------------------------------------- */

struct capping {
    struct hasten_engine *e;
    float *logits;
    int64_t width; /* of a row */
};

static void cap_logits(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct capping *c = ctx;
    const int64_t per_row = (c->width + CAP_VALUES - 1) / CAP_VALUES;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i % per_row * CAP_VALUES, left = c->width - at;
        c->e->kernels->softcap(c->e->model->desc.logit_softcap, left < CAP_VALUES ? left : CAP_VALUES,
                               c->logits + i / per_row * c->width + at);
    }
}

static void cap(struct hasten_engine *e, float *logits, int64_t width, int32_t n)
{
    if (e->model->desc.logit_softcap > 0)
        pool_for(e->pool, n * ((width + CAP_VALUES - 1) / CAP_VALUES), 1, cap_logits,
                 &(struct capping){e, logits, width});
}

/* ---- logits --------------------------------------------------------------------------------------------------- */

static struct linear_input gather(struct hasten_engine *e, const int32_t *rows, int32_t n)
{
    const struct model_desc *d = &e->model->desc;
    for (int32_t i = 0; i < n; i++)
        memcpy(e->buf.out + (int64_t)i * d->d_model, e->buf.x + (int64_t)rows[i] * d->d_model,
               (size_t)d->d_model * sizeof(float));
    return (struct linear_input){e->buf.out, d->d_model, d->output_norm};
}

void forward_logits(struct hasten_engine *e, const int32_t *rows, int32_t n)
{
    const struct heading *h = &e->methods.heading;
    const struct linear_input in = gather(e, rows, n);
    float *to = h->use ? h->rows : e->buf.logits;
    linear_group(e, &in, n, &(struct linear){&e->output, to}, 1);
    cap(e, to, h->use ? h->n : e->model->desc.n_vocab, n);
    scatter(e, n);
    engine_lap(e, ENGINE_OP_HEAD);
    e->counters.head_rows += (uint64_t)n;
}

/* ---- of named tokens ------------------------------------------------------------------------------------------ */

static const uint64_t *mask_of(const struct hasten_engine *e, int32_t row)
{
    return e->pass.seq[e->pass.head_row[row]]->mask;
}

/* Panels in which a row of [first, first + n) names a token, into buf.panels; how many. -1: a row names none. */
static int32_t touched_panels(const struct hasten_engine *e, int32_t first, int32_t n)
{
    const int32_t n_words = (e->model->desc.n_vocab + 63) / 64;
    int32_t n_panels = 0;
    for (int32_t i = first; i < first + n; i++)
        if (!mask_of(e, i))
            return -1;
    for (int32_t w = 0; w < n_words; w++) {
        uint64_t any = 0;
        for (int32_t i = first; i < first + n; i++)
            any |= mask_of(e, i)[w];
        for (int32_t p = 0; any && p < 64 / PANEL_ROWS; p++)
            if (any >> (p * PANEL_ROWS) & 0xffff)
                e->buf.panels[n_panels++] = w * (64 / PANEL_ROWS) + p;
    }
    return n_panels;
}
_Static_assert(PANEL_ROWS == 16, "a panel is 16 bits of a mask");

struct panels {
    struct hasten_engine *e;
    struct act act;
};

static void multiply_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct panels *p = ctx;
    struct hasten_engine *e = p->e;
    const struct weight *w = &e->output;
    uint8_t *scratch = e->buf.scratch + (size_t)worker * e->buf.scratch_bytes;
    for (int64_t i = begin, last; i < end; i = last + 1) {
        for (last = i; last + 1 < end && e->buf.panels[last + 1] == e->buf.panels[last] + 1;)
            last++;
        const int64_t row0 = (int64_t)e->buf.panels[i] * PANEL_ROWS,
                      row1 = ((int64_t)e->buf.panels[last] + 1) * PANEL_ROWS;
        weight_multiply(e->kernels, w, &p->act, row0, row1 < w->n_rows ? row1 : w->n_rows, e->buf.logits,
                        w->n_rows, scratch);
    }
}

static void logits_of_panels(struct hasten_engine *e, const int32_t *rows, int32_t n, int32_t n_panels)
{
    const struct linear_input in = gather(e, rows, n);
    const struct linear lin = {&e->output, e->buf.logits};
    const enum act_form form = e->kernels->form_of(e->output.type, in.k);
    struct panels p = {e,
                       {.form = form,
                        .n = n,
                        .k = in.k,
                        .rows = e->buf.act[form],
                        .row_stride = e->kernels->act_row_bytes(form, in.k)}};
    linear_prepare(e, &in, n, &lin, 1);
    pool_for(e->pool, n_panels, PANELS_PER_CLAIM, multiply_panels, &p);
    cap(e, e->buf.logits, e->model->desc.n_vocab, n);
    engine_lap(e, ENGINE_OP_HEAD);
    e->counters.head_rows += (uint64_t)n;
    e->counters.weight_bytes += (uint64_t)n_panels * PANEL_ROWS * (uint64_t)e->output.row_bytes;
}

/* What a row did not name. */
static void forbid(float *row, const uint64_t *mask, int32_t n_vocab)
{
    for (int32_t at = 0; mask && at < n_vocab; at += 64) {
        const uint64_t bits = mask[at / 64];
        const int32_t n = n_vocab - at < 64 ? n_vocab - at : 64;
        for (int32_t i = 0; bits != ~0ull && i < n; i++)
            row[at + i] = bits >> i & 1 ? row[at + i] : -INFINITY;
    }
}

void forward_head(struct hasten_engine *e, int32_t first, int32_t n)
{
    const int32_t n_vocab = e->model->desc.n_vocab;
    if (e->model->script) {
        scripted_head(e, first, n);
    } else {
        const int32_t n_panels =
            e->methods.heading.use || overlay_on(e, &e->output) ? -1 : touched_panels(e, first, n);
        if (n_panels >= 0 && n_panels < (n_vocab + PANEL_ROWS - 1) / PANEL_ROWS / SPARSE_SHARE)
            logits_of_panels(e, e->pass.head_row + first, n, n_panels);
        else
            forward_logits(e, e->pass.head_row + first, n);
    }
    for (int32_t i = 0; i < n; i++)
        forbid(e->buf.logits + (int64_t)i * n_vocab, mask_of(e, first + i), n_vocab);
}
