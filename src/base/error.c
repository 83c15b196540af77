/* Error messages: one line of valid UTF-8, whatever was formatted into it. File names and strings from files
 * come through here, so control characters and broken UTF-8 must not reach a terminal or a log. */
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_SIZE sizeof(((struct hasten_error *)0)->message)

/* Length of the well-formed UTF-8 sequence at s (at most len bytes), 0 when there is none. *cut is set when
 * the bytes are the beginning of one that would need more than len bytes. */
static size_t utf8_length(const unsigned char *s, size_t len, int *cut)
{
    size_t n;
    unsigned char lo = 0x80, hi = 0xbf;
    *cut = 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        n = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        n = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        lo = 0xa0;
    else if (s[0] == 0xed)
        hi = 0x9f;
    else if (s[0] == 0xf0)
        lo = 0x90;
    else if (s[0] == 0xf4)
        hi = 0x8f;
    for (size_t i = 1; i < n; i++) {
        if (i == len) {
            *cut = 1;
            return 0;
        }
        if (s[i] < lo || s[i] > hi)
            return 0;
        lo = 0x80;
        hi = 0xbf;
    }
    return n;
}

static int is_control(const unsigned char *s, size_t n)
{
    return (n == 1 && (s[0] < 0x20 || s[0] == 0x7f)) || (n == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

/* Copies src into dst (MESSAGE_SIZE bytes) as clean UTF-8. truncated: src is the beginning of a longer text,
 * so a sequence cut at its end is dropped instead of shown as '?'. */
static void copy_clean(char *dst, const char *src, int truncated)
{
    const unsigned char *s = (const unsigned char *)src;
    size_t len = strlen(src), in = 0, out = 0;
    while (in < len) {
        int cut;
        size_t n = utf8_length(s + in, len - in, &cut);
        if (n == 0 && cut && truncated)
            break;
        if (out + (n ? n : 1) >= MESSAGE_SIZE)
            break;
        if (n == 0 || is_control(s + in, n)) {
            dst[out++] = '?';
            in += n ? n : 1;
        } else {
            memcpy(dst + out, s + in, n);
            out += n;
            in += n;
        }
    }
    dst[out] = '\0';
}

hasten_status error_set(struct hasten_error *err, hasten_status status, const char *fmt, ...)
{
    char text[MESSAGE_SIZE]; /* an argument may be err->message itself */
    va_list args;
    if (!err)
        return status;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    err->status = status;
    copy_clean(err->message, text, len >= (int)sizeof text);
    return status;
}

hasten_status error_prefix(struct hasten_error *err, const char *fmt, ...)
{
    char text[2 * MESSAGE_SIZE];
    va_list args;
    if (!err)
        return HASTEN_ERR_INTERNAL;
    va_start(args, fmt);
    int len = vsnprintf(text, MESSAGE_SIZE, fmt, args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    size_t used = strlen(text);
    memcpy(text + used, ": ", 2);
    memcpy(text + used + 2, err->message, strnlen(err->message, MESSAGE_SIZE - 1));
    text[used + 2 + strnlen(err->message, MESSAGE_SIZE - 1)] = '\0';
    copy_clean(err->message, text, 1);
    return err->status;
}
