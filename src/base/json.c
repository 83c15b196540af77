/* JSON from outside: a pre-scan for depth and size, then jansson.
 *
 * Owns json_parse and json_parse_unique. jansson parses recursively, so the nesting is bounded here first by a walk that only knows
 * brackets and strings. It does not interpret the document; users of it do. */
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include <stdbool.h>

struct place {
    int line, column; /* 1-based; column in code points */
};

static struct place place_of(const char *text, size_t offset)
{
    struct place p = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            p.line++;
            p.column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            p.column++;
        }
    }
    return p;
}

/* Offset of the first bracket that is nested too deeply, or len. */
static size_t scan_depth(const char *text, size_t len)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > LIMIT_JSON_DEPTH)
                return i;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return len;
}

static hasten_status parse(const char *what, const char *text, size_t len, size_t flags, json_t **out,
                           struct hasten_error *err)
{
    if (len > LIMIT_JSON_BYTES)
        return error_set(err, HASTEN_ERR_LIMIT, "%s: %zu bytes of JSON, at most %u are read", what, len,
                         LIMIT_JSON_BYTES);
    size_t deep = scan_depth(text, len);
    if (deep < len) {
        struct place p = place_of(text, deep);
        return error_set(err, HASTEN_ERR_LIMIT, "%s: line %d, column %d: nested deeper than %d", what, p.line,
                         p.column, LIMIT_JSON_DEPTH);
    }
    /* Where memory runs out in the middle of a token, jansson says that the text is wrong, or takes the token with a
     * character less; the door knows better (when jansson allocates through it, as in the command). */
    struct mem_stats before, after;
    json_error_t e;
    mem_stats_get(&before);
    json_t *j = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL | flags, &e);
    mem_stats_get(&after);
    if (after.n_failed != before.n_failed) {
        json_decref(j);
        return error_set(err, HASTEN_ERR_MEMORY, "%s: no memory for %zu bytes of JSON", what, len);
    }
    if (!j) {
        /* an allocation that fails before the first character leaves no text */
        if (json_error_code(&e) == json_error_out_of_memory || !e.text[0])
            return error_set(err, HASTEN_ERR_MEMORY, "%s: no memory for %zu bytes of JSON", what, len);
        /* jansson points behind the token; name the token's last character */
        size_t at = e.position < 0 ? 0 : (size_t)e.position < len ? (size_t)e.position : len;
        struct place p = place_of(text, at > 0 ? at - 1 : 0);
        return error_set(err, HASTEN_ERR_FILE, "%s: line %d, column %d: %s", what, p.line, p.column, e.text);
    }
    *out = j;
    return HASTEN_OK;
}

hasten_status json_parse(const char *what, const char *text, size_t len, json_t **out,
                         struct hasten_error *err)
{
    return parse(what, text, len, 0, out, err);
}

hasten_status json_parse_unique(const char *what, const char *text, size_t len, json_t **out,
                                struct hasten_error *err)
{
    return parse(what, text, len, JSON_REJECT_DUPLICATES, out, err);
}
