/* Random weights in every block format that can be decoded, for tests. */
#ifndef HASTEN_TESTS_TINY_WEIGHTS_H
#define HASTEN_TESTS_TINY_WEIGHTS_H
#include "formats/quant.h"

struct tiny_rng { /* Philox stream: the same numbers on every machine */
    uint32_t key[2], counter[4], out[4];
    int left;
};

struct tiny_rng tiny_rng_make(uint64_t seed, uint32_t stream);
uint32_t tiny_rng_u32(struct tiny_rng *r);
float tiny_rng_uniform(struct tiny_rng *r); /* in [-1, 1) */

/* n elements (whole blocks) with mean about 0 and standard deviation about std, as blocks of type into out.
 * 0, or -1 if the type has no decoder. */
int tiny_weights(const struct quant_type *type, int64_t n, float std, struct tiny_rng *r, void *out);

#endif
