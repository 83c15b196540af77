/* The memcmp harness: runs one token sequence through an engine in the manner a spec says, collects the logits
 * of every position, and lets tests compare two runs bit for bit. */
#ifndef TESTS_ENGINE_HARNESS_H
#define TESTS_ENGINE_HARNESS_H
#include "hasten/hasten.h"
#include <stdint.h>

enum {
    NEIGHBOURS_MAX = 3
};

struct run_spec {
    int n_threads;
    int chunk;        /* tokens a step; 0: all in one step */
    int n_neighbours; /* other sequences in the same steps, with their own tokens and lengths */
    bool forked;      /* a parent runs the first part, goes astray, and a fork of it continues */
    /* the first part is saved to a file, and a new engine goes on from it; 2: of the plain twins */
    int restored;
    bool regrown; /* appends a wrong tail now and then and truncates it away again */
    int n_batch;
    bool plain, reference, in_place;
    bool
        hasty; /* the caller computes again what a worker has not finished at once (not under TSan: see pool.c) */
    enum hasten_kv_type kv; /* f16 by default */
    const struct hasten_lora_use *loras;
    int n_loras;
    const struct hasten_method_use *methods;
    int n_methods;
    int32_t n_prompt; /* announced, if above 0 */
};

/* Short text of a spec, for messages. */
const char *spec_text(const struct run_spec *s, char *out, size_t out_size);

/* Logits [n × n_vocab] of tokens[0, n) run as s says; malloc'ed, the caller frees. Any failure prints the
 * sentence and exits the test program with status 1. */
float *run_logits(const struct hasten_model *m, const struct run_spec *s, const int32_t *tokens, int32_t n);

/* n pseudo-random ids below n_vocab. */
void random_tokens(uint64_t seed, int32_t n_vocab, int32_t *out, int32_t n);

/* Index of the first row that differs, or -1. */
int32_t first_difference(const float *a, const float *b, int32_t n, int32_t n_vocab);

/* Opens a model or exits with a sentence. */
struct hasten_model *open_or_exit(const char *path);
/* An adapter at a scale; the caller closes it. */
struct hasten_lora_use adapter_or_exit(const struct hasten_model *m, const char *path, float scale);
void die_unless_ok(hasten_status st, const struct hasten_error *err, const char *what);

#endif
