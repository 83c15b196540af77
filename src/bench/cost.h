/* What a step must do at least: bytes from memory, products. Held against the limits (limits.h) it says how
 * much of the machine a measured time means. */
#ifndef HASTEN_BENCH_COST_H
#define HASTEN_BENCH_COST_H
#include "bench/limits.h"
#include "engine/engine.h"

struct bench_cost {
    double weight_bytes;      /* of matrices, each once a pass */
    double kv_bytes;          /* of pages that attention reads, each once a pass and sequence */
    double int8_ops;          /* of quantised matrices; a multiply and an add are two */
    double half_ops, f32_ops; /* of F16 and BF16 matrices; of F32 ones */
    double attention_ops;     /* of q.k and p.v over what is visible */
};

/* Adds the products of n_rows rows through all layers, and n_head_rows rows of the head. */
void bench_cost_rows(const struct hasten_engine *e, int64_t n_rows, int64_t n_head_rows,
                     struct bench_cost *c);
/* Adds attention of the rows at positions first .. first + n - 1 of one sequence, computed in passes of
 * n_batch rows. */
void bench_cost_attention(const struct hasten_engine *e, int64_t first, int64_t n, struct bench_cost *c);

/* Seconds that the bytes take at the read limit; that the products take at the peaks: int8; bench_limits_half
 * for halves and attention; f32. All threads. */
double bench_cost_bus_s(const struct bench_cost *c, const struct bench_limits *l);
double bench_cost_peak_s(const struct bench_cost *c, const struct bench_limits *l);

#endif
