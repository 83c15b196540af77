/* The parser of regular expressions (regex.h). Owns their syntax and what is refused of it. Nesting is bounded by
 * LIMIT_REGEX_DEPTH. */
#include "sample/regex.h"
#include "base/depth.h"
#include "base/limits.h"
#include "base/values.h"
#include "text/unicode.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct parser {
    const char *what, *text;
    size_t len, at;
    bool fold; /* (?i) */
    struct depth depth;
    struct regex *r;
    LIST(int32_t) open; /* kids of what is not closed yet */
    LIST(struct regex_range) class;
    struct hasten_error *err;
    hasten_status status;
};

/* Notes the first error; -1. */
static int fail(struct parser *p, hasten_status status, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int fail(struct parser *p, hasten_status status, size_t at, const char *fmt, ...)
{
    char text[256];
    int column = 1;
    va_list args;
    if (p->status)
        return -1;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (size_t i = 0; i < at && i < p->len; i++)
        column += ((unsigned char)p->text[i] & 0xC0) != 0x80;
    p->status = error_set(p->err, status, "%s: character %d: %s", p->what, column, text);
    return -1;
}

static int no_memory(struct parser *p)
{
    p->status = p->status ? p->status : error_set(p->err, HASTEN_ERR_MEMORY, "%s: out of memory", p->what);
    return -1;
}

static int refuse(struct parser *p, size_t at, const char *name)
{
    return fail(p, HASTEN_ERR_UNSUPPORTED, at, "%s: unsupported (a grammar cannot say it)", name);
}

/* ---- characters --------------------------------------------------------------------------------------------- */

static bool at_end(const struct parser *p)
{
    return p->at >= p->len;
}

static char peek(const struct parser *p)
{
    return p->at < p->len ? p->text[p->at] : 0;
}

static bool next_is(const struct parser *p, const char *s)
{
    const size_t n = strlen(s);
    return p->len - p->at >= n && memcmp(p->text + p->at, s, n) == 0;
}

/* min to max hexadecimal digits. */
static int hex_digits(struct parser *p, int min, int max, uint32_t *cp)
{
    const size_t from = p->at;
    int n = 0;
    *cp = 0;
    for (; n < max && value_hex_digit(peek(p)) >= 0; n++)
        *cp = *cp << 4 | (uint32_t)value_hex_digit(p->text[p->at++]);
    if (n < min)
        return fail(p, HASTEN_ERR_FILE, from, "%d hexadecimal digits (expected %d)", n, min);
    return 0;
}

static int check_character(struct parser *p, size_t from, uint32_t cp)
{
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return fail(p, HASTEN_ERR_FILE, from, "U+%04X is no character", (unsigned)cp);
    return 0;
}

/* Behind \u: four digits, {digits}, or a pair of surrogates. */
static int unicode_escape(struct parser *p, uint32_t *cp)
{
    const size_t from = p->at - 2;
    uint32_t low;
    if (peek(p) == '{') {
        p->at++;
        if (hex_digits(p, 1, 6, cp))
            return -1;
        if (peek(p) != '}')
            return fail(p, HASTEN_ERR_FILE, from, "\\u{ without its end (expected '}')");
        p->at++;
        return check_character(p, from, *cp);
    }
    if (hex_digits(p, 4, 4, cp))
        return -1;
    if (*cp >= 0xD800 && *cp < 0xDC00 && next_is(p, "\\u")) {
        p->at += 2;
        if (hex_digits(p, 4, 4, &low))
            return -1;
        if (low >= 0xDC00 && low < 0xE000)
            *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
    }
    return check_character(p, from, *cp);
}

/* An escape that is one character; p stands behind the letter c. */
static int character_escape(struct parser *p, size_t from, char c, uint32_t *cp)
{
    static const char letters[] = "tnrfv", values[] = "\t\n\r\f\v";
    const char *found = c ? strchr(letters, c) : NULL;
    char name[32];
    if (found) {
        *cp = (unsigned char)values[found - letters];
        return 0;
    }
    if (c == 'x')
        return hex_digits(p, 2, 2, cp);
    if (c == 'u')
        return unicode_escape(p, cp);
    if (c == 'U')
        return hex_digits(p, 8, 8, cp) ? -1 : check_character(p, from, *cp);
    if (c == 'c') {
        const char letter = peek(p);
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
            return fail(p, HASTEN_ERR_FILE, from, "\\c without a letter");
        *cp = (uint32_t)(letter & 31);
        p->at++;
        return 0;
    }
    if (c == '0' && !(peek(p) >= '0' && peek(p) <= '9')) {
        *cp = 0;
        return 0;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        snprintf(name, sizeof name, "\\%c", c);
        return refuse(p, from,
                      c >= '0' && c <= '9'   ? "a reference to a group"
                      : c == 'k'             ? "a reference to a group by name"
                      : c == 'b' || c == 'B' ? "a word boundary"
                                             : name);
    }
    p->at = from + 1;
    if (at_end(p))
        return fail(p, HASTEN_ERR_FILE, from, "a backslash at the end");
    const int n = utf8_decode(p->text + p->at, p->len - p->at, cp);
    if (n <= 0)
        return fail(p, HASTEN_ERR_FILE, from, "a backslash before %s", "a byte that is not UTF-8");
    p->at += (size_t)n;
    return 0;
}

static int plain_character(struct parser *p, uint32_t *cp)
{
    const int n = utf8_decode(p->text + p->at, p->len - p->at, cp);
    if (n <= 0)
        return fail(p, HASTEN_ERR_FILE, p->at, "a byte that is not UTF-8 (expected UTF-8)");
    p->at += (size_t)n;
    return 0;
}

/* ---- nodes -------------------------------------------------------------------------------------------------- */

static int32_t add_node(struct parser *p, struct regex_node node)
{
    if (p->r->nodes.n >= LIMIT_REGEX_NODES)
        return fail(p, HASTEN_ERR_LIMIT, p->at, "more than %d things in one expression", LIMIT_REGEX_NODES);
    if (LIST_PUSH(&p->r->nodes, node))
        return no_memory(p);
    return (int32_t)(p->r->nodes.n - 1);
}

/* A node of what was put on `open` since mark; of one kid that kid. */
static int32_t close_node(struct parser *p, enum regex_kind kind, int64_t mark)
{
    const int64_t n = p->open.n - mark;
    const int32_t first = (int32_t)p->r->kids.n;
    if (n == 1)
        return p->open.at[--p->open.n];
    for (int64_t i = mark; i < p->open.n; i++)
        if (LIST_PUSH(&p->r->kids, p->open.at[i]))
            return no_memory(p);
    p->open.n = mark;
    return add_node(p, (struct regex_node){.kind = kind, .first = first, .n = (int32_t)n});
}

/* ---- classes ------------------------------------------------------------------------------------------------ */

static int add_range(struct parser *p, uint32_t lo, uint32_t hi)
{
    return LIST_PUSH(&p->class, (struct regex_range){lo, hi}) ? no_memory(p) : 0;
}

static const struct regex_range digits[] = {{'0', '9'}};
static const struct regex_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct regex_range spaces[] = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
/* What some flavour takes for a space: not in \S. */
static const struct regex_range any_spaces[] = {{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},
                                                {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                                {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                                {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const struct regex_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int add_set(struct parser *p, const struct regex_range *set, int n, bool negated)
{
    uint32_t next = 0;
    for (int i = 0; i < n; i++) {
        if (!negated && add_range(p, set[i].lo, set[i].hi))
            return -1;
        if (negated && set[i].lo > next && add_range(p, next, set[i].lo - 1))
            return -1;
        next = set[i].hi + 1;
    }
    return negated ? add_range(p, next, 0x10FFFF) : 0;
}

/* \d and its like into p->class: 1, 0 when c is none of them, -1. */
static int class_escape(struct parser *p, size_t from, char c)
{
    switch (c) {
    case 'd':
    case 'D':
        return add_set(p, digits, COUNT(digits), c == 'D') ? -1 : 1;
    case 'w':
    case 'W':
        return add_set(p, word, COUNT(word), c == 'W') ? -1 : 1;
    case 's':
        return add_set(p, spaces, COUNT(spaces), false) ? -1 : 1;
    case 'S':
        return add_set(p, any_spaces, COUNT(any_spaces), true) ? -1 : 1;
    case 'p':
    case 'P':
        return refuse(p, from, "a Unicode property (\\p)");
    default:
        return 0;
    }
}

static int by_lo(const void *a, const void *b)
{
    const struct regex_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* A range without the surrogates, which no text has. */
static int keep_range(struct parser *p, uint32_t lo, uint32_t hi)
{
    const struct regex_range parts[] = {{lo, hi < 0xD7FF ? hi : 0xD7FF}, {lo > 0xE000 ? lo : 0xE000, hi}};
    for (int i = 0; i < 2; i++)
        if (parts[i].lo <= parts[i].hi && LIST_PUSH(&p->r->ranges, parts[i]))
            return no_memory(p);
    return 0;
}

/* The other case of ASCII letters. */
static int fold_class(struct parser *p)
{
    for (int64_t i = 0, n = p->class.n; i < n; i++)
        for (uint32_t c = 'A'; c <= 'z'; c++)
            if (p->class.at[i].lo <= c && c <= p->class.at[i].hi && (c <= 'Z' || c >= 'a') &&
                add_range(p, c ^ 32, c ^ 32))
                return -1;
    return 0;
}

/* What p->class says, or what it does not say. */
static int32_t class_node(struct parser *p, bool negated, size_t from)
{
    const int64_t first = p->r->ranges.n;
    uint32_t next = 0; /* the first character that is not dealt with */
    if (p->fold && fold_class(p))
        return -1;
    const struct regex_range *r = p->class.at;
    if (p->class.n)
        qsort(p->class.at, (size_t)p->class.n, sizeof *r, by_lo);
    for (int64_t i = 0; i < p->class.n;) {
        const uint32_t lo = r[i].lo;
        uint32_t hi = r[i].hi;
        while (++i < p->class.n && r[i].lo <= hi + 1)
            hi = r[i].hi > hi ? r[i].hi : hi;
        if (negated ? lo > next && keep_range(p, next, lo - 1) : keep_range(p, lo, hi))
            return -1;
        next = hi + 1;
    }
    if (negated && next <= 0x10FFFF && keep_range(p, next, 0x10FFFF))
        return -1;
    if (p->r->ranges.n == first)
        return fail(p, HASTEN_ERR_FILE, from, "a class without a character (expected at least one)");
    return add_node(p, (struct regex_node){.kind = REGEX_CLASS,
                                           .first = (int32_t)first,
                                           .n = (int32_t)(p->r->ranges.n - first)});
}

/* One member of a class: a character in *cp, or a set (1). */
static int class_member(struct parser *p, uint32_t *cp)
{
    const size_t from = p->at;
    if (next_is(p, "[:") || next_is(p, "&&"))
        return refuse(p, from, next_is(p, "&&") ? "an intersection of classes (&&)" : "a POSIX class ([:)");
    if (peek(p) != '\\')
        return plain_character(p, cp);
    const char c = p->at + 1 < p->len ? p->text[p->at + 1] : 0;
    p->at += 2;
    if (c == 'b') {
        *cp = '\b';
        return 0;
    }
    const int set = class_escape(p, from, c);
    return set ? set : character_escape(p, from, c, cp);
}

static int32_t parse_class(struct parser *p)
{
    const size_t from = p->at++;
    const bool negated = peek(p) == '^';
    p->at += negated;
    p->class.n = 0;
    while (peek(p) != ']' || at_end(p)) {
        const size_t here = p->at;
        uint32_t lo = 0, hi;
        if (at_end(p))
            return fail(p, HASTEN_ERR_FILE, from, "a class without its end (expected ']')");
        const int set = class_member(p, &lo);
        if (set < 0)
            return -1;
        if (set)
            continue;
        hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->len && p->text[p->at + 1] != ']') {
            p->at++;
            const int upper = class_member(p, &hi);
            if (upper)
                return upper < 0 ? -1 : fail(p, HASTEN_ERR_FILE, here, "a range up to a class");
        }
        if (lo > hi)
            return fail(p, HASTEN_ERR_FILE, here,
                        "a range from U+%04X down to U+%04X (expected them ascending)", (unsigned)lo,
                        (unsigned)hi);
        if (add_range(p, lo, hi))
            return -1;
    }
    p->at++;
    return class_node(p, negated, from);
}

/* ---- items -------------------------------------------------------------------------------------------------- */

static int32_t parse_choice(struct parser *p);

/* Behind "(?": what kind of group it is. 0: one without a name, or with one. */
static int group_head(struct parser *p, size_t from)
{
    static const struct {
        const char *text, *name;
    } refused[] = {{"=", "looking ahead (?=...)"},    {"!", "looking ahead (?!...)"},
                   {"<=", "looking behind (?<=...)"}, {"<!", "looking behind (?<!...)"},
                   {">", "an atomic group (?>...)"},  {"P=", "a reference to a group by name"},
                   {"#", "a comment (?#...)"},        {"|", "a branch reset (?|...)"},
                   {"(", "a condition (?(...)...)"}};
    for (int i = 0; i < COUNT(refused); i++)
        if (next_is(p, refused[i].text))
            return refuse(p, from, refused[i].name);
    if (peek(p) == ':') {
        p->at++;
        return 0;
    }
    if (!next_is(p, "<") && !next_is(p, "P<") && !next_is(p, "'"))
        return refuse(p, from, "a flag inside the expression");
    while (!at_end(p) && peek(p) != '>')
        p->at++;
    if (at_end(p))
        return fail(p, HASTEN_ERR_FILE, from, "a group's name without its end (expected '>')");
    p->at++;
    return 0;
}

static int32_t parse_group(struct parser *p)
{
    const size_t from = p->at++;
    if (peek(p) == '?') {
        p->at++;
        if (group_head(p, from))
            return -1;
    }
    if (depth_enter(&p->depth))
        return fail(p, HASTEN_ERR_LIMIT, from, "more than %d groups inside each other", LIMIT_REGEX_DEPTH);
    const int32_t node = parse_choice(p);
    depth_leave(&p->depth);
    if (node < 0)
        return -1;
    if (peek(p) != ')' || at_end(p))
        return fail(p, HASTEN_ERR_FILE, from, "a group without its end (expected ')')");
    p->at++;
    return node;
}

static int32_t escape_node(struct parser *p)
{
    const size_t from = p->at;
    const char c = p->at + 1 < p->len ? p->text[p->at + 1] : 0;
    uint32_t cp = 0;
    p->at += 2;
    if (c == 'A')
        return add_node(p, (struct regex_node){.kind = REGEX_BEGIN});
    if (c == 'z' || c == 'Z')
        return add_node(p, (struct regex_node){.kind = REGEX_END});
    p->class.n = 0;
    const int set = class_escape(p, from, c);
    if (set < 0 || (!set && (character_escape(p, from, c, &cp) || add_range(p, cp, cp))))
        return -1;
    return class_node(p, false, from);
}

static int32_t parse_item(struct parser *p)
{
    const size_t from = p->at;
    uint32_t cp;
    switch (peek(p)) {
    case '(':
        return parse_group(p);
    case '[':
        return parse_class(p);
    case '\\':
        return escape_node(p);
    case '^':
    case '$':
        p->at++;
        return add_node(p, (struct regex_node){.kind = p->text[from] == '^' ? REGEX_BEGIN : REGEX_END});
    case '.':
        p->at++;
        p->class.n = 0;
        return add_set(p, line_ends, COUNT(line_ends), true) ? -1 : class_node(p, false, from);
    case '*':
    case '+':
    case '?':
        return fail(p, HASTEN_ERR_FILE, from, "'%c' with nothing before it to repeat", p->text[from]);
    default:
        p->class.n = 0;
        if (plain_character(p, &cp) || add_range(p, cp, cp))
            return -1;
        return class_node(p, false, from);
    }
}

/* ---- repetitions -------------------------------------------------------------------------------------------- */

static bool number(struct parser *p, int32_t *out)
{
    const size_t from = p->at;
    int64_t x = 0;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        x = x > INT32_MAX / 16 ? x : x * 10 + (peek(p) - '0');
    *out = (int32_t)x;
    return p->at > from;
}

/* {n}, {n,} or {n,m}; otherwise the brace is a character, and p stays. */
static bool braces(struct parser *p, int32_t *min, int32_t *max)
{
    const size_t from = p->at++;
    bool ok = number(p, min);
    *max = *min;
    if (ok && peek(p) == ',') {
        p->at++;
        if (!number(p, max))
            *max = -1;
    }
    ok = ok && peek(p) == '}';
    p->at = ok ? p->at + 1 : from;
    return ok;
}

static int32_t parse_repeats(struct parser *p, int32_t item)
{
    const size_t from = p->at;
    int32_t min = 0, max = -1;
    if (item < 0 || at_end(p))
        return item;
    if (peek(p) == '{') {
        if (!braces(p, &min, &max))
            return item;
    } else if (peek(p) == '*' || peek(p) == '+' || peek(p) == '?') {
        min = peek(p) == '+';
        max = peek(p) == '?' ? 1 : -1;
        p->at++;
    } else {
        return item;
    }
    const enum regex_kind kind = p->r->nodes.at[item].kind;
    if (kind == REGEX_BEGIN || kind == REGEX_END)
        return refuse(p, from, "a repeated anchor");
    if (min > LIMIT_GRAMMAR_REPEAT || max > LIMIT_GRAMMAR_REPEAT)
        return fail(p, HASTEN_ERR_LIMIT, from, "a repetition above %d", LIMIT_GRAMMAR_REPEAT);
    if (max >= 0 && max < min)
        return fail(p, HASTEN_ERR_FILE, from, "a repetition of %d to %d times (expected them ascending)",
                    (int)min, (int)max);
    if (!at_end(p) && peek(p) == '?')
        p->at++; /* lazy: the same texts */
    else if (!at_end(p) && peek(p) == '+')
        return refuse(p, p->at, "a possessive repetition");
    else if (!at_end(p) && peek(p) == '*')
        return fail(p, HASTEN_ERR_FILE, p->at, "a repetition of a repetition");
    return add_node(p, (struct regex_node){.kind = REGEX_REPEAT, .first = item, .min = min, .max = max});
}

static int32_t parse_sequence(struct parser *p)
{
    const int64_t mark = p->open.n;
    while (!at_end(p) && peek(p) != '|' && peek(p) != ')') {
        const int32_t item = parse_repeats(p, parse_item(p));
        if (item < 0)
            return -1;
        if (LIST_PUSH(&p->open, item))
            return no_memory(p);
    }
    return close_node(p, REGEX_SEQUENCE, mark);
}

static int32_t parse_choice(struct parser *p)
{
    const int64_t mark = p->open.n;
    for (bool more = true; more;) {
        const int32_t sequence = parse_sequence(p);
        if (sequence < 0)
            return -1;
        if (LIST_PUSH(&p->open, sequence))
            return no_memory(p);
        more = !at_end(p) && peek(p) == '|';
        p->at += more;
    }
    return close_node(p, REGEX_CHOICE, mark);
}

/* ---- anchors ------------------------------------------------------------------------------------------------ */

/* Any number of any characters. */
static int32_t anything(struct parser *p)
{
    p->class.n = 0;
    const bool fold = p->fold;
    p->fold = false;
    const int32_t any = add_range(p, 0, 0x10FFFF) ? -1 : class_node(p, false, 0);
    p->fold = fold;
    return any < 0 ? -1 : add_node(p, (struct regex_node){.kind = REGEX_REPEAT, .first = any, .max = -1});
}

static bool has_anchor(const struct parser *p, int32_t top)
{
    /* kids stand before their parents, and nodes between the first kid and the parent belong to it: all are looked at */
    for (int32_t i = 0; i <= top; i++)
        if (p->r->nodes.at[i].kind == REGEX_BEGIN || p->r->nodes.at[i].kind == REGEX_END)
            return true;
    return false;
}

/* One alternative of the whole: its anchors go; on the sides that have none anything may stand when searching. */
static int32_t resolve(struct parser *p, int32_t node, bool search)
{
    const struct regex_node s = p->r->nodes.at[node];
    const int64_t mark = p->open.n;
    bool begin = false, end = false;
    int32_t lo = 0, hi = s.kind == REGEX_SEQUENCE ? s.n : 1;
    const int32_t *kids = s.kind == REGEX_SEQUENCE ? p->r->kids.at + s.first : &node;
    for (; lo < hi && p->r->nodes.at[kids[lo]].kind == REGEX_BEGIN; lo++)
        begin = true;
    for (; hi > lo && p->r->nodes.at[kids[hi - 1]].kind == REGEX_END; hi--)
        end = true;
    int bad = 0;
    for (int32_t i = lo; i < hi && !bad; i++) {
        kids = s.kind == REGEX_SEQUENCE ? p->r->kids.at + s.first : &node;
        bad = LIST_PUSH(&p->open, kids[i]);
    }
    if (bad)
        return no_memory(p);
    const int32_t body = close_node(p, REGEX_SEQUENCE, mark);
    if (body < 0 || !search || (begin && end))
        return body;
    for (int part = 0; part < 3; part++) {
        if ((part == 0 && begin) || (part == 2 && end))
            continue;
        const int32_t kid = part == 1 ? body : anything(p);
        if (kid < 0)
            return -1;
        if (LIST_PUSH(&p->open, kid))
            return no_memory(p);
    }
    return close_node(p, REGEX_SEQUENCE, mark);
}

/* Anchors that are left are inside: marked nodes are those that the root reaches. */
static int check_inside(struct parser *p, int32_t root)
{
    struct regex *r = p->r;
    uint8_t *used = mem_calloc((size_t)r->nodes.n, 1);
    if (!used)
        return no_memory(p);
    used[root] = 1;
    bool inside = false;
    /* the root may be made of earlier nodes only, so one pass from the end reaches all */
    for (int64_t i = r->nodes.n - 1; i >= 0; i--) {
        const struct regex_node n = r->nodes.at[i];
        if (!used[i])
            continue;
        inside |= n.kind == REGEX_BEGIN || n.kind == REGEX_END;
        if (n.kind == REGEX_REPEAT)
            used[n.first] = 1;
        for (int32_t k = 0; k < n.n && (n.kind == REGEX_SEQUENCE || n.kind == REGEX_CHOICE); k++)
            used[r->kids.at[n.first + k]] = 1;
    }
    mem_free(used);
    return inside ? refuse(p, 0, "an anchor (^ or $) inside the expression") : 0;
}

static int32_t resolve_anchors(struct parser *p, int32_t node, bool search)
{
    const struct regex_node c = p->r->nodes.at[node];
    const int64_t mark = p->open.n;
    if (c.kind != REGEX_CHOICE)
        return resolve(p, node, search);
    if (!search && !has_anchor(p, node))
        return node;
    for (int32_t i = 0; i < c.n; i++) {
        const int32_t kid = resolve(p, p->r->kids.at[c.first + i], search);
        if (kid < 0)
            return -1;
        if (LIST_PUSH(&p->open, kid))
            return no_memory(p);
    }
    return close_node(p, REGEX_CHOICE, mark);
}

static int parse(struct parser *p, bool search)
{
    if (p->len > LIMIT_REGEX_BYTES)
        return fail(p, HASTEN_ERR_LIMIT, 0, "an expression of %zu bytes (expected at most %d)", p->len,
                    LIMIT_REGEX_BYTES);
    if (next_is(p, "(?i)")) {
        p->fold = true;
        p->at = 4;
    }
    int32_t node = parse_choice(p);
    if (node < 0)
        return -1;
    if (!at_end(p))
        return fail(p, HASTEN_ERR_FILE, p->at, "')' without a group");
    node = resolve_anchors(p, node, search);
    if (node < 0 || check_inside(p, node))
        return -1;
    p->r->root = node;
    return 0;
}

hasten_status regex_parse(const char *what, const char *pattern, size_t len, bool search, struct regex *out,
                          struct hasten_error *err)
{
    struct parser p = {.what = what,
                       .text = pattern,
                       .len = len,
                       .depth = {.limit = LIMIT_REGEX_DEPTH},
                       .r = out,
                       .err = err};
    parse(&p, search);
    LIST_FREE(&p.open);
    LIST_FREE(&p.class);
    return p.status;
}

void regex_free(struct regex *r)
{
    LIST_FREE(&r->nodes);
    LIST_FREE(&r->kids);
    LIST_FREE(&r->ranges);
}
