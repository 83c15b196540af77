/* How many proposed tokens go into a step (run/control.h), on steps whose cost is known: where nothing stands next to
 * nothing is lost, where much stands most of it is gained, and a text that changes is followed. */
#include "run/control.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define PLAIN 10.0 /* ms of a step of one row */
#define MOST 10    /* tokens that are proposed */

struct text {
    double slope;  /* of PLAIN for each row more */
    int stand;     /* in 100, of proposed tokens, each where the one before stood */
    double jitter; /* of the cost */
    float conf;
};

static uint32_t noise;

static double uniform(void)
{
    noise = noise * 1664525u + 1013904223u;
    return (noise >> 8) / 16777216.0;
}

/* Time for n tokens over that of the plain engine. */
static double relative_time(struct draft_control *c, const struct text *t, int n)
{
    double ms = 0;
    double expected;
    for (int done = 0; done < n;) {
        const int32_t k = control_choose(c, NULL, MOST, t->conf, &expected);
        int32_t stood = 0;
        while (stood < k && uniform() * 100 < t->stand)
            stood++;
        const double cost = PLAIN * (1 + t->slope * k) * (1 + t->jitter * uniform());
        control_note(c, 1, k, t->conf, stood < k ? stood + 1 : k, stood, cost);
        ms += cost;
        done += stood + 1;
    }
    return ms / (n * PLAIN * (1 + t->jitter / 2));
}

static void where_nothing_stands_little_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        const struct text t = {.slope = 0.03 + 0.03 * (i % 5),
                               .stand = i % 3 * 5,
                               .jitter = i % 2 * 0.2,
                               .conf = (float)(1 + i % 3) / 3};
        struct draft_control c = {0};
        noise = (uint32_t)i;
        const double time = relative_time(&c, &t, 120);
        if (time > 1.025)
            fail_msg("slope %g, %d in 100 stand, conf %g: %.3f", t.slope, t.stand, (double)t.conf, time);
    }
}

static void where_much_stands_most_is_gained(void **state)
{
    (void)state;
    struct draft_control c = {0};
    const struct text t = {.slope = 0.06, .stand = 97, .jitter = 0.1, .conf = 1};
    noise = 1;
    const double time = relative_time(&c, &t, 200);
    if (time > 0.3) /* of at best 1.6 / 9 */
        fail_msg("%.3f", time);
}

static void a_text_that_changes_is_followed(void **state)
{
    (void)state;
    struct draft_control c = {0};
    struct text t = {.slope = 0.06, .stand = 0, .jitter = 0.1, .conf = 1};
    noise = 2;
    relative_time(&c, &t, 150);
    t.stand = 97;
    relative_time(&c, &t, 150); /* it takes a few tries */
    const double fast = relative_time(&c, &t, 150);
    t.stand = 0;
    const double slow = relative_time(&c, &t, 300);
    if (fast > 0.35 || slow > 1.05)
        fail_msg("%.3f, then %.3f", fast, slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(where_nothing_stands_little_is_lost),
                                       cmocka_unit_test(where_much_stands_most_is_gained),
                                       cmocka_unit_test(a_text_that_changes_is_followed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
