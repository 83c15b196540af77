/* The feed-forward block of a layer with experts.
 *
 *     r = W_router n(x) + b;  S = the n_used experts with the largest r, of equal ones the lower id
 *     out = sum over e in S, ascending, of softmax(r)_e (W_down,e act(W_gate,e n(x), W_up,e n(x)) + b_e)
 *
 * The rows of a pass are grouped by expert, so that the matrices of an expert are read once for all of its rows; an
 * expert that no row has chosen is not touched, nor are its pages of a mapped file. A row's result is the same
 * whatever rows share the pass: its products do not know their neighbours, and it sums its experts by ascending id.
 *
 * Work is split over rows, over (row, expert), and over output rows of (expert, matrix). Nothing here allocates. */
#include "engine/engine.h"
#include <string.h>

#define ROWS_PER_CLAIM 4

struct block {
    struct hasten_engine *e;
    const struct layer *l;
    int32_t n;              /* rows of the pass */
    int32_t n_groups;       /* experts that some row has chosen */
    int32_t most;           /* rows of the largest group */
    enum act_form forms[2]; /* of the input of gate and of up */
    int32_t n_forms;        /* 1: both the same */
    enum act_form hidden;   /* of the input of down */
    size_t hidden_stride;   /* bytes */
};

static size_t stride_of(const struct hasten_engine *e, enum act_form f, int64_t k)
{
    return e->kernels->act_row_bytes(f, k);
}

/* ---- routing ---------------------------------------------------------------------------------------------- */

/* The n_used largest of r, ascending by id. */
static void choose(const float *r, int32_t n_expert, int32_t n_used, int32_t *chosen)
{
    for (int32_t s = 0; s < n_used; s++) {
        int32_t best = -1;
        for (int32_t i = 0, at = 0; i < n_expert; i++) {
            if (at < s && chosen[at] == i)
                at++;
            else if (best < 0 || r[i] > r[best])
                best = i;
        }
        int32_t at = s;
        for (; at > 0 && chosen[at - 1] > best; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = best;
    }
}

/* softmax of r at the chosen experts, over these or over all. */
static void weigh(const struct moe *m, const float *r, const int32_t *chosen, float *weight)
{
    float max = r[chosen[0]], sum = 0;
    for (int32_t s = 1; s < m->n_used; s++)
        max = r[chosen[s]] > max ? r[chosen[s]] : max;
    for (int32_t s = 0; s < m->n_used; s++) {
        weight[s] = exp_f32(r[chosen[s]] - max);
        sum += weight[s];
    }
    if (m->over_all) {
        sum = 0;
        for (int32_t i = 0; i < m->n_expert; i++)
            sum += exp_f32(r[i] - max);
    }
    for (int32_t s = 0; s < m->n_used; s++)
        weight[s] /= sum;
}

/* Chooses the experts of rows, and makes their input in the forms that experts read and the router did not. */
static void route_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct block *b = ctx;
    const struct hasten_engine *e = b->e;
    const struct moe *m = &b->l->moe;
    const int64_t d = e->model->desc.d_model;
    const enum act_form made = e->kernels->form_of(m->router.type, d);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *r = e->buf.moe.router + i * m->n_expert;
        if (m->router_bias)
            e->kernels->add(m->router_bias, m->n_expert, r);
        choose(r, m->n_expert, m->n_used, e->buf.moe.expert + i * m->n_used);
        weigh(m, r, e->buf.moe.expert + i * m->n_used, e->buf.moe.weight + i * m->n_used);
        for (int32_t f = 0; f < b->n_forms; f++)
            if (b->forms[f] != made)
                e->kernels->act_make(b->forms[f], e->buf.norm + i * d, d,
                                     e->buf.act[b->forms[f]] + (size_t)i * stride_of(e, b->forms[f], d));
    }
}

/* Sorts (row, expert) by expert, then by row, and counts what will be read. */
static void group_rows(struct block *b)
{
    struct moe_buffers *m = &b->e->buf.moe;
    const struct moe *x = &b->l->moe;
    const int32_t n = b->n * x->n_used;
    memset(m->next, 0, (size_t)x->n_expert * sizeof *m->next);
    for (int32_t i = 0; i < n; i++)
        m->next[m->expert[i]]++;
    int32_t first = 0;
    for (int32_t i = 0; i < x->n_expert; i++) {
        const int32_t count = m->next[i];
        m->next[i] = first;
        if (!count)
            continue;
        m->group_expert[b->n_groups] = i;
        m->group_first[b->n_groups++] = first;
        first += count;
        b->most = count > b->most ? count : b->most;
    }
    m->group_first[b->n_groups] = first;
    for (int32_t i = 0; i < n; i++) {
        m->entry[i] = m->next[m->expert[i]]++;
        m->row[m->entry[i]] = i / x->n_used;
    }
    experts_make_room(b->e, b->l, b->n_groups);
    const struct weight *const w[] = {x->gate, x->up, x->down};
    for (size_t j = 0; j < sizeof w / sizeof *w; j++)
        b->e->counters.weight_bytes += (uint64_t)b->n_groups * (uint64_t)(w[j]->n_rows * w[j]->row_bytes);
}

/* The input of each entry, beside that of its group. */
static void gather_entries(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct block *b = ctx;
    const struct hasten_engine *e = b->e;
    (void)worker;
    for (int32_t f = 0; f < b->n_forms; f++) {
        const size_t stride = stride_of(e, b->forms[f], e->model->desc.d_model);
        for (int64_t i = begin; i < end; i++)
            memcpy(e->buf.moe.act[b->forms[f]] + (size_t)i * stride,
                   e->buf.act[b->forms[f]] + (size_t)e->buf.moe.row[i] * stride, stride);
    }
}

/* ---- products --------------------------------------------------------------------------------------------- */

/* One loop over (group, matrix, panel), for a worker that may come too late (pool.h): by value, and pointing only to
 * what lives as long as the engine. */
struct product {
    const struct hasten_engine *e;
    const struct weight *w[2]; /* of the experts */
    float *y[2];               /* [entries × n_rows] */
    const uint8_t *act[2];     /* [entries], or [rows] when by_row */
    int64_t n_panels;          /* of a matrix */
    int32_t n_mats, n_expert, n_entries;
    int32_t most; /* rows of the largest group */
    bool by_row;  /* groups of one row: the input lies as the pass has it */
};

_Static_assert(sizeof(struct product) <= POOL_CTX_BYTES, "a product is the ctx of a staged loop");

/* What units [begin, end) begin with: rows [row0, row1) of one matrix of one expert, for n entries. */
struct segment {
    int32_t mat, expert, first, n, row;
    int64_t row0, row1, end;
};

/* A number of a table that may be changing: read once, and kept where it can do no harm. */
static int32_t entry_of(const int32_t *table, int32_t at, int32_t most)
{
    const int32_t v = *(const volatile int32_t *)&table[at];
    return v < 0 ? 0 : v < most ? v : most;
}

static struct segment segment_at(const struct product *p, int64_t begin, int64_t end)
{
    const struct moe_buffers *m = &p->e->buf.moe;
    const int64_t matrix = begin / p->n_panels, panel = begin % p->n_panels;
    const int64_t left = p->n_panels - panel, n_panels = end - begin < left ? end - begin : left;
    const int32_t group = (int32_t)(matrix / p->n_mats);
    struct segment s = {.mat = (int32_t)(matrix % p->n_mats),
                        .row0 = panel * PANEL_ROWS,
                        .row1 = (panel + n_panels) * PANEL_ROWS,
                        .end = begin + n_panels};
    s.expert = entry_of(m->group_expert, group, p->n_expert - 1);
    s.first = entry_of(m->group_first, group, p->n_entries - 1);
    s.n = entry_of(m->group_first, group + 1, p->n_entries) - s.first;
    s.n = s.n < 0 ? 0 : s.n < p->most ? s.n : p->most;
    s.row = p->by_row ? entry_of(m->row, s.first, p->e->settings.n_batch - 1) : s.first;
    const int64_t n_rows = p->w[s.mat]->n_rows;
    s.row1 = s.row1 < n_rows ? s.row1 : n_rows;
    return s;
}

/* Staged results lie as [segment][entry][row of the segment]. */
static void multiply_units(const void *ctx, int64_t begin, int64_t end, int worker, void *stage)
{
    const struct product *p = ctx;
    const struct kernels *kn = p->e->kernels;
    uint8_t *scratch = p->e->buf.scratch + (size_t)worker * p->e->buf.scratch_bytes;
    float *staged = stage;
    for (int64_t at = begin; at < end;) {
        const struct segment s = segment_at(p, at, end);
        const struct weight *w = &p->w[s.mat][s.expert];
        const enum act_form f = kn->form_of(w->type, w->k);
        const size_t stride = kn->act_row_bytes(f, w->k);
        const struct act a = {.form = f,
                              .n = s.n,
                              .k = w->k,
                              .rows = p->act[s.mat] + (size_t)s.row * stride,
                              .row_stride = stride};
        const int64_t width = s.row1 - s.row0;
        if (stage)
            weight_multiply(kn, w, &a, s.row0, s.row1, staged - s.row0, width, scratch);
        else
            weight_multiply(kn, w, &a, s.row0, s.row1, p->y[s.mat] + s.first * w->n_rows, w->n_rows, scratch);
        staged = stage ? staged + s.n * width : NULL;
        at = s.end;
    }
}

static void publish_units(const void *ctx, int64_t begin, int64_t end, const void *stage)
{
    const struct product *p = ctx;
    const float *staged = stage;
    for (int64_t at = begin; at < end;) {
        const struct segment s = segment_at(p, at, end);
        const int64_t width = s.row1 - s.row0, n_rows = p->w[s.mat]->n_rows;
        for (int32_t i = 0; i < s.n; i++, staged += width)
            memcpy(p->y[s.mat] + (s.first + i) * n_rows + s.row0, staged, (size_t)width * sizeof *staged);
        at = s.end;
    }
}

static const struct pool_staged units_job = {multiply_units, publish_units};

static void multiply_in_place(void *ctx, int64_t begin, int64_t end, int worker)
{
    multiply_units(ctx, begin, end, worker, NULL);
}

/* The experts' matrices w[0 .. n_mats), of one shape. */
static void multiply(const struct block *b, struct product *p)
{
    const int32_t n_entries = b->n * b->l->moe.n_used;
    p->e = b->e;
    p->n_panels = (p->w[0]->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    p->n_expert = b->l->moe.n_expert;
    p->n_entries = n_entries;
    p->most = b->most;
    const int64_t n = p->n_panels * p->n_mats * b->n_groups,
                  macs = CLAIM_PANELS * PANEL_ROWS * p->w[0]->k * n_entries / b->n_groups;
    const int64_t least = claim_least(macs), most = claim_most(p->most);
    if (most >= least)
        pool_for_staged(b->e->pool, n, least, most, &units_job, p, sizeof *p);
    else
        pool_for(b->e->pool, n, least, multiply_in_place, p);
}

static void multiply_gate_up(const struct block *b)
{
    struct hasten_engine *e = b->e;
    const struct moe *m = &b->l->moe;
    struct product p = {
        .w = {m->gate, m->up}, .y = {e->buf.moe.gate, e->buf.moe.up}, .n_mats = 2, .by_row = b->most == 1};
    for (int j = 0; j < 2; j++) {
        const enum act_form f = e->kernels->form_of(p.w[j]->type, p.w[j]->k);
        p.act[j] = p.by_row ? e->buf.act[f] : e->buf.moe.act[f];
    }
    multiply(b, &p);
}

/* ---- what is done to single rows -------------------------------------------------------------------------- */

/* gpt-oss: min(g, limit) sigmoid(alpha min(g, limit)) (clamp(u, -limit, limit) + 1), by way of the SiLU of alpha g. */
static void clamp_rows(int64_t n, float *gate, float *up)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i] > EXPERT_LIMIT ? EXPERT_LIMIT : gate[i];
        float u = up[i] > EXPERT_LIMIT ? EXPERT_LIMIT : up[i];
        u = u < -EXPERT_LIMIT ? -EXPERT_LIMIT : u;
        gate[i] = EXPERT_ALPHA * g;
        up[i] = (u + 1.0f) / EXPERT_ALPHA;
    }
}

/* Units are (row, one of its experts). */
static void activate_entries(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct block *b = ctx;
    const struct hasten_engine *e = b->e;
    const struct moe *m = &b->l->moe;
    const int64_t n = b->l->d_ff;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t entry = e->buf.moe.entry[i], expert = e->buf.moe.expert[i];
        float *gate = e->buf.moe.gate + entry * n, *up = e->buf.moe.up + entry * n;
        if (m->gate_bias)
            e->kernels->add(m->gate_bias + expert * n, n, gate);
        if (m->up_bias)
            e->kernels->add(m->up_bias + expert * n, n, up);
        if (m->act == EXPERT_SWIGLU_CLAMPED)
            clamp_rows(n, gate, up);
        e->kernels->silu_mul(gate, up, n, gate);
        e->kernels->act_make(b->hidden, gate, n, e->buf.moe.hidden + (size_t)entry * b->hidden_stride);
    }
}

static void combine_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct block *b = ctx;
    const struct hasten_engine *e = b->e;
    const struct moe *m = &b->l->moe;
    const int64_t d = e->model->desc.d_model;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *out = e->buf.out + i * d;
        for (int64_t s = 0, at = i * m->n_used; s < m->n_used; s++, at++) {
            float *y = e->buf.moe.out + e->buf.moe.entry[at] * d;
            if (m->down_bias)
                e->kernels->add(m->down_bias + e->buf.moe.expert[at] * d, d, y);
            e->kernels->scale(e->buf.moe.weight[at], d, y);
            if (s == 0)
                memcpy(out, y, (size_t)d * sizeof *out);
            else
                e->kernels->add(y, d, out);
        }
    }
}

/* ---- who watches (tap.h) ---------------------------------------------------------------------------------- */

static void tell(const struct block *b, int32_t group, bool of_down)
{
    const struct hasten_engine *e = b->e;
    const struct moe *m = &b->l->moe;
    const int32_t expert = e->buf.moe.group_expert[group], first = e->buf.moe.group_first[group];
    const struct weight *const gate_up[] = {&m->gate[expert], &m->up[expert]}, *const down[] = {
                                                                                   &m->down[expert]};
    const struct tap_linear_input in = {
        .w = of_down ? down : gate_up,
        .n_w = of_down ? 1 : 2,
        .x = of_down ? e->buf.moe.gate + first * b->l->d_ff : e->buf.norm,
        .row = of_down ? NULL : e->buf.moe.row + first,
        .n = e->buf.moe.group_first[group + 1] - first,
        .k = of_down ? b->l->d_ff : e->model->desc.d_model,
        .pool = e->pool,
    };
    for (const struct tap_linear_input_sub *s = e->taps.linear_input; s; s = s->next)
        s->fn(s->ctx, &in);
}

static void tell_taps(const struct block *b, bool of_down)
{
    for (int32_t i = 0; i < b->n_groups && b->e->taps.linear_input; i++)
        tell(b, i, of_down);
}

/* ---- the block -------------------------------------------------------------------------------------------- */

static void set_forms(struct block *b)
{
    const struct kernels *kn = b->e->kernels;
    const struct moe *m = &b->l->moe;
    b->forms[0] = kn->form_of(m->gate->type, m->gate->k);
    b->forms[1] = kn->form_of(m->up->type, m->up->k);
    b->n_forms = b->forms[0] == b->forms[1] ? 1 : 2;
    b->hidden = kn->form_of(m->down->type, m->down->k);
    b->hidden_stride = stride_of(b->e, b->hidden, m->down->k);
}

void moe_block(struct hasten_engine *e, const struct layer *l)
{
    const int64_t d = e->model->desc.d_model;
    const struct linear router = {&l->moe.router, e->buf.moe.router};
    struct block b = {.e = e, .l = l, .n = e->pass.n_rows};
    const int64_t n_entries = (int64_t)b.n * l->moe.n_used;
    set_forms(&b);
    linear_group(e, &(struct linear_input){e->buf.x, d, l->ffn_norm}, b.n, &router, 1);
    pool_for(e->pool, b.n, ROWS_PER_CLAIM, route_rows, &b);
    group_rows(&b);
    if (b.most > 1)
        pool_for(e->pool, n_entries, ROWS_PER_CLAIM, gather_entries, &b);
    engine_lap(e, ENGINE_OP_ROUTE);
    tell_taps(&b, false);
    multiply_gate_up(&b);
    engine_lap(e, ENGINE_OP_GATE_UP);
    pool_for(e->pool, n_entries, ROWS_PER_CLAIM, activate_entries, &b);
    engine_lap(e, ENGINE_OP_ACTIVATION);
    tell_taps(&b, true);
    multiply(&b, &(struct product){
                     .w = {l->moe.down}, .y = {e->buf.moe.out}, .act = {e->buf.moe.hidden}, .n_mats = 1});
    engine_lap(e, ENGINE_OP_DOWN);
    pool_for(e->pool, b.n, ROWS_PER_CLAIM, combine_rows, &b);
    engine_lap(e, ENGINE_OP_ROUTE);
}

/* ---- the plan --------------------------------------------------------------------------------------------- */

void moe_widths(const struct kernels *k, const struct layer *l, struct widths *w)
{
    const struct weight *const in[] = {l->moe.gate, l->moe.up}, *down = l->moe.down;
    widen(&w->n_expert, l->moe.n_expert);
    widen(&w->n_used, l->moe.n_used);
    widen(&w->expert_ff, l->d_ff);
    for (size_t j = 0; j < sizeof in / sizeof *in; j++) {
        const enum act_form f = k->form_of(in[j]->type, in[j]->k);
        widen_matrix(k, in[j], w);
        widen_size(&w->expert_act_row[f], k->act_row_bytes(f, in[j]->k));
    }
    widen_size(&w->expert_hidden_row, k->act_row_bytes(k->form_of(down->type, down->k), down->k));
    widen_size(&w->matmul_scratch, k->matmul_scratch_bytes(down));
}
