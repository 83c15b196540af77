/* `hasten eval --task`: items of tasks answered by the model, scored, logged and summed up. What tasks are is in
 * src/eval/task_*.c, how answers come about in src/eval/generate.c; here are the choice of tasks, their data, the log
 * that a later run continues, and the result. */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/eval.h"
#include "cli/sandbox.h"
#include "eval/generate.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARTS 256
#define MAX_LENGTHS 16
#define DEFAULT_ITEMS 20
#define AUTO_PARALLEL 8
#define AUTO_POSITIONS 65536 /* of all sequences together, when --parallel is not given */

struct part { /* a task at one length */
    const struct eval_task *task;
    const char *data;
    char *own_data; /* data, when it was found in a folder */
    int32_t length; /* 0: the data decide */
    void *state;
    int32_t n, n_done;
    double *scores; /* [n], NaN: not yet */
    json_t *items;  /* id -> score */
};

struct task_run {
    struct eval_args *args;
    struct model_text text;
    struct prompter *prompter; /* NULL: raw */
    struct session session;
    struct sandbox sandbox;
    bool sandboxed;
    struct part parts[MAX_PARTS];
    int32_t n_parts, at_part, at_item, n_parallel;
    int64_t n_items, n_done, n_prompt, n_predicted;
    struct buf names;        /* of data files found in folders */
    json_t *header, *logged; /* logged: "task\nid" -> the line */
    struct file *log;
    uint64_t t0;
    int64_t done_before;
};

/* ---- which tasks, of which data ------------------------------------------------------------------------- */

static hasten_status parse_lengths(const char *text, int32_t *out, int32_t *n, struct hasten_error *err)
{
    for (const char *at = text; *n < MAX_LENGTHS;) {
        char *end;
        const long v = strtol(at, &end, 10);
        if (end == at || v < 64 || v > LIMIT_CONTEXT || (*end && *end != ','))
            return error_set(err, HASTEN_ERR_USAGE,
                             "eval: --length '%s' (expected tokens from 64 to %d, as in 1024,4096)", text,
                             LIMIT_CONTEXT);
        out[(*n)++] = (int32_t)v;
        if (!*end)
            return HASTEN_OK;
        at = end + 1;
    }
    return error_set(err, HASTEN_ERR_USAGE, "eval: --length '%s': more than %d lengths", text, MAX_LENGTHS);
}

static hasten_status unknown_task(const char *name, struct hasten_error *err)
{
    const char *names[64];
    int n = 0;
    for (const struct eval_task *t; (t = eval_task_at(n)); n++)
        names[n] = t->name;
    names[n++] = "ruler";
    const char *near = nearest_word(name, names, n);
    return near
               ? error_set(err, HASTEN_ERR_USAGE, "eval: unknown task '%s' (did you mean %s?)", name, near)
               : error_set(
                     err, HASTEN_ERR_USAGE,
                     "eval: unknown task '%s' (expected gsm8k, humaneval, needle, recall, ruler or one of ruler's)",
                     name);
}

/* The file of a folder whose name begins with prefix and ends in .jsonl; one with "test" in it before others. */
static hasten_status search_folder(struct task_run *r, const char *folder, const char *prefix,
                                   struct hasten_error *err)
{
    struct file_names names = {0};
    const char *found = NULL;
    hasten_status st = file_list(folder, &names, err);
    for (size_t i = 0; i < names.n && !st; i++) {
        const char *name = names.names[i];
        const size_t len = strlen(name);
        if (strncmp(name, prefix, strlen(prefix)) != 0 || len < 6 || strcmp(name + len - 6, ".jsonl") != 0)
            continue;
        if (!found || (!strstr(found, "test") && strstr(name, "test")))
            found = name;
    }
    buf_clear(&r->names);
    if (!st && !found)
        st = error_set(err, HASTEN_ERR_FILE, "eval: no %s*.jsonl in %s (expected the task's data there)",
                       prefix, folder);
    if (!st && buf_printf(&r->names, "%s/%s", folder, found))
        st = eval_no_memory(err);
    file_names_free(&names);
    return st;
}

/* --data for a task: TASK=FILE before a folder before a plain file. */
static hasten_status find_data(struct task_run *r, struct part *p, struct hasten_error *err)
{
    const struct option_list *list = &r->args->data;
    const char *prefix = p->task->data_prefix, *plain = NULL, *named = NULL;
    const size_t len = strlen(p->task->name);
    for (int i = 0; i < list->n; i++) {
        const char *d = list->items[i];
        if (strncmp(d, p->task->name, len) == 0 && d[len] == '=') {
            p->data = d + len + 1;
            return HASTEN_OK;
        }
        const char *base = strrchr(d, '/');
        if (prefix && file_kind(d) == FILE_REGULAR &&
            strncmp(base ? base + 1 : d, prefix, strlen(prefix)) == 0)
            named = d;
        if (!strchr(d, '=') || file_exists(d))
            plain = d;
    }
    plain = named ? named : plain;
    if (!plain)
        return prefix ? error_set(
                            err, HASTEN_ERR_USAGE,
                            "eval: task %s needs data (expected --data FILE, a folder of them, or %s=FILE)",
                            p->task->name, p->task->name)
                      : HASTEN_OK;
    if (file_kind(plain) != FILE_FOLDER) {
        const size_t n = strlen(plain);
        const bool lines = n > 6 && strcmp(plain + n - 6, ".jsonl") == 0;
        p->data = prefix || !lines ? plain : NULL; /* questions are no haystack */
        return HASTEN_OK;
    }
    if (!prefix)
        return HASTEN_OK;
    hasten_status st = search_folder(r, plain, prefix, err);
    p->data = p->own_data = st ? NULL : mem_strndup(r->names.data, r->names.len);
    return st || p->data ? st : eval_no_memory(err);
}

static hasten_status add_part(struct task_run *r, const struct eval_task *task, int32_t length,
                              struct hasten_error *err)
{
    for (int32_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].task == task && r->parts[i].length == length)
            return HASTEN_OK;
    if (r->n_parts == MAX_PARTS)
        return error_set(err, HASTEN_ERR_USAGE, "eval: more than %d tasks and lengths", MAX_PARTS);
    struct part *p = &r->parts[r->n_parts++];
    *p = (struct part){.task = task, .length = length};
    if (task->runs_code && !r->sandboxed) {
        hasten_status st = sandbox_open(r->args->python, &r->sandbox, err);
        if (st)
            return st;
        r->sandboxed = true;
    }
    return find_data(r, p, err);
}

static hasten_status choose_tasks(struct task_run *r, struct hasten_error *err)
{
    int32_t lengths[MAX_LENGTHS], n_lengths = 0;
    hasten_status st = parse_lengths(r->args->length, lengths, &n_lengths, err);
    for (const char *at = r->args->task; !st;) {
        char name[64];
        const size_t n = strcspn(at, ",");
        bool found = false;
        snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), at);
        const struct eval_task *t;
        for (int i = 0; (t = eval_task_at(i)) && !st; i++) {
            if (!eval_task_in(t, name))
                continue;
            found = true;
            for (int32_t k = 0; k < (t->data_prefix ? 1 : n_lengths) && !st; k++)
                st = add_part(r, t, t->data_prefix ? 0 : lengths[k], err);
        }
        if (!st && !found)
            return unknown_task(name, err);
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    return st;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static int64_t count_tokens(void *ctx, const struct eval_item *item, struct hasten_error *err)
{
    const struct task_run *r = ctx;
    return eval_item_tokens(r->prompter, r->text.vocab, item, err);
}

static hasten_status open_part(struct task_run *r, struct part *p, struct hasten_error *err)
{
    const int32_t limit = r->args->limit;
    const struct eval_task_settings s = {.data = p->data,
                                         .length = p->length,
                                         .n_items = limit ? limit : DEFAULT_ITEMS,
                                         .seed = r->args->seed,
                                         .raw = r->prompter == NULL,
                                         .count = count_tokens,
                                         .count_ctx = r,
                                         .run = r->sandboxed ? sandbox_run : NULL,
                                         .run_ctx = &r->sandbox};
    hasten_status st = p->task->open(p->task, &s, &p->state, &p->n, err);
    if (st)
        return st;
    p->n = limit && limit < p->n ? limit : p->n;
    p->scores = mem_array((size_t)p->n + 1, sizeof *p->scores);
    p->items = json_object();
    for (int32_t i = 0; i < p->n && p->scores; i++)
        p->scores[i] = NAN;
    r->n_items += p->n;
    return p->scores && p->items ? HASTEN_OK : eval_no_memory(err);
}

/* Positions that the longest item of all takes. */
static hasten_status longest(struct task_run *r, int64_t *n, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    *n = 0;
    for (int32_t i = 0; i < r->n_parts && !st; i++) {
        struct part *p = &r->parts[i];
        if (p->length > 0) { /* made to fit */
            *n = p->length > *n ? p->length : *n;
            continue;
        }
        for (int32_t k = 0; k < p->n && !st; k++) {
            struct eval_item item = {0};
            st = p->task->item(p->state, k, &item, err);
            const int64_t took = st ? 0 : count_tokens(r, &item, err);
            *n = took > *n ? took : *n;
            st = took < 0 ? err->status : st;
            eval_item_clear(&item);
        }
    }
    return st;
}

static hasten_status open_model(struct task_run *r, struct hasten_engine_settings *settings,
                                const char *model, struct hasten_error *err)
{
    int64_t need;
    hasten_status st = longest(r, &need, err);
    if (st)
        return st;
    if (settings->n_ctx > 0 && need > settings->n_ctx)
        return error_set(err, HASTEN_ERR_FULL,
                         "eval: the longest item takes %lld tokens, the context holds %d "
                         "(expected -c %lld, or a shorter --length)",
                         (long long)need, (int)settings->n_ctx, (long long)need);
    if (settings->n_ctx == 0)
        settings->n_ctx = (int32_t)((need + 63) / 64 * 64);
    const int64_t room = AUTO_POSITIONS / settings->n_ctx, most = room < AUTO_PARALLEL ? room : AUTO_PARALLEL;
    r->n_parallel = r->args->parallel ? r->args->parallel : most > 1 ? (int32_t)most : 1;
    r->n_parallel = r->n_parallel > r->n_items ? (int32_t)r->n_items : r->n_parallel;
    settings->n_seq_max = r->n_parallel + (settings->n_seq_max > 1); /* a method may need one for branches */
    st = session_open(model, &r->args->model, settings, &r->args->ui, &r->session, err);
    if (!st) {
        hasten_seq_close(r->session.seq); /* the generator opens its own */
        r->session.seq = NULL;
    }
    return st;
}

static hasten_status open_run(struct task_run *r, struct hasten_engine_settings *settings, const char *model,
                              struct hasten_error *err)
{
    hasten_status st = choose_tasks(r, err);
    if (!st)
        st = model_text_open(model, &r->text, err);
    if (!st && !r->args->raw && prompter_open(r->text.gguf, r->text.vocab, &r->prompter, err))
        st = error_prefix(err, "%s", r->text.path.data);
    if (!st && !r->args->raw && !r->prompter)
        ui_note(&r->args->ui, "%s has no chat template: prompts are completed", r->text.path.data);
    for (int32_t i = 0; i < r->n_parts && !st; i++)
        st = open_part(r, &r->parts[i], err);
    return st ? st : open_model(r, settings, model, err);
}

/* ---- the log ------------------------------------------------------------------------------------------- */

static json_t *header_json(const struct task_run *r)
{
    return json_pack("{s:i, s:s, s:o, s:I, s:b, s:b}", "hasten_eval", 1, "model", r->session.path.data,
                     "variant", eval_variant_json(r->args, &r->session.settings), "seed",
                     (json_int_t)r->args->seed, "raw", r->prompter == NULL, "blind", r->args->blind);
}

static hasten_status write_line(struct task_run *r, const json_t *v, struct hasten_error *err)
{
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    if (!text)
        return eval_no_memory(err);
    struct buf line = {0};
    hasten_status st =
        buf_printf(&line, "%s\n", text) ? eval_no_memory(err) : file_write(r->log, line.data, line.len, err);
    buf_free(&line);
    mem_free(text);
    return st;
}

/* Takes the lines of an earlier run. What a killed run left of its last line is cut off. */
static hasten_status read_log(struct task_run *r, const char *text, size_t len, uint64_t *whole,
                              struct hasten_error *err)
{
    const char *path = r->args->log;
    hasten_status st = HASTEN_OK;
    *whole = 0;
    for (const char *at = text, *end; !st && (end = memchr(at, '\n', len - (size_t)(at - text)));
         at = end + 1) {
        json_t *v = NULL;
        st = json_parse(path, at, (size_t)(end - at), &v, err);
        const char *task = json_string_value(json_object_get(v, "task")),
                   *id = json_string_value(json_object_get(v, "id"));
        if (!st && *whole == 0 && !json_equal(v, r->header))
            st = error_set(
                err, HASTEN_ERR_USAGE,
                "eval: --log %s is of another model, variant, seed or --raw (expected the same, or a new file)",
                path);
        else if (!st && *whole > 0 && (!task || !id))
            st = error_set(err, HASTEN_ERR_FILE, "%s: byte %llu: no task and id (expected a log of eval)",
                           path, (unsigned long long)*whole);
        if (!st && *whole > 0) {
            struct buf key = {0};
            if (buf_printf(&key, "%s\n%s", task, id) || json_object_set(r->logged, key.data, v))
                st = eval_no_memory(err);
            buf_free(&key);
        }
        json_decref(v);
        *whole = (uint64_t)(end + 1 - text);
    }
    return st;
}

static hasten_status open_log(struct task_run *r, struct hasten_error *err)
{
    const char *path = r->args->log;
    r->header = header_json(r);
    r->logged = json_object();
    if (!r->header || !r->logged)
        return eval_no_memory(err);
    if (!path)
        return HASTEN_OK;
    char *text = NULL;
    size_t len = 0;
    uint64_t whole = 0;
    hasten_status st = file_exists(path) ? file_slurp(path, LIMIT_JSON_BYTES, &text, &len, err) : HASTEN_OK;
    if (!st)
        st = read_log(r, text ? text : "", len, &whole, err);
    mem_free(text);
    if (!st)
        st = file_open(path, FILE_APPEND, &r->log, err);
    if (!st && whole < len)
        st = file_truncate(r->log, whole, err);
    return st || whole > 0 ? st : write_line(r, r->header, err);
}

/* ---- items --------------------------------------------------------------------------------------------- */

static void count_item(struct task_run *r, struct part *p, int32_t index, const char *id, double score)
{
    p->scores[index] = score;
    p->n_done++;
    r->n_done++;
    json_put(&p->items, id, json_real(score));
}

/* Whether an item stands in the log, which is then believed. */
static bool take_logged(struct task_run *r, struct part *p, int32_t index, const struct eval_item *item,
                        hasten_status *st, struct hasten_error *err)
{
    struct buf key = {0};
    const json_t *v = NULL;
    if (buf_printf(&key, "%s\n%s", p->task->name, item->id.data))
        *st = eval_no_memory(err);
    else
        v = json_object_get(r->logged, key.data);
    buf_free(&key);
    if (!v)
        return false;
    if (!json_equal(json_object_get(v, "want"), item->want)) {
        *st = error_set(err, HASTEN_ERR_USAGE,
                        "eval: item %s of %s wants something else than in --log %s (expected the "
                        "same data)",
                        item->id.data, p->task->name, r->args->log);
        return true;
    }
    count_item(r, p, index, item->id.data, json_number_value(json_object_get(v, "score")));
    r->done_before++;
    return true;
}

static bool next_item(void *ctx, struct eval_item *item, int64_t *tag, hasten_status *st,
                      struct hasten_error *err)
{
    struct task_run *r = ctx;
    while (r->at_part < r->n_parts && !*st) {
        struct part *p = &r->parts[r->at_part];
        if (r->at_item >= p->n) {
            r->at_part++;
            r->at_item = 0;
            continue;
        }
        const int32_t index = r->at_item++;
        *tag = (int64_t)r->at_part << 32 | index;
        *st = p->task->item(p->state, index, item, err);
        if (!*st && !take_logged(r, p, index, item, st, err) && !*st)
            return true;
        eval_item_clear(item);
    }
    return false;
}

static hasten_status log_item(struct task_run *r, const struct part *p, const struct eval_answered *a,
                              const struct eval_score *score, struct hasten_error *err)
{
    json_t *answers = json_array(), *cut = json_array();
    for (int32_t i = 0; i < a->item.n_turns; i++) {
        json_add(&answers, json_bytes(a->answers[i].data ? a->answers[i].data : "", a->answers[i].len));
        json_add(&cut, json_boolean(a->cut[i]));
    }
    json_t *v = json_pack("{s:s, s:s, s:f, s:s, s:O, s:o, s:o, s:i, s:i}", "task", p->task->name, "id",
                          a->item.id.data, "score", score->score, "note", score->note, "want", a->item.want,
                          "answers", answers, "cut", cut, "prompt_n", (int)a->n_prompt, "predicted_n",
                          (int)a->n_predicted);
    hasten_status st = write_line(r, v, err);
    json_decref(v);
    return st;
}

static hasten_status take_answered(void *ctx, const struct eval_answered *a, struct hasten_error *err)
{
    struct task_run *r = ctx;
    struct part *p = &r->parts[a->tag >> 32];
    struct eval_score score = {0};
    hasten_status st = p->task->score(p->state, &a->item, a->answers, &score, err);
    if (!st && interrupt_seen()) /* what was cut short does not count */
        st = error_set(err, HASTEN_ERR_CANCELLED, "eval: interrupted");
    if (!st && r->log)
        st = log_item(r, p, a, &score, err);
    if (st)
        return st;
    count_item(r, p, (int32_t)(a->tag & INT32_MAX), a->item.id.data, score.score);
    r->n_prompt += a->n_prompt;
    r->n_predicted += a->n_predicted;
    ui_detail(&r->args->ui, "%s %s: %.3g%s%s", p->task->name, a->item.id.data, score.score,
              score.note[0] ? ", " : "", score.note);
    r->args->ui.progress_from = (uint64_t)r->done_before;
    ui_progress(&r->args->ui, "eval", (uint64_t)r->n_done, (uint64_t)r->n_items, "items", r->t0);
    return HASTEN_OK;
}

static hasten_status run_items(struct task_run *r, struct hasten_error *err)
{
    const struct eval_generator g = {.engine = r->session.engine,
                                     .n_parallel = r->n_parallel,
                                     .n_batch = r->session.settings.n_batch,
                                     .blind = r->args->blind,
                                     .prompter = r->prompter,
                                     .next = next_item,
                                     .done = take_answered,
                                     .ctx = r,
                                     .cancel = interrupt_arm()};
    r->t0 = clock_now_ns();
    hasten_status st = eval_generate(&g, err);
    ui_progress_end(&r->args->ui);
    interrupt_disarm();
    if (st == HASTEN_ERR_CANCELLED)
        error_set(err, st, "eval: interrupted after %lld of %lld items%s", (long long)r->n_done,
                  (long long)r->n_items, r->log ? " (the same command continues)" : "");
    return st;
}

/* ---- the result ---------------------------------------------------------------------------------------- */

static void mean_score(const void *ctx, const int32_t *weight, int32_t m, double *out)
{
    const double *x = ctx;
    out[0] = 0;
    for (int32_t i = 0; i < m; i++)
        out[0] += weight[i] * x[i] / m;
}

/* Scores of 0 and 1: Wilson's interval; others: bootstrap over items. */
static hasten_status summarize(const struct task_run *r, const struct part *p, struct eval_interval *out,
                               struct hasten_error *err)
{
    bool whole = true;
    int32_t right = 0;
    for (int32_t i = 0; i < p->n; i++) {
        whole &= p->scores[i] == 0 || p->scores[i] == 1;
        right += p->scores[i] == 1;
    }
    if (whole || p->n < 2) {
        *out = eval_wilson(right, p->n);
        out->value = p->n == 1 ? p->scores[0] : out->value;
        return HASTEN_OK;
    }
    const struct eval_bootstrap b = {.m = p->n,
                                     .resamples = r->args->resamples,
                                     .seed = r->args->seed,
                                     .n_stats = 1,
                                     .statistic = mean_score,
                                     .ctx = p->scores};
    return eval_bootstrap_run(&b, out, NULL, err);
}

static json_t *part_json(struct part *p, const struct eval_interval *score)
{
    return json_pack("{s:s, s:o, s:i, s:o, s:O}", "task", p->task->name, "length",
                     p->length ? json_integer(p->length) : json_null(), "n", (int)p->n, "score",
                     eval_interval_json(score), "items", p->items);
}

static int report(struct task_run *r, const struct eval_interval *scores)
{
    const double ms = (double)(clock_now_ns() - r->t0) / 1e6;
    const struct hasten_engine *e = r->session.engine;
    if (r->args->ui.json) {
        json_t *tasks = json_array(), *v = json_deep_copy(r->header);
        for (int32_t i = 0; i < r->n_parts; i++)
            json_add(&tasks, part_json(&r->parts[i], &scores[i]));
        json_put(&v, "tasks", tasks);
        json_put(&v, "kernels", json_string(hasten_engine_kernels(e)));
        json_put(&v, "threads", json_integer(hasten_engine_n_threads(e)));
        json_put(&v, "context", json_integer(hasten_engine_n_ctx(e)));
        json_put(&v, "parallel", json_integer(r->n_parallel));
        json_put(&v, "prompt_n", json_integer(r->n_prompt));
        json_put(&v, "predicted_n", json_integer(r->n_predicted));
        json_put(&v, "ms", json_real(ms));
        return cli_json(v);
    }
    printf("%-18s %8s %6s %9s   95 %% interval\n", "task", "length", "items", "score");
    for (int32_t i = 0; i < r->n_parts; i++) {
        const struct part *p = &r->parts[i];
        char length[16] = "";
        if (p->length)
            snprintf(length, sizeof length, "%d", (int)p->length);
        printf("%-18s %8s %6d %7.1f %%", p->task->name, length, (int)p->n, 1e2 * scores[i].value);
        if (isfinite(scores[i].lo))
            printf("   [%.1f, %.1f]", 1e2 * scores[i].lo, 1e2 * scores[i].hi);
        printf("\n");
    }
    printf("\nseed %" PRIu64 ", greedy, %s; %d at once, context %d; %" PRId64 " tokens read, %" PRId64
           " chosen",
           r->args->seed, r->prompter ? "chat template" : "raw", (int)r->n_parallel,
           (int)hasten_engine_n_ctx(e), r->n_prompt, r->n_predicted);
    if (r->done_before)
        printf("; %" PRId64 " items from %s", r->done_before, r->args->log);
    printf("\nengine %s, %d threads, %.0f ms\n", hasten_engine_kernels(e), (int)hasten_engine_n_threads(e),
           ms);
    return cli_finish(0);
}

static void close_run(struct task_run *r)
{
    for (int32_t i = 0; i < r->n_parts; i++) {
        struct part *p = &r->parts[i];
        if (p->state)
            p->task->close(p->state);
        mem_free(p->scores);
        mem_free(p->own_data);
        json_decref(p->items);
    }
    file_close(r->log);
    json_decref(r->header);
    json_decref(r->logged);
    buf_free(&r->names);
    if (r->sandboxed)
        sandbox_close(&r->sandbox);
    session_close(&r->session);
    prompter_close(r->prompter);
    model_text_close(&r->text);
}

int eval_tasks(struct eval_args *a, struct hasten_engine_settings *settings, const char *model)
{
    struct hasten_error err;
    struct eval_interval scores[MAX_PARTS];
    struct task_run *r = mem_calloc(1, sizeof *r);
    hasten_status st = r ? HASTEN_OK : eval_no_memory(&err);
    if (!st) {
        r->args = a;
        st = open_run(r, settings, model, &err);
    }
    if (!st)
        st = open_log(r, &err);
    if (!st)
        st = run_items(r, &err);
    for (int32_t i = 0; !st && i < r->n_parts; i++)
        st = summarize(r, &r->parts[i], &scores[i], &err);
    const int rc = st ? ui_fail(&r->args->ui, &err) : report(r, scores);
    if (r)
        close_run(r);
    mem_free(r);
    return rc;
}
