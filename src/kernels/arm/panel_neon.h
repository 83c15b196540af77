/* Panels: 16 rows of a weight unpacked so that one vector holds the same 4 consecutive k of 4 rows, which is
 * what sdot multiplies by 4 broadcast activation bytes. A tile is a stretch of a panel.
 *
 * blocks_neon.h and blocks_iq_neon.h read the file's blocks; unpack_neon.c makes tiles from them; multiply_neon.h multiplies
 * tiles by many columns, and blocks as they lie in the file by one or two; matmul_neon.c drives. */
#ifndef HASTEN_KERNELS_ARM_PANEL_NEON_H
#define HASTEN_KERNELS_ARM_PANEL_NEON_H
#include "kernels/kernels.h"

#define TILE_K 256     /* k of a tile of a quantised type */
#define TILE_K_F32 64  /* k of a tile of floats: as many bytes */
#define COLUMN_GROUP 4 /* columns of a tile's multiplication handled together */
#define FEW_COLUMNS 2  /* up to here rows are read in place */
#define FEW_ROWS 4     /* rows read in place together */

/* 16 rows x 256 k of a quantised type; the last tile of a row of 32-blocks may be partly filled. */
struct tile_q8 {
    int8_t q[TILE_K / 4][64];      /* [k / 4][row][k % 4], offset subtracted */
    float d[8][PANEL_ROWS];        /* per 32-block, or d[0] for a 256-block */
    float m[8][PANEL_ROWS];        /* m, or m[0] = dmin; NVFP4: d of the second half of a 32-block */
    int32_t scale[16][PANEL_ROWS]; /* per sub-block of 32 or 16 */
    int16_t min[16][PANEL_ROWS];
} __attribute__((aligned(64)));

/* 16 rows x 64 k of F32, F16, BF16. */
struct tile_f32 {
    float w[TILE_K_F32][PANEL_ROWS];
} __attribute__((aligned(64)));

/* The sums of one column x 16 rows, carried from tile to tile. */
struct sums {
    float acc[PANEL_ROWS], acc2[PANEL_ROWS];
} __attribute__((aligned(64)));

/* Unpacks k values (a multiple of the block; at most a tile's) of 16 rows. */
typedef void (*unpack_fn)(const uint8_t *const rows[PANEL_ROWS], int64_t k, void *tile);

/* Multiplies a tile by n columns: k values (at most a tile's). x: the activation block (or floats) of the
 * first column, the next one stride bytes on. s: [n]. */
typedef void (*multiply_fn)(const void *tile, int64_t k, const uint8_t *x, size_t stride, int64_t n,
                            struct sums *s);

/* Multiplies 4 whole rows of k values as they lie in the file by n <= FEW_COLUMNS columns. Meanwhile it
 * fetches what lies `ahead` bytes on in each row. s: [n], of which the first 4 rows are written. */
typedef void (*few_fn)(const uint8_t *const rows[FEW_ROWS], size_t ahead, int64_t k, const uint8_t *x,
                       size_t stride, int64_t n, struct sums *s);

enum mins {
    MINS_NONE,
    MINS_ADDED,
    MINS_SUBTRACTED
};

struct panel_format {
    uint32_t id;    /* enum quant_id */
    enum mins mins; /* what becomes of acc2 */
    unpack_fn unpack;
    multiply_fn multiply;
    few_fn few; /* NULL for float types and NVFP4 */
};

#define DECLARE_UNPACK(type)                                                                                 \
    void unpack_##type##_neon(const uint8_t *const rows[PANEL_ROWS], int64_t k, void *tile)
DECLARE_UNPACK(f32);
DECLARE_UNPACK(f16);
DECLARE_UNPACK(bf16);
DECLARE_UNPACK(q4_0);
DECLARE_UNPACK(q4_1);
DECLARE_UNPACK(q5_0);
DECLARE_UNPACK(q5_1);
DECLARE_UNPACK(q8_0);
DECLARE_UNPACK(q2_k);
DECLARE_UNPACK(q3_k);
DECLARE_UNPACK(q4_k);
DECLARE_UNPACK(q5_k);
DECLARE_UNPACK(q6_k);
DECLARE_UNPACK(iq4_nl);
DECLARE_UNPACK(mxfp4);
DECLARE_UNPACK(iq1_s);
DECLARE_UNPACK(iq1_m);
DECLARE_UNPACK(iq2_xxs);
DECLARE_UNPACK(iq2_xs);
DECLARE_UNPACK(iq2_s);
DECLARE_UNPACK(iq3_xxs);
DECLARE_UNPACK(iq3_s);
DECLARE_UNPACK(iq4_xs);
DECLARE_UNPACK(tq1_0);
DECLARE_UNPACK(tq2_0);
DECLARE_UNPACK(nvfp4);

#define N_PANEL_FORMATS 26
extern const struct panel_format panel_formats_neon[N_PANEL_FORMATS];    /* multiply_neon.c */
extern const struct panel_format panel_formats_dotprod[N_PANEL_FORMATS]; /* multiply_dotprod.c */

#endif
