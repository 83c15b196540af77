/* Kept sequences on disk: a folder of records, which are snapshots (engine/snapshot.h), and an index of them
 * (disk_index.h), which can always be made anew.
 *
 *     DIR/0123...cdef.seq     a record; its name is a hash of what it holds, its label says under which scope
 *     DIR/index.sqlite        the index
 *     DIR/lock                held by the process that uses the folder
 *
 * A record is looked for by chained hashes of blocks of 64 tokens, and taken only if its tokens, compared in full, its
 * scope and everything that its keys depend on (engine/identity.h) are the right ones and every checksum holds. Whatever
 * else there is, a file cut by a power loss, another engine's, one that was changed, is at worst a miss; what is damaged is
 * removed. Nothing waits for the disk: a record that a power loss tore shows by its checksums. */
#ifndef HASTEN_STORE_DISK_H
#define HASTEN_STORE_DISK_H
#include "engine/store.h"

#define DISK_BLOCK 64 /* tokens */

struct disk;
struct disk_settings {
    const char *folder;
    uint64_t limit; /* bytes of all records; UINT64_MAX: none */
    int hash_bits; /* of a block's hash; 64, fewer in tests: then records are mistaken for others and refused */
};

/* HASTEN_ERR_USAGE: another process uses the folder; errors of making it. Reads the model once (identity). */
hasten_status disk_open(struct hasten_engine *e, const struct disk_settings *s, struct disk **out,
                        struct hasten_error *err);
void disk_close(struct disk *d); /* NULL is fine */
/* A sequence with the longest beginning of ids[n], more than `more_than` positions, that a record holds: a new sequence of
 * the engine, or NULL. *full: there was one, but no sequence or too few pages for it. */
struct hasten_seq *disk_read(struct disk *d, uint64_t scope, const int32_t *ids, int64_t n, int32_t more_than,
                             bool *full);
/* Writes a sequence, if that adds enough to what is there. A thread of its own does what waits for files: until
 * disk_writing says otherwise (or disk_wait returns) the sequence must be left as it is. False: another is being written.
 * last: if it adds anything, and it is written when the call returns. */
bool disk_write(struct disk *d, uint64_t scope, const struct hasten_seq *s, bool last);
const struct hasten_seq *disk_writing(struct disk *d); /* NULL: none */
void disk_wait(struct disk *d);
void disk_figures(struct disk *d, struct store_figures *out);

/* Without an engine: reads all records whole, removes the damaged ones, makes the index anew. */
struct
    disk_report { /* bad: damaged records, which were removed; first: what was wrong with the first of them */
    int64_t records, bad, foreign; /* foreign: files that are no record of this store, left alone */
    uint64_t bytes, tokens;
    struct hasten_error first;
};
hasten_status disk_check(const char *folder, struct disk_report *out, struct hasten_error *err);

#endif
