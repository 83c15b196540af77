/* See energy.h. */
#include "bench/energy.h"
#include "base/file.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char *path, uint64_t *out)
{
    struct hasten_error err;
    struct file *f = NULL;
    char text[32] = "", *end;
    size_t got = 0;
    if (file_open(path, FILE_READ, &f, &err))
        return false;
    const hasten_status st = file_read(f, text, sizeof text - 1, &got, &err);
    file_close(f);
    *out = strtoull(text, &end, 10);
    return !st && got > 0 && end != text;
}

/* "intel-rapl:0": a package, not "intel-rapl:0:1" nor "intel-rapl-mmio:0", which counts the same once more. */
static bool is_package(const char *name)
{
    return strncmp(name, "intel-rapl:", 11) == 0 && name[11] && !strchr(name + 11, ':');
}

void energy_open(struct energy *e, const char *folder)
{
    struct file_names names = {0};
    struct hasten_error err;
    *e = (struct energy){0};
    if (file_list(folder, &names, &err))
        return;
    for (size_t i = 0; i < names.n && e->n < ENERGY_PACKAGES; i++) {
        char range[128], *path = e->path[e->n];
        if (!is_package(names.names[i]) ||
            snprintf(path, sizeof e->path[0], "%s/%s/energy_uj", folder, names.names[i]) >=
                (int)sizeof e->path[0] ||
            snprintf(range, sizeof range, "%s/%s/max_energy_range_uj", folder, names.names[i]) >=
                (int)sizeof range ||
            !read_number(path, &e->last_uj[e->n]))
            continue;
        if (!read_number(range, &e->range_uj[e->n]))
            e->range_uj[e->n] = 0;
        e->n++;
    }
    file_names_free(&names);
}

void energy_read(struct energy *e)
{
    for (int i = 0; i < e->n; i++) {
        uint64_t now;
        if (!read_number(e->path[i], &now))
            continue;
        const uint64_t wrapped = now < e->last_uj[i] ? e->range_uj[i] : 0;
        if (now >= e->last_uj[i] || wrapped)
            e->joules += (double)(now + wrapped - e->last_uj[i]) * 1e-6;
        e->last_uj[i] = now;
    }
}
