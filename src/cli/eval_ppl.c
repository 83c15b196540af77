/* Perplexity of a text, and the raw logits behind it.
 *
 * Convention (in the JSON under "convention"): the text is tokenised once, with BOS in front if the file asks
 * for it, and cut as eval/windows.h says: windows of -c tokens that begin every --stride tokens (default: -c, so they
 * do not overlap). nll of a token is log-sum-exp(logits) - logit, in f64; ppl = exp(mean nll). Rows of --logits follow
 * the same order. */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/eval.h"
#include "eval/damage.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    double nll, *block; /* of all; [n_to_score] of each block of EVAL_BLOCK scored tokens of a window */
    int32_t n_blocks, in_block, *block_n;
    hasten_status status; /* of the sink */
    struct hasten_error *err;
    const volatile int *cancel;
    uint64_t t0;
    int64_t n_to_score;
    struct eval_windows windows;
};

static void end_block(struct evaluation *e)
{
    e->n_blocks += e->in_block > 0;
    e->in_block = 0;
}

static void add_token(struct evaluation *e, double nll)
{
    if (e->in_block == EVAL_BLOCK)
        end_block(e);
    e->block[e->n_blocks] += nll;
    e->block_n[e->n_blocks] = ++e->in_block;
    e->nll += nll;
    e->n_scored++;
}

static int take_rows(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct evaluation *e = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        int32_t target = e->ids.ids[e->window + rows[i].row + 1];
        double nll = eval_row_nll(logits + (int64_t)i * n_vocab, n_vocab, target);
        if (!isfinite(nll)) {
            e->status = error_set(e->err, HASTEN_ERR_NON_FINITE,
                                  "evaluating token %lld: its probability is not a number",
                                  (long long)(e->window + rows[i].row + 1));
            return 1;
        }
        add_token(e, nll);
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

static hasten_status run_window(struct evaluation *e, const struct eval_window *w, struct hasten_error *err)
{
    e->window = w->begin;
    hasten_status st = hasten_seq_truncate(e->s.seq, 0, err);
    /* the last token is a target only; it need not be read */
    struct hasten_item item = {
        .seq = e->s.seq, .tokens = e->ids.ids + w->begin, .n = w->n - 1, .want_from = w->from};
    if (!st)
        st = hasten_step(e->s.engine, &item, 1, take_rows, e, e->cancel, err);
    end_block(e);
    return st ? st : e->status;
}

static hasten_status run_windows(struct evaluation *e, struct hasten_error *err)
{
    struct eval_window w = {0};
    e->n_to_score = eval_count_targets(&e->windows);
    e->block = mem_calloc((size_t)e->n_to_score + 1, sizeof *e->block);
    e->block_n = mem_calloc((size_t)e->n_to_score + 1, sizeof *e->block_n);
    hasten_status st =
        e->block && e->block_n ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "eval: out of memory");
    e->t0 = clock_now_ns();
    e->cancel = interrupt_arm();
    while (!st && eval_next_window(&e->windows, &w))
        st = run_window(e, &w, err);
    ui_progress_end(e->ui);
    interrupt_disarm();
    if (st == HASTEN_ERR_CANCELLED)
        error_set(err, st, "eval: interrupted after %lld of %lld tokens", (long long)e->n_scored,
                  (long long)e->n_to_score);
    return st;
}

/* Of each block the tokens and the sum of their nll: what --compare pairs. */
static json_t *blocks_json(const struct evaluation *e)
{
    json_t *n = json_array(), *nll = json_array();
    for (int32_t i = 0; i < e->n_blocks; i++) {
        json_add(&n, json_integer(e->block_n[i]));
        json_add(&nll, json_real(e->block[i]));
    }
    return json_pack("{s:o, s:o}", "n", n, "nll", nll);
}

static int report(const struct evaluation *e)
{
    const int32_t n_ctx = e->windows.n_ctx, stride = e->windows.stride;
    double nll = e->nll / (double)e->n_scored, ms = (double)(clock_now_ns() - e->t0) / 1e6;
    FILE *to = e->to_stdout ? stderr : stdout;
    if (e->args->ui.json)
        return cli_json_to(
            to, json_pack("{s:f, s:f, s:I, s:I, s:{s:i, s:i, s:s}, s:s, s:i, s:f, s:s, s:o, s:o}", "ppl",
                          exp(nll), "nll", nll, "n_scored", (json_int_t)e->n_scored, "n_tokens",
                          (json_int_t)e->ids.n, "convention", "context", (int)n_ctx, "stride", (int)stride,
                          "scored", "every token after the first of a window that no earlier window scored",
                          "kernels", hasten_engine_kernels(e->s.engine), "threads",
                          (int)hasten_engine_n_threads(e->s.engine), "ms", ms, "model", e->s.path.data,
                          "text", eval_text_json(&e->windows), "blocks", blocks_json(e)));
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

int eval_ppl(struct eval_args *a, const struct option_group *own, struct hasten_engine_settings *settings,
             const char *model)
{
    struct hasten_error err;
    struct evaluation e = {.args = a, .ui = &a->ui, .err = &err};
    e.to_stdout = a->logits && strcmp(a->logits, "-") == 0;
    hasten_status st = HASTEN_OK;
    if (e.to_stdout && isatty(STDOUT_FILENO))
        st = error_set(&err, HASTEN_ERR_USAGE, "eval: --logits - on a terminal (expected a pipe or a file)");
    if (!st && a->logits && *a->logits == '\0')
        st = error_set(&err, HASTEN_ERR_USAGE, "eval: --logits is '' (expected the name of a file, or -)");
    if (!st)
        st = eval_windows_of(a, own, settings, &e.windows, &err);
    if (!st)
        st = session_open(model, &a->model, settings, &a->ui, &e.s, &err);
    if (!st)
        st = eval_read_tokens(a, &e.s, &e.ids, &err);
    e.windows.ids = e.ids.ids;
    e.windows.n = e.ids.n;
    const bool to_file = !st && a->logits && !e.to_stdout;
    if (to_file) {
        interrupt_arm_writing(); /* as long as there is a file that must not be left behind */
        st = open_output(&e, &err);
    }
    if (!st)
        st = run_windows(&e, &err);
    st = close_output(&e, st, &err);
    if (to_file)
        interrupt_disarm_writing();
    int rc = st ? ui_fail(&a->ui, &err) : report(&e);
    mem_free(e.block);
    mem_free(e.block_n);
    tokens_free(&e.ids);
    session_close(&e.s);
    return rc;
}
