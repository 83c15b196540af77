/* Owns the way from bytes to ids: splits off control and user-defined tokens, then invalid UTF-8, prepares what is
 * left, runs of valid text, and gives it to bpe.c, spm.c or wordpiece.c.
 *
 * Added tokens are found first, in the raw bytes, as in Hugging Face's `tokenizers`: user-defined ones always,
 * control ones only with VOCAB_SPECIAL (else what looks like one is encoded as ordinary text). Each part between
 * them is normalised, searched for those added tokens that a tokenizer.json wants found in normalised text, and
 * cut into words on its own.
 *
 * Bytes that are not UTF-8 are passed through one by one as byte tokens (WordPiece has none: they are dropped);
 * they end the run of valid text before them, nothing merges across them and nothing is normalised over them. So
 * any input survives a round trip (up to what bpe.c and spm.c say about NFC, missing byte tokens and U+2581). */
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <string.h>

struct place {   /* where a part of the text stands */
    bool first;  /* at the beginning of the whole text */
    bool prefix; /* something may be put in front of it */
};

/* Encodes normalised text without added tokens. */
static int encode_words(struct encode_work *w, struct place at, const char *s, size_t len)
{
    const struct text_recipe *r = &w->v->recipe;
    if (text_prepare(w, w->pre, r->pre, r->n_pre, at.prefix, at.first, &s, &len))
        return -1;
    if (len > INT32_MAX) /* symbols count in 32 bits */
        return -1;
    return w->v->kind == VOCAB_WPM ? wordpiece_encode(w, s, len) : bpe_encode(w, s, len);
}

static bool ends_word(const char *text, size_t pos)
{
    uint32_t cp;
    size_t start = pos - 1;
    while (start > 0 && pos - start < 4 && ((unsigned char)text[start] & 0xC0) == 0x80)
        start--;
    return utf8_decode(text + start, pos - start, &cp) > 0 && (unicode_class(cp) & UNICODE_STEP_WORD);
}

static bool begins_word(const char *text, size_t len)
{
    uint32_t cp;
    return len && utf8_decode(text, len, &cp) > 0 && (unicode_class(cp) & UNICODE_STEP_WORD);
}

/* Bytes of the character of class SPACE that ends before pos; 0: none. */
static size_t space_before(const char *text, size_t from, size_t pos)
{
    uint32_t cp;
    size_t start = pos;
    if (pos == from)
        return 0;
    do
        start--;
    while (start > from && pos - start < 4 && ((unsigned char)text[start] & 0xC0) == 0x80);
    return utf8_decode(text + start, pos - start, &cp) == (int)(pos - start) &&
                   (unicode_class(cp) & UNICODE_SPACE)
               ? pos - start
               : 0;
}

/* Whether the added token id counts at text[*start, *end); takes the spaces around that belong to it. done: text
 * before it is encoded. */
static bool found_counts(const struct encode_work *w, int32_t id, const char *text, size_t len, size_t done,
                         size_t *start, size_t *end)
{
    const struct vocab *v = w->v;
    unsigned found = v->found ? v->found[id] : 0;
    if (!vocab_is_text(v, id) && !(w->flags & VOCAB_SPECIAL))
        return false;
    if ((found & FOUND_SINGLE_WORD) &&
        ((*start > 0 && ends_word(text, *start)) || begins_word(text + *end, len - *end)))
        return false;
    for (size_t n; (found & FOUND_LSTRIP) && (n = space_before(text, done, *start));)
        *start -= n;
    uint32_t cp;
    for (int n; (found & FOUND_RSTRIP) && *end < len; *end += (size_t)n) {
        n = utf8_decode(text + *end, len - *end, &cp);
        if (n <= 0 || !(unicode_class(cp) & UNICODE_SPACE))
            break;
    }
    return true;
}

typedef int (*encode_part)(struct encode_work *w, struct place at, const char *text, size_t len);

/* Encodes text: the added tokens in it, and what lies between them by part. */
static int encode_around(struct encode_work *w, const struct added_tokens *a, encode_part part,
                         struct place at, const char *text, size_t len)
{
    size_t done = 0; /* text[0, done) is encoded */
    for (size_t pos = 0, start = 0, end = 0; pos < len; pos = end) {
        int32_t id = added_next(a, text, len, pos, &start, &end);
        if (id < 0)
            break;
        if (!found_counts(w, id, text, len, done, &start, &end))
            continue;
        if ((start > done && part(w, at, text + done, start - done)) || tokens_push(w->out, id))
            return -1;
        done = end;
        at = (struct place){.first = false, .prefix = true};
    }
    return done < len ? part(w, at, text + done, len - done) : 0;
}

/* Encodes valid UTF-8 without added tokens that are found in raw text. */
static int encode_valid(struct encode_work *w, struct place at, const char *text, size_t len)
{
    const struct vocab *v = w->v;
    if (v->kind == VOCAB_SPM)
        return spm_encode(w, text, len, v->add_prefix && at.first && at.prefix);
    if (text_prepare(w, w->norm, v->recipe.norm, v->recipe.n_norm, at.prefix, at.first, &text, &len))
        return -1;
    return encode_around(w, &v->added_normal, encode_words, at, text, len);
}

/* Encodes text without added tokens that are found in raw text. */
static int encode_plain(struct encode_work *w, struct place at, const char *text, size_t len)
{
    const struct vocab *v = w->v;
    bool prefix = v->kind == VOCAB_SPM && v->add_prefix && at.first && at.prefix;
    for (size_t pos = 0; pos < len; prefix = false, at.first = at.prefix = false) {
        size_t n = utf8_valid_run(text + pos, len - pos);
        if ((n || prefix) && encode_valid(w, at, text + pos, n))
            return -1;
        pos += n;
        for (uint32_t cp; pos < len && utf8_decode(text + pos, len - pos, &cp) <= 0; pos++) {
            int32_t id = v->byte_id[(unsigned char)text[pos]];
            if (id >= 0 && tokens_push(w->out, id))
                return -1;
        }
    }
    return 0;
}

static int encode_text(struct encode_work *w, const char *text, size_t len)
{
    const struct vocab *v = w->v;
    struct place at = {.first = true, .prefix = true};
    if (w->flags & VOCAB_NO_PREFIX)
        at.first = at.prefix = false;
    if ((w->flags & VOCAB_BOS) && v->add_bos && tokens_push(w->out, v->bos))
        return -1;
    if (encode_around(w, &v->added, encode_plain, at, text, len))
        return -1;
    return (w->flags & VOCAB_EOS) && v->tail >= 0 ? tokens_push(w->out, v->tail) : 0;
}

hasten_status vocab_encode(const struct vocab *v, const char *text, size_t len, unsigned flags,
                           struct tokens *out, struct hasten_error *err)
{
    if (len > LIMIT_TEXT_BYTES)
        return error_set(err, HASTEN_ERR_LIMIT,
                         "a text of %zu bytes is too long to tokenize; the limit is %u", len,
                         LIMIT_TEXT_BYTES);
    struct encode_work w = {.v = v, .out = out, .flags = flags};
    int64_t mark = out->n;
    int rc = encode_text(&w, text, len);
    unicode_nfc_free(&w.nfc);
    buf_free(&w.escaped);
    for (int i = 0; i < 2; i++) {
        buf_free(&w.norm[i]);
        buf_free(&w.pre[i]);
    }
    mem_free(w.syms);
    mem_free(w.heap);
    if (rc) {
        out->n = mark;
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for tokenizing %zu bytes", len);
    }
    return HASTEN_OK;
}
