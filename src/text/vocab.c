/* Owns the opened vocabulary: what both kinds of files go through when they are opened (vocab_gguf.c and
 * vocab_json.c read them), then answers to questions about tokens. Encoding and decoding are in encode.c and
 * decode.c.
 *
 * Opening is fast because `run` waits for it: one pass over the tokens (a hash of each), one over the merges
 * (three look-ups each), a handful of large arrays, written forms left in the file. */
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <string.h>

#define INDEX_BLOCK 32

int tokens_push(struct tokens *t, int32_t id)
{
    if (t->n == t->cap) {
        int64_t cap = t->cap ? t->cap * 2 : 64;
        int32_t *p = mem_realloc(t->ids, (size_t)cap * sizeof *p);
        if (!p)
            return -1;
        t->ids = p;
        t->cap = cap;
    }
    t->ids[t->n++] = id;
    return 0;
}

void tokens_free(struct tokens *t)
{
    mem_free(t->ids);
    *t = (struct tokens){NULL, 0, 0};
}

/* ---- opening ------------------------------------------------------------------------------------------ */

struct vocab *vocab_new(void)
{
    struct vocab *v = mem_calloc(1, sizeof *v);
    if (!v)
        return NULL;
    added_init(&v->added);
    added_init(&v->added_normal);
    added_init(&v->heads);
    added_init(&v->tails);
    v->word_chars = 100;
    v->bos = v->eos = v->tail = v->unk = -1;
    for (int b = 0; b < 256; b++)
        v->byte_id[b] = -1;
    return v;
}

hasten_status vocab_reserve(struct vocab *v, int64_t n, const char *path, const char *key,
                            struct hasten_error *err)
{
    if (n > LIMIT_VOCAB)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: %s has %lld entries; the limit is %d", path, key,
                         (long long)n, LIMIT_VOCAB);
    v->n = (int32_t)n;
    v->texts = mem_array((size_t)n, sizeof *v->texts);
    v->types = mem_array((size_t)n, sizeof *v->types);
    if (!v->texts || !v->types || token_index_init(&v->index, n))
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary of %lld tokens",
                         (long long)n);
    memset(v->types, VOCAB_NORMAL, (size_t)n);
    return HASTEN_OK;
}

/* The table is larger than the caches: the memory of all of a block's places is asked for, then they are filled. */
static hasten_status index_block(struct vocab *v, const char *path, const char *key, int32_t from, int32_t n,
                                 struct hasten_error *err)
{
    for (int32_t i = from; i < from + n; i++) {
        if (v->texts[i].len > LIMIT_TOKEN_BYTES)
            return error_set(err, HASTEN_ERR_LIMIT, "%s: %s[%d] has %zu bytes; the limit is %d", path, key, i,
                             v->texts[i].len, LIMIT_TOKEN_BYTES);
        token_index_touch(&v->index, v->texts[i].data, v->texts[i].len);
    }
    for (int32_t i = from; i < from + n; i++)
        if (token_index_add(&v->index, v->texts, i))
            return error_set(err, HASTEN_ERR_LIMIT, "%s: %s[%d]: too many collisions", path, key, i);
    return HASTEN_OK;
}

hasten_status vocab_index_texts(struct vocab *v, const char *path, const char *key, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < v->n && !st; i += INDEX_BLOCK)
        st = index_block(v, path, key, i, v->n - i < INDEX_BLOCK ? v->n - i : INDEX_BLOCK, err);
    return st;
}

void vocab_mark_eog(struct vocab *v)
{
    static const char *const names[] = {
        "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|eot|>",
        "<|end_of_turn|>", "<end_of_turn>", "<eos>", "<EOT>", "<|return|>", "<turn|>", "<|endofprompt|>",
        /* of models that fill in: the middle is over where another part or file would begin */
        "<|fim_pad|>", "<|file_sep|>", "<|repo_name|>"};
    if (v->eos >= 0)
        v->types[v->eos] |= VOCAB_EOG_BIT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t id = vocab_find(v, names[i], strlen(names[i]));
        if (id >= 0 && (vocab_type(v, id) == VOCAB_CONTROL || vocab_type(v, id) == VOCAB_USER_DEFINED))
            v->types[id] |= VOCAB_EOG_BIT;
    }
}

void vocab_close(struct vocab *v)
{
    if (!v)
        return;
    token_index_free(&v->index);
    added_free(&v->added);
    added_free(&v->added_normal);
    added_free(&v->heads);
    added_free(&v->tails);
    mem_free(v->texts);
    mem_free(v->types);
    mem_free(v->found);
    mem_free(v->merges);
    mem_free(v->score_order);
    mem_free(v->owned);
    mem_free(v->owned_steps);
    mem_free(v->owned_template);
    mem_free(v);
}

/* ---- questions ---------------------------------------------------------------------------------------- */

int32_t vocab_size(const struct vocab *v)
{
    return v->n;
}

int32_t vocab_bos(const struct vocab *v)
{
    return v->bos;
}

int32_t vocab_eos(const struct vocab *v)
{
    return v->eos;
}

int32_t vocab_sep(const struct vocab *v)
{
    return v->tail;
}

struct gguf_str vocab_chat_template(const struct vocab *v)
{
    return v->template;
}

bool vocab_is_text(const struct vocab *v, int32_t id)
{
    return vocab_type(v, id) != VOCAB_CONTROL && vocab_type(v, id) != VOCAB_UNKNOWN;
}

bool vocab_add_bos(const struct vocab *v)
{
    return v->add_bos;
}

bool vocab_is_eog(const struct vocab *v, int32_t id)
{
    return id >= 0 && id < v->n && (v->types[id] & VOCAB_EOG_BIT);
}

enum vocab_token_type vocab_type(const struct vocab *v, int32_t id)
{
    return id >= 0 && id < v->n ? (enum vocab_token_type)(v->types[id] & VOCAB_TYPE_MASK) : VOCAB_UNKNOWN;
}

struct gguf_str vocab_text(const struct vocab *v, int32_t id)
{
    return id >= 0 && id < v->n ? v->texts[id] : (struct gguf_str){"", 0};
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t len)
{
    return token_index_find(&v->index, v->texts, text, len);
}

const char *vocab_describe(const struct vocab *v)
{
    return v->description;
}
