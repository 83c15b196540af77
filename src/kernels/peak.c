/* Which of the limit loops of peak.h fits a CPU. */
#include "kernels/peak.h"
#include "base/cpu.h"

#if defined(__x86_64__)

const struct peak *peak_get(enum peak_kind kind, uint32_t features)
{
    switch (kind) {
    case PEAK_INT8:
        return features & CPU_AVX512_VNNI ? &peak_avx512_int8
               : features & CPU_AVX2      ? &peak_avx2_int8
                                          : &peak_ref_int8;
    case PEAK_BF16:
        return features & CPU_AVX512_BF16 ? &peak_avx512_bf16 : NULL;
    case PEAK_F32:
        return features & CPU_AVX512 ? &peak_avx512_f32
               : features & CPU_AVX2 ? &peak_avx2_f32
                                     : &peak_ref_f32;
    case PEAK_KINDS:
        break;
    }
    return NULL;
}

uint64_t peak_read(const uint8_t *p, size_t n, uint32_t features)
{
    return features & CPU_AVX512 ? peak_read_avx512(p, n)
           : features & CPU_AVX2 ? peak_read_avx2(p, n)
                                 : peak_read_ref(p, n);
}

#elif defined(__aarch64__)

const struct peak *peak_get(enum peak_kind kind, uint32_t features)
{
    if (kind == PEAK_INT8)
        return features & CPU_DOTPROD ? &peak_dotprod_int8
               : features & CPU_NEON  ? &peak_neon_int8
                                      : &peak_ref_int8;
    if (kind == PEAK_F32)
        return features & CPU_NEON ? &peak_neon_f32 : &peak_ref_f32;
    return NULL;
}

uint64_t peak_read(const uint8_t *p, size_t n, uint32_t features)
{
    (void)features;
    return peak_read_ref(p, n);
}

#else

const struct peak *peak_get(enum peak_kind kind, uint32_t features)
{
    (void)features;
    return kind == PEAK_INT8 ? &peak_ref_int8 : kind == PEAK_F32 ? &peak_ref_f32 : NULL;
}

uint64_t peak_read(const uint8_t *p, size_t n, uint32_t features)
{
    (void)features;
    return peak_read_ref(p, n);
}

#endif
