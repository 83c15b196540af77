/* Reads the system's and the control group's word on memory. A file that is missing or says something else means:
 * no bound from there. */
#include "base/meminfo.h"
#include "base/file.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)1 << 16)

/* A number behind the first `label` of a file ("" for a file that is just a number); *found says whether. */
static hasten_status read_number(const char *path, const char *label, uint64_t *out, int *found,
                                 struct hasten_error *err)
{
    char *text = NULL, *end;
    size_t len;
    struct hasten_error why; /* of no interest when the file is missing: then err stays as it was */
    *found = 0;
    const hasten_status st = file_slurp(path, FILE_LIMIT, &text, &len, &why);
    if (st)
        return st == HASTEN_ERR_MEMORY ? error_set(err, st, "%s: out of memory", path) : HASTEN_OK;
    const char *at = strstr(text, label);
    if (at) {
        const unsigned long long v = strtoull(at + strlen(label), &end, 10);
        *found = end != at + strlen(label);
        *out = v;
    }
    mem_free(text);
    return HASTEN_OK;
}

static hasten_status group_leaves(const char *cgroup, uint64_t *out, struct hasten_error *err)
{
    char path[4096];
    uint64_t max = 0, current = 0;
    int has_max, has_current;
    hasten_status st;
    snprintf(path, sizeof path, "%s/memory.max", cgroup);
    if ((st = read_number(path, "", &max, &has_max, err)) || !has_max)
        return st;
    snprintf(path, sizeof path, "%s/memory.current", cgroup);
    if ((st = read_number(path, "", &current, &has_current, err)) || !has_current)
        return st;
    *out = max > current ? max - current : 0;
    return HASTEN_OK;
}

hasten_status meminfo_available(const char *meminfo, const char *cgroup, uint64_t *out,
                                struct hasten_error *err)
{
    uint64_t kib = 0, group = UINT64_MAX;
    int found;
    hasten_status st = read_number(meminfo, "MemAvailable:", &kib, &found, err);
    if (st || (st = group_leaves(cgroup, &group, err)))
        return st;
    const uint64_t system = found && kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
    *out = system < group ? system : group;
    return HASTEN_OK;
}
