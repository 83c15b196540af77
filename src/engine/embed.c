/* Embeddings: the last rows of a pass, pooled into one vector for each text. Encoders see a text whole, in one pass
 * with as many others as fit; decoders read it as they read any prompt. Owns the sequences that hold the texts
 * meanwhile: they end with the call, so that nothing of it is kept.
 *
 * Rows are added in ascending order, and a row's bits do not depend on who shares a pass (design rule 2): a text's
 * vector is the same alone and in any company. */
#include "engine/engine.h"
#include <math.h>
#include <string.h>

struct embedding {
    const struct hasten_text *texts; /* of the group */
    enum hasten_pooling pooling;
    float *out; /* [texts of the group × d] */
};

static hasten_status check_text(const struct hasten_engine *e, const struct hasten_text *texts, int32_t i,
                                struct hasten_error *err)
{
    const struct hasten_text *t = &texts[i];
    const int32_t n_vocab = e->model->desc.n_vocab;
    if (t->n < 1)
        return error_set(err, HASTEN_ERR_USAGE, "embedding text %d: found no tokens (expected at least 1)",
                         i);
    if (t->n > e->settings.n_ctx)
        return error_set(err, HASTEN_ERR_FULL, "embedding text %d: found %d tokens (expected at most %d)", i,
                         t->n, e->settings.n_ctx);
    for (int32_t j = 0; j < t->n; j++)
        if (t->tokens[j] < 0 || t->tokens[j] >= n_vocab)
            return error_set(err, HASTEN_ERR_USAGE,
                             "embedding text %d, token %d: found id %d (expected 0 to %d)", i, j,
                             t->tokens[j], n_vocab - 1);
    return HASTEN_OK;
}

/* The rows of a pass into the vectors of their texts. */
static bool pool_rows(struct hasten_engine *e, void *ctx)
{
    const struct embedding *b = ctx;
    const struct model_desc *d = &e->model->desc;
    for (int32_t i = 0; i < e->pass.n_head; i++) {
        const struct hasten_logits_row at = e->pass.head[i];
        const bool first = at.row == 0, last = at.row == b->texts[at.item].n - 1;
        const float *x = e->buf.x + (int64_t)e->pass.head_row[i] * d->d_model;
        float *to = b->out + (int64_t)at.item * d->d_model;
        if (b->pooling == HASTEN_POOLING_CLS ? !first : b->pooling == HASTEN_POOLING_LAST && !last)
            continue;
        if (!d->encoder) {
            e->kernels->rms_norm(x, d->output_norm, d->d_model, d->norm_eps, e->buf.out);
            x = e->buf.out;
        }
        if (b->pooling == HASTEN_POOLING_MEAN && !first)
            e->kernels->add(x, d->d_model, to);
        else
            memcpy(to, x, (size_t)d->d_model * sizeof *to);
        if (b->pooling == HASTEN_POOLING_MEAN && last)
            e->kernels->scale(1.0f / (float)b->texts[at.item].n, d->d_model, to);
    }
    return true;
}

/* To length 1; a vector of zeros stays. False: a value is not a number. */
static bool finish(float *v, int32_t n, bool normalize)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    if (!isfinite(sum))
        return false;
    const double scale = sum > 0 ? 1.0 / sqrt(sum) : 0;
    for (int32_t i = 0; i < n && normalize; i++)
        v[i] = (float)((double)v[i] * scale);
    return true;
}

#define MAX_GROUP 64 /* texts of a group */

/* Opens a sequence for each of the first texts that go together; their number, at least 1 unless none is free. */
static int32_t open_group(struct hasten_engine *e, const struct hasten_text *texts, int32_t n_texts,
                          struct hasten_item *items, struct hasten_error *err)
{
    int32_t n = 0, rows = 0;
    for (; n < n_texts && n < MAX_GROUP; n++) {
        if (n > 0 && rows + texts[n].n > e->settings.n_batch)
            break;
        struct hasten_seq *seq = NULL;
        if (hasten_seq_open(e, &seq, n ? NULL : err))
            break;
        items[n] =
            (struct hasten_item){.seq = seq, .tokens = texts[n].tokens, .n = texts[n].n, .want_from = 0};
        rows += texts[n].n;
    }
    return n;
}

static enum hasten_pooling pooling_of(const struct hasten_engine *e, enum hasten_pooling asked)
{
    return asked == HASTEN_POOLING_MODEL ? hasten_model_pooling(e->model) : asked;
}

hasten_status hasten_embed(struct hasten_engine *e, const struct hasten_text *texts, int32_t n_texts,
                           enum hasten_pooling pooling, bool normalize, float *out,
                           const volatile int *cancel, struct hasten_error *err)
{
    struct hasten_item items[MAX_GROUP];
    const int32_t d = e->model->desc.d_model;
    hasten_status st = HASTEN_OK;
    if (e->model->script)
        return error_set(err, HASTEN_ERR_UNSUPPORTED, "embedding: unsupported with a scripted model");
    pooling = pooling_of(e, pooling);
    if (pooling < HASTEN_POOLING_MEAN || pooling > HASTEN_POOLING_LAST)
        return error_set(err, HASTEN_ERR_USAGE,
                         "embedding: the model names no pooling (expected mean, cls or last)");
    for (int32_t i = 0; i < n_texts && !st; i++)
        st = check_text(e, texts, i, err);
    for (int32_t at = 0, n; at < n_texts && !st; at += n) {
        if ((n = open_group(e, texts + at, n_texts - at, items, err)) == 0)
            return HASTEN_ERR_FULL;
        struct embedding b = {texts + at, pooling, out + (int64_t)at * d};
        st = engine_run(e, items, n, pool_rows, &b, cancel, err);
        for (int32_t i = 0; i < n; i++) {
            hasten_seq_close(items[i].seq);
            if (!st && !finish(b.out + (int64_t)i * d, d, normalize))
                st = error_set(err, HASTEN_ERR_NON_FINITE, "embedding text %d: its vector is not finite",
                               at + i);
        }
    }
    return st;
}
