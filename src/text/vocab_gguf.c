/* Owns the reading of a vocabulary from a GGUF file: every tokenizer key, checked. What the keys mean is the GGUF
 * specification's and llama.cpp's (src/llama-vocab.cpp). */
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <stdio.h>
#include <string.h>

static const char KEY_TOKENS[] = "tokenizer.ggml.tokens";
static const char KEY_TYPES[] = "tokenizer.ggml.token_type";
static const char KEY_MERGES[] = "tokenizer.ggml.merges";

static bool str_is(struct gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

static hasten_status refuse(const struct gguf *g, const char *what, struct gguf_str name,
                            const char *supported, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: unsupported %s '%.*s'%s", gguf_path(g), what,
                     (int)(name.len < 80 ? name.len : 80), name.data, supported);
}

static void describe(struct vocab *v, const char *kind, struct gguf_str name)
{
    snprintf(v->description, sizeof v->description, "%s%s%.*s", kind, name.len ? "/" : "",
             (int)(name.len < 40 ? name.len : 40), name.data);
}

/* Which model, and how it prepares text. */
static hasten_status open_kind(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    struct gguf_str model, pre = {"", 0};
    bool lower = true;
    hasten_status st = gguf_get_str(g, "tokenizer.ggml.model", &model, err);
    if (!st)
        st = gguf_opt_str(g, "tokenizer.ggml.pre", &pre, err);
    if (!st)
        st = gguf_opt_bool(g, "tokenizer.ggml.normalizer.lowercase", &lower, err);
    if (st)
        return st;
    if (str_is(model, "llama")) {
        v->kind = VOCAB_SPM;
        describe(v, "spm", (struct gguf_str){"", 0});
        v->recipe.add_bos = true;
    } else if (str_is(model, "bert")) {
        v->kind = VOCAB_WPM;
        describe(v, "wordpiece", (struct gguf_str){lower ? "uncased" : "cased", lower ? 7 : 5});
        recipe_bert(lower, &v->recipe);
    } else if (str_is(model, "gpt2") || str_is(model, "gemma4")) {
        struct gguf_str name = str_is(model, "gemma4") ? model : pre;
        v->kind = VOCAB_BPE;
        describe(v, "bpe", name);
        if (!recipe_by_name(name, &v->recipe))
            return refuse(g, "pre-tokenizer", name, " (tokenizer.ggml.pre)", err);
    } else {
        return refuse(g, "tokenizer", model, " (supported: gpt2, gemma4, llama, bert)", err);
    }
    return HASTEN_OK;
}

static hasten_status required_array(const struct gguf *g, const char *key, enum gguf_value_type *elem,
                                    int64_t *n, struct hasten_error *err)
{
    if (gguf_find(g, key) < 0)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s is missing", gguf_path(g), key);
    return gguf_array_info(g, key, elem, n, err);
}

static hasten_status open_texts(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    enum gguf_value_type elem = GGUF_STRING;
    int64_t n = 0;
    hasten_status st = required_array(g, KEY_TOKENS, &elem, &n, err);
    if (st)
        return st;
    if (elem != GGUF_STRING || n < 1)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s must be an array of one or more strings", gguf_path(g),
                         KEY_TOKENS);
    st = vocab_reserve(v, n, gguf_path(g), KEY_TOKENS, err);
    if (!st)
        st = gguf_array_strs(g, KEY_TOKENS, 0, n, v->texts, err);
    return st ? st : vocab_index_texts(v, gguf_path(g), KEY_TOKENS, err);
}

static hasten_status open_types(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    enum gguf_value_type elem = GGUF_I32;
    int64_t n = 0;
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

static hasten_status open_eog(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    vocab_mark_eog(v);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t id;
        hasten_status st = open_id(v, g, keys[i], &id, err);
        if (st)
            return st;
        if (id >= 0)
            v->types[id] |= VOCAB_EOG_BIT;
    }
    return open_eog_list(v, g, err);
}

/* The first of the ids that the file names; the token of that text when it names none. */
static hasten_status open_first_id(const struct vocab *v, const struct gguf *g, const char *const keys[2],
                                   const char *text, int32_t *out, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    *out = -1;
    for (int i = 0; i < 2 && *out < 0 && !st; i++)
        st = open_id(v, g, keys[i], out, err);
    if (!st && *out < 0)
        *out = vocab_find(v, text, strlen(text));
    return st;
}

/* WordPiece: [CLS] in front, [SEP] behind, [UNK]. GGUF spells "seperator". */
static hasten_status open_bert_ids(struct vocab *v, const struct gguf *g, int32_t *sep,
                                   struct hasten_error *err)
{
    static const char *const cls_keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.cls_token_id"};
    static const char *const sep_keys[] = {"tokenizer.ggml.seperator_token_id",
                                           "tokenizer.ggml.separator_token_id"};
    static const char *const unk_keys[] = {"tokenizer.ggml.unknown_token_id",
                                           "tokenizer.ggml.unknown_token_id"};
    hasten_status st = open_first_id(v, g, cls_keys, "[CLS]", &v->bos, err);
    if (!st)
        st = open_first_id(v, g, sep_keys, "[SEP]", sep, err);
    if (!st)
        st = open_first_id(v, g, unk_keys, "[UNK]", &v->unk, err);
    if (!st && v->unk >= 0) /* text may become it: it is no control token */
        v->types[v->unk] = VOCAB_UNKNOWN;
    return st;
}

static hasten_status open_settings(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    int32_t sep = -1;
    bool tail = v->recipe.tail;
    hasten_status st = open_id(v, g, "tokenizer.ggml.bos_token_id", &v->bos, err);
    if (!st)
        st = open_id(v, g, "tokenizer.ggml.eos_token_id", &v->eos, err);
    if (!st && v->kind == VOCAB_WPM)
        st = open_bert_ids(v, g, &sep, err);
    else if (!st)
        st = open_id(v, g, "tokenizer.ggml.seperator_token_id", &sep, err);
    v->add_bos = v->recipe.add_bos;
    v->add_prefix = v->kind == VOCAB_SPM;
    if (!st)
        st = gguf_opt_bool(g, "tokenizer.ggml.add_bos_token", &v->add_bos, err);
    if (!st)
        st = gguf_opt_bool(g, tail ? "tokenizer.ggml.add_sep_token" : "tokenizer.ggml.add_eos_token", &tail,
                           err);
    if (!st)
        st = gguf_opt_bool(g, "tokenizer.ggml.add_space_prefix", &v->add_prefix, err);
    if (!st)
        st = gguf_opt_str(g, "tokenizer.chat_template", &v->template, err);
    if (st)
        return st;
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_prefix = v->add_prefix && v->kind == VOCAB_SPM;
    v->strip_prefix = v->add_prefix || v->kind == VOCAB_WPM;
    v->tail = !tail ? -1 : v->recipe.tail && sep >= 0 ? sep : v->eos;
    return open_eog(v, g, err);
}

/* Phi-3's control tokens take the spaces behind them, all but three (its tokenizer.json: rstrip; GGUF has no place
 * for that, and llama.cpp's src/llama-vocab.cpp knows it by name, too). */
static hasten_status open_phi3(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    static const char *const plain[] = {"<unk>", "<s>", "<|endoftext|>"};
    struct gguf_str arch = {"", 0};
    hasten_status st = gguf_opt_str(g, "general.architecture", &arch, err);
    if (st || v->kind != VOCAB_SPM || !str_is(arch, "phi3"))
        return st;
    v->found = mem_calloc((size_t)v->n, 1);
    if (!v->found)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary of %d tokens", v->n);
    for (int32_t i = 0; i < v->n; i++)
        if (vocab_type(v, i) == VOCAB_CONTROL || str_is(v->texts[i], "</s>"))
            v->found[i] = FOUND_RSTRIP;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        int32_t id = vocab_find(v, plain[i], strlen(plain[i]));
        if (id >= 0)
            v->found[id] = 0;
    }
    return HASTEN_OK;
}

static hasten_status open_added(struct vocab *v, struct hasten_error *err)
{
    for (int32_t i = 0; i < v->n; i++) {
        enum vocab_token_type t = vocab_type(v, i);
        if ((t == VOCAB_CONTROL || t == VOCAB_USER_DEFINED || i == v->unk) &&
            added_insert(&v->added, v->texts[i].data, v->texts[i].len, i))
            return error_set(err, HASTEN_ERR_MEMORY, "out of memory for control tokens");
    }
    return HASTEN_OK;
}

/* "left right" each. */
static hasten_status read_merges(const struct merge_source *src, int64_t from, int n, struct merge_pair *out,
                                 struct hasten_error *err)
{
    const struct gguf *g = src->from;
    struct gguf_str s[MERGE_BLOCK];
    hasten_status st = gguf_array_strs(g, KEY_MERGES, from, n, s, err);
    for (int i = 0; i < n && !st; i++) {
        const char *gap = s[i].len ? memchr(s[i].data, ' ', s[i].len) : NULL;
        size_t left = gap ? (size_t)(gap - s[i].data) : 0, right = gap ? s[i].len - left - 1 : 0;
        if (!left || !right || memchr(gap + 1, ' ', right))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: %s[%lld]: '%.*s' is not two tokens with a space between", gguf_path(g),
                             KEY_MERGES, (long long)(from + i), (int)(s[i].len < 80 ? s[i].len : 80),
                             s[i].data);
        out[i] = (struct merge_pair){{s[i].data, left}, {gap + 1, right}};
    }
    return st;
}

static hasten_status open_bpe(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    enum gguf_value_type elem = GGUF_STRING;
    struct merge_source src = {.from = g, .path = gguf_path(g), .key = KEY_MERGES, .read = read_merges};
    hasten_status st = required_array(g, KEY_MERGES, &elem, &src.n, err);
    if (st)
        return st;
    if (elem != GGUF_STRING)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s is not an array of strings", gguf_path(g), KEY_MERGES);
    return bpe_open(v, &src, err);
}

static hasten_status open_model(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    if (v->kind == VOCAB_WPM)
        return wordpiece_open(v, gguf_path(g), (struct gguf_str){"", 0}, err);
    return v->kind == VOCAB_BPE ? open_bpe(v, g, err) : spm_open(v, g, err);
}

hasten_status vocab_open(const struct gguf *g, struct vocab **out, struct hasten_error *err)
{
    *out = NULL;
    struct vocab *v = vocab_new();
    if (!v)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary");
    hasten_status st = open_kind(v, g, err);
    if (!st)
        st = open_texts(v, g, err);
    if (!st)
        st = open_types(v, g, err);
    if (!st)
        st = open_settings(v, g, err);
    if (!st)
        st = open_model(v, g, err);
    if (!st)
        st = open_phi3(v, g, err);
    if (!st)
        st = open_added(v, err);
    if (st) {
        vocab_close(v);
        return st;
    }
    *out = v;
    return HASTEN_OK;
}
