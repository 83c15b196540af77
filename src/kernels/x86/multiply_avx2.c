/* Tiles times columns: 16 or 32 rows x up to 4 activation rows (6 of floats) at once. For each output the operations are
 * those of kernels.h in the same order, whatever the number of columns: int32 within a block, exact (why:
 * panel_avx2.h), then one fma. */
#include "kernels/layout.h"
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/vec_avx2.h"
#include <stddef.h>

#define PAIR 2 /* tiles multiplied together: two vectors meet a broadcast of activations */

/* What the bodies read of a group of columns. */
struct columns {
    const uint8_t *x[COLUMN_GROUP]; /* activation blocks */
    /* Where the int16 sums of a sub-block begin: -offset times the sums of its activations, those of k % 4 in
     * {0, 1} in the lower half, in {2, 3} in the upper. */
    int32_t start[COLUMN_GROUP][16];
    int16_t wide[COLUMN_GROUP][TILE_K]; /* activations as int16 */
};

/* Brings the next group of columns' blocks nearer while this one is worked on. */
MATH_INLINE void prefetch_block(const uint8_t *x, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)x + i, _MM_HINT_T0);
}

MATH_INLINE __m256i broadcast_i32(const void *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

MATH_INLINE __m256 broadcast_f32(const uint8_t *p)
{
    float v;
    memcpy(&v, p, 4);
    return _mm256_set1_ps(v);
}

/* An addition that stays where it is written: compilers regroup chains of integer additions into trees, whose
 * many products would not fit into sixteen registers. */
MATH_INLINE __m256i in_order(__m256i v)
{
    __asm__("" : "+x"(v));
    return v;
}

MATH_INLINE __m256i load_q(const void *p)
{
    return _mm256_load_si256((const __m256i *)p);
}

/* ---- where sums begin -------------------------------------------------------------------------- */

/* 8 vectors of 4-byte groups' pair sums become sums over each half (lo, hi: 16 k) of every vector: lane j of
 * lo is vector j's. All additions in int16. */
MATH_INLINE void sum_halves(const __m256i v[8], __m256i *lo, __m256i *hi)
{
    __m256i a[4];
    for (int j = 0; j < 4; j++) /* words: v0 v1 v0 v1 | v0 v1 v0 v1 */
        a[j] = _mm256_add_epi16(_mm256_unpacklo_epi32(v[2 * j], v[2 * j + 1]),
                                _mm256_unpackhi_epi32(v[2 * j], v[2 * j + 1]));
    const __m256i b = _mm256_add_epi16(_mm256_unpacklo_epi64(a[0], a[1]), _mm256_unpackhi_epi64(a[0], a[1]));
    const __m256i c = _mm256_add_epi16(_mm256_unpacklo_epi64(a[2], a[3]), _mm256_unpackhi_epi64(a[2], a[3]));
    *lo = _mm256_permute2x128_si256(b, c, 0x20);
    *hi = _mm256_permute2x128_si256(b, c, 0x31);
}

/* start[c] for sub-blocks of sub (16 or 32) elements. offset <= 32: a half of 16 is at most 8 x 32 x 127. */
MATH_INLINE void start_sums(int n, int sub, int offset, struct columns *cs)
{
    const __m256i by = _mm256_set1_epi8((char)offset), zero = _mm256_setzero_si256();
    for (int c = 0; c < n; c++) {
        __m256i v[8], lo, hi;
        for (int j = 0; j < 8; j++)
            v[j] = _mm256_maddubs_epi16(by, load_q(cs->x[c] + 32 * j));
        sum_halves(v, &lo, &hi);
        if (sub == 32) {
            _mm256_storeu_si256((__m256i *)(void *)cs->start[c],
                                _mm256_sub_epi16(zero, _mm256_add_epi16(lo, hi)));
            continue;
        }
        lo = _mm256_sub_epi16(zero, lo);
        hi = _mm256_sub_epi16(zero, hi);
        const __m256i a = _mm256_unpacklo_epi32(lo, hi), b = _mm256_unpackhi_epi32(lo, hi);
        _mm256_storeu_si256((__m256i *)(void *)cs->start[c], _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_storeu_si256((__m256i *)(void *)(cs->start[c] + 8), _mm256_permute2x128_si256(a, b, 0x31));
    }
}

MATH_INLINE void widen(int n, int64_t k, struct columns *cs)
{
    for (int c = 0; c < n; c++)
        for (int64_t i = 0; i < k; i += 16)
            _mm256_storeu_si256(
                (__m256i *)(void *)(cs->wide[c] + i),
                _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(const void *)(cs->x[c] + i))));
}

/* ---- sums in int16 ----------------------------------------------------------------------------- */

/* sum[r][c]: pairs of products over 4 * n_vec values of k, from vectors first on; begun at start[c][at] if
 * started. */
MATH_INLINE void dot_columns(int n_tiles, int n, int first, int n_vec, bool started, int at,
                             const struct tile_q8 *t, const struct columns *cs,
                             __m256i sum[MAX_TILES][COLUMN_GROUP])
{
    if (started)
        for (int c = 0; c < n; c++)
            for (int r = 0; r < n_tiles; r++)
                sum[r][c] = broadcast_i32(&cs->start[c][at]);
    UNROLL for (int v = first; v < first + n_vec; v++)
    {
        __m256i w[MAX_TILES];
        for (int r = 0; r < n_tiles; r++)
            w[r] = load_q(t[r].q[v]);
        UNROLL for (int c = 0; c < n; c++)
        {
            const __m256i x = broadcast_i32(cs->x[c] + 4 * v);
            for (int r = 0; r < n_tiles; r++) {
                const __m256i p = _mm256_maddubs_epi16(w[r], x);
                sum[r][c] = in_order(v == first && !started ? p : _mm256_add_epi16(sum[r][c], p));
            }
        }
    }
}

/* ---- ACT_Q8_32 --------------------------------------------------------------------------------- */

#define NO_BIAS SIZE_MAX

MATH_INLINE void load_sums(int n_tiles, int n, bool mins, const struct sums *s,
                           __m256 acc[MAX_TILES][COLUMN_GROUP], __m256 acc2[MAX_TILES][COLUMN_GROUP])
{
    for (int c = 0; c < n; c++) {
        for (int r = 0; r < n_tiles; r++) {
            acc[r][c] = _mm256_load_ps(s[c * MAX_TILES + r].acc);
            if (mins)
                acc2[r][c] = _mm256_load_ps(s[c * MAX_TILES + r].acc2);
        }
    }
}

MATH_INLINE void save_sums(int n_tiles, int n, bool mins, struct sums *s, __m256 acc[MAX_TILES][COLUMN_GROUP],
                           __m256 acc2[MAX_TILES][COLUMN_GROUP])
{
    for (int c = 0; c < n; c++) {
        for (int r = 0; r < n_tiles; r++) {
            _mm256_store_ps(s[c * MAX_TILES + r].acc, acc[r][c]);
            if (mins)
                _mm256_store_ps(s[c * MAX_TILES + r].acc2, acc2[r][c]);
        }
    }
}

/* group: vectors whose products fit into int16; bias: offset in the activation block of an int32 per 32-block
 * that is added to the sum, or NO_BIAS. */
MATH_INLINE void multiply_32(int n_tiles, int n, int group, bool started, size_t bias, bool mins,
                             const struct tile_q8 *t, int64_t k, const struct columns *cs, struct sums *s)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 acc[MAX_TILES][COLUMN_GROUP], acc2[MAX_TILES][COLUMN_GROUP];
    load_sums(n_tiles, n, mins, s, acc, acc2);
    for (int b = 0; b < (int)(k / 32); b++) {
        __m256i dot[MAX_TILES][COLUMN_GROUP], sum[MAX_TILES][COLUMN_GROUP];
        for (int first = 0; first < 8; first += group) {
            dot_columns(n_tiles, n, 8 * b + first, group, started, b, t, cs, sum);
            for (int c = 0; c < n; c++)
                for (int r = 0; r < n_tiles; r++) {
                    const __m256i v = _mm256_madd_epi16(sum[r][c], ones);
                    dot[r][c] = first ? _mm256_add_epi32(dot[r][c], v) : v;
                }
        }
        for (int c = 0; c < n; c++) {
            const __m256 dx = broadcast_f32(cs->x[c] + offsetof(struct act_block_32, d) + 4 * b);
            for (int r = 0; r < n_tiles; r++) {
                if (bias != NO_BIAS)
                    dot[r][c] = _mm256_add_epi32(dot[r][c], broadcast_i32(cs->x[c] + bias + 4 * b));
                const __m256 d = _mm256_mul_ps(_mm256_load_ps(t[r].d[b]), dx);
                acc[r][c] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(dot[r][c]), acc[r][c]);
                if (mins) {
                    const __m256 ds = broadcast_f32(cs->x[c] + offsetof(struct act_block_32, ds) + 4 * b);
                    acc2[r][c] = _mm256_fmadd_ps(_mm256_load_ps(t[r].m[b]), ds, acc2[r][c]);
                }
            }
        }
    }
    save_sums(n_tiles, n, mins, s, acc, acc2);
}

MATH_INLINE void multiply_wide(int n_tiles, int n, const struct tile_q16 *t, int64_t k,
                               const struct columns *cs, struct sums *s)
{
    __m256 acc[MAX_TILES][COLUMN_GROUP];
    load_sums(n_tiles, n, false, s, acc, NULL);
    for (int b = 0; b < (int)(k / 32); b++) {
        __m256i dot[MAX_TILES][COLUMN_GROUP];
        UNROLL for (int v = 0; v < 16; v++)
        {
            __m256i w[MAX_TILES];
            for (int r = 0; r < n_tiles; r++)
                w[r] = load_q(t[r].q[16 * b + v]);
            UNROLL for (int c = 0; c < n; c++)
            {
                const __m256i x = broadcast_i32(cs->wide[c] + 32 * b + 2 * v);
                for (int r = 0; r < n_tiles; r++) {
                    const __m256i p = _mm256_madd_epi16(w[r], x);
                    dot[r][c] = in_order(v ? _mm256_add_epi32(dot[r][c], p) : p);
                }
            }
        }
        for (int c = 0; c < n; c++) {
            const __m256 dx = broadcast_f32(cs->x[c] + offsetof(struct act_block_32, d) + 4 * b);
            for (int r = 0; r < n_tiles; r++) {
                const __m256 d = _mm256_mul_ps(_mm256_load_ps(t[r].d[b]), dx);
                acc[r][c] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(dot[r][c]), acc[r][c]);
            }
        }
    }
    save_sums(n_tiles, n, false, s, acc, NULL);
}

/* NVFP4: a scale of each half of a block, quants 12 too high. */
MATH_INLINE void multiply_halves(int n_tiles, int n, const struct tile_q8 *t, int64_t k,
                                 const struct columns *cs, struct sums *s)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 acc[MAX_TILES][COLUMN_GROUP];
    load_sums(n_tiles, n, false, s, acc, NULL);
    for (int half = 0; half < (int)(k / 16); half++) {
        __m256i sum[MAX_TILES][COLUMN_GROUP];
        dot_columns(n_tiles, n, 4 * half, 4, false, 0, t, cs, sum);
        for (int c = 0; c < n; c++) {
            const struct act_block_32 *a = (const struct act_block_32 *)(const void *)cs->x[c];
            const __m256 dx = _mm256_set1_ps(a->d[half / 2]);
            const __m256i neg = _mm256_set1_epi32(a->neg12[half]);
            for (int r = 0; r < n_tiles; r++) {
                const __m256i dot = _mm256_add_epi32(_mm256_madd_epi16(sum[r][c], ones), neg);
                const float *scale = half % 2 ? t[r].m[half / 2] : t[r].d[half / 2];
                acc[r][c] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(scale), dx), _mm256_cvtepi32_ps(dot),
                                            acc[r][c]);
            }
        }
    }
    save_sums(n_tiles, n, false, s, acc, NULL);
}

/* ---- ACT_Q8_256 -------------------------------------------------------------------------------- */

/* acc2 += dmin d_x * sum of mins times sums of activations, two sub-blocks per step of vpmaddwd. */
MATH_INLINE void multiply_mins(int n_pairs, size_t sums, const struct tile_q8 *t, const uint8_t *x,
                               struct sums *s)
{
    __m256i min = _mm256_setzero_si256();
    for (int j = 0; j < n_pairs; j++)
        min = _mm256_add_epi32(min, _mm256_madd_epi16(load_q(t->min[j]), broadcast_i32(x + sums + 4 * j)));
    const __m256 d =
        _mm256_mul_ps(_mm256_load_ps(t->m[0]), broadcast_f32(x + offsetof(struct act_block_256, d)));
    _mm256_store_ps(s->acc2, _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(min), _mm256_load_ps(s->acc2)));
}

#define NO_MINS SIZE_MAX

/* sub: elements of a sub-block; group as above; min_sums: offset of the sums of activations that mins meet. */
MATH_INLINE void multiply_256(int n_tiles, int n, int sub, int group, bool started, size_t min_sums,
                              const struct tile_q8 *t, const struct columns *cs, struct sums *s)
{
    const int n_sub = 256 / sub, n_vec = sub / 4;
    __m256i total[MAX_TILES][COLUMN_GROUP], sum[MAX_TILES][COLUMN_GROUP];
    for (int c = 0; c < n; c++)
        for (int r = 0; r < n_tiles; r++)
            total[r][c] = _mm256_setzero_si256();
    for (int j = 0; j < n_sub; j++) {
        for (int first = 0; first < n_vec; first += group) {
            dot_columns(n_tiles, n, j * n_vec + first, group, started, j, t, cs, sum);
            for (int r = 0; r < n_tiles; r++) {
                const __m256i scale = load_q(t[r].scale[j]);
                for (int c = 0; c < n; c++)
                    total[r][c] = _mm256_add_epi32(total[r][c], _mm256_madd_epi16(sum[r][c], scale));
            }
        }
    }
    for (int c = 0; c < n; c++) {
        const __m256 dx = broadcast_f32(cs->x[c] + offsetof(struct act_block_256, d));
        for (int r = 0; r < n_tiles; r++) {
            struct sums *to = &s[c * MAX_TILES + r];
            const __m256 d = _mm256_mul_ps(_mm256_load_ps(t[r].d[0]), dx);
            _mm256_store_ps(to->acc,
                            _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(total[r][c]), _mm256_load_ps(to->acc)));
            if (min_sums != NO_MINS)
                multiply_mins(n_sub / 2, min_sums, &t[r], cs->x[c], to);
        }
    }
}

/* Quants times scales in int16. */
MATH_INLINE void multiply_wide_256(int n_tiles, int n, const struct tile_q16 *t, const struct columns *cs,
                                   struct sums *s)
{
    __m256i total[MAX_TILES][COLUMN_GROUP];
    for (int c = 0; c < n; c++)
        for (int r = 0; r < n_tiles; r++)
            total[r][c] = _mm256_setzero_si256();
    for (int v = 0; v < TILE_K / 2; v++) {
        __m256i w[MAX_TILES];
        for (int r = 0; r < n_tiles; r++)
            w[r] = load_q(t[r].q[v]);
        UNROLL for (int c = 0; c < n; c++)
        {
            const __m256i x = broadcast_i32(cs->wide[c] + 2 * v);
            for (int r = 0; r < n_tiles; r++)
                total[r][c] = in_order(_mm256_add_epi32(total[r][c], _mm256_madd_epi16(w[r], x)));
        }
    }
    for (int c = 0; c < n; c++) {
        const __m256 dx = broadcast_f32(cs->x[c] + offsetof(struct act_block_256, d));
        for (int r = 0; r < n_tiles; r++) {
            struct sums *to = &s[c * MAX_TILES + r];
            const __m256 d = _mm256_mul_ps(_mm256_load_ps(t[r].d[0]), dx);
            _mm256_store_ps(to->acc,
                            _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(total[r][c]), _mm256_load_ps(to->acc)));
        }
    }
}

/* ---- ACT_F32 ----------------------------------------------------------------------------------- */

MATH_INLINE void multiply_floats(int n_tiles, int n, const struct tile_f32 *t, int64_t k,
                                 const struct columns *cs, struct sums *s)
{
    __m256 acc[MAX_TILES][COLUMN_GROUP];
    load_sums(n_tiles, n, false, s, acc, NULL);
    for (int64_t i = 0; i < k; i++) {
        __m256 w[MAX_TILES];
        for (int r = 0; r < n_tiles; r++)
            w[r] = _mm256_load_ps(t[r].w[i]);
        for (int c = 0; c < n; c++) {
            const __m256 v = broadcast_f32(cs->x[c] + 4 * i);
            for (int r = 0; r < n_tiles; r++)
                acc[r][c] = _mm256_fmadd_ps(w[r], v, acc[r][c]);
        }
    }
    save_sums(n_tiles, n, false, s, acc, NULL);
}

/* ---- one compiled body per number of tiles and columns ----------------------------------------- */

/* n columns: prepared once, then multiplied by pairs of tiles; a single column by all tiles at once. */
#define GROUP(n_columns, PREPARE, BODY)                                                                      \
    do {                                                                                                     \
        struct columns cs;                                                                                   \
        for (size_t c = 0; c < n_columns; c++)                                                               \
            cs.x[c] = x + c * stride;                                                                        \
        PREPARE(n_columns);                                                                                  \
        if (n_columns == 1 && n_tiles == MAX_TILES) {                                                        \
            BODY(MAX_TILES, 1, 0);                                                                           \
        } else {                                                                                             \
            for (int first = 0; first < n_tiles; first += PAIR)                                              \
                BODY(PAIR, n_columns, first);                                                                \
        }                                                                                                    \
    } while (0)

/* All groups of that many columns. */
#define GROUPS(n_columns, block_bytes, PREPARE, BODY)                                                        \
    for (; n >= n_columns; n -= n_columns, x += n_columns * stride, s += n_columns * MAX_TILES) {            \
        for (size_t next = n_columns; next < 2 * n_columns && (int64_t)next < n; next++)                     \
            prefetch_block(x + next * stride, block_bytes);                                                  \
        GROUP(n_columns, PREPARE, BODY);                                                                     \
    }

#define REST(PREPARE, BODY)                                                                                  \
    if (n == 3)                                                                                              \
        GROUP(3, PREPARE, BODY);                                                                             \
    else if (n == 2)                                                                                         \
        GROUP(2, PREPARE, BODY);                                                                             \
    else if (n == 1)                                                                                         \
    GROUP(1, PREPARE, BODY)

#define MULTIPLY(name, tile_type, PREPARE, BODY)                                                             \
    DECLARE_MULTIPLY(name)                                                                                   \
    {                                                                                                        \
        const tile_type *t = tiles;                                                                          \
        GROUPS(4, ACT_BLOCK_BYTES, PREPARE, BODY)                                                            \
        REST(PREPARE, BODY);                                                                                 \
        (void)k;                                                                                             \
    }

#define AT_32(field) offsetof(struct act_block_32, field)
#define AT_256(field) offsetof(struct act_block_256, field)

#define PREPARE_NOTHING(n) (void)0
#define PREPARE_Q5_0(n) start_sums(n, 32, 16, &cs)
#define PREPARE_Q8_0(n) widen(n, k, &cs)
#define PREPARE_Q3_K(n) start_sums(n, 16, 4, &cs)
#define PREPARE_Q6_K(n) start_sums(n, 16, 32, &cs)

/* r tiles from number f on, n columns */
#define BODY_Q4_0(r, n, f) multiply_32(r, n, 8, false, AT_32(neg8), false, t + f, k, &cs, s + f)
#define BODY_Q4_1(r, n, f) multiply_32(r, n, 8, false, NO_BIAS, true, t + f, k, &cs, s + f)
#define BODY_Q5_0(r, n, f) multiply_32(r, n, 8, true, NO_BIAS, false, t + f, k, &cs, s + f)
#define BODY_Q5_1(r, n, f) multiply_32(r, n, 4, false, NO_BIAS, true, t + f, k, &cs, s + f)
#define BODY_Q8_0(r, n, f) multiply_wide(r, n, t + f, k, &cs, s + f)
#define BODY_Q2_K(r, n, f) multiply_256(r, n, 16, 4, false, AT_256(sum16), t + f, &cs, s + f)
#define BODY_Q3_K(r, n, f) multiply_256(r, n, 16, 4, true, NO_MINS, t + f, &cs, s + f)
#define BODY_Q4_K(r, n, f) multiply_256(r, n, 32, 8, false, AT_256(sum32), t + f, &cs, s + f)
#define BODY_Q5_K(r, n, f) multiply_256(r, n, 32, 4, false, AT_256(sum32), t + f, &cs, s + f)
#define BODY_Q6_K(r, n, f) multiply_256(r, n, 16, 4, true, NO_MINS, t + f, &cs, s + f)
#define BODY_NVFP4(r, n, f) multiply_halves(r, n, t + f, k, &cs, s + f)
#define BODY_WIDE(r, n, f) multiply_wide_256(r, n, t + f, &cs, s + f)
#define BODY_F32(r, n, f) multiply_floats(r, n, t + f, k, &cs, s + f)

MULTIPLY(multiply_q4_0, struct tile_q8, PREPARE_NOTHING, BODY_Q4_0)
MULTIPLY(multiply_q4_1, struct tile_q8, PREPARE_NOTHING, BODY_Q4_1)
MULTIPLY(multiply_q5_0, struct tile_q8, PREPARE_Q5_0, BODY_Q5_0)
MULTIPLY(multiply_q5_1, struct tile_q8, PREPARE_NOTHING, BODY_Q5_1)
MULTIPLY(multiply_q8_0, struct tile_q16, PREPARE_Q8_0, BODY_Q8_0)
MULTIPLY(multiply_q2_k, struct tile_q8, PREPARE_NOTHING, BODY_Q2_K)
MULTIPLY(multiply_q3_k, struct tile_q8, PREPARE_Q3_K, BODY_Q3_K)
MULTIPLY(multiply_q4_k, struct tile_q8, PREPARE_NOTHING, BODY_Q4_K)
MULTIPLY(multiply_q5_k, struct tile_q8, PREPARE_NOTHING, BODY_Q5_K)
MULTIPLY(multiply_q6_k, struct tile_q8, PREPARE_Q6_K, BODY_Q6_K)
MULTIPLY(multiply_nvfp4, struct tile_q8, PREPARE_NOTHING, BODY_NVFP4)
MULTIPLY(multiply_wide, struct tile_q16, PREPARE_Q8_0, BODY_WIDE)

DECLARE_MULTIPLY(multiply_f32)
{
    const struct tile_f32 *t = tiles;
    const size_t bytes = (size_t)k * sizeof(float);
    GROUPS(6, bytes, PREPARE_NOTHING, BODY_F32)
    GROUPS(4, bytes, PREPARE_NOTHING, BODY_F32)
    REST(PREPARE_NOTHING, BODY_F32);
}
