/* Building the trie of a vocabulary (token_trie.h). */
#include "sample/token_trie.h"
#include "sample/gbnf.h"
#include "base/limits.h"
#include <stdlib.h>

struct entry {
    const char *text;
    uint32_t len;
    int32_t id;
};

static int by_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    if (c)
        return c;
    return x->len != y->len ? (x->len < y->len ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "grammar: out of memory for the vocabulary");
}

static int add_node(struct token_trie *t, uint8_t byte, int64_t depth, int64_t n_ids)
{
    t->depth = t->depth < depth ? (int32_t)depth : t->depth;
    return LIST_PUSH(&t->nodes,
                     (struct trie_node){.token_at = (uint32_t)n_ids, .depth = (uint16_t)depth, .byte = byte});
}

/* path: the nodes from the root to the last one added; those deeper than `depth` are closed. */
static void close_to(struct token_trie *t, const uint32_t *path, uint32_t from, uint32_t depth)
{
    for (uint32_t k = from; k > depth; k--)
        t->nodes.at[path[k]].skip = (uint32_t)t->nodes.n;
}

static int build(struct token_trie *t, const struct entry *e)
{
    static const struct entry nothing = {.text = ""};
    uint32_t *path = mem_array(LIMIT_TOKEN_BYTES + 1, sizeof *path);
    const struct entry *last = &nothing;
    int bad = !path || add_node(t, 0, 0, 0);
    if (!bad)
        path[0] = 0;
    for (int64_t i = 0; i < t->n_ids && !bad; i++) {
        uint32_t same = 0;
        while (same < last->len && same < e[i].len && last->text[same] == e[i].text[same])
            same++;
        close_to(t, path, last->len, same);
        for (uint32_t k = same; k < e[i].len && !bad; k++) {
            path[k + 1] = (uint32_t)t->nodes.n;
            bad = add_node(t, (uint8_t)e[i].text[k], k + 1, i);
        }
        t->ids[i] = e[i].id;
        last = &e[i];
    }
    if (!bad) {
        close_to(t, path, last->len, 0);
        t->nodes.at[0].skip = (uint32_t)t->nodes.n;
        bad = add_node(t, 0, 0, t->n_ids); /* the end */
    }
    mem_free(path);
    return bad;
}

static hasten_status sort_and_build(struct token_trie *t, struct hasten_error *err)
{
    struct entry *e = mem_array((size_t)t->n_vocab, sizeof *e);
    t->ids = mem_array((size_t)t->n_vocab, sizeof *t->ids);
    int bad = !e || !t->ids;
    for (int32_t id = 0; id < t->n_vocab && !bad; id++)
        if (t->text_at[id + 1] > t->text_at[id] && !token_ends(t, id))
            e[t->n_ids++] =
                (struct entry){t->text.data + t->text_at[id], t->text_at[id + 1] - t->text_at[id], id};
    if (!bad && t->n_ids)
        qsort(e, (size_t)t->n_ids, sizeof *e, by_text);
    bad = bad || build(t, e);
    mem_free(e);
    return bad ? no_memory(err) : HASTEN_OK;
}

int32_t token_trie_find(const struct token_trie *t, const char *text, size_t len)
{
    const struct trie_node *nodes = t->nodes.at;
    uint32_t at = 0;
    for (int64_t i = 0; i < t->controls.n; i++) {
        const struct trie_control *c = &t->controls.at[i];
        if (c->len == len && memcmp(t->control_text.data + c->at, text, len) == 0)
            return c->id;
    }
    for (size_t d = 0; d < len; d++) {
        uint32_t k = at + 1;
        while (k < nodes[at].skip && nodes[k].byte != (uint8_t)text[d])
            k = nodes[k].skip;
        if (k >= nodes[at].skip)
            return -1;
        at = k;
    }
    return at && nodes[at].token_at < nodes[at + 1].token_at ? t->ids[nodes[at].token_at] : -1;
}

static hasten_status note_control(struct token_trie *t, const struct vocab *v, int32_t id,
                                  struct hasten_error *err)
{
    const struct gguf_str s = vocab_text(v, id);
    const uint32_t at = (uint32_t)t->control_text.len;
    if (s.len > LIMIT_TOKEN_BYTES || s.len == 0)
        return HASTEN_OK;
    if (buf_put(&t->control_text, s.data, s.len) ||
        LIST_PUSH(&t->controls, (struct trie_control){id, at, (uint32_t)s.len}))
        return no_memory(err);
    return HASTEN_OK;
}

/* Bytes that no UTF-8 has are no text: grammars use them for tokens by name (gbnf.h). */
static bool is_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((uint8_t)text[i] >= GBNF_TOKEN_BYTE)
            return false;
    return len <= LIMIT_TOKEN_BYTES;
}

/* The text of one token, which is none for those that are not text. */
static hasten_status token_text(struct token_trie *t, const struct vocab *v, int32_t id,
                                struct hasten_error *err)
{
    const size_t before = t->text.len;
    if (v && id < vocab_size(v)) {
        if (vocab_is_eog(v, id)) {
            t->ends[id / 64] |= 1ull << id % 64;
            t->n_ends++;
        } else if (vocab_type(v, id) != VOCAB_CONTROL && vocab_type(v, id) != VOCAB_UNKNOWN) {
            hasten_status st = vocab_token_bytes(v, id, false, &t->text, err);
            if (st)
                return st;
        } else if (vocab_type(v, id) == VOCAB_CONTROL) {
            hasten_status st = note_control(t, v, id, err);
            if (st)
                return st;
        }
    }
    if (!is_text(t->text.data + before, t->text.len - before))
        t->text.len = before;
    if (t->text.len > UINT32_MAX)
        return no_memory(err);
    t->text_at[id + 1] = (uint32_t)t->text.len;
    return HASTEN_OK;
}

static hasten_status open_empty(int32_t n_vocab, struct token_trie **out, struct hasten_error *err)
{
    struct token_trie *t = mem_calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return no_memory(err);
    t->n_vocab = n_vocab;
    t->n_words = (n_vocab + 63) / 64;
    t->text_at = mem_calloc((size_t)n_vocab + 1, sizeof *t->text_at);
    t->ends = mem_calloc((size_t)t->n_words, sizeof *t->ends);
    if (!t->text_at || !t->ends) {
        token_trie_close(t);
        return no_memory(err);
    }
    *out = t;
    return HASTEN_OK;
}

static hasten_status finish(hasten_status st, struct token_trie **out, struct hasten_error *err)
{
    if (!st)
        st = sort_and_build(*out, err);
    if (st) {
        token_trie_close(*out);
        *out = NULL;
    }
    return st;
}

hasten_status token_trie_open(const struct vocab *v, int32_t n_vocab, struct token_trie **out,
                              struct hasten_error *err)
{
    hasten_status st = open_empty(n_vocab, out, err);
    if (st)
        return st;
    for (int32_t id = 0; id < n_vocab && !st; id++)
        st = token_text(*out, v, id, err);
    return finish(st, out, err);
}

hasten_status token_trie_of(const struct gguf_str *text, const uint8_t *ends, int32_t n,
                            struct token_trie **out, struct hasten_error *err)
{
    hasten_status st = open_empty(n, out, err);
    if (st)
        return st;
    struct token_trie *t = *out;
    for (int32_t id = 0; id < n && !st; id++) {
        if (ends[id]) {
            t->ends[id / 64] |= 1ull << id % 64;
            t->n_ends++;
        } else if (is_text(text[id].data, text[id].len) && buf_put(&t->text, text[id].data, text[id].len)) {
            st = no_memory(err);
        }
        t->text_at[id + 1] = (uint32_t)t->text.len;
    }
    return finish(st, out, err);
}

void token_trie_close(struct token_trie *t)
{
    if (!t)
        return;
    LIST_FREE(&t->nodes);
    mem_free(t->ids);
    mem_free(t->text_at);
    mem_free(t->ends);
    LIST_FREE(&t->controls);
    buf_free(&t->control_text);
    buf_free(&t->text);
    mem_free(t);
}
