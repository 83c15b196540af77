/* Typed access to the values of a GGUF file, and their text for display.
 *
 * Owns the rules of conversion: integers of any width and sign are one kind and must fit the type asked for,
 * floats are another, bools and strings stand alone. Positions and sizes were checked by gguf_parse.c. */
#include "formats/gguf.h"

#include "formats/gguf_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

static const struct {
    const char *name;
    uint32_t bytes;
} value_types[] = {
    [GGUF_U8] = {"u8", 1},   [GGUF_I8] = {"i8", 1},       [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2}, [GGUF_U32] = {"u32", 4},     [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1},   [GGUF_STRING] = {"string", 0},
    [GGUF_U64] = {"u64", 8}, [GGUF_ARRAY] = {"array", 0}, [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

uint32_t gguf_number_bytes(uint32_t type)
{
    return type <= GGUF_F64 ? value_types[type].bytes : 0;
}

const char *gguf_type_name(uint32_t type)
{
    return type <= GGUF_F64 ? value_types[type].name : "?";
}

/* A number of a file. Whole numbers are sign and magnitude, so that every u64 and i64 fits. */
struct number {
    bool is_float, negative;
    uint64_t magnitude;
    double f;
    int digits; /* of a float: enough decimal digits to name it exactly */
};

static struct number natural(uint64_t v)
{
    return (struct number){.magnitude = v};
}

static struct number whole(int64_t v)
{
    return (struct number){.negative = v < 0, .magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v};
}

static struct number load_f32(const uint8_t *p)
{
    uint32_t bits = gguf_load_u32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return (struct number){.is_float = true, .f = (double)f, .digits = 9};
}

static struct number load_f64(const uint8_t *p)
{
    uint64_t bits = gguf_load_u64(p);
    struct number v = {.is_float = true, .digits = 17};
    memcpy(&v.f, &bits, sizeof v.f);
    return v;
}

/* Reads a number of one of the types that gguf_number_bytes knows. */
static struct number load_number(const uint8_t *p, enum gguf_value_type type)
{
    switch (type) {
    case GGUF_I8:
        return whole((int8_t)p[0]);
    case GGUF_I16:
        return whole((int16_t)gguf_load_u16(p));
    case GGUF_I32:
        return whole((int32_t)gguf_load_u32(p));
    case GGUF_I64:
        return whole((int64_t)gguf_load_u64(p));
    case GGUF_U16:
        return natural(gguf_load_u16(p));
    case GGUF_U32:
        return natural(gguf_load_u32(p));
    case GGUF_U64:
        return natural(gguf_load_u64(p));
    case GGUF_F32:
        return load_f32(p);
    case GGUF_F64:
        return load_f64(p);
    default: /* u8 and bool */
        return natural(p[0]);
    }
}

#define NUMBER_TEXT 32

/* Decimal text; a float gets the fewest digits that name it. */
static void number_text(struct number v, char out[NUMBER_TEXT])
{
    if (!v.is_float) {
        snprintf(out, NUMBER_TEXT, "%s%" PRIu64, v.negative ? "-" : "", v.magnitude);
        return;
    }
    for (int digits = 7; digits <= v.digits; digits++) {
        snprintf(out, NUMBER_TEXT, "%.*g", digits, v.f);
        double back = strtod(out, NULL);
        if (v.digits == 9 ? (float)back == (float)v.f : back == v.f)
            return;
    }
}

static bool is_whole(enum gguf_value_type type)
{
    return gguf_number_bytes(type) && type != GGUF_F32 && type != GGUF_F64 && type != GGUF_BOOL;
}

/* False beyond the range of i32. */
static bool to_i32(struct number v, int32_t *out)
{
    if (v.is_float || v.magnitude > (uint64_t)INT32_MAX + v.negative)
        return false;
    *out = (int32_t)(v.negative ? -(int64_t)v.magnitude : (int64_t)v.magnitude);
    return true;
}

/* False if a finite f64 lies beyond the range of f32. */
static bool to_f32(struct number v, float *out)
{
    double d = v.is_float ? v.f : v.negative ? -(double)v.magnitude : (double)v.magnitude;
    if (isfinite(d) && !isfinite((float)d))
        return false;
    *out = (float)d;
    return true;
}

/* ---- finding and refusing ---- */

/* The entry of a key; NULL with OK if it is missing and need not be there. */
static hasten_status find(const struct gguf *g, const char *key, bool required, const struct gguf_entry **out,
                          struct hasten_error *err)
{
    char quoted[GGUF_QUOTED];
    int64_t i = gguf_find(g, key);
    *out = i < 0 ? NULL : &g->entries[i];
    if (i < 0 && required)
        return error_set(err, HASTEN_ERR_FILE, "%s: key %s: expected a value, found no such key",
                         g->shown_path, gguf_quote(quoted, key, strlen(key)));
    return HASTEN_OK;
}

__attribute__((format(printf, 5, 6))) static hasten_status refuse_value(const struct gguf *g, const char *key,
                                                                        uint64_t at, struct hasten_error *err,
                                                                        const char *fmt, ...)
{
    char quoted[GGUF_QUOTED], detail[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    return error_set(err, HASTEN_ERR_FILE, "%s: value of key %" PRId64 " %s at byte %" PRIu64 ": %s",
                     g->shown_path, gguf_find(g, key), gguf_quote(quoted, key, strlen(key)), at, detail);
}

static hasten_status refuse_type(const struct gguf *g, const char *key, const struct gguf_entry *e,
                                 const char *expected, struct hasten_error *err)
{
    if (e->type == GGUF_ARRAY)
        return refuse_value(g, key, e->at, err, "expected %s, found an array of type %s", expected,
                            gguf_type_name(e->elem));
    return refuse_value(g, key, e->at, err, "expected %s, found type %s", expected, gguf_type_name(e->type));
}

/* ---- single values ---- */

static hasten_status read_u32(const struct gguf *g, const char *key, bool required, uint32_t *out,
                              struct hasten_error *err)
{
    const struct gguf_entry *e;
    char text[NUMBER_TEXT];
    hasten_status s = find(g, key, required, &e, err);
    if (s != HASTEN_OK || !e)
        return s;
    if (!is_whole(e->type))
        return refuse_type(g, key, e, "an integer", err);
    struct number v = load_number(g->data + e->at, e->type);
    if (v.negative || v.magnitude > UINT32_MAX) {
        number_text(v, text);
        return refuse_value(g, key, e->at, err, "expected 0 to 4294967295, found %s", text);
    }
    *out = (uint32_t)v.magnitude;
    return HASTEN_OK;
}

static hasten_status read_f32(const struct gguf *g, const char *key, bool required, float *out,
                              struct hasten_error *err)
{
    const struct gguf_entry *e;
    char text[NUMBER_TEXT];
    hasten_status s = find(g, key, required, &e, err);
    if (s != HASTEN_OK || !e)
        return s;
    if (e->type != GGUF_F32 && e->type != GGUF_F64)
        return refuse_type(g, key, e, "type f32 or f64", err);
    struct number v = load_number(g->data + e->at, e->type);
    if (!to_f32(v, out)) {
        number_text(v, text);
        return refuse_value(g, key, e->at, err, "expected a number in the range of f32, found %s", text);
    }
    return HASTEN_OK;
}

static hasten_status read_bool(const struct gguf *g, const char *key, bool required, bool *out,
                               struct hasten_error *err)
{
    const struct gguf_entry *e;
    hasten_status s = find(g, key, required, &e, err);
    if (s != HASTEN_OK || !e)
        return s;
    if (e->type != GGUF_BOOL)
        return refuse_type(g, key, e, "type bool", err);
    *out = g->data[e->at] != 0;
    return HASTEN_OK;
}

static struct gguf_str load_str(const struct gguf *g, uint64_t at)
{
    return (struct gguf_str){.data = (const char *)g->data + at + 8,
                             .len = (size_t)gguf_load_u64(g->data + at)};
}

static hasten_status read_str(const struct gguf *g, const char *key, bool required, struct gguf_str *out,
                              struct hasten_error *err)
{
    const struct gguf_entry *e;
    hasten_status s = find(g, key, required, &e, err);
    if (s != HASTEN_OK || !e)
        return s;
    if (e->type != GGUF_STRING)
        return refuse_type(g, key, e, "type string", err);
    *out = load_str(g, e->at);
    return HASTEN_OK;
}

hasten_status gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, struct hasten_error *err)
{
    return read_u32(g, key, true, out, err);
}

hasten_status gguf_opt_u32(const struct gguf *g, const char *key, uint32_t *out, struct hasten_error *err)
{
    return read_u32(g, key, false, out, err);
}

hasten_status gguf_get_f32(const struct gguf *g, const char *key, float *out, struct hasten_error *err)
{
    return read_f32(g, key, true, out, err);
}

hasten_status gguf_opt_f32(const struct gguf *g, const char *key, float *out, struct hasten_error *err)
{
    return read_f32(g, key, false, out, err);
}

hasten_status gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct hasten_error *err)
{
    return read_bool(g, key, true, out, err);
}

hasten_status gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct hasten_error *err)
{
    return read_bool(g, key, false, out, err);
}

hasten_status gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out,
                           struct hasten_error *err)
{
    return read_str(g, key, true, out, err);
}

hasten_status gguf_opt_str(const struct gguf *g, const char *key, struct gguf_str *out,
                           struct hasten_error *err)
{
    return read_str(g, key, false, out, err);
}

/* ---- arrays ---- */

hasten_status gguf_array_info(const struct gguf *g, const char *key, enum gguf_value_type *elem, int64_t *n,
                              struct hasten_error *err)
{
    const struct gguf_entry *e;
    hasten_status s = find(g, key, false, &e, err);
    *n = 0;
    if (s != HASTEN_OK || !e)
        return s;
    if (e->type != GGUF_ARRAY)
        return refuse_type(g, key, e, "an array", err);
    *elem = e->elem;
    *n = (int64_t)e->n;
    return HASTEN_OK;
}

hasten_status gguf_array_strs(const struct gguf *g, const char *key, int64_t from, int64_t n,
                              struct gguf_str *out, struct hasten_error *err)
{
    const struct gguf_entry *e;
    hasten_status s = find(g, key, true, &e, err);
    if (s != HASTEN_OK)
        return s;
    if (!e->strings)
        return refuse_type(g, key, e, "an array of type string", err);
    if (from < 0 || n < 0 || (uint64_t)from > e->n || (uint64_t)n > e->n - (uint64_t)from)
        return refuse_value(g, key, e->at, err, "expected an index below %" PRIu64 ", found %" PRId64, e->n,
                            from < 0 || n < 1 ? from : from + n - 1);
    for (int64_t i = 0; i < n; i++)
        out[i] = load_str(g, e->strings[from + i]);
    return HASTEN_OK;
}

hasten_status gguf_array_str(const struct gguf *g, const char *key, int64_t i, struct gguf_str *out,
                             struct hasten_error *err)
{
    return gguf_array_strs(g, key, i, 1, out, err);
}

/* An array of n numbers; floats says whether f32 and f64 may be among them. */
static hasten_status find_numbers(const struct gguf *g, const char *key, int64_t n, bool floats,
                                  const struct gguf_entry **out, struct hasten_error *err)
{
    hasten_status s = find(g, key, true, out, err);
    if (s != HASTEN_OK)
        return s;
    const struct gguf_entry *e = *out;
    if (e->type != GGUF_ARRAY ||
        !(is_whole(e->elem) || (floats && (e->elem == GGUF_F32 || e->elem == GGUF_F64))))
        return refuse_type(g, key, e, floats ? "an array of numbers" : "an array of integers", err);
    if (n < 0 || e->n != (uint64_t)n)
        return refuse_value(g, key, e->at, err, "expected %" PRId64 " elements, found %" PRIu64, n, e->n);
    return HASTEN_OK;
}

/* The n elements of key as f32 or as i32. */
static hasten_status array_numbers(const struct gguf *g, const char *key, void *out, int64_t n, bool floats,
                                   struct hasten_error *err)
{
    const struct gguf_entry *e;
    char text[NUMBER_TEXT];
    hasten_status s = find_numbers(g, key, n, floats, &e, err);
    if (s != HASTEN_OK)
        return s;
    uint32_t step = gguf_number_bytes(e->elem);
    uint64_t at = e->at;
    for (int64_t i = 0; i < n; i++, at += step) {
        struct number v = load_number(g->data + at, e->elem);
        if (floats ? to_f32(v, (float *)out + i) : to_i32(v, (int32_t *)out + i))
            continue;
        number_text(v, text);
        return refuse_value(g, key, at, err, "expected elements in the range of %s, found %s",
                            floats ? "f32" : "i32", text);
    }
    return HASTEN_OK;
}

hasten_status gguf_array_f32(const struct gguf *g, const char *key, float *out, int64_t n,
                             struct hasten_error *err)
{
    return array_numbers(g, key, out, n, true, err);
}

hasten_status gguf_array_i32(const struct gguf *g, const char *key, int32_t *out, int64_t n,
                             struct hasten_error *err)
{
    return array_numbers(g, key, out, n, false, err);
}

/* ---- text for display ---- */

#define SHOWN_ELEMENTS 6

/* Text of bounded size: what does not fit is replaced by "...". */
struct text {
    char *out;
    size_t size, len;
    bool full;
};

/* Appends a piece that must not be cut (an escape, a character, a number). */
static void put(struct text *t, const char *piece, size_t len)
{
    if (t->full)
        return;
    if (t->len + len + 4 > t->size) { /* "..." and the NUL always fit after what was put before */
        size_t dots = t->size - 1 - t->len;
        dots = dots < 3 ? dots : 3;
        memcpy(t->out + t->len, "...", dots);
        t->len += dots;
        t->full = true;
    } else {
        memcpy(t->out + t->len, piece, len);
        t->len += len;
    }
    t->out[t->len] = '\0';
}

static void put_string(struct text *t, struct gguf_str s)
{
    const uint8_t *p = (const uint8_t *)s.data;
    char escape[8];
    put(t, "\"", 1);
    for (size_t i = 0, n; i < s.len && !t->full; i += n ? n : 1) {
        n = gguf_utf8_sequence(p + i, s.len - i);
        if (p[i] == '\n')
            put(t, "\\n", 2);
        else if (p[i] == '"' || p[i] == '\\')
            put(t, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", p[i]));
        else if (p[i] < ' ' || p[i] == 0x7f)
            put(t, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", p[i]));
        else if (n == 0)
            put(t, "\xef\xbf\xbd", 3); /* U+FFFD for a byte that is not UTF-8 */
        else
            put(t, s.data + i, n);
    }
    put(t, "\"", 1);
}

static void put_scalar(struct text *t, const struct gguf *g, enum gguf_value_type type, uint64_t at)
{
    char text[NUMBER_TEXT];
    if (type == GGUF_STRING) {
        put_string(t, load_str(g, at));
    } else if (type == GGUF_BOOL) {
        put(t, g->data[at] ? "true" : "false", g->data[at] ? 4 : 5);
    } else {
        number_text(load_number(g->data + at, type), text);
        put(t, text, strlen(text));
    }
}

static void put_array(struct text *t, const struct gguf *g, const struct gguf_entry *e)
{
    char note[48];
    uint64_t shown = e->elem == GGUF_ARRAY ? 0 : e->n < SHOWN_ELEMENTS ? e->n : SHOWN_ELEMENTS;
    put(t, "[", 1);
    for (uint64_t i = 0; i < shown; i++) {
        if (i > 0)
            put(t, ", ", 2);
        put_scalar(t, g, e->elem, e->strings ? e->strings[i] : e->at + i * gguf_number_bytes(e->elem));
    }
    if (shown < e->n)
        put(t, note,
            (size_t)snprintf(note, sizeof note, "%s... %" PRIu64 " in all", shown ? ", " : "", e->n));
    put(t, "]", 1);
}

void gguf_value_text(const struct gguf *g, int64_t i, char *out, size_t out_size)
{
    struct text t = {.out = out, .size = out_size};
    const struct gguf_entry *e = &g->entries[i];
    if (out_size == 0)
        return;
    out[0] = '\0';
    if (e->type == GGUF_ARRAY)
        put_array(&t, g, e);
    else
        put_scalar(&t, g, e->type, e->at);
}

enum gguf_value_type gguf_value_elements(const struct gguf *g, int64_t i, int64_t *n)
{
    const struct gguf_entry *e = &g->entries[i];
    *n = e->type == GGUF_ARRAY ? (int64_t)e->n : 1;
    return e->type == GGUF_ARRAY ? e->elem : e->type;
}

const char *gguf_value_type_name(enum gguf_value_type type)
{
    return gguf_type_name(type);
}

void gguf_value_at(const struct gguf *g, int64_t i, int64_t element, struct gguf_value *out)
{
    const struct gguf_entry *e = &g->entries[i];
    bool array = e->type == GGUF_ARRAY;
    enum gguf_value_type type = array ? e->elem : e->type;
    uint64_t at = !array       ? e->at
                  : e->strings ? e->strings[element]
                               : e->at + (uint64_t)element * gguf_number_bytes(type);
    *out = (struct gguf_value){.type = type};
    if (type == GGUF_STRING) {
        out->str = load_str(g, at);
    } else if (type == GGUF_BOOL) {
        out->boolean = g->data[at] != 0;
    } else {
        struct number v = load_number(g->data + at, type);
        out->negative = v.negative;
        out->magnitude = v.magnitude;
        out->real = v.f;
    }
}
