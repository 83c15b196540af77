/* Owns SentencePiece vocabularies with byte fallback (tokenizer.ggml.model "llama"): scores to an order of
 * merges, the encoding of one valid UTF-8 text (Kudo and Richardson, "SentencePiece", EMNLP 2018; the BPE kind).
 *
 * A pair of neighbours merges when its concatenation is a token; the highest score first. Equal scores are
 * ordered as Hugging Face's converters order the merges that they derive from scores: the longer left side,
 * then the longer right side, then the lower id, then the leftmost. Ids so equal those of `tokenizers`.
 *
 * A character without a token becomes the tokens of its bytes, which merge with nothing. Control, unknown and
 * byte tokens are never the result of a merge: what a user writes as "<0x0A>" stays those six characters.
 * U+2581 in the text itself cannot be told from a space, in the reference as here: it comes back as a space. */
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Smaller numbers for higher scores; -0 counts as 0. */
static uint32_t score_order(float score)
{
    uint32_t u;
    score += 0.0f;
    memcpy(&u, &score, sizeof u);
    u = u & 0x80000000u ? ~u : u | 0x80000000u; /* ascending with the score */
    return ~u;
}

static hasten_status scores_array(const struct gguf *g, const char *key, int64_t *n, struct hasten_error *err)
{
    enum gguf_value_type elem = GGUF_F32;
    if (gguf_find(g, key) < 0)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s is missing", gguf_path(g), key);
    return gguf_array_info(g, key, &elem, n, err);
}

static hasten_status spm_open_scores(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    static const char key[] = "tokenizer.ggml.scores";
    int64_t n = 0;
    hasten_status st = scores_array(g, key, &n, err);
    if (st)
        return st;
    if (n != v->n)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s has %lld entries, tokenizer.ggml.tokens %d",
                         gguf_path(g), key, (long long)n, v->n);
    float *scores = mem_array((size_t)n, sizeof *scores);
    v->score_order = mem_array((size_t)n, sizeof *v->score_order);
    if (!scores || !v->score_order) {
        mem_free(scores);
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for %lld scores", (long long)n);
    }
    st = gguf_array_f32(g, key, scores, n, err);
    for (int64_t i = 0; i < n && !st; i++) {
        if (isnan(scores[i]))
            st = error_set(err, HASTEN_ERR_FILE, "%s: %s[%lld] is not a number", gguf_path(g), key,
                           (long long)i);
        else
            v->score_order[i] = score_order(scores[i]);
    }
    mem_free(scores);
    return st;
}

void spm_find_glue(struct vocab *v)
{
    for (int32_t id = 0; id < v->n; id++) {
        struct gguf_str s = v->texts[id];
        if (s.len > v->max_text_bytes)
            v->max_text_bytes = s.len;
        const char *p = s.data, *end = s.data + s.len;
        while (p < end && (p = memchr(p, SPM_SPACE[0], (size_t)(end - p)))) {
            if (end - p >= SPM_SPACE_BYTES && p > s.data && memcmp(p, SPM_SPACE, SPM_SPACE_BYTES) == 0)
                v->glue[(unsigned char)p[-1]] = true;
            p++;
        }
    }
}

bool spm_border(const struct vocab *v, const char *s, size_t len, size_t end)
{
    return s[end] == SPM_SPACE[0] && !v->glue[(unsigned char)s[end - 1]] && len - end >= SPM_SPACE_BYTES &&
           memcmp(s + end, SPM_SPACE, SPM_SPACE_BYTES) == 0;
}

void spm_find_bytes(struct vocab *v, int *missing)
{
    *missing = -1;
    for (int b = 255; b >= 0; b--) {
        char name[8];
        int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        v->byte_id[b] = token_index_find(&v->index, v->texts, name, (size_t)n);
        if (v->byte_id[b] < 0)
            *missing = b;
    }
}

hasten_status spm_open(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    int missing;
    spm_find_bytes(v, &missing);
    if (missing >= 0)
        return error_set(
            err, HASTEN_ERR_UNSUPPORTED,
            "%s: unsupported tokenizer: a SentencePiece vocabulary without byte fallback (no token <0x%02X>)",
            gguf_path(g), (unsigned)missing);
    for (int b = 0; b < 256; b++)
        if (vocab_type(v, v->byte_id[b]) != VOCAB_BYTE)
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tokenizer.ggml.token_type[%d] is %d; <0x%02X> must have type %d (byte)",
                             gguf_path(g), v->byte_id[b], vocab_type(v, v->byte_id[b]), (unsigned)b,
                             VOCAB_BYTE);
    hasten_status st = spm_open_scores(v, g, err);
    if (!st)
        spm_find_glue(v);
    return st;
}

/* ---- encoding ----------------------------------------------------------------------------------------- */

/* The token that text s may become by itself or by merging; -1: none. */
static int32_t spm_piece(const struct vocab *v, const char *s, size_t len)
{
    int32_t id = len <= v->max_text_bytes ? token_index_find(&v->index, v->texts, s, len) : -1;
    if (id < 0)
        return -1;
    enum vocab_token_type t = vocab_type(v, id);
    return t == VOCAB_NORMAL || t == VOCAB_USER_DEFINED || t == VOCAB_UNUSED ? id : -1;
}

static void spm_rule(const struct encode_work *w, const struct symbol *l, const struct symbol *r,
                     struct merge_cand *out)
{
    int32_t id = spm_piece(w->v, w->text + l->start, (size_t)l->len + r->len);
    if (id < 0)
        return;
    out->id = id;
    out->rank =
        (uint64_t)w->v->score_order[id] << 32 | (uint64_t)(0xFFFF - l->chars) << 16 | (0xFFFF - r->chars);
}

/* Encodes text[pos, end), across whose borders no token reaches. */
static int spm_word(struct encode_work *w, size_t pos, size_t end)
{
    w->n_syms = 0;
    for (size_t i = pos, n; i < end; i += n) {
        uint32_t cp;
        n = (size_t)utf8_decode(w->text + i, end - i, &cp);
        int32_t id = spm_piece(w->v, w->text + i, n);
        if (id >= 0) {
            if (merge_push(w, id, i, n))
                return -1;
            continue;
        }
        for (size_t k = 0; k < n; k++)
            if (merge_push(w, -1, i + k, 1))
                return -1;
    }
    if (merge_run(w, spm_rule))
        return -1;
    for (int32_t i = w->n_syms ? 0 : -1; i >= 0; i = w->syms[i].next) {
        const struct symbol *s = &w->syms[i];
        int32_t id = s->id >= 0 ? s->id : w->v->byte_id[(unsigned char)w->text[s->start]];
        if (tokens_push(w->out, id))
            return -1;
    }
    return 0;
}

static int spm_escape(struct encode_work *w, const char *text, size_t len, bool prefix)
{
    buf_clear(&w->escaped);
    if (prefix && buf_put(&w->escaped, SPM_SPACE, SPM_SPACE_BYTES))
        return -1;
    for (size_t i = 0; i < len;) {
        const char *p = memchr(text + i, ' ', len - i);
        size_t n = p ? (size_t)(p - text) - i : len - i;
        if (buf_put(&w->escaped, text + i, n) || (p && buf_put(&w->escaped, SPM_SPACE, SPM_SPACE_BYTES)))
            return -1;
        i += n + (p ? 1 : 0);
    }
    return 0;
}

int spm_encode(struct encode_work *w, const char *text, size_t len, bool prefix)
{
    if (spm_escape(w, text, len, prefix))
        return -1;
    const char *s = w->escaped.data;
    size_t n = w->escaped.len;
    w->text = s;
    for (size_t pos = 0, end; pos < n; pos = end) {
        for (end = pos + 1; end < n; end++)
            if (spm_border(w->v, s, n, end))
                break;
        if (spm_word(w, pos, end))
            return -1;
    }
    return 0;
}
