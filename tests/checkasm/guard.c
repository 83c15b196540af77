/* Memory between two unreadable pages. */
#include "checkasm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PATTERN 0xa5

struct guarded guard_new(size_t size, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded g;
    g.size = (size + align - 1) / align * align;
    const size_t room = (g.size + page) / page * page; /* at least one byte of pattern in front */
    g.map_size = room + 2 * page;
    g.map = mmap(NULL, g.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + page, room, PROT_READ | PROT_WRITE)) {
        perror("checkasm: mmap");
        exit(2);
    }
    memset(g.map + page, PATTERN, room);
    g.data = g.map + page + room - g.size;
    return g;
}

bool guard_intact(const struct guarded *g)
{
    for (const uint8_t *p = g->map + sysconf(_SC_PAGESIZE); p < g->data; p++)
        if (*p != PATTERN)
            return false;
    return true;
}

void guard_free(struct guarded *g)
{
    munmap(g->map, g->map_size);
}
