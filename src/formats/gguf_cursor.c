/* Reading one field after another from the header of a GGUF file, and refusing it.
 *
 * Owns the check that comes before every read (the bytes are there, the header is not too long) and the form
 * of every refusal: file, field, byte offset, expected, found. Does not know what the fields mean. */
#include "formats/gguf_cursor.h"

#include "base/limits.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- refusals ---- */

/* "FILE: FIELD of key 3 "name" at byte 120: " + fmt, which says what was expected and what was found. */
hasten_status gguf_refuse(const struct gguf_cursor *c, hasten_status status, uint64_t at, const char *field,
                          const char *fmt, ...)
{
    char what[160] = "", quoted[GGUF_QUOTED], detail[400];
    const char *kind = c->part == GGUF_IN_KEY ? "key" : "tensor";
    if (c->part != GGUF_IN_HEADER && c->name)
        snprintf(what, sizeof what, " of %s %" PRId64 " %s", kind, c->item,
                 gguf_quote(quoted, c->name, c->name_len));
    else if (c->part != GGUF_IN_HEADER)
        snprintf(what, sizeof what, " of %s %" PRId64, kind, c->item);
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    return error_set(c->err, status, "%s: %s%s at byte %" PRIu64 ": %s", c->g->shown_path, field, what, at,
                     detail);
}

hasten_status gguf_no_memory(const struct gguf_cursor *c, const char *what, uint64_t bytes)
{
    return error_set(c->err, HASTEN_ERR_MEMORY, "%s: out of memory for %s (%" PRIu64 " bytes)",
                     c->g->shown_path, what, bytes);
}

/* ---- reading ---- */

uint64_t gguf_bytes_left(const struct gguf_cursor *c)
{
    return c->g->size - c->pos;
}

/* The next n bytes lie in the file and in the part of it that a header may fill. */
hasten_status gguf_need(const struct gguf_cursor *c, uint64_t n, const char *field)
{
    if (n > gguf_bytes_left(c))
        return gguf_refuse(c, HASTEN_ERR_FILE, c->pos, field,
                           "expected %" PRIu64 " bytes, found the end of the file after %" PRIu64, n,
                           gguf_bytes_left(c));
    if (n > LIMIT_GGUF_HEADER_BYTES || c->pos > LIMIT_GGUF_HEADER_BYTES - n)
        return gguf_refuse(c, HASTEN_ERR_LIMIT, c->pos, field,
                           "expected a header of at most %u bytes, found one that reaches byte %" PRIu64,
                           LIMIT_GGUF_HEADER_BYTES, c->pos + n);
    return HASTEN_OK;
}

hasten_status gguf_take_u32(struct gguf_cursor *c, const char *field, uint32_t *out)
{
    hasten_status s = gguf_need(c, 4, field);
    if (s != HASTEN_OK)
        return s;
    *out = gguf_load_u32(c->g->data + c->pos);
    c->pos += 4;
    return HASTEN_OK;
}

hasten_status gguf_take_u64(struct gguf_cursor *c, const char *field, uint64_t *out)
{
    hasten_status s = gguf_need(c, 8, field);
    if (s != HASTEN_OK)
        return s;
    *out = gguf_load_u64(c->g->data + c->pos);
    c->pos += 8;
    return HASTEN_OK;
}

size_t gguf_utf8_sequence(const uint8_t *s, size_t len)
{
    uint8_t low = 0x80, high = 0xbf;
    size_t n = 1;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] == 0xe0)
        low = 0xa0;
    if (s[0] == 0xed)
        high = 0x9f;
    if (s[0] == 0xf0)
        low = 0x90;
    if (s[0] == 0xf4)
        high = 0x8f;
    if (len < n || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return n;
}

/* The name of a key or tensor: 1 to limit bytes of UTF-8 without NUL. Becomes the cursor's name. */
hasten_status gguf_take_name(struct gguf_cursor *c, const char *len_field, const char *field, uint32_t limit)
{
    uint64_t len, start = c->pos;
    hasten_status s = gguf_take_u64(c, len_field, &len);
    if (s != HASTEN_OK)
        return s;
    if (len == 0)
        return gguf_refuse(c, HASTEN_ERR_FILE, start, len_field, "expected 1 to %u, found 0", limit);
    if ((s = gguf_need(c, len, field)) != HASTEN_OK)
        return s;
    if (len > limit)
        return gguf_refuse(c, HASTEN_ERR_LIMIT, start, len_field, "expected 1 to %u, found %" PRIu64, limit,
                           len);
    const uint8_t *name = c->g->data + c->pos;
    for (size_t i = 0, n; i < len; i += n) {
        n = name[i] ? gguf_utf8_sequence(name + i, len - i) : 0;
        if (n == 0)
            return gguf_refuse(c, HASTEN_ERR_FILE, c->pos + i, field,
                               "expected UTF-8 without NUL, found byte 0x%02x", name[i]);
    }
    c->name = name;
    c->name_len = len;
    c->pos += len;
    return HASTEN_OK;
}

hasten_status gguf_add_name(struct gguf_cursor *c, struct gguf_names *names, uint64_t at, const char *field)
{
    int64_t found = gguf_names_add(names, c->item, (const char *)c->name, c->name_len);
    if (found == -2)
        return gguf_refuse(c, HASTEN_ERR_LIMIT, at, field,
                           "expected names that differ in their hashes, found more than %d that collide",
                           LIMIT_GGUF_PROBES);
    if (found >= 0)
        return gguf_refuse(c, HASTEN_ERR_FILE, at, field,
                           "expected a new name, found that of number %" PRId64, found);
    return HASTEN_OK;
}
