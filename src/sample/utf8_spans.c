/* Ranges of code points as ranges of bytes (rtn.h). A range is cut until its first and last character agree in all
 * bytes but a number of last ones, which then run over everything a byte of UTF-8 may be there (the method of R. Cox's
 * RE2). */
#include "sample/rtn.h"
#include "text/unicode.h"

/* Where a range must be cut: the last code point of its first part; hi when nowhere. */
static uint32_t cut_of(uint32_t lo, uint32_t hi)
{
    static const uint32_t last[] = {0x7F, 0x7FF, 0xFFFF}; /* of one, two, three bytes */
    for (int i = 0; i < 3; i++)
        if (lo <= last[i] && hi > last[i])
            return last[i];
    if (hi <= 0x7F)
        return hi;
    for (int i = 1; i < 4; i++) {
        const uint32_t low = (1u << 6 * i) - 1; /* the bits of the last i bytes */
        if ((lo & ~low) == (hi & ~low))
            break;
        if (lo & low)
            return lo | low;
        if ((hi & low) != low)
            return (hi & ~low) - 1;
    }
    return hi;
}

int utf8_spans(uint32_t lo, uint32_t hi, struct utf8_span out[UTF8_MAX_SPANS])
{
    int n = 0;
    for (uint32_t end; lo <= hi && n < UTF8_MAX_SPANS; lo = end + 1) {
        char a[4], b[4];
        for (end = hi; cut_of(lo, end) != end;)
            end = cut_of(lo, end);
        out[n].n = utf8_encode(lo, a);
        utf8_encode(end, b);
        memcpy(out[n].lo, a, sizeof a);
        memcpy(out[n].hi, b, sizeof b);
        n++;
    }
    return n;
}
