/* The one source of randomness: counter-based noise (Philox 4x32-10; Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011) and seeds from the system. */
#ifndef HASTEN_BASE_RNG_H
#define HASTEN_BASE_RNG_H
#include <stdint.h>

/* out[4] = Philox4x32-10(counter[4], key[2]). Pure. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

uint64_t random_seed(void); /* from the system; never fails (falls back to the clock) */

#endif
