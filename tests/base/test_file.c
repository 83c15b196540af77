/* The file door: every operation, its errors, and injected failures. */
#include "base_test.h"
#include "base/file.h"
#include "base/mem.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *path_of(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/hasten-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void write_file(const char *path, const char *data, size_t len)
{
    struct file *f;
    struct hasten_error err;
    assert_int_equal(file_open(path, FILE_WRITE_TRUNC, &f, &err), HASTEN_OK);
    assert_int_equal(file_write(f, data, len, &err), HASTEN_OK);
    file_close(f);
}

static void test_write_and_read(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *f;
    char got[16];
    size_t n;
    uint64_t size;
    write_file(path_of("a"), "hello", 5);
    assert_int_equal(file_open(path_of("a"), FILE_APPEND, &f, &err), HASTEN_OK);
    assert_int_equal(file_write(f, " world", 6, &err), HASTEN_OK);
    assert_int_equal(file_sync(f, &err), HASTEN_OK);
    file_close(f);
    assert_int_equal(file_open(path_of("a"), FILE_READ, &f, &err), HASTEN_OK);
    assert_int_equal(file_size(f, &size, &err), HASTEN_OK);
    assert_int_equal(size, 11);
    assert_int_equal(file_pread(f, got, 5, 6, &err), HASTEN_OK);
    assert_memory_equal(got, "world", 5);
    assert_int_equal(file_read(f, got, sizeof got, &n, &err), HASTEN_OK);
    assert_int_equal(n, 11);
    assert_memory_equal(got, "hello world", 11);
    assert_int_equal(file_read(f, got, sizeof got, &n, &err), HASTEN_OK);
    assert_int_equal(n, 0);
    assert_int_equal(file_pread(f, got, 6, 6, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, folder));
    assert_non_null(strstr(err.message, "ends after 5 bytes (expected 6)"));
    file_close(f);
    file_close(NULL);
}

static void test_open_errors(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *f = (struct file *)1;
    assert_int_equal(file_open(path_of("missing"), FILE_READ, &f, &err), HASTEN_ERR_FILE);
    assert_null(f);
    assert_non_null(strstr(err.message, "missing: No such file"));
    assert_int_equal(file_open(folder, FILE_READ, &f, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(file_open(path_of("no/such/folder"), FILE_WRITE_TRUNC, &f, &err), HASTEN_ERR_FILE);
    write_file(path_of("exists"), "x", 1);
    assert_int_equal(file_open(path_of("exists"), FILE_WRITE_NEW, &f, &err), HASTEN_ERR_FILE);
    assert_int_equal(file_open(path_of("new"), FILE_WRITE_NEW, &f, &err), HASTEN_OK);
    file_close(f);
    assert_int_equal(file_open(path_of("missing"), FILE_READ, &f, NULL), HASTEN_ERR_FILE);
}

/* A place that cannot be written is a wrong path, not a full disk. */
static void test_unwritable(void **state)
{
    (void)state;
    static const int errors[] = {EROFS, EACCES, EPERM, ENOENT, ENOTDIR};
    struct hasten_error err;
    struct file *f;
    uint64_t room;
    assert_int_equal(file_may_create(path_of("new file"), &err), HASTEN_OK);
    assert_int_equal(file_may_create("relative", &err), HASTEN_OK);
    assert_int_equal(file_may_create(path_of("no/such/file"), &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "no/such: No such file or directory (expected an existing path)"));
    for (size_t i = 0; i < N_ELEMENTS(errors); i++) {
        file_fail_at(1, 1, errors[i]);
        assert_int_equal(file_may_create(path_of("a"), &err), HASTEN_ERR_FILE);
        assert_int_equal(file_open(path_of("a"), FILE_WRITE_NEW, &f, &err), HASTEN_ERR_FILE);
        assert_non_null(strstr(err.message, "(expected "));
        assert_int_equal(file_space(path_of("a"), &room, &err), HASTEN_ERR_FILE);
        assert_non_null(strstr(err.message, "(expected "));
        file_fail_at(0, 0, 0);
    }
    file_fail_at(1, 0, EROFS);
    assert_int_equal(file_may_create(path_of("a"), &err), HASTEN_ERR_FILE);
    file_fail_at(0, 0, 0);
    assert_non_null(strstr(err.message, ": Read-only file system (expected a place that can be written)"));
}

static void test_disk_full(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *f;
    assert_int_equal(file_open("/dev/full", FILE_APPEND, &f, &err), HASTEN_OK);
    assert_int_equal(file_write(f, "x", 1, &err), HASTEN_ERR_DISK);
    assert_non_null(strstr(err.message, "No space"));
    file_close(f);
}

static void test_names(void **state)
{
    (void)state;
    struct hasten_error err;
    struct stat st;
    assert_int_equal(file_mkdirs(path_of("d/e//f/"), &err), HASTEN_OK);
    assert_int_equal(file_mkdirs(path_of("d/e/f"), &err), HASTEN_OK);
    assert_int_equal(stat(path_of("d/e/f"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    write_file(path_of("d/e/f/one"), "1", 1);
    assert_int_equal(file_rename(path_of("d/e/f/one"), path_of("two"), &err), HASTEN_OK);
    assert_false(file_exists(path_of("d/e/f/one")));
    assert_true(file_exists(path_of("two")));
    assert_int_equal(file_rename(path_of("gone"), path_of("three"), &err), HASTEN_ERR_FILE);
    assert_int_equal(file_unlink(path_of("two"), &err), HASTEN_OK);
    assert_int_equal(file_unlink(path_of("two"), &err), HASTEN_ERR_FILE);
    write_file(path_of("plain"), "1", 1);
    assert_int_equal(file_mkdirs(path_of("plain/x"), &err), HASTEN_ERR_FILE);
    assert_int_equal(file_mkdirs(path_of("plain"), &err), HASTEN_ERR_FILE);
}

static void test_folders(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file_names names = {0};
    assert_int_equal(file_mkdirs(path_of("l/sub"), &err), HASTEN_OK);
    write_file(path_of("l/b"), "1", 1);
    write_file(path_of("l/.a"), "1", 1);
    assert_int_equal(file_list(path_of("l"), &names, &err), HASTEN_OK);
    assert_int_equal(names.n, 3);
    assert_string_equal(names.names[0], ".a");
    assert_string_equal(names.names[1], "b");
    assert_string_equal(names.names[2], "sub");
    file_names_free(&names);
    assert_int_equal(file_list(path_of("l/sub"), &names, &err), HASTEN_OK);
    assert_int_equal(names.n, 0);
    file_names_free(&names);
    assert_int_equal(file_list(path_of("gone"), &names, &err), HASTEN_ERR_FILE);
    assert_int_equal(file_list(path_of("l/b"), &names, &err), HASTEN_ERR_FILE);
    assert_int_equal(file_rmdir(path_of("l"), &err), HASTEN_ERR_DISK); /* not empty */
    assert_int_equal(file_rmdir(path_of("l/sub"), &err), HASTEN_OK);
    assert_false(file_exists(path_of("l/sub")));
    assert_int_equal(file_rmdir(path_of("l/sub"), &err), HASTEN_ERR_FILE);
    for (uint64_t n = 1; n <= 8; n++) { /* whatever allocation fails, nothing is left */
        mem_fail_at(n, 1);
        hasten_status st = file_list(path_of("l"), &names, &err);
        const uint64_t failed = mem_fail_count();
        mem_fail_at(0, 0);
        assert_int_equal(st, failed ? HASTEN_ERR_MEMORY : HASTEN_OK);
        file_names_free(&names);
    }
    file_fail_at(1, 0, EIO);
    assert_int_equal(file_list(path_of("l"), &names, &err), HASTEN_ERR_FILE);
    file_fail_at(0, 0, 0);
}

/* flock is held by the open file, so that a second opening in this process stands for another one. */
static void test_lock_and_truncate(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *a, *b;
    uint64_t size;
    int got;
    write_file(path_of("t"), "0123456789", 10);
    assert_int_equal(file_open(path_of("t"), FILE_APPEND, &a, &err), HASTEN_OK);
    assert_int_equal(file_open(path_of("t"), FILE_APPEND, &b, &err), HASTEN_OK);
    assert_int_equal(file_lock(a, &got, &err), HASTEN_OK);
    assert_true(got);
    assert_int_equal(file_lock(b, &got, &err), HASTEN_OK);
    assert_false(got);
    assert_int_equal(file_truncate(a, 4, &err), HASTEN_OK);
    assert_int_equal(file_write(a, "x", 1, &err), HASTEN_OK); /* at the new end */
    assert_int_equal(file_size(a, &size, &err), HASTEN_OK);
    assert_int_equal(size, 5);
    file_close(a);
    assert_int_equal(file_lock(b, &got, &err), HASTEN_OK);
    assert_true(got);
    file_fail_at(1, 1, EIO);
    assert_int_equal(file_truncate(b, 0, &err), HASTEN_ERR_DISK);
    assert_int_equal(file_lock(b, &got, &err), HASTEN_ERR_DISK);
    file_fail_at(0, 0, 0);
    file_close(b);
}

static void test_map(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *f;
    const void *data;
    uint64_t size;
    write_file(path_of("m"), "mapped", 6);
    assert_int_equal(file_open(path_of("m"), FILE_READ, &f, &err), HASTEN_OK);
    assert_int_equal(file_map(f, &data, &size, &err), HASTEN_OK);
    file_close(f);
    assert_int_equal(size, 6);
    assert_memory_equal(data, "mapped", 6);
    file_unmap(data, size);
    file_unmap(NULL, 0);
    write_file(path_of("empty"), "", 0);
    assert_int_equal(file_open(path_of("empty"), FILE_READ, &f, &err), HASTEN_OK);
    assert_int_equal(file_map(f, &data, &size, &err), HASTEN_ERR_FILE);
    assert_null(data);
    file_close(f);
    assert_int_equal(file_open("/dev/null", FILE_READ, &f, &err), HASTEN_OK);
    assert_int_equal(file_map(f, &data, &size, &err), HASTEN_ERR_FILE);
    file_close(f);
}

static int stop_at(void *ctx, uint64_t done)
{
    return done >= *(const uint64_t *)ctx;
}

#define MAPPED ((20u << 20) + 123)

/* A copy in the place of a map: the same bytes at the same address, whatever happens to the file; stopped in the
 * middle, it is still one readable map. */
static void test_map_copy(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *f;
    const void *data;
    uint64_t size, most = 10u << 20;
    char *bytes = mem_alloc(MAPPED);
    assert_non_null(bytes);
    for (size_t i = 0; i < MAPPED; i++)
        bytes[i] = (char)(i * 31 + (i >> 12));
    write_file(path_of("c"), bytes, MAPPED);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(file_open(path_of("c"), FILE_READ, &f, &err), HASTEN_OK);
        assert_int_equal(file_map(f, &data, &size, &err), HASTEN_OK);
        file_close(f);
        if (round == 1) {
            file_fail_at(2, 0, ENOMEM);
            assert_int_equal(file_map_copy(data, size, "c", NULL, NULL, &err), HASTEN_ERR_MEMORY);
            file_fail_at(0, 0, 0);
            assert_non_null(
                strstr(err.message, "reading c into memory: out of memory after 8.0 of 20.0 MiB"));
        } else if (round == 2) {
            assert_int_equal(file_map_copy(data, size, "c", stop_at, &most, &err), HASTEN_ERR_CANCELLED);
        } else {
            assert_int_equal(file_map_copy(data, size, "c", NULL, NULL, &err), HASTEN_OK);
            assert_int_equal(truncate(path_of("c"), 0), 0);
        }
        assert_memory_equal(data, bytes, MAPPED);
        file_unmap(data, size);
        write_file(path_of("c"), bytes, MAPPED);
    }
    mem_free(bytes);
}

static void test_map_lock(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *f;
    const void *data;
    uint64_t size, most = 0;
    write_file(path_of("k"), "locked", 6);
    assert_int_equal(file_open(path_of("k"), FILE_READ, &f, &err), HASTEN_OK);
    assert_int_equal(file_map(f, &data, &size, &err), HASTEN_OK);
    file_close(f);
    file_fail_at(1, 0, ENOMEM);
    assert_int_equal(file_map_lock(data, size, "k", NULL, NULL, &err), HASTEN_ERR_MEMORY);
    file_fail_at(0, 0, 0);
    assert_non_null(strstr(err.message, "locking k: 0.0 of 0.0 MiB, with "));
    assert_int_equal(file_map_lock(data, size, "k", stop_at, &most, &err), HASTEN_ERR_CANCELLED);
    assert_int_equal(file_map_lock(data, size, "k", NULL, NULL, &err), HASTEN_OK);
    assert_memory_equal(data, "locked", 6);
    file_unmap(data, size);
}

static void test_slurp(void **state)
{
    (void)state;
    struct hasten_error err;
    char *data;
    size_t len;
    char big[50000];
    memset(big, 'b', sizeof big);
    write_file(path_of("big"), big, sizeof big);
    assert_int_equal(file_slurp(path_of("big"), sizeof big, &data, &len, &err), HASTEN_OK);
    assert_int_equal(len, sizeof big);
    assert_memory_equal(data, big, len);
    assert_int_equal(data[len], 0);
    mem_free(data);
    assert_int_equal(file_slurp(path_of("big"), sizeof big - 1, &data, &len, &err), HASTEN_ERR_LIMIT);
    assert_null(data);
    assert_int_equal(file_slurp("/proc/self/status", 1 << 20, &data, &len, &err), HASTEN_OK);
    assert_true(len > 100); /* a file whose size says 0 */
    mem_free(data);
    assert_int_equal(file_slurp("/dev/null", 0, &data, &len, &err), HASTEN_OK);
    assert_int_equal(len, 0);
    assert_string_equal(data, "");
    mem_free(data);
}

static void test_slurp_stdin(void **state)
{
    (void)state;
    struct hasten_error err;
    char *data;
    size_t len;
    int ends[2], saved = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "piped", 5), 5);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    assert_int_equal(file_slurp("-", 100, &data, &len, &err), HASTEN_OK);
    assert_string_equal(data, "piped");
    mem_free(data);
    assert_int_not_equal(lseek(STDIN_FILENO, 0, SEEK_CUR), 0); /* still open: ESPIPE, not EBADF */
    assert_int_equal(errno, ESPIPE);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

/* A little program that uses every operation; stops at the first error. */
static hasten_status use_everything(struct hasten_error *err)
{
    struct file *f = NULL;
    const void *data = NULL;
    uint64_t size = 0;
    size_t got;
    char text[8], *all = NULL;
    hasten_status s = file_mkdirs(path_of("w"), err);
    if (s == HASTEN_OK)
        s = file_open(path_of("w/t"), FILE_WRITE_TRUNC, &f, err);
    if (s == HASTEN_OK)
        s = file_write(f, "01234567", 8, err);
    if (s == HASTEN_OK)
        s = file_sync(f, err);
    file_close(f);
    f = NULL;
    if (s == HASTEN_OK)
        s = file_rename(path_of("w/t"), path_of("w/u"), err);
    if (s == HASTEN_OK)
        s = file_open(path_of("w/u"), FILE_READ, &f, err);
    if (s == HASTEN_OK)
        s = file_read(f, text, 4, &got, err);
    if (s == HASTEN_OK)
        s = file_pread(f, text, 8, 0, err);
    if (s == HASTEN_OK)
        s = file_map(f, &data, &size, err);
    file_unmap(data, size);
    file_close(f);
    if (s == HASTEN_OK)
        s = file_slurp(path_of("w/u"), 100, &all, &got, err);
    if (s == HASTEN_OK && (got != 8 || memcmp(all, "01234567", 8) != 0))
        s = error_set(err, HASTEN_ERR_INTERNAL, "wrong bytes");
    mem_free(all);
    if (s == HASTEN_OK)
        s = file_unlink(path_of("w/u"), err);
    return s;
}

/* Every operation fails once, with three errors; and every allocation. Nothing leaks, nothing passes. */
static void test_fault_sweep(void **state)
{
    (void)state;
    struct hasten_error err;
    struct mem_stats before, after;
    static const int errors[] = {EIO, ENOSPC, ENOMEM};
    mem_stats_get(&before);
    uint64_t start = file_op_count();
    assert_int_equal(use_everything(&err), HASTEN_OK);
    uint64_t n_ops = file_op_count() - start;
    assert_true(n_ops >= 12);
    for (size_t e = 0; e < N_ELEMENTS(errors); e++)
        for (uint64_t n = 1; n <= n_ops; n++) {
            memset(&err, 0, sizeof err);
            file_fail_at(n, 0, errors[e]);
            hasten_status s = use_everything(&err);
            file_fail_at(0, 0, 0);
            assert_true(s == HASTEN_ERR_FILE || s == HASTEN_ERR_DISK || s == HASTEN_ERR_MEMORY);
            assert_int_equal(err.status, s);
            assert_non_null(strstr(err.message, "/tmp"));
            if (errors[e] == ENOMEM)
                assert_true(s == HASTEN_ERR_MEMORY || strstr(err.message, "writing to disk"));
        }
    file_fail_at(n_ops + 1, 1, EIO);
    assert_int_equal(use_everything(&err), HASTEN_OK);
    file_fail_at(0, 0, 0);
    for (uint64_t n = 1;; n++) {
        mem_fail_at(n, 0);
        hasten_status s = use_everything(&err);
        uint64_t injected = mem_fail_count();
        mem_fail_at(0, 0);
        if (!injected)
            break;
        assert_true(s == HASTEN_ERR_MEMORY || s == HASTEN_OK); /* OK: only the folder's sync was skipped */
    }
    mem_stats_get(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

/* Short transfers: loops go on, an exact read says so. */
static void test_short_transfers(void **state)
{
    (void)state;
    struct hasten_error err;
    struct file *f;
    char *data, got[8];
    size_t len;
    file_fail_at(1, 1, 0);
    write_file(path_of("s"), "abcdefgh", 8);
    assert_int_equal(file_slurp(path_of("s"), 100, &data, &len, &err), HASTEN_OK);
    assert_string_equal(data, "abcdefgh");
    mem_free(data);
    assert_int_equal(file_open(path_of("s"), FILE_READ, &f, &err), HASTEN_OK);
    assert_int_equal(file_read(f, got, 8, &len, &err), HASTEN_OK);
    assert_int_equal(len, 4);
    assert_int_equal(file_pread(f, got, 8, 0, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "ends after 4 bytes (expected 8)"));
    file_fail_at(0, 0, 0);
    file_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_lock_and_truncate),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_copy),
        cmocka_unit_test(test_map_lock),
        cmocka_unit_test(test_slurp),
        cmocka_unit_test(test_slurp_stdin),
        cmocka_unit_test(test_fault_sweep),
        cmocka_unit_test(test_short_transfers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
