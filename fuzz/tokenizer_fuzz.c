/* Fuzz target of the tokenizers: a vocabulary file and a text together.
 *
 * Input: flags (1 byte: vocab_encode's flags in bits 0-2, bit 3: stream with stop strings,
 * bits 4-7: let an allocation fail, the (4 n - 3)th), the length of the file (u32, little endian), the file, the text.
 * The file: GGUF, or, when it begins with '{', a tokenizer.json, with a tokenizer_config.json behind a NUL. A file that opens must encode the text, give no control token
 * unless asked, decode to the text again, and stream to the same bytes. What a vocabulary may change by the rules
 * of bpe.c and spm.c (NFC, missing bytes, U+2581 or no token for it) is left out of the comparison. The corpus is made by
 * tests/text/make_corpus. */
#include "text/detok.h"
#include "text/vocab_internal.h"
#include <string.h>

static void check(bool ok)
{
    if (!ok)
        __builtin_trap();
}

/* Whether a step went well; an allocation that was told to fail is the only excuse. */
static bool done(hasten_status st)
{
    check(st == HASTEN_OK || (st == HASTEN_ERR_MEMORY && mem_fail_count() > 0));
    return st == HASTEN_OK;
}

/* Whether this vocabulary gives this text back byte for byte. */
static bool faithful(const struct vocab *v, const char *text, size_t len, unsigned flags,
                     const struct tokens *ids)
{
    int64_t first = (flags & VOCAB_BOS) && v->add_bos ? 1 : 0;
    if (!first && ids->n > 0 && v->add_bos && ids->ids[0] == v->bos)
        return false; /* a BOS that the text itself spells */
    bool spaced = v->kind == VOCAB_SPM || v->recipe.raw;
    if (v->kind == VOCAB_WPM || v->found || v->tail >= 0)
        return false; /* WordPiece forgets spaces, a tokenizer.json may drop whatever it likes */
    if (spaced && v->kind == VOCAB_BPE && v->unk < 0)
        for (int b = 0; b < 256; b++)
            if (v->byte_id[b] < 0)
                return false;                             /* characters are dropped */
    if (spaced && vocab_find(v, "\xE2\x96\x81", 3) < 0 && /* spaces become the bytes of U+2581 */
        (v->add_prefix || memchr(text, ' ', len)))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((!spaced && v->byte_id[(unsigned char)text[i]] < 0) ||
            (v->recipe.n_norm && (unsigned char)text[i] >= 0x80) ||
            (spaced && (unsigned char)text[i] == 0xE2))
            return false;
    for (int64_t i = 0; i < ids->n; i++) { /* user-defined tokens whose written form is not plain */
        struct gguf_str s = v->texts[ids->ids[i]];
        for (size_t k = 0; k < s.len && vocab_type(v, ids->ids[i]) == VOCAB_USER_DEFINED; k++)
            if (s.data[k] == ' ' || (unsigned char)s.data[k] > 0x7E)
                return false;
    }
    return !((flags & VOCAB_NO_PREFIX) && v->add_prefix);
}

static void stream(const struct vocab *v, const struct tokens *ids, bool special, bool with_stops,
                   const struct buf *whole)
{
    static const struct gguf_str stops[] = {{"the", 3}, {"\n\n", 2}, {"\xC3", 1}, {"<|im_end|>", 10}};
    struct hasten_error err;
    struct detok *d;
    struct buf out = {0};
    bool stopped = false, ok = done(detok_open(v, stops, with_stops ? 4 : 0, special, false, &d, &err));
    for (int64_t i = 0; i < ids->n && ok; i++)
        ok = done(detok_push(d, ids->ids[i], &out, &stopped, &err));
    if (ok && done(detok_finish(d, &out, &err)))
        check(out.len <= whole->len && (stopped || out.len == whole->len));
    check(out.len == 0 || memcmp(out.data, whole->data, out.len) == 0);
    detok_close(d);
    buf_free(&out);
}

static void encode(const struct vocab *v, const char *text, size_t len, uint8_t mode)
{
    unsigned flags = (mode & 7u) | (mode & 1u ? VOCAB_EOS : 0);
    bool special = flags & VOCAB_SPECIAL;
    struct hasten_error err = {0};
    struct tokens ids = {0};
    struct buf back = {0};
    if (done(vocab_encode(v, text, len, flags, &ids, &err)) &&
        done(vocab_decode(v, ids.ids, ids.n, special, &back, &err))) {
        int64_t end = ids.n - ((flags & VOCAB_EOS) && v->tail >= 0);
        for (int64_t i = (flags & VOCAB_BOS) && v->add_bos; i < end && !special; i++)
            check(vocab_type(v, ids.ids[i]) != VOCAB_CONTROL);
        if (faithful(v, text, len, flags, &ids)) {
            check(back.len == len);
            check(len == 0 || memcmp(back.data, text, len) == 0);
        }
        stream(v, &ids, special, mode & 8, &back);
    }
    tokens_free(&ids);
    buf_free(&back);
}

static hasten_status open_json(const char *file, size_t n, struct vocab **v, struct hasten_error *err)
{
    const char *nul = memchr(file, 0, n);
    struct vocab_json src = {
        .path = "fuzz.json", .tokenizer = file, .tokenizer_len = nul ? (size_t)(nul - file) : n};
    if (nul) {
        src.config = nul + 1;
        src.config_len = n - src.tokenizer_len - 1;
    }
    return vocab_open_json(&src, v, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 5)
        return 0;
    size_t n = data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16 | (size_t)data[4] << 24;
    struct gguf *g = NULL;
    struct vocab *v = NULL;
    struct hasten_error err = {0};
    if (n > size - 5)
        n = size - 5;
    uint8_t *file = mem_aligned(n + 1); /* the reader wants the file aligned */
    if (!file)
        return 0;
    memcpy(file, data + 5, n);
    bool json = n && file[0] == '{';
    if (json || gguf_open_memory(file, n, "fuzz.gguf", &g, &err) == HASTEN_OK) {
        mem_fail_at(data[0] >> 4 ? (uint64_t)(data[0] >> 4) * 4 - 3 : 0, 0);
        if ((json ? open_json((const char *)file, n, &v, &err) : vocab_open(g, &v, &err)) == HASTEN_OK)
            encode(v, (const char *)data + 5 + n, size - 5 - n, data[0]);
        else
            check(!v && err.status != HASTEN_OK && err.message[0]);
        mem_fail_at(0, 0);
        vocab_close(v);
        gguf_close(g);
    }
    mem_free(file);
    return 0;
}
