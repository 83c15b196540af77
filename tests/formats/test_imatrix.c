/* Importance matrices: what is read, and what is refused by name. */
#include "base/mem.h"
#include "formats/imatrix.h"
#include "gguf_writer.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char path[64];

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/hasten-imatrix-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_fail_at(0, 0);
    return remove(path);
}

static void add(struct gguf_writer *w, const char *name, uint32_t type, uint64_t k, uint64_t rows,
                const float *data)
{
    const uint64_t ne[2] = {k, rows};
    gguf_writer_tensor(w, name, type, 2, ne, data, (size_t)(k * rows) * (type == QUANT_F32 ? 4 : 2));
}

static const float sums_a[4] = {4, 8, 0, 12}, count_a[1] = {4};
static const float sums_b[6] = {1, 2, 3, 0, 1e-45f, FLT_MAX}, counts_b[2] = {0, 0.5f};

/* A good file: two entries, the second of two stacked matrices; and tensors that mean nothing here. */
static struct gguf_writer *good(void)
{
    const struct gguf_str set = {"text.txt", 8};
    struct gguf_writer *w = gguf_writer_new();
    assert_non_null(w);
    gguf_writer_str(w, "general.type", "imatrix");
    gguf_writer_strs(w, "imatrix.datasets", &set, 1);
    gguf_writer_u32(w, "imatrix.chunk_count", 7);
    gguf_writer_u32(w, "imatrix.chunk_size", 512);
    add(w, "blk.0.a.weight.in_sum2", QUANT_F32, 4, 1, sums_a);
    add(w, "blk.0.a.weight.counts", QUANT_F32, 1, 1, count_a);
    add(w, "blk.0.a.weight.in_sum", QUANT_F32, 4, 1, sums_a);
    add(w, "blk.0.b.weight.counts", QUANT_F32, 1, 2, counts_b);
    add(w, "blk.0.b.weight.in_sum2", QUANT_F32, 3, 2, sums_b);
    return w;
}

static hasten_status try_open(struct gguf_writer *w, struct imatrix **m, struct hasten_error *err)
{
    assert_int_equal(gguf_writer_save(w, NULL, 0, path), 0);
    gguf_writer_free(w);
    return imatrix_open(path, m, err);
}

static void test_reading(void **state)
{
    struct hasten_error err;
    struct imatrix *m;
    float h[6];
    (void)state;
    if (try_open(good(), &m, &err) != HASTEN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(imatrix_n_entries(m), 2);
    assert_int_equal(imatrix_chunk_count(m), 7);
    assert_string_equal(imatrix_dataset(m), "text.txt");
    const int64_t a = imatrix_find(m, "blk.0.a.weight"), b = imatrix_find(m, "blk.0.b.weight");
    assert_string_equal(imatrix_entry_name(m, a), "blk.0.a.weight");
    assert_string_equal(imatrix_entry_name(m, b), "blk.0.b.weight");
    assert_int_equal(imatrix_get(m, a, 4, 1, h, &err), HASTEN_OK);
    assert_true(h[0] == 1 && h[1] == 2 && h[2] == 0 && h[3] == 3);
    assert_int_equal(imatrix_get(m, b, 3, 2, h, &err), HASTEN_OK);
    assert_true(h[0] == 0 && h[1] == 0 && h[2] == 0); /* a matrix that saw nothing */
    assert_true(h[3] == 0 && h[4] == 2 * 1e-45f && h[5] == FLT_MAX);
    assert_int_equal(imatrix_find(m, "blk.0.a"), -1);
    assert_int_equal(imatrix_find(m, "blk.0.a.weight.in_sum2"), -1);
    assert_int_equal(imatrix_find(m, ""), -1);
    char longest[2000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(imatrix_find(m, longest), -1);
    assert_int_equal(imatrix_get(m, a, 5, 1, h, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "blk.0.a.weight"));
    assert_non_null(strstr(err.message, "(expected 1 of 5)"));
    assert_int_equal(imatrix_get(m, b, 3, 1, h, &err), HASTEN_ERR_FILE);
    imatrix_close(m);
    imatrix_close(NULL);
}

static void refuse(struct gguf_writer *w, hasten_status status, const char *word)
{
    struct hasten_error err;
    struct imatrix *m = NULL;
    assert_int_equal(try_open(w, &m, &err), status);
    assert_null(m);
    if (!strstr(err.message, word) || !strstr(err.message, path))
        fail_msg("the message \"%s\" does not say \"%s\" and the file", err.message, word);
}

static struct gguf_writer *with_type(const char *type)
{
    struct gguf_writer *w = gguf_writer_new();
    if (type)
        gguf_writer_str(w, "general.type", type);
    return w;
}

static void test_refusals(void **state)
{
    struct gguf_writer *w;
    (void)state;
    refuse(with_type("model"), HASTEN_ERR_FILE, "found 'model'");
    refuse(with_type(NULL), HASTEN_ERR_FILE, "found ''");
    refuse(with_type("imatrix"), HASTEN_ERR_FILE, "no tensor NAME.in_sum2");
    w = gguf_writer_new();
    gguf_writer_u32(w, "general.type", 1);
    refuse(w, HASTEN_ERR_FILE, "general.type");
    w = with_type("imatrix");
    add(w, ".in_sum2", QUANT_F32, 4, 1, sums_a); /* of no matrix */
    refuse(w, HASTEN_ERR_FILE, "no tensor NAME.in_sum2");
    w = with_type("imatrix");
    add(w, "x.in_sum2", QUANT_F32, 4, 1, sums_a);
    refuse(w, HASTEN_ERR_FILE, "'x.counts' is missing");
    w = with_type("imatrix");
    add(w, "x.in_sum2", QUANT_F16, 4, 1, sums_a);
    add(w, "x.counts", QUANT_F32, 1, 1, count_a);
    refuse(w, HASTEN_ERR_FILE, "F16");
    w = with_type("imatrix");
    add(w, "x.in_sum2", QUANT_F32, 4, 1, sums_a);
    add(w, "x.counts", QUANT_F16, 1, 1, count_a);
    refuse(w, HASTEN_ERR_FILE, "F16");
    w = with_type("imatrix");
    add(w, "x.in_sum2", QUANT_F32, 3, 2, sums_b);
    add(w, "x.counts", QUANT_F32, 1, 1, count_a);
    refuse(w, HASTEN_ERR_FILE, "2 rows of sums and 1 counts");
    w = with_type("imatrix");
    gguf_writer_str(w, "imatrix.chunk_count", "many");
    add(w, "x.in_sum2", QUANT_F32, 4, 1, sums_a);
    add(w, "x.counts", QUANT_F32, 1, 1, count_a);
    refuse(w, HASTEN_ERR_FILE, "imatrix.chunk_count");
    w = with_type("imatrix");
    gguf_writer_u32(w, "imatrix.datasets", 1);
    add(w, "x.in_sum2", QUANT_F32, 4, 1, sums_a);
    add(w, "x.counts", QUANT_F32, 1, 1, count_a);
    refuse(w, HASTEN_ERR_FILE, "imatrix.datasets");
}

/* A sum or a count that no measurement gives is named with its place; the extremes that one may give are read. */
static void test_values(void **state)
{
    const float bad[] = {NAN, INFINITY, -INFINITY, -1, -1e-45f},
                fine[] = {0, -0.0f, 1e-45f, FLT_MIN, FLT_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const float sums[4] = {1, 2, bad[i], 3}, one[1] = {1}, count[1] = {bad[i]};
        struct gguf_writer *w = with_type("imatrix");
        add(w, "x.in_sum2", QUANT_F32, 4, 1, sums);
        add(w, "x.counts", QUANT_F32, 1, 1, one);
        refuse(w, HASTEN_ERR_FILE, "tensor 'x.in_sum2': value 2 is ");
        w = with_type("imatrix");
        add(w, "x.in_sum2", QUANT_F32, 4, 1, sums_a);
        add(w, "x.counts", QUANT_F32, 1, 1, count);
        refuse(w, HASTEN_ERR_FILE, "tensor 'x.counts': value 0 is ");
    }
    for (size_t i = 0; i < 25; i++) {
        const float sums[4] = {1, 2, fine[i / 5], FLT_MAX}, count[1] = {fine[i % 5]};
        struct gguf_writer *w = with_type("imatrix");
        struct hasten_error err;
        struct imatrix *m;
        float h[4];
        add(w, "x.in_sum2", QUANT_F32, 4, 1, sums);
        add(w, "x.counts", QUANT_F32, 1, 1, count);
        if (try_open(w, &m, &err) != HASTEN_OK)
            fail_msg("%s", err.message);
        assert_int_equal(imatrix_get(m, 0, 4, 1, h, &err), HASTEN_OK);
        for (int j = 0; j < 4; j++)
            assert_true(isfinite(h[j]) && h[j] >= 0);
        imatrix_close(m);
    }
}

/* Every byte of a good file flipped, every length cut: read or refused, never worse; what is read can be used. */
static void test_damage(void **state)
{
    struct gguf_writer *w = good();
    struct buf whole = {0};
    struct hasten_error err;
    float h[64];
    int n_refused = 0;
    (void)state;
    assert_int_equal(gguf_writer_build(w, NULL, 0, &whole), 0);
    gguf_writer_free(w);
    for (size_t i = 0; i < 2 * whole.len; i++) {
        const size_t len = i < whole.len ? whole.len : i - whole.len;
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        if (i < whole.len)
            whole.data[i] = (char)(whole.data[i] ^ 0x41);
        fwrite(whole.data, 1, len, f);
        fclose(f);
        if (i < whole.len)
            whole.data[i] = (char)(whole.data[i] ^ 0x41);
        struct imatrix *m = NULL;
        const hasten_status st = imatrix_open(path, &m, &err);
        n_refused += st != HASTEN_OK;
        for (int64_t k = 0; st == HASTEN_OK && k < imatrix_n_entries(m); k++)
            for (int64_t n = 1; n < 8; n++)
                imatrix_get(m, imatrix_find(m, imatrix_entry_name(m, k)), n, n % 3, h, &err);
        imatrix_close(m);
    }
    assert_true(n_refused > (int)whole.len);
    buf_free(&whole);
}

static void test_allocations_fail(void **state)
{
    struct mem_stats before, after;
    struct hasten_error err;
    struct imatrix *m;
    (void)state;
    struct gguf_writer *w = good();
    assert_int_equal(gguf_writer_save(w, NULL, 0, path), 0);
    gguf_writer_free(w);
    mem_stats_get(&before);
    for (uint64_t n = 1;; n++) {
        mem_fail_at(n, 0);
        const hasten_status st = imatrix_open(path, &m, &err);
        const uint64_t failed = mem_fail_count();
        mem_fail_at(0, 0);
        imatrix_close(m);
        mem_stats_get(&after);
        assert_int_equal(after.live_bytes, before.live_bytes);
        if (!failed) {
            assert_int_equal(st, HASTEN_OK);
            break;
        }
        assert_int_equal(st, HASTEN_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_allocations_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
