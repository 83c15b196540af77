/* attn_tile, attn_merge, attn_finish, kv_store. */
#include "base/cpu.h"
#include "checkasm.h"
#include "kernels/attention.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_Q 20
#define N_TILES 3

/* Some tiles, some queries, and what each query sees of each tile: vis within masks (~0: no mask given). */
struct scene {
    enum kv_rep rep;
    int64_t d_k, d_v, n_q;
    float softcap;
    struct guarded q, k[N_TILES], v[N_TILES];
    struct attn_visible vis[N_TILES][MAX_Q];
    uint64_t masks[N_TILES][MAX_Q];
};

struct result {
    struct guarded o;
    struct attn_state state[MAX_Q];
};

static float *floats(const struct guarded *g)
{
    return (float *)(void *)g->data;
}

/* What query i sees of a tile: everything, a run, one position, nothing, or a masked run. */
static void choose_visible(struct rng *r, struct scene *s, int tile, int i)
{
    struct attn_visible *v = &s->vis[tile][i];
    const int lo = (int)(rng_u32(r) % 64), len = (int)(rng_u32(r) % (uint32_t)(65 - lo));
    const uint64_t random = (uint64_t)rng_u32(r) << 32 | rng_u32(r);
    s->masks[tile][i] = ~0ull;
    *v = (struct attn_visible){0, 64, NULL};
    switch (rng_u32(r) % 5) {
    case 0:
        *v = (struct attn_visible){lo, lo + len, NULL};
        break;
    case 1:
        *v = (struct attn_visible){lo, lo + 1, NULL};
        break;
    case 2:
        *v = (struct attn_visible){lo, lo, NULL};
        break;
    case 3:
        s->masks[tile][i] = random & ~(1ull << (random & 63));
        break;
    default:
        break;
    }
}

static bool sees(const struct scene *s, int tile, int i, int j)
{
    const struct attn_visible *v = &s->vis[tile][i];
    return j >= v->lo && j < v->hi && (s->masks[tile][i] >> j & 1);
}

/* Pages start as NaN; only positions that some query sees are stored. */
static struct scene scene_new(struct rng *r, const struct kernels *set, enum kv_rep rep, int64_t d_k,
                              int64_t d_v, int64_t n_q, float softcap, enum x_kind kind)
{
    struct scene s = {.rep = rep, .d_k = d_k, .d_v = d_v, .n_q = n_q, .softcap = softcap};
    float *key = malloc((size_t)d_k * 4), *value = malloc((size_t)d_v * 4);
    s.q = guard_new((size_t)(n_q * d_k) * 4, 4);
    fill_floats(r, kind, n_q * d_k, floats(&s.q));
    for (int64_t i = 0; i < n_q * d_k; i++)
        floats(&s.q)[i] *= 0.2f;
    for (int t = 0; t < N_TILES; t++) {
        s.k[t] = guard_new(kv_key_bytes(rep, d_k), 64);
        s.v[t] = guard_new(kv_value_bytes(rep, d_v), 64);
        memset(s.k[t].data, 0xff, s.k[t].size);
        memset(s.v[t].data, 0xff, s.v[t].size);
        for (int i = 0; i < n_q; i++)
            choose_visible(r, &s, t, i);
        for (int j = 0; j < ATTN_TILE; j++) {
            bool any = false;
            for (int i = 0; i < n_q; i++)
                any |= sees(&s, t, i, j);
            fill_floats(r, kind == X_NAN ? X_RANDOM : kind, d_k, key);
            fill_floats(r, kind == X_NAN ? X_RANDOM : kind, d_v, value);
            if (any)
                set->kv_store(rep, d_k, d_v, j, key, value, s.k[t].data, s.v[t].data);
        }
    }
    free(key);
    free(value);
    return s;
}

static void scene_free(struct scene *s)
{
    guard_free(&s->q);
    for (int t = 0; t < N_TILES; t++) {
        guard_free(&s->k[t]);
        guard_free(&s->v[t]);
    }
}

/* Folds all tiles, `step` queries per call. */
static struct result fold(const struct kernels *set, const struct scene *s, int64_t step)
{
    struct result res;
    const size_t query = attn_query_bytes(s->d_k);
    struct guarded q = guard_new(query * (size_t)s->n_q, 64);
    struct guarded scratch = guard_new(set->attn_scratch_bytes(s->rep, s->d_k, s->d_v, step), 64);
    for (int64_t i = 0; i < s->n_q; i++)
        set->attn_query(s->rep, s->d_k, floats(&s->q) + i * s->d_k, q.data + (size_t)i * query);
    res.o = guard_new((size_t)(s->n_q * s->d_v) * 4, 4);
    for (int64_t i = 0; i < s->n_q * s->d_v; i++)
        floats(&res.o)[i] = NAN; /* must not be read while l is 0 */
    for (int i = 0; i < MAX_Q; i++)
        res.state[i] = (struct attn_state){-INFINITY, 0};
    for (int t = 0; t < N_TILES; t++) {
        const struct kv_tile tile = {s->rep, s->k[t].data, s->v[t].data, NULL};
        struct attn_visible vis[MAX_Q];
        for (int i = 0; i < s->n_q; i++) {
            vis[i] = s->vis[t][i];
            if (s->masks[t][i] != ~0ull)
                vis[i].mask = &s->masks[t][i];
        }
        for (int64_t i = 0; i < s->n_q; i += step) {
            const int64_t n = s->n_q - i < step ? s->n_q - i : step;
            set->attn_tile(&tile, s->d_k, s->d_v, n, q.data + (size_t)i * query, vis + i, s->softcap,
                           res.state + i, floats(&res.o) + i * s->d_v, scratch.data);
        }
    }
    guard_free(&q);
    guard_free(&scratch);
    return res;
}

static bool same_result(const struct result *a, const struct result *b, const struct scene *s)
{
    return same_floats(floats(&a->o), floats(&b->o), s->n_q * s->d_v, true) &&
           same_floats(&a->state[0].m, &b->state[0].m, 2 * MAX_Q, true);
}

static void check_scene(const struct kernels *set, struct scene *s, struct report *rep)
{
    struct result want = fold(kernels_plain(), s, s->n_q), got = fold(set, s, s->n_q),
                  single = fold(set, s, 1);
    expect(rep, same_result(&want, &got, s), "attn_tile: rep %d, d_k %lld, d_v %lld, n_q %lld, softcap %g",
           s->rep, (long long)s->d_k, (long long)s->d_v, (long long)s->n_q, (double)s->softcap);
    expect(rep, same_result(&got, &single, s), "attn_tile one by one: rep %d, d_k %lld, n_q %lld", s->rep,
           (long long)s->d_k, (long long)s->n_q);
    expect(rep, guard_intact(&got.o), "attn_tile wrote outside");
    for (int64_t i = 0; i + 1 < s->n_q; i++) {
        struct attn_state a = want.state[i], b = got.state[i];
        float *oa = floats(&want.o) + i * s->d_v, *ob = floats(&got.o) + i * s->d_v;
        kernels_plain()->attn_merge(s->d_v, &want.state[i + 1], oa + s->d_v, &a, oa);
        set->attn_merge(s->d_v, &got.state[i + 1], ob + s->d_v, &b, ob);
        expect(rep, same_floats(oa, ob, s->d_v, true) && same_floats(&a.m, &b.m, 2, true),
               "attn_merge: d_v %lld", (long long)s->d_v);
        kernels_plain()->attn_finish(s->d_v, &a, oa);
        set->attn_finish(s->d_v, &b, ob);
        expect(rep, same_floats(oa, ob, s->d_v, true), "attn_finish: d_v %lld", (long long)s->d_v);
    }
    guard_free(&want.o);
    guard_free(&got.o);
    guard_free(&single.o);
}

static void check_store(const struct kernels *set, enum kv_rep rep, int64_t d, enum x_kind kind,
                        struct report *rep_out)
{
    struct rng r = {(uint64_t)d + kind};
    const size_t k_bytes = kv_key_bytes(rep, d), v_bytes = kv_value_bytes(rep, d);
    struct guarded k[2] = {guard_new(k_bytes, 64), guard_new(k_bytes, 64)},
                   v[2] = {guard_new(v_bytes, 64), guard_new(v_bytes, 64)};
    struct guarded x = guard_new((size_t)d * 4, 4), y = guard_new((size_t)d * 4, 4);
    for (int32_t e = 0; e < ATTN_TILE; e += 21) {
        fill_floats(&r, kind, d, floats(&x));
        fill_floats(&r, kind, d, floats(&y));
        kernels_plain()->kv_store(rep, d, d, e, floats(&x), floats(&y), k[0].data, v[0].data);
        set->kv_store(rep, d, d, e, floats(&x), floats(&y), k[1].data, v[1].data);
    }
    expect(rep_out,
           !memcmp(k[0].data, k[1].data, k_bytes) && !memcmp(v[0].data, v[1].data, v_bytes) &&
               guard_intact(&k[1]) && guard_intact(&v[1]),
           "kv_store: rep %d, d %lld, input kind %d", rep, (long long)d, kind);
    for (int i = 0; i < 2; i++) {
        guard_free(&k[i]);
        guard_free(&v[i]);
    }
    guard_free(&x);
    guard_free(&y);
}

static void check_rep(const struct kernels *set, enum kv_rep rep_kv, struct report *rep)
{
    static const int64_t dims[][2] = {{16, 16}, {64, 64}, {128, 128}, {80, 80}, {256, 256}, {64, 96}, {7, 9}};
    static const enum x_kind kinds[] = {X_RANDOM,   X_RANDOM, X_RANDOM, X_ZERO, X_NEG_ZERO,
                                        X_DENORMAL, X_HUGE,   X_NAN,    X_INF};
    struct rng r = {5};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            struct scene s = scene_new(&r, set, rep_kv, dims[d][0], dims[d][1],
                                       1 + (int64_t)(i * 7 + d) % MAX_Q, i % 2 ? 30.0f : 0.0f, kinds[i]);
            check_scene(set, &s, rep);
            scene_free(&s);
            check_store(set, rep_kv, dims[d][1], kinds[i], rep);
        }
    }
}

/* Both forms of the bf16 kernel, whichever this CPU prefers. */
static void check_bf16_forms(const struct kernels *set, struct report *rep)
{
#if defined(__x86_64__)
    struct kernels form = *set;
    if (strcmp(set->name, "avx512") != 0)
        return;
    form.attn_tile = avx512_bf16_tile_fma;
    check_rep(&form, KV_BF16, rep);
    form.attn_tile = avx512_bf16_tile_dot;
    if (cpu_features() & CPU_AVX512_BF16)
        check_rep(&form, KV_BF16, rep);
#else
    (void)set, (void)rep;
#endif
}

void check_attention(const struct kernels *set, struct report *rep)
{
    for (int rep_kv = KV_F16; rep_kv < KV_REPS; rep_kv++)
        check_rep(set, (enum kv_rep)rep_kv, rep);
    check_bf16_forms(set, rep);
}

/* ---- the twin against the reference ---- */

/* Bound on |o/l| differences. A score carries d_k roundings of sum |q k| (inputs: |q| <= 4, |k| <= 20,
 * mostly 1), at most delta; p then errs by a factor within e^(2 delta), and the weighted mean of values by
 * that times max |v|. */
static void check_exact_reps(struct report *rep)
{
    struct rng r = {6};
    for (int i = 0; i < 24; i++) {
        const int64_t d = i % 3 == 0 ? 64 : i % 3 == 1 ? 128 : 80;
        struct scene s =
            scene_new(&r, kernels_plain(), i % 2 ? KV_F16 : KV_F32, d, d, 5, i % 4 < 2 ? 0 : 50.0f, X_RANDOM);
        struct result a = fold(kernels_reference(), &s, 5), b = fold(kernels_plain(), &s, 5);
        double qmax = 0;
        for (int64_t j = 0; j < 5 * d; j++)
            qmax = fmax(qmax, fabs((double)floats(&s.q)[j]));
        const double delta = (double)d * 0x1p-24 * (double)d * qmax * 2;
        for (int q = 0; q < 5; q++) {
            float *oa = floats(&a.o) + q * d, *ob = floats(&b.o) + q * d;
            kernels_reference()->attn_finish(d, &a.state[q], oa);
            kernels_plain()->attn_finish(d, &b.state[q], ob);
            for (int64_t j = 0; j < d; j++)
                expect(rep, fabs((double)oa[j] - (double)ob[j]) <= 20 * (2 * delta + 300 * 0x1p-24),
                       "plain attention: %.9g for %.9g (delta %g)", (double)ob[j], (double)oa[j], delta);
        }
        guard_free(&a.o);
        guard_free(&b.o);
        scene_free(&s);
    }
}

/* bf16, q8 and q4 (whose arithmetic is that of q8): the root mean square of the difference, over that of the result. Scores here have a deviation of
 * at most about 1 and err by 2^-9 (bf16: q rounded) or 1/127/sqrt(3) (q8: q to 1/254 of the largest in a block, which is about
 * 3 deviations) of that; weights by 2^-9 / sqrt(3) or 1/510 of the largest: together below 1/2 % and 2 %. */
static void check_low_reps(struct report *rep)
{
    struct rng r = {7};
    for (int i = 0; i < 12; i++) {
        const int64_t d = i % 3 == 0 ? 64 : i % 3 == 1 ? 128 : 80;
        const enum kv_rep kv = i % 2 ? KV_BF16 : i % 4 ? KV_Q4 : KV_Q8;
        struct scene s = scene_new(&r, kernels_plain(), kv, d, d, 16, i % 4 < 2 ? 0 : 50.0f, X_RANDOM);
        for (int64_t j = 0; j < 16 * d; j++)
            floats(&s.q)[j] *= 0.25f;
        struct result a = fold(kernels_reference(), &s, 16), b = fold(kernels_plain(), &s, 16);
        double error = 0, size = 0;
        for (int q = 0; q < 16; q++) {
            float *oa = floats(&a.o) + q * d, *ob = floats(&b.o) + q * d;
            kernels_reference()->attn_finish(d, &a.state[q], oa);
            kernels_plain()->attn_finish(d, &b.state[q], ob);
            for (int64_t j = 0; j < d; j++) {
                error += pow((double)oa[j] - (double)ob[j], 2);
                size += pow((double)oa[j], 2);
            }
        }
        const double share = sqrt(error / size), bound = kv == KV_BF16 ? 0.01 : 0.04;
        expect(rep, share <= bound, "plain attention, rep %d, d %lld: error %.5f of the result (at most %g)",
               kv, (long long)d, share, bound);
        guard_free(&a.o);
        guard_free(&b.o);
        scene_free(&s);
    }
}

void check_attention_reference(struct report *rep)
{
    check_exact_reps(rep);
    check_low_reps(rep);
}
