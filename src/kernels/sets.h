/* The pieces from which kernels.c fills its tables. Private to kernels/. */
#ifndef HASTEN_KERNELS_SETS_H
#define HASTEN_KERNELS_SETS_H
#include "kernels/kernels.h"

/* Declares the functions of one set; what each does stands in kernels.h. */
#define DECLARE_KERNELS(set)                                                                                 \
    void set##_act_make(enum act_form form, const float *x, int64_t k, void *dst);                           \
    void set##_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,     \
                      int64_t ldy, void *scratch);                                                           \
    size_t set##_matmul_scratch_bytes(const struct weight *w);                                               \
    void set##_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y);                     \
    void set##_rope(float *x, const float *cosines, const float *sines, int64_t n_rot, bool neox);           \
    void set##_silu_mul(const float *gate, const float *up, int64_t n, float *y);                            \
    void set##_gelu_mul(const float *gate, const float *up, int64_t n, float *y);                            \
    void set##_add(const float *x, int64_t n, float *y);                                                     \
    void set##_scale(float s, int64_t n, float *y);                                                          \
    void set##_softcap(float cap, int64_t n, float *y);                                                      \
    void set##_kv_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k,                \
                        const float *v, void *tile_k, void *tile_v);                                         \
    void set##_attn_query(enum kv_rep rep, int64_t d_k, const float *q, void *dst);                          \
    size_t set##_attn_scratch_bytes(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q);                 \
    void set##_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,      \
                         const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,  \
                         void *scratch);                                                                     \
    void set##_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,  \
                          float *oa);                                                                        \
    void set##_attn_finish(int64_t d_v, const struct attn_state *s, float *o)

DECLARE_KERNELS(ref);
DECLARE_KERNELS(twin);
DECLARE_KERNELS(avx512);
DECLARE_KERNELS(neon);
/* The one kernel of neon that has a second form (sdot). */
void neon_dotprod_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                         int64_t ldy, void *scratch);
DECLARE_KERNELS(avx2);

/* What every set does alike (ref/common.c). */
void row_gather_decode(const struct weight *w, int64_t r, float *dst);
size_t act_row_bytes_common(enum act_form form, int64_t k);
enum act_form form_of_quantised(const struct quant_type *type, int64_t k);
enum act_form form_of_float(const struct quant_type *type, int64_t k);

/* Positions of a tile that a query sees, as one bit each. */
static inline uint64_t visible_bits(const struct attn_visible *v)
{
    if (v->hi <= v->lo)
        return 0;
    const int32_t n = v->hi - v->lo;
    const uint64_t run = n >= 64 ? ~0ull : ((1ull << n) - 1) << v->lo;
    return v->mask ? run & *v->mask : run;
}

/* Plain C that is worth compiling twice: with the CPU's fused multiply-add, fmaf is one instruction
 * instead of a call, and loops vectorise wider. Same bits: contraction is off and every fused operation is
 * written out. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) &&                 \
    !defined(HASTEN_SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES_FMA __attribute__((target_clones("default", "fma", "avx512f")))
#define CLONES_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define CLONES_FMA
#define CLONES_WIDE
#endif

#endif
