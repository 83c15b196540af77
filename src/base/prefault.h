/* Reading a mapped file ahead: a thread of its own makes the pages of a map present while the caller does something
 * else. Faults taken one by one cost more, and the threads that compute would take them. */
#ifndef HASTEN_BASE_PREFAULT_H
#define HASTEN_BASE_PREFAULT_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct prefault;

struct prefault_range {
    const void *data; /* in a map; any alignment */
    uint64_t size;    /* bytes; 0: nothing */
};

/* The ranges in order. *out is NULL, and all is well, when it is not worth it or cannot be: one CPU, ranges above half
 * of the memory that can be had, an old kernel, no thread. HASTEN_ERR_MEMORY when out of memory. */
hasten_status prefault_start(const struct prefault_range *range, int32_t n_range, struct prefault **out,
                             struct hasten_error *err);
/* Bytes that are present and bytes in all; false: it has ended. */
bool prefault_reading(const struct prefault *p, uint64_t *done, uint64_t *total);
void prefault_cancel(struct prefault *p); /* from any thread: begins no further piece; NULL is fine */
void prefault_stop(struct prefault *p);   /* before the map goes; NULL is fine. Waits for at most one piece */

#endif
