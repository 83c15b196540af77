/* `hasten bench --serve URL`: load on a server that speaks OpenAI's chat completions, ours or another. Here: what is
 * asked for, and the order of things; the users are bench/load_run.h's, the sockets http_streams.h's. */
#include "cli/bench_serve.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "bench/load_run.h"
#include "cli/http_streams.h"
#include "cli/source.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES (4 << 20) /* of /v1/models and /tokenize */
#define WAIT_MS 10000          /* for these, and for a connection */
#define DEFAULT_DURATION_MS 30000

static const struct option_def serve_defs[] = {
    {"serve", NULL, OPT_STRING, offsetof(struct load_args, url), 0, 0, NULL, "URL",
     "measure the server there; MODEL is its id [the first it lists]"},
    {"streams", NULL, OPT_STRING, offsetof(struct load_args, streams), 0, 0, "1,4,16", "N,...",
     "users at once, each waits for its answer; a level each"},
    {"rate", NULL, OPT_STRING, offsetof(struct load_args, rate), 0, 0, NULL, "R,...",
     "instead: users a second who arrive by chance (Poisson) and do not wait for others"},
    {"requests", NULL, OPT_INT, offsetof(struct load_args, requests), 1, LIMIT_LOAD_REQUESTS, NULL, "N",
     "end a level after so many"},
    {"duration", NULL, OPT_DURATION, offsetof(struct load_args, duration_ms), 0.01, 86400, NULL, "TIME",
     "begin no more after this, and await what runs [30s without another end]"},
    {"prompts", NULL, OPT_STRING, offsetof(struct load_args, prompts), 0, 0, NULL, "FILE",
     "a text to cut prompts of -p tokens from, or prompts as JSON lines (.jsonl) [built in]"},
    {"shared-tokens", NULL, OPT_INT, offsetof(struct load_args, shared_tokens), 0, LIMIT_CONTEXT, "0", "N",
     "a system prompt of about N tokens, the same for all"},
    {"turns", NULL, OPT_INT, offsetof(struct load_args, turns), 1, LOAD_TURNS, "1", "N",
     "messages of a user in a chat that grows"},
    {"turn-tokens", NULL, OPT_INT, offsetof(struct load_args, turn_tokens), 1, LIMIT_CONTEXT, "32", "N",
     "about so many in each after the first"},
    {"think", NULL, OPT_DURATION, offsetof(struct load_args, think_ms), 0, 86400, "0", "TIME",
     "before each of these"},
    {"chats", NULL, OPT_INT, offsetof(struct load_args, chats), 1, LIMIT_LOAD_REQUESTS, NULL, "N",
     "end a level after so many chats"},
    {"warm-up", NULL, OPT_INT, offsetof(struct load_args, warm_up), 0, 10000, "2", "N",
     "requests before the first level, not counted"},
    {"ttft-bound", NULL, OPT_DURATION, offsetof(struct load_args, ttft_bound_ms), 0, 86400, "0", "TIME",
     "goodput: answers whose first token comes within it; 0: any"},
    {"itl-bound", NULL, OPT_DURATION, offsetof(struct load_args, itl_bound_ms), 0, 86400, "0", "TIME",
     "goodput: and 95 % of whose pauses are within it; 0: any"},
    {"stall", NULL, OPT_DURATION, offsetof(struct load_args, stall_ms), 0.05, 86400, "120s", "TIME",
     "give up an answer of which no byte came for so long"},
    {"api-key", NULL, OPT_STRING, offsetof(struct load_args, key), 0, 0, NULL, "KEY",
     "the server's; better in HASTEN_API_KEY, where no list of processes shows it"},
    {"seed", "s", OPT_SEED, offsetof(struct load_args, seed), 0, 0, "1", "N",
     "of prompts and arrivals; each request gets one of its own"},
    {"field", NULL, OPT_LIST, offsetof(struct load_args, fields), 0, 0, NULL, "NAME=JSON",
     "a further field of every request, such as ignore_eos=true; repeatable"},
    {"csv", NULL, OPT_STRING, offsetof(struct load_args, csv), 0, 0, NULL, "FILE", "a line per request"},
    {"plot", NULL, OPT_STRING, offsetof(struct load_args, plot), 0, 0, NULL, "FILE",
     "speed and latencies as SVG"},
};

struct option_group bench_serve_group(struct load_args *a)
{
    return (struct option_group){.title = "Load on a server:",
                                 .defs = serve_defs,
                                 .n = sizeof serve_defs / sizeof *serve_defs,
                                 .dst = a,
                                 .exclusive = "streams rate"};
}

/* ---- what is asked for --------------------------------------------------------------------------------- */

static hasten_status parse_levels(const struct load_args *a, struct serve_run *r, struct hasten_error *err)
{
    const char *text = a->rate ? a->rate : a->streams, *name = a->rate ? "rate" : "streams";
    const double lo = a->rate ? 1e-3 : 1, hi = a->rate ? 1e4 : LIMIT_LOAD_STREAMS;
    for (const char *at = text; at;) {
        char *end;
        const double v = strtod(at, &end);
        if (value_starts_blank(at) || end == at || (*end && *end != ',') || !(v >= lo && v <= hi) ||
            (!a->rate && v != floor(v)))
            return error_set(err, HASTEN_ERR_USAGE,
                             "option --%s: '%s': found '%s' (expected numbers from %g to %g, as in 1,4,16)",
                             name, text, at, lo, hi);
        if (r->n_levels == SERVE_LEVELS)
            return error_set(err, HASTEN_ERR_USAGE,
                             "option --%s: '%s': more than %d numbers (expected fewer)", name, text,
                             SERVE_LEVELS);
        r->values[r->n_levels++] = v;
        at = *end ? end + 1 : NULL;
    }
    return HASTEN_OK;
}

static hasten_status parse_fields(const struct load_args *a, struct serve_run *r, struct hasten_error *err)
{
    r->fields = json_object();
    for (int i = 0; i < a->fields.n; i++) {
        const char *text = a->fields.items[i], *equals = strchr(text, '=');
        json_error_t why;
        json_t *v = equals && equals > text ? json_loads(equals + 1, JSON_DECODE_ANY, &why) : NULL;
        char name[64];
        if (!v || (size_t)(equals - text) >= sizeof name) {
            json_decref(v);
            return error_set(err, HASTEN_ERR_USAGE,
                             "option --field: '%s' (expected NAME=JSON, as temperature=0.7)", text);
        }
        snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
        json_put(&r->fields, name, v);
    }
    return r->fields ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
}

/* "http://host:8642/v1/" -> "http://host:8642" */
static hasten_status parse_url(const struct load_args *a, struct serve_run *r, struct hasten_error *err)
{
    char origin[SOURCE_ORIGIN_BYTES];
    size_t n = strlen(a->url);
    if (!source_origin(a->url, origin))
        return error_set(
            err, HASTEN_ERR_USAGE,
            "option --serve: '%s' (expected a plain http or https URL, as http://127.0.0.1:8642)", a->url);
    while (n > 0 && a->url[n - 1] == '/')
        n--;
    if (n > 3 && strncmp(a->url + n - 3, "/v1", 3) == 0)
        n -= 3;
    if (buf_put(&r->base, a->url, n) || buf_printf(&r->url, "%s/v1/chat/completions", r->base.data))
        return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    return HASTEN_OK;
}

static hasten_status prepare(struct serve_run *r, struct hasten_error *err)
{
    struct load_args *a = &r->a->load;
    const struct talks_settings w = {.path = a->prompts,
                                     .workload = r->a->workload,
                                     .prompt_tokens = r->a->n_prompt,
                                     .turn_tokens = a->turn_tokens,
                                     .shared_tokens = a->shared_tokens,
                                     .seed = a->seed};
    if (a->requests == 0 && a->duration_ms == 0 && a->chats == 0)
        a->duration_ms = DEFAULT_DURATION_MS;
    hasten_status st = parse_levels(a, r, err);
    if (!st)
        st = parse_fields(a, r, err);
    if (!st)
        st = parse_url(a, r, err);
    if (!st && a->csv)
        st = file_may_create(a->csv, err);
    if (!st && a->plot)
        st = file_may_create(a->plot, err);
    return st ? st : talks_open(&w, &r->talks, err);
}

/* ---- the server ---------------------------------------------------------------------------------------- */

static hasten_status ask(struct serve_run *r, struct http_streams *h, const char *path, const char *body,
                         json_t **out, int32_t *status, struct hasten_error *err)
{
    struct buf url = {0}, answer = {0};
    *out = NULL;
    hasten_status st = buf_printf(&url, "%s%s", r->base.data, path)
                           ? error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory")
                           : http_streams_ask(h, url.data, body, ANSWER_BYTES, &answer, status, err);
    if (!st && *status == 200)
        st = json_parse(path, answer.data ? answer.data : "", answer.len, out, err);
    buf_free(&url);
    buf_free(&answer);
    return st;
}

/* The model's id: as given, or the first that the server lists. */
static hasten_status find_model(struct serve_run *r, struct http_streams *h, struct hasten_error *err)
{
    json_t *list;
    int32_t status;
    hasten_status st = ask(r, h, "/v1/models", NULL, &list, &status, err);
    if (st)
        return st;
    const json_t *first = json_array_get(json_object_get(list, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id")),
               *owner = json_string_value(json_object_get(first, "owned_by"));
    if (!r->model && !id)
        st = error_set(err, HASTEN_ERR_NETWORK, "%s/v1/models: status %d, no model (expected a list%s)",
                       r->base.data, (int)status,
                       status == 401 ? "; --api-key" : "; or a MODEL on the command line");
    else if (buf_puts(&r->model_id, id ? id : "") || buf_puts(&r->owner, owner ? owner : ""))
        st = error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    json_decref(list);
    r->model = r->model ? r->model : r->model_id.data;
    return st;
}

/* How many bytes of the text make a token here; a server without /tokenize leaves the guess. */
static hasten_status count_tokens(struct serve_run *r, struct http_streams *h, struct hasten_error *err)
{
    size_t n;
    json_t *answer = NULL;
    int32_t status;
    if (r->talks.items && r->a->load.turns == 1)
        return HASTEN_OK;
    const char *sample = talks_sample(&r->talks, &n);
    json_t *body = json_pack("{s:s%}", "content", sample, n);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    if (!ask(r, h, "/tokenize", text, &answer, &status, err)) {
        const size_t tokens = json_array_size(json_object_get(answer, "tokens"));
        r->counted = tokens > 0;
        if (tokens > 0)
            r->talks.bytes_per_token = (double)n / (double)tokens;
    }
    json_decref(answer);
    mem_free(text);
    if (!r->counted)
        ui_note(&r->a->ui, "the server has no /tokenize: a token is taken for %g bytes",
                TALKS_BYTES_PER_TOKEN);
    return HASTEN_OK;
}

/* ---- the levels ---------------------------------------------------------------------------------------- */

struct line { /* between users and sockets */
    struct serve_run *r;
    struct http_streams *http;
    struct load_run *run;
    uint64_t since_ns;
};

static hasten_status start(void *ctx, int32_t slot, const char *body, size_t len, struct hasten_error *err)
{
    const struct line *l = ctx;
    return http_streams_start(l->http, slot, l->r->url.data, body, len, err);
}

static hasten_status poll_line(void *ctx, uint64_t wait_ms, struct hasten_error *err)
{
    const struct line *l = ctx;
    return http_streams_poll(l->http, wait_ms, err);
}

static void stop(void *ctx, int32_t slot)
{
    const struct line *l = ctx;
    http_streams_stop(l->http, slot);
}

static bool on_bytes(void *ctx, int32_t slot, int32_t status, const char *bytes, size_t n)
{
    const struct line *l = ctx;
    return load_run_bytes(l->run, slot, status, bytes, n);
}

static void on_end(void *ctx, int32_t slot, int32_t status, bool whole, uint64_t retry_ms, const char *why)
{
    const struct line *l = ctx;
    load_run_end(l->run, slot, status, whole, retry_ms, why);
}

static void on_progress(void *ctx, int64_t done, int64_t total)
{
    const struct line *l = ctx;
    ui_progress(&l->r->a->ui, "bench", (uint64_t)done, (uint64_t)total, "requests", l->since_ns);
}

static hasten_status run_level(struct line *l, const struct load_settings *s, struct load_level *out,
                               int64_t *chats, struct hasten_error *err)
{
    const struct load_transport t = {start, poll_line, stop, l};
    hasten_status st = load_run_open(s, &t, &l->run, err);
    if (st)
        return st;
    l->since_ns = clock_now_ns();
    st = load_run_level(l->run, out, interrupt_arm(), err);
    interrupt_disarm();
    ui_progress_end(&l->r->a->ui);
    *chats = load_run_chats(l->run);
    load_run_close(l->run);
    l->run = NULL;
    return st;
}

/* Requests that are not counted; when none of them is answered, the rest would be a table of errors. */
static hasten_status warm_up(struct line *l, struct load_settings s, int64_t *chats, struct hasten_error *err)
{
    const struct load_bounds none = {0};
    struct load_level level = {0};
    struct load_summary sum;
    const int32_t n = l->r->a->load.warm_up;
    if (n == 0)
        return HASTEN_OK;
    s.open = false;
    s.streams = n < s.streams ? n : s.streams;
    s.requests = n;
    s.chats = 0;
    s.duration_ns = 0;
    s.turns = 1;
    hasten_status st = run_level(l, &s, &level, chats, err);
    if (!st)
        st = load_summarise(&level, &none, &sum, err);
    if (!st && sum.ok == 0)
        st = error_set(err, HASTEN_ERR_NETWORK, "%s: no request was answered: %s", l->r->url.data,
                       level.first_error);
    load_level_free(&level);
    return st;
}

static struct load_settings settings_of(const struct serve_run *r)
{
    const struct load_args *a = &r->a->load;
    return (struct load_settings){.open = a->rate != NULL,
                                  .streams = LIMIT_LOAD_STREAMS,
                                  .duration_ns = a->duration_ms * 1000000,
                                  .requests = a->requests,
                                  .chats = a->chats,
                                  .turns = a->turns,
                                  .think_ns = a->think_ms * 1000000,
                                  .stall_ns = a->stall_ms * 1000000,
                                  .seed = a->seed,
                                  .max_tokens = r->a->n_gen,
                                  .model = r->model,
                                  .fields = r->fields,
                                  .talks = &r->talks,
                                  .progress = on_progress};
}

static hasten_status run_levels(struct line *l, struct hasten_error *err)
{
    struct serve_run *r = l->r;
    const struct load_args *a = &r->a->load;
    const struct load_bounds bounds = {(double)a->ttft_bound_ms, (double)a->itl_bound_ms};
    struct load_settings s = settings_of(r);
    s.progress_ctx = l;
    hasten_status st = warm_up(l, s, &s.first_chat, err);
    for (int32_t i = 0; i < r->n_levels && !st; i++) {
        struct serve_level *level = &r->levels[i];
        s.streams = (int32_t)r->values[i];
        s.rate = r->values[i];
        st = run_level(l, &s, &level->level, &s.first_chat, err);
        const hasten_status sum = load_summarise(&level->level, &bounds, &level->summary, st ? NULL : err);
        r->n_done += level->level.n > 0 && !sum;
        st = st ? st : sum;
    }
    return st;
}

static hasten_status measure(struct serve_run *r, struct hasten_error *err)
{
    struct line l = {.r = r};
    const struct http_streams_ops ops = {on_bytes, on_end, &l};
    int32_t n = 1;
    for (int32_t i = 0; i < r->n_levels; i++)
        n = r->values[i] > n ? (int32_t)r->values[i] : n;
    if (r->a->load.rate)
        n = LIMIT_LOAD_STREAMS;
    n = n > r->a->load.warm_up ? n : r->a->load.warm_up;
    hasten_status st = http_streams_open(n, r->a->load.key, WAIT_MS, &l.http, err);
    if (st)
        return st;
    http_streams_listen(l.http, &ops);
    st = find_model(r, l.http, err);
    if (!st)
        st = count_tokens(r, l.http, err);
    if (!st && talks_repeats(&r->talks))
        ui_warn(&r->a->ui, "bench: %d tokens of a prompt are more than the text has: it is repeated",
                (int)r->a->n_prompt);
    if (!st)
        st = run_levels(&l, err);
    http_streams_close(l.http);
    return st;
}

int bench_serve(struct bench_args *a, const char *model)
{
    struct hasten_error err;
    struct serve_run r = {.a = a, .model = model};
    int64_t ok = 0;
    hasten_status st = prepare(&r, &err);
    if (!st)
        st = measure(&r, &err);
    int rc = r.n_done ? serve_print(&r) : 0;
    for (int32_t i = 0; i < r.n_done; i++)
        ok += r.levels[i].summary.ok;
    if (st)
        rc = ui_fail(&a->ui, &err);
    else if (rc == 0 && ok == 0)
        rc = 1;
    for (int32_t i = 0; i < SERVE_LEVELS; i++)
        load_level_free(&r.levels[i].level);
    talks_close(&r.talks);
    json_decref(r.fields);
    buf_free(&r.base);
    buf_free(&r.url);
    buf_free(&r.model_id);
    buf_free(&r.owner);
    return rc;
}
