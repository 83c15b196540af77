/* Arithmetic, and nothing else: the table of kernels that the forward pass calls.
 *
 * Three sets exist. `reference`: plain C on float activations with f64 sums, the truth. `plain`: plain C
 * twins of the fast kernels, the same operations in the same order (fmaf, same blocks, same rounding), so
 * that each fast kernel equals its twin under memcmp. `avx512`: the fast ones. Each is one constant table in
 * kernels.c.
 *
 * Row invariance (design rule 2): the result of a row never depends on how many rows share the call, nor on
 * [row0, row1). Work is split over output rows only; sums run over fixed blocks in ascending order.
 *
 * Activations. int8 with one f32 scale per group of 32 (ACT_Q8_32) or 256 (ACT_Q8_256) values:
 * d = amax / 127, q = round-to-nearest-even(x * (127 / amax)). A group with amax < 2^-100 is zeros (d = 0).
 * A group with a NaN or an infinity has d = NaN, q = 0: the outputs of that row, and of no other, become NaN.
 *
 * Canonical quantised dot product:
 *   32-blocks (Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4), offsets folded in exactly:
 *       i_b  = sum over the block of (q_w - offset) * q_x                              exact int32
 *       acc  = fmaf(d_w * d_x, (float)i_b, acc)          b ascending, one f32 accumulator per output
 *       acc2 = fmaf(m_w, d_x * (float)sum(q_x), acc2)    Q4_1, Q5_1 only
 *       y    = acc + acc2                             (acc alone for types without m)
 *   NVFP4: a step for each half of 16 of a 32-block, which has its own d_w: acc = fmaf(d_w * d_x, (float)i_h, acc)
 *   256-blocks (Q2_K ... Q6_K, IQ1_*, IQ2_*, IQ3_*, IQ4_XS, TQ*), sub-block scales applied in integers, for IQ and TQ
 *   those of formats/quant_iq.h:
 *       i_b  = sum over sub-blocks of scale_j * (sum of (q_w - offset) * q_x)          exact int32
 *       acc  = fmaf(d_w * d_x, (float)i_b, acc)
 *       acc2 = fmaf(dmin_w * d_x, (float)(sum over sub-blocks of min_j * sum_j(q_x)), acc2)   with mins only
 *       y    = acc - acc2                             (acc alone for types without mins)
 *   F32, F16, BF16 weights: ACT_F32; acc = fmaf(w_k, x_k, acc), k ascending.
 *   A NaN result is stored as the one quiet NaN 0x7fc00000. Elsewhere the payload of a NaN is unspecified.
 *
 * Fixed reduction (norm, softmax): lane l of 16 takes the values l, l + 16, l + 32, ... in ascending order
 * (missing ones are zero), then lanes are combined in a tree: l with l + 8, then 4, 2, 1. */
#ifndef HASTEN_KERNELS_KERNELS_H
#define HASTEN_KERNELS_KERNELS_H
#include "base/error.h"
#include "formats/quant.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PANEL_ROWS 16 /* rows of a weight handled together; row0 of matmul is a multiple of it */
#define ATTN_TILE 64  /* positions in a tile = in a page */

/* A weight matrix as it lies in the file: n_rows rows of k values, row r at data + r * row_bytes. */
struct weight {
    const struct quant_type *type;
    const uint8_t *data;
    int64_t n_rows, k, row_bytes;
    const uint8_t
        *packed; /* the same weight once more in panels (packed.h), which matmul reads instead; or NULL */
    const float
        *scale; /* what products are multiplied by, after matmul, which does not look at it; or NULL */
};

enum act_form {
    ACT_F32,
    ACT_Q8_32,
    ACT_Q8_256
};

/* n rows of activations of length k in one form. The caller owns the memory; quantised rows are padded by the
 * kernels' own rules only in act_row_bytes (a row is one contiguous block, 64-byte aligned). */
struct act {
    enum act_form form;
    int64_t n, k;
    const uint8_t *rows; /* row i at rows + i * row_stride */
    size_t row_stride;   /* bytes */
};

/* What a query may see of one tile. Entries outside [lo, hi), and those whose bit in mask is 0 when mask is
 * not NULL, are selected away, never multiplied. */
struct attn_visible {
    int32_t lo, hi;       /* 0 <= lo <= hi <= 64; lo == hi: nothing */
    const uint64_t *mask; /* one 64-bit word, or NULL */
};

enum kv_rep {
    KV_F16,
    KV_F32,
    KV_BF16,
    KV_Q8,
    KV_Q4,
    KV_REPS
};

/* One page of one KV slot and head: keys transposed, values by position. Entries not yet written may hold
 * anything, NaN included.
 *   F16, F32  keys [d_k][64], values [64][d_v]
 *   BF16      keys [d_k / 2][64][2] (an odd d_k is filled up with a zero), values [32][d_v][2]
 *   Q8        keys [d_k / 4][64][4] bytes and a scale per 32 components and position, values [16][d_v][4]
 *             bytes and a scale per position (attention.h)
 *   Q4        the same in half the bytes (attention.h) */
struct kv_tile {
    enum kv_rep rep;
    const void *k;    /* 64-byte aligned in a pool */
    const void *v;    /* the same */
    const void *next; /* a hint: the page read after this one, of the same form; or NULL */
};

/* Bytes of the keys and of the values of a page: multiples of 64. */
static inline size_t kv_key_bytes(enum kv_rep rep, int64_t d_k)
{
    const size_t d = (size_t)d_k;
    return ATTN_TILE * (rep == KV_F32    ? 4 * d
                        : rep == KV_F16  ? 2 * d
                        : rep == KV_BF16 ? (d + 1) / 2 * 4
                        : rep == KV_Q4   ? (d + 7) / 8 * 4 + (d + 15) / 16 + (d + 31) / 32 * 2
                                         : (d + 3) / 4 * 4 + (d + 31) / 32 * sizeof(float));
}

static inline size_t kv_value_bytes(enum kv_rep rep, int64_t d_v)
{
    const size_t d = (size_t)d_v;
    return ATTN_TILE * (rep == KV_F32  ? 4 * d
                        : rep == KV_Q8 ? d + sizeof(float)
                        : rep == KV_Q4 ? (d + 1) / 2 + (d + 15) / 16 + sizeof(float)
                                       : 2 * d);
}

/* Bytes of one prepared query (attn_query), the same for every representation and set: a multiple of 64. */
static inline size_t attn_query_bytes(int64_t d_k)
{
    return ((size_t)d_k * sizeof(float) + 127) & ~(size_t)63;
}

/* Running state of the online softmax of one query: m = -INFINITY, l = 0 at the start of a span. */
struct attn_state {
    float m, l;
};

struct kernels {
    const char *name; /* "reference", "plain", "avx512" */

    /* The form of activations that the matmul of a weight type wants, for rows of length k. */
    enum act_form (*form_of)(const struct quant_type *type, int64_t k);
    /* Bytes of one row in that form (a multiple of 64). */
    size_t (*act_row_bytes)(enum act_form form, int64_t k);
    /* x[k] -> one row at dst (64-byte aligned, act_row_bytes long). */
    void (*act_make)(enum act_form form, const float *x, int64_t k, void *dst);

    /* y[i * ldy + r] = sum_k w[r][k] * x[i][k] for r in [row0, row1), all rows i of a. row0 is a multiple of
     * PANEL_ROWS; row1 too, or it is w->n_rows. scratch: matmul_scratch_bytes, 64-byte aligned, per worker.
     * Few columns: longer stretches of rows are faster (256 or more), as memory is read ahead within one. */
    void (*matmul)(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                   int64_t ldy, void *scratch);
    size_t (*matmul_scratch_bytes)(const struct weight *w);
    bool reads_packed; /* whether matmul may be given packed weights */

    /* y[i] = x[i] / sqrt(mean(x^2) + eps) * w[i]; y may be x; w may be NULL (all ones). */
    void (*rms_norm)(const float *x, const float *w, int64_t n, float eps, float *y);
    /* Rotates n_rot values of one head in place. cos, sin: [n_rot / 2]. neox: pairs (i, i + n_rot/2), else
     * (2i, 2i + 1): (a, b) -> (a cos - b sin, a sin + b cos), each as fmaf(a, cos, -(b * sin)), fmaf(a, sin,
     * b * cos). */
    void (*rope)(float *x, const float *cos, const float *sin, int64_t n_rot, bool neox);
    /* y = gate * sigmoid(gate) * up; y may be gate or up. */
    void (*silu_mul)(const float *gate, const float *up, int64_t n, float *y);
    void (*gelu_mul)(const float *gate, const float *up, int64_t n, float *y); /* y = gelu_tanh(gate) * up */
    void (*add)(const float *x, int64_t n, float *y);                          /* y += x */
    void (*scale)(float s, int64_t n, float *y);                               /* y *= s */
    void (*softcap)(float cap, int64_t n, float *y);                           /* y = cap * tanh(y / cap) */

    /* Stores one position's key and value (f32, d_k and d_v values) at entry e of a tile. */
    void (*kv_store)(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k, const float *v,
                     void *tile_k, void *tile_v);
    /* One query (already multiplied by the softmax scale) in the form that attn_tile reads for a
     * representation: attn_query_bytes at dst, 64-byte aligned; the form is the set's own. F16, F32: floats. */
    void (*attn_query)(enum kv_rep rep, int64_t d_k, const float *q, void *dst);
    /* Scratch of attn_tile for n_q queries, 64-byte aligned, of one worker; may be 0. */
    size_t (*attn_scratch_bytes)(enum kv_rep rep, int64_t d_k, int64_t d_v, int64_t n_q);
    /* Folds one tile into n_q queries: query i as attn_query made it at q + i * attn_query_bytes(d_k), state
     * and o[n_q][d_v] (unnormalised) updated. Per query: s_j = fmaf chain over d ascending; softcap > 0: s_j =
     * softcap * tanh(s_j / softcap); m' = max(m, max visible s); p_j = exp(s_j - m');
     * l = fmaf(l, exp(m - m'), sum p); o = o * exp(m - m') + sum_j p_j v_j, j ascending by fmaf. The same
     * operations for any n_q. A tile with nothing visible leaves the query untouched; with l == 0, o is
     * written without being read. d_k, d_v: any; multiples of 16 are faster.
     * BF16: s_j and o by VDPBF16PS: pairs of components (of positions) ascending, in a pair the odd one first,
     * each one fma rounded to nearest even, denormals zero going in and coming out; q and p rounded to bf16; an
     * unseen position of a pair counts as 0 x 0; p_j = 2^((s_j - m) log2 e) by a cubic; l sums p before rounding.
     * Q8: per 32 components a scale; i_b exact in int32 of q and k in int8: s_j = fmaf((float)i_b, d_q * d_k, s_j)
     * over b ascending; p_j as for bf16; w_j = p_j * d_v,j in eight bits without sign, w = max w_j / 255:
     * o = fmaf((float)(sum of w_j v_j, exact), w, o * exp(m - m')). A value that is not finite makes o NaN.
     * Q4: that of Q8 over the same values. */
    void (*attn_tile)(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                      const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                      void *scratch);
    /* Merges partial (sb, ob) into (sa, oa): m = max; l = la e^(ma-m) + lb e^(mb-m); o likewise. An empty
     * side (l == 0) leaves the other's bits. */
    void (*attn_merge)(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
                       float *oa);
    void (*attn_finish)(int64_t d_v, const struct attn_state *s, float *o); /* o /= l; zeros if l == 0 */

    /* Decodes row r of a weight to f32 (token embeddings). Exact, the same in every set. */
    void (*row_gather)(const struct weight *w, int64_t r, float *dst);
};

const struct kernels *kernels_reference(void);
const struct kernels *kernels_plain(void);
/* The best set for the features given (cpu_features()). */
const struct kernels *kernels_select(uint32_t features);

/* Whether the matmul of a type exists in the quantised sets (all types that decode do). */
bool kernels_supports(const struct quant_type *type);

/* Entry e of a page as floats: what kv_store kept of k [d_k] and v [d_v]; either may be NULL. For methods that look at
 * a cache; not fast (kv_load.c). */
void kv_load(const struct kv_tile *t, int64_t d_k, int64_t d_v, int32_t e, float *k, float *v);
/* Copies entry e of a page to entry f of another of the same form, bit for bit; they may be one page. */
void kv_move(const struct kv_tile *from, int32_t e, int64_t d_k, int64_t d_v, const struct kv_tile *to,
             int32_t f);

/* What only encoders need, one build for every set: the same bits everywhere (encoder.c).
 * y = (x - mean) / sqrt(var + eps) * w + b (Ba et al., arXiv:1607.06450, eq. 4); fixed reductions; y may be x. */
void layer_norm(const float *x, const float *w, const float *b, int64_t n, float eps, float *y);
/* y = y/2 (1 + erf(y / sqrt 2)) (Hendrycks and Gimpel, arXiv:1606.08415), within 4e-7 |y|. */
void gelu_erf(int64_t n, float *y);

/* The engine's own exp and log: the same bits on every instruction set. Scalar forms of what kernels use.
 * exp_f32: within 1.02 ulp; 0 below -104, +inf above ln FLT_MAX, NaN for NaN. log_f64: within 1 ulp; for the
 * sampler's noise. */
float exp_f32(float x);
double log_f64(double x);

#endif
