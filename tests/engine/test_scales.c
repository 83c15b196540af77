/* Scales beside matrices (<part>.scale, as files with NVFP4 have them). Powers of two that cancel out, on v and o, on up
 * and down, of each expert its own, change no bit of the logits; that of the head multiplies them; each alone changes
 * them. With few rows and with many, which take another way through the feed-forward block. Damaged ones are refused. */
#include "harness.h"
#include "tiny_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "scales_test.gguf"
#define N 70
#define EXPERTS 8

struct scale {
    const char *name;
    uint64_t n;
    float v[EXPERTS];
};

static struct gguf_writer *writer_of(const char *family)
{
    struct tiny_options o;
    assert_int_equal(tiny_options_default(family, 11, &o), 0);
    assert_int_equal(tiny_options_set(&o, "n_layer=1"), 0);
    assert_int_equal(tiny_options_set(&o, "tied=0"), 0);
    struct gguf_writer *w = tiny_model_writer(&o);
    assert_non_null(w);
    return w;
}

static void save(const char *family, const struct scale *s, size_t n)
{
    struct gguf_writer *w = writer_of(family);
    for (size_t i = 0; i < n; i++)
        gguf_writer_tensor(w, s[i].name, QUANT_F32, 1, &s[i].n, s[i].v, s[i].n * sizeof *s[i].v);
    assert_int_equal(gguf_writer_save(w, NULL, 0, MODEL), 0);
    gguf_writer_free(w);
}

/* Logits of the model with these scales: one token a step, or all at once; [N × n_vocab]. */
static float *logits_with(const char *family, const struct scale *s, size_t n, int chunk, bool reference,
                          int32_t *n_vocab)
{
    save(family, s, n);
    struct hasten_model *m = open_or_exit(MODEL);
    int32_t tokens[N];
    const struct run_spec spec = {
        .n_threads = 2, .chunk = chunk, .n_batch = N, .reference = reference, .kv = HASTEN_KV_F32};
    *n_vocab = hasten_model_n_vocab(m);
    random_tokens(3, *n_vocab, tokens, N);
    float *logits = run_logits(m, &spec, tokens, N);
    hasten_model_close(m);
    return logits;
}

static void check_family(const char *family, const struct scale *balanced, size_t n, bool reference)
{
    const struct scale head = {"output.scale", 1, {2.0f}};
    for (int chunk = 0; chunk < 2; chunk++) {
        int32_t n_vocab;
        float *plain = logits_with(family, NULL, 0, chunk, reference, &n_vocab);
        float *same = logits_with(family, balanced, n, chunk, reference, &n_vocab);
        assert_int_equal(first_difference(plain, same, N, n_vocab), -1);
        free(same);
        for (size_t i = 0; i < n; i++) {
            float *other = logits_with(family, &balanced[i], 1, chunk, reference, &n_vocab);
            const bool says_nothing = strstr(balanced[i].name, "input_scale");
            assert_int_equal(first_difference(plain, other, N, n_vocab), says_nothing ? -1 : 0);
            free(other);
        }
        float *twice = logits_with(family, &head, 1, chunk, reference, &n_vocab);
        for (int64_t i = 0; i < (int64_t)N * n_vocab; i++)
            assert_true(twice[i] == 2.0f * plain[i]);
        free(twice);
        free(plain);
    }
}

static const struct scale dense[] = {{"blk.0.attn_v.scale", 1, {4.0f}},
                                     {"blk.0.attn_output.scale", 1, {0.25f}},
                                     {"blk.0.ffn_up.scale", 1, {0.5f}},
                                     {"blk.0.ffn_down.scale", 1, {2.0f}},
                                     {"blk.0.ffn_up.input_scale", 1, {3.0f}}};

static void a_scale_multiplies_the_product_of_its_matrix(void **state)
{
    (void)state;
    check_family("llama", dense, sizeof dense / sizeof *dense, false);
    check_family("llama", dense, sizeof dense / sizeof *dense, true);
}

static void each_expert_has_its_own(void **state)
{
    (void)state;
    const struct scale experts[] = {
        {"blk.0.ffn_up_exps.scale", EXPERTS, {1, 2, 4, 8, 0.5f, 0.25f, 2, 16}},
        {"blk.0.ffn_down_exps.scale", EXPERTS, {1, 0.5f, 0.25f, 0.125f, 2, 4, 0.5f, 0.0625f}}};
    check_family("qwen3moe", experts, 2, false);
}

static void refuse(const struct scale *s, const char *why)
{
    struct hasten_model *m = NULL;
    struct hasten_error err = {0};
    save("llama", s, 1);
    assert_int_not_equal(hasten_model_open(MODEL, &m, &err), HASTEN_OK);
    assert_non_null(strstr(err.message, s->name));
    assert_non_null(strstr(err.message, why));
}

static void damaged_scales_are_refused_by_name(void **state)
{
    (void)state;
    refuse(&(struct scale){"blk.0.attn_q.scale", 1, {__builtin_nanf("")}}, "expected a finite number");
    refuse(&(struct scale){"blk.0.attn_q.scale", 2, {1, 1}}, "expected [1]");
    refuse(&(struct scale){"token_embd.scale", 1, {2}}, "unsupported");
    refuse(&(struct scale){"blk.7.attn_q.scale", 1, {2}}, "unsupported");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scale_multiplies_the_product_of_its_matrix),
        cmocka_unit_test(each_expert_has_its_own),
        cmocka_unit_test(damaged_scales_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
