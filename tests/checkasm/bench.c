/* checkasm --bench: GB/s and GMAC/s of one thread, beside what this machine can do at most in the same
 * run: int8 products per second (vpdpbusd on registers) and plain reading of memory. Times are CPU time of
 * the thread, the best of several, so that a busy machine disturbs less. */
#include "checkasm.h"
#include "base/cpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define BENCH_K 4864
#define BENCH_BYTES (256 << 20) /* weights read per decode pass: beyond every cache that matters */
#define REPEATS 5

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#if defined(__x86_64__)
#define DOT(acc) "vpdpbusd %%zmm0, %%zmm0, %%zmm" acc "\n\t"
#define DOTS                                                                                                 \
    DOT("1")                                                                                                 \
    DOT("2") DOT("3") DOT("4") DOT("5") DOT("6") DOT("7") DOT("8") DOT("9") DOT("10") DOT("11") DOT("12")

/* Twelve independent chains, so that latency does not count; what is in the registers does not matter. */
__attribute__((target("avx512f,avx512vnni"))) static double peak_vnni(void)
{
    const int rounds = 300000;
    double best = 1e9;
    for (int rep = 0; rep < REPEATS; rep++) {
        const double start = cpu_seconds();
        for (int r = 0; r < rounds; r++)
            __asm__ volatile(DOTS
                             :
                             :
                             : "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                               "xmm10", "xmm11", "xmm12");
        const double t = cpu_seconds() - start;
        best = t < best ? t : best;
    }
    return rounds * 12.0 * 64 / best * 1e-9;
}

__attribute__((target("avx512f"))) static void read_all(const uint8_t *data)
{
    __m512i sum = _mm512_setzero_si512();
    for (size_t i = 0; i < BENCH_BYTES; i += 64)
        sum = _mm512_add_epi64(sum, _mm512_loadu_si512(data + i));
    __asm__ volatile("" : : "v"(sum));
}
#endif

static void read_scalar(const uint8_t *data)
{
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < BENCH_BYTES; i += 64) {
        for (size_t j = 0; j < 8; j++) {
            uint64_t v;
            memcpy(&v, data + i + 8 * j, 8);
            sum[j] += v;
        }
    }
    for (size_t j = 0; j < 8; j++)
        __asm__ volatile("" : : "r"(sum[j]));
}

static double peak_gmacs(void)
{
#if defined(__x86_64__)
    if (cpu_features() & CPU_AVX512_VNNI)
        return peak_vnni();
#endif
    return 0;
}

static double read_gbytes(const uint8_t *data)
{
    void (*read)(const uint8_t *) = read_scalar;
#if defined(__x86_64__)
    if (cpu_features() & CPU_AVX512)
        read = read_all;
#endif
    double best = 1e9;
    for (int rep = 0; rep < REPEATS; rep++) {
        const double start = cpu_seconds();
        read(data);
        const double t = cpu_seconds() - start;
        best = t < best ? t : best;
    }
    return BENCH_BYTES / best * 1e-9;
}

static void bench_matmul(const struct kernels *set, const struct quant_type *type, const uint8_t *data,
                         int64_t n)
{
    const int64_t k = BENCH_K, row_bytes = k / type->block * type->block_bytes;
    const int64_t n_rows = n <= 16 ? BENCH_BYTES / row_bytes / 32 * 32 : 64;
    const struct weight w = {type, data, n_rows, k, row_bytes};
    struct act a = {set->form_of(type, k), n, k, NULL, 0};
    a.row_stride = set->act_row_bytes(a.form, k);
    uint8_t *rows = aligned_alloc(64, (size_t)n * a.row_stride);
    void *scratch = aligned_alloc(64, (set->matmul_scratch_bytes(&w) + 63) & ~(size_t)63);
    float *x = malloc((size_t)k * sizeof(float)), *y = malloc((size_t)(n * n_rows) * sizeof(float));
    struct rng r = {8};
    for (int64_t i = 0; i < n; i++) {
        fill_floats(&r, X_RANDOM, k, x);
        set->act_make(a.form, x, k, rows + (size_t)i * a.row_stride);
    }
    a.rows = rows;
    double best = 1e9;
    for (int rep = 0; rep < (n <= 16 ? REPEATS : 8 * REPEATS); rep++) {
        const double start = cpu_seconds();
        set->matmul(&w, &a, 0, n_rows, y, n_rows, scratch);
        const double t = cpu_seconds() - start;
        best = t < best ? t : best;
    }
    printf("%-5s n %3lld  %7.2f GB/s  %7.1f GMAC/s\n", type->name, (long long)n,
           (double)(n_rows * row_bytes) / best * 1e-9, (double)(n_rows * k * n) / best * 1e-9);
    free(rows);
    free(scratch);
    free(x);
    free(y);
}

/* One tile of 64 positions of one head, folded into n_q queries. */
static void bench_attention(const struct kernels *set, enum kv_rep rep, int64_t d, int64_t n_q)
{
    static const char *const names[] = {"f16", "f32", "bf16", "q8"};
    const size_t key_bytes = kv_key_bytes(rep, d), page_bytes = key_bytes + kv_value_bytes(rep, d),
                 query = attn_query_bytes(d);
    const size_t scratch_bytes = (set->attn_scratch_bytes(rep, d, d, n_q) + 127) & ~(size_t)63;
    uint8_t *page = aligned_alloc(64, page_bytes), *q = aligned_alloc(64, query * (size_t)n_q),
            *scratch = aligned_alloc(64, scratch_bytes);
    float *o = calloc((size_t)(n_q * d), 4);
    struct attn_state *state = calloc((size_t)n_q, sizeof *state);
    struct attn_visible *vis = calloc((size_t)n_q, sizeof *vis);
    const struct kv_tile tile = {rep, page, page + key_bytes, NULL};
    memset(page, 0, page_bytes);
    memset(q, 0, query * (size_t)n_q);
    for (int64_t i = 0; i < n_q; i++) {
        state[i].l = 1;
        vis[i].hi = ATTN_TILE;
    }
    double best = 1e9;
    for (int r = 0; r < 2000; r++) {
        const double start = cpu_seconds();
        set->attn_tile(&tile, d, d, n_q, q, vis, 0, state, o, scratch);
        const double t = cpu_seconds() - start;
        best = t < best ? t : best;
    }
    printf("attn_tile %s, d %lld, n_q %lld  %.0f ns, %.1f GMAC/s\n", names[rep], (long long)d, (long long)n_q,
           best * 1e9, (double)(2 * d * ATTN_TILE * n_q) / best * 1e-9);
    free(page);
    free(q);
    free(scratch);
    free(o);
    free(state);
    free(vis);
}

static void bench_rows(const struct kernels *set)
{
    enum {
        N = 4864,
        ROUNDS = 20000
    };
    static float x[N], w[N], y[N];
    static uint8_t row[64 * 1024] __attribute__((aligned(64)));
    struct rng r = {8};
    fill_floats(&r, X_RANDOM, N, x);
    fill_floats(&r, X_RANDOM, N, w);
#define TIME(name, call)                                                                                     \
    do {                                                                                                     \
        const double start = cpu_seconds();                                                                  \
        for (int i = 0; i < ROUNDS; i++)                                                                     \
            call;                                                                                            \
        printf("%-12s %.2f values/ns\n", name, (double)N *ROUNDS / (cpu_seconds() - start) * 1e-9);          \
    } while (0)
    TIME("rms_norm", set->rms_norm(x, w, N, 1e-6f, y));
    TIME("silu_mul", set->silu_mul(x, w, N, y));
    TIME("gelu_mul", set->gelu_mul(x, w, N, y));
    TIME("add", set->add(x, N, y));
    TIME("act_q8_32", set->act_make(ACT_Q8_32, x, N, row));
    TIME("act_q8_256", set->act_make(ACT_Q8_256, x, N, row));
}

int bench(const struct kernels *set)
{
    uint8_t *data = malloc(BENCH_BYTES);
    if (!data)
        return 2;
    memset(data, 0x11, BENCH_BYTES);
    printf("CPU: %s; set: %s; one thread\n", cpu_name(), set->name);
    for (int t = 0; t < n_types; t++) {
        const struct quant_type *type = quant_type_get(all_types[t]);
        printf("-- int8 peak %.0f GMAC/s, memory %.1f GB/s\n", peak_gmacs(), read_gbytes(data));
        bench_matmul(set, type, data, 1);
        bench_matmul(set, type, data, 3);
        bench_matmul(set, type, data, 16);
        bench_matmul(set, type, data, 512);
    }
    for (int rep = KV_F16; rep < KV_REPS; rep++)
        for (int64_t d = 64; d <= 256; d *= 2)
            for (int64_t n_q = 7; n_q <= 112; n_q *= 2)
                bench_attention(set, (enum kv_rep)rep, d, n_q);
    bench_rows(set);
    free(data);
    return 0;
}
