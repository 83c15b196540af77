/* Owns the way back: a vocabulary read from a tokenizer.json as the keys of a GGUF file (those that vocab_gguf.c reads),
 * where GGUF has words for all that it does. */
#include "formats/gguf_compose.h"
#include "text/vocab_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAD_BYTES 32

static int by_rank(const void *a, const void *b)
{
    const uint32_t x = ((const struct bpe_merge *)a)->rank, y = ((const struct bpe_merge *)b)->rank;
    return (x > y) - (x < y);
}

/* All merges, "left right" each, in the order of their ranks. */
static hasten_status put_merges(const struct vocab *v, struct gguf_compose *c, struct hasten_error *err)
{
    struct bpe_merge *sorted = mem_array((size_t)v->merge_mask + 1, sizeof *sorted);
    size_t n = 0, bytes = 1;
    for (uint64_t i = 0; sorted && i <= v->merge_mask; i++)
        if (v->merges[i].left != UINT32_MAX) {
            bytes += v->texts[v->merges[i].left].len + v->texts[v->merges[i].right].len + 1;
            sorted[n++] = v->merges[i];
        }
    struct gguf_str *list = mem_array(n + 1, sizeof *list);
    char *text = mem_alloc(bytes), *at = text;
    const bool room = sorted && list && text;
    if (room)
        qsort(sorted, n, sizeof *sorted, by_rank);
    for (size_t i = 0; room && i < n; i++) {
        const struct gguf_str l = v->texts[sorted[i].left], r = v->texts[sorted[i].right];
        list[i] = (struct gguf_str){at, l.len + 1 + r.len};
        memcpy(at, l.data, l.len);
        at[l.len] = ' ';
        memcpy(at + l.len + 1, r.data, r.len);
        at += list[i].len;
    }
    if (room)
        gguf_compose_strs(c, "tokenizer.ggml.merges", list, n);
    mem_free(text);
    mem_free(list);
    mem_free(sorted);
    return room ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "out of memory for %zu merges", n);
}

/* Ids without a token, and those up to n_rows, are called [PADn], as converters call them. */
static hasten_status put_tokens(const struct vocab *v, int64_t n_rows, struct gguf_compose *c,
                                struct hasten_error *err)
{
    const int64_t n = n_rows > v->n ? n_rows : v->n;
    struct gguf_str *texts = mem_array((size_t)n, sizeof *texts);
    int32_t *types = mem_array((size_t)n, sizeof *types);
    char(*pads)[PAD_BYTES] = mem_array((size_t)n, sizeof *pads);
    const bool room = texts && types && pads;
    for (int64_t i = 0; room && i < n; i++) {
        types[i] = i < v->n ? (int32_t)vocab_type(v, (int32_t)i) : VOCAB_UNUSED;
        texts[i] = i < v->n ? v->texts[i] : (struct gguf_str){"", 0};
        if (!texts[i].len) {
            snprintf(pads[i], sizeof pads[i], "[PAD%lld]", (long long)i);
            texts[i] = (struct gguf_str){pads[i], strlen(pads[i])};
        }
    }
    if (room) {
        gguf_compose_strs(c, "tokenizer.ggml.tokens", texts, (uint64_t)n);
        gguf_compose_i32s(c, "tokenizer.ggml.token_type", types, (uint64_t)n);
    }
    mem_free(pads);
    mem_free(types);
    mem_free(texts);
    return room ? HASTEN_OK
                : error_set(err, HASTEN_ERR_MEMORY, "out of memory for a vocabulary of %lld tokens",
                            (long long)n);
}

static void put_id(struct gguf_compose *c, const char *key, int32_t id)
{
    if (id >= 0)
        gguf_compose_u32(c, key, (uint32_t)id);
}

static bool is_bert(const struct vocab *v, bool lower)
{
    struct text_recipe bert;
    recipe_bert(lower, &bert);
    return v->kind == VOCAB_WPM && recipe_same(&v->recipe, &bert);
}

/* Which tokenizer.ggml.model, and what it is told; false: none does what this vocabulary does. */
static bool put_model(const struct vocab *v, struct gguf_compose *c)
{
    const bool lower = is_bert(v, true);
    const struct gguf_str pre = v->kind == VOCAB_BPE ? recipe_name(&v->recipe) : (struct gguf_str){"", 0};
    if (lower || is_bert(v, false)) {
        gguf_compose_str(c, "tokenizer.ggml.model", "bert", 4);
        gguf_compose_bool(c, "tokenizer.ggml.normalizer.lowercase", lower);
        return true;
    }
    if (!pre.len || v->recipe.raw)
        return false;
    gguf_compose_str(c, "tokenizer.ggml.model", "gpt2", 4);
    gguf_compose_str(c, "tokenizer.ggml.pre", pre.data, pre.len);
    return true;
}

hasten_status vocab_put_keys(const struct vocab *v, int64_t n_rows, struct gguf_compose *c, bool *put,
                             struct hasten_error *err)
{
    *put = put_model(v, c);
    if (!*put)
        return HASTEN_OK;
    put_id(c, "tokenizer.ggml.bos_token_id", v->bos);
    put_id(c, "tokenizer.ggml.eos_token_id", v->eos);
    put_id(c, "tokenizer.ggml.unknown_token_id", v->unk);
    gguf_compose_bool(c, "tokenizer.ggml.add_bos_token", v->add_bos);
    if (v->kind == VOCAB_WPM) {
        put_id(c, "tokenizer.ggml.seperator_token_id", v->tail); /* so spelt in GGUF */
        gguf_compose_bool(c, "tokenizer.ggml.add_sep_token", v->tail >= 0);
    } else {
        gguf_compose_bool(c, "tokenizer.ggml.add_eos_token", v->tail >= 0 && v->tail == v->eos);
    }
    const hasten_status st = put_tokens(v, n_rows, c, err);
    return st || v->kind != VOCAB_BPE ? st : put_merges(v, c, err);
}
