/* Owns the table from a token's written form to its id: open addressing with linear probing. A slot
 * holds the first bytes of the text, so that most look-ups touch one cache line: opening a vocabulary makes half a
 * million of them.
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
    while (size / 4 * 3 < (uint64_t)n)
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

/* What a slot for text s holds, apart from the id, and where it should lie. */
static struct token_slot slot_of(const struct token_index *t, const char *s, size_t len, uint64_t *at)
{
    uint64_t h = XXH3_64bits_withSeed(s, len, t->seed);
    struct token_slot k = {.head = 0, .id = -1, .len = (uint16_t)len, .tag = (uint16_t)(h >> 48)};
    memcpy(&k.head, s, len < sizeof k.head ? len : sizeof k.head);
    *at = h & t->mask;
    return k;
}

static bool slot_is(const struct token_slot *slot, const struct token_slot *k, const struct gguf_str *texts,
                    const char *s, size_t len)
{
    if (slot->head != k->head || slot->len != k->len || slot->tag != k->tag)
        return false;
    return len <= sizeof k->head || memcmp(texts[slot->id].data, s, len) == 0;
}

int token_index_add(struct token_index *t, const struct gguf_str *texts, int32_t id)
{
    struct gguf_str s = texts[id];
    uint64_t at;
    struct token_slot k = slot_of(t, s.data, s.len, &at);
    for (int probes = 0; probes < LIMIT_TOKEN_PROBES; probes++, at = (at + 1) & t->mask) {
        struct token_slot *slot = &t->slots[at];
        if (slot->id < 0) {
            k.id = id;
            *slot = k;
            return 0;
        }
        if (slot_is(slot, &k, texts, s.data, s.len)) {
            t->duplicates = true;
            return 0;
        }
    }
    return -1;
}

void token_index_touch(const struct token_index *t, const char *s, size_t len)
{
    __builtin_prefetch(&t->slots[XXH3_64bits_withSeed(s, len, t->seed) & t->mask]);
}

int32_t token_index_find(const struct token_index *t, const struct gguf_str *texts, const char *s, size_t len)
{
    uint64_t at;
    if (len > LIMIT_TOKEN_BYTES)
        return -1;
    for (struct token_slot k = slot_of(t, s, len, &at);; at = (at + 1) & t->mask) {
        const struct token_slot *slot = &t->slots[at];
        if (slot->id < 0)
            return -1;
        if (slot_is(slot, &k, texts, s, len))
            return slot->id;
    }
}
