/* Strings of a JSON Schema, and values as they are. Owns the keywords minLength, maxLength, pattern and format, how text
 * is quoted in GBNF and in JSON, and the literals of enum and const. */
#include "base/limits.h"
#include "sample/regex.h"
#include "sample/schema_internal.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- formats -------------------------------------------------------------------------------------------------- */

#define DATE                                                                                                                 \
    "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[" \
    "0-8]))|(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-29)"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define H16 "[0-9A-Fa-f]{1,4}"
#define ATOM "[A-Za-z0-9_+-]{1,32}"
#define TIME_SPAN "T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S)"
#define DATE_SPAN "(?:\\d{1,9}D|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?)"

static const struct format {
    const char *name, *pattern;
} formats[] = {
    /* RFC 3339; years from 1000 */
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:\\d{1,9}W|" DATE_SPAN "(?:" TIME_SPAN ")?|" TIME_SPAN ")"},
    /* RFC 9562 */
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    /* RFC 5321, its plain addresses; RFC 1123 */
    {"email", ATOM "(?:\\." ATOM "){0,3}@(?:" LABEL "\\.){1,4}[A-Za-z]{2,63}"},
    {"hostname", LABEL "(?:\\." LABEL "){0,3}"},
    {"ipv4", OCTET "\\." OCTET "\\." OCTET "\\." OCTET},
    /* RFC 4291, without addresses that end in those of IPv4 */
    {"ipv6", "(?:" H16 ":){7}" H16 "|(?:" H16 ":){1,7}:|(?:" H16 ":){1,6}:" H16 "|(?:" H16 ":){1,5}(?::" H16
             "){2}|(?:" H16 ":){1,4}(?::" H16 "){3}|(?:" H16 ":){1,3}(?::" H16 "){4}|(?:" H16
             ":){1,2}(?::" H16 "){5}|" H16 ":(?::" H16 "){6}|:(?::" H16 "){1,7}|::"},
    /* RFC 3986, with an authority and without a fragment */
    {"uri",
     "[A-Za-z][A-Za-z0-9+.-]{0,15}://[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?(?::[1-9]\\d{0,3})?(?:[/?](?:[A-Za-z0-9._~:/"
     "?@!$&'()*+,;=-]*))?"},
};

static const char *pattern_of(const char *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, format) == 0)
            return formats[i].pattern;
    return NULL; /* an annotation, as the standard says */
}

/* ---- strings ---------------------------------------------------------------------------------------------------- */

static int expression(struct schema *s, const char *pattern, size_t len, bool is_format, int64_t min,
                      int64_t max)
{
    struct regex r = {0};
    char prefix[64];
    bool done = false;
    snprintf(prefix, sizeof prefix, "%.32sr%d-x%d-", s->prefix, (int)s->job, (int)s->n_rules++);
    s->status = regex_parse(is_format ? "format" : "pattern", pattern, len, !is_format, &r, s->err);
    if (s->status) {
        const hasten_status st = s->status;
        error_prefix(s->err, "%s: %s", s->what, s->jobs.at[s->job].place);
        regex_free(&r);
        s->status = st;
        return -1;
    }
    const int bad = schema_put(s, "\"\\\"\" ") || regex_put_bounded(&r, REGEX_JSON, min, max, is_format,
                                                                    prefix, &s->body, &s->rules, &done);
    regex_free(&r);
    if (bad)
        return schema_no_memory(s);
    if (!done)
        return schema_refuse(s, is_format ? "format" : "pattern", "beside this minLength or maxLength");
    return schema_put(s, " \"\\\"\"");
}

int schema_string(struct schema *s, const json_t *node)
{
    const json_t *pattern = json_object_get(node, "pattern"), *format = json_object_get(node, "format");
    const char *of_format = NULL;
    int64_t min, max;
    if (schema_count(s, node, "minLength", 0, &min) || schema_count(s, node, "maxLength", -1, &max))
        return -1;
    if (max >= 0 && min > max)
        return schema_fail(s, HASTEN_ERR_FILE, "minLength is above maxLength");
    if ((pattern && !json_is_string(pattern)) || (format && !json_is_string(format)))
        return schema_fail(s, HASTEN_ERR_FILE, "keyword '%s' is no string",
                           pattern && !json_is_string(pattern) ? "pattern" : "format");
    if (format)
        of_format = pattern_of(json_string_value(format));
    if (pattern && of_format)
        return schema_refuse(s, "pattern", "beside format");
    if (pattern)
        return expression(s, json_string_value(pattern), json_string_length(pattern), false, min, max);
    if (of_format)
        return expression(s, of_format, strlen(of_format), true, min, max);
    if (min == 0 && max < 0)
        return schema_put(s, "json-string");
    if (max < 0)
        return schema_put(s, min == 1 ? "\"\\\"\" json-char+ \"\\\"\"" : "\"\\\"\" json-char{%lld,} \"\\\"\"",
                          (long long)min);
    return schema_put(s, "\"\\\"\" json-char{%lld,%lld} \"\\\"\"", (long long)min, (long long)max);
}

/* ---- literals ----------------------------------------------------------------------------------------------------- */

int schema_quoted(struct schema *s, const char *text, size_t len)
{
    struct buf *b = &s->body;
    int bad = buf_putc(b, '"');
    for (size_t i = 0; i < len && !bad; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            bad = buf_putc(b, '\\') || buf_putc(b, (char)c);
        else if (c < ' ' || c == 0x7F)
            bad = buf_printf(b, "\\x%02X", c);
        else
            bad = buf_putc(b, (char)c);
    }
    return bad || buf_putc(b, '"') ? schema_no_memory(s) : 0;
}

static int to_buffer(const char *text, size_t len, void *buffer)
{
    return buf_put(buffer, text, len);
}

static int put_dumped(struct schema *s, const json_t *value)
{
    struct buf text = {0};
    int bad = 0;
    for (size_t digits = 15; digits <= 17; digits++) { /* so few that the number is the same */
        buf_clear(&text);
        bad = json_dump_callback(value, to_buffer, &text,
                                 JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(digits));
        if (bad || !json_is_real(value) || strtod(text.data, NULL) == json_real_value(value))
            break;
    }
    bad = bad ? schema_no_memory(s) : schema_quoted(s, text.data, text.len);
    buf_free(&text);
    return bad;
}

static int put_list(struct schema *s, const json_t *value)
{
    size_t i;
    const json_t *item;
    if (json_array_size(value) == 0)
        return schema_put(s, "\"[\" json-ws \"]\"");
    json_array_foreach(value, i, item)
    {
        if (schema_put(s, i ? " \",\" json-ws " : "\"[\" json-ws ") || schema_literal(s, item))
            return -1;
    }
    return schema_put(s, " json-ws \"]\"");
}

static int put_members(struct schema *s, const json_t *value)
{
    bool any = false;
    for (void *i = json_object_iter((json_t *)(uintptr_t)value); i;
         i = json_object_iter_next((json_t *)(uintptr_t)value, i)) {
        json_t *key = json_stringn(json_object_iter_key(i), json_object_iter_key_len(i));
        int bad = !key ? schema_no_memory(s) : schema_put(s, any ? " \",\" json-ws " : "\"{\" json-ws ");
        bad = bad || put_dumped(s, key) || schema_put(s, " \":\" json-ws ");
        json_decref(key);
        if (bad || schema_literal(s, json_object_iter_value(i)))
            return -1;
        any = true;
    }
    return schema_put(s, any ? " json-ws \"}\"" : "\"{\" json-ws \"}\"");
}

int schema_literal(struct schema *s, const json_t *value)
{
    if (!json_is_array(value) && !json_is_object(value))
        return put_dumped(s, value);
    if (depth_enter(&s->depth))
        return schema_fail(s, HASTEN_ERR_LIMIT, "a value nested deeper than %d", LIMIT_JSON_DEPTH);
    const int bad = json_is_array(value) ? put_list(s, value) : put_members(s, value);
    depth_leave(&s->depth);
    return bad;
}
