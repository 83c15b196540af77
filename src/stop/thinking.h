/* What methods of the stage stop share: where the model thinks. Two texts stand around it, of the vocabulary
 * (<think>), of the chat template, or given; each may be one token or several. */
#ifndef HASTEN_STOP_THINKING_H
#define HASTEN_STOP_THINKING_H
#include "engine/stop.h"
#include "text/vocab.h"

#define THINKING_BYTES 64

struct delimiter {
    char text[THINKING_BYTES + 1];
    int32_t len;      /* 0: there is none */
    int32_t id;       /* the one token it is, or -1 */
    uint8_t *may_end; /* [n_vocab] id < 0: whether a token holds its last byte */
    int32_t most;     /* tokens that it can be made of */
};

struct thinking {
    const struct vocab *vocab;
    struct delimiter open, close;
    struct buf *
        text; /* scratch with room for what is looked at, so that looking cannot fail; of the loop's thread */
};

/* open, close: NULL, or given. What is not given comes from the vocabulary, else the template; found none: both have
 * len 0 and the status is OK. HASTEN_ERR_USAGE: one is given without the other, or too long. */
hasten_status thinking_open(const struct method_site *site, const char *open, const char *close,
                            struct thinking *t, struct hasten_error *err);
void thinking_close(struct thinking *t);

/* With id behind path[n]: does a delimiter end in it? *start: the first token of the path (n: id itself) that holds a
 * byte of it; *before: bytes of that token before it. */
bool thinking_ends(const struct thinking *t, const struct delimiter *d, const int32_t *path, int64_t n,
                   int32_t id, int64_t *start, int32_t *before);
/* Where path[n] ends with a part of a delimiter that begins with a token's first byte: that token; n: it does not. */
int64_t thinking_broken_off(const struct thinking *t, const struct delimiter *d, const int32_t *path,
                            int64_t n);
/* Does path[n] end with the opening delimiter, and blanks? */
bool thinking_begun(const struct thinking *t, const int32_t *path, int64_t n);

/* Appends the ids of a text with escapes (\n, \t, \\), which may form control tokens. */
hasten_status thinking_encode(const struct thinking *t, const char *text, struct tokens *out,
                              struct hasten_error *err);

#endif
