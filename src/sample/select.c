/* Selection in the order of the law. What this file owns: the first k tokens as a sorted list, or as a set.
 *
 * A short list looks only into blocks whose maximum is among the k largest: at least k tokens are that large, so none
 * below can be among the first k. A large k is found by rank: a sample of the row gives two
 * values between which the k-th token almost surely lies (Floyd and Rivest, "Expected time bounds for selection",
 * 1975), one pass counts those above and collects those between; when the sample misled, everything is sorted. */
#include "sample/scratch.h"
#include <math.h>

#define RADIX_BITS 11
#define RADIX_SIZE (1 << RADIX_BITS)
#define SAMPLE 2048
#define BINS 1024
#define SELECT_HEAP_MAX 64 /* above, sorting by digits is faster */

static void heap_sink(uint64_t *h, int64_t n, int64_t i)
{
    uint64_t v = h[i];
    for (;;) {
        int64_t c = 2 * i + 1;
        if (c >= n)
            break;
        if (c + 1 < n && h[c + 1] < h[c])
            c++;
        if (h[c] >= v)
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = v;
}

/* Moves the k largest of a[0, n) to the front as a min-heap (a[0] is the k-th largest). 1 <= k <= n. */
static void heap_largest(uint64_t *a, int64_t n, int64_t k)
{
    for (int64_t i = k / 2; i-- > 0;)
        heap_sink(a, k, i);
    for (int64_t i = k; i < n; i++)
        if (a[i] > a[0]) {
            uint64_t t = a[0];
            a[0] = a[i];
            a[i] = t;
            heap_sink(a, k, 0);
        }
}

/* A min-heap becomes a descending array. */
static void heap_to_descending(uint64_t *h, int64_t k)
{
    for (int64_t n = k - 1; n > 0; n--) {
        uint64_t t = h[0];
        h[0] = h[n];
        h[n] = t;
        heap_sink(h, n, 0);
    }
}

/* Sorts by value, descending; equal values keep their places. The result is in b. */
static void radix_sort(uint64_t *a, uint64_t *b, int64_t n)
{
    for (int pass = 0; pass < 3; pass++) { /* an odd number of passes ends in b */
        int shift = 32 + pass * RADIX_BITS;
        uint32_t at[RADIX_SIZE] = {0};
        for (int64_t i = 0; i < n; i++)
            at[(~a[i] >> shift) & (RADIX_SIZE - 1)]++;
        uint32_t sum = 0;
        for (int d = 0; d < RADIX_SIZE; d++) {
            uint32_t c = at[d];
            at[d] = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; i++)
            b[at[(~a[i] >> shift) & (RADIX_SIZE - 1)]++] = a[i];
        uint64_t *t = a;
        a = b;
        b = t;
    }
}

static int64_t collect_bits(uint64_t bits, const float *x, int32_t id0, uint64_t *out)
{
    int64_t n = 0;
    for (; bits; bits &= bits - 1) {
        int i = __builtin_ctzll(bits);
        out[n++] = pack(x[i], id0 + i);
    }
    return n;
}

/* All finite tokens with value >= floor into out, ids ascending. Returns how many. */
static int64_t collect(const struct view *v, float floor, uint64_t *out)
{
    int64_t n = 0;
    for (int32_t b = 0; b < v->n_blocks; b++)
        if (v->block_max[b] >= floor) {
            const float *x = block_of(v, b);
            n += collect_bits(v->pass->at_least(x, floor), x, b * ROW_BLOCK, out + n);
        }
    return n;
}

int64_t select_all(struct sampler *s)
{
    int64_t n = collect(&s->all, -FLT_MAX, s->tmp);
    radix_sort(s->tmp, s->cand, n);
    return n;
}

/* The bin of a value between top and top - bins / scale; monotone. */
static int32_t bin_of(float value, float top, double scale)
{
    return (int32_t)(((double)top - (double)value) * scale);
}

static double bin_scale(float top, float bottom)
{
    return bottom < top ? (BINS - 1) / ((double)top - (double)bottom) : 0;
}

/* The bin in which a count from the top reaches k; *before: the count of the bins above it. */
static int32_t bin_with(const int32_t count[BINS], int64_t k, int64_t *before)
{
    int32_t bin = 0;
    for (*before = 0; bin < BINS - 1 && *before + count[bin] < k; bin++)
        *before += count[bin];
    return bin;
}

/* A value that at least k tokens reach, and few more blocks than k: one of the largest block maxima. */
static float floor_of_top(const struct sampler *s, int64_t k)
{
    float top = -INFINITY, bottom = INFINITY, floor = INFINITY;
    int32_t count[BINS] = {0};
    int64_t n = 0, before;
    for (int32_t b = 0; b < s->n_blocks; b++) {
        const float x = s->block_max[b];
        n += x > -INFINITY;
        top = x > top ? x : top;
        bottom = x > -INFINITY && x < bottom ? x : bottom;
    }
    if (n <= k)
        return -FLT_MAX;
    const double scale = bin_scale(top, bottom);
    for (int32_t b = 0; b < s->n_blocks; b++)
        if (s->block_max[b] > -INFINITY)
            count[bin_of(s->block_max[b], top, scale)]++;
    const int32_t bin = bin_with(count, k, &before);
    for (int32_t b = 0; b < s->n_blocks; b++)
        if (s->block_max[b] > -INFINITY && bin_of(s->block_max[b], top, scale) <= bin)
            floor = s->block_max[b] < floor ? s->block_max[b] : floor;
    return floor;
}

/* The k-th largest of a[0, n), 1 <= k <= n; a is overwritten. */
static uint64_t kth_largest(uint64_t *a, int64_t n, int64_t k)
{
    uint64_t top = a[0], bottom = a[0];
    int32_t count[BINS] = {0};
    int64_t before, kept = 0;
    for (int64_t i = 1; i < n; i++) {
        top = a[i] > top ? a[i] : top;
        bottom = a[i] < bottom ? a[i] : bottom;
    }
    const float high = pack_value(top);
    const double scale = bin_scale(high, pack_value(bottom));
    for (int64_t i = 0; i < n; i++)
        count[bin_of(pack_value(a[i]), high, scale)]++;
    const int32_t bin = bin_with(count, k, &before);
    for (int64_t i = 0; i < n; i++)
        if (bin_of(pack_value(a[i]), high, scale) == bin)
            a[kept++] = a[i];
    heap_largest(a, kept, k - before);
    return a[0];
}

int64_t select_top(struct sampler *s, int64_t k)
{
    if (k > SELECT_LIST_MAX) {
        int64_t n = select_all(s);
        return n < k ? n : k;
    }
    const float floor = floor_of_top(s, k);
    if (k > SELECT_HEAP_MAX) {
        int64_t n = collect(&s->all, floor, s->tmp);
        radix_sort(s->tmp, s->cand, n);
        return n < k ? n : k;
    }
    int64_t n = collect(&s->all, floor, s->cand);
    k = k < n ? k : n;
    heap_largest(s->cand, n, k);
    heap_to_descending(s->cand, k);
    return k;
}

/* Two values between which the k-th token should lie: lo <= it < hi. */
static void bracket(struct sampler *s, int64_t k, float *lo, float *hi)
{
    int64_t stride = s->n_vocab / SAMPLE, n = 0;
    for (int64_t i = 0; i < SAMPLE; i++) {
        float x = value_of(&s->all, (int32_t)(i * stride));
        if (fabsf(x) <= FLT_MAX)
            s->tmp[n++] = pack(x, (int32_t)i);
    }
    radix_sort(s->tmp, s->cand, n);
    double q = (double)k / s->n_vocab, at = q * SAMPLE, spread = 4 * sqrt(SAMPLE * q * (1 - q)) + 4;
    int64_t above = (int64_t)(at - spread), below = (int64_t)(at + spread) + 1;
    *hi = above >= 0 && above < n ? pack_value(s->cand[above]) : INFINITY;
    *lo = below < n ? pack_value(s->cand[below]) : -FLT_MAX;
}

struct ahead select_ahead(struct sampler *s, int64_t k)
{
    if (s->n_vocab >= 16 * SAMPLE) {
        float lo, hi;
        bracket(s, k, &lo, &hi);
        int64_t above = 0, n = 0;
        for (int32_t b = 0; b < s->n_blocks; b++)
            if (s->block_max[b] >= lo) {
                const float *x = block_of(&s->all, b);
                uint64_t in = s->pass->at_least(x, lo), high = s->pass->at_least(x, hi);
                above += __builtin_popcountll(high);
                n += collect_bits(in & ~high, x, b * ROW_BLOCK, s->cand + n);
            }
        if (above < k && k <= above + n) {
            uint64_t last = kth_largest(s->cand, n, k - above);
            return (struct ahead){pack_value(last), pack_id(last) + 1};
        }
    }
    int64_t n = select_all(s);
    return k < n ? (struct ahead){pack_value(s->cand[k - 1]), pack_id(s->cand[k - 1]) + 1} : AHEAD_ALL;
}

/* Tokens of a set with their ids, the last block filled up. false: too many. */
static bool gather(struct sampler *s, struct ahead set, struct view *near)
{
    int32_t n = 0;
    for (int32_t b = 0; b < s->n_blocks; b++) {
        if (!(s->block_max[b] >= set.value))
            continue;
        const float *x = block_of(&s->all, b);
        uint64_t bits = s->pass->at_least(x, set.value);
        if (n + __builtin_popcountll(bits) > SELECT_NEAR_MAX)
            return false;
        for (; bits; bits &= bits - 1) {
            int32_t i = __builtin_ctzll(bits);
            s->near_row[n] = x[i];
            s->near_ids[n] = b * ROW_BLOCK + i;
            s->near_quads[n] = (uint32_t)(b * ROW_BLOCK + i) >> 2;
            n += is_ahead(set, x[i], b * ROW_BLOCK + i);
        }
    }
    for (; n % ROW_BLOCK; n++) {
        s->near_row[n] = -INFINITY;
        s->near_ids[n] = 0;
        s->near_quads[n] = 0;
    }
    *near = (struct view){.pass = s->pass,
                          .row = s->near_row,
                          .n_whole = n / ROW_BLOCK,
                          .n_blocks = n / ROW_BLOCK,
                          .block_max = s->near_max,
                          .ids = s->near_ids,
                          .quads = s->near_quads};
    s->pass->maxima(s->near_row, near->n_blocks, s->near_max);
    return true;
}

struct view select_view(struct sampler *s, struct ahead set, struct ahead *in)
{
    struct view near;
    *in = AHEAD_ALL;
    if (set.value > -FLT_MAX && gather(s, set, &near))
        return near;
    *in = set;
    return s->all;
}
