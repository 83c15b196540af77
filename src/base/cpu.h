/* What this CPU can do, asked once. */
#ifndef HASTEN_BASE_CPU_H
#define HASTEN_BASE_CPU_H
#include <stdbool.h>
#include <stdint.h>

enum cpu_feature {
    CPU_AVX2 = 1 << 0,   /* AVX2, FMA and F16C together */
    CPU_AVX512 = 1 << 1, /* F, BW, DQ, VL, CD together, with OS support for zmm state */
    CPU_AVX512_VNNI = 1 << 2,
    CPU_AVX512_BF16 = 1 << 3,
    CPU_AVX512_VBMI = 1 << 4,
    CPU_NEON = 1 << 5,
    CPU_DOTPROD = 1 << 6 /* sdot, udot */
};

/* Features found, less those masked by HASTEN_CPU ("plain", "avx2", "avx512"; "neon": the highest set to use). */
uint32_t cpu_features(void);
uint32_t cpu_features_found(void); /* unmasked */
/* Does this architecture have a set of that name, as a bound? The library takes any text (an unknown one bounds
 * nothing); a command refuses those that would not do what they say. */
bool cpu_bound_known(const char *name);
const char *cpu_bounds_text(void); /* "plain, avx2 or avx512", of this architecture */
const char *cpu_name(void);        /* brand string, or "unknown" */
/* "avx512 avx512_vnni ..." into out. */
void cpu_features_text(uint32_t features, char *out, int out_len);

#endif
