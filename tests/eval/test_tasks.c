/* Tasks: items are functions of seed and index, fit their length and hold what is wanted; scorers by table. `test_tasks
 * FOLDER` writes its data there. */
#include "base/file.h"
#include "eval/prose.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *folder;
static char path[600];

static void write_data(const char *text)
{
    struct file *f;
    snprintf(path, sizeof path, "%s/tasks.jsonl", folder);
    assert_int_equal(file_open(path, FILE_WRITE_TRUNC, &f, NULL), HASTEN_OK);
    assert_int_equal(file_write(f, text, strlen(text), NULL), HASTEN_OK);
    file_close(f);
}

/* A tokenizer's stand-in: four bytes a token. */
static int64_t count(void *ctx, const struct eval_item *item, struct hasten_error *err)
{
    int64_t n = 0;
    (void)ctx;
    (void)err;
    for (int32_t i = 0; i < item->n_turns; i++)
        n += (int64_t)item->turns[i].len / 4 + 8 + item->max_new[i];
    return n;
}

static char program[8192]; /* that the sandbox's stand-in was given */

static hasten_status run(void *ctx, const char *text, size_t len, bool *passed, char note[160],
                         struct hasten_error *err)
{
    (void)ctx;
    (void)err;
    snprintf(program, sizeof program, "%.*s", (int)len, text);
    *passed = strstr(program, "return 7") != NULL;
    note[0] = '\0';
    return HASTEN_OK;
}

static struct eval_task_settings settings(int32_t length, uint64_t seed)
{
    return (struct eval_task_settings){
        .length = length, .n_items = 12, .seed = seed, .count = count, .run = run};
}

static void open_task(const struct eval_task *t, const struct eval_task_settings *s, void **state, int32_t *n)
{
    struct hasten_error err;
    if (t->open(t, s, state, n, &err))
        fail_msg("%s: %s", t->name, err.message);
}

static void make(const struct eval_task *t, void *state, int32_t i, struct eval_item *item)
{
    struct hasten_error err;
    *item = (struct eval_item){0};
    if (t->item(state, i, item, &err))
        fail_msg("%s: %s", t->name, err.message);
}

static bool same(const struct eval_item *a, const struct eval_item *b)
{
    bool equal = a->n_turns == b->n_turns && json_equal(a->want, b->want);
    for (int32_t i = 0; i < a->n_turns && equal; i++)
        equal = a->turns[i].len == b->turns[i].len &&
                memcmp(a->turns[i].data, b->turns[i].data, a->turns[i].len) == 0;
    return equal;
}

/* Every wanted string stands in what the model reads, but qa's answers, which may be worded otherwise. */
static void holds_wanted(const struct eval_task *t, const struct eval_item *item)
{
    struct buf all = {0};
    int32_t found = 0;
    for (int32_t i = 0; i < item->n_turns; i++)
        assert_int_equal(buf_put(&all, item->turns[i].data, item->turns[i].len), 0);
    const int32_t n = (int32_t)json_array_size(item->want);
    for (int32_t i = 0; i < n; i++)
        found += eval_contains(all.data, json_string_value(json_array_get(item->want, (size_t)i)));
    if (strcmp(t->name, "qa_1") == 0 ? found == 0 : found != n)
        fail_msg("%s %s: %d of %d wanted strings are in the prompt", t->name, item->id.data, (int)found,
                 (int)n);
    buf_free(&all);
}

static void test_items(void **unused)
{
    static const int32_t lengths[] = {1500, 4096, 12000};
    (void)unused;
    const struct eval_task *t;
    for (int k = 0; (t = eval_task_at(k)); k++) {
        for (int l = 0; l < 3 && !t->data_prefix; l++) {
            struct eval_task_settings s = settings(lengths[l], 3), other = settings(lengths[l], 4);
            void *a, *b, *c;
            int32_t n, fewer;
            open_task(t, &s, &a, &n);
            s.n_items = 5;
            open_task(t, &s, &b, &fewer);
            open_task(t, &other, &c, &n);
            assert_int_equal(n, 12);
            assert_int_equal(fewer, 5);
            for (int32_t i = 0; i < 5; i++) {
                struct eval_item x, y, z;
                make(t, a, i, &x);
                make(t, b, i, &y);
                make(t, c, i, &z);
                assert_true(same(&x, &y) && !same(&x, &z));
                assert_string_equal(x.id.data, y.id.data);
                const int64_t took = count(NULL, &x, NULL);
                if (took > lengths[l] || took < lengths[l] * 0.93 - 40)
                    fail_msg("%s: %lld tokens of %d", t->name, (long long)took, (int)lengths[l]);
                holds_wanted(t, &x);
                eval_item_clear(&x);
                eval_item_clear(&y);
                eval_item_clear(&z);
            }
            t->close(a);
            t->close(b);
            t->close(c);
        }
    }
}

/* A needle lies where its depth says; all questions of the book find their sentences; too short is said. */
static void test_places(void **unused)
{
    (void)unused;
    struct eval_task_settings s = settings(4096, 1);
    struct hasten_error err;
    void *state;
    int32_t n;
    open_task(&eval_needle, &s, &state, &n);
    for (int32_t i = 0; i < 5; i++) {
        struct eval_item item;
        make(&eval_needle, state, i, &item);
        const char *at = strstr(item.turns[0].data, json_string_value(json_array_get(item.want, 0)));
        const double depth = (double)(at - item.turns[0].data) / (double)item.turns[0].len;
        assert_true(fabs(depth - i / 4.0) < 0.1);
        eval_item_clear(&item);
    }
    eval_needle.close(state);
    s.n_items = 1000;
    open_task(&eval_ruler_qa[0], &s, &state, &n);
    assert_int_equal(n, 20);
    for (int32_t i = 0; i < n; i++) {
        struct eval_item item;
        make(&eval_ruler_qa[0], state, i, &item);
        holds_wanted(&eval_ruler_qa[0], &item);
        eval_item_clear(&item);
    }
    eval_ruler_qa[0].close(state);
    s.length = 64;
    open_task(&eval_recall, &s, &state, &n);
    struct eval_item item = {0};
    assert_int_equal(eval_recall.item(state, 0, &item, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "--length 64"));
    eval_item_clear(&item);
    eval_recall.close(state);
}

/* The counts that a listener would need: common words come more often than any other. */
static void test_frequencies(void **unused)
{
    (void)unused;
    const struct eval_task *const both[] = {&eval_ruler_cwe, &eval_ruler_fwe};
    for (int k = 0; k < 2; k++) {
        const struct eval_task_settings s = settings(3000, 8);
        void *state;
        int32_t n, least = INT32_MAX, most_other = 0;
        struct eval_item item;
        open_task(both[k], &s, &state, &n);
        make(both[k], state, 0, &item);
        char *text = item.turns[0].data;
        for (size_t i = 0; i < json_array_size(item.want); i++) {
            const char *word = json_string_value(json_array_get(item.want, i));
            int32_t times = 0;
            for (char *at = text; (at = strstr(at, word)); at += strlen(word))
                times++, memset(at, '-', strlen(word));
            least = times < least ? times : least;
        }
        /* what is left: the longest run of equal words after sorting would be long work; count each word's own */
        for (char *at = text + 200; *at; at++) {
            char word[34];
            if (at[-1] != ' ' || sscanf(at, "%33[a-z]", word) != 1 || strlen(word) < 6)
                continue;
            int32_t times = 0;
            for (char *w = at; (w = strstr(w, word)); w++)
                times += w[-1] == ' ' && (w[strlen(word)] == ' ' || w[strlen(word)] == '\n');
            most_other = times > most_other ? times : most_other;
        }
        assert_true(least > most_other && most_other > 0);
        eval_item_clear(&item);
        both[k]->close(state);
    }
}

static double score(const struct eval_task *t, void *state, struct eval_item *item, const char *text)
{
    struct buf answers[EVAL_MAX_TURNS] = {{0}};
    struct eval_score s = {0};
    if (text)
        assert_int_equal(buf_puts(&answers[0], text), 0);
    assert_int_equal(t->score(state, item, answers, &s, NULL), HASTEN_OK);
    buf_free(&answers[0]);
    return s.score;
}

static void test_gsm8k(void **unused)
{
    static const struct {
        const char *answer;
        double score;
    } table[] = {{"It is 1,250.\n#### 1,250", 1},
                 {"#### $1250.00", 1},
                 {"#### 1250 apples and 3 more", 1},
                 {"#### 3\nno, wait\n#### 1250", 1},
                 {"#### 1251", 0},
                 {"so 50 * 25 = 1250.", 1},
                 {"1250 in all, of which 4 are left", 0},
                 {"the answer is \\boxed{1250} of 9", 1},
                 {"####", 0},
                 {"", 0},
                 {NULL, 0},
                 {"-1250", 0}};
    (void)unused;
    write_data("{\"question\": \"How many?\", \"answer\": \"50*25=1250\\n#### 1,250\"}\n\n"
               "{\"question\": \"And now?\", \"answer\": \"#### -3\"}\n");
    struct eval_task_settings s = settings(0, 1);
    s.data = path;
    void *state;
    int32_t n;
    struct eval_item item;
    open_task(&eval_gsm8k, &s, &state, &n);
    assert_int_equal(n, 2);
    make(&eval_gsm8k, state, 0, &item);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (score(&eval_gsm8k, state, &item, table[i].answer) != table[i].score)
            fail_msg("'%s' scores %g", table[i].answer, 1 - table[i].score);
    eval_item_clear(&item);
    make(&eval_gsm8k, state, 1, &item);
    assert_true(score(&eval_gsm8k, state, &item, "x = -3") == 1 &&
                score(&eval_gsm8k, state, &item, "3") == 0);
    eval_item_clear(&item);
    eval_gsm8k.close(state);
}

static void test_humaneval(void **unused)
{
    static const struct {
        bool raw;
        const char *answer, *program; /* what must stand in the program, in a row */
        double score;
    } table[] = {
        {false, "Here:\n```python\ndef seven():\n    return 7\n```\nIt returns 7.",
         "    pass\n\n\ndef seven():\n    return 7\n\n\ndef check", 1},
        {false, "```\nx = 1\n```\n```python\ndef seven():\n    return 7\n```",
         "\ndef seven():\n    return 7\n", 1},
        {false, "def seven():\n    return 7\n", "pass\n\ndef seven():\n    return 7\n", 1},
        {false, "```python\n    return 7\n```", "\"\"\"\n\n    return 7\n",
         1}, /* a body alone continues the prompt */
        {false, "```python\ndef seven():\n    return 7", "\n    pass\n\n\ndef seven():\n    return 7\n\n", 1},
        {false, "I cannot.", "I cannot.", 0},
        {true, "    return 7", "\"\"\"\n    return 7\n\ndef check", 1},
        {true, NULL, "\"\"\"\n", 0}};
    (void)unused;
    write_data(
        "{\"task_id\": \"T/1\", \"prompt\": \"import math\\n\\ndef seven():\\n    \\\"\\\"\\\"Gives 7.\\\"\\\"\\\"\\n\", "
        "\"entry_point\": \"seven\", \"test\": \"def check(f):\\n    assert f() == 7\"}\n");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct eval_task_settings s = settings(0, 1);
        void *state;
        int32_t n;
        struct eval_item item;
        s.data = path;
        s.raw = table[i].raw;
        open_task(&eval_humaneval, &s, &state, &n);
        make(&eval_humaneval, state, 0, &item);
        const double got = score(&eval_humaneval, state, &item, table[i].answer);
        if (got != table[i].score || !strstr(program, table[i].program) ||
            !strstr(program, "\ncheck(seven)\n") || strncmp(program, "import math\n", 12) != 0)
            fail_msg("answer %zu scores %g with the program\n%s", i, got, program);
        eval_item_clear(&item);
        eval_humaneval.close(state);
    }
    struct eval_task_settings s = settings(0, 1);
    void *state;
    int32_t n;
    s.data = path;
    s.run = NULL;
    assert_int_equal(eval_humaneval.open(&eval_humaneval, &s, &state, &n, NULL), HASTEN_ERR_UNSUPPORTED);
}

static void test_shares(void **unused)
{
    (void)unused;
    const struct eval_task_settings s = settings(2000, 5);
    void *state;
    int32_t n;
    struct eval_item item;
    open_task(&eval_ruler_niah[6], &s, &state, &n);
    make(&eval_ruler_niah[6], state, 0, &item);
    assert_int_equal(json_array_size(item.want), 4);
    char text[200];
    snprintf(text, sizeof text, "%s and %s", json_string_value(json_array_get(item.want, 2)),
             json_string_value(json_array_get(item.want, 0)));
    assert_true(score(&eval_ruler_niah[6], state, &item, text) == 0.5);
    assert_true(score(&eval_ruler_niah[6], state, &item, NULL) == 0);
    eval_item_clear(&item);
    eval_ruler_niah[6].close(state);
    assert_true(eval_contains("The DUCHESS!", "duchess") && !eval_contains("duches", "duchess"));
}

static void test_bad_data(void **unused)
{
    static const struct {
        const struct eval_task *task;
        const char *data, *message;
    } table[] = {
        {&eval_gsm8k, "", "no lines"},
        {&eval_gsm8k, "{\"question\": \"a\"\n", "line 1"},
        {&eval_gsm8k, "{\"question\": \"a\"}\n", "item 1 has no \"answer\""},
        {&eval_gsm8k, "{\"question\": \"a\", \"answer\": \"5\"}\n", "has no \"####\""},
        {&eval_humaneval, "{\"task_id\": \"a\", \"prompt\": 3}\n", "item 1 has no \"prompt\""},
        {&eval_needle, "too short. for a haystack. of sentences.", "(expected at least 20)"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct eval_task_settings s = settings(2000, 1);
        struct hasten_error err;
        struct eval_item item = {0};
        void *state;
        int32_t n;
        write_data(table[i].data);
        s.data = path;
        hasten_status st = table[i].task->open(table[i].task, &s, &state, &n, &err);
        if (!st) {
            st = table[i].task->item(state, 0, &item, &err);
            table[i].task->close(state);
        }
        assert_int_equal(st, HASTEN_ERR_FILE);
        if (!strstr(err.message, table[i].message))
            fail_msg("case %zu: %s", i, err.message);
        eval_item_clear(&item);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items),    cmocka_unit_test(test_places),    cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_gsm8k),    cmocka_unit_test(test_humaneval), cmocka_unit_test(test_shares),
        cmocka_unit_test(test_bad_data),
    };
    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
