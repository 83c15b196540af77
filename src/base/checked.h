/* Checked arithmetic for sizes that come from files or users. Each returns 0 and writes *out, or -1 on
 * overflow (then *out is untouched). */
#ifndef HASTEN_BASE_CHECKED_H
#define HASTEN_BASE_CHECKED_H
#include <stdint.h>

static inline int checked_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return -1;
    *out = r;
    return 0;
}

static inline int checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return -1;
    *out = r;
    return 0;
}

/* Rounds a up to a multiple of align (a power of two). */
static inline int checked_align_u64(uint64_t a, uint64_t align, uint64_t *out)
{
    uint64_t r;
    if (checked_add_u64(a, align - 1, &r))
        return -1;
    *out = r & ~(align - 1);
    return 0;
}

#endif
