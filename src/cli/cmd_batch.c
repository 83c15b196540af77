/* `hasten batch`: a file of requests in OpenAI's batch format, answered by what answers `hasten serve`, without a socket.
 * Owns reading lines, their order, the file that a later run goes on with. What a body means is the server's (src/serve/).
 *
 * Lines are asked in an order in which neighbours begin alike, within a window, and written in the order of the input. So
 * that a run that was ended and went on writes the bytes of one that was not, nothing in a line depends on when it was
 * asked: a request without a seed gets one made of its custom_id, `created` is 0, and what was cached is not told. */
#include "base/limits.h"
#include "cli/many.h"
#ifdef HASTEN_SERVE
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "serve/exchange.h"
#include "serve/server.h"
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#endif

struct batch_args {
    const char *input, *output, *alias;
    int32_t slots;
    uint64_t kv_size;
    bool resume;
    struct ui ui;
    struct model_args model;
};

#define AT(field) offsetof(struct batch_args, field)

static const struct option_def batch_defs[] = {
    {"input", "i", OPT_STRING, AT(input), 0, 0, NULL, "FILE", "the requests, one JSON object a line [stdin]"},
    {"output", "o", OPT_STRING, AT(output), 0, 0, NULL, "FILE", "where the answers go [stdout]"},
    {"resume", NULL, OPT_FLAG, AT(resume), 0, 0, NULL, NULL,
     "go on behind the answers that are in the output file"},
    {"alias", NULL, OPT_STRING, AT(alias), 0, 0, NULL, "NAME", "the model's id [its name or file]"},
    {"slots", "np parallel", OPT_INT, AT(slots), 1, 256, "16", "N", "answers that run at once"},
    {"kv-size", NULL, OPT_SIZE, AT(kv_size), 0, 0, "0", "N",
     "positions of keys and values for all answers together; 0: four contexts"},
};

#ifndef HASTEN_SERVE

static int run(struct batch_args *a, struct option_group *groups, const char *model)
{
    struct hasten_error err;
    (void)groups;
    (void)model;
    error_set(&err, HASTEN_ERR_UNSUPPORTED,
              "batch: not built in (expected libmicrohttpd when Hasten is built; scripts/deps installs it)");
    return ui_fail(&a->ui, &err);
}

#else

#define WINDOW 256 /* lines that are put in order at once */

struct line {
    const char *text; /* [len] of the input */
    size_t len;
    int64_t number;         /* from 1 */
    json_t *custom_id;      /* string, or NULL */
    struct exchange *x;     /* under way */
    struct buf out, prefix; /* the answer's line, once it is there; what it is put in order by */
    bool ready, failed;     /* out is there; it says that something went wrong */
};

struct place {
    const char *prefix;
    int64_t line;
};

struct job {
    struct batch_args *a;
    struct session session;
    struct server *server;
    char *input, *id;
    struct line *lines;  /* [n] */
    int64_t n, first;    /* first: lines before it were answered by an earlier run */
    struct place *order; /* [n] in the order in which they are asked */
    int64_t n_ordered;
    int64_t n_asked, n_under_way, n_written, n_failed;
    struct file *out; /* NULL: stdout */
    uint64_t since_ns;
};

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "batch: out of memory");
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

static hasten_status split(struct job *j, size_t len, struct hasten_error *err)
{
    int64_t most = 1;
    for (size_t i = 0; i < len; i++)
        most += j->input[i] == '\n';
    j->lines = mem_calloc((size_t)most, sizeof *j->lines);
    j->order = mem_array((size_t)most, sizeof *j->order);
    if (!j->lines || !j->order)
        return no_memory(err);
    int64_t number = 0;
    for (size_t at = 0, end; at < len; at = end + 1) {
        const char *newline = memchr(j->input + at, '\n', len - at);
        end = newline ? (size_t)(newline - j->input) : len;
        number++;
        if (strspn(j->input + at, " \t\r") < end - at)
            j->lines[j->n++] = (struct line){.text = j->input + at, .len = end - at, .number = number};
    }
    return HASTEN_OK;
}

/* The line of the output of what could not even be asked. */
static hasten_status refuse(struct line *l, const char *why, struct hasten_error *err)
{
    json_t *v = json_pack("{s:o, s:O?, s:n, s:{s:s, s:s}}", "id",
                          json_sprintf("batch_req_%lld", (long long)l->number), "custom_id", l->custom_id,
                          "response", "error", "code", "invalid_line", "message", why);
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    const int bad = !text || buf_puts(&l->out, text);
    mem_free(text);
    json_decref(v);
    l->ready = l->failed = true;
    return bad ? no_memory(err) : HASTEN_OK;
}

static const char *what_is_wrong(const json_t *v)
{
    static const char *const urls[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings"};
    const json_t *url = json_object_get(v, "url"), *method = json_object_get(v, "method"),
                 *body = json_object_get(v, "body");
    bool known = false;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        known |= json_is_string(url) && strcmp(json_string_value(url), urls[i]) == 0;
    if (!json_is_string(json_object_get(v, "custom_id")))
        return "custom_id is missing (expected a string)";
    if (method && (!json_is_string(method) || strcmp(json_string_value(method), "POST") != 0))
        return "method is not POST";
    if (!known)
        return "url is not /v1/chat/completions, /v1/completions or /v1/embeddings";
    if (!json_is_object(body))
        return "body is missing (expected an object)";
    if (json_is_true(json_object_get(body, "stream")))
        return "stream is true (answers of a batch are whole)";
    return NULL;
}

/* FNV-1a (Fowler, Noll, Vo), 53 bits of it: what every JSON reader holds. */
static json_int_t seed_of(const char *id)
{
    uint64_t h = 14695981039346656037u;
    for (; *id; id++)
        h = (h ^ (uint8_t)*id) * 1099511628211u;
    return (json_int_t)(h >> 11);
}

/* The request of a line, or its error. */
static hasten_status read_line(struct line *l, struct hasten_error *err)
{
    struct hasten_error why;
    json_t *v = NULL;
    const char *wrong = json_parse("line", l->text, l->len, &v, &why) ? why.message
                        : json_is_object(v)                           ? NULL
                                                                      : "the line is no JSON object";
    json_t *id = json_object_get(v, "custom_id"), *body = json_object_get(v, "body");
    if (json_is_string(id))
        l->custom_id = json_incref(id);
    wrong = wrong ? wrong : what_is_wrong(v);
    hasten_status st = HASTEN_OK;
    if (wrong) {
        st = refuse(l, wrong, err);
    } else {
        const char *url = json_string_value(json_object_get(v, "url"));
        int bad = 0;
        if (!json_object_get(body, "seed") && strcmp(url, "/v1/embeddings") != 0)
            bad = json_object_set_new(body, "seed", json_integer(seed_of(json_string_value(id))));
        char *text = bad ? NULL : json_dumps(body, JSON_COMPACT);
        l->x = text ? exchange_open(NULL) : NULL;
        if (!l->x || !(l->x->path = mem_strndup(url, strlen(url))) || buf_puts(&l->x->body, text))
            st = no_memory(err);
        else
            snprintf(l->x->id, sizeof l->x->id, "line-%lld", (long long)l->number);
        if (!st)
            strcpy(l->x->method, "POST");
        /* Neighbours begin alike: by what is asked of, in the form in which prompts begin. */
        const json_t *by = json_object_get(body, "messages") ? json_object_get(body, "messages")
                                                             : json_object_get(body, "prompt");
        char *prefix = by ? json_dumps(by, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
        if (!st && buf_puts(&l->prefix, prefix ? prefix : ""))
            st = no_memory(err);
        mem_free(prefix);
        mem_free(text);
    }
    json_decref(v);
    return st;
}

static int by_prefix(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    const int c = strcmp(x->prefix, y->prefix);
    return c ? c : (x->line > y->line) - (x->line < y->line);
}

/* Reads the next window of lines and puts it in order. */
static hasten_status read_window(struct job *j, struct hasten_error *err)
{
    const int64_t from = j->n_ordered, to = j->n - from < WINDOW ? j->n : from + WINDOW;
    hasten_status st = HASTEN_OK;
    for (int64_t i = from; i < to && !st; i++) {
        st = read_line(&j->lines[i], err);
        j->order[i] = (struct place){j->lines[i].prefix.data ? j->lines[i].prefix.data : "", i};
    }
    qsort(j->order + from, (size_t)(to - from), sizeof *j->order, by_prefix);
    j->n_ordered = to;
    return st;
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

/* What depends on when it was asked, not on what. */
static int make_timeless(json_t *body)
{
    json_t *usage = json_object_get(body, "usage");
    if (usage)
        json_object_del(usage, "prompt_tokens_details");
    return json_object_get(body, "created") ? json_object_set_new(body, "created", json_integer(0)) : 0;
}

/* The line of the output of an answer that is whole. */
static hasten_status take_answer(struct line *l, struct hasten_error *err)
{
    struct exchange *x = l->x;
    json_t *body = NULL, *failure = json_null();
    hasten_status st = json_parse("answer", x->out.data ? x->out.data : "", x->out.len, &body, err);
    l->failed = x->status != 200;
    if (l->failed && !st) {
        const json_t *e = json_object_get(body, "error");
        failure = json_pack("{s:O?, s:O?}", "code", json_object_get(e, "code"), "message",
                            json_object_get(e, "message"));
    }
    if (!st && make_timeless(body))
        st = no_memory(err);
    if (st) {
        json_decref(body);
        return st;
    }
    json_t *v =
        json_pack("{s:o, s:O, s:{s:i, s:s, s:o}, s:o}", "id",
                  json_sprintf("batch_req_%lld", (long long)l->number), "custom_id", l->custom_id, "response",
                  "status_code", x->status, "request_id", x->id, "body", body, "error", failure);
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!text || buf_puts(&l->out, text))
        st = no_memory(err);
    mem_free(text);
    json_decref(v);
    exchange_unref(x);
    l->x = NULL;
    l->ready = true;
    return st;
}

static bool is_answered(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool ended = x->ended;
    pthread_mutex_unlock(&x->lock);
    return ended;
}

/* Answers that have come; how many. */
static int64_t collect(struct job *j, hasten_status *st, struct hasten_error *err)
{
    int64_t n = 0;
    for (int64_t i = j->n_written; i < j->n_ordered && !*st; i++) {
        struct line *l = &j->lines[i];
        if (!l->x || l->ready || !is_answered(l->x))
            continue;
        *st = take_answer(l, err);
        j->n_under_way--;
        n++;
    }
    return n;
}

static hasten_status ask_more(struct job *j, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    while (!st && j->n_under_way < 2 * j->a->slots && j->n_asked < j->n) {
        if (j->n_asked == j->n_ordered)
            st = read_window(j, err);
        struct line *l = st ? NULL : &j->lines[j->order[j->n_asked++].line];
        if (l && l->x) {
            j->n_under_way++;
            server_ask(j->server, l->x);
        }
    }
    return st;
}

static hasten_status write_line(struct job *j, struct line *l, struct hasten_error *err)
{
    if (buf_putc(&l->out, '\n'))
        return no_memory(err);
    hasten_status st = HASTEN_OK;
    if (j->out)
        st = file_write(j->out, l->out.data, l->out.len, err);
    else if (cli_out(l->out.data, l->out.len))
        st = error_set(err, HASTEN_ERR_DISK, "batch: stdout is closed or full (expected room)");
    j->n_failed += l->failed;
    buf_free(&l->out);
    buf_free(&l->prefix);
    json_decref(l->custom_id);
    l->custom_id = NULL;
    return st;
}

/* Until all lines are written. */
static hasten_status answer_all(struct job *j, const volatile int *cancel, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    j->n_written = j->n_asked = j->n_ordered = j->first;
    j->since_ns = clock_now_ns();
    while (!st && j->n_written < j->n) {
        if (*cancel)
            return error_set(err, HASTEN_ERR_CANCELLED, "batch: interrupted after %lld of %lld lines%s",
                             (long long)j->n_written, (long long)j->n, j->out ? " (--resume goes on)" : "");
        st = ask_more(j, err);
        const int64_t n = st ? 0 : collect(j, &st, err);
        while (!st && j->n_written < j->n_ordered && j->lines[j->n_written].ready)
            st = write_line(j, &j->lines[j->n_written++], err);
        ui_progress(&j->a->ui, "batch", (uint64_t)j->n_written, (uint64_t)j->n, "requests", j->since_ns);
        if (n == 0 && !st && j->n_under_way)
            poll(NULL, 0, 2);
    }
    ui_progress_end(&j->a->ui);
    return st;
}

/* ---- going on -------------------------------------------------------------------------------------------------- */

/* The custom_id of a line; NULL: it has none. A new reference. */
static json_t *id_of(const char *text, size_t len)
{
    struct hasten_error err;
    json_t *v = NULL;
    if (json_parse("line", text, len, &v, &err))
        return NULL;
    json_t *id = json_object_get(v, "custom_id");
    id = json_is_string(id) ? json_incref(id) : NULL;
    json_decref(v);
    return id;
}

/* Of the lines that an earlier run wrote: whole ones are answers to the first lines of the input, in order; *keep: their
 * bytes. */
static hasten_status count_answered(struct job *j, const char *text, size_t len, size_t *keep,
                                    struct hasten_error *err)
{
    *keep = 0;
    for (const char *end; (end = memchr(text + *keep, '\n', len - *keep)) != NULL; j->first++) {
        const size_t n = (size_t)(end - text) - *keep;
        json_t *was = id_of(text + *keep, n), *is = NULL;
        const bool more = j->first < j->n;
        if (more)
            is = id_of(j->lines[j->first].text, j->lines[j->first].len);
        const bool same = more && (was ? is && json_equal(was, is) : !is);
        json_decref(was);
        json_decref(is);
        if (!same)
            return error_set(
                err, HASTEN_ERR_FILE,
                "batch: %s: line %lld does not answer this input's (expected the output of an earlier "
                "run of it)",
                j->a->output, (long long)j->first + 1);
        *keep += n + 1;
    }
    return HASTEN_OK;
}

static hasten_status open_output(struct job *j, struct hasten_error *err)
{
    const struct batch_args *a = j->a;
    char *text = NULL;
    size_t len = 0, keep = 0;
    if (!a->output)
        return HASTEN_OK;
    hasten_status st = HASTEN_OK;
    if (a->resume && file_exists(a->output)) {
        st = file_slurp(a->output, LIMIT_BATCH_BYTES, &text, &len, err);
        if (!st)
            st = count_answered(j, text, len, &keep, err);
    }
    mem_free(text);
    if (!st)
        st = file_open(a->output, a->resume ? FILE_APPEND : FILE_WRITE_TRUNC, &j->out, err);
    return !st && keep < len ? file_truncate(j->out, keep, err) : st;
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

static void adjust(void *ctx, const struct hasten_model *m, struct hasten_engine_settings *settings)
{
    struct batch_args *a = ctx;
    many_adjust(&a->model, a->slots, a->kv_size, m, settings);
}

static hasten_status open_server(struct job *j, const char *model, struct option_group *groups,
                                 struct hasten_error *err)
{
    struct server_settings set;
    struct hasten_engine_settings settings;
    server_default_settings(&set);
    j->id = many_model_id(j->a->alias, model);
    if (!j->id)
        return no_memory(err);
    set.host = NULL;
    set.id = j->id;
    set.argument = model;
    set.n_slots = j->a->slots;
    set.n_desks = 1; /* in the order in which they are asked */
    hasten_status st = model_settings(&j->a->model, &groups[2], &settings, err);
    j->session.adjust = adjust;
    j->session.adjust_ctx = j->a;
    if (!st)
        st = session_open(model, &j->a->model, &settings, &j->a->ui, &j->session, err);
    if (st)
        return st;
    hasten_seq_close(j->session.seq); /* the batch has its own, and its own store */
    store_close(j->session.store);
    j->session.seq = NULL;
    j->session.store = NULL;
    st = server_open(&set, &j->server, err);
    return st ? st
              : server_load(j->server, j->session.model, j->session.engine,
                            methods_json(&j->session.settings), err);
}

static void close_job(struct job *j)
{
    server_close(j->server);
    for (int64_t i = 0; i < j->n; i++) {
        exchange_unref(j->lines[i].x);
        json_decref(j->lines[i].custom_id);
        buf_free(&j->lines[i].out);
        buf_free(&j->lines[i].prefix);
    }
    session_close(&j->session);
    file_close(j->out);
    mem_free(j->lines);
    mem_free(j->order);
    mem_free(j->input);
    mem_free(j->id);
}

static int run(struct batch_args *a, struct option_group *groups, const char *model)
{
    struct hasten_error err;
    struct job j = {.a = a};
    size_t len = 0;
    hasten_status st = HASTEN_OK;
    if (a->resume && !a->output)
        st = error_set(&err, HASTEN_ERR_USAGE, "--resume without --output (expected the file to go on with)");
    if (!st)
        st = file_slurp(a->input ? a->input : "-", LIMIT_BATCH_BYTES, &j.input, &len, &err);
    if (!st)
        st = split(&j, len, &err);
    if (!st)
        st = open_output(&j, &err);
    if (!st && j.first < j.n)
        st = open_server(&j, model, groups, &err);
    if (!st && j.first < j.n) {
        st = answer_all(&j, interrupt_arm(), &err);
        interrupt_disarm();
    }
    if (!st && j.out)
        st = file_sync(j.out, &err);
    if (!st && j.n_failed)
        ui_warn(&a->ui, "batch: %lld of %lld lines could not be answered (they say why)",
                (long long)j.n_failed, (long long)(j.n - j.first));
    const int rc = st ? ui_fail(&a->ui, &err) : j.n_failed > 0;
    close_job(&j);
    return rc;
}

#endif

int cmd_batch(const struct command *c, int argc, char **argv)
{
    struct batch_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Batch:",
                                     .defs = batch_defs,
                                     .n = (int)(sizeof batch_defs / sizeof *batch_defs),
                                     .dst = &a},
                                    model_group(&a.model),
                                    methods_group(&a.model.methods, METHODS_BATCH)};
    const char *model = NULL;
    int rc = command_parse_model(c, &a.ui, groups, 4, &a.model, argc, argv, &model);
    if (rc >= 0)
        return rc;
    rc = run(&a, groups, model);
    options_free(groups, 4);
    return rc;
}
