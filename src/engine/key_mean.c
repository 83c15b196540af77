/* What makes keys easier to keep in few bits, without changing a score in exact arithmetic: the mean of their bias
 * is taken from them, and components of like frequency lie together.
 *
 * Some models (Qwen 2 and 2.5) add a bias to keys that is a hundred times as large as what it is added to, in a
 * few components of low rotary frequency. Rounding such keys to 8 bits loses the rest. But a constant vector c
 * taken from every key of a head lowers all scores of a query by the same q c, and softmax does not see it. So
 * where keys are kept in bf16, q8 or q4, c = the mean of the rotated bias over the positions 0 .. 8191 is taken from
 * them: the bias turned by w L/2 and shortened by sin(w L/2) / (w L/2) in each rotary pair of frequency w, almost
 * all of it in the low ones, nothing in the high ones. Beyond 8,192 positions c is less good, never wrong.
 *
 * What is left is still largest in the low frequencies. Where the components of a rotary pair lie half a head
 * apart (NeoX), queries and keys are reordered for q8 and q4 so that pairs are adjacent: then the 32 components that
 * share a scale are of neighbouring frequencies, and only the low ones pay for the low ones.
 *
 * No mean with a softcap, which is no function of differences of scores, nor with sinks, logits that no key lowers,
 * nor where keys are normed after the bias. */
#include "engine/engine.h"
#include <math.h>
#include <string.h>

#define MEAN_POSITIONS 8192.0

static bool has_mean(enum kv_rep rep, const struct layer *l)
{
    return (rep == KV_BF16 || rep == KV_Q8 || rep == KV_Q4) && l->bk && !l->k_norm && !l->sinks &&
           l->softcap <= 0;
}

bool key_mean_used(enum kv_rep rep, const struct model_desc *d)
{
    for (int32_t i = 0; i < d->n_layer; i++)
        if (has_mean(rep, &d->layers[i]))
            return true;
    return false;
}

/* -c of one head. */
static void fill_head(const struct rope_spec *rope, const double *inv_freq, const float *bias, int32_t d_k,
                      float *out)
{
    const int32_t half = rope->n_rot / 2;
    for (int32_t d = rope->n_rot; d < d_k; d++)
        out[d] = -bias[d]; /* not rotated */
    for (int32_t i = 0; i < half; i++) {
        const int32_t at = rope->neox ? i : 2 * i, to = rope->neox ? i + half : 2 * i + 1;
        const double angle = inv_freq[i] * MEAN_POSITIONS / 2,
                     size = (double)rope->magnitude * (angle > 0 ? sin(angle) / angle : 1);
        const double a = (double)bias[at], b = (double)bias[to];
        out[at] = (float)(-size * (a * cos(angle) - b * sin(angle)));
        out[to] = (float)(-size * (a * sin(angle) + b * cos(angle)));
    }
}

void key_mean_fill(struct hasten_engine *e)
{
    const struct model_desc *d = &e->model->desc;
    for (int32_t i = 0; e->buf.key_mean && i < d->n_layer; i++) {
        const struct layer *l = &e->layers[i];
        if (!has_mean(e->kv.rep, l))
            continue;
        for (int32_t h = 0; h < l->n_head_kv; h++)
            fill_head(&d->ropes[l->rope], e->buf.inv_freq + (int64_t)l->rope * (e->widths.rot / 2),
                      l->bk + (int64_t)h * l->d_k, l->d_k,
                      e->buf.key_mean + (int64_t)i * e->widths.k + (int64_t)h * l->d_k);
    }
}

const float *key_mean_of(const struct hasten_engine *e, const struct layer *l)
{
    if (!e->buf.key_mean || !has_mean(e->kv.rep, l))
        return NULL;
    return e->buf.key_mean + (l - e->layers) * e->widths.k;
}

bool key_pairs_adjacent(const struct hasten_engine *e, const struct layer *l)
{
    const struct rope_spec *rope = &e->model->desc.ropes[l->rope];
    return (e->kv.rep == KV_Q8 || e->kv.rep == KV_Q4) && rope->neox && rope->n_rot == l->d_k;
}

void key_make_pairs_adjacent(int64_t n_head, int64_t d_k, float *x, float *scratch)
{
    for (int64_t h = 0; h < n_head; h++, x += d_k) {
        for (int64_t i = 0; i < d_k / 2; i++) {
            scratch[2 * i] = x[i];
            scratch[2 * i + 1] = x[i + d_k / 2];
        }
        memcpy(x, scratch, (size_t)d_k * sizeof *x);
    }
}
