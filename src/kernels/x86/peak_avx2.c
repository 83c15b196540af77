/* Limit loops with AVX2 (peak.h). There is no int8 dot product: products of pairs are summed in int16
 * (vpmaddubsw, vpaddw) and widened once in eight, the most that 4-bit weights allow; formats with wider
 * weights must widen more often, so their own limit lies up to a third lower. */
#include "kernels/peak.h"
#include <immintrin.h>

#define CLOBBERS                                                                                             \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",        \
        "xmm12", "xmm13", "xmm14", "xmm15"
#define CLEAR(r) "vpxor %%ymm" r ", %%ymm" r ", %%ymm" r "\n\t"
#define TWELVE(op)                                                                                           \
    op("1") op("2") op("3") op("4") op("5") op("6") op("7") op("8") op("9") op("10") op("11") op("12")
#define FMA(r) "vfmadd231ps %%ymm0, %%ymm0, %%ymm" r "\n\t"

/* Four chains (sums in 1-4 and 5-8) of one product with its int16 addition; of one widening. */
#define PRODUCT(t, s) "vpmaddubsw %%ymm0, %%ymm0, %%ymm" t "\n\tvpaddw %%ymm" t ", %%ymm" s ", %%ymm" s "\n\t"
#define PRODUCTS PRODUCT("9", "1") PRODUCT("10", "2") PRODUCT("11", "3") PRODUCT("12", "4")
#define WIDEN(s, w) "vpmaddwd %%ymm0, %%ymm" s ", %%ymm" s "\n\tvpaddd %%ymm" s ", %%ymm" w ", %%ymm" w "\n\t"
#define EIGHT(x) x x x x x x x x

static void run_int8(int64_t rounds)
{
    if (rounds > 0)
        __asm__ volatile(CLEAR("0") TWELVE(CLEAR) "1:\n\t" EIGHT(PRODUCTS) WIDEN("1", "5") WIDEN("2", "6")
                             WIDEN("3", "7") WIDEN("4", "8") "dec %0\n\tjnz 1b\n\t"
                         : "+r"(rounds)
                         :
                         : CLOBBERS, "cc");
}

static void run_f32(int64_t rounds)
{
    if (rounds > 0)
        __asm__ volatile(CLEAR("0") TWELVE(CLEAR) "1:\n\t" TWELVE(FMA) "dec %0\n\tjnz 1b\n\t"
                         : "+r"(rounds)
                         :
                         : CLOBBERS, "cc");
}

const struct peak peak_avx2_int8 = {"vpmaddubsw, vpaddw ymm", 2.0 * 8 * 4 * 32, run_int8};
const struct peak peak_avx2_f32 = {"vfmadd231ps ymm", 2.0 * 12 * 8, run_f32};

uint64_t peak_read_avx2(const uint8_t *p, size_t n)
{
    const size_t run = n / PEAK_STREAMS;
    __m256i sum[PEAK_STREAMS];
    uint64_t lanes[4];
    for (int s = 0; s < PEAK_STREAMS; s++)
        sum[s] = _mm256_setzero_si256();
    for (size_t i = 0; i < run; i += 64)
        for (size_t s = 0; s < PEAK_STREAMS; s++) {
            const __m256i *at = (const __m256i *)(p + s * run + i);
            _mm_prefetch((const char *)at + 2048, _MM_HINT_T0);
            sum[s] =
                _mm256_add_epi64(sum[s], _mm256_add_epi64(_mm256_load_si256(at), _mm256_load_si256(at + 1)));
        }
    for (int s = 1; s < PEAK_STREAMS; s++)
        sum[0] = _mm256_add_epi64(sum[0], sum[s]);
    _mm256_storeu_si256((__m256i *)lanes, sum[0]);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}
