/* The fast matmul: drives unpacking and multiplication.
 *
 * Two panels of 16 rows at a time, one tile at a time: the tiles are unpacked into the first-level cache
 * and meet every column there, whose sums wait in scratch. One column (decode) and hundreds (prefill) take
 * the same way, so the operations per output are the same. */
#include "kernels/layout.h"
#include "kernels/packed.h"
#include "kernels/sets.h"
#include "kernels/x86/panel_avx512.h"
#include "kernels/x86/vec_avx512.h"

#define MAX_COLUMNS 256 /* columns per pass over a weight; more make a second pass */
#define SOME_COLUMNS 64 /* begun and stored together */
#define GROUP_ROWS (PANEL_GROUP * PANEL_ROWS)
#define FAR_BYTES 32768     /* of packed panels, asked for and not yet read */
#define FEW_COLUMNS 8       /* up to here packed panels are multiplied without making tiles */
#define PREFETCH_COLUMNS 16 /* up to here the weights' way from memory is what takes the time */

static const struct panel_format formats[] = {
    {QUANT_F32, TILE_F32, MINS_NONE, unpack_f32_avx512, unpack_f32_packed_avx512, multiply_f32_avx512,
     few_f32_avx512},
    {QUANT_F16, TILE_F32, MINS_NONE, unpack_f16_avx512, unpack_f16_packed_avx512, multiply_f32_avx512,
     few_f16_avx512},
    {QUANT_BF16, TILE_F32, MINS_NONE, unpack_bf16_avx512, unpack_bf16_packed_avx512, multiply_f32_avx512,
     few_bf16_avx512},
    {QUANT_Q4_0, TILE_Q8, MINS_NONE, unpack_q4_0_avx512, unpack_q4_0_packed_avx512, multiply_q4_0_avx512,
     few_q4_0_avx512},
    {QUANT_Q4_1, TILE_Q8, MINS_ADDED, unpack_q4_1_avx512, unpack_q4_1_packed_avx512, multiply_q45_1_avx512,
     few_q4_1_avx512},
    {QUANT_Q5_0, TILE_Q8, MINS_NONE, unpack_q5_0_avx512, unpack_q5_0_packed_avx512, multiply_q5_0_avx512,
     few_q5_0_avx512},
    {QUANT_Q5_1, TILE_Q8, MINS_ADDED, unpack_q5_1_avx512, unpack_q5_1_packed_avx512, multiply_q45_1_avx512,
     few_q5_1_avx512},
    {QUANT_Q8_0, TILE_Q8, MINS_NONE, unpack_q8_0_avx512, unpack_q8_0_packed_avx512, multiply_q8_0_avx512,
     few_q8_0_avx512},
    {QUANT_Q2_K, TILE_Q8, MINS_SUBTRACTED, unpack_q2_k_avx512, unpack_q2_k_packed_avx512,
     multiply_q2_k_avx512, few_q2_k_avx512},
    {QUANT_Q3_K, TILE_Q8, MINS_NONE, unpack_q3_k_avx512, unpack_q3_k_packed_avx512, multiply_q3_k_avx512,
     few_q3_k_avx512},
    {QUANT_Q4_K, TILE_Q8, MINS_SUBTRACTED, unpack_q4_k_avx512, unpack_q4_k_packed_avx512,
     multiply_q4_k_avx512, few_q4_k_avx512},
    {QUANT_Q5_K, TILE_Q8, MINS_SUBTRACTED, unpack_q5_k_avx512, unpack_q5_k_packed_avx512,
     multiply_q5_k_avx512, few_q5_k_avx512},
    {QUANT_Q6_K, TILE_Q8, MINS_NONE, unpack_q6_k_avx512, unpack_q6_k_packed_avx512, multiply_q6_k_avx512,
     few_q6_k_avx512},
    {QUANT_IQ4_NL, TILE_Q8, MINS_NONE, unpack_iq4_nl_avx512, unpack_iq4_nl_packed_avx512,
     multiply_q8_0_avx512, few_iq4_nl_avx512},
    {QUANT_IQ4_XS, TILE_Q8, MINS_NONE, unpack_iq4_xs_avx512, unpack_iq4_xs_packed_avx512,
     multiply_iq_32_avx512, few_iq4_xs_avx512},
    {QUANT_MXFP4, TILE_Q8, MINS_NONE, unpack_mxfp4_avx512, unpack_mxfp4_packed_avx512, multiply_q5_0_avx512,
     few_mxfp4_avx512},
    {QUANT_NVFP4, TILE_Q8, MINS_NONE, unpack_nvfp4_avx512, unpack_nvfp4_packed_avx512, multiply_nvfp4_avx512,
     few_nvfp4_avx512},
    {QUANT_IQ2_XXS, TILE_Q8, MINS_NONE, unpack_iq2_xxs_avx512, unpack_iq2_xxs_packed_avx512,
     multiply_iq_32_avx512, NULL},
    {QUANT_IQ2_XS, TILE_Q8, MINS_NONE, unpack_iq2_xs_avx512, unpack_iq2_xs_packed_avx512,
     multiply_iq_16_avx512, NULL},
    {QUANT_IQ2_S, TILE_Q8, MINS_NONE, unpack_iq2_s_avx512, unpack_iq2_s_packed_avx512, multiply_iq_16_avx512,
     NULL},
    {QUANT_IQ3_XXS, TILE_Q8, MINS_NONE, unpack_iq3_xxs_avx512, unpack_iq3_xxs_packed_avx512,
     multiply_iq_32_avx512, NULL},
    {QUANT_IQ3_S, TILE_Q8, MINS_NONE, unpack_iq3_s_avx512, unpack_iq3_s_packed_avx512, multiply_iq3_s_avx512,
     NULL},
    {QUANT_IQ1_S, TILE_Q8, MINS_NONE, unpack_iq1_s_avx512, unpack_iq1_s_packed_avx512, multiply_iq1_avx512,
     NULL},
    {QUANT_IQ1_M, TILE_Q8, MINS_NONE, unpack_iq1_m_avx512, unpack_iq1_m_packed_avx512, multiply_iq1_avx512,
     NULL},
    {QUANT_TQ1_0, TILE_Q8, MINS_NONE, unpack_tq1_0_avx512, unpack_tq1_0_packed_avx512, multiply_q3_k_avx512,
     few_tq1_0_avx512},
    {QUANT_TQ2_0, TILE_Q8, MINS_NONE, unpack_tq2_0_avx512, unpack_tq2_0_packed_avx512, multiply_q3_k_avx512,
     few_tq2_0_avx512},
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

static int64_t tile_k(const struct panel_format *f)
{
    return f->tile_kind == TILE_F32 ? TILE_K_F32 : TILE_K;
}

/* A weight and where its panels are: panel_bytes apart and packed, or in the file's rows (0). */
struct operand {
    const struct panel_format *f;
    const struct weight *w;
    size_t panel_bytes, packed_tile_bytes, far_tiles;
};

static struct operand operand_of(const struct panel_format *f, const struct weight *w)
{
    struct operand o = {.f = f, .w = w};
    if (w->packed) {
        o.panel_bytes = packed_panel_bytes(w);
        o.packed_tile_bytes = packed_tile_bytes(w->type, tile_k(f));
        o.far_tiles = FAR_BYTES / (PANEL_GROUP * o.packed_tile_bytes);
    }
    return o;
}

/* Scratch: the tiles of a group of panels, then the sums of MAX_COLUMNS columns. */
size_t avx512_matmul_scratch_bytes(const struct weight *w)
{
    const struct panel_format *f = format_get(w->type->id);
    if (!f)
        return twin_matmul_scratch_bytes(w);
    return PANEL_GROUP * ((TILE_GROUP + 1) * tile_bytes(f) + MAX_COLUMNS * sizeof(struct sums));
}

/* A stretch of k of some neighbouring rows. */
struct stretch {
    const uint8_t *src;
    size_t bytes; /* of each row */
    int64_t k;
};

static struct stretch stretch_at(const struct panel_format *f, const struct weight *w, int64_t row,
                                 int64_t k0)
{
    const size_t block = (size_t)w->type->block, block_bytes = (size_t)w->type->block_bytes;
    struct stretch s;
    s.k = w->k - k0 < tile_k(f) ? w->k - k0 : tile_k(f);
    s.src = weight_row(w, row) + (size_t)k0 / block * block_bytes;
    s.bytes = (size_t)s.k / block * block_bytes;
    return s;
}

/* Unpacks one tile of n_rows rows. A panel that the matrix does not fill is first copied to a buffer, its
 * missing rows standing as copies of the first, so that unpacking always finds 16. */
static void unpack_tile(const struct operand *o, int64_t row, int64_t n_rows, int64_t k0, struct ahead ahead,
                        void *tile)
{
    const struct panel_format *f = o->f;
    const struct stretch s = stretch_at(f, o->w, row, k0);
    if (o->panel_bytes) {
        const uint8_t *panel = o->w->packed + (size_t)(row / PANEL_ROWS) * o->panel_bytes;
        f->unpack_packed(panel + (size_t)(k0 / tile_k(f)) * o->packed_tile_bytes, 0, s.k, ahead, tile);
        return;
    }
    if (n_rows == PANEL_ROWS) {
        f->unpack(s.src, (size_t)o->w->row_bytes, s.k, ahead, tile);
        return;
    }
    uint8_t rows[PANEL_ROWS][TILE_K / 32 * 34]; /* no type has more bytes in a tile: Q8_0 */
    _Static_assert(sizeof rows[0] >= TILE_K_F32 * sizeof(float), "a tile of F32 fits");
    for (int64_t r = 0; r < PANEL_ROWS; r++)
        memcpy(rows[r], s.src + (size_t)(r < n_rows ? r : 0) * (size_t)o->w->row_bytes, s.bytes);
    f->unpack(rows[0], sizeof rows[0], s.k, ahead, tile);
}

static void store_sums(const struct panel_format *f, const struct sums *s, int64_t n_rows, float *y)
{
    __m512 v = _mm512_load_ps(s->acc);
    if (f->mins == MINS_ADDED)
        v = _mm512_add_ps(v, _mm512_load_ps(s->acc2));
    else if (f->mins == MINS_SUBTRACTED)
        v = _mm512_sub_ps(v, _mm512_load_ps(s->acc2));
    v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_ps(canonical_nan()));
    _mm512_mask_storeu_ps(y, v_tail(n_rows), v);
}

/* Work on one or two panels: rows [row0, row1), of which the last panel may be partly filled. */
struct job {
    struct operand o;
    int64_t row0, row1;
    int n_panels;
    bool runs_ahead;    /* whether the next rows are fetched while these are worked on */
    struct ahead ahead; /* what of them comes next; else something that does not matter */
    uint8_t *tiles;     /* [TILE_GROUP + 1][PANEL_GROUP] */
    struct sums *sums;  /* [columns][PANEL_GROUP] */
};

static void unpack_group(struct job *j, int64_t k0, int64_t k1)
{
    const size_t per_tile = tile_bytes(j->o.f);
    uint8_t *to = j->tiles;
    for (int64_t k = k0; k < k1; k += tile_k(j->o.f), to += PANEL_GROUP * per_tile) {
        for (int64_t p = 0; p < j->n_panels; p++) {
            const int64_t row = j->row0 + p * PANEL_ROWS;
            unpack_tile(&j->o, row, j->row1 - row < PANEL_ROWS ? j->row1 - row : PANEL_ROWS, k, j->ahead,
                        to + (size_t)p * per_tile);
            if (j->runs_ahead)
                j->ahead.at += PANEL_ROWS / AHEAD_STREAMS * stretch_at(j->o.f, j->o.w, row, k).bytes;
        }
    }
}

static struct ahead ahead_of(const struct operand *o, int64_t row)
{
    if (o->panel_bytes)
        return (struct ahead){o->w->packed + (size_t)(row / PANEL_ROWS) * o->panel_bytes,
                              round_up_64(PANEL_GROUP * o->panel_bytes / AHEAD_STREAMS)};
    return (struct ahead){weight_row(o->w, row),
                          round_up_64((size_t)o->w->row_bytes * GROUP_ROWS / AHEAD_STREAMS)};
}

/* Asks for rows that nothing has run ahead of: the first ones of a call. */
static void fetch_rows(struct ahead a)
{
    for (size_t at = 0; at < a.apart; at += 64)
        for (size_t i = 0; i < AHEAD_STREAMS; i++)
            _mm_prefetch((const char *)a.at + i * a.apart + at, _MM_HINT_T1);
}

static void store_columns(const struct job *j, const struct sums *s, int64_t n, float *y, int64_t ldy)
{
    for (int64_t c = 0; c < n; c++)
        for (int64_t p = 0; p < j->n_panels; p++)
            store_sums(j->o.f, &s[c * PANEL_GROUP + p], j->row1 - j->row0 - p * PANEL_ROWS,
                       y + c * ldy + j->row0 + p * PANEL_ROWS);
}

/* n <= MAX_COLUMNS columns of a, from col on. Some columns at a time, so that their sums begin in the first-level
 * cache, and that their results are on the way to memory while the next columns are multiplied. */
static void multiply_panels(struct job *j, const struct act *a, int64_t col, int64_t n, float *y, int64_t ldy)
{
    const size_t x_step = a->form == ACT_F32 ? TILE_K_F32 * sizeof(float) : ACT_BLOCK_BYTES;
    const int64_t step = tile_k(j->o.f) * TILE_GROUP;
    const uint8_t *x = act_row(a, col);
    int64_t end;
    for (int64_t k = 0; k < j->o.w->k; k = end, x += TILE_GROUP * x_step) {
        /* A small rest goes with the last whole group: k = 576 and 640 are one pass. */
        end = j->o.w->k - k <= step + step / 4 ? j->o.w->k : k + step;
        unpack_group(j, k, end);
        for (int64_t c = 0; c < n; c += SOME_COLUMNS) {
            const int64_t some = n - c < SOME_COLUMNS ? n - c : SOME_COLUMNS;
            struct sums *s = j->sums + c * PANEL_GROUP;
            j->o.f->multiply(j->tiles, j->n_panels, end - k, x + (size_t)c * a->row_stride, a->row_stride,
                             some, k == 0, s);
            if (end == j->o.w->k)
                store_columns(j, s, some, y + (col + c) * ldy, ldy);
        }
    }
}

/* Packed panels and at most FEW_COLUMNS columns, COLUMN_GROUP of them at a time. last: of the call. */
static void multiply_few(struct job *j, bool last, const struct act *a, float *y, int64_t ldy)
{
    const struct packed_panels panels = {j->o.w->packed + (size_t)(j->row0 / PANEL_ROWS) * j->o.panel_bytes,
                                         j->o.panel_bytes, j->o.packed_tile_bytes, j->o.far_tiles, last};
    for (int64_t c = 0; c < a->n; c += COLUMN_GROUP) {
        const int64_t some = a->n - c < COLUMN_GROUP ? a->n - c : COLUMN_GROUP;
        j->o.f->few(&panels, j->n_panels, j->o.w->k, act_row(a, c), a->row_stride, some, j->tiles, j->sums);
        store_columns(j, j->sums, some, y + c * ldy, ldy);
    }
}

void avx512_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                   int64_t ldy, void *scratch)
{
    const struct panel_format *f = format_get(w->type->id);
    if (!f) {
        twin_matmul(w, a, row0, row1, y, ldy, scratch);
        return;
    }
    const struct operand o = operand_of(f, w);
    for (int64_t col = 0; col < a->n; col += MAX_COLUMNS) {
        const int64_t n = a->n - col < MAX_COLUMNS ? a->n - col : MAX_COLUMNS;
        for (int64_t row = row0; row < row1; row += GROUP_ROWS) {
            struct job j = {.o = o,
                            .row0 = row,
                            .row1 = row1 - row < GROUP_ROWS ? row1 : row + GROUP_ROWS,
                            .tiles = scratch,
                            .sums = (struct sums *)(void *)((uint8_t *)scratch +
                                                            (TILE_GROUP + 1) * PANEL_GROUP * tile_bytes(f))};
            j.n_panels = j.row1 - row > PANEL_ROWS ? PANEL_GROUP : 1;
            if (w->packed && f->few && a->n <= FEW_COLUMNS) {
                multiply_few(&j, j.row1 == row1, a, y, ldy);
                continue;
            }
            j.runs_ahead = j.row1 < row1;
            j.ahead = j.runs_ahead ? ahead_of(&o, j.row1) : (struct ahead){weight_row(w, row), 0};
            if (n <= PREFETCH_COLUMNS && row == row0)
                fetch_rows(ahead_of(&o, row));
            multiply_panels(&j, a, col, n, y, ldy);
        }
    }
}
