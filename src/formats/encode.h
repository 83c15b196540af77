/* Encoders: float32 values to the block formats that quant.h decodes.
 *
 * Each block is searched by itself: codes, scale and minimum are chosen to lower sum_i h_i s_i (x_i - y_i)^2, where
 * y is what the decoder gives back and h the importance of a column (all ones without one). For a matrix, h = the
 * mean of the squares of the input that the column is multiplied by; sum_i h_i (x_i - y_i)^2 is then the expected
 * squared error of an output if inputs were uncorrelated. s grows with the value itself (encode.c says why). The
 * same bytes for any split into calls: a block's code depends on
 * nothing but its own values and importances.
 *
 * Blocks are valid whatever the numbers: scales are finite, codes in range. Values beyond a format's reach are
 * clamped (scales at 65504, F16 at 65504, BF16 at its largest), values below it become zero. An importance that
 * is NaN, infinite or negative counts as the mean of the valid ones of its block; when none is positive, all
 * count alike. */
#ifndef HASTEN_FORMATS_ENCODE_H
#define HASTEN_FORMATS_ENCODE_H
#include "formats/quant.h"
#include <stdbool.h>

bool quant_can_encode(const struct quant_type *type);

/* n values (a multiple of type->block) from x to dst (n / block blocks). importance: [n], for the same columns,
 * or NULL. Returns -1, or the index of the first value that is not finite (dst is then unspecified). */
int64_t quant_encode(const struct quant_type *type, const float *x, int64_t n, const float *importance,
                     void *dst);

/* The type with this name, in any case, if it can be encoded; else NULL. */
const struct quant_type *quant_encodable(const char *name);

#endif
