/* Writes tiny vocabularies as files, honest or with one fault, through the project's GGUF writer. */
#include "text_support.h"

#include "gguf_writer.h"

#include <math.h>
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

int text_file(const struct text_options *o, struct buf *out)
{
    static const char *const pre[] = {
        [TINY_SMOLLM] = "smollm", [TINY_QWEN2] = "qwen2", [TINY_GEMMA3] = "default"};
    struct tiny_vocab v;
    if (tiny_vocab_make(o->kind, o->n_tokens, &v))
        return -1;
    size_t n = (size_t)(v.n_tokens > v.n_merges ? v.n_tokens : v.n_merges);
    struct gguf_str *strs = mem_calloc(n, sizeof *strs);
    int32_t *types = mem_calloc(n, sizeof *types);
    float *scores = mem_calloc(n, sizeof *scores);
    struct gguf_writer *w = gguf_writer_new();
    int rc = -1;
    if (strs && types && scores && w) {
        const char *model = o->kind == TINY_GEMMA3 ? "llama" : "gpt2";
        if (o->fault != FAULT_NO_MODEL)
            gguf_writer_str(w, "tokenizer.ggml.model", o->fault == FAULT_MODEL ? "wordpiece" : model);
        if (o->fault != FAULT_NO_PRE)
            gguf_writer_str(w, "tokenizer.ggml.pre", o->fault == FAULT_PRE ? "deepseek" : pre[o->kind]);
        put_tokens(w, o, &v, strs, types);
        if (o->kind == TINY_GEMMA3)
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
