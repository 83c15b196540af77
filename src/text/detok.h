/* Streaming detokeniser with stop strings: takes ids one by one, gives out bytes that are safe to show.
 *
 * Never splits a UTF-8 character (incomplete tails are held back; bytes that can no longer become a character
 * pass through as they are), never shows text that belongs to a stop string, also when the string crosses
 * token borders: the longest suffix that could still become a stop string is held back. */
#ifndef HASTEN_TEXT_DETOK_H
#define HASTEN_TEXT_DETOK_H
#include "text/vocab.h"

struct detok;

/* stops[n_stops]: byte strings, copied. n_stops <= LIMIT_STOP_STRINGS, each 1..LIMIT_STOP_BYTES bytes.
 * continuation: the text continues a prompt, so SentencePiece's first dummy space is kept. */
hasten_status detok_open(const struct vocab *v, const struct gguf_str *stops, int n_stops, bool special,
                         bool continuation, struct detok **out, struct hasten_error *err);
void detok_close(struct detok *d);
/* Appends showable bytes to out. *stopped: a stop string was completed (everything before it has been given
 * out, nothing after it will be); later pushes give nothing. */
hasten_status detok_push(struct detok *d, int32_t id, struct buf *out, bool *stopped,
                         struct hasten_error *err);
/* At the end: gives out what was held back. */
hasten_status detok_finish(struct detok *d, struct buf *out, struct hasten_error *err);

#endif
