/* What every cmocka program of tests/base includes, in the order cmocka wants. */
#ifndef HASTEN_TESTS_BASE_TEST_H
#define HASTEN_TESTS_BASE_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define N_ELEMENTS(a) (sizeof(a) / sizeof *(a))

#endif
