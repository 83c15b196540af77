/* The command's parts when memory runs out: a /regen that fails loses nothing, a JSON builder gives the whole or
 * nothing. Every allocation fails in turn. */
#include "cli/chat.h"
#include "tiny_model.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MODEL_FILE "test_chat.gguf"
#define QUESTION "tell me of the water"

struct subject {
    struct session session;
    struct sample_args args;
    struct option_group groups[1];
    struct sampling law;
    struct ui ui;
    struct chat chat;
};

static void open_subject(struct subject *s, bool raw)
{
    struct hasten_error err;
    struct hasten_engine_settings settings;
    memset(s, 0, sizeof *s);
    s->ui.quiet = true;
    hasten_engine_default_settings(&settings);
    settings.n_threads = 1;
    settings.n_ctx = 256;
    if (session_open(MODEL_FILE, &(struct model_args){0}, &settings, &s->ui, &s->session, &err))
        fail_msg("%s", err.message);
    sample_args_init(&s->args);
    s->groups[0] = sample_group(&s->args);
    if (sampling_open(&s->args, s->groups, &s->session, &s->law, &err))
        fail_msg("%s", err.message);
    s->law.settings.seed = 11;
    s->law.settings.temperature = 1.5f;
    s->law.n_predict = 8;
    s->law.logprobs = true;
    s->law.settings.n_logprobs = 2;
    if (chat_open(&s->chat, &s->session, &s->law, &s->ui, raw, NULL, &err))
        fail_msg("%s", err.message);
}

static void close_subject(struct subject *s)
{
    chat_close(&s->chat);
    sampling_close(&s->law);
    session_close(&s->session);
}

static void ask(struct subject *s, struct answer *a)
{
    struct hasten_error err;
    if (chat_turn(&s->chat, QUESTION, strlen(QUESTION), NULL, NULL, a, &err))
        fail_msg("%s", err.message);
}

/* The answer of an undisturbed repetition, to which each later one must be equal. */
static void repeat_survives(bool raw)
{
    struct subject s;
    struct hasten_error err;
    struct answer first = {0}, again = {0};
    uint64_t failed = 0;
    open_subject(&s, raw);
    assert_false(chat_can_repeat(&s.chat));
    ask(&s, &first);
    assert_true(chat_can_repeat(&s.chat));
    const int64_t n_ids = s.chat.ids.n;
    for (uint64_t n = 1;; n++) {
        struct answer a = {0};
        mem_fail_at(n, 1);
        hasten_status st = chat_repeat(&s.chat, NULL, NULL, &a, &err);
        const uint64_t injected = mem_fail_count();
        mem_fail_at(0, 0);
        answer_free(&a);
        assert_true(st == HASTEN_OK || injected > 0);
        assert_true(chat_can_repeat(&s.chat));
        assert_int_equal(json_array_size(s.chat.messages), raw ? 0 : 2);
        if (raw)
            assert_int_equal(s.chat.ids.n, n_ids);
        failed += st != HASTEN_OK;
        if (injected == 0)
            break;
    }
    assert_true(failed > 10);
    if (chat_repeat(&s.chat, NULL, NULL, &again, &err))
        fail_msg("%s", err.message);
    assert_int_equal(again.ids.n, first.ids.n); /* the same question, seed and stream */
    assert_memory_equal(again.ids.ids, first.ids.ids, (size_t)first.ids.n * sizeof *first.ids.ids);
    answer_free(&first);
    answer_free(&again);
    close_subject(&s);
}

static void regen_with_template(void **state)
{
    (void)state;
    repeat_survives(false);
}

static void regen_raw(void **state)
{
    (void)state;
    repeat_survives(true);
}

static void json_is_whole_or_nothing(void **state)
{
    (void)state;
    struct subject s;
    struct answer a = {0};
    uint64_t failed = 0;
    open_subject(&s, true);
    ask(&s, &a);
    assert_true(a.ids.n > 2);
    json_t *v = answer_json(&s.session, &s.law, &a);
    char *want = json_dumps(v, JSON_COMPACT);
    assert_non_null(want);
    json_decref(v);
    for (uint64_t n = 1;; n++) {
        mem_fail_at(n, 0);
        v = answer_json(&s.session, &s.law, &a);
        const uint64_t injected = mem_fail_count();
        mem_fail_at(0, 0);
        if (v) {
            char *got = json_dumps(v, JSON_COMPACT);
            assert_string_equal(got, want);
            mem_free(got);
            json_decref(v);
        }
        failed += v == NULL;
        if (injected == 0)
            break;
    }
    assert_true(failed > 50);
    mem_free(want);
    answer_free(&a);
    close_subject(&s);
}

static void adding_nothing_gives_nothing(void **state)
{
    (void)state;
    json_t *list = json_array(), *object = json_object(), *none = NULL;
    json_add(&list, json_integer(1));
    assert_int_equal(json_array_size(list), 1);
    json_add(&list, NULL);
    assert_null(list);
    json_add(&list, json_integer(2));
    assert_null(list);
    json_put(&object, "a", json_integer(1));
    assert_int_equal(json_object_size(object), 1);
    json_put(&object, "b", NULL);
    assert_null(object);
    json_put(&none, "a", json_integer(1));
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regen_with_template),
        cmocka_unit_test(regen_raw),
        cmocka_unit_test(json_is_whole_or_nothing),
        cmocka_unit_test(adding_nothing_gives_nothing),
    };
    struct tiny_options o;
    json_set_alloc_funcs(mem_alloc, mem_free);
    if (tiny_options_default("llama", 1, &o) || tiny_model_save(&o, MODEL_FILE)) {
        fprintf(stderr, MODEL_FILE ": cannot be written\n");
        return 1;
    }
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    remove(MODEL_FILE);
    return rc;
}
