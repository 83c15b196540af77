/* See cpus.h. The masks hold 8,192 CPUs, the most that Linux is built for. */
#include "base/cpus.h"
#include <sched.h>
#include <stddef.h>
#include <string.h>

#define MAX_CPUS 8192

struct mask {
    _Alignas(cpu_set_t) unsigned char bits[CPU_ALLOC_SIZE(MAX_CPUS)];
};

static cpu_set_t *set_of(struct mask *m)
{
    return (cpu_set_t *)(void *)m->bits;
}

static int get_mask(int tid, struct mask *m)
{
    memset(m, 0, sizeof *m);
    return sched_getaffinity(tid, sizeof m->bits, set_of(m));
}

/* Narrows a thread to a mask, then widens it again: it is on a CPU of the first when the system returns. */
static void visit(int tid, struct mask *narrow, struct mask *usual)
{
    if (CPU_COUNT_S(sizeof narrow->bits, set_of(narrow)) == 0 ||
        sched_setaffinity(tid, sizeof narrow->bits, set_of(narrow)))
        return;
    sched_setaffinity(tid, sizeof usual->bits, set_of(usual));
}

int cpus_allowed(void)
{
    struct mask m;
    const int count = get_mask(0, &m) ? 0 : CPU_COUNT_S(sizeof m.bits, set_of(&m));
    return count < 1 ? 1 : count;
}

int cpus_current(void)
{
    return sched_getcpu();
}

void cpus_leave(int cpu)
{
    struct mask usual, narrow;
    if (cpu < 0 || cpu >= MAX_CPUS || get_mask(0, &usual))
        return;
    narrow = usual;
    CPU_CLR_S((size_t)cpu, sizeof narrow.bits, set_of(&narrow));
    visit(0, &narrow, &usual);
}

void cpus_pull(int tid, int cpu)
{
    struct mask usual, narrow;
    if (cpu < 0 || cpu >= MAX_CPUS || get_mask(tid, &usual) ||
        !CPU_ISSET_S((size_t)cpu, sizeof usual.bits, set_of(&usual)))
        return;
    memset(&narrow, 0, sizeof narrow);
    CPU_SET_S((size_t)cpu, sizeof narrow.bits, set_of(&narrow));
    visit(tid, &narrow, &usual);
}
