/* The tables of kernels, and the choice among them: everything that exists is listed here. */
#include "kernels/kernels.h"
#include "base/cpu.h"
#include "kernels/ref/twin_blocks.h"
#include "kernels/sets.h"

#define KERNELS_WITH(set, matmul_of_set)                                                                     \
    .act_row_bytes = act_row_bytes_common, .act_make = set##_act_make, .matmul = matmul_of_set,              \
    .matmul_scratch_bytes = set##_matmul_scratch_bytes, .rms_norm = set##_rms_norm, .rope = set##_rope,      \
    .silu_mul = set##_silu_mul, .gelu_mul = set##_gelu_mul, .add = set##_add, .scale = set##_scale,          \
    .softcap = set##_softcap, .kv_store = set##_kv_store, .attn_query = set##_attn_query,                    \
    .attn_scratch_bytes = set##_attn_scratch_bytes, .attn_tile = set##_attn_tile,                            \
    .attn_merge = set##_attn_merge, .attn_finish = set##_attn_finish, .row_gather = row_gather_decode
#define KERNELS_OF(set) KERNELS_WITH(set, set##_matmul)

const struct kernels *kernels_reference(void)
{
    static const struct kernels k = {.name = "reference", .form_of = form_of_float, KERNELS_OF(ref)};
    return &k;
}

const struct kernels *kernels_plain(void)
{
    static const struct kernels k = {.name = "plain", .form_of = form_of_quantised, KERNELS_OF(twin)};
    return &k;
}

#if defined(__x86_64__)
static const struct kernels *kernels_avx512(void)
{
    static const struct kernels k = {
        .name = "avx512", .form_of = form_of_quantised, KERNELS_OF(avx512), .reads_packed = true};
    return &k;
}

static const struct kernels *kernels_avx2(void)
{
    static const struct kernels k = {.name = "avx2", .form_of = form_of_quantised, KERNELS_OF(avx2)};
    return &k;
}
#elif defined(__aarch64__)
static const struct kernels *kernels_neon(void)
{
    static const struct kernels k = {.name = "neon", .form_of = form_of_quantised, KERNELS_OF(neon)};
    return &k;
}

static const struct kernels *kernels_neon_dotprod(void)
{
    static const struct kernels k = {
        .name = "neon_dotprod", .form_of = form_of_quantised, KERNELS_WITH(neon, neon_dotprod_matmul)};
    return &k;
}
#endif

const struct kernels *kernels_select(uint32_t features)
{
#if defined(__x86_64__)
    const uint32_t want = CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI;
    if ((features & want) == want)
        return kernels_avx512();
    if (features & CPU_AVX2)
        return kernels_avx2();
#elif defined(__aarch64__)
    if ((features & (CPU_NEON | CPU_DOTPROD)) == (CPU_NEON | CPU_DOTPROD))
        return kernels_neon_dotprod();
    if (features & CPU_NEON)
        return kernels_neon();
#else
    (void)features;
#endif
    return kernels_plain();
}

bool kernels_supports(const struct quant_type *type)
{
    if (!type || !type->decode)
        return false;
    return type->id == QUANT_F32 || type->id == QUANT_F16 || type->id == QUANT_BF16 ||
           twin_format_get(type->id);
}
