/* Reading the rules of a scripted model (docs/scripted.md): one a line,
 *
 *     at POSITION: ITEMS            if ITEMS after ITEMS: ITEMS
 *     after ITEMS: ITEMS            else ITEM
 *
 * An item is a token id, "text" (which may form control tokens), `eos` or `nan`. No recursion, no allocation by a
 * number from the file. */
#include "base/limits.h"
#include "base/mem.h"
#include "base/values.h"
#include "model/script.h"
#include <string.h>

struct reader {
    struct script *s;
    const struct vocab *v;
    const char *name, *at, *end; /* the rest of the line */
    int line;
    struct hasten_error *err;
};

static hasten_status bad(const struct reader *r, const char *expected)
{
    const size_t left = (size_t)(r->end - r->at), shown = left < 40 ? left : 40;
    return error_set(r->err, HASTEN_ERR_FILE, "%s: line %d: found '%.*s' (expected %s)", r->name, r->line,
                     (int)shown, r->at, expected);
}

static hasten_status no_memory(const struct reader *r)
{
    return error_set(r->err, HASTEN_ERR_MEMORY, "%s: out of memory", r->name);
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

/* Takes `word` if it comes next and ends there. */
static bool take_word(struct reader *r, const char *word)
{
    const size_t n = strlen(word);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n))
        return false;
    if (r->at + n < r->end && r->at[n] != ' ' && r->at[n] != '\t' && r->at[n] != ':' && r->at[n] != '\r')
        return false;
    r->at += n;
    return true;
}

static bool take_colon(struct reader *r)
{
    skip_blanks(r);
    return r->at < r->end && *r->at == ':' && r->at++;
}

static hasten_status take_number(struct reader *r, int32_t most, const char *expected, int32_t *out)
{
    const char *from = r->at;
    int64_t v = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && v <= most)
        v = v * 10 + (*r->at++ - '0');
    if (r->at == from || v > most) {
        r->at = from;
        return bad(r, expected);
    }
    *out = (int32_t)v;
    return HASTEN_OK;
}

static int push(struct script_items *items, int32_t id)
{
    struct tokens t = {items->ids, items->n, items->cap};
    const int rc = tokens_push(&t, id);
    *items = (struct script_items){t.ids, t.n, t.cap};
    return rc;
}

/* ---- texts ---------------------------------------------------------------------------------------------- */

/* What stands behind a backslash. */
static hasten_status take_escape(struct reader *r, char *out)
{
    static const char names[] = "nrt\"\\", values[] = "\n\r\t\"\\";
    const char *found = r->at < r->end && *r->at ? strchr(names, *r->at) : NULL;
    if (found) {
        *out = values[found - names];
        r->at++;
        return HASTEN_OK;
    }
    if (r->end - r->at < 3 || *r->at != 'x' || value_hex_digit(r->at[1]) < 0 || value_hex_digit(r->at[2]) < 0)
        return bad(r, "n, r, t, \", \\ or xHH behind a backslash");
    *out = (char)(16 * value_hex_digit(r->at[1]) + value_hex_digit(r->at[2]));
    r->at += 3;
    return HASTEN_OK;
}

static hasten_status take_text(struct reader *r, struct script_items *items)
{
    struct buf text = {0};
    hasten_status st = HASTEN_OK;
    for (r->at++; r->at < r->end && *r->at != '"' && !st;) {
        char c = *r->at++;
        if (c == '\\')
            st = take_escape(r, &c);
        if (!st && buf_putc(&text, c))
            st = no_memory(r);
    }
    if (!st && r->at == r->end)
        st = bad(r, "a closing \"");
    r->at += !st;
    struct tokens t = {items->ids, items->n, items->cap};
    if (!st)
        st = vocab_encode(r->v, text.data ? text.data : "", text.len, VOCAB_SPECIAL | VOCAB_NO_PREFIX, &t,
                          r->err);
    *items = (struct script_items){t.ids, t.n, t.cap};
    buf_free(&text);
    return st;
}

/* ---- items and rules ------------------------------------------------------------------------------------ */

static hasten_status take_item(struct reader *r, struct script_items *items)
{
    static const char expected[] = "\"text\", a token id of the vocabulary, eos or nan";
    int32_t id = r->s->end;
    if (*r->at == '"')
        return take_text(r, items);
    if (take_word(r, "nan"))
        id = SCRIPT_NAN;
    else if (take_word(r, "eos")) {
        if (id < 0)
            return bad(r, "another token: the vocabulary has none that ends an answer");
    } else {
        hasten_status st = take_number(r, r->s->n_vocab - 1, expected, &id);
        if (st)
            return st;
    }
    return push(items, id) ? no_memory(r) : HASTEN_OK;
}

/* One item or more, up to the end of the line, a colon, a comment or the word `after`. */
static hasten_status take_items(struct reader *r, struct script_items *items)
{
    hasten_status st = HASTEN_OK;
    for (;;) {
        skip_blanks(r);
        if (st || r->at == r->end || *r->at == ':' || *r->at == '#' || *r->at == 'a')
            break;
        st = take_item(r, items);
    }
    if (!st && items->n == 0)
        st = bad(r, "an item: \"text\", a token id, eos or nan");
    if (!st && items->n > LIMIT_SCRIPT_ITEMS)
        st = error_set(r->err, HASTEN_ERR_LIMIT, "%s: line %d: %lld tokens (expected at most %d)", r->name,
                       r->line, (long long)items->n, LIMIT_SCRIPT_ITEMS);
    return st;
}

static hasten_status take_condition(struct reader *r, struct script_rule *rule)
{
    if (!take_word(r, "if"))
        return HASTEN_OK;
    if (r->s->n_ifs == SCRIPT_MAX_IFS)
        return error_set(r->err, HASTEN_ERR_LIMIT, "%s: line %d: more than %d lines with `if`", r->name,
                         r->line, SCRIPT_MAX_IFS);
    rule->condition = r->s->n_ifs++;
    return take_items(r, &r->s->ifs[rule->condition]);
}

static hasten_status take_rule(struct reader *r)
{
    struct script *s = r->s;
    if (s->n_rules == SCRIPT_MAX_RULES)
        return error_set(r->err, HASTEN_ERR_LIMIT, "%s: line %d: more than %d rules", r->name, r->line,
                         SCRIPT_MAX_RULES);
    struct script_rule *rule = &s->rules[s->n_rules++];
    *rule = (struct script_rule){.kind = SCRIPT_AFTER, .condition = -1};
    hasten_status st = take_condition(r, rule);
    if (st)
        return st;
    if (rule->condition < 0 && take_word(r, "at")) {
        rule->kind = SCRIPT_AT;
        skip_blanks(r);
        st = take_number(r, LIMIT_CONTEXT, "a position", &rule->at);
    } else if (take_word(r, "after")) {
        st = take_items(r, &rule->after);
    } else {
        st = bad(r, rule->condition < 0 ? "at, after, if, else or a comment" : "after");
    }
    if (!st && !take_colon(r))
        st = bad(r, "a colon");
    return st ? st : take_items(r, &rule->items);
}

static hasten_status take_else(struct reader *r)
{
    struct script_items one = {0};
    hasten_status st = take_items(r, &one);
    if (!st && one.n != 1)
        st = error_set(r->err, HASTEN_ERR_FILE, "%s: line %d: else: found %lld tokens (expected one)",
                       r->name, r->line, (long long)one.n);
    if (!st)
        r->s->otherwise = one.ids[0];
    mem_free(one.ids);
    return st;
}

static hasten_status take_line(struct reader *r)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at == '#')
        return HASTEN_OK;
    hasten_status st = take_word(r, "else") ? take_else(r) : take_rule(r);
    skip_blanks(r);
    if (!st && r->at < r->end && *r->at != '#')
        st = bad(r, "the end of the line");
    return st;
}

hasten_status script_read_rules(struct script *s, const struct vocab *v, const char *name, const char *text,
                                size_t len, struct hasten_error *err)
{
    const char *const end = text + len;
    hasten_status st = HASTEN_OK;
    s->rules = mem_calloc(SCRIPT_MAX_RULES, sizeof *s->rules);
    if (!s->rules)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", name);
    for (int line = 1; text < end && !st; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        struct reader r = {s, v, name, text, stop ? stop : end, line, err};
        st = take_line(&r);
        text = stop ? stop + 1 : end;
    }
    return st;
}
