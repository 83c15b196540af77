/* What the modes of `hasten eval` share. One file per mode: eval_ppl.c (perplexity, raw logits), eval_damage.c (against
 * the plain engine), eval_tasks.c (--task), eval_compare.c (--compare). Measuring is in src/eval/; here it is asked
 * for and printed. */
#ifndef HASTEN_CLI_EVAL_H
#define HASTEN_CLI_EVAL_H
#include "cli/session.h"
#include "eval/stats.h"
#include "eval/windows.h"
#include <jansson.h>

#define EVAL_DEFAULT_CONTEXT 512

struct eval_args {
    const char *ppl, *ids, *logits;
    int32_t stride, limit_tokens, resamples;
    uint64_t seed;
    bool compare;
    /* damage */
    bool damage;
    const char *against;
    int32_t prefix, rows, block;
    /* tasks */
    const char *task, *length, *log, *python;
    struct option_list data;
    int32_t limit, parallel;
    bool raw, blind;
    struct ui ui;
    struct model_args model;
};

/* The modes; each returns the exit status. settings: of the engine, n_ctx 0 when not given. */
int eval_ppl(struct eval_args *a, const struct option_group *own, struct hasten_engine_settings *settings,
             const char *model);
int eval_damage_mode(struct eval_args *a, const struct option_group *own,
                     struct hasten_engine_settings *settings, const char *model);
int eval_tasks(struct eval_args *a, struct hasten_engine_settings *settings, const char *model);
int eval_compare_mode(struct eval_args *a, const struct option_positionals *files);

/* Whether the options ask for damage: the variant is what they say, the plain engine what eval_plain_settings leaves. */
bool eval_is_damage(const struct eval_args *a);

/* What the variant is, as it stands in reports: ["attend quest:...", "cache-type=q8", "lora=FILE"]. */
struct json_t *eval_variant_json(const struct eval_args *a, const struct hasten_engine_settings *s);

/* The text of --ppl or the ids of --ids, at least two tokens. */
hasten_status eval_read_tokens(const struct eval_args *a, const struct session *s, struct tokens *out,
                               struct hasten_error *err);
/* n_ctx and stride from the options, into settings and *w (without its ids). */
hasten_status eval_windows_of(const struct eval_args *a, const struct option_group *own,
                              struct hasten_engine_settings *settings, struct eval_windows *w,
                              struct hasten_error *err);
/* What is the same in two runs over one text with one convention: a hash of both, as hexadecimal digits. */
struct json_t *eval_text_json(const struct eval_windows *w);
/* {"value", "lo", "hi"}; null for what is not finite. */
struct json_t *eval_interval_json(const struct eval_interval *v);

#endif
