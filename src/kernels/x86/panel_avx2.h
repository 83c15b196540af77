/* Tiles: 8 rows of a weight unpacked so that one vector of 256 bits holds neighbouring k of all 8 rows, which
 * is what vpmaddubsw, vpmaddwd (or vpdpbusd) multiply by the same k of one activation row, broadcast. A panel of
 * PANEL_ROWS is two tiles.
 *
 * unpack_avx2.c and unpack_k_avx2.c make tiles from the file's blocks; multiply_avx2.c multiplies them;
 * matmul_avx2.c drives.
 *
 * Why nothing saturates. vpmaddubsw adds two products of an unsigned and a signed byte in int16. With weights
 * up to 15, 63 and activations within +-127 a pair is at most 3,810 and 16,002 in magnitude, so pairs are
 * exact; sums of pairs may be kept in int16 as long as the final value fits, since addition wraps:
 *   Q2_K, Q3_K  4 vectors: 8 products x 3 (7) x 127 = 3,048 (7,112)
 *   Q4_*        8 vectors: 16 x 15 x 127 = 30,480
 *   Q5_1, Q5_K  4 vectors: 8 x 31 x 127 = 31,496
 *   Q5_0        8 vectors, begun at -16 times the sum of their activations, so that the final value is that of
 *               weights within [-16, 15]: 16 x 16 x 127 = 32,512
 *   Q6_K        4 vectors, begun at -32 times theirs: 8 x 32 x 127 = 32,512
 *   NVFP4       4 vectors: 8 x 24 x 127 = 24,384
 * The bytes of Q8_0 and IQ4_NL are too large for pairs: they are widened to int16 and multiplied by vpmaddwd. So are
 * those of IQ1, IQ2, IQ3 and IQ4_XS, whose scales are then multiplied in: at most 32 x 127 = 4,064, and a block's sum
 * 256 x 4,064 x 127 = 1.3e8. */
#ifndef HASTEN_KERNELS_X86_PANEL_AVX2_H
#define HASTEN_KERNELS_X86_PANEL_AVX2_H
#include "kernels/kernels.h"

#define TILE_ROWS 8
#define TILE_K 256    /* k of a tile of a quantised type */
#define TILE_K_F32 64 /* k of a tile of floats: as many bytes */

/* 8 rows x 256 k of a quantised type; the last tile of a row of 32-blocks may be partly filled. */
struct tile_q8 {
    uint8_t q[TILE_K / 4][32];       /* [k / 4][row][k % 4], unsigned */
    float d[8][TILE_ROWS];           /* per 32-block, or d[0] for a 256-block */
    float m[8][TILE_ROWS];           /* m, or m[0] = dmin; NVFP4: d of the second half of a 32-block */
    int16_t scale[16][TILE_ROWS][2]; /* per sub-block of 32 or 16, twice, as vpmaddwd wants it */
    int16_t min[8][TILE_ROWS][2];    /* mins of two neighbouring sub-blocks */
} __attribute__((aligned(64)));

/* 8 rows x 256 k of Q8_0 and IQ4_NL; of IQ1, IQ2, IQ3 and IQ4_XS, times the scales, with d[0]. */
struct tile_q16 {
    int16_t q[TILE_K / 2][TILE_ROWS][2]; /* [k / 2][row][k % 2] */
    float d[8][TILE_ROWS];
} __attribute__((aligned(64)));

/* 8 rows x 64 k of F32, F16, BF16. */
struct tile_f32 {
    float w[TILE_K_F32][TILE_ROWS];
} __attribute__((aligned(64)));

/* The sums of one column x 8 rows, carried from tile to tile. */
struct sums {
    float acc[TILE_ROWS], acc2[TILE_ROWS];
} __attribute__((aligned(64)));

#define MAX_TILES 4    /* tiles unpacked together: 32 rows meet each column while it is near */
#define COLUMN_GROUP 6 /* columns multiplied together at most: 6 of floats, 4 of quants */

/* Unpacks k values (a multiple of the block; at most a tile's) of 8 rows that lie stride bytes apart. */
typedef void (*unpack_fn)(const uint8_t *src, size_t stride, int64_t k, void *tile);

/* Multiplies n_tiles (2 or 4) tiles, lying one behind the other, by n columns: k values (at most a tile's).
 * x: the activation block (or floats) of the first column, the next one stride bytes on. s: [n][MAX_TILES]. */
typedef void (*multiply_fn)(const void *tiles, int n_tiles, int64_t k, const uint8_t *x, size_t stride,
                            int64_t n, struct sums *s);

enum mins {
    MINS_NONE,
    MINS_ADDED,
    MINS_SUBTRACTED
};

struct panel_format {
    uint32_t id; /* enum quant_id */
    uint32_t tile_bytes;
    int32_t tile_k;
    enum mins mins; /* what becomes of acc2 */
    unpack_fn unpack;
    multiply_fn multiply;
};

#define DECLARE_UNPACK(name) void name##_avx2(const uint8_t *src, size_t stride, int64_t k, void *tile)
DECLARE_UNPACK(unpack_f32);
DECLARE_UNPACK(unpack_f16);
DECLARE_UNPACK(unpack_bf16);
DECLARE_UNPACK(unpack_q4_0);
DECLARE_UNPACK(unpack_q4_1);
DECLARE_UNPACK(unpack_q5_0);
DECLARE_UNPACK(unpack_q5_1);
DECLARE_UNPACK(unpack_q8_0);
DECLARE_UNPACK(unpack_q2_k);
DECLARE_UNPACK(unpack_q3_k);
DECLARE_UNPACK(unpack_q4_k);
DECLARE_UNPACK(unpack_q5_k);
DECLARE_UNPACK(unpack_q6_k);
/* unpack_iq_avx2.c */
DECLARE_UNPACK(unpack_iq4_nl);
DECLARE_UNPACK(unpack_iq4_xs);
DECLARE_UNPACK(unpack_mxfp4);
DECLARE_UNPACK(unpack_nvfp4);
DECLARE_UNPACK(unpack_iq2_xxs);
DECLARE_UNPACK(unpack_iq2_xs);
DECLARE_UNPACK(unpack_iq2_s);
DECLARE_UNPACK(unpack_iq3_xxs);
DECLARE_UNPACK(unpack_iq3_s);
DECLARE_UNPACK(unpack_iq1_s);
DECLARE_UNPACK(unpack_iq1_m);
DECLARE_UNPACK(unpack_tq1_0);
DECLARE_UNPACK(unpack_tq2_0);

#define DECLARE_MULTIPLY(name)                                                                               \
    void name##_avx2(const void *tiles, int n_tiles, int64_t k, const uint8_t *x, size_t stride, int64_t n,  \
                     struct sums *s)
DECLARE_MULTIPLY(multiply_f32);
DECLARE_MULTIPLY(multiply_q4_0);
DECLARE_MULTIPLY(multiply_q4_1);
DECLARE_MULTIPLY(multiply_q5_0);
DECLARE_MULTIPLY(multiply_q5_1);
DECLARE_MULTIPLY(multiply_q8_0);
DECLARE_MULTIPLY(multiply_q2_k);
DECLARE_MULTIPLY(multiply_q3_k);
DECLARE_MULTIPLY(multiply_q4_k);
DECLARE_MULTIPLY(multiply_q5_k);
DECLARE_MULTIPLY(multiply_q6_k);
DECLARE_MULTIPLY(multiply_nvfp4);
DECLARE_MULTIPLY(multiply_wide);

#endif
