/* Hints about CPUs move a thread and bind it to nothing. On a machine with one CPU there is nowhere to move: the
 * masks are still checked. */
#include "base_test.h"
#include "base/clock.h"
#include "base/cpus.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static void check_mask_kept(void (*hint)(void *), void *arg)
{
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(CPU_COUNT(&before), cpus_allowed());
    hint(arg);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void leave(void *arg)
{
    (void)arg;
    const int cpu = cpus_current();
    assert_true(cpu >= 0);
    cpus_leave(cpu); /* the system may move the thread back at once, so where it is now proves nothing */
    cpus_leave(-1);
    cpus_leave(1 << 20);
}

static void test_leave(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        check_mask_kept(leave, NULL);
}

/* A mask that was narrow before the hint is narrow after it, and a thread is never pulled out of its mask. */
static void test_narrow_mask(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    const int cpu = cpus_current();
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpus_allowed(), 1);
    check_mask_kept(leave, NULL);
    assert_int_equal(cpus_current(), cpu);
    for (int other = 0; other < CPU_SETSIZE; other++)
        if (other != cpu && CPU_ISSET((size_t)other, &all))
            cpus_pull(gettid(), other);
    assert_int_equal(cpus_current(), cpu);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

struct sleeper {
    _Atomic int tid, stop;
};

static void *sleep_in_thread(void *arg)
{
    struct sleeper *s = arg;
    atomic_store(&s->tid, gettid());
    while (!atomic_load(&s->stop))
        usleep(100);
    return NULL;
}

static void test_pull(void **state)
{
    (void)state;
    struct sleeper s = {0, 0};
    pthread_t t;
    cpu_set_t before, after;
    assert_int_equal(pthread_create(&t, NULL, sleep_in_thread, &s), 0);
    while (!atomic_load(&s.tid))
        usleep(100);
    assert_int_equal(sched_getaffinity(s.tid, sizeof before, &before), 0);
    for (int i = 0; i < 20; i++)
        cpus_pull(s.tid, cpus_current());
    assert_int_equal(sched_getaffinity(s.tid, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    atomic_store(&s.stop, 1);
    pthread_join(t, NULL);
}

/* The CPU time of a thread grows while it runs and stands still while it does not. */
static void test_thread_time(void **state)
{
    (void)state;
    struct sleeper s = {0, 0};
    pthread_t t;
    const uint64_t start = clock_now_ns(), spent = clock_thread_ns(gettid());
    while (clock_thread_ns(gettid()) - spent < 2000000) /* ends only if it grows */
        assert_true(clock_now_ns() - start < 20000000000u);
    assert_int_equal(pthread_create(&t, NULL, sleep_in_thread, &s), 0);
    while (!atomic_load(&s.tid))
        usleep(100);
    const uint64_t slept = clock_thread_ns(s.tid);
    usleep(50000);
    assert_true(clock_thread_ns(s.tid) - slept < 40000000);
    atomic_store(&s.stop, 1);
    pthread_join(t, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_narrow_mask),
        cmocka_unit_test(test_pull),
        cmocka_unit_test(test_thread_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
