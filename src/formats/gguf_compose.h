/* A struct gguf that is no GGUF file: keys that the caller writes, tensors that lie in files of another kind. What reads
 * models reads nothing else, so another format becomes a source of models by being put into this form.
 *
 * Order of calls: open, keys, parts and tensors in any order, finish; close always. A composed gguf has version 0. */
#ifndef HASTEN_FORMATS_GGUF_COMPOSE_H
#define HASTEN_FORMATS_GGUF_COMPOSE_H
#include "formats/gguf.h"

struct gguf_compose;

/* path: what messages and gguf_path call it. NULL when out of memory. */
struct gguf_compose *gguf_compose_open(const char *path);
void gguf_compose_close(struct gguf_compose *c); /* NULL is fine */

/* Running out of memory is remembered and told by gguf_compose_finish; so is a key that is there twice. */
void gguf_compose_u32(struct gguf_compose *c, const char *key, uint32_t value);
void gguf_compose_f32(struct gguf_compose *c, const char *key, float value);
void gguf_compose_bool(struct gguf_compose *c, const char *key, bool value);
void gguf_compose_str(struct gguf_compose *c, const char *key, const char *value, size_t len);
void gguf_compose_bools(struct gguf_compose *c, const char *key, const bool *values, uint64_t n);
void gguf_compose_i32s(struct gguf_compose *c, const char *key, const int32_t *values, uint64_t n);
void gguf_compose_f32s(struct gguf_compose *c, const char *key, const float *values, uint64_t n);
void gguf_compose_strs(struct gguf_compose *c, const char *key, const struct gguf_str *values, uint64_t n);

/* A file that tensors lie in; returns its number (gguf_tensor.part). path and data must outlive the gguf. */
int32_t gguf_compose_part(struct gguf_compose *c, struct gguf_part part);
/* Copies t, its name too; type, n_dims, ne, data and part must be filled in, sizes are computed here. data must outlive
 * the gguf; ne[0] is a multiple of type->block. */
void gguf_compose_tensor(struct gguf_compose *c, const struct gguf_tensor *t);

/* The gguf, which calls close_owner(owner) when it is closed; on failure the owner stays the caller's. */
hasten_status gguf_compose_finish(struct gguf_compose *c, void *owner, void (*close_owner)(void *),
                                  struct gguf **out, struct hasten_error *err);

#endif
