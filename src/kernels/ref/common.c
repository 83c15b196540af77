/* What every set does alike: sizes of activation rows, the choice of their form, exact row decoding. */
#include "kernels/layout.h"
#include "kernels/packed.h"
#include "kernels/sets.h"

void row_gather_decode(const struct weight *w, int64_t r, float *dst)
{
    const int64_t block = w->type->block;
    uint8_t bytes[PACKED_MAX_BLOCK];
    if (!w->packed) {
        w->type->decode(weight_row(w, r), w->k, dst);
        return;
    }
    for (int64_t b = 0; b < w->k / block; b++) {
        packed_block(w, r, b, bytes);
        w->type->decode(bytes, block, dst + b * block);
    }
}

size_t act_row_bytes_common(enum act_form form, int64_t k)
{
    if (form != ACT_F32)
        return (size_t)((k + ACT_BLOCK - 1) / ACT_BLOCK) * ACT_BLOCK_BYTES;
    return round_up_64((size_t)k * sizeof(float));
}

enum act_form form_of_quantised(const struct quant_type *type, int64_t k)
{
    (void)k;
    return type->block == 256 ? ACT_Q8_256 : type->block == 32 || type->block == 64 ? ACT_Q8_32 : ACT_F32;
}

enum act_form form_of_float(const struct quant_type *type, int64_t k)
{
    (void)type;
    (void)k;
    return ACT_F32;
}
