/* checkasm: every kernel of every set that this CPU has, held against its plain twin under memcmp, and the
 * twin against the f64 reference under bounds derived from the quantisation steps. The habit is dav1d's. */
#ifndef HASTEN_TESTS_CHECKASM_H
#define HASTEN_TESTS_CHECKASM_H
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- memory that notices (guard.c) ---- */

/* Room for size bytes that ends at an unreadable page (size is rounded up to align first); the bytes
 * before it back to the page's start, and those of the rounding, hold a pattern. Aborts the test when out
 * of memory. */
struct guarded {
    uint8_t *data;
    size_t size, map_size;
    uint8_t *map;
};
struct guarded guard_new(size_t size, size_t align);
/* Whether everything before data still holds the pattern. */
bool guard_intact(const struct guarded *g);
void guard_free(struct guarded *g);

/* ---- random numbers and hostile data (data.c) ---- */

struct rng {
    uint64_t state;
};
uint32_t rng_u32(struct rng *r);
float rng_float(struct rng *r); /* uniform in [-1, 1) */

enum x_kind {
    X_RANDOM,
    X_ZERO,
    X_NEG_ZERO,
    X_DENORMAL,
    X_HUGE,
    X_EQUAL, /* all 1: quantised, all 127 */
    X_MINUS, /* all -1 */
    X_SIGNS, /* 1 or -1 */
    X_LEVEL, /* one 1 in 256, the others near a level up to which sums of products fit 16 bits (layout.h) */
    X_NAN,
    X_INF,
    X_BITS,
    X_KINDS
};
void fill_floats(struct rng *r, enum x_kind kind, int64_t n, float *x);

enum w_kind {
    W_RANDOM,
    W_ZEROS,
    W_ONES,
    W_128,
    W_EXTREMES, /* stretches of 16 bytes 00, 7f, 80 or ff: the largest products, side by side, in every format */
    W_DENORMAL,
    W_SPECIAL,
    W_KINDS
};
/* n_blocks blocks of a type. All kinds but W_SPECIAL have finite scales. */
void fill_blocks(struct rng *r, enum w_kind kind, const struct quant_type *type, int64_t n_blocks,
                 uint8_t *dst);

extern const uint32_t all_types[];
extern const int n_types;

/* ---- results ---- */

/* Counts a failure when ok is false, and says what failed (the first 20, unless quiet). */
struct report {
    long n_checks, n_failures;
    bool quiet;
};
void expect(struct report *rep, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Same bits; where nan_equal, any NaN equals any NaN. */
bool same_floats(const float *a, const float *b, int64_t n, bool nan_equal);

/* ---- checks: `set` against `plain`; plain against reference where `set` is plain ---- */
void check_act_make(const struct kernels *set, struct report *rep);
void check_matmul(const struct kernels *set, struct report *rep);
void check_matmul_reference(struct report *rep);
void check_ops(const struct kernels *set, struct report *rep);
void check_ops_reference(struct report *rep);
void check_attention(const struct kernels *set, struct report *rep);
void check_attention_reference(struct report *rep);
void check_math(struct report *rep);

int self_test(void);

#endif
