/* Template source to tokens, with jinja2's whitespace rules: trim_blocks (the line end after a block or
 * comment goes), lstrip_blocks (blanks before a block or comment at the start of a line go), and - or +
 * on a tag.
 *
 * Tokens are made one at a time, in one walk over the source. Names are interned, so that the rest of
 * the interpreter compares pointers. The rules were read from jinja2's documentation and checked by its
 * behaviour. */
#include "text/jinja.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

void jinja_position(const struct template *t, uint32_t pos, int *line, int *column)
{
    *line = *column = 1;
    for (uint32_t i = 0; i < pos && i < t->len; i++) {
        if (t->source[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)t->source[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

bool jinja_syntax(struct jparse *p, uint32_t pos, const char *fmt, ...)
{
    char text[512];
    int line, column;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jinja_position(p->t, pos, &line, &column);
    p->status =
        error_set(p->err, HASTEN_ERR_TEMPLATE, "%s: line %d, column %d: %s", p->t->name, line, column, text);
    return false;
}

bool jinja_parse_memory(struct jparse *p)
{
    if (p->t->arena.over)
        return jinja_syntax(p, (uint32_t)p->at, "the parsed template is larger than %u bytes",
                            LIMIT_TEMPLATE_MEMORY);
    p->status = error_set(p->err, HASTEN_ERR_MEMORY, "%s: no memory to parse the template", p->t->name);
    return false;
}

static uint32_t hash_name(const char *s, size_t len)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return (uint32_t)(h ^ h >> 32);
}

static bool grow_names(struct jparse *p)
{
    size_t cap = p->cap_names ? p->cap_names * 2 : 64;
    struct jname *n = mem_calloc(cap, sizeof *n);
    if (!n)
        return jinja_parse_memory(p);
    for (size_t i = 0; i < p->cap_names; i++) {
        if (!p->names[i].s)
            continue;
        size_t k = hash_name(p->names[i].s, p->names[i].len) & (cap - 1);
        while (n[k].s)
            k = (k + 1) & (cap - 1);
        n[k] = p->names[i];
    }
    mem_free(p->names);
    p->names = n;
    p->cap_names = cap;
    return true;
}

const char *jinja_intern(struct jparse *p, const char *s, size_t len)
{
    if (p->n_names * 2 >= p->cap_names && !grow_names(p))
        return NULL;
    size_t k = hash_name(s, len) & (p->cap_names - 1);
    for (; p->names[k].s; k = (k + 1) & (p->cap_names - 1))
        if (p->names[k].len == len && memcmp(p->names[k].s, s, len) == 0)
            return p->names[k].s;
    char *copy = jarena_bytes(&p->t->arena, len + 1);
    if (!copy) {
        jinja_parse_memory(p);
        return NULL;
    }
    memcpy(copy, s, len);
    copy[len] = 0;
    p->names[k] = (struct jname){copy, (uint32_t)len};
    p->n_names++;
    return copy;
}

/* ---- template text ------------------------------------------------------------------------------------ */

static size_t skip_space(const struct jparse *p, size_t at)
{
    while (at < p->t->len) {
        size_t next = at;
        if (!jcp_space(jcp_next(p->t->source, p->t->len, &next)))
            break;
        at = next;
    }
    return at;
}

static bool starts(const struct jparse *p, size_t at, const char *s)
{
    size_t n = strlen(s);
    return p->t->len - at >= n && memcmp(p->t->source + at, s, n) == 0;
}

/* After a tag: sets where the text goes on. */
static void resume(struct jparse *p, size_t at)
{
    p->line_starting = at > 0 && p->t->source[at - 1] == '\n';
    p->at = at;
}

/* The end of a block tag at "at": "%}" with its line end, "-%}" with all blanks, "+%}". 0: not there. */
static size_t block_end(const struct jparse *p, size_t at, char close)
{
    char mark[3] = {close, '}', 0};
    size_t len = p->t->len;
    if (at < len && p->t->source[at] == '-' && starts(p, at + 1, mark))
        return skip_space(p, at + 3);
    if (at < len && p->t->source[at] == '+' && close != '}' && starts(p, at + 1, mark))
        return at + 3;
    if (!starts(p, at, mark))
        return 0;
    at += 2;
    return close != '}' && at < len && p->t->source[at] == '\n' ? at + 1 : at;
}

/* "{%- raw -%}" at "at": where the raw text starts. Nothing is trimmed after it but by "-". 0: not there. */
static size_t raw_begin(const struct jparse *p, size_t at)
{
    at += 2;
    if (at < p->t->len && (p->t->source[at] == '-' || p->t->source[at] == '+'))
        at++;
    at = skip_space(p, at);
    if (!starts(p, at, "raw"))
        return 0;
    at = skip_space(p, at + 3);
    if (starts(p, at, "-%}"))
        return skip_space(p, at + 3);
    return starts(p, at, "%}") ? at + 2 : 0;
}

static size_t raw_end(const struct jparse *p, size_t at)
{
    at += 2;
    if (at < p->t->len && (p->t->source[at] == '-' || p->t->source[at] == '+'))
        at++;
    at = skip_space(p, at);
    return starts(p, at, "endraw") ? block_end(p, skip_space(p, at + 6), '%') : 0;
}

/* How much of the text [from, to) stays before a tag whose sign is sign; lstrip: blanks of its line may
 * go. */
static size_t strip_before(const struct jparse *p, size_t from, size_t to, char sign, bool lstrip)
{
    const char *s = p->t->source;
    size_t at = to;
    bool all = sign == '-';
    if (!all && (sign == '+' || !lstrip))
        return to;
    while (at > from) {
        size_t prev = at - 1;
        while (prev > from && ((unsigned char)s[prev] & 0xc0) == 0x80)
            prev--;
        size_t next = prev;
        uint32_t cp = jcp_next(s, to, &next);
        if (!jcp_space(cp) || (cp == '\n' && !all))
            break;
        at = prev;
    }
    if (all || at == to)
        return at;
    bool line_start = at > from ? s[at - 1] == '\n' : p->line_starting;
    return line_start ? at : to;
}

static char sign_at(const struct jparse *p, size_t at)
{
    char c = at < p->t->len ? p->t->source[at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

static bool lex_comment(struct jparse *p, size_t at, char sign)
{
    size_t body = at + 2 + (sign ? 1 : 0);
    for (size_t i = body; i + 1 < p->t->len; i++) {
        if (p->t->source[i] != '#' || p->t->source[i + 1] != '}')
            continue;
        bool signed_end = i > body && (p->t->source[i - 1] == '-' || p->t->source[i - 1] == '+');
        resume(p, block_end(p, signed_end ? i - 1 : i, '#'));
        return true;
    }
    if (body >= p->t->len) { /* nothing after it: jinja2 lets that pass */
        p->at = p->t->len;
        return true;
    }
    return jinja_syntax(p, (uint32_t)at, "this comment has no end tag");
}

static void set_data(struct jparse *p, struct jtoken *t, size_t from, size_t to)
{
    *t = (struct jtoken){
        .type = T_DATA, .pos = (uint32_t)from, .len = (uint32_t)(to - from), .s = p->t->source + from};
}

static bool lex_raw(struct jparse *p, struct jtoken *t)
{
    size_t from = p->at, end;
    for (size_t i = from; i + 1 < p->t->len; i++) {
        if (p->t->source[i] != '{' || p->t->source[i + 1] != '%' || !(end = raw_end(p, i)))
            continue;
        set_data(p, t, from, strip_before(p, from, i, sign_at(p, i + 2), true));
        p->mode = LEX_ROOT;
        resume(p, end);
        return true;
    }
    if (from == p->t->len) {
        *t = (struct jtoken){.type = T_EOF, .pos = (uint32_t)from};
        return true;
    }
    return jinja_syntax(p, p->begin_pos, "this raw block has no end tag");
}

/* Text up to the next tag; the tag itself is handed out by the following call. */
static bool lex_root(struct jparse *p, struct jtoken *t)
{
    size_t from = p->at, at = from, len = p->t->len;
    const char *s = p->t->source;
    for (; at + 1 < len; at++)
        if (s[at] == '{' && (s[at + 1] == '%' || s[at + 1] == '{' || s[at + 1] == '#'))
            break;
    if (at + 1 >= len) {
        set_data(p, t, from, len);
        if (from == len)
            t->type = T_EOF;
        p->at = len;
        return true;
    }
    char sign = sign_at(p, at + 2);
    size_t raw = s[at + 1] == '%' ? raw_begin(p, at) : 0;
    set_data(p, t, from, strip_before(p, from, at, sign, s[at + 1] != '{'));
    p->begin_pos = (uint32_t)at;
    if (s[at + 1] == '#')
        return lex_comment(p, at, sign);
    if (raw) {
        p->mode = LEX_RAW;
        resume(p, raw);
        return true;
    }
    p->begin = s[at + 1] == '%' ? T_BLOCK_BEGIN : T_VAR_BEGIN;
    p->mode = LEX_BEGIN;
    p->next_mode = s[at + 1] == '%' ? LEX_BLOCK : LEX_VAR;
    p->at = at + 2 + (sign ? 1 : 0);
    return true;
}

/* ---- inside tags -------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them, from at; returns the end, or at when there is none. */
static size_t digits(const struct jparse *p, size_t at)
{
    const char *s = p->t->source;
    size_t len = p->t->len;
    if (at >= len || !is_digit(s[at]))
        return at;
    while (at < len && (is_digit(s[at]) || (s[at] == '_' && at + 1 < len && is_digit(s[at + 1]))))
        at++;
    return at;
}

static size_t exponent(const struct jparse *p, size_t at)
{
    const char *s = p->t->source;
    if (at >= p->t->len || (s[at] | 32) != 'e')
        return at;
    size_t d = at + 1;
    if (d < p->t->len && (s[d] == '+' || s[d] == '-'))
        d++;
    size_t end = digits(p, d);
    return end > d ? end : at;
}

static int digit_value(char c)
{
    return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
}

static bool lex_based(struct jparse *p, struct jtoken *t, int base)
{
    const char *s = p->t->source;
    size_t at = p->at + 2;
    int64_t v = 0;
    while (at < p->t->len) {
        size_t d = s[at] == '_' ? at + 1 : at;
        if (d >= p->t->len || digit_value(s[d]) >= base)
            break;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit_value(s[d]), &v))
            return jinja_syntax(p, t->pos, "this integer does not fit in 64 bits");
        at = d + 1;
    }
    t->type = T_INT;
    t->i = v;
    p->at = at;
    return true;
}

static bool lex_number(struct jparse *p, struct jtoken *t)
{
    const char *s = p->t->source;
    size_t from = p->at, len = p->t->len, whole = digits(p, from), end = whole;
    bool after_dot = from > 0 && s[from - 1] == '.';
    char kind = from + 2 < len && s[from] == '0' ? (char)(s[from + 1] | 32) : 0;
    int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (base) {
        size_t d = from + 2 + (s[from + 2] == '_');
        if (d < len && digit_value(s[d]) < base)
            return lex_based(p, t, base);
    }
    if (!after_dot && whole < len && s[whole] == '.' && digits(p, whole + 1) > whole + 1)
        end = digits(p, whole + 1);
    if (!after_dot)
        end = exponent(p, end);
    if (end > whole) {
        if (end - from > 400)
            return jinja_syntax(p, t->pos, "this number has more than 400 digits");
        t->type = T_FLOAT;
        t->f = jinja_strtod(s + from, end - from);
        p->at = end;
        return true;
    }
    t->type = T_INT;
    if (s[from] == '0') { /* a zero, or zeros: 07 is two numbers, as in jinja2 */
        for (whole = from;
             whole < len && (s[whole] == '0' || (s[whole] == '_' && whole + 1 < len && s[whole + 1] == '0'));)
            whole++;
    }
    for (size_t i = from; i < whole; i++)
        if (s[i] != '_' &&
            (__builtin_mul_overflow(t->i, 10, &t->i) || __builtin_add_overflow(t->i, s[i] - '0', &t->i)))
            return jinja_syntax(p, t->pos, "this integer does not fit in 64 bits");
    p->at = whole;
    return true;
}

static int hex_run(const struct jparse *p, size_t at, size_t end, int n, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < n; i++) {
        if (at + (size_t)i >= end || digit_value(p->t->source[at + (size_t)i]) > 15)
            return -1;
        *cp = *cp << 4 | (uint32_t)digit_value(p->t->source[at + (size_t)i]);
    }
    return 0;
}

/* One escape at s[*at] (after the backslash), as Python's unicode-escape codec reads it, into dst (12
 * bytes). */
static bool lex_escape(struct jparse *p, size_t *at, size_t end, char *dst, size_t *n)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *s = p->t->source;
    uint32_t pos = (uint32_t)*at - 1, cp;
    char c = s[(*at)++];
    const char *k = c ? strchr(from, c) : NULL;
    *n = 1;
    if (k) {
        *dst = to[k - from];
        return true;
    }
    if (c == '\n') {
        *n = 0;
        return true;
    }
    if (c >= '0' && c <= '7') {
        cp = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < end && s[*at] >= '0' && s[*at] <= '7'; i++)
            cp = cp * 8 + (uint32_t)(s[(*at)++] - '0');
        *n = jcp_put(dst, cp);
        return true;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        int w = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (hex_run(p, *at, end, w, &cp) || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
            return jinja_syntax(p, pos, "this escape sequence names no character");
        *at += (size_t)w;
        *n = jcp_put(dst, cp);
        return true;
    }
    if (c == 'N')
        return jinja_syntax(p, pos, "escape sequences with \\N are not supported");
    --*at;
    cp = jcp_next(s, end,
                  at); /* an unknown escape stays as it is; beyond ASCII it becomes the codec's spelling */
    *n = (size_t)snprintf(dst, 12,
                          cp < 0x80      ? "\\%c"
                          : cp < 0x100   ? "\\x%02x"
                          : cp < 0x10000 ? "\\u%04x"
                                         : "\\U%08x",
                          cp);
    return true;
}

static bool lex_string(struct jparse *p, struct jtoken *t)
{
    const char *s = p->t->source;
    char quote = s[p->at];
    size_t end = p->at + 1;
    while (end < p->t->len && s[end] != quote)
        end += s[end] == '\\' ? 2 : 1;
    if (end >= p->t->len)
        return jinja_syntax(p, t->pos, "this string has no end quote");
    char *d = jarena_bytes(&p->t->arena, (end - p->at) * 3 + 1), tmp[16];
    if (!d)
        return jinja_parse_memory(p);
    size_t n = 0, k;
    for (size_t at = p->at + 1; at < end;) {
        if (s[at] != '\\') {
            d[n++] = s[at++];
            continue;
        }
        at++;
        if (!lex_escape(p, &at, end, tmp, &k))
            return false;
        memcpy(d + n, tmp, k);
        n += k;
    }
    *t = (struct jtoken){.type = T_STRING, .pos = t->pos, .s = d, .len = (uint32_t)n};
    p->at = end + 1;
    return true;
}

static bool name_start(uint32_t cp)
{
    return cp == '_' ||
           (cp < 0x80 ? (cp | 32) >= 'a' && (cp | 32) <= 'z'
                      : jcp_alpha(cp) || utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_NL);
}

static bool name_part(uint32_t cp)
{
    if (cp < 0x80)
        return name_start(cp) || (cp >= '0' && cp <= '9');
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return name_start(cp) || jcp_digit(cp, 0) || c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC ||
           c == UTF8PROC_CATEGORY_PC;
}

static bool lex_name(struct jparse *p, struct jtoken *t)
{
    size_t at = p->at;
    while (at < p->t->len) {
        size_t next = at;
        if (!name_part(jcp_next(p->t->source, p->t->len, &next)))
            break;
        at = next;
    }
    t->type = T_NAME;
    t->len = (uint32_t)(at - p->at);
    t->s = jinja_intern(p, p->t->source + p->at, at - p->at);
    p->at = at;
    return t->s != NULL;
}

static const struct {
    char text[3];
    uint8_t type;
} operators[] = {
    {"//", T_FLOORDIV}, {"**", T_POW},   {"==", T_EQ},      {"!=", T_NE},      {">=", T_GE},
    {"<=", T_LE},       {"+", T_ADD},    {"-", T_SUB},      {"/", T_DIV},      {"*", T_MUL},
    {"%", T_MOD},       {"~", T_TILDE},  {"[", T_LBRACKET}, {"]", T_RBRACKET}, {"(", T_LPAREN},
    {")", T_RPAREN},    {"{", T_LBRACE}, {"}", T_RBRACE},   {">", T_GT},       {"<", T_LT},
    {"=", T_ASSIGN},    {".", T_DOT},    {":", T_COLON},    {"|", T_PIPE},     {",", T_COMMA},
    {";", T_SEMICOLON},
};

static bool lex_bracket(struct jparse *p, const struct jtoken *t)
{
    char c = p->t->source[t->pos];
    if (c == '(' || c == '[' || c == '{') {
        if (p->n_brackets == LIMIT_TEMPLATE_DEPTH)
            return jinja_syntax(p, t->pos, "brackets nested deeper than %d", LIMIT_TEMPLATE_DEPTH);
        p->brackets[p->n_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (!p->n_brackets)
            return jinja_syntax(p, t->pos, "unexpected '%c'", c);
        if (p->brackets[--p->n_brackets] != c)
            return jinja_syntax(p, t->pos, "unexpected '%c', expected '%c'", c, p->brackets[p->n_brackets]);
    }
    return true;
}

static bool lex_operator(struct jparse *p, struct jtoken *t)
{
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!starts(p, p->at, operators[i].text))
            continue;
        t->type = operators[i].type;
        t->len = (uint32_t)strlen(operators[i].text);
        p->at += t->len;
        return lex_bracket(p, t);
    }
    size_t next = p->at;
    uint32_t cp = jcp_next(p->t->source, p->t->len, &next);
    if (cp >= 0x20 && cp < 0x7f)
        return jinja_syntax(p, t->pos, "unexpected character '%c'", (int)cp);
    return jinja_syntax(p, t->pos, "unexpected character U+%04X", cp);
}

static bool lex_inside(struct jparse *p, struct jtoken *t)
{
    char close = p->mode == LEX_BLOCK ? '%' : '}';
    const char *s = p->t->source;
    for (size_t at = p->at;; at = skip_space(p, at)) {
        size_t end = p->n_brackets ? 0 : block_end(p, at, close);
        *t = (struct jtoken){.pos = (uint32_t)at};
        if (end) {
            t->type = p->mode == LEX_BLOCK ? T_BLOCK_END : T_VAR_END;
            p->mode = LEX_ROOT;
            resume(p, end);
            return true;
        }
        p->at = at;
        if (at >= p->t->len || skip_space(p, at) == at)
            break;
    }
    if (p->at >= p->t->len) {
        t->type = T_EOF;
        return true;
    }
    if (is_digit(s[p->at]))
        return lex_number(p, t);
    if (s[p->at] == '\'' || s[p->at] == '"')
        return lex_string(p, t);
    size_t next = p->at;
    if (name_start(jcp_next(s, p->t->len, &next)))
        return lex_name(p, t);
    return lex_operator(p, t);
}

bool jinja_lex_token(struct jparse *p, struct jtoken *t)
{
    for (;;) {
        switch (p->mode) {
        case LEX_BEGIN:
            *t = (struct jtoken){.type = p->begin, .pos = p->begin_pos};
            p->mode = p->next_mode;
            return true;
        case LEX_BLOCK:
        case LEX_VAR:
            return lex_inside(p, t);
        case LEX_RAW:
            if (!lex_raw(p, t))
                return false;
            break;
        default:
            if (!lex_root(p, t))
                return false;
        }
        if (t->type != T_DATA || t->len)
            return true;
    }
}

bool jinja_next(struct jparse *p)
{
    if (p->has_ahead) {
        p->cur = p->ahead;
        p->has_ahead = false;
        return true;
    }
    return jinja_lex_token(p, &p->cur);
}

bool jinja_look(struct jparse *p)
{
    if (!p->has_ahead && !jinja_lex_token(p, &p->ahead))
        return false;
    p->has_ahead = true;
    return true;
}
