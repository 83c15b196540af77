/* The one source of randomness: counter-based noise (Philox 4x32-10; Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011) and seeds from the system. */
#ifndef HASTEN_BASE_RNG_H
#define HASTEN_BASE_RNG_H
#include <stdint.h>

/* Multipliers and Weyl constants of Salmon et al., table 2 and section 4.3; for forms of several lanes. */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u
#define PHILOX_ROUNDS 10

/* out[4] = Philox4x32-10(counter[4], key[2]). Pure. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

uint64_t random_seed(void); /* from the system; never fails (falls back to the clock) */

#endif
