/* Owns the way from bytes to ids: splits off control and user-defined tokens, then invalid UTF-8, and gives what
 * is left, runs of valid text, to bpe.c or spm.c.
 *
 * Added tokens are found first, in the raw bytes, as in Hugging Face's `tokenizers`: user-defined ones always,
 * control ones only with VOCAB_SPECIAL (else what looks like one is encoded as ordinary text). Each part between
 * them is normalised and cut into words on its own.
 *
 * Bytes that are not UTF-8 are passed through one by one as byte tokens; they end the run of valid text before
 * them, nothing merges across them and nothing is normalised over them. So any input survives a round trip (up
 * to what bpe.c and spm.c say about NFC, missing byte tokens and U+2581). */
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <string.h>

/* Encodes text without added tokens. prefix: with the dummy space of SentencePiece in front. */
static int encode_plain(struct encode_work *w, const char *text, size_t len, bool prefix)
{
    const struct vocab *v = w->v;
    for (size_t pos = 0; pos < len; prefix = false) {
        size_t n = utf8_valid_run(text + pos, len - pos);
        if (n || prefix) {
            int rc =
                v->kind == VOCAB_BPE ? bpe_encode(w, text + pos, n) : spm_encode(w, text + pos, n, prefix);
            if (rc)
                return -1;
        }
        pos += n;
        for (uint32_t cp; pos < len && utf8_decode(text + pos, len - pos, &cp) <= 0; pos++) {
            int32_t id = v->byte_id[(unsigned char)text[pos]];
            if (id >= 0 && tokens_push(w->out, id))
                return -1;
        }
    }
    return 0;
}

static int encode_text(struct encode_work *w, const char *text, size_t len, unsigned flags)
{
    const struct vocab *v = w->v;
    bool prefix = v->add_prefix && !(flags & VOCAB_NO_PREFIX);
    if ((flags & VOCAB_BOS) && v->add_bos && tokens_push(w->out, v->bos))
        return -1;
    size_t done = 0; /* text[0, done) is encoded */
    for (size_t pos = 0, start = 0, end = 0; pos < len; pos = end) {
        int32_t id = added_next(&v->added, text, len, pos, &start, &end);
        if (id < 0)
            break;
        if (vocab_type(v, id) == VOCAB_CONTROL && !(flags & VOCAB_SPECIAL))
            continue;
        if (encode_plain(w, text + done, start - done, prefix && done == 0) || tokens_push(w->out, id))
            return -1;
        done = end;
    }
    return encode_plain(w, text + done, len - done, prefix && done == 0);
}

hasten_status vocab_encode(const struct vocab *v, const char *text, size_t len, unsigned flags,
                           struct tokens *out, struct hasten_error *err)
{
    if (len > LIMIT_TEXT_BYTES)
        return error_set(err, HASTEN_ERR_LIMIT,
                         "a text of %zu bytes is too long to tokenize; the limit is %u", len,
                         LIMIT_TEXT_BYTES);
    struct encode_work w = {.v = v, .out = out};
    int64_t mark = out->n;
    int rc = encode_text(&w, text, len, flags);
    unicode_nfc_free(&w.nfc);
    buf_free(&w.escaped);
    mem_free(w.syms);
    mem_free(w.heap);
    if (rc) {
        out->n = mark;
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for tokenizing %zu bytes", len);
    }
    return HASTEN_OK;
}
