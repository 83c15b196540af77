/* Timing kernels (kernels.h): products and attention as the engine calls them, by all threads and with data
 * that come from memory; row operations by one thread, in cache. */
#include "bench/kernels.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "engine/kv.h"
#include "kernels/packed.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define WEIGHT_K 4864          /* row length: a multiple of every block, no power of two */
#define CALL_NS 1500000        /* what one call should take */
#define MAX_Y (16ll << 20)     /* floats of a product's result */
#define MAX_CALL (64ull << 20) /* bytes of weights or pages a call may read */
#define ROW_VALUES 4864
#define FILL 0x11 /* a byte of which every format makes small finite numbers */

/* What all measurements of a run share: a buffer larger than the caches, of which every call takes the next
 * part. */
struct bench_data {
    const struct bench_kernels *b;
    uint8_t *data;
    size_t bytes, at;
};

static hasten_status data_open(const struct bench_kernels *b, struct bench_data *d, struct hasten_error *err)
{
    *d = (struct bench_data){.b = b, .bytes = b->limits->read_bytes};
    d->data = mem_map(d->bytes);
    if (!d->data)
        return error_set(err, HASTEN_ERR_MEMORY, "timing kernels: out of memory for %zu bytes", d->bytes);
    madvise(d->data, d->bytes, MADV_HUGEPAGE);
    memset(d->data, FILL, d->bytes);
    return HASTEN_OK;
}

static void data_close(struct bench_data *d)
{
    mem_unmap(d->data, d->bytes);
}

static const uint8_t *data_next(struct bench_data *d, size_t bytes)
{
    bytes = (bytes + 63) & ~(size_t)63;
    if (d->at + bytes > d->bytes)
        d->at = 0;
    const uint8_t *p = d->data + d->at;
    d->at += bytes;
    return p;
}

/* Best seconds of several calls within the budget; three at least. */
static double best_call(const struct bench_kernels *b, double (*call)(void *ctx), void *ctx)
{
    const uint64_t t0 = clock_now_ns(), budget_ns = (uint64_t)b->budget_ms * 1000000u;
    double best = call(ctx);
    for (int i = 1; i < 3 || clock_now_ns() - t0 < budget_ns; i++) {
        const double t = call(ctx);
        best = t < best ? t : best;
    }
    return best;
}

static double seconds_since(uint64_t t)
{
    return (double)(clock_now_ns() - t) * 1e-9;
}

static double share(double x, double limit)
{
    return limit > 0 ? x / limit : 0;
}

/* ---- products ------------------------------------------------------------------------------------------ */

struct matmul {
    struct bench_data *d;
    const struct kernels *set;
    struct weight w;
    bool packed;
    struct act a;
    float *y;
    uint8_t *scratch; /* [threads × scratch_bytes] */
    size_t scratch_bytes;
    int64_t rows; /* of a call, a multiple of PANEL_ROWS */
};

static void matmul_panels(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct matmul *m = ctx;
    m->set->matmul(&m->w, &m->a, begin * PANEL_ROWS, end * PANEL_ROWS, m->y, m->rows,
                   m->scratch + (size_t)worker * m->scratch_bytes);
}

static double matmul_call(void *ctx)
{
    struct matmul *m = ctx;
    const int64_t panels = m->rows / PANEL_ROWS, share_panels = panels / (12 * pool_size(m->d->b->pool));
    m->w.n_rows = m->rows;
    m->w.data = data_next(m->d, m->packed ? packed_bytes(&m->w) : (size_t)(m->rows * m->w.row_bytes));
    m->w.packed = m->packed ? m->w.data : NULL;
    const uint64_t t = clock_now_ns();
    pool_for(m->d->b->pool, panels, share_panels > 1 ? share_panels : 1, matmul_panels, m);
    return seconds_since(t);
}

/* Rows that take about CALL_NS: doubled from one panel a thread on. */
static void matmul_calibrate(struct matmul *m)
{
    const int64_t step = (int64_t)PANEL_ROWS * pool_size(m->d->b->pool), n = m->a.n;
    for (m->rows = step;; m->rows *= 2) {
        const double t = matmul_call(m);
        const uint64_t next = 2 * (uint64_t)m->rows;
        if (t * 1e9 * 1.5 > CALL_NS || next * (uint64_t)m->w.row_bytes > MAX_CALL ||
            (int64_t)next * n > MAX_Y)
            return;
    }
}

static bool matmul_open(struct matmul *m, int64_t n)
{
    const int64_t k = WEIGHT_K;
    float *x = mem_array((size_t)k, sizeof *x);
    m->a = (struct act){.form = m->set->form_of(m->w.type, k), .n = n, .k = k};
    m->a.row_stride = m->set->act_row_bytes(m->a.form, k);
    uint8_t *rows = mem_aligned((size_t)n * m->a.row_stride);
    m->scratch_bytes = (m->set->matmul_scratch_bytes(&m->w) + 127) & ~(size_t)63;
    m->scratch = mem_aligned(m->scratch_bytes * (size_t)pool_size(m->d->b->pool));
    m->y = mem_array(MAX_Y + 4096, sizeof *m->y);
    m->a.rows = rows;
    for (int64_t i = 0; x && rows && i < n; i++) {
        for (int64_t j = 0; j < k; j++)
            x[j] = (float)((i + j * 7) % 255 - 127) / 64;
        m->set->act_make(m->a.form, x, k, rows + (size_t)i * m->a.row_stride);
    }
    const bool room = x && rows && m->scratch && m->y;
    mem_free(x);
    return room;
}

static double peak_for(const struct bench_limits *l, const struct quant_type *type)
{
    if (type->block > 1)
        return l->peak[PEAK_INT8].all;
    return type->id == QUANT_F32 ? l->peak[PEAK_F32].all : bench_limits_half(l);
}

static hasten_status time_matmul(struct bench_data *d, const struct kernels *set,
                                 const struct quant_type *type, bool packed, int64_t n,
                                 struct bench_kernel_row *out, struct hasten_error *err)
{
    const int64_t k = WEIGHT_K;
    struct matmul m = {.d = d, .set = set, .packed = packed};
    m.w = (struct weight){.type = type, .n_rows = PANEL_ROWS, .k = k};
    m.w.row_bytes = k / type->block * type->block_bytes;
    hasten_status st = HASTEN_OK;
    if (matmul_open(&m, n)) {
        matmul_calibrate(&m);
        const double t = best_call(d->b, matmul_call, &m);
        *out = (struct bench_kernel_row){
            .set = set->name, .kernel = packed ? "matmul packed" : "matmul", .form = type->name, .n = n};
        out->threads = pool_size(d->b->pool);
        out->gbs = (double)(m.rows * m.w.row_bytes) / t * 1e-9;
        out->gops = 2.0 * (double)m.rows * (double)k * (double)n / t * 1e-9;
        out->bus_share = share(out->gbs, d->b->limits->read_all);
        out->peak_share = share(out->gops, peak_for(d->b->limits, type));
    } else {
        st = error_set(err, HASTEN_ERR_MEMORY, "timing kernels: out of memory");
    }
    mem_free((void *)(uintptr_t)m.a.rows);
    mem_free(m.scratch);
    mem_free(m.y);
    return st;
}

hasten_status bench_matmul(const struct bench_kernels *b, const struct kernels *set,
                           const struct quant_type *type, int64_t n, struct bench_kernel_row *out,
                           struct hasten_error *err)
{
    struct bench_data d;
    hasten_status st = data_open(b, &d, err);
    if (!st)
        st = time_matmul(&d, set, type, false, n, out, err);
    data_close(&d);
    return st;
}

/* ---- attention ----------------------------------------------------------------------------------------- */

struct attend {
    struct bench_data *d;
    const struct kernels *set;
    enum kv_rep rep;
    int64_t head, n_q, pages; /* head size; pages of a call */
    size_t page_bytes, own_bytes;
    const uint8_t *first;
    uint8_t *own; /* [threads × own_bytes]: queries, outputs, states, visibility, scratch of a worker */
};

/* What a worker keeps, one after the other. */
struct attend_own {
    uint8_t *q, *scratch;
    float *o;
    struct attn_state *state;
    struct attn_visible *vis;
};

static struct attend_own attend_own_at(const struct attend *a, int worker)
{
    const size_t n_q = (size_t)a->n_q;
    struct attend_own w;
    w.q = a->own + (size_t)worker * a->own_bytes;
    w.o = (float *)(void *)(w.q + n_q * attn_query_bytes(a->head));
    w.state = (struct attn_state *)(void *)(w.o + n_q * (size_t)a->head);
    w.vis = (struct attn_visible *)(void *)(w.state + n_q);
    w.scratch = (uint8_t *)(((uintptr_t)(w.vis + n_q) + 63) & ~(uintptr_t)63);
    return w;
}

static void attend_reset(const struct attend *a, int worker)
{
    const struct attend_own w = attend_own_at(a, worker);
    for (int64_t i = 0; i < a->n_q; i++) {
        w.state[i] = (struct attn_state){0.0f, 1.0f};
        w.vis[i] = (struct attn_visible){0, ATTN_TILE, NULL};
    }
    memset(w.o, 0, (size_t)(a->n_q * a->head) * sizeof *w.o);
}

static void attend_pages(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct attend *a = ctx;
    const struct attend_own w = attend_own_at(a, worker);
    for (int64_t i = begin; i < end; i++) {
        const uint8_t *page = a->first + (size_t)i * a->page_bytes;
        const struct kv_tile t = {.rep = a->rep,
                                  .k = page,
                                  .v = page + kv_key_bytes(a->rep, a->head),
                                  .next = i + 1 < end ? page + a->page_bytes : NULL};
        a->set->attn_tile(&t, a->head, a->head, a->n_q, w.q, w.vis, 0, w.state, w.o, w.scratch);
    }
}

static double attend_call(void *ctx)
{
    struct attend *a = ctx;
    const int threads = pool_size(a->d->b->pool);
    for (int i = 0; i < threads; i++)
        attend_reset(a, i);
    a->first = data_next(a->d, (size_t)a->pages * a->page_bytes);
    const int64_t chunk = a->pages / (12 * threads);
    const uint64_t t = clock_now_ns();
    pool_for(a->d->b->pool, a->pages, chunk > 1 ? chunk : 1, attend_pages, a);
    return seconds_since(t);
}

static void attend_queries(const struct attend *a, float *x)
{
    for (int64_t i = 0; i < a->head; i++)
        x[i] = (float)(i % 17 - 8) / 64;
    for (int w = 0; w < pool_size(a->d->b->pool); w++)
        for (int64_t i = 0; i < a->n_q; i++)
            a->set->attn_query(a->rep, a->head, x,
                               attend_own_at(a, w).q + (size_t)i * attn_query_bytes(a->head));
}

static hasten_status time_attention(struct bench_data *d, const struct kernels *set, enum kv_rep rep,
                                    int64_t head, int64_t n_q, struct bench_kernel_row *out,
                                    struct hasten_error *err)
{
    const struct kv_lane lane = {(int32_t)head, (int32_t)head};
    const struct bench_limits *l = d->b->limits;
    const int threads = pool_size(d->b->pool);
    struct attend a = {.d = d, .set = set, .rep = rep, .head = head, .n_q = n_q};
    a.page_bytes = kv_page_bytes(rep, &lane);
    a.own_bytes = (size_t)n_q * (attn_query_bytes(head) + (size_t)head * sizeof(float) +
                                 sizeof(struct attn_state) + sizeof(struct attn_visible));
    a.own_bytes = (a.own_bytes + set->attn_scratch_bytes(rep, head, head, n_q) + 191) & ~(size_t)63;
    a.own = mem_aligned(a.own_bytes * (size_t)threads);
    float *x = mem_array((size_t)head, sizeof *x);
    hasten_status st = HASTEN_OK;
    if (a.own && x) {
        attend_queries(&a, x);
        for (a.pages = 4 * threads; attend_call(&a) * 1e9 * 1.5 < CALL_NS; a.pages *= 2)
            if (2 * (uint64_t)a.pages * a.page_bytes > MAX_CALL)
                break;
        const double t = best_call(d->b, attend_call, &a);
        *out =
            (struct bench_kernel_row){.set = set->name, .kernel = "attention", .n = n_q, .threads = threads};
        out->gbs = (double)a.pages * (double)a.page_bytes / t * 1e-9;
        out->gops = 4.0 * (double)(head * ATTN_TILE * n_q * a.pages) / t * 1e-9;
        out->bus_share = share(out->gbs, l->read_all);
        out->peak_share =
            share(out->gops, rep == KV_Q8 || rep == KV_Q4 ? l->peak[PEAK_INT8].all : bench_limits_half(l));
    } else {
        st = error_set(err, HASTEN_ERR_MEMORY, "timing kernels: out of memory");
    }
    mem_free(a.own);
    mem_free(x);
    return st;
}

/* ---- operations on rows -------------------------------------------------------------------------------- */

enum row_op {
    ROW_NORM,
    ROW_SILU,
    ROW_GELU,
    ROW_ADD,
    ROW_ROPE,
    ROW_Q8_32,
    ROW_Q8_256,
    ROW_OPS
};

static const char *const row_names[ROW_OPS] = {"rms_norm", "silu_mul",  "gelu_mul",  "add",
                                               "rope",     "act_q8_32", "act_q8_256"};

struct row_call {
    const struct kernels *set;
    enum row_op op;
    int64_t times;
    float *x, *w, *y;
    uint8_t *act;
};

static void row_once(const struct row_call *r)
{
    const struct kernels *k = r->set;
    switch (r->op) {
    case ROW_NORM:
        k->rms_norm(r->x, r->w, ROW_VALUES, 1e-6f, r->y);
        break;
    case ROW_SILU:
        k->silu_mul(r->x, r->w, ROW_VALUES, r->y);
        break;
    case ROW_GELU:
        k->gelu_mul(r->x, r->w, ROW_VALUES, r->y);
        break;
    case ROW_ADD:
        k->add(r->x, ROW_VALUES, r->y);
        break;
    case ROW_ROPE:
        for (int64_t i = 0; i < ROW_VALUES / 128; i++)
            k->rope(r->y + i * 128, r->x, r->w, 128, true);
        break;
    case ROW_Q8_32:
        k->act_make(ACT_Q8_32, r->x, ROW_VALUES, r->act);
        break;
    case ROW_Q8_256:
        k->act_make(ACT_Q8_256, r->x, ROW_VALUES, r->act);
        break;
    case ROW_OPS:
        break;
    }
}

static double row_calls(void *ctx)
{
    const struct row_call *r = ctx;
    for (int64_t i = 0; i < ROW_VALUES; i++) /* add and rope would grow without end */
        r->y[i] = 0;
    const uint64_t t = clock_now_ns();
    for (int64_t i = 0; i < r->times; i++)
        row_once(r);
    return seconds_since(t);
}

/* Bytes that an operation reads and writes. */
static double row_bytes_of(const struct row_call *r)
{
    const double floats = r->op == ROW_NORM || r->op == ROW_ROPE ? 3 : r->op >= ROW_Q8_32 ? 1 : 3;
    const double act = r->op == ROW_Q8_32    ? (double)r->set->act_row_bytes(ACT_Q8_32, ROW_VALUES)
                       : r->op == ROW_Q8_256 ? (double)r->set->act_row_bytes(ACT_Q8_256, ROW_VALUES)
                                             : 0;
    return floats * ROW_VALUES * (double)sizeof(float) + act;
}

static hasten_status time_rows(const struct bench_kernels *b, const struct kernels *set, bool *stop,
                               struct hasten_error *err)
{
    const size_t act_bytes =
        set->act_row_bytes(ACT_Q8_32, ROW_VALUES) + set->act_row_bytes(ACT_F32, ROW_VALUES);
    struct row_call r = {.set = set};
    r.x = mem_aligned(ROW_VALUES * sizeof(float));
    r.w = mem_aligned(ROW_VALUES * sizeof(float));
    r.y = mem_aligned(ROW_VALUES * sizeof(float));
    r.act = mem_aligned(act_bytes);
    hasten_status st = HASTEN_OK;
    if (!r.x || !r.w || !r.y || !r.act)
        st = error_set(err, HASTEN_ERR_MEMORY, "timing kernels: out of memory");
    for (int64_t i = 0; i < ROW_VALUES && !st; i++) {
        r.x[i] = (float)(i * 7 % 255 - 127) / 64;
        r.w[i] = (float)(i * 5 % 63 - 31) / 64;
    }
    for (int op = 0; op < ROW_OPS && !st && !*stop; op++) {
        r.op = (enum row_op)op;
        if (op >= ROW_Q8_32 && set == kernels_reference())
            continue; /* the reference multiplies floats */
        for (r.times = 1; row_calls(&r) * 1e9 < CALL_NS / 4; r.times *= 2)
            ;
        const double t = best_call(b, row_calls, &r) / (double)r.times;
        const struct bench_kernel_row row = {.set = set->name,
                                             .kernel = row_names[op],
                                             .form = "",
                                             .n = ROW_VALUES,
                                             .threads = 1,
                                             .gbs = row_bytes_of(&r) / t * 1e-9};
        *stop = b->row(b->ctx, &row) != 0;
    }
    mem_free(r.x);
    mem_free(r.w);
    mem_free(r.y);
    mem_free(r.act);
    return st;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

int bench_kernel_sets(const struct kernels *sets[BENCH_MAX_SETS])
{
    const uint32_t features = cpu_features();
    const struct kernels *const found[] = {
        kernels_reference(), kernels_plain(), kernels_select(features & CPU_AVX2),
        kernels_select(features & (CPU_AVX2 | CPU_NEON)), kernels_select(features)};
    int n = 0;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        bool known = false;
        for (int j = 0; j < n; j++)
            known = known || sets[j] == found[i];
        if (!known)
            sets[n++] = found[i];
    }
    return n;
}

static hasten_status cancelled(const struct bench_kernels *b, struct hasten_error *err)
{
    return b->cancel && *b->cancel ? error_set(err, HASTEN_ERR_CANCELLED, "timing kernels: interrupted")
                                   : HASTEN_OK;
}

/* One number of columns with one set: in place, and packed where the set reads that. */
static hasten_status time_columns(struct bench_data *d, const struct quant_type *type,
                                  const struct kernels *set, int64_t n, bool *stop, struct hasten_error *err)
{
    const int forms = set->reads_packed && packed_layout_of(type) ? 2 : 1;
    for (int packed = 0; packed < forms && !*stop; packed++) {
        struct bench_kernel_row row;
        hasten_status st = cancelled(d->b, err);
        if (st || (st = time_matmul(d, set, type, packed, n, &row, err)))
            return st;
        *stop = d->b->row(d->b->ctx, &row) != 0;
    }
    return HASTEN_OK;
}

static hasten_status time_type(struct bench_data *d, const struct quant_type *type,
                               const struct kernels *const *sets, int n_sets, bool *stop,
                               struct hasten_error *err)
{
    static const int64_t columns[] = {1, 4, 16, 512};
    hasten_status st = HASTEN_OK;
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
        for (int i = 0; i < n_sets && !st && !*stop; i++)
            st = time_columns(d, type, sets[i], columns[c], stop, err);
    return st;
}

static hasten_status time_attentions(struct bench_data *d, const struct kernels *set, bool *stop,
                                     struct hasten_error *err)
{
    static const char *const names[KV_REPS] = {"f16", "f32", "bf16", "q8", "q4"}; /* by enum kv_rep */
    static const int64_t shapes[][2] = {{64, 7}, {64, 56}, {128, 6}, {128, 48}, {256, 4}, {256, 32}};
    hasten_status st = HASTEN_OK;
    for (size_t r = 0; r < KV_REPS; r++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes && !*stop; s++) {
            struct bench_kernel_row row;
            char form[32];
            if ((st = cancelled(d->b, err)) ||
                (st = time_attention(d, set, (enum kv_rep)r, shapes[s][0], shapes[s][1], &row, err)))
                return st;
            snprintf(form, sizeof form, "%s d %d", names[r], (int)shapes[s][0]);
            row.form = form;
            *stop = d->b->row(d->b->ctx, &row) != 0;
        }
    return st;
}

hasten_status bench_kernels_run(const struct bench_kernels *b, struct hasten_error *err)
{
    const struct kernels *sets[BENCH_MAX_SETS];
    const int n_sets = bench_kernel_sets(sets);
    struct bench_data d;
    bool stop = false;
    hasten_status st = data_open(b, &d, err);
    for (uint32_t id = 0; id < 64 && !st && !stop; id++) {
        const struct quant_type *type = quant_type_get(id);
        if (type && kernels_supports(type) && (!b->only || b->only == type))
            st = time_type(&d, type, sets, n_sets, &stop, err);
    }
    for (int i = 0; i < n_sets && !b->only && !st && !stop; i++) {
        st = time_attentions(&d, sets[i], &stop, err);
        if (!st && !stop)
            st = time_rows(b, sets[i], &stop, err);
    }
    data_close(&d);
    return st;
}
