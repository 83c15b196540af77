/* Owns the cutting of text into words before BPE or WordPiece: runs the steps of a pre-tokeniser, whose matchers
 * are in pretok_words.c and pretok_scripts.c.
 *
 * The matchers are written by hand, not with PCRE2: the reference (Hugging Face, Oniguruma) and PCRE2 follow
 * different Unicode versions, \s+(?!\S) backtracks, and each alternative is one run of a character class, so a
 * matcher is short and linear for sure. A step walks its piece once; nothing is stored but the places at each
 * step, so a text costs its length times the number of steps (at most PRETOK_STEPS). */
#include "text/pretok.h"
#include "text/vocab_internal.h"

static const pretok_matcher matchers[MATCH_N] = {
    [MATCH_GPT2] = pretok_gpt2,
    [MATCH_LLAMA3] = pretok_words,
    [MATCH_QWEN2] = pretok_words,
    [MATCH_QWEN35] = pretok_words,
    [MATCH_MINICPM5] = pretok_words,
    [MATCH_SEED_CODER] = pretok_words,
    [MATCH_UFAKZEKA] = pretok_words,
    [MATCH_EXAONE_MOE] = pretok_words,
    [MATCH_JAIS2] = pretok_words,
    [MATCH_GPT4O] = pretok_mixed,
    [MATCH_TEKKEN] = pretok_mixed,
    [MATCH_YOUTU] = pretok_mixed,
    [MATCH_KIMI_K2] = pretok_mixed,
    [MATCH_DEEPSEEK_V3] = pretok_deepseek,
    [MATCH_SPARK] = pretok_deepseek,
    [MATCH_DIGIT] = pretok_numbers,
    [MATCH_DIGIT_RUN] = pretok_numbers,
    [MATCH_NUMBER] = pretok_numbers,
    [MATCH_NUMBERS] = pretok_numbers,
    [MATCH_NUMBER_3] = pretok_numbers,
    [MATCH_ASCII_3] = pretok_numbers,
    [MATCH_THOUSANDS] = pretok_groups,
    [MATCH_NUMBER_GROUPS] = pretok_groups,
    [MATCH_DIGIT_GROUPS] = pretok_groups,
    [MATCH_FALCON_PUNCT] = pretok_lists,
    [MATCH_DEFAULT_PUNCT] = pretok_lists,
    [MATCH_NEWLINE] = pretok_runs,
    [MATCH_NEWLINES] = pretok_runs,
    [MATCH_SPACE_LETTERS] = pretok_runs,
    [MATCH_SPACE_PUNCT] = pretok_runs,
    [MATCH_DEEPSEEK_LETTERS] = pretok_runs,
    [MATCH_DEEPSEEK_PUNCT] = pretok_lists,
    [MATCH_SPACES_AT_END] = pretok_spaces,
    [MATCH_CJK_WIDE] = pretok_lists,
    [MATCH_CJK] = pretok_lists,
    [MATCH_CJK_AFMOE] = pretok_lists,
    [MATCH_CJK_YOUTU] = pretok_lists,
    [MATCH_BLOOM] = pretok_lists,
    [MATCH_SENTINEL] = pretok_runs,
    [MATCH_IMAGE] = pretok_runs,
    [MATCH_CHAMELEON_SPACE] = pretok_spaces,
    [MATCH_CHAMELEON_PUNCT] = pretok_runs,
    [MATCH_SPACE] = pretok_spaces,
    [MATCH_WORD_STEP] = pretok_runs,
    [MATCH_PUNCT_STEP] = pretok_runs,
    [MATCH_PUNCT_RUN] = pretok_runs,
    [MATCH_AFTER_SPACE] = pretok_spaces,
    [MATCH_METASPACE] = pretok_spaces,
};

static void level_begin(struct pretok_level *l, const char *text, size_t pos, size_t end)
{
    *l =
        (struct pretok_level){.scan = {.text = text, .len = end}, .pos = pos, .match = pos, .match_end = pos};
}

void pretok_begin(struct pretok *p, const struct pretok_step *steps, int n, const char *text, size_t len)
{
    p->steps = steps;
    p->n = n;
    p->depth = 0;
    level_begin(&p->levels[0], text, 0, len);
}

/* Finds the next match at or after pos; none: match and match_end are the end of the piece. */
static void level_find(struct pretok_level *l, enum pretok_match m)
{
    struct scan *s = &l->scan;
    size_t pos = l->pos;
    while (pos < s->len) {
        size_t end = matchers[m](m, s, pos);
        if (end > pos) {
            l->match = pos;
            l->match_end = end;
            return;
        }
        pos += peek(s, pos).n;
    }
    l->match = l->match_end = s->len;
}

bool pretok_next(struct pretok *p, size_t *start, size_t *end)
{
    while (p->depth >= 0) {
        struct pretok_level *l = &p->levels[p->depth];
        if (l->pos >= l->scan.len) {
            p->depth--;
            continue;
        }
        *start = l->pos;
        if (p->depth == p->n) { /* through all steps */
            *end = l->pos = l->scan.len;
            return true;
        }
        struct pretok_step step = p->steps[p->depth];
        if (l->match_end <= l->pos)
            level_find(l, (enum pretok_match)step.match);
        bool gap = l->pos < l->match;
        *end = gap ? l->match : l->match_end;
        l->pos = *end;
        if (step.drop != (gap ? DROP_GAPS : DROP_MATCHES))
            level_begin(&p->levels[++p->depth], l->scan.text, *start, *end);
    }
    return false;
}
