/* What run, eval and bench share: the options that describe a model and an engine, and opening them. */
#ifndef HASTEN_CLI_SESSION_H
#define HASTEN_CLI_SESSION_H
#include "cli/adapters.h"
#include "cli/cache.h"
#include "cli/cli.h"
#include "cli/methods.h"
#include "cli/prompt_cache.h"
#include "engine/store.h"
#include "model/loaded.h"
#include "run/run.h"

struct model_args {
    const char *model;
    int32_t n_threads, n_ctx, n_batch;
    uint64_t memory;
    int cache_type, cache_type_v; /* enum hasten_kv_type */
    struct option_list lora;      /* FILE[:SCALE] */
    bool reference, in_place, no_mmap, mlock;
    struct method_args methods; /* methods_group(), where a command takes them */
};

/* The group "Model:". Initialise args with zeros. */
struct option_group model_group(struct model_args *args);
/* MODEL: positional or -m. Returns NULL after setting err (usage) when missing. */
const char *model_argument(const struct model_args *args, const struct option_positionals *pos,
                           struct hasten_error *err);
/* command_parse for a command of one MODEL, which must be given: -1 and *model, else the exit status. */
int command_parse_model(const struct command *c, struct ui *ui, struct option_group *groups, int n_groups,
                        const struct model_args *args, int argc, char **argv, const char **model);
/* Engine settings, HASTEN_ERR_USAGE for keys and values of different types; g says what was given (--reference without --cache-type keeps KV in f32). */
hasten_status model_settings(struct model_args *args, const struct option_group *g,
                             struct hasten_engine_settings *s, struct hasten_error *err);

/* A file with its vocabulary, for commands that need no tensors. Zero-initialise. */
struct model_text {
    struct buf path;
    const struct gguf *gguf;
    const struct vocab *vocab;
    struct hasten_model *scripted; /* a scripted model, which owns both; else NULL */
    struct gguf *own_gguf;
    struct vocab *own_vocab;
};
hasten_status model_text_open(const char *arg, struct model_text *out, struct hasten_error *err);
void model_text_close(struct model_text *t);

/* Token ids below n_vocab from a file with a JSON array, or stdin for "-"; appended. */
hasten_status cli_read_ids(const char *path, int32_t n_vocab, struct tokens *ids, struct hasten_error *err);

/* A model, its engine and one sequence. Zero-initialise. */
struct session {
    struct buf path;
    struct hasten_model *model;
    struct hasten_engine *engine;
    struct hasten_seq *seq;
    const struct gguf *gguf;   /* of the model */
    const struct vocab *vocab; /* of the model */
    struct hasten_engine_settings settings;
    /* NULL, or set before session_open: changes the settings once the model is known, before the engine is opened. */
    void (*adjust)(void *ctx, const struct hasten_model *m, struct hasten_engine_settings *settings);
    void *adjust_ctx;
    struct store *store;        /* of the engine; it may keep nothing */
    struct prompt_cache cache;  /* set by who wants one */
    struct speculation *drafts; /* of seq; made with its first answer */
};
/* Threads for -t asked: 0 and more than may run at once give the CPUs allowed, the latter with a note (ui: NULL or
 * where to). More threads than CPUs are never faster. */
int32_t cli_threads(int32_t asked, struct ui *ui);
/* Its settings.n_threads goes through cli_threads. args says how the file is read. Ctrl-C ends it with
 * HASTEN_ERR_CANCELLED. */
hasten_status session_open(const char *arg, const struct model_args *args,
                           const struct hasten_engine_settings *settings, struct ui *ui, struct session *out,
                           struct hasten_error *err);
/* HASTEN_ERR_UNSUPPORTED when the model is a scripted one: there are no weights to do `what` with. */
hasten_status session_has_weights(const struct session *s, const char *what, struct hasten_error *err);
void session_close(struct session *s);

#endif
