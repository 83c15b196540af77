/* Owns the opened vocabulary: reads and checks every tokenizer key of a GGUF file, then answers questions about
 * tokens. Encoding and decoding are in encode.c and decode.c.
 *
 * Opening is fast because `run` waits for it: one pass over the tokens (a hash of each), one over the merges
 * (three look-ups each), a handful of large arrays, written forms left in the file. */
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <stdio.h>
#include <string.h>

static const char KEY_TOKENS[] = "tokenizer.ggml.tokens";
#define INDEX_BLOCK 32
static const char KEY_TYPES[] = "tokenizer.ggml.token_type";

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

static bool str_is(struct gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

static hasten_status open_kind(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    struct gguf_str model;
    hasten_status st = gguf_get_str(g, "tokenizer.ggml.model", &model, err);
    if (st)
        return st;
    if (str_is(model, "gpt2"))
        v->kind = VOCAB_BPE;
    else if (str_is(model, "llama"))
        v->kind = VOCAB_SPM;
    else
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: unsupported tokenizer '%.*s' (supported: gpt2, llama)", gguf_path(g),
                         (int)(model.len < 80 ? model.len : 80), model.data);
    return HASTEN_OK;
}

hasten_status vocab_required_array(const struct gguf *g, const char *key, enum gguf_value_type *elem,
                                   int64_t *n, struct hasten_error *err)
{
    if (gguf_find(g, key) < 0)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s is missing", gguf_path(g), key);
    return gguf_array_info(g, key, elem, n, err);
}

/* The table is larger than the caches: the memory of all of a block's places is asked for, then they are filled. */
static hasten_status index_block(struct vocab *v, const struct gguf *g, int32_t from, int32_t n,
                                 struct hasten_error *err)
{
    for (int32_t i = from; i < from + n; i++) {
        if (v->texts[i].len > LIMIT_TOKEN_BYTES)
            return error_set(err, HASTEN_ERR_LIMIT, "%s: %s[%d] has %zu bytes; the limit is %d", gguf_path(g),
                             KEY_TOKENS, i, v->texts[i].len, LIMIT_TOKEN_BYTES);
        token_index_touch(&v->index, v->texts[i].data, v->texts[i].len);
    }
    for (int32_t i = from; i < from + n; i++)
        if (token_index_add(&v->index, v->texts, i))
            return error_set(err, HASTEN_ERR_LIMIT, "%s: %s[%d]: too many collisions", gguf_path(g),
                             KEY_TOKENS, i);
    return HASTEN_OK;
}

static hasten_status open_texts(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    enum gguf_value_type elem = GGUF_STRING;
    int64_t n = 0;
    hasten_status st = vocab_required_array(g, KEY_TOKENS, &elem, &n, err);
    if (st)
        return st;
    if (elem != GGUF_STRING || n < 1)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s must be an array of one or more strings", gguf_path(g),
                         KEY_TOKENS);
    if (n > LIMIT_VOCAB)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: %s has %lld entries; the limit is %d", gguf_path(g),
                         KEY_TOKENS, (long long)n, LIMIT_VOCAB);
    v->n = (int32_t)n;
    v->texts = mem_array((size_t)n, sizeof *v->texts);
    v->types = mem_array((size_t)n, sizeof *v->types);
    if (!v->texts || !v->types || token_index_init(&v->index, n))
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary of %lld tokens",
                         (long long)n);
    st = gguf_array_strs(g, KEY_TOKENS, 0, n, v->texts, err);
    for (int32_t i = 0; i < v->n && !st; i += INDEX_BLOCK)
        st = index_block(v, g, i, v->n - i < INDEX_BLOCK ? v->n - i : INDEX_BLOCK, err);
    return st;
}

static hasten_status open_types(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    enum gguf_value_type elem = GGUF_I32;
    int64_t n = 0;
    memset(v->types, VOCAB_NORMAL, (size_t)v->n);
    if (gguf_find(g, KEY_TYPES) < 0)
        return HASTEN_OK;
    hasten_status st = gguf_array_info(g, KEY_TYPES, &elem, &n, err);
    if (st)
        return st;
    if (n != v->n)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s has %lld entries, %s %d", gguf_path(g), KEY_TYPES,
                         (long long)n, KEY_TOKENS, v->n);
    int32_t *types = mem_array((size_t)n, sizeof *types);
    if (!types)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for %lld token types", (long long)n);
    st = gguf_array_i32(g, KEY_TYPES, types, n, err);
    for (int32_t i = 0; i < v->n && !st; i++) {
        if (types[i] < VOCAB_NORMAL || types[i] > VOCAB_BYTE)
            st = error_set(err, HASTEN_ERR_FILE, "%s: %s[%d] is %d; types are %d to %d", gguf_path(g),
                           KEY_TYPES, i, types[i], VOCAB_NORMAL, VOCAB_BYTE);
        else
            v->types[i] = (uint8_t)types[i];
    }
    mem_free(types);
    return st;
}

static hasten_status open_id(const struct vocab *v, const struct gguf *g, const char *key, int32_t *out,
                             struct hasten_error *err)
{
    uint32_t id = UINT32_MAX;
    hasten_status st = gguf_opt_u32(g, key, &id, err);
    *out = -1;
    if (st || gguf_find(g, key) < 0 || id == UINT32_MAX) /* writers store -1 for "none" */
        return st;
    if (id >= (uint32_t)v->n)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s is %u; the vocabulary has %d tokens", gguf_path(g),
                         key, id, v->n);
    *out = (int32_t)id;
    return HASTEN_OK;
}

static hasten_status open_eog_list(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    static const char key[] = "tokenizer.ggml.eos_token_ids";
    enum gguf_value_type elem = GGUF_I32;
    int64_t n = 0;
    int32_t ids[64];
    hasten_status st = gguf_array_info(g, key, &elem, &n, err);
    if (st || n == 0)
        return st;
    if (n > 64)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: %s has %lld entries; the limit is 64", gguf_path(g), key,
                         (long long)n);
    st = gguf_array_i32(g, key, ids, n, err);
    for (int64_t i = 0; i < n && !st; i++) {
        if (ids[i] < 0 || ids[i] >= v->n)
            st = error_set(err, HASTEN_ERR_FILE, "%s: %s[%lld] is %d; the vocabulary has %d tokens",
                           gguf_path(g), key, (long long)i, ids[i], v->n);
        else
            v->types[ids[i]] |= VOCAB_EOG_BIT;
    }
    return st;
}

/* Marks what ends a turn: by key, by list, by name (control or user-defined tokens only). */
static hasten_status open_eog(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    static const char *const names[] = {
        "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>",     "<|eom_id|>",
        "<|end|>",    "<|eot|>",       "<|end_of_turn|>", "<end_of_turn>",  "<eos>",
        "<EOT>",      "<|return|>",    "<turn|>",         "<|endofprompt|>"};
    if (v->eos >= 0)
        v->types[v->eos] |= VOCAB_EOG_BIT;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t id;
        hasten_status st = open_id(v, g, keys[i], &id, err);
        if (st)
            return st;
        if (id >= 0)
            v->types[id] |= VOCAB_EOG_BIT;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t id = vocab_find(v, names[i], strlen(names[i]));
        if (id >= 0 && (vocab_type(v, id) == VOCAB_CONTROL || vocab_type(v, id) == VOCAB_USER_DEFINED))
            v->types[id] |= VOCAB_EOG_BIT;
    }
    return open_eog_list(v, g, err);
}

static hasten_status open_settings(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    hasten_status st = open_id(v, g, "tokenizer.ggml.bos_token_id", &v->bos, err);
    if (!st)
        st = open_id(v, g, "tokenizer.ggml.eos_token_id", &v->eos, err);
    /* without the keys: SentencePiece files mean yes, BPE files no */
    v->add_bos = v->add_prefix = v->kind == VOCAB_SPM;
    if (!st)
        st = gguf_opt_bool(g, "tokenizer.ggml.add_bos_token", &v->add_bos, err);
    if (!st)
        st = gguf_opt_bool(g, "tokenizer.ggml.add_space_prefix", &v->add_prefix, err);
    if (st)
        return st;
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_prefix = v->add_prefix && v->kind == VOCAB_SPM;
    return open_eog(v, g, err);
}

static hasten_status open_added(struct vocab *v, struct hasten_error *err)
{
    for (int32_t i = 0; i < v->n; i++) {
        enum vocab_token_type t = vocab_type(v, i);
        if ((t == VOCAB_CONTROL || t == VOCAB_USER_DEFINED) &&
            added_insert(&v->added, v->texts[i].data, v->texts[i].len, i))
            return error_set(err, HASTEN_ERR_MEMORY, "out of memory for control tokens");
    }
    return HASTEN_OK;
}

hasten_status vocab_open(const struct gguf *g, struct vocab **out, struct hasten_error *err)
{
    *out = NULL;
    struct vocab *v = mem_calloc(1, sizeof *v);
    if (!v)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary");
    added_init(&v->added);
    hasten_status st = open_kind(v, g, err);
    if (!st)
        st = open_texts(v, g, err);
    if (!st)
        st = open_types(v, g, err);
    if (!st)
        st = open_settings(v, g, err);
    if (!st)
        st = v->kind == VOCAB_BPE ? bpe_open(v, g, err) : spm_open(v, g, err);
    if (!st)
        st = open_added(v, err);
    if (st) {
        vocab_close(v);
        return st;
    }
    *out = v;
    return HASTEN_OK;
}

void vocab_close(struct vocab *v)
{
    if (!v)
        return;
    token_index_free(&v->index);
    added_free(&v->added);
    mem_free(v->texts);
    mem_free(v->types);
    mem_free(v->merges);
    mem_free(v->score_order);
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
