/* `hasten decide`: which of the candidates of a menu fits a text, and whether that is certain enough to act upon. */
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/session.h"
#include "engine/decide.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define SEQUENCES 16 /* candidates that share a pass */

struct decide_args {
    const char *prompt, *file, *menu, *decide;
    float margin;
    struct ui ui;
    struct model_args model;
};

static const struct option_def decide_defs[] = {
    {"prompt", "p", OPT_STRING, offsetof(struct decide_args, prompt), 0, 0, NULL, "TEXT",
     "what is to be decided about"},
    {"file", "f state", OPT_STRING, offsetof(struct decide_args, file), 0, 0, NULL, "FILE",
     "the same from a file; - is stdin, which is also read without -p and -f"},
    {"menu", NULL, OPT_STRING, offsetof(struct decide_args, menu), 0, 0, NULL, "FILE",
     "the candidates: a JSON array of texts, or a text on each line; - is stdin"},
    {"decide", NULL, OPT_STRING, offsetof(struct decide_args, decide), 0, 0, "pool", "NAME[:KNOB=V,...]",
     "the scorer: pool:temperature=0.1"},
    {"margin", NULL, OPT_FLOAT, offsetof(struct decide_args, margin), 0, 2, "0", "X",
     "certain when the best score is at least X above the next; else exit status 1"},
};

struct decision {
    const struct decide_args *args;
    struct ui *ui;
    struct buf path;
    struct hasten_model *model;
    struct hasten_engine *engine;
    json_t *menu;              /* array of strings */
    struct tokens ids;         /* of all texts, one behind the other: the candidates, then the state */
    struct hasten_text *texts; /* [n + 1] */
    float *score, *prob;       /* [n] */
    int32_t n, best;
    double margin;
};

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "decide: out of memory");
}

/* ---- texts ---- */

/* A JSON array of strings; else a candidate on each line that is not empty. */
static hasten_status parse_menu(struct decision *d, const char *name, const char *text, size_t len,
                                struct hasten_error *err)
{
    if (text[strspn(text, " \t\r\n")] == '[') {
        const hasten_status st = json_parse(name, text, len, &d->menu, err);
        for (size_t i = 0; !st && i < json_array_size(d->menu); i++) {
            const json_t *t = json_array_get(d->menu, i);
            if (!json_is_string(t) || !json_string_length(t))
                return error_set(err, HASTEN_ERR_FILE, "%s: element %zu is %s (expected a text)", name, i,
                                 json_is_string(t) ? "empty" : "not a string");
        }
        return st;
    }
    d->menu = json_array();
    for (size_t at = 0, end; at < len; at = end + 1) {
        const char *newline = memchr(text + at, '\n', len - at);
        end = newline ? (size_t)(newline - text) : len;
        const size_t n = end > at && text[end - 1] == '\r' ? end - at - 1 : end - at;
        if (n)
            json_add(&d->menu, json_bytes(text + at, n));
    }
    return d->menu ? HASTEN_OK : no_memory(err);
}

static hasten_status read_menu(struct decision *d, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    if (!d->args->menu)
        return error_set(err, HASTEN_ERR_USAGE, "decide: no menu (expected --menu FILE with the candidates)");
    const char *name = cli_input_name(d->args->menu);
    hasten_status st = file_slurp(d->args->menu, LIMIT_JSON_BYTES, &text, &len, err);
    if (!st)
        st = parse_menu(d, name, text, len, err);
    mem_free(text);
    const size_t n = json_array_size(d->menu);
    if (!st && (n < 2 || n > 65536))
        st = error_set(err, HASTEN_ERR_FILE, "%s: found %zu candidate%s (expected 2 to 65536)", name, n,
                       n == 1 ? "" : "s");
    d->n = (int32_t)n;
    return st;
}

static hasten_status add_text(struct decision *d, int32_t i, const char *text, size_t len,
                              struct hasten_error *err)
{
    const int64_t before = d->ids.n;
    const hasten_status st =
        vocab_encode(model_vocab(d->model), text, len, VOCAB_BOS | VOCAB_EOS, &d->ids, err);
    const int64_t n = d->ids.n - before, most = hasten_model_n_ctx_train(d->model);
    if (!st && (n < 1 || n > most))
        return error_set(err, n < 1 ? HASTEN_ERR_USAGE : HASTEN_ERR_FULL,
                         "decide: %s has %lld tokens (expected 1 to %lld)",
                         i < d->n ? "a candidate" : "the text", (long long)n, (long long)most);
    d->texts[i].n = (int32_t)n;
    return st;
}

static hasten_status read_texts(struct decision *d, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    hasten_status st = HASTEN_OK;
    d->texts = mem_calloc((size_t)d->n + 1, sizeof *d->texts);
    d->score = mem_array((size_t)d->n, sizeof *d->score);
    d->prob = mem_array((size_t)d->n, sizeof *d->prob);
    if (!d->texts || !d->score || !d->prob)
        return no_memory(err);
    for (int32_t i = 0; i < d->n && !st; i++) {
        const json_t *t = json_array_get(d->menu, (size_t)i);
        st = add_text(d, i, json_string_value(t), json_string_length(t), err);
    }
    if (!st && d->args->prompt)
        st = add_text(d, d->n, d->args->prompt, strlen(d->args->prompt), err);
    else if (!st &&
             !(st = file_slurp(d->args->file ? d->args->file : "-", LIMIT_TEXT_BYTES, &text, &len, err)))
        st = add_text(d, d->n, text, len, err);
    mem_free(text);
    const int32_t *at = d->ids.ids;
    for (int32_t i = 0; i <= d->n && !st; at += d->texts[i++].n)
        d->texts[i].tokens = at;
    return st;
}

/* ---- scores ---- */

static hasten_status open_engine(struct decision *d, const struct hasten_engine_settings *wanted,
                                 struct hasten_error *err)
{
    struct hasten_engine_settings s = *wanted;
    const struct hasten_method_use use = {.stage = "decide", .spec = d->args->decide};
    struct adapters adapters = {0};
    int32_t longest = 1;
    for (int32_t i = 0; i <= d->n; i++)
        longest = d->texts[i].n > longest ? d->texts[i].n : longest;
    s.n_threads = cli_threads(s.n_threads, d->ui);
    s.n_ctx = s.n_ctx ? s.n_ctx : longest;
    s.n_seq_max = d->n < SEQUENCES ? d->n : SEQUENCES;
    s.methods = &use;
    s.n_methods = 1;
    hasten_status st = adapters_open(&d->args->model.lora, d->model, &adapters, &s, err);
    if (!st)
        st = hasten_engine_open(d->model, &s, &d->engine, err);
    adapters_close(&adapters);
    return st;
}

static hasten_status judge(struct decision *d, const volatile int *cancel, struct hasten_error *err)
{
    struct method_use u;
    hasten_status st = method_parse(STAGE_DECIDE, d->args->decide, &u, err);
    if (st)
        return st;
    const struct decide_question q = {d->engine, d->model, &d->texts[d->n], d->texts, d->n, cancel};
    st = ((const struct decide_ops *)u.m->hosted)->score(u.state, &q, d->score, d->prob, err);
    method_use_close(&u);
    double next = -2;
    for (int32_t i = 1; i < d->n && !st; i++)
        d->best = d->score[i] > d->score[d->best] ? i : d->best;
    for (int32_t i = 0; i < d->n && !st; i++)
        next = i != d->best && (double)d->score[i] > next ? (double)d->score[i] : next;
    d->margin = st ? 0 : (double)d->score[d->best] - next;
    return st;
}

static int print(const struct decision *d)
{
    const bool certain = d->margin >= (double)d->args->margin;
    json_t *list = json_array();
    for (int32_t i = 0; i < d->n; i++)
        json_add(&list, json_pack("{s:O, s:f, s:f}", "text", json_array_get(d->menu, (size_t)i), "score",
                                  (double)d->score[i], "prob", (double)d->prob[i]));
    json_t *v = json_pack("{s:i, s:O, s:f, s:b, s:s, s:o}", "best", (int)d->best, "text",
                          json_array_get(d->menu, (size_t)d->best), "margin", d->margin, "certain", certain,
                          "decide", d->args->decide, "candidates", list);
    const int rc = cli_json(v);
    return rc ? rc : !certain;
}

/* ---- the command ---- */

static hasten_status decide(struct decision *d, const struct option_group *model_options, const char *model,
                            struct hasten_error *err)
{
    struct hasten_engine_settings settings;
    struct model_args args = d->args->model;
    hasten_status st = model_settings(&args, model_options, &settings, err);
    if (!st && d->args->menu && strcmp(d->args->menu, "-") == 0 && !d->args->prompt &&
        (!d->args->file || strcmp(d->args->file, "-") == 0))
        st = error_set(err, HASTEN_ERR_USAGE,
                       "decide: the menu and the text from stdin (expected one of them elsewhere)");
    if (!st)
        st = read_menu(d, err);
    if (!st)
        st = model_resolve(model, &d->path, err);
    if (!st)
        st = hasten_model_open(d->path.data, &d->model, err);
    if (!st)
        st = read_texts(d, err);
    const volatile int *cancel = interrupt_arm();
    if (!st)
        st = open_engine(d, &settings, err);
    if (!st)
        st = judge(d, cancel, err);
    interrupt_disarm();
    return st;
}

int cmd_decide(const struct command *c, int argc, char **argv)
{
    struct decide_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Decide:",
                                     .defs = decide_defs,
                                     .n = (int)(sizeof decide_defs / sizeof *decide_defs),
                                     .dst = &a,
                                     .exclusive = "prompt file"},
                                    model_group(&a.model)};
    struct hasten_error err;
    struct decision d = {.args = &a, .ui = &a.ui};
    const char *model;
    int rc = command_parse_model(c, &a.ui, groups, 3, &a.model, argc, argv, &model);
    if (rc >= 0)
        return rc;
    const hasten_status st = decide(&d, &groups[2], model, &err);
    rc = st ? ui_fail(&a.ui, &err) : print(&d);
    hasten_engine_close(d.engine);
    hasten_model_close(d.model);
    json_decref(d.menu);
    tokens_free(&d.ids);
    mem_free(d.texts);
    mem_free(d.score);
    mem_free(d.prob);
    buf_free(&d.path);
    options_free(groups, 3);
    return rc;
}
