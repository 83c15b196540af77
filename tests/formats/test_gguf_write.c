/* The writer of GGUF files: what it writes reads back; whatever fails, the old file stays and nothing else is left. */
#include "base/file.h"
#include "base/mem.h"
#include "formats/gguf_write.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[64], target[96];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/hasten-write-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(target, sizeof target, "%s/model.gguf", folder);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    file_fail_at(0, 0, 0);
    mem_fail_at(0, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static int files_in_folder(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static uint8_t data_byte(int tensor, uint64_t i)
{
    return (uint8_t)(31 * (uint64_t)tensor + 7 * i + i / 251);
}

struct tensor_case {
    const char *name;
    uint32_t type;
    int32_t n_dims;
    int64_t ne[4];
    uint64_t bytes;
};

static const struct tensor_case tensors[] = {
    {"a.weight", QUANT_Q4_0, 2, {64, 3, 1, 1}, 108},
    {"b.bias", QUANT_F32, 1, {5, 1, 1, 1}, 20},
    {"c.weight", QUANT_Q6_K, 3, {256, 2, 2, 1}, 840},
    {"d.weight", QUANT_F16, 4, {3, 1, 2, 2}, 24},
};
#define N_TENSORS ((int)(sizeof tensors / sizeof *tensors))

/* Writes everything, the data in pieces of `piece` bytes that do not respect tensors. */
static hasten_status write_all(uint32_t alignment, size_t piece, const struct gguf *copy_from,
                               struct hasten_error *err)
{
    static const char *const strs[] = {"one", "", "three"};
    static uint8_t all[1000];
    struct gguf_write *w = NULL;
    size_t n = 0;
    hasten_status st = gguf_write_open(target, alignment, &w, err);
    if (st)
        return st;
    gguf_write_str(w, "general.architecture", "none");
    gguf_write_u32(w, "none.block_count", 3);
    gguf_write_strs(w, "none.words", strs, 3);
    for (int64_t i = 0; copy_from && i < gguf_n_keys(copy_from); i++)
        if (strncmp(gguf_key(copy_from, i), "copied.", 7) == 0)
            gguf_write_copy(w, copy_from, i);
    for (int t = 0; t < N_TENSORS; t++) {
        gguf_write_tensor(w, tensors[t].name, quant_type_get(tensors[t].type), tensors[t].n_dims,
                          tensors[t].ne);
        for (uint64_t i = 0; i < tensors[t].bytes; i++)
            all[n++] = data_byte(t, i);
    }
    st = gguf_write_begin(w, err);
    for (size_t at = 0; at < n && !st; at += piece)
        st = gguf_write_data(w, all + at, n - at < piece ? n - at : piece, err);
    if (!st)
        st = gguf_write_finish(w, err);
    gguf_write_close(w);
    return st;
}

static void check_file(uint32_t alignment)
{
    struct gguf *g;
    struct hasten_error err;
    struct gguf_str s;
    uint32_t v = 0;
    if (gguf_open(target, &g, &err) != HASTEN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(gguf_alignment(g), alignment);
    assert_int_equal(gguf_get_u32(g, "none.block_count", &v, &err), HASTEN_OK);
    assert_int_equal(v, 3);
    assert_int_equal(gguf_array_str(g, "none.words", 2, &s, &err), HASTEN_OK);
    assert_int_equal(s.len, 5);
    assert_int_equal(gguf_n_tensors(g), N_TENSORS);
    for (int t = 0; t < N_TENSORS; t++) {
        const struct gguf_tensor *x = gguf_tensor_at(g, t);
        assert_string_equal(x->name, tensors[t].name);
        assert_int_equal(x->type->id, tensors[t].type);
        assert_int_equal(x->n_dims, tensors[t].n_dims);
        assert_memory_equal(x->ne, tensors[t].ne, sizeof x->ne);
        assert_int_equal(x->size_bytes, tensors[t].bytes);
        for (uint64_t i = 0; i < x->size_bytes; i++)
            assert_int_equal(x->data[i], data_byte(t, i));
    }
    assert_int_equal(gguf_file_bytes(g) % alignment, 0);
    gguf_close(g);
}

static void test_round_trip(void **state)
{
    static const uint32_t alignments[] = {8, 32, 64, 65536};
    struct hasten_error err;
    (void)state;
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        for (size_t piece = 1; piece < 2000; piece = 3 * piece + 1) {
            assert_int_equal(write_all(alignments[i], piece, NULL, &err), HASTEN_OK);
            check_file(alignments[i]);
            assert_int_equal(files_in_folder(), 1);
        }
}

/* Keys of every type are copied byte for byte. */
static void test_copied_keys(void **state)
{
    struct hasten_error err;
    struct buf b = {0};
    struct gguf *g, *copy;
    (void)state;
    const uint64_t header[] = {0, 4};
    static const uint8_t keys[] = "\10\0\0\0\0\0\0\0copied.a\7\0\0\0\1"                         /* bool */
                                  "\10\0\0\0\0\0\0\0copied.b\14\0\0\0\1\2\3\4\5\6\7\10"         /* f64 */
                                  "\10\0\0\0\0\0\0\0copied.c\11\0\0\0\10\0\0\0\2\0\0\0\0\0\0\0" /* strings */
                                  "\3\0\0\0\0\0\0\0abc\0\0\0\0\0\0\0\0"
                                  "\10\0\0\0\0\0\0\0copied.d\11\0\0\0\11\0\0\0\1\0\0\0\0\0\0\0" /* nested */
                                  "\0\0\0\0\3\0\0\0\0\0\0\0\1\2\3";
    buf_put(&b, "GGUF\3\0\0\0", 8);
    buf_put(&b, header, sizeof header);
    buf_put(&b, keys, sizeof keys - 1);
    if (gguf_open_memory(b.data, b.len, "keys", &g, &err) != HASTEN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(write_all(32, 100, g, &err), HASTEN_OK);
    check_file(32);
    assert_int_equal(gguf_open(target, &copy, &err), HASTEN_OK);
    for (int64_t i = 0; i < gguf_n_keys(g); i++) {
        const struct gguf_str want = gguf_value_raw(g, i);
        const int64_t at = gguf_find(copy, gguf_key(g, i));
        assert_true(at >= 0);
        const struct gguf_str got = gguf_value_raw(copy, at);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
    }
    gguf_close(copy);
    gguf_close(g);
    buf_free(&b);
}

static void test_misuse(void **state)
{
    static const uint32_t alignments[] = {0, 1, 4, 7, 24, 131072};
    const int64_t odd[] = {33, 1}, zero[] = {0, 1}, huge[] = {1ll << 40, 1ll << 40, 1ll << 40};
    struct hasten_error err;
    struct gguf_write *w;
    (void)state;
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        assert_int_equal(gguf_write_open(target, alignments[i], &w, &err), HASTEN_ERR_USAGE);
    const struct {
        int32_t n_dims;
        const int64_t *ne;
        const char *name;
    } bad[] = {{2, odd, "x"}, {2, zero, "x"}, {3, huge, "x"},
               {0, odd, "x"}, {5, odd, "x"},  {1, (int64_t[]){32}, ""}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(gguf_write_open(target, 32, &w, &err), HASTEN_OK);
        gguf_write_tensor(w, bad[i].name, quant_type_get(QUANT_Q4_0), bad[i].n_dims, bad[i].ne);
        assert_int_equal(gguf_write_begin(w, &err), HASTEN_ERR_LIMIT);
        gguf_write_close(w);
    }
    assert_int_equal(gguf_write_open(target, 32, &w, &err), HASTEN_OK);
    gguf_write_tensor(w, "x", quant_type_get(QUANT_F32), 1, (int64_t[]){4});
    assert_int_equal(gguf_write_finish(w, &err), HASTEN_ERR_INTERNAL);
    assert_int_equal(gguf_write_begin(w, &err), HASTEN_OK);
    assert_int_equal(gguf_write_data(w, "12345678", 8, &err), HASTEN_OK);
    assert_int_equal(gguf_write_finish(w, &err), HASTEN_ERR_INTERNAL);               /* half of the data */
    assert_int_equal(gguf_write_data(w, "123456789", 9, &err), HASTEN_ERR_INTERNAL); /* a byte too many */
    gguf_write_close(w);
    assert_int_equal(files_in_folder(), 0);
}

/* Room: a file larger than the disk is refused with the figures before a byte is written. */
static void test_no_room(void **state)
{
    struct hasten_error err;
    struct gguf_write *w;
    (void)state;
    assert_int_equal(gguf_write_open(target, 32, &w, &err), HASTEN_OK);
    gguf_write_tensor(w, "x", quant_type_get(QUANT_F32), 3, (int64_t[]){1ll << 20, 1ll << 20, 1ll << 16});
    assert_int_equal(gguf_write_begin(w, &err), HASTEN_ERR_DISK);
    assert_non_null(strstr(err.message, "288230376151711"));
    gguf_write_close(w);
    assert_int_equal(files_in_folder(), 0);
}

static void put_old_file(void)
{
    struct file *f;
    assert_int_equal(file_open(target, FILE_WRITE_TRUNC, &f, NULL), HASTEN_OK);
    assert_int_equal(file_write(f, "old", 3, NULL), HASTEN_OK);
    file_close(f);
}

static bool old_file_is_there(void)
{
    char *data;
    size_t len;
    assert_int_equal(file_slurp(target, 1 << 20, &data, &len, NULL), HASTEN_OK);
    const bool old = len == 3 && memcmp(data, "old", 3) == 0;
    mem_free(data);
    return old;
}

/* Each operation of the door fails in turn: the old file stands, or the new one whole; nothing lies beside it. */
static void test_every_operation_fails(void **state)
{
    static const int errors[] = {ENOSPC, EIO, 0};
    struct hasten_error err;
    (void)state;
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        int n_failed = 0;
        for (uint64_t n = 1;; n++) {
            put_old_file();
            const uint64_t before = file_op_count();
            file_fail_at(n, 0, errors[e]);
            const hasten_status st = write_all(32, 333, NULL, &err);
            const uint64_t ops = file_op_count() - before;
            file_fail_at(0, 0, 0);
            if (st != HASTEN_OK) {
                n_failed++;
                assert_true(old_file_is_there());
                assert_true(err.message[0] != '\0');
            } else {
                check_file(32);
            }
            assert_int_equal(files_in_folder(), 1);
            if (n > ops)
                break;
        }
        assert_true(errors[e] == 0 || n_failed >= 8);
    }
}

/* A full disk stays full: removing what was begun still works. */
static void test_disk_full_for_ever(void **state)
{
    struct hasten_error err;
    (void)state;
    for (uint64_t n = 1; n < 12; n++) {
        put_old_file();
        file_fail_at(n, 0, ENOSPC);
        write_all(32, 50, NULL, &err);
        file_fail_at(0, 0, 0);
        assert_int_equal(files_in_folder(), 1);
    }
}

static void test_every_allocation_fails(void **state)
{
    struct hasten_error err;
    struct mem_stats before, after;
    (void)state;
    mem_stats_get(&before);
    for (uint64_t every = 0; every < 2; every++)
        for (uint64_t n = 1;; n++) {
            put_old_file();
            mem_fail_at(n, every);
            const hasten_status st = write_all(32, 333, NULL, &err);
            const uint64_t failures = mem_fail_count();
            mem_fail_at(0, 0);
            mem_stats_get(&after);
            assert_int_equal(after.live_bytes, before.live_bytes);
            assert_int_equal(files_in_folder(), 1);
            if (failures == 0)
                break;
            if (st != HASTEN_OK) {
                assert_int_equal(st, HASTEN_ERR_MEMORY);
                assert_true(old_file_is_there());
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copied_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_misuse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_operation_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_full_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_allocation_fails, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
