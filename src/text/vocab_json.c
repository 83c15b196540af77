/* Owns the reading of a vocabulary from a tokenizer.json and a tokenizer_config.json (Hugging Face's format): the
 * model's vocabulary and merges, added tokens, what stands around a text, the chat template. The steps before the
 * model are json_steps.c's.
 *
 * Written forms are copied into one block; the documents are released at the end. WordPiece tokens take GGUF's
 * form: U+2581 in front of what begins a word, no "##" in front of what continues one. */
#include "base/limits.h"
#include "text/template.h"
#include "text/vocab_internal.h"
#include <stdio.h>
#include <string.h>

struct reader {
    struct vocab *v;
    const char *path;
    const json_t *doc, *config, *model, *added; /* config: may be NULL */
    struct hasten_error *err;
};

static hasten_status broken(const struct reader *r, const char *what)
{
    return error_set(r->err, HASTEN_ERR_FILE, "%s: %s", r->path, what);
}

static hasten_status unsupported(const struct reader *r, const char *what, const json_t *name)
{
    return error_set(r->err, HASTEN_ERR_UNSUPPORTED, "%s: unsupported %s '%.100s'", r->path, what,
                     json_is_string(name) ? json_string_value(name) : "?");
}

static struct gguf_str str_of(const json_t *value)
{
    return json_is_string(value) ? (struct gguf_str){json_string_value(value), json_string_length(value)}
                                 : (struct gguf_str){"", 0};
}

static bool is_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* ---- which model -------------------------------------------------------------------------------------- */

/* An option of the model that must be absent, null, empty or false. */
static bool has_option(const json_t *model, const char *key)
{
    const json_t *o = json_object_get(model, key);
    return o && !json_is_null(o) && !json_is_false(o) && !(json_is_string(o) && json_string_length(o) == 0) &&
           !(json_is_real(o) && json_real_value(o) == 0);
}

static hasten_status read_model_kind(struct reader *r)
{
    static const char *const refused[] = {"continuing_subword_prefix", "end_of_word_suffix", "dropout"};
    struct vocab *v = r->v;
    const json_t *type = json_object_get(r->model, "type");
    if (!json_is_object(r->model))
        return broken(r, "no model");
    if (json_text_is(type, "WordPiece")) {
        v->kind = VOCAB_WPM;
        snprintf(v->description, sizeof v->description, "wordpiece/tokenizer.json");
        return HASTEN_OK;
    }
    if (!json_text_is(type, "BPE") && (type || !json_object_get(r->model, "merges")))
        return unsupported(r, "tokenizer model", type);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (has_option(r->model, refused[i]))
            return error_set(r->err, HASTEN_ERR_UNSUPPORTED, "%s: unsupported option of BPE '%s'", r->path,
                             refused[i]);
    v->kind = VOCAB_BPE;
    v->recipe.whole = is_true(r->model, "ignore_merges");
    v->recipe.fallback = is_true(r->model, "byte_fallback");
    v->fuse_unk = is_true(r->model, "fuse_unk");
    snprintf(v->description, sizeof v->description, "bpe/tokenizer.json");
    return HASTEN_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------------- */

static bool valid_id(const json_t *id, int64_t *out)
{
    *out = json_is_integer(id) ? json_integer_value(id) : -1;
    return *out >= 0 && *out < LIMIT_VOCAB;
}

/* The number of ids, and the bytes that texts need at most. */
static hasten_status count_tokens(const struct reader *r, const json_t *vocab, int64_t *n, size_t *bytes)
{
    const char *key;
    json_t *id;
    size_t key_len, i;
    int64_t k;
    *n = 0;
    *bytes = 1;
    json_object_keylen_foreach((json_t *)vocab, key, key_len, id)
    {
        if (!valid_id(id, &k))
            return error_set(r->err, HASTEN_ERR_FILE,
                             "%s: the id of token '%.80s' is not a number from 0 to %d", r->path, key,
                             LIMIT_VOCAB - 1);
        *n = k >= *n ? k + 1 : *n;
        *bytes += key_len + SPM_SPACE_BYTES;
    }
    json_array_foreach(r->added, i, id)
    {
        const json_t *text = json_object_get(id, "content");
        if (!valid_id(json_object_get(id, "id"), &k) || !json_is_string(text))
            return error_set(r->err, HASTEN_ERR_FILE, "%s: added_tokens[%zu] is no token with an id below %d",
                             r->path, i, LIMIT_VOCAB);
        *n = k >= *n ? k + 1 : *n;
        *bytes += json_string_length(text);
    }
    return *n ? HASTEN_OK : broken(r, "a vocabulary without tokens");
}

/* Copies a text behind the others and makes it token id's. at: where the next text goes. */
static hasten_status put_text(const struct reader *r, int64_t id, const char *front, const char *s,
                              size_t len, char **at)
{
    struct gguf_str *t = &r->v->texts[id];
    size_t n = strlen(front);
    if (t->data)
        return error_set(r->err, HASTEN_ERR_FILE, "%s: the tokens '%.*s' and '%.*s' both have id %lld",
                         r->path, (int)(t->len < 80 ? t->len : 80), t->data, (int)(len < 80 ? len : 80), s,
                         (long long)id);
    memcpy(*at, front, n);
    if (len)
        memcpy(*at + n, s, len);
    *t = (struct gguf_str){*at, n + len};
    *at += n + len;
    return HASTEN_OK;
}

static hasten_status put_model_token(const struct reader *r, const char *s, size_t len, int64_t id,
                                     struct gguf_str prefix, char **at)
{
    struct vocab *v = r->v;
    if (v->kind != VOCAB_WPM || (v->found[id] & FOUND_ADDED))
        return put_text(r, id, "", s, len, at);
    if (prefix.len && len >= prefix.len && memcmp(s, prefix.data, prefix.len) == 0) {
        v->found[id] |= FOUND_TAIL;
        return put_text(r, id, "", s + prefix.len, len - prefix.len, at);
    }
    return put_text(r, id, SPM_SPACE, s, len, at);
}

/* Marks what added_tokens says of its ids; copies the texts that the model does not have. */
static hasten_status read_added(const struct reader *r, const json_t *vocab, char **at)
{
    struct vocab *v = r->v;
    size_t i;
    json_t *token;
    json_array_foreach(r->added, i, token)
    {
        struct gguf_str s = str_of(json_object_get(token, "content"));
        int64_t id = json_integer_value(json_object_get(token, "id"));
        const json_t *known = json_object_getn(vocab, s.data, s.len);
        hasten_status st = HASTEN_OK;
        if (known && json_integer_value(known) != id)
            return error_set(r->err, HASTEN_ERR_FILE,
                             "%s: added_tokens[%zu]: '%.80s' has id %lld, in the vocabulary %lld", r->path, i,
                             s.data, (long long)id, (long long)json_integer_value(known));
        if (!known)
            st = put_text(r, id, "", s.data, s.len, at);
        if (st)
            return st;
        v->types[id] = is_true(token, "special") ? VOCAB_CONTROL : VOCAB_USER_DEFINED;
        v->found[id] |= (uint8_t)(FOUND_ADDED | (is_true(token, "lstrip") ? FOUND_LSTRIP : 0) |
                                  (is_true(token, "rstrip") ? FOUND_RSTRIP : 0) |
                                  (is_true(token, "single_word") ? FOUND_SINGLE_WORD : 0) |
                                  (is_true(token, "normalized") ? FOUND_NORMAL : 0));
    }
    return HASTEN_OK;
}

/* <0x00> to <0xFF> */
static bool names_byte(struct gguf_str s)
{
    static const char hex[] = "0123456789ABCDEF";
    return s.len == 6 && memcmp(s.data, "<0x", 3) == 0 && memchr(hex, s.data[3], 16) &&
           memchr(hex, s.data[4], 16) && s.data[5] == '>';
}

static void mark_bytes(struct vocab *v)
{
    for (int32_t id = 0; id < v->n && v->recipe.fallback; id++)
        if (v->types[id] == VOCAB_NORMAL && names_byte(v->texts[id]))
            v->types[id] = VOCAB_BYTE;
}

/* WordPiece: what stands in front of a token that continues a word. */
static struct gguf_str word_prefix(const struct reader *r)
{
    const json_t *prefix = json_object_get(r->model, "continuing_subword_prefix");
    return json_is_string(prefix) ? str_of(prefix) : (struct gguf_str){"##", 2};
}

static hasten_status read_tokens(struct reader *r)
{
    struct vocab *v = r->v;
    const json_t *vocab = json_object_get(r->model, "vocab");
    struct gguf_str front = word_prefix(r);
    const char *key;
    json_t *id;
    size_t bytes, key_len;
    int64_t n;
    if (!json_is_object(vocab))
        return broken(r, "model.vocab is not an object");
    hasten_status st = count_tokens(r, vocab, &n, &bytes);
    if (!st)
        st = vocab_reserve(v, n, r->path, "vocab", r->err);
    if (st)
        return st;
    char *at = v->owned = mem_alloc(bytes);
    v->found = mem_calloc((size_t)n, 1);
    if (!v->owned || !v->found)
        return error_set(r->err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary of %lld tokens",
                         (long long)n);
    memset(v->texts, 0, (size_t)n * sizeof *v->texts);
    st = read_added(r, vocab, &at);
    json_object_keylen_foreach((json_t *)vocab, key, key_len, id)
    {
        if (!st)
            st = put_model_token(r, key, key_len, json_integer_value(id), front, &at);
    }
    for (int64_t i = 0; i < n && !st; i++)
        if (!v->texts[i].data) { /* no token has this id */
            v->texts[i] = (struct gguf_str){at, 0};
            v->types[i] = VOCAB_UNUSED;
        }
    if (st)
        return st;
    mark_bytes(v);
    return vocab_index_texts(v, r->path, "vocab", r->err);
}

/* The id of the token that a file names, as text or as {"content": text}; -1: none. */
static int32_t named_id(const struct reader *r, const json_t *value)
{
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    if (!json_is_string(content))
        return -1;
    const json_t *id = json_object_getn(json_object_get(r->model, "vocab"), json_string_value(content),
                                        json_string_length(content));
    return id ? (int32_t)json_integer_value(id)
              : vocab_find(r->v, json_string_value(content), json_string_length(content));
}

/* ---- merges ------------------------------------------------------------------------------------------- */

static hasten_status read_merges(const struct merge_source *src, int64_t from, int n, struct merge_pair *out,
                                 struct hasten_error *err)
{
    for (int i = 0; i < n; i++) {
        const json_t *m = json_array_get(src->from, (size_t)(from + i));
        if (json_is_array(m) && json_array_size(m) == 2) {
            out[i] = (struct merge_pair){str_of(json_array_get(m, 0)), str_of(json_array_get(m, 1))};
        } else {
            struct gguf_str s = str_of(m);
            const char *gap = s.len ? memchr(s.data, ' ', s.len) : NULL;
            size_t left = gap ? (size_t)(gap - s.data) : 0;
            out[i] = (struct merge_pair){{s.data, left}, {gap ? gap + 1 : "", gap ? s.len - left - 1 : 0}};
        }
        if (!out[i].left.len || !out[i].right.len)
            return error_set(err, HASTEN_ERR_FILE, "%s: model.merges[%lld] is not two tokens", src->path,
                             (long long)(from + i));
    }
    return HASTEN_OK;
}

static hasten_status read_model(struct reader *r)
{
    struct vocab *v = r->v;
    const json_t *merges = json_object_get(r->model, "merges");
    const json_t *chars = json_object_get(r->model, "max_input_chars_per_word");
    v->unk = named_id(r, json_object_get(r->model, "unk_token"));
    if (v->unk >= 0) /* text may become it: it is no control token */
        v->types[v->unk] = VOCAB_UNKNOWN;
    if (v->kind == VOCAB_WPM) {
        v->word_chars = json_is_integer(chars) && json_integer_value(chars) >= 0 &&
                                json_integer_value(chars) <= LIMIT_TOKEN_BYTES
                            ? (int32_t)json_integer_value(chars)
                            : v->word_chars;
        return wordpiece_open(v, r->path, word_prefix(r), r->err);
    }
    if (!json_is_array(merges))
        return broken(r, "model.merges is not an array");
    struct merge_source src = {.from = merges,
                               .n = (int64_t)json_array_size(merges),
                               .path = r->path,
                               .key = "model.merges",
                               .skip_control = true,
                               .read = read_merges};
    return bpe_open(v, &src, r->err);
}

/* ---- around a text ------------------------------------------------------------------------------------ */

static hasten_status special_id(const struct reader *r, const json_t *piece, const json_t *tokens,
                                int32_t *out)
{
    const json_t *name = json_object_get(json_object_get(piece, "SpecialToken"), "id");
    const json_t *ids =
        json_is_string(name)
            ? json_object_get(json_object_getn(tokens, json_string_value(name), json_string_length(name)),
                              "ids")
            : NULL;
    int64_t id;
    if (*out >= 0 || json_array_size(ids) > 1)
        return error_set(r->err, HASTEN_ERR_UNSUPPORTED,
                         "%s: unsupported post_processor: more than one token on a side of the text",
                         r->path);
    if (!valid_id(json_array_get(ids, 0), &id) || id >= r->v->n)
        return broken(r, "post_processor: a special token without a valid id");
    *out = (int32_t)id;
    return HASTEN_OK;
}

/* TemplateProcessing: what stands before and behind $A. */
static hasten_status read_template(const struct reader *r, const json_t *post, int32_t *before,
                                   int32_t *behind)
{
    const json_t *single = json_object_get(post, "single"), *tokens = json_object_get(post, "special_tokens");
    bool text = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        if (json_object_get(piece, "Sequence")) {
            text = true;
            continue;
        }
        hasten_status st = special_id(r, piece, tokens, text ? behind : before);
        if (st)
            return st;
    }
    return HASTEN_OK;
}

/* BertProcessing, RobertaProcessing: "cls" and "sep", each [text, id]. */
static hasten_status read_pair(const struct reader *r, const json_t *post, int32_t *before, int32_t *behind)
{
    int64_t cls, sep;
    if (!valid_id(json_array_get(json_object_get(post, "cls"), 1), &cls) || cls >= r->v->n ||
        !valid_id(json_array_get(json_object_get(post, "sep"), 1), &sep) || sep >= r->v->n)
        return broken(r, "post_processor: cls or sep without a valid id");
    *before = (int32_t)cls;
    *behind = (int32_t)sep;
    return HASTEN_OK;
}

static hasten_status read_post_step(const struct reader *r, const json_t *post, int32_t *before,
                                    int32_t *behind)
{
    const json_t *type = json_object_get(post, "type");
    if (json_text_is(type, "TemplateProcessing"))
        return read_template(r, post, before, behind);
    if (json_text_is(type, "BertProcessing") || json_text_is(type, "RobertaProcessing"))
        return read_pair(r, post, before, behind);
    if (json_text_is(type, "ByteLevel")) /* moves offsets only */
        return HASTEN_OK;
    return unsupported(r, "step of post_processor", type);
}

static hasten_status read_post(const struct reader *r, int32_t *before, int32_t *behind)
{
    const json_t *post = json_object_get(r->doc, "post_processor"),
                 *list = json_object_get(post, "processors");
    hasten_status st = HASTEN_OK;
    *before = *behind = -1;
    if (!post || json_is_null(post))
        return HASTEN_OK;
    if (!json_text_is(json_object_get(post, "type"), "Sequence"))
        return read_post_step(r, post, before, behind);
    for (size_t i = 0; i < json_array_size(list) && !st; i++)
        st = read_post_step(r, json_array_get(list, i), before, behind);
    return st;
}

static hasten_status read_settings(struct reader *r)
{
    struct vocab *v = r->v;
    const json_t *add_bos = json_object_get(r->config, "add_bos_token");
    const json_t *add_eos = json_object_get(r->config, "add_eos_token");
    int32_t before, behind;
    hasten_status st = read_post(r, &before, &behind);
    if (st)
        return st;
    int32_t bos = named_id(r, json_object_get(r->config, "bos_token"));
    v->eos = named_id(r, json_object_get(r->config, "eos_token"));
    v->bos = before >= 0 ? before : bos;
    v->add_bos = (json_is_boolean(add_bos) ? json_is_true(add_bos) : before >= 0) && v->bos >= 0;
    v->tail = behind;
    if (json_is_boolean(add_eos))
        v->tail = json_is_false(add_eos) ? -1 : behind >= 0 ? behind : v->eos;
    v->strip_prefix = v->strip_prefix || v->kind == VOCAB_WPM;
    vocab_mark_eog(v);
    return HASTEN_OK;
}

/* ---- added tokens ------------------------------------------------------------------------------------- */

/* Control tokens are found in raw text only, whatever the file says: a normalizer must not turn what a user writes
 * (another case, wide letters) into one. */
static bool found_normal(const struct vocab *v, int32_t id)
{
    return (v->found[id] & FOUND_NORMAL) && vocab_is_text(v, id);
}

/* Enters what is found in normalised text as the normalizer writes it. */
static int insert_normal(struct vocab *v, struct encode_work *w, int32_t id)
{
    const char *s = v->texts[id].data;
    size_t len = v->texts[id].len;
    if (text_prepare(w, w->norm, v->recipe.norm, v->recipe.n_norm, true, true, &s, &len))
        return -1;
    return added_insert(&v->added_normal, s, len, id);
}

static hasten_status enter_added(struct reader *r)
{
    struct vocab *v = r->v;
    struct encode_work w = {.v = v};
    int rc = 0;
    for (int32_t id = 0; id < v->n && !rc; id++) {
        if (!(v->found[id] & FOUND_ADDED))
            continue;
        rc = found_normal(v, id) ? insert_normal(v, &w, id)
                                 : added_insert(&v->added, v->texts[id].data, v->texts[id].len, id);
    }
    unicode_nfc_free(&w.nfc);
    buf_free(&w.norm[0]);
    buf_free(&w.norm[1]);
    return rc ? error_set(r->err, HASTEN_ERR_MEMORY, "out of memory for added tokens") : HASTEN_OK;
}

/* ---- the chat template -------------------------------------------------------------------------------- */

/* chat_template: text, or a list of {"name", "template"} whose "default" counts. */
static const json_t *find_template(const json_t *config)
{
    const json_t *t = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(t); i++) {
        const json_t *one = json_array_get(t, i);
        if (json_text_is(json_object_get(one, "name"), "default"))
            return json_object_get(one, "template");
    }
    return t;
}

static hasten_status read_chat_template(struct reader *r, const struct vocab_json *src)
{
    struct gguf_str s = str_of(find_template(r->config));
    if (src->template)
        s = (struct gguf_str){src->template, src->template_len};
    r->v->owned_template = mem_strndup(s.data, s.len);
    if (!r->v->owned_template)
        return error_set(r->err, HASTEN_ERR_MEMORY, "out of memory for a chat template");
    r->v->template = (struct gguf_str){r->v->owned_template, s.len};
    return HASTEN_OK;
}

/* ---- opening ------------------------------------------------------------------------------------------ */

static hasten_status read_document(struct reader *r, const struct vocab_json *src)
{
    r->model = json_object_get(r->doc, "model");
    r->added = json_object_get(r->doc, "added_tokens");
    hasten_status st = read_model_kind(r);
    if (!st)
        st = json_read_steps(r->v, r->path, r->doc, r->err);
    if (!st)
        st = read_tokens(r);
    if (!st)
        st = read_model(r);
    if (!st)
        st = read_settings(r);
    if (!st)
        st = enter_added(r);
    return st ? st : read_chat_template(r, src);
}

hasten_status vocab_open_json(const struct vocab_json *src, struct vocab **out, struct hasten_error *err)
{
    json_t *doc = NULL, *config = NULL;
    *out = NULL;
    struct vocab *v = vocab_new();
    if (!v)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary");
    hasten_status st = json_parse(src->path, src->tokenizer, src->tokenizer_len, &doc, err);
    if (!st && src->config)
        st = json_parse("tokenizer_config.json", src->config, src->config_len, &config, err);
    if (!st) {
        struct reader r = {.v = v, .path = src->path, .doc = doc, .config = config, .err = err};
        st = read_document(&r, src);
    }
    json_decref(doc);
    json_decref(config);
    if (st) {
        vocab_close(v);
        return st;
    }
    *out = v;
    return HASTEN_OK;
}
