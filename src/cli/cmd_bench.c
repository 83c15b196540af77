/* `hasten bench`: its options, and which of its modes they ask for (bench.h). */
#include "base/file.h"
#include "base/limits.h"
#include "bench/text.h"
#include "cli/bench.h"
#include <jansson.h>
#include <string.h>

#define WORKLOAD_REPEAT 2 /* of each prompt; the prompts are repetitions too */

static const struct option_def bench_defs[] = {
    {"n-prompt", "p prompt-tokens", OPT_INT, offsetof(struct bench_args, n_prompt), 0, LIMIT_CONTEXT, "512",
     "N", "tokens of the prompt; 0: decode alone"},
    {"n-gen", "n", OPT_INT, offsetof(struct bench_args, n_gen), 0, LIMIT_CONTEXT, "128", "N",
     "tokens decoded; 0: prefill alone"},
    {"n-depth", "d", OPT_INT, offsetof(struct bench_args, depth), 0, LIMIT_CONTEXT, "0", "N",
     "tokens in the context before both"},
    {"repeat", "r", OPT_INT, offsetof(struct bench_args, repeat), 1, 1000, "5", "N", "repetitions"},
    {"batch", NULL, OPT_STRING, offsetof(struct bench_args, batch), 0, 0, NULL, "B,...",
     "also decode B sequences together; total speed"},
    {"parallel", NULL, OPT_STRING, offsetof(struct bench_args, parallel), 0, 0, NULL, "N,...",
     "N streams ask anew as soon as they are answered: total speed, time to the first token and between tokens"},
    {"itl-target", NULL, OPT_DURATION, offsetof(struct bench_args, itl_target), 0, 3600, "0", "TIME",
     "with --parallel: prompts are read in chunks so small that running answers keep this pace; 0: in large ones"},
    {"text", "f", OPT_STRING, offsetof(struct bench_args, text), 0, 0, NULL, "FILE",
     "where the tokens come from [built in]"},
    {"workload", NULL, OPT_STRING, offsetof(struct bench_args, workload), 0, 0, NULL, "NAME",
     "whole answers to prompts: chat, code, rag, longdoc, agent, or a file of that form"},
    {"half", NULL, OPT_STRING, offsetof(struct bench_args, half), 0, 0, NULL, "NAME",
     "with --workload: one half of it (code: edit, fresh)"},
    {"part", NULL, OPT_CHOICE, offsetof(struct bench_args, part), 0, 0, "all", "all|tune|held",
     "with --workload: the prompts that `tune` chooses by, or those it does not"},
    {"no-limits", NULL, OPT_FLAG, offsetof(struct bench_args, no_limits), 0, 0, NULL, NULL,
     "do not measure the machine's limits beside"},
    {"roofline", NULL, OPT_FLAG, offsetof(struct bench_args, roofline), 0, 0, NULL, NULL,
     "the machine's limits alone; no MODEL"},
    {"kernels", NULL, OPT_FLAG, offsetof(struct bench_args, kernels), 0, 0, NULL, NULL,
     "each kernel, by set and format; no MODEL"},
    {"type", NULL, OPT_STRING, offsetof(struct bench_args, type), 0, 0, NULL, "TYPE",
     "with --kernels: one format (q4_k)"},
    {"breakdown", NULL, OPT_FLAG, offsetof(struct bench_args, breakdown), 0, 0, NULL, NULL,
     "one chunk and one token, by operation"},
};

hasten_status bench_tokens(struct bench_args *a, const struct session *s, int64_t n, struct tokens *out,
                           struct hasten_error *err)
{
    char *text = NULL;
    size_t len = strlen(bench_text);
    hasten_status st = a->text ? file_slurp(a->text, LIMIT_TEXT_BYTES, &text, &len, err) : HASTEN_OK;
    if (!st)
        st = vocab_encode(s->vocab, text ? text : bench_text, len, VOCAB_BOS, out, err);
    mem_free(text);
    if (!st && out->n == 0)
        st = error_set(err, HASTEN_ERR_USAGE, "bench: the text has no tokens (expected some)");
    a->text_tokens = out->n;
    a->text_repeated = !st && out->n < n;
    if (a->text_repeated)
        ui_warn(&a->ui, "bench: %lld tokens are read, %s has %lld: it is repeated", (long long)n,
                a->text ? cli_input_name(a->text) : "the built-in text", (long long)out->n);
    for (int64_t i = 0, have = out->n; out->n < n && !st; i = (i + 1) % have)
        if (tokens_push(out, out->ids[i]))
            st = error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    return st;
}

json_t *bench_text_json(const struct bench_args *a)
{
    return json_pack("{s:o, s:I, s:b}", "file", a->text ? json_bytes(a->text, strlen(a->text)) : json_null(),
                     "tokens", (json_int_t)a->text_tokens, "repeated", a->text_repeated);
}

/* The first option of the command line that is not in the list; NULL: all are. */
static const char *not_taken(const struct option_group *g, const char *takes)
{
    char name[64];
    for (int j = 0; j < g->n; j++) {
        snprintf(name, sizeof name, " %s ", g->defs[j].name);
        if (option_on_line(g, g->defs[j].name) && !strstr(takes, name))
            return g->defs[j].name;
    }
    return NULL;
}

/* Is there a method of the loop of an answer? Then answers are measured. */
static bool answers(const struct bench_args *a)
{
    const struct option_list *spec = a->model.methods.spec;
    return spec[STAGE_DRAFT].n > 0 || spec[STAGE_STOP].n > 0 || spec[STAGE_CONTEXT].n > 0 ||
           spec[STAGE_MODALITY].n > 0;
}

/* The same with --serve, where the model is the server's. */
static int refuse_idle_serve(const struct command *c, const struct bench_args *a,
                             const struct option_group *own, const struct option_group *model,
                             const struct option_group *methods)
{
    const char *idle = not_taken(own, a->workload ? " n-gen workload " : " n-prompt n-gen ");
    idle = idle ? idle : not_taken(model, " model ");
    idle = idle ? idle : not_taken(methods, "");
    if (idle)
        return cli_usage(c, "--serve takes no --%s (it would change nothing)", idle);
    if (a->workload && a->load.prompts)
        return cli_usage(c, "both --workload and --prompts (expected one of them)");
    if (a->n_prompt == 0 || a->n_gen == 0)
        return cli_usage(c, "--serve with %s (expected tokens)", a->n_prompt == 0 ? "-p 0" : "-n 0");
    return -1;
}

/* Options that the mode would not look at: refused, since whoever wrote them expects them to count. */
static int refuse_idle(const struct command *c, const struct bench_args *a, const struct option_group *groups)
{
    const struct option_group *own = &groups[1], *load = &groups[2], *model = &groups[3],
                              *methods = &groups[4];
    const char *mode = a->roofline   ? "--roofline"
                       : a->kernels  ? "--kernels"
                       : a->parallel ? "--parallel"
                                     : "--breakdown",
               *idle = NULL;
    if (a->load.url)
        return refuse_idle_serve(c, a, own, model, methods);
    if ((idle = not_taken(load, "")))
        return cli_usage(c, "--%s without --serve (it says how to load a server)", idle);
    if (!a->parallel && (idle = methods_beyond(methods, METHODS_ANSWERS)))
        return cli_usage(c, "--%s without --parallel (it is about several answers)", idle);
    if (a->breakdown && answers(a))
        return cli_usage(c, "--breakdown with --draft or --stop-when (it books steps, not answers)");
    if (a->model.methods.spec[STAGE_SAMPLE].n > 0)
        return cli_usage(c, "--sample: unsupported (answers are measured without a grammar)");
    if (!a->kernels && option_on_line(own, "type"))
        return cli_usage(c, "--type without --kernels (it chooses among their formats)");
    if (!a->workload && (option_on_line(own, "half") || option_on_line(own, "part")))
        return cli_usage(c, "--%s without --workload (it chooses among its prompts)",
                         option_on_line(own, "half") ? "half" : "part");
    if (!a->parallel && option_on_line(own, "itl-target"))
        return cli_usage(c, "--itl-target without --parallel (it is about several answers)");
    if (a->roofline || a->kernels) {
        idle =
            not_taken(own, a->kernels ? " roofline kernels breakdown type " : " roofline kernels breakdown ");
        idle = idle ? idle : not_taken(model, " threads ");
    } else if (a->parallel) {
        idle = not_taken(own, " roofline kernels breakdown parallel itl-target n-prompt n-gen repeat text ");
    } else if (a->breakdown) {
        idle = not_taken(own, " roofline kernels breakdown n-prompt n-gen n-depth repeat text ");
    } else if (a->workload || answers(a)) {
        mode = a->workload ? "--workload" : "--draft";
        idle = not_taken(own, a->workload ? " workload half part n-gen repeat no-limits "
                                          : " n-prompt n-gen n-depth repeat text no-limits ");
    }
    if (idle)
        return cli_usage(c, "%s takes no --%s (it would change nothing)", mode, idle);
    if (a->roofline || a->kernels)
        return -1;
    if (a->parallel && (a->n_prompt == 0 || a->n_gen == 0))
        return cli_usage(c, "--parallel with -p 0 or -n 0 (expected tokens for both)");
    if (a->workload && option_given(own, "n-gen") && a->n_gen == 0)
        return cli_usage(c, "--workload with -n 0 (expected tokens to write)");
    if (!a->workload && answers(a) && (a->n_gen == 0 || (int64_t)a->depth + a->n_prompt == 0))
        return cli_usage(c, "--draft and --stop-when with -%s 0 (expected tokens)", a->n_gen ? "p" : "n");
    if (a->n_prompt == 0 && a->n_gen == 0)
        return cli_usage(c, "-p 0 and -n 0 (expected tokens for one of them)");
    if (a->n_gen == 0 && option_on_line(own, "batch"))
        return cli_usage(c, "--batch with -n 0 (expected tokens to decode)");
    return -1;
}

void bench_note_context(struct ui *ui, const struct session *s, int64_t n)
{
    const int32_t trained = hasten_model_n_ctx_train(s->model);
    if (n > trained)
        ui_warn(
            ui,
            "bench: depth and tokens take %lld positions, the model was made for %d: the speeds hold, its answers "
            "there would not",
            (long long)n, (int)trained);
}

static int run_mode(struct bench_args *a, const struct option_group *model_options,
                    const struct option_positionals *pos)
{
    struct hasten_engine_settings settings;
    struct hasten_error err;
    if (a->roofline || a->kernels)
        return a->roofline ? bench_roofline(a) : bench_kernels(a);
    if (a->load.url)
        return bench_serve(a, pos->n > 0 ? pos->items[0] : a->model.model);
    const char *model = model_argument(&a->model, pos, &err);
    if (!model || model_settings(&a->model, model_options, &settings, &err))
        return ui_fail(&a->ui, &err);
    if (a->parallel)
        return bench_parallel(a, &settings, model);
    if (a->breakdown)
        return bench_profile(a, &settings, model);
    return a->workload || answers(a) ? bench_answers(a, &settings, model) : bench_speed(a, &settings, model);
}

#define N_GROUPS 5

int cmd_bench(const struct command *c, int argc, char **argv)
{
    struct bench_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Measurement:",
                                     .defs = bench_defs,
                                     .n = sizeof bench_defs / sizeof *bench_defs,
                                     .dst = &a,
                                     .exclusive = "roofline kernels breakdown workload parallel"},
                                    bench_serve_group(&a.load),
                                    model_group(&a.model),
                                    methods_group(&a.model.methods, METHODS_BATCH)};
    struct option_positionals pos;
    int rc = command_parse(c, &a.ui, groups, N_GROUPS, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    if (a.workload) {
        a.n_answer = option_given(&groups[1], "n-gen") ? a.n_gen : 0;
        a.repeat = option_given(&groups[1], "repeat") ? a.repeat : WORKLOAD_REPEAT;
    }
    if ((a.roofline || a.kernels) && (pos.n > 0 || option_on_line(&groups[3], "model")))
        rc = cli_usage(c, "%s takes no MODEL", a.roofline ? "--roofline" : "--kernels");
    if (rc < 0 && (rc = refuse_idle(c, &a, groups)) < 0) {
        interrupt_arm(); /* from here on a Ctrl-C ends what is measured, with a line */
        rc = run_mode(&a, &groups[3], &pos);
        interrupt_disarm();
    }
    options_free(groups, N_GROUPS);
    return rc;
}
