/* What every cmocka program of tests/text includes, in the order cmocka wants. */
#ifndef HASTEN_TESTS_TEXT_TEST_H
#define HASTEN_TESTS_TEXT_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text_support.h"

#define N_ELEMENTS(a) (sizeof(a) / sizeof *(a))

/* A small generator for tests; the same numbers everywhere. */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
