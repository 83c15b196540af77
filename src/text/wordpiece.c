/* Owns WordPiece (Wu et al., "Google's neural machine translation system", 2016, as BERT uses it): each word is
 * covered from the left by the longest token that fits; a word that cannot be covered, or that is too long (100
 * characters if the file says nothing), is the unknown token.
 *
 * Texts of tokens are in GGUF's form (tokenizer.ggml.model "bert"): U+2581 stands in front of tokens that begin a
 * word, tokens that continue one stand bare (so one that begins with U+2581 itself cannot be told from a token that
 * begins a word); vocab_json.c brings "##" into that form, and says which are which. Two tries, one for each
 * kind, so a word costs at most its length times the longest token. */
#include "text/vocab_internal.h"
#include <string.h>

/* Enters one token. 0, or -1 when out of memory. */
static int insert_piece(struct vocab *v, int32_t id, struct gguf_str prefix)
{
    struct gguf_str s = v->texts[id];
    bool head = s.len >= SPM_SPACE_BYTES && memcmp(s.data, SPM_SPACE, SPM_SPACE_BYTES) == 0;
    if (v->found)
        head = !(v->found[id] & FOUND_TAIL);
    if (head)
        return added_insert(&v->heads, s.data + SPM_SPACE_BYTES, s.len - SPM_SPACE_BYTES, id);
    if (prefix.len) { /* `tokenizers` finds "##x" at the beginning of a word that is written so */
        struct buf written = {0};
        int rc = buf_put(&written, prefix.data, prefix.len) || buf_put(&written, s.data, s.len) ||
                 added_insert(&v->heads, written.data, written.len, id);
        buf_free(&written);
        if (rc)
            return -1;
    }
    return added_insert(&v->tails, s.data, s.len, id);
}

hasten_status wordpiece_open(struct vocab *v, const char *path, struct gguf_str prefix,
                             struct hasten_error *err)
{
    if (v->unk < 0)
        return error_set(err, HASTEN_ERR_FILE, "%s: a WordPiece vocabulary needs an unknown token ([UNK])",
                         path);
    for (int32_t id = 0; id < v->n; id++)
        if (vocab_type(v, id) == VOCAB_NORMAL && insert_piece(v, id, prefix))
            return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary of %d tokens", v->n);
    return HASTEN_OK;
}

static bool is_long(const struct vocab *v, const char *s, size_t len)
{
    size_t chars = 0, most = (size_t)v->word_chars;
    for (size_t i = 0; i < len && chars <= most; i++)
        chars += ((unsigned char)s[i] & 0xC0) != 0x80;
    return chars > most;
}

static int encode_word(struct encode_work *w, const char *s, size_t len)
{
    const struct vocab *v = w->v;
    int64_t mark = w->out->n;
    size_t pos = is_long(v, s, len) ? len : 0, end = 0;
    while (pos < len) {
        int32_t id = added_longest(pos ? &v->tails : &v->heads, s, len, pos, &end);
        if (id < 0)
            break;
        if (tokens_push(w->out, id))
            return -1;
        pos = end;
    }
    if (pos == len && w->out->n > mark)
        return 0;
    w->out->n = mark;
    return tokens_push(w->out, v->unk);
}

int wordpiece_encode(struct encode_work *w, const char *text, size_t len)
{
    const struct text_recipe *r = &w->v->recipe;
    size_t pos, end;
    pretok_begin(&w->pretok, r->split, r->n_split, text, len);
    while (pretok_next(&w->pretok, &pos, &end))
        if (encode_word(w, text + pos, end - pos))
            return -1;
    return 0;
}
