/* `hasten info`: what a GGUF file or a model folder holds, and the memory that running it takes. Works without tensors too; then
 * there is no memory plan. */
#include "base/limits.h"
#include "cli/session.h"
#include "model/source.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct info_args {
    bool tensors;
    struct ui ui;
    struct model_args model;
};

static const struct option_def info_defs[] = {
    {"tensors", NULL, OPT_FLAG, offsetof(struct info_args, tensors), 0, 0, NULL, NULL, "list every tensor"},
};

struct type_sum { /* tensors of one type */
    const struct quant_type *type;
    int64_t n;
    uint64_t bytes;
};

struct facts {
    struct hasten_model *model; /* NULL: cannot be run */
    struct gguf *own;           /* without a model */
    const struct gguf *g;       /* of either */
    const char *path;
    struct gguf_str arch, name;
    struct type_sum types[64];
    int n_types;
    uint64_t n_params, n_active; /* of these, used for a token */
    int32_t n_expert, n_used;    /* of the first layer that has experts; 0: none */
    const char *vocab;           /* "bpe/qwen2"; NULL: none or unsupported */
    int32_t n_vocab;
    bool has_plan, has_template;
    struct hasten_plan plan;
    int32_t n_ctx;
    char why_no_plan[1024];
};

static void count_tensors(struct facts *f)
{
    for (int64_t i = 0; i < gguf_n_tensors(f->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(f->g, i);
        int k = 0;
        while (k < f->n_types && f->types[k].type != t->type)
            k++;
        if (k == 64)
            continue;
        if (k == f->n_types)
            f->types[f->n_types++] = (struct type_sum){.type = t->type};
        f->types[k].n++;
        f->types[k].bytes += t->size_bytes;
        f->n_params += (uint64_t)t->ne[0] * (uint64_t)t->ne[1] * (uint64_t)t->ne[2] * (uint64_t)t->ne[3];
    }
}

/* Experts that a token does not use are parameters that it does not read. */
static void count_experts(struct facts *f)
{
    const struct model_desc *d = f->model ? &f->model->desc : NULL;
    f->n_active = f->n_params;
    for (int32_t i = 0; d && i < d->n_layer; i++) {
        const struct moe *m = &d->layers[i].moe;
        if (d->layers[i].ffn != FFN_MOE)
            continue;
        if (!f->n_expert) {
            f->n_expert = m->n_expert;
            f->n_used = m->n_used;
        }
        const int64_t each =
            m->gate->n_rows * m->gate->k + m->up->n_rows * m->up->k + m->down->n_rows * m->down->k;
        f->n_active -= (uint64_t)(m->n_expert - m->n_used) * (uint64_t)each;
    }
}

/* Opens the model as a run does and plans an engine on it, before anything else is alive: the plan counts what
 * is. A file that is no model to run is opened as a GGUF file alone, with the reason. */
static hasten_status open_and_plan(struct facts *f, const struct hasten_engine_settings *wanted,
                                   const struct option_list *lora, struct hasten_error *err)
{
    struct adapters adapters = {0};
    struct hasten_error why;
    struct hasten_engine_settings s = *wanted;
    hasten_status st = model_open_unread(f->path, &f->model, &why);
    if (!st && s.n_ctx == 0)
        s.n_ctx = hasten_model_n_ctx_train(f->model) < 4096 ? hasten_model_n_ctx_train(f->model) : 4096;
    if (!st) {
        s.n_threads = cli_threads(s.n_threads, NULL); /* as session_open */
        const hasten_status bad = adapters_open(lora, f->model, &adapters, &s, err);
        st = bad ? bad : hasten_engine_plan(f->model, &s, &f->plan, &why);
        adapters_close(&adapters);
        if (bad)
            return bad;
    }
    f->n_ctx = s.n_ctx;
    f->has_plan = !st;
    if (f->model)
        f->g = model_gguf(f->model);
    else if (source_open(f->path, &f->own, err))
        return err->status;
    else
        f->g = f->own;
    if (st)
        snprintf(f->why_no_plan, sizeof f->why_no_plan, "%s",
                 gguf_n_tensors(f->g) ? why.message : "the file has no tensors");
    return HASTEN_OK;
}

#define SHOWN_ELEMENTS 8

/* Numbers, booleans and strings as such; a float that JSON cannot hold is null, a whole number beyond the
 * integers of JSON readers' 64 bits a float. */
static json_t *scalar_json(const struct gguf_value *v)
{
    switch (v->type) {
    case GGUF_STRING:
        return json_bytes(v->str.data, v->str.len);
    case GGUF_BOOL:
        return json_boolean(v->boolean);
    case GGUF_F32:
    case GGUF_F64:
        return isfinite(v->real) ? json_real(v->real) : json_null();
    default:
        if (v->magnitude > INT64_MAX)
            return json_real(v->negative ? -(double)v->magnitude : (double)v->magnitude);
        return json_integer(v->negative ? -(json_int_t)v->magnitude : (json_int_t)v->magnitude);
    }
}

/* Key i; an array is {"n", "type", "first": its first elements}. NULL when out of memory. */
static json_t *value_json(const struct gguf *g, int64_t i)
{
    struct gguf_value v;
    int64_t n;
    enum gguf_value_type type = gguf_value_elements(g, i, &n);
    if (gguf_key_type(g, i) != GGUF_ARRAY) {
        gguf_value_at(g, i, 0, &v);
        return scalar_json(&v);
    }
    json_t *first = json_array();
    for (int64_t k = 0; k < n && k < SHOWN_ELEMENTS && type != GGUF_ARRAY; k++) {
        gguf_value_at(g, i, k, &v);
        json_add(&first, scalar_json(&v));
    }
    return json_pack("{s:I, s:s, s:o}", "n", (json_int_t)n, "type", gguf_value_type_name(type), "first",
                     first);
}

static json_t *keys_json(const struct gguf *g)
{
    json_t *keys = json_object();
    for (int64_t i = 0; i < gguf_n_keys(g); i++) {
        json_t *name = json_bytes(gguf_key(g, i), strlen(gguf_key(g, i)));
        json_put(&keys, name ? json_string_value(name) : "", name ? value_json(g, i) : NULL);
        json_decref(name);
    }
    return keys;
}

static json_t *tensors_json(const struct gguf *g)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        json_t *ne = json_array();
        for (int d = 0; d < t->n_dims; d++)
            json_add(&ne, json_integer(t->ne[d]));
        json_add(&list, json_pack("{s:o, s:s, s:o, s:I, s:I}", "name", json_bytes(t->name, strlen(t->name)),
                                  "type", t->type->name, "shape", ne, "offset", (json_int_t)t->offset,
                                  "bytes", (json_int_t)t->size_bytes));
    }
    return list;
}

static json_t *experts_json(const struct facts *f)
{
    if (!f->n_expert)
        return json_null();
    return json_pack("{s:i, s:i, s:I}", "count", (int)f->n_expert, "used", (int)f->n_used, "n_params_active",
                     (json_int_t)f->n_active);
}

static json_t *plan_json(const struct facts *f)
{
    if (!f->has_plan)
        return json_null();
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "context", (int)f->n_ctx, "file_bytes",
                     (json_int_t)f->plan.file_bytes, "expert_bytes", (json_int_t)f->plan.expert_bytes,
                     "kv_bytes", (json_int_t)f->plan.kv_bytes, "compute_bytes",
                     (json_int_t)f->plan.compute_bytes, "base_bytes", (json_int_t)f->plan.base_bytes,
                     "total_bytes", (json_int_t)f->plan.total_bytes);
}

static int print_json(const struct facts *f, bool tensors)
{
    json_t *types = json_object();
    for (int i = 0; i < f->n_types; i++)
        json_put(&types, f->types[i].type->name,
                 json_pack("{s:I, s:I}", "tensors", (json_int_t)f->types[i].n, "bytes",
                           (json_int_t)f->types[i].bytes));
    json_t *v = json_pack("{s:o, s:I, s:i, s:o, s:o, s:s?, s:i, s:b, s:I, s:I, s:o, s:o, s:o, s:o}", "path",
                          json_bytes(f->path, strlen(f->path)), "file_bytes",
                          (json_int_t)gguf_file_bytes(f->g), "gguf_version", (int)gguf_version(f->g),
                          "architecture", json_bytes(f->arch.data, f->arch.len), "name",
                          json_bytes(f->name.data, f->name.len), "tokenizer", f->vocab, "n_vocab",
                          (int)f->n_vocab, "chat_template", (int)f->has_template, "n_tensors",
                          (json_int_t)gguf_n_tensors(f->g), "n_params", (json_int_t)f->n_params, "experts",
                          experts_json(f), "types", types, "memory", plan_json(f), "keys", keys_json(f->g));
    if (tensors)
        json_put(&v, "tensors", tensors_json(f->g));
    return cli_json(v);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void print_memory(const struct facts *f)
{
    if (f->has_plan)
        printf("memory       %.1f MiB at a context of %d: file %.1f, KV %.1f, compute %.1f, base %.1f\n",
               mib(f->plan.total_bytes), (int)f->n_ctx, mib(f->plan.file_bytes), mib(f->plan.kv_bytes),
               mib(f->plan.compute_bytes), mib(f->plan.base_bytes));
    else
        printf("memory       cannot be run: %s\n", f->why_no_plan);
}

/* Bytes of a file shown on a terminal: control characters become '?'. */
static void print_clean(const char *s, size_t len)
{
    for (size_t i = 0; i < len && i < 200; i++)
        putchar((unsigned char)s[i] < 32 || s[i] == 127 ? '?' : s[i]);
}

static void print_text(const char *label, struct gguf_str s)
{
    printf("%-12s ", label);
    print_clean(s.data, s.len);
    putchar('\n');
}

static int print_table(const struct facts *f, bool tensors)
{
    char value[200];
    printf("file         %s\n", f->path);
    printf("size         %.1f MiB, ", mib(gguf_file_bytes(f->g)));
    if (gguf_version(f->g))
        printf("GGUF version %u", (unsigned)gguf_version(f->g));
    else
        printf("safetensors");
    if (gguf_n_parts(f->g) > 1)
        printf(", %d files", (int)gguf_n_parts(f->g));
    putchar('\n');
    print_text("architecture", f->arch);
    print_text("name", f->name);
    printf("tokenizer    %s, %d tokens, %s chat template\n", f->vocab ? f->vocab : "none", (int)f->n_vocab,
           f->has_template ? "with" : "no");
    printf("tensors      %" PRId64 ", %.1f M parameters\n", gguf_n_tensors(f->g), (double)f->n_params / 1e6);
    if (f->n_expert)
        printf("experts      %d a layer, %d used by a token: %.1f M parameters active\n", (int)f->n_expert,
               (int)f->n_used, (double)f->n_active / 1e6);
    for (int i = 0; i < f->n_types; i++)
        printf("  %-8s   %5" PRId64 " tensors  %10.1f MiB\n", f->types[i].type->name, f->types[i].n,
               mib(f->types[i].bytes));
    print_memory(f);
    printf("keys         %" PRId64 "\n", gguf_n_keys(f->g));
    for (int64_t i = 0; i < gguf_n_keys(f->g); i++) {
        gguf_value_text(f->g, i, value, 80);
        printf("  ");
        print_clean(gguf_key(f->g, i), strlen(gguf_key(f->g, i)));
        printf(" = ");
        print_clean(value, strlen(value));
        putchar('\n');
    }
    for (int64_t i = 0; i < gguf_n_tensors(f->g) && tensors; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(f->g, i);
        printf("  %-40s %-6s [%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "] %" PRIu64 " bytes\n", t->name,
               t->type->name, t->ne[0], t->ne[1], t->ne[2], t->ne[3], t->size_bytes);
    }
    return cli_finish(0);
}

static int info(const struct info_args *a, struct facts *f)
{
    struct gguf_str template = {NULL, 0};
    struct vocab *own = NULL;
    struct hasten_error err;
    hasten_status st = gguf_opt_str(f->g, "general.architecture", &f->arch, &err);
    if (!st)
        st = gguf_opt_str(f->g, "general.name", &f->name, &err);
    if (!st)
        st = gguf_opt_str(f->g, "tokenizer.chat_template", &template, &err);
    if (st)
        return cli_fail(&err);
    f->has_template = template.len > 0;
    count_tensors(f);
    count_experts(f);
    const struct vocab *v = f->model ? model_vocab(f->model) : NULL;
    if (!v && source_vocab(f->g, &own, &err) == HASTEN_OK)
        v = own;
    f->vocab = v ? vocab_describe(v) : NULL;
    f->n_vocab = v ? vocab_size(v) : 0;
    int rc = a->ui.json ? print_json(f, a->tensors) : print_table(f, a->tensors);
    vocab_close(own);
    return rc;
}

int cmd_info(const struct command *c, int argc, char **argv)
{
    struct info_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui), {.title = "Info:", .defs = info_defs, .n = 1, .dst = &a}, model_group(&a.model)};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 3, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    struct hasten_engine_settings settings;
    struct buf path = {0};
    const char *model = model_argument(&a.model, &pos, &err);
    hasten_status st = model ? model_settings(&a.model, &groups[2], &settings, &err) : HASTEN_ERR_USAGE;
    if (!st)
        st = model_resolve(model, &path, &err);
    struct facts f = {.path = path.data};
    if (!st)
        st = open_and_plan(&f, &settings, &a.model.lora, &err);
    rc = st ? ui_fail(&a.ui, &err) : info(&a, &f);
    gguf_close(f.own);
    hasten_model_close(f.model);
    buf_free(&path);
    options_free(groups, 3);
    return rc;
}
