/* The GGUF reader on valid files, on every kind of access, under faults, and on damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "cases.h"
#include "tiny_model.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gguf *open_bytes(const struct buf *b)
{
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    if (gguf_open_memory(b->data, b->len, "test.gguf", &g, &err) != HASTEN_OK)
        fail_msg("%s", err.message);
    return g;
}

static struct gguf *open_writer(struct gguf_writer *w, struct buf *b)
{
    assert_non_null(w);
    assert_int_equal(gguf_writer_build(w, NULL, 0, b), 0);
    gguf_writer_free(w);
    return open_bytes(b);
}

static uint64_t live_bytes(void)
{
    struct mem_stats stats;
    mem_stats_get(&stats);
    return stats.live_bytes;
}

static int open_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Touches everything a file offers; under the sanitizers any read outside the file is seen. */
static uint64_t read_all(const struct gguf *g)
{
    char text[200];
    uint64_t sum = 0;
    for (int64_t i = 0; i < gguf_n_keys(g); i++) {
        const char *key = gguf_key(g, i);
        enum gguf_value_type elem;
        int64_t n = 0;
        struct gguf_str s = {0};
        bool flag;
        uint32_t u;
        float f;
        assert_int_equal(gguf_find(g, key), i);
        gguf_value_text(g, i, text, sizeof text);
        sum += strlen(text) + (uint64_t)gguf_key_type(g, i);
        sum += (uint64_t)gguf_get_u32(g, key, &u, NULL) + (uint64_t)gguf_get_f32(g, key, &f, NULL);
        sum += (uint64_t)gguf_get_bool(g, key, &flag, NULL) + (uint64_t)gguf_get_str(g, key, &s, NULL);
        for (size_t j = 0; j < s.len; j++)
            sum += (uint8_t)s.data[j];
        if (gguf_array_info(g, key, &elem, &n, NULL) != HASTEN_OK || n > 100000)
            continue;
        for (int64_t j = 0; j < n && gguf_array_str(g, key, j, &s, NULL) == HASTEN_OK; j++)
            sum += s.len;
        float *numbers = mem_array((size_t)n + 1, sizeof *numbers);
        assert_non_null(numbers);
        sum += (uint64_t)gguf_array_f32(g, key, numbers, n, NULL);
        sum += (uint64_t)gguf_array_i32(g, key, (int32_t *)(void *)numbers, n, NULL);
        mem_free(numbers);
    }
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        assert_ptr_equal(gguf_tensor_find(g, t->name), t);
        for (uint64_t j = 0; j < t->size_bytes; j++)
            sum += t->data[j];
    }
    return sum;
}

static void test_base_file(void **state)
{
    (void)state;
    struct buf b = {0};
    struct gguf *g = open_writer(case_base(), &b);
    assert_string_equal(gguf_path(g), "test.gguf");
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_file_bytes(g), b.len);
    assert_int_equal(gguf_n_keys(g), 10);
    assert_string_equal(gguf_key(g, 5), "t.strings");
    assert_int_equal(gguf_key_type(g, 5), GGUF_ARRAY);
    assert_int_equal(gguf_find(g, "t.u32"), 9);
    assert_int_equal(gguf_find(g, "t.u3"), -1);
    assert_int_equal(gguf_n_tensors(g), 4);
    const struct gguf_tensor *t = gguf_tensor_find(g, "a.weight");
    assert_non_null(t);
    assert_int_equal(t->type->id, QUANT_F32);
    assert_int_equal(t->n_dims, 2);
    assert_true(t->ne[0] == 8 && t->ne[1] == 2 && t->ne[2] == 1 && t->ne[3] == 1);
    assert_int_equal(t->row_bytes, 32);
    assert_int_equal(t->size_bytes, 64);
    assert_int_equal(t->offset % 32, 0);
    assert_ptr_equal(t->data, (const uint8_t *)b.data + t->offset);
    float row[8];
    t->type->decode(t->data + t->row_bytes, 8, row);
    assert_true(row[0] == -1 && row[7] == 1e30f);
    t = gguf_tensor_find(g, "d.weight");
    assert_true(t && t->n_dims == 1 && t->size_bytes == 144 && t->row_bytes == 144);
    assert_null(gguf_tensor_find(g, "e.weight"));
    gguf_close(g);
    buf_free(&b);
}

/* ---- typed access ---- */

static struct gguf_writer *numbers_writer(void)
{
    static const int64_t i64s[] = {1, -2, 3000000000};
    static const float f32s[] = {1.5f, -2.25f};
    static const double f64s[] = {0.1, 1e300};
    static const int16_t i16s[] = {-1, 2, 3, 4, 5, 6, 7};
    struct gguf_writer *w = gguf_writer_new();
    assert_non_null(w);
    gguf_writer_number(w, "u8", GGUF_U8, 200);
    gguf_writer_number(w, "i8", GGUF_I8, 100);
    gguf_writer_number(w, "u16", GGUF_U16, 60000);
    gguf_writer_number(w, "i16", GGUF_I16, 30000);
    gguf_writer_number(w, "u32", GGUF_U32, 4294967295u);
    gguf_writer_number(w, "i32", GGUF_I32, 2147483647);
    gguf_writer_number(w, "u64", GGUF_U64, 4294967295u);
    gguf_writer_number(w, "i64", GGUF_I64, 4294967295u);
    gguf_writer_number(w, "negative", GGUF_I8, (uint64_t)-1);
    gguf_writer_number(w, "min64", GGUF_I64, 1ull << 63);
    gguf_writer_number(w, "large", GGUF_U64, 1ull << 32);
    gguf_writer_number(w, "f64", GGUF_F64, 0x3ff8000000000000u); /* 1.5 */
    gguf_writer_number(w, "f64-large", GGUF_F64, 0x7fe0000000000000u);
    gguf_writer_number(w, "f64-inf", GGUF_F64, 0x7ff0000000000000u);
    gguf_writer_f32(w, "f32", 0.1f);
    gguf_writer_bool(w, "yes", true);
    gguf_writer_bool(w, "no", false);
    gguf_writer_strn(w, "str", "a\0\"\\\n\t\xff\xc3\xa9", 9);
    gguf_writer_array(w, "i64s", GGUF_I64, i64s, 3);
    gguf_writer_array(w, "f32s", GGUF_F32, f32s, 2);
    gguf_writer_array(w, "f64s", GGUF_F64, f64s, 2);
    gguf_writer_array(w, "i16s", GGUF_I16, i16s, 7);
    gguf_writer_array(w, "none", GGUF_U32, "", 0);
    gguf_writer_strs(w, "no-strings", NULL, 0);
    return w;
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
    } good[] = {{"u8", 200},          {"i8", 100},         {"u16", 60000},       {"i16", 30000},
                {"u32", 4294967295u}, {"i32", 2147483647}, {"u64", 4294967295u}, {"i64", 4294967295u}};
    static const char *const bad[] = {"negative", "min64", "large", "f32",   "f64",
                                      "yes",      "str",   "i64s",  "absent"};
    struct buf b = {0};
    struct gguf *g = open_writer(numbers_writer(), &b);
    struct hasten_error err;
    uint32_t u = 0;
    float f = 0;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(gguf_get_u32(g, good[i].key, &u, NULL), HASTEN_OK);
        assert_int_equal(u, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        u = 77;
        memset(&err, 0, sizeof err);
        assert_int_equal(gguf_get_u32(g, bad[i], &u, &err), HASTEN_ERR_FILE);
        assert_int_equal(u, 77);
        assert_true(strstr(err.message, bad[i]) && strstr(err.message, "expected") &&
                    strstr(err.message, "found"));
    }
    assert_int_equal(gguf_get_u32(g, "min64", &u, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "found -9223372036854775808"));
    assert_int_equal(gguf_get_f32(g, "f32", &f, NULL), HASTEN_OK);
    assert_true(f == 0.1f);
    assert_int_equal(gguf_get_f32(g, "f64", &f, NULL), HASTEN_OK);
    assert_true(f == 1.5f);
    assert_int_equal(gguf_get_f32(g, "f64-inf", &f, NULL), HASTEN_OK);
    assert_true(isinf(f));
    assert_int_equal(gguf_get_f32(g, "f64-large", &f, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_get_f32(g, "u32", &f, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_get_f32(g, "absent", &f, &err), HASTEN_ERR_FILE);
    f = 3;
    u = 4;
    assert_int_equal(gguf_opt_f32(g, "absent", &f, NULL), HASTEN_OK);
    assert_int_equal(gguf_opt_u32(g, "absent", &u, NULL), HASTEN_OK);
    assert_true(f == 3 && u == 4);
    assert_int_equal(gguf_opt_u32(g, "f32", &u, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_opt_f32(g, "f32", &f, NULL), HASTEN_OK);
    assert_true(f == 0.1f);
    gguf_close(g);
    buf_free(&b);
}

static void test_bools_and_strings(void **state)
{
    (void)state;
    struct buf b = {0};
    struct gguf *g = open_writer(numbers_writer(), &b);
    struct hasten_error err = {0};
    struct gguf_str s = {"x", 1};
    bool flag = false;
    assert_int_equal(gguf_get_bool(g, "yes", &flag, NULL), HASTEN_OK);
    assert_true(flag);
    assert_int_equal(gguf_opt_bool(g, "no", &flag, NULL), HASTEN_OK);
    assert_false(flag);
    assert_int_equal(gguf_opt_bool(g, "absent", &flag, NULL), HASTEN_OK);
    assert_int_equal(gguf_get_bool(g, "absent", &flag, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_get_bool(g, "u8", &flag, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "expected type bool, found type u8"));
    assert_int_equal(gguf_opt_str(g, "absent", &s, NULL), HASTEN_OK);
    assert_int_equal(s.len, 1);
    assert_int_equal(gguf_get_str(g, "absent", &s, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_get_str(g, "u8", &s, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_get_str(g, "str", &s, NULL), HASTEN_OK);
    assert_int_equal(s.len, 9);
    assert_memory_equal(s.data, "a\0\"\\\n\t\xff\xc3\xa9", 9);
    gguf_close(g);
    buf_free(&b);
}

static void test_arrays(void **state)
{
    (void)state;
    struct buf b = {0}, b2 = {0};
    struct gguf *g = open_writer(numbers_writer(), &b), *base = open_writer(case_base(), &b2);
    struct hasten_error err = {0};
    enum gguf_value_type elem = GGUF_F64;
    struct gguf_str s;
    int64_t n = 9;
    float f[7];
    int32_t v[7];
    assert_int_equal(gguf_array_info(g, "absent", &elem, &n, NULL), HASTEN_OK);
    assert_int_equal(n, 0);
    assert_int_equal(gguf_array_info(g, "i16s", &elem, &n, NULL), HASTEN_OK);
    assert_true(n == 7 && elem == GGUF_I16);
    assert_int_equal(gguf_array_info(g, "u8", &elem, &n, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_i32(g, "i16s", v, 7, NULL), HASTEN_OK);
    assert_true(v[0] == -1 && v[6] == 7);
    assert_int_equal(gguf_array_f32(g, "i16s", f, 7, NULL), HASTEN_OK);
    assert_true(f[0] == -1 && f[6] == 7);
    assert_int_equal(gguf_array_i32(g, "i16s", v, 6, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "expected 6 elements, found 7"));
    assert_int_equal(gguf_array_f32(g, "f32s", f, 2, NULL), HASTEN_OK);
    assert_true(f[0] == 1.5f && f[1] == -2.25f);
    assert_int_equal(gguf_array_i32(g, "f32s", v, 2, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_f32(g, "f64s", f, 2, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "range of f32"));
    assert_int_equal(gguf_array_f32(g, "i64s", f, 3, NULL), HASTEN_OK);
    assert_true(f[2] == 3e9f);
    assert_int_equal(gguf_array_i32(g, "i64s", v, 3, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "range of i32, found 3000000000"));
    assert_int_equal(gguf_array_i32(g, "absent", v, 0, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_i32(g, "u8", v, 0, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_i32(g, "none", v, 0, NULL), HASTEN_OK);
    assert_int_equal(gguf_array_i32(g, "none", v, -1, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_str(base, "t.strings", 1, &s, NULL), HASTEN_OK);
    assert_true(s.len == 3 && memcmp(s.data,
                                     "b\xff"
                                     "c",
                                     3) == 0);
    assert_int_equal(gguf_array_str(base, "t.strings", 3, &s, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_str(base, "t.strings", -1, &s, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_str(base, "t.u16s", 0, &s, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "found an array of type u16"));
    assert_int_equal(gguf_array_str(base, "absent", 0, &s, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_str(g, "no-strings", 0, &s, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_f32(base, "t.strings", f, 3, &err), HASTEN_ERR_FILE);
    assert_int_equal(gguf_array_f32(base, "t.bools", f, 3, &err), HASTEN_ERR_FILE);
    gguf_close(g);
    gguf_close(base);
    buf_free(&b);
    buf_free(&b2);
}

static void expect_text(const struct gguf *g, const char *key, const char *want)
{
    char text[256];
    gguf_value_text(g, gguf_find(g, key), text, sizeof text);
    assert_string_equal(text, want);
}

static void test_text(void **state)
{
    (void)state;
    struct buf b = {0}, b2 = {0};
    struct gguf *g = open_writer(numbers_writer(), &b), *base = open_writer(case_base(), &b2);
    char text[64];
    expect_text(g, "u8", "200");
    expect_text(g, "min64", "-9223372036854775808");
    expect_text(g, "f32", "0.1");
    expect_text(g, "f64", "1.5");
    expect_text(g, "f64-inf", "inf");
    expect_text(g, "yes", "true");
    expect_text(g, "no", "false");
    expect_text(g, "str", "\"a\\u0000\\\"\\\\\\n\\u0009\xef\xbf\xbd\xc3\xa9\"");
    expect_text(g, "i16s", "[-1, 2, 3, 4, 5, 6, ... 7 in all]");
    expect_text(g, "f64s", "[0.1, 1e+300]");
    expect_text(g, "none", "[]");
    expect_text(base, "t.strings",
                "[\"a\", \"b\xef\xbf\xbd"
                "c\", \"\"]");
    expect_text(base, "t.bools", "[false, true, true]");
    expect_text(base, "t.nested", "[... 2 in all]");
    /* Any size of the buffer: cut between characters, with "..." where there is room for it. */
    for (size_t size = 0; size <= 40; size++) {
        memset(text, '#', sizeof text);
        gguf_value_text(g, gguf_find(g, "str"), text, size);
        if (size > 0)
            assert_true(strlen(text) < size);
        assert_int_equal(text[size], '#');
    }
    gguf_value_text(g, gguf_find(g, "i16s"), text, 12);
    assert_string_equal(text, "[-1, 2, ...");
    gguf_close(g);
    gguf_close(base);
    buf_free(&b);
    buf_free(&b2);
}

/* ---- other valid files ---- */

static void test_unusual_but_valid(void **state)
{
    (void)state;
    struct buf b = {0};
    struct gguf_writer *w = gguf_writer_new();
    struct gguf *g = open_writer(w, &b); /* no keys, no tensors */
    assert_int_equal(gguf_n_keys(g), 0);
    assert_int_equal(gguf_n_tensors(g), 0);
    assert_int_equal(gguf_find(g, ""), -1);
    assert_null(gguf_tensor_find(g, "x"));
    gguf_close(g);

    static const uint32_t unknown[] = {9, 15, 24, 25, 26, 27, 28, 41};
    w = gguf_writer_new();
    gguf_writer_alignment(w, 65536);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const struct quant_type *t = quant_type_get(unknown[i]);
        char name[32];
        snprintf(name, sizeof name, "t%zu", i);
        gguf_writer_tensor(w, name, t->id, 4, (uint64_t[]){256, 1, 2, 1}, NULL,
                           (size_t)(512 / t->block * t->block_bytes));
    }
    g = open_writer(w, &b);
    assert_int_equal(gguf_n_tensors(g), sizeof unknown / sizeof unknown[0]);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        assert_null(gguf_tensor_at(g, i)->type->decode);
        assert_int_equal(gguf_tensor_at(g, i)->offset % 65536, 0);
    }
    gguf_close(g);
    buf_free(&b);
}

static void test_offsets_in_any_order(void **state)
{
    (void)state;
    struct buf b = {0};
    struct gguf_writer *w = gguf_writer_new();
    char name[16];
    struct gguf_lie lies[40];
    char fields[40][32];
    for (uint32_t i = 0; i < 40; i++) { /* 40 tensors of 32 bytes, placed by a permutation of 0..39 */
        snprintf(name, sizeof name, "t%u", i);
        gguf_writer_tensor(w, name, QUANT_F32, 1, (uint64_t[]){8}, NULL, 32);
        snprintf(fields[i], sizeof fields[i], "tensor[%u].offset", i);
        lies[i] = (struct gguf_lie){fields[i], LIE_VALUE, 32 * (uint64_t)(i * 17 % 40), NULL, 0};
    }
    assert_int_equal(gguf_writer_build(w, lies, 40, &b), 0);
    struct gguf *g = open_bytes(&b);
    gguf_close(g);
    lies[7].value = lies[30].value; /* now two of them share a place */
    assert_int_equal(gguf_writer_build(w, lies, 40, &b), 0);
    struct hasten_error err = {0};
    assert_int_equal(gguf_open_memory(b.data, b.len, "x", &g, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "overlap"));
    gguf_writer_free(w);
    buf_free(&b);
}

static void test_tiny_models(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "gemma3"};
    for (size_t i = 0; i < 3; i++)
        for (int wide = 0; wide < 2; wide++) {
            struct tiny_options o;
            struct buf b = {0}, again = {0};
            assert_int_equal(tiny_options_default(families[i], 11 + i, &o), 0);
            if (wide)
                tiny_options_widen(&o);
            assert_int_equal(tiny_model_build(&o, &b), 0);
            assert_int_equal(tiny_model_build(&o, &again), 0);
            assert_int_equal(b.len, again.len);
            assert_memory_equal(b.data, again.data, b.len);
            struct gguf *g = open_bytes(&b);
            assert_true(read_all(g) > 0);
            for (int64_t t = 0; t < gguf_n_tensors(g); t++) {
                const struct gguf_tensor *tensor = gguf_tensor_at(g, t);
                float row[256];
                tensor->type->decode(tensor->data, tensor->ne[0] < 256 ? tensor->ne[0] : 256, row);
                for (int64_t j = 0; j < (tensor->ne[0] < 256 ? tensor->ne[0] : 256); j++)
                    assert_true(isfinite(row[j]) && fabsf(row[j]) < 10);
            }
            gguf_close(g);
            buf_free(&b);
            buf_free(&again);
        }
}

/* The real files open, their tensors fill the file, and every token can be reached. */
static void test_real_files(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int64_t n_tensors, n_tokens;
    } files[] = {{"smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 272, 49152},
                 {"gemma3-270m/gemma-3-270m-q4_k_m.gguf", 236, 262144},
                 {"qwen-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 291, 151936}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[1024];
        struct gguf *g = NULL;
        struct hasten_error err = {0};
        enum gguf_value_type elem;
        struct gguf_str s;
        int64_t n;
        const char *folder = getenv("HASTEN_MODELS_DIR");
        if (!folder)
            fail_msg("this test needs HASTEN_MODELS_DIR, the folder of the models (ctest sets it)");
        snprintf(path, sizeof path, "%s/%s", folder, files[i].file);
        if (gguf_open(path, &g, &err) != HASTEN_OK)
            fail_msg("this test needs the models of scripts/models: %s", err.message);
        assert_int_equal(gguf_n_tensors(g), files[i].n_tensors);
        assert_int_equal(gguf_array_info(g, "tokenizer.ggml.tokens", &elem, &n, NULL), HASTEN_OK);
        assert_int_equal(n, files[i].n_tokens);
        for (int64_t j = 0; j < n; j++)
            assert_int_equal(gguf_array_str(g, "tokenizer.ggml.tokens", j, &s, NULL), HASTEN_OK);
        const struct gguf_tensor *last = gguf_tensor_at(g, files[i].n_tensors - 1);
        assert_true(last->offset + last->size_bytes <= gguf_file_bytes(g));
        gguf_close(g);
    }
}

/* ---- faults ---- */

static const char *temporary_file(const char *name)
{
    static char path[300];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/hasten-%s-%d.gguf", folder ? folder : "/tmp", name, (int)getpid());
    return path;
}

static void test_every_allocation_fails(void **state)
{
    (void)state;
    struct tiny_options o;
    const char *path = temporary_file("alloc");
    assert_int_equal(tiny_options_default("llama", 3, &o), 0);
    assert_int_equal(tiny_model_save(&o, path), 0);
    uint64_t live = live_bytes();
    int fds = open_fds();
    for (uint64_t every = 0; every <= 1; every++) {
        int failures = 0;
        for (uint64_t n = 1;; n++) {
            struct gguf *g = (struct gguf *)&fds;
            struct hasten_error err = {0};
            mem_fail_at(n, every);
            hasten_status s = gguf_open(path, &g, &err);
            uint64_t injected = mem_fail_count();
            mem_fail_at(0, 0);
            if (s == HASTEN_OK) {
                assert_int_equal(injected, 0);
                gguf_close(g);
                break;
            }
            failures++;
            assert_int_equal(s, HASTEN_ERR_MEMORY);
            assert_int_equal(err.status, HASTEN_ERR_MEMORY);
            assert_true(err.message[0] != 0);
            assert_null(g);
            assert_int_equal(live_bytes(), live);
        }
        assert_true(failures >= 10);
        assert_int_equal(live_bytes(), live);
        assert_int_equal(open_fds(), fds);
    }
    unlink(path);
}

static void test_every_file_operation_fails(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOMEM, EACCES, 0};
    struct tiny_options o;
    const char *path = temporary_file("file");
    assert_int_equal(tiny_options_default("qwen2", 3, &o), 0);
    assert_int_equal(tiny_model_save(&o, path), 0);
    uint64_t live = live_bytes();
    int fds = open_fds();
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        for (uint64_t n = 1;; n++) {
            struct gguf *g = (struct gguf *)&fds;
            struct hasten_error err = {0};
            uint64_t before = file_op_count();
            file_fail_at(n, 0, errors[i]);
            hasten_status s = gguf_open(path, &g, &err);
            file_fail_at(0, 0, 0);
            bool reached = file_op_count() - before >= n;
            if (s == HASTEN_OK) { /* a short read (errno 0) may leave open and map unharmed */
                gguf_close(g);
                assert_true(!reached || errors[i] == 0);
                if (!reached)
                    break;
                continue;
            }
            assert_true(reached && err.message[0] != 0);
            assert_non_null(strstr(err.message, path));
            assert_null(g);
            assert_int_equal(live_bytes(), live);
            assert_int_equal(open_fds(), fds);
        }
    }
    struct gguf *g;
    struct hasten_error err = {0};
    assert_int_equal(gguf_open("/nonexistent/model.gguf", &g, &err), HASTEN_ERR_FILE);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(gguf_open(path, &g, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "found an empty file"));
    unlink(path);
}

/* A long path is shown by its end; bytes from the file are escaped and shortened. */
static void test_messages(void **state)
{
    (void)state;
    char name[2000];
    struct gguf *g;
    struct hasten_error err = {0};
    memset(name, 'p', sizeof name - 1);
    memcpy(name + sizeof name - 10, "tail.gguf", 10);
    assert_int_equal(gguf_open_memory("GGUX", 4, name, &g, &err), HASTEN_ERR_FILE);
    assert_true(strlen(err.message) < 500);
    assert_non_null(strstr(err.message, "pptail.gguf: magic at byte 0"));

    memset(name, 'q', sizeof name); /* the longest path that is shown whole has 255 bytes */
    for (size_t len = 255; len <= 256; len++) {
        name[len] = '\0';
        assert_int_equal(gguf_open_memory("GGUX", 4, name, &g, &err), HASTEN_ERR_FILE);
        assert_int_equal(strncmp(err.message, "qqq", 3) == 0, len == 255);
        assert_non_null(strstr(err.message, "qqq: magic at byte 0"));
        name[len] = 'q';
    }

    char key[500];
    memset(key, 'k', sizeof key - 1);
    memcpy(key, "\"\\\n\x1b\xc3\xa9", 6);
    key[sizeof key - 1] = '\0';
    struct buf b = {0};
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_bool(w, key, true);
    struct gguf_lie lie = {"key[0].value", LIE_VALUE, 2, NULL, 0};
    assert_int_equal(gguf_writer_build(w, &lie, 1, &b), 0);
    assert_int_equal(gguf_open_memory(b.data, b.len, "m.gguf", &g, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "key 0 \"\\x22\\x5c\\x0a\\x1b\\xc3\\xa9kkkk"));
    assert_non_null(strstr(err.message, "kkk...\" at byte"));
    assert_true(strlen(err.message) < 300);
    gguf_writer_free(w);
    buf_free(&b);
}

/* ---- damage ---- */

/* Opens a copy of exactly this size, so that the sanitizers see one byte too many; reads all of it. */
static bool survives(const void *bytes, size_t len)
{
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    hasten_status s = gguf_open_memory(copy, len, "damaged.gguf", &g, &err);
    if (s == HASTEN_OK) {
        read_all(g);
    } else {
        assert_null(g);
        assert_true(s == HASTEN_ERR_FILE || s == HASTEN_ERR_UNSUPPORTED || s == HASTEN_ERR_LIMIT);
        assert_non_null(strstr(err.message, "damaged.gguf: "));
        assert_non_null(strstr(err.message, " at byte "));
        assert_non_null(strstr(err.message, "expected "));
        assert_non_null(strstr(err.message, ", found "));
    }
    gguf_close(g);
    free(copy);
    return s == HASTEN_OK;
}

static void test_every_byte_flipped(void **state)
{
    (void)state;
    struct buf b = {0};
    struct gguf_writer *w = case_base();
    assert_int_equal(gguf_writer_build(w, NULL, 0, &b), 0);
    uint64_t live = live_bytes();
    int opened = 0, refused = 0;
    for (size_t i = 0; i < b.len; i++)
        for (int bit = 0; bit <= 8; bit++) {
            char mask = (char)(bit == 8 ? 0xff : 1 << bit);
            b.data[i] ^= mask;
            survives(b.data, b.len) ? opened++ : refused++;
            b.data[i] ^= mask;
        }
    assert_true(opened > 1000 && refused > 1000);
    assert_int_equal(live_bytes(), live);
    assert_true(survives(b.data, b.len));
    gguf_writer_free(w);
    buf_free(&b);
}

static void test_every_length(void **state)
{
    (void)state;
    struct buf b = {0};
    struct gguf_writer *w = case_base();
    assert_int_equal(gguf_writer_build(w, NULL, 0, &b), 0);
    uint64_t end = case_offset("tensor[3].data") + 144; /* all that follows is padding */
    for (size_t len = 0; len <= b.len; len++)
        assert_int_equal(survives(b.data, len), len >= end);
    gguf_writer_free(w);
    buf_free(&b);
}

struct field_sweep {
    struct gguf_writer *w;
    int tried;
};

static void lie_about(void *ctx, const char *field, uint64_t offset, uint64_t len)
{
    static const uint64_t values[] = {0,          1,          2,          255,        65535,      1u << 31,
                                      0xffffffff, 1ull << 32, 1ull << 40, 1ull << 61, 1ull << 63, UINT64_MAX};
    struct field_sweep *sweep = ctx;
    struct buf b = {0};
    (void)offset;
    for (size_t i = 0; i < 12 + 5; i++) {
        struct gguf_lie lie = {field, LIE_VALUE, i < 12 ? values[i] : 0, NULL, 0};
        if (i >= 12)
            lie = (struct gguf_lie[]){{field, LIE_ADD, 1, NULL, 0},
                                      {field, LIE_ADD, UINT64_MAX, NULL, 0},
                                      {field, LIE_BYTES, 0, "", 0},
                                      {field, LIE_TWICE, 0, NULL, 0},
                                      {field, LIE_CUT, 0, NULL, len / 2}}[i - 12];
        assert_int_equal(gguf_writer_build(sweep->w, &lie, 1, &b), 0);
        survives(b.data, b.len);
        sweep->tried++;
    }
    buf_free(&b);
}

static void test_every_field_lied_about(void **state)
{
    (void)state;
    struct field_sweep sweep = {.w = case_base()};
    assert_int_equal(gguf_writer_fields(sweep.w, lie_about, &sweep), 0);
    assert_true(sweep.tried > 1200);
    struct gguf_lie nowhere = {"tensor[9].type", LIE_VALUE, 0, NULL, 0};
    struct buf b = {0};
    assert_int_equal(gguf_writer_build(sweep.w, &nowhere, 1, &b), -1); /* a lie about nothing is an error */
    gguf_writer_free(sweep.w);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_file),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_bools_and_strings),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_unusual_but_valid),
        cmocka_unit_test(test_offsets_in_any_order),
        cmocka_unit_test(test_tiny_models),
        cmocka_unit_test(test_real_files),
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_every_file_operation_fails),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_every_byte_flipped),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_field_lied_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
