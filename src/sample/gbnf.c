/* The parser of GBNF (gbnf.h): one pass over the text, a node for each thing written. Nesting is bounded by
 * LIMIT_GRAMMAR_DEPTH; names used are looked up at the end, so that rules may stand in any order. */
#include "sample/gbnf.h"
#include "base/depth.h"
#include "base/limits.h"
#include "base/values.h"
#include "text/unicode.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct parser {
    const char *name, *text;
    size_t len, at;
    struct depth depth;
    struct gbnf *g;
    LIST(int32_t) open; /* kids of the sequences and choices that are not closed yet */
    LIST(struct gbnf_range) class;
    LIST(size_t) used; /* where each rule was first used, or SIZE_MAX */
    struct hasten_error *err;
    hasten_status status;
};

/* ---- errors ------------------------------------------------------------------------------------------- */

void gbnf_place(const struct gbnf *g, size_t at, int32_t *line, int32_t *column)
{
    size_t start = 0;
    *line = *column = 1;
    for (size_t i = 0; i < at; i++)
        if (g->text[i] == '\n') {
            ++*line;
            start = i + 1;
        }
    for (size_t i = start; i < at; i++)
        *column += ((unsigned char)g->text[i] & 0xC0) != 0x80;
}

/* Notes the first error; -1. */
static int fail(struct parser *p, hasten_status status, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int fail(struct parser *p, hasten_status status, size_t at, const char *fmt, ...)
{
    char what[256];
    int32_t line, column;
    va_list args;
    if (p->status)
        return -1;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    gbnf_place(p->g, at, &line, &column);
    p->status = error_set(p->err, status, "%s:%d:%d: %s", p->name, (int)line, (int)column, what);
    return -1;
}

static int no_memory(struct parser *p)
{
    return fail(p, HASTEN_ERR_MEMORY, p->at, "out of memory");
}

#define SHOWN_NAME_BYTES 64

static int shown(int32_t len)
{
    return len < SHOWN_NAME_BYTES ? (int)len : SHOWN_NAME_BYTES;
}

/* ---- characters --------------------------------------------------------------------------------------- */

static char peek(const struct parser *p)
{
    return p->at < p->len ? p->text[p->at] : 0;
}

static bool at_end(const struct parser *p)
{
    return p->at >= p->len;
}

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Spaces and comments, and line ends too if asked. */
static void skip(struct parser *p, bool lines)
{
    while (!at_end(p)) {
        const char c = peek(p);
        if (c == '#') {
            while (!at_end(p) && peek(p) != '\n')
                p->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
            p->at++;
        } else {
            return;
        }
    }
}

/* What stands there, for messages. */
static const char *found(const struct parser *p, char out[16])
{
    if (at_end(p))
        return "the end";
    const char c = peek(p);
    if (c == '\n')
        return "the end of the line";
    uint32_t cp;
    const int n = utf8_decode(p->text + p->at, p->len - p->at, &cp);
    if (n <= 0 || cp < ' ')
        return "an unprintable byte";
    snprintf(out, 16, "'%.*s'", n, p->text + p->at);
    return out;
}

static int hex_digits(struct parser *p, int n, uint32_t *cp)
{
    const size_t from = p->at;
    *cp = 0;
    for (int i = 0; i < n; i++) {
        const int digit = value_hex_digit(peek(p));
        if (digit < 0)
            return fail(p, HASTEN_ERR_FILE, from - 2, "\\%c with %d hexadecimal digits (expected %d)",
                        p->text[from - 1], i, n);
        *cp = *cp << 4 | (uint32_t)digit;
        p->at++;
    }
    if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp <= 0xDFFF))
        return fail(p, HASTEN_ERR_FILE, from - 2, "U+%04X is no character", (unsigned)*cp);
    return 0;
}

static int escape(struct parser *p, uint32_t *cp)
{
    static const char plain[] = "\\\"'/[]-^";
    const size_t from = p->at++;
    const char c = peek(p);
    p->at++;
    switch (c) {
    case 'x':
        return hex_digits(p, 2, cp);
    case 'u':
        return hex_digits(p, 4, cp);
    case 'U':
        return hex_digits(p, 8, cp);
    case 'n':
        *cp = '\n';
        return 0;
    case 'r':
        *cp = '\r';
        return 0;
    case 't':
        *cp = '\t';
        return 0;
    default:
        if (!c || !strchr(plain, c)) {
            char text[16];
            p->at = from + 1;
            return fail(p, HASTEN_ERR_FILE, from,
                        "a backslash before %s (expected one of n r t \\ \" ' / [ ] - ^ x u U)",
                        found(p, text));
        }
        *cp = (unsigned char)c;
        return 0;
    }
}

/* One character of a text or a class. */
static int character(struct parser *p, uint32_t *cp)
{
    if (peek(p) == '\\')
        return escape(p, cp);
    const int n = utf8_decode(p->text + p->at, p->len - p->at, cp);
    if (n <= 0)
        return fail(p, HASTEN_ERR_FILE, p->at, "a byte that is not UTF-8 (expected UTF-8)");
    p->at += (size_t)n;
    return 0;
}

/* ---- nodes -------------------------------------------------------------------------------------------- */

static int32_t add_node(struct parser *p, struct gbnf_node node)
{
    if (p->g->nodes.n >= LIMIT_GRAMMAR_NODES)
        return fail(p, HASTEN_ERR_LIMIT, p->at, "more than %d things in one grammar", LIMIT_GRAMMAR_NODES);
    if (LIST_PUSH(&p->g->nodes, node))
        return no_memory(p);
    return (int32_t)(p->g->nodes.n - 1);
}

/* A node of what was put on `open` since mark; of one kid that kid. */
static int32_t close_node(struct parser *p, enum gbnf_kind kind, int64_t mark)
{
    const int64_t n = p->open.n - mark;
    const int32_t first = (int32_t)p->g->kids.n;
    if (n == 1)
        return p->open.at[--p->open.n];
    for (int64_t i = mark; i < p->open.n; i++)
        if (LIST_PUSH(&p->g->kids, p->open.at[i]))
            return no_memory(p);
    p->open.n = mark;
    return add_node(p, (struct gbnf_node){.kind = kind, .first = first, .n = (int32_t)n});
}

static int32_t text_node(struct parser *p)
{
    const size_t from = p->at++;
    const size_t first = p->g->bytes.len;
    while (peek(p) != '"' || at_end(p)) {
        uint32_t cp;
        char bytes[4];
        if (at_end(p))
            return fail(p, HASTEN_ERR_FILE, from, "a text without its end (expected another '\"')");
        if (character(p, &cp))
            return -1;
        if (buf_put(&p->g->bytes, bytes, (size_t)utf8_encode(cp, bytes)))
            return no_memory(p);
    }
    p->at++;
    return add_node(p, (struct gbnf_node){.kind = GBNF_TEXT,
                                          .first = (int32_t)first,
                                          .n = (int32_t)(p->g->bytes.len - first)});
}

/* ---- classes ------------------------------------------------------------------------------------------ */

static int push_range(struct parser *p, uint32_t lo, uint32_t hi)
{
    return lo > hi || !LIST_PUSH(&p->g->ranges, (struct gbnf_range){lo, hi}) ? 0 : no_memory(p);
}

/* A range without the surrogates, which no text has. */
static int push_characters(struct parser *p, uint32_t lo, uint32_t hi)
{
    return push_range(p, lo, hi < 0xD7FF ? hi : 0xD7FF) || push_range(p, lo > 0xE000 ? lo : 0xE000, hi);
}

static int by_lo(const void *a, const void *b)
{
    const struct gbnf_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* What p->class says as ranges that are ascending and apart, or what it does not say. */
static int32_t class_node(struct parser *p, bool negated, size_t from)
{
    const int64_t first = p->g->ranges.n;
    struct gbnf_range *r = p->class.at;
    uint32_t next = 0; /* the first character that is not dealt with */
    if (p->class.n)
        qsort(r, (size_t)p->class.n, sizeof *r, by_lo);
    for (int64_t i = 0; i < p->class.n;) {
        const uint32_t lo = r[i].lo;
        uint32_t hi = r[i].hi;
        while (++i < p->class.n && r[i].lo <= hi + 1)
            hi = r[i].hi > hi ? r[i].hi : hi;
        if (negated ? lo > next && push_characters(p, next, lo - 1) : push_characters(p, lo, hi))
            return -1;
        next = hi + 1;
    }
    if (negated && next <= 0x10FFFF && push_characters(p, next, 0x10FFFF))
        return -1;
    if (p->g->ranges.n == first)
        return fail(p, HASTEN_ERR_FILE, from, "a class without a character (expected at least one)");
    return add_node(p, (struct gbnf_node){.kind = GBNF_CLASS,
                                          .first = (int32_t)first,
                                          .n = (int32_t)(p->g->ranges.n - first)});
}

static int32_t parse_class(struct parser *p)
{
    const size_t from = p->at++;
    const bool negated = peek(p) == '^';
    p->at += negated;
    p->class.n = 0;
    while (peek(p) != ']' || at_end(p)) {
        const size_t here = p->at;
        uint32_t lo, hi;
        if (at_end(p))
            return fail(p, HASTEN_ERR_FILE, from, "a class without its end (expected ']')");
        if (character(p, &lo))
            return -1;
        hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->len && p->text[p->at + 1] != ']') {
            p->at++;
            if (character(p, &hi))
                return -1;
        }
        if (lo > hi)
            return fail(p, HASTEN_ERR_FILE, here,
                        "a range from U+%04X down to U+%04X (expected them ascending)", (unsigned)lo,
                        (unsigned)hi);
        if (LIST_PUSH(&p->class, (struct gbnf_range){lo, hi}))
            return no_memory(p);
    }
    p->at++;
    if (negated && !p->class.n)
        return fail(p, HASTEN_ERR_FILE, from, "[^] (expected characters, or . for any)");
    return class_node(p, negated, from);
}

/* ---- names of rules ----------------------------------------------------------------------------------- */

static uint32_t hash_name(const char *s, size_t len)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h ^ h >> 15;
}

static int rehash(struct gbnf *g)
{
    const int64_t cap = g->table.cap ? 2 * g->table.cap : 64;
    int32_t *at = mem_calloc((size_t)cap, sizeof *at);
    if (!at)
        return -1;
    for (int64_t i = 0; i < g->rules.n; i++) {
        int64_t k = hash_name(g->rules.at[i].name, (size_t)g->rules.at[i].name_len) & (cap - 1);
        while (at[k])
            k = (k + 1) & (cap - 1);
        at[k] = (int32_t)i + 1;
    }
    mem_free(g->table.at);
    g->table.at = at;
    g->table.n = g->table.cap = cap;
    return 0;
}

/* The rule of this name, which may still have to be defined. */
static int32_t rule_named(struct parser *p, const char *name, size_t len)
{
    struct gbnf *g = p->g;
    if (2 * g->rules.n >= g->table.cap && rehash(g))
        return no_memory(p);
    int64_t k = hash_name(name, len) & (g->table.cap - 1);
    for (; g->table.at[k]; k = (k + 1) & (g->table.cap - 1)) {
        const struct gbnf_rule *r = &g->rules.at[g->table.at[k] - 1];
        if ((size_t)r->name_len == len && memcmp(r->name, name, len) == 0)
            return g->table.at[k] - 1;
    }
    if (g->rules.n >= LIMIT_GRAMMAR_RULES)
        return fail(p, HASTEN_ERR_LIMIT, p->at, "more than %d rules", LIMIT_GRAMMAR_RULES);
    if (LIST_PUSH(&g->rules, (struct gbnf_rule){.name = name, .name_len = (int32_t)len, .body = -1}) ||
        LIST_PUSH(&p->used, SIZE_MAX))
        return no_memory(p);
    g->table.at[k] = (int32_t)g->rules.n;
    return (int32_t)(g->rules.n - 1);
}

static size_t name_here(struct parser *p)
{
    const size_t from = p->at;
    while (in_name(peek(p)))
        p->at++;
    return p->at - from;
}

/* Does a definition begin here? After an empty alternative it may, in the next line. */
static bool at_definition(const struct parser *p)
{
    size_t at = p->at;
    while (at < p->len && in_name(p->text[at]))
        at++;
    const bool named = at > p->at;
    while (at < p->len && (p->text[at] == ' ' || p->text[at] == '\t'))
        at++;
    return named && p->len - at >= 3 && memcmp(p->text + at, "::=", 3) == 0;
}

/* ---- what a rule says --------------------------------------------------------------------------------- */

static int32_t parse_choice(struct parser *p, bool nested);

static int32_t parse_group(struct parser *p)
{
    const size_t from = p->at++;
    if (depth_enter(&p->depth))
        return fail(p, HASTEN_ERR_LIMIT, from, "more than %d groups inside each other", LIMIT_GRAMMAR_DEPTH);
    const int32_t node = parse_choice(p, true);
    depth_leave(&p->depth);
    if (node < 0)
        return -1;
    if (peek(p) != ')')
        return fail(p, HASTEN_ERR_FILE, from, "a group without its end (expected ')')");
    p->at++;
    return node;
}

static int32_t parse_use(struct parser *p)
{
    const size_t from = p->at, len = name_here(p);
    const int32_t rule = rule_named(p, p->text + from, len);
    if (rule < 0)
        return -1;
    if (p->used.at[rule] == SIZE_MAX)
        p->used.at[rule] = from;
    return add_node(p, (struct gbnf_node){.kind = GBNF_RULE, .first = rule});
}

/* The number of a token, which is known already or new; -1. */
static int32_t token_number(struct parser *p, struct gbnf_token token)
{
    for (int64_t i = 0; i < p->g->tokens.n; i++) {
        const struct gbnf_token *t = &p->g->tokens.at[i];
        if (t->len == token.len && t->id == token.id &&
            (!t->len || memcmp(t->name, token.name, (size_t)t->len) == 0))
            return (int32_t)i;
    }
    if (p->g->tokens.n >= LIMIT_GRAMMAR_TOKENS)
        return fail(p, HASTEN_ERR_LIMIT, p->at, "more than %d tokens by name or number",
                    LIMIT_GRAMMAR_TOKENS);
    return LIST_PUSH(&p->g->tokens, token) ? no_memory(p) : (int32_t)(p->g->tokens.n - 1);
}

/* <name> or <[id]> */
static int32_t token_node(struct parser *p)
{
    const size_t from = p->at, first = p->g->bytes.len;
    struct gbnf_token token = {.name = p->text + from, .id = -1};
    char *end;
    while (!at_end(p) && peek(p) != '>' && peek(p) != '\n')
        p->at++;
    if (peek(p) != '>')
        return fail(p, HASTEN_ERR_FILE, from, "a token without its end (expected '>')");
    token.len = (int32_t)(++p->at - from);
    if (p->text[from + 1] == '[') {
        const long id = strtol(p->text + from + 2, &end, 10);
        if (end == p->text + from + 2 || end[0] != ']' || end[1] != '>' || id < 0 || id >= LIMIT_VOCAB)
            return fail(p, HASTEN_ERR_FILE, from, "no number of a token (expected one such as <[42]>)");
        token = (struct gbnf_token){.id = (int32_t)id};
    }
    const int32_t number = token_number(p, token);
    if (number < 0)
        return -1;
    if (buf_putc(&p->g->bytes, (char)(GBNF_TOKEN_BYTE + number)))
        return no_memory(p);
    return add_node(p, (struct gbnf_node){.kind = GBNF_TEXT, .first = (int32_t)first, .n = 1});
}

/* -1: an error. */
static int32_t parse_item(struct parser *p)
{
    char text[16];
    switch (peek(p)) {
    case '"':
        return text_node(p);
    case '[':
        return parse_class(p);
    case '(':
        return parse_group(p);
    case '.':
        p->at++;
        p->class.n = 0;
        return class_node(p, true, p->at - 1);
    case '<':
        return token_node(p);
    case '!':
        return fail(p, HASTEN_ERR_UNSUPPORTED, p->at, "%s begins any token but one: unsupported",
                    found(p, text));
    case '*':
    case '+':
    case '?':
    case '{':
        return fail(p, HASTEN_ERR_FILE, p->at, "%s with nothing before it to repeat", found(p, text));
    default:
        if (in_name(peek(p)))
            return parse_use(p);
        return fail(p, HASTEN_ERR_FILE, p->at,
                    "found %s (expected a text in quotes, a class, a group, a rule's name or |)",
                    found(p, text));
    }
}

static int number(struct parser *p, int32_t *out)
{
    char text[16];
    const size_t from = p->at;
    int64_t x = 0;
    while (peek(p) >= '0' && peek(p) <= '9') {
        x = x * 10 + (peek(p) - '0');
        p->at++;
        if (x > LIMIT_GRAMMAR_REPEAT)
            return fail(p, HASTEN_ERR_LIMIT, from, "a repetition above %d (expected fewer, or no bound)",
                        LIMIT_GRAMMAR_REPEAT);
    }
    if (p->at == from)
        return fail(p, HASTEN_ERR_FILE, from, "found %s (expected a number of times)", found(p, text));
    *out = (int32_t)x;
    return 0;
}

/* "{m}", "{m,}", "{m,n}" */
static int braces(struct parser *p, bool nested, int32_t *min, int32_t *max)
{
    char text[16];
    const size_t from = p->at++;
    skip(p, nested);
    if (number(p, min))
        return -1;
    skip(p, nested);
    *max = *min;
    if (peek(p) == ',') {
        p->at++;
        skip(p, nested);
        *max = -1;
        if (peek(p) != '}' && number(p, max))
            return -1;
        skip(p, nested);
    }
    if (peek(p) != '}')
        return fail(p, HASTEN_ERR_FILE, p->at, "found %s (expected } of a repetition)", found(p, text));
    if (*max >= 0 && *max < *min)
        return fail(p, HASTEN_ERR_FILE, from, "a repetition of %d to %d times (expected them ascending)",
                    (int)*min, (int)*max);
    p->at++;
    return 0;
}

/* Any number of repetitions behind an item. */
static int32_t parse_repeats(struct parser *p, int32_t item, bool nested)
{
    for (int n = 0; item >= 0; n++) {
        int32_t min = 0, max = -1;
        skip(p, nested);
        if (n > LIMIT_GRAMMAR_DEPTH)
            return fail(p, HASTEN_ERR_LIMIT, p->at, "more than %d repetitions of repetitions",
                        LIMIT_GRAMMAR_DEPTH);
        switch (peek(p)) {
        case '?':
            max = 1;
            p->at++;
            break;
        case '*':
            p->at++;
            break;
        case '+':
            min = 1;
            p->at++;
            break;
        case '{':
            if (braces(p, nested, &min, &max))
                return -1;
            break;
        default:
            return item;
        }
        item = add_node(p, (struct gbnf_node){.kind = GBNF_REPEAT, .first = item, .min = min, .max = max});
    }
    return -1;
}

static int32_t parse_sequence(struct parser *p, bool nested)
{
    const int64_t mark = p->open.n;
    for (;;) {
        skip(p, nested);
        const char c = peek(p);
        if (at_end(p) || c == '\n' || c == '|' || (c == ')' && nested) || (!nested && at_definition(p)))
            return close_node(p, GBNF_SEQUENCE, mark);
        const int32_t item = parse_repeats(p, parse_item(p), nested);
        if (item < 0)
            return -1;
        if (LIST_PUSH(&p->open, item))
            return no_memory(p);
    }
}

/* Is there a `|`, perhaps at the begin of a later line? Then p stands behind it. */
static bool another(struct parser *p)
{
    const size_t from = p->at;
    skip(p, true);
    if (peek(p) == '|') {
        p->at++;
        skip(p, true);
        return true;
    }
    p->at = from;
    return false;
}

static int32_t parse_choice(struct parser *p, bool nested)
{
    const int64_t mark = p->open.n;
    do {
        const int32_t sequence = parse_sequence(p, nested);
        if (sequence < 0)
            return -1;
        if (LIST_PUSH(&p->open, sequence))
            return no_memory(p);
    } while (another(p));
    return close_node(p, GBNF_CHOICE, mark);
}

static int parse_rule(struct parser *p)
{
    char text[16];
    const size_t from = p->at, len = name_here(p);
    if (!len)
        return fail(p, HASTEN_ERR_FILE, from,
                    "found %s (expected the name of a rule; a rule goes on in the next line only inside "
                    "parentheses, behind ::= or around |)",
                    found(p, text));
    skip(p, false);
    if (p->len - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0)
        return fail(p, HASTEN_ERR_FILE, p->at, "found %s behind a rule's name (expected ::=)",
                    found(p, text));
    p->at += 3;
    skip(p, true);
    const int32_t rule = rule_named(p, p->text + from, len);
    if (rule < 0)
        return -1;
    if (p->g->rules.at[rule].body >= 0) {
        int32_t line, column;
        gbnf_place(p->g, p->g->rules.at[rule].at, &line, &column);
        return fail(p, HASTEN_ERR_FILE, from, "rule '%.*s' is defined twice (the first time in line %d)",
                    shown((int32_t)len), p->text + from, (int)line);
    }
    const int32_t first = (int32_t)p->g->nodes.n, body = parse_choice(p, false);
    if (body < 0)
        return -1;
    struct gbnf_rule *r = &p->g->rules.at[rule];
    r->first = first;
    r->body = body;
    r->at = from;
    return 0;
}

static int parse_rules(struct parser *p)
{
    if (p->len >= 3 && memcmp(p->text, "\xEF\xBB\xBF", 3) == 0)
        p->at = 3; /* a byte order mark */
    for (skip(p, true); !at_end(p); skip(p, true))
        if (parse_rule(p))
            return -1;
    for (int64_t i = 0; i < p->g->rules.n; i++) {
        const struct gbnf_rule *r = &p->g->rules.at[i];
        if (r->body < 0)
            return fail(p, HASTEN_ERR_FILE, p->used.at[i], "rule '%.*s' is used and not defined",
                        shown(r->name_len), r->name);
    }
    p->g->root = rule_named(p, "root", 4);
    if (p->g->root >= 0 && p->g->rules.at[p->g->root].body < 0)
        return fail(p, HASTEN_ERR_FILE, 0, "no rule is called root (expected one, where an answer begins)");
    return p->g->root < 0 ? -1 : 0;
}

hasten_status gbnf_parse(const char *name, const char *text, size_t len, struct gbnf **out,
                         struct hasten_error *err)
{
    *out = NULL;
    if (len > LIMIT_GRAMMAR_BYTES)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: a grammar of %zu bytes (expected at most %d)", name, len,
                         LIMIT_GRAMMAR_BYTES);
    struct parser p = {.name = name, .len = len, .depth = {.limit = LIMIT_GRAMMAR_DEPTH}, .err = err};
    p.g = mem_calloc(1, sizeof *p.g);
    if (p.g)
        p.text = p.g->text = mem_strndup(text, len);
    if (!p.text)
        p.status = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", name);
    else
        parse_rules(&p);
    LIST_FREE(&p.open);
    LIST_FREE(&p.class);
    LIST_FREE(&p.used);
    if (p.status)
        gbnf_free(p.g);
    else
        *out = p.g;
    return p.status;
}

void gbnf_free(struct gbnf *g)
{
    if (!g)
        return;
    LIST_FREE(&g->nodes);
    LIST_FREE(&g->kids);
    LIST_FREE(&g->ranges);
    LIST_FREE(&g->rules);
    LIST_FREE(&g->tokens);
    LIST_FREE(&g->table);
    buf_free(&g->bytes);
    mem_free(g->text);
    mem_free(g);
}
