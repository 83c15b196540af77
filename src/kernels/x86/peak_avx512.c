/* Limit loops with AVX-512 (peak.h): twelve independent chains, so that latency does not count; what is in the
 * registers does not matter, but they are zeroed, as denormal floats would be slow. */
#include "kernels/peak.h"
#include <immintrin.h>

#define CHAINS 12
#define CLOBBERS                                                                                             \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12"
#define TWELVE(op)                                                                                           \
    op("1") op("2") op("3") op("4") op("5") op("6") op("7") op("8") op("9") op("10") op("11") op("12")
#define CLEAR(r) "vpxorq %%zmm" r ", %%zmm" r ", %%zmm" r "\n\t"
#define DPBUSD(r) "vpdpbusd %%zmm0, %%zmm0, %%zmm" r "\n\t"
#define DPBF16(r) "vdpbf16ps %%zmm0, %%zmm0, %%zmm" r "\n\t"
#define FMA(r) "vfmadd231ps %%zmm0, %%zmm0, %%zmm" r "\n\t"

/* One asm for all rounds: between several, the compiler may use the registers. */
#define LOOP(op)                                                                                             \
    do {                                                                                                     \
        if (rounds > 0)                                                                                      \
            __asm__ volatile(CLEAR("0") TWELVE(CLEAR) "1:\n\t" TWELVE(op) "dec %0\n\tjnz 1b\n\t"             \
                             : "+r"(rounds)                                                                  \
                             :                                                                               \
                             : CLOBBERS, "cc");                                                              \
    } while (0)

static void run_int8(int64_t rounds)
{
    LOOP(DPBUSD);
}

static void run_bf16(int64_t rounds)
{
    LOOP(DPBF16);
}

static void run_f32(int64_t rounds)
{
    LOOP(FMA);
}

const struct peak peak_avx512_int8 = {"vpdpbusd zmm", 2.0 * CHAINS * 64, run_int8};
const struct peak peak_avx512_bf16 = {"vdpbf16ps zmm", 2.0 * CHAINS * 32, run_bf16};
const struct peak peak_avx512_f32 = {"vfmadd231ps zmm", 2.0 * CHAINS * 16, run_f32};

uint64_t peak_read_avx512(const uint8_t *p, size_t n)
{
    const size_t run = n / PEAK_STREAMS;
    __m512i sum[PEAK_STREAMS];
    for (int s = 0; s < PEAK_STREAMS; s++)
        sum[s] = _mm512_setzero_si512();
    for (size_t i = 0; i < run; i += 64)
        for (size_t s = 0; s < PEAK_STREAMS; s++) {
            _mm_prefetch((const char *)p + s * run + i + 2048, _MM_HINT_T0);
            sum[s] = _mm512_add_epi64(sum[s], _mm512_load_si512(p + s * run + i));
        }
    for (int s = 1; s < PEAK_STREAMS; s++)
        sum[0] = _mm512_add_epi64(sum[0], sum[s]);
    uint64_t lanes[8], total = 0; /* the intrinsic's own sum is signed, and overflows */
    _mm512_storeu_si512(lanes, sum[0]);
    for (int i = 0; i < 8; i++)
        total += lanes[i];
    return total;
}
