/* Metrics (metrics.h): the names, and the text. */
#include "serve/metrics.h"
#include <stdio.h>
#include <string.h>

/* Upper bounds of the buckets; the last is infinite. */
static const double seconds[METRIC_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15,
                                               0.25,  0.5,    1,     2.5,  5,    10,   20,   40,   80,  160};
static const double tokens[METRIC_BUCKETS] = {1,    2,    5,     10,    20,    50,  100, 200, 500, 1000,
                                              2000, 5000, 10000, 20000, 50000, 1e5, 2e5, 5e5, 1e6, 1e7};

static const struct {
    const char *name, *help;
    const double *bounds;
} histograms[N_HISTOGRAMS] = {
    {"vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", seconds},
    {"vllm:inter_token_latency_seconds", "Between two tokens of an answer.", seconds},
    {"vllm:e2e_request_latency_seconds", "From a request's arrival to the end of its answer.", seconds},
    {"vllm:request_queue_time_seconds", "Waiting for a place in the batch.", seconds},
    {"vllm:request_prefill_time_seconds", "From a place in the batch to the first token.", seconds},
    {"vllm:request_decode_time_seconds", "From the first token to the last.", seconds},
    {"vllm:request_prompt_tokens", "Tokens of a prompt.", tokens},
    {"vllm:request_generation_tokens", "Tokens of an answer.", tokens},
};

static const struct {
    const char *name, *help;
    enum metric_count count;
} counters[] = {
    {"vllm:prefix_cache_queries_total", "Prompt tokens looked up.", COUNT_CACHE_QUERIES},
    {"vllm:prefix_cache_hits_total", "Prompt tokens found, not computed.", COUNT_CACHE_HITS},
    {"vllm:gpu_prefix_cache_queries_total", "The same as prefix_cache_queries.", COUNT_CACHE_QUERIES},
    {"vllm:gpu_prefix_cache_hits_total", "The same as prefix_cache_hits.", COUNT_CACHE_HITS},
    {"vllm:prompt_tokens_total", "Tokens of prompts.", COUNT_PROMPT_TOKENS},
    {"vllm:generation_tokens_total", "Tokens of answers.", COUNT_ANSWER_TOKENS},
    {"vllm:num_preemptions_total", "Answers cut back for want of pages.", COUNT_PREEMPTIONS},
    {"hasten_http_requests_total", "Requests of any kind.", COUNT_HTTP_REQUESTS},
    {"hasten_requests_refused_total", "Requests refused because the queue was full.", COUNT_REFUSED},
    {"hasten_recomputed_rows_total", "Rows computed again after a cut.", COUNT_RECOMPUTED},
    {"hasten_drafted_tokens_total", "Proposed tokens that steps checked.", COUNT_DRAFTED},
    {"hasten_accepted_tokens_total", "Proposed tokens that stood.", COUNT_ACCEPTED},
};

static const struct {
    const char *reason;
    enum metric_count count;
} reasons[] = {{"stop", COUNT_STOP},
               {"length", COUNT_LENGTH},
               {"tool_calls", COUNT_TOOL_CALLS},
               {"abort", COUNT_ABORT},
               {"error", COUNT_ERROR}};

void metric_observe(struct metrics *m, enum metric_histogram h, double v)
{
    const double *bounds = histograms[h].bounds;
    int i = 0;
    if (!(v >= 0))
        v = 0;
    while (i < METRIC_BUCKETS && v > bounds[i])
        i++;
    atomic_fetch_add_explicit(&m->histogram[h].bucket[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->histogram[h].micros, (uint64_t)(v * 1e6 + 0.5), memory_order_relaxed);
}

/* ---- the text ----------------------------------------------------------------------------------------------- */

static int put_label(struct buf *b, const char *s)
{
    int bad = 0;
    for (; *s && !bad; s++)
        bad = *s == '\\'   ? buf_puts(b, "\\\\")
              : *s == '"'  ? buf_puts(b, "\\\"")
              : *s == '\n' ? buf_puts(b, "\\n")
                           : buf_putc(b, *s);
    return bad;
}

static int put_head(struct buf *b, const char *name, const char *help, const char *type)
{
    return buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* name{labels,more} without the value. */
static int put_series(struct buf *b, const char *name, const char *suffix, const struct buf *labels,
                      const char *more)
{
    return buf_printf(b, "%s%s{%s%s} ", name, suffix, labels->data, more);
}

static int put_gauge(struct buf *b, const char *name, const char *help, const struct buf *labels, double v)
{
    return put_head(b, name, help, "gauge") || put_series(b, name, "", labels, "") ||
           buf_printf(b, "%.9g\n", v);
}

static int put_histogram(struct metrics *m, int h, const struct buf *labels, struct buf *b)
{
    const char *name = histograms[h].name;
    char more[48];
    uint64_t sum = 0;
    int bad = put_head(b, name, histograms[h].help, "histogram");
    for (int i = 0; i <= METRIC_BUCKETS && !bad; i++) {
        sum += atomic_load_explicit(&m->histogram[h].bucket[i], memory_order_relaxed);
        if (i < METRIC_BUCKETS)
            snprintf(more, sizeof more, ",le=\"%g\"", histograms[h].bounds[i]);
        else
            snprintf(more, sizeof more, ",le=\"+Inf\"");
        bad =
            put_series(b, name, "_bucket", labels, more) || buf_printf(b, "%llu\n", (unsigned long long)sum);
    }
    const uint64_t micros = atomic_load_explicit(&m->histogram[h].micros, memory_order_relaxed);
    return bad || put_series(b, name, "_sum", labels, "") || buf_printf(b, "%.6f\n", (double)micros / 1e6) ||
           put_series(b, name, "_count", labels, "") || buf_printf(b, "%llu\n", (unsigned long long)sum);
}

static int put_gauges(struct metrics *m, const struct buf *labels, struct buf *b)
{
    const double all = (double)metric_gauge(m, GAUGE_PAGES_ALL),
                 used = (double)metric_gauge(m, GAUGE_PAGES_USED);
    const double share = all > 0 ? used / all : 0;
    const uint64_t queries = atomic_load_explicit(&m->count[COUNT_CACHE_QUERIES], memory_order_relaxed),
                   hits = atomic_load_explicit(&m->count[COUNT_CACHE_HITS], memory_order_relaxed);
    return put_gauge(b, "vllm:num_requests_waiting", "Accepted, not yet in the batch.", labels,
                     (double)metric_gauge(m, GAUGE_WAITING)) ||
           put_gauge(b, "vllm:num_requests_running", "In the batch.", labels,
                     (double)metric_gauge(m, GAUGE_RUNNING)) ||
           put_gauge(b, "vllm:kv_cache_usage_perc", "Pages of live sequences, of all.", labels, share) ||
           put_gauge(b, "vllm:gpu_cache_usage_perc", "The same as kv_cache_usage_perc.", labels, share) ||
           put_gauge(b, "vllm:gpu_prefix_cache_hit_rate", "Prompt tokens found, of all.", labels,
                     queries ? (double)hits / (double)queries : 0) ||
           put_gauge(b, "hasten_stored_positions", "Positions kept for later prompts.", labels,
                     (double)metric_gauge(m, GAUGE_STORED_POSITIONS)) ||
           put_gauge(b, "hasten_http_connections", "Open connections.", labels,
                     (double)metric_gauge(m, GAUGE_CONNECTIONS));
}

static int put_counters(struct metrics *m, const struct buf *labels, struct buf *b)
{
    char more[48];
    int bad = 0;
    for (size_t i = 0; i < sizeof counters / sizeof *counters && !bad; i++)
        bad = put_head(b, counters[i].name, counters[i].help, "counter") ||
              put_series(b, counters[i].name, "", labels, "") ||
              buf_printf(b, "%llu\n",
                         (unsigned long long)atomic_load_explicit(&m->count[counters[i].count],
                                                                  memory_order_relaxed));
    bad = bad || put_head(b, "vllm:request_success_total", "Answers, by how they ended.", "counter");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons && !bad; i++) {
        snprintf(more, sizeof more, ",finished_reason=\"%s\"", reasons[i].reason);
        bad = put_series(b, "vllm:request_success_total", "", labels, more) ||
              buf_printf(b, "%llu\n",
                         (unsigned long long)atomic_load_explicit(&m->count[reasons[i].count],
                                                                  memory_order_relaxed));
    }
    return bad;
}

static int put_config(struct metrics *m, const struct metrics_labels *l, const struct buf *labels,
                      struct buf *b)
{
    char more[128];
    snprintf(more, sizeof more, ",block_size=\"%lld\",num_gpu_blocks=\"%lld\",cache_dtype=\"%.16s\"",
             (long long)metric_gauge(m, GAUGE_PAGE_TOKENS), (long long)metric_gauge(m, GAUGE_PAGES_ALL),
             l->cache_dtype);
    return put_head(b, "vllm:cache_config_info", "Positions of a page, and pages.", "gauge") ||
           put_series(b, "vllm:cache_config_info", "", labels, more) || buf_puts(b, "1\n");
}

int metrics_render(struct metrics *m, const struct metrics_labels *l, struct buf *out)
{
    struct buf labels = {0};
    int bad = buf_puts(&labels, "model_name=\"") || put_label(&labels, l->model) ||
              buf_puts(&labels, "\",engine=\"0\"");
    bad =
        bad || put_gauges(m, &labels, out) || put_config(m, l, &labels, out) || put_counters(m, &labels, out);
    for (int h = 0; h < N_HISTOGRAMS && !bad; h++)
        bad = put_histogram(m, h, &labels, out);
    buf_free(&labels);
    return bad;
}
