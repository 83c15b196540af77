/* Proves that checkasm can fail: each of these sets is the plain one with a single fault, and must be
 * found. */
#include "checkasm.h"
#include "kernels/layout.h"
#include <stdio.h>
#include <string.h>

static void nudge(float *y)
{
    uint32_t u;
    memcpy(&u, y, sizeof u);
    u ^= 1; /* the last bit of one value */
    memcpy(y, &u, sizeof u);
}

static void wrong_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                         int64_t ldy, void *scratch)
{
    kernels_plain()->matmul(w, a, row0, row1, y, ldy, scratch);
    if (a->n == 17 && row1 > row0)
        nudge(&y[(a->n - 1) * ldy + row1 - 1]);
}

/* Right, but the result depends on how many columns share the call. */
static void variant_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                           int64_t ldy, void *scratch)
{
    kernels_plain()->matmul(w, a, row0, row1, y, ldy, scratch);
    if (a->n == 1 && row0 > 0 && row1 > row0)
        nudge(&y[row0]);
}

static void overrun_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1, float *y,
                           int64_t ldy, void *scratch)
{
    kernels_plain()->matmul(w, a, row0, row1, y, ldy, scratch);
    if (row1 % 16)
        y[row1] = 0.0f;
}

/* Right, unless two neighbouring products of an unsigned byte (w + 128) and an activation leave int16, where
 * vpmaddubsw would saturate. */
static void saturating_matmul(const struct weight *w, const struct act *a, int64_t row0, int64_t row1,
                              float *y, int64_t ldy, void *scratch)
{
    kernels_plain()->matmul(w, a, row0, row1, y, ldy, scratch);
    for (int64_t r = row0; r < row1 && w->type->id == QUANT_Q8_0; r++) {
        for (int64_t i = 0; i < w->k; i += 2) {
            const uint8_t *q = weight_row(w, r) + i / 32 * 34 + 2 + i % 32;
            const struct act_block_32 *x = (const struct act_block_32 *)(const void *)act_row(a, 0);
            const int8_t *qx = x[i / ACT_BLOCK].q + i % ACT_BLOCK;
            const int pair = (q[0] ^ 128) * qx[0] + (q[1] ^ 128) * qx[1];
            if (pair < INT16_MIN || pair > INT16_MAX) {
                nudge(&y[r]);
                break;
            }
        }
    }
}

static void wrong_act_make(enum act_form form, const float *x, int64_t k, void *dst)
{
    kernels_plain()->act_make(form, x, k, dst);
    if (k == 288)
        ((uint8_t *)dst)[287] ^= 1;
}

static void wrong_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y)
{
    kernels_plain()->rms_norm(x, w, n, eps, y);
    nudge(&y[n - 1]);
}

static void wrong_rope(float *x, const float *c, const float *s, int64_t n_rot, bool neox)
{
    kernels_plain()->rope(x, c, s, n_rot, neox);
    if (neox && n_rot > 16)
        nudge(&x[n_rot - 1]);
}

static void wrong_silu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    kernels_plain()->silu_mul(gate, up, n, y);
    nudge(&y[n / 2]);
}

static void wrong_gelu_mul(const float *gate, const float *up, int64_t n, float *y)
{
    kernels_plain()->gelu_mul(gate, up, n, y);
    nudge(&y[n / 2]);
}

static void wrong_add(const float *x, int64_t n, float *y)
{
    kernels_plain()->add(x, n - 1, y); /* forgets the last */
}

static void wrong_softcap(float cap, int64_t n, float *y)
{
    kernels_plain()->softcap(cap * 1.0001f, n, y);
}

static void wrong_scale(float s, int64_t n, float *y)
{
    kernels_plain()->scale(s, n & ~15, y); /* forgets the tail */
}

static void wrong_kv_store(enum kv_rep rep, int64_t d_k, int64_t d_v, int32_t e, const float *k,
                           const float *v, void *tile_k, void *tile_v)
{
    kernels_plain()->kv_store(rep, d_k, d_v, e, k, v, tile_k, tile_v);
    if (e == 63)
        ((uint8_t *)tile_k)[kv_key_bytes(rep, d_k) - 1] ^= 1;
}

static void wrong_attn_tile(const struct kv_tile *t, int64_t d_k, int64_t d_v, int64_t n_q, const void *q,
                            const struct attn_visible *vis, float softcap, struct attn_state *state, float *o,
                            void *scratch)
{
    struct attn_visible seen[64]; /* more than any check has */
    for (int64_t i = 0; i < n_q && i < 64; i++) {
        seen[i] = vis[i];
        seen[i].mask = NULL; /* forgets the mask: reads entries that were never written */
    }
    kernels_plain()->attn_tile(t, d_k, d_v, n_q, q, seen, softcap, state, o, scratch);
}

static void wrong_attn_merge(int64_t d_v, const struct attn_state *sb, const float *ob, struct attn_state *sa,
                             float *oa)
{
    kernels_plain()->attn_merge(d_v, sb, ob, sa, oa);
    nudge(&sa->l);
}

static void wrong_attn_finish(int64_t d_v, const struct attn_state *s, float *o)
{
    kernels_plain()->attn_finish(d_v, s, o);
    nudge(&o[d_v - 1]);
}

static void wrong_row_gather(const struct weight *w, int64_t r, float *dst)
{
    kernels_plain()->row_gather(w, r - 1, dst);
}

/* What the set without a fault passes, but for those checks that the fault cannot reach. */
static struct report run_checks(const struct kernels *set)
{
    const struct kernels *right = kernels_plain();
    const bool products = set->matmul != right->matmul || set->act_make != right->act_make;
    const bool faultless = !memcmp(set, right, sizeof *set);
    struct report rep = {.quiet = true};
    check_act_make(set, &rep);
    if (products || faultless)
        check_matmul(set, &rep);
    if (products)
        return rep;
    check_ops(set, &rep);
    if (!rep.n_failures)
        check_attention(set, &rep);
    return rep;
}

int self_test(void)
{
    struct kernels faulty[20];
    const char *names[20];
    int n = 0, missed = 0;
#define FAULT(field, function)                                                                               \
    (faulty[n] = *kernels_plain(), faulty[n].field = function, names[n++] = #function)
    FAULT(name, "plain"); /* no fault: nothing may be found */
    FAULT(matmul, wrong_matmul);
    FAULT(matmul, variant_matmul);
    FAULT(matmul, overrun_matmul);
    FAULT(matmul, saturating_matmul);
    FAULT(act_make, wrong_act_make);
    FAULT(rms_norm, wrong_rms_norm);
    FAULT(rope, wrong_rope);
    FAULT(silu_mul, wrong_silu_mul);
    FAULT(gelu_mul, wrong_gelu_mul);
    FAULT(add, wrong_add);
    FAULT(scale, wrong_scale);
    FAULT(softcap, wrong_softcap);
    FAULT(kv_store, wrong_kv_store);
    FAULT(attn_tile, wrong_attn_tile);
    FAULT(attn_merge, wrong_attn_merge);
    FAULT(attn_finish, wrong_attn_finish);
    FAULT(row_gather, wrong_row_gather);
    for (int i = 0; i < n; i++) {
        const struct report rep = run_checks(&faulty[i]);
        const bool right = i == 0 ? rep.n_failures == 0 : rep.n_failures > 0;
        missed += !right;
        printf("%s %s: %ld of %ld checks failed\n", right ? "ok  " : "FAIL", i == 0 ? "no fault" : names[i],
               rep.n_failures, rep.n_checks);
    }
    printf("%d passed, %d failed\n", n - missed, missed);
    return missed != 0;
}
