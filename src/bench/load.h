/* What a load test saw of a server, and what it means: one record per request, figures per level.
 *
 * Times are clock_now_ns's. A *delta* is an event that carries text (of the answer, of reasoning, of a tool call);
 * a server may put several tokens into one. Tokens are what `usage` says, or the deltas where it says nothing. A level's
 * speed is that of its *window*: the tokens that came in it, over its length; the latencies are those of all requests
 * that were begun in it, to their ends.
 *
 * Quantiles are by nearest rank: the smallest value that at least a share p of all values do not exceed; no value is
 * made up between two that were seen. */
#ifndef HASTEN_BENCH_LOAD_H
#define HASTEN_BENCH_LOAD_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdint.h>

enum load_end {
    LOAD_OK,
    LOAD_STATUS,    /* an HTTP status other than 200 */
    LOAD_CONNECT,   /* no connection */
    LOAD_CUT,       /* the connection ended before the answer did */
    LOAD_STALL,     /* no byte for too long */
    LOAD_MALFORMED, /* what came is no stream of events */
    LOAD_FAILED,    /* the stream itself told of an error */
    LOAD_STOPPED,   /* by us: interrupted; counts nowhere */
    LOAD_ENDS
};
const char *load_end_name(enum load_end end); /* "cut" */

struct load_request {
    int32_t user, chat, turn; /* turn from 0 */
    uint64_t due_ns; /* when it should go out, which is when it went but for an open loop that is late */
    uint64_t sent_ns, end_ns;
    uint64_t *at_ns; /* [deltas] when each came */
    int32_t deltas, cap;
    int32_t status; /* HTTP; 0: none came */
    enum load_end end;
    int32_t tokens, prompt_tokens, cached_tokens; /* as usage says; -1: it did not */
};

/* What one event of a stream of chat completions carries. */
struct load_event {
    bool done;                                    /* "[DONE]" */
    bool text;                                    /* a delta */
    bool finish;                                  /* a finish_reason */
    bool failed;                                  /* an error, told in the message */
    int32_t tokens, prompt_tokens, cached_tokens; /* -1: not said */
    char message[200];
};
/* HASTEN_ERR_FILE: no JSON object. answer: NULL, or gets the text of the answer. */
hasten_status load_event_parse(const char *data, size_t len, struct load_event *out, struct buf *answer,
                               struct hasten_error *err);
int load_request_delta(struct load_request *r, uint64_t now_ns); /* -1: out of memory */

struct load_level { /* zero-initialise; load_level_free */
    bool open;      /* arrivals at `value` a second; else `value` streams that each wait for their answer */
    double value;
    uint64_t from_ns, to_ns; /* the window */
    uint64_t client_ns;      /* CPU time that measuring itself took in the whole level */
    uint64_t wall_ns;        /* of the whole level */
    struct load_request **requests;
    int32_t n, cap;
    int32_t not_sent;      /* arrivals of an open loop for which there was no room */
    char first_error[300]; /* of the first request that failed; "": none */
};
struct load_request *load_level_add(struct load_level *l); /* NULL: out of memory, or LIMIT_LOAD_REQUESTS */
void load_level_free(struct load_level *l);

struct load_quantiles {
    int64_t n;
    double p50, p95, p99, mean, max;
};
/* Sorts values[n]; all 0 when n is 0. */
void load_quantiles_of(double *values, int64_t n, struct load_quantiles *out);

struct load_bounds { /* milliseconds; 0: none */
    double ttft_ms, itl_ms;
};

#define LOAD_TURNS 64    /* of a chat, at most */
#define LOAD_STATUSES 16 /* different ones that are counted apart */

struct load_turn {
    int64_t n;
    struct load_quantiles ttft;
    double prompt_tokens, cached_tokens; /* means; -1: not said */
};

struct load_summary {
    int64_t requests, ok, failed; /* ended; failed: also those for which there was no room */
    struct {
        int32_t status;
        int64_t n;
    } statuses[LOAD_STATUSES];
    int32_t n_statuses;
    int64_t ends[LOAD_ENDS];
    double window_s, tokens_per_s, requests_per_s; /* requests that ended well in the window */
    int64_t tokens;                                /* of all answers that ended well */
    int64_t by_usage, by_deltas;                   /* of these answers: how they were counted */
    double tokens_per_delta;
    int64_t prompt_tokens, cached_tokens; /* sums over those that say; -1: none says */
    /* milliseconds: to the first delta; between deltas; per token after the first, of each answer; whole */
    struct load_quantiles ttft, itl, tpot, e2e;
    double longest_ms; /* pause between two deltas */
    double late_ms;    /* open loop: the most that a request went out late */
    /* Answers within the bounds: first delta within ttft_ms, and 95 % of their pauses within itl_ms. */
    int64_t good;
    double good_requests_per_s, good_tokens_per_s;
    double client_share; /* of a core, taken by measuring */
    struct load_turn turns[LOAD_TURNS];
    int32_t n_turns;
};
hasten_status load_summarise(const struct load_level *l, const struct load_bounds *b,
                             struct load_summary *out, struct hasten_error *err);

#endif
