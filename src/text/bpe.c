/* Owns byte-level BPE (tokenizer.ggml.model "gpt2"): the byte alphabet, the table of merges, the encoding of one
 * valid UTF-8 text.
 *
 * Ids are those of Hugging Face's `tokenizers` on the same vocabulary; that settles two questions:
 * - qwen2 normalises to NFC first (its tokenizer.json says so). So decode(encode(x)) is NFC(x): equal to x byte
 *   for byte for every text that is in NFC, which is all but a little of what people write. smollm does not.
 * - A byte for which the vocabulary has no token is dropped, since there is nothing to say it with (SmolLM2's
 *   vocabulary lacks 21: 04, 06, 13, 14, 16, 1D and the lead bytes C0, C1, F1, F2, F5..FF). Vocabularies with
 *   all 256 bytes lose nothing.
 * Invalid UTF-8 the reference cannot take at all; encode.c gives such bytes to byte tokens one by one. */
#include "base/limits.h"
#include "text/vocab_internal.h"
#include <string.h>

/* GPT-2's byte alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 onwards in order. */
static uint32_t byte_to_cp(unsigned b)
{
    if (b >= 0x21 && b <= 0x7E)
        return b;
    if (b >= 0xA1 && b != 0xAD)
        return b;
    if (b <= 0x20)
        return 0x100 + b;
    if (b <= 0xA0)
        return 0x100 + 0x21 + (b - 0x7F);
    return 0x143; /* AD */
}

static int cp_to_byte(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xFF && cp != 0xAD))
        return (int)cp;
    if (cp >= 0x100 && cp <= 0x120)
        return (int)(cp - 0x100);
    if (cp >= 0x121 && cp <= 0x142)
        return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}

int bpe_token_bytes(struct gguf_str text, struct buf *out)
{
    size_t mark = out->len;
    for (size_t i = 0; i < text.len;) {
        uint32_t cp;
        int n = utf8_decode(text.data + i, text.len - i, &cp);
        int b = n > 0 ? cp_to_byte(cp) : -1;
        if (b < 0) {
            out->len = mark;
            return buf_put(out, text.data, text.len);
        }
        if (buf_putc(out, (char)b)) {
            out->len = mark;
            return -1;
        }
        i += (size_t)n;
    }
    return 0;
}

/* Text must never become a control token, by no merge. */
static bool is_text_token(const struct vocab *v, int32_t id)
{
    return vocab_type(v, id) != VOCAB_CONTROL && vocab_type(v, id) != VOCAB_UNKNOWN;
}

enum {
    MERGE_BLOCK = 32
};

/* ---- merges ------------------------------------------------------------------------------------------- */

static uint64_t pair_hash(const struct vocab *v, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) ^ v->merge_seed;
    h = (h ^ h >> 31) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
    return h ^ h >> 32;
}

static void bpe_rule(const struct encode_work *w, const struct symbol *l, const struct symbol *r,
                     struct merge_cand *out)
{
    const struct vocab *v = w->v;
    uint32_t left = (uint32_t)l->id, right = (uint32_t)r->id;
    for (uint64_t i = pair_hash(v, left, right) & v->merge_mask;; i = (i + 1) & v->merge_mask) {
        const struct bpe_merge *m = &v->merges[i];
        if (m->left == UINT32_MAX)
            return;
        if (m->left == left && m->right == right) {
            out->rank = m->rank;
            out->id = m->id;
            return;
        }
    }
}

/* Enters a merge; of two equal pairs the later rank counts, as in the reference. -1: too many collisions. */
static int merge_add(struct vocab *v, struct bpe_merge m)
{
    uint64_t i = pair_hash(v, m.left, m.right) & v->merge_mask;
    for (int probes = 0; probes < LIMIT_TOKEN_PROBES; probes++, i = (i + 1) & v->merge_mask) {
        struct bpe_merge *at = &v->merges[i];
        if (at->left == UINT32_MAX || (at->left == m.left && at->right == m.right)) {
            *at = m;
            return 0;
        }
    }
    return -1;
}

/* The token with this text. Trainers number tokens as they merge them, so the guess, the token after the last
 * merge's result, is nearly always right. */
static int32_t find_result(const struct vocab *v, int32_t guess, const char *s, size_t len)
{
    if (guess < v->n && !v->index.duplicates && v->texts[guess].len == len &&
        memcmp(v->texts[guess].data, s, len) == 0)
        return guess;
    return token_index_find(&v->index, v->texts, s, len);
}

/* Reads "left right" into a merge; both and their concatenation must be tokens that text may become. */
static hasten_status merge_parse(const struct vocab *v, const char *path, int64_t i, struct gguf_str s,
                                 int32_t guess, struct bpe_merge *m, struct hasten_error *err)
{
    const char *gap = s.len ? memchr(s.data, ' ', s.len) : NULL;
    size_t left_len = gap ? (size_t)(gap - s.data) : 0, right_len = gap ? s.len - left_len - 1 : 0;
    if (!left_len || !right_len || memchr(gap + 1, ' ', right_len) || s.len > 2 * LIMIT_TOKEN_BYTES)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: tokenizer.ggml.merges[%lld]: '%.*s' is not two tokens with a space between",
                         path, (long long)i, (int)(s.len < 80 ? s.len : 80), s.data);
    char joined[2 * LIMIT_TOKEN_BYTES];
    memcpy(joined, s.data, left_len);
    memcpy(joined + left_len, gap + 1, right_len);
    int32_t ids[3] = {token_index_find(&v->index, v->texts, s.data, left_len),
                      token_index_find(&v->index, v->texts, gap + 1, right_len),
                      find_result(v, guess, joined, left_len + right_len)};
    for (int k = 0; k < 3; k++) {
        const char *what = k == 0 ? "left side" : k == 1 ? "right side" : "result";
        if (ids[k] < 0)
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tokenizer.ggml.merges[%lld]: the %s of '%.*s' is not in the vocabulary",
                             path, (long long)i, what, (int)(s.len < 80 ? s.len : 80), s.data);
        if (!is_text_token(v, ids[k]))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tokenizer.ggml.merges[%lld]: the %s of '%.*s' is a control token", path,
                             (long long)i, what, (int)(s.len < 80 ? s.len : 80), s.data);
    }
    *m = (struct bpe_merge){
        .left = (uint32_t)ids[0], .right = (uint32_t)ids[1], .rank = (uint32_t)i, .id = ids[2]};
    return HASTEN_OK;
}

/* Reads and enters merges [from, from + n). The tables are larger than the caches, so first the memory of all of the
 * block's look-ups is asked for, then they are done. last: the result of the merge before. */
static hasten_status merges_block(struct vocab *v, const struct gguf *g, int64_t from, int n, int32_t *last,
                                  struct hasten_error *err)
{
    static const char key[] = "tokenizer.ggml.merges";
    struct gguf_str s[MERGE_BLOCK];
    struct bpe_merge m[MERGE_BLOCK];
    hasten_status st = gguf_array_strs(g, key, from, n, s, err);
    if (st)
        return st;
    for (int i = 0; i < n; i++) {
        const char *gap = s[i].len ? memchr(s[i].data, ' ', s[i].len) : NULL;
        if (gap) {
            token_index_touch(&v->index, s[i].data, (size_t)(gap - s[i].data));
            token_index_touch(&v->index, gap + 1, s[i].len - (size_t)(gap - s[i].data) - 1);
        }
    }
    for (int i = 0; i < n; i++) {
        int32_t guess = from + i ? *last + 1 : 0;
        st = merge_parse(v, gguf_path(g), from + i, s[i], guess, &m[i], err);
        if (st)
            return st;
        *last = m[i].id;
        __builtin_prefetch(&v->merges[pair_hash(v, m[i].left, m[i].right) & v->merge_mask]);
    }
    for (int i = 0; i < n; i++)
        if (merge_add(v, m[i]))
            return error_set(err, HASTEN_ERR_LIMIT, "%s: %s[%lld]: too many collisions", gguf_path(g), key,
                             (long long)(from + i));
    return HASTEN_OK;
}

static hasten_status bpe_open_merges(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    static const char key[] = "tokenizer.ggml.merges";
    enum gguf_value_type elem = GGUF_STRING;
    int64_t n = 0;
    hasten_status st = vocab_required_array(g, key, &elem, &n, err);
    if (st)
        return st;
    if (elem != GGUF_STRING)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s is not an array of strings", gguf_path(g), key);
    if (n > LIMIT_VOCAB)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: %s has %lld entries; the limit is %d", gguf_path(g), key,
                         (long long)n, LIMIT_VOCAB);
    uint64_t size = 16;
    int32_t last = 0;
    while (size / 4 * 3 < (uint64_t)n)
        size *= 2;
    v->merges = mem_array(size, sizeof *v->merges);
    if (!v->merges)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for %lld merges", (long long)n);
    memset(v->merges, 0xFF, size * sizeof *v->merges);
    v->merge_mask = size - 1;
    v->merge_seed = v->index.seed;
    for (int64_t i = 0; i < n && !st; i += MERGE_BLOCK)
        st = merges_block(v, g, i, n - i < MERGE_BLOCK ? (int)(n - i) : MERGE_BLOCK, &last, err);
    return st;
}

hasten_status bpe_open(struct vocab *v, const struct gguf *g, struct hasten_error *err)
{
    struct gguf_str pre = {"", 0};
    hasten_status st = gguf_opt_str(g, "tokenizer.ggml.pre", &pre, err);
    if (st)
        return st;
    if (pre.len == 6 && memcmp(pre.data, "smollm", 6) == 0) {
        v->pre = PRETOK_SMOLLM;
        v->description = "bpe/smollm";
    } else if (pre.len == 5 && memcmp(pre.data, "qwen2", 5) == 0) {
        v->pre = PRETOK_QWEN2;
        v->description = "bpe/qwen2";
    } else {
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: unsupported pre-tokenizer '%.*s' (supported: smollm, qwen2)", gguf_path(g),
                         (int)(pre.len < 80 ? pre.len : 80), pre.data);
    }
    for (unsigned b = 0; b < 256; b++) {
        char u[4];
        int n = utf8_encode(byte_to_cp(b), u);
        int32_t id = token_index_find(&v->index, v->texts, u, (size_t)n);
        if (id >= 0 && !is_text_token(v, id))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: token %d stands for byte 0x%02X but is a control token", gguf_path(g), id,
                             b);
        v->byte_id[b] = id;
    }
    return bpe_open_merges(v, g, err);
}

/* ---- encoding ----------------------------------------------------------------------------------------- */

static int bpe_word(struct encode_work *w, size_t pos, size_t end)
{
    w->n_syms = 0;
    for (size_t i = pos; i < end; i++) {
        int32_t id = w->v->byte_id[(unsigned char)w->text[i]];
        if (id >= 0 && merge_push(w, id, i, 1))
            return -1;
    }
    if (merge_run(w, bpe_rule))
        return -1;
    for (int32_t i = w->n_syms ? 0 : -1; i >= 0; i = w->syms[i].next)
        if (tokens_push(w->out, w->syms[i].id))
            return -1;
    return 0;
}

int bpe_encode(struct encode_work *w, const char *text, size_t len)
{
    const char *s = text;
    size_t n = len;
    if (w->v->pre == PRETOK_QWEN2 && unicode_nfc(&w->nfc, text, len, &s, &n))
        return -1;
    w->text = s;
    for (size_t pos = 0, end; pos < n; pos = end) {
        end = pretok_next(w->v->pre, s, n, pos);
        if (bpe_word(w, pos, end))
            return -1;
    }
    return 0;
}
