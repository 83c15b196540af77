/* Norm, rotation, activations functions and the rest of the element-wise kernels. */
#include "checkasm.h"
#include "kernels/packed.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 100, 576, 1027};

/* Input arrays that end at an unreadable page. */
struct inputs {
    struct guarded x, w, y; /* y: in and out, filled like x */
};

static float *floats(const struct guarded *g)
{
    return (float *)(void *)g->data;
}

static struct inputs inputs_new(struct rng *r, enum x_kind kind, int64_t n)
{
    struct inputs in = {guard_new((size_t)n * 4, 4), guard_new((size_t)n * 4, 4),
                        guard_new((size_t)n * 4, 4)};
    fill_floats(r, kind, n, floats(&in.x));
    fill_floats(r, X_RANDOM, n, floats(&in.w));
    fill_floats(r, kind, n, floats(&in.y));
    return in;
}

static void inputs_free(struct inputs *in)
{
    guard_free(&in->x);
    guard_free(&in->w);
    guard_free(&in->y);
}

enum op {
    OP_NORM,
    OP_NORM_NO_WEIGHT,
    OP_NORM_IN_PLACE,
    OP_SILU,
    OP_GELU,
    OP_SOFTCAP,
    OP_ADD,
    OP_SCALE,
    OP_ROPE,
    OP_ROPE_NEOX,
    OPS
};
static const char *const op_names[] = {"rms_norm",
                                       "rms_norm without weight",
                                       "rms_norm in place",
                                       "silu_mul",
                                       "gelu_mul",
                                       "softcap",
                                       "add",
                                       "scale",
                                       "rope",
                                       "rope neox"};

/* Runs one operation on in; the result is in y (or x, in place). Rotation takes cos and sin from w and x. */
static void apply(const struct kernels *k, enum op op, const struct inputs *in, int64_t n)
{
    float *x = floats(&in->x), *w = floats(&in->w), *y = floats(&in->y);
    switch (op) {
    case OP_NORM:
        k->rms_norm(x, w, n, 1e-6f, y);
        break;
    case OP_NORM_NO_WEIGHT:
        k->rms_norm(x, NULL, n, 1e-5f, y);
        break;
    case OP_NORM_IN_PLACE:
        k->rms_norm(y, w, n, 1e-6f, y);
        break;
    case OP_SILU:
        k->silu_mul(x, w, n, y);
        break;
    case OP_GELU:
        k->gelu_mul(x, w, n, y);
        break;
    case OP_SOFTCAP:
        k->softcap(7.5f, n, y);
        break;
    case OP_ADD:
        k->add(x, n, y);
        break;
    case OP_SCALE:
        k->scale(w[0], n, y);
        break;
    case OP_ROPE:
        k->rope(y, w + n - n / 2, x + n - n / 2, n / 2 * 2, false);
        break;
    default:
        k->rope(y, w + n - n / 2, x + n - n / 2, n / 2 * 2, true);
        break;
    }
}

static void check_op(const struct kernels *set, enum op op, enum x_kind kind, int64_t n, struct report *rep)
{
    struct rng r = {(uint64_t)(n * 100 + op * 10 + kind)}, same = r;
    struct inputs a = inputs_new(&r, kind, n), b = inputs_new(&same, kind, n);
    apply(kernels_plain(), op, &a, n);
    apply(set, op, &b, n);
    expect(rep, same_floats(floats(&a.y), floats(&b.y), n, true) && !memcmp(a.x.data, b.x.data, a.x.size),
           "%s: n %lld, input kind %d", op_names[op], (long long)n, kind);
    expect(rep, guard_intact(&b.x) && guard_intact(&b.w) && guard_intact(&b.y), "%s: n %lld wrote outside",
           op_names[op], (long long)n);
    inputs_free(&a);
    inputs_free(&b);
}

/* A row of packed weights, which may read nothing of the file's rows; the last tile may be short. */
static void check_packed_gather(const struct kernels *set, const struct weight *w, struct report *rep)
{
    const int64_t block = w->type->block, k = block == 256 ? 512 : block == 64 ? 448 : 480;
    struct guarded got = guard_new((size_t)k * 4, 4);
    struct weight p = *w;
    float want[512];
    p.k = k;
    struct guarded packed = guard_new(packed_bytes(&p), 64);
    packed_make(&p, 0, 1, packed.data);
    p.packed = packed.data;
    p.data = NULL;
    for (int64_t r = 0; r < p.n_rows; r++) {
        set->row_gather(&p, r, floats(&got));
        w->type->decode(w->data + r * w->row_bytes, k, want);
        expect(rep, !memcmp(want, got.data, (size_t)k * sizeof *want) && guard_intact(&got),
               "row_gather of packed %s: row %lld", w->type->name, (long long)r);
    }
    guard_free(&packed);
    guard_free(&got);
}

static void check_gather(const struct kernels *set, struct report *rep)
{
    struct rng r = {9};
    for (int t = 0; t < n_types; t++) {
        const struct quant_type *type = quant_type_get(all_types[t]);
        const int64_t k = 512, row_bytes = k / type->block * type->block_bytes;
        struct guarded data = guard_new((size_t)(3 * row_bytes), 1), got = guard_new((size_t)k * 4, 4);
        float want[512];
        fill_blocks(&r, W_RANDOM, type, 3 * k / type->block, data.data);
        const struct weight w = {
            .type = type, .data = data.data, .n_rows = 3, .k = k, .row_bytes = row_bytes};
        set->row_gather(&w, 2, floats(&got));
        type->decode(data.data + 2 * row_bytes, k, want);
        expect(rep, !memcmp(want, got.data, sizeof want) && guard_intact(&got), "row_gather %s", type->name);
        if (packed_bytes(&w))
            check_packed_gather(set, &w, rep);
        guard_free(&data);
        guard_free(&got);
    }
}

void check_ops(const struct kernels *set, struct report *rep)
{
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int op = 0; op < OPS; op++)
            for (int kind = 0; kind < X_KINDS; kind++)
                check_op(set, (enum op)op, (enum x_kind)kind, lengths[i], rep);
    check_gather(set, rep);
}

/* ---- the twins against the reference ---- */

/* Relative error of an operation, in units of 2^-24. Norm: the sum of squares over n / 16 + 4 roundings
 * per lane, the root halves it. silu, gelu: exp (2.1) and its argument (for gelu, |u| <= 30 carries 3
 * roundings of the argument, so up to 90), then three roundings. softcap: tanh (as
 * in attention) and two roundings. rope: two products of the same magnitude. */
static double tolerance(enum op op, int64_t n)
{
    switch (op) {
    case OP_NORM:
    case OP_NORM_NO_WEIGHT:
    case OP_NORM_IN_PLACE:
        return (double)n / 32 + 10;
    case OP_SILU:
    case OP_SOFTCAP:
        return 10;
    case OP_GELU:
        return 110;
    default:
        return 4;
    }
}

void check_ops_reference(struct report *rep)
{
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int op = 0; op < OPS; op++) {
            const int64_t n = lengths[i];
            struct rng r = {(uint64_t)(n * 100 + op)}, same = r;
            struct inputs a = inputs_new(&r, X_RANDOM, n), b = inputs_new(&same, X_RANDOM, n);
            apply(kernels_reference(), (enum op)op, &a, n);
            apply(kernels_plain(), (enum op)op, &b, n);
            for (int64_t j = 0; j < n; j++) {
                const double want = (double)floats(&a.y)[j], got = (double)floats(&b.y)[j];
                const double scale = op >= OP_ADD ? 800 : fabs(want) + 1e-30; /* inputs reach 20 */
                expect(rep, fabs(want - got) <= tolerance((enum op)op, n) * 0x1p-24 * scale,
                       "plain %s: n %lld, %.9g for %.9g", op_names[op], (long long)n, got, want);
            }
            inputs_free(&a);
            inputs_free(&b);
        }
    }
}
