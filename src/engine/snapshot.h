/* Snapshots: a sequence as a file, from which an engine of the same identity (identity.h) goes on to the same bits.
 *
 * Form, version 1, all numbers little-endian. A header: the magic "HASTENSQ"; u32 version; u32 number of sections; u64
 * bytes of the file; u64 bytes of each section; the checksum (checksum.h) of all before it. Then the sections, each with
 * its checksum behind it:
 *     label      bytes of whoever keeps the file (a store: whose it is); empty of hasten_seq_save
 *     identity   the text of identity.h
 *     sequence   struct snapshot_sequence
 *     tokens     i32 [length]
 *     entries    what was taken out of lanes by a method of the stage cache: i32 removed [lanes], then for each lane
 *                i32 positions [sealed - removed]; empty where nothing was
 *     pages      for each lane its pages as they lie in the pool, of the last one only what is used, the rest zeros
 *     states     the flat states of the methods that the identity names, in their order
 *
 * Two phases either way. A file is written under another name, synced and renamed: under its name there is what was
 * there before, or the whole. A sequence is read into fresh pages, every checksum and every number is looked at, and only
 * then is it given out. Files may come from anybody: no number in them is trusted. */
#ifndef HASTEN_ENGINE_SNAPSHOT_H
#define HASTEN_ENGINE_SNAPSHOT_H
#include "base/mem.h"
#include "hasten/hasten.h"
#include <stdbool.h>

#define SNAPSHOT_VERSION 1

struct snapshot_sequence {
    int32_t length, n_kv;     /* tokens; of these, positions that there are keys and values of */
    int32_t sealed, n_prompt; /* as of kv_seq, of hasten_seq */
    int32_t n_lead, beyond;
};

struct snapshot_label { /* borrowed */
    const void *data;
    size_t len;
};

/* hasten_seq_save with a label. sync: wait until it is on the disk. */
hasten_status snapshot_save(const struct hasten_seq *s, struct snapshot_label label, const char *path,
                            bool sync, struct hasten_error *err);
/* hasten_seq_load; label: NULL, or what the file's must be. */
hasten_status snapshot_load(struct hasten_engine *e, const char *path, const struct snapshot_label *label,
                            struct hasten_seq **out, struct hasten_error *err);
/* Bytes that snapshot_save would write. */
hasten_status snapshot_bytes(const struct hasten_seq *s, size_t label_len, uint64_t *out,
                             struct hasten_error *err);

/* What a file says of itself, all of its checksums looked at (whole) or those of the first sections. */
struct snapshot_info {                  /* zero-initialise; snapshot_info_free */
    struct buf label, identity, tokens; /* tokens: i32 [sequence.length] */
    struct snapshot_sequence sequence;
    uint64_t file_bytes, page_bytes, state_bytes;
};
hasten_status snapshot_inspect(const char *path, bool whole, struct snapshot_info *out,
                               struct hasten_error *err);
void snapshot_info_free(struct snapshot_info *i);
/* Does a file begin like a snapshot? */
bool snapshot_named(const char *path);

#endif
