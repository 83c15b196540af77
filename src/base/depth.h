/* The depth counter that every recursive parser takes; recursion without it fails the lint. */
#ifndef HASTEN_BASE_DEPTH_H
#define HASTEN_BASE_DEPTH_H

struct depth {
    int used, limit;
};

/* Enters one level: 0, or -1 when the limit is reached (then do not call depth_leave). */
static inline int depth_enter(struct depth *d)
{
    if (d->used >= d->limit)
        return -1;
    d->used++;
    return 0;
}

static inline void depth_leave(struct depth *d)
{
    d->used--;
}

#endif
