/* The CPU quota, read from made-up control group trees of both versions. */
#include "base_test.h"
#include "base/cgroup.h"
#include "base/file.h"
#include "base/meminfo.h"
#include "base/pool.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/hasten-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    struct file *f;
    struct hasten_error err;
    snprintf(path, sizeof path, "%s/%s", root, folder);
    assert_int_equal(file_mkdirs(path, &err), HASTEN_OK);
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    assert_int_equal(file_open(path, FILE_WRITE_TRUNC, &f, &err), HASTEN_OK);
    assert_int_equal(file_write(f, text, strlen(text), &err), HASTEN_OK);
    file_close(f);
}

static int limit(const char *membership)
{
    char path[128];
    put(".", "membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return cgroup_cpu_limit(path, root);
}

static void test_v2(void **state)
{
    (void)state;
    put("a/b", "cpu.max", "150000 100000\n");
    put("a", "cpu.max", "400000 100000\n");
    put("free", "cpu.max", "max 100000\n");
    assert_int_equal(limit("0::/a/b\n"), 2); /* 1.5, rounded up */
    assert_int_equal(limit("0::/a\n"), 4);
    assert_int_equal(limit("0::/a/deeper/still\n"), 4); /* a group whose files we do not see */
    assert_int_equal(limit("0::/free\n"), 0);
    assert_int_equal(limit("0::/\n"), 0);
    put("a", "cpu.max", "100000 100000\n");
    assert_int_equal(limit("0::/a/b\n"), 1); /* the parent is tighter */
    put("a", "cpu.max", "5000 100000\n");
    assert_int_equal(limit("0::/a\n"), 1); /* at least one */
    put(".", "cpu.max", "300000 100000\n");
    assert_int_equal(limit("0::/\n"), 3);
    assert_int_equal(limit("0::/free\n"), 3);
}

static void test_v1(void **state)
{
    (void)state;
    put("cpu,cpuacct/pod", "cpu.cfs_quota_us", "250000\n");
    put("cpu,cpuacct/pod", "cpu.cfs_period_us", "100000\n");
    put("cpu,cpuacct/open", "cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/open", "cpu.cfs_period_us", "100000\n");
    assert_int_equal(limit("5:memory:/pod\n4:cpu,cpuacct:/pod\n1:name=systemd:/pod\n"), 3);
    assert_int_equal(limit("4:cpu,cpuacct:/open\n"), 0);
    assert_int_equal(limit("4:cpuset:/pod\n"), 0);
}

static void test_nonsense(void **state)
{
    (void)state;
    put("bad", "cpu.max", "lots of\n");
    put("zero", "cpu.max", "100000 0\n");
    put("huge", "cpu.max", "99999999999999999999999 1\n");
    put(".", "cpu.max", "max 100000\n");
    assert_int_equal(limit("0::/bad\n"), 0);
    assert_int_equal(limit("0::/zero\n"), 0);
    assert_int_equal(limit("0::/huge\n"), 0);
    assert_int_equal(limit(""), 0);
    assert_int_equal(limit("no colons\n::\n0::\n0::relative\n"), 0);
    assert_int_equal(cgroup_cpu_limit("/nonexistent", root), 0);
}

/* Bound to one CPU, one thread. */
static void test_default_threads(void **state)
{
    (void)state;
    cpu_set_t saved, one;
    assert_int_equal(sched_getaffinity(0, sizeof saved, &saved), 0);
    int n = pool_default_threads();
    assert_true(n >= 1 && n <= CPU_COUNT(&saved));
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &saved))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(pool_default_threads(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof saved, &saved), 0);
}

static uint64_t available(void)
{
    char meminfo[128];
    uint64_t out = 0;
    struct hasten_error err;
    snprintf(meminfo, sizeof meminfo, "%s/meminfo", root);
    assert_int_equal(meminfo_available(meminfo, root, &out, &err), HASTEN_OK);
    return out;
}

static void the_tighter_word_on_memory_counts(void **state)
{
    (void)state;
    assert_true(available() == UINT64_MAX); /* nobody says anything */
    put(".", "meminfo", "MemTotal: 9 kB\nMemAvailable:     1000 kB\n");
    assert_int_equal(available(), 1024000);
    put(".", "memory.max", "max\n");
    put(".", "memory.current", "5000\n");
    assert_int_equal(available(), 1024000);
    put(".", "memory.max", "65536\n");
    assert_int_equal(available(), 60536);
    put(".", "memory.current", "70000\n");
    assert_int_equal(available(), 0);
    put(".", "memory.max", "9000000000\n");
    assert_int_equal(available(), 1024000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_tighter_word_on_memory_counts, setup, teardown),
        cmocka_unit_test(test_v2),
        cmocka_unit_test(test_v1),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_default_threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
