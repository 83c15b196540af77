/* Error messages and the table of statuses. */
#include "base_test.h"
#include "base/error.h"
#include "base/depth.h"
#include <string.h>

#define CAPACITY (sizeof(((struct hasten_error *)0)->message) - 1)

static void test_statuses(void **state)
{
    (void)state;
    for (int i = 0; i < HASTEN_STATUS_COUNT; i++) {
        assert_true(strlen(hasten_status_text((hasten_status)i)) > 3);
        assert_int_equal(hasten_exit_code((hasten_status)i) == 0, i == HASTEN_OK);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(hasten_status_text((hasten_status)i),
                                    hasten_status_text((hasten_status)j));
    }
    assert_int_equal(hasten_exit_code(HASTEN_ERR_USAGE), 2);
    assert_int_equal(hasten_exit_code(HASTEN_ERR_FILE), 3);
    assert_int_equal(hasten_exit_code(HASTEN_ERR_MEMORY), 4);
    assert_int_equal(hasten_exit_code(HASTEN_ERR_NETWORK), 5);
    assert_int_equal(hasten_exit_code(HASTEN_ERR_CANCELLED), 130);
    assert_non_null(hasten_status_text((hasten_status)99));
    assert_int_equal(hasten_exit_code((hasten_status)99), 1);
}

static void test_set(void **state)
{
    (void)state;
    struct hasten_error err;
    assert_int_equal(error_set(&err, HASTEN_ERR_FILE, "reading %s: %d", "x.gguf", 7), HASTEN_ERR_FILE);
    assert_int_equal(err.status, HASTEN_ERR_FILE);
    assert_string_equal(err.message, "reading x.gguf: 7");
    assert_int_equal(error_set(NULL, HASTEN_ERR_DISK, "nobody listens"), HASTEN_ERR_DISK);
    error_set(&err, HASTEN_ERR_FULL, "again: %s", err.message);
    assert_string_equal(err.message, "again: reading x.gguf: 7");
}

static void test_control_bytes(void **state)
{
    (void)state;
    struct hasten_error err;
    error_set(&err, HASTEN_ERR_FILE, "a\nb\tc\033[31md\177e\xc2\x9bz");
    assert_string_equal(err.message, "a?b?c?[31md?e?z");
    /* Stray, overlong, surrogate, beyond U+10FFFF, cut. */
    error_set(&err, HASTEN_ERR_FILE, "\xff|\x80|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82");
    assert_string_equal(err.message, "?|?|\?\?|\?\?\?|\?\?\?\?|\?\?");
    error_set(&err, HASTEN_ERR_FILE, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_string_equal(err.message, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

/* Every length around the border, with characters of 1 to 4 bytes: never a cut character, never '?'. */
static void test_truncation(void **state)
{
    (void)state;
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t n = 1; n <= 4; n++) {
        for (size_t lead = 0; lead < 8; lead++) {
            char text[1400] = "";
            struct hasten_error err;
            memset(text, '-', lead);
            text[lead] = '\0';
            for (size_t i = lead; i + n < 1200; i += n)
                strcpy(text + i, characters[n - 1]);
            error_set(&err, HASTEN_ERR_FILE, "%s", text);
            size_t len = strlen(err.message);
            assert_true(len <= CAPACITY && len > CAPACITY - n);
            assert_int_equal((len - lead) % n, 0);
            assert_memory_equal(err.message, text, len);
        }
    }
}

static void test_prefix(void **state)
{
    (void)state;
    struct hasten_error err;
    error_set(&err, HASTEN_ERR_LIMIT, "too deep");
    assert_int_equal(error_prefix(&err, "parsing %s", "t"), HASTEN_ERR_LIMIT);
    assert_string_equal(err.message, "parsing t: too deep");
    for (int i = 0; i < 2000; i++)
        assert_int_equal(error_prefix(&err, "\xe2\x82\xac"), HASTEN_ERR_LIMIT);
    assert_true(strlen(err.message) > CAPACITY - 5 && strlen(err.message) <= CAPACITY);
    assert_memory_equal(err.message, "\xe2\x82\xac: \xe2\x82\xac: ", 10);
    assert_null(strchr(err.message, '?'));
    assert_int_equal(error_prefix(NULL, "x"), HASTEN_ERR_INTERNAL);
}

static void test_depth(void **state)
{
    (void)state;
    struct depth d = {0, 3};
    for (int i = 0; i < 3; i++)
        assert_int_equal(depth_enter(&d), 0);
    assert_int_equal(depth_enter(&d), -1);
    depth_leave(&d);
    assert_int_equal(depth_enter(&d), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses),      cmocka_unit_test(test_set),
        cmocka_unit_test(test_control_bytes), cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_prefix),        cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
