/* The CPU quota of the control group this process runs in (containers set one). */
#ifndef HASTEN_BASE_CGROUP_H
#define HASTEN_BASE_CGROUP_H

/* CPUs the quota allows, rounded up, at least 1; 0 when there is none. membership: a file in the form of
 * /proc/self/cgroup; root: where the hierarchies are mounted (/sys/fs/cgroup). Versions 1 and 2; the tightest
 * quota on the way from the process's group to the root counts. */
int cgroup_cpu_limit(const char *membership, const char *root);

#endif
