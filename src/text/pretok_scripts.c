/* Owns the matchers of the shorter expressions that pre-tokenisers put in front: digits, runs of one class or of a
 * list of characters, spaces. pretok.h says what each matches; the expressions are facts of the models'
 * tokenizer.json files as llama.cpp's src/llama-vocab.cpp lists them. */
#include "text/pretok.h"
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------------ */

static size_t up_to(const struct scan *s, size_t pos, unsigned classes, int most)
{
    for (struct ch c; most > 0 && has(c = peek(s, pos), classes); most--)
        pos += c.n;
    return pos;
}

static bool is_ascii_digit(const struct scan *s, size_t pos)
{
    return pos < s->len && s->text[pos] >= '0' && s->text[pos] <= '9';
}

size_t pretok_numbers(enum pretok_match m, struct scan *s, size_t pos)
{
    switch (m) {
    case MATCH_DIGIT:
        return up_to(s, pos, UNICODE_DIGIT, 1);
    case MATCH_DIGIT_RUN:
        return skip_in(s, pos, UNICODE_DIGIT);
    case MATCH_NUMBER:
        return up_to(s, pos, UNICODE_NUMBER, 1);
    case MATCH_NUMBER_3:
        return up_to(s, pos, UNICODE_NUMBER, 3);
    case MATCH_ASCII_3:
        return is_ascii_digit(s, pos) && is_ascii_digit(s, pos + 1) && is_ascii_digit(s, pos + 2) ? pos + 3
                                                                                                  : pos;
    default:
        return skip_in(s, pos, UNICODE_NUMBER);
    }
}

/* Walks the run of characters of a class that begins at pos, unless it is the remembered one. */
static void walk_run(struct scan *s, size_t pos, unsigned class)
{
    if (pos >= s->run_pos && pos < s->run_end)
        return;
    s->run_pos = pos;
    s->run_left = 0;
    for (struct ch c; has(c = peek(s, pos), class); pos += c.n)
        s->run_left++;
    s->run_end = pos;
}

/* The next n characters of the remembered run, which begins at pos. */
static size_t take_of_run(struct scan *s, size_t pos, size_t n)
{
    s->run_left -= n;
    for (; n > 0; n--)
        pos += peek(s, pos).n;
    s->run_pos = pos;
    return pos;
}

static size_t first_group(size_t n)
{
    return n % 3 ? n % 3 : 3;
}

/* Up to the next place where the number of digits to the end of their run is a multiple of three, zero excepted. */
static size_t digit_groups(struct scan *s, size_t pos)
{
    for (bool begun = false; pos < s->len; begun = true) {
        if (!has(peek(s, pos), UNICODE_DECIMAL)) {
            pos = skip_out(s, pos, UNICODE_DECIMAL);
            continue;
        }
        walk_run(s, pos, UNICODE_DECIMAL);
        if (begun && s->run_left % 3 == 0)
            return pos;
        size_t n = first_group(s->run_left);
        if (n < s->run_left)
            return take_of_run(s, pos, n);
        pos = s->run_end;
    }
    return pos;
}

size_t pretok_groups(enum pretok_match m, struct scan *s, size_t pos)
{
    unsigned class = m == MATCH_NUMBER_GROUPS ? UNICODE_NUMBER : UNICODE_DECIMAL;
    if (m == MATCH_DIGIT_GROUPS)
        return digit_groups(s, pos);
    if (!has(peek(s, pos), class))
        return pos;
    walk_run(s, pos, class);
    if (m == MATCH_THOUSANDS && has(peek(s, s->run_end), UNICODE_WORD))
        return pos; /* no \b behind the run: no group of it matches */
    return take_of_run(s, pos, first_group(s->run_left));
}

/* ---- runs of a class ---------------------------------------------------------------------------------- */

/* \s?[class]+ */
static size_t space_and_run(const struct scan *s, size_t pos, unsigned class)
{
    struct ch c = peek(s, pos);
    if (has(c, UNICODE_SPACE) && has(peek(s, pos + c.n), class))
        pos += c.n;
    else if (!has(c, class))
        return pos;
    return skip_in(s, pos, class);
}

static bool begins(const struct scan *s, size_t pos, const char *text)
{
    size_t n = strlen(text);
    return s->len - pos >= n && memcmp(s->text + pos, text, n) == 0;
}

/* <sentinel:[0-9]+> */
static size_t sentinel(const struct scan *s, size_t pos)
{
    if (!begins(s, pos, "<sentinel:"))
        return pos;
    size_t digits = pos + 10, end = digits;
    while (is_ascii_digit(s, end))
        end++;
    return end > digits && end < s->len && s->text[end] == '>' ? end + 1 : pos;
}

/* IMGIMG[A-I]{1,4}Z */
static size_t image(const struct scan *s, size_t pos)
{
    if (!begins(s, pos, "IMGIMG"))
        return pos;
    size_t end = pos + 6;
    while (end < s->len && end < pos + 10 && s->text[end] >= 'A' && s->text[end] <= 'I')
        end++;
    return end > pos + 6 && end < s->len && s->text[end] == 'Z' ? end + 1 : pos;
}

static size_t newlines(const struct scan *s, size_t pos)
{
    bool newline = s->text[pos] == '\n';
    while (pos < s->len && (s->text[pos] == '\n') == newline)
        pos++;
    return pos;
}

size_t pretok_runs(enum pretok_match m, struct scan *s, size_t pos)
{
    struct ch c = peek(s, pos);
    switch (m) {
    case MATCH_NEWLINE:
        return is_newline(c) ? pos + 1 : pos;
    case MATCH_NEWLINES:
        return newlines(s, pos);
    case MATCH_SPACE_LETTERS:
        return space_and_run(s, pos, UNICODE_LETTER);
    case MATCH_SPACE_PUNCT:
        return space_and_run(s, pos, UNICODE_PUNCT);
    case MATCH_DEEPSEEK_LETTERS:
        return space_and_run(s, pos, UNICODE_DEEPSEEK);
    case MATCH_SENTINEL:
        return sentinel(s, pos);
    case MATCH_IMAGE:
        return image(s, pos);
    case MATCH_CHAMELEON_PUNCT:
        return has(c, UNICODE_PUNCT) || (c.cp < 0x80 && has(c, UNICODE_SYMBOL)) ? pos + c.n : pos;
    case MATCH_PUNCT_STEP:
        return up_to(s, pos, UNICODE_BERT_PUNCT, 1);
    case MATCH_PUNCT_RUN:
        return skip_in(s, pos, UNICODE_BERT_PUNCT);
    default: /* MATCH_WORD_STEP */
        if (has(c, UNICODE_STEP_WORD))
            return skip_in(s, pos, UNICODE_STEP_WORD);
        return skip_out(s, pos, UNICODE_STEP_WORD | UNICODE_SPACE);
    }
}

/* ---- runs of listed characters ------------------------------------------------------------------------ */

struct span {
    uint32_t lo, hi;
};

static const struct span falcon_punct[] = {{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'},
                                           {'|', '|'}, {'~', '~'}, {'`', '`'}};
static const struct span deepseek_punct[] = {{'!', '/'},       {':', '~'},       {0xFF01, 0xFF0F},
                                             {0xFF1A, 0xFF5E}, {0x2018, 0x201F}, {0x3000, 0x3002}};
static const struct span cjk_wide[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
static const struct span cjk[] = {{0x4E00, 0x9FA5}, {0x3040, 0x30FF}};
static const struct span cjk_afmoe[] = {{0x3040, 0x30FF}, {0x3400, 0x4DBF}, {0x4E00, 0xFAFF},
                                        {0xFF65, 0xFF9F}, {0x2F00, 0x2FDF}, {0x0E40, 0x0EFF},
                                        {0x1780, 0x17FF}, {0x1000, 0x109F}, {0x1100, 0x11FF}};
static const struct span youtu_hangul[] = {{0xAC00, 0xD7A3}, {0x3131, 0x318E}};
static const struct span youtu_signs[] = {{0xFF01, 0xFF01}, {0x2026, 0x2026}, {0x201C, 0x201D},
                                          {0x2018, 0x2019}, {0x2014, 0x2014}, {0xFF1A, 0xFF1B},
                                          {0xFF0C, 0xFF0C}, {0x3001, 0x303F}, {0xFE30, 0xFE4F}};
static const struct span youtu_bopomofo[] = {{0x3105, 0x312F}};
static const struct span bloom_borders[] = {
    {'(', ')'},       {'|', '|'},       {'.', '.'},       {',', ','},     {'!', '!'},     {'?', '?'},
    {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}, {0x964, 0x964}, {0x6D4, 0x6D4}, {0x60C, 0x60C}};

struct list {
    const struct span *spans;
    size_t n;
    unsigned classes; /* also in it */
    bool inverse;     /* what is not listed and not of these classes */
};

#define LIST(spans, ...)                                                                                     \
    {                                                                                                        \
        (spans), sizeof(spans) / sizeof *(spans), __VA_ARGS__                                                \
    }

static bool in_list(struct ch c, const struct list *l)
{
    bool in = has(c, l->classes);
    for (size_t i = 0; i < l->n && !in; i++)
        in = c.cp >= l->spans[i].lo && c.cp <= l->spans[i].hi;
    return c.n && in != l->inverse;
}

/* A run of listed characters; space: one character of these classes may stand in front. */
static size_t run_of_list(const struct scan *s, size_t pos, const struct list *l)
{
    for (struct ch c; in_list(c = peek(s, pos), l);)
        pos += c.n;
    return pos;
}

static size_t youtu(const struct scan *s, size_t pos)
{
    static const struct list lists[] = {LIST(youtu_hangul, 0, false), LIST(youtu_signs, 0, false),
                                        LIST(youtu_bopomofo, 0, false), LIST(cjk, 0, false)};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (in_list(peek(s, pos), &lists[i]))
            return run_of_list(s, pos, &lists[i]);
    return pos;
}

size_t pretok_lists(enum pretok_match m, struct scan *s, size_t pos)
{
    static const struct list falcon = LIST(falcon_punct, UNICODE_PUNCT, false),
                             deepseek = LIST(deepseek_punct, 0, false), wide = LIST(cjk_wide, 0, false),
                             narrow = LIST(cjk, 0, false), afmoe = LIST(cjk_afmoe, 0, false),
                             bloom = LIST(bloom_borders, UNICODE_SPACE, true);
    struct list plain = falcon; /* without the last one, ` */
    struct ch c = peek(s, pos);
    switch (m) {
    case MATCH_FALCON_PUNCT:
        return run_of_list(s, pos, &falcon);
    case MATCH_DEFAULT_PUNCT:
        plain.n--;
        return run_of_list(s, pos, &plain);
    case MATCH_CJK_WIDE:
        return run_of_list(s, pos, &wide);
    case MATCH_CJK:
        return run_of_list(s, pos, &narrow);
    case MATCH_CJK_AFMOE:
        return run_of_list(s, pos, &afmoe);
    case MATCH_CJK_YOUTU:
        return youtu(s, pos);
    case MATCH_DEEPSEEK_PUNCT:
        if (has(c, UNICODE_SPACE) && in_list(peek(s, pos + c.n), &deepseek))
            pos += c.n;
        return run_of_list(s, pos, &deepseek);
    default: /* MATCH_BLOOM */
        if (c.cp == ' ' && in_list(peek(s, pos + 1), &bloom))
            pos++;
        return run_of_list(s, pos, &bloom);
    }
}

/* ---- spaces ------------------------------------------------------------------------------------------- */

/* \s+$, where $ stands before a line end too */
static size_t spaces_at_end(struct scan *s, size_t pos)
{
    if (!has(peek(s, pos), UNICODE_SPACE))
        return pos;
    pretok_walk_spaces(s, pos);
    if (s->run_end == s->len)
        return s->run_end;
    return s->run_line > pos ? s->run_line : pos;
}

static size_t up_to_text(const struct scan *s, size_t pos, const char *text)
{
    while (pos < s->len && !begins(s, pos, text))
        pos++;
    return pos;
}

size_t pretok_spaces(enum pretok_match m, struct scan *s, size_t pos)
{
    char c = s->text[pos];
    switch (m) {
    case MATCH_SPACES_AT_END:
        return spaces_at_end(s, pos);
    case MATCH_CHAMELEON_SPACE:
        if (c == '\t' || c == '\n')
            return pos + 1;
        return begins(s, pos, "    ") ? pos + 4 : begins(s, pos, "  ") ? pos + 2 : pos;
    case MATCH_AFTER_SPACE:
        pos = up_to_text(s, pos, " ");
        return pos < s->len ? pos + 1 : pos;
    case MATCH_METASPACE:
        return up_to_text(s, pos + 1, "\xE2\x96\x81");
    default: /* MATCH_SPACE */
        return skip_in(s, pos, UNICODE_SPACE);
    }
}
