/* Owns the names of pre-tokenisers that GGUF files carry (tokenizer.ggml.pre) and what each stands for. The names
 * and expressions are facts, as llama.cpp's src/llama-vocab.cpp lists them;
 * where it approximates an expression, the one of the model's tokenizer.json is meant. A name that is not here is
 * unknown: nothing is guessed.
 *
 * GGUF files do not say which normalisation a tokenizer begins with. RECIPE_NFC marks the families whose
 * tokenizer.json does: Qwen, GPT-NeoX and what is derived from it (MPT, OLMo, ModernBERT), Command R. */
#include "text/vocab_internal.h"
#include <string.h>

enum {
    RECIPE_NFC = 1,
    RECIPE_WHOLE = 2, /* ignore_merges */
    RECIPE_BOS = 4,
    RECIPE_RAW = 8, /* BPE on characters, U+2581 for spaces, lines apart */
    RECIPE_TAIL = 16
};

struct named_recipe {
    const char *names; /* set apart by spaces */
    uint8_t flags;
    uint8_t split[PRETOK_STEPS]; /* enum pretok_match, ended by MATCH_NONE */
};

static const struct named_recipe named[] = {
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     RECIPE_WHOLE | RECIPE_BOS,
     {MATCH_LLAMA3}},
    {"glm4 glm5", RECIPE_WHOLE, {MATCH_LLAMA3}},
    {"dbrx smaug-bpe chatglm-bpe", 0, {MATCH_LLAMA3}},
    {"jais-2", 0, {MATCH_JAIS2}},
    {"minicpm5", RECIPE_WHOLE, {MATCH_NUMBER_3, MATCH_MINICPM5}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez", RECIPE_NFC, {MATCH_QWEN2}},
    {"stablelm2 hunyuan solar-open grok-2 bailingmoe bailingmoe2 llada-moe", 0, {MATCH_QWEN2}},
    {"qwen35", RECIPE_NFC, {MATCH_QWEN35}},
    {"seed-coder", 0, {MATCH_SEED_CODER}},
    {"ufakzeka", 0, {MATCH_UFAKZEKA}},
    {"exaone-moe", 0, {MATCH_EXAONE_MOE}},
    {"laguna", 0, {MATCH_NEWLINES, MATCH_QWEN2}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, {MATCH_GPT4O}},
    {"granite-embed-multi-97m", RECIPE_WHOLE, {MATCH_GPT4O}},
    {"tiny_aya cohere2moe", 0, {MATCH_THOUSANDS, MATCH_GPT4O}},
    {"youtu", RECIPE_WHOLE, {MATCH_CJK_YOUTU, MATCH_YOUTU}},
    {"kimi-k2", 0, {MATCH_KIMI_K2}},
    {"tekken", RECIPE_WHOLE | RECIPE_BOS, {MATCH_TEKKEN}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, {MATCH_NUMBER_3, MATCH_CJK, MATCH_DEEPSEEK_V3}},
    {"spark2_5", 0, {MATCH_NUMBER_3, MATCH_CJK, MATCH_SPARK, MATCH_NUMBER}},
    {"afmoe", 0, {MATCH_NUMBER_GROUPS, MATCH_CJK_AFMOE, MATCH_DEEPSEEK_V3}},
    {"deepseek-llm",
     0,
     {MATCH_NEWLINE, MATCH_DEEPSEEK_LETTERS, MATCH_DEEPSEEK_PUNCT, MATCH_SPACES_AT_END, MATCH_CJK_WIDE,
      MATCH_NUMBERS}},
    {"deepseek-coder",
     0,
     {MATCH_NEWLINE, MATCH_SPACE_LETTERS, MATCH_SPACE_PUNCT, MATCH_CJK_WIDE, MATCH_NUMBER}},
    {"falcon", 0, {MATCH_FALCON_PUNCT, MATCH_GPT2, MATCH_ASCII_3}},
    {"default", 0, {MATCH_DEFAULT_PUNCT, MATCH_GPT2, MATCH_NUMBERS, MATCH_ASCII_3}},
    {"command-r", RECIPE_NFC, {MATCH_DIGIT, MATCH_GPT2}},
    {"smollm starcoder refact codeshell exaone minerva-7b mellum2", 0, {MATCH_DIGIT, MATCH_GPT2}},
    {"mpt olmo modern-bert gpt-neox", RECIPE_NFC, {MATCH_GPT2}},
    {"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum jais exaone4 trillion "
     "granite-docling",
     0,
     {MATCH_GPT2}},
    {"jina-v1-en jina-v2-code roberta-bpe", RECIPE_TAIL, {MATCH_GPT2}},
    {"bloom poro-chat gpt3-finnish", 0, {MATCH_BLOOM}},
    {"viking", 0, {MATCH_BLOOM, MATCH_NUMBER}},
    {"superbpe", 0, {MATCH_NUMBERS, MATCH_DIGIT_GROUPS}},
    {"chameleon",
     RECIPE_BOS,
     {MATCH_SENTINEL, MATCH_IMAGE, MATCH_CHAMELEON_SPACE, MATCH_NUMBER, MATCH_CHAMELEON_PUNCT, MATCH_GPT2}},
    {"gemma4 granite-embed-multi-311m sarvam-moe", RECIPE_RAW, {MATCH_NEWLINES}},
};

static bool in_names(const char *names, struct gguf_str name)
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, " ");
        if (n == name.len && memcmp(p, name.data, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

void recipe_add_text(struct text_recipe *r, enum text_op op)
{
    r->norm[r->n_norm++] = (struct text_step){.op = (uint8_t)op};
}

bool recipe_by_name(struct gguf_str name, struct text_recipe *out)
{
    const struct named_recipe *r = NULL;
    for (size_t i = 0; i < sizeof named / sizeof *named && !r; i++)
        if (in_names(named[i].names, name))
            r = &named[i];
    *out = (struct text_recipe){0};
    if (!r)
        return false;
    while (out->n_split < PRETOK_STEPS && r->split[out->n_split]) {
        out->split[out->n_split] = (struct pretok_step){r->split[out->n_split], DROP_NOTHING};
        out->n_split++;
    }
    out->whole = r->flags & RECIPE_WHOLE;
    out->add_bos = r->flags & RECIPE_BOS;
    out->tail = r->flags & RECIPE_TAIL;
    out->raw = out->lines = out->fallback = r->flags & RECIPE_RAW;
    if (r->flags & RECIPE_NFC)
        recipe_add_text(out, TEXT_NFC);
    if (out->raw)
        out->norm[out->n_norm++] =
            (struct text_step){.op = TEXT_REPLACE, .from = {" ", 1}, .to = {SPM_SPACE, SPM_SPACE_BYTES}};
    return true;
}

static bool same_str(struct gguf_str a, struct gguf_str b)
{
    return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

static bool same_steps(const struct text_step *a, int n_a, const struct text_step *b, int n_b)
{
    for (int i = 0; i < n_a && n_a == n_b; i++)
        if (a[i].op != b[i].op || a[i].first_only != b[i].first_only || !same_str(a[i].from, b[i].from) ||
            !same_str(a[i].to, b[i].to))
            return false;
    return n_a == n_b;
}

bool recipe_same(const struct text_recipe *a, const struct text_recipe *b)
{
    for (int i = 0; i < a->n_split && a->n_split == b->n_split; i++)
        if (a->split[i].match != b->split[i].match || a->split[i].drop != b->split[i].drop)
            return false;
    return a->n_split == b->n_split && same_steps(a->norm, a->n_norm, b->norm, b->n_norm) &&
           same_steps(a->pre, a->n_pre, b->pre, b->n_pre) && a->fallback == b->fallback && a->raw == b->raw &&
           a->whole == b->whole && a->lines == b->lines;
}

struct gguf_str recipe_name(const struct text_recipe *r)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const struct gguf_str name = {named[i].names, strcspn(named[i].names, " ")};
        struct text_recipe other;
        if (recipe_by_name(name, &other) && recipe_same(r, &other))
            return name;
    }
    return (struct gguf_str){"", 0};
}

void recipe_bert(bool lower, struct text_recipe *out)
{
    *out = (struct text_recipe){.add_bos = true, .tail = true, .n_split = 2};
    recipe_add_text(out, TEXT_CLEAN);
    recipe_add_text(out, TEXT_SPACE_CJK);
    if (lower) {
        recipe_add_text(out, TEXT_NFD);
        recipe_add_text(out, TEXT_DROP_ACCENTS);
        recipe_add_text(out, TEXT_LOWER);
    }
    out->split[0] = (struct pretok_step){MATCH_SPACE, DROP_MATCHES};
    out->split[1] = (struct pretok_step){MATCH_PUNCT_STEP, DROP_NOTHING};
}
