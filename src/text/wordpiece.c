/* Owns WordPiece (Wu et al., "Google's neural machine translation system", 2016, as BERT uses it): each word is
 * covered from the left by the longest token that fits; a word that cannot be covered, or that is longer than 100
 * characters, is the unknown token.
 *
 * Texts of tokens are in GGUF's form (tokenizer.ggml.model "bert"): U+2581 stands in front of tokens that begin a
 * word, tokens that continue one stand bare; vocab_json.c brings "##" into that form. Two tries, one for each
 * kind, so a word costs at most its length times the longest token. */
#include "text/vocab_internal.h"
#include <string.h>

enum {
    WORD_CHARS = 100 /* `tokenizers`: max_input_chars_per_word */
};

hasten_status wordpiece_open(struct vocab *v, const char *path, struct hasten_error *err)
{
    if (v->unk < 0)
        return error_set(err, HASTEN_ERR_FILE, "%s: a WordPiece vocabulary needs an unknown token ([UNK])", path);
    for (int32_t id = 0; id < v->n; id++) {
        struct gguf_str s = v->texts[id];
        bool head = s.len >= SPM_SPACE_BYTES && memcmp(s.data, SPM_SPACE, SPM_SPACE_BYTES) == 0;
        if (vocab_type(v, id) != VOCAB_NORMAL)
            continue;
        if (head ? added_insert(&v->heads, s.data + SPM_SPACE_BYTES, s.len - SPM_SPACE_BYTES, id)
                 : added_insert(&v->tails, s.data, s.len, id))
            return error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary of %d tokens", v->n);
    }
    return HASTEN_OK;
}

static bool is_long(const char *s, size_t len)
{
    size_t chars = 0;
    for (size_t i = 0; i < len && chars <= WORD_CHARS; i++)
        chars += ((unsigned char)s[i] & 0xC0) != 0x80;
    return chars > WORD_CHARS;
}

static int encode_word(struct encode_work *w, const char *s, size_t len)
{
    const struct vocab *v = w->v;
    int64_t mark = w->out->n;
    size_t pos = is_long(s, len) ? len : 0, end = 0;
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
