/* `hasten bench`: its options, and which of its modes they ask for (bench.h). */
#include "base/file.h"
#include "base/limits.h"
#include "bench/text.h"
#include "cli/bench.h"
#include <string.h>

static const struct option_def bench_defs[] = {
    {"n-prompt", "p", OPT_INT, offsetof(struct bench_args, n_prompt), 1, LIMIT_CONTEXT, "512", "N",
     "tokens of the prompt"},
    {"n-gen", "n", OPT_INT, offsetof(struct bench_args, n_gen), 0, LIMIT_CONTEXT, "128", "N",
     "tokens decoded"},
    {"depth", "d", OPT_INT, offsetof(struct bench_args, depth), 0, LIMIT_CONTEXT, "0", "N",
     "tokens in the context before both"},
    {"repeat", "r", OPT_INT, offsetof(struct bench_args, repeat), 1, 1000, "5", "N", "repetitions"},
    {"batch", NULL, OPT_STRING, offsetof(struct bench_args, batch), 0, 0, NULL, "B,...",
     "also decode B sequences together; total speed"},
    {"text", "f", OPT_STRING, offsetof(struct bench_args, text), 0, 0, NULL, "FILE",
     "where the tokens come from [built in]"},
    {"no-limits", NULL, OPT_FLAG, offsetof(struct bench_args, no_limits), 0, 0, NULL, NULL,
     "do not measure the machine's limits beside"},
    {"roofline", NULL, OPT_FLAG, offsetof(struct bench_args, roofline), 0, 0, NULL, NULL,
     "the machine's limits alone; no MODEL"},
    {"kernels", NULL, OPT_FLAG, offsetof(struct bench_args, kernels), 0, 0, NULL, NULL,
     "each kernel, by set and format; no MODEL"},
    {"type", NULL, OPT_STRING, offsetof(struct bench_args, type), 0, 0, NULL, "TYPE",
     "with --kernels: one format (q4_k)"},
    {"profile", NULL, OPT_FLAG, offsetof(struct bench_args, profile), 0, 0, NULL, NULL,
     "one chunk and one token, by operation"},
};

hasten_status bench_tokens(const struct bench_args *a, const struct session *s, int64_t n, struct tokens *out,
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
    for (int64_t i = 0, have = out->n; out->n < n && !st; i = (i + 1) % have)
        if (tokens_push(out, out->ids[i]))
            st = error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
    return st;
}

int cmd_bench(const struct command *c, int argc, char **argv)
{
    struct bench_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Measurement:",
                                     .defs = bench_defs,
                                     .n = sizeof bench_defs / sizeof *bench_defs,
                                     .dst = &a,
                                     .exclusive = "roofline kernels profile"},
                                    model_group(&a.model)};
    struct option_positionals pos;
    struct hasten_engine_settings settings;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 3, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    if ((a.roofline || a.kernels) && (pos.n > 0 || option_on_line(&groups[2], "model")))
        return cli_usage(c, "%s takes no MODEL", a.roofline ? "--roofline" : "--kernels");
    if (!a.kernels && option_on_line(&groups[1], "type"))
        return cli_usage(c, "--type without --kernels (it chooses among their formats)");
    if (a.roofline || a.kernels)
        return a.roofline ? bench_roofline(&a) : bench_kernels(&a);
    const char *model = model_argument(&a.model, &pos, &err);
    if (!model || model_settings(&a.model, &groups[2], &settings, &err))
        return cli_fail(&err);
    return a.profile ? bench_profile(&a, &settings, model) : bench_speed(&a, &settings, model);
}
