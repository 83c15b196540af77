/* What a load test asks: conversations out of real texts.
 *
 * A text (the built-in one, or a file) is cut into prompts of about so many tokens at places that the seed chooses. Each
 * begins with a line of its own, so that no two begin alike and nothing but the template is cached; `shared` tokens of
 * the text before them, as a system prompt, are alike in all. A file of JSON lines is taken as it is, in its order, from the
 * beginning again at its end: a line is a string, or an object with "prompt", "messages", "body" (an OpenAI batch's
 * request) or "conversations" ([{"from": "human", "value": ...}, ...]).
 *
 * In a chat the first turn is such a prompt, each later one the line's next message of a user or, without one, about
 * `turn_tokens` of the text; the answers between are the server's own. */
#ifndef HASTEN_BENCH_TALKS_H
#define HASTEN_BENCH_TALKS_H
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include <stdbool.h>

struct talks_settings {
    const char *path;     /* NULL: the built-in text */
    const char *workload; /* instead: the conversations of bench/workload.h's; or NULL */
    int32_t prompt_tokens, turn_tokens, shared_tokens;
    uint64_t seed;
};

struct talks { /* zero-initialise; talks_close */
    struct talks_settings set;
    double bytes_per_token; /* of the text; 4 until it is told better */
    char *text;
    size_t len;     /* of the text */
    json_t **items; /* message arrays of JSON lines or a workload; NULL: a text */
    int64_t n_items;
};

#define TALKS_BYTES_PER_TOKEN 4.0

/* HASTEN_ERR_FILE names line and fault. */
hasten_status talks_open(const struct talks_settings *set, struct talks *out, struct hasten_error *err);
void talks_close(struct talks *w);

/* A piece of the text that says how many bytes a token has there: at most 8 KiB, *len bytes. */
const char *talks_sample(const struct talks *w, size_t *len);
/* Are prompts of this size longer than the whole text? Then it is repeated within one. */
bool talks_repeats(const struct talks *w);

/* A conversation up to the message to answer. whole: what the line holds, else the first turn of a chat. NULL: out of
 * memory. */
json_t *talks_begin(const struct talks *w, int64_t chat, bool whole);
/* Adds the answer and the next message of the user; HASTEN_ERR_MEMORY. turn: of the message, from 1. */
hasten_status talks_next(const struct talks *w, json_t *messages, int64_t chat, int32_t turn,
                         const char *answer, size_t len, struct hasten_error *err);

#endif
