/* Scripted models: what rules and hashes say, that state lives in the KV pages, names and rules that are none, speed,
 * and that every allocation on the way may fail. `test_scripted FOLDER [speed]` writes its rules into FOLDER. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "harness.h"
#include "hasten/sample.h"
#include "hasten/text.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SCRIPT_TEST_VOCAB 259

static const char *folder;

/* A scripted model with these rules: "script:FOLDER/rules". */
static const char *with_rules(const char *rules)
{
    static char name[600];
    struct file *f;
    struct hasten_error err;
    snprintf(name, sizeof name, "script:%s/rules", folder);
    die_unless_ok(file_open(name + 7, FILE_WRITE_TRUNC, &f, &err), &err, "writing rules");
    die_unless_ok(file_write(f, rules, strlen(rules), &err), &err, "writing rules");
    file_close(f);
    return name;
}

struct machine {
    struct hasten_model *model;
    struct hasten_engine *engine;
    struct hasten_seq *seq;
    struct hasten_sampler *sampler;
    struct hasten_ids ids;
    hasten_status chosen;
    int32_t next;
    float row[SCRIPT_TEST_VOCAB];
};

static hasten_status machine_open(struct machine *m, const char *path, struct hasten_error *err)
{
    struct hasten_engine_settings s;
    struct hasten_sampler_settings law;
    hasten_status st;
    *m = (struct machine){0};
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_seq_max = 2;
    s.n_batch = 32;
    s.n_ctx = 512;
    s.poison = true;
    if ((st = hasten_model_open(path, &m->model, err)) ||
        (st = hasten_engine_open(m->model, &s, &m->engine, err)) ||
        (st = hasten_seq_open(m->engine, &m->seq, err)) ||
        (st = hasten_sampler_default_settings(m->model, &law, err)))
        return st;
    law.temperature = 0;
    return hasten_sampler_open(m->model, &law, &m->sampler, err);
}

static void machine_close(struct machine *m)
{
    hasten_ids_free(&m->ids);
    hasten_sampler_close(m->sampler);
    hasten_engine_close(m->engine);
    hasten_model_close(m->model);
}

static int choose(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab)
{
    struct machine *m = ctx;
    (void)rows, (void)n_rows;
    memcpy(m->row, logits,
           (size_t)(n_vocab < SCRIPT_TEST_VOCAB ? n_vocab : SCRIPT_TEST_VOCAB) * sizeof(float));
    m->chosen = hasten_sampler_choose(m->sampler, logits, hasten_seq_tokens(m->seq),
                                      hasten_seq_length(m->seq), &m->next, NULL);
    return 0;
}

static hasten_status step(struct machine *m, const int32_t *ids, int64_t n, struct hasten_error *err)
{
    const struct hasten_item item = {
        .seq = m->seq, .tokens = ids, .n = (int32_t)n, .want_from = (int32_t)n - 1};
    const hasten_status st = hasten_step(m->engine, &item, 1, choose, m, NULL, err);
    return st ? st : m->chosen;
}

/* What follows prompt, up to the token that ends, as text. */
static hasten_status complete(struct machine *m, const char *prompt, int most, struct hasten_bytes *out,
                              struct hasten_error *err)
{
    hasten_status st = hasten_tokenize(m->model, prompt, strlen(prompt), HASTEN_TEXT_SPECIAL, &m->ids, err);
    if (!st)
        st = step(m, m->ids.ids, m->ids.n, err);
    for (int i = 0; i < most && !st && !hasten_token_ends(m->model, m->next); i++) {
        st = hasten_detokenize(m->model, &m->next, 1, true, out, err);
        if (!st)
            st = step(m, &m->next, 1, err);
    }
    return st;
}

static void expect(const char *path, const char *prompt, const char *text)
{
    struct machine m;
    struct hasten_error err = {0};
    struct hasten_bytes out = {0};
    die_unless_ok(machine_open(&m, path, &err), &err, "opening a scripted model");
    die_unless_ok(complete(&m, prompt, 200, &out, &err), &err, "completing");
    assert_string_equal(out.data ? out.data : "", text);
    hasten_bytes_free(&out);
    machine_close(&m);
}

/* ---- rules ---------------------------------------------------------------------------------------------- */

static void rules_say_what_follows(void **state)
{
    (void)state;
    const char *rules = "# Comment.\n\n"
                        "after \"assistant\\n\": \"Hello, \" \"w\\x6frld\\n\" eos # and a comment\n"
                        "if \"weather\" after \"assistant\\n\": \"It rains.\" eos\n"
                        "if \"weather\" after \"in the assistant\\n\": 65 66 67\n"
                        "after \"ab\": \"ab!\"\n"
                        "at 30: \"thirty\"\r\n"
                        "else \".\"\n";
    const char *path = with_rules(rules);
    expect(path, "<|im_start|>assistant\n", "Hello, world\n");
    expect(path, "assistant\n", "Hello, world\n");
    char dots[300];
    memset(dots, '.', 200); /* rule `at 30` interrupts whatever goes on */
    dots[200] = 0;
    memcpy(dots + 30 - 2, "thirty", 6);
    expect(path, "xy", dots);
    struct machine m;
    struct hasten_error err = {0};
    struct hasten_bytes out = {0};
    die_unless_ok(machine_open(&m,
                               with_rules("if \"weather\" after \"assistant\\n\": \"It rains.\" eos\n"
                                          "after \"assistant\\n\": \"Hello\" eos\n"
                                          "after \"the assistant\\n\": \"longer\" eos\n"),
                               &err),
                  &err, "opening");
    die_unless_ok(complete(&m, "How is the weather? assistant\n", 99, &out, &err), &err, "completing");
    assert_string_equal(out.data, "It rains.");
    hasten_bytes_free(&out);
    machine_close(&m);
    path = with_rules("after \"t\\n\": \"Hello\" eos\nafter \"the assistant\\n\": \"longer\" eos\n");
    expect(path, "the assistant\n", "longer"); /* the rule that matches most */
    expect(path, "assistant\n", "Hello");
    expect(with_rules("else eos\n"), "x", "");
    expect(with_rules(""), "x", "");
}

static void nan_rows_are_none_finite(void **state)
{
    (void)state;
    struct machine m;
    struct hasten_error err = {0};
    struct hasten_bytes out = {0};
    die_unless_ok(machine_open(&m, with_rules("after \"go\": \"ab\" nan\n"), &err), &err, "opening");
    assert_int_equal(complete(&m, "go", 9, &out, &err), HASTEN_ERR_NON_FINITE);
    assert_string_equal(out.data, "ab");
    assert_true(isnan(m.row[0]) && isnan(m.row[258]));
    hasten_bytes_free(&out);
    machine_close(&m);
}

/* ---- hashes --------------------------------------------------------------------------------------------- */

static void row_after(const char *path, const char *prompt, float row[SCRIPT_TEST_VOCAB])
{
    struct machine m;
    struct hasten_error err = {0};
    die_unless_ok(machine_open(&m, path, &err), &err, "opening");
    die_unless_ok(hasten_tokenize(m.model, prompt, strlen(prompt), 0, &m.ids, &err), &err, "tokenising");
    die_unless_ok(step(&m, m.ids.ids, m.ids.n, &err), &err, "a step");
    memcpy(row, m.row, sizeof m.row);
    machine_close(&m);
}

static void hashes_follow_every_token(void **state)
{
    (void)state;
    static const char *const others[][2] = {{"script:hash=7", "abd"},
                                            {"script:hash=7", "bac"},
                                            {"script:hash=7", "abcc"},
                                            {"script:hash=8", "abc"}};
    float row[SCRIPT_TEST_VOCAB], other[SCRIPT_TEST_VOCAB];
    row_after("script:hash=7", "abc", row);
    row_after("script:hash=7,ctx=100", "abc", other);
    assert_memory_equal(row, other, sizeof row);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        row_after(others[i][0], others[i][1], other);
        assert_memory_not_equal(row, other, sizeof row);
    }
}

/* Answers end after `length` tokens on average; with 0 never. */
static void answers_have_a_length(void **state)
{
    (void)state;
    struct hasten_error err = {0};
    for (int length = 0; length <= 8; length += 8) {
        char name[64];
        int64_t total = 0;
        snprintf(name, sizeof name, "script:hash=3,length=%d", length);
        for (int i = 0; i < 60; i++) {
            struct machine m;
            struct hasten_bytes out = {0};
            char prompt[16];
            snprintf(prompt, sizeof prompt, "prompt %d", i);
            die_unless_ok(machine_open(&m, name, &err), &err, "opening");
            die_unless_ok(complete(&m, prompt, 100, &out, &err), &err, "completing");
            for (size_t j = 0; j < out.len; j++)
                assert_true(out.data[j] >= ' ' && out.data[j] < 0x7f);
            total += (int64_t)out.len;
            hasten_bytes_free(&out);
            machine_close(&m);
        }
        if (length)
            assert_in_range(total, 60 * 4, 60 * 14);
        else
            assert_int_equal(total, 60 * 100);
    }
}

/* ---- KV pages ------------------------------------------------------------------------------------------- */

static void state_lives_in_pages(void **state)
{
    (void)state;
    static const char *const names[] = {"script:hash=7", "script:hash=7,vocab=1000"};
    for (size_t i = 0; i < 2; i++) {
        struct machine m;
        struct hasten_error err = {0};
        float clean[SCRIPT_TEST_VOCAB];
        const int32_t ids[] = {1, 2, 3}, next = 4;
        die_unless_ok(machine_open(&m, names[i], &err), &err, "opening");
        die_unless_ok(step(&m, ids, 3, &err), &err, "a step");
        die_unless_ok(step(&m, &next, 1, &err), &err, "a step");
        memcpy(clean, m.row, sizeof clean);
        die_unless_ok(hasten_seq_truncate(m.seq, 3, &err), &err, "truncating");
        die_unless_ok(step(&m, &next, 1, &err), &err, "a step");
        assert_memory_equal(m.row, clean, sizeof clean);
        die_unless_ok(hasten_seq_truncate(m.seq, 3, &err), &err, "truncating");
        const struct kv_tile page = kv_tile_at(&m.engine->kv, &m.seq->kv, 0, 0);
        ((uint8_t *)(uintptr_t)page.k)[2 * 24] ^= 1; /* position 2 of a page of 24 bytes each */
        die_unless_ok(step(&m, &next, 1, &err), &err, "a step");
        assert_memory_not_equal(m.row, clean, sizeof clean);
        machine_close(&m);
    }
}

static void pages_are_counted(void **state)
{
    (void)state;
    struct machine m;
    struct hasten_error err = {0};
    struct hasten_counters before, after;
    int32_t ids[512] = {0};
    die_unless_ok(machine_open(&m, "script:hash=1", &err), &err, "opening");
    hasten_engine_counters(m.engine, &before);
    die_unless_ok(step(&m, ids, 130, &err), &err, "a step");
    hasten_engine_counters(m.engine, &after);
    assert_int_equal(after.kv_pages_used - before.kv_pages_used, 3);
    assert_int_equal(after.rows, 130);
    assert_int_equal(after.passes, 5); /* n_batch 32 */
    assert_true(hasten_seq_bytes(m.seq) > 0);
    assert_int_equal(step(&m, ids, 512, &err), HASTEN_ERR_FULL);
    assert_int_equal(hasten_seq_length(m.seq), 130);
    machine_close(&m);
}

/* ---- what is refused ------------------------------------------------------------------------------------ */

static void names_and_rules_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *name, *rules; /* rules: of a file, then name is NULL */
        hasten_status status;
        const char *says;
    } cases[] = {
        {"script:", NULL, HASTEN_ERR_USAGE, "script:FILE or script:hash=SEED"},
        {"script:hash=x", NULL, HASTEN_ERR_USAGE, "a whole number"},
        {"script:hash=1,vocab=4", NULL, HASTEN_ERR_USAGE, "259 to 1048576"},
        {"script:hash=1,ctx=0", NULL, HASTEN_ERR_USAGE, "at least 1"},
        {"script:hash=1,depth=3", NULL, HASTEN_ERR_USAGE, "found 'depth=3'"},
        {"script:/no/such/file", NULL, HASTEN_ERR_FILE, "/no/such/file"},
        {"script:hash=1,vocab=/no/such.gguf", NULL, HASTEN_ERR_FILE, "/no/such.gguf"},
        {"script:hash=1,vocab=a,vocab=/no/such.gguf", NULL, HASTEN_ERR_FILE, "/no/such.gguf"},
        {NULL, "else 5\n\nwhen 5\n", HASTEN_ERR_FILE, "line 3: found 'when 5' (expected at, after, if, else"},
        {NULL, "at x: 5\n", HASTEN_ERR_FILE, "expected a position"},
        {NULL, "at 5 6\n", HASTEN_ERR_FILE, "expected a colon"},
        {NULL, "at 5:\n", HASTEN_ERR_FILE, "expected an item"},
        {NULL, "at 5: 259\n", HASTEN_ERR_FILE, "a token id of the vocabulary"},
        {NULL, "at 5: \"abc\n", HASTEN_ERR_FILE, "a closing \""},
        {NULL, "at 5: \"a\\q\"\n", HASTEN_ERR_FILE, "behind a backslash"},
        {NULL, "at 5: \"a\\x4\"\n", HASTEN_ERR_FILE, "behind a backslash"},
        {NULL, "after 5: 6 : 7\n", HASTEN_ERR_FILE, "the end of the line"},
        {NULL, "if 5: 6\n", HASTEN_ERR_FILE, "expected after"},
        {NULL, "else 5 6\n", HASTEN_ERR_FILE, "expected one"},
        {NULL, "after nonsense: 6\n", HASTEN_ERR_FILE, "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hasten_model *m = NULL;
        struct hasten_error err = {0};
        const char *path = cases[i].name ? cases[i].name : with_rules(cases[i].rules);
        assert_int_equal(hasten_model_open(path, &m, &err), cases[i].status);
        assert_null(m);
        if (!strstr(err.message, cases[i].says))
            fail_msg("%s: said '%s', expected '%s'", path, err.message, cases[i].says);
    }
}

/* ---- every allocation may fail ----------------------------------------------------------------------------- */

/* Load, tokenise, prompt, steps, fork, choose, detokenise. */
static hasten_status scenario(const char *path, struct hasten_bytes *out, struct hasten_error *err)
{
    const struct hasten_message message = {"user", "How are you, <|im_end|>?"};
    struct hasten_chat *chat = NULL;
    struct hasten_seq *fork = NULL;
    struct hasten_stream *stream = NULL;
    struct machine m;
    bool stopped;
    const char *const stops[] = {"zzz"};
    hasten_status st = machine_open(&m, path, err);
    if (!st && !(st = hasten_chat_open(m.model, &chat, err)) &&
        !(st = hasten_chat_encode(chat, &message, 1, true, &m.ids, err)) &&
        !(st = step(&m, m.ids.ids, m.ids.n, err)) && !(st = hasten_seq_fork(m.seq, 5, &fork, err)) &&
        !(st = hasten_stream_open(m.model, stops, 1, true, &stream, err)))
        for (int i = 0; i < 20 && !st; i++)
            if (!(st = hasten_stream_push(stream, m.next, out, &stopped, err)))
                st = step(&m, &m.next, 1, err);
    if (!st)
        st = hasten_stream_finish(stream, out, err);
    hasten_stream_close(stream);
    hasten_chat_close(chat);
    machine_close(&m);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct mem_stats before, after;
    struct hasten_error err = {0};
    struct hasten_bytes clean = {0}, out = {0};
    const char *path = with_rules("if \"are\" after \"assistant\\n\": \"I am well, thank you\" eos\n");
    mem_stats_get(&before);
    die_unless_ok(scenario(path, &clean, &err), &err, "the scenario");
    assert_memory_equal(clean.data, "I am well, thank you", 20);
    for (uint64_t every = 0; every <= 1; every++) {
        int64_t n = 0;
        for (hasten_status st = HASTEN_ERR_MEMORY; st; n++) {
            out.len = 0;
            err.message[0] = 0;
            mem_fail_at((uint64_t)n + 1, every);
            st = scenario(path, &out, &err);
            const bool injected = mem_fail_count() > 0;
            mem_fail_at(0, 0);
            if (st && st != HASTEN_ERR_MEMORY)
                fail_msg("allocation %d: %s", (int)n + 1, err.message);
            assert_true(!st || (injected && err.message[0]));
            if (st)
                hasten_bytes_free(&out);
        }
        assert_true(n > 50);
        assert_int_equal(out.len, clean.len);
        assert_memory_equal(out.data, clean.data, clean.len);
    }
    hasten_bytes_free(&out);
    hasten_bytes_free(&clean);
    mem_stats_get(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

/* ---- speed ---------------------------------------------------------------------------------------------- */

static void tokens_a_second(void **state)
{
    (void)state;
    struct machine m;
    struct hasten_error err = {0};
    double best = 0;
    die_unless_ok(machine_open(&m, "script:hash=7", &err), &err, "opening");
    for (int trial = 0; trial < 20; trial++) {
        const uint64_t t0 = clock_now_ns();
        m.next = trial;
        for (int i = 0; i < 500; i++)
            die_unless_ok(step(&m, &m.next, 1, &err), &err, "a step");
        const double rate = 500 / ((double)(clock_now_ns() - t0) / 1e9);
        best = rate > best ? rate : best;
        die_unless_ok(hasten_seq_truncate(m.seq, 0, &err), &err, "truncating");
    }
    printf("%.0f tokens/s, each chosen by a sampler\n", best);
    assert_true(best >= 1e5);
    machine_close(&m);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest rules[] = {
        cmocka_unit_test(rules_say_what_follows),      cmocka_unit_test(nan_rows_are_none_finite),
        cmocka_unit_test(hashes_follow_every_token),   cmocka_unit_test(answers_have_a_length),
        cmocka_unit_test(state_lives_in_pages),        cmocka_unit_test(pages_are_counted),
        cmocka_unit_test(names_and_rules_are_checked), cmocka_unit_test(every_allocation_may_fail),
    };
    static const struct CMUnitTest speed[] = {cmocka_unit_test(tokens_a_second)};
    if (argc < 2) {
        fprintf(stderr, "usage: test_scripted FOLDER [speed]\n");
        return 1;
    }
    folder = argv[1];
    if (argc > 2)
        return cmocka_run_group_tests_name("speed", speed, NULL, NULL);
    return cmocka_run_group_tests_name("scripted", rules, NULL, NULL);
}
