/* The index of a folder of records (disk.h): which record begins with which blocks of tokens, how large each is, when it
 * was last of use. It is disposable: whatever goes wrong with it, it is deleted and made anew from the records, and what it
 * says is only ever a hint where to look. The one file that knows SQLite is disk_index.c; it does its own input and output
 * beside base/file.h, without waiting for the disk, as nothing in it is worth that. */
#ifndef HASTEN_STORE_DISK_INDEX_H
#define HASTEN_STORE_DISK_INDEX_H
#include <stdbool.h>
#include <stdint.h>

#define RECORD_NAME 33 /* 32 hex digits and a NUL */
#define INDEX_CANDIDATES 8

struct disk_index;
struct disk_index_record {
    char name[RECORD_NAME];
    int64_t bytes, tokens, used;
};

/* Calls return false on any trouble: the index is to be made anew then. */
bool disk_index_open(const char *path, struct disk_index **out); /* an empty one where there is none */
void disk_index_close(struct disk_index *x);                     /* NULL is fine */
/* A record and the hashes of its blocks, in order; replaces one of that name. */
bool disk_index_add(struct disk_index *x, const struct disk_index_record *r, const uint64_t *hash, int32_t n);
bool disk_index_remove(struct disk_index *x, const char *name);
bool disk_index_touch(struct disk_index *x, const char *name, int64_t used);
/* Records whose block number `depth` has this hash: their names, at most INDEX_CANDIDATES, the last used first. */
bool disk_index_find(struct disk_index *x, uint64_t hash, int32_t depth, char name[][RECORD_NAME],
                     int32_t *n);
/* The one whose last use is longest ago; false too when there is none. */
bool disk_index_oldest(struct disk_index *x, struct disk_index_record *out);
bool disk_index_totals(struct disk_index *x, int64_t *entries, int64_t *bytes, int64_t *last_used);
/* Calls fn for each record until it returns false; *all: it never did. */
bool disk_index_each(struct disk_index *x, bool (*fn)(void *ctx, const struct disk_index_record *r),
                     void *ctx, bool *all);

#endif
