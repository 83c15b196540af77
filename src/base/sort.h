/* Sorting by offsets that a file says: in place and never quadratic, which qsort does not promise. */
#ifndef HASTEN_BASE_SORT_H
#define HASTEN_BASE_SORT_H
#include <stddef.h>
#include <stdint.h>

/* order[0..n) becomes the indices 0 .. n - 1 by ascending key; key i lies stride bytes after key i - 1. */
void sort_indices(uint32_t *order, size_t n, const uint64_t *keys, size_t stride);

#endif
