/* Energy that the processor's packages took, where the system tells it (RAPL through Linux's powercap: counters of
 * microjoules that wrap). Most virtual machines, and most users who are not root, cannot read it; then there is none. */
#ifndef HASTEN_BENCH_ENERGY_H
#define HASTEN_BENCH_ENERGY_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define ENERGY_FOLDER "/sys/class/powercap"
#define ENERGY_PACKAGES 8

struct energy {
    int n;                              /* packages that can be read; 0: none */
    char path[ENERGY_PACKAGES][128];    /* of the counter */
    uint64_t range_uj[ENERGY_PACKAGES]; /* it wraps here; 0: not known */
    uint64_t last_uj[ENERGY_PACKAGES];  /* what it was */
    double joules;                      /* since energy_open */
};

/* folder: ENERGY_FOLDER, or one of its form. Whole packages alone ("intel-rapl:0"), not their parts. */
void energy_open(struct energy *e, const char *folder);
/* Adds what was taken since the last call; call it more often than counters wrap (about a minute at 100 W). */
void energy_read(struct energy *e);

#endif
