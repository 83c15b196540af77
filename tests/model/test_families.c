/* What the dense families make of their files: windows, caps, fused matrices, biases, scalings of rotary embeddings;
 * and what of it is refused by name, so that nothing is answered wrong without a word. */
#include "base/mem.h"
#include "model/model.h"
#include "tiny_model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A model in memory. */
struct mapped {
    struct gguf_writer *w;
    struct buf file;
    struct gguf *g;
    struct model_desc m;
    struct hasten_error err;
};

static struct gguf_writer *writer_of(const char *family, const char *option)
{
    struct tiny_options o;
    assert_int_equal(tiny_options_default(family, 3, &o), 0);
    if (option)
        assert_int_equal(tiny_options_set(&o, option), 0);
    struct gguf_writer *w = tiny_model_writer(&o);
    assert_non_null(w);
    return w;
}

/* Maps what w writes, which it frees; the caller calls unmap. */
static hasten_status map(struct mapped *x, struct gguf_writer *w)
{
    memset(x, 0, sizeof *x);
    x->w = w;
    assert_int_equal(gguf_writer_build(w, NULL, 0, &x->file), 0);
    assert_int_equal(gguf_open_memory(x->file.data, x->file.len, "tiny.gguf", &x->g, &x->err), HASTEN_OK);
    return model_map(x->g, &x->m, &x->err);
}

static void unmap(struct mapped *x)
{
    model_unmap(&x->m);
    gguf_close(x->g);
    buf_free(&x->file);
    gguf_writer_free(x->w);
}

static void map_ok(struct mapped *x, struct gguf_writer *w)
{
    if (map(x, w))
        fail_msg("%s", x->err.message);
}

static void refuses(struct gguf_writer *w, hasten_status status, const char *says)
{
    struct mapped x;
    const hasten_status st = map(&x, w);
    if (st != status || !strstr(x.err.message, says) || !strstr(x.err.message, "tiny.gguf"))
        fail_msg("expected status %d and '%s', found %d, '%s'", (int)status, says, (int)st, x.err.message);
    unmap(&x);
}

static void qwen3_has_norms_of_heads(void **state)
{
    (void)state;
    struct mapped x;
    map_ok(&x, writer_of("qwen3", NULL));
    assert_int_equal(x.m.layers[2].d_k, 32); /* 4 heads of 32 in a width of 64 */
    assert_non_null(x.m.layers[2].q_norm);
    assert_non_null(x.m.layers[2].k_norm);
    assert_null(x.m.layers[2].bq);
    assert_true(x.m.ropes[0].neox);
    unmap(&x);
}

static void gemma2_has_caps_and_every_other_window(void **state)
{
    (void)state;
    struct mapped x;
    map_ok(&x, writer_of("gemma2", NULL));
    assert_true(x.m.logit_softcap == 10.0f);
    assert_true(x.m.embd_scale == 8.0f);
    for (int i = 0; i < 4; i++) {
        assert_true(x.m.layers[i].softcap == 6.0f);
        assert_int_equal(x.m.layers[i].window, i % 2 == 0 ? 96 : 0);
        assert_int_equal(x.m.layers[i].ffn, FFN_GEGLU);
        assert_non_null(x.m.layers[i].ffn_post_norm);
        assert_true(x.m.layers[i].q_scale == 1.0f / sqrtf(32.0f));
    }
    unmap(&x);
    map_ok(&x, writer_of("gemma2", "n_layer=46")); /* the 27B scales by width / heads */
    assert_true(x.m.layers[0].q_scale == 0.25f);
    unmap(&x);
    struct gguf_writer *w = writer_of("gemma2", NULL);
    gguf_writer_f32(w, "gemma2.attention.scale", 0.125f);
    map_ok(&x, w);
    assert_true(x.m.layers[3].q_scale == 0.125f);
    unmap(&x);
}

static void phi3_takes_its_matrices_apart(void **state)
{
    (void)state;
    struct mapped x;
    map_ok(&x, writer_of("phi3", NULL));
    const struct layer *l = &x.m.layers[1];
    const struct gguf_tensor *qkv = gguf_tensor_find(x.g, "blk.1.attn_qkv.weight"),
                             *up = gguf_tensor_find(x.g, "blk.1.ffn_up.weight");
    assert_ptr_equal(l->wq.data, qkv->data);
    assert_ptr_equal(l->wk.data, (const uint8_t *)qkv->data + 64 * qkv->row_bytes);
    assert_ptr_equal(l->wv.data, (const uint8_t *)qkv->data + 96 * qkv->row_bytes);
    assert_int_equal(l->wq.n_rows + l->wk.n_rows + l->wv.n_rows, qkv->ne[1]);
    assert_ptr_equal(l->w_gate.data, up->data);
    assert_ptr_equal(l->w_up.data, (const uint8_t *)up->data + 128 * up->row_bytes);
    assert_int_equal(l->w_up.n_rows, 128);
    assert_int_equal(x.m.ropes[0].n_rot, 12);
    assert_int_equal(x.m.rope_switch, 160);
    assert_int_equal(x.m.ropes[0].beyond, 1);
    assert_true(x.m.ropes[1].neox && x.m.ropes[1].magnitude == 1.25f);
    assert_true(x.m.ropes[0].factors[5] == 1.5f && x.m.ropes[1].factors[5] == 24.0f);
    unmap(&x);
    map_ok(&x, writer_of("phi3", "original=4096")); /* never longer than its context */
    assert_int_equal(x.m.rope_switch, 0);
    unmap(&x);
}

static void llama_takes_windows_and_biases_where_they_are(void **state)
{
    (void)state;
    struct mapped x;
    map_ok(&x, writer_of("llama", "window=70"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(x.m.layers[i].window, 70);
    unmap(&x);
    map_ok(&x, writer_of("llama", "biases=1"));
    const struct layer *l = &x.m.layers[0];
    assert_true(l->bq && l->bk && l->bv && l->bo && l->b_gate && l->b_up && l->b_down);
    unmap(&x);
}

static void a_pattern_of_windows_may_be_a_list(void **state)
{
    (void)state;
    static const uint8_t pattern[] = {0, 1, 1, 0};
    struct mapped x;
    struct gguf_writer *w = writer_of("gemma2", NULL);
    gguf_writer_array(w, "gemma2.attention.sliding_window_pattern", GGUF_BOOL, pattern, 4);
    map_ok(&x, w);
    for (int i = 0; i < 4; i++)
        assert_int_equal(x.m.layers[i].window, pattern[i] ? 96 : 0);
    unmap(&x);
    w = writer_of("gemma2", NULL);
    gguf_writer_array(w, "gemma2.attention.sliding_window_pattern", GGUF_BOOL, pattern, 3);
    refuses(w, HASTEN_ERR_FILE, "sliding_window_pattern: found 3 values of type");
    w = writer_of("gemma2", NULL);
    gguf_writer_array(w, "gemma2.attention.sliding_window_pattern", GGUF_F32, (const float[4]){0}, 4);
    refuses(w, HASTEN_ERR_FILE, "expected 4 booleans");
}

static void frequencies(const char *option, double out[8], struct rope_spec *spec)
{
    struct mapped x;
    map_ok(&x, writer_of("llama", option));
    *spec = x.m.ropes[0];
    rope_frequencies(&x.m.ropes[0], out);
    unmap(&x);
}

/* By hand, 16 values rotated with base 100,000: frequencies 100000^(-i/8), original context 256. */
static void scalings_give_the_frequencies_of_their_papers(void **state)
{
    (void)state;
    double plain[8], f[8];
    struct rope_spec s;
    frequencies(NULL, plain, &s);
    assert_true(plain[0] == 1 && fabs(plain[4] - 0.0031622776601683795) < 1e-15);
    assert_true(s.magnitude == 1.0f);
    frequencies("rope=linear", f, &s);
    for (int i = 0; i < 8; i++)
        assert_true(f[i] == plain[i] / 4);
    /* Pairs turning 32 times and once: 16 ln(256 / 64 pi) / 2 ln 100000 = 0.17 -> 0, and 2.58 -> 3. */
    frequencies("rope=yarn", f, &s);
    for (int i = 0; i < 8; i++) {
        const double share = i > 3 ? 1 : i / 3.0;
        assert_true(fabs(f[i] - plain[i] * (1 - share + share / 4)) < 1e-15);
    }
    assert_true(fabsf(s.magnitude - 1.1386294f) < 1e-6f); /* 0.1 ln 4 + 1 */
    /* Turns 40.7, 9.7, 2.29, 0.54 ...: kept from 4 on, divided by 8 up to 1, between them a mean. */
    frequencies("rope=llama3_keys", f, &s);
    const double turns = 256 * plain[2] / 6.283185307179586, keep = (turns - 1) / 3;
    for (int i = 0; i < 8; i++) {
        const double want = i < 2 ? 1 : i > 2 ? 0.125 : keep + (1 - keep) / 8;
        assert_true(fabs(f[i] / plain[i] - want) < 1e-6);
    }
}

static void an_older_name_of_the_factor_is_read(void **state)
{
    (void)state;
    struct mapped x;
    struct gguf_writer *w = writer_of("llama", NULL);
    gguf_writer_f32(w, "llama.rope.scale_linear", 4);
    map_ok(&x, w);
    assert_true(x.m.ropes[0].linear_scale == 4.0f);
    unmap(&x);
    w = writer_of("llama", NULL);
    gguf_writer_f32(w, "llama.rope.scaling.factor", 0); /* as some files say 1 */
    map_ok(&x, w);
    assert_true(x.m.ropes[0].linear_scale == 1.0f);
    unmap(&x);
}

static void bad_scalings_are_refused_by_key(void **state)
{
    (void)state;
    struct gguf_writer *w = writer_of("llama", NULL);
    gguf_writer_str(w, "llama.rope.scaling.type", "dynamic");
    refuses(w, HASTEN_ERR_UNSUPPORTED, "llama.rope.scaling.type: unsupported value 'dynamic'");
    w = writer_of("llama", "rope=linear");
    gguf_writer_f32(w, "llama.rope.scaling.alpha", 1000);
    refuses(w, HASTEN_ERR_UNSUPPORTED, "llama.rope.scaling.alpha: unsupported");
    w = writer_of("llama", "rope=yarn");
    gguf_writer_f32(w, "llama.rope.scaling.yarn_log_multiplier", 0.1f);
    refuses(w, HASTEN_ERR_UNSUPPORTED, "yarn_log_multiplier: unsupported");
    w = writer_of("llama", "rope=yarn");
    gguf_writer_f32(w, "llama.rope.scaling.yarn_beta_slow", 64);
    refuses(w, HASTEN_ERR_FILE, "beta_fast not below beta_slow");
    w = writer_of("llama", NULL);
    gguf_writer_f32(w, "llama.rope.scaling.factor", -2);
    refuses(w, HASTEN_ERR_FILE, "llama.rope.scaling.factor: found -2");
    w = writer_of("llama", NULL);
    gguf_writer_str(w, "llama.rope.scaling.type", "llama3");
    refuses(w, HASTEN_ERR_FILE, "low_freq_factor");
    w = writer_of("llama", NULL);
    gguf_writer_str(w, "llama.rope.scaling.type", "longrope");
    refuses(w, HASTEN_ERR_FILE, "tensor 'rope_factors_short.weight': missing");
}

static void bad_factors_are_named_with_their_place(void **state)
{
    (void)state;
    static const float bad[][8] = {
        {1, 1, 0, 1, 1, 1, 1, 1}, {1, 1, NAN, 1, 1, 1, 1, 1}, {1, 1, INFINITY, 1, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gguf_writer *w = writer_of("llama", NULL);
        gguf_writer_tensor(w, "rope_freqs.weight", QUANT_F32, 1, (const uint64_t[]){8}, bad[i],
                           sizeof bad[i]);
        refuses(w, HASTEN_ERR_FILE, "tensor 'rope_freqs.weight': found");
        w = writer_of("llama", NULL);
        gguf_writer_tensor(w, "rope_freqs.weight", QUANT_F32, 1, (const uint64_t[]){7}, bad[i], 28);
        refuses(w, HASTEN_ERR_FILE, "expected [8]");
    }
    struct gguf_writer *w = writer_of("llama", "rope=llama3_keys"); /* both: which one would hold? */
    gguf_writer_tensor(w, "rope_freqs.weight", QUANT_F32, 1, (const uint64_t[]){8}, NULL, 32);
    refuses(w, HASTEN_ERR_UNSUPPORTED, "tensor 'rope_freqs.weight': unsupported");
}

/* Layers that differ: a list where one number is expected. */
static void a_list_of_sizes_is_refused_by_key(void **state)
{
    (void)state;
    static const int32_t sizes[] = {4, 4, 2};
    static const char *const keys[] = {"llama.attention.head_count_kv", "llama.feed_forward_length"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct mapped x;
        struct gguf_writer *w = writer_of("llama", NULL);
        map_ok(&x, w);
        const int64_t at = gguf_find(x.g, keys[i]);
        /* The same file with the key's value replaced: elem type, count, elements. */
        uint8_t list[4 + 8 + sizeof sizes] = {GGUF_I32, 0, 0, 0, 3};
        memcpy(list + 12, sizes, sizeof sizes);
        char type[64], value[64];
        snprintf(type, sizeof type, "key[%lld].type", (long long)at);
        snprintf(value, sizeof value, "key[%lld].value", (long long)at);
        const struct gguf_lie lies[] = {
            {.field = type, .kind = LIE_VALUE, .value = GGUF_ARRAY},
            {.field = value, .kind = LIE_BYTES, .bytes = list, .len = sizeof list}};
        struct buf b = {0};
        struct gguf *g = NULL;
        struct model_desc m;
        struct hasten_error err = {0};
        assert_int_equal(gguf_writer_build(w, lies, 2, &b), 0);
        assert_int_equal(gguf_open_memory(b.data, b.len, "tiny.gguf", &g, &err), HASTEN_OK);
        assert_int_equal(model_map(g, &m, &err), HASTEN_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, keys[i]));
        assert_non_null(strstr(err.message, "unsupported list of values"));
        gguf_close(g);
        buf_free(&b);
        unmap(&x);
    }
}

static void keys_that_would_change_the_arithmetic_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *family, *key;
        float value;
    } bad[] = {
        {"llama", "llama.logit_scale", 0.0625f},        {"llama", "llama.residual_scale", 0.22f},
        {"llama", "llama.embedding_scale", 12},         {"llama", "llama.attention.clamp_kqv", 8},
        {"llama", "llama.attention.max_alibi_bias", 8}, {"llama", "llama.final_logit_softcapping", 30},
        {"qwen3", "qwen3.attn_logit_softcapping", 50},  {"qwen3", "qwen3.attention.temperature_scale", 0.1f},
        {"phi3", "phi3.final_logit_softcapping", 30},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gguf_writer *w = writer_of(bad[i].family, NULL);
        gguf_writer_f32(w, bad[i].key, bad[i].value);
        refuses(w, HASTEN_ERR_UNSUPPORTED, bad[i].key);
    }
    struct gguf_writer *w = writer_of("qwen2", NULL);
    gguf_writer_u32(w, "qwen2.attention.sliding_window", 2048);
    refuses(w, HASTEN_ERR_UNSUPPORTED, "qwen2.attention.sliding_window: unsupported value 2048");
    w = writer_of("qwen3", NULL);
    gguf_writer_bool(w, "qwen3.attention.causal", false);
    refuses(w, HASTEN_ERR_UNSUPPORTED, "qwen3.attention.causal");
}

static void neutral_values_of_such_keys_are_taken(void **state)
{
    (void)state;
    struct mapped x;
    struct gguf_writer *w = writer_of("llama", NULL);
    gguf_writer_f32(w, "llama.logit_scale", 1);
    gguf_writer_f32(w, "llama.residual_scale", 0);
    gguf_writer_bool(w, "llama.attention.causal", true);
    gguf_writer_bool(w, "llama.use_parallel_residual", false);
    map_ok(&x, w);
    unmap(&x);
    w = writer_of("qwen2", NULL);
    gguf_writer_u32(w, "qwen2.attention.sliding_window", 32768); /* hides nothing of 4,096 */
    map_ok(&x, w);
    unmap(&x);
}

static void kinds_to_come_are_refused_by_what_they_lack(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"deepseek2", "mla"}, {"qwen3next", "gdn"}, {"kimi-linear", "kda"}, {"llada", "diffusion"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_writer *w = gguf_writer_new();
        assert_non_null(w);
        gguf_writer_str(w, "general.architecture", cases[i][0]);
        struct mapped x;
        assert_int_equal(map(&x, w), HASTEN_ERR_UNSUPPORTED);
        assert_non_null(strstr(x.err.message, "unsupported architecture"));
        assert_non_null(strstr(x.err.message, cases[i][0]));
        assert_non_null(strstr(x.err.message, cases[i][1]));
        assert_non_null(strstr(x.err.message, model_families()));
        unmap(&x);
    }
}

/* Any number in any key: the file is taken, with numbers that can be computed with, or refused with a sentence. */
static void any_number_in_any_key_is_taken_or_refused(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "qwen3", "gemma2", "phi3"};
    static const char *const ropes[] = {"rope=yarn_keys", "rope=llama3_keys", "rope=linear", "rope=longrope"};
    static const uint64_t values[] = {0,          1,          2,          3,          97,
                                      0x7fffffff, 0x80000000, 0xffffffff, 0x7f800000, 0x7fc00000,
                                      0x3f800000, 0xbf800000, 0x00000001, 0x7f7fffff, 0x2edbe6ff};
    int n_taken = 0, n_refused = 0;
    for (int f = 0; f < 4; f++) {
        struct gguf_writer *w = writer_of(families[f], ropes[f]);
        for (uint64_t key = 0; key < gguf_writer_n_keys(w); key++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                char field[64];
                snprintf(field, sizeof field, "key[%llu].value", (unsigned long long)key);
                const struct gguf_lie lie = {.field = field, .kind = LIE_VALUE, .value = values[v]};
                struct buf b = {0};
                struct gguf *g = NULL;
                struct model_desc m;
                struct hasten_error err = {0};
                double at[64];
                if (gguf_writer_build(w, &lie, 1, &b) == 0 &&
                    gguf_open_memory(b.data, b.len, "tiny.gguf", &g, &err) == HASTEN_OK) {
                    if (model_map(g, &m, &err)) {
                        assert_non_null(strstr(err.message, "tiny.gguf: "));
                        n_refused++;
                    } else {
                        for (int32_t r = 0; r < m.n_ropes; r++) {
                            rope_frequencies(&m.ropes[r], at);
                            for (int32_t i = 0; i < m.ropes[r].n_rot / 2; i++)
                                assert_true(at[i] >= 0 && at[i] <= 1e6);
                            assert_true(isfinite(m.ropes[r].magnitude) && m.ropes[r].magnitude > 0);
                        }
                        model_unmap(&m);
                        n_taken++;
                    }
                }
                gguf_close(g);
                buf_free(&b);
            }
        gguf_writer_free(w);
    }
    assert_true(n_taken > 100 && n_refused > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_has_norms_of_heads),
        cmocka_unit_test(gemma2_has_caps_and_every_other_window),
        cmocka_unit_test(phi3_takes_its_matrices_apart),
        cmocka_unit_test(llama_takes_windows_and_biases_where_they_are),
        cmocka_unit_test(a_pattern_of_windows_may_be_a_list),
        cmocka_unit_test(scalings_give_the_frequencies_of_their_papers),
        cmocka_unit_test(an_older_name_of_the_factor_is_read),
        cmocka_unit_test(bad_scalings_are_refused_by_key),
        cmocka_unit_test(bad_factors_are_named_with_their_place),
        cmocka_unit_test(a_list_of_sizes_is_refused_by_key),
        cmocka_unit_test(keys_that_would_change_the_arithmetic_are_refused),
        cmocka_unit_test(neutral_values_of_such_keys_are_taken),
        cmocka_unit_test(any_number_in_any_key_is_taken_or_refused),
        cmocka_unit_test(kinds_to_come_are_refused_by_what_they_lack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
