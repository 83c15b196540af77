/* Hashes of files, by libcrypto. */
#ifndef HASTEN_CLI_HASH_H
#define HASTEN_CLI_HASH_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

/* Called with the bytes hashed so far; true: stop with HASTEN_ERR_CANCELLED. */
typedef bool (*hash_progress_fn)(void *ctx, uint64_t done);

/* SHA-256 in lower-case hex. progress may be NULL. */
hasten_status hash_sha256(const char *path, char hex[65], hash_progress_fn progress, void *ctx,
                          struct hasten_error *err);
/* The SHA-1 by which git names a blob: of "blob SIZE", a NUL and the bytes. */
hasten_status hash_git_blob(const char *path, char hex[41], struct hasten_error *err);

#endif
