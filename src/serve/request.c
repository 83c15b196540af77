/* The life of a request for text (request.h): from its fields to jobs of the batch, and from their text to the wire. */
#include "serve/inside.h"
#include "serve/structured.h"
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- opening ------------------------------------------------------------------------------------------------ */

static void drop(struct generation *g)
{
    if (atomic_fetch_sub(&g->refs, 1) != 1)
        return;
    for (int32_t i = 0; i < g->n_choices; i++) {
        struct choice *c = &g->choices[i];
        answer_free(&c->answer);
        sampler_memory_close(c->law.memory);
        buf_free(&c->content);
        buf_free(&c->reasoning);
        for (int32_t k = 0; k < c->n_calls; k++) {
            buf_free(&c->calls[k].id);
            buf_free(&c->calls[k].name);
            buf_free(&c->calls[k].arguments);
        }
        mem_free(c->calls);
        if (c->splitter.ops)
            c->splitter.ops->close(c->splitter.state);
    }
    for (int32_t i = 0; i < g->n_prompts; i++) {
        tokens_free(&g->prompts[i]);
        if (g->echoes)
            buf_free(&g->echoes[i]);
    }
    if (g->free_state)
        g->free_state(g->wire_state);
    grammars_give(g->server->grammars, g->grammar);
    mem_free(g->choices);
    mem_free(g->prompts);
    mem_free(g->echoes);
    mem_free(g->bias);
    mem_free(g->stops);
    mem_free(g->breakers);
    json_decref(g->body);
    json_decref(g->warnings);
    exchange_unref(g->x);
    mem_free(g);
}

void generation_refuse(struct generation *g, const struct fault *f)
{
    if (f)
        exchange_fail(g->x, f);
    drop(g);
}

static bool out_of_memory(struct fault *f)
{
    return fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
}

static bool take_stream_options(struct generation *g, struct fault *f)
{
    const json_t *usage = json_object_get(g->p.stream_options, "include_usage");
    g->stream = g->p.stream;
    if (g->p.stream_options && !g->stream)
        return fault_set(f, 400, "invalid_value", "stream_options",
                         "stream_options: without stream (expected both)");
    if (usage && !json_is_boolean(usage) && !json_is_null(usage))
        return fault_set(f, 400, "invalid_value", "stream_options",
                         "stream_options.include_usage: expected true or false");
    g->include_usage = json_is_true(usage);
    return true;
}

static bool parse_body(struct generation *g, struct fault *f)
{
    struct hasten_error err;
    const struct buf *body = &g->x->body;
    if (!json_parse("body", body->data ? body->data : "", body->len, &g->body, &err))
        return true;
    fault_of(f, &err);
    f->code = f->status == 400 ? "invalid_json" : f->code;
    return false;
}

static bool read_fields(struct generation *g, struct fault *f)
{
    if ((!g->body && !parse_body(g, f)) || !fields_parse(g->body, g->endpoint, &g->p, &g->warnings, f))
        return false;
    g->p.n = g->p.n < 1 ? 1 : g->p.n; /* endpoints that do not know it */
    return server_is_model(g->server, g->p.model, f) && take_stream_options(g, f);
}

bool generation_open_as(struct server *s, struct exchange *x, enum endpoint ep, const struct wire *wire,
                        json_t *body, json_t *warnings, struct generation **out)
{
    struct fault f = {0};
    struct generation *g = mem_calloc(1, sizeof *g);
    if (!g) {
        json_decref(body);
        json_decref(warnings);
        exchange_answer_json(x, &(struct buf){0}, 1);
        return false;
    }
    atomic_init(&g->refs, 1);
    g->server = s;
    g->x = exchange_ref(x);
    g->wire = wire;
    g->endpoint = ep;
    g->body = body;
    g->warnings = warnings;
    g->created = clock_unix_s();
    snprintf(g->id, sizeof g->id, "%s%s", wire->id_prefix, x->id);
    if (!s->batch)
        fault_set(&f, 400, "unsupported_model", "model",
                  "%s: an encoder, which writes no text (expected /v1/embeddings)", s->set.id);
    else if (read_fields(g, &f)) {
        *out = g;
        return true;
    }
    generation_refuse(g, &f);
    return false;
}

bool generation_open(struct server *s, struct exchange *x, enum endpoint ep, const struct wire *wire,
                     struct generation **out)
{
    return generation_open_as(s, x, ep, wire, NULL, NULL, out);
}

/* ---- what is asked ------------------------------------------------------------------------------------------ */

bool generation_add_prompt(struct generation *g, struct tokens *ids, struct fault *f)
{
    const char *param = g->endpoint == EP_CHAT     ? "messages"
                        : g->endpoint == EP_INFILL ? "input_prefix"
                                                   : "prompt";
    if (!server_check_length(g->server, ids->n, param, f))
        return false;
    if (((int64_t)g->n_prompts + 1) * g->p.n > LIMIT_SERVE_CHOICES)
        return fault_set(f, 400, "invalid_value", g->p.n > 1 ? "n" : param,
                         "%lld answers to %d prompts (expected at most %d answers of one request)",
                         (long long)g->p.n, (int)g->n_prompts + 1, LIMIT_SERVE_CHOICES);
    struct tokens *grown = mem_realloc(g->prompts, (size_t)(g->n_prompts + 1) * sizeof *grown);
    if (!grown)
        return out_of_memory(f);
    g->prompts = grown;
    g->prompts[g->n_prompts++] = *ids;
    *ids = (struct tokens){0};
    return true;
}

bool generation_set_grammar(struct generation *g, const char *name, const char *gbnf, size_t len,
                            struct fault *f)
{
    struct hasten_error err;
    if (g->grammar)
        return fault_set(f, 400, "invalid_value", name, "%s: beside another grammar (expected one of them)",
                         name);
    if (!grammars_take(g->server->grammars, name, gbnf, len, g->p.ignore_eos, &g->grammar, &err))
        return true;
    fault_of(f, &err);
    snprintf(f->param, sizeof f->param, "%s", name);
    return false;
}

static uint64_t mix(uint64_t seed, const void *data, size_t len)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

/* What may share KV: requests of one key, unless the server says of all; with the same salt; none without cache_prompt. */
static uint64_t scope_of(const struct generation *g)
{
    const struct server *s = g->server;
    uint64_t h = s->scope_base;
    const json_t *salt = g->p.cache_salt;
    if (!s->set.shared_cache)
        h = mix(h, &g->x->tenant, sizeof g->x->tenant);
    if (salt)
        h = mix(h ^ 1, json_string_value(salt), json_string_length(salt));
    if (!g->p.cache_prompt)
        h = mix(mix(h ^ 2, g->x->id, strlen(g->x->id)), &g->x->t0, sizeof g->x->t0);
    return h;
}

static bool make_choices(struct generation *g, struct fault *f)
{
    const int32_t n = (int32_t)g->p.n;
    g->choices = mem_calloc((size_t)(g->n_prompts * n), sizeof *g->choices);
    if (!g->choices)
        return out_of_memory(f);
    g->n_choices = g->n_left = g->n_prompts * n;
    for (int32_t i = 0; i < g->n_choices; i++) {
        g->choices[i].g = g;
        g->choices[i].index = i;
        g->choices[i].prompt = i / n;
    }
    return true;
}

bool generation_prepare(struct generation *g, struct fault *f)
{
    const json_t *grammar = g->p.grammar;
    const double seconds = g->p.timeout > 0 ? g->p.timeout : (double)g->server->set.timeout_ms / 1e3;
    if (g->endpoint != EP_CHAT && !structured_format(g, f))
        return false;
    if (grammar && json_string_length(grammar) &&
        !generation_set_grammar(g, "grammar", json_string_value(grammar), json_string_length(grammar), f))
        return false;
    if (g->p.return_progress && !g->stream)
        return fault_set(f, 400, "invalid_value", "return_progress",
                         "return_progress: without stream (expected both)");
    g->scope = scope_of(g);
    g->deadline = seconds > 0 ? g->x->t0 + (uint64_t)(seconds * 1e9) : 0;
    return make_choices(g, f) && law_prepare(g, f);
}

/* ---- saying ------------------------------------------------------------------------------------------------- */

static void begin_once(struct choice *c)
{
    if (!c->begun && c->g->stream)
        c->g->wire->begin(c);
    c->begun = true;
}

void generation_say(struct choice *c, enum said what, const char *text, size_t len)
{
    struct generation *g = c->g;
    if (len == 0)
        return;
    begin_once(c);
    if (g->stream)
        g->wire->text(c, what, text, len);
    else if (buf_put(what == SAID_CONTENT ? &c->content : &c->reasoning, text, len))
        g->failed = true;
}

hasten_status generation_call_begin(struct choice *c, const char *id, const char *name, size_t name_len,
                                    struct hasten_error *err)
{
    if (c->n_calls == c->cap_calls) {
        const int32_t cap = c->cap_calls ? 2 * c->cap_calls : 4;
        struct call *p = mem_realloc(c->calls, (size_t)cap * sizeof *p);
        if (!p)
            return error_set(err, HASTEN_ERR_MEMORY, "tool calls: out of memory");
        c->calls = p;
        c->cap_calls = cap;
    }
    struct call *call = &c->calls[c->n_calls];
    *call = (struct call){0};
    if (buf_puts(&call->id, id) || buf_put(&call->name, name, name_len) || buf_puts(&call->arguments, "")) {
        buf_free(&call->id);
        buf_free(&call->name);
        return error_set(err, HASTEN_ERR_MEMORY, "tool calls: out of memory");
    }
    c->n_calls++;
    begin_once(c);
    if (c->g->stream)
        c->g->wire->call(c, c->n_calls - 1, "", 0, true);
    return HASTEN_OK;
}

hasten_status generation_call_arguments(struct choice *c, const char *text, size_t len,
                                        struct hasten_error *err)
{
    if (c->n_calls == 0)
        return error_set(err, HASTEN_ERR_INTERNAL, "tool calls: arguments without a call");
    if (buf_put(&c->calls[c->n_calls - 1].arguments, text, len))
        return error_set(err, HASTEN_ERR_MEMORY, "tool calls: out of memory");
    if (c->g->stream && len)
        c->g->wire->call(c, c->n_calls - 1, text, len, false);
    return HASTEN_OK;
}

void generation_event(struct generation *g, const char *name, const struct buf *data, int bad)
{
    struct buf b = {0};
    bad = bad || (name && buf_printf(&b, "event: %s\n", name)) || buf_puts(&b, "data: ") ||
          buf_put(&b, data->data, data->len) || buf_puts(&b, "\n\n");
    if (bad || !exchange_write(g->x, b.data, b.len))
        g->cancel = true; /* nobody reads, or there is no memory to say anything */
    buf_free(&b);
}

struct usage generation_usage(const struct generation *g)
{
    struct usage u = {0};
    for (int32_t i = 0; i < g->n_choices; i++) {
        const struct choice *c = &g->choices[i];
        if (i % g->p.n == 0) {
            u.prompt += g->prompts[c->prompt].n;
            u.cached += c->answer.cached_n;
        }
        u.answer += c->answer.predicted_n + c->answer.injected_n;
    }
    return u;
}

/* ---- what the batch says (the engine's thread) -------------------------------------------------------------- */

static void note_pace(struct choice *c)
{
    const uint64_t now = clock_now_ns();
    const int64_t n = c->answer.ids.n, fresh = n - c->last_n;
    struct metrics *m = &c->g->server->metrics;
    if (c->last_ns == 0)
        metric_observe(m, HISTOGRAM_TTFT, (double)(now - c->g->x->t0) / 1e9);
    else
        for (int64_t i = 0; i < fresh && i < 16; i++)
            metric_observe(m, HISTOGRAM_ITL, (double)(now - c->last_ns) / 1e9 / (double)fresh);
    c->last_ns = now;
    c->last_n = n;
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct choice *c = ctx;
    if (c->g->wire->progress && c->g->stream && c->g->p.return_progress)
        c->g->wire->progress(c, done, total);
}

/* How a choice ended, as clients call it; NULL: with an error. */
static const char *reason_of(const struct choice *c, hasten_status st)
{
    if (st == HASTEN_ERR_TIMEOUT)
        return "timeout";
    if (st == HASTEN_ERR_CANCELLED || c->g->cancel)
        return "abort";
    if (st == HASTEN_ERR_FULL)
        return "length"; /* all pages are its own, and it needs more */
    if (st || c->answer.finish == FINISH_GRAMMAR)
        return NULL;
    if (c->answer.finish == FINISH_STOP)
        return c->n_calls ? "tool_calls" : "stop";
    return c->answer.finish == FINISH_LENGTH ? "length" : "abort";
}

static void count(const struct choice *c)
{
    struct metrics *m = &c->g->server->metrics;
    const struct answer *a = &c->answer;
    const struct batch_times *t = &c->times;
    const char *f = c->finish;
    metric_add(m,
               !f                         ? COUNT_ERROR
               : !strcmp(f, "stop")       ? COUNT_STOP
               : !strcmp(f, "length")     ? COUNT_LENGTH
               : !strcmp(f, "tool_calls") ? COUNT_TOOL_CALLS
                                          : COUNT_ABORT,
               1);
    if (!t->admitted)
        return;
    metric_add(m, COUNT_PROMPT_TOKENS, (uint64_t)a->prompt_n);
    metric_add(m, COUNT_ANSWER_TOKENS, (uint64_t)(a->predicted_n + a->injected_n));
    metric_add(m, COUNT_CACHE_QUERIES, (uint64_t)a->prompt_n);
    metric_add(m, COUNT_CACHE_HITS, (uint64_t)a->cached_n);
    metric_observe(m, HISTOGRAM_QUEUE, (double)(t->admitted - t->submitted) / 1e9);
    metric_observe(m, HISTOGRAM_E2E, (double)(t->done - c->g->x->t0) / 1e9);
    metric_observe(m, HISTOGRAM_PROMPT_TOKENS, a->prompt_n);
    metric_observe(m, HISTOGRAM_ANSWER_TOKENS, a->predicted_n + a->injected_n);
    if (t->first) {
        metric_observe(m, HISTOGRAM_PREFILL, (double)(t->first - t->admitted) / 1e9);
        metric_observe(m, HISTOGRAM_DECODE, (double)(t->done - t->first) / 1e9);
    }
}

static void write_whole(struct generation *g)
{
    struct buf b = {0};
    const int bad = g->failed || g->wire->whole(g, &b);
    exchange_answer_json(g->x, &b, bad); /* without effect where it was answered with an error */
}

/* The last choice is over. */
static void finish_all(struct generation *g)
{
    const struct usage u = generation_usage(g);
    struct server *s = g->server;
    exchange_on_gone(g->x, NULL, NULL);
    pthread_mutex_lock(&g->x->lock); /* the door may be writing the log of a client that left */
    g->x->prompt_n = (int32_t)u.prompt;
    g->x->cached_n = (int32_t)u.cached;
    g->x->predicted_n = (int32_t)u.answer;
    g->x->finish = g->choices[0].finish;
    pthread_mutex_unlock(&g->x->lock);
    if (g->stream) {
        if (!g->failed)
            g->wire->end(g);
        exchange_end(g->x);
    } else {
        write_whole(g);
    }
    atomic_fetch_sub(&s->tickets, g->n_tickets);
    atomic_fetch_sub(&s->n_generations, 1);
    drop(g);
}

static void cancel_others(struct generation *g)
{
    for (int32_t i = 0; i < g->n_choices; i++)
        if (!g->choices[i].over && g->choices[i].job)
            batch_cancel(g->server->batch, g->choices[i].job);
}

/* One choice has failed, so the request has; nothing more will be written of it. */
static void fail_all(struct generation *g, const struct fault *f)
{
    if (g->failed)
        return;
    if (g->stream)
        g->wire->fail(g, f);
    else
        exchange_fail(g->x, f);
    g->failed = true;
    g->cancel = true;
    cancel_others(g);
}

static int on_text(void *ctx, const char *text, size_t len)
{
    struct choice *c = ctx;
    struct generation *g = c->g;
    struct hasten_error err;
    struct fault f = {0};
    note_pace(c);
    if (!c->splitter.ops) {
        generation_say(c, SAID_CONTENT, text, len);
    } else if (c->splitter.ops->push(c->splitter.state, c, text, len, &err)) {
        fault_of(&f, &err);
        fail_all(g, &f);
    }
    return g->cancel || g->failed;
}

static void fault_of_end(const struct choice *c, hasten_status st, const struct hasten_error *err,
                         struct fault *f)
{
    if (!st)
        fault_set(
            f, 500, "grammar_dead_end", "grammar",
            "the grammar allows no token behind %zu bytes of the answer (expected a vocabulary that can write "
            "what it says, and no bias against that)",
            c->answer.text.len);
    else
        fault_of(f, err);
}

/* Nothing was said of an answer that nobody waited long enough for: an error, while nothing has been sent. */
static bool says_nothing(const struct choice *c, struct fault *f)
{
    if (c->g->stream || c->answer.ids.n || !c->finish)
        return false;
    if (strcmp(c->finish, "timeout") == 0)
        return !fault_set(f, 503, "timeout", NULL, "the request was not begun in its time (try again later)");
    if (strcmp(c->finish, "abort") == 0)
        return !fault_set(f, 503, "shutting_down", NULL, "the server is shutting down (try again later)");
    return false;
}

static void choice_over(struct choice *c, hasten_status st, const struct hasten_error *err)
{
    struct generation *g = c->g;
    struct fault f = {0};
    struct hasten_error split;
    if (!st && c->splitter.ops && !g->failed && c->splitter.ops->finish(c->splitter.state, c, &split)) {
        st = split.status;
        err = &split;
    }
    c->over = true;
    c->finish = reason_of(c, st);
    count(c);
    if (!c->finish)
        fault_of_end(c, st, err, &f);
    if (!c->finish || says_nothing(c, &f)) {
        fail_all(g, &f);
    } else if (!g->failed && g->stream && !g->cancel) {
        begin_once(c);
        g->wire->finish(c);
    }
    if (--g->n_left == 0)
        finish_all(g);
}

static void on_done(void *ctx, hasten_status st, const struct hasten_error *err)
{
    choice_over(ctx, st, err);
}

/* ---- the inbox ---------------------------------------------------------------------------------------------- */

#define OF(w, member) ((struct generation *)(void *)((char *)(w)-offsetof(struct generation, member)))

static struct batch_job job_of(struct choice *c)
{
    struct generation *g = c->g;
    return (struct batch_job){.task = {.engine = g->server->engine,
                                       .vocab = g->server->vocab,
                                       .law = &c->law,
                                       .ids = g->prompts[c->prompt].ids,
                                       .n = g->prompts[c->prompt].n,
                                       .show = on_text,
                                       .show_ctx = c},
                              .answer = &c->answer,
                              .scope = g->scope,
                              .owner = g->x->tenant,
                              .priority = (int32_t)g->p.priority,
                              .deadline = g->deadline,
                              .progress = on_progress,
                              .done = on_done,
                              .ctx = c,
                              .times = &c->times};
}

static void submit(struct work *w)
{
    struct generation *g = OF(w, submit);
    const int32_t n = g->n_choices;
    atomic_fetch_add(&g->refs, 1); /* over this loop: the last choice may end in it */
    for (int32_t i = 0; i < n; i++) {
        struct choice *c = &g->choices[i];
        struct hasten_error err;
        struct batch_job job = job_of(c);
        hasten_status st = g->cancel ? error_set(&err, HASTEN_ERR_CANCELLED, "the client has left")
                                     : batch_submit(g->server->batch, &job, &c->job, &err);
        if (st == HASTEN_ERR_LIMIT) /* no pool of pages could hold it */
            st = err.status = HASTEN_ERR_USAGE;
        if (st)
            choice_over(c, st, &err);
    }
    drop(g);
}

static void run_cancel(struct work *w)
{
    struct generation *g = OF(w, cancelling);
    g->cancel = true;
    if (g->n_left)
        cancel_others(g);
    drop(g);
}

/* In the door's thread. */
static void client_left(void *ctx)
{
    struct generation *g = ctx;
    atomic_fetch_add(&g->refs, 1);
    motor_put(g->server->motor, &g->cancelling);
}

/* ---- the start ---------------------------------------------------------------------------------------------- */

static bool take_tickets(struct generation *g, struct fault *f)
{
    struct server *s = g->server;
    const int now = atomic_fetch_add(&s->tickets, g->n_choices);
    if (now + g->n_choices <= atomic_load(&s->most_tickets)) {
        g->n_tickets = g->n_choices;
        return true;
    }
    atomic_fetch_sub(&s->tickets, g->n_choices);
    metric_add(&s->metrics, COUNT_REFUSED, 1);
    return fault_set(f, 429, "queue_full", NULL,
                     "the queue is full: %d answers are waited for, at most %d may be (try again later)", now,
                     atomic_load(&s->most_tickets));
}

void generation_start(struct generation *g)
{
    struct server *s = g->server;
    struct fault f = {0};
    if (atomic_load(&s->phase) != PHASE_READY)
        fault_set(&f, 503, "shutting_down", NULL, "the server is shutting down (try again later)");
    else
        take_tickets(g, &f);
    if (f.status) {
        generation_refuse(g, &f);
        return;
    }
    atomic_fetch_add(&s->n_generations, 1);
    g->submit.run = submit;
    g->cancelling.run = run_cancel;
    if (g->stream)
        exchange_begin(g->x);
    exchange_on_gone(g->x, client_left, g);
    motor_put(s->motor, &g->submit); /* from here on it may be gone */
}
