/* The stage stop, on scripted models whose answers are known: where thinking is ended, gone on with, left alone; with a
 * drafter and without the same; what is dropped is never shown; and the neutral settings change nothing. */
#include "model/loaded.h"
#include "world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SCRIPT "test_stop.txt"
#define DELIMITERS "open=<think>,close=</think>"

/* A model of these rules. */
static struct hasten_model *scripted(const char *rules)
{
    FILE *f = fopen(SCRIPT, "w");
    assert_non_null(f);
    fputs(rules, f);
    fclose(f);
    return world_model("script:" SCRIPT);
}

static const char thinker[] = "after \"Q:\": \"<think>abcdefghij</think>Long.\" eos\n"
                              "after \"</think>\\n\\n\": \"Short.\" eos\n"
                              "after \"Wait\": \"klmnop</think>More.\" eos\n";

/* What a method makes of it, plain and with drafters that are often right and always wrong. */
static void says(const char *rules, const char *spec, const char *prompt, const char *want)
{
    static const char *const drafts[] = {NULL, "draft lookup:gamma=7", "draft adversary:gamma=3"};
    struct hasten_model *m = scripted(rules);
    for (int i = 0; i < 3; i++) {
        const char *const specs[] = {spec, drafts[i], drafts[i] ? "draft verify:ctl=off" : NULL, NULL};
        struct world w;
        world_open(&w, m, specs, 0, 2);
        world_says(&w, prompt, want);
        world_close(&w);
    }
    hasten_model_close(m);
}

static void thinking_is_ended(void **state)
{
    (void)state;
    says(thinker, "stop budget:max=4," DELIMITERS, "Q:", "<think>abcd</think>\n\nShort.");
    says(thinker, "stop budget:max=0," DELIMITERS, "Q:", "<think></think>\n\nShort.");
    says(thinker, "stop budget:max=10," DELIMITERS, "Q:", "<think>abcdefghij</think>\n\nShort.");
    says(thinker, "stop budget:max=18," DELIMITERS, "Q:", "<think>abcdefghij</think>Long.");
}

static void thinking_goes_on(void **state)
{
    (void)state;
    says(thinker, "stop budget:max=-1,min=11," DELIMITERS, "Q:", "<think>abcdefghijWaitklmnop</think>More.");
    says(thinker, "stop budget:max=-1,min=10," DELIMITERS, "Q:", "<think>abcdefghij</think>Long.");
    says(thinker, "stop budget:max=-1,rounds=2," DELIMITERS,
         "Q:", "<think>abcdefghijWaitklmnopWaitklmnop</think>More.");
    says(thinker, "stop budget:max=24,min=24," DELIMITERS,
         "Q:", "<think>abcdefghijWaitklmnop</think>\n\nShort."); /* its end had begun */
}

/* The template may have begun it. */
static void thinking_begun_by_the_prompt(void **state)
{
    (void)state;
    static const char rules[] = "after \"Q:<think>\\n\": \"abcdefghij</think>Long.\" eos\n"
                                "after \"</think>\\n\\n\": \"Short.\" eos\n";
    says(rules, "stop budget:max=4," DELIMITERS, "Q:<think>\n", "abcd</think>\n\nShort.");
    says(rules, "stop budget:max=4," DELIMITERS, "<think> Q:", ""); /* not at its end */
}

static void the_neutral_settings_change_nothing(void **state)
{
    (void)state;
    says(thinker, "stop budget:max=-1,min=0,rounds=0", "Q:", "<think>abcdefghij</think>Long.");
    says(thinker, "stop same:n=0", "Q:", "<think>abcdefghij</think>Long.");
}

/* ---- what is shown -------------------------------------------------------------------------------------------- */

static int collect(void *ctx, const char *bytes, size_t len)
{
    return buf_put(ctx, bytes, len);
}

static void what_is_dropped_is_never_shown(void **state)
{
    (void)state;
    struct hasten_model *m = scripted(thinker);
    struct tokens ids = world_ids(m, "Q:");
    struct world w;
    struct answer a = {0};
    struct buf shown = {0};
    struct hasten_error err;
    world_open(&w, m, (const char *const[]){"stop budget:max=-1,rounds=1," DELIMITERS, NULL}, 0, 0);
    w.law.logprobs = true;
    const struct run_task task = {.engine = w.engine,
                                  .seq = w.seq,
                                  .vocab = model_vocab(m),
                                  .law = &w.law,
                                  .ids = ids.ids,
                                  .n = ids.n,
                                  .show = collect,
                                  .show_ctx = &shown};
    if (run_answer(&task, NULL, NULL, &a, &err))
        fail_msg("%s", err.message);
    assert_string_equal(shown.data, "<think>abcdefghijWaitklmnop</think>More.");
    assert_string_equal(a.text.data, shown.data);
    assert_int_equal(a.injected_n, 4);
    assert_int_equal(a.ids.n, (int)shown.len); /* a byte is a token */
    for (int64_t i = 0; i < a.ids.n; i++) {
        assert_int_equal(a.ids.ids[i], (unsigned char)shown.data[i]);
        assert_int_equal(a.chosen[i].id, a.ids.ids[i]);
        assert_true((a.chosen[i].logprob != a.chosen[i].logprob) == (i >= 17 && i < 21));
    }
    assert_int_equal(hasten_seq_length(w.seq), (int)(ids.n + a.ids.n));
    answer_free(&a);
    buf_free(&shown);
    world_close(&w);
    tokens_free(&ids);
    hasten_model_close(m);
}

/* Bounds of an answer hold for what is put in, too. */
static void what_is_put_in_has_bounds(void **state)
{
    (void)state;
    struct hasten_model *m = scripted(thinker);
    struct tokens ids = world_ids(m, "Q:");
    for (int32_t n = 9; n < 24; n++) {
        struct world w;
        struct answer a, b;
        const char *const specs[] = {"stop budget:max=4," DELIMITERS, NULL};
        world_open(&w, m, specs, 0, 0);
        w.law.n_predict = n;
        world_answer(&w, ids.ids, ids.n, &a);
        assert_int_equal(a.ids.n, n);
        assert_int_equal(a.finish, FINISH_LENGTH);
        world_close(&w);
        world_open(&w, m, specs, (int32_t)ids.n + n - 1, 0); /* the last token has no position */
        world_answer(&w, ids.ids, ids.n, &b);
        assert_int_equal(b.ids.n, n);
        assert_memory_equal(a.text.data, b.text.data, a.text.len);
        world_close(&w);
        answer_free(&a);
        answer_free(&b);
    }
    tokens_free(&ids);
    hasten_model_close(m);
}

/* ---- answers that agree --------------------------------------------------------------------------------------- */

static const char reasoner[] =
    "after \"Q:\": \"One.\\n\\nTwo.\\n\\nThree.\\n\\nFour.\\n\\nFive.\\n\\nEnd.\" eos\n"
    "if \"Two\" after \"The final answer is\": \" **42**.\" eos\n"
    "after \"The final answer is\": \" 41.\\n42\" eos\n";

static void reasoning_ends_when_answers_agree(void **state)
{
    (void)state;
    says(reasoner, "stop same:n=1", "Q:", "One.\n\nThe final answer is 41.\n42");
    says(reasoner, "stop same:n=2", "Q:", "One.\n\nTwo.\n\nThree.\n\nThe final answer is **42**.");
    says(reasoner, "stop same:n=3", "Q:", "One.\n\nTwo.\n\nThree.\n\nFour.\n\nThe final answer is **42**.");
    says(reasoner, "stop same:n=9", "Q:", "One.\n\nTwo.\n\nThree.\n\nFour.\n\nFive.\n\nEnd.");
    says(reasoner, "stop same:n=1,every=sentence", "Q:", "One.The final answer is 41.\n42");
}

static void only_thinking_is_reasoning(void **state)
{
    (void)state;
    static const char rules[] = "after \"Q:\": \"<think>A\\n\\nB\\n\\nC\\n\\nD</think>E\\n\\nF\\n\\nG\" eos\n"
                                "after \"</think>\\n\\nSo:\": \"42\" eos\n";
    says(rules, "stop same:n=2,ask=So:," DELIMITERS, "Q:", "<think>A\n\nB\n\n</think>\n\nSo:42");
    says(rules, "stop same:n=4,ask=So:," DELIMITERS, "Q:", "<think>A\n\nB\n\nC\n\nD</think>E\n\nF\n\nG");
}

/* The parent of a branch goes on as if there had been none. */
static void a_branch_leaves_no_trace(void **state)
{
    (void)state;
    struct hasten_model *m = world_model("script:hash=3,length=60");
    struct tokens ids = world_ids(m, "Why?");
    struct world a, b;
    struct answer x, y;
    world_open(&a, m, NULL, 0, 2);
    world_open(&b, m, (const char *const[]){"stop same:n=1000,every=sentence,tokens=40", NULL}, 0, 2);
    for (uint64_t seed = 1; seed < 12; seed++) {
        a.law.settings.temperature = b.law.settings.temperature = 1;
        a.law.settings.seed = b.law.settings.seed = seed;
        a.law.n_predict = b.law.n_predict = 200;
        world_answer(&a, ids.ids, ids.n, &x);
        world_answer(&b, ids.ids, ids.n, &y);
        answer_must_equal(&a, &x, &b, &y, "beside branches");
        answer_free(&x);
        answer_free(&y);
    }
    struct hasten_counters ca, cb;
    hasten_engine_counters(a.engine, &ca);
    hasten_engine_counters(b.engine, &cb);
    assert_true(cb.rows > ca.rows); /* there were some */
    assert_int_equal(ca.kv_pages_used, cb.kv_pages_used);
    world_close(&a);
    world_close(&b);
    tokens_free(&ids);
    hasten_model_close(m);
}

/* ---- refusals ------------------------------------------------------------------------------------------------- */

static void refused(const struct hasten_model *m, const char *spec, const char *why)
{
    struct hasten_error err;
    struct hasten_engine *e = NULL;
    struct hasten_engine_settings s;
    const struct hasten_method_use use = {"stop", spec, NULL};
    hasten_engine_default_settings(&s);
    s.methods = &use;
    s.n_methods = 1;
    assert_int_equal(hasten_engine_open(m, &s, &e, &err), HASTEN_ERR_USAGE);
    assert_string_equal(err.message, why);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct hasten_model *m = scripted(thinker);
    refused(
        m, "budget",
        "--stop-when budget: needs a model that marks its thinking: found no delimiter in its vocabulary or chat "
        "template (expected <think>, or the knobs open and close)");
    refused(m, "budget:open=<a>", "--stop-when budget: found open alone (expected open and close)");
    refused(m, "budget:max=5,min=6," DELIMITERS,
            "--stop-when budget:min: found 6 (expected at most max, which is 5)");
    refused(m, "same", "--stop-when same: forks sequences: n_seq_max: found 1 (expected at least 2)");
    refused(m, "buget", "--stop-when: unknown method 'buget' (did you mean budget?)");
    hasten_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(thinking_is_ended),
                                       cmocka_unit_test(thinking_goes_on),
                                       cmocka_unit_test(thinking_begun_by_the_prompt),
                                       cmocka_unit_test(the_neutral_settings_change_nothing),
                                       cmocka_unit_test(what_is_dropped_is_never_shown),
                                       cmocka_unit_test(what_is_put_in_has_bounds),
                                       cmocka_unit_test(reasoning_ends_when_answers_agree),
                                       cmocka_unit_test(only_thinking_is_reasoning),
                                       cmocka_unit_test(a_branch_leaves_no_trace),
                                       cmocka_unit_test(what_cannot_be_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
