/* Tiles times columns: 16 rows x up to 8 activation rows at once. For each output the operations are those of
 * kernels.h in the same order, whatever the number of columns: int32 within a block, then one fma.
 *
 * The offset of unsigned quants costs nothing: the int32 sums of a block begin at -offset * sum(q_x), which
 * act_make has left beside the activations. */
#include "kernels/x86/panel_avx512.h"
#include "kernels/x86/vec_avx512.h"

#define MAX_COLUMNS 8

MATH_INLINE __m512i broadcast_i32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

MATH_INLINE __m512 broadcast_f32(const uint8_t *p)
{
    float v;
    memcpy(&v, p, 4);
    return _mm512_set1_ps(v);
}

/* dot[c] += sums over 4 * n_vec values of k, from vectors q and activation bytes x[c]. */
MATH_INLINE void dot_columns(int n, int n_vec, const uint8_t (*q)[64], const uint8_t *const x[MAX_COLUMNS],
                             int64_t offset, __m512i dot[MAX_COLUMNS])
{
#pragma GCC unroll 8
    for (int v = 0; v < n_vec; v++) {
        const __m512i w = _mm512_load_si512(q[v]);
#pragma GCC unroll 8
        for (int c = 0; c < n; c++)
            dot[c] = _mm512_dpbusd_epi32(dot[c], w, broadcast_i32(x[c] + offset + 4 * v));
    }
}

/* ---- ACT_Q8_32 --------------------------------------------------------------------------------- */

MATH_INLINE void multiply_32(int n, bool offset, bool mins, const struct tile_q8 *t, int64_t k0, int64_t k1,
                             const struct columns *cols, struct sums *s)
{
    const uint8_t *x[MAX_COLUMNS];
    __m512 acc[MAX_COLUMNS], acc2[MAX_COLUMNS];
    for (int c = 0; c < n; c++) {
        x[c] = cols->x + (size_t)c * cols->stride;
        acc[c] = _mm512_load_ps(s[c].acc);
        acc2[c] = _mm512_load_ps(s[c].acc2);
    }
    for (int64_t k = k0; k < k1; k += 32) {
        const int64_t b = k % TILE_K / 32, byte = k / 8; /* of the block's 4-byte entries */
        __m512i dot[MAX_COLUMNS];
        for (int c = 0; c < n; c++)
            dot[c] = offset ? broadcast_i32(x[c] + cols->neg + byte) : _mm512_setzero_si512();
        dot_columns(n, 8, (const uint8_t(*)[64])t->q + b * 8, x, k, dot);
        const __m512 d = _mm512_load_ps(t->d[b]);
        for (int c = 0; c < n; c++)
            acc[c] = _mm512_fmadd_ps(_mm512_mul_ps(d, broadcast_f32(x[c] + cols->d + byte)),
                                     _mm512_cvtepi32_ps(dot[c]), acc[c]);
        if (mins) {
            const __m512 m = _mm512_load_ps(t->m[b]);
            for (int c = 0; c < n; c++)
                acc2[c] = _mm512_fmadd_ps(m, broadcast_f32(x[c] + cols->ds + byte), acc2[c]);
        }
        t += b == 7;
    }
    for (int c = 0; c < n; c++) {
        _mm512_store_ps(s[c].acc, acc[c]);
        _mm512_store_ps(s[c].acc2, acc2[c]);
    }
}

/* ---- ACT_Q8_256 -------------------------------------------------------------------------------- */

/* One 256-block. The f32 sums stay in memory: the integers need the registers. */
MATH_INLINE void multiply_256(int n, int sub, bool offset, bool mins, const struct tile_q8 *t, int64_t k0, int64_t k1,
                              const struct columns *cols, struct sums *s)
{
    const uint8_t *x[MAX_COLUMNS];
    const int n_sub = 256 / sub, n_vec = sub / 4;
    for (int c = 0; c < n; c++)
        x[c] = cols->x + (size_t)c * cols->stride;
    for (int64_t k = k0; k < k1; k += 256, t++) {
        __m512i total[MAX_COLUMNS], dot[MAX_COLUMNS];
        for (int c = 0; c < n; c++)
            total[c] = _mm512_setzero_si512();
        for (int j = 0; j < n_sub; j++) {
            for (int c = 0; c < n; c++)
                dot[c] = offset ? broadcast_i32(x[c] + cols->neg + k / 4 + 4 * j) : _mm512_setzero_si512();
            dot_columns(n, n_vec, (const uint8_t(*)[64])t->q + j * n_vec, x, k + j * sub, dot);
            const __m512i scale = _mm512_load_si512(t->scale[j]);
            for (int c = 0; c < n; c++)
                total[c] = _mm512_add_epi32(total[c], _mm512_mullo_epi32(dot[c], scale));
        }
        const __m512 d = _mm512_load_ps(t->d[0]), dmin = _mm512_load_ps(t->m[0]);
        for (int c = 0; c < n; c++) {
            const __m512 dx = broadcast_f32(x[c] + cols->d + k / 64);
            const __m512 acc = _mm512_load_ps(s[c].acc);
            _mm512_store_ps(s[c].acc, _mm512_fmadd_ps(_mm512_mul_ps(d, dx), _mm512_cvtepi32_ps(total[c]), acc));
            if (!mins)
                continue;
            __m512i min = _mm512_setzero_si512();
            for (int j = 0; j < n_sub / 2; j++)
                min = _mm512_dpwssd_epi32(min, _mm512_load_si512(t->min[j]),
                                          broadcast_i32(x[c] + cols->sums + k / 256 * n_sub * 2 + 4 * j));
            const __m512 acc2 = _mm512_load_ps(s[c].acc2);
            _mm512_store_ps(s[c].acc2, _mm512_fmadd_ps(_mm512_mul_ps(dmin, dx), _mm512_cvtepi32_ps(min), acc2));
        }
    }
}

/* ---- ACT_F32 ----------------------------------------------------------------------------------- */

MATH_INLINE void multiply_f32(int n, const struct tile_f32 *t, int64_t k0, int64_t k1, const struct columns *cols,
                              struct sums *s)
{
    const uint8_t *x[MAX_COLUMNS];
    __m512 acc[MAX_COLUMNS];
    const float *w = t->w[0];
    for (int c = 0; c < n; c++) {
        x[c] = cols->x + (size_t)c * cols->stride;
        acc[c] = _mm512_load_ps(s[c].acc);
    }
    for (int64_t k = k0; k < k1; k++, w += PANEL_ROWS) {
        const __m512 v = _mm512_load_ps(w);
        for (int c = 0; c < n; c++)
            acc[c] = _mm512_fmadd_ps(v, broadcast_f32(x[c] + 4 * k), acc[c]);
    }
    for (int c = 0; c < n; c++)
        _mm512_store_ps(s[c].acc, acc[c]);
}

/* ---- one compiled body per number of columns --------------------------------------------------- */

#define MULTIPLY(name, tile_type, body, ...)                                                                       \
    static __attribute__((noinline)) void name##_8(const void *t, int64_t k0, int64_t k1, const struct columns *c, \
                                                   struct sums *s)                                                 \
    {                                                                                                              \
        body(8, ##__VA_ARGS__, (const tile_type *)t, k0, k1, c, s);                                                \
    }                                                                                                              \
    static __attribute__((noinline)) void name##_4(const void *t, int64_t k0, int64_t k1, const struct columns *c, \
                                                   struct sums *s)                                                 \
    {                                                                                                              \
        body(4, ##__VA_ARGS__, (const tile_type *)t, k0, k1, c, s);                                                \
    }                                                                                                              \
    static __attribute__((noinline)) void name##_2(const void *t, int64_t k0, int64_t k1, const struct columns *c, \
                                                   struct sums *s)                                                 \
    {                                                                                                              \
        body(2, ##__VA_ARGS__, (const tile_type *)t, k0, k1, c, s);                                                \
    }                                                                                                              \
    static __attribute__((noinline)) void name##_1(const void *t, int64_t k0, int64_t k1, const struct columns *c, \
                                                   struct sums *s)                                                 \
    {                                                                                                              \
        body(1, ##__VA_ARGS__, (const tile_type *)t, k0, k1, c, s);                                                \
    }                                                                                                              \
    void name##_avx512(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n, struct sums *s)  \
    {                                                                                                              \
        split_columns(name##_8, name##_4, name##_2, name##_1, tiles, k0, k1, c, n, s);                             \
    }

typedef void (*body_fn)(const void *t, int64_t k0, int64_t k1, const struct columns *c, struct sums *s);

/* Splits n columns into 8, 4, 2, 1. */
MATH_INLINE void split_columns(body_fn by_8, body_fn by_4, body_fn by_2, body_fn by_1, const void *tiles, int64_t k0,
                               int64_t k1, const struct columns *cols, int n, struct sums *s)
{
    struct columns c = *cols;
    const body_fn bodies[4] = {by_8, by_4, by_2, by_1};
    for (int i = 0, size = 8; n > 0; size /= 2, i++) {
        if (n < size)
            continue;
        bodies[i](tiles, k0, k1, &c, s);
        n -= size;
        c.x += (size_t)size * c.stride;
        s += size;
    }
}

MULTIPLY(multiply_f32, struct tile_f32, multiply_f32)
MULTIPLY(multiply_32_offset, struct tile_q8, multiply_32, true, false)
MULTIPLY(multiply_32_min, struct tile_q8, multiply_32, false, true)
MULTIPLY(multiply_256_sub32_min, struct tile_q8, multiply_256, 32, false, true)
MULTIPLY(multiply_256_sub16_min, struct tile_q8, multiply_256, 16, false, true)
MULTIPLY(multiply_256_sub16_offset, struct tile_q8, multiply_256, 16, true, false)
