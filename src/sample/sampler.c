/* Plain sampling (sampler.h says the law). What this file owns: turning one row of logits into one token,
 * exactly by the law, at a cost of a pass over the row.
 *
 * How it is cheap and still exact:
 *  - Logits become ordered 32-bit integers ("keys": the same order as the numbers, non-finite values lowest),
 *    with the maximum of every block of 64. Top-k looks only into blocks whose maximum reaches the k-th largest
 *    block maximum: at least k tokens are that large, so none below can be among the first k.
 *  - Noise is computed for a token only when it could still win. With the best score so far B and a token's
 *    scaled gap to the maximum d <= 0, it needs a Gumbel draw g >= B - d. As 1 - exp(-e^-n) <= e^-n, its
 *    integer draw must satisfy 2^32 - x <= 2^32 e^-n: an integer comparison, widened by a margin larger than
 *    the rounding of exp and log; only draws that pass pay for two logarithms.
 *  - Top-p over the whole vocabulary bounds the law's ordered sum instead of sorting the tail (top_p_of_all).
 *
 * What it does not do: grammar masks, DRY, XTC, mirostat (their files come later, before or after the steps
 * here); it keeps nothing between calls. */
#include "sample/sampler.h"
#include "base/limits.h"
#include "base/mem.h"
#include "sample/noise.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define BLOCK 64
#define KEY_NONE INT32_MIN /* a non-finite logit: never chosen */
#define RADIX_BITS 11
#define RADIX_SIZE (1 << RADIX_BITS)

struct sampler {
    int32_t n_vocab, n_blocks;
    int32_t *keys;      /* [n_blocks * BLOCK] */
    int32_t *block_max; /* [n_blocks] */
    int32_t *counts;    /* [n_vocab], zero between calls */
    uint64_t *cand;     /* [n_vocab]: candidates, key in the high half, ~id in the low */
    uint64_t *tmp;      /* [n_vocab] */
};

/* ---- keys: floats as ordered integers ----------------------------------------------------------------- */

static inline int32_t key_of(float x)
{
    float positive_zero = x + 0.0f; /* -0 and +0 are one value */
    int32_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    int32_t key = bits ^ ((bits >> 31) & INT32_MAX);
    return (bits & INT32_MAX) >= 0x7f800000 ? KEY_NONE : key;
}

static inline float key_value(int32_t key)
{
    int32_t bits = key ^ ((key >> 31) & INT32_MAX);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Descending order of packed candidates is the law's order: (logit descending, id ascending). */
static inline uint64_t pack(int32_t key, int32_t id)
{
    return (uint64_t)((uint32_t)key ^ 0x80000000u) << 32 | (uint32_t)~id;
}

static inline int32_t pack_id(uint64_t c)
{
    return (int32_t) ~(uint32_t)c;
}

static inline float pack_value(uint64_t c)
{
    return key_value((int32_t)((uint32_t)(c >> 32) ^ 0x80000000u));
}

static int32_t block_maximum(const int32_t *keys)
{
    int32_t m[8];
    memcpy(m, keys, sizeof m);
    for (int i = 8; i < BLOCK; i += 8)
        for (int j = 0; j < 8; j++)
            m[j] = keys[i + j] > m[j] ? keys[i + j] : m[j];
    for (int j = 1; j < 8; j++)
        m[0] = m[j] > m[0] ? m[j] : m[0];
    return m[0];
}

static void build_keys(struct sampler *s, const float *logits)
{
    int32_t whole = s->n_vocab / BLOCK;
    for (int32_t b = 0; b < whole; b++) {
        const float *x = logits + (int64_t)b * BLOCK;
        int32_t *k = s->keys + (int64_t)b * BLOCK;
        for (int i = 0; i < BLOCK; i++)
            k[i] = key_of(x[i]);
    }
    for (int32_t i = whole * BLOCK; i < s->n_blocks * BLOCK; i++)
        s->keys[i] = i < s->n_vocab ? key_of(logits[i]) : KEY_NONE;
    for (int32_t b = 0; b < s->n_blocks; b++)
        s->block_max[b] = block_maximum(s->keys + (int64_t)b * BLOCK);
}

/* The best token: highest logit, lowest id. -1: no finite logit. */
static int32_t best_token(const struct sampler *s, float *value)
{
    int32_t best = KEY_NONE, where = -1;
    for (int32_t b = 0; b < s->n_blocks; b++)
        if (s->block_max[b] > best) {
            best = s->block_max[b];
            where = b;
        }
    if (where < 0)
        return -1;
    int32_t id = where * BLOCK;
    while (s->keys[id] != best)
        id++;
    *value = key_value(best);
    return id;
}

/* ---- selection ---------------------------------------------------------------------------------------- */

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

/* All tokens with key >= floor (and finite) into s->cand, ids ascending. Returns how many. */
static int64_t collect(struct sampler *s, int32_t floor_key)
{
    int64_t n = 0;
    for (int32_t b = 0; b < s->n_blocks; b++) {
        if (s->block_max[b] < floor_key || s->block_max[b] == KEY_NONE)
            continue;
        const int32_t *k = s->keys + (int64_t)b * BLOCK;
        for (int i = 0; i < BLOCK; i++)
            if (k[i] >= floor_key && k[i] != KEY_NONE)
                s->cand[n++] = pack(k[i], b * BLOCK + i);
    }
    return n;
}

/* The first k tokens in the law's order into s->cand; returns how many (fewer if fewer are finite). */
static int64_t select_top(struct sampler *s, int32_t k)
{
    int32_t floor_key = KEY_NONE;
    if (k < s->n_blocks) {
        for (int32_t b = 0; b < s->n_blocks; b++)
            s->tmp[b] = pack(s->block_max[b], b);
        heap_largest(s->tmp, s->n_blocks, k);
        floor_key = key_of(pack_value(s->tmp[0]));
    }
    int64_t n = collect(s, floor_key);
    if (k < n) {
        heap_largest(s->cand, n, k);
        n = k;
    } else {
        heap_largest(s->cand, n, n);
    }
    heap_to_descending(s->cand, n);
    return n;
}

/* Every finite token in the law's order: stable radix sort on the inverted key, ids being ascending. */
static int64_t sort_all(struct sampler *s)
{
    int64_t n = collect(s, KEY_NONE);
    uint64_t *src = s->cand, *dst = s->tmp;
    for (int pass = 0; pass < 3; pass++) {
        int shift = 32 + pass * RADIX_BITS;
        uint32_t at[RADIX_SIZE] = {0};
        for (int64_t i = 0; i < n; i++)
            at[(~src[i] >> shift) & (RADIX_SIZE - 1)]++;
        uint32_t sum = 0;
        for (int d = 0; d < RADIX_SIZE; d++) {
            uint32_t c = at[d];
            at[d] = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; i++)
            dst[at[(~src[i] >> shift) & (RADIX_SIZE - 1)]++] = src[i];
        uint64_t *t = src;
        src = dst;
        dst = t;
    }
    memcpy(s->cand, src, (size_t)n * sizeof *src); /* three passes end in tmp */
    return n;
}

/* ---- the law, step by step ---------------------------------------------------------------------------- */

static float finite_f32(double x)
{
    return x > (double)FLT_MAX ? FLT_MAX : x < -(double)FLT_MAX ? -FLT_MAX : (float)x;
}

static void set_logit(struct sampler *s, int32_t id, float value)
{
    s->keys[id] = key_of(value);
    int32_t b = id / BLOCK;
    s->block_max[b] = block_maximum(s->keys + (int64_t)b * BLOCK);
}

/* repeat: l > 0 ? l / r : l * r (Keskar et al. 2019, CTRL, with the sign rule of later engines); then
 * l -= presence + count * frequency. Once per distinct token of the window. */
static void apply_penalties(struct sampler *s, const struct sampler_settings *p, const int32_t *path,
                            int64_t n_path)
{
    int64_t from = p->penalty_last_n < 0 || n_path < p->penalty_last_n ? 0 : n_path - p->penalty_last_n;
    for (int64_t i = from; i < n_path; i++)
        s->counts[path[i]]++;
    for (int64_t i = from; i < n_path; i++) {
        int32_t id = path[i], count = s->counts[id];
        s->counts[id] = 0;
        if (count == 0 || s->keys[id] == KEY_NONE)
            continue;
        double l = (double)key_value(s->keys[id]), r = (double)p->repeat_penalty;
        l = l > 0 ? l / r : l * r;
        l -= (double)p->presence_penalty + count * (double)p->frequency_penalty;
        set_logit(s, id, finite_f32(l));
    }
}

static bool penalties_on(const struct sampler_settings *p)
{
    return p->penalty_last_n != 0 &&
           (p->repeat_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f);
}

static void apply_bias(struct sampler *s, const struct sampler_settings *p)
{
    for (int32_t i = 0; i < p->n_bias; i++) {
        int32_t id = p->bias[i].id;
        if (s->keys[id] == KEY_NONE)
            continue;
        float b = p->bias[i].bias;
        set_logit(s, id, isinf(b) ? -INFINITY : finite_f32((double)key_value(s->keys[id]) + (double)b));
    }
}

/* How many of the n sorted candidates make up at least `want`; 0: all of them do not. */
static int64_t prefix_with(const uint64_t *cand, int64_t n, double want, float max)
{
    double have = 0;
    for (int64_t i = 0; i < n; i++) {
        have += (double)exp_f32(pack_value(cand[i]) - max);
        if (have >= want)
            return i + 1;
    }
    return 0;
}

/* top-p: the shortest prefix with at least p of the sum over all n sorted candidates. */
static int64_t keep_top_p(const uint64_t *cand, int64_t n, float top_p, float max)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)exp_f32(pack_value(cand[i]) - max);
    int64_t keep = prefix_with(cand, n, (double)top_p * sum, max);
    return keep ? keep : n;
}

static double sum_of_exp(const struct sampler *s, float max)
{
    double sum = 0;
    for (int32_t i = 0; i < s->n_vocab; i++)
        if (s->keys[i] != KEY_NONE)
            sum += (double)exp_f32(key_value(s->keys[i]) - max);
    return sum;
}

/* top-p over the whole vocabulary. The law sums in sorted order; a sum in any order differs from that by less
 * than n * 2^-52 of itself, so when both ends of that interval cut a sorted prefix at the same place, the place
 * is the law's and the tail need not be sorted. The candidates are left in s->cand. */
static int64_t top_p_of_all(struct sampler *s, float top_p, float max)
{
    double sum = sum_of_exp(s, max), slack = (double)s->n_vocab * 0x1p-51;
    for (int32_t k = 256; k <= s->n_vocab / 16; k *= 8) {
        int64_t n = select_top(s, k);
        int64_t high = prefix_with(s->cand, n, (double)top_p * sum * (1 + slack), max);
        if (high > 0 && high == prefix_with(s->cand, n, (double)top_p * sum * (1 - slack), max))
            return high;
    }
    return keep_top_p(s->cand, sort_all(s), top_p, max);
}

/* The state of the Gumbel-max race: score = (logit - max) / temperature + g, in f64; ties to the lowest id. */
struct race {
    const struct sampler_settings *p;
    int64_t position;
    float max;
    int32_t best_id;
    double best;
};

static double race_gap(const struct race *r, float logit)
{
    return ((double)logit - (double)r->max) / (double)r->p->temperature;
}

static void race_enter(struct race *r, int32_t id, float logit, uint32_t x)
{
    double score = race_gap(r, logit) + noise_gumbel(x);
    if (score > r->best || (score == r->best && id < r->best_id)) {
        r->best = score;
        r->best_id = id;
    }
}

/* The smallest x with which a token of this gap could still win, never too large; UINT64_MAX: none can. */
static uint64_t race_threshold(const struct race *r, double gap)
{
    double need = r->best - gap;
    if (need > NOISE_GUMBEL_MAX)
        return UINT64_MAX;
    if (need <= 0)
        return 0;
    double tail =
        ((double)exp_f32((float)-need) * (1 + 1e-5) + 4e-9) * 0x1p32; /* margin: float need, exp, logs */
    return tail >= 0x1p32 ? 0 : (uint64_t)(0x1p32 - tail);
}

static void race_start(struct race *r, int32_t id)
{
    r->best_id = id;
    r->best = noise_gumbel(noise_x(r->p->seed, r->p->stream, r->position, (uint32_t)id));
}

/* Over sorted candidates. */
static void race_list(struct race *r, const uint64_t *cand, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float l = pack_value(cand[i]);
        uint64_t need = race_threshold(r, race_gap(r, l));
        if (need == UINT64_MAX)
            break; /* later ones are no larger */
        uint32_t x = noise_x(r->p->seed, r->p->stream, r->position, (uint32_t)pack_id(cand[i]));
        if (x >= need)
            race_enter(r, pack_id(cand[i]), l, x);
    }
}

/* Over all tokens with key >= floor_key, ids ascending. */
static void race_all(const struct sampler *s, struct race *r, int32_t floor_key)
{
    for (int32_t b = 0; b < s->n_blocks; b++) {
        if (s->block_max[b] < floor_key || s->block_max[b] == KEY_NONE)
            continue;
        uint64_t need = race_threshold(r, race_gap(r, key_value(s->block_max[b])));
        if (need == UINT64_MAX)
            continue;
        const int32_t *k = s->keys + (int64_t)b * BLOCK;
        for (int i = 0; i < BLOCK; i += 4) {
            uint32_t x[4];
            noise_quad(r->p->seed, r->p->stream, r->position, (uint32_t)(b * BLOCK + i) >> 2, x);
            for (int j = 0; j < 4; j++)
                if (x[j] >= need && k[i + j] >= floor_key && k[i + j] != KEY_NONE)
                    race_enter(r, b * BLOCK + i + j, key_value(k[i + j]), x[j]);
        }
    }
}

/* min-p as a bound on the logit: keep l with l - max >= log(min_p). */
static int32_t min_p_key(float min_p, float max)
{
    if (min_p <= 0)
        return KEY_NONE + 1;
    double bound = (double)max + log_f64((double)min_p);
    float f = finite_f32(bound);
    if ((double)f < bound)
        f = nextafterf(f, INFINITY); /* the smallest float that is not below the bound */
    return key_of(f);
}

static int32_t choose(struct sampler *s, const struct sampler_settings *p, int64_t position, int32_t argmax,
                      float max)
{
    if (p->temperature <= 0)
        return argmax;
    struct race r = {.p = p, .position = position, .max = max};
    int32_t floor_key = min_p_key(p->min_p, max);
    race_start(&r, argmax);
    bool top_k = p->top_k > 0 && p->top_k < s->n_vocab;
    if (!top_k && p->top_p >= 1.0f) {
        race_all(s, &r, floor_key);
        return r.best_id;
    }
    int64_t n;
    if (!top_k) {
        n = top_p_of_all(s, p->top_p, max);
    } else {
        n = p->top_k <= s->n_vocab / 16 ? select_top(s, p->top_k) : sort_all(s);
        n = n < p->top_k ? n : p->top_k;
        n = p->top_p < 1.0f ? keep_top_p(s->cand, n, p->top_p, max) : n;
    }
    while (n > 1 && key_of(pack_value(s->cand[n - 1])) < floor_key)
        n--;
    race_list(&r, s->cand, n);
    return r.best_id;
}

/* ---- log-probabilities -------------------------------------------------------------------------------- */

static void report_top(struct sampler *s, int32_t n, float max, double lse, struct token_logprob *top)
{
    int64_t got = n > 0 ? select_top(s, n) : 0;
    for (int32_t i = 0; i < n; i++) {
        top[i].id = i < got ? pack_id(s->cand[i]) : -1;
        top[i].logprob = i < got ? (float)((double)pack_value(s->cand[i]) - (double)max - lse) : -INFINITY;
    }
}

/* ---- the interface ------------------------------------------------------------------------------------ */

hasten_status sampler_choose(struct sampler *sampler, const struct sampler_settings *p, const float *logits,
                             const int32_t *path, int64_t n_path, int64_t position,
                             struct token_logprob *chosen, struct token_logprob *top,
                             struct hasten_error *err)
{
    struct sampler *s = sampler;
    for (int64_t i = 0; i < n_path; i++)
        if (path[i] < 0 || path[i] >= s->n_vocab)
            return error_set(err, HASTEN_ERR_USAGE,
                             "sampling: token %d at place %lld of the path (expected 0 to %d)", (int)path[i],
                             (long long)i, (int)s->n_vocab - 1);
    build_keys(s, logits);
    float max = 0;
    double lse = 0;
    float own_max = 0;
    int32_t argmax = best_token(s, &max);
    if (argmax < 0)
        return error_set(err, HASTEN_ERR_NON_FINITE,
                         "sampling: position %lld has no finite logit (expected at least one of %d)",
                         (long long)position, (int)s->n_vocab);
    if (top) {
        own_max = max;
        lse = log_f64(sum_of_exp(s, max));
        report_top(s, p->n_logprobs, max, lse, top);
    }
    if (penalties_on(p))
        apply_penalties(s, p, path, n_path);
    if (p->n_bias > 0)
        apply_bias(s, p);
    argmax = best_token(s, &max);
    if (argmax < 0)
        return error_set(err, HASTEN_ERR_NON_FINITE, "sampling: position %lld: the bias forbids every token",
                         (long long)position);
    chosen->id = choose(s, p, position, argmax, max);
    chosen->logprob = top ? (float)((double)logits[chosen->id] - (double)own_max - lse) : NAN;
    return HASTEN_OK;
}

void sampler_default_settings(struct sampler_settings *s)
{
    *s = (struct sampler_settings){.temperature = 0.8f,
                                   .top_k = 40,
                                   .top_p = 0.95f,
                                   .min_p = 0.05f,
                                   .repeat_penalty = 1.0f,
                                   .penalty_last_n = 64};
}

static hasten_status bad(struct hasten_error *err, const char *field, double value, const char *expected)
{
    return error_set(err, HASTEN_ERR_USAGE, "sampling: %s is %g (expected %s)", field, value, expected);
}

hasten_status sampler_check(const struct sampler_settings *s, int32_t n_vocab, struct hasten_error *err)
{
    if (!isfinite(s->temperature) || s->temperature < 0)
        return bad(err, "temperature", (double)s->temperature, "a number >= 0");
    if (s->top_k < 0)
        return bad(err, "top_k", s->top_k, "an integer >= 0");
    if (!(s->top_p > 0 && s->top_p <= 1))
        return bad(err, "top_p", (double)s->top_p, "above 0, at most 1");
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return bad(err, "min_p", (double)s->min_p, "0 to 1");
    if (!isfinite(s->repeat_penalty) || s->repeat_penalty <= 0)
        return bad(err, "repeat_penalty", (double)s->repeat_penalty, "a number above 0");
    if (!isfinite(s->presence_penalty))
        return bad(err, "presence_penalty", (double)s->presence_penalty, "a finite number");
    if (!isfinite(s->frequency_penalty))
        return bad(err, "frequency_penalty", (double)s->frequency_penalty, "a finite number");
    if (s->penalty_last_n < -1)
        return bad(err, "penalty_last_n", s->penalty_last_n, "an integer >= -1");
    if (s->n_logprobs < 0 || s->n_logprobs > 64)
        return bad(err, "n_logprobs", s->n_logprobs, "0 to 64");
    if (s->n_bias < 0)
        return bad(err, "n_bias", s->n_bias, "a count >= 0");
    for (int32_t i = 0; i < s->n_bias; i++) {
        if (s->bias[i].id < 0 || s->bias[i].id >= n_vocab)
            return error_set(err, HASTEN_ERR_USAGE, "sampling: logit_bias names token %d (expected 0 to %d)",
                             (int)s->bias[i].id, (int)n_vocab - 1);
        if (isnan(s->bias[i].bias) || s->bias[i].bias == INFINITY)
            return error_set(err, HASTEN_ERR_USAGE,
                             "sampling: logit_bias of token %d is %g (expected a finite number or -inf)",
                             (int)s->bias[i].id, (double)s->bias[i].bias);
    }
    return HASTEN_OK;
}

hasten_status sampler_open(int32_t n_vocab, struct sampler **out, struct hasten_error *err)
{
    if (n_vocab < 1 || n_vocab > LIMIT_VOCAB)
        return error_set(err, HASTEN_ERR_LIMIT, "sampler: a vocabulary of %d tokens (expected 1 to %d)",
                         (int)n_vocab, LIMIT_VOCAB);
    struct sampler *s = mem_calloc(1, sizeof *s);
    if (!s)
        return error_set(err, HASTEN_ERR_MEMORY, "sampler: out of memory");
    s->n_vocab = n_vocab;
    s->n_blocks = (n_vocab + BLOCK - 1) / BLOCK;
    s->keys = mem_array((size_t)s->n_blocks * BLOCK, sizeof *s->keys);
    s->block_max = mem_array((size_t)s->n_blocks, sizeof *s->block_max);
    s->counts = mem_calloc((size_t)n_vocab, sizeof *s->counts);
    s->cand = mem_array((size_t)n_vocab, sizeof *s->cand);
    s->tmp = mem_array((size_t)n_vocab, sizeof *s->tmp);
    if (!s->keys || !s->block_max || !s->counts || !s->cand || !s->tmp) {
        sampler_close(s);
        return error_set(err, HASTEN_ERR_MEMORY, "sampler: out of memory for %d tokens", (int)n_vocab);
    }
    *out = s;
    return HASTEN_OK;
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    mem_free(s->keys);
    mem_free(s->block_max);
    mem_free(s->counts);
    mem_free(s->cand);
    mem_free(s->tmp);
    mem_free(s);
}
