/* The web page in the program: every file of web/ under its path, byte for byte, with the right type and a tag of its
 * own; what a client that has a file already says; the policy. argv[1]: web/. */
#include "serve/page.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *web;

#define MAX_FILE (1u << 20)
static unsigned char disk[MAX_FILE];

static size_t read_web(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", web, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(disk, 1, MAX_FILE, f);
    fclose(f);
    return n;
}

static void test_bytes(void **state)
{
    (void)state;
    assert_true(page_n_files > 10);
    for (size_t i = 0; i < page_n_files; i++) {
        const struct page_file *f = &page_files[i];
        const bool index = strcmp(f->path, "/") == 0;
        if (!index)
            assert_memory_equal(f->path, "/assets/", 8);
        const size_t n = read_web(index ? "index.html" : f->path + 8);
        assert_int_equal(f->len, n);
        assert_memory_equal(f->bytes, disk, n);
        assert_ptr_equal(page_find(f->path), f);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(page_files[k].etag, f->etag);
    }
}

static void test_types(void **state)
{
    static const char *const types[][2] = {{"/", "text/html; charset=utf-8"},
                                           {"/assets/style.css", "text/css; charset=utf-8"},
                                           {"/assets/main.js", "text/javascript; charset=utf-8"},
                                           {"/assets/icon.svg", "image/svg+xml"}};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct page_file *f = page_find(types[i][0]);
        assert_non_null(f);
        assert_string_equal(f->type, types[i][1]);
    }
    static const char *const others[] = {
        "",   "/index.html", "/assets",          "/assets/",           "/assets/Main.js",
        "//", "/assets/x",   "/assets/main.js/", "/assets/../main.js", "assets/main.js"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(page_find(others[i]));
}

static void test_known(void **state)
{
    (void)state;
    const struct page_file f = {"/", "", "\"abc\"", NULL, 0};
    static const char *const known[] = {"\"abc\"",        "W/\"abc\"",     "*",
                                        "\"x\", \"abc\"", "\"abc\",\"x\"", " \"x\" , W/\"abc\" "};
    static const char *const unknown[] = {"",   "abc", "\"ab\"", "\"abcd\"", "\"x\", \"y\"",
                                          "\"", "\"x", "W/",     "\"abc\"x", ",,,"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(page_is_known(&f, known[i]));
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_false(page_is_known(&f, unknown[i]));
    assert_false(page_is_known(&f, NULL));
}

static void test_policy(void **state)
{
    const char *policy = NULL;
    (void)state;
    for (size_t i = 0; i < page_n_headers; i++)
        if (strcmp(page_headers[i].name, "Content-Security-Policy") == 0)
            policy = page_headers[i].value;
    assert_non_null(policy);
    assert_memory_equal(policy, "default-src 'self';", 19);
    assert_null(strstr(policy, "unsafe"));
    assert_null(strstr(policy, "http"));
    assert_null(strchr(policy, '*'));
    assert_non_null(strstr(policy, "require-trusted-types-for 'script'"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_known), cmocka_unit_test(test_policy)};
    if (argc != 2)
        return 2;
    web = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
