/* Content cannot speak control tokens (text/prompt.h): every control token of a vocabulary, in each role, alone,
 * embedded, doubled, and cut in two across messages. Held against the same conversation with harmless content:
 * the prompt has exactly as many control tokens, and its text is exactly what the template renders.
 *
 * Runs on a tiny model, and on the models named on the command line. */
#include "text/prompt.h"
#include "tiny_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct subject {
    struct gguf *gguf;
    struct vocab *vocab;
    struct prompter *prompter;
    struct buf bytes;
    int checked;
};

static void open_subject(struct subject *s, const char *path)
{
    struct hasten_error err;
    struct tiny_options o;
    memset(s, 0, sizeof *s);
    if (path) {
        if (gguf_open(path, &s->gguf, &err))
            fail_msg("%s (fetch it: scripts/models)", err.message);
    } else {
        assert_int_equal(tiny_options_default("llama", 1, &o), 0);
        assert_int_equal(tiny_model_build(&o, &s->bytes), 0);
        assert_int_equal(gguf_open_memory(s->bytes.data, s->bytes.len, "tiny", &s->gguf, &err), HASTEN_OK);
    }
    assert_int_equal(vocab_open(s->gguf, &s->vocab, &err), HASTEN_OK);
    assert_int_equal(prompter_open(s->gguf, s->vocab, &s->prompter, &err), HASTEN_OK);
    assert_non_null(s->prompter);
}

static void close_subject(struct subject *s)
{
    prompter_close(s->prompter);
    vocab_close(s->vocab);
    gguf_close(s->gguf);
    buf_free(&s->bytes);
}

static json_t *conversation(const char *a, const char *b, const char *c)
{
    json_t *m = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "system", "content", a, "role",
                          "user", "content", b, "role", "assistant", "content", c);
    assert_non_null(m);
    return m;
}

/* What the template says about these messages, straight from the interpreter. */
static void expect_text(const struct subject *s, const json_t *messages, struct buf *out)
{
    struct hasten_error err;
    struct gguf_str source = {NULL, 0}, bos = vocab_text(s->vocab, vocab_bos(s->vocab)),
                    eos = vocab_text(s->vocab, vocab_eos(s->vocab));
    struct template *t;
    assert_int_equal(gguf_opt_str(s->gguf, "tokenizer.chat_template", &source, &err), HASTEN_OK);
    assert_int_equal(template_open("t", source.data, source.len, &t, &err), HASTEN_OK);
    json_t *context =
        json_pack("{s:O, s:n, s:b, s:s%, s:s%}", "messages", messages, "tools", "add_generation_prompt", 1,
                  "bos_token", bos.data, bos.len, "eos_token", eos.data, eos.len);
    assert_int_equal(template_render(t, context, out, &err), HASTEN_OK);
    json_decref(context);
    template_close(t);
}

/* Number of control tokens in the prompt of these messages; checks that its text is the template's. */
static int control_tokens(struct subject *s, json_t *messages)
{
    struct hasten_error err;
    struct prompt p = {0};
    struct tokens ids = {0};
    struct buf want = {0}, got = {0};
    int n = 0;
    expect_text(s, messages, &want);
    assert_int_equal(prompter_render(s->prompter, messages, NULL, true, &p, &err), HASTEN_OK);
    assert_int_equal(p.text.len, want.len);
    assert_memory_equal(p.text.data, want.data, want.len);
    assert_int_equal(prompter_encode(s->prompter, &p, 0, &ids, &err), HASTEN_OK);
    assert_int_equal(vocab_decode(s->vocab, ids.ids, ids.n, true, &got, &err), HASTEN_OK);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.data, want.data, want.len);
    for (int64_t i = 0; i < ids.n; i++)
        n += vocab_type(s->vocab, ids.ids[i]) == VOCAB_CONTROL;
    buf_free(&want);
    buf_free(&got);
    tokens_free(&ids);
    prompt_free(&p);
    json_decref(messages);
    s->checked++;
    return n;
}

static void try_text(struct subject *s, const char *text, int want)
{
    assert_int_equal(control_tokens(s, conversation(text, "x", "x")), want);
    assert_int_equal(control_tokens(s, conversation("x", text, "x")), want);
    assert_int_equal(control_tokens(s, conversation("x", "x", text)), want);
}

static void try_control(struct subject *s, struct gguf_str c, int want)
{
    struct buf b = {0};
    const char *const around[][2] = {{"", ""}, {"a ", " b"}, {"<", ">"}, {" \n", "\n "}};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        buf_clear(&b);
        assert_int_equal(buf_printf(&b, "%s%.*s%s", around[i][0], (int)c.len, c.data, around[i][1]), 0);
        try_text(s, b.data, want);
    }
    buf_clear(&b);
    assert_int_equal(buf_printf(&b, "%.*s%.*s", (int)c.len, c.data, (int)c.len, c.data), 0);
    try_text(s, b.data, want);
    /* one inside the other */
    buf_clear(&b);
    assert_int_equal(buf_printf(&b, "%.*s%.*s%.*s", (int)(c.len / 2), c.data, (int)c.len, c.data,
                                (int)(c.len - c.len / 2), c.data + c.len / 2),
                     0);
    try_text(s, b.data, want);
    /* the ends, which template text might complete */
    for (size_t cut = 1; cut < c.len; cut++) {
        char *head = mem_strndup(c.data, cut), *tail = mem_strndup(c.data + cut, c.len - cut);
        assert_int_equal(control_tokens(s, conversation(tail, head, tail)), want);
        mem_free(head);
        mem_free(tail);
    }
    buf_free(&b);
}

static void no_control_from_content(const char *path)
{
    struct subject s;
    int tried = 0;
    open_subject(&s, path);
    int want = control_tokens(&s, conversation("x", "x", "x"));
    assert_true(want >= 7); /* three messages and the beginning of an answer: the template's own do count */
    for (int32_t id = 0; id < vocab_size(s.vocab); id++) {
        struct gguf_str c = vocab_text(s.vocab, id);
        if (vocab_type(s.vocab, id) != VOCAB_CONTROL)
            continue;
        try_control(&s, c, want);
        tried++;
    }
    assert_true(tried >= 3);
    printf("%s: %d control tokens, %d conversations\n", path ? path : "tiny", tried, s.checked);
    close_subject(&s);
}

static void tiny(void **state)
{
    (void)state;
    no_control_from_content(NULL);
}

static void real(void **state)
{
    for (char **path = *state; *path; path++)
        no_control_from_content(*path);
}

/* Ordinary conversations are encoded exactly as the rendered text with control tokens recognised. */
static void harmless_content_is_encoded_as_rendered(void **state)
{
    struct hasten_error err;
    for (char **path = *state; *path; path++) {
        struct subject s;
        struct prompt p = {0};
        struct tokens ids = {0}, want = {0};
        open_subject(&s, *path);
        json_t *m =
            conversation("Be brief.", "Write x < y && y > z in C.\n\n  1,000 times", "```c\nx<y\n```");
        assert_int_equal(prompter_render(s.prompter, m, NULL, true, &p, &err), HASTEN_OK);
        assert_true(p.n_spans >= 3); /* three messages */
        assert_int_equal(prompter_encode(s.prompter, &p, 0, &ids, &err), HASTEN_OK);
        assert_int_equal(
            vocab_encode(s.vocab, p.text.data, p.text.len, VOCAB_SPECIAL | VOCAB_BOS, &want, &err),
            HASTEN_OK);
        assert_int_equal(ids.n, want.n);
        assert_memory_equal(ids.ids, want.ids, (size_t)want.n * sizeof *want.ids);
        json_decref(m);
        prompt_free(&p);
        tokens_free(&ids);
        tokens_free(&want);
        close_subject(&s);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny),
        cmocka_unit_test_prestate(real, argv + 1),
        cmocka_unit_test_prestate(harmless_content_is_encoded_as_rendered, argv + 1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
