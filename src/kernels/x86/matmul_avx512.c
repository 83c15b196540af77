/* The fast matmul: drives unpacking and multiplication over panels of 16 rows.
 *
 * Few columns (decode): a tile is unpacked into the first-level cache and multiplied at once. Many columns
 * (prefill): a group of panels is unpacked whole into scratch, sized for the second-level cache, and each group
 * of 8 columns runs over all of it, so that activations are read once per group of panels. Both perform the same
 * operations per output. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include "kernels/x86/panel_avx512.h"
#include "kernels/x86/vec_avx512.h"

#define COLUMNS 8              /* handled together */
#define SCRATCH_TARGET (768 << 10) /* bytes of unpacked panels kept at once, if more than one panel fits */
#define SCRATCH_PANELS 4

static const struct panel_format formats[] = {
    {QUANT_F32, TILE_F32, MINS_NONE, 0, unpack_f32_avx512, multiply_f32_avx512},
    {QUANT_F16, TILE_F32, MINS_NONE, 0, unpack_f16_avx512, multiply_f32_avx512},
    {QUANT_BF16, TILE_F32, MINS_NONE, 0, unpack_bf16_avx512, multiply_f32_avx512},
    {QUANT_Q4_0, TILE_Q8_32, MINS_NONE, 8, unpack_q4_0_avx512, multiply_32_offset_avx512},
    {QUANT_Q4_1, TILE_Q8_32, MINS_ADDED, 0, unpack_q4_1_avx512, multiply_32_min_avx512},
    {QUANT_Q5_0, TILE_Q8_32, MINS_NONE, 16, unpack_q5_0_avx512, multiply_32_offset_avx512},
    {QUANT_Q5_1, TILE_Q8_32, MINS_ADDED, 0, unpack_q5_1_avx512, multiply_32_min_avx512},
    {QUANT_Q8_0, TILE_Q8_32, MINS_NONE, 128, unpack_q8_0_avx512, multiply_32_offset_avx512},
    {QUANT_Q2_K, TILE_Q8_256, MINS_SUBTRACTED, 0, unpack_q2_k_avx512, multiply_256_sub16_min_avx512},
    {QUANT_Q3_K, TILE_Q8_256, MINS_NONE, 4, unpack_q3_k_avx512, multiply_256_sub16_offset_avx512},
    {QUANT_Q4_K, TILE_Q8_256, MINS_SUBTRACTED, 0, unpack_q4_k_avx512, multiply_256_sub32_min_avx512},
    {QUANT_Q5_K, TILE_Q8_256, MINS_SUBTRACTED, 0, unpack_q5_k_avx512, multiply_256_sub32_min_avx512},
    {QUANT_Q6_K, TILE_Q8_256, MINS_NONE, 32, unpack_q6_k_avx512, multiply_256_sub16_offset_avx512},
};

static const struct panel_format *format_get(uint32_t id)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].id == id)
            return &formats[i];
    return NULL;
}

static size_t tile_bytes(const struct panel_format *f)
{
    return f->tile_kind == TILE_F32 ? sizeof(struct tile_f32) : sizeof(struct tile_q8);
}

static size_t panel_bytes(const struct panel_format *f, int64_t k)
{
    return (size_t)((k + TILE_K - 1) / TILE_K) * tile_bytes(f);
}

/* Panels unpacked together for rows of length k: 1 to SCRATCH_PANELS. */
static int64_t panels_together(const struct panel_format *f, int64_t k)
{
    const size_t fit = SCRATCH_TARGET / panel_bytes(f, k);
    return fit < 1 ? 1 : fit > SCRATCH_PANELS ? SCRATCH_PANELS : (int64_t)fit;
}

size_t avx512_matmul_scratch_bytes(const struct weight *w)
{
    const struct panel_format *f = format_get(w->type->id);
    if (!f || w->k <= 0)
        return twin_matmul_scratch_bytes(w);
    return (size_t)panels_together(f, w->k) * panel_bytes(f, w->k);
}

static struct columns columns_of(const struct panel_format *f, const struct act *a)
{
    struct columns c = {.x = a->rows, .stride = a->row_stride};
    if (f->tile_kind == TILE_Q8_32) {
        const struct act32_layout l = act32_layout(a->k);
        c.d = l.d;
        c.ds = l.ds;
        c.neg = f->offset == 8 ? l.neg8 : f->offset == 16 ? l.neg16 : l.neg128;
    } else if (f->tile_kind == TILE_Q8_256) {
        const struct act256_layout l = act256_layout(a->k);
        c.d = l.d;
        c.neg = f->offset == 32 ? l.neg32 : l.neg4;
        c.sums = f->id == QUANT_Q2_K ? l.sum16 : l.sum32;
    }
    return c;
}

/* Unpacks k values from k0 on of the n_rows rows that begin at row. Rows beyond the last are copies of row 0's
 * place in a small buffer, so that unpacking always finds 16. */
static void unpack_tile(const struct panel_format *f, const struct weight *w, int64_t row, int64_t n_rows, int64_t k0,
                        void *tile)
{
    const int64_t k = w->k - k0 < TILE_K ? w->k - k0 : TILE_K;
    const uint8_t *src = weight_row(w, row) + (size_t)(k0 / w->type->block) * (size_t)w->type->block_bytes;
    if (n_rows == PANEL_ROWS) {
        f->unpack(src, (size_t)w->row_bytes, k, tile);
        return;
    }
    uint8_t rows[PANEL_ROWS][TILE_K * sizeof(float)];
    const size_t bytes = (size_t)(k / w->type->block) * (size_t)w->type->block_bytes;
    for (int64_t r = 0; r < PANEL_ROWS; r++)
        memcpy(rows[r], src + (size_t)(r < n_rows ? r : 0) * (size_t)w->row_bytes, bytes);
    f->unpack(rows[0], sizeof rows[0], k, tile);
}

static void store_sums(const struct panel_format *f, const struct sums *s, int n, int64_t n_rows, float *y, int64_t ldy)
{
    const __m512 nan = _mm512_set1_ps(canonical_nan());
    for (int c = 0; c < n; c++) {
        __m512 v = _mm512_load_ps(s[c].acc);
        if (f->mins == MINS_ADDED)
            v = _mm512_add_ps(v, _mm512_load_ps(s[c].acc2));
        else if (f->mins == MINS_SUBTRACTED)
            v = _mm512_sub_ps(v, _mm512_load_ps(s[c].acc2));
        v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
        _mm512_mask_storeu_ps(y + c * ldy, v_tail(n_rows), v);
    }
}

/* One panel, at most 8 columns: tile by tile. */
static void panel_few(const struct panel_format *f, const struct weight *w, const struct columns *c, int n,
                      int64_t row, int64_t n_rows, float *y, int64_t ldy, void *tile)
{
    struct sums s[COLUMNS] = {0};
    for (int64_t k = 0; k < w->k; k += TILE_K) {
        unpack_tile(f, w, row, n_rows, k, tile);
        f->multiply(tile, k, k + TILE_K < w->k ? k + TILE_K : w->k, c, n, s);
    }
    store_sums(f, s, n, n_rows, y + row, ldy);
}

/* A group of panels, any number of columns. */
static void panels_many(const struct panel_format *f, const struct weight *w, const struct columns *all, int64_t n,
                        int64_t row0, int64_t row1, float *y, int64_t ldy, uint8_t *scratch)
{
    const size_t per_tile = tile_bytes(f), per_panel = panel_bytes(f, w->k);
    for (int64_t row = row0; row < row1; row += PANEL_ROWS) {
        uint8_t *panel = scratch + (size_t)(row - row0) / PANEL_ROWS * per_panel;
        const int64_t n_rows = row1 - row < PANEL_ROWS ? row1 - row : PANEL_ROWS;
        for (int64_t k = 0; k < w->k; k += TILE_K)
            unpack_tile(f, w, row, n_rows, k, panel + (size_t)(k / TILE_K) * per_tile);
    }
    for (int64_t i = 0; i < n; i += COLUMNS) {
        struct columns c = *all;
        const int n_columns = n - i < COLUMNS ? (int)(n - i) : COLUMNS;
        c.x += (size_t)i * c.stride;
        for (int64_t row = row0; row < row1; row += PANEL_ROWS) {
            struct sums s[COLUMNS] = {0};
            const int64_t n_rows = row1 - row < PANEL_ROWS ? row1 - row : PANEL_ROWS;
            f->multiply(scratch + (size_t)(row - row0) / PANEL_ROWS * per_panel, 0, w->k, &c, n_columns, s);
            store_sums(f, s, n_columns, n_rows, y + i * ldy + row, ldy);
        }
    }
}

void avx512_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y, int64_t ldy,
                   void *scratch)
{
    const struct panel_format *f = format_get(w->type->id);
    if (!f || w->k <= 0) {
        twin_matmul(w, a, row0, row1, y, ldy, scratch);
        return;
    }
    const struct columns c = columns_of(f, a);
    const int64_t group = (a->n <= COLUMNS ? 1 : panels_together(f, w->k)) * PANEL_ROWS;
    for (int64_t row = row0; row < row1; row += group) {
        const int64_t end = row1 - row < group ? row1 : row + group;
        if (a->n <= COLUMNS)
            panel_few(f, w, &c, (int)a->n, row, end - row, y, ldy, scratch);
        else
            panels_many(f, w, &c, a->n, row, end, y, ldy, scratch);
    }
}
