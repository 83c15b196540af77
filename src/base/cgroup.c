/* Reads the control groups' CPU quota. A file that is missing or says something else means: no quota there. */
#include "base/cgroup.h"
#include "base/file.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096
#define FILE_LIMIT ((size_t)1 << 20)

/* First number of a small file; 0 when it cannot be read or is not a positive number. */
static long long read_number(const char *folder, const char *name)
{
    char path[PATH_BYTES + 64];
    char *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (file_slurp(path, FILE_LIMIT, &text, &len, NULL) != HASTEN_OK)
        return 0;
    long long value = strtoll(text, NULL, 10);
    mem_free(text);
    return value > 0 ? value : 0;
}

static int cpus_of(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long cpus = quota / period + (quota % period != 0);
    return cpus > 1000000 ? 0 : (int)cpus;
}

/* Version 2: cpu.max holds "QUOTA PERIOD" or "max PERIOD". */
static int limit_v2(const char *folder)
{
    char path[PATH_BYTES + 64];
    char *text = NULL, *end;
    size_t len;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (file_slurp(path, FILE_LIMIT, &text, &len, NULL) != HASTEN_OK)
        return 0;
    long long quota = strtoll(text, &end, 10); /* 0 for "max" */
    long long period = strtoll(end, NULL, 10);
    mem_free(text);
    return cpus_of(quota, period);
}

static int limit_v1(const char *folder)
{
    return cpus_of(read_number(folder, "cpu.cfs_quota_us"), read_number(folder, "cpu.cfs_period_us"));
}

/* The tightest limit from folder up to mount (of which folder is an extension). Cuts folder back to mount. */
static int limit_upwards(char *folder, size_t mount_len, int (*limit_of)(const char *))
{
    int tightest = 0;
    for (;;) {
        int limit = limit_of(folder);
        if (limit && (!tightest || limit < tightest))
            tightest = limit;
        char *slash = strrchr(folder + mount_len, '/');
        if (!slash)
            return tightest;
        *slash = '\0';
    }
}

/* Whether the comma-separated list (len bytes) names the cpu controller. */
static int has_cpu(const char *list, size_t len)
{
    while (len) {
        const char *comma = memchr(list, ',', len);
        size_t n = comma ? (size_t)(comma - list) : len;
        if (n == 3 && memcmp(list, "cpu", 3) == 0)
            return 1;
        if (!comma)
            return 0;
        list += n + 1;
        len -= n + 1;
    }
    return 0;
}

/* One line "ID:CONTROLLERS:PATH"; CONTROLLERS is empty in version 2. */
static int limit_of_line(char *line, const char *root)
{
    char folder[PATH_BYTES];
    char *list = strchr(line, ':');
    char *path = list ? strchr(list + 1, ':') : NULL;
    if (!path || path[1] != '/')
        return 0;
    list++;
    size_t list_len = (size_t)(path - list);
    path++;
    int v2 = list_len == 0;
    if (!v2 && !has_cpu(list, list_len))
        return 0;
    int mount_len = snprintf(folder, sizeof folder, "%s%s%.*s", root, v2 ? "" : "/", (int)list_len, list);
    if (mount_len < 0 || (size_t)mount_len + strlen(path) >= sizeof folder)
        return 0;
    strcpy(folder + mount_len, strcmp(path, "/") == 0 ? "" : path);
    return limit_upwards(folder, (size_t)mount_len, v2 ? limit_v2 : limit_v1);
}

int cgroup_cpu_limit(const char *membership, const char *root)
{
    int tightest = 0;
    char *text = NULL, *rest = NULL;
    size_t len;
    if (file_slurp(membership, FILE_LIMIT, &text, &len, NULL) != HASTEN_OK)
        return 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        int limit = limit_of_line(line, root);
        if (limit && (!tightest || limit < tightest))
            tightest = limit;
    }
    mem_free(text);
    return tightest;
}
