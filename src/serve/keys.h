/* API keys: who may ask. From a file, a key a line: KEY, or KEY and a name for the log; '#' begins a comment. Compared in
 * constant time. A new file may replace the old one while requests come in. */
#ifndef HASTEN_SERVE_KEYS_H
#define HASTEN_SERVE_KEYS_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct keys;

/* path NULL: no keys, everybody may. HASTEN_ERR_FILE: not such a file, or one without a key. */
hasten_status keys_open(const char *path, struct keys **out, struct hasten_error *err);
/* Reads the file again; after a failure the old keys stand. */
hasten_status keys_reload(struct keys *k, struct hasten_error *err);
void keys_close(struct keys *k); /* NULL is fine */
int keys_count(struct keys *k);
/* Whether key (NULL: none was sent) may ask. *tenant: the same number for the same key in any process and order, never
 * 0 with keys; 0 without. */
bool keys_allow(struct keys *k, const char *key, uint64_t *tenant);

#endif
