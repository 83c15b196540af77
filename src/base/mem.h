/* The one allocator door. Nothing else in Hasten calls malloc, free or mmap(MAP_ANONYMOUS); a lint checks it.
 *
 * The door counts live bytes and peak bytes, and can be told to fail (tests sweep "the n-th allocation fails,
 * once / for ever / every k-th"). All functions are safe to call from any thread. */
#ifndef HASTEN_BASE_MEM_H
#define HASTEN_BASE_MEM_H
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size_bytes);                /* NULL on failure; size 0 gives a unique pointer */
void *mem_calloc(size_t count, size_t size_bytes); /* zeroed; NULL on failure or overflow */
void *mem_realloc(void *ptr, size_t size_bytes);   /* as realloc; on failure ptr stays valid */
void *mem_array(size_t count, size_t size_bytes);  /* mem_alloc(count * size), NULL on overflow */
char *mem_strndup(const char *s, size_t len);      /* NUL-terminated copy */
void mem_free(void *ptr);                          /* NULL is fine */
void *mem_aligned(size_t size_bytes);              /* 64-byte aligned; free with mem_free */
/* Whole pages straight from the kernel, zeroed, counted; for pools and large buffers. */
void *mem_map(size_t size_bytes);
void mem_unmap(void *ptr, size_t size_bytes);

struct mem_stats {
    uint64_t live_bytes, peak_bytes; /* heap as asked for + mem_map, without allocator overhead */
    uint64_t n_calls;                /* allocations attempted since start (also those told to fail) */
    uint64_t n_failed;               /* of these, without success */
};
void mem_stats_get(struct mem_stats *out);

/* Fault injection, for tests. Call n counts from the moment of the call: the nth allocation (1-based) fails.
 * every == 0: once; every == 1: that one and all after it; every == k: and every k-th after it. n == 0: off. */
void mem_fail_at(uint64_t n, uint64_t every);
uint64_t mem_fail_count(void); /* failures injected since the last mem_fail_at */

/* Growable byte buffer. Zero-initialise; free with buf_free. data is always NUL-terminated after a put. */
struct buf {
    char *data;
    size_t len, cap;
};
int buf_put(struct buf *b, const void *data, size_t len); /* 0, or -1 when out of memory (b unchanged) */
int buf_puts(struct buf *b, const char *s);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b); /* len = 0, keeps memory */
void buf_free(struct buf *b);

#endif
