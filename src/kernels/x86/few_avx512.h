/* What kernels for few columns of packed panels are made of (few_avx512.c says how they go): the tile at hand, taking its
 * words while asking for later ones, sums, and one compiled body per number of panels and columns. */
#ifndef HASTEN_KERNELS_X86_FEW_AVX512_H
#define HASTEN_KERNELS_X86_FEW_AVX512_H
#include "kernels/x86/dots_avx512.h"
#include "kernels/x86/words_avx512.h"

/* The tile at hand; what is known at compile time comes as arguments. */
struct few {
    const uint8_t *src; /* of the first panel */
    size_t panel_bytes; /* from it to the second */
    size_t ahead, far;  /* from what is read to what is asked for (see enter_tile) */
    const uint8_t *x[COLUMN_GROUP];
    __mmask16 old;     /* which lanes of sums hold something */
    struct tile_q8 *t; /* [PANEL_GROUP] for what is not quants */
    struct sums *s;    /* [COLUMN_GROUP][PANEL_GROUP] */
};

typedef __m512 float_sums[PANEL_GROUP][COLUMN_GROUP];

MATH_INLINE const uint8_t *panel_at(const struct few *f, int p)
{
    return f->src + (size_t)p * f->panel_bytes;
}

/* The line at `at` is about to be read: asks for those that come later. */
MATH_INLINE void ask(const struct few *f, const uint8_t *at)
{
    _mm_prefetch((const char *)at + f->ahead, _MM_HINT_T0);
    _mm_prefetch((const char *)at + f->far, _MM_HINT_T1);
}

/* Word w of the tile of panel p. */
MATH_INLINE __m512i take(const struct few *f, int p, int64_t w)
{
    const uint8_t *at = panel_at(f, p) + w * 64;
    ask(f, at);
    return _mm512_load_si512(at);
}

/* d of the rows of panel p, where word w would be. */
MATH_INLINE __m512 take_d(const struct few *f, int p, int64_t w)
{
    const uint8_t *at = panel_at(f, p) + w * 64;
    ask(f, at);
    return load_f16(at);
}

MATH_INLINE void add_dots(int n_panels, int n, int k4, const __m512i q[PANEL_GROUP], const struct few *f,
                          dots dot)
{
    EACH(c, n)
    {
        const __m512i v = broadcast_i32(f->x[c] + 4 * k4);
        EACH(p, n_panels) dot[p][c] = _mm512_dpbusd_epi32(dot[p][c], q[p], v);
    }
}

MATH_INLINE void load_sums(int n_panels, int n, const struct few *f, float_sums acc)
{
    EACH(c, n) EACH(p, n_panels) acc[p][c] = _mm512_maskz_load_ps(f->old, f->s[c * PANEL_GROUP + p].acc);
}

MATH_INLINE void store_sums(int n_panels, int n, const struct few *f, float_sums acc)
{
    EACH(c, n) EACH(p, n_panels) _mm512_store_ps(f->s[c * PANEL_GROUP + p].acc, acc[p][c]);
}

MATH_INLINE void add_scaled(int n_panels, int n, int j, const struct few *f, dots dot, dots total)
{
    EACH(p, n_panels)
    {
        const __m512i scale = _mm512_load_si512(f->t[p].scale[j]);
        EACH(c, n)
        total[p][c] = _mm512_add_epi32(total[p][c], _mm512_mullo_epi32(dot[p][c], scale));
    }
}

MATH_INLINE void zero_dots(int n_panels, int n, dots total)
{
    EACH(c, n) EACH(p, n_panels) total[p][c] = _mm512_setzero_si512();
}

/* ---- one compiled body per number of panels and columns ---------------------------------------- */

/* Memory is asked for twice. First into the second-level cache, far_tiles ahead, or the same line of the next
 * panels where these are shorter: the first-level cache alone waits for too few lines at once, and the making of quants
 * shows (Q5_0 on a Xeon: 86 % of the bus without, 97 % with it). Then into the first, a tile ahead, two where tiles
 * are small; whole tiles because then the order within one does not matter. Past the end of the panels are the
 * beginnings of those that come next; a short last tile leaves some of these, which follow at once. Behind the last
 * panels of a call comes what others may be reading: nothing far is asked for there (0: what is being read). */
MATH_INLINE void enter_tile(struct few *f, const struct packed_panels *w, int n_panels, int64_t n_tiles,
                            int64_t tiles_left)
{
    const size_t lead = w->tile_bytes < 2048 ? 2 : 1,
                 far = w->far_tiles < (size_t)n_tiles ? w->far_tiles : (size_t)n_tiles,
                 jump = (size_t)n_panels * w->panel_bytes - (size_t)n_tiles * w->tile_bytes;
    f->ahead = lead * w->tile_bytes + (tiles_left <= (int64_t)lead ? jump : 0);
    f->far = far * w->tile_bytes;
    if (tiles_left <= (int64_t)far)
        f->far = w->last ? 0 : f->far + jump;
    if (tiles_left == 1)
        for (size_t at = w->panel_bytes - (size_t)(n_tiles - 1) * w->tile_bytes; at < w->tile_bytes; at += 64)
            EACH(p, n_panels) _mm_prefetch((const char *)panel_at(f, p) + at + f->ahead, _MM_HINT_T0);
}

/* All tiles of the row; x_step: bytes of activations of a tile. */
#define FOR_TILES(panels, columns, BODY, tile_values, x_step)                                                \
    do {                                                                                                     \
        const int64_t n_tiles = (k + tile_values - 1) / tile_values;                                         \
        for (int64_t left = k, t = n_tiles; left > 0; left -= tile_values, t--) {                            \
            enter_tile(&f, w, panels, n_tiles, t);                                                           \
            BODY(panels, columns, &f, left < tile_values ? left : tile_values);                              \
            f.src += w->tile_bytes;                                                                          \
            f.old = 0xffff;                                                                                  \
            for (int c = 0; c < columns; c++)                                                                \
                f.x[c] += x_step;                                                                            \
        }                                                                                                    \
    } while (0)

#if defined(HASTEN_SANITIZED) /* one body for all numbers of columns: each is instrumented for long */
#define FOR_COLUMNS(panels, BODY, tile_values, x_step)                                                       \
    do {                                                                                                     \
        const int columns_done = n == 3 ? 4 : (int)n;                                                        \
        FOR_TILES(panels, columns_done, BODY, tile_values, x_step);                                          \
    } while (0)
#else
#define FOR_COLUMNS(panels, BODY, tile_values, x_step)                                                       \
    do {                                                                                                     \
        if (n == 1)                                                                                          \
            FOR_TILES(panels, 1, BODY, tile_values, x_step);                                                 \
        else if (n == 2)                                                                                     \
            FOR_TILES(panels, 2, BODY, tile_values, x_step);                                                 \
        else                                                                                                 \
            FOR_TILES(panels, 4, BODY, tile_values, x_step);                                                 \
    } while (0)
#endif

#define FEW(name, BODY, tile_values, x_step)                                                                 \
    DECLARE_FEW(name)                                                                                        \
    {                                                                                                        \
        struct few f = {.src = w->at, .panel_bytes = w->panel_bytes, .t = tiles, .s = s};                    \
        for (int64_t c = 0; c < COLUMN_GROUP; c++) /* a third column without a fourth is done twice */       \
            f.x[c] = x + (size_t)(c < n ? c : n - 1) * stride;                                               \
        if (n_panels == 2)                                                                                   \
            FOR_COLUMNS(2, BODY, tile_values, x_step);                                                       \
        else                                                                                                 \
            FOR_COLUMNS(1, BODY, tile_values, x_step);                                                       \
    }

#define FEW_QUANTS(name, BODY) FEW(name, BODY, TILE_K, ACT_BLOCK_BYTES)

#endif
