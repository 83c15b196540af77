/* The clock, and its frozen twin for tests. */
#include "base/clock.h"
#include <stdatomic.h>
#include <time.h>

static atomic_int fake_on;
static _Atomic uint64_t fake_now_ns;
static _Atomic int64_t fake_unix_s;

uint64_t clock_now_ns(void)
{
    struct timespec t;
    if (atomic_load(&fake_on))
        return atomic_load(&fake_now_ns);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int64_t clock_unix_s(void)
{
    struct timespec t;
    if (atomic_load(&fake_on))
        return atomic_load(&fake_unix_s);
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec;
}

/* The kernel's name for the CPU time of a thread, live to the nanosecond while it runs; the C library makes it
 * from a pthread_t only, which must not be that of a thread that has ended. */
uint64_t clock_thread_ns(int tid)
{
    struct timespec t;
    const clockid_t of_thread =
        (clockid_t)(~(unsigned)tid << 3 | 6u); /* CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED */
    if (clock_gettime(of_thread, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void clock_set_fake(int on, uint64_t now_ns, int64_t unix_s)
{
    atomic_store(&fake_now_ns, now_ns);
    atomic_store(&fake_unix_s, unix_s);
    atomic_store(&fake_on, on);
}
