/* Tokens for filling in the middle (fim.h). */
#include "serve/fim.h"
#include <string.h>

enum {
    PRE,
    SUF,
    MID,
    FILE_MARK,
    N_MARKS
};

/* Keys as llama.cpp's converter writes them, newer ones first; names as the models have them. */
static const struct {
    const char *keys[2], *names[6];
} marks[N_MARKS] = {
    [PRE] = {{"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
             {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<PRE>", "\xe2\x96\x81<PRE>",
              "<|code_prefix|>"}},
    [SUF] = {{"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
             {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<SUF>", "\xe2\x96\x81<SUF>",
              "<|code_suffix|>"}},
    [MID] = {{"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
             {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<MID>", "\xe2\x96\x81<MID>",
              "<|code_middle|>"}},
    [FILE_MARK] = {{"tokenizer.ggml.fim_sep_token_id", NULL},
                   {"<|file_sep|>", "<file_sep>", "<|file_separator|>"}},
};

static int32_t find(const struct gguf *g, const struct vocab *v, int mark)
{
    struct hasten_error err;
    for (int i = 0; i < 2 && g && marks[mark].keys[i]; i++) {
        uint32_t id = UINT32_MAX;
        if (!gguf_opt_u32(g, marks[mark].keys[i], &id, &err) && id < (uint32_t)vocab_size(v))
            return (int32_t)id;
    }
    for (int i = 0; i < 6 && marks[mark].names[i]; i++) {
        const int32_t id = vocab_find(v, marks[mark].names[i], strlen(marks[mark].names[i]));
        if (id >= 0 && (vocab_type(v, id) == VOCAB_CONTROL || vocab_type(v, id) == VOCAB_USER_DEFINED))
            return id;
    }
    return -1;
}

bool fim_find(const struct gguf *g, const struct vocab *v, struct fim *out)
{
    *out = (struct fim){find(g, v, PRE), find(g, v, SUF), find(g, v, MID), find(g, v, FILE_MARK)};
    return out->prefix >= 0 && out->suffix >= 0 && out->middle >= 0;
}

static hasten_status put(const struct vocab *v, int32_t mark, struct gguf_str text, struct tokens *out,
                         struct hasten_error *err)
{
    if (tokens_push(out, mark))
        return error_set(err, HASTEN_ERR_MEMORY, "filling in: out of memory");
    return text.len ? vocab_encode(v, text.data, text.len, VOCAB_NO_PREFIX, out, err) : HASTEN_OK;
}

hasten_status fim_encode(const struct fim *f, const struct vocab *v, struct gguf_str before,
                         struct gguf_str behind, bool bos, struct tokens *out, struct hasten_error *err)
{
    hasten_status st = bos ? vocab_encode(v, "", 0, VOCAB_BOS, out, err) : HASTEN_OK;
    if (!st)
        st = put(v, f->prefix, before, out, err);
    if (!st)
        st = put(v, f->suffix, behind, out, err);
    return st ? st : put(v, f->middle, (struct gguf_str){"", 0}, out, err);
}
