/* `hasten imatrix MODEL -f FILE -o OUT`: how much each column of each weight matrix counts on a text.
 *
 * A tap on the inputs of matrix products (engine/tap.h) sums the squares of each input, in f64 and in order of the
 * rows, so that threads and batches never show. The text is cut into chunks, each read from an empty context and
 * begun with BOS where the model wants one. The file is the one of formats/imatrix.h. */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/session.h"
#include "engine/engine.h"
#include "formats/gguf_write.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define IMATRIX_DEFAULT_CONTEXT 512
#define COLUMNS_PER_CLAIM 128

struct imatrix_args {
    const char *file, *out;
    bool head;
    int32_t limit_tokens;
    struct ui ui;
    struct model_args model;
};

static const struct option_def imatrix_defs[] = {
    {"file", "f", OPT_STRING, offsetof(struct imatrix_args, file), 0, 0, NULL, "FILE",
     "the text; - is stdin"},
    {"output", "o", OPT_STRING, offsetof(struct imatrix_args, out), 0, 0, NULL, "OUT",
     "the importance matrix"},
    {"head", "process-output", OPT_FLAG, offsetof(struct imatrix_args, head), 0, 0, NULL, NULL,
     "the output head too (every row's logits are computed)"},
    {"limit-tokens", NULL, OPT_INT, offsetof(struct imatrix_args, limit_tokens), 0, INT32_MAX, "0", "N",
     "only the first N tokens; 0: all"},
};

/* The sums of one input group; its tensors share them. A tensor of experts is n_mat matrices, each with its own. */
struct group {
    const struct gguf_tensor *first; /* of the group's tensors */
    double *sums;                    /* [n_mat × k] */
    int64_t *rows;                   /* [n_mat] */
    int64_t k, n_mat;
};

struct collector {
    struct imatrix_args *args;
    struct session s;
    struct tokens ids;
    struct group *groups; /* in the order of first sight */
    int32_t n_groups, cap_groups;
    int32_t next;      /* where the next group is looked for first: passes repeat their order */
    int32_t *group_of; /* [tensors of the file], -1: its input was never seen */
    bool out_of_memory;
    const volatile int *cancel;
    int64_t n_chunks, n_done;
    uint64_t t0;
};

/* ---- the tap ---------------------------------------------------------------------------------------------- */

/* Whether a matrix is a tensor, or one of those stacked in it. */
static bool lies_in(const struct gguf_tensor *t, const struct weight *w)
{
    return w->data >= t->data && w->data < t->data + t->size_bytes;
}

/* Remembers which tensors of the file the matrices of a new group are. */
static void claim_tensors(struct collector *c, const struct tap_linear_input *in, int32_t group)
{
    for (int64_t i = 0; i < gguf_n_tensors(c->s.gguf); i++)
        for (int32_t j = 0; j < in->n_w; j++)
            if (lies_in(gguf_tensor_at(c->s.gguf, i), in->w[j]))
                c->group_of[i] = group;
}

static const struct gguf_tensor *tensor_of(const struct collector *c, const struct weight *w)
{
    for (int64_t i = 0; i < gguf_n_tensors(c->s.gguf); i++)
        if (lies_in(gguf_tensor_at(c->s.gguf, i), w))
            return gguf_tensor_at(c->s.gguf, i);
    return NULL;
}

/* NULL when out of memory. */
static struct group *group_of(struct collector *c, const struct tap_linear_input *in)
{
    for (int32_t i = 0; i < c->n_groups; i++) {
        const int32_t at = (c->next + i) % c->n_groups;
        if (lies_in(c->groups[at].first, in->w[0])) {
            c->next = at; /* the next expert's is the same */
            return &c->groups[at];
        }
    }
    if (c->n_groups == c->cap_groups) {
        const int32_t cap = c->cap_groups ? 2 * c->cap_groups : 64;
        struct group *more = mem_realloc(c->groups, (size_t)cap * sizeof *more);
        if (!more)
            return NULL;
        c->groups = more;
        c->cap_groups = cap;
    }
    struct group *g = &c->groups[c->n_groups];
    *g = (struct group){.first = tensor_of(c, in->w[0]), .k = in->k};
    if (!g->first)
        return NULL;
    g->n_mat = g->first->ne[2] * g->first->ne[3];
    g->sums = mem_calloc((size_t)(g->k * g->n_mat), sizeof *g->sums);
    g->rows = mem_calloc((size_t)g->n_mat, sizeof *g->rows);
    if (!g->sums || !g->rows) {
        mem_free(g->sums);
        mem_free(g->rows);
        return NULL;
    }
    claim_tensors(c, in, c->n_groups);
    c->next = c->n_groups++;
    return g;
}

struct add_columns {
    double *sums; /* [k] */
    const struct tap_linear_input *in;
};

static void add_columns(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct add_columns *a = ctx;
    (void)worker;
    for (int32_t i = 0; i < a->in->n; i++) {
        const float *x = a->in->x + (a->in->row ? a->in->row[i] : i) * a->in->k;
        for (int64_t j = begin; j < end; j++)
            a->sums[j] += (double)x[j] * (double)x[j];
    }
}

static void take_input(void *ctx, const struct tap_linear_input *in)
{
    struct collector *c = ctx;
    struct group *g = c->out_of_memory ? NULL : group_of(c, in);
    if (!g) {
        c->out_of_memory = true;
        return;
    }
    const int64_t mat = (in->w[0]->data - g->first->data) / (in->w[0]->n_rows * in->w[0]->row_bytes);
    const int64_t at = mat < g->n_mat ? mat : 0; /* parts of a fused matrix share its rows */
    pool_for(in->pool, in->k, COLUMNS_PER_CLAIM, add_columns, &(struct add_columns){g->sums + at * g->k, in});
    g->rows[at] += in->n;
}

/* ---- the text --------------------------------------------------------------------------------------------- */

static hasten_status read_text(struct collector *c, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    hasten_status st = file_slurp(c->args->file, LIMIT_TEXT_BYTES, &text, &len, err);
    if (!st)
        st = vocab_encode(c->s.vocab, text, len, 0, &c->ids, err);
    mem_free(text);
    if (!st && c->args->limit_tokens > 0 && c->ids.n > c->args->limit_tokens)
        c->ids.n = c->args->limit_tokens;
    if (!st && c->ids.n == 0)
        st = error_set(err, HASTEN_ERR_USAGE, "imatrix: the text has no tokens (expected at least 1)");
    return st;
}

static int no_logits(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    (void)ctx, (void)logits, (void)rows, (void)n_rows, (void)n_vocab;
    return 0;
}

static hasten_status run_chunk(struct collector *c, int32_t *chunk, int32_t n, struct hasten_error *err)
{
    const struct hasten_item item = {
        .seq = c->s.seq, .tokens = chunk, .n = n, .want_from = c->args->head ? 0 : n};
    hasten_status st = hasten_seq_truncate(c->s.seq, 0, err);
    if (!st)
        st = hasten_step(c->s.engine, &item, 1, no_logits, NULL, c->cancel, err);
    if (st == HASTEN_ERR_CANCELLED)
        error_set(err, st, "imatrix: interrupted after %lld of %lld tokens", (long long)c->n_done,
                  (long long)c->ids.n);
    if (!st && c->out_of_memory)
        st = error_set(err, HASTEN_ERR_MEMORY, "imatrix: out of memory for the sums");
    return st;
}

static hasten_status run_chunks(struct collector *c, int32_t n_ctx, struct hasten_error *err)
{
    struct tap_linear_input_sub tap = {.fn = take_input, .ctx = c};
    const int32_t bos = vocab_add_bos(c->s.vocab) && n_ctx > 1 ? vocab_bos(c->s.vocab) : -1;
    const int32_t head = bos >= 0 ? 1 : 0;
    int32_t *chunk = mem_array((size_t)n_ctx, sizeof *chunk);
    hasten_status st = chunk ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "imatrix: out of memory");
    tap_linear_input_add(c->s.engine, &tap);
    c->cancel = interrupt_arm();
    while (c->n_done < c->ids.n && !st) {
        const int64_t left = c->ids.n - c->n_done;
        const int32_t n = left < n_ctx - head ? (int32_t)left : n_ctx - head;
        chunk[0] = bos;
        memcpy(chunk + head, c->ids.ids + c->n_done, (size_t)n * sizeof *chunk);
        st = run_chunk(c, chunk, n + head, err);
        c->n_done += st ? 0 : n;
        c->n_chunks += !st;
        ui_progress(&c->args->ui, "imatrix", (uint64_t)c->n_done, (uint64_t)c->ids.n, "tokens", c->t0);
    }
    tap_linear_input_remove(c->s.engine, &tap);
    ui_progress_end(&c->args->ui);
    interrupt_disarm();
    mem_free(chunk);
    return st;
}

/* ---- the file --------------------------------------------------------------------------------------------- */

static hasten_status check_sums(const struct collector *c, struct hasten_error *err)
{
    for (int64_t i = 0; i < gguf_n_tensors(c->s.gguf); i++) {
        const struct group *g = c->group_of[i] < 0 ? NULL : &c->groups[c->group_of[i]];
        for (int64_t j = 0; g && j < g->k * g->n_mat; j++)
            if (!isfinite((float)g->sums[j]))
                return error_set(err, HASTEN_ERR_NON_FINITE,
                                 "imatrix: the input of '%s' is not finite in column %lld (expected numbers)",
                                 gguf_tensor_at(c->s.gguf, i)->name, (long long)(j % g->k));
    }
    return HASTEN_OK;
}

static void declare_entry(struct gguf_write *w, const char *name, const char *what, int64_t n, int64_t n_mat)
{
    char full[LIMIT_GGUF_NAME_BYTES + 16];
    const int64_t ne[2] = {n, n_mat};
    snprintf(full, sizeof full, "%s.%s", name, what);
    gguf_write_tensor(w, full, quant_type_get(QUANT_F32), 2, ne);
}

static hasten_status write_entry(struct gguf_write *w, const struct group *g, float *tmp,
                                 struct hasten_error *err)
{
    const int64_t n = g->k * g->n_mat;
    for (int64_t j = 0; j < n; j++)
        tmp[j] = (float)g->sums[j];
    hasten_status st = gguf_write_data(w, tmp, (size_t)n * sizeof *tmp, err);
    for (int64_t j = 0; j < g->n_mat; j++)
        tmp[j] = (float)g->rows[j];
    return st ? st : gguf_write_data(w, tmp, (size_t)g->n_mat * sizeof *tmp, err);
}

/* Per matrix two tensors, in the order of the model's. */
static hasten_status write_entries(const struct collector *c, struct gguf_write *w, struct hasten_error *err)
{
    int64_t widest = 1;
    for (int32_t i = 0; i < c->n_groups; i++)
        widest = c->groups[i].k * c->groups[i].n_mat > widest ? c->groups[i].k * c->groups[i].n_mat : widest;
    float *tmp = mem_array((size_t)widest, sizeof *tmp);
    if (!tmp)
        return error_set(err, HASTEN_ERR_MEMORY, "imatrix: out of memory");
    for (int64_t i = 0; i < gguf_n_tensors(c->s.gguf); i++)
        if (c->group_of[i] >= 0) {
            const char *name = gguf_tensor_at(c->s.gguf, i)->name;
            const struct group *g = &c->groups[c->group_of[i]];
            declare_entry(w, name, "in_sum2", g->k, g->n_mat);
            declare_entry(w, name, "counts", 1, g->n_mat);
        }
    hasten_status st = gguf_write_begin(w, err);
    for (int64_t i = 0; i < gguf_n_tensors(c->s.gguf) && !st; i++)
        if (c->group_of[i] >= 0)
            st = interrupt_seen() ? error_set(err, HASTEN_ERR_CANCELLED,
                                              "imatrix: interrupted while writing %s", c->args->out)
                                  : write_entry(w, &c->groups[c->group_of[i]], tmp, err);
    mem_free(tmp);
    return st ? st : gguf_write_finish(w, err);
}

static hasten_status write_file(const struct collector *c, int32_t n_ctx, struct hasten_error *err)
{
    struct gguf_write *w = NULL;
    const char *slash = strrchr(c->args->file, '/'), *dataset = slash ? slash + 1 : c->args->file;
    if (strcmp(dataset, "-") == 0)
        dataset = "stdin";
    hasten_status st = check_sums(c, err);
    if (!st)
        st = gguf_write_open(c->args->out, 32, &w, err);
    if (st)
        return st;
    gguf_write_str(w, "general.type", "imatrix");
    gguf_write_strs(w, "imatrix.datasets", &dataset, 1);
    gguf_write_u32(w, "imatrix.chunk_count", (uint32_t)c->n_chunks);
    gguf_write_u32(w, "imatrix.chunk_size", (uint32_t)n_ctx);
    interrupt_arm_writing();
    st = write_entries(c, w, err);
    gguf_write_close(w); /* removes what is not finished */
    interrupt_disarm_writing();
    return st;
}

/* ---- the command ------------------------------------------------------------------------------------------ */

static int report(const struct collector *c, int32_t n_ctx)
{
    int n_entries = 0;
    const double ms = (double)(clock_now_ns() - c->t0) / 1e6;
    for (int64_t i = 0; i < gguf_n_tensors(c->s.gguf); i++)
        n_entries += c->group_of[i] >= 0;
    if (c->args->ui.json)
        return cli_json(json_pack(
            "{s:o, s:i, s:I, s:I, s:i, s:s, s:f}", "file", json_bytes(c->args->out, strlen(c->args->out)),
            "entries", n_entries, "tokens", (json_int_t)c->n_done, "chunks", (json_int_t)c->n_chunks,
            "chunk_size", (int)n_ctx, "kernels", hasten_engine_kernels(c->s.engine), "ms", ms));
    ui_note(&c->args->ui, "%s: %d matrices, %lld tokens in %lld chunks, %.1f s", c->args->out, n_entries,
            (long long)c->n_done, (long long)c->n_chunks, ms / 1e3);
    return cli_finish(0);
}

static hasten_status check_output(const struct collector *c, struct hasten_error *err)
{
    const char *inputs[] = {c->s.path.data, c->args->file};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (file_same(inputs[i], c->args->out))
            return error_set(err, HASTEN_ERR_USAGE,
                             "imatrix: the output %s is the input %s (expected another file)", c->args->out,
                             inputs[i]);
    const enum file_kind kind = file_kind(c->args->out);
    if (strcmp(c->args->out, "-") == 0)
        return error_set(err, HASTEN_ERR_USAGE, "imatrix: the output is - (expected the name of a file)");
    if (kind != FILE_MISSING && kind != FILE_REGULAR)
        return error_set(err, HASTEN_ERR_USAGE, "imatrix: the output %s is %s (expected the name of a file)",
                         c->args->out, kind == FILE_FOLDER ? "a folder" : "no regular file");
    return file_may_create(c->args->out, err); /* before the work, not after it */
}

static int imatrix(struct imatrix_args *a, const struct option_group *groups, const char *model)
{
    struct hasten_error err;
    struct hasten_engine_settings settings;
    struct collector c = {.args = a, .t0 = clock_now_ns()};
    hasten_status st = model_settings(&a->model, &groups[2], &settings, &err);
    if (settings.n_ctx == 0)
        settings.n_ctx = IMATRIX_DEFAULT_CONTEXT;
    if (!st)
        st = session_open(model, &a->model, &settings, &a->ui, &c.s, &err);
    if (!st)
        st = session_has_weights(&c.s, "imatrix", &err);
    if (!st)
        st = check_output(&c, &err);
    if (!st)
        st = read_text(&c, &err);
    if (!st) {
        c.group_of = mem_array((size_t)gguf_n_tensors(c.s.gguf), sizeof *c.group_of);
        if (!c.group_of)
            st = error_set(&err, HASTEN_ERR_MEMORY, "imatrix: out of memory");
    }
    for (int64_t i = 0; !st && i < gguf_n_tensors(c.s.gguf); i++)
        c.group_of[i] = -1;
    if (!st)
        st = run_chunks(&c, settings.n_ctx, &err);
    if (!st)
        st = write_file(&c, settings.n_ctx, &err);
    int rc = st ? ui_fail(&a->ui, &err) : report(&c, settings.n_ctx);
    for (int32_t i = 0; i < c.n_groups; i++)
        mem_free(c.groups[i].sums), mem_free(c.groups[i].rows);
    mem_free(c.groups);
    mem_free(c.group_of);
    tokens_free(&c.ids);
    session_close(&c.s);
    return rc;
}

int cmd_imatrix(const struct command *c, int argc, char **argv)
{
    struct imatrix_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Importance:",
                                     .defs = imatrix_defs,
                                     .n = (int)(sizeof imatrix_defs / sizeof *imatrix_defs),
                                     .dst = &a},
                                    model_group(&a.model)};
    const char *model;
    int rc = command_parse_model(c, &a.ui, groups, 3, &a.model, argc, argv, &model);
    if (rc >= 0)
        return rc;
    if (!a.file || !a.out)
        rc = cli_usage(c, "no %s (expected -f FILE -o OUT)", a.file ? "output" : "text");
    else if (*a.out == '\0')
        rc = cli_usage(c, "the output is '' (expected the name of a file)");
    else
        rc = imatrix(&a, groups, model);
    options_free(groups, 3);
    return rc;
}
