/* Text to hide things in: sentences of a public-domain book (bench/text.c) or of a file, words, and fitting an item to
 * a length in tokens. */
#ifndef HASTEN_EVAL_PROSE_H
#define HASTEN_EVAL_PROSE_H
#include "eval/task.h"

struct eval_prose { /* zero-initialise */
    const char *text;
    char *own;        /* text, when it was read from a file */
    size_t *at, *len; /* [n] sentences, without the white space around them */
    int32_t n, cap;
};
/* data NULL: the book in the tree. HASTEN_ERR_FILE for a text of fewer than 20 sentences. */
hasten_status eval_prose_open(const char *data, struct eval_prose *out, struct hasten_error *err);
void eval_prose_close(struct eval_prose *p);

struct eval_needle {
    const char *text; /* a sentence */
    double depth;     /* 0: before the first sentence of the haystack, 1: behind the last */
};
#define EVAL_MAX_NEEDLES 64
/* Appends n_sentences of prose, beginning with sentence `from` (around the end), and the needles among them, in order
 * of depth, of equal ones as they stand. p NULL: sentences about nothing. */
int eval_haystack(const struct eval_prose *p, int32_t from, int32_t n_sentences,
                  const struct eval_needle *needles, int32_t n_needles, struct buf *out);

/* Builds an item's turns with k units of filler; everything else of the item is set before and stays. */
typedef hasten_status (*eval_build_fn)(void *ctx, int32_t k, struct eval_item *out, struct hasten_error *err);
/* Builds with as many units, at most `most`, as settings->length has room for (to within 1 %).
 * HASTEN_ERR_USAGE when the item does not fit even with none. */
hasten_status eval_fit(const struct eval_task_settings *s, const char *task, int32_t most,
                       eval_build_fn build, void *ctx, struct eval_item *item, struct hasten_error *err);

/* Word i of a list of 64 nouns, 32 adjectives, 32 given names, 32 towns; eval_compound: two nouns, i < 4096. */
#define EVAL_NOUNS 64
#define EVAL_NAMES 32
const char *eval_noun(int32_t i);
const char *eval_adjective(int32_t i);
const char *eval_name(int32_t i);
const char *eval_town(int32_t i);
void eval_compound(int32_t i, char out[32]);

#endif
