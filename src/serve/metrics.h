/* Metrics in the text format of Prometheus (0.0.4), with the names that routers read. Every number is an atomic of its
 * own: who counts never waits for who reads, and reading touches nothing of the engine. One series a family, always with
 * a TYPE line: there are readers that take a family without one for 0, and of several series the first or the last. */
#ifndef HASTEN_SERVE_METRICS_H
#define HASTEN_SERVE_METRICS_H
#include "base/mem.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum metric_count { /* counters since the start */
    COUNT_PROMPT_TOKENS,
    COUNT_ANSWER_TOKENS,
    COUNT_CACHE_QUERIES, /* tokens of prompts */
    COUNT_CACHE_HITS,    /* of these, not computed */
    COUNT_PREEMPTIONS,
    COUNT_STOP, /* answers, by how they ended */
    COUNT_LENGTH,
    COUNT_TOOL_CALLS,
    COUNT_ABORT,
    COUNT_ERROR,
    COUNT_HTTP_REQUESTS,
    COUNT_REFUSED, /* for want of a place in the queue */
    COUNT_RECOMPUTED,
    COUNT_DRAFTED,
    COUNT_ACCEPTED,
    N_COUNTS
};

enum metric_gauge {
    GAUGE_WAITING,
    GAUGE_RUNNING,
    GAUGE_PAGES_USED, /* of live sequences; what could be given up counts as free */
    GAUGE_PAGES_ALL,
    GAUGE_PAGE_TOKENS,
    GAUGE_STORED_POSITIONS,
    GAUGE_CONNECTIONS,
    N_GAUGES
};

enum metric_histogram {
    HISTOGRAM_TTFT, /* seconds */
    HISTOGRAM_ITL,
    HISTOGRAM_E2E,
    HISTOGRAM_QUEUE,
    HISTOGRAM_PREFILL,
    HISTOGRAM_DECODE,
    HISTOGRAM_PROMPT_TOKENS,
    HISTOGRAM_ANSWER_TOKENS,
    N_HISTOGRAMS
};

#define METRIC_BUCKETS 20
struct metrics { /* zero-initialise */
    atomic_uint_fast64_t count[N_COUNTS];
    atomic_int_fast64_t gauge[N_GAUGES];
    struct {
        atomic_uint_fast64_t bucket[METRIC_BUCKETS + 1], micros; /* micros: the sum, in millionths */
    } histogram[N_HISTOGRAMS];
};

static inline void metric_add(struct metrics *m, enum metric_count c, uint64_t n)
{
    atomic_fetch_add_explicit(&m->count[c], n, memory_order_relaxed);
}
static inline void metric_set(struct metrics *m, enum metric_gauge g, int64_t v)
{
    atomic_store_explicit(&m->gauge[g], v, memory_order_relaxed);
}
static inline int64_t metric_gauge(struct metrics *m, enum metric_gauge g)
{
    return atomic_load_explicit(&m->gauge[g], memory_order_relaxed);
}
void metric_observe(struct metrics *m, enum metric_histogram h, double v);

/* What the labels say. model: any text, escaped here. */
struct metrics_labels {
    const char *model, *cache_dtype;
};
int metrics_render(struct metrics *m, const struct metrics_labels *l, struct buf *out);

#endif
