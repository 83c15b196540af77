/* Owns the table from a token's written form to its id: open addressing with linear probing, eight bytes a slot.
 *
 * The hash is seeded from the system at every start, so a file cannot be made to collide; should it happen all
 * the same, a run of LIMIT_TOKEN_PROBES slots refuses the file. Seeds never show in results. */
#define XXH_INLINE_ALL
#include "text/vocab_internal.h"
#include "base/limits.h"
#include "base/rng.h"
#include <string.h>
#include <xxhash.h>

int token_index_init(struct token_index *t, int64_t n)
{
    uint64_t size = 16;
    while (size < (uint64_t)n * 2)
        size *= 2;
    t->slots = mem_array(size, sizeof *t->slots);
    if (!t->slots)
        return -1;
    memset(t->slots, 0xFF, size * sizeof *t->slots);
    t->mask = size - 1;
    t->seed = random_seed();
    return 0;
}

void token_index_free(struct token_index *t)
{
    mem_free(t->slots);
    t->slots = NULL;
}

int token_index_add(struct token_index *t, const struct gguf_str *texts, int32_t id)
{
    struct gguf_str s = texts[id];
    uint64_t h = XXH3_64bits_withSeed(s.data, s.len, t->seed);
    uint32_t tag = (uint32_t)(h >> 32);
    for (uint64_t i = h & t->mask, probes = 0; probes < LIMIT_TOKEN_PROBES; i = (i + 1) & t->mask, probes++) {
        struct token_slot *slot = &t->slots[i];
        if (slot->id < 0) {
            slot->id = id;
            slot->tag = tag;
            return 0;
        }
        if (slot->tag == tag && texts[slot->id].len == s.len && memcmp(texts[slot->id].data, s.data, s.len) == 0)
            return 0;
    }
    return -1;
}

int32_t token_index_find(const struct token_index *t, const struct gguf_str *texts, const char *s, size_t len)
{
    uint64_t h = XXH3_64bits_withSeed(s, len, t->seed);
    uint32_t tag = (uint32_t)(h >> 32);
    for (uint64_t i = h & t->mask;; i = (i + 1) & t->mask) {
        const struct token_slot *slot = &t->slots[i];
        if (slot->id < 0)
            return -1;
        if (slot->tag == tag && texts[slot->id].len == len && memcmp(texts[slot->id].data, s, len) == 0)
            return slot->id;
    }
}
