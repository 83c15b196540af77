/* An engine with methods, a law, and one answer after another: what the tests of src/run/ are made of. Any failure that
 * a test did not ask for ends it with the sentence. */
#ifndef TESTS_RUN_WORLD_H
#define TESTS_RUN_WORLD_H
#include "engine/engine.h"
#include "run/run.h"

#define METHODS_MAX 4

struct world {
    const struct hasten_model *model;
    struct hasten_engine *engine;
    struct hasten_seq *seq;
    struct sampler *sampler;
    struct sampler_memory *memory;
    struct sampling law; /* greedy, no bound; to be changed before an answer */
    struct hasten_method_use methods[METHODS_MAX];
    struct hasten_engine_settings settings;
};

struct hasten_model *world_model(const char *path);
/* specs: "draft lookup:gamma=4", ended by NULL; n_ctx and n_seq_max: 0 for 512 and 1. */
void world_open(struct world *w, const struct hasten_model *m, const char *const *specs, int32_t n_ctx,
                int32_t n_seq_max);
/* With a method that is not in the list as the first. */
void world_open_with(struct world *w, const struct hasten_model *m, const struct method *own,
                     const char *const *specs, int32_t n_ctx);
void world_close(struct world *w);

/* The ids of a text. */
struct tokens world_ids(const struct hasten_model *m, const char *text);
/* An answer to ids[n]. */
void world_answer(struct world *w, const int32_t *ids, int64_t n, struct answer *out);
/* The same to a text; out->text must be `want`. */
void world_says(struct world *w, const char *prompt, const char *want);

/* Text, ids, log-probabilities, finish: to the bit; what both sequences hold, and the logits of one more token. */
bool world_equal(struct world *a, const struct answer *x, struct world *b, const struct answer *y);
void answer_must_equal(struct world *a, const struct answer *x, struct world *b, const struct answer *y,
                       const char *what);

#endif
