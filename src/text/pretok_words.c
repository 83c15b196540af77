/* Owns the matchers of the expressions that most pre-tokenisers end with: a word with a character in front, numbers,
 * other characters, spaces. The expressions are facts of the models' tokenizer.json files; llama.cpp's
 * src/llama-vocab.cpp lists which name stands for which.
 *
 *   GPT-2   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   words   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
 *           |\s+(?!\S)|\s+    (llama3; the others differ as struct word_rule says)
 *   mixed   [^\r\n\p{L}\p{N}]?U*W+(?i:'s|...)?|[^\r\n\p{L}\p{N}]?U+W*(?i:'s|...)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*
 *           |\s*[\r\n]+|\s+(?!\S)|\s+    with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W = [\p{Ll}\p{Lm}\p{Lo}\p{M}] (gpt-4o)
 *   deepseek-v3   [!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *           with ASCII punctuation for [!-/:-~] */
#include "text/pretok.h"

enum tail { /* what follows a run of other characters */
    TAIL_NONE,
    TAIL_NEWLINES,       /* [\r\n]* */
    TAIL_NEWLINES_SLASH, /* [\r\n/]* */
    TAIL_ONE             /* [\r\n/]? */
};

struct word_rule {
    bool contractions, marks; /* marks: they belong to letters, [\p{L}\p{M}] */
    bool phrases;             /* letters, each with its marks, and single spaces between them make one word */
    uint8_t digits;           /* characters of one number; 0: any */
    uint8_t tail;
    bool steps; /* spaces in powers of two (jais-2) */
};

static const struct word_rule rules[] = {
    [MATCH_LLAMA3] = {.contractions = true, .digits = 3, .tail = TAIL_NEWLINES},
    [MATCH_QWEN2] = {.contractions = true, .digits = 1, .tail = TAIL_NEWLINES},
    [MATCH_QWEN35] = {.contractions = true, .marks = true, .digits = 1, .tail = TAIL_NEWLINES},
    [MATCH_MINICPM5] = {.contractions = true, .tail = TAIL_NEWLINES},
    [MATCH_SEED_CODER] = {.contractions = true, .digits = 1},
    [MATCH_UFAKZEKA] = {.digits = 1, .tail = TAIL_NEWLINES},
    [MATCH_EXAONE_MOE] = {.contractions = true, .phrases = true, .digits = 1, .tail = TAIL_ONE},
    [MATCH_JAIS2] = {.contractions = true, .digits = 3, .tail = TAIL_NEWLINES, .steps = true},
};

size_t skip_in(const struct scan *s, size_t pos, unsigned classes)
{
    for (struct ch c; has(c = peek(s, pos), classes);)
        pos += c.n;
    return pos;
}

size_t skip_out(const struct scan *s, size_t pos, unsigned classes)
{
    for (struct ch c; lacks(c = peek(s, pos), classes);)
        pos += c.n;
    return pos;
}

/* Length of an English contraction at pos, which holds an apostrophe; 0: none. any_case also takes U+017F for s. */
static size_t contraction(const struct scan *s, size_t pos, bool any_case)
{
    struct ch a = peek(s, pos + 1), b;
    uint32_t c = a.cp, d;
    if (!a.n)
        return 0;
    if (any_case && c == 0x17F)
        c = 's';
    if (any_case && c < 0x80)
        c |= 0x20;
    if (c == 's' || c == 't' || c == 'm' || c == 'd')
        return 1 + a.n;
    if (c != 'r' && c != 'v' && c != 'l')
        return 0;
    b = peek(s, pos + 2);
    d = any_case && b.cp < 0x80 ? b.cp | 0x20 : b.cp;
    return b.n && d == (c == 'l' ? 'l' : 'e') ? 3 : 0;
}

static size_t tail_end(const struct scan *s, size_t pos, enum tail tail)
{
    for (struct ch c; tail != TAIL_NONE; pos += c.n) {
        c = peek(s, pos);
        bool slash = c.n && c.cp == '/' && tail != TAIL_NEWLINES;
        if (!is_newline(c) && !slash)
            break;
        if (tail == TAIL_ONE)
            return pos + c.n;
    }
    return pos;
}

void pretok_walk_spaces(struct scan *s, size_t pos)
{
    if (pos >= s->run_pos && pos < s->run_end)
        return;
    s->run_pos = pos;
    s->run_newline = s->run_line = 0;
    struct ch c;
    while (has(c = peek(s, pos), UNICODE_SPACE)) {
        if (c.cp == '\n')
            s->run_line = pos;
        pos += c.n;
        if (is_newline(c))
            s->run_newline = pos;
    }
    s->run_end = pos;
}

/* \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} */
static size_t spaces_in_steps(const struct scan *s, size_t pos)
{
    size_t ends[513], n = 0; /* ends[k]: behind the k-th space, as long as no other character follows */
    size_t at = pos;
    for (struct ch c; n < 512 && has(c = peek(s, at), UNICODE_SPACE); ends[n] = at) {
        at += c.n;
        n++;
    }
    if (lacks(peek(s, at), UNICODE_SPACE))
        n--;
    for (size_t k = 512; k >= 4; k /= 2)
        if (k <= n)
            return ends[k];
    return n >= 2 ? ends[2] : pos + peek(s, pos).n;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ at a space. */
static size_t spaces(struct scan *s, size_t pos, bool newlines)
{
    pretok_walk_spaces(s, pos);
    if (newlines && s->run_newline > pos)
        return s->run_newline;
    /* \s+(?!\S): up to the end of the text, or all but the last, which belongs to the word that follows */
    if (s->run_end == s->len)
        return s->run_end;
    size_t last = s->run_end - 1;
    while (((unsigned char)s->text[last] & 0xC0) == 0x80)
        last--;
    return last == pos ? s->run_end : last;
}

size_t pretok_gpt2(enum pretok_match m, struct scan *s, size_t pos)
{
    (void)m;
    struct ch c = peek(s, pos);
    size_t n = c.cp == '\'' ? contraction(s, pos, false) : 0;
    if (n)
        return pos + n;
    size_t word = c.cp == ' ' ? pos + 1 : pos; /* " ?" */
    struct ch d = peek(s, word);
    if (has(d, UNICODE_LETTER))
        return skip_in(s, word, UNICODE_LETTER);
    if (has(d, UNICODE_NUMBER))
        return skip_in(s, word, UNICODE_NUMBER);
    if (lacks(d, UNICODE_SPACE))
        return skip_out(s, word, UNICODE_SPACE | UNICODE_LETTER | UNICODE_NUMBER);
    return spaces(s, pos, false);
}

static size_t number(const struct scan *s, size_t pos, int digits)
{
    if (!digits)
        return skip_in(s, pos, UNICODE_NUMBER);
    for (struct ch c; digits > 0 && has(c = peek(s, pos), UNICODE_NUMBER); digits--)
        pos += c.n;
    return pos;
}

/* (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ */
static size_t phrase(const struct scan *s, size_t pos)
{
    for (;;) {
        pos = skip_in(s, pos, UNICODE_LETTER | UNICODE_MARK);
        if (peek(s, pos).cp != ' ' || !has(peek(s, pos + 1), UNICODE_LETTER))
            return pos;
        pos++;
    }
}

size_t pretok_words(enum pretok_match m, struct scan *s, size_t pos)
{
    const struct word_rule *r = &rules[m];
    const unsigned letters = r->marks ? UNICODE_LETTER | UNICODE_MARK : UNICODE_LETTER;
    struct ch c = peek(s, pos);
    size_t n = r->contractions && c.cp == '\'' ? contraction(s, pos, true) : 0;
    if (n)
        return pos + n;
    size_t word = has(c, letters) ? pos : pos + c.n;
    if (word == pos || (!is_newline(c) && !has(c, UNICODE_NUMBER) && has(peek(s, word), letters)))
        return r->phrases ? phrase(s, word) : skip_in(s, word, letters);
    if (has(c, UNICODE_NUMBER))
        return number(s, pos, r->digits);
    word = c.cp == ' ' ? pos + 1 : pos;
    const unsigned known = UNICODE_SPACE | UNICODE_NUMBER | letters;
    if (lacks(peek(s, word), known))
        return tail_end(s, skip_out(s, word, known), (enum tail)r->tail);
    if (r->steps) {
        pretok_walk_spaces(s, pos);
        if (s->run_newline <= pos)
            return spaces_in_steps(s, pos);
    }
    return spaces(s, pos, true);
}

/* ---- mixed: words that begin with capitals ------------------------------------------------------------ */

struct mixed_rule {
    bool contractions, han; /* han: Han characters are words of their own */
    uint8_t digits, tail;
};

static const struct mixed_rule mixed[] = {
    [MATCH_GPT4O] = {.contractions = true, .digits = 3, .tail = TAIL_NEWLINES_SLASH},
    [MATCH_TEKKEN] = {.digits = 1, .tail = TAIL_NEWLINES_SLASH},
    [MATCH_YOUTU] = {.contractions = true, .digits = 1, .tail = TAIL_NEWLINES_SLASH},
    [MATCH_KIMI_K2] = {.contractions = true, .han = true, .digits = 3, .tail = TAIL_NEWLINES},
};

static bool in_upper(struct ch c, bool han) /* U */
{
    return has(c, UNICODE_LETTER | UNICODE_MARK) && !(c.cls & UNICODE_LOWER) &&
           !(han && (c.cls & UNICODE_HAN));
}

static bool in_lower(struct ch c, bool han) /* W */
{
    return has(c, UNICODE_LETTER | UNICODE_MARK) && !(c.cls & UNICODE_UPPER) &&
           !(han && (c.cls & UNICODE_HAN));
}

/* U*W+ at pos; pos: no match. *upper: end of the longest U*. Greedy, so after the longest U*; when no W follows
 * there, U* gives back as much as is needed for its last character that is also a W. */
static size_t upper_lower(const struct scan *s, size_t pos, bool han, size_t *upper)
{
    size_t at = pos, both = pos; /* both: behind the last character of U that is in W too */
    struct ch c;
    while (in_upper(c = peek(s, at), han)) {
        at += c.n;
        if (in_lower(c, han))
            both = at;
    }
    *upper = at;
    if (!in_lower(c, han))
        return both;
    while (in_lower(c = peek(s, at), han))
        at += c.n;
    return at;
}

/* The two alternatives of words; pos: neither. */
static size_t mixed_word(const struct scan *s, size_t pos, bool han)
{
    struct ch c = peek(s, pos);
    bool prefix = lacks(c, UNICODE_LETTER | UNICODE_NUMBER) && !is_newline(c);
    size_t upper[2] = {pos, pos};
    size_t end = prefix ? upper_lower(s, pos + c.n, han, &upper[0]) : pos;
    if (prefix && end > pos + c.n)
        return end;
    end = upper_lower(s, pos, han, &upper[1]);
    if (end > pos)
        return end;
    return prefix && upper[0] > pos + c.n ? upper[0] : upper[1]; /* U+, no W behind it */
}

size_t pretok_mixed(enum pretok_match m, struct scan *s, size_t pos)
{
    const struct mixed_rule *r = &mixed[m];
    struct ch c = peek(s, pos);
    if (r->han && has(c, UNICODE_HAN))
        return skip_in(s, pos, UNICODE_HAN);
    size_t end = mixed_word(s, pos, r->han);
    if (end > pos)
        return r->contractions && peek(s, end).cp == '\'' ? end + contraction(s, end, true) : end;
    if (has(c, UNICODE_NUMBER))
        return number(s, pos, r->digits);
    size_t word = c.cp == ' ' ? pos + 1 : pos;
    const unsigned known = UNICODE_SPACE | UNICODE_LETTER | UNICODE_NUMBER;
    if (lacks(peek(s, word), known))
        return tail_end(s, skip_out(s, word, known), (enum tail)r->tail);
    return has(c, UNICODE_SPACE) ? spaces(s, pos, true) : pos;
}

/* ---- deepseek-v3 -------------------------------------------------------------------------------------- */

static size_t ascii_letters(const struct scan *s, size_t pos)
{
    while (pos < s->len && (s->text[pos] | 0x20) >= 'a' && (s->text[pos] | 0x20) <= 'z')
        pos++;
    return pos;
}

size_t pretok_deepseek(enum pretok_match m, struct scan *s, size_t pos)
{
    const unsigned letters = UNICODE_LETTER | UNICODE_MARK, signs = UNICODE_PUNCT | UNICODE_SYMBOL;
    struct ch c = peek(s, pos);
    size_t end = c.cp < 0x80 && has(c, signs) ? ascii_letters(s, pos + 1) : pos;
    if (end > pos + 1)
        return end;
    if (!is_newline(c) && lacks(c, UNICODE_LETTER | signs) && has(peek(s, pos + c.n), letters))
        return skip_in(s, pos + c.n, letters);
    if (has(c, letters))
        return skip_in(s, pos, letters);
    size_t word = c.cp == ' ' ? pos + 1 : pos;
    if (has(peek(s, word), signs))
        return tail_end(s, skip_in(s, word, signs), m == MATCH_SPARK ? TAIL_NONE : TAIL_NEWLINES);
    if (m == MATCH_SPARK && is_newline(c))
        return pos + 1;
    return has(c, UNICODE_SPACE) ? spaces(s, pos, m != MATCH_SPARK) : pos;
}
