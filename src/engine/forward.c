/* The forward pass: the array of layer descriptions, walked once for all rows of a pass.
 *
 *     x = embed(token), or the vector that is given in its place
 *     for each layer:  x += post(W_o attention(rope(norm_q(W_q n(x) + b_q)), ...));  x += post(W_down act(W_gate n(x)) * W_up n(x))
 *     logits = W_head n(x)            for the rows asked for (head.c)
 *
 * Every row's arithmetic is the same whatever rows share the pass; work is split over rows, heads and output
 * rows, never over a summed dimension. Nothing here allocates. */
#include "engine/overlay.h"
#include <math.h>
#include <string.h>

#define ROWS_PER_CLAIM 4
#define ROWS_PER_LINE 32 /* positions of a transposed key that share a cache line */

struct rows_ctx {
    struct hasten_engine *e;
    const struct layer *l;
    int32_t layer, first_lane;
    const float *bias, *post_norm; /* of the block whose output is being added */
    bool fill;                     /* keys and values alone: all rows have left */
};

/* ---- embedding and rotation tables -------------------------------------------------------------------- */

static void embed_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct hasten_engine *e = ((struct rows_ctx *)ctx)->e;
    const struct model_desc *d = &e->model->desc;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *x = e->buf.x + i * d->d_model;
        const struct hasten_seq *s = e->pass.seq[i];
        if (e->pass.token[i] < 0)
            memcpy(x, s->embd + (int64_t)(e->pass.pos[i] - s->old_length) * d->d_model,
                   (size_t)d->d_model * sizeof *x);
        else
            e->kernels->row_gather(&e->token_embd, e->pass.token[i], x);
        if (d->embd_scale != 1.0f && e->pass.token[i] >= 0)
            e->kernels->scale(d->embd_scale, d->d_model, x);
        for (int32_t r = 0; r < d->n_ropes; r++) {
            const int64_t half = e->widths.rot / 2, at = ((int64_t)r * e->settings.n_batch + i) * half;
            const double magnitude = (double)d->ropes[r].magnitude;
            for (int32_t j = 0; j < d->ropes[r].n_rot / 2; j++) {
                const double angle = e->pass.pos[i] * e->buf.inv_freq[r * half + j];
                e->buf.cos[at + j] = (float)(cos(angle) * magnitude);
                e->buf.sin[at + j] = (float)(sin(angle) * magnitude);
            }
        }
    }
}

/* ---- attention block ---------------------------------------------------------------------------------- */

/* The rope of a layer, for a row: LongRoPE has another one for long sequences. */
static int32_t rope_of(const struct rows_ctx *c, int64_t row)
{
    const int32_t r = c->l->rope;
    return c->e->pass.seq[row]->beyond ? c->e->model->desc.ropes[r].beyond : r;
}

/* Bias, norm and rotation of n_head heads of one row, in place. */
static void finish_heads(const struct rows_ctx *c, int64_t row, float *x, int32_t n_head, const float *bias,
                         const float *norm)
{
    const struct hasten_engine *e = c->e;
    const struct kernels *kn = e->kernels;
    const struct layer *l = c->l;
    const int32_t r = rope_of(c, row);
    const struct rope_spec *rope = &e->model->desc.ropes[r];
    const int64_t at = ((int64_t)r * e->settings.n_batch + row) * (e->widths.rot / 2);
    if (bias)
        kn->add(bias, (int64_t)n_head * l->d_k, x);
    for (int32_t h = 0; h < n_head; h++) {
        float *head = x + (int64_t)h * l->d_k;
        if (norm)
            kn->rms_norm(head, norm, l->d_k, e->model->desc.norm_eps, head);
        kn->rope(head, e->buf.cos + at, e->buf.sin + at, rope->n_rot, rope->neox);
    }
}

void store_kv(struct hasten_engine *e, const struct layer *l, int32_t first_lane, int64_t row, const float *k,
              const float *v)
{
    const int32_t pos = e->pass.pos[row];
    for (int32_t h = 0; h < l->n_head_kv; h++) {
        const struct kv_seq *s = &e->pass.seq[row]->kv;
        const int32_t entry = pos - kv_removed(s, first_lane + h);
        const struct kv_tile t = kv_tile_at(&e->kv, s, entry / KV_PAGE, first_lane + h);
        e->kernels->kv_store(t.rep, l->d_k, l->d_v, entry % KV_PAGE, k + (int64_t)h * l->d_k,
                             v + (int64_t)h * l->d_v, (void *)(uintptr_t)t.k, (void *)(uintptr_t)t.v);
    }
}

int64_t store_kv_claim(int32_t n_rows)
{
    return n_rows >= 2 * ROWS_PER_LINE ? ROWS_PER_LINE : ROWS_PER_CLAIM;
}

/* q and k get bias, norm and rotation; k and v go to the sequence's pages. Of rows that left (depth.h) q is not there. */
static void finish_qkv_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct rows_ctx *c = ctx;
    struct hasten_engine *e = c->e;
    const struct layer *l = c->l;
    const float *mean = key_mean_of(e, l);
    float *scratch = (float *)(void *)(e->buf.scratch + (size_t)worker * e->buf.scratch_bytes);
    for (int64_t i = begin; i < end; i++) {
        float *q = e->buf.q + i * l->n_head * l->d_k;
        float *k = e->buf.k + i * l->n_head_kv * l->d_k;
        float *v = e->buf.v + i * l->n_head_kv * l->d_v;
        if (!c->fill)
            finish_heads(c, i, q, l->n_head, l->bq, l->q_norm);
        finish_heads(c, i, k, l->n_head_kv, l->bk, l->k_norm);
        if (mean)
            e->kernels->add(mean, (int64_t)l->n_head_kv * l->d_k, k);
        if (key_pairs_adjacent(e, l)) {
            if (!c->fill)
                key_make_pairs_adjacent(l->n_head, l->d_k, q, scratch);
            key_make_pairs_adjacent(l->n_head_kv, l->d_k, k, scratch);
        }
        if (l->bv)
            e->kernels->add(l->bv, (int64_t)l->n_head_kv * l->d_v, v);
        store_kv(e, l, c->first_lane, i, k, v);
    }
}

/* x += post(out + bias) */
static void add_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct rows_ctx *c = ctx;
    const struct model_desc *d = &c->e->model->desc;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *out = c->e->buf.out + i * d->d_model;
        if (c->bias)
            c->e->kernels->add(c->bias, d->d_model, out);
        if (c->post_norm)
            c->e->kernels->rms_norm(out, c->post_norm, d->d_model, d->norm_eps, out);
        c->e->kernels->add(out, d->d_model, c->e->buf.x + i * d->d_model);
    }
}

static void attention_block(struct rows_ctx *c)
{
    struct hasten_engine *e = c->e;
    const struct layer *l = c->l;
    const int32_t n = e->pass.n_rows;
    const struct linear qkv[] = {{&l->wq, e->buf.q}, {&l->wk, e->buf.k}, {&l->wv, e->buf.v}};
    linear_next(e, &l->wo, NULL, NULL);
    linear_group(e, &(struct linear_input){e->buf.x, e->model->desc.d_model, l->attn_norm}, n, qkv, 3);
    engine_lap(e, ENGINE_OP_QKV);
    pool_for(e->pool, n, store_kv_claim(n), finish_qkv_rows, c);
    engine_lap(e, ENGINE_OP_ROPE_STORE);

    switch (l->attn) {
    case ATTN_GQA:
    case ATTN_ALL:
        cache_watch(e, l, c->layer);
        attention_layer(e, l, c->first_lane, attend_rows(e, l, c->layer, c->first_lane));
        break;
    }
    engine_lap(e, ENGINE_OP_ATTENTION);

    linear_next(e, &l->w_gate, &l->w_up, NULL);
    linear_group(e, &(struct linear_input){e->buf.att, (int64_t)l->n_head * l->d_v, NULL}, n,
                 &(struct linear){&l->wo, e->buf.out}, 1);
    engine_lap(e, ENGINE_OP_O);
    c->bias = l->bo;
    c->post_norm = l->attn_post_norm;
    pool_for(e->pool, n, ROWS_PER_CLAIM, add_rows, c);
    engine_lap(e, ENGINE_OP_ADD);
}

/* ---- feed-forward block ------------------------------------------------------------------------------- */

void engine_activate(const struct kernels *kn, enum ffn_kind kind, float *gate, const float *up, int64_t n)
{
    switch (kind) {
    case FFN_SWIGLU:
        kn->silu_mul(gate, up, n, gate);
        break;
    case FFN_GEGLU:
        kn->gelu_mul(gate, up, n, gate);
        break;
    case FFN_GELU: /* encode.c */
    case FFN_MOE:  /* moe.c */
        break;
    }
}

static void activate_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct rows_ctx *c = ctx;
    const struct layer *l = c->l;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *gate = c->e->buf.gate + i * l->d_ff, *up = c->e->buf.up + i * l->d_ff;
        if (l->b_gate)
            c->e->kernels->add(l->b_gate, l->d_ff, gate);
        if (l->b_up)
            c->e->kernels->add(l->b_up, l->d_ff, up);
        engine_activate(c->e->kernels, l->ffn, gate, up, l->d_ff);
    }
}

static void ffn_block(struct rows_ctx *c)
{
    struct hasten_engine *e = c->e;
    const struct layer *l = c->l;
    const int32_t n = e->pass.n_rows;
    const struct linear_input in = {e->buf.x, e->model->desc.d_model, l->ffn_norm};
    const bool overlaid = overlay_on(e, &l->w_gate) || overlay_on(e, &l->w_up) || overlay_on(e, &l->w_down);
    if (l->ffn == FFN_MOE) {
        moe_block(e, l);
    } else if (!l->b_gate && !l->b_up && !overlaid && gated_pays(e, n)) {
        linear_gated(e, &in, n, l);
        engine_lap(e, ENGINE_OP_GATE_UP);
        linear_hidden(e, &l->w_down, n, e->buf.out);
    } else {
        const struct linear gate_up[] = {{&l->w_gate, e->buf.gate}, {&l->w_up, e->buf.up}};
        linear_next(e, &l->w_down, NULL, NULL);
        linear_group(e, &in, n, gate_up, 2);
        engine_lap(e, ENGINE_OP_GATE_UP);
        pool_for(e->pool, n, ROWS_PER_CLAIM, activate_rows, c);
        engine_lap(e, ENGINE_OP_ACTIVATION);
        if (c->layer + 1 < e->model->desc.n_layer)
            linear_next(e, &l[1].wq, &l[1].wk, &l[1].wv);
        else
            linear_next(e, &e->output, NULL, NULL);
        linear_group(e, &(struct linear_input){e->buf.gate, l->d_ff, NULL}, n,
                     &(struct linear){&l->w_down, e->buf.out}, 1);
    }
    engine_lap(e, ENGINE_OP_DOWN);
    c->bias = l->b_down;
    c->post_norm = l->ffn_post_norm;
    pool_for(e->pool, n, ROWS_PER_CLAIM, add_rows, c);
    engine_lap(e, ENGINE_OP_ADD);
}

/* ---- depth -------------------------------------------------------------------------------------------- */

/* The keys and values of a layer that no row runs any more. */
static void fill_block(struct rows_ctx *c)
{
    struct hasten_engine *e = c->e;
    const struct layer *l = c->l;
    const int32_t n = e->pass.n_rows;
    const struct linear kv[] = {{&l->wk, e->buf.k}, {&l->wv, e->buf.v}};
    linear_group(e, &(struct linear_input){e->buf.x, e->model->desc.d_model, l->attn_norm}, n, kv, 2);
    engine_lap(e, ENGINE_OP_QKV);
    c->fill = true;
    pool_for(e->pool, n, store_kv_claim(n), finish_qkv_rows, c);
    attend_append(e, l, c->layer, c->first_lane);
    engine_lap(e, ENGINE_OP_ROPE_STORE);
}

static void run_layer(struct rows_ctx *c)
{
    struct hasten_engine *e = c->e;
    if (e->methods.deepening.any_skipped && layer_set_has(&e->methods.deepening.skipped, c->layer))
        return;
    depth_gate(e, c->layer);
    if (e->methods.deepening.gate && e->methods.deepening.n_left == e->pass.n_rows) {
        fill_block(c);
        return;
    }
    depth_keep(e);
    attention_block(c);
    ffn_block(c);
    depth_restore(e);
    e->counters.layer_rows += e->methods.deepening.recording ? 0 : (uint64_t)e->pass.n_rows;
}

/* ---- the pass ----------------------------------------------------------------------------------------- */

static hasten_status run_layers(struct hasten_engine *e, const volatile int *cancel, struct hasten_error *err)
{
    const struct model_desc *d = &e->model->desc;
    struct rows_ctx c = {.e = e};
    pool_for(e->pool, e->pass.n_rows, ROWS_PER_CLAIM, embed_rows, &c);
    engine_lap(e, ENGINE_OP_EMBED);
    for (int32_t i = 0; i < d->n_layer; i++) {
        if (cancel && *cancel)
            return error_set(err, HASTEN_ERR_CANCELLED, "running a step: cancelled at layer %d of %d", i,
                             d->n_layer);
        c.l = &e->layers[i];
        c.layer = i;
        run_layer(&c);
        c.first_lane += c.l->n_head_kv;
    }
    return HASTEN_OK;
}

hasten_status forward_pass(struct hasten_engine *e, const volatile int *cancel, struct hasten_error *err)
{
    if (e->model->script)
        return scripted_pass(e, cancel, err);
    engine_lap(e, ENGINE_OP_STEP);
    depth_begin(e);
    e->methods.deepening.recording = depth_foresees(e);
    const bool twice = e->methods.deepening.recording;
    hasten_status st = run_layers(e, cancel, err);
    if (!st && twice) {
        depth_foreseen(e);
        st = run_layers(e, cancel, err);
    }
    if (st)
        return st;
    e->counters.passes++;
    e->counters.rows += (uint64_t)e->pass.n_rows;
    return HASTEN_OK;
}
