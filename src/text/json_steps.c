/* Owns the steps of a tokenizer.json (Hugging Face's format, as the `tokenizers` library documents it): normalizer,
 * pre_tokenizer and decoder become a text_recipe. Expressions are known by their text; one that is not known here,
 * and any step, behaviour or order that Hasten does not have, is refused by name.
 *
 * No recursion: a Sequence inside a Sequence is refused. */
#include "text/vocab_internal.h"
#include <string.h>

enum {
    STEP_TEXT_BYTES = 32,   /* of one text that a step puts in or looks for */
    STEP_GROWTH = 8,        /* how many times longer all replacements together may make a text */
    DEEPSEEK_LETTERS = 2729 /* characters of the class UNICODE_DEEPSEEK */
};

struct reader {
    struct vocab *v;
    const char *path, *part; /* part: "normalizer", ... */
    size_t used;             /* bytes of v->owned_steps */
    size_t growth;
    bool byte_level;
    struct hasten_error *err;
};

bool json_text_is(const json_t *value, const char *text)
{
    return json_is_string(value) && json_string_length(value) == strlen(text) &&
           memcmp(json_string_value(value), text, strlen(text)) == 0;
}

/* value's text for a message. */
static const char *shown(const json_t *value)
{
    return json_is_string(value) ? json_string_value(value) : "?";
}

static hasten_status refuse(const struct reader *r, const char *what, const char *name)
{
    return error_set(r->err, HASTEN_ERR_UNSUPPORTED, "%s: %s: unsupported %s '%.200s'", r->path, r->part,
                     what, name);
}

static bool option(const json_t *step, const char *key, bool otherwise)
{
    const json_t *b = json_object_get(step, key);
    return json_is_boolean(b) ? json_is_true(b) : otherwise;
}

/* ---- text steps --------------------------------------------------------------------------------------- */

static hasten_status add_text(struct reader *r, struct text_step *list, int *n, struct text_step step)
{
    if (*n == RECIPE_TEXT_STEPS)
        return refuse(r, "number of steps", "more than 12");
    list[(*n)++] = step;
    return HASTEN_OK;
}

static hasten_status add_norm(struct reader *r, enum text_op op)
{
    return add_text(r, r->v->recipe.norm, &r->v->recipe.n_norm, (struct text_step){.op = (uint8_t)op});
}

/* Keeps a copy of a JSON string. */
static hasten_status keep(struct reader *r, const json_t *value, struct gguf_str *out)
{
    size_t len = json_is_string(value) ? json_string_length(value) : 0;
    if (!json_is_string(value))
        return error_set(r->err, HASTEN_ERR_FILE, "%s: %s: a step lacks its text", r->path, r->part);
    if (len > STEP_TEXT_BYTES || r->used + len > (size_t)4 * RECIPE_TEXT_STEPS * STEP_TEXT_BYTES)
        return refuse(r, "text of a step, longer than 32 bytes,", json_string_value(value));
    char *at = r->v->owned_steps + r->used;
    memcpy(at, json_string_value(value), len);
    r->used += len;
    *out = (struct gguf_str){at, len};
    return HASTEN_OK;
}

static hasten_status norm_replace(struct reader *r, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern"), *text = json_object_get(pattern, "String");
    struct text_step s = {.op = TEXT_REPLACE};
    if (!text)
        return refuse(r, "expression of Replace", shown(json_object_get(pattern, "Regex")));
    hasten_status st = keep(r, text, &s.from);
    if (!st)
        st = keep(r, json_object_get(step, "content"), &s.to);
    if (st)
        return st;
    size_t growth = s.from.len ? (s.to.len + s.from.len - 1) / s.from.len : STEP_GROWTH + 1;
    r->growth *= growth ? growth : 1;
    if (r->growth > STEP_GROWTH)
        return refuse(r, "growth of a text by Replace", shown(text));
    return add_text(r, r->v->recipe.norm, &r->v->recipe.n_norm, s);
}

static hasten_status norm_prepend(struct reader *r, const json_t *step)
{
    struct text_step s = {.op = TEXT_PREPEND};
    hasten_status st = keep(r, json_object_get(step, "prepend"), &s.to);
    if (!st)
        r->v->strip_prefix = true;
    return st ? st : add_text(r, r->v->recipe.norm, &r->v->recipe.n_norm, s);
}

static hasten_status norm_bert(struct reader *r, const json_t *step)
{
    bool lower = option(step, "lowercase", true);
    hasten_status st = HASTEN_OK;
    if (option(step, "clean_text", true))
        st = add_norm(r, TEXT_CLEAN);
    if (!st && option(step, "handle_chinese_chars", true))
        st = add_norm(r, TEXT_SPACE_CJK);
    if (!st && option(step, "strip_accents", lower)) {
        st = add_norm(r, TEXT_NFD);
        st = st ? st : add_norm(r, TEXT_DROP_ACCENTS);
    }
    return !st && lower ? add_norm(r, TEXT_LOWER) : st;
}

static hasten_status norm_step(struct reader *r, const json_t *step)
{
    static const struct {
        const char *name;
        enum text_op op;
    } plain[] = {{"NFC", TEXT_NFC},   {"NFD", TEXT_NFD},         {"NFKC", TEXT_NFKC},
                 {"NFKD", TEXT_NFKD}, {"Lowercase", TEXT_LOWER}, {"StripAccents", TEXT_DROP_MARKS}};
    const json_t *type = json_object_get(step, "type");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (json_text_is(type, plain[i].name))
            return add_norm(r, plain[i].op);
    if (json_text_is(type, "Replace"))
        return norm_replace(r, step);
    if (json_text_is(type, "Prepend"))
        return norm_prepend(r, step);
    if (json_text_is(type, "BertNormalizer"))
        return norm_bert(r, step);
    if (json_text_is(type, "Strip")) {
        hasten_status st = option(step, "strip_left", true) ? add_norm(r, TEXT_STRIP_LEFT) : HASTEN_OK;
        return !st && option(step, "strip_right", true) ? add_norm(r, TEXT_STRIP_RIGHT) : st;
    }
    return refuse(r, "step", shown(type));
}

/* ---- splits ------------------------------------------------------------------------------------------- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CONTRACTIONS_2 "'(?i:[sdmt]|ll|ve|re)"
#define FRONT "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define OTHER " ?[^\\s\\p{L}\\p{N}]+"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MIXED(behind) FRONT UPPER "*" LOWER "+" behind "|" FRONT UPPER "+" LOWER "*" behind
#define NO_HAN_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define NO_HAN_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define ASCII_SIGNS "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"

/* Expressions of Split, by their text, with line ends and tabs written \r \n \t. */
static const struct {
    const char *text;
    enum pretok_match match;
} expressions[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", MATCH_GPT2},
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)", MATCH_GPT2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", MATCH_GPT2},
    {CONTRACTIONS "|" FRONT "\\p{L}+|\\p{N}{1,3}|" OTHER "[\\r\\n]*" SPACES, MATCH_LLAMA3},
    {CONTRACTIONS_2 "|" FRONT
                    "+\\p{L}+|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     MATCH_LLAMA3},
    {CONTRACTIONS_2 "|" FRONT
                    "+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     MATCH_LLAMA3},
    {CONTRACTIONS "|" FRONT "\\p{L}+|\\p{N}|" OTHER "[\\r\\n]*" SPACES, MATCH_QWEN2},
    {CONTRACTIONS_2 "|" FRONT "+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     MATCH_QWEN2},
    {CONTRACTIONS "|" FRONT "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES,
     MATCH_QWEN35},
    {CONTRACTIONS "|" FRONT "\\p{L}+|\\p{N}+|" OTHER "[\\r\\n]*" SPACES, MATCH_MINICPM5},
    {CONTRACTIONS "|" FRONT "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES, MATCH_SEED_CODER},
    {FRONT "\\p{L}+|\\p{N}|" OTHER "[\\r\\n]*" SPACES, MATCH_UFAKZEKA},
    {CONTRACTIONS "|" FRONT "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" OTHER
                  "[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     MATCH_EXAONE_MOE},
    {CONTRACTIONS
     "|" FRONT "\\p{L}+|\\p{N}{1,3}|" OTHER
     "[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)"
     "|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}",
     MATCH_JAIS2},
    {MIXED(CONTRACTIONS "?") "|\\p{N}{1,3}|" OTHER "[\\r\\n/]*" SPACES, MATCH_GPT4O},
    {MIXED("") "|\\p{N}|" OTHER "[\\r\\n/]*" SPACES, MATCH_TEKKEN},
    {MIXED(CONTRACTIONS "?") "|\\p{N}|" OTHER "[\\r\\n/]*" SPACES, MATCH_YOUTU},
    {"[\\p{Han}]+|" FRONT NO_HAN_UPPER "*" NO_HAN_LOWER "+" CONTRACTIONS "?|" FRONT NO_HAN_UPPER
     "+" NO_HAN_LOWER "*" CONTRACTIONS "?|\\p{N}{1,3}|" OTHER "[\\r\\n]*" SPACES,
     MATCH_KIMI_K2},
    {ASCII_SIGNS "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES,
     MATCH_DEEPSEEK_V3},
    {ASCII_SIGNS
     "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
     MATCH_SPARK},
    {"\\p{N}", MATCH_NUMBER},
    {"\\p{N}+", MATCH_NUMBERS},
    {"\\p{N}{1,3}", MATCH_NUMBER_3},
    {"[0-9][0-9][0-9]", MATCH_ASCII_3},
    {"\\d{1,3}(?=(?:\\d{3})*\\b)", MATCH_THOUSANDS},
    {"(?=(\\d{3})+(?!\\d))", MATCH_DIGIT_GROUPS},
    {"[\\r\\n]", MATCH_NEWLINE},
    {"[^\\n]+|[\\n]+", MATCH_NEWLINES},
    {"\\s?\\p{L}+", MATCH_SPACE_LETTERS},
    {"\\s?\\p{P}+", MATCH_SPACE_PUNCT},
    {"\\s?[!-/:-~\xEF\xBC\x81-\xEF\xBC\x8F\xEF\xBC\x9A-\xEF\xBD\x9E\xE2\x80\x98-\xE2\x80\x9F\xE3\x80\x80-\xE3\x80\x82]+",
     MATCH_DEEPSEEK_PUNCT},
    {"\\s+$", MATCH_SPACES_AT_END},
    {"\\s+", MATCH_SPACE},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+", MATCH_CJK_WIDE},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+", MATCH_CJK},
    {" ?[^(\\s|.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C)]+",
     MATCH_BLOOM},
    {"<sentinel:[0-9]+>", MATCH_SENTINEL},
    {"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", MATCH_IMAGE},
    {"([\\t\\n]|    |  )", MATCH_CHAMELEON_SPACE},
    {"[\\p{P}!-/:-@\\[-`{-~]", MATCH_CHAMELEON_PUNCT},
};

/* Whether an expression of a file is the known one: a line end or tab may stand for itself. */
static bool same_expression(const char *file, size_t len, const char *known)
{
    size_t i = 0;
    for (; i < len && *known; i++) {
        char c = file[i];
        char e = c == '\r' ? 'r' : c == '\n' ? 'n' : c == '\t' ? 't' : 0;
        if (e ? known[0] != '\\' || known[1] != e : *known != c)
            return false;
        known += e ? 2 : 1;
    }
    return i == len && !*known;
}

static hasten_status add_split(struct reader *r, enum pretok_match m, int drop)
{
    struct text_recipe *recipe = &r->v->recipe;
    if (recipe->n_split == PRETOK_STEPS)
        return refuse(r, "number of steps", "more than 8");
    recipe->split[recipe->n_split++] = (struct pretok_step){(uint8_t)m, (uint8_t)drop};
    return HASTEN_OK;
}

/* \s?[letters]+ with deepseek-llm's list of letters, which is kept as a class (scripts/make_unicode_table.py): every
 * character that is listed is of the class, and there are as many. */
static bool is_deepseek_letters(const char *s, size_t len)
{
    const size_t end = len < 7 ? 0 : len - 2;
    uint32_t chars = 0;
    if (!end || memcmp(s, "\\s?[", 4) != 0 || memcmp(s + end, "]+", 2) != 0)
        return false;
    for (size_t i = 4; i < end;) {
        uint32_t lo, hi;
        int n = utf8_decode(s + i, end - i, &lo);
        i += n > 0 ? (size_t)n : len;
        hi = lo;
        if (i + 1 < end && s[i] == '-') {
            n = utf8_decode(s + i + 1, end - i - 1, &hi);
            i += n > 0 ? (size_t)n + 1 : len;
        }
        if (i > end || hi < lo || hi - lo + chars >= DEEPSEEK_LETTERS)
            return false;
        for (uint32_t c = lo; c <= hi; c++, chars++)
            if (!(unicode_class(c) & UNICODE_DEEPSEEK))
                return false;
    }
    return chars == DEEPSEEK_LETTERS;
}

static hasten_status split_step(struct reader *r, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern"), *text = json_object_get(pattern, "Regex");
    const json_t *behaviour = json_object_get(step, "behavior");
    bool invert = option(step, "invert", false);
    if (json_text_is(json_object_get(pattern, "String"), " ") &&
        json_text_is(behaviour, "MergedWithPrevious") && !invert)
        return add_split(r, MATCH_AFTER_SPACE, DROP_NOTHING);
    if (!json_is_string(text))
        return refuse(r, "text of Split", shown(json_object_get(pattern, "String")));
    int drop = json_text_is(behaviour, "Isolated")  ? DROP_NOTHING
               : json_text_is(behaviour, "Removed") ? invert ? DROP_GAPS : DROP_MATCHES
                                                    : -1;
    if (drop < 0)
        return refuse(r, "behaviour of Split", shown(behaviour));
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        if (same_expression(json_string_value(text), json_string_length(text), expressions[i].text))
            return add_split(r, expressions[i].match, drop);
    if (is_deepseek_letters(json_string_value(text), json_string_length(text)))
        return add_split(r, MATCH_DEEPSEEK_LETTERS, drop);
    return refuse(r, "expression of Split", shown(text));
}

/* Text put in front of each word: only where the text is not cut yet, so in front of the whole. */
static hasten_status add_pre(struct reader *r, struct text_step step, const char *what)
{
    struct text_recipe *recipe = &r->v->recipe;
    if (recipe->n_split)
        return refuse(r, "order: after a split", what);
    return add_text(r, recipe->pre, &recipe->n_pre, step);
}

static hasten_status pre_byte_level(struct reader *r, const json_t *step)
{
    hasten_status st = HASTEN_OK;
    r->byte_level = true;
    if (option(step, "add_prefix_space", true)) {
        st = add_pre(r, (struct text_step){.op = TEXT_PREPEND_MISSING, .to = {" ", 1}},
                     "ByteLevel with add_prefix_space");
        r->v->strip_prefix = true;
    }
    return !st && option(step, "use_regex", true) ? add_split(r, MATCH_GPT2, DROP_NOTHING) : st;
}

static hasten_status pre_metaspace(struct reader *r, const json_t *step)
{
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    struct gguf_str mark = {SPM_SPACE, SPM_SPACE_BYTES};
    bool never = scheme ? json_text_is(scheme, "never") : !option(step, "add_prefix_space", true);
    bool first = json_text_is(scheme, "first");
    if (!json_text_is(json_object_get(step, "replacement"), SPM_SPACE))
        return refuse(r, "replacement of Metaspace", shown(json_object_get(step, "replacement")));
    if (scheme && !never && !first && !json_text_is(scheme, "always"))
        return refuse(r, "prepend_scheme of Metaspace", shown(scheme));
    hasten_status st =
        add_pre(r, (struct text_step){.op = TEXT_REPLACE, .from = {" ", 1}, .to = mark}, "Metaspace");
    if (!st && !never) {
        st = add_pre(r, (struct text_step){.op = TEXT_PREPEND_MISSING, .first_only = first, .to = mark},
                     "Metaspace");
        r->v->strip_prefix = true;
    }
    return !st && option(step, "split", true) ? add_split(r, MATCH_METASPACE, DROP_NOTHING) : st;
}

static hasten_status pre_step(struct reader *r, const json_t *step)
{
    const json_t *type = json_object_get(step, "type"), *behaviour = json_object_get(step, "behavior");
    if (r->byte_level)
        return refuse(r, "order: behind ByteLevel", shown(type));
    if (json_text_is(type, "ByteLevel"))
        return pre_byte_level(r, step);
    if (json_text_is(type, "Split"))
        return split_step(r, step);
    if (json_text_is(type, "Metaspace"))
        return pre_metaspace(r, step);
    if (json_text_is(type, "Digits"))
        return add_split(r, option(step, "individual_digits", false) ? MATCH_DIGIT : MATCH_DIGIT_RUN,
                         DROP_NOTHING);
    if (json_text_is(type, "Whitespace"))
        return add_split(r, MATCH_WORD_STEP, DROP_GAPS);
    if (json_text_is(type, "WhitespaceSplit"))
        return add_split(r, MATCH_SPACE, DROP_MATCHES);
    if (json_text_is(type, "BertPreTokenizer")) {
        hasten_status st = add_split(r, MATCH_SPACE, DROP_MATCHES);
        return st ? st : add_split(r, MATCH_PUNCT_STEP, DROP_NOTHING);
    }
    if (json_text_is(type, "Punctuation")) {
        bool run = json_text_is(behaviour, "Contiguous");
        if (behaviour && !run && !json_text_is(behaviour, "Isolated"))
            return refuse(r, "behaviour of Punctuation", shown(behaviour));
        return add_split(r, run ? MATCH_PUNCT_RUN : MATCH_PUNCT_STEP, DROP_NOTHING);
    }
    return refuse(r, "step", shown(type));
}

/* ---- decoders ----------------------------------------------------------------------------------------- */

/* Decoding follows from the model and the steps before it (decode.c); the decoder must be of a kind that means so. */
static hasten_status decoder_step(struct reader *r, const json_t *step)
{
    static const char *const known[] = {"ByteLevel", "ByteFallback", "Fuse",     "Strip",
                                        "Replace",   "Metaspace",    "WordPiece"};
    const json_t *type = json_object_get(step, "type");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (json_text_is(type, known[i]))
            return HASTEN_OK;
    return refuse(r, "step", shown(type));
}

/* ---- the three parts ---------------------------------------------------------------------------------- */

/* Reads one part: a step, or a Sequence of steps in its list called items. */
static hasten_status read_part(struct reader *r, const json_t *doc, const char *part, const char *items,
                               hasten_status (*take)(struct reader *r, const json_t *step))
{
    const json_t *step = json_object_get(doc, part), *list = json_object_get(step, items);
    hasten_status st = HASTEN_OK;
    r->part = part;
    if (!step || json_is_null(step))
        return HASTEN_OK;
    if (!json_text_is(json_object_get(step, "type"), "Sequence"))
        return take(r, step);
    if (!json_is_array(list))
        return error_set(r->err, HASTEN_ERR_FILE, "%s: %s: a Sequence without %s", r->path, part, items);
    for (size_t i = 0; i < json_array_size(list) && !st; i++)
        st = take(r, json_array_get(list, i));
    return st;
}

hasten_status json_read_steps(struct vocab *v, const char *path, const json_t *doc, struct hasten_error *err)
{
    struct reader r = {.v = v, .path = path, .growth = 1, .err = err};
    v->owned_steps = mem_alloc((size_t)4 * RECIPE_TEXT_STEPS * STEP_TEXT_BYTES);
    if (!v->owned_steps)
        return error_set(err, HASTEN_ERR_MEMORY, "out of memory for the steps of a tokenizer");
    hasten_status st = read_part(&r, doc, "normalizer", "normalizers", norm_step);
    if (!st)
        st = read_part(&r, doc, "pre_tokenizer", "pretokenizers", pre_step);
    if (!st)
        st = read_part(&r, doc, "decoder", "decoders", decoder_step);
    v->recipe.raw = v->kind == VOCAB_BPE && !r.byte_level;
    return st;
}
