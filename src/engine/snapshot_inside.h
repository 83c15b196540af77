/* What snapshot_write.c and snapshot_read.c share (snapshot.h). */
#ifndef HASTEN_ENGINE_SNAPSHOT_INSIDE_H
#define HASTEN_ENGINE_SNAPSHOT_INSIDE_H
#include "base/checksum.h"
#include "engine/engine.h"
#include "engine/identity.h"
#include "engine/snapshot.h"

#define SNAPSHOT_MAGIC "HASTENSQ"

enum snapshot_section {
    SNAPSHOT_LABEL,
    SNAPSHOT_IDENTITY,
    SNAPSHOT_SEQUENCE,
    SNAPSHOT_TOKENS,
    SNAPSHOT_ENTRIES,
    SNAPSHOT_PAGES,
    SNAPSHOT_STATES,
    SNAPSHOT_SECTIONS
};
extern const char *const snapshot_section_names[SNAPSHOT_SECTIONS];

struct snapshot_header {
    char magic[8];
    uint32_t version, n_sections;
    uint64_t file_bytes;
    uint64_t bytes[SNAPSHOT_SECTIONS];
    uint8_t sum[CHECKSUM_BYTES]; /* of what stands before it */
};
_Static_assert(sizeof(struct snapshot_header) == 24 + 8 * SNAPSHOT_SECTIONS + CHECKSUM_BYTES, "no padding");
_Static_assert(sizeof(struct snapshot_sequence) == 24, "no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

/* Calls fn for each part of a sequence's flat states that belongs to its identity; stops at a status. */
typedef hasten_status (*snapshot_state_fn)(void *ctx, void *at, size_t bytes, struct hasten_error *err);
hasten_status snapshot_each_state(const struct hasten_engine *e, const struct hasten_seq *s,
                                  snapshot_state_fn fn, void *ctx, struct hasten_error *err);
uint64_t snapshot_state_bytes(const struct hasten_engine *e, const struct hasten_seq *s);
/* Entries of a lane's page that are used, of n_kv positions: 1 to KV_PAGE. */
int32_t snapshot_page_entries(const struct kv_seq *s, int32_t lane, int32_t n_kv, int32_t page);
int32_t snapshot_lane_pages(const struct kv_seq *s, int32_t lane, int32_t n_kv);
/* HASTEN_ERR_UNSUPPORTED: encoders, methods that cannot be saved. doing: "saving", "restoring". */
hasten_status snapshot_possible(const struct hasten_engine *e, const char *doing, const char *path,
                                struct hasten_error *err);

#endif
