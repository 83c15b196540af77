/* Sizes before bytes: settles settings, measures buffers, and says what an engine will use before anything is
 * allocated. The same layout function measures and places, so that the plan cannot disagree with the use. */
#include "base/checked.h"
#include "base/cpu.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include "engine/method_set.h"
#include "engine/overlay.h"
#include <string.h>

/* The program itself: text and data of the command and its libraries, stacks, allocator overhead, and what the
 * command holds beside the engine (sampler, text buffers). Measured as VmHWM less the rest on the models at
 * hand, rounded up; tests/engine/memory holds it to that. */
#define BASE_RESERVE_BYTES (24u << 20)
#define THREAD_RESERVE_BYTES (256u << 10)

void hasten_engine_default_settings(struct hasten_engine_settings *s)
{
    *s = (struct hasten_engine_settings){.n_seq_max = 1, .n_batch = 512, .kv_type = HASTEN_KV_F16};
}

static hasten_status check_range(const char *name, int64_t v, int64_t lo, int64_t hi,
                                 struct hasten_error *err)
{
    if (v < lo || v > hi)
        return error_set(err, HASTEN_ERR_USAGE, "engine settings: %s: found %lld (expected %lld to %lld)",
                         name, (long long)v, (long long)lo, (long long)hi);
    return HASTEN_OK;
}

/* An encoder reads a text whole, so that a pass holds the longest; what it stores is gone with the pass. */
static void settle_encoder(const struct hasten_model *m, struct hasten_engine_settings *s)
{
    s->n_ctx = s->n_ctx < m->desc.n_ctx_train ? s->n_ctx : m->desc.n_ctx_train;
    s->n_batch = s->n_batch > s->n_ctx ? s->n_batch : s->n_ctx;
    s->kv_type = HASTEN_KV_F32;
    const int64_t all = (int64_t)s->n_ctx * s->n_seq_max;
    s->kv_positions = all < s->n_batch ? all : s->n_batch;
}

hasten_status engine_settle(const struct hasten_model *m, struct hasten_engine_settings *s,
                            struct hasten_error *err)
{
    hasten_status st;
    if (s->n_ctx == 0)
        s->n_ctx = m->desc.n_ctx_train < 4096 ? m->desc.n_ctx_train : 4096;
    if (m->desc.encoder)
        settle_encoder(m, s);
    if (s->n_threads == 0)
        s->n_threads = pool_default_threads();
    if (s->n_logits == 0) /* a decode step of all sequences reads the head once */
        s->n_logits = s->n_seq_max < 8                   ? 8
                      : s->n_seq_max < ENGINE_MAX_LOGITS ? s->n_seq_max
                                                         : ENGINE_MAX_LOGITS;
    if ((st = check_range("n_ctx", s->n_ctx, 1, LIMIT_CONTEXT, err)) ||
        (st = check_range("n_threads", s->n_threads, 1, LIMIT_THREADS, err)) ||
        (st = check_range("n_seq_max", s->n_seq_max, 1, 65536, err)) ||
        (st = check_range("n_batch", s->n_batch, 1, LIMIT_BATCH_ROWS, err)) ||
        (st = check_range("n_logits", s->n_logits, 1, ENGINE_MAX_LOGITS, err)) ||
        (st = check_range("n_loras", s->n_loras, 0, LIMIT_LORAS, err)) || (st = overlays_check(m, s, err)))
        return st;
    if ((st = method_set_sequences(m, s, &s->n_kept, err)))
        return st;
    const int64_t all = (int64_t)s->n_ctx * s->n_seq_max;
    if (s->kv_positions == 0)
        s->kv_positions = all;
    if ((st = check_range("kv_positions", s->kv_positions, 1, all + (int64_t)s->n_ctx * s->n_kept, err)))
        return st;
    if ((st = method_kv_type(s, &s->kv_type, err)))
        return st;
    if ((int)s->kv_type < HASTEN_KV_F16 || s->kv_type > HASTEN_KV_Q4)
        return error_set(err, HASTEN_ERR_USAGE,
                         "engine settings: kv_type: found %d (expected f16, f32, bf16, q8 or q4)",
                         (int)s->kv_type);
    s->n_seq_max += s->n_kept; /* they share the pool of pages */
    return HASTEN_OK;
}

const struct kernels *engine_kernels(const struct hasten_engine_settings *s)
{
    if (s->reference)
        return kernels_reference();
    return s->plain ? kernels_plain() : kernels_select(cpu_features());
}

enum kv_rep engine_kv_rep(const struct hasten_engine_settings *s)
{
    static const enum kv_rep reps[] = {[HASTEN_KV_F16] = KV_F16,
                                       [HASTEN_KV_F32] = KV_F32,
                                       [HASTEN_KV_BF16] = KV_BF16,
                                       [HASTEN_KV_Q8] = KV_Q8,
                                       [HASTEN_KV_Q4] = KV_Q4};
    return reps[s->kv_type];
}

int32_t engine_lanes(const struct model_desc *d, struct kv_lane *lanes)
{
    int32_t n = 0;
    for (int32_t i = 0; i < d->n_kv_slots;
         i++) /* one slot a layer in layer order, or one for all (encoders) */
        for (int32_t h = 0; h < d->layers[i].n_head_kv; h++, n++)
            if (lanes)
                lanes[n] = (struct kv_lane){d->layers[i].d_k, d->layers[i].d_v};
    return n;
}

size_t entries_bytes(const struct hasten_engine_settings *s, int32_t n_lanes)
{
    const size_t pages = ((size_t)s->n_ctx + KV_PAGE - 1) / KV_PAGE;
    return (size_t)n_lanes * (1 + pages * KV_PAGE) * sizeof(int32_t);
}

/* Pages that every lane can have: the positions asked for, and for each further sequence one page partly used (but for
 * those that a store keeps: it gives them up). */
int64_t engine_kv_pages(const struct hasten_engine_settings *s)
{
    return (s->kv_positions + KV_PAGE - 1) / KV_PAGE + s->n_seq_max - s->n_kept - 1;
}

void widen_matrix(const struct kernels *k, const struct weight *w, struct widths *out)
{
    const enum act_form f = k->form_of(w->type, w->k);
    widen_size(&out->act_row[f], k->act_row_bytes(f, w->k));
    widen_size(&out->matmul_scratch, k->matmul_scratch_bytes(w));
}

void engine_widths(const struct hasten_model *m, const struct kernels *k, enum kv_rep rep, struct widths *out)
{
    const struct model_desc *d = &m->desc;
    memset(out, 0, sizeof *out);
    if (m->script)
        return; /* no activations */
    out->d = d->d_model;
    if (!d->encoder) /* encoders have no head */
        widen_matrix(k, &d->output, out);
    for (int32_t i = 0; i < d->n_ropes; i++)
        widen(&out->rot, d->ropes[i].n_rot);
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct layer *l = &d->layers[i];
        widen(&out->q, (int64_t)l->n_head * l->d_k);
        widen(&out->k, (int64_t)l->n_head_kv * l->d_k);
        widen(&out->v, (int64_t)l->n_head_kv * l->d_v);
        widen(&out->att, (int64_t)l->n_head * l->d_v);
        const struct weight *mats[LAYER_MATRICES];
        const int32_t n_mats = layer_matrices(l, mats);
        for (int32_t j = 0; j < n_mats; j++)
            widen_matrix(k, mats[j], out);
        if (l->ffn == FFN_MOE) {
            moe_widths(k, l, out);
        } else {
            widen(&out->ff, l->d_ff);
            widen_size(&out->hidden_row,
                       k->act_row_bytes(k->form_of(l->w_down.type, l->w_down.k), l->w_down.k));
        }
        widen_size(&out->attn_scratch, attention_scratch_bytes(k, rep, l));
    }
}

/* A bump allocator that measures when base is NULL. */
struct bump {
    uint8_t *base;
    size_t used;
};

static void *bump_take(struct bump *b, size_t bytes)
{
    void *p = b->base ? b->base + b->used : NULL;
    b->used += (bytes + 63) & ~(size_t)63;
    return p;
}

static float *bump_floats(struct bump *b, int64_t n_rows, int64_t width)
{
    return bump_take(b, (size_t)n_rows * (size_t)width * sizeof(float));
}

static void lay_out_moe(struct bump *b, int64_t n_batch, const struct widths *w, struct moe_buffers *m)
{
    const int64_t n = n_batch * w->n_used;
    const size_t ids = (size_t)n * sizeof(int32_t);
    if (!w->n_expert)
        return;
    m->router = bump_floats(b, n_batch, w->n_expert);
    m->expert = bump_take(b, ids);
    m->weight = bump_floats(b, n, 1);
    m->entry = bump_take(b, ids);
    m->row = bump_take(b, ids);
    m->next = bump_take(b, (size_t)w->n_expert * sizeof(int32_t));
    m->group_expert = bump_take(b, (size_t)w->n_expert * sizeof(int32_t));
    m->group_first = bump_take(b, (size_t)(w->n_expert + 1) * sizeof(int32_t));
    for (int f = 0; f < 3; f++)
        m->act[f] = bump_take(b, (size_t)n * w->expert_act_row[f]);
    m->gate = bump_floats(b, n, w->expert_ff);
    m->up = bump_floats(b, n, w->expert_ff);
    m->hidden = bump_take(b, (size_t)n * w->expert_hidden_row);
    m->out = bump_floats(b, n, w->d);
}

size_t engine_layout(const struct hasten_model *m, const struct hasten_engine_settings *s,
                     const struct widths *w, uint8_t *arena, struct buffers *buf, struct pass *pass)
{
    struct bump b = {arena, 0};
    const int64_t n = s->n_batch;
    const size_t rows = (size_t)n;
    memset(buf, 0, sizeof *buf);
    memset(pass, 0, sizeof *pass);
    buf->x = bump_floats(&b, n, w->d);
    buf->norm = bump_floats(&b, n, w->d);
    buf->q = bump_floats(&b, n, w->q);
    buf->k = bump_floats(&b, n, w->k);
    buf->v = bump_floats(&b, n, w->v);
    buf->att = bump_floats(&b, n, w->att);
    buf->gate = bump_floats(&b, n, w->ff);
    buf->up = bump_floats(&b, n, w->ff);
    buf->out = bump_floats(&b, n, w->d);
    buf->cos = bump_floats(&b, n * m->desc.n_ropes, w->rot / 2);
    buf->sin = bump_floats(&b, n * m->desc.n_ropes, w->rot / 2);
    buf->inv_freq = bump_take(&b, (size_t)m->desc.n_ropes * (size_t)(w->rot / 2) * sizeof(double));
    buf->key_mean = key_mean_used(engine_kv_rep(s), &m->desc) ? bump_floats(&b, m->desc.n_layer, w->k) : NULL;
    for (int f = 0; f < 3; f++)
        buf->act[f] = bump_take(&b, rows * w->act_row[f]);
    buf->hidden = bump_take(&b, rows * w->hidden_row);
    lay_out_moe(&b, n, w, &buf->moe);
    buf->logits = bump_floats(&b, s->n_logits, m->desc.n_vocab);
    buf->panels =
        bump_take(&b, ((size_t)m->desc.n_vocab + PANEL_ROWS - 1) / PANEL_ROWS * sizeof *buf->panels);
    const size_t linear_scratch = w->matmul_scratch + gated_scratch_bytes();
    buf->scratch_bytes =
        ((linear_scratch > w->attn_scratch ? linear_scratch : w->attn_scratch) + 127) & ~(size_t)63;
    size_t partial = 0;
    for (int32_t i = 0; i < m->desc.n_layer; i++)
        widen_size(&partial, attention_partial_bytes(s, &m->desc.layers[i]));
    buf->partial = partial ? bump_take(&b, partial) : NULL;
    buf->scratch = bump_take(&b, (size_t)s->n_threads * buf->scratch_bytes);
    pass->token = bump_take(&b, rows * sizeof *pass->token);
    pass->pos = bump_take(&b, rows * sizeof *pass->pos);
    pass->seq = bump_take(&b, rows * sizeof *pass->seq);
    pass->blocks = bump_take(&b, rows * sizeof *pass->blocks);
    pass->head = bump_take(&b, rows * sizeof *pass->head);
    pass->head_row = bump_take(&b, rows * sizeof *pass->head_row);
    return b.used;
}

static uint64_t seq_bytes(const struct hasten_engine_settings *s, int32_t n_lanes)
{
    const uint64_t pages = ((uint64_t)s->n_ctx + KV_PAGE - 1) / KV_PAGE;
    return (uint64_t)s->n_seq_max * (sizeof(struct hasten_seq) + (uint64_t)s->n_ctx * sizeof(int32_t) +
                                     pages * (uint64_t)n_lanes * sizeof(int32_t));
}

/* Fewer experts present at once than all, as many as the limit leaves room for; never too few for a pass. */
static hasten_status plan_experts(const struct hasten_model *m, const struct hasten_engine_settings *s,
                                  struct hasten_plan *p, struct hasten_error *err)
{
    struct expert_plan x;
    const hasten_status st = experts_plan(m, s->n_batch, &x, err);
    const uint64_t rest = p->total_bytes - x.all;
    p->expert_bytes = x.all;
    if (st || !s->memory_limit || p->total_bytes <= s->memory_limit)
        return st;
    p->expert_bytes = s->memory_limit > rest + x.least ? s->memory_limit - rest : x.least;
    p->file_bytes -= x.all - p->expert_bytes;
    p->total_bytes -= x.all - p->expert_bytes;
    return HASTEN_OK;
}

static hasten_status plan_methods(const struct hasten_model *m, const struct hasten_engine_settings *s,
                                  struct widths *w, uint64_t *bytes, struct hasten_error *err)
{
    const struct method_site site = method_site_of(m, s);
    struct method_set set;
    const hasten_status st = method_set_open(&site, &set, err);
    if (st)
        return st;
    *bytes = method_set_plan(&site, &set);
    if (set.reweighting.use)
        reweighting_widen(&site, set.reweighting.use, w);
    if (set.caching.use)
        *bytes += (uint64_t)s->n_seq_max * entries_bytes(s, engine_lanes(&m->desc, NULL));
    method_set_close(&set);
    return HASTEN_OK;
}

static hasten_status plan(const struct hasten_model *m, const struct hasten_engine_settings *s,
                          struct hasten_plan *out, struct hasten_error *err)
{
    struct widths w;
    struct buffers buf;
    struct pass pass;
    const int32_t n_lanes = engine_lanes(&m->desc, NULL);
    struct kv_lane *lanes = mem_array((size_t)n_lanes, sizeof *lanes);
    if (!lanes)
        return error_set(err, HASTEN_ERR_MEMORY, "planning memory: out of memory for %d lanes", n_lanes);
    engine_lanes(&m->desc, lanes);
    memset(out, 0, sizeof *out);
    hasten_status st =
        kv_pool_size(engine_kv_rep(s), lanes, n_lanes, engine_kv_pages(s), &out->kv_bytes, err);
    mem_free(lanes);
    if (st)
        return st;
    engine_widths(m, engine_kernels(s), engine_kv_rep(s), &w);
    if ((st = plan_methods(m, s, &w, &out->method_bytes, err)))
        return st;
    struct mem_stats stats;
    mem_stats_get(&stats);
    out->file_bytes = gguf_file_bytes(m->gguf);
    out->kv_bytes += seq_bytes(s, n_lanes);
    out->compute_bytes = engine_layout(m, s, &w, NULL, &buf, &pass);
    /* The model's tables are alive already; what was alive before it is counted too, which errs on the safe side. */
    out->base_bytes = stats.live_bytes + BASE_RESERVE_BYTES + (uint64_t)s->n_threads * THREAD_RESERVE_BYTES;
    out->compute_bytes += packing_plan(m, s, &out->packed_bytes) + overlays_plan(m, s);
    out->total_bytes =
        out->file_bytes + out->kv_bytes + out->compute_bytes + out->base_bytes + out->method_bytes;
    return plan_experts(m, s, out, err);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* The limit asked for holds for everything; without one, what is not the file's must fit into what the system can
 * still give (the file's pages can be dropped and read again). */
static hasten_status check_limit(const struct hasten_engine_settings *s, const struct hasten_plan *p,
                                 struct hasten_error *err)
{
    uint64_t limit = s->memory_limit, available = 0;
    if (!limit) {
        hasten_status st = meminfo_available("/proc/meminfo", "/sys/fs/cgroup", &available, err);
        if (st)
            return st;
        if (checked_add_u64(available, p->file_bytes, &limit))
            return HASTEN_OK;
    }
    if (p->total_bytes <= limit)
        return HASTEN_OK;
    return error_set(
        err, HASTEN_ERR_MEMORY,
        "planning memory: %s %.1f MiB, needed are %.1f MiB: file %.1f, KV of %lld positions %.1f, "
        "buffers %.1f, program, tables and methods %.1f (expected a smaller context or %s)",
        s->memory_limit ? "the limit is" : "beside the file this machine can give",
        mib(s->memory_limit ? limit : available), mib(p->total_bytes), mib(p->file_bytes),
        (long long)s->kv_positions, mib(p->kv_bytes), mib(p->compute_bytes),
        mib(p->base_bytes + p->method_bytes), s->memory_limit ? "a higher --memory" : "more memory");
}

hasten_status hasten_engine_plan(const struct hasten_model *m, const struct hasten_engine_settings *settings,
                                 struct hasten_plan *out, struct hasten_error *err)
{
    struct hasten_engine_settings s = *settings;
    hasten_status st = engine_settle(m, &s, err);
    if (st || (st = plan(m, &s, out, err)))
        return st;
    return check_limit(&s, out, err);
}
