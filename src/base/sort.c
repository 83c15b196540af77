/* Heap sort of indices by the keys they stand for (sort.h). */
#include "base/sort.h"

struct keys {
    const char *at;
    size_t stride;
};

static uint64_t key(const struct keys *k, uint32_t i)
{
    return *(const uint64_t *)(const void *)(k->at + (size_t)i * k->stride);
}

/* Restores the heap order (largest key on top) below node i of order[0..n). */
static void sift_down(uint32_t *order, const struct keys *k, size_t i, size_t n)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && key(k, order[child + 1]) > key(k, order[child]))
            child++;
        if (key(k, order[i]) >= key(k, order[child]))
            return;
        uint32_t swap = order[i];
        order[i] = order[child];
        order[child] = swap;
    }
}

void sort_indices(uint32_t *order, size_t n, const uint64_t *keys, size_t stride)
{
    const struct keys k = {(const char *)keys, stride};
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(order, &k, i, n);
    for (size_t end = n; end-- > 1;) {
        uint32_t top = order[0];
        order[0] = order[end];
        order[end] = top;
        sift_down(order, &k, 0, end);
    }
}
