/* Opening what a command works with (session.h). Owns the options of the group "Model:". */
#include "cli/session.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/pool.h"
#include "engine/method_set.h"
#include "model/script.h"
#include "model/source.h"
#include <jansson.h>
#include <time.h>

/* In the order of enum hasten_kv_type, then synonyms. */
#define CACHE_TYPES "f16|f32|bf16|q8|q4|q8_0|q4_0"

static enum hasten_kv_type cache_type(int choice)
{
    return choice <= HASTEN_KV_Q4       ? (enum hasten_kv_type)choice
           : choice == HASTEN_KV_Q4 + 1 ? HASTEN_KV_Q8
                                        : HASTEN_KV_Q4;
}

static const struct option_def model_defs[] = {
    {"model", "m", OPT_STRING, offsetof(struct model_args, model), 0, 0, NULL, "MODEL",
     "a GGUF file, or a name in the cache; also positional"},
    {"threads", "t", OPT_INT, offsetof(struct model_args, n_threads), 0, LIMIT_THREADS, "0", "N",
     "workers; 0: as affinity and cgroup allow"},
    {"ctx-size", "c n-ctx", OPT_INT, offsetof(struct model_args, n_ctx), 0, LIMIT_CONTEXT, "0", "N",
     "context in tokens; 0: eval 512, bench what it needs, else the model's up to 4096"},
    {"batch-size", "b ub n-batch ubatch-size", OPT_INT, offsetof(struct model_args, n_batch), 1,
     LIMIT_BATCH_ROWS, "512", "N", "rows of one step"},
    {"memory", NULL, OPT_SIZE, offsetof(struct model_args, memory), 0, 0, NULL, "LIMIT",
     "refuse to start when more is needed (512M, 4G); 0: no limit"},
    {"in-place", NULL, OPT_FLAG, offsetof(struct model_args, in_place), 0, 0, NULL, NULL,
     "read weights from the mapped file, never packed into memory of the process: the same bits, slower decode"},
    {"cache-type", "ctk cache-type-k", OPT_CHOICE, offsetof(struct model_args, cache_type), 0, 0, NULL,
     CACHE_TYPES, "how keys and values are kept; q8_0 is q8, q4_0 is q4 [f16; f32 with --reference]"},
    {"cache-type-v", "ctv", OPT_CHOICE, offsetof(struct model_args, cache_type_v), 0, 0, NULL, CACHE_TYPES,
     "the same for values; must equal -ctk today"},
    {"mlock", NULL, OPT_FLAG, offsetof(struct model_args, mlock), 0, 0, NULL, NULL,
     "keep the file in memory, never paged out"},
    {"no-mmap", NULL, OPT_FLAG, offsetof(struct model_args, no_mmap), 0, 0, NULL, NULL,
     "read the file into memory instead of mapping it"},
    {"lora", "lora-scaled", OPT_LIST, offsetof(struct model_args, lora), 0, 0, NULL, "FILE[:SCALE]",
     "add a low-rank adapter (GGUF) to the model, times SCALE [1]; repeatable"},
    {"reference", NULL, OPT_FLAG, offsetof(struct model_args, reference), 0, 0, NULL, NULL,
     "plain C in float: slow, the truth"},
};

struct option_group model_group(struct model_args *args)
{
    return (struct option_group){.title = "Model:",
                                 .defs = model_defs,
                                 .n = (int)(sizeof model_defs / sizeof *model_defs),
                                 .dst = args};
}

const char *model_argument(const struct model_args *args, const struct option_positionals *pos,
                           struct hasten_error *err)
{
    if (pos->n > 0)
        return pos->items[0];
    if (!args->model)
        error_set(err, HASTEN_ERR_USAGE, "no MODEL (expected a GGUF file or a name such as smollm2)");
    return args->model;
}

int command_parse_model(const struct command *c, struct ui *ui, struct option_group *groups, int n_groups,
                        const struct model_args *args, int argc, char **argv, const char **model)
{
    struct option_positionals pos;
    struct hasten_error err;
    const int rc = command_parse(c, ui, groups, n_groups, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    *model = model_argument(args, &pos, &err);
    if (*model)
        return -1;
    options_free(groups, n_groups);
    return ui_fail(ui, &err);
}

hasten_status model_settings(struct model_args *args, const struct option_group *g,
                             struct hasten_engine_settings *s, struct hasten_error *err)
{
    /* One type serves both, so a type on the command line beats the other's environment. */
    bool line = option_on_line(g, "cache-type") || option_on_line(g, "cache-type-v");
    bool k = line ? option_on_line(g, "cache-type") : option_given(g, "cache-type");
    bool v = line ? option_on_line(g, "cache-type-v") : option_given(g, "cache-type-v");
    hasten_engine_default_settings(s);
    s->n_threads = args->n_threads;
    s->n_ctx = args->n_ctx;
    s->n_batch = args->n_batch;
    s->memory_limit = args->memory;
    s->in_place = args->in_place;
    s->reference = args->reference;
    s->kv_type = k || v            ? cache_type(k ? args->cache_type : args->cache_type_v)
                 : args->reference ? HASTEN_KV_F32
                                   : HASTEN_KV_F16;
    if (k && v && cache_type(args->cache_type) != cache_type(args->cache_type_v))
        return error_set(
            err, HASTEN_ERR_USAGE,
            "options -ctk and -ctv: keys and values of different types are unsupported (expected "
            "the same type for both)");
    /* What --cache says alone: -ctk may only repeat it, what nobody said yields. */
    struct hasten_engine_settings unsaid = *s;
    enum hasten_kv_type type;
    unsaid.kv_type = HASTEN_KV_F16;
    if (methods_settings(&args->methods, &unsaid, err) || method_kv_type(&unsaid, &type, err))
        return err->status;
    if (type != HASTEN_KV_F16 && !k && !v)
        s->kv_type = HASTEN_KV_F16; /* also with --reference */
    if (type != HASTEN_KV_F16 && (k || v) && s->kv_type == HASTEN_KV_F16)
        return error_set(err, HASTEN_ERR_USAGE,
                         "options -ctk f16 and --cache: another representation (expected one of the two)");
    return methods_settings(&args->methods, s, err);
}

hasten_status model_text_open(const char *arg, struct model_text *out, struct hasten_error *err)
{
    hasten_status st = model_resolve(arg, &out->path, err);
    if (!st && script_named(arg)) {
        st = model_open_unread(out->path.data, &out->scripted, err);
        out->gguf = st ? NULL : model_gguf(out->scripted);
        out->vocab = st ? NULL : model_vocab(out->scripted);
    } else if (!st) {
        st = source_open(out->path.data, &out->own_gguf, err);
        if (!st)
            st = source_vocab(out->own_gguf, &out->own_vocab, err);
        out->gguf = out->own_gguf;
        out->vocab = out->own_vocab;
    }
    if (st)
        model_text_close(out);
    return st;
}

void model_text_close(struct model_text *t)
{
    vocab_close(t->own_vocab);
    gguf_close(t->own_gguf);
    hasten_model_close(t->scripted);
    buf_free(&t->path);
    *t = (struct model_text){0};
}

hasten_status cli_read_ids(const char *path, int32_t n_vocab, struct tokens *ids, struct hasten_error *err)
{
    const char *name = cli_input_name(path);
    json_t *v = NULL;
    hasten_status st = cli_read_json(path, &v, err);
    if (!st && !json_is_array(v))
        st = error_set(err, HASTEN_ERR_FILE, "%s: not a JSON array (expected token ids, [1,2,3])", name);
    for (size_t i = 0; i < json_array_size(v) && !st; i++) {
        const json_t *x = json_array_get(v, i);
        json_int_t id = json_is_integer(x) ? json_integer_value(x) : -1;
        if (id < 0 || id >= n_vocab)
            st = error_set(err, HASTEN_ERR_FILE,
                           "%s: element %zu is not a token id (expected an integer from 0 to %d)", name, i,
                           (int)n_vocab - 1);
        else if (tokens_push(ids, (int32_t)id))
            st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", name);
    }
    json_decref(v);
    return st;
}

int32_t cli_threads(int32_t asked, struct ui *ui)
{
    const int32_t most = pool_default_threads();
    if (asked > most && ui)
        ui_note(ui, "-t %d: %d run, as many as there are CPUs for this process", (int)asked, (int)most);
    return asked == 0 || asked > most ? most : asked;
}

/* ---- opening -------------------------------------------------------------------------------------------- */

struct loading {
    struct ui *ui;
    uint64_t t0;
};

static int show_loading(void *ctx, uint64_t done, uint64_t total)
{
    struct loading *l = ctx;
    ui_progress(l->ui, "load", done, total, "bytes", l->t0);
    return interrupt_seen();
}

static hasten_status interrupted(const struct session *s, struct hasten_error *err)
{
    return interrupt_seen() ? error_set(err, HASTEN_ERR_CANCELLED, "opening %s: interrupted", s->path.data)
                            : HASTEN_OK;
}

/* The weights are read ahead by a thread, and the first step would wait for them without a word. When that takes more
 * than a second, and there is someone to see it, it is waited for here, with progress. */
static hasten_status wait_for_weights(const struct session *s, struct loading *l, struct hasten_error *err)
{
    uint64_t done, total;
    bool slow = false;
    while (ui_draws(l->ui) && !interrupt_seen() && model_reading(s->model, &done, &total)) {
        const double passed = (double)(clock_now_ns() - l->t0) / 1e9;
        slow |= done == 0 ? passed > 1 : (double)(total - done) / (double)done * passed > 1;
        if (!slow && passed > 0.05)
            break;
        ui_progress(l->ui, "load", done, total, "bytes", l->t0);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    ui_progress_end(l->ui);
    return interrupted(s, err);
}

static hasten_status open_all(const char *arg, const struct model_args *args, struct loading *l,
                              struct session *s, struct hasten_error *err)
{
    const struct hasten_model_settings how = {
        .copy = args->no_mmap, .lock = args->mlock, .progress = show_loading, .progress_ctx = l};
    hasten_status st = model_resolve(arg, &s->path, err);
    if (!st)
        st = hasten_model_open_with(s->path.data, &how, &s->model, err);
    ui_progress_end(l->ui);
    if (!st)
        st = interrupted(s, err);
    struct adapters adapters = {0};
    if (!st)
        st = adapters_open(&args->lora, s->model, &adapters, &s->settings, err);
    if (!st && s->adjust)
        s->adjust(s->adjust_ctx, s->model, &s->settings);
    if (!st)
        st = hasten_engine_open(s->model, &s->settings, &s->engine, err);
    adapters_close(&adapters); /* the engine has its own */
    s->settings.loras = NULL;
    s->settings.n_loras = 0;
    if (!st)
        st = store_open(s->engine, &s->store, err);
    if (!st)
        st = hasten_seq_open(s->engine, &s->seq, err);
    return st ? st : wait_for_weights(s, l, err);
}

hasten_status session_open(const char *arg, const struct model_args *args,
                           const struct hasten_engine_settings *settings, struct ui *ui, struct session *s,
                           struct hasten_error *err)
{
    struct loading l = {.ui = ui, .t0 = clock_now_ns()};
    s->settings = *settings;
    s->settings.n_threads = cli_threads(settings->n_threads, ui);
    interrupt_arm();
    hasten_status st = open_all(arg, args, &l, s, err);
    interrupt_disarm();
    if (st) {
        session_close(s);
        return st;
    }
    s->gguf = model_gguf(s->model);
    s->vocab = model_vocab(s->model);
    const int n_threads = (int)hasten_engine_n_threads(s->engine);
    ui_detail(ui, "%s: opened in %.0f ms, kernels %s, %d thread%s, context %d", s->path.data,
              (double)(clock_now_ns() - l.t0) / 1e6, hasten_engine_kernels(s->engine), n_threads,
              n_threads == 1 ? "" : "s", (int)hasten_engine_n_ctx(s->engine));
    return HASTEN_OK;
}

hasten_status session_has_weights(const struct session *s, const char *what, struct hasten_error *err)
{
    return s->model->script
               ? error_set(err, HASTEN_ERR_UNSUPPORTED,
                           "%s: unsupported with a scripted model (expected one with weights)", what)
               : HASTEN_OK;
}

void session_close(struct session *s)
{
    speculation_close(s->drafts);
    if (s->store) /* which may write it to disk */
        store_give(s->store, 0, s->seq);
    else
        hasten_seq_close(s->seq);
    store_close(s->store);
    hasten_engine_close(s->engine);
    hasten_model_close(s->model);
    buf_free(&s->path);
    *s = (struct session){0};
}
