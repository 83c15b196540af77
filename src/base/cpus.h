/* On which CPUs this process may run, and hints to the system about which thread runs where. A hint moves a
 * thread now and binds it to nothing: its affinity mask afterwards is the one before. Hints may fail, and nothing
 * depends on them but speed. */
#ifndef HASTEN_BASE_CPUS_H
#define HASTEN_BASE_CPUS_H

int cpus_allowed(void); /* CPUs of the affinity mask, at least 1 */
int cpus_current(void); /* the CPU that the caller is running on; -1: unknown */

/* Moves the calling thread to another CPU than this one. */
void cpus_leave(int cpu);
/* Moves a thread of this process that is waiting for its CPU to the one given. */
void cpus_pull(int tid, int cpu);

#endif
