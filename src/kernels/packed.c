/* Where the bytes of a block go in a packed panel, and moving them there (packed.h). Layouts of the blocks:
 * formats/quant.c. */
#include "kernels/packed.h"
#include "kernels/layout.h"
#include <string.h>

#define K_FLOAT 64
#define K_QUANT 256

/* The pieces stand in the order in which the kernels want them, as memory is fastest read forwards. */
static const struct packed_layout layouts[] = {
    {QUANT_F32, K_FLOAT, {{0, 4}}},
    {QUANT_F16, K_FLOAT, {{0, 2}}},
    {QUANT_BF16, K_FLOAT, {{0, 2}}},
    {QUANT_Q4_0, K_QUANT, {{2, 16}, {0, 2}}},
    {QUANT_Q4_1, K_QUANT, {{0, 20}}},
    {QUANT_Q5_0, K_QUANT, {{2, 20}, {0, 2}}},
    {QUANT_Q5_1, K_QUANT, {{0, 24}}},
    {QUANT_Q8_0, K_QUANT, {{2, 32}, {0, 2}}},
    {QUANT_Q2_K, K_QUANT, {{80, 4}, {0, 80}}},
    {QUANT_Q3_K, K_QUANT, {{96, 12}, {0, 96}, {108, 2}}},
    {QUANT_Q4_K, K_QUANT, {{0, 144}}},
    {QUANT_Q5_K, K_QUANT, {{0, 176}}},
    {QUANT_Q6_K,
     K_QUANT,
     {{192, 16},
      {128, 16},
      {0, 16},
      {32, 16},
      {144, 16},
      {16, 16},
      {48, 16},
      {160, 16},
      {64, 16},
      {96, 16},
      {176, 16},
      {80, 16},
      {112, 16},
      {208, 2}}},
    {QUANT_IQ4_NL, K_QUANT, {{2, 16}, {0, 2}}},
    {QUANT_IQ4_XS, K_QUANT, {{0, 136}}},
    {QUANT_MXFP4, K_QUANT, {{1, 16}, {0, 1}}},
    {QUANT_NVFP4, K_QUANT, {{0, 36}}},
    {QUANT_IQ2_XXS, K_QUANT, {{2, 64}, {0, 2}}},
    {QUANT_IQ2_XS, K_QUANT, {{2, 72}, {0, 2}}},
    {QUANT_IQ2_S, K_QUANT, {{2, 80}, {0, 2}}},
    {QUANT_IQ3_XXS, K_QUANT, {{2, 96}, {0, 2}}},
    {QUANT_IQ3_S, K_QUANT, {{2, 108}, {0, 2}}},
    {QUANT_IQ1_S, K_QUANT, {{2, 48}, {0, 2}}},
    {QUANT_IQ1_M, K_QUANT, {{0, 56}}},
    {QUANT_TQ1_0, K_QUANT, {{0, 52}, {52, 2}}},
    {QUANT_TQ2_0, K_QUANT, {{0, 64}, {64, 2}}},
};

const struct packed_layout *packed_layout_of(const struct quant_type *type)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].id == type->id)
            return &layouts[i];
    return NULL;
}

size_t packed_tile_bytes(const struct quant_type *type, int64_t k)
{
    return round_up_64((size_t)(k / type->block) * (size_t)type->block_bytes * PANEL_ROWS);
}

size_t packed_panel_bytes(const struct weight *w)
{
    const int64_t tile_k = packed_layout_of(w->type)->tile_k, whole = w->k / tile_k;
    return (size_t)whole * packed_tile_bytes(w->type, tile_k) +
           packed_tile_bytes(w->type, w->k - whole * tile_k);
}

size_t packed_bytes(const struct weight *w)
{
    return packed_layout_of(w->type)
               ? (size_t)((w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS) * packed_panel_bytes(w)
               : 0;
}

/* One piece of one block of 16 rows; returns the bytes written. */
static size_t pack_piece(const uint8_t *const src[PANEL_ROWS], size_t at, size_t bytes, uint8_t *dst)
{
    if (bytes < 4) {
        for (size_t r = 0; r < PANEL_ROWS; r++)
            memcpy(dst + bytes * r, src[r] + at, bytes);
    } else {
        for (size_t i = 0; i < bytes; i += 4, dst += 4 * PANEL_ROWS)
            for (size_t r = 0; r < PANEL_ROWS; r++)
                memcpy(dst + 4 * r, src[r] + at + i, 4);
    }
    return bytes * PANEL_ROWS;
}

static void pack_panel(const struct packed_layout *l, const struct weight *w, int64_t panel, uint8_t *dst)
{
    const uint8_t *row[PANEL_ROWS], *src[PANEL_ROWS];
    const size_t block = (size_t)w->type->block_bytes;
    for (int64_t r = 0; r < PANEL_ROWS; r++) {
        const int64_t i = panel * PANEL_ROWS + r;
        row[r] = weight_row(w, i < w->n_rows ? i : panel * PANEL_ROWS);
    }
    for (int64_t k0 = 0; k0 < w->k; k0 += l->tile_k) {
        const int64_t k = w->k - k0 < l->tile_k ? w->k - k0 : l->tile_k;
        const size_t first = (size_t)(k0 / w->type->block), n = (size_t)(k / w->type->block);
        uint8_t *to = dst;
        for (int p = 0; p < PACKED_PIECES && l->piece[p].bytes; p++) {
            for (size_t b = 0; b < n; b++) {
                for (size_t r = 0; r < PANEL_ROWS; r++)
                    src[r] = row[r] + (first + b) * block;
                to += pack_piece(src, l->piece[p].at, l->piece[p].bytes, to);
            }
        }
        dst += packed_tile_bytes(w->type, k);
        memset(to, 0, (size_t)(dst - to));
    }
}

void packed_make(const struct weight *w, int64_t begin, int64_t end, uint8_t *dst)
{
    const struct packed_layout *l = packed_layout_of(w->type);
    const size_t panel_bytes = packed_panel_bytes(w);
    for (int64_t p = begin; p < end; p++, dst += panel_bytes)
        pack_panel(l, w, p, dst);
}

void packed_block(const struct weight *w, int64_t r, int64_t b, uint8_t *dst)
{
    const struct packed_layout *l = packed_layout_of(w->type);
    const int64_t per_tile = l->tile_k / w->type->block, n_blocks = w->k / w->type->block,
                  in_tile = b % per_tile, left = n_blocks - (b - in_tile),
                  n = left < per_tile ? left : per_tile;
    const size_t row = (size_t)(r % PANEL_ROWS);
    const uint8_t *at = w->packed + (size_t)(r / PANEL_ROWS) * packed_panel_bytes(w) +
                        (size_t)(b / per_tile) * packed_tile_bytes(w->type, l->tile_k);
    for (int p = 0; p < PACKED_PIECES && l->piece[p].bytes; p++) {
        const size_t bytes = l->piece[p].bytes, unit = bytes < 4 ? bytes : 4;
        const uint8_t *from = at + (size_t)in_tile * bytes * PANEL_ROWS + row * unit;
        for (size_t i = 0; i < bytes; i += unit, from += unit * PANEL_ROWS)
            memcpy(dst + l->piece[p].at + i, from, unit);
        at += (size_t)n * bytes * PANEL_ROWS;
    }
}
