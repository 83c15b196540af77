/* Writes tiny vocabularies as files, honest or with one fault, through the project's GGUF writer. */
#include "text_support.h"

#include "gguf_writer.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char long_token[5000];

static void put_ids(struct gguf_writer *w, const struct text_options *o, const struct tiny_vocab *v)
{
    uint32_t beyond = (uint32_t)v->n_tokens;
    int32_t list[2] = {v->eos, v->n_tokens};
    gguf_writer_u32(w, "tokenizer.ggml.bos_token_id",
                    o->fault == FAULT_BOS_RANGE ? beyond : (uint32_t)v->bos);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id",
                    o->fault == FAULT_EOS_RANGE ? beyond : (uint32_t)v->eos);
    gguf_writer_u32(w, "tokenizer.ggml.eot_token_id", o->fault == FAULT_EOT_RANGE ? beyond : UINT32_MAX);
    gguf_writer_array(w, "tokenizer.ggml.eos_token_ids", GGUF_I32, list, o->fault == FAULT_EOS_LIST ? 2 : 1);
    if (o->fault == FAULT_ADD_BOS_IS_STRING)
        gguf_writer_str(w, "tokenizer.ggml.add_bos_token", "yes");
    else
        gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", o->kind == TINY_GEMMA3);
    if (o->kind == TINY_GEMMA3)
        gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", o->prefix != 0);
}

static int find(const struct tiny_vocab *v, const char *text)
{
    for (int i = 0; i < v->n_tokens; i++)
        if (v->tokens[i].len == strlen(text) && memcmp(v->tokens[i].text, text, v->tokens[i].len) == 0)
            return i;
    return -1;
}

static void put_tokens(struct gguf_writer *w, const struct text_options *o, const struct tiny_vocab *v,
                       struct gguf_str *strs, int32_t *types)
{
    uint64_t n = (uint64_t)v->n_tokens;
    int byte = find(v, o->kind == TINY_GEMMA3 ? "<0x41>" : "A");
    for (uint64_t i = 0; i < n; i++) {
        strs[i] = (struct gguf_str){v->tokens[i].text, v->tokens[i].len};
        types[i] = v->tokens[i].type;
    }
    memset(long_token, 'x', sizeof long_token);
    if (o->fault == FAULT_TOKEN_TOO_LONG)
        strs[n - 1] = (struct gguf_str){long_token, 4097};
    if (o->fault == FAULT_TYPE_RANGE)
        types[n / 2] = 9;
    if (o->fault == FAULT_NO_BYTE_TOKEN)
        strs[byte] = (struct gguf_str){"gone", 4};
    if (o->fault == FAULT_BYTE_IS_CONTROL)
        types[byte] = TINY_CONTROL;
    if (o->fault == FAULT_TOKENS_ARE_U32)
        gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_I32, types, n);
    else if (o->fault != FAULT_NO_TOKENS)
        gguf_writer_strs(w, "tokenizer.ggml.tokens", strs, o->fault == FAULT_TOKENS_EMPTY ? 0 : n);
    if (o->fault == FAULT_TYPES_ARE_STRINGS)
        gguf_writer_strs(w, "tokenizer.ggml.token_type", strs, n);
    else if (!o->no_types)
        gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types,
                          o->fault == FAULT_TYPES_SHORT ? n - 1 : n);
}

static void put_merges(struct gguf_writer *w, const struct text_options *o, const struct tiny_vocab *v,
                       struct gguf_str *strs)
{
    static const struct gguf_str wrong[FAULT_N] = {[FAULT_MERGE_NO_SPACE] = {"ab", 2},
                                                   [FAULT_MERGE_TWO_SPACES] = {"a b c", 5},
                                                   [FAULT_MERGE_LEFT] = {"nothere b", 9},
                                                   [FAULT_MERGE_RESULT] = {"Q Z", 3},
                                                   [FAULT_MERGE_CONTROL] = {"<|im_end|> a", 12}};
    for (int32_t i = 0; i < v->n_merges; i++)
        strs[i] = (struct gguf_str){v->merges[i].text, v->merges[i].len};
    if (wrong[o->fault].data)
        strs[v->n_merges / 2] = wrong[o->fault];
    if (o->fault == FAULT_MERGES_OR_SCORES_TYPE)
        gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_U8, "abc", 3);
    else if (o->fault != FAULT_NO_MERGES_OR_SCORES)
        gguf_writer_strs(w, "tokenizer.ggml.merges", strs, (uint64_t)v->n_merges);
}

static void put_scores(struct gguf_writer *w, const struct text_options *o, const struct tiny_vocab *v,
                       float *scores)
{
    uint64_t n = (uint64_t)v->n_tokens;
    for (uint64_t i = 0; i < n; i++)
        scores[i] = v->tokens[i].score;
    if (o->fault == FAULT_SCORE_NAN)
        scores[n / 2] = NAN;
    if (o->fault == FAULT_MERGES_OR_SCORES_TYPE)
        gguf_writer_u32(w, "tokenizer.ggml.scores", 1);
    else if (o->fault != FAULT_NO_MERGES_OR_SCORES)
        gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores,
                          o->fault == FAULT_SCORES_SHORT ? n - 1 : n);
}

const char *const text_pre_names[] = {"llama-bpe",    "glm4",
                                      "dbrx",         "jais-2",
                                      "minicpm5",     "qwen2",
                                      "stablelm2",    "qwen35",
                                      "seed-coder",   "ufakzeka",
                                      "laguna",       "exaone-moe",
                                      "gpt-4o",       "tiny_aya",
                                      "youtu",        "kimi-k2",
                                      "tekken",       "afmoe",
                                      "deepseek-v3",  "spark2_5",
                                      "deepseek-llm", "falcon",
                                      "default",      "command-r",
                                      "smollm",       "deepseek-coder",
                                      "mpt",          "gpt-2",
                                      "jina-v1-en",   "bloom",
                                      "viking",       "superbpe",
                                      "chameleon",    "granite-embed-multi-97m"};
const int text_n_pre_names = (int)(sizeof text_pre_names / sizeof *text_pre_names);

/* Tokens of the byte alphabet as WordPiece in GGUF's form: U+0120 in front becomes U+2581. */
static void make_bert(struct tiny_vocab *v)
{
    static const char *const controls[] = {"[UNK]", "[CLS]", "[SEP]"};
    for (int32_t i = 0; i < v->n_tokens; i++) {
        struct tiny_token *t = &v->tokens[i];
        if (i < 3) {
            t->len = (uint32_t)strlen(controls[i]);
            memcpy(t->text, controls[i], t->len);
        } else if (t->len >= 2 && t->len < TINY_TOKEN_BYTES && memcmp(t->text, "\xC4\xA0", 2) == 0) {
            memmove(t->text + 3, t->text + 2, t->len - 2);
            memcpy(t->text, "\xE2\x96\x81", 3);
            t->len++;
        }
    }
    v->bos = 1;
    v->eos = 2;
}

static const char *model_name(const struct text_options *o)
{
    if (o->fault == FAULT_MODEL)
        return "wordpiece";
    if (o->model == TEXT_BERT)
        return "bert";
    if (o->kind == TINY_GEMMA3)
        return o->model == TEXT_GEMMA4 ? "gemma4" : "llama";
    return "gpt2";
}

int text_file(const struct text_options *o, struct buf *out)
{
    static const char *const pre[] = {
        [TINY_SMOLLM] = "smollm", [TINY_QWEN2] = "qwen2", [TINY_GEMMA3] = "default"};
    struct tiny_vocab v;
    if (tiny_vocab_make(o->kind, o->n_tokens, &v))
        return -1;
    if (o->model == TEXT_BERT)
        make_bert(&v);
    size_t n = (size_t)(v.n_tokens > v.n_merges ? v.n_tokens : v.n_merges);
    struct gguf_str *strs = mem_calloc(n, sizeof *strs);
    int32_t *types = mem_calloc(n, sizeof *types);
    float *scores = mem_calloc(n, sizeof *scores);
    struct gguf_writer *w = gguf_writer_new();
    int rc = -1;
    if (strs && types && scores && w) {
        if (o->fault != FAULT_NO_MODEL)
            gguf_writer_str(w, "tokenizer.ggml.model", model_name(o));
        if (o->fault != FAULT_NO_PRE)
            gguf_writer_str(w, "tokenizer.ggml.pre",
                            o->fault == FAULT_PRE ? "deepseek"
                            : o->pre              ? o->pre
                                                  : pre[o->kind]);
        put_tokens(w, o, &v, strs, types);
        if (o->kind == TINY_GEMMA3 && o->model == TEXT_AS_KIND)
            put_scores(w, o, &v, scores);
        else
            put_merges(w, o, &v, strs);
        put_ids(w, o, &v);
        rc = gguf_writer_build(w, NULL, 0, out);
    }
    gguf_writer_free(w);
    mem_free(strs);
    mem_free(types);
    mem_free(scores);
    tiny_vocab_free(&v);
    return rc;
}

/* An entry of added_tokens. */
static json_t *added_token(const struct tiny_token *t, int32_t id)
{
    return json_pack("{s:i, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", t->text, (size_t)t->len,
                     "special", t->type == TINY_CONTROL, "normalized", id % 2 == 0, "lstrip", id % 3 == 1,
                     "rstrip", id % 3 == 2, "single_word", id % 7 == 6);
}

int text_json(const struct text_options *o, const char *normalizer, const char *pre_tokenizer,
              struct buf *out)
{
    struct tiny_vocab v;
    bool raw = o->kind == TINY_GEMMA3, bert = o->model == TEXT_BERT;
    if (tiny_vocab_make(o->kind, o->n_tokens, &v))
        return -1;
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array();
    for (int32_t i = 0; i < v.n_tokens; i++) {
        struct tiny_token *t = &v.tokens[i];
        if (t->type == TINY_CONTROL || t->type == TINY_USER_DEFINED)
            json_array_append_new(added, added_token(t, i));
        json_object_setn_new(vocab, t->text, t->len, json_integer(i));
    }
    for (int32_t i = 0; i < v.n_merges; i++) {
        const struct tiny_merge *m = &v.merges[i];
        size_t left = (size_t)((const char *)memchr(m->text, ' ', m->len) - m->text);
        json_array_append_new(merges, i % 2 ? json_stringn(m->text, m->len)
                                            : json_pack("[s%, s%]", m->text, left, m->text + left + 1,
                                                        (size_t)m->len - left - 1));
    }
    json_t *model = json_pack("{s:s, s:o, s:b, s:s}", "type", bert ? "WordPiece" : "BPE", "vocab", vocab,
                              "byte_fallback", raw, "unk_token",
                              raw    ? "<unk>"
                              : bert ? "a"
                                     : "<|endoftext|>");
    if (bert)
        json_decref(merges);
    else
        json_object_set_new(model, "merges", merges);
    json_t *doc = json_pack("{s:o, s:o, s:o, s:o, s:o}", "added_tokens", added, "normalizer",
                            normalizer ? json_loads(normalizer, 0, NULL) : json_null(), "pre_tokenizer",
                            pre_tokenizer ? json_loads(pre_tokenizer, 0, NULL) : json_null(), "model", model,
                            "decoder", json_pack("{s:s}", "type", raw ? "ByteFallback" : "ByteLevel"));
    char *text = json_dumps(doc, JSON_COMPACT);
    buf_clear(out);
    int rc = text ? buf_puts(out, text) : -1;
    free(text);
    json_decref(doc);
    tiny_vocab_free(&v);
    return rc;
}

hasten_status text_vocab_open(const struct text_options *o, struct text_vocab *out, struct hasten_error *err)
{
    memset(out, 0, sizeof *out);
    if (text_file(o, &out->file))
        return HASTEN_ERR_MEMORY;
    hasten_status st = gguf_open_memory(out->file.data, out->file.len, "tiny.gguf", &out->g, err);
    return st ? st : vocab_open(out->g, &out->v, err);
}

void text_vocab_close(struct text_vocab *t)
{
    vocab_close(t->v);
    gguf_close(t->g);
    buf_free(&t->file);
}
