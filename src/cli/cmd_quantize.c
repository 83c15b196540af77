/* `hasten quantize IN OUT TYPE`: the same model, a file, a split one or a folder, as one file in other formats. Keys are copied but those that say how it is
 * quantised; a tensor that stays in its format is copied bit for bit; the output appears under its name when it is
 * complete, or not at all. Memory: a slice of one tensor at a time (convert.h), and the importances of one. */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/cache.h"
#include "cli/cli.h"
#include "cli/convert.h"
#include "cli/quantize.h"
#include "cli/session.h"
#include "formats/imatrix.h"
#include "model/source.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define QUANTIZATION_VERSION 2 /* of the block formats, as GGUF files count it */
#define MAX_FORMATS 64

struct quantize_args {
    const char *imatrix;
    struct option_list tensors;
    bool pure;
    int32_t n_threads;
    struct ui ui;
};

static const struct option_def quantize_defs[] = {
    {"imatrix", NULL, OPT_STRING, offsetof(struct quantize_args, imatrix), 0, 0, NULL, "FILE",
     "how much each column counts (hasten imatrix writes it)"},
    {"tensor", NULL, OPT_LIST, offsetof(struct quantize_args, tensors), 0, 0, NULL, "PATTERN=FORMAT",
     "another format for matrices by name (* any, ? one character); repeatable, the last match wins"},
    {"pure", NULL, OPT_FLAG, offsetof(struct quantize_args, pure), 0, 0, NULL, NULL,
     "every matrix in one format, embedding and head too"},
    {"threads", "t", OPT_INT, offsetof(struct quantize_args, n_threads), 0, LIMIT_THREADS, "0", "N",
     "workers; 0: as affinity and cgroup allow"},
};

struct choice { /* for one tensor */
    const struct quant_type *to, *wanted;
    int64_t entry; /* of the importance matrix; -1: none */
};

struct format_count {
    const struct quant_type *a, *b; /* format; or wanted and given */
    int n;
};

struct quantize {
    struct quantize_args *args;
    struct ui *ui;
    const char *out_path;
    struct buf in_path;
    struct gguf *in;
    struct gguf *tokenizer; /* keys that a folder's model lacks; NULL: a GGUF file has them */
    int64_t head_rows;      /* of q and k, in which RoPE's halves are to be interleaved; 0: they stay */
    struct imatrix *imatrix;
    struct quantize_rules rules;
    struct choice *choices; /* [tensors of the file] */
    struct pool *pool;
    struct converter *converter;
    struct gguf_write *out;
    struct convert_sums sums;
    double relative2;   /* sum over the matrices encoded anew: values times squared relative error */
    uint64_t n_encoded; /* values in them */
    uint64_t n_values, n_done, tensor_bytes, file_bytes, t0;
    struct format_count formats[MAX_FORMATS], fallbacks[MAX_FORMATS];
    int n_formats, n_fallbacks;
    int n_blocked, n_unweighted,
        n_unused;           /* matrices in blocks, those without importance, entries without matrix */
    const char *unweighted; /* one of them */
};

/* ---- what is to be done ------------------------------------------------------------------------------------- */

static void count_format(struct format_count *list, int *n, const struct quant_type *a,
                         const struct quant_type *b)
{
    for (int i = 0; i < *n; i++)
        if (list[i].a == a && list[i].b == b) {
            list[i].n++;
            return;
        }
    if (*n < MAX_FORMATS)
        list[(*n)++] = (struct format_count){a, b, 1};
}

static uint64_t values_of(const struct gguf_tensor *t)
{
    return (uint64_t)t->ne[0] * (uint64_t)t->ne[1] * (uint64_t)t->ne[2] * (uint64_t)t->ne[3];
}

static hasten_status choose(struct quantize *q, int64_t i, struct hasten_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_at(q->in, i);
    struct choice *c = &q->choices[i];
    c->to = quantize_choose(&q->rules, t, &c->wanted);
    c->entry = -1;
    if (!t->type->decode && c->to != t->type)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: tensor '%s': %s is not supported here yet (expected a format that decodes)",
                         q->in_path.data, t->name, t->type->name);
    if (c->to != c->wanted)
        count_format(q->fallbacks, &q->n_fallbacks, c->wanted, c->to);
    count_format(q->formats, &q->n_formats, c->to, NULL);
    q->n_values += values_of(t);
    if (c->to->block == 1 || c->to == t->type)
        return HASTEN_OK;
    q->n_blocked++;
    c->entry = q->imatrix ? imatrix_find(q->imatrix, t->name) : -1;
    if (c->entry < 0) {
        q->n_unweighted++;
        q->unweighted = t->name;
    }
    return HASTEN_OK;
}

/* Entries that name no matrix of the model; all of them: another model's file. */
static hasten_status check_imatrix(struct quantize *q, struct hasten_error *err)
{
    const int64_t n = q->imatrix ? imatrix_n_entries(q->imatrix) : 0;
    for (int64_t i = 0; i < n; i++)
        q->n_unused += gguf_tensor_find(q->in, imatrix_entry_name(q->imatrix, i)) == NULL;
    if (n > 0 && q->n_unused == n)
        return error_set(
            err, HASTEN_ERR_FILE,
            "%s: none of its %lld entries names a tensor of %s (expected the importance matrix of "
            "this model)",
            q->args->imatrix, (long long)n, q->in_path.data);
    if (q->n_unused)
        ui_note(q->ui, "%s: %d of %lld entries name no tensor of the model", q->args->imatrix, q->n_unused,
                (long long)n);
    return HASTEN_OK;
}

static hasten_status read_rules(struct quantize *q, struct hasten_error *err)
{
    static const char imatrix[] = "imatrix";
    struct gguf_str arch = {"", 0}, type = {"", 0};
    uint32_t n_layer = 0;
    char key[128];
    hasten_status st = gguf_opt_str(q->in, "general.type", &type, err);
    if (!st && type.len == sizeof imatrix - 1 && memcmp(type.data, imatrix, type.len) == 0)
        st = error_set(err, HASTEN_ERR_FILE,
                       "%s: general.type: found 'imatrix' (expected a model; --imatrix takes this file)",
                       q->in_path.data);
    if (!st)
        st = gguf_opt_str(q->in, "general.architecture", &arch, err);
    if (!st && arch.len < 64) {
        snprintf(key, sizeof key, "%.*s.block_count", (int)arch.len, arch.data);
        st = gguf_opt_u32(q->in, key, &n_layer, err);
    }
    if (!st && gguf_n_tensors(q->in) == 0)
        st = error_set(err, HASTEN_ERR_FILE, "%s: no tensors (expected a model)", q->in_path.data);
    q->rules.n_layer = n_layer > LIMIT_LAYERS ? LIMIT_LAYERS : (int32_t)n_layer;
    return st;
}

/* Rows of q and k of a folder lie for RoPE on halves of a head, those of GGUF's `llama` files for RoPE on pairs. They
 * become so here unless biases or values that are not rotated stand in the way: then the file keeps saying that they lie
 * as in the folder (hasten.rope_halves), which other programs do not know. */
static hasten_status plan_heads(struct quantize *q, struct hasten_error *err)
{
    struct gguf_str arch = {"", 0};
    bool halves = false;
    uint32_t heads = 0, kv_heads, n_rot = 0;
    hasten_status st = gguf_opt_str(q->in, "general.architecture", &arch, err);
    if (!st)
        st = gguf_opt_bool(q->in, "hasten.rope_halves", &halves, err);
    if (st || !halves || arch.len != 5 || memcmp(arch.data, "llama", 5) != 0)
        return st;
    st = gguf_opt_u32(q->in, "llama.attention.head_count", &heads, err);
    kv_heads = heads;
    if (!st)
        st = gguf_opt_u32(q->in, "llama.attention.head_count_kv", &kv_heads, err);
    const struct gguf_tensor *wq = gguf_tensor_find(q->in, "blk.0.attn_q.weight");
    const struct gguf_tensor *wk = gguf_tensor_find(q->in, "blk.0.attn_k.weight");
    if (st || !heads || !kv_heads || !wq || !wk || gguf_tensor_find(q->in, "blk.0.attn_q.bias") ||
        gguf_tensor_find(q->in, "blk.0.attn_k.bias"))
        return st;
    n_rot = (uint32_t)(wq->ne[1] / heads);
    st = gguf_opt_u32(q->in, "llama.rope.dimension_count", &n_rot, err);
    if (!st && n_rot == wq->ne[1] / heads && n_rot == wk->ne[1] / kv_heads && n_rot % 2 == 0)
        q->head_rows = n_rot;
    return st;
}

/* What a folder needs to become a file. */
static hasten_status plan_folder(struct quantize *q, struct hasten_error *err)
{
    const struct gguf_tensor *rows = gguf_tensor_find(q->in, "token_embd.weight");
    hasten_status st = gguf_version(q->in) ? HASTEN_OK : plan_heads(q, err);
    return st ? st : source_tokenizer(q->in, rows ? rows->ne[1] : 0, &q->tokenizer, err);
}

static hasten_status make_plan(struct quantize *q, struct hasten_error *err)
{
    const int64_t n = gguf_n_tensors(q->in);
    hasten_status st = check_imatrix(q, err);
    if (!st)
        st = plan_folder(q, err);
    q->choices = mem_calloc((size_t)n, sizeof *q->choices);
    if (!q->choices)
        return error_set(err, HASTEN_ERR_MEMORY, "quantize: out of memory");
    for (int64_t i = 0; i < n && !st; i++)
        st = choose(q, i, err);
    for (int i = 0; i < q->rules.n_overrides && !st; i++)
        if (!q->rules.overrides[i].used)
            st = error_set(err, HASTEN_ERR_USAGE, "option --tensor: '%.*s' matches no matrix of %s",
                           (int)q->rules.overrides[i].pattern_len, q->rules.overrides[i].pattern,
                           q->in_path.data);
    if (st)
        return st;
    for (int i = 0; i < q->n_fallbacks; i++)
        ui_note(q->ui, "%d matri%s whose rows %s cannot hold (not a multiple of %d): %s instead",
                q->fallbacks[i].n, q->fallbacks[i].n == 1 ? "x" : "ces", q->fallbacks[i].a->name,
                (int)q->fallbacks[i].a->block, q->fallbacks[i].b->name);
    if (q->imatrix && q->n_unweighted)
        ui_note(q->ui, "%s: no entry for %d of %d matrices, such as %s: their columns count alike",
                q->args->imatrix, q->n_unweighted, q->n_blocked, q->unweighted);
    return HASTEN_OK;
}

/* ---- doing it ------------------------------------------------------------------------------------------------- */

static bool own_key(const struct quantize *q, const char *key)
{
    return (q->head_rows && strcmp(key, "hasten.rope_halves") == 0) ||
           strcmp(key, "general.file_type") == 0 || strcmp(key, "general.quantization_version") == 0 ||
           strcmp(key, "general.alignment") == 0 || strncmp(key, "quantize.imatrix.", 17) == 0 ||
           strncmp(key, "split.", 6) == 0; /* the output is one file */
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static hasten_status write_header(struct quantize *q, struct hasten_error *err)
{
    hasten_status st = gguf_write_open(q->out_path, gguf_alignment(q->in), &q->out, err);
    if (st)
        return st;
    for (int64_t i = 0; i < gguf_n_keys(q->in); i++)
        if (!own_key(q, gguf_key(q->in, i)))
            gguf_write_copy(q->out, q->in, i);
    for (int64_t i = 0; q->tokenizer && i < gguf_n_keys(q->tokenizer); i++)
        gguf_write_copy(q->out, q->tokenizer, i);
    gguf_write_u32(q->out, "general.file_type", q->rules.type->file_type);
    gguf_write_u32(q->out, "general.quantization_version", QUANTIZATION_VERSION);
    if (q->imatrix) {
        gguf_write_str(q->out, "quantize.imatrix.file", base_name(q->args->imatrix));
        gguf_write_str(q->out, "quantize.imatrix.dataset", imatrix_dataset(q->imatrix));
        gguf_write_u32(q->out, "quantize.imatrix.entries_count", (uint32_t)imatrix_n_entries(q->imatrix));
        gguf_write_u32(q->out, "quantize.imatrix.chunks_count", imatrix_chunk_count(q->imatrix));
    }
    for (int64_t i = 0; i < gguf_n_tensors(q->in); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(q->in, i);
        gguf_write_tensor(q->out, t->name, q->choices[i].to, t->n_dims, t->ne);
        q->tensor_bytes +=
            values_of(t) / (uint64_t)q->choices[i].to->block * (uint64_t)q->choices[i].to->block_bytes;
    }
    st = gguf_write_begin(q->out, err);
    q->file_bytes = gguf_write_bytes(q->out);
    return st;
}

static int show_progress(void *ctx, uint64_t done)
{
    struct quantize *q = ctx;
    ui_progress(q->ui, "quantize", q->n_done + done, q->n_values, "weights", q->t0);
    return interrupt_seen();
}

static bool name_ends(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static hasten_status convert_one(struct quantize *q, int64_t i, struct hasten_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_at(q->in, i);
    const struct choice *c = &q->choices[i];
    struct convert_request r = {.from = t, .to = c->to, .out = q->out, .progress = show_progress, .ctx = q};
    if (name_ends(t->name, ".attn_q.weight") || name_ends(t->name, ".attn_k.weight"))
        r.head_rows = q->head_rows;
    const struct convert_sums before = q->sums;
    float *importance = NULL;
    hasten_status st = HASTEN_OK;
    if (c->entry >= 0) {
        const int64_t n_mat = t->ne[2] * t->ne[3];
        importance = mem_array((size_t)(t->ne[0] * n_mat), sizeof *importance);
        st = importance
                 ? imatrix_get(q->imatrix, c->entry, t->ne[0], n_mat, importance, err)
                 : error_set(err, HASTEN_ERR_MEMORY, "out of memory for the importances of '%s'", t->name);
        r.importance = importance;
    }
    if (!st && (st = convert_tensor(q->converter, &r, &q->sums, err)) == HASTEN_ERR_FILE)
        error_prefix(err, "%s", q->in_path.data);
    mem_free(importance);
    q->n_done += values_of(t);
    if (!st) {
        const double e = q->sums.error2 - before.error2, v = q->sums.value2 - before.value2;
        const double relative2 = v > 0 ? e / v : 0;
        if (c->to != t->type) {
            q->relative2 += relative2 * (double)values_of(t);
            q->n_encoded += values_of(t);
        }
        ui_detail(q->ui, "%-32s %-5s -> %-5s error %.5f%s", t->name, t->type->name, c->to->name,
                  sqrt(relative2), c->entry >= 0 ? ", weighted" : "");
    }
    return st;
}

static hasten_status run(struct quantize *q, struct hasten_error *err)
{
    q->t0 = clock_now_ns();
    interrupt_arm_writing(); /* as long as there is a file that must not be left behind */
    hasten_status st = write_header(q, err);
    if (!st)
        st = pool_create(cli_threads(q->args->n_threads, q->ui), &q->pool, err);
    if (!st)
        st = converter_open(q->pool, &q->converter, err);
    for (int64_t i = 0; i < gguf_n_tensors(q->in) && !st; i++)
        st = convert_one(q, i, err);
    ui_progress_end(q->ui);
    if (!st)
        st = gguf_write_finish(q->out, err);
    gguf_write_close(q->out); /* removes what is not finished */
    q->out = NULL;
    interrupt_disarm_writing();
    return st;
}

/* Of the matrices encoded anew: the root of the mean of their squared relative errors, by size. A matrix's relative
 * error does not depend on its scale, so that no single one drowns the others. */
static double relative_error(const struct quantize *q)
{
    return q->n_encoded ? sqrt(q->relative2 / (double)q->n_encoded) : 0.0;
}

/* ---- the report ------------------------------------------------------------------------------------------------ */

static json_t *report_json(const struct quantize *q, double ms)
{
    json_t *formats = json_object(), *fallbacks = json_array();
    for (int i = 0; i < q->n_formats; i++)
        json_object_set_new(formats, q->formats[i].a->name, json_integer(q->formats[i].n));
    for (int i = 0; i < q->n_fallbacks; i++)
        json_array_append_new(fallbacks, json_pack("{s:s, s:s, s:i}", "from", q->fallbacks[i].a->name, "to",
                                                   q->fallbacks[i].b->name, "tensors", q->fallbacks[i].n));
    const double n = q->n_values ? (double)q->n_values : 1;
    json_t *v = json_pack("{s:o, s:s, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:i, s:f}", "file",
                          json_bytes(q->out_path, strlen(q->out_path)), "type", q->rules.type->name, "bytes",
                          (json_int_t)q->file_bytes, "weights", (json_int_t)q->n_values, "bits_per_weight",
                          (double)q->tensor_bytes * 8 / n, "rms_error", sqrt(q->sums.error2 / n),
                          "relative_error", relative_error(q), "tensors", formats, "fallbacks", fallbacks,
                          "threads", pool_size(q->pool), "ms", ms);
    if (v && q->imatrix)
        json_object_set_new(v, "imatrix",
                            json_pack("{s:I, s:i, s:i, s:i}", "entries",
                                      (json_int_t)imatrix_n_entries(q->imatrix), "unused", q->n_unused,
                                      "weighted", q->n_blocked - q->n_unweighted, "unweighted",
                                      q->n_unweighted));
    return v;
}

static int report(const struct quantize *q)
{
    const double ms = (double)(clock_now_ns() - q->t0) / 1e6;
    if (q->ui->json)
        return cli_json(report_json(q, ms));
    ui_note(q->ui, "%s: %.1f MB, %.2f bits per weight, relative error %.5f, %.1f s", q->out_path,
            (double)q->file_bytes / 1e6, (double)q->tensor_bytes * 8 / (double)q->n_values, relative_error(q),
            ms / 1e3);
    return cli_finish(0);
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

/* The output replaces nothing that is read, and nothing but a file. */
static hasten_status check_output(const struct quantize *q, struct hasten_error *err)
{
    const char *inputs[] = {q->in_path.data, q->args->imatrix};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] && file_same(inputs[i], q->out_path))
            return error_set(err, HASTEN_ERR_USAGE,
                             "quantize: the output %s is the input %s (expected another file)", q->out_path,
                             inputs[i]);
    const enum file_kind kind = file_kind(q->out_path);
    if (*q->out_path == '\0')
        return error_set(err, HASTEN_ERR_USAGE, "quantize: the output is '' (expected the name of a file)");
    if (strcmp(q->out_path, "-") == 0)
        return error_set(err, HASTEN_ERR_USAGE, "quantize: the output is - (expected the name of a file)");
    if (kind != FILE_MISSING && kind != FILE_REGULAR)
        return error_set(err, HASTEN_ERR_USAGE, "quantize: the output %s is %s (expected the name of a file)",
                         q->out_path, kind == FILE_FOLDER ? "a folder" : "no regular file");
    return file_may_create(q->out_path, err);
}

/* Nor is it one of the files that the input lies in. */
static hasten_status check_parts(const struct quantize *q, struct hasten_error *err)
{
    for (int32_t i = 0; i < gguf_n_parts(q->in); i++)
        if (file_same(gguf_part_at(q->in, i).path, q->out_path))
            return error_set(err, HASTEN_ERR_USAGE,
                             "quantize: the output %s is %s of the input (expected another file)",
                             q->out_path, gguf_part_at(q->in, i).path);
    return HASTEN_OK;
}

static hasten_status read_arguments(struct quantize *q, const char *type, struct hasten_error *err)
{
    const struct option_list *list = &q->args->tensors;
    q->rules.type = quantize_type_find(type);
    q->rules.pure = q->args->pure;
    if (!q->rules.type) {
        const char *near = quantize_type_nearest(type);
        if (quantize_type_read_only(type))
            return error_set(
                err, HASTEN_ERR_USAGE,
                "quantize: type '%.64s' is read, not written: unsupported here (expected one of %s)", type,
                quantize_type_names());
        return near ? error_set(err, HASTEN_ERR_USAGE, "quantize: unknown type '%.64s' (did you mean %s?)",
                                type, near)
                    : error_set(err, HASTEN_ERR_USAGE, "quantize: unknown type '%.64s' (expected one of %s)",
                                type, quantize_type_names());
    }
    q->rules.overrides = mem_calloc((size_t)list->n + 1, sizeof *q->rules.overrides);
    if (!q->rules.overrides)
        return error_set(err, HASTEN_ERR_MEMORY, "quantize: out of memory");
    q->rules.n_overrides = list->n;
    for (int i = 0; i < list->n; i++) {
        hasten_status st = quantize_override_parse(list->items[i], &q->rules.overrides[i], err);
        if (st) {
            error_prefix(err, "quantize");
            return st;
        }
    }
    return HASTEN_OK;
}

static int quantize(struct quantize *q, const struct option_positionals *pos)
{
    struct hasten_error err;
    hasten_status st = read_arguments(q, pos->items[2], &err);
    if (!st && *q->out_path) /* '' is refused before anything is looked for */
        st = model_resolve(pos->items[0], &q->in_path, &err);
    if (!st)
        st = check_output(q, &err);
    if (!st)
        st = source_open(q->in_path.data, &q->in, &err);
    if (!st)
        st = check_parts(q, &err);
    if (!st && q->args->imatrix)
        st = imatrix_open(q->args->imatrix, &q->imatrix, &err);
    if (!st)
        st = read_rules(q, &err);
    if (!st)
        st = make_plan(q, &err);
    if (!st)
        st = run(q, &err);
    int rc = st ? ui_fail(q->ui, &err) : report(q);
    converter_close(q->converter);
    pool_destroy(q->pool);
    imatrix_close(q->imatrix);
    gguf_close(q->tokenizer);
    gguf_close(q->in);
    mem_free(q->choices);
    mem_free(q->rules.overrides);
    buf_free(&q->in_path);
    return rc;
}

int cmd_quantize(const struct command *c, int argc, char **argv)
{
    struct quantize_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "Quantize:",
         .defs = quantize_defs,
         .n = (int)(sizeof quantize_defs / sizeof *quantize_defs),
         .dst = &a},
    };
    struct option_positionals pos;
    int rc = command_parse(c, &a.ui, groups, 2, 3, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    struct quantize q = {.args = &a, .ui = &a.ui};
    if (pos.n < 3)
        rc = cli_usage(c, "no %s (expected IN OUT TYPE)", pos.n == 0 ? "IN" : pos.n == 1 ? "OUT" : "TYPE");
    else {
        q.out_path = pos.items[1];
        rc = quantize(&q, &pos);
    }
    options_free(groups, 2);
    return rc;
}
