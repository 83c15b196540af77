/* Both sides of every GGUF bound in base/limits.h, and what the largest headers cost in memory and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "cases.h"

#include <stdio.h>
#include <string.h>

#define MAX_MEMORY (256ull << 20)
#define MAX_NS 5000000000ull

/* Builds with the lies, opens from memory, and holds the opening to the bounds on memory and time. */
static hasten_status open_lied(struct gguf_writer *w, const struct gguf_lie *lies, size_t n_lies,
                               const char *piece)
{
    struct buf b = {0};
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    struct mem_stats before, after;
    assert_non_null(w);
    assert_int_equal(gguf_writer_build(w, lies, n_lies, &b), 0);
    mem_stats_get(&before);
    uint64_t start = clock_now_ns();
    hasten_status s = gguf_open_memory(b.data, b.len, "limit.gguf", &g, &err);
    uint64_t ns = clock_now_ns() - start;
    mem_stats_get(&after);
    assert_true(ns < MAX_NS);
    assert_true(b.len > MAX_MEMORY || b.len + (after.live_bytes - before.live_bytes) < MAX_MEMORY);
    if (s != HASTEN_OK) {
        assert_non_null(strstr(err.message, "limit.gguf: "));
        if (!strstr(err.message, piece))
            fail_msg("\"%s\" does not hold \"%s\"", err.message, piece);
    }
    gguf_close(g);
    buf_free(&b);
    return s;
}

static hasten_status open_writer(struct gguf_writer *w, const char *piece)
{
    hasten_status s = open_lied(w, NULL, 0, piece);
    gguf_writer_free(w);
    return s;
}

static char *letters(size_t len)
{
    char *text = mem_alloc(len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

static hasten_status with_key_of(size_t len)
{
    char *key = letters(len);
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_bool(w, key, true);
    mem_free(key);
    return open_writer(w, "key length of key 0 at byte 24: expected 1 to 65535, found 65536");
}

static void test_key_bytes(void **state)
{
    (void)state;
    assert_int_equal(with_key_of(LIMIT_GGUF_KEY_BYTES), HASTEN_OK);
    assert_int_equal(with_key_of(LIMIT_GGUF_KEY_BYTES + 1), HASTEN_ERR_LIMIT);
}

static hasten_status with_name_of(size_t len)
{
    char *name = letters(len);
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_tensor(w, "x", QUANT_F32, 1, (uint64_t[]){8}, NULL, 32);
    const struct gguf_lie lies[] = {{"tensor[0].name_length", LIE_VALUE, len, NULL, 0},
                                    {"tensor[0].name", LIE_BYTES, 0, name, len}};
    hasten_status s =
        open_lied(w, lies, 2, "name length of tensor 0 at byte 24: expected 1 to 256, found 257");
    gguf_writer_free(w);
    mem_free(name);
    return s;
}

static void test_name_bytes(void **state)
{
    (void)state;
    assert_int_equal(with_name_of(LIMIT_GGUF_NAME_BYTES), HASTEN_OK);
    assert_int_equal(with_name_of(LIMIT_GGUF_NAME_BYTES + 1), HASTEN_ERR_LIMIT);
}

static hasten_status with_string_of(size_t len)
{
    char *text = letters(len);
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_strn(w, "s", text, len);
    mem_free(text);
    return open_writer(w,
                       "string length of key 0 \"s\" at byte 37: expected at most 67108864, found 67108865");
}

static void test_string_bytes(void **state)
{
    (void)state;
    assert_int_equal(with_string_of(LIMIT_GGUF_STRING_BYTES), HASTEN_OK);
    assert_int_equal(with_string_of(LIMIT_GGUF_STRING_BYTES + 1), HASTEN_ERR_LIMIT);
}

static hasten_status with_keys(int n)
{
    char key[16];
    struct gguf_writer *w = gguf_writer_new();
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "k%d", i);
        gguf_writer_bool(w, key, true);
    }
    return open_writer(w, "number of keys at byte 16: expected at most 65536, found 65537");
}

static void test_keys(void **state)
{
    (void)state;
    assert_int_equal(with_keys(LIMIT_GGUF_KEYS), HASTEN_OK);
    assert_int_equal(with_keys(LIMIT_GGUF_KEYS + 1), HASTEN_ERR_LIMIT);
}

static hasten_status with_tensors(int n)
{
    char name[16];
    struct gguf_writer *w = gguf_writer_new();
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "t%d", i);
        gguf_writer_tensor(w, name, QUANT_F32, 1, (uint64_t[]){8}, NULL, 32);
    }
    return open_writer(w, "number of tensors at byte 8: expected at most 65536, found 65537");
}

static void test_tensors(void **state)
{
    (void)state;
    assert_int_equal(with_tensors(LIMIT_GGUF_TENSORS), HASTEN_OK);
    assert_int_equal(with_tensors(LIMIT_GGUF_TENSORS + 1), HASTEN_ERR_LIMIT);
}

static hasten_status with_array_of(size_t n)
{
    char *elems = letters(n);
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_array(w, "a", GGUF_U8, elems, n);
    mem_free(elems);
    return open_writer(w,
                       "array length of key 0 \"a\" at byte 41: expected at most 16777216, found 16777217");
}

static void test_array_elements(void **state)
{
    (void)state;
    assert_int_equal(with_array_of(LIMIT_GGUF_ARRAY), HASTEN_OK);
    assert_int_equal(with_array_of(LIMIT_GGUF_ARRAY + 1), HASTEN_ERR_LIMIT);
}

static hasten_status with_depth(int depth)
{
    static const uint8_t deeper[12] = {GGUF_ARRAY, 0, 0, 0, 1}, last[13] = {GGUF_U8, 0, 0, 0, 1};
    struct buf payload = {0};
    for (int i = 1; i < depth; i++)
        assert_int_equal(buf_put(&payload, deeper, sizeof deeper), 0);
    assert_int_equal(buf_put(&payload, last, sizeof last), 0);
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_raw(w, "a", GGUF_ARRAY, payload.data, payload.len);
    buf_free(&payload);
    return open_writer(w, "expected arrays nested at most 4 deep, found more");
}

static void test_array_depth(void **state)
{
    (void)state;
    assert_int_equal(with_depth(1), HASTEN_OK);
    assert_int_equal(with_depth(LIMIT_GGUF_ARRAY_DEPTH), HASTEN_OK);
    assert_int_equal(with_depth(LIMIT_GGUF_ARRAY_DEPTH + 1), HASTEN_ERR_LIMIT);
    assert_int_equal(with_depth(1000000), HASTEN_ERR_LIMIT); /* 12 MB of nesting: no recursion follows it */
}

static hasten_status with_dim(uint64_t ne)
{
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_tensor(w, "t", QUANT_F32, 1, (uint64_t[]){ne}, NULL, 32);
    return open_writer(w, ne > LIMIT_GGUF_DIM
                              ? "dimension 0 of tensor 0 \"t\" at byte 37: expected at most"
                              : "data of tensor 0 \"t\" at byte 64: expected 4398046511104 bytes");
}

static void test_dimensions(void **state)
{
    (void)state;
    assert_int_equal(with_dim(LIMIT_GGUF_DIM), HASTEN_ERR_FILE); /* allowed, but the data are not there */
    assert_int_equal(with_dim(LIMIT_GGUF_DIM + 1), HASTEN_ERR_LIMIT);
}

/* Two strings that fill the header exactly: 24 + 2 × (8 + 1 + 4 + 8) bytes besides them. */
static hasten_status with_header_of(size_t len)
{
    size_t first = (len - 24 - 42) / 2, second = len - 24 - 42 - first;
    char *text = letters(second);
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_strn(w, "a", text, first);
    gguf_writer_strn(w, "b", text, second);
    mem_free(text);
    return open_writer(w,
                       "expected a header of at most 83886080 bytes, found one that reaches byte 83886081");
}

static void test_header_bytes(void **state)
{
    (void)state;
    assert_int_equal(with_header_of(LIMIT_GGUF_HEADER_BYTES), HASTEN_OK);
    assert_int_equal(with_header_of(LIMIT_GGUF_HEADER_BYTES + 1), HASTEN_ERR_LIMIT);
}

/* The reader's hash (FNV-1a, multiply, fold), to make names that collide. */
static uint64_t hash_of(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static hasten_status with_collisions(int n)
{
    char key[16];
    struct gguf_writer *w = gguf_writer_new();
    for (int i = 0, made = 0; made < n; i++) {
        snprintf(key, sizeof key, "k%d", i);
        if (hash_of(key) % 4096 == 0) { /* the table of 1,025 to 2,048 names has 4,096 slots */
            gguf_writer_bool(w, key, true);
            made++;
        }
    }
    return open_writer(w, "expected names that differ in their hashes, found more than 1024 that collide");
}

static void test_collisions(void **state)
{
    (void)state;
    assert_int_equal(with_collisions(LIMIT_GGUF_PROBES + 1), HASTEN_OK);
    assert_int_equal(with_collisions(LIMIT_GGUF_PROBES + 2), HASTEN_ERR_LIMIT);
}

/* The most strings a header can hold: 80 MiB of empty ones, whose index is half as large. */
static void test_most_strings(void **state)
{
    (void)state;
    const uint64_t n = (LIMIT_GGUF_HEADER_BYTES - 64) / 8;
    struct buf payload = {0};
    uint8_t head[12] = {GGUF_STRING};
    for (int i = 0; i < 8; i++)
        head[4 + i] = (uint8_t)(n >> (8 * i));
    char *zeros = mem_calloc(n, 8);
    assert_non_null(zeros);
    assert_int_equal(buf_put(&payload, head, sizeof head), 0);
    assert_int_equal(buf_put(&payload, zeros, n * 8), 0);
    mem_free(zeros);
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_raw(w, "s", GGUF_ARRAY, payload.data, payload.len);
    buf_free(&payload);
    assert_int_equal(open_writer(w, ""), HASTEN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_bytes),    cmocka_unit_test(test_name_bytes),
        cmocka_unit_test(test_string_bytes), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_tensors),      cmocka_unit_test(test_array_elements),
        cmocka_unit_test(test_array_depth),  cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_header_bytes), cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_most_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
