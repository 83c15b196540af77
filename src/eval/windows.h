/* How a text is cut for scoring, the same for perplexity and for damage.
 *
 * Windows of n_ctx tokens begin every `stride` tokens, each evaluated from an empty context. Scored is every token
 * after a window's first `prefix` (at least one) that no earlier window scored; a last, incomplete window counts when
 * something of it is scored. */
#ifndef HASTEN_EVAL_WINDOWS_H
#define HASTEN_EVAL_WINDOWS_H
#include <stdbool.h>
#include <stdint.h>

struct eval_windows {
    const int32_t *ids; /* [n], the caller's */
    int64_t n;
    int32_t n_ctx;   /* tokens of a window, at least 2 */
    int32_t stride;  /* 1 .. n_ctx */
    int32_t prefix;  /* tokens of a window that are read and never scored; 0 means 1; below n_ctx */
    int32_t n_limit; /* at most so many windows; 0: all */
};

struct eval_window {
    int64_t begin; /* first token */
    int32_t n;     /* tokens; the last is a target only and need not be read */
    int32_t from;  /* rows [from, n - 1) are scored: row r is the prediction of token begin + r + 1 */
    int32_t index;
    int64_t scored_to; /* tokens before this one are scored or passed */
};

/* The next window with something to score; *w zero-initialised at first. False at the end. */
bool eval_next_window(const struct eval_windows *s, struct eval_window *w);
int64_t eval_count_targets(const struct eval_windows *s);
/* FNV-1a over the ids and the convention: equal for runs that score the same tokens in the same contexts. */
uint64_t eval_windows_hash(const struct eval_windows *s);

#endif
