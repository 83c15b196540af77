/* The allocator door: sizes, alignment, counting, injected failures; the growable buffer. */
#include "base_test.h"
#include "base/checked.h"
#include "base/mem.h"
#include <pthread.h>
#include <string.h>

static uint64_t live(void)
{
    struct mem_stats s;
    mem_stats_get(&s);
    return s.live_bytes;
}

static void test_blocks(void **state)
{
    (void)state;
    uint64_t before = live();
    char *a = mem_alloc(0), *b = mem_alloc(0);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    mem_free(a);
    mem_free(b);
    mem_free(NULL);
    unsigned char *z = mem_calloc(37, 3);
    for (int i = 0; i < 111; i++)
        assert_int_equal(z[i], 0);
    assert_int_equal(live() - before, 111);
    mem_free(z);
    char *s = mem_strndup("abcdef", 3);
    assert_string_equal(s, "abc");
    mem_free(s);
    assert_int_equal(live(), before);
}

static void test_alignment(void **state)
{
    (void)state;
    for (size_t size = 0; size < 300; size += 7) {
        char *plain = mem_alloc(size), *aligned = mem_aligned(size);
        assert_int_equal((uintptr_t)plain % 16, 0);
        assert_int_equal((uintptr_t)aligned % 64, 0);
        memset(plain, 1, size);
        memset(aligned, 1, size);
        mem_free(plain);
        mem_free(aligned);
    }
}

static void check_realloc(char *p)
{
    memcpy(p, "0123456789", 10);
    for (size_t size = 10; size < 100000; size = size * 2 + 1) {
        p = mem_realloc(p, size);
        assert_non_null(p);
        assert_memory_equal(p, "0123456789", 10);
        if (size > 10)
            memset(p + 10, 'x', size - 10);
    }
    p = mem_realloc(p, 4);
    assert_memory_equal(p, "0123", 4);
    mem_free(p);
}

static void test_realloc_sizes(void **state)
{
    (void)state;
    uint64_t before = live();
    check_realloc(mem_alloc(10));
    check_realloc(mem_realloc(NULL, 10));
    char *aligned = mem_aligned(10);
    for (size_t size = 1; size < 5000; size += 331) {
        aligned = mem_realloc(aligned, size);
        assert_int_equal((uintptr_t)aligned % 64, 0);
    }
    mem_free(aligned);
    assert_int_equal(live(), before);
}

static void test_overflow(void **state)
{
    (void)state;
    uint64_t before = live();
    assert_null(mem_alloc(SIZE_MAX));
    assert_null(mem_alloc(SIZE_MAX - 8));
    assert_null(mem_aligned(SIZE_MAX - 8));
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
    assert_null(mem_array(SIZE_MAX / 4 + 1, 4));
    assert_null(mem_strndup("x", SIZE_MAX));
    assert_null(mem_map(SIZE_MAX));
    char *p = mem_alloc(8);
    memcpy(p, "intact!", 8);
    assert_null(mem_realloc(p, SIZE_MAX - 8));
    assert_string_equal(p, "intact!");
    mem_free(p);
    assert_int_equal(live(), before);

    uint64_t out = 7;
    assert_int_equal(checked_mul_u64(UINT64_MAX, 2, &out), -1);
    assert_int_equal(checked_add_u64(UINT64_MAX, 1, &out), -1);
    assert_int_equal(checked_align_u64(UINT64_MAX - 3, 32, &out), -1);
    assert_int_equal(out, 7);
    assert_int_equal(checked_align_u64(33, 32, &out), 0);
    assert_int_equal(out, 64);
}

static void test_peak_and_map(void **state)
{
    (void)state;
    struct mem_stats before, after;
    mem_stats_get(&before);
    char *pages = mem_map(before.peak_bytes + 100000);
    assert_non_null(pages);
    assert_int_equal((uintptr_t)pages % 4096, 0);
    assert_int_equal(pages[99999], 0);
    mem_stats_get(&after);
    assert_int_equal(after.live_bytes, before.live_bytes + before.peak_bytes + 100000);
    assert_int_equal(after.peak_bytes, after.live_bytes);
    assert_int_equal(after.n_calls, before.n_calls + 1);
    mem_unmap(pages, before.peak_bytes + 100000);
    mem_unmap(NULL, 5);
    assert_int_equal(live(), before.live_bytes);
}

/* Which of 20 allocations fail, as bits. */
static unsigned failures(uint64_t n, uint64_t every)
{
    unsigned bits = 0;
    mem_fail_at(n, every);
    for (int i = 0; i < 20; i++) {
        void *p = i % 5 == 0   ? mem_alloc(8)
                  : i % 5 == 1 ? mem_calloc(2, 4)
                  : i % 5 == 2 ? mem_aligned(8)
                  : i % 5 == 3 ? mem_map(8)
                               : mem_realloc(NULL, 8);
        if (!p)
            bits |= 1u << i;
        else if (i % 5 == 3)
            mem_unmap(p, 8);
        else
            mem_free(p);
    }
    assert_int_equal(mem_fail_count(), __builtin_popcount(bits));
    mem_fail_at(0, 0);
    return bits;
}

static void test_fail_at(void **state)
{
    (void)state;
    uint64_t before = live();
    for (unsigned n = 1; n <= 20; n++) {
        assert_int_equal(failures(n, 0), 1u << (n - 1));
        assert_int_equal(failures(n, 1), 0xfffffu & ~((1u << (n - 1)) - 1));
        unsigned expected = 0;
        for (unsigned i = n; i <= 20; i += 3)
            expected |= 1u << (i - 1);
        assert_int_equal(failures(n, 3), expected);
    }
    assert_int_equal(failures(0, 1), 0);
    assert_int_equal(failures(21, 1), 0);
    assert_int_equal(live(), before);
}

static void test_failed_realloc_keeps_block(void **state)
{
    (void)state;
    char *p = mem_strndup("kept", 4);
    mem_fail_at(1, 0);
    assert_null(mem_realloc(p, 1000));
    mem_fail_at(0, 0);
    assert_string_equal(p, "kept");
    mem_free(p);
}

static void test_buf(void **state)
{
    (void)state;
    uint64_t before = live();
    struct buf b = {0};
    assert_int_equal(buf_put(&b, "", 0), 0);
    assert_string_equal(b.data, "");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(buf_printf(&b, "%d,", i), 0);
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_memory_equal(b.data, "0,1,2,3,", 8);
    assert_int_equal(b.data[b.len], 0);
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_putc(&b, 'x'), 0);
    assert_int_equal(buf_put(&b, "a\0b", 3), 0);
    assert_int_equal(buf_puts(&b, "yz"), 0);
    assert_int_equal(b.len, 6);
    assert_memory_equal(b.data, "xa\0byz", 7);
    assert_int_equal(buf_put(&b, "x", SIZE_MAX), -1);
    assert_int_equal(b.len, 6);
    buf_free(&b);
    buf_free(&b);
    assert_int_equal(live(), before);
}

/* At every point where memory runs out, the buffer keeps what it had. */
static void test_buf_out_of_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 12; n++) {
        struct buf b = {0};
        size_t good = 0;
        mem_fail_at(n, 1);
        while (good < 100000 && buf_printf(&b, "%c", 'a' + (int)(good % 26)) == 0)
            good++;
        mem_fail_at(0, 0);
        assert_int_equal(b.len, good);
        for (size_t i = 0; i < good; i++)
            assert_int_equal(b.data[i], 'a' + (int)(i % 26));
        buf_free(&b);
    }
}

static void *hammer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20000; i++)
        mem_free(mem_realloc(mem_alloc(16), 48));
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t t[3];
    uint64_t before = live();
    for (size_t i = 0; i < N_ELEMENTS(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, hammer, NULL), 0);
    for (size_t i = 0; i < N_ELEMENTS(t); i++)
        pthread_join(t[i], NULL);
    assert_int_equal(live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_realloc_sizes),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_peak_and_map),
        cmocka_unit_test(test_fail_at),
        cmocka_unit_test(test_failed_realloc_keeps_block),
        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_buf_out_of_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
