/* Quantisation of activations, and matrix products of every weight type. */
#include "checkasm.h"
#include "kernels/layout.h"
#include "kernels/packed.h"
#include "kernels/ref/twin_blocks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CANARY 7.25f
#define PAD 5 /* columns of y beyond the last row, that must stay as they were */

/* ---- act_make ---- */

void check_act_make(const struct kernels *set, struct report *rep)
{
    static const int64_t ks[] = {32, 64, 96, 256, 288, 544, 1024, 4864};
    struct rng r = {1};
    for (int form = ACT_F32; form <= ACT_Q8_256; form++) {
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            for (int kind = 0; kind < X_KINDS; kind++) {
                const int64_t k = form == ACT_F32 ? ks[i] + 1 : ks[i];
                if (form == ACT_Q8_256 && k % 256)
                    continue;
                const size_t bytes = set->act_row_bytes((enum act_form)form, k);
                struct guarded x = guard_new((size_t)k * sizeof(float), 4);
                struct guarded a = guard_new(bytes, 64), b = guard_new(bytes, 64);
                fill_floats(&r, (enum x_kind)kind, k, (float *)(void *)x.data);
                kernels_plain()->act_make((enum act_form)form, (const float *)(void *)x.data, k, a.data);
                set->act_make((enum act_form)form, (const float *)(void *)x.data, k, b.data);
                expect(rep, bytes % 64 == 0 && !memcmp(a.data, b.data, bytes) && guard_intact(&b),
                       "act_make: form %d, k %lld, input kind %d", form, (long long)k, kind);
                guard_free(&x);
                guard_free(&a);
                guard_free(&b);
            }
        }
    }
}

/* ---- one product ---- */

struct problem {
    struct weight w;
    struct guarded weights;
    int64_t n;
    float *x; /* [n][k] */
};

static struct problem problem_new(struct rng *r, const struct quant_type *type, int64_t k, int64_t n_rows,
                                  int64_t n, enum w_kind wk, enum x_kind xk)
{
    struct problem p;
    const int64_t row_bytes = k / type->block * type->block_bytes;
    p.weights = guard_new((size_t)(row_bytes * n_rows), 1);
    fill_blocks(r, wk, type, n_rows * (k / type->block), p.weights.data);
    p.w = (struct weight){
        .type = type, .data = p.weights.data, .n_rows = n_rows, .k = k, .row_bytes = row_bytes};
    p.n = n;
    p.x = malloc((size_t)(n * k) * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        fill_floats(r, i % 3 == 1 && xk != X_LEVEL ? X_RANDOM : xk, k, p.x + i * k);
    return p;
}

static void problem_free(struct problem *p)
{
    guard_free(&p->weights);
    free(p->x);
}

/* y[n][n_rows + PAD] of the columns [col, col + n) and rows [row0, row1). */
static void run(const struct kernels *set, const struct problem *p, int64_t col, int64_t n, int64_t row0,
                int64_t row1, float *y)
{
    struct act a = {set->form_of(p->w.type, p->w.k), n, p->w.k, NULL, 0};
    a.row_stride = set->act_row_bytes(a.form, a.k);
    struct guarded rows = guard_new((size_t)n * a.row_stride, 64);
    struct guarded scratch = guard_new(set->matmul_scratch_bytes(&p->w), 64);
    for (int64_t i = 0; i < n; i++)
        set->act_make(a.form, p->x + (col + i) * p->w.k, p->w.k, rows.data + (size_t)i * a.row_stride);
    a.rows = rows.data;
    const int64_t ldy = p->w.n_rows + PAD;
    set->matmul(&p->w, &a, row0, row1, y + col * ldy, ldy, scratch.data);
    if (!guard_intact(&scratch))
        y[0] = y[0] == 0.0f ? 1.0f : 0.0f; /* makes the comparison fail */
    guard_free(&rows);
    guard_free(&scratch);
}

static struct guarded output_new(const struct problem *p)
{
    struct guarded g = guard_new((size_t)(p->n * (p->w.n_rows + PAD)) * sizeof(float), 4);
    float *y = (float *)(void *)g.data;
    for (size_t i = 0; i < g.size / sizeof(float); i++)
        y[i] = CANARY;
    return g;
}

/* The product of packed weights, which may read nothing of the file's rows. */
static void check_packed(const struct kernels *set, const struct problem *p, const struct guarded *want,
                         const char *what, struct report *rep)
{
    const size_t bytes = packed_bytes(&p->w);
    const int64_t rows = p->w.n_rows, panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS, some = panels / 2;
    struct guarded got = output_new(p), packed = guard_new(bytes, 64), away = guard_new(1, 1);
    struct problem q = *p;
    packed_make(&p->w, 0, some, packed.data);
    packed_make(&p->w, some, panels, packed.data + (size_t)some * packed_panel_bytes(&p->w));
    q.w.packed = packed.data;
    q.w.data = away.data;
    run(set, &q, 0, p->n, 0, rows, (float *)(void *)got.data);
    expect(rep, !memcmp(want->data, got.data, want->size) && guard_intact(&got) && guard_intact(&packed),
           "matmul packed %s: k %lld, rows %lld, n %lld, %s", p->w.type->name, (long long)p->w.k,
           (long long)rows, (long long)p->n, what);
    guard_free(&away);
    guard_free(&packed);
    guard_free(&got);
}

/* Compares whole buffers, padding between columns included: plain at once, the set at once, and the set
 * column by column and in two stretches of rows (row invariance). */
static void check_problem(const struct kernels *set, const struct problem *p, bool parts, const char *what,
                          struct report *rep)
{
    const int64_t rows = p->w.n_rows, split = rows > 16 ? (rows / 2 + 15) / 16 * 16 : 0;
    struct guarded want = output_new(p), got = output_new(p);
    run(kernels_plain(), p, 0, p->n, 0, rows, (float *)(void *)want.data);
    run(set, p, 0, p->n, 0, rows, (float *)(void *)got.data);
    expect(rep, !memcmp(want.data, got.data, want.size) && guard_intact(&got),
           "matmul %s: k %lld, rows %lld, n %lld, %s", p->w.type->name, (long long)p->w.k, (long long)rows,
           (long long)p->n, what);
    if (set->reads_packed && packed_bytes(&p->w))
        check_packed(set, p, &want, what, rep);
    if (parts) {
        struct guarded cut = output_new(p);
        for (int64_t i = 0; i < p->n; i++) {
            run(set, p, i, 1, 0, split, (float *)(void *)cut.data);
            run(set, p, i, 1, split, rows, (float *)(void *)cut.data);
        }
        expect(rep, !memcmp(got.data, cut.data, cut.size) && guard_intact(&cut),
               "matmul %s in parts: k %lld, rows %lld, n %lld", p->w.type->name, (long long)p->w.k,
               (long long)rows, (long long)p->n);
        guard_free(&cut);
    }
    guard_free(&want);
    guard_free(&got);
}

static void check_shape(const struct kernels *set, struct rng *r, const struct quant_type *type, int64_t k,
                        int64_t n_rows, int64_t n, enum w_kind wk, enum x_kind xk, bool parts,
                        struct report *rep)
{
    static const char *const w_names[] = {"random",   "all 00",   "all ff", "all 80",
                                          "extremes", "denormal", "special"};
    struct problem p = problem_new(r, type, k, n_rows, n, wk, xk);
    check_problem(set, &p, parts, w_names[wk], rep);
    problem_free(&p);
}

/* The codebook, ternary and four-bit float types: their products are those of other types, so fewer shapes do. */
static bool is_newer(const struct quant_type *type)
{
    return type->id > QUANT_Q6_K && type->id != QUANT_BF16;
}

void check_matmul(const struct kernels *set, struct report *rep)
{
    struct rng r = {2};
    for (int t = 0; t < n_types; t++) {
        const struct quant_type *type = quant_type_get(all_types[t]);
        if (rep->quiet && rep->n_failures)
            return; /* the self-test asks only whether */
        const int64_t block = type->block, longer = block == 1    ? 67
                                                    : block == 32 ? 9 * 32
                                                    : block == 64 ? 5 * 64
                                                                  : 2 * 256;
        check_shape(set, &r, type, block, 1, 1, W_RANDOM, X_RANDOM, false, rep);
        for (int64_t n = 1; n <= 17; n += is_newer(type) && n > 7 ? 5 : 1)
            check_shape(set, &r, type, longer, 33, n, W_RANDOM, X_RANDOM, n == 7, rep);
        for (int64_t rows = 1; rows <= 50; rows += 7)
            check_shape(set, &r, type, longer, rows, 3, W_RANDOM, X_RANDOM, true, rep);
        for (int64_t k = block; k <= 20 * block && k <= 1100; k += block)
            check_shape(set, &r, type, k, 16, 2, W_RANDOM, X_RANDOM, false, rep);
        check_shape(set, &r, type, longer, 40, 33, W_RANDOM, X_RANDOM, true, rep);
        check_shape(set, &r, type, longer, 17, 100, W_RANDOM, X_RANDOM, false, rep);
        check_shape(set, &r, type, block, 18, 300, W_RANDOM, X_RANDOM, false, rep);
        check_shape(set, &r, type, block == 1 ? 1536 : 1536 / block * block, 32, 5, W_RANDOM, X_RANDOM, true,
                    rep);
        for (int wk = 0; wk < W_KINDS; wk++)
            for (int xk = 0; xk < X_KINDS; xk++)
                if (!is_newer(type) || wk == W_RANDOM || xk == X_RANDOM || xk == X_EQUAL || xk == X_SIGNS)
                    check_shape(set, &r, type, longer, 20, 6, (enum w_kind)wk, (enum x_kind)xk, false, rep);
    }
}

/* ---- the twin against the reference ---- */

static double largest(const float *x, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return (double)most;
}

/* What |plain - exact| may be for one output. With x^ the quantised activation, |x - x^| <= d_x / 2 (a
 * little more, for the rounded inverse), so the products differ by at most sum |w_k| d_x / 2. Then every
 * f32 operation of the twin rounds terms whose magnitudes sum to at most S = sum (|d scale q| + |m|) |x^|:
 * at most two roundings a block and one fma each, so (3 n_blocks + 8) u S, u = 2^-24. NVFP4 has twice as many. */
static double bound(const struct problem *p, int64_t row, int64_t col, const float *w)
{
    const struct quant_type *type = p->w.type;
    const int64_t k = p->w.k, group = type->block == 64 ? 32 : type->block;
    const float *x = p->x + col * k;
    const struct twin_format *f = twin_format_get(type->id);
    double step = 0, s = 0;
    if (!f) {
        for (int64_t i = 0; i < k; i++)
            s += fabs((double)w[i] * (double)x[i]);
        return (double)(k + 2) * 0x1p-24 * s;
    }
    struct twin_row t = {malloc((size_t)k), calloc((size_t)k, 4), calloc((size_t)k, 4), malloc((size_t)k),
                         malloc((size_t)k)};
    f->unpack(weight_row(&p->w, row), k / type->block, &t);
    double amax = 0;
    for (int64_t i = 0; i < k; i++) {
        if (i % group == 0)
            amax = largest(x + i, group);
        const double scale = group == 256 ? t.scale[i / f->sub] : 1;
        const double min = !f->has_min ? 0 : group == 256 ? t.min[i / f->sub] : 1;
        step += fabs((double)w[i]) * (amax < 0x1p-100 ? amax : 0.5001 * amax / 127);
        const float d = type->block == 64 && i / 16 % 2 ? t.m[i / group] : t.d[i / group]; /* NVFP4 */
        s += (fabs((double)d * scale * t.q[i]) + fabs((double)t.m[i / group] * min)) * amax * 1.01;
    }
    free(t.q);
    free(t.d);
    free(t.m);
    free(t.scale);
    free(t.min);
    return step + (double)(3 * (k / (type->block == 64 ? 16 : group)) + 8) * 0x1p-24 * s;
}

static void check_against_exact(const struct problem *p, struct report *rep)
{
    const int64_t rows = p->w.n_rows, ldy = rows + PAD;
    struct guarded plain = output_new(p), ref = output_new(p);
    float *yp = (float *)(void *)plain.data, *yr = (float *)(void *)ref.data;
    float *w = malloc((size_t)p->w.k * sizeof(float));
    run(kernels_plain(), p, 0, p->n, 0, rows, yp);
    run(kernels_reference(), p, 0, p->n, 0, rows, yr);
    for (int64_t r = 0; r < rows; r++) {
        p->w.type->decode(weight_row(&p->w, r), p->w.k, w);
        for (int64_t c = 0; c < p->n; c++) {
            double exact = 0, magnitude = 0;
            for (int64_t i = 0; i < p->w.k; i++) {
                exact += (double)w[i] * (double)p->x[c * p->w.k + i];
                magnitude += fabs((double)w[i] * (double)p->x[c * p->w.k + i]);
            }
            const double er = fabs((double)yr[c * ldy + r] - exact),
                         ep = fabs((double)yp[c * ldy + r] - exact);
            expect(rep, er <= 0x1p-24 * fabs(exact) + 1e-13 * magnitude + 1e-45, "reference %s: error %g",
                   p->w.type->name, er);
            expect(rep, ep <= bound(p, r, c, w) + 1e-45, "plain %s: error %g, bound %g", p->w.type->name, ep,
                   bound(p, r, c, w));
        }
    }
    expect(rep, guard_intact(&plain) && guard_intact(&ref), "%s: wrote before the output", p->w.type->name);
    free(w);
    guard_free(&plain);
    guard_free(&ref);
}

void check_matmul_reference(struct report *rep)
{
    static const enum w_kind wks[] = {W_RANDOM, W_ZEROS, W_ONES, W_128, W_EXTREMES, W_DENORMAL};
    static const enum x_kind xks[] = {X_RANDOM, X_ZERO, X_EQUAL, X_MINUS, X_SIGNS, X_DENORMAL};
    struct rng r = {3};
    for (int t = 0; t < n_types; t++) {
        const struct quant_type *type = quant_type_get(all_types[t]);
        expect(rep, kernels_supports(type), "%s is not supported", type->name);
        for (size_t i = 0; i < sizeof wks / sizeof *wks; i++) {
            for (size_t j = 0; j < sizeof xks / sizeof *xks; j++) {
                const int64_t rows = is_newer(type) ? 5 : 19, n = is_newer(type) ? 2 : 5;
                struct problem p =
                    problem_new(&r, type, type->block == 1 ? 131 : 512, rows, n, wks[i], xks[j]);
                check_against_exact(&p, rep);
                problem_free(&p);
            }
        }
    }
}
