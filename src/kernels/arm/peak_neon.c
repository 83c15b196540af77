/* Limit loops with NEON (peak.h); reading is ref/peak.c, which compilers vectorise here. */
#include "kernels/peak.h"

#define CLOBBERS                                                                                             \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",    \
        "v16", "v17"
#define SIXTEEN(op)                                                                                          \
    op("1") op("2") op("3") op("4") op("5") op("6") op("7") op("8") op("9") op("10") op("11") op("12")       \
        op("13") op("14") op("15") op("16")
#define CLEAR(r) "movi v" r ".16b, #0\n\t"
#define SDOT(r) "sdot v" r ".4s, v0.16b, v0.16b\n\t"
#define SMLAL(r) "smull v17.8h, v0.8b, v0.8b\n\tsmlal2 v17.8h, v0.16b, v0.16b\n\tsadalp v" r ".4s, v17.8h\n\t"
#define FMLA(r) "fmla v" r ".4s, v0.4s, v0.4s\n\t"

#define LOOP(op)                                                                                             \
    do {                                                                                                     \
        if (rounds > 0)                                                                                      \
            __asm__ volatile(CLEAR("0") SIXTEEN(CLEAR) "1:\n\t" SIXTEEN(op) "subs %0, %0, #1\n\tb.ne 1b\n\t" \
                             : "+r"(rounds)                                                                  \
                             :                                                                               \
                             : CLOBBERS, "cc");                                                              \
    } while (0)

#ifdef __clang__
#define WITH_SDOT __attribute__((target("dotprod")))
#else
#define WITH_SDOT __attribute__((target("arch=armv8.2-a+dotprod")))
#endif

WITH_SDOT static void run_sdot(int64_t rounds)
{
    LOOP(SDOT);
}

static void run_int8(int64_t rounds)
{
    LOOP(SMLAL);
}

static void run_f32(int64_t rounds)
{
    LOOP(FMLA);
}

const struct peak peak_dotprod_int8 = {"sdot", 2.0 * 16 * 16, run_sdot};
const struct peak peak_neon_int8 = {"smull, smlal2, sadalp", 2.0 * 16 * 16, run_int8};
const struct peak peak_neon_f32 = {"fmla", 2.0 * 16 * 4, run_f32};
