/* `hasten tune`: searches what makes answers to a workload faster (src/tune/), and writes it as a profile with its
 * receipt. Owns the options, the progress, the report and the two files. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/hash.h"
#include "cli/receipts.h"
#include "cli/session.h"
#include "tune/measure.h"
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define POSITIONS_BEYOND 64 /* room for what is proposed behind an answer's end */
#define SEARCH_SHARE 0.65   /* of the time: the rest is for the last judgement */
#define ROUND_PROMPTS 2     /* of the first round */

struct tune_args {
    const char *workload, *half, *out;
    float max_kl;
    uint64_t budget_ms;
    struct ui ui;
    struct model_args model;
};

#define AT(field) offsetof(struct tune_args, field)
static const struct option_def tune_defs[] = {
    {"workload", "w", OPT_STRING, AT(workload), 0, 0, NULL, "NAME",
     "what to be fast at: chat, code, rag, longdoc, agent, or a file of that form"},
    {"half", NULL, OPT_STRING, AT(half), 0, 0, NULL, "NAME", "one half of it (code: edit, fresh)"},
    {"max-kl", NULL, OPT_FLOAT, AT(max_kl), 0, 100, "0", "X",
     "damage allowed, in nats a token; 0: answers stay the plain engine's"},
    {"budget", NULL, OPT_DURATION, AT(budget_ms), 1, 86400, "10m", "TIME", "about how long it may take"},
    {"output", "o", OPT_STRING, AT(out), 0, 0, NULL, "FILE",
     "the profile [profiles/MODEL-WORKLOAD.yaml in the folder of the user's data]"},
};

struct tune_run_state {
    struct tune_args *a;
    const char *model_arg;
    struct buf path; /* of the model */
    struct model_text text;
    struct workload *workload;
    struct prompter *prompter;
    struct prompts tune, held;
    struct hasten_model *model;
    struct adapters adapters;
    struct tune_bench bench;
    struct tune_search search;
    struct buf doing;  /* what the search is at */
    int64_t n_answers; /* timed so far */
    uint64_t t0;
    struct buf profile, receipt; /* paths */
    char sha256[65];
};

/* ---- the search ----------------------------------------------------------------------------------------------- */

/* Of as many answers as the budget has room for at the rate so far. */
static void show_answers(void *ctx, int32_t n)
{
    struct tune_run_state *r = ctx;
    const double spent = (double)(clock_now_ns() - r->t0) * 1e-9, budget = (double)r->a->budget_ms * 1e-3;
    r->n_answers += n;
    const double total = spent > 0 ? (double)r->n_answers * budget / spent : 0;
    ui_progress(&r->a->ui, r->doing.data ? r->doing.data : "tune", (uint64_t)r->n_answers,
                total > (double)r->n_answers ? (uint64_t)total : (uint64_t)r->n_answers, "answers", r->t0);
}

static void show_progress(void *ctx, const struct tune_candidate *c, const char *what)
{
    struct tune_run_state *r = ctx;
    const uint64_t spent = (clock_now_ns() - r->t0) / 1000000000u;
    buf_clear(&r->doing);
    buf_printf(&r->doing, "%s ", what);
    tune_describe(c, &r->doing);
    ui_progress_end(&r->a->ui);
    ui_detail(&r->a->ui, "%4llu s  %s", (unsigned long long)spent, r->doing.data ? r->doing.data : what);
    show_answers(r, 0);
}

static hasten_status read_workload(struct tune_run_state *r, struct hasten_error *err)
{
    const struct tune_args *a = r->a;
    hasten_status st = workload_open(a->workload, &r->workload, err);
    if (!st)
        st = model_text_open(r->model_arg, &r->text, err);
    if (!st && prompter_open(r->text.gguf, r->text.vocab, &r->prompter, err))
        st = error_prefix(err, "%s", r->text.path.data);
    if (!st)
        st = prompts_open(r->workload, r->prompter, r->text.vocab, a->half, PROMPTS_TUNE, 0, &r->tune, err);
    if (!st)
        st = prompts_open(r->workload, r->prompter, r->text.vocab, a->half, PROMPTS_HELD, 0, &r->held, err);
    return st;
}

static hasten_status settle(struct tune_run_state *r, struct hasten_engine_settings *s,
                            struct hasten_error *err)
{
    const int64_t longest = r->tune.longest > r->held.longest ? r->tune.longest : r->held.longest,
                  need = longest + POSITIONS_BEYOND;
    if (s->n_ctx == 0)
        s->n_ctx = (int32_t)(need < LIMIT_CONTEXT ? need : LIMIT_CONTEXT);
    if (longest > s->n_ctx)
        return error_set(err, HASTEN_ERR_USAGE,
                         "tune: prompts and answers need %lld positions (expected at most -c %d)",
                         (long long)longest, (int)s->n_ctx);
    s->n_threads = cli_threads(s->n_threads, &r->a->ui);
    const struct hasten_model_settings how = {.copy = r->a->model.no_mmap, .lock = r->a->model.mlock};
    hasten_status st = model_resolve(r->model_arg, &r->path, err);
    if (!st)
        st = hasten_model_open_with(r->path.data, &how, &r->model, err);
    if (!st && hasten_model_is_encoder(r->model))
        st = error_set(err, HASTEN_ERR_UNSUPPORTED,
                       "tune: unsupported with an encoder (expected a model that answers)");
    return st ? st : adapters_open(&r->a->model.lora, r->model, &r->adapters, s, err);
}

static hasten_status search(struct tune_run_state *r, const struct hasten_engine_settings *s,
                            struct hasten_error *err)
{
    const double budget = (double)r->a->budget_ms * 1e-3;
    const double max_kl = (double)r->a->max_kl;
    r->bench = (struct tune_bench){.model = r->model,
                                   .settings = *s,
                                   .tune = &r->tune,
                                   .held = &r->held,
                                   .cancel = interrupt_arm(),
                                   .progress = show_progress,
                                   .answered = show_answers,
                                   .progress_ctx = r};
    hasten_status st = tune_candidates(&r->search, s->n_threads, max_kl, err);
    int32_t n = 0;
    for (int32_t i = 0; i < r->search.n; i++)
        n += r->search.c[i].verdict == TUNE_OPEN;
    if (!st)
        st = tune_bench_open(&r->bench, n, budget, err);
    const uint64_t opened = clock_now_ns(); /* however long that took, something is to be measured */
    r->bench.late_ns = opened + (uint64_t)(SEARCH_SHARE * budget * 1e9);
    r->bench.end_ns = opened + (uint64_t)(budget * 1e9);
    const struct tune_ops ops = tune_bench_ops(&r->bench);
    const struct tune_settings how = {.max_kl = max_kl,
                                      .n_tune = r->tune.n,
                                      .n_held = r->held.n,
                                      .least = ROUND_PROMPTS,
                                      .repeat = r->held.n < 6 ? 2 : 1};
    if (!st)
        st = tune_run(&r->search, &how, &ops, err);
    ui_progress_end(&r->a->ui);
    interrupt_disarm();
    return st == HASTEN_ERR_CANCELLED ? error_set(err, st, "tune: interrupted") : st;
}

/* ---- the files ------------------------------------------------------------------------------------------------ */

static void today(char out[16])
{
    const time_t now = (time_t)clock_unix_s();
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(out, 16, "%Y-%m-%d", &tm);
}

/* The model's name in names of files: its argument without folders and suffix. */
static hasten_status short_name(const struct tune_run_state *r, struct buf *out, struct hasten_error *err)
{
    const char *texts[] = {r->model_arg, r->workload->name};
    int rc = 0;
    for (int i = 0; i < 2; i++) {
        const char *base = strrchr(texts[i], '/'), *at = base ? base + 1 : texts[i], *dot = strrchr(at, '.');
        const size_t n =
            dot && (strcmp(dot, ".gguf") == 0 || strcmp(dot, ".txt") == 0) ? (size_t)(dot - at) : strlen(at);
        rc |= i ? buf_putc(out, '-') : 0;
        for (size_t j = 0; j < n; j++)
            rc |= buf_putc(out, strchr("/:\\ \"'", at[j]) ? '-' : at[j]);
    }
    return rc ? error_set(err, HASTEN_ERR_MEMORY, "tune: out of memory") : HASTEN_OK;
}

static hasten_status name_files(struct tune_run_state *r, struct hasten_error *err)
{
    struct buf name = {0}, folder = {0};
    hasten_status st = short_name(r, &name, err);
    if (!st && !receipts_folder(&r->receipt))
        st = error_set(err, HASTEN_ERR_USAGE,
                       "tune: no folder for the user's data (expected HOME or XDG_DATA_HOME)");
    if (!st && r->a->out)
        buf_puts(&r->profile, r->a->out);
    else if (!st) { /* beside the receipts */
        buf_printf(&folder, "%.*sprofiles", (int)(strlen(r->receipt.data) - strlen("receipts")),
                   r->receipt.data);
        buf_printf(&r->profile, "%s/%s.yaml", folder.data ? folder.data : "", name.data);
        st = file_mkdirs(folder.data ? folder.data : ".", err);
    }
    if (!st)
        st = file_mkdirs(r->receipt.data, err);
    if (!st && (buf_printf(&r->receipt, "/tune-%s.json", name.data) || !r->profile.data))
        st = error_set(err, HASTEN_ERR_MEMORY, "tune: out of memory");
    buf_free(&name);
    buf_free(&folder);
    return st;
}

/* Beside it, then in its place. */
static hasten_status write_whole(const char *path, const struct buf *text, struct hasten_error *err)
{
    struct buf part = {0};
    struct file *f = NULL;
    hasten_status st = buf_printf(&part, "%s.part", path)
                           ? error_set(err, HASTEN_ERR_MEMORY, "tune: out of memory")
                           : HASTEN_OK;
    if (!st)
        st = file_open(part.data, FILE_WRITE_TRUNC, &f, err);
    if (!st)
        st = file_write(f, text->data, text->len, err);
    if (!st)
        st = file_sync(f, err);
    file_close(f);
    if (!st)
        st = file_rename(part.data, path, err);
    buf_free(&part);
    return st;
}

static const char *kv_name(int32_t type)
{
    static const char *const names[] = {"f16", "f32", "bf16", "q8", "q4"};
    return names[type];
}

static void put_options(const struct tune_candidate *c, struct buf *out)
{
    for (int stage = 0; stage < METHOD_STAGES; stage++) {
        bool any = false;
        for (int32_t i = 0; i < c->n_use; i++) {
            if ((int)c->use[i].m->stage != stage)
                continue;
            if (!any)
                buf_printf(out, "%s:\n", method_stage_option((enum method_stage)stage));
            any = true;
            buf_printf(out, "  - \"%s%s%s\"\n", c->use[i].m->name, *c->use[i].knobs ? ":" : "",
                       c->use[i].knobs);
        }
    }
    if (c->n_threads)
        buf_printf(out, "threads: %d\n", (int)c->n_threads);
    if (c->n_batch)
        buf_printf(out, "batch-size: %d\n", (int)c->n_batch);
    if (c->kv_type >= 0)
        buf_printf(out, "cache-type: %s\n", kv_name(c->kv_type));
}

static hasten_status write_profile(const struct tune_run_state *r, const struct tune_candidate *c,
                                   struct hasten_error *err)
{
    const struct gain *g = &c->held;
    struct buf out = {0};
    char date[16];
    today(date);
    buf_printf(&out, "# Found by `hasten tune %s --workload %s --max-kl %g` on %s; %s, %d threads.\n",
               r->model_arg, r->workload->name, (double)r->a->max_kl, date, cpu_name(),
               (int)r->bench.settings.n_threads);
    buf_printf(
        &out,
        "# Whole answers %.2f x as fast as the plain engine's (%.2f to %.2f), on %d held-out answers.\n",
        g->answer.value, g->answer.lo, g->answer.hi, (int)g->n);
    if (c->exact)
        buf_puts(&out, "# The answers are the plain engine's, token by token.\n");
    else
        buf_printf(&out,
                   "# Damage: KL %.4f nats a token (up to %.4f), %.1f %% of the likeliest tokens the same.\n",
                   c->kl.value, c->kl.hi, 100 * c->top1);
    buf_printf(&out, "# Receipt: %s\n", r->receipt.data);
    put_options(c, &out);
    const hasten_status st = out.data ? write_whole(r->profile.data, &out, err)
                                      : error_set(err, HASTEN_ERR_MEMORY, "tune: out of memory");
    buf_free(&out);
    return st;
}

static json_t *ratio_json(const struct eval_interval *v)
{
    return json_pack("{s:{s:f, s:f, s:f, s:f}}", "ratio", "median", v->value, "lo",
                     isfinite(v->lo) ? v->lo : v->value, "hi", isfinite(v->hi) ? v->hi : v->value, "level",
                     isfinite(v->lo) ? EVAL_LEVEL : 0.0);
}

static json_t *span_json(const struct eval_interval *v)
{
    return json_pack("{s:f, s:f, s:f}", "value", v->value, "lo", isfinite(v->lo) ? v->lo : v->value, "hi",
                     isfinite(v->hi) ? v->hi : v->value);
}

static json_t *damage_json(const struct tune_candidate *c)
{
    if (c->exact)
        return json_pack("{s:b, s:{s:f, s:f, s:f}, s:{s:f, s:f, s:f}}", "exact", true, "kl", "value", 0.0,
                         "lo", 0.0, "hi", 0.0, "top1_agreement", "value", 1.0, "lo", 1.0, "hi", 1.0);
    return json_pack("{s:b, s:o, s:{s:f, s:f, s:f}}", "exact", false, "kl", span_json(&c->kl),
                     "top1_agreement", "value", c->top1, "lo", c->top1, "hi", c->top1);
}

/* All knobs of what was chosen, as receipts say them. */
static json_t *knobs_json(const struct tune_run_state *r, const struct tune_candidate *c)
{
    struct hasten_method_use uses[TUNE_MAX_USES];
    struct hasten_engine_settings s;
    json_t *list = json_array();
    tune_settings_of(&r->bench, c, uses, &s);
    for (int32_t i = 0; i < c->n_use; i++) {
        struct method_use u;
        struct buf text = {0};
        struct hasten_error err;
        if (method_parse_knobs(c->use[i].m, c->use[i].knobs, &u, &err))
            continue;
        buf_printf(&text, "%s ", method_stage_name(c->use[i].m->stage));
        method_describe(&u, &text);
        json_add(&list, json_bytes(text.data ? text.data : "", text.len));
        method_use_close(&u);
        buf_free(&text);
    }
    return list;
}

static hasten_status write_receipt(const struct tune_run_state *r, const struct tune_candidate *c,
                                   struct hasten_error *err)
{
    struct buf name = {0}, out = {0}, command = {0};
    char date[16];
    today(date);
    tune_describe(c, &name);
    buf_printf(&command, "hasten tune %s --workload %s --max-kl %g", r->model_arg, r->workload->name,
               (double)r->a->max_kl);
    json_t *v = json_pack("{s:i, s:s, s:o, s:s, s:s, s:n, s:s}", "schema", 1, "method",
                          name.data ? name.data : "", "knobs", knobs_json(r, c), "model", r->model_arg,
                          "model_sha256", r->sha256, "commit", "date", date);
    json_put(&v, "machine",
             json_pack("{s:s, s:i, s:s}", "cpu", cpu_name(), "threads", (int)r->bench.settings.n_threads,
                       "kernels", hasten_engine_kernels(r->bench.engine)));
    json_put(
        &v, "workload",
        json_pack("{s:s, s:s, s:i}", "name", r->workload->name, "part", "held", "answers", (int)c->held.n));
    json_t *gain = json_pack("{s:o}", "answer", ratio_json(&c->held.answer));
    if (isfinite(c->held.decode.value))
        json_put(&gain, "decode", ratio_json(&c->held.decode));
    json_put(&gain, "prefill", ratio_json(&c->held.prompt));
    json_put(&v, "gain", gain);
    json_put(&v, "damage", damage_json(c));
    json_put(&v, "commands", json_pack("[s]", command.data ? command.data : ""));
    char *text = v ? json_dumps(v, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    hasten_status st = !text || buf_printf(&out, "%s\n", text)
                           ? error_set(err, HASTEN_ERR_MEMORY, "tune: out of memory")
                           : write_whole(r->receipt.data, &out, err);
    mem_free(text);
    json_decref(v);
    buf_free(&name);
    buf_free(&out);
    buf_free(&command);
    return st;
}

/* ---- the report ----------------------------------------------------------------------------------------------- */

static json_t *gain_json(const struct gain *g)
{
    if (g->n == 0)
        return json_null();
    const struct eval_interval *v = &g->answer;
    return json_pack("{s:i, s:f, s:o, s:o}", "n", (int)g->n, "value", v->value, "lo",
                     isfinite(v->lo) ? json_real(v->lo) : json_null(), "hi",
                     isfinite(v->hi) ? json_real(v->hi) : json_null());
}

static int print_json(const struct tune_run_state *r)
{
    static const char *const verdicts[] = {"open", "rejected", "chosen"};
    json_t *list = json_array(), *chosen = json_null();
    for (int32_t i = 0; i < r->search.n; i++) {
        const struct tune_candidate *c = &r->search.c[i];
        struct buf name = {0};
        tune_describe(c, &name);
        if (i == r->search.chosen)
            chosen = json_bytes(name.data ? name.data : "", name.len);
        json_add(&list,
                 json_pack("{s:o, s:s, s:s, s:b, s:o, s:o, s:o}", "name",
                           json_bytes(name.data ? name.data : "", name.len), "verdict", verdicts[c->verdict],
                           "why", c->why, "exact", c->exact, "gain", gain_json(&c->gain), "held",
                           gain_json(&c->held), "kl", c->measured_kl ? span_json(&c->kl) : json_null()));
        buf_free(&name);
    }
    const bool found = r->search.chosen >= 0;
    return cli_json(json_pack("{s:s, s:s, s:f, s:o, s:o, s:o, s:f, s:o}", "model", r->path.data, "workload",
                              r->workload->name, "max_kl", (double)r->a->max_kl, "chosen", chosen, "profile",
                              found ? json_string(r->profile.data) : json_null(), "receipt",
                              found ? json_string(r->receipt.data) : json_null(), "seconds",
                              (double)(clock_now_ns() - r->t0) * 1e-9, "candidates", list));
}

static void print_candidate(const struct tune_candidate *c)
{
    struct buf name = {0};
    tune_describe(c, &name);
    printf("%-42s ", name.data ? name.data : "");
    if (c->gain.n)
        printf("%6.3f x on %-3d ", c->gain.answer.value, (int)c->gain.n);
    else
        printf("%15s ", "");
    printf("%s\n", c->verdict == TUNE_CHOSEN ? "chosen" : c->why);
    buf_free(&name);
}

static bool was_tried(const struct tune_candidate *c)
{
    return c->gain.n || strncmp(c->why, "not tried", 9) != 0;
}

/* What was not even tried, by the reason. */
static void print_untried(const struct tune_search *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        const struct tune_candidate *c = &s->c[i];
        struct buf names = {0};
        bool before = was_tried(c);
        for (int32_t j = 0; j < i; j++)
            before |= strcmp(s->c[j].why, c->why) == 0;
        for (int32_t j = i; j < s->n && !before; j++)
            if (strcmp(s->c[j].why, c->why) == 0) {
                buf_puts(&names, j > i ? ", " : "");
                tune_describe(&s->c[j], &names);
            }
        if (!before)
            printf("\n%s:\n    %s\n", c->why, names.data ? names.data : "");
        buf_free(&names);
    }
}

static int print_table(const struct tune_run_state *r)
{
    const struct tune_search *s = &r->search;
    printf("%s, workload %s: %d prompts to tune on, %d held out; %d threads, %d rounds, %.0f s\n",
           r->path.data, r->workload->name, (int)r->tune.n, (int)r->held.n, (int)r->bench.settings.n_threads,
           (int)s->rounds, (double)(clock_now_ns() - r->t0) * 1e-9);
    printf("gain: time of the plain engine for a whole answer, over time with it\n\n");
    for (int32_t i = 0; i < s->n; i++)
        if (was_tried(&s->c[i]))
            print_candidate(&s->c[i]);
    print_untried(s);
    if (s->chosen < 0) {
        printf("\nnothing is shown to be faster than the plain engine: no profile is written\n");
        return cli_finish(1);
    }
    const struct tune_candidate *c = &s->c[s->chosen];
    printf("\non held-out answers: whole %.3f x plain (%.3f to %.3f)", c->held.answer.value,
           c->held.answer.lo, c->held.answer.hi);
    if (isfinite(c->held.decode.value))
        printf(", decode %.3f (%.3f to %.3f)", c->held.decode.value, c->held.decode.lo, c->held.decode.hi);
    if (c->measured_kl)
        printf(", KL %.4f (up to %.4f)", c->kl.value, c->kl.hi);
    printf("\nreceipt %s\nprofile, for --profile:\n%s\n", r->receipt.data, r->profile.data);
    return cli_finish(0);
}

/* ---- the command ---------------------------------------------------------------------------------------------- */

static bool hash_cancelled(void *ctx, uint64_t done)
{
    (void)ctx, (void)done;
    return interrupt_seen();
}

static hasten_status tune(struct tune_run_state *r, struct hasten_engine_settings *s,
                          struct hasten_error *err)
{
    r->t0 = clock_now_ns();
    if (r->a->out) { /* found out before ten minutes of work */
        const hasten_status may = file_may_create(r->a->out, err);
        if (may)
            return may;
    }
    hasten_status st = read_workload(r, err);
    if (!st)
        st = settle(r, s, err);
    if (!st)
        st = search(r, s, err);
    if (st || r->search.chosen < 0)
        return st;
    const struct tune_candidate *c = &r->search.c[r->search.chosen];
    snprintf(r->sha256, sizeof r->sha256, "%064d", 0); /* scripted models, folders: no one file */
    if (file_kind(r->path.data) == FILE_REGULAR)
        st = hash_sha256(r->path.data, r->sha256, hash_cancelled, NULL, err);
    if (!st)
        st = name_files(r, err);
    if (!st)
        st = write_receipt(r, c, err);
    return st ? st : write_profile(r, c, err);
}

static void close_state(struct tune_run_state *r)
{
    tune_bench_close(&r->bench);
    tune_search_free(&r->search);
    adapters_close(&r->adapters);
    prompts_close(&r->tune);
    prompts_close(&r->held);
    prompter_close(r->prompter);
    workload_close(r->workload);
    model_text_close(&r->text);
    hasten_model_close(r->model);
    buf_free(&r->path);
    buf_free(&r->doing);
    buf_free(&r->profile);
    buf_free(&r->receipt);
}

static int run(struct tune_args *a, const struct option_group *model_options, const char *model)
{
    struct hasten_engine_settings settings;
    struct hasten_error err;
    struct tune_run_state r = {.a = a, .model_arg = model, .search = {.chosen = -1}};
    hasten_status st =
        a->workload ? model_settings(&a->model, model_options, &settings, &err)
                    : error_set(&err, HASTEN_ERR_USAGE,
                                "tune: no --workload (expected chat, code, rag, longdoc, agent, or a file)");
    if (!st)
        st = tune(&r, &settings, &err);
    int rc = st ? ui_fail(&a->ui, &err) : a->ui.json ? print_json(&r) : print_table(&r);
    if (rc == 0 && r.search.chosen < 0)
        rc = 1;
    close_state(&r);
    return rc;
}

int cmd_tune(const struct command *c, int argc, char **argv)
{
    struct tune_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "Tuning:", .defs = tune_defs, .n = sizeof tune_defs / sizeof *tune_defs, .dst = &a},
        model_group(&a.model)};
    const char *model;
    int rc = command_parse_model(c, &a.ui, groups, 3, &a.model, argc, argv, &model);
    if (rc >= 0)
        return rc;
    rc = run(&a, &groups[2], model);
    options_free(groups, 3);
    return rc;
}
