/* Looking for values that are no numbers in the bytes of tensors.
 *
 * A block decodes to NaN or infinity only where one of its scales is so, or, for MXFP4, so large that a product leaves
 * the range of float. So whole tensors are searched by their scales, at the speed of memory; what looks suspicious is
 * decoded, and the decoder of quant.h has the last word. A type that this file does not know is decoded throughout. */
#ifndef HASTEN_FORMATS_FINITE_H
#define HASTEN_FORMATS_FINITE_H
#include "formats/quant.h"

struct finite_find { /* the first value that is no number */
    int64_t block;   /* from the start of what was searched */
    int32_t index;   /* of the value in its block */
    float value;
};

/* Searches n_blocks blocks of data (of any alignment) and returns how many hold a value that is not finite, or in MXFP4
 * and NVFP4 a scale that says NaN (decoders take it for a number); first is written if any does. The type must have a decoder and blocks of at most FINITE_BLOCK values. */
#define FINITE_BLOCK 256
int64_t finite_search(const struct quant_type *type, const void *data, int64_t n_blocks,
                      struct finite_find *first);

#endif
