/* Panels: 16 rows of a weight unpacked so that one vector holds the same 4 consecutive k of all 16 rows, which
 * is what vpdpbusd multiplies by 4 broadcast activation bytes. A panel is a row of tiles of 256 k.
 *
 * unpack_avx512.c makes tiles from the file's blocks; multiply_avx512.c multiplies them; matmul_avx512.c drives. */
#ifndef HASTEN_KERNELS_X86_PANEL_AVX512_H
#define HASTEN_KERNELS_X86_PANEL_AVX512_H
#include "kernels/kernels.h"

#define TILE_K 256

/* 16 rows x 256 k of a quantised type; the last tile of a row of 32-blocks may be partly filled. */
struct tile_q8 {
    uint8_t q[TILE_K / 4][64];       /* [k / 4][row][k % 4], unsigned */
    float d[8][PANEL_ROWS];          /* per 32-block, or d[0] for a 256-block */
    float m[8][PANEL_ROWS];          /* m, or m[0] = dmin */
    int32_t scale[16][PANEL_ROWS];   /* per sub-block of 32 or 16 */
    int16_t min[8][PANEL_ROWS][2];   /* mins of two neighbouring sub-blocks, as vpdpwssd wants them */
} __attribute__((aligned(64)));

/* 16 rows x 256 k of F32, F16, BF16. */
struct tile_f32 {
    float w[TILE_K][PANEL_ROWS];
} __attribute__((aligned(64)));

/* What the multiplication needs to know of the activations. */
struct columns {
    const uint8_t *x; /* first row of the group */
    size_t stride;    /* bytes from row to row */
    size_t d, ds, neg, sums; /* byte offsets of the arrays in a row, see layout.h */
};

/* The sums of one column x 16 rows, carried from tile to tile. */
struct sums {
    float acc[PANEL_ROWS], acc2[PANEL_ROWS];
} __attribute__((aligned(64)));

/* Unpacks k values (a multiple of the block; at most TILE_K) of 16 rows that lie stride bytes apart. */
typedef void (*unpack_fn)(const uint8_t *src, size_t stride, int64_t k, void *tile);
/* Multiplies the tiles that hold k0 (a multiple of TILE_K) to k1 by n <= 8 columns; s[n]. */
typedef void (*multiply_fn)(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n,
                            struct sums *s);

struct panel_format {
    uint32_t id;       /* enum quant_id */
    uint8_t tile_kind; /* enum tile_kind */
    uint8_t mins;      /* enum mins */
    int16_t offset;    /* subtracted from the unsigned q */
    unpack_fn unpack;
    multiply_fn multiply;
};

enum tile_kind { TILE_Q8_32, TILE_Q8_256, TILE_F32 };
enum mins { MINS_NONE, MINS_ADDED, MINS_SUBTRACTED };

void unpack_f32_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_f16_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_bf16_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q4_0_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q4_1_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q5_0_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q5_1_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q8_0_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q2_k_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q3_k_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q4_k_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q5_k_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);
void unpack_q6_k_avx512(const uint8_t *src, size_t stride, int64_t k, void *tile);

void multiply_f32_avx512(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n, struct sums *s);
void multiply_32_offset_avx512(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n,
                               struct sums *s);
void multiply_32_min_avx512(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n,
                            struct sums *s);
void multiply_256_sub32_min_avx512(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n,
                                   struct sums *s);
void multiply_256_sub16_min_avx512(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n,
                                   struct sums *s);
void multiply_256_sub16_offset_avx512(const void *tiles, int64_t k0, int64_t k1, const struct columns *c, int n,
                                      struct sums *s);

#endif
