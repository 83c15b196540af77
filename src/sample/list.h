/* Growable lists for the grammar files: LIST(int32_t) is a struct of an array, its length and its room. */
#ifndef HASTEN_SAMPLE_LIST_H
#define HASTEN_SAMPLE_LIST_H
#include "base/mem.h"
#include <string.h>

#define LIST(type)                                                                                           \
    struct {                                                                                                 \
        type *at;                                                                                            \
        int64_t n, cap;                                                                                      \
    }

/* Room for one more in the array that *array (a T *) points to: 0, or -1 when out of memory. */
static inline int list_grow(void *array, int64_t *cap, size_t size)
{
    const int64_t more = *cap ? 2 * *cap : 16;
    void *p;
    memcpy(&p, array, sizeof p);
    p = mem_realloc(p, (size_t)more * size);
    if (!p)
        return -1;
    memcpy(array, &p, sizeof p);
    *cap = more;
    return 0;
}

/* Appends a value: 0, or -1 when out of memory. */
#define LIST_PUSH(list, ...)                                                                                 \
    (((list)->n < (list)->cap || !list_grow((void *)&(list)->at, &(list)->cap, sizeof *(list)->at))          \
         ? ((list)->at[(list)->n++] = (__VA_ARGS__), 0)                                                      \
         : -1)
#define LIST_FREE(list) (mem_free((list)->at), (list)->at = NULL, (list)->n = (list)->cap = 0)

#endif
