/* Owns the search for control and user-defined tokens in raw text: a trie with leftmost-longest matching, as
 * Hugging Face's added tokens and SentencePiece's user-defined symbols are found.
 *
 * A position costs as much as the longest entry that begins like the text there (at most LIMIT_TOKEN_BYTES), so
 * the scan is linear in the text for a given vocabulary; most positions fail at the root's table. WordPiece finds
 * its pieces with the same trie. */
#include "text/vocab_internal.h"

void added_init(struct added_tokens *a)
{
    a->nodes = NULL;
    a->n = a->cap = 0;
    for (int i = 0; i < 256; i++)
        a->first[i] = -1;
}

void added_free(struct added_tokens *a)
{
    mem_free(a->nodes);
    added_init(a);
}

static int32_t added_new(struct added_tokens *a, uint8_t byte)
{
    if (a->n == a->cap) {
        int32_t cap = a->cap ? a->cap * 2 : 64;
        struct added_node *p = cap > 0 ? mem_realloc(a->nodes, (size_t)cap * sizeof *p) : NULL;
        if (!p)
            return -1;
        a->nodes = p;
        a->cap = cap;
    }
    a->nodes[a->n] = (struct added_node){.child = -1, .next = -1, .id = -1, .byte = byte};
    return a->n++;
}

static int32_t added_step(const struct added_tokens *a, int32_t node, uint8_t byte)
{
    int32_t i = a->nodes[node].child;
    while (i >= 0 && a->nodes[i].byte != byte)
        i = a->nodes[i].next;
    return i;
}

int added_insert(struct added_tokens *a, const char *s, size_t len, int32_t id)
{
    if (!len)
        return 0;
    int32_t node = a->first[(uint8_t)s[0]];
    if (node < 0) {
        node = added_new(a, (uint8_t)s[0]);
        if (node < 0)
            return -1;
        a->first[(uint8_t)s[0]] = node;
    }
    for (size_t i = 1; i < len; i++) {
        int32_t next = added_step(a, node, (uint8_t)s[i]);
        if (next < 0) {
            next = added_new(a, (uint8_t)s[i]);
            if (next < 0)
                return -1;
            a->nodes[next].next = a->nodes[node].child;
            a->nodes[node].child = next;
        }
        node = next;
    }
    if (a->nodes[node].id < 0)
        a->nodes[node].id = id;
    return 0;
}

int32_t added_longest(const struct added_tokens *a, const char *text, size_t len, size_t pos, size_t *end)
{
    int32_t node = pos < len ? a->first[(uint8_t)text[pos]] : -1, id = -1;
    for (size_t i = pos + 1; node >= 0; i++) {
        if (a->nodes[node].id >= 0) {
            id = a->nodes[node].id;
            *end = i;
        }
        if (i == len)
            break;
        node = added_step(a, node, (uint8_t)text[i]);
    }
    return id;
}

int32_t added_next(const struct added_tokens *a, const char *text, size_t len, size_t pos, size_t *start,
                   size_t *end)
{
    for (; pos < len; pos++) {
        int32_t id = added_longest(a, text, len, pos, end);
        if (id >= 0) {
            *start = pos;
            return id;
        }
    }
    return -1;
}
