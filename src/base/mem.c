/* The allocator door: counting, fault injection, and the growable buffer.
 *
 * Beneath lie malloc and posix_memalign, one block each, so that AddressSanitizer sees every overflow. A header
 * in front of each block keeps its size and the distance to the start of the system's block. */
#include "base/mem.h"
#include "base/checked.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNED_TO 64

struct header { /* lies in the last bytes before the pointer handed out */
    _Alignas(16) size_t size_bytes;
    size_t offset; /* from the system's block to the pointer handed out: 16, or 64 for aligned blocks */
};
_Static_assert(sizeof(struct header) == 16, "the header must keep malloc's alignment");

static _Atomic uint64_t live_bytes, peak_bytes, n_calls, n_failed;
static _Atomic uint64_t fail_n, fail_every, fail_calls, fail_count;

/* ---- counting and fault injection ------------------------------------------------------------------------ */

/* Counts one attempt; 1 when it has been told to fail. */
static int attempt_fails(void)
{
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&fail_n, memory_order_relaxed);
    if (n == 0)
        return 0;
    uint64_t every = atomic_load_explicit(&fail_every, memory_order_relaxed);
    uint64_t call = atomic_fetch_add_explicit(&fail_calls, 1, memory_order_relaxed) + 1;
    if (call < n || (call > n && (every == 0 || (call - n) % every != 0)))
        return 0;
    atomic_fetch_add_explicit(&fail_count, 1, memory_order_relaxed);
    return 1;
}

static void *failed(void)
{
    atomic_fetch_add_explicit(&n_failed, 1, memory_order_relaxed);
    return NULL;
}

static void count_add(uint64_t bytes)
{
    uint64_t live = atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (peak < live && !atomic_compare_exchange_weak_explicit(&peak_bytes, &peak, live,
                                                                 memory_order_relaxed, memory_order_relaxed))
        ;
}

static void count_sub(uint64_t bytes)
{
    atomic_fetch_sub_explicit(&live_bytes, bytes, memory_order_relaxed);
}

void mem_stats_get(struct mem_stats *out)
{
    out->live_bytes = atomic_load_explicit(&live_bytes, memory_order_relaxed);
    out->peak_bytes = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    out->n_calls = atomic_load_explicit(&n_calls, memory_order_relaxed);
    out->n_failed = atomic_load_explicit(&n_failed, memory_order_relaxed);
}

void mem_fail_at(uint64_t n, uint64_t every)
{
    atomic_store(&fail_n, 0);
    atomic_store(&fail_calls, 0);
    atomic_store(&fail_count, 0);
    atomic_store(&fail_every, every);
    atomic_store(&fail_n, n);
}

uint64_t mem_fail_count(void)
{
    return atomic_load(&fail_count);
}

/* ---- blocks ---------------------------------------------------------------------------------------------- */

static struct header *header_of(void *ptr)
{
    return (struct header *)((char *)ptr - sizeof(struct header));
}

static void *block_finish(void *base, size_t size_bytes, size_t offset)
{
    char *ptr = (char *)base + offset;
    struct header *h = header_of(ptr);
    h->size_bytes = size_bytes;
    h->offset = offset;
    count_add(size_bytes);
    return ptr;
}

void *mem_alloc(size_t size_bytes)
{
    if (attempt_fails() || size_bytes > PTRDIFF_MAX - sizeof(struct header))
        return failed();
    void *base = malloc(size_bytes + sizeof(struct header));
    return base ? block_finish(base, size_bytes, sizeof(struct header)) : failed();
}

void *mem_calloc(size_t count, size_t size_bytes)
{
    size_t total;
    int fails = attempt_fails();
    if (fails || __builtin_mul_overflow(count, size_bytes, &total) ||
        total > PTRDIFF_MAX - sizeof(struct header))
        return failed();
    void *base = calloc(1, total + sizeof(struct header));
    return base ? block_finish(base, total, sizeof(struct header)) : failed();
}

void *mem_array(size_t count, size_t size_bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, size_bytes, &total))
        total = SIZE_MAX; /* refused, and counted, by mem_alloc */
    return mem_alloc(total);
}

void *mem_aligned(size_t size_bytes)
{
    void *base;
    if (attempt_fails() || size_bytes > PTRDIFF_MAX - ALIGNED_TO)
        return failed();
    if (posix_memalign(&base, ALIGNED_TO, size_bytes + ALIGNED_TO) != 0)
        return failed();
    return block_finish(base, size_bytes, ALIGNED_TO);
}

/* An aligned block stays aligned: realloc would only keep 16 bytes. */
static void *realloc_aligned(void *ptr, size_t size_bytes)
{
    void *base;
    size_t old = header_of(ptr)->size_bytes;
    if (posix_memalign(&base, ALIGNED_TO, size_bytes + ALIGNED_TO) != 0)
        return failed();
    void *out = block_finish(base, size_bytes, ALIGNED_TO);
    memcpy(out, ptr, old < size_bytes ? old : size_bytes);
    mem_free(ptr);
    return out;
}

void *mem_realloc(void *ptr, size_t size_bytes)
{
    if (!ptr)
        return mem_alloc(size_bytes);
    if (attempt_fails() || size_bytes > PTRDIFF_MAX - ALIGNED_TO)
        return failed();
    size_t offset = header_of(ptr)->offset, old = header_of(ptr)->size_bytes;
    if (offset == ALIGNED_TO)
        return realloc_aligned(ptr, size_bytes);
    void *base = realloc((char *)ptr - offset, size_bytes + offset);
    if (!base)
        return failed();
    count_sub(old);
    return block_finish(base, size_bytes, offset);
}

char *mem_strndup(const char *s, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *out = mem_alloc(len + 1);
    if (!out)
        return NULL;
    if (len)
        memcpy(out, s, len);
    out[len] = '\0';
    return out;
}

void mem_free(void *ptr)
{
    if (!ptr)
        return;
    struct header *h = header_of(ptr);
    count_sub(h->size_bytes);
    free((char *)ptr - h->offset);
}

#define HUGE_BYTES (2u << 20)

/* ---- pages ----------------------------------------------------------------------------------------------- */

void *mem_map(size_t size_bytes)
{
    if (attempt_fails() || size_bytes > PTRDIFF_MAX)
        return failed();
    void *ptr =
        mmap(NULL, size_bytes ? size_bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ptr == MAP_FAILED)
        return failed();
    if (size_bytes >= HUGE_BYTES)
        madvise(ptr, size_bytes, MADV_HUGEPAGE); /* a wish; strided rows then need fewer page table entries */
    count_add(size_bytes);
    return ptr;
}

void mem_unmap(void *ptr, size_t size_bytes)
{
    if (!ptr)
        return;
    munmap(ptr, size_bytes ? size_bytes : 1);
    count_sub(size_bytes);
}

/* ---- growable buffer ------------------------------------------------------------------------------------- */

/* Room for len more bytes and the NUL: 0, or -1 with b unchanged. */
static int buf_reserve(struct buf *b, size_t len)
{
    uint64_t need;
    if (checked_add_u64(b->len, len, &need) || checked_add_u64(need, 1, &need) || need > PTRDIFF_MAX)
        return -1;
    if (need <= b->cap)
        return 0;
    size_t cap = b->cap < 32 ? 64 : b->cap + b->cap / 2;
    if (cap < need)
        cap = (size_t)need;
    char *data = mem_realloc(b->data, cap);
    if (!data)
        return -1;
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_put(struct buf *b, const void *data, size_t len)
{
    if (buf_reserve(b, len))
        return -1;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_puts(struct buf *b, const char *s)
{
    return buf_put(b, s, strlen(s));
}

int buf_putc(struct buf *b, char c)
{
    return buf_put(b, &c, 1);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0 || buf_reserve(b, (size_t)len))
        return -1;
    va_start(args, fmt);
    vsnprintf(b->data + b->len, (size_t)len + 1, fmt, args);
    va_end(args);
    b->len += (size_t)len;
    return 0;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void buf_free(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){0};
}
