/* Few columns times packed panels: what a decode step does. The quants are made in registers and multiplied at once,
 * never stored, and every line of weights that is read asks for one further on: the requests to memory come as evenly
 * as the arithmetic goes, which is what brings them near the bus's limit. (Whole tiles unpacked in bursts, the
 * columns multiplied afterwards, leave it idle a fourth of the time.) For each output the operations are those of
 * multiply_avx512.c in the same order. */
#include "kernels/x86/few_avx512.h"

/* ---- 32-blocks --------------------------------------------------------------------------------- */

/* Where the words of a block are. head: d and m; 0xff: there are no such words. */
struct words_32 {
    int n, head, high, q;
    bool nibbles;
};
#define NO_WORD 0xff

/* Block b: its 8 vectors of quants times the columns. */
MATH_INLINE void dots_32(int n_panels, int n, struct words_32 w, int b, const struct few *f, dots first,
                         dots second)
{
    __m512i high[PANEL_GROUP] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (w.high != NO_WORD)
        EACH(p, n_panels) high[p] = take(f, p, b * w.n + w.high);
    EACH(j, 4)
    {
        __m512i low[PANEL_GROUP], up[PANEL_GROUP];
        EACH(p, n_panels)
        {
            const __m512i v = take(f, p, b * w.n + w.q + j);
            low[p] = w.nibbles ? low_nibbles(v) : _mm512_xor_si512(v, _mm512_set1_epi8(-128));
            up[p] = w.nibbles ? high_nibbles(v)
                              : _mm512_xor_si512(take(f, p, b * w.n + w.q + j + 4), _mm512_set1_epi8(-128));
            if (w.high != NO_WORD) {
                low[p] = with_fifth_bits(low[p], high[p], j);
                up[p] = with_fifth_bits(up[p], high[p], j + 4);
            }
        }
        add_dots(n_panels, n, b * 8 + j, low, f, first);
        add_dots(n_panels, n, b * 8 + j + 4, up, f, second);
    }
    EACH(c, n) EACH(p, n_panels) first[p][c] = _mm512_add_epi32(first[p][c], second[p][c]);
}

MATH_INLINE void few_32(int n_panels, int n, struct words_32 w, size_t neg, const struct few *f, int64_t k)
{
    const int n_blocks = (int)(k / 32);
    float_sums acc;
    load_sums(n_panels, n, f, acc);
    for (int b = 0; b < n_blocks; b++) {
        dots first, second;
        start_dots(n_panels, n, neg, b, f->x, first);
        start_dots(n_panels, n, NO_OFFSET, 0, f->x, second);
        dots_32(n_panels, n, w, b, f, first, second);
        EACH(p, n_panels)
        {
            if (w.head == NO_WORD) {
                const uint8_t *d = panel_at(f, p) + n_blocks * w.n * 64 + b * 2 * PANEL_ROWS;
                ask(f, d);
                _mm512_store_ps(f->t[p].d[b], load_f16(d));
            } else {
                const __m512i head = take(f, p, b * w.n + w.head);
                _mm512_store_ps(f->t[p].d[b], f16_low(head));
                _mm512_store_ps(f->t[p].m[b], f16_high(head));
            }
        }
        fold_32(n_panels, n, b, f->t, f->x, first, acc);
    }
    store_sums(n_panels, n, f, acc);
    if (w.head != NO_WORD)
        EACH(c, n) multiply_mins_32(n_panels, n_blocks, f->t, f->x[c], f->old, &f->s[c * PANEL_GROUP]);
}

/* ---- 256-blocks -------------------------------------------------------------------------------- */

/* d, dmin, scales and mins of Q4_K and Q5_K. */
MATH_INLINE void take_head_6bit(int n_panels, bool paired, const struct few *f)
{
    EACH(p, n_panels)
    {
        const struct source s = {panel_at(f, p), 0, true, 0, NULL, NULL};
        for (int i = 0; i < 4; i++)
            ask(f, s.p + i * 64);
        unpack_head_6bit(s, (struct ahead){0}, 0, paired, &f->t[p]);
    }
}

MATH_INLINE void few_q4_k(int n_panels, int n, const struct few *f, int64_t k)
{
    const size_t neg = offsetof(struct act_block_256, neg8);
    dots total, first, second;
    (void)k;
    take_head_6bit(n_panels, true, f);
    zero_dots(n_panels, n, total);
    for (int j = 0; j < 4; j++) {
        start_dots(n_panels, n, neg, 2 * j, f->x, first);
        start_dots(n_panels, n, neg, 2 * j + 1, f->x, second);
        EACH(i, 8)
        {
            __m512i low[PANEL_GROUP], up[PANEL_GROUP];
            EACH(p, n_panels)
            {
                const __m512i v = take(f, p, 4 + j * 8 + i);
                low[p] = low_nibbles(v);
                up[p] = high_nibbles(v);
            }
            add_dots(n_panels, n, j * 16 + i, low, f, first);
            add_dots(n_panels, n, j * 16 + 8 + i, up, f, second);
        }
        add_paired(n_panels, n, j, f->t, first, second, total);
    }
    finish_256(n_panels, n, 4, SUMS_32, true, f->t, f->x, total, f->old, f->s);
}

MATH_INLINE void few_q5_k(int n_panels, int n, const struct few *f, int64_t k)
{
    const __m512i fifth = _mm512_set1_epi8(16);
    dots total, first, second;
    (void)k;
    take_head_6bit(n_panels, false, f);
    zero_dots(n_panels, n, total);
    for (int j = 0; j < 4; j++) {
        start_dots(n_panels, n, NO_OFFSET, 0, f->x, first);
        start_dots(n_panels, n, NO_OFFSET, 0, f->x, second);
        EACH(i, 8)
        {
            __m512i low[PANEL_GROUP], up[PANEL_GROUP];
            EACH(p, n_panels)
            {
                const __m512i v = take(f, p, 12 + j * 8 + i);
                const __m512i high = j ? _mm512_load_si512(panel_at(f, p) + (4 + i) * 64) : take(f, p, 4 + i);
                const __m512i by = _mm512_set1_epi32((36 - 2 * j) % 32); /* bit 2 j to bit 4 */
                low[p] = or_masked(low_nibbles(v), _mm512_rolv_epi32(high, by), fifth);
                up[p] = or_masked(high_nibbles(v),
                                  _mm512_rolv_epi32(high, _mm512_set1_epi32((35 - 2 * j) % 32)), fifth);
            }
            add_dots(n_panels, n, j * 16 + i, low, f, first);
            add_dots(n_panels, n, j * 16 + 8 + i, up, f, second);
        }
        add_scaled(n_panels, n, 2 * j, f, first, total);
        add_scaled(n_panels, n, 2 * j + 1, f, second, total);
    }
    finish_256(n_panels, n, 4, SUMS_32, false, f->t, f->x, total, f->old, f->s);
}

/* Sub-blocks sub and sub + by, whose quants are `low` and `up` of each word: 4 words. */
#define Q6_SUB_BLOCKS(sub, by, LOW, UP)                                                                      \
    do {                                                                                                     \
        start_dots(n_panels, n, neg, sub, f->x, first);                                                      \
        start_dots(n_panels, n, neg, (sub) + (by), f->x, second);                                            \
        EACH(i, 4)                                                                                           \
        {                                                                                                    \
            __m512i low[PANEL_GROUP], up[PANEL_GROUP];                                                       \
            EACH(p, n_panels)                                                                                \
            {                                                                                                \
                low[p] = LOW;                                                                                \
                up[p] = UP;                                                                                  \
            }                                                                                                \
            add_dots(n_panels, n, (sub)*4 + i, low, f, first);                                               \
            add_dots(n_panels, n, ((sub) + (by)) * 4 + i, up, f, second);                                    \
        }                                                                                                    \
        add_scaled(n_panels, n, sub, f, first, total);                                                       \
        add_scaled(n_panels, n, (sub) + (by), f, second, total);                                             \
    } while (0)

/* 16 scales of Q6_K and d. */
MATH_INLINE void take_head_q6(int n_panels, const struct few *f)
{
    EACH(p, n_panels)
    {
        for (int j = 0; j < 4; j++)
            store_signed_scales(&f->t[p], 4 * j, take(f, p, j));
        _mm512_store_ps(f->t[p].d[0], take_d(f, p, 52));
    }
}

MATH_INLINE void few_q6_k(int n_panels, int n, const struct few *f, int64_t k)
{
    const size_t neg = offsetof(struct act_block_256, neg32);
    const __m512i pair = _mm512_set1_epi8(0x30);
    dots total, first, second;
    (void)k;
    take_head_q6(n_panels, f);
    zero_dots(n_panels, n, total);
    for (int part = 0; part < 4; part++) { /* of 128 elements, one of two columns of 16 */
        const int sub = part / 2 * 8 + part % 2, l = 4 + part * 12;
        __m512i h[PANEL_GROUP][4], a[PANEL_GROUP][4];
        EACH(i, 4) EACH(p, n_panels)
        {
            h[p][i] = take(f, p, l + i);
            a[p][i] = take(f, p, l + 4 + i);
        }
        Q6_SUB_BLOCKS(sub, 4, or_masked(low_nibbles(a[p][i]), _mm512_slli_epi32(h[p][i], 4), pair),
                      or_masked(high_nibbles(a[p][i]), h[p][i], pair));
        EACH(i, 4) EACH(p, n_panels) a[p][i] = take(f, p, l + 8 + i);
        Q6_SUB_BLOCKS(sub + 2, 4, or_masked(low_nibbles(a[p][i]), _mm512_slli_epi32(h[p][i], 2), pair),
                      or_masked(high_nibbles(a[p][i]), _mm512_srli_epi32(h[p][i], 2), pair));
    }
    finish_256(n_panels, n, 0, SUMS_32, false, f->t, f->x, total, f->old, f->s);
}

MATH_INLINE void few_q2_k(int n_panels, int n, const struct few *f, int64_t k)
{
    dots dot;
    __m512i s[PANEL_GROUP][4];
    (void)k;
    zero_dots(n_panels, n, dot);
    EACH(p, n_panels)
    {
        const __m512i d = take(f, p, 0);
        _mm512_store_ps(f->t[p].d[0], f16_low(d));
        _mm512_store_ps(f->t[p].m[0], f16_high(d));
        EACH(j, 4)
        {
            s[p][j] = take(f, p, 1 + j);
            store_mins(&f->t[p], 2 * j, high_nibbles(s[p][j]));
            s[p][j] = low_nibbles(s[p][j]);
        }
    }
    EACH(part, 4)
    {
        __m512i v[PANEL_GROUP][4];
        EACH(j, 4) EACH(p, n_panels) v[p][j] = take(f, p, 5 + part * 4 + j);
        EACH(group, 4)
        {
            const int sub = part / 2 * 8 + group * 2 + part % 2;
            __m512i scale[PANEL_GROUP], q[PANEL_GROUP];
            EACH(p, n_panels) scale[p] = byte_twice(s[p][sub / 4], sub % 4);
            EACH(j, 4)
            {
                EACH(p, n_panels) q[p] = _mm512_mullo_epi16(two_bits(v[p][j], group), scale[p]);
                add_dots(n_panels, n, sub * 4 + j, q, f, dot);
            }
        }
    }
    finish_256(n_panels, n, 8, SUMS_16, false, f->t, f->x, dot, f->old, f->s);
}

MATH_INLINE void few_q3_k(int n_panels, int n, const struct few *f, int64_t k)
{
    dots dot;
    __m512i scales[PANEL_GROUP][4];
    (void)k;
    start_dots(n_panels, n, offsetof(struct act_block_256, neg124), 0, f->x, dot);
    EACH(p, n_panels)
    {
        const struct source b = {panel_at(f, p), 0, true, 0, q3_order, NULL};
        for (int i = 0; i < 3; i++)
            ask(f, b.p + i * 64);
        unpack_scales_q3(b, (struct ahead){0}, 0, scales[p]);
        _mm512_store_ps(f->t[p].d[0], take_d(f, p, 27));
    }
    EACH(part, 4)
    {
        __m512i v[PANEL_GROUP][4], high[PANEL_GROUP][4];
        EACH(j, 4) EACH(p, n_panels)
        {
            high[p][j] = take(f, p, 3 + part % 2 * 4 + j);
            v[p][j] = take(f, p, 11 + part * 4 + j);
        }
        EACH(group, 4)
        {
            const int sub = part / 2 * 8 + group * 2 + part % 2;
            struct q3_scale scale[PANEL_GROUP];
            __m512i q[PANEL_GROUP];
            EACH(p, n_panels) scale[p] = q3_scale(scales[p][sub / 4], sub % 4);
            EACH(j, 4)
            {
                EACH(p, n_panels)
                q[p] = q3_quants(v[p][j], group, high[p][j], part / 2 * 4 + group, scale[p]);
                add_dots(n_panels, n, sub * 4 + j, q, f, dot);
            }
        }
    }
    finish_256(n_panels, n, 0, SUMS_32, false, f->t, f->x, dot, f->old, f->s);
}

/* ---- float types ------------------------------------------------------------------------------- */

enum float_type {
    FLOAT_32,
    FLOAT_16,
    FLOAT_B16
};

MATH_INLINE __m512 take_float(enum float_type type, const struct few *f, int p, int64_t i)
{
    const uint8_t *at = panel_at(f, p) + i * PANEL_ROWS * (type == FLOAT_32 ? 4 : 2);
    if (type == FLOAT_32 || i % 2 == 0)
        ask(f, at);
    if (type == FLOAT_32)
        return _mm512_load_ps(at);
    if (type == FLOAT_16)
        return load_f16(at);
    const __m256i h = _mm256_load_si256((const __m256i *)(const void *)at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

MATH_INLINE void few_floats(int n_panels, int n, enum float_type type, const struct few *f, int64_t k)
{
    float_sums acc;
    load_sums(n_panels, n, f, acc);
    for (int64_t i = 0; i < k; i++) {
        __m512 w[PANEL_GROUP];
        EACH(p, n_panels) w[p] = take_float(type, f, p, i);
        EACH(c, n)
        {
            const __m512 v = broadcast_f32(f->x[c] + 4 * i);
            EACH(p, n_panels) acc[p][c] = _mm512_fmadd_ps(w[p], v, acc[p][c]);
        }
    }
    store_sums(n_panels, n, f, acc);
}

#define NEG_32(field) offsetof(struct act_block_32, field)
#define BODY_Q4_0(p, n, f, k)                                                                                \
    few_32(p, n, (struct words_32){4, NO_WORD, NO_WORD, 0, true}, NEG_32(neg8), f, k)
#define BODY_Q4_1(p, n, f, k) few_32(p, n, (struct words_32){5, 0, NO_WORD, 1, true}, NO_OFFSET, f, k)
#define BODY_Q5_0(p, n, f, k) few_32(p, n, (struct words_32){5, NO_WORD, 0, 1, true}, NEG_32(neg16), f, k)
#define BODY_Q5_1(p, n, f, k) few_32(p, n, (struct words_32){6, 0, 1, 2, true}, NO_OFFSET, f, k)
#define BODY_Q8_0(p, n, f, k)                                                                                \
    few_32(p, n, (struct words_32){8, NO_WORD, NO_WORD, 0, false}, NEG_32(neg128), f, k)
#define BODY_F32(p, n, f, k) few_floats(p, n, FLOAT_32, f, k)
#define BODY_F16(p, n, f, k) few_floats(p, n, FLOAT_16, f, k)
#define BODY_BF16(p, n, f, k) few_floats(p, n, FLOAT_B16, f, k)

#define FEW_FLOATS(name, BODY) FEW(name, BODY, TILE_K_F32, TILE_K_F32 * sizeof(float))
FEW_QUANTS(q4_0, BODY_Q4_0)
FEW_QUANTS(q4_1, BODY_Q4_1)
FEW_QUANTS(q5_0, BODY_Q5_0)
FEW_QUANTS(q5_1, BODY_Q5_1)
FEW_QUANTS(q8_0, BODY_Q8_0)
FEW_QUANTS(q2_k, few_q2_k)
FEW_QUANTS(q3_k, few_q3_k)
FEW_QUANTS(q4_k, few_q4_k)
FEW_QUANTS(q5_k, few_q5_k)
FEW_QUANTS(q6_k, few_q6_k)
FEW_FLOATS(f32, BODY_F32)
FEW_FLOATS(f16, BODY_F16)
FEW_FLOATS(bf16, BODY_BF16)
