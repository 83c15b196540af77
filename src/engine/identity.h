/* What the keys and values of a sequence depend on besides its tokens, as lines of text that two engines can compare:
 *     model: qwen2, 24 layers, 3b0c...      every tensor's bytes and the file's keys, by XXH3
 *     arithmetic: canonical 1, x86_64       what the bits of a pass depend on (kernels.h; sets with equal twins are one)
 *     kv: f16, pages of 64, 48 lanes
 *     context: any                          or the size of the context, where a method's state is laid out by it
 *     adapters: none                        or a hash of them with their strengths
 *     methods: none                         or those that change what is kept, with all their knobs
 * Two engines with the same text make the same keys and values of the same tokens, bit for bit. Snapshots carry it, and
 * are compared with it in full. */
#ifndef HASTEN_ENGINE_IDENTITY_H
#define HASTEN_ENGINE_IDENTITY_H
#include "engine/method.h"

/* The text of an engine, which keeps it. The first call reads all weights (over the workers); it allocates. */
hasten_status engine_identity(struct hasten_engine *e, const char **out, struct hasten_error *err);
/* Whether a method is part of it: what it does shows in keys and values, or it keeps of a sequence what cannot be begun
 * anew with the next answer. The flat states of these are what a snapshot holds. */
bool identity_has(const struct method *m);
/* The value of a line ("model") within a text: NULL, or its beginning and *n bytes. */
const char *identity_line(const char *text, const char *name, size_t *n);
/* HASTEN_ERR_FILE, "doing PATH: NAME: found ... (expected ...)", of the first line in which found [n] differs. */
hasten_status identity_compare(const char *doing, const char *found, const char *expected,
                               struct hasten_error *err);

#endif
