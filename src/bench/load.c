/* Records of a load test and their figures (load.h). */
#include "bench/load.h"
#include "base/json.h"
#include "base/limits.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *load_end_name(enum load_end end)
{
    static const char *const names[LOAD_ENDS] = {"ok",    "status",    "connect", "cut",
                                                 "stall", "malformed", "failed",  "stopped"};
    return names[end];
}

/* ---- events -------------------------------------------------------------------------------------------- */

static bool carries(const json_t *v)
{
    return json_is_string(v) && json_string_length(v) > 0;
}

static int32_t count(const json_t *v)
{
    const json_int_t n = json_integer_value(v);
    return json_is_integer(v) && n >= 0 && n <= INT32_MAX ? (int32_t)n : -1;
}

static void take_usage(const json_t *root, struct load_event *out)
{
    const json_t *usage = json_object_get(root, "usage"), *timings = json_object_get(root, "timings");
    if (json_is_object(usage)) {
        out->prompt_tokens = count(json_object_get(usage, "prompt_tokens"));
        out->tokens = count(json_object_get(usage, "completion_tokens"));
        out->cached_tokens =
            count(json_object_get(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"));
    }
    if (out->cached_tokens < 0) /* as llama-server told it before it had usage's field */
        out->cached_tokens = count(json_object_get(timings, "cache_n"));
}

static hasten_status take_choice(const json_t *choice, struct load_event *out, struct buf *answer,
                                 struct hasten_error *err)
{
    static const char *const thoughts[] = {"reasoning_content", "reasoning"};
    const json_t *delta = json_object_get(choice, "delta"),
                 *content = json_object_get(json_is_object(delta) ? delta : choice,
                                            json_is_object(delta) ? "content" : "text"),
                 *calls = json_object_get(delta, "tool_calls");
    out->finish |= json_is_string(json_object_get(choice, "finish_reason"));
    out->text |= carries(content) || json_array_size(calls) > 0;
    for (int i = 0; i < 2; i++)
        out->text |= carries(json_object_get(delta, thoughts[i]));
    if (answer && carries(content) && answer->len < LIMIT_SSE_BYTES &&
        buf_put(answer, json_string_value(content), json_string_length(content)))
        return error_set(err, HASTEN_ERR_MEMORY, "event stream: out of memory");
    return HASTEN_OK;
}

static void take_failure(const json_t *failure, struct load_event *out)
{
    const json_t *message = json_is_string(failure) ? failure : json_object_get(failure, "message");
    out->failed = true;
    snprintf(out->message, sizeof out->message, "%s",
             json_is_string(message) ? json_string_value(message) : "an error");
}

hasten_status load_event_parse(const char *data, size_t len, struct load_event *out, struct buf *answer,
                               struct hasten_error *err)
{
    json_t *root;
    *out = (struct load_event){.tokens = -1, .prompt_tokens = -1, .cached_tokens = -1};
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        out->done = true;
        return HASTEN_OK;
    }
    hasten_status st = json_parse("event", data, len, &root, err);
    if (st)
        return st;
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(err, HASTEN_ERR_FILE, "event: no object (expected a chunk of a chat completion)");
    }
    const json_t *failure = json_object_get(root, "error"), *choices = json_object_get(root, "choices");
    if (failure && !json_is_null(failure))
        take_failure(failure, out);
    for (size_t i = 0; i < json_array_size(choices) && !st; i++)
        st = take_choice(json_array_get(choices, i), out, answer, err);
    take_usage(root, out);
    json_decref(root);
    return st;
}

/* ---- records ------------------------------------------------------------------------------------------- */

int load_request_delta(struct load_request *r, uint64_t now_ns)
{
    if (r->deltas == r->cap) {
        const int32_t cap = r->cap ? 2 * r->cap : 64;
        uint64_t *more = mem_realloc(r->at_ns, (size_t)cap * sizeof *more);
        if (!more || r->cap > INT32_MAX / 4)
            return -1;
        r->at_ns = more;
        r->cap = cap;
    }
    r->at_ns[r->deltas++] = now_ns;
    return 0;
}

struct load_request *load_level_add(struct load_level *l)
{
    if (l->n == l->cap) {
        const int32_t cap = l->cap ? 2 * l->cap : 64;
        struct load_request **more =
            l->n < LIMIT_LOAD_REQUESTS ? mem_realloc(l->requests, (size_t)cap * sizeof *more) : NULL;
        if (!more)
            return NULL;
        l->requests = more;
        l->cap = cap;
    }
    struct load_request *r = mem_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->tokens = r->prompt_tokens = r->cached_tokens = -1;
    return l->requests[l->n++] = r;
}

void load_level_free(struct load_level *l)
{
    for (int32_t i = 0; i < l->n; i++) {
        mem_free(l->requests[i]->at_ns);
        mem_free(l->requests[i]);
    }
    mem_free(l->requests);
    *l = (struct load_level){0};
}

/* ---- quantiles ----------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nearest rank of per_cent in sorted values: index ceil(n * per_cent / 100) - 1, in integers. */
static double at_rank(const double *values, int64_t n, int per_cent)
{
    const int64_t rank = (n * per_cent + 99) / 100;
    return values[rank > 0 ? rank - 1 : 0];
}

void load_quantiles_of(double *values, int64_t n, struct load_quantiles *out)
{
    double sum = 0;
    *out = (struct load_quantiles){.n = n};
    if (n == 0)
        return;
    qsort(values, (size_t)n, sizeof *values, ascending);
    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    out->p50 = at_rank(values, n, 50);
    out->p95 = at_rank(values, n, 95);
    out->p99 = at_rank(values, n, 99);
    out->mean = sum / (double)n;
    out->max = values[n - 1];
}

/* ---- a level ------------------------------------------------------------------------------------------- */

static double ms_between(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) / 1e6 : 0;
}

struct lists { /* values of a level, by kind */
    double *ttft, *itl, *tpot, *e2e, *scratch;
    int64_t n_ttft, n_itl, n_tpot, n_e2e;
};

static void count_end(const struct load_request *r, struct load_summary *out)
{
    out->ends[r->end]++;
    if (r->end == LOAD_STOPPED)
        return;
    out->requests++;
    out->ok += r->end == LOAD_OK;
    out->failed += r->end != LOAD_OK;
    if (r->end != LOAD_STATUS)
        return;
    int32_t i = 0;
    while (i < out->n_statuses && out->statuses[i].status != r->status)
        i++;
    if (i == LOAD_STATUSES)
        return; /* among the statuses of `ends` alone */
    out->n_statuses += i == out->n_statuses;
    out->statuses[i].status = r->status;
    out->statuses[i].n++;
}

static int32_t tokens_of(const struct load_request *r)
{
    return r->tokens >= 0 ? r->tokens : r->deltas;
}

/* Is the answer within the bounds? Its pauses are pauses[n], which are sorted here. */
static bool is_good(const struct load_request *r, double *pauses, int64_t n, const struct load_bounds *b)
{
    struct load_quantiles q;
    if (b->ttft_ms > 0 && (r->deltas == 0 || ms_between(r->due_ns, r->at_ns[0]) > b->ttft_ms))
        return false;
    load_quantiles_of(pauses, n, &q);
    return b->itl_ms <= 0 || q.p95 <= b->itl_ms;
}

static void take_latencies(const struct load_request *r, const struct load_bounds *b, struct lists *v,
                           struct load_summary *out)
{
    const int32_t tokens = tokens_of(r);
    if (r->deltas > 0)
        v->ttft[v->n_ttft++] = ms_between(r->due_ns, r->at_ns[0]);
    for (int32_t i = 1; i < r->deltas; i++) {
        const double pause = ms_between(r->at_ns[i - 1], r->at_ns[i]);
        v->scratch[i - 1] = v->itl[v->n_itl++] = pause;
        out->longest_ms = pause > out->longest_ms ? pause : out->longest_ms;
    }
    if (r->end != LOAD_OK)
        return;
    if (r->deltas > 1 && tokens > 1)
        v->tpot[v->n_tpot++] = ms_between(r->at_ns[0], r->at_ns[r->deltas - 1]) / (tokens - 1);
    v->e2e[v->n_e2e++] = ms_between(r->due_ns, r->end_ns);
    if (is_good(r, v->scratch, r->deltas > 1 ? r->deltas - 1 : 0, b)) {
        out->good++;
        out->good_tokens_per_s += tokens; /* a sum until the end */
    }
}

static void take_tokens(const struct load_level *l, const struct load_request *r, double *in_window,
                        int64_t *deltas, struct load_summary *out)
{
    const int32_t tokens = tokens_of(r);
    int32_t inside = 0;
    for (int32_t i = 0; i < r->deltas; i++)
        inside += r->at_ns[i] >= l->from_ns && r->at_ns[i] <= l->to_ns;
    if (r->deltas > 0)
        *in_window += (double)inside * tokens / r->deltas;
    if (r->end != LOAD_OK)
        return;
    out->tokens += tokens;
    *deltas += r->deltas;
    *(r->tokens >= 0 ? &out->by_usage : &out->by_deltas) += 1;
    if (r->prompt_tokens >= 0)
        out->prompt_tokens = (out->prompt_tokens < 0 ? 0 : out->prompt_tokens) + r->prompt_tokens;
    if (r->cached_tokens >= 0)
        out->cached_tokens = (out->cached_tokens < 0 ? 0 : out->cached_tokens) + r->cached_tokens;
}

/* The answers of one turn; values: room for all. */
static void take_turn(const struct load_level *l, int32_t turn, double *values, struct load_turn *out)
{
    int64_t n = 0, n_prompt = 0, n_cached = 0;
    double prompt = 0, cached = 0;
    for (int32_t i = 0; i < l->n; i++) {
        const struct load_request *r = l->requests[i];
        if (r->turn != turn || r->end != LOAD_OK)
            continue;
        out->n++;
        if (r->deltas > 0)
            values[n++] = ms_between(r->due_ns, r->at_ns[0]);
        if (r->prompt_tokens >= 0) {
            prompt += r->prompt_tokens;
            n_prompt++;
        }
        if (r->cached_tokens >= 0) {
            cached += r->cached_tokens;
            n_cached++;
        }
    }
    load_quantiles_of(values, n, &out->ttft);
    out->prompt_tokens = n_prompt ? prompt / (double)n_prompt : -1;
    out->cached_tokens = n_cached ? cached / (double)n_cached : -1;
}

static hasten_status lists_open(const struct load_level *l, struct lists *v, struct hasten_error *err)
{
    size_t deltas = 1, longest = 1;
    const size_t n = (size_t)l->n + 1;
    for (int32_t i = 0; i < l->n; i++) {
        const size_t d = (size_t)l->requests[i]->deltas;
        deltas += d;
        longest = d > longest ? d : longest;
    }
    v->ttft = mem_array(n, sizeof *v->ttft);
    v->tpot = mem_array(n, sizeof *v->tpot);
    v->e2e = mem_array(n, sizeof *v->e2e);
    v->itl = mem_array(deltas, sizeof *v->itl);
    v->scratch = mem_array(longest, sizeof *v->scratch);
    if (!v->ttft || !v->tpot || !v->e2e || !v->itl || !v->scratch)
        return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    return HASTEN_OK;
}

static void lists_free(struct lists *v)
{
    mem_free(v->ttft);
    mem_free(v->itl);
    mem_free(v->tpot);
    mem_free(v->e2e);
    mem_free(v->scratch);
}

static void take_all(const struct load_level *l, const struct load_bounds *b, struct lists *v,
                     struct load_summary *out)
{
    double in_window = 0;
    int64_t deltas = 0, ended = 0;
    for (int32_t i = 0; i < l->n; i++) {
        const struct load_request *r = l->requests[i];
        count_end(r, out);
        if (r->end == LOAD_STOPPED)
            continue;
        take_latencies(r, b, v, out);
        take_tokens(l, r, &in_window, &deltas, out);
        ended += r->end == LOAD_OK && r->end_ns <= l->to_ns;
        const double late = ms_between(r->due_ns, r->sent_ns);
        out->late_ms = late > out->late_ms ? late : out->late_ms;
        if (r->end == LOAD_OK && r->turn >= out->n_turns && r->turn < LOAD_TURNS)
            out->n_turns = r->turn + 1;
    }
    out->failed += l->not_sent;
    out->requests += l->not_sent;
    out->window_s = ms_between(l->from_ns, l->to_ns) / 1e3;
    if (out->window_s > 0) {
        out->tokens_per_s = in_window / out->window_s;
        out->requests_per_s = (double)ended / out->window_s;
    }
    /* Of what the window let begin, the good part: the rest of the drain is nobody's throughput. */
    const double span_s = l->wall_ns ? (double)l->wall_ns / 1e9 : out->window_s;
    out->good_requests_per_s = span_s > 0 ? (double)out->good / span_s : 0;
    out->good_tokens_per_s = span_s > 0 ? out->good_tokens_per_s / span_s : 0;
    out->tokens_per_delta = deltas > 0 ? (double)out->tokens / (double)deltas : 0;
    out->client_share = l->wall_ns ? (double)l->client_ns / (double)l->wall_ns : 0;
}

hasten_status load_summarise(const struct load_level *l, const struct load_bounds *b,
                             struct load_summary *out, struct hasten_error *err)
{
    struct lists v = {0};
    memset(out, 0, sizeof *out);
    out->prompt_tokens = out->cached_tokens = -1;
    const hasten_status st = lists_open(l, &v, err);
    if (!st) {
        take_all(l, b, &v, out);
        load_quantiles_of(v.ttft, v.n_ttft, &out->ttft);
        load_quantiles_of(v.itl, v.n_itl, &out->itl);
        load_quantiles_of(v.tpot, v.n_tpot, &out->tpot);
        load_quantiles_of(v.e2e, v.n_e2e, &out->e2e);
        for (int32_t t = 0; t < out->n_turns; t++)
            take_turn(l, t, v.ttft, &out->turns[t]);
    }
    lists_free(&v);
    return st;
}
