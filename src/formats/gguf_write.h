/* Writer of GGUF v3 files, for files of any size: keys and tensor records are gathered in memory, tensor data
 * stream through. Crash-safe: everything goes to a new file beside the final name; only a complete, synced file is
 * renamed to it. Whatever fails before, what stood under that name stays untouched.
 *
 * Order of calls: open, keys and tensors in any order, begin, data (the tensors one after another, in pieces of any
 * size), finish; close always. One thread at a time. Strings may hold any bytes. */
#ifndef HASTEN_FORMATS_GGUF_WRITE_H
#define HASTEN_FORMATS_GGUF_WRITE_H
#include "base/error.h"
#include "formats/gguf.h"

struct gguf_write;

/* alignment: of tensor data, a power of two from 8 to 65536 (HASTEN_ERR_USAGE otherwise); one that is not the
 * format's default, 32, is written as general.alignment. */
hasten_status gguf_write_open(const char *path, uint32_t alignment, struct gguf_write **out,
                              struct hasten_error *err);
/* Frees w; removes what is not finished. NULL is fine. */
void gguf_write_close(struct gguf_write *w);

/* Keys and tensors. Running out of memory, or beyond a bound of the reader (limits.h), is remembered and told by
 * gguf_write_begin. Names must differ; general.alignment is not a caller's key. */
void gguf_write_u32(struct gguf_write *w, const char *key, uint32_t value);
void gguf_write_str(struct gguf_write *w, const char *key, const char *value);
void gguf_write_strs(struct gguf_write *w, const char *key, const char *const *values, uint64_t n);
void gguf_write_copy(struct gguf_write *w, const struct gguf *from,
                     int64_t i); /* key i of a file, as it is */
/* ne[n_dims], ne[0] the row length, a multiple of type->block. */
void gguf_write_tensor(struct gguf_write *w, const char *name, const struct quant_type *type, int32_t n_dims,
                       const int64_t *ne);

/* Creates the new file and writes the header. HASTEN_ERR_DISK with both figures if there is not enough room for the
 * whole file. */
hasten_status gguf_write_begin(struct gguf_write *w, struct hasten_error *err);
hasten_status gguf_write_data(struct gguf_write *w, const void *data, size_t size, struct hasten_error *err);
/* Syncs, renames. HASTEN_ERR_INTERNAL if data are missing. */
hasten_status gguf_write_finish(struct gguf_write *w, struct hasten_error *err);

uint64_t gguf_write_bytes(const struct gguf_write *w); /* of the whole file; after begin */

#endif
