/* The public calls for tokens and streams (hasten/text.h), over text/vocab.h and text/detok.h. */
#include "hasten/text.h"
#include "base/limits.h"
#include "model/loaded.h"
#include "text/detok.h"
#include <string.h>

_Static_assert((int)HASTEN_TEXT_BOS == VOCAB_BOS && (int)HASTEN_TEXT_SPECIAL == VOCAB_SPECIAL &&
                   (int)HASTEN_TEXT_CONTINUES == VOCAB_NO_PREFIX && (int)HASTEN_TEXT_EOS == VOCAB_EOS,
               "flags are handed on as they are");

void hasten_ids_free(struct hasten_ids *l)
{
    mem_free(l->ids);
    *l = (struct hasten_ids){0};
}

void hasten_bytes_free(struct hasten_bytes *b)
{
    mem_free(b->data);
    *b = (struct hasten_bytes){0};
}

/* ---- tokens --------------------------------------------------------------------------------------------- */

hasten_status hasten_tokenize(const struct hasten_model *m, const char *text, size_t len, unsigned flags,
                              struct hasten_ids *out, struct hasten_error *err)
{
    const unsigned known = HASTEN_TEXT_BOS | HASTEN_TEXT_SPECIAL | HASTEN_TEXT_CONTINUES | HASTEN_TEXT_EOS;
    if (flags & ~known)
        return error_set(err, HASTEN_ERR_USAGE, "tokenising: flags: found %#x (expected HASTEN_TEXT_*)",
                         flags);
    struct tokens t = {out->ids, out->n, out->cap};
    const hasten_status st = vocab_encode(m->vocab, text, len, flags, &t, err);
    *out = (struct hasten_ids){t.ids, t.n, t.cap};
    return st;
}

hasten_status hasten_detokenize(const struct hasten_model *m, const int32_t *ids, int64_t n, bool special,
                                struct hasten_bytes *out, struct hasten_error *err)
{
    struct buf b = {out->data, out->len, out->cap};
    const hasten_status st = vocab_decode(m->vocab, ids, n, special, &b, err);
    *out = (struct hasten_bytes){b.data, b.len, b.cap};
    return st;
}

bool hasten_token_ends(const struct hasten_model *m, int32_t id)
{
    return id >= 0 && id < vocab_size(m->vocab) && vocab_is_eog(m->vocab, id);
}

int32_t hasten_model_n_tokens(const struct hasten_model *m)
{
    return vocab_size(m->vocab);
}

/* ---- streams -------------------------------------------------------------------------------------------- */

struct hasten_stream {
    struct detok *detok;
};

hasten_status hasten_stream_open(const struct hasten_model *m, const char *const *stops, int32_t n_stops,
                                 bool continues, struct hasten_stream **out, struct hasten_error *err)
{
    struct gguf_str strs[LIMIT_STOP_STRINGS];
    if (n_stops < 0 || n_stops > LIMIT_STOP_STRINGS)
        return error_set(err, HASTEN_ERR_LIMIT, "opening a stream: %d stop strings (expected at most %d)",
                         n_stops, LIMIT_STOP_STRINGS);
    for (int32_t i = 0; i < n_stops; i++)
        strs[i] = (struct gguf_str){stops[i], strlen(stops[i])};
    struct hasten_stream *s = mem_calloc(1, sizeof *s);
    if (!s)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a stream: out of memory");
    const hasten_status st = detok_open(m->vocab, strs, n_stops, false, continues, &s->detok, err);
    if (st)
        mem_free(s);
    else
        *out = s;
    return st;
}

hasten_status hasten_stream_push(struct hasten_stream *s, int32_t id, struct hasten_bytes *out, bool *stopped,
                                 struct hasten_error *err)
{
    struct buf b = {out->data, out->len, out->cap};
    const hasten_status st = detok_push(s->detok, id, &b, stopped, err);
    *out = (struct hasten_bytes){b.data, b.len, b.cap};
    return st;
}

hasten_status hasten_stream_finish(struct hasten_stream *s, struct hasten_bytes *out,
                                   struct hasten_error *err)
{
    struct buf b = {out->data, out->len, out->cap};
    const hasten_status st = detok_finish(s->detok, &b, err);
    *out = (struct hasten_bytes){b.data, b.len, b.cap};
    return st;
}

void hasten_stream_close(struct hasten_stream *s)
{
    if (s)
        detok_close(s->detok);
    mem_free(s);
}
