/* From files to descriptions: each family's tiny model maps as its options say; a hyper-parameter out of range, a
 * tensor that is missing, misshapen, without kernels or without a use is refused by name. */
#include "base/mem.h"
#include "model/model.h"
#include "tiny_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A file in memory, lied about in one key's value or one tensor's field, mapped. */
static hasten_status map_buf(const struct buf *b, struct model_desc *m, struct hasten_error *err,
                             struct gguf **g)
{
    memset(err, 0, sizeof *err);
    assert_int_equal(gguf_open_memory(b->data, b->len, "tiny.gguf", g, err), HASTEN_OK);
    return model_map(*g, m, err);
}

static hasten_status map_with(struct gguf_writer *w, const struct gguf_lie *lie, struct hasten_error *err)
{
    struct buf b = {0};
    struct gguf *g = NULL;
    struct model_desc m = {0};
    assert_int_equal(gguf_writer_build(w, lie, lie ? 1 : 0, &b), 0);
    const hasten_status st = map_buf(&b, &m, err, &g);
    if (st == HASTEN_OK)
        model_unmap(&m);
    gguf_close(g);
    buf_free(&b);
    return st;
}

static int64_t key_index(struct gguf_writer *w, const char *key)
{
    struct buf b = {0};
    struct gguf *g = NULL;
    struct hasten_error err;
    assert_int_equal(gguf_writer_build(w, NULL, 0, &b), 0);
    assert_int_equal(gguf_open_memory(b.data, b.len, "tiny.gguf", &g, &err), HASTEN_OK);
    const int64_t i = gguf_find(g, key);
    gguf_close(g);
    buf_free(&b);
    if (i < 0)
        fail_msg("the tiny model has no key %s", key);
    return i;
}

static struct gguf_writer *writer_of(const char *family)
{
    struct tiny_options o;
    assert_int_equal(tiny_options_default(family, 3, &o), 0);
    struct gguf_writer *w = tiny_model_writer(&o);
    assert_non_null(w);
    return w;
}

static void families_map_as_they_say(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "qwen2", "gemma3"};
    for (int i = 0; i < 3; i++) {
        struct tiny_options o;
        struct buf b = {0};
        struct gguf *g = NULL;
        struct model_desc m = {0};
        struct hasten_error err;
        assert_int_equal(tiny_options_default(names[i], 3, &o), 0);
        assert_int_equal(tiny_model_build(&o, &b), 0);
        assert_int_equal(map_buf(&b, &m, &err, &g), HASTEN_OK);
        assert_string_equal(m.arch, names[i]);
        assert_int_equal(m.n_layer, o.n_layer);
        assert_int_equal(m.d_model, o.d_model);
        assert_int_equal(m.layers[0].n_head, o.n_head);
        assert_int_equal(m.layers[0].n_head_kv, o.n_head_kv);
        assert_int_equal(m.layers[0].d_k, o.head_dim);
        assert_int_equal(m.layers[0].d_ff, o.d_ff);
        assert_int_equal(m.ropes[0].neox, i != 0);
        assert_int_equal(m.layers[0].bq != NULL, i == 1);
        assert_int_equal(m.layers[0].q_norm != NULL, i == 2);
        assert_int_equal(m.layers[0].attn_post_norm != NULL, i == 2);
        assert_int_equal(m.layers[0].window, i == 2 ? o.window : 0);
        assert_int_equal(m.layers[0].ffn, i == 2 ? FFN_GEGLU : FFN_SWIGLU);
        if (i == 2) {
            assert_int_equal(m.layers[5].window, 0); /* every sixth layer is global */
            assert_int_equal(m.layers[5].rope, 0);
            assert_int_equal(m.layers[0].rope, 1);
            assert_true(m.ropes[1].theta == 10000.0f);
        }
        model_unmap(&m);
        gguf_close(g);
        buf_free(&b);
    }
}

/* A tiny model of a family with one more option, mapped; the caller frees all three. */
static void map_tiny(const char *family, const char *option, struct buf *b, struct gguf **g,
                     struct model_desc *m)
{
    struct tiny_options o;
    struct hasten_error err;
    assert_int_equal(tiny_options_default(family, 3, &o), 0);
    assert_true(!option || tiny_options_set(&o, option) == 0);
    assert_int_equal(tiny_model_build(&o, b), 0);
    assert_int_equal(map_buf(b, m, &err, g), HASTEN_OK);
}

static void experts_map_as_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *family, *option;
        int32_t n_expert, n_used, d_ff;
        bool sinks, biases, clamped;
    } cases[] = {{"llama", "n_expert=5", 5, 2, 128, false, false, false},
                 {"qwen3moe", NULL, 8, 3, 96, false, false, false},
                 {"gpt-oss", NULL, 5, 2, 64, true, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf b = {0};
        struct gguf *g = NULL;
        struct model_desc m = {0};
        const struct weight *w[LAYER_MATRICES];
        map_tiny(cases[i].family, cases[i].option, &b, &g, &m);
        const struct layer *l = &m.layers[1];
        assert_int_equal(l->ffn, FFN_MOE);
        assert_int_equal(l->moe.n_expert, cases[i].n_expert);
        assert_int_equal(l->moe.n_used, cases[i].n_used);
        assert_int_equal(l->d_ff, cases[i].d_ff);
        assert_false(l->moe.over_all);
        assert_int_equal(l->moe.act == EXPERT_SWIGLU_CLAMPED, cases[i].clamped);
        assert_int_equal(l->sinks != NULL, cases[i].sinks);
        assert_int_equal(l->moe.router_bias && l->moe.gate_bias && l->moe.up_bias && l->moe.down_bias,
                         cases[i].biases);
        assert_int_equal(layer_matrices(l, w), 5); /* q, k, v, o, router */
        const struct weight *last = &l->moe.down[cases[i].n_expert - 1];
        const struct gguf_tensor *t = gguf_tensor_find(g, "blk.1.ffn_down_exps.weight");
        assert_ptr_equal(last->data + last->n_rows * last->row_bytes, t->data + t->size_bytes);
        if (cases[i].clamped) {
            assert_int_equal(m.layers[0].window, 48); /* layers 0, 2, ... are local */
            assert_int_equal(m.layers[1].window, 0);
            assert_true(m.ropes[0].yarn);
        }
        model_unmap(&m);
        gguf_close(g);
        buf_free(&b);
    }
}

/* One tensor for each expert, as older files have them: all of one type. */
static void single_experts_must_be_of_one_type(void **state)
{
    (void)state;
    struct tiny_options o;
    struct hasten_error err;
    assert_int_equal(tiny_options_default("llama", 3, &o), 0);
    assert_int_equal(tiny_options_set(&o, "n_expert=3"), 0);
    assert_int_equal(tiny_options_set(&o, "split_experts=1"), 0);
    assert_int_equal(tiny_options_set(&o, "expert_type=F16"), 0);
    struct gguf_writer *w = tiny_model_writer(&o);
    struct buf b = {0};
    struct gguf *g = NULL;
    assert_non_null(w);
    assert_int_equal(map_with(w, NULL, &err), HASTEN_OK);
    assert_int_equal(gguf_writer_build(w, NULL, 0, &b), 0);
    assert_int_equal(gguf_open_memory(b.data, b.len, "tiny.gguf", &g, &err), HASTEN_OK);
    char field[64];
    const int64_t at = gguf_tensor_find(g, "blk.1.ffn_up.2.weight") - gguf_tensor_at(g, 0);
    snprintf(field, sizeof field, "tensor[%lld].type", (long long)at);
    const struct gguf_lie lie = {.field = field, .kind = LIE_VALUE, .value = QUANT_BF16};
    assert_int_equal(map_with(w, &lie, &err), HASTEN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "blk.1.ffn_up.2.weight"));
    assert_non_null(strstr(err.message, "unsupported type BF16 beside expert 0 in F16"));
    gguf_close(g);
    buf_free(&b);
    gguf_writer_free(w);
}

/* What other families do with experts is refused by its key. */
static void other_kinds_of_experts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
    } cases[] = {{"qwen3moe.expert_shared_count", 1},
                 {"qwen3moe.expert_group_count", 4},
                 {"qwen3moe.expert_gating_func", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_writer *w = writer_of("qwen3moe");
        struct hasten_error err;
        gguf_writer_u32(w, cases[i].key, cases[i].value);
        assert_int_equal(map_with(w, NULL, &err), HASTEN_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, cases[i].key));
        gguf_writer_free(w);
    }
    struct gguf_writer *w = writer_of("qwen3moe");
    struct hasten_error err;
    gguf_writer_f32(w, "qwen3moe.expert_weights_scale", 2.5f);
    assert_int_equal(map_with(w, NULL, &err), HASTEN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "qwen3moe.expert_weights_scale: unsupported value 2.5"));
    gguf_writer_free(w);
}

static void keys_out_of_range_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *family, *key;
        uint32_t value;
        hasten_status status;
        const char *says;
    } cases[] = {
        {"llama", "llama.block_count", 0, HASTEN_ERR_FILE, "llama.block_count"},
        {"llama", "llama.block_count", 1025, HASTEN_ERR_FILE, "llama.block_count"},
        {"llama", "llama.block_count", 2, HASTEN_ERR_UNSUPPORTED,
         "tensor 'blk.2."}, /* the file has 3 layers */
        {"llama", "llama.block_count", 4, HASTEN_ERR_FILE, "tensor 'blk.3."},
        {"llama", "llama.embedding_length", 0, HASTEN_ERR_FILE, "llama.embedding_length"},
        {"llama", "llama.embedding_length", 128, HASTEN_ERR_FILE, "found shape"},
        {"llama", "llama.context_length", 0, HASTEN_ERR_FILE, "llama.context_length"},
        {"llama", "llama.feed_forward_length", UINT32_MAX, HASTEN_ERR_FILE, "llama.feed_forward_length"},
        {"llama", "llama.attention.head_count", 0, HASTEN_ERR_FILE, "llama.attention.head_count"},
        {"llama", "llama.attention.head_count", 5000, HASTEN_ERR_FILE, "llama.attention.head_count"},
        {"llama", "llama.attention.head_count_kv", 3, HASTEN_ERR_FILE, "expected a divisor"},
        {"llama", "llama.rope.dimension_count", 7, HASTEN_ERR_FILE, "expected an even number"},
        {"llama", "llama.rope.dimension_count", 4096, HASTEN_ERR_FILE, "llama.rope.dimension_count"},
        {"llama", "llama.vocab_size", 77, HASTEN_ERR_FILE, "llama.vocab_size: found 77"},
        {"qwen2", "qwen2.attention.head_count_kv", 0, HASTEN_ERR_FILE, "qwen2.attention.head_count_kv"},
        {"gemma3", "gemma3.attention.sliding_window", 0, HASTEN_ERR_FILE, "gemma3.attention.sliding_window"},
        {"gemma3", "gemma3.attention.key_length", 1, HASTEN_ERR_FILE, "gemma3.attention.key_length"},
        {"gemma3", "gemma3.attention.value_length", 0, HASTEN_ERR_FILE, "gemma3.attention.value_length"},
        {"qwen3moe", "qwen3moe.expert_count", 0, HASTEN_ERR_FILE, "qwen3moe.expert_count: found 0"},
        {"qwen3moe", "qwen3moe.expert_count", 4097, HASTEN_ERR_FILE, "qwen3moe.expert_count"},
        {"qwen3moe", "qwen3moe.expert_count", 9, HASTEN_ERR_FILE, "found shape [64, 8, 1, 1]"},
        {"qwen3moe", "qwen3moe.expert_used_count", 0, HASTEN_ERR_FILE, "qwen3moe.expert_used_count"},
        {"qwen3moe", "qwen3moe.expert_used_count", 9, HASTEN_ERR_FILE, "expected 1 to 8"},
        {"qwen3moe", "qwen3moe.expert_feed_forward_length", 97, HASTEN_ERR_FILE,
         "found shape [64, 96, 8, 1] (expected [64, 97, 8])"},
        {"gpt-oss", "gpt-oss.expert_count", 0, HASTEN_ERR_FILE, "gpt-oss.expert_count: found 0"},
        {"gpt-oss", "gpt-oss.attention.sliding_window", 0, HASTEN_ERR_FILE,
         "gpt-oss.attention.sliding_window"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_writer *w = writer_of(cases[i].family);
        struct hasten_error err;
        char field[64];
        snprintf(field, sizeof field, "key[%lld].value", (long long)key_index(w, cases[i].key));
        const struct gguf_lie lie = {.field = field, .kind = LIE_VALUE, .value = cases[i].value};
        assert_int_equal(map_with(w, NULL, &err), HASTEN_OK); /* the valid twin */
        const hasten_status st = map_with(w, &lie, &err);
        if (st != cases[i].status || !strstr(err.message, cases[i].says) || !strstr(err.message, "tiny.gguf"))
            fail_msg("%s = %u: status %d, '%s'", cases[i].key, cases[i].value, (int)st, err.message);
        gguf_writer_free(w);
    }
}

static void an_unknown_architecture_lists_the_supported_ones(void **state)
{
    (void)state;
    struct gguf_writer *w = writer_of("llama");
    struct hasten_error err;
    char field[64];
    snprintf(field, sizeof field, "key[%lld].string_bytes", (long long)key_index(w, "general.architecture"));
    const struct gguf_lie lie = {.field = field, .kind = LIE_BYTES, .bytes = "llamb", .len = 5};
    assert_int_equal(map_with(w, &lie, &err), HASTEN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "unsupported architecture 'llamb'"));
    assert_non_null(strstr(err.message, model_families()));
    gguf_writer_free(w);
}

static void a_tensor_without_a_use_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_q_norm.weight", "blk.3.attn_norm.weight",
                                        "rope_factors_short.weight", "blk.0.ffn_gate_inp.weight",
                                        "something.else"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct gguf_writer *w = writer_of("llama");
        struct hasten_error err;
        gguf_writer_tensor(w, names[i], QUANT_F32, 1, (const uint64_t[]){64}, NULL, 64 * sizeof(float));
        assert_int_equal(map_with(w, NULL, &err), HASTEN_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, names[i]));
        gguf_writer_free(w);
    }
}

static void a_missing_tensor_is_named(void **state)
{
    (void)state;
    struct gguf_writer *w = writer_of("gemma3");
    struct hasten_error err;
    /* Another name of the same length takes its place. */
    struct buf b = {0};
    struct gguf *g = NULL;
    assert_int_equal(gguf_writer_build(w, NULL, 0, &b), 0);
    assert_int_equal(gguf_open_memory(b.data, b.len, "tiny.gguf", &g, &err), HASTEN_OK);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        char field[64], wrong[64];
        const char *name = gguf_tensor_at(g, i)->name;
        if (strcmp(name, "output.weight") == 0)
            continue; /* the head may be tied */
        snprintf(field, sizeof field, "tensor[%lld].name", (long long)i);
        snprintf(wrong, sizeof wrong, "x%s", name + 1);
        const struct gguf_lie lie = {.field = field, .kind = LIE_BYTES, .bytes = wrong, .len = strlen(wrong)};
        assert_int_equal(map_with(w, &lie, &err), HASTEN_ERR_FILE);
        if (!strstr(err.message, name) || !strstr(err.message, "missing"))
            fail_msg("without %s: '%s'", name, err.message);
    }
    gguf_close(g);
    buf_free(&b);
    gguf_writer_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_map_as_they_say),
        cmocka_unit_test(experts_map_as_they_say),
        cmocka_unit_test(single_experts_must_be_of_one_type),
        cmocka_unit_test(other_kinds_of_experts_are_refused),
        cmocka_unit_test(keys_out_of_range_are_named),
        cmocka_unit_test(an_unknown_architecture_lists_the_supported_ones),
        cmocka_unit_test(a_tensor_without_a_use_is_refused),
        cmocka_unit_test(a_missing_tensor_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
