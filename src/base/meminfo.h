/* How much memory this process may still take. */
#ifndef HASTEN_BASE_MEMINFO_H
#define HASTEN_BASE_MEMINFO_H
#include "base/error.h"
#include <stdint.h>

/* Bytes that can be taken without swapping: the smaller of "MemAvailable" in meminfo (a file in the form of
 * /proc/meminfo) and what the control group at cgroup (a folder in the form of /sys/fs/cgroup, version 2) leaves.
 * UINT64_MAX when neither says. HASTEN_ERR_MEMORY when out of memory. */
hasten_status meminfo_available(const char *meminfo, const char *cgroup, uint64_t *out,
                                struct hasten_error *err);

#endif
