/* The one file door: everything Hasten reads from or writes to disk passes through it (a lint checks it), so
 * that tests can make any operation fail. Paths are bytes; errors name the path and the operation. */
#ifndef HASTEN_BASE_FILE_H
#define HASTEN_BASE_FILE_H
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct file; /* an open file; owned by the caller */

enum file_mode {
    FILE_READ,
    FILE_WRITE_NEW /* fails if it exists */,
    FILE_WRITE_TRUNC,
    FILE_APPEND
};

hasten_status file_open(const char *path, enum file_mode mode, struct file **out, struct hasten_error *err);
void file_close(struct file *f); /* NULL is fine; for written files call file_sync first to see errors */
hasten_status file_size(struct file *f, uint64_t *out, struct hasten_error *err);
/* Reads exactly size bytes at offset; a short file is HASTEN_ERR_FILE. */
hasten_status file_pread(struct file *f, void *dst, size_t size, uint64_t offset, struct hasten_error *err);
/* Reads up to size bytes at the current position; *got == 0 at the end. Works on pipes. */
hasten_status file_read(struct file *f, void *dst, size_t size, size_t *got, struct hasten_error *err);
hasten_status file_write(struct file *f, const void *src, size_t size, struct hasten_error *err);
hasten_status file_sync(struct file *f, struct hasten_error *err);
/* Cuts or extends an open file. */
hasten_status file_truncate(struct file *f, uint64_t size, struct hasten_error *err);
/* The file for this process alone until it is closed, among those that ask: *got is 0 when another holds it. */
hasten_status file_lock(struct file *f, int *got, struct hasten_error *err);
hasten_status file_rename(const char *from, const char *to, struct hasten_error *err);
hasten_status file_unlink(const char *path, struct hasten_error *err);
hasten_status file_mkdirs(const char *path, struct hasten_error *err); /* like mkdir -p, mode 0700 */
/* Removes a folder that is empty. */
hasten_status file_rmdir(const char *path, struct hasten_error *err);
/* The names in a folder but . and .., in the order of their bytes. */
struct file_names { /* zero-initialise; file_names_free */
    char **names;
    size_t n, cap;
};
hasten_status file_list(const char *path, struct file_names *out, struct hasten_error *err);
/* The same; a path where nothing is holds no names. */
hasten_status file_list_if_any(const char *path, struct file_names *out, struct hasten_error *err);
void file_names_free(struct file_names *f);
int file_exists(const char *path);
enum file_kind {
    FILE_MISSING, /* or out of reach */
    FILE_REGULAR,
    FILE_FOLDER,
    FILE_OTHER /* a device, a pipe, a socket */
};
enum file_kind file_kind(const char *path); /* of what the path leads to, links followed */
uint64_t file_bytes(const char *path); /* of a regular file, opened by nobody; 0: missing or another kind */
/* Bytes that may still be written on the file system of the folder that path lies in. */
hasten_status file_space(const char *path, uint64_t *out, struct hasten_error *err);
/* Whether a file may be made in the folder that path lies in: HASTEN_ERR_FILE where it is missing, read-only or
 * forbidden, so that long work need not be done first to find out. */
hasten_status file_may_create(const char *path, struct hasten_error *err);
int file_same(const char *a, const char *b); /* 1: both exist and are one file, whatever the paths say */

/* Read-only private map of a whole file. Stays valid after file_close. */
hasten_status file_map(struct file *f, const void **data, uint64_t *size, struct hasten_error *err);
void file_unmap(const void *data, uint64_t size);
/* Gives back the present pages of a part of such a map, those at its ends too; they are read again when touched. */
void file_release(const void *data, uint64_t size);

/* Called with the bytes of a map done so far; non-zero stops with HASTEN_ERR_CANCELLED. */
typedef int (*file_progress_fn)(void *ctx, uint64_t done);
/* Puts a copy in memory in the place of a map, piece by piece: the addresses and bytes stay, the file no longer counts.
 * file_unmap frees it. name is for messages. */
hasten_status file_map_copy(const void *data, uint64_t size, const char *name, file_progress_fn progress,
                            void *ctx, struct hasten_error *err);
/* Makes a map's pages present and keeps them from being paged out until file_unmap. HASTEN_ERR_MEMORY names the limit. */
hasten_status file_map_lock(const void *data, uint64_t size, const char *name, file_progress_fn progress,
                            void *ctx, struct hasten_error *err);

/* Whole file (or stdin for "-") into memory, NUL-terminated (len excludes the NUL); at most limit bytes. */
hasten_status file_slurp(const char *path, size_t limit, char **data, size_t *len, struct hasten_error *err);

/* Fault injection, for tests: the nth operation of the door fails with errno_value (short reads for 0). */
void file_fail_at(uint64_t n, uint64_t every, int errno_value);
uint64_t file_op_count(void);

/* For tests: fn is told of every change that was made to a file system, in order, before the call returns: what a crash
 * may lose. NULL: nobody is. */
enum file_change {
    FILE_CHANGE_CREATE, /* path, empty now */
    FILE_CHANGE_WRITE,  /* data [size] behind what was there */
    FILE_CHANGE_SYNC,   /* path's data is on the disk */
    FILE_CHANGE_CUT,    /* to size bytes */
    FILE_CHANGE_RENAME, /* path to `to`; the names in the folder are on the disk */
    FILE_CHANGE_UNLINK
};
struct file_event {
    enum file_change change;
    const char *path, *to;
    const void *data;
    uint64_t size;
};
typedef void (*file_watch_fn)(void *ctx, const struct file_event *e);
void file_watch(file_watch_fn fn, void *ctx);

#endif
