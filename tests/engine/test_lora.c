/* Adapters on tiny models (argv: a llama, a mixture of experts, a phi3): strength 0 leaves every bit, two adapters add
 * up, an engine keeps its own copy and what the plan says, nothing is allocated while tokens flow, and every file that
 * cannot be applied is refused by name. The numbers: tests/reference/check_lora.py; the bits: `bits`. */
#include "base/limits.h"
#include "base/mem.h"
#include "harness.h"
#include "model/lora.h"
#include "tiny_lora.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_TOKENS 40

static struct hasten_model *llama, *mixture, *phi3;

static struct hasten_lora *random_lora(const struct hasten_model *m, uint64_t seed, int32_t rank)
{
    struct tiny_lora o = tiny_lora_default(seed);
    struct gguf_writer *w;
    struct buf file = {0};
    struct gguf *g = NULL;
    struct hasten_lora *l = NULL;
    struct hasten_error err = {0};
    o.rank = rank;
    w = tiny_lora_writer(model_gguf(m), &o);
    assert_non_null(w);
    assert_int_equal(gguf_writer_build(w, NULL, 0, &file), 0);
    die_unless_ok(gguf_open_memory(file.data, file.len, "adapter", &g, &err), &err, "reading an adapter");
    die_unless_ok(lora_read(m, g, &l, &err), &err, "reading an adapter");
    gguf_close(g);
    gguf_writer_free(w);
    buf_free(&file);
    return l;
}

static float *logits_with(const struct hasten_model *m, const struct hasten_lora_use *use, int n)
{
    int32_t tokens[N_TOKENS];
    random_tokens(3, hasten_model_n_vocab(m), tokens, N_TOKENS);
    return run_logits(m, &(struct run_spec){.n_threads = 2, .n_batch = 64, .loras = use, .n_loras = n},
                      tokens, N_TOKENS);
}

static bool same(const struct hasten_model *m, const float *a, const float *b)
{
    return first_difference(a, b, N_TOKENS, hasten_model_n_vocab(m)) < 0;
}

static void strength_zero_leaves_every_bit(void **state)
{
    (void)state;
    const struct hasten_model *const models[] = {llama, mixture, phi3};
    for (size_t i = 0; i < 3; i++) {
        struct hasten_lora *l = random_lora(models[i], 1, 4);
        float *plain = logits_with(models[i], NULL, 0);
        float *none = logits_with(models[i], &(struct hasten_lora_use){l, 0.0f}, 1);
        float *full = logits_with(models[i], &(struct hasten_lora_use){l, 1.0f}, 1);
        float *half = logits_with(models[i], &(struct hasten_lora_use){l, 0.5f}, 1);
        assert_true(same(models[i], plain, none));
        assert_false(same(models[i], plain, full));
        assert_false(same(models[i], half, full));
        free(plain), free(none), free(full), free(half);
        hasten_lora_close(l);
    }
}

/* A + 0 B is A; A + B is neither; A - A is nearly nothing. */
static void two_adapters_add_up(void **state)
{
    (void)state;
    struct hasten_lora *a = random_lora(llama, 1, 4), *b = random_lora(llama, 2, 3);
    float *plain = logits_with(llama, NULL, 0),
          *only = logits_with(llama, &(struct hasten_lora_use){a, 1}, 1);
    float *zero = logits_with(llama, (struct hasten_lora_use[]){{b, 0}, {a, 1}}, 2);
    float *both = logits_with(llama, (struct hasten_lora_use[]){{a, 1}, {b, 1}}, 2);
    float *undone = logits_with(llama, (struct hasten_lora_use[]){{a, 1}, {a, -1}}, 2);
    float most = 0, least = 0;
    assert_true(same(llama, only, zero));
    assert_false(same(llama, only, both));
    for (int64_t i = 0; i < (int64_t)N_TOKENS * hasten_model_n_vocab(llama); i++) {
        most = fmaxf(most, fabsf(undone[i] - plain[i]));
        least = fmaxf(least, fabsf(only[i] - plain[i]));
    }
    print_message("A - A leaves %g, A changes %g\n", (double)most, (double)least);
    assert_true(least > 0.05f && most < least * 0.2f);
    free(plain), free(only), free(zero), free(both), free(undone);
    hasten_lora_close(a);
    hasten_lora_close(b);
}

static struct hasten_engine_settings settings_of(const struct hasten_lora_use *use, int32_t n)
{
    struct hasten_engine_settings s;
    hasten_engine_default_settings(&s);
    s.n_threads = 2;
    s.n_ctx = 128;
    s.n_batch = 64;
    s.loras = use;
    s.n_loras = n;
    return s;
}

static uint64_t live_bytes(void)
{
    struct mem_stats s;
    mem_stats_get(&s);
    return s.live_bytes;
}

static uint64_t engine_bytes(const struct hasten_engine_settings *s, struct hasten_engine **e)
{
    struct hasten_error err = {0};
    const uint64_t before = live_bytes();
    die_unless_ok(hasten_engine_open(llama, s, e, &err), &err, "opening an engine");
    return live_bytes() - before;
}

static void plan_is_what_is_taken(void **state)
{
    (void)state;
    struct hasten_lora *l = random_lora(llama, 1, 20);
    const struct hasten_lora_use use = {l, 1};
    const struct hasten_engine_settings with = settings_of(&use, 1), without = settings_of(NULL, 0);
    struct hasten_plan p, q;
    struct hasten_engine *e = NULL, *f = NULL;
    struct hasten_error err = {0};
    die_unless_ok(hasten_engine_plan(llama, &with, &p, &err), &err, "planning");
    die_unless_ok(hasten_engine_plan(llama, &without, &q, &err), &err, "planning");
    assert_int_equal(p.compute_bytes - q.compute_bytes, engine_bytes(&with, &e) - engine_bytes(&without, &f));
    assert_true(p.compute_bytes > q.compute_bytes);
    hasten_engine_close(e);
    hasten_engine_close(f);
    hasten_lora_close(l);
}

static void engine_keeps_a_copy_and_allocates_nothing(void **state)
{
    (void)state;
    struct hasten_lora *l = random_lora(llama, 1, 4);
    struct hasten_lora_use *use = malloc(sizeof *use);
    struct hasten_engine *e = NULL;
    struct hasten_seq *seq = NULL;
    struct hasten_error err = {0};
    struct mem_stats before, after;
    struct hasten_counters counters;
    const int32_t tokens[3] = {1, 2, 3};
    assert_non_null(use);
    *use = (struct hasten_lora_use){l, 1};
    const struct hasten_engine_settings s = settings_of(use, 1);
    die_unless_ok(hasten_engine_open(llama, &s, &e, &err), &err, "opening an engine");
    memset(use, 0xff, sizeof *use);
    free(use);
    hasten_lora_close(l);
    die_unless_ok(hasten_seq_open(e, &seq, &err), &err, "opening a sequence");
    mem_stats_get(&before);
    die_unless_ok(hasten_step(e, &(struct hasten_item){.seq = seq, .tokens = tokens, .n = 3, .want_from = 3},
                              1, NULL, NULL, NULL, &err),
                  &err, "a step");
    mem_stats_get(&after);
    assert_int_equal(before.n_calls, after.n_calls);
    hasten_engine_counters(e, &counters);
    assert_true(counters.weight_bytes > 0);
    hasten_engine_close(e);
}

static void settings_are_checked(void **state)
{
    (void)state;
    struct hasten_lora *l = random_lora(llama, 1, 4);
    const struct hasten_lora_use uses[] = {{l, NAN}, {l, INFINITY}, {NULL, 1}};
    struct hasten_engine *e = NULL;
    struct hasten_error err = {0};
    struct hasten_engine_settings s;
    for (size_t i = 0; i < 3; i++) {
        s = settings_of(&uses[i], 1);
        assert_int_equal(hasten_engine_open(llama, &s, &e, &err), HASTEN_ERR_USAGE);
        assert_non_null(strstr(err.message, "loras[0]"));
    }
    s = settings_of(&(struct hasten_lora_use){l, 1}, 1);
    assert_int_equal(hasten_engine_open(phi3, &s, &e, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "another model"));
    s = settings_of(uses, LIMIT_LORAS + 1);
    assert_int_equal(hasten_engine_open(llama, &s, &e, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "n_loras"));
    hasten_lora_close(l);
}

/* ---- files that are refused ----------------------------------------------------------------------------------- */

struct bad {
    const char *type, *arch, *adapter;
    float alpha;
    const char *a;
    uint64_t a0, a1;
    const char *b;
    uint64_t b0, b1;
    hasten_status status;
    const char *words;
};

#define Q "blk.0.attn_q.weight"
#define GOOD "adapter", "llama", "lora", 1
static const struct bad bads[] = {
    {GOOD, Q ".lora_a", 64, 2, Q ".lora_b", 2, 64, HASTEN_OK, ""},
    {GOOD, Q ".lora_a", 64, LIMIT_LORA_RANK, Q ".lora_b", LIMIT_LORA_RANK, 64, HASTEN_OK, ""},
    {GOOD, Q ".lora_a", 64, LIMIT_LORA_RANK + 1, Q ".lora_b", LIMIT_LORA_RANK + 1, 64, HASTEN_ERR_FILE,
     "lora_a': found rank 4097 (expected 1 to 4096)"},
    {"model", "llama", "lora", 1, Q ".lora_a", 64, 2, Q ".lora_b", 2, 64, HASTEN_ERR_FILE,
     "general.type: found 'model' (expected 'adapter')"},
    {NULL, "llama", "lora", 1, Q ".lora_a", 64, 2, Q ".lora_b", 2, 64, HASTEN_ERR_FILE, "general.type"},
    {"adapter", "qwen2", "lora", 1, Q ".lora_a", 64, 2, Q ".lora_b", 2, 64, HASTEN_ERR_FILE,
     "general.architecture: found 'qwen2' (expected 'llama', as the model)"},
    {"adapter", "llama", "ia3", 1, Q ".lora_a", 64, 2, Q ".lora_b", 2, 64, HASTEN_ERR_UNSUPPORTED,
     "adapter.type: found unsupported 'ia3' (expected 'lora')"},
    {"adapter", "llama", "lora", NAN, Q ".lora_a", 64, 2, Q ".lora_b", 2, 64, HASTEN_ERR_FILE,
     "adapter.lora.alpha"},
    {GOOD, Q ".lora_a", 64, 2, "blk.0.attn_k.weight.lora_b", 2, 64, HASTEN_ERR_FILE,
     "'" Q ".lora_b': missing (expected beside '" Q ".lora_a')"},
    {GOOD, Q ".lora_a", 64, 2, NULL, 0, 0, HASTEN_ERR_FILE, "missing"},
    {GOOD, NULL, 0, 0, Q ".lora_b", 2, 64, HASTEN_ERR_FILE, "'" Q ".lora_a': missing"},
    {GOOD, NULL, 0, 0, NULL, 0, 0, HASTEN_ERR_FILE, "found no tensors"},
    {GOOD, Q ".lora_a", 32, 2, Q ".lora_b", 2, 64, HASTEN_ERR_FILE,
     "lora_a': found shape [32, 2, 1, 1] (expected [64, 2])"},
    {GOOD, Q ".lora_a", 64, 2, Q ".lora_b", 3, 64, HASTEN_ERR_FILE,
     "lora_b': found shape [3, 64, 1, 1] (expected [2, 64])"},
    {GOOD, Q ".lora_a", 64, 2, Q ".lora_b", 2, 65, HASTEN_ERR_FILE, "(expected [2, 64])"},
    {GOOD, "blk.9.attn_q.weight.lora_a", 64, 2, "blk.9.attn_q.weight.lora_b", 2, 64, HASTEN_ERR_FILE,
     "found no 'blk.9.attn_q.weight' in the model"},
    {GOOD, Q ".lora_magnitude", 64, 1, NULL, 0, 0, HASTEN_ERR_UNSUPPORTED, "lora_magnitude': unsupported"},
    {GOOD, "blk.0.attn_norm.weight", 64, 1, NULL, 0, 0, HASTEN_ERR_UNSUPPORTED,
     "attn_norm.weight': unsupported"},
    {GOOD, ".lora_a", 64, 1, NULL, 0, 0, HASTEN_ERR_UNSUPPORTED, "'.lora_a': unsupported"},
    {GOOD, "token_embd.weight.lora_a", 2, 64, "token_embd.weight.lora_b", 2, 64, HASTEN_ERR_UNSUPPORTED,
     "token_embd.weight.lora_a': unsupported"},
    {GOOD, "blk.0.ffn_norm.weight.lora_a", 64, 2, "blk.0.ffn_norm.weight.lora_b", 2, 64,
     HASTEN_ERR_UNSUPPORTED, "ffn_norm.weight.lora_a': unsupported"},
};
static const struct bad bad_experts[] = {
    {GOOD, "blk.0.ffn_gate_exps.weight.lora_a", 64, 2, "blk.0.ffn_gate_exps.weight.lora_b", 2, 64,
     HASTEN_ERR_UNSUPPORTED, "ffn_gate_exps.weight.lora_a': unsupported"},
    {GOOD, "blk.0.ffn_gate_inp.weight.lora_a", 64, 2, "blk.0.ffn_gate_inp.weight.lora_b", 2, 64,
     HASTEN_ERR_UNSUPPORTED, "ffn_gate_inp.weight.lora_a': unsupported"},
};

static void add_floats(struct gguf_writer *w, const char *name, uint64_t ne0, uint64_t ne1, float value)
{
    float *data = calloc(ne0 * ne1, sizeof *data);
    assert_non_null(data);
    data[ne0 * ne1 - 1] = value;
    gguf_writer_tensor(w, name, QUANT_F32, 2, (const uint64_t[]){ne0, ne1}, data, ne0 * ne1 * sizeof *data);
    free(data);
}

static hasten_status read_bad(const struct hasten_model *m, const struct bad *x, bool activated, float value,
                              struct hasten_error *err)
{
    struct gguf_writer *w = gguf_writer_new();
    struct buf file = {0};
    struct gguf *g = NULL;
    struct hasten_lora *l = NULL;
    if (x->type)
        gguf_writer_str(w, "general.type", x->type);
    gguf_writer_str(w, "general.architecture", x->arch);
    gguf_writer_str(w, "adapter.type", x->adapter);
    gguf_writer_f32(w, "adapter.lora.alpha", x->alpha);
    if (activated)
        gguf_writer_array(w, "adapter.alora.invocation_tokens", GGUF_U32, (const uint32_t[]){1, 2}, 2);
    if (x->a)
        add_floats(w, x->a, x->a0, x->a1, value);
    if (x->b)
        add_floats(w, x->b, x->b0, x->b1, 1.0f);
    assert_int_equal(gguf_writer_build(w, NULL, 0, &file), 0);
    die_unless_ok(gguf_open_memory(file.data, file.len, "adapter.gguf", &g, err), err, "reading a file");
    const hasten_status st = lora_read(m, g, &l, err);
    hasten_lora_close(l);
    gguf_close(g);
    gguf_writer_free(w);
    buf_free(&file);
    return st;
}

static void expect(const struct hasten_model *m, const struct bad *x)
{
    struct hasten_error err = {0};
    const hasten_status st = read_bad(m, x, false, 1.0f, &err);
    if (st != x->status || (st && (!strstr(err.message, x->words) || !strstr(err.message, "adapter.gguf"))))
        fail_msg("status %d, '%s' (expected %d, '%s')", (int)st, err.message, (int)x->status, x->words);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    struct hasten_error err = {0};
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++)
        expect(llama, &bads[i]);
    for (size_t i = 0; i < sizeof bad_experts / sizeof *bad_experts; i++)
        expect(mixture, &bad_experts[i]);
    assert_int_equal(read_bad(llama, &bads[0], true, 1.0f, &err), HASTEN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "invocation_tokens: unsupported"));
    assert_int_equal(read_bad(llama, &bads[0], false, NAN, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "value 127 is not finite"));
}

/* Rows of phi3's attn_qkv are three matrices, each with its rows of B and the same A. */
static void fused_matrices_get_their_rows(void **state)
{
    (void)state;
    struct hasten_lora *l = random_lora(phi3, 1, 4);
    const struct layer *layer = &phi3->desc.layers[0];
    const struct weight *const w[] = {&layer->wq, &layer->wk, &layer->wv};
    const float *a = NULL, *b = NULL;
    int n = 0;
    for (int j = 0; j < 3; j++)
        for (int32_t i = 0; i < l->n_pairs; i++)
            if (l->pairs[i].base == w[j]) {
                assert_true(n == 0 || (l->pairs[i].a == a && l->pairs[i].b == b));
                a = l->pairs[i].a;
                b = l->pairs[i].b + w[j]->n_rows * l->pairs[i].rank;
                n++;
            }
    assert_int_equal(n, 3);
    hasten_lora_close(l);
}

static hasten_status read_and_open(const struct gguf *g, struct hasten_error *err)
{
    struct hasten_lora *l = NULL;
    struct hasten_engine *e = NULL;
    hasten_status st = lora_read(llama, g, &l, err);
    if (!st) {
        const struct hasten_lora_use use = {l, 1};
        const struct hasten_engine_settings s = settings_of(&use, 1);
        st = hasten_engine_open(llama, &s, &e, err);
    }
    hasten_engine_close(e);
    hasten_lora_close(l);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const struct tiny_lora o = tiny_lora_default(5);
    struct gguf_writer *w = tiny_lora_writer(model_gguf(llama), &o);
    struct buf file = {0};
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    assert_non_null(w);
    assert_int_equal(gguf_writer_build(w, NULL, 0, &file), 0);
    die_unless_ok(gguf_open_memory(file.data, file.len, "adapter", &g, &err), &err, "reading an adapter");
    const uint64_t before = live_bytes();
    uint64_t n = 1;
    for (;; n++) {
        mem_fail_at(n, 0);
        const hasten_status st = read_and_open(g, &err);
        const uint64_t injected = mem_fail_count();
        mem_fail_at(0, 0);
        assert_int_equal(live_bytes(), before);
        if (injected == 0) {
            assert_int_equal(st, HASTEN_OK);
            break;
        }
        assert_int_equal(st, HASTEN_ERR_MEMORY);
    }
    assert_true(n > 20);
    gguf_close(g);
    gguf_writer_free(w);
    buf_free(&file);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: test_lora LLAMA MIXTURE PHI3\n");
        return 2;
    }
    llama = open_or_exit(argv[1]);
    mixture = open_or_exit(argv[2]);
    phi3 = open_or_exit(argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strength_zero_leaves_every_bit),
        cmocka_unit_test(two_adapters_add_up),
        cmocka_unit_test(plan_is_what_is_taken),
        cmocka_unit_test(engine_keeps_a_copy_and_allocates_nothing),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(fused_matrices_get_their_rows),
        cmocka_unit_test(every_allocation_may_fail),
    };
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    hasten_model_close(llama);
    hasten_model_close(mixture);
    hasten_model_close(phi3);
    return rc;
}
