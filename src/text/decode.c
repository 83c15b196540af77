/* Owns the way from ids to bytes, one token or a whole list. Streaming, character borders and stop strings are
 * detok.c's business. */
#include "text/vocab_internal.h"
#include <string.h>

/* Bytes of a SentencePiece token: U+2581 becomes a space, <0xAB> the byte. */
static int spm_token_bytes(struct gguf_str s, bool byte, struct buf *out)
{
    if (byte && s.len == 6) {
        static const char hex[] = "0123456789ABCDEF";
        const char *hi = memchr(hex, s.data[3], 16), *lo = memchr(hex, s.data[4], 16);
        if (hi && lo)
            return buf_putc(out, (char)((hi - hex) << 4 | (lo - hex)));
    }
    size_t mark = out->len;
    for (size_t i = 0; i < s.len;) {
        bool space = s.len - i >= SPM_SPACE_BYTES && memcmp(s.data + i, SPM_SPACE, SPM_SPACE_BYTES) == 0;
        if (space ? buf_putc(out, ' ') : buf_putc(out, s.data[i])) {
            out->len = mark;
            return -1;
        }
        i += space ? SPM_SPACE_BYTES : 1;
    }
    return 0;
}

hasten_status vocab_token_bytes(const struct vocab *v, int32_t id, bool special, struct buf *out,
                                struct hasten_error *err)
{
    if (id < 0 || id >= v->n)
        return error_set(err, HASTEN_ERR_USAGE, "token id %d does not exist; the vocabulary has %d tokens",
                         id, v->n);
    struct gguf_str s = v->texts[id];
    enum vocab_token_type t = vocab_type(v, id);
    int rc = 0;
    if (t == VOCAB_CONTROL || t == VOCAB_UNKNOWN)
        rc = special ? buf_put(out, s.data, s.len) : 0;
    else if (v->kind == VOCAB_BPE && !v->recipe.raw)
        /* user-defined tokens are found in raw text, so they stand for themselves */
        rc = t == VOCAB_USER_DEFINED ? buf_put(out, s.data, s.len) : bpe_token_bytes(s, out);
    else
        rc = spm_token_bytes(s, t == VOCAB_BYTE, out);
    return rc ? error_set(err, HASTEN_ERR_MEMORY, "out of memory for the text of token %d", id) : HASTEN_OK;
}

hasten_status vocab_decode(const struct vocab *v, const int32_t *ids, int64_t n, bool special,
                           struct buf *out, struct hasten_error *err)
{
    size_t mark = out->len;
    struct vocab_cursor at = {0};
    for (int64_t i = 0; i < n; i++) {
        hasten_status st = vocab_decode_next(v, &at, ids[i], special, out, err);
        if (st) {
            out->len = mark;
            return st;
        }
    }
    return HASTEN_OK;
}

hasten_status vocab_decode_next(const struct vocab *v, struct vocab_cursor *at, int32_t id, bool special,
                                struct buf *out, struct hasten_error *err)
{
    size_t mark = out->len;
    bool first = !at->after_bos && !at->started;
    if (first && v->add_bos && id == v->bos) {
        at->after_bos = true;
        return HASTEN_OK;
    }
    hasten_status st = vocab_token_bytes(v, id, special, out, err);
    if (st)
        return st;
    /* the dummy space: only an ordinary token that comes first can hold it */
    enum vocab_token_type t = vocab_type(v, id);
    if (!at->started && v->strip_prefix && (t == VOCAB_NORMAL || t == VOCAB_UNUSED) && out->len > mark &&
        out->data[mark] == ' ') {
        memmove(out->data + mark, out->data + mark + 1, out->len - mark - 1);
        out->len--;
    }
    at->started = true;
    return HASTEN_OK;
}
