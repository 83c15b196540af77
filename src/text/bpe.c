/* Owns BPE with a list of merges: on bytes (tokenizer.ggml.model "gpt2"), with its alphabet, or on characters with
 * byte fallback ("gemma4", a tokenizer.json with byte_fallback); the table of merges, the encoding of one valid
 * UTF-8 text.
 *
 * Ids are those of Hugging Face's `tokenizers` on the same vocabulary; that settles two questions:
 * - qwen2 and others normalise to NFC first (recipe.c). So decode(encode(x)) is NFC(x): equal to x byte for byte
 *   for every text that is in NFC, which is all but a little of what people write. smollm does not.
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

static hasten_status merge_fail(const struct merge_source *src, int64_t i, const struct merge_pair *p,
                                const char *what, const char *is, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_FILE, "%s: %s[%lld]: the %s of '%.*s %.*s' is %s", src->path, src->key,
                     (long long)i, what, (int)(p->left.len < 80 ? p->left.len : 80), p->left.data,
                     (int)(p->right.len < 80 ? p->right.len : 80), p->right.data, is);
}

/* Makes a merge of a pair; both and their concatenation must be tokens that text may become. left UINT32_MAX: a
 * merge with control tokens that is left out. */
static hasten_status merge_parse(const struct vocab *v, const struct merge_source *src, int64_t i,
                                 const struct merge_pair *p, int32_t guess, struct bpe_merge *m,
                                 struct hasten_error *err)
{
    static const char *const whats[] = {"left side", "right side", "result"};
    if (p->left.len > LIMIT_TOKEN_BYTES || p->right.len > LIMIT_TOKEN_BYTES)
        return merge_fail(src, i, p, p->left.len > p->right.len ? whats[0] : whats[1],
                          "not in the vocabulary", err);
    char joined[2 * LIMIT_TOKEN_BYTES];
    memcpy(joined, p->left.data, p->left.len);
    memcpy(joined + p->left.len, p->right.data, p->right.len);
    int32_t ids[3] = {token_index_find(&v->index, v->texts, p->left.data, p->left.len),
                      token_index_find(&v->index, v->texts, p->right.data, p->right.len),
                      find_result(v, guess, joined, p->left.len + p->right.len)};
    *m = (struct bpe_merge){.left = UINT32_MAX};
    for (int k = 0; k < 3; k++) {
        if (ids[k] >= 0 && !vocab_is_text(v, ids[k]) && src->skip_control)
            return HASTEN_OK;
        if (ids[k] < 0 || !vocab_is_text(v, ids[k]))
            return merge_fail(src, i, p, whats[k], ids[k] < 0 ? "not in the vocabulary" : "a control token",
                              err);
    }
    *m = (struct bpe_merge){
        .left = (uint32_t)ids[0], .right = (uint32_t)ids[1], .rank = (uint32_t)i, .id = ids[2]};
    return HASTEN_OK;
}

/* Reads and enters merges [from, from + n). The tables are larger than the caches, so first the memory of all of the
 * block's look-ups is asked for, then they are done. last: the result of the merge before. */
static hasten_status merges_block(struct vocab *v, const struct merge_source *src, int64_t from, int n,
                                  int32_t *last, struct hasten_error *err)
{
    struct merge_pair p[MERGE_BLOCK];
    struct bpe_merge m[MERGE_BLOCK];
    hasten_status st = src->read(src, from, n, p, err);
    if (st)
        return st;
    for (int i = 0; i < n; i++) {
        token_index_touch(&v->index, p[i].left.data, p[i].left.len);
        token_index_touch(&v->index, p[i].right.data, p[i].right.len);
    }
    for (int i = 0; i < n; i++) {
        int32_t guess = from + i ? *last + 1 : 0;
        st = merge_parse(v, src, from + i, &p[i], guess, &m[i], err);
        if (st)
            return st;
        if (m[i].left == UINT32_MAX)
            continue;
        *last = m[i].id;
        __builtin_prefetch(&v->merges[pair_hash(v, m[i].left, m[i].right) & v->merge_mask]);
    }
    for (int i = 0; i < n; i++)
        if (m[i].left != UINT32_MAX && merge_add(v, m[i]))
            return error_set(err, HASTEN_ERR_LIMIT, "%s: %s[%lld]: too many collisions", src->path, src->key,
                             (long long)(from + i));
    return HASTEN_OK;
}

static hasten_status bpe_open_merges(struct vocab *v, const struct merge_source *src,
                                     struct hasten_error *err)
{
    int64_t n = src->n;
    if (n > LIMIT_VOCAB)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: %s has %lld entries; the limit is %d", src->path,
                         src->key, (long long)n, LIMIT_VOCAB);
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
    hasten_status st = HASTEN_OK;
    for (int64_t i = 0; i < n && !st; i += MERGE_BLOCK)
        st = merges_block(v, src, i, n - i < MERGE_BLOCK ? (int)(n - i) : MERGE_BLOCK, &last, err);
    return st;
}

hasten_status bpe_open(struct vocab *v, const struct merge_source *src, struct hasten_error *err)
{
    spm_find_glue(v);
    if (v->recipe.raw) {
        int missing;
        if (v->recipe.fallback)
            spm_find_bytes(v, &missing);
        return bpe_open_merges(v, src, err);
    }
    for (unsigned b = 0; b < 256; b++) {
        char u[4];
        int n = utf8_encode(byte_to_cp(b), u);
        int32_t id = token_index_find(&v->index, v->texts, u, (size_t)n);
        if (id >= 0 && !vocab_is_text(v, id))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: token %d stands for byte 0x%02X but is a control token", src->path, id, b);
        v->byte_id[b] = id;
    }
    return bpe_open_merges(v, src, err);
}

/* ---- encoding ----------------------------------------------------------------------------------------- */

/* The token that a whole word is; -1: none. */
static int32_t whole_word(const struct encode_work *w, size_t pos, size_t end)
{
    const struct vocab *v = w->v;
    char alphabet[2 * LIMIT_TOKEN_BYTES];
    const char *s = w->text + pos;
    size_t len = end - pos;
    if (len > v->max_text_bytes)
        return -1;
    if (!v->recipe.raw) {
        len = 0;
        for (size_t i = pos; i < end; i++)
            len += (size_t)utf8_encode(byte_to_cp((unsigned char)w->text[i]), alphabet + len);
        s = alphabet;
    }
    int32_t id = token_index_find(&v->index, v->texts, s, len);
    return id >= 0 && vocab_is_text(v, id) ? id : -1;
}

static bool only_line_ends(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] != '\n')
            return false;
    return true;
}

/* A symbol for text[pos, pos + n) that has no token: bytes that merge with nothing, the unknown token, or none.
 * *unknown: the symbol before is the unknown token too. */
static int push_unknown(struct encode_work *w, size_t pos, size_t n, bool *unknown)
{
    const struct vocab *v = w->v;
    bool bytes = v->recipe.fallback;
    for (size_t k = 0; k < n && bytes; k++)
        bytes = v->byte_id[(unsigned char)w->text[pos + k]] >= 0;
    for (size_t k = 0; k < n && bytes; k++)
        if (merge_push(w, -1, pos + k, 1))
            return -1;
    if (bytes || v->unk < 0 || (*unknown && v->fuse_unk))
        return 0;
    *unknown = true;
    return merge_push(w, v->unk, pos, n);
}

static int push_symbols(struct encode_work *w, size_t pos, size_t end)
{
    const struct vocab *v = w->v;
    bool unknown = false;
    w->n_syms = 0;
    for (size_t i = pos, n; i < end; i += n) {
        int32_t id;
        n = 1;
        if (v->recipe.raw) {
            uint32_t cp;
            n = (size_t)utf8_decode(w->text + i, end - i, &cp);
            id = token_index_find(&v->index, v->texts, w->text + i, n);
            id = id >= 0 && vocab_is_text(v, id) ? id : -1;
        } else {
            id = v->byte_id[(unsigned char)w->text[i]];
        }
        if (id >= 0)
            unknown = false;
        if (id >= 0 ? merge_push(w, id, i, n) : push_unknown(w, i, n, &unknown))
            return -1;
    }
    return 0;
}

/* Encodes text[pos, end), across whose borders no token reaches. */
static int bpe_merge_word(struct encode_work *w, size_t pos, size_t end)
{
    if (push_symbols(w, pos, end) || merge_run(w, bpe_rule))
        return -1;
    for (int32_t i = w->n_syms ? 0 : -1; i >= 0; i = w->syms[i].next) {
        const struct symbol *s = &w->syms[i];
        int32_t id = s->id >= 0 ? s->id : w->v->byte_id[(unsigned char)w->text[s->start]];
        if (tokens_push(w->out, id))
            return -1;
    }
    return 0;
}

static int bpe_word(struct encode_work *w, size_t pos, size_t end)
{
    const struct text_recipe *r = &w->v->recipe;
    if (r->whole || (r->lines && only_line_ends(w->text + pos, end - pos))) {
        int32_t id = whole_word(w, pos, end);
        if (id >= 0)
            return tokens_push(w->out, id);
    }
    /* words of BPE on characters can be whole texts: cut where no merge can reach across */
    for (size_t next; r->raw && pos < end; pos = next) {
        for (next = pos + 1; next < end && !spm_border(w->v, w->text, end, next); next++)
            ;
        if (next == end)
            break;
        if (bpe_merge_word(w, pos, next))
            return -1;
    }
    return bpe_merge_word(w, pos, end);
}

int bpe_encode(struct encode_work *w, const char *text, size_t len)
{
    const struct text_recipe *r = &w->v->recipe;
    size_t pos, end;
    w->text = text;
    pretok_begin(&w->pretok, r->split, r->n_split, text, len);
    while (pretok_next(&w->pretok, &pos, &end))
        if (bpe_word(w, pos, end))
            return -1;
    return 0;
}
