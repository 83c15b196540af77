/* `hasten eval`: how good a model's predictions are, and how much of that a setting takes. Its options and which mode
 * they ask for; the modes are in eval_*.c (eval.h). */
#include "base/file.h"
#include "base/limits.h"
#include "cli/eval.h"
#include <math.h>

#define AT(field) offsetof(struct eval_args, field)

static const struct option_def eval_defs[] = {
    {"ppl", NULL, OPT_STRING, AT(ppl), 0, 0, NULL, "FILE", "the text; - is stdin"},
    {"ids", NULL, OPT_STRING, AT(ids), 0, 0, NULL, "FILE",
     "token ids instead of a text (a JSON array); - is stdin"},
    {"stride", NULL, OPT_INT, AT(stride), 0, LIMIT_CONTEXT, "0", "N", "a window every N tokens; 0: -c"},
    {"logits", NULL, OPT_STRING, AT(logits), 0, 0, NULL, "OUT",
     "write the scored rows as float32; - is stdout"},
    {"limit-tokens", NULL, OPT_INT, AT(limit_tokens), 0, INT32_MAX, "0", "N",
     "only the first N tokens; 0: all"},
    {"resamples", NULL, OPT_INT, AT(resamples), 100, 1000000, "2000", "N",
     "of the bootstrap, behind every interval"},
    {"seed", "s", OPT_SEED, AT(seed), 0, 0, "1", "N", "of the bootstrap, and of the items that tasks make"},
    {"compare", NULL, OPT_FLAG, AT(compare), 0, 0, NULL, NULL,
     "two results of eval --json: is the second worse? Exit status 1 if so"},
};

static const struct option_def damage_defs[] = {
    {"damage", NULL, OPT_FLAG, AT(damage), 0, 0, NULL, NULL,
     "what -ctk, -ctv and --lora change against the plain engine; methods imply it"},
    {"against", NULL, OPT_STRING, AT(against), 0, 0, NULL, "MODEL",
     "the plain engine reads this model of the same vocabulary; implies --damage"},
    {"prefix", NULL, OPT_INT, AT(prefix), 0, LIMIT_CONTEXT, "0", "N",
     "first tokens of a window that are read but not scored"},
    {"rows", NULL, OPT_INT, AT(rows), 1, 64, "64", "N", "scored tokens of a step; 1: as decoding reads them"},
    {"block", NULL, OPT_INT, AT(block), 1, LIMIT_CONTEXT, "64", "N",
     "consecutive tokens that are resampled together"},
};

static const struct option_def task_defs[] = {
    {"task", NULL, OPT_STRING, AT(task), 0, 0, NULL, "NAME[,NAME]",
     "gsm8k, humaneval, needle, recall, ruler, or one of ruler's"},
    {"data", NULL, OPT_LIST, AT(data), 0, 0, NULL, "FILE",
     "a task's data, a folder of them, or TASK=FILE; else a text to hide things in; repeatable"},
    {"limit", NULL, OPT_INT, AT(limit), 0, 1 << 20, "0", "N",
     "at most N items of a task and length; windows of a text; 0: all, 20 of those that are made"},
    {"length", NULL, OPT_STRING, AT(length), 0, 0, "4096", "N[,N]",
     "tokens of an item with its answer, for tasks that make their text"},
    {"log", NULL, OPT_STRING, AT(log), 0, 0, NULL, "FILE",
     "a line of JSON for each item; a run that finds it continues"},
    {"parallel", NULL, OPT_INT, AT(parallel), 0, 256, "0", "N", "items answered at once; 0: up to 8"},
    {"python", NULL, OPT_STRING, AT(python), 0, 0, "python3", "FILE",
     "runs humaneval's programs, in a sandbox"},
    {"blind", NULL, OPT_FLAG, AT(blind), 0, 0, NULL, NULL,
     "methods learn of the question only after they have dealt with the text before it"},
    {"raw", NULL, OPT_FLAG, AT(raw), 0, 0, NULL, NULL, "complete prompts, without the chat template"},
};

enum {
    GROUP_UI,
    GROUP_OWN,
    GROUP_DAMAGE,
    GROUP_TASK,
    GROUP_MODEL,
    GROUP_METHODS,
    N_GROUPS
};

/* ---- what modes share ---------------------------------------------------------------------------------- */

hasten_status eval_read_tokens(const struct eval_args *a, const struct session *s, struct tokens *out,
                               struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    hasten_status st = a->ids ? cli_read_ids(a->ids, hasten_model_n_vocab(s->model), out, err)
                              : file_slurp(a->ppl, LIMIT_TEXT_BYTES, &text, &len, err);
    if (!st && a->ppl)
        st = vocab_encode(s->vocab, text, len, VOCAB_BOS, out, err);
    mem_free(text);
    if (!st && a->limit_tokens > 0 && out->n > a->limit_tokens)
        out->n = a->limit_tokens;
    if (!st && out->n < 2)
        st = error_set(err, HASTEN_ERR_USAGE, "eval: the text has %lld tokens (expected at least 2)",
                       (long long)out->n);
    return st;
}

hasten_status eval_windows_of(const struct eval_args *a, const struct option_group *own,
                              struct hasten_engine_settings *settings, struct eval_windows *w,
                              struct hasten_error *err)
{
    if (settings->n_ctx == 0)
        settings->n_ctx = EVAL_DEFAULT_CONTEXT;
    const int32_t n_ctx = settings->n_ctx;
    int32_t stride = a->stride ? a->stride : n_ctx;
    if (stride > n_ctx && !option_on_line(own, "stride")) /* the environment yields to -c */
        stride = n_ctx;
    *w = (struct eval_windows){.n_ctx = n_ctx, .stride = stride, .n_limit = a->limit};
    if (n_ctx < 2 || stride > n_ctx)
        return error_set(err, HASTEN_ERR_USAGE,
                         "eval: windows of %d every %d (expected -c >= 2, --stride <= -c)", (int)n_ctx,
                         (int)stride);
    return HASTEN_OK;
}

json_t *eval_text_json(const struct eval_windows *w)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)eval_windows_hash(w));
    return json_string(hash);
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *eval_interval_json(const struct eval_interval *v)
{
    return json_pack("{s:o, s:o, s:o}", "value", number(v->value), "lo", number(v->lo), "hi", number(v->hi));
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int run_mode(const struct command *c, struct eval_args *a, const struct option_group *groups,
                    const struct option_positionals *pos)
{
    struct hasten_engine_settings settings;
    struct hasten_error err;
    if (a->compare)
        return pos->n == 2
                   ? eval_compare_mode(a, pos)
                   : cli_usage(c, "--compare with %d files (expected two results of eval --json)", pos->n);
    const char *model = model_argument(&a->model, pos, &err);
    if (!model)
        return ui_fail(&a->ui, &err);
    if (pos->n > 1)
        return cli_usage(c, "unexpected argument '%s'", pos->items[1]);
    if (!a->ppl && !a->ids && !a->task)
        return cli_usage(c, "nothing to evaluate (expected --ppl FILE, --ids FILE or --task NAME)");
    if (a->task && (a->logits || a->damage || a->against))
        return cli_usage(c, "--task with --%s (expected --ppl for that)", a->logits ? "logits" : "damage");
    static const enum method_stage answers[] = {STAGE_DRAFT, STAGE_STOP, STAGE_CONTEXT, STAGE_MODALITY};
    if (a->model.methods.spec[STAGE_SAMPLE].n)
        return cli_usage(c, "--sample: unsupported (tasks say what may be answered)");
    for (int i = 0; i < 4 && !a->task; i++) { /* they change no logits of a given text */
        const enum method_stage stage = answers[i];
        if (option_on_line(&groups[GROUP_METHODS], method_stage_option(stage)))
            return cli_usage(c, "--%s without --task (there are answers in tasks alone)",
                             method_stage_option(stage));
        a->model.methods.spec[stage].n = 0; /* of a profile */
    }
    if (model_settings(&a->model, &groups[GROUP_MODEL], &settings, &err))
        return ui_fail(&a->ui, &err);
    if (a->task)
        return eval_tasks(a, &settings, model);
    return eval_is_damage(a) ? eval_damage_mode(a, &groups[GROUP_OWN], &settings, model)
                             : eval_ppl(a, &groups[GROUP_OWN], &settings, model);
}

int cmd_eval(const struct command *c, int argc, char **argv)
{
    struct eval_args a = {0};
    struct option_group groups[N_GROUPS] = {
        [GROUP_UI] = ui_group(&a.ui),
        [GROUP_OWN] = {.title = "Evaluation:",
                       .defs = eval_defs,
                       .n = sizeof eval_defs / sizeof *eval_defs,
                       .dst = &a,
                       .exclusive = "ppl ids"},
        [GROUP_DAMAGE] = {.title = "Damage:",
                          .defs = damage_defs,
                          .n = sizeof damage_defs / sizeof *damage_defs,
                          .dst = &a},
        [GROUP_TASK] =
            {.title = "Tasks:", .defs = task_defs, .n = sizeof task_defs / sizeof *task_defs, .dst = &a},
        [GROUP_MODEL] = model_group(&a.model),
        [GROUP_METHODS] = methods_group(&a.model.methods, METHODS_ANSWERS)};
    struct option_positionals pos;
    int rc = command_parse(c, &a.ui, groups, N_GROUPS, 2, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    rc = run_mode(c, &a, groups, &pos);
    options_free(groups, N_GROUPS);
    return rc;
}
