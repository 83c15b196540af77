/* `hasten run`: where the prompt comes from, and how the answer leaves. One answer, a chat on a terminal, or
 * the turns of a file. */
#include "base/file.h"
#include "base/limits.h"
#include "cli/chat.h"
#include <jansson.h>
#include <string.h>
#include <unistd.h>

struct run_args {
    const char *prompt, *file, *system, *turns, *history;
    bool raw;
    struct prompt_cache cache;
    struct ui ui;
    struct model_args model;
    struct sample_args sample;
};

static const struct option_def run_defs[] = {
    {"prompt", "p", OPT_STRING, offsetof(struct run_args, prompt), 0, 0, NULL, "TEXT", "the prompt"},
    {"file", "f", OPT_STRING, offsetof(struct run_args, file), 0, 0, NULL, "FILE",
     "the prompt from a file; - is stdin"},
    {"system", "sys", OPT_STRING, offsetof(struct run_args, system), 0, 0, NULL, "TEXT", "system prompt"},
    {"raw", NULL, OPT_FLAG, offsetof(struct run_args, raw), 0, 0, NULL, NULL,
     "plain completion, without the chat template"},
    {"turns", NULL, OPT_STRING, offsetof(struct run_args, turns), 0, 0, NULL, "FILE",
     "a JSON array of user messages, answered in turn as JSON lines"},
    {"prompt-cache", NULL, OPT_STRING, offsetof(struct run_args, cache) + offsetof(struct prompt_cache, path),
     0, 0, NULL, "FILE", "begin with what FILE holds of the prompt, and keep this prompt in it"},
    {"prompt-cache-all", NULL, OPT_FLAG,
     offsetof(struct run_args, cache) + offsetof(struct prompt_cache, all), 0, 0, NULL, NULL,
     "keep the answer in it too"},
    {"prompt-cache-ro", NULL, OPT_FLAG,
     offsetof(struct run_args, cache) + offsetof(struct prompt_cache, read_only), 0, 0, NULL, NULL,
     "read it, never write it"},
    {"history", NULL, OPT_STRING, offsetof(struct run_args, history), 0, 0, NULL, "FILE",
     "of a chat: keep the lines typed in it [they are not kept]"},
};

static int show_on_stdout(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    return cli_out(bytes, len);
}

static int exit_of(const struct answer *a)
{
    return a->finish == FINISH_INTERRUPTED ? 130 : 0;
}

/* Says that the answer could not go on, and returns the exit status for it; else rc. */
static int dead_end(const struct answer *a, int rc)
{
    struct hasten_error err;
    if (rc || a->finish != FINISH_GRAMMAR)
        return rc;
    error_set(&err, HASTEN_ERR_NON_FINITE,
              "run: the grammar allows no token behind %zu bytes of the answer (expected a vocabulary that "
              "can write what it says, and no bias against that)",
              a->text.len);
    return cli_fail(&err);
}

static int answer_once(struct chat *c, const char *text, size_t len)
{
    struct answer a = {0};
    struct hasten_error err;
    bool json = c->ui->json;
    int rc;
    hasten_status st = chat_turn(c, text, len, json ? NULL : show_on_stdout, NULL, &a, &err);
    if (st) {
        rc = ui_fail(c->ui, &err);
    } else if (json) {
        rc = cli_json(answer_json(c->session, c->law, &a));
        rc = rc ? rc : exit_of(&a);
    } else {
        if (isatty(STDOUT_FILENO))
            cli_out("\n", 1);
        rc = cli_finish(exit_of(&a));
        ui_detail(c->ui, "%d tokens read in %.0f ms, %d written in %.0f ms (%.1f a second), seed %llu",
                  (int)(a.prompt_n - a.cached_n), a.prompt_ms, (int)a.predicted_n, a.predicted_ms,
                  a.predicted_ms > 0 ? 1e3 * (a.predicted_n - 1) / a.predicted_ms : 0,
                  (unsigned long long)c->law->settings.seed);
    }
    rc = st ? rc : dead_end(&a, rc);
    if (!rc && c->session->cache.failed.status) {
        rc = cli_fail(&c->session->cache.failed);
        c->session->cache.path = NULL;
    }
    answer_free(&a);
    return rc;
}

/* The user messages of a file: an array of strings, none empty. */
static hasten_status read_turns(const char *path, json_t **out, struct hasten_error *err)
{
    const char *name = cli_input_name(path);
    hasten_status st = cli_read_json(path, out, err);
    if (!st && !json_is_array(*out))
        st = error_set(err, HASTEN_ERR_FILE, "%s: not a JSON array (expected an array of user messages)",
                       name);
    for (size_t i = 0; i < json_array_size(*out) && !st; i++) {
        const json_t *t = json_array_get(*out, i);
        if (!json_is_string(t) || json_string_length(t) == 0)
            st = error_set(err, HASTEN_ERR_FILE, "%s: element %zu is %s (expected a user message)", name, i,
                           json_is_string(t) ? "empty" : "not a string");
    }
    return st;
}

static int answer_turns(struct chat *c, const char *path)
{
    struct hasten_error err;
    json_t *turns = NULL;
    int rc = read_turns(path, &turns, &err) ? cli_fail(&err) : 0;
    c->ui->json = true;
    for (size_t i = 0; i < json_array_size(turns) && !rc; i++) {
        const json_t *t = json_array_get(turns, i);
        rc = answer_once(c, json_string_value(t), json_string_length(t));
    }
    json_decref(turns);
    return rc;
}

/* The prompt of a run: -p, -f or stdin. *text stays NULL when it is to be a chat. */
static hasten_status find_prompt(const struct run_args *a, char **text, size_t *len, struct hasten_error *err)
{
    if (a->turns)
        return HASTEN_OK;
    if (a->prompt) {
        *text = mem_strndup(a->prompt, strlen(a->prompt));
        *len = strlen(a->prompt);
        return *text ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "run: out of memory");
    }
    if (!a->file && isatty(STDIN_FILENO))
        return HASTEN_OK;
    return file_slurp(a->file ? a->file : "-", LIMIT_TEXT_BYTES, text, len, err);
}

/* Not system_on_line: the system prompt is the environment's, and a model that cannot hold one goes without. */
static int run_with(struct run_args *a, bool system_on_line, struct session *s, struct sampling *law,
                    const char *text, size_t len)
{
    struct chat c = {0};
    struct hasten_error err;
    hasten_status st = chat_open(&c, s, law, &a->ui, a->raw, system_on_line ? a->system : NULL, &err);
    if (!st && a->system && !system_on_line && c.prompter && chat_restart(&c, a->system, &err)) {
        st = err.status;
        chat_close(&c);
    }
    if (!st && text && len == 0 && c.prompter) {
        st = error_set(&err, HASTEN_ERR_USAGE, "run: empty prompt (expected text; --raw takes none)");
        chat_close(&c);
    }
    if (st)
        return ui_fail(&a->ui, &err);
    int rc = a->turns ? answer_turns(&c, a->turns)
             : text   ? answer_once(&c, text, len)
                      : chat_loop(&c, a->history);
    chat_close(&c);
    return rc;
}

/* Options that would have no effect. An environment variable without effect is no error. */
static hasten_status check_use(const struct run_args *a, const struct option_group *groups, bool chat,
                               struct hasten_error *err)
{
    if (chat && option_on_line(&groups[0], "json"))
        return error_set(err, HASTEN_ERR_USAGE, "run: --json in a chat (expected -p, -f or --turns with it)");
    if (!chat && option_on_line(&groups[1], "history"))
        return error_set(err, HASTEN_ERR_USAGE,
                         "run: --history without a chat (expected no prompt, on a terminal)");
    if (a->cache.path && !a->cache.path[0])
        return error_set(err, HASTEN_ERR_USAGE,
                         "run: option --prompt-cache: '' (expected the name of a file)");
    if (!a->cache.path &&
        (option_on_line(&groups[1], "prompt-cache-all") || option_on_line(&groups[1], "prompt-cache-ro")))
        return error_set(err, HASTEN_ERR_USAGE,
                         "run: --prompt-cache-all or -ro without --prompt-cache (expected a FILE)");
    if (option_on_line(&groups[3], "logprobs") && !a->ui.json && !a->turns)
        return error_set(err, HASTEN_ERR_USAGE, "run: --logprobs without --json (expected both)");
    const char *rules = a->sample.grammar ? a->sample.grammar : a->sample.json_schema;
    if (rules && strcmp(rules, "-") == 0 && !a->prompt && !a->turns &&
        (!a->file || strcmp(a->file, "-") == 0))
        return error_set(err, HASTEN_ERR_USAGE,
                         "run: the %s and the prompt from stdin (expected one of them elsewhere)",
                         a->sample.grammar ? "grammar" : "JSON schema");
    return HASTEN_OK;
}

static void note_long_context(struct run_args *a, const struct session *s)
{
    int32_t n_ctx = hasten_engine_n_ctx(s->engine), trained = hasten_model_n_ctx_train(s->model);
    if (n_ctx > trained)
        ui_note(&a->ui, "a context of %d tokens is longer than the %d the model was trained on", (int)n_ctx,
                (int)trained);
}

static int run(struct run_args *a, struct option_group *groups, const struct option_positionals *pos)
{
    struct hasten_error err;
    struct hasten_engine_settings settings;
    struct session s = {0};
    struct sampling law = {0};
    char *text = NULL;
    size_t len = 0;
    const char *model = model_argument(&a->model, pos, &err);
    hasten_status st = model ? HASTEN_OK : HASTEN_ERR_USAGE;
    if (!st)
        st = model_settings(&a->model, &groups[2], &settings, &err);
    if (!st)
        st = find_prompt(a, &text, &len, &err);
    if (!st)
        st = check_use(a, groups, !text && !a->turns, &err);
    if (!st)
        st = sampling_take_grammar(&a->sample, &a->model.methods, &law, &err);
    if (!st)
        st = session_open(model, &a->model, &settings, &a->ui, &s, &err);
    if (!st)
        st = sampling_open(&a->sample, &groups[3], &s, &law, &err);
    if (!st)
        note_long_context(a, &s);
    s.cache = a->cache;
    if (!st)
        st = prompt_cache_load(&s, &a->ui, &err);
    int rc =
        st ? ui_fail(&a->ui, &err) : run_with(a, option_on_line(&groups[1], "system"), &s, &law, text, len);
    sampling_close(&law);
    session_close(&s);
    mem_free(text);
    return rc;
}

int cmd_run(const struct command *c, int argc, char **argv)
{
    struct run_args a = {0};
    sample_args_init(&a.sample);
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Prompt:",
                                     .defs = run_defs,
                                     .n = sizeof run_defs / sizeof *run_defs,
                                     .dst = &a,
                                     .exclusive = "prompt file turns|raw system"},
                                    model_group(&a.model),
                                    sample_group(&a.sample),
                                    methods_group(&a.model.methods, METHODS_ANSWERS)};
    struct option_positionals pos;
    int rc = command_parse(c, &a.ui, groups, 5, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    rc = run(&a, groups, &pos);
    options_free(groups, 5);
    return rc;
}
