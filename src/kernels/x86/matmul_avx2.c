/* The matmul for AVX2: drives unpacking and multiplication.
 *
 * 32 rows at a time, one stretch of k at a time: their tiles are unpacked into the first-level cache and meet
 * every column there, whose sums wait in scratch. One column (decode) and hundreds (prefill) take the same way,
 * so the operations per output are the same. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/vec_avx2.h"

#define ROWS (MAX_TILES * TILE_ROWS)
#define MAX_COLUMNS 256     /* columns per pass over a weight; more make a second pass */
#define PREFETCH_COLUMNS 16 /* up to here the weights' way from memory is what takes the time */

#define FORMAT(id, tile, k, mins, unpack, multiply)                                                          \
    {                                                                                                        \
        id, sizeof(struct tile), k, mins, unpack##_avx2, multiply##_avx2                                     \
    }

static const struct panel_format formats[] = {
    FORMAT(QUANT_F32, tile_f32, TILE_K_F32, MINS_NONE, unpack_f32, multiply_f32),
    FORMAT(QUANT_F16, tile_f32, TILE_K_F32, MINS_NONE, unpack_f16, multiply_f32),
    FORMAT(QUANT_BF16, tile_f32, TILE_K_F32, MINS_NONE, unpack_bf16, multiply_f32),
    FORMAT(QUANT_Q4_0, tile_q8, TILE_K, MINS_NONE, unpack_q4_0, multiply_q4_0),
    FORMAT(QUANT_Q4_1, tile_q8, TILE_K, MINS_ADDED, unpack_q4_1, multiply_q4_1),
    FORMAT(QUANT_Q5_0, tile_q8, TILE_K, MINS_NONE, unpack_q5_0, multiply_q5_0),
    FORMAT(QUANT_Q5_1, tile_q8, TILE_K, MINS_ADDED, unpack_q5_1, multiply_q5_1),
    FORMAT(QUANT_Q8_0, tile_q16, TILE_K, MINS_NONE, unpack_q8_0, multiply_q8_0),
    FORMAT(QUANT_Q2_K, tile_q8, TILE_K, MINS_SUBTRACTED, unpack_q2_k, multiply_q2_k),
    FORMAT(QUANT_Q3_K, tile_q8, TILE_K, MINS_NONE, unpack_q3_k, multiply_q3_k),
    FORMAT(QUANT_Q4_K, tile_q8, TILE_K, MINS_SUBTRACTED, unpack_q4_k, multiply_q4_k),
    FORMAT(QUANT_Q5_K, tile_q8, TILE_K, MINS_SUBTRACTED, unpack_q5_k, multiply_q5_k),
    FORMAT(QUANT_Q6_K, tile_q8, TILE_K, MINS_NONE, unpack_q6_k, multiply_q6_k),
    FORMAT(QUANT_IQ4_NL, tile_q16, TILE_K, MINS_NONE, unpack_iq4_nl, multiply_q8_0),
    FORMAT(QUANT_IQ4_XS, tile_q16, TILE_K, MINS_NONE, unpack_iq4_xs, multiply_wide),
    FORMAT(QUANT_MXFP4, tile_q8, TILE_K, MINS_NONE, unpack_mxfp4, multiply_q5_0),
    FORMAT(QUANT_NVFP4, tile_q8, TILE_K, MINS_NONE, unpack_nvfp4, multiply_nvfp4),
    FORMAT(QUANT_IQ2_XXS, tile_q16, TILE_K, MINS_NONE, unpack_iq2_xxs, multiply_wide),
    FORMAT(QUANT_IQ2_XS, tile_q16, TILE_K, MINS_NONE, unpack_iq2_xs, multiply_wide),
    FORMAT(QUANT_IQ2_S, tile_q16, TILE_K, MINS_NONE, unpack_iq2_s, multiply_wide),
    FORMAT(QUANT_IQ3_XXS, tile_q16, TILE_K, MINS_NONE, unpack_iq3_xxs, multiply_wide),
    FORMAT(QUANT_IQ3_S, tile_q16, TILE_K, MINS_NONE, unpack_iq3_s, multiply_wide),
    FORMAT(QUANT_IQ1_S, tile_q16, TILE_K, MINS_NONE, unpack_iq1_s, multiply_wide),
    FORMAT(QUANT_IQ1_M, tile_q16, TILE_K, MINS_NONE, unpack_iq1_m, multiply_wide),
    FORMAT(QUANT_TQ1_0, tile_q8, TILE_K, MINS_NONE, unpack_tq1_0, multiply_q3_k),
    FORMAT(QUANT_TQ2_0, tile_q8, TILE_K, MINS_NONE, unpack_tq2_0, multiply_q3_k),
};

static const struct panel_format *format_get(uint32_t id)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].id == id)
            return &formats[i];
    return NULL;
}

/* Scratch: MAX_TILES tiles, then the sums of MAX_COLUMNS columns. */
size_t avx2_matmul_scratch_bytes(const struct weight *w)
{
    const struct panel_format *f = format_get(w->type->id);
    if (!f)
        return twin_matmul_scratch_bytes(w);
    return MAX_TILES * (f->tile_bytes + MAX_COLUMNS * sizeof(struct sums));
}

/* A run of memory to be fetched piece by piece while something else is worked on. */
struct ahead {
    const uint8_t *at, *end;
    size_t step;
};

/* The next rows, in equal pieces for n_steps steps; in address order, because that is what the hardware's own
 * prefetcher recognises and runs ahead of. Unpacking alone would read 8 rows at once. */
static struct ahead ahead_of(const struct weight *w, int64_t row, int64_t row_end, int64_t n_steps)
{
    const int64_t rows = row_end - row < ROWS ? row_end - row : ROWS;
    struct ahead a = {NULL, NULL, 0};
    if (rows > 0) {
        const size_t bytes = (size_t)rows * (size_t)w->row_bytes;
        a.at = weight_row(w, row);
        a.end = a.at + bytes;
        a.step = round_up_64(bytes / (size_t)n_steps + 1);
    }
    return a;
}

static void fetch_ahead(struct ahead *a)
{
    const uint8_t *stop = (size_t)(a->end - a->at) > a->step ? a->at + a->step : a->end;
    for (; a->at < stop; a->at += 64)
        _mm_prefetch((const char *)a->at, _MM_HINT_T1);
}

/* Unpacks one tile of n_rows rows, k values from k0 on. A tile that the matrix does not fill is first copied to a
 * buffer, its missing rows standing as copies of the first there, so that unpacking always finds 8. */
static void unpack_tile(const struct panel_format *f, const struct weight *w, int64_t row, int64_t n_rows,
                        int64_t k0, int64_t k, void *tile)
{
    const size_t block = (size_t)w->type->block, block_bytes = (size_t)w->type->block_bytes;
    const uint8_t *src = weight_row(w, row) + (size_t)k0 / block * block_bytes;
    if (n_rows >= TILE_ROWS) {
        f->unpack(src, (size_t)w->row_bytes, k, tile);
        return;
    }
    uint8_t rows[TILE_ROWS][TILE_K / 32 * 34]; /* no type has more bytes in a tile: Q8_0 */
    _Static_assert(sizeof rows[0] >= TILE_K_F32 * sizeof(float), "a tile of F32 fits");
    for (int64_t r = 0; r < TILE_ROWS; r++)
        memcpy(rows[r], src + (size_t)(r < n_rows ? r : 0) * (size_t)w->row_bytes,
               (size_t)k / block * block_bytes);
    f->unpack(rows[0], sizeof rows[0], k, tile);
}

static void store_sums(const struct panel_format *f, const struct sums *s, int64_t n_rows, float *y)
{
    __m256 v = _mm256_load_ps(s->acc);
    if (f->mins == MINS_ADDED)
        v = _mm256_add_ps(v, _mm256_load_ps(s->acc2));
    else if (f->mins == MINS_SUBTRACTED)
        v = _mm256_sub_ps(v, _mm256_load_ps(s->acc2));
    v = _mm256_blendv_ps(v, _mm256_set1_ps(canonical_nan()), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    v_store(y, n_rows, v);
}

/* Rows [row0, row1), at most 32, of n <= MAX_COLUMNS columns. */
static void multiply_rows(const struct panel_format *f, const struct weight *w, const struct act *a,
                          int64_t col, int64_t n, int64_t row0, int64_t row1, struct ahead *ahead, float *y,
                          int64_t ldy, uint8_t *scratch)
{
    const int n_tiles = row1 - row0 > PANEL_ROWS ? MAX_TILES : PANEL_ROWS / TILE_ROWS;
    const size_t x_step = a->form == ACT_F32 ? TILE_K_F32 * sizeof(float) : ACT_BLOCK_BYTES;
    struct sums *s = (struct sums *)(void *)(scratch + MAX_TILES * f->tile_bytes);
    const uint8_t *x = act_row(a, col);
    memset(s, 0, (size_t)n * MAX_TILES * sizeof *s);
    for (int64_t k0 = 0; k0 < w->k; k0 += f->tile_k, x += x_step) {
        const int64_t k = w->k - k0 < f->tile_k ? w->k - k0 : f->tile_k;
        for (int64_t i = 0; i < n_tiles; i++) {
            const int64_t row = row0 + i * TILE_ROWS < row1 ? row0 + i * TILE_ROWS : row0;
            fetch_ahead(ahead);
            unpack_tile(f, w, row, row1 - row, k0, k, scratch + (size_t)i * f->tile_bytes);
        }
        f->multiply(scratch, n_tiles, k, x, a->row_stride, n, s);
    }
    for (int64_t c = 0; c < n; c++)
        for (int64_t i = 0; row0 + i * TILE_ROWS < row1; i++)
            store_sums(f, &s[c * MAX_TILES + i], row1 - row0 - i * TILE_ROWS,
                       y + (col + c) * ldy + row0 + i * TILE_ROWS);
}

void avx2_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                 int64_t ldy, void *scratch)
{
    const struct panel_format *f = format_get(w->type->id);
    if (!f) {
        twin_matmul(w, a, row0, row1, y, ldy, scratch);
        return;
    }
    for (int64_t col = 0; col < a->n; col += MAX_COLUMNS) {
        const int64_t n = a->n - col < MAX_COLUMNS ? a->n - col : MAX_COLUMNS;
        for (int64_t row = row0; row < row1; row += ROWS) {
            const int64_t end = row1 - row < ROWS ? row1 : row + ROWS;
            const int64_t n_steps = (w->k + f->tile_k - 1) / f->tile_k * MAX_TILES;
            struct ahead ahead = ahead_of(w, end, n <= PREFETCH_COLUMNS ? row1 : end, n_steps);
            multiply_rows(f, w, a, col, n, row, end, &ahead, y, ldy, scratch);
        }
    }
}
