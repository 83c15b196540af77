/* The forward pass of encoders, in the manner of forward.c:
 *
 *     x = LN(embed(token) + position + type 0)
 *     for each layer:  x = LN(x + W_o attention(W_q x + b_q, ...) + b_o);  x = LN(x + W_down gelu(W_up x + b_up) + b_down)
 *
 * An item is whole in its pass, and its rows see all of it. Items of a pass lie behind each other without padding, and a
 * row's arithmetic is the same whoever shares the pass: embed.c gives the same bits alone and packed. Keys and values
 * are kept for one layer at a time, in the pages of a sequence that ends with the pass. */
#include "engine/engine.h"

#define ROWS_PER_CLAIM 4

struct encode_ctx {
    struct hasten_engine *e;
    const struct layer *l;
    const float *bias, *norm, *norm_bias; /* of the sum that is being normed */
};

static void embed_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct hasten_engine *e = ((struct encode_ctx *)ctx)->e;
    const struct model_desc *d = &e->model->desc;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *x = e->buf.x + i * d->d_model, *part = e->buf.out + i * d->d_model;
        e->kernels->row_gather(&e->token_embd, e->pass.token[i], x);
        e->kernels->row_gather(&d->position_embd, e->pass.pos[i], part);
        e->kernels->add(part, d->d_model, x);
        e->kernels->row_gather(&d->token_types, 0, part);
        e->kernels->add(part, d->d_model, x);
        layer_norm(x, d->embd_norm, d->embd_norm_bias, d->d_model, d->norm_eps, x);
    }
}

/* Biases of q, k and v; k and v go to the sequence's pages. */
static void store_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct encode_ctx *c = ctx;
    struct hasten_engine *e = c->e;
    const struct layer *l = c->l;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *q = e->buf.q + i * l->n_head * l->d_k;
        float *k = e->buf.k + i * l->n_head * l->d_k;
        float *v = e->buf.v + i * l->n_head * l->d_v;
        e->kernels->add(l->bq, (int64_t)l->n_head * l->d_k, q);
        e->kernels->add(l->bk, (int64_t)l->n_head * l->d_k, k);
        e->kernels->add(l->bv, (int64_t)l->n_head * l->d_v, v);
        store_kv(e, l, 0, i, k, v);
    }
}

/* x = LN(x + out + bias) */
static void norm_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct encode_ctx *c = ctx;
    const struct model_desc *d = &c->e->model->desc;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *x = c->e->buf.x + i * d->d_model;
        c->e->kernels->add(c->bias, d->d_model, x);
        c->e->kernels->add(c->e->buf.out + i * d->d_model, d->d_model, x);
        layer_norm(x, c->norm, c->norm_bias, d->d_model, d->norm_eps, x);
    }
}

static void activate_rows(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct encode_ctx *c = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *up = c->e->buf.up + i * c->l->d_ff;
        c->e->kernels->add(c->l->b_up, c->l->d_ff, up);
        gelu_erf(c->l->d_ff, up);
    }
}

static void sum_and_norm(struct encode_ctx *c, const float *bias, const float *norm, const float *norm_bias)
{
    c->bias = bias;
    c->norm = norm;
    c->norm_bias = norm_bias;
    pool_for(c->e->pool, c->e->pass.n_rows, ROWS_PER_CLAIM, norm_rows, c);
    engine_lap(c->e, ENGINE_OP_ADD);
}

static void encode_layer(struct encode_ctx *c)
{
    struct hasten_engine *e = c->e;
    const struct layer *l = c->l;
    const int32_t n = e->pass.n_rows;
    const int64_t d = e->model->desc.d_model;
    const struct linear qkv[] = {{&l->wq, e->buf.q}, {&l->wk, e->buf.k}, {&l->wv, e->buf.v}};
    linear_group(e, &(struct linear_input){e->buf.x, d, NULL}, n, qkv, 3);
    engine_lap(e, ENGINE_OP_QKV);
    pool_for(e->pool, n, store_kv_claim(n), store_rows, c);
    engine_lap(e, ENGINE_OP_ROPE_STORE);
    attention_layer(e, l, 0, false);
    engine_lap(e, ENGINE_OP_ATTENTION);
    linear_group(e, &(struct linear_input){e->buf.att, (int64_t)l->n_head * l->d_v, NULL}, n,
                 &(struct linear){&l->wo, e->buf.out}, 1);
    engine_lap(e, ENGINE_OP_O);
    sum_and_norm(c, l->bo, l->attn_post_norm, l->attn_post_bias);

    linear_group(e, &(struct linear_input){e->buf.x, d, NULL}, n, &(struct linear){&l->w_up, e->buf.up}, 1);
    engine_lap(e, ENGINE_OP_GATE_UP);
    pool_for(e->pool, n, ROWS_PER_CLAIM, activate_rows, c);
    engine_lap(e, ENGINE_OP_ACTIVATION);
    linear_group(e, &(struct linear_input){e->buf.up, l->d_ff, NULL}, n,
                 &(struct linear){&l->w_down, e->buf.out}, 1);
    engine_lap(e, ENGINE_OP_DOWN);
    sum_and_norm(c, l->b_down, l->ffn_post_norm, l->ffn_post_bias);
}

hasten_status encode_pass(struct hasten_engine *e, const volatile int *cancel, struct hasten_error *err)
{
    const struct model_desc *d = &e->model->desc;
    struct encode_ctx c = {.e = e};
    engine_lap(e, ENGINE_OP_STEP);
    pool_for(e->pool, e->pass.n_rows, ROWS_PER_CLAIM, embed_rows, &c);
    engine_lap(e, ENGINE_OP_EMBED);
    for (int32_t i = 0; i < d->n_layer; i++) {
        if (cancel && *cancel)
            return error_set(err, HASTEN_ERR_CANCELLED, "running a step: cancelled at layer %d of %d", i,
                             d->n_layer);
        c.l = &e->layers[i];
        encode_layer(&c);
    }
    e->counters.passes++;
    e->counters.rows += (uint64_t)e->pass.n_rows;
    return HASTEN_OK;
}
