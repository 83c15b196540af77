/* What the matchers of pre-tokenisers share: reading characters of one piece of text, and remembered runs.
 *
 * A pre-tokeniser is a list of steps, each a matcher that says where a match that begins at a position ends. The
 * first step cuts the text into matches and what lies between them, the next one cuts each of these pieces on its
 * own, and so on (Split steps with behaviour Isolated in Hugging Face's `tokenizers`). pretokenize.c runs the
 * steps; pretok_words.c and pretok_scripts.c hold the matchers. Private to src/text. */
#ifndef HASTEN_TEXT_PRETOK_H
#define HASTEN_TEXT_PRETOK_H
#include "text/unicode.h"

enum pretok_match {
    MATCH_NONE, /* ends a list of steps */
    MATCH_GPT2,
    MATCH_LLAMA3,
    MATCH_QWEN2,
    MATCH_QWEN35,
    MATCH_MINICPM5,
    MATCH_SEED_CODER,
    MATCH_UFAKZEKA,
    MATCH_EXAONE_MOE,
    MATCH_JAIS2,
    MATCH_GPT4O,
    MATCH_TEKKEN,
    MATCH_YOUTU,
    MATCH_KIMI_K2,
    MATCH_DEEPSEEK_V3,
    MATCH_SPARK,
    MATCH_DIGIT,         /* one character that is numeric for the Digits step */
    MATCH_DIGIT_RUN,     /* a run of them */
    MATCH_NUMBER,        /* \p{N} */
    MATCH_NUMBERS,       /* \p{N}+ */
    MATCH_NUMBER_3,      /* \p{N}{1,3} */
    MATCH_ASCII_3,       /* [0-9][0-9][0-9] */
    MATCH_THOUSANDS,     /* \d{1,3}(?=(?:\d{3})*\b) */
    MATCH_NUMBER_GROUPS, /* \p{N} in groups of three from the right, the first group shorter */
    MATCH_DIGIT_GROUPS,  /* cuts at (?=(\d{3})+(?!\d)) */
    MATCH_FALCON_PUNCT,  /* [\p{P}\$\+<=>\^~\|`]+ */
    MATCH_DEFAULT_PUNCT, /* the same without ` */
    MATCH_NEWLINE,       /* [\r\n] */
    MATCH_NEWLINES,      /* [^\n]+|[\n]+ */
    MATCH_SPACE_LETTERS, /* \s?\p{L}+ */
    MATCH_SPACE_PUNCT,   /* \s?\p{P}+ */
    MATCH_DEEPSEEK_LETTERS,
    MATCH_DEEPSEEK_PUNCT,
    MATCH_SPACES_AT_END, /* \s+$ */
    MATCH_CJK_WIDE,      /* [U+4E00-U+9FA5 U+0800-U+4E00 U+AC00-U+D7FF]+ */
    MATCH_CJK,           /* [U+4E00-U+9FA5 U+3040-U+309F U+30A0-U+30FF]+ */
    MATCH_CJK_AFMOE,
    MATCH_CJK_YOUTU,
    MATCH_BLOOM, /* ' ?[^(\s|.,!?…。，、।۔،)]+' */
    MATCH_SENTINEL,
    MATCH_IMAGE,
    MATCH_CHAMELEON_SPACE,
    MATCH_CHAMELEON_PUNCT,
    MATCH_SPACE,       /* \s+ */
    MATCH_WORD_STEP,   /* \w+|[^\w\s]+ */
    MATCH_PUNCT_STEP,  /* one punctuation character of the steps BertPreTokenizer and Punctuation */
    MATCH_PUNCT_RUN,   /* a run of them */
    MATCH_AFTER_SPACE, /* up to and with the next U+0020 */
    MATCH_METASPACE,   /* up to the next U+2581 */
    MATCH_N
};

enum { /* what a step does not pass on */
    DROP_NOTHING,
    DROP_MATCHES,
    DROP_GAPS
};

struct scan {
    const char *text;
    size_t len; /* the piece ends here */
    /* Run that was walked last, so that no run is walked once for every position in it. */
    size_t run_pos, run_end; /* run_left characters from run_pos to run_end; or, of spaces, where it begins */
    size_t run_left;
    size_t run_newline; /* of spaces: behind its last line end; 0: none */
    size_t run_line;    /* of spaces: its last U+000A; 0: none, or at the very beginning */
};

struct ch {
    uint32_t cp;
    unsigned cls; /* UNICODE_* flags */
    size_t n;     /* bytes; 0: the piece ends here */
};

static inline struct ch peek(const struct scan *s, size_t pos)
{
    struct ch c = {0, 0, 0};
    if (pos < s->len) {
        c.n = (size_t)utf8_decode(s->text + pos, s->len - pos, &c.cp);
        c.cls = unicode_class(c.cp);
    }
    return c;
}

static inline bool has(struct ch c, unsigned classes)
{
    return c.n && (c.cls & classes);
}

static inline bool lacks(struct ch c, unsigned classes)
{
    return c.n && !(c.cls & classes);
}

static inline bool is_newline(struct ch c)
{
    return c.n && (c.cp == '\r' || c.cp == '\n');
}

/* End of the run of characters with (skip_out: without) any of the classes. */
size_t skip_in(const struct scan *s, size_t pos, unsigned classes);
size_t skip_out(const struct scan *s, size_t pos, unsigned classes);
/* Walks the run of spaces that begins at pos, unless it is the remembered one: run_end, run_newline, run_line. */
void pretok_walk_spaces(struct scan *s, size_t pos);

/* End of the match that begins at pos < s->len; pos itself: none. */
typedef size_t (*pretok_matcher)(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_gpt2(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_words(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_mixed(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_deepseek(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_numbers(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_runs(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_lists(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_groups(enum pretok_match m, struct scan *s, size_t pos);
size_t pretok_spaces(enum pretok_match m, struct scan *s, size_t pos);

/* ---- the way through all steps ------------------------------------------------------------------------ */

#define PRETOK_STEPS 8

struct pretok_step {
    uint8_t match; /* enum pretok_match */
    uint8_t drop;
};

struct pretok_level {
    struct scan scan;
    size_t pos, match, match_end; /* cut up to pos; the match ahead */
};

struct pretok {
    const struct pretok_step *steps; /* [n] */
    int n, depth;
    struct pretok_level levels[PRETOK_STEPS + 1];
};

void pretok_begin(struct pretok *p, const struct pretok_step *steps, int n, const char *text, size_t len);
/* The next word; false: the text is used up. */
bool pretok_next(struct pretok *p, size_t *start, size_t *end);

#endif
