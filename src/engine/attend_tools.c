/* What methods of the stage attend share: reading a cache, sets of entries, the best k of them. */
#include "engine/attend.h"
#include <math.h>
#include <string.h>

void kv_view_read(const struct kv_view *v, int32_t from, int32_t n, float *k, float *out)
{
    for (int32_t i = 0; i < n; i++) {
        const struct kv_tile t = kv_tile_at(v->pool, v->seq, (from + i) / KV_PAGE, v->lane);
        kv_load(&t, v->d_k, v->d_v, (from + i) % KV_PAGE, k ? k + (int64_t)i * v->d_k : NULL,
                out ? out + (int64_t)i * v->d_v : NULL);
    }
}

int64_t kv_widest_key(const struct method_site *site)
{
    int64_t d = 0;
    for (int32_t i = 0; i < site->desc->n_layer; i++)
        d = site->desc->layers[i].d_k > d ? site->desc->layers[i].d_k : d;
    return d;
}

/* Bits [from, to) of a word, 0 <= from < to <= 64. */
static uint64_t bits_between(int32_t from, int32_t to)
{
    return (to == 64 ? ~(uint64_t)0 : ((uint64_t)1 << to) - 1) & ~(((uint64_t)1 << from) - 1);
}

static void change(uint64_t *seen, int32_t from, int32_t to, bool set)
{
    for (int32_t w = from / 64; from < to; w++, from = w * 64) {
        const int32_t end = to < (w + 1) * 64 ? to - w * 64 : 64;
        const uint64_t bits = bits_between(from - w * 64, end);
        seen[w] = set ? seen[w] | bits : seen[w] & ~bits;
    }
}

void attend_clear(uint64_t *seen, int32_t from, int32_t to)
{
    change(seen, from, to, false);
}

void attend_keep(uint64_t *seen, int32_t from, int32_t to)
{
    change(seen, from, to, true);
}

/* Is entry a before entry b in the order of attend_top_k? */
static bool before(const float *score, int32_t a, int32_t b)
{
    const bool nan_a = isnan(score[a]), nan_b = isnan(score[b]);
    if (nan_a != nan_b)
        return nan_b;
    if (!nan_a && score[a] != score[b])
        return score[a] > score[b];
    return a < b;
}

static void swap(int32_t *a, int32_t *b)
{
    const int32_t t = *a;
    *a = *b;
    *b = t;
}

/* Restores the heap (the entry that comes last in the order on top) below i. */
static void sift(const float *score, int32_t *heap, int32_t n, int32_t i)
{
    for (;;) {
        int32_t last = i;
        for (int32_t c = 2 * i + 1; c <= 2 * i + 2 && c < n; c++)
            if (before(score, heap[last], heap[c]))
                last = c;
        if (last == i)
            return;
        swap(&heap[i], &heap[last]);
        i = last;
    }
}

/* A heap of the k best so far; then their indices by marking, which sorts them. */
void attend_top_k(const float *score, int32_t n, int32_t k, int32_t *chosen, int32_t *work)
{
    if (k <= 0)
        return;
    for (int32_t i = 0; i < k; i++)
        chosen[i] = i;
    for (int32_t i = k / 2 - 1; i >= 0; i--)
        sift(score, chosen, k, i);
    for (int32_t i = k; i < n; i++) {
        if (!before(score, i, chosen[0]))
            continue;
        chosen[0] = i;
        sift(score, chosen, k, 0);
    }
    memset(work, 0, (size_t)n * sizeof *work);
    for (int32_t i = 0; i < k; i++)
        work[chosen[i]] = 1;
    for (int32_t i = 0, at = 0; i < n; i++)
        if (work[i])
            chosen[at++] = i;
}
