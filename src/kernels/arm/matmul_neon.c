/* The fast matmul: drives reading in place, unpacking and multiplication (panel_neon.h).
 *
 * One or two columns: 4 rows at a time, in place. More: a panel of 16 rows at a time, one tile at a time; the
 * tile is unpacked into the first-level cache and meets every column there, whose sums wait in scratch. The
 * operations per output are the same on both ways. */
#include "kernels/arm/panel_neon.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/layout.h"
#include "kernels/sets.h"

#define MAX_COLUMNS 256 /* columns per pass over a weight; more make a second pass */

static const struct panel_format *format_get(const struct panel_format *formats, uint32_t id)
{
    for (size_t i = 0; i < N_PANEL_FORMATS; i++)
        if (formats[i].id == id)
            return &formats[i];
    return NULL;
}

#define TILE_BYTES sizeof(struct tile_q8)
_Static_assert(sizeof(struct tile_q8) >= sizeof(struct tile_f32), "either tile fits");

/* Scratch: a tile, then the sums of MAX_COLUMNS columns. */
size_t neon_matmul_scratch_bytes(const struct weight *w)
{
    if (!format_get(panel_formats_neon, w->type->id))
        return twin_matmul_scratch_bytes(w);
    return TILE_BYTES + MAX_COLUMNS * sizeof(struct sums);
}

/* Rows row .. row + n - 1 at element k0; those at or beyond row_end stand as copies of the first. */
static void row_pointers(const struct weight *w, int64_t row, int64_t row_end, int64_t k0, int n,
                         const uint8_t **rows)
{
    const size_t at = (size_t)(k0 / w->type->block) * (size_t)w->type->block_bytes;
    for (int r = 0; r < n; r++)
        rows[r] = weight_row(w, row + r < row_end ? row + r : row) + at;
}

/* n_rows of 16 sums of a column, from first on, into y. */
static void store_sums(const struct panel_format *f, const struct sums *s, int64_t n_rows, float *y)
{
    for (int64_t r = 0; r < n_rows; r += 4) {
        float32x4_t v = vld1q_f32(s->acc + r);
        if (f->mins == MINS_ADDED)
            v = vaddq_f32(v, vld1q_f32(s->acc2 + r));
        else if (f->mins == MINS_SUBTRACTED)
            v = vsubq_f32(v, vld1q_f32(s->acc2 + r));
        v = vbslq_f32(vceqq_f32(v, v), v, vdupq_n_f32(canonical_nan()));
        if (n_rows - r >= 4) {
            vst1q_f32(y + r, v);
        } else {
            float some[4];
            vst1q_f32(some, v);
            memcpy(y + r, some, (size_t)(n_rows - r) * sizeof *y);
        }
    }
}

static void multiply_rows(const struct panel_format *f, const struct weight *w, const struct act *a,
                          int64_t row0, int64_t row1, float *y, int64_t ldy)
{
    struct sums s[FEW_COLUMNS];
    for (int64_t row = row0; row < row1; row += FEW_ROWS) {
        const uint8_t *rows[FEW_ROWS];
        const int64_t n_rows = row1 - row < FEW_ROWS ? row1 - row : FEW_ROWS;
        row_pointers(w, row, row1, 0, FEW_ROWS, rows);
        f->few(rows, FEW_ROWS * (size_t)w->row_bytes, w->k, act_row(a, 0), a->row_stride, a->n, s);
        for (int64_t c = 0; c < a->n; c++)
            store_sums(f, &s[c], n_rows, y + c * ldy + row);
    }
}

/* One panel, n <= MAX_COLUMNS columns: rows [row0, row1), at most 16. */
static void multiply_panel(const struct panel_format *f, const struct weight *w, const struct act *a,
                           int64_t col, int64_t n, int64_t row0, int64_t row1, float *y, int64_t ldy,
                           uint8_t *scratch)
{
    const bool floats = w->type->block == 1;
    const size_t x_step = floats ? TILE_K_F32 * sizeof(float) : ACT_BLOCK_BYTES;
    const int64_t step = floats ? TILE_K_F32 : TILE_K;
    struct sums *s = (struct sums *)(void *)(scratch + TILE_BYTES);
    const uint8_t *x = act_row(a, col);
    memset(s, 0, (size_t)n * sizeof *s);
    for (int64_t k = 0; k < w->k; k += step, x += x_step) {
        const int64_t length = w->k - k < step ? w->k - k : step;
        const uint8_t *rows[PANEL_ROWS];
        row_pointers(w, row0, row1, k, PANEL_ROWS, rows);
        f->unpack(rows, length, scratch);
        f->multiply(scratch, length, x, a->row_stride, n, s);
    }
    for (int64_t c = 0; c < n; c++)
        store_sums(f, &s[c], row1 - row0, y + (col + c) * ldy + row0);
}

static void matmul_with(const struct panel_format *formats, const struct weight *w, const struct act *a,
                        int64_t row0, int64_t row1, float *y, int64_t ldy, void *scratch)
{
    const struct panel_format *f = format_get(formats, w->type->id);
    if (!f) {
        twin_matmul(w, a, row0, row1, y, ldy, scratch);
        return;
    }
    if (f->few && a->n <= FEW_COLUMNS) {
        multiply_rows(f, w, a, row0, row1, y, ldy);
        return;
    }
    for (int64_t col = 0; col < a->n; col += MAX_COLUMNS) {
        const int64_t n = a->n - col < MAX_COLUMNS ? a->n - col : MAX_COLUMNS;
        for (int64_t row = row0; row < row1; row += PANEL_ROWS)
            multiply_panel(f, w, a, col, n, row, row1 - row < PANEL_ROWS ? row1 : row + PANEL_ROWS, y, ldy,
                           scratch);
    }
}

void neon_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                 int64_t ldy, void *scratch)
{
    matmul_with(panel_formats_neon, w, a, row0, row1, y, ldy, scratch);
}

void neon_dotprod_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                         int64_t ldy, void *scratch)
{
    matmul_with(panel_formats_dotprod, w, a, row0, row1, y, ldy, scratch);
}
