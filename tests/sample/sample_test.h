/* What the tests of the sampler share. */
#ifndef TESTS_SAMPLE_SAMPLE_TEST_H
#define TESTS_SAMPLE_SAMPLE_TEST_H
#include "sample/sampler.h"

/* Settings under which the law is the softmax itself: temperature 1 and no filter. */
static inline struct sampler_settings plain(void)
{
    struct sampler_settings s;
    sampler_default_settings(&s);
    s.temperature = 1;
    s.top_k = 0;
    s.top_p = 1;
    s.min_p = 0;
    return s;
}

#endif
