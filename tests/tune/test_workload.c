/* Workloads: the built-in ones and the form of files; energy counters of a folder of their form. */
#include "bench/energy.h"
#include "bench/text.h"
#include "bench/workload.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_built_in_ones_can_be_tuned_on(void **state)
{
    (void)state;
    static const char *const names[] = {"chat", "code", "rag", "longdoc", "agent"};
    for (int i = 0; i < 5; i++) {
        struct workload *w = NULL;
        struct hasten_error err;
        int n[2] = {0}, edits[2] = {0};
        if (workload_open(names[i], &w, &err))
            fail_msg("%s", err.message);
        for (int32_t j = 0; j < w->n; j++) {
            n[w->items[j].held]++;
            edits[w->items[j].held] += strcmp(w->items[j].half, "edit") == 0;
            for (int32_t k = 0; k < w->items[j].n_messages; k++)
                assert_true(w->items[j].messages[k].text.len > 0);
        }
        assert_true(n[0] >= 2 && n[1] >= 2);
        if (strcmp(names[i], "code") == 0)
            assert_true(edits[0] >= 3 && edits[1] >= 3 && n[0] - edits[0] >= 3 && n[1] - edits[1] >= 3);
        workload_close(w);
    }
}

static void a_file_is_read_as_it_says(void **state)
{
    (void)state;
    struct workload *w = NULL;
    struct hasten_error err;
    write_file("good.txt",
               "a comment\n\n%% item one edit tune 12\n%% system\nBe brief.\n%% user\n\n  first\n\nsecond\n\n"
               "%% assistant\nyes\n%% user\n%% book 10 30\n%% item two fresh held 7\r\n%% user\r\nhi\r\n");
    if (workload_open("good.txt", &w, &err))
        fail_msg("%s", err.message);
    assert_int_equal(w->n, 2);
    const struct workload_item *a = &w->items[0], *b = &w->items[1];
    assert_string_equal(a->name, "one");
    assert_string_equal(a->half, "edit");
    assert_int_equal(a->n_answer, 12);
    assert_false(a->held);
    assert_int_equal(a->n_messages, 4);
    assert_string_equal(a->messages[1].text.data, "  first\n\nsecond");
    assert_int_equal(a->messages[2].role, WORKLOAD_ASSISTANT);
    assert_non_null(strstr(bench_text, a->messages[3].text.data));
    assert_true(b->held && strcmp(b->messages[0].text.data, "hi") == 0);
    workload_close(w);
}

static void refused(const char *text, const char *why)
{
    struct workload *w = NULL;
    struct hasten_error err;
    write_file("bad.txt", text);
    const hasten_status st = workload_open("bad.txt", &w, &err);
    if (st != HASTEN_ERR_FILE || !strstr(err.message, why))
        fail_msg("%s: %s (expected %s)", text, st ? err.message : "read", why);
}

static void other_forms_are_refused_by_line(void **state)
{
    (void)state;
    struct workload *w = NULL;
    struct hasten_error err;
    refused("", "no items");
    refused("%% item one edit tune\n%% user\nx\n", "line 1: not an item");
    refused("%% item one edit maybe 5\n%% user\nx\n", "line 1: not an item");
    refused("%% item one edit tune 0\n%% user\nx\n", "line 1: not an item");
    refused("%% user\nx\n", "line 1: a message before");
    refused("%% item one edit tune 5\n%% user\nx\n%% assistant\ny\n", "line 5: an item that does not end");
    refused("%% item one edit tune 5\n%% user\n\n", "without text");
    refused("%% item one edit tune 5\n%% user\nx\n%% item one fresh held 5\n%% user\ny\n",
            "line 4: a name that another");
    refused("%% item one edit tune 5\nx\n", "text before");
    refused("%% item one edit tune 5\n%% tool\nx\n", "line 2: a mark");
    refused("%% item one edit tune 5\n%% user\n%% book 0 99999999\n", "line 3: not a part of the book");
    assert_int_equal(workload_open("cdoe", &w, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "did you mean code?"));
    assert_int_equal(workload_open("nothing.like-it", &w, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "agent, chat, code, longdoc, rag"));
}

/* Two packages, of which one wraps, and what is no package. */
static void energy_is_what_counters_say(void **state)
{
    (void)state;
    struct energy e;
    const char *const folders[] = {"rapl", "rapl/intel-rapl:0", "rapl/intel-rapl:1", "rapl/intel-rapl:0:0",
                                   "rapl/intel-rapl"};
    for (int i = 0; i < 5; i++)
        mkdir(folders[i], 0700);
    write_file("rapl/intel-rapl:0/energy_uj", "1000000\n");
    write_file("rapl/intel-rapl:0/max_energy_range_uj", "9000000\n");
    write_file("rapl/intel-rapl:1/energy_uj", "8000000\n");
    write_file("rapl/intel-rapl:1/max_energy_range_uj", "9000000\n");
    write_file("rapl/intel-rapl:0:0/energy_uj", "500\n");
    energy_open(&e, "rapl");
    assert_int_equal(e.n, 2);
    write_file("rapl/intel-rapl:0/energy_uj", "2500000\n");
    write_file("rapl/intel-rapl:1/energy_uj", "500000\n");
    energy_read(&e);
    assert_true(fabs(e.joules - 3.0) < 1e-9);
    energy_read(&e);
    assert_true(fabs(e.joules - 3.0) < 1e-9);
    energy_open(&e, "no-such-folder");
    assert_int_equal(e.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_ones_can_be_tuned_on), cmocka_unit_test(a_file_is_read_as_it_says),
        cmocka_unit_test(other_forms_are_refused_by_line), cmocka_unit_test(energy_is_what_counters_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
