/* The reference matmul: decoded weights times float activations, summed in f64 over ascending k, rounded
 * once.
 *
 * A product of two floats is exact in f64, so the only error is that of the f64 sum. Arranged so that the
 * compiler keeps 16 rows x 4 columns of sums in vector registers: it runs whole models, if slowly. */
#include "kernels/layout.h"
#include "kernels/sets.h"
#include <string.h>

#define REF_COLUMNS 4 /* activation rows handled together */

typedef double vec_f64 __attribute__((vector_size(64), aligned(8)));

void ref_act_make(enum act_form form, const float *x, int64_t k, void *dst)
{
    (void)form; /* form_of never says anything but ACT_F32 */
    const size_t used = (size_t)k * sizeof(float);
    memcpy(dst, x, used);
    memset((char *)dst + used, 0, round_up_64(used) - used);
}

/* Scratch: the panel as f64[k][16], then one decoded row. */
size_t ref_matmul_scratch_bytes(const struct weight *w)
{
    return round_up_64((size_t)w->k * (PANEL_ROWS * sizeof(double) + sizeof(float)));
}

/* Decodes n_rows rows into panel[k][16]; rows that do not exist are zero. */
static void ref_decode_panel(const struct weight *w, int64_t row, int64_t n_rows, double *panel, float *line)
{
    for (int64_t r = 0; r < PANEL_ROWS; r++) {
        if (r < n_rows)
            w->type->decode(weight_row(w, row + r), w->k, line);
        else
            memset(line, 0, (size_t)w->k * sizeof(float));
        for (int64_t i = 0; i < w->k; i++)
            panel[i * PANEL_ROWS + r] = (double)line[i];
    }
}

/* sums[c][r] = sum over k of panel[k][r] * x[c][k]. */
CLONES_WIDE static void ref_multiply(const double *panel, const float *const x[REF_COLUMNS], int64_t k,
                                     double sums[REF_COLUMNS][PANEL_ROWS])
{
    const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    vec_f64 a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}; /* rows 0..7 */
    vec_f64 b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0}; /* rows 8..15 */
    for (int64_t i = 0; i < k; i++, panel += PANEL_ROWS) {
        const vec_f64 wa = *(const vec_f64 *)(const void *)panel;
        const vec_f64 wb = *(const vec_f64 *)(const void *)(panel + 8);
        a0 += wa * (double)x0[i];
        b0 += wb * (double)x0[i];
        a1 += wa * (double)x1[i];
        b1 += wb * (double)x1[i];
        a2 += wa * (double)x2[i];
        b2 += wb * (double)x2[i];
        a3 += wa * (double)x3[i];
        b3 += wb * (double)x3[i];
    }
    const vec_f64 rows[REF_COLUMNS][2] = {{a0, b0}, {a1, b1}, {a2, b2}, {a3, b3}};
    memcpy(sums, rows, sizeof rows);
}

void ref_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                int64_t ldy, void *scratch)
{
    double *panel = scratch;
    float *line = (float *)(void *)(panel + w->k * PANEL_ROWS);
    double sums[REF_COLUMNS][PANEL_ROWS];
    for (int64_t row = row0; row < row1; row += PANEL_ROWS) {
        const int64_t n_rows = row1 - row < PANEL_ROWS ? row1 - row : PANEL_ROWS;
        ref_decode_panel(w, row, n_rows, panel, line);
        for (int64_t c = 0; c < a->n; c += REF_COLUMNS) {
            const int64_t n_columns = a->n - c < REF_COLUMNS ? a->n - c : REF_COLUMNS;
            const float *x[REF_COLUMNS];
            for (int64_t j = 0; j < REF_COLUMNS; j++)
                x[j] = (const float *)(const void *)act_row(a, c + (j < n_columns ? j : n_columns - 1));
            ref_multiply(panel, x, w->k, sums);
            for (int64_t j = 0; j < n_columns; j++)
                for (int64_t r = 0; r < n_rows; r++)
                    y[(c + j) * ldy + row + r] = (float)sums[j][r];
        }
    }
}
