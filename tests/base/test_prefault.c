/* Reading ahead: a mapped file becomes present without being touched; stopping in the middle is safe. */
#include "base_test.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/prefault.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_NAME "prefault_test.bin"
#define SIZE (20u << 20)

static int write_test_file(void)
{
    struct hasten_error err;
    struct file *f;
    char *bytes = mem_calloc(1, SIZE);
    int bad = !bytes || file_open(FILE_NAME, FILE_WRITE_TRUNC, &f, &err) != HASTEN_OK;
    if (!bad) {
        bad = file_write(f, bytes, SIZE, &err) != HASTEN_OK;
        file_close(f);
    }
    mem_free(bytes);
    return bad;
}

static void map_test_file(const void **data, uint64_t *size)
{
    struct hasten_error err;
    struct file *f;
    assert_int_equal(file_open(FILE_NAME, FILE_READ, &f, &err), HASTEN_OK);
    assert_int_equal(file_map(f, data, size, &err), HASTEN_OK);
    assert_int_equal(*size, SIZE);
    file_close(f);
}

/* Bytes of the map that stand in this process's page table (Rss of its line in smaps). */
static uint64_t present_bytes(const void *data)
{
    char line[512], start[32];
    uint64_t kib = 0;
    int inside = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)data);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, start, strlen(start)) == 0)
            inside = 1;
        else if (inside && sscanf(line, "Rss: %lu kB", &kib) == 1)
            break;
    }
    fclose(f);
    return kib << 10;
}

static void pages_become_present(void **state)
{
    (void)state;
    struct hasten_error err;
    struct prefault *p;
    const void *data;
    uint64_t size;
    cpu_set_t set;
    map_test_file(&data, &size);
    assert_int_equal(present_bytes(data), 0);
    assert_int_equal(prefault_start((struct prefault_range[2]){{data, size / 2},
                                                               {(const char *)data + size / 2, size / 2}},
                                    2, &p, &err),
                     HASTEN_OK);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    if (p) {
        for (uint64_t t0 = clock_now_ns(); present_bytes(data) < size;) {
            assert_true(clock_now_ns() - t0 < 20000000000u);
            usleep(1000);
        }
        uint64_t done, total; /* it says how far it is, and that it has ended */
        for (uint64_t t0 = clock_now_ns(); prefault_reading(p, &done, &total);)
            assert_true(clock_now_ns() - t0 < 20000000000u && done <= total);
        assert_int_equal(total, size);
        assert_int_equal(done, size);
    } else {
        assert_int_equal(CPU_COUNT(&set),
                         1); /* else there is no reason not to (old kernels: not supported here) */
    }
    prefault_stop(p);
    file_unmap(data, size);
}

static void stops_at_any_time(void **state)
{
    (void)state;
    struct hasten_error err;
    struct mem_stats before, after;
    const void *data;
    uint64_t size;
    mem_stats_get(&before);
    for (useconds_t wait = 0; wait < 3000; wait += 300) {
        struct prefault *p;
        map_test_file(&data, &size);
        assert_int_equal(prefault_start((struct prefault_range[2]){{data, size / 2},
                                                                   {(const char *)data + size / 2, size / 2}},
                                        2, &p, &err),
                         HASTEN_OK);
        usleep(wait);
        prefault_stop(p);
        file_unmap(data, size);
    }
    prefault_stop(NULL);
    mem_stats_get(&after);
    assert_int_equal(before.live_bytes, after.live_bytes);
}

/* A file larger than half of what can be had is left to the faults. */
static void not_what_memory_cannot_hold(void **state)
{
    (void)state;
    struct hasten_error err;
    struct prefault *p = (void *)&err;
    assert_int_equal(
        prefault_start((struct prefault_range[2]){{&err, 1}, {&err, UINT64_MAX - 1}}, 2, &p, &err),
        HASTEN_OK);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_become_present),
        cmocka_unit_test(stops_at_any_time),
        cmocka_unit_test(not_what_memory_cannot_hold),
    };
    if (write_test_file()) {
        fprintf(stderr, FILE_NAME ": cannot be written\n");
        return 1;
    }
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(FILE_NAME);
    return rc;
}
