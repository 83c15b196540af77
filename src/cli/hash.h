/* Hashes of files, by libcrypto. */
#ifndef HASTEN_CLI_HASH_H
#define HASTEN_CLI_HASH_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called with the bytes hashed so far; true: stop with HASTEN_ERR_CANCELLED. */
typedef bool (*hash_progress_fn)(void *ctx, uint64_t done);

/* SHA-256 in lower-case hex. progress may be NULL. */
hasten_status hash_sha256(const char *path, char hex[65], hash_progress_fn progress, void *ctx,
                          struct hasten_error *err);
/* The same of bytes that come piece by piece. hash_end writes the hash unless hex is NULL, and frees h (NULL is fine). */
struct hash;
hasten_status hash_begin(struct hash **out, struct hasten_error *err);
hasten_status hash_add(struct hash *h, const void *data, size_t size, struct hasten_error *err);
hasten_status hash_end(struct hash *h, char hex[65], struct hasten_error *err);
/* The SHA-1 by which git names a blob: of "blob SIZE", a NUL and the bytes. */
hasten_status hash_git_blob(const char *path, char hex[41], struct hasten_error *err);

#endif
