/* `hasten eval`: perplexity of a text, and the raw logits behind it.
 *
 * Convention (in the JSON under "convention"): the text is tokenised once, with BOS in front if the file asks
 * for it, and cut into windows of -c tokens that begin every --stride tokens (default: -c, so they do not
 * overlap). Each window is evaluated from an empty context. Scored is every token after a window's first that
 * no earlier window scored; a last incomplete window counts if it has at least two tokens. nll of a token is
 * log-sum-exp(logits) - logit, in f64; ppl = exp(mean nll). Rows of --logits follow the same order. */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/session.h"
#include <jansson.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct eval_args {
    const char *ppl, *ids, *logits;
    int32_t stride, limit_tokens;
    struct ui ui;
    struct model_args model;
};

static const struct option_def eval_defs[] = {
    {"ppl", NULL, OPT_STRING, offsetof(struct eval_args, ppl), 0, 0, NULL, "FILE", "the text; - is stdin"},
    {"ids", NULL, OPT_STRING, offsetof(struct eval_args, ids), 0, 0, NULL, "FILE",
     "token ids instead of a text (a JSON array); - is stdin"},
    {"stride", NULL, OPT_INT, offsetof(struct eval_args, stride), 0, LIMIT_CONTEXT, "0", "N",
     "a window every N tokens; 0: -c"},
    {"logits", NULL, OPT_STRING, offsetof(struct eval_args, logits), 0, 0, NULL, "OUT",
     "write the scored rows as float32; - is stdout"},
    {"limit-tokens", NULL, OPT_INT, offsetof(struct eval_args, limit_tokens), 0, INT32_MAX, "0", "N",
     "only the first N tokens; 0: all"},
};

#define EVAL_DEFAULT_CONTEXT 512

struct evaluation {
    const struct eval_args *args;
    struct session s;
    struct ui *ui;
    struct tokens ids;
    struct file *out; /* NULL: no logits wanted in a file */
    struct buf part;  /* path of out until it is whole; empty: out is the file asked for */
    bool to_stdout;   /* --logits -: rows on stdout, the result on stderr */
    int64_t window;   /* first token of the current window */
    int64_t n_scored;
    double nll;
    hasten_status status; /* of the sink */
    struct hasten_error *err;
    const volatile int *cancel;
    uint64_t t0;
    int64_t n_to_score;
};

static double row_nll(const float *row, int32_t n, int32_t target)
{
    double max = (double)row[0], sum = 0;
    for (int32_t i = 1; i < n; i++)
        max = (double)row[i] > max ? (double)row[i] : max;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return max + log(sum) - (double)row[target];
}

static int take_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct evaluation *e = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        int32_t target = e->ids.ids[e->window + rows[i].row + 1];
        double nll = row_nll(logits + (int64_t)i * n_vocab, n_vocab, target);
        if (!isfinite(nll)) {
            e->status = error_set(e->err, HASTEN_ERR_NON_FINITE,
                                  "evaluating token %lld: its probability is not a number",
                                  (long long)(e->window + rows[i].row + 1));
            return 1;
        }
        e->nll += nll;
        e->n_scored++;
    }
    size_t bytes = (size_t)n_rows * (size_t)n_vocab * sizeof *logits;
    if (e->to_stdout && cli_out(logits, bytes))
        e->status = error_set(e->err, HASTEN_ERR_DISK,
                              "writing the logits: stdout is closed or full (expected room)");
    if (e->out)
        e->status = file_write(e->out, logits, bytes, e->err);
    ui_progress(e->ui, "eval", (uint64_t)e->n_scored, (uint64_t)e->n_to_score, "tokens", e->t0);
    return e->status != HASTEN_OK;
}

static hasten_status read_tokens(struct evaluation *e, struct hasten_error *err)
{
    const struct eval_args *a = e->args;
    char *text = NULL;
    size_t len = 0;
    hasten_status st = a->ids ? cli_read_ids(a->ids, hasten_model_n_vocab(e->s.model), &e->ids, err)
                              : file_slurp(a->ppl, LIMIT_TEXT_BYTES, &text, &len, err);
    if (!st && a->ppl)
        st = vocab_encode(e->s.vocab, text, len, VOCAB_BOS, &e->ids, err);
    mem_free(text);
    if (!st && a->limit_tokens > 0 && e->ids.n > a->limit_tokens)
        e->ids.n = a->limit_tokens;
    if (!st && e->ids.n < 2)
        st = error_set(err, HASTEN_ERR_USAGE, "eval: the text has %lld tokens (expected at least 2)",
                       (long long)e->ids.n);
    return st;
}

/* One window: tokens [begin, begin + n); rows before `from` were scored already. */
static hasten_status run_window(struct evaluation *e, int64_t begin, int32_t n, int32_t from,
                                struct hasten_error *err)
{
    e->window = begin;
    hasten_status st = hasten_seq_truncate(e->s.seq, 0, err);
    /* the last token is a target only; it need not be read */
    struct hasten_item item = {.seq = e->s.seq, .tokens = e->ids.ids + begin, .n = n - 1, .want_from = from};
    if (!st)
        st = hasten_step(e->s.engine, &item, 1, take_rows, e, e->cancel, err);
    return st ? st : e->status;
}

static hasten_status run_windows(struct evaluation *e, int32_t n_ctx, int32_t stride,
                                 struct hasten_error *err)
{
    int64_t scored_to = 1; /* tokens [1, scored_to) have been scored */
    hasten_status st = HASTEN_OK;
    e->t0 = clock_now_ns();
    e->cancel = interrupt_arm();
    for (int64_t begin = 0; begin < e->ids.n - 1 && !st; begin += stride) {
        int64_t end = begin + n_ctx < e->ids.n ? begin + n_ctx : e->ids.n;
        int64_t first = begin + 1 > scored_to ? begin + 1 : scored_to; /* first target scored here */
        if (first < end)
            st = run_window(e, begin, (int32_t)(end - begin), (int32_t)(first - 1 - begin), err);
        scored_to = end > scored_to ? end : scored_to;
    }
    ui_progress_end(e->ui);
    interrupt_disarm();
    if (st == HASTEN_ERR_CANCELLED)
        error_set(err, st, "eval: interrupted after %lld of %lld tokens", (long long)e->n_scored,
                  (long long)e->n_to_score);
    return st;
}

/* Targets that the windows cover, for the progress line. */
static int64_t count_targets(int64_t n, int32_t n_ctx, int32_t stride)
{
    int64_t total = 0, scored_to = 1;
    for (int64_t begin = 0; begin < n - 1; begin += stride) {
        int64_t end = begin + n_ctx < n ? begin + n_ctx : n;
        int64_t first = begin + 1 > scored_to ? begin + 1 : scored_to;
        total += first < end ? end - first : 0;
        scored_to = end > scored_to ? end : scored_to;
    }
    return total;
}

static int report(const struct evaluation *e, int32_t n_ctx, int32_t stride)
{
    double nll = e->nll / (double)e->n_scored, ms = (double)(clock_now_ns() - e->t0) / 1e6;
    FILE *to = e->to_stdout ? stderr : stdout;
    if (e->args->ui.json)
        return cli_json_to(
            to, json_pack("{s:f, s:f, s:I, s:I, s:{s:i, s:i, s:s}, s:s, s:i, s:f}", "ppl", exp(nll), "nll",
                          nll, "n_scored", (json_int_t)e->n_scored, "n_tokens", (json_int_t)e->ids.n,
                          "convention", "context", (int)n_ctx, "stride", (int)stride, "scored",
                          "every token after the first of a window that no earlier window scored", "kernels",
                          hasten_engine_kernels(e->s.engine), "threads",
                          (int)hasten_engine_n_threads(e->s.engine), "ms", ms));
    if (e->to_stdout && e->ui->quiet) /* on stderr it is a note */
        return cli_finish(0);
    fprintf(to, "ppl          %.4f\nnll          %.6f\nscored       %" PRId64 " of %" PRId64 " tokens\n",
            exp(nll), nll, e->n_scored, e->ids.n);
    fprintf(to, "convention   windows of %d every %d, each from an empty context; scored: %s\n", (int)n_ctx,
            (int)stride,
            stride < n_ctx ? "tokens after a window's first that no earlier window scored"
                           : "all tokens after a window's first");
    fprintf(to, "engine       %s, %d threads, %.0f ms\n", hasten_engine_kernels(e->s.engine),
            (int)hasten_engine_n_threads(e->s.engine), ms);
    return cli_finish(0);
}

/* An output must not be one of the inputs: opening it would empty them (and the model is mapped). */
static hasten_status check_output(const struct evaluation *e, const char *path, struct hasten_error *err)
{
    const char *inputs[] = {e->s.path.data, e->args->ppl, e->args->ids};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] && file_same(inputs[i], path))
            return error_set(err, HASTEN_ERR_USAGE,
                             "eval: --logits %s is the input %s (expected another file)", path, inputs[i]);
    return HASTEN_OK;
}

/* A file is written beside its place and moved there when it is whole; a device or a pipe is written as it is. */
static hasten_status open_output(struct evaluation *e, struct hasten_error *err)
{
    const char *path = e->args->logits;
    hasten_status st = check_output(e, path, err);
    enum file_kind kind = file_kind(path);
    if (st || kind == FILE_OTHER || kind == FILE_FOLDER)
        return st ? st : file_open(path, FILE_WRITE_TRUNC, &e->out, err);
    if (buf_printf(&e->part, "%s.part", path))
        return error_set(err, HASTEN_ERR_MEMORY, "eval: out of memory");
    st = check_output(e, e->part.data, err);
    st = st ? st : file_open(e->part.data, FILE_WRITE_TRUNC, &e->out, err);
    if (st)
        buf_clear(&e->part);
    return st;
}

/* st: how the evaluation ended. */
static hasten_status close_output(struct evaluation *e, hasten_status st, struct hasten_error *err)
{
    struct hasten_error ignored;
    if (!st && e->out)
        st = file_sync(e->out, err);
    file_close(e->out);
    if (e->part.len && !st)
        st = file_rename(e->part.data, e->args->logits, err);
    if (e->part.len && st)
        file_unlink(e->part.data, &ignored);
    buf_free(&e->part);
    return st;
}

static int eval(struct eval_args *a, const struct option_group *groups, const char *model)
{
    struct hasten_error err;
    struct hasten_engine_settings settings;
    struct evaluation e = {.args = a, .ui = &a->ui, .err = &err};
    hasten_status st = model_settings(&a->model, &groups[2], &settings, &err);
    if (settings.n_ctx == 0)
        settings.n_ctx = EVAL_DEFAULT_CONTEXT;
    int32_t n_ctx = settings.n_ctx, stride = a->stride ? a->stride : n_ctx;
    if (stride > n_ctx && !option_on_line(&groups[1], "stride")) /* the environment yields to -c */
        stride = n_ctx;
    e.to_stdout = a->logits && strcmp(a->logits, "-") == 0;
    if (!st && e.to_stdout && isatty(STDOUT_FILENO))
        st = error_set(&err, HASTEN_ERR_USAGE, "eval: --logits - on a terminal (expected a pipe or a file)");
    if (!st && a->logits && *a->logits == '\0')
        st = error_set(&err, HASTEN_ERR_USAGE, "eval: --logits is '' (expected the name of a file, or -)");
    if (!st && (n_ctx < 2 || stride > n_ctx))
        st = error_set(&err, HASTEN_ERR_USAGE,
                       "eval: windows of %d every %d (expected -c >= 2, --stride <= -c)", (int)n_ctx,
                       (int)stride);
    if (!st)
        st = session_open(model, &a->model, &settings, &a->ui, &e.s, &err);
    if (!st)
        st = read_tokens(&e, &err);
    const bool to_file = !st && a->logits && !e.to_stdout;
    if (to_file) {
        interrupt_arm_writing(); /* as long as there is a file that must not be left behind */
        st = open_output(&e, &err);
    }
    e.n_to_score = st ? 0 : count_targets(e.ids.n, n_ctx, stride);
    if (!st)
        st = run_windows(&e, n_ctx, stride, &err);
    st = close_output(&e, st, &err);
    if (to_file)
        interrupt_disarm_writing();
    int rc = st ? cli_fail(&err) : report(&e, n_ctx, stride);
    tokens_free(&e.ids);
    session_close(&e.s);
    return rc;
}

int cmd_eval(const struct command *c, int argc, char **argv)
{
    struct eval_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "Evaluation:", .defs = eval_defs, .n = 5, .dst = &a, .exclusive = "ppl ids"},
        model_group(&a.model),
        methods_group(&a.model.methods)};
    const char *model;
    int rc = command_parse_model(c, &a.ui, groups, 4, &a.model, argc, argv, &model);
    if (rc >= 0)
        return rc;
    rc = a.ppl || a.ids ? eval(&a, groups, model)
                        : cli_usage(c, "nothing to evaluate (expected --ppl FILE or --ids FILE)");
    options_free(groups, 4);
    return rc;
}
