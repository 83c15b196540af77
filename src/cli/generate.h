/* One answer: prefill what the sequence does not hold yet, then decode token by token until something ends it. */
#ifndef HASTEN_CLI_GENERATE_H
#define HASTEN_CLI_GENERATE_H
#include "cli/session.h"
#include "run/run.h"

/* Options of the group "Sampling:". NaN and -1 mean: not given. */
struct sample_args {
    float temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    float typical_p, xtc_probability, xtc_threshold, dry_multiplier, dry_base, mirostat_tau, mirostat_eta;
    int32_t top_k, penalty_last_n, dry_allowed_length, dry_last_n, mirostat, n_logprobs, n_predict;
    uint64_t seed;
    bool ignore_eos;
    const char *grammar, *grammar_text;         /* a file; a text */
    const char *json_schema, *json_schema_text; /* the same */
    const char *regex;
    struct option_list bias, stops, breakers;
};
void sample_args_init(struct sample_args *a);
struct option_group sample_group(struct sample_args *a);

/* Compiles the grammar that the options name, before a model is opened: out->grammar. */
hasten_status sampling_take_grammar(const struct sample_args *a, const struct method_args *methods,
                                    struct sampling *out, struct hasten_error *err);
/* The law for one run: options, else the file's general.sampling.*, else the defaults; bias with the end
 * tokens forbidden by --ignore-eos; a seed from the system when none was given. Zero-initialise *out. */
hasten_status sampling_open(const struct sample_args *a, const struct option_group *g,
                            const struct session *s, struct sampling *out, struct hasten_error *err);
void sampling_close(struct sampling *s);

/* ids[n]: the whole prompt. The sequence keeps its longest common prefix with them. show: NULL, or gets the
 * text as it comes. Ctrl-C (interrupt.c) ends the answer with FINISH_INTERRUPTED. */
hasten_status answer_generate(struct session *s, const struct sampling *law, const int32_t *ids, int64_t n,
                              answer_fn show, void *show_ctx, struct ui *ui, struct answer *out,
                              struct hasten_error *err);

/* {"text","tokens","finish_reason","seed","timings",...,"methods"}; NULL when out of memory. */
struct json_t *answer_json(const struct session *s, const struct sampling *law, const struct answer *a);

#endif
