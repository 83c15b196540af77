/* The integers inside quantised blocks, as the twins read them: one row of a weight unpacked, offsets already
 * subtracted, so that value = d * scale_j * q - dmin * min_j (or d * q + m). */
#ifndef HASTEN_KERNELS_REF_TWIN_BLOCKS_H
#define HASTEN_KERNELS_REF_TWIN_BLOCKS_H
#include "formats/quant.h"
#include <stdint.h>

struct twin_row {
    int8_t *q; /* [k] */
    float *d,
        *m; /* [k / block]: scale; m of Q4_1, Q5_1 or dmin of the 256-blocks; NVFP4: [k / 32], scales of the
                    * first and the second 16 */
    int8_t *scale; /* [k / sub]: integer scale of a sub-block (256-blocks only) */
    uint8_t *min;  /* [k / sub]: integer min of a sub-block (types with mins) */
};

struct twin_format {
    uint32_t id; /* enum quant_id */
    int32_t sub; /* elements per sub-block: 16 or 32; of 32-blocks: elements per d */
    int has_min; /* m (or dmin and min) is used */
    void (*unpack)(const uint8_t *src, int64_t n_blocks, const struct twin_row *row);
};

/* NULL for F32, F16, BF16 and unknown types. */
const struct twin_format *twin_format_get(uint32_t id);

#endif
