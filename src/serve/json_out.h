/* JSON text as the server writes it: straight into a buffer, without a tree, as an answer's pieces leave once a token.
 * Bytes that are not UTF-8 become U+FFFD; numbers that are not finite become null. All give 0, or -1 when out of memory;
 * a builder ORs them and looks once. */
#ifndef HASTEN_SERVE_JSON_OUT_H
#define HASTEN_SERVE_JSON_OUT_H
#include "base/mem.h"
#include <stdint.h>

int out_text(struct buf *b, const char *s, size_t len); /* a string, with its quotes */
int out_str(struct buf *b, const char *s);              /* the same of a NUL-terminated one; NULL: null */
int out_number(struct buf *b, double v); /* so short that a float or a time is not longer than it is worth */
/* "key": with a comma before it unless it is the first behind a bracket. */
int out_key(struct buf *b, const char *key);
int out_comma(struct buf *b); /* a comma unless the last byte opens a bracket */
/* [1,2,...] */
int out_ids(struct buf *b, const int32_t *ids, int64_t n);
/* Base64 (RFC 4648, section 4), without quotes. */
int out_base64(struct buf *b, const void *data, size_t len);

#endif
