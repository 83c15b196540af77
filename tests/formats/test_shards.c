/* Split models: the first shard opens all of them and reads as the whole file would; every other state of the
 * files is refused with the name of the shard and what was expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SHARDS 3

static char folder[64];

struct shard { /* what one file says, and what it is called */
    uint32_t no, count, n_tensors;
    const char *tensors[2];
    const char *name;
};

static const struct shard honest[N_SHARDS] = {
    {0, N_SHARDS, 4, {"a.weight", "b.weight"}, "m-00001-of-00003.gguf"},
    {1, N_SHARDS, 4, {"c.weight", NULL}, "m-00002-of-00003.gguf"},
    {2, N_SHARDS, 4, {"d.weight", NULL}, "m-00003-of-00003.gguf"},
};

static const char *path_of(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void write_shard(const struct shard *s)
{
    struct gguf_writer *w = gguf_writer_new();
    assert_non_null(w);
    gguf_writer_number(w, "split.no", GGUF_U16, s->no);
    gguf_writer_number(w, "split.count", GGUF_U16, s->count);
    gguf_writer_number(w, "split.tensors.count", GGUF_I32, s->n_tensors);
    if (s->no == 0)
        gguf_writer_str(w, "general.architecture", "llama");
    for (int i = 0; i < 2 && s->tensors[i]; i++) {
        float data[8];
        for (int j = 0; j < 8; j++)
            data[j] = (float)(s->tensors[i][0] * 8 + j);
        gguf_writer_tensor(w, s->tensors[i], QUANT_F32, 1, (uint64_t[]){8}, data, sizeof data);
    }
    assert_int_equal(gguf_writer_save(w, NULL, 0, path_of(s->name)), 0);
    gguf_writer_free(w);
}

static void write_all(void)
{
    for (int i = 0; i < N_SHARDS; i++)
        write_shard(&honest[i]);
}

static uint64_t live_bytes(void)
{
    struct mem_stats stats;
    mem_stats_get(&stats);
    return stats.live_bytes;
}

static void refused(const char *name, hasten_status status, const char *says)
{
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    const uint64_t before = live_bytes();
    assert_int_equal(gguf_open(path_of(name), &g, &err), status);
    assert_null(g);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    assert_int_equal(live_bytes(), before);
}

static void test_joined(void **state)
{
    (void)state;
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    write_all();
    if (gguf_open(path_of(honest[0].name), &g, &err) != HASTEN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(gguf_n_tensors(g), 4);
    assert_int_equal(gguf_n_parts(g), N_SHARDS);
    uint64_t bytes = 0;
    for (int32_t i = 0; i < N_SHARDS; i++) {
        const struct gguf_part part = gguf_part_at(g, i);
        assert_string_equal(strrchr(part.path, '/') + 1, honest[i].name);
        bytes += part.size;
    }
    assert_int_equal(gguf_file_bytes(g), bytes);
    static const char *const names[] = {"a.weight", "b.weight", "c.weight", "d.weight"};
    static const int32_t parts[] = {0, 0, 1, 2};
    for (int i = 0; i < 4; i++) {
        const struct gguf_tensor *t = gguf_tensor_find(g, names[i]);
        assert_ptr_equal(t, gguf_tensor_at(g, i));
        assert_int_equal(t->part, parts[i]);
        assert_ptr_equal(t->data, gguf_part_at(g, t->part).data + t->offset);
        float last;
        memcpy(&last, t->data + 28, sizeof last);
        assert_true(last == (float)(names[i][0] * 8 + 7));
    }
    struct gguf_str arch;
    assert_int_equal(gguf_get_str(g, "general.architecture", &arch, &err), HASTEN_OK);
    gguf_close(g);
}

static void test_later_shard(void **state)
{
    (void)state;
    write_all();
    refused(honest[1].name, HASTEN_ERR_FILE, "found 1, shard 2 of 3 (expected the first shard, ");
    refused(honest[2].name, HASTEN_ERR_FILE, "m-00001-of-00003.gguf)");
    struct shard s = honest[1];
    s.name = "renamed.gguf";
    write_shard(&s);
    refused(s.name, HASTEN_ERR_FILE, "shard 2 of 3 (expected the first shard)");
}

static void test_missing(void **state)
{
    (void)state;
    write_all();
    assert_int_equal(unlink(path_of(honest[1].name)), 0);
    refused(honest[0].name, HASTEN_ERR_FILE, "opening shard 2 of 3: ");
    refused(honest[0].name, HASTEN_ERR_FILE, "m-00002-of-00003.gguf");
    struct shard s = honest[0];
    s.name = "renamed.gguf";
    write_shard(&s);
    refused(s.name, HASTEN_ERR_FILE, "expected a name that ends in -00001-of-00003.gguf");
}

static void test_mismatch(void **state)
{
    (void)state;
    struct shard s = honest[2];
    write_all();
    s.no = 1;
    write_shard(&s);
    refused(honest[0].name, HASTEN_ERR_FILE, "found 1 of 3 (expected 2 of 3, as a shard of ");
    s = honest[2];
    s.count = 4;
    write_shard(&s);
    refused(honest[0].name, HASTEN_ERR_FILE, "found 2 of 4 (expected 2 of 3");
    s = honest[2];
    s.n_tensors = 9;
    write_shard(&s);
    refused(honest[0].name, HASTEN_ERR_FILE, "split.tensors.count: found 9 (expected 4, as in ");
    s = honest[2];
    s.tensors[0] = "b.weight";
    write_shard(&s);
    refused(honest[0].name, HASTEN_ERR_FILE, "tensor \"b.weight\": found it in ");
    s = honest[2];
    s.tensors[1] = "e.weight";
    write_shard(&s);
    refused(honest[0].name, HASTEN_ERR_FILE,
            "split.tensors.count: found 4 (expected 5, the tensors of its 3");
    s = honest[0];
    s.count = 5000;
    s.name = "many-00001-of-05000.gguf";
    write_shard(&s);
    refused(s.name, HASTEN_ERR_LIMIT, "found 5000 shards (expected at most 4096)");
}

/* The n-th allocation fails, for every n: HASTEN_ERR_MEMORY, and nothing is left behind. */
static void test_no_memory(void **state)
{
    (void)state;
    write_all();
    const char *path = path_of(honest[0].name);
    for (uint64_t n = 1;; n++) {
        struct gguf *g = NULL;
        struct hasten_error err = {0};
        const uint64_t before = live_bytes();
        mem_fail_at(n, 0);
        const hasten_status s = gguf_open(path, &g, &err);
        const uint64_t failed = mem_fail_count();
        mem_fail_at(0, 0);
        gguf_close(g);
        assert_int_equal(live_bytes(), before);
        if (!failed) {
            assert_int_equal(s, HASTEN_OK);
            assert_true(n > 12);
            return;
        }
        assert_int_equal(s, HASTEN_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joined), cmocka_unit_test(test_later_shard),
                                       cmocka_unit_test(test_missing), cmocka_unit_test(test_mismatch),
                                       cmocka_unit_test(test_no_memory)};
    snprintf(folder, sizeof folder, "/tmp/hasten-shards-XXXXXX");
    if (!mkdtemp(folder)) {
        fprintf(stderr, "no temporary folder\n");
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                        "m-00003-of-00003.gguf", "renamed.gguf", "many-00001-of-05000.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    rmdir(folder);
    return failed;
}
