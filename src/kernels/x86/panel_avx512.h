/* Panels: 16 rows of a weight unpacked so that one vector holds the same 4 consecutive k of all 16 rows,
 * which is what vpdpbusd multiplies by 4 broadcast activation bytes. A tile is a stretch of a panel.
 *
 * unpack_avx512.c makes tiles from the file's blocks; multiply_avx512.c multiplies them; matmul_avx512.c
 * drives. */
#ifndef HASTEN_KERNELS_X86_PANEL_AVX512_H
#define HASTEN_KERNELS_X86_PANEL_AVX512_H
#include "kernels/kernels.h"

#define TILE_K 256    /* k of a tile of a quantised type */
#define TILE_K_F32 64 /* k of a tile of floats: as many bytes */

/* 16 rows x 256 k of a quantised type; the last tile of a row of 32-blocks may be partly filled. */
struct tile_q8 {
    uint8_t q[TILE_K / 4][64]; /* [k / 4][row][k % 4], unsigned */
    float d[8][PANEL_ROWS];    /* per 32-block, or d[0] for a 256-block */
    float m[8][PANEL_ROWS];    /* m, or m[0] = dmin; NVFP4: d of the second half of a 32-block */
    union {
        int32_t scale[16][PANEL_ROWS]; /* IQ types: per sub-block of 32 or 16 */
        struct { /* Q4_K, Q5_K, Q6_K, IQ3_S: scales of two neighbouring sub-blocks, as vpdpwssd wants them */
            int16_t pair[8][PANEL_ROWS][2];
            int16_t pair8[4][PANEL_ROWS][2]; /* Q4_K: 8 times these */
        };
    };
    int16_t min[8][PANEL_ROWS][2]; /* mins of two neighbouring sub-blocks; IQ types: -offset * scale */
} __attribute__((aligned(64)));

/* 16 rows x 64 k of F32, F16, BF16. */
struct tile_f32 {
    float w[TILE_K_F32][PANEL_ROWS];
} __attribute__((aligned(64)));

/* The sums of one column x 16 rows, carried from tile to tile. */
struct sums {
    float acc[PANEL_ROWS], acc2[PANEL_ROWS];
} __attribute__((aligned(64)));

/* Panels and columns multiplied together: one broadcast of activations serves 32 rows. */
#define PANEL_GROUP 2
#define COLUMN_GROUP 4
/* Tiles of a panel that are unpacked before they are multiplied: two, so that the sums of a column come from the
 * second-level cache half as often. */
#define TILE_GROUP 2

/* Memory to be asked for while something else is worked on: AHEAD_STREAMS stretches, `apart` bytes apart, whose
 * addresses need not be mapped. Several streams, because the hardware's own prefetcher then runs ahead in several
 * pages of 4 KiB; a few lines at a time, because many at once stop the core until memory has taken them. */
#define AHEAD_STREAMS 4
struct ahead {
    const uint8_t *at;
    size_t apart;
};

/* Unpacks k values (a multiple of the block; at most a tile's) of 16 rows that lie stride bytes apart. Meanwhile as
 * many bytes are asked for, a fourth of them from each stream ahead. */
typedef void (*unpack_fn)(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile);

/* Multiplies tiles of n_panels panels (1 or 2) by n columns, k values. tiles: [k / tile's k, rounded
 * up][PANEL_GROUP]. x: the activation blocks (or floats) of the first column, the next column's stride bytes
 * on. s: [n][PANEL_GROUP], added to, or set if begin. */
typedef void (*multiply_fn)(const void *tiles, int n_panels, int64_t k, const uint8_t *x, size_t stride,
                            int64_t n, bool begin, struct sums *s);

/* Packed panels side by side, the bytes of their whole tiles, and how many tiles ahead memory is asked for first. last:
 * the panels behind these are not read next. */
struct packed_panels {
    const uint8_t *at;
    size_t panel_bytes, tile_bytes, far_tiles;
    bool last;
};

/* Multiplies packed panels (1 or 2) by n <= COLUMN_GROUP columns, all k. tiles: scratch, [PANEL_GROUP] tiles. Sets s:
 * [COLUMN_GROUP][PANEL_GROUP]. */
typedef void (*few_fn)(const struct packed_panels *w, int n_panels, int64_t k, const uint8_t *x,
                       size_t stride, int64_t n, void *tiles, struct sums *s);

enum tile_kind {
    TILE_Q8,
    TILE_F32
};
enum mins {
    MINS_NONE,
    MINS_ADDED,
    MINS_SUBTRACTED
};

struct panel_format {
    uint32_t id; /* enum quant_id */
    enum tile_kind tile_kind;
    enum mins mins;          /* what becomes of acc2 */
    unpack_fn unpack;        /* from the file's blocks */
    unpack_fn unpack_packed; /* from a tile of a packed panel (kernels/packed.h) at src; stride is not used */
    multiply_fn multiply;
    few_fn few;
};

#define DECLARE_UNPACK_ROWS(name)                                                                            \
    void unpack_##name##_avx512(const uint8_t *src, size_t stride, int64_t k, struct ahead ahead, void *tile)
#define DECLARE_UNPACK(name)                                                                                 \
    DECLARE_UNPACK_ROWS(name);                                                                               \
    DECLARE_UNPACK_ROWS(name##_packed)
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
/* unpack_iq_avx512.c */
DECLARE_UNPACK(iq4_nl);
DECLARE_UNPACK(iq4_xs);
DECLARE_UNPACK(mxfp4);
DECLARE_UNPACK(nvfp4);
DECLARE_UNPACK(iq2_xxs);
DECLARE_UNPACK(iq2_xs);
DECLARE_UNPACK(iq2_s);
DECLARE_UNPACK(iq3_xxs);
DECLARE_UNPACK(iq3_s);
DECLARE_UNPACK(iq1_s);
DECLARE_UNPACK(iq1_m);
DECLARE_UNPACK(tq1_0);
DECLARE_UNPACK(tq2_0);

#define DECLARE_MULTIPLY(name)                                                                               \
    void name##_avx512(const void *tiles, int n_panels, int64_t k, const uint8_t *x, size_t stride,          \
                       int64_t n, bool begin, struct sums *s)
DECLARE_MULTIPLY(multiply_f32);
DECLARE_MULTIPLY(multiply_q4_0);
DECLARE_MULTIPLY(multiply_q5_0);
DECLARE_MULTIPLY(multiply_q8_0);
DECLARE_MULTIPLY(multiply_q45_1);
DECLARE_MULTIPLY(multiply_q2_k);
DECLARE_MULTIPLY(multiply_q3_k);
DECLARE_MULTIPLY(multiply_q4_k);
DECLARE_MULTIPLY(multiply_q5_k);
DECLARE_MULTIPLY(multiply_q6_k);
DECLARE_MULTIPLY(multiply_nvfp4);
DECLARE_MULTIPLY(multiply_iq3_s);
DECLARE_MULTIPLY(multiply_iq_32);
DECLARE_MULTIPLY(multiply_iq_16);
DECLARE_MULTIPLY(multiply_iq1);

#define DECLARE_FEW(name)                                                                                    \
    void few_##name##_avx512(const struct packed_panels *w, int n_panels, int64_t k, const uint8_t *x,       \
                             size_t stride, int64_t n, void *tiles, struct sums *s)
DECLARE_FEW(f32);
DECLARE_FEW(f16);
DECLARE_FEW(bf16);
DECLARE_FEW(q4_0);
DECLARE_FEW(q4_1);
DECLARE_FEW(q5_0);
DECLARE_FEW(q5_1);
DECLARE_FEW(q8_0);
DECLARE_FEW(q2_k);
DECLARE_FEW(q3_k);
DECLARE_FEW(q4_k);
DECLARE_FEW(q5_k);
DECLARE_FEW(q6_k);
/* few_iq_avx512.c */
DECLARE_FEW(iq4_nl);
DECLARE_FEW(iq4_xs);
DECLARE_FEW(mxfp4);
DECLARE_FEW(nvfp4);
DECLARE_FEW(tq1_0);
DECLARE_FEW(tq2_0);

#endif
