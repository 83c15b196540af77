/* Numbers that are not finite are contained: planted in a row of the embedding, in a scale of each block format, or in
 * a sequence's KV pages, they end that sequence with HASTEN_ERR_NON_FINITE at the choice of its next token. Sequences
 * that share its steps get the same bits as without it, then and after its pages are used again. Weights that all
 * sequences share end them all, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "harness.h"
#include "sample/sampler.h"
#include "tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_VOCAB 512
#define N_GOOD 40
#define BAD_TOKEN 300

static char path[64];

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/hasten-nan-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return remove(path);
}

/* Saves a tiny model with the bytes of a f16 or f32 number at `at` in block `block` of tensor `name`, or as it is
 * (name NULL). The matrices are in `type`. */
struct plant {
    const char *name;
    int64_t block;
    int at, size;
    uint64_t bits;
};

static void save(const char *type, const struct plant *p)
{
    struct tiny_options o;
    struct buf file = {0};
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    char option[40];
    assert_int_equal(tiny_options_default("llama", 5, &o), 0);
    assert_int_equal(tiny_options_set(&o, "tied=0"), 0);
    assert_int_equal(tiny_options_set(&o, "wide=1"), 0);
    assert_int_equal(tiny_options_set(&o, "n_layer=2"), 0);
    snprintf(option, sizeof option, "type=%s", type);
    assert_int_equal(tiny_options_set(&o, option), 0);
    assert_int_equal(tiny_model_build(&o, &file), 0);
    die_unless_ok(gguf_open_memory(file.data, file.len, "tiny", &g, &err), &err, "opening");
    if (p) {
        const struct gguf_tensor *t = gguf_tensor_find(g, p->name);
        assert_non_null(t);
        assert_string_equal(t->type->name, type);
        char *bytes = (char *)file.data + (t->data - (const uint8_t *)file.data);
        memcpy(bytes + p->block * t->type->block_bytes + p->at, &p->bits, (size_t)p->size);
    }
    gguf_close(g);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(file.data, 1, file.len, f) == file.len && fclose(f) == 0);
    buf_free(&file);
}

struct taken { /* logits of the items' last rows */
    float logits[2][N_VOCAB];
};

static int take(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    struct taken *t = ctx;
    assert_int_equal(n_vocab, N_VOCAB);
    for (int32_t i = 0; i < n_rows; i++)
        memcpy(t->logits[rows[i].item], logits + (int64_t)i * n_vocab, sizeof t->logits[0]);
    return 0;
}

static hasten_status choose(const float *logits, struct hasten_error *err)
{
    struct sampler *s = NULL;
    struct sampler_settings settings;
    struct token_logprob chosen = {-1, 0};
    sampler_default_settings(&settings);
    die_unless_ok(sampler_open(N_VOCAB, &s, err), err, "a sampler");
    hasten_status st = sampler_choose(s, NULL, &settings, logits, NULL, 0, 7, &chosen, NULL, err);
    if (!st)
        assert_in_range(chosen.id, 0, N_VOCAB - 1);
    sampler_close(s);
    return st;
}

static void ends(const float *logits)
{
    struct hasten_error err = {0};
    assert_int_equal(choose(logits, &err), HASTEN_ERR_NON_FINITE);
    assert_non_null(strstr(err.message, "no finite logit"));
}

struct pair {
    struct hasten_model *m;
    struct hasten_engine *e;
    struct hasten_seq *bad, *good;
};

static void open_pair(struct pair *p, enum hasten_kv_type kv)
{
    struct hasten_engine_settings s;
    struct hasten_error err = {0};
    hasten_engine_default_settings(&s);
    s.n_threads = 2;
    s.n_ctx = 128;
    s.n_seq_max = 2;
    s.n_batch = 16;
    s.kv_type = kv;
    s.poison = true;
    p->m = open_or_exit(path);
    die_unless_ok(hasten_engine_open(p->m, &s, &p->e, &err), &err, "opening an engine");
    die_unless_ok(hasten_seq_open(p->e, &p->bad, &err), &err, "a sequence");
    die_unless_ok(hasten_seq_open(p->e, &p->good, &err), &err, "a sequence");
}

static void close_pair(struct pair *p)
{
    hasten_engine_close(p->e);
    hasten_model_close(p->m);
}

/* Steps of both: tokens of bad, then what good says, for N_GOOD tokens of good in all. */
static void run(struct pair *p, const int32_t *bad, int32_t n_bad, const int32_t *good, int32_t n_good,
                struct taken *out)
{
    struct hasten_error err = {0};
    const struct hasten_item items[2] = {
        {.seq = p->bad, .tokens = bad, .n = n_bad, .want_from = n_bad - 1},
        {.seq = p->good, .tokens = good, .n = n_good, .want_from = n_good - 1}};
    die_unless_ok(hasten_step(p->e, items, 2, take, out, NULL, &err), &err, "a step");
}

/* What good gets with a sound model: after its first half, after all. */
static void sound_run(const char *type, enum hasten_kv_type kv, const int32_t *tokens, struct taken out[3])
{
    struct pair p;
    int32_t other[8];
    save(type, NULL);
    open_pair(&p, kv);
    random_tokens(2, BAD_TOKEN, other, 8);
    run(&p, other, 8, tokens, N_GOOD / 2, &out[0]);
    run(&p, other, 1, tokens + N_GOOD / 2, N_GOOD / 2, &out[1]);
    close_pair(&p);
}

static void same(const float *a, const float *b)
{
    assert_memory_equal(a, b, N_VOCAB * sizeof *a);
}

/* One sequence says the token whose row of the embedding is bad. */
static void contained(const char *type, const struct plant *plant, enum hasten_kv_type kv)
{
    static struct taken sound[3], got;
    struct pair p;
    struct hasten_error err = {0};
    int32_t tokens[N_GOOD], bad[8];
    random_tokens(1, BAD_TOKEN, tokens, N_GOOD); /* below BAD_TOKEN */
    random_tokens(2, BAD_TOKEN, bad, 8);
    sound_run(type, kv, tokens, sound);
    bad[5] = BAD_TOKEN;
    save(type, plant);
    open_pair(&p, kv);
    run(&p, bad, 8, tokens, N_GOOD / 2, &got);
    same(got.logits[1], sound[0].logits[1]);
    ends(got.logits[0]);
    assert_int_equal(choose(got.logits[1], &err), HASTEN_OK);
    run(&p, tokens, 1, tokens + N_GOOD / 2, N_GOOD / 2, &got);
    same(got.logits[1], sound[1].logits[1]);
    ends(got.logits[0]); /* it goes on being bad: its pages are */
    hasten_seq_close(p.bad);
    hasten_seq_close(p.good);
    die_unless_ok(hasten_seq_open(p.e, &p.bad, &err), &err, "a sequence"); /* its pages are used again */
    die_unless_ok(hasten_seq_open(p.e, &p.good, &err), &err, "a sequence");
    random_tokens(2, BAD_TOKEN, bad, 8);
    run(&p, bad, 8, tokens, N_GOOD / 2, &got);
    same(got.logits[0], sound[0].logits[0]);
    same(got.logits[1], sound[0].logits[1]);
    close_pair(&p);
}

/* Rows of the embedding are 256 values wide: a block of the K formats, eight of the others. */
static void in_every_format(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int per_row, at, size;
        uint64_t bits;
    } plants[] = {
        {"F32", 256, 0, 4, 0x7FC00000}, {"F32", 256, 0, 4, 0x7F800000}, {"F16", 256, 0, 2, 0x7E00},
        {"F16", 256, 0, 2, 0xFC00},     {"BF16", 256, 0, 2, 0x7FC0},    {"BF16", 256, 0, 2, 0xFF80},
        {"Q4_0", 8, 0, 2, 0x7E00},      {"Q4_0", 8, 0, 2, 0x7C00},      {"Q4_1", 8, 2, 2, 0x7E00},
        {"Q5_0", 8, 0, 2, 0x7E00},      {"Q5_1", 8, 0, 2, 0xFC00},      {"Q8_0", 8, 0, 2, 0x7E00},
        {"Q8_0", 8, 0, 2, 0xFC00},      {"Q2_K", 1, 80, 2, 0x7E00},     {"Q3_K", 1, 108, 2, 0x7E00},
        {"Q4_K", 1, 2, 2, 0x7E00},      {"Q5_K", 1, 0, 2, 0x7E00},      {"Q6_K", 1, 208, 2, 0x7E00},
    };
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        const struct plant p = {"token_embd.weight", (int64_t)BAD_TOKEN * plants[i].per_row, plants[i].at,
                                plants[i].size, plants[i].bits};
        contained(plants[i].type, &p, HASTEN_KV_F16);
    }
}

static void in_every_kind_of_kv(void **state)
{
    (void)state;
    const struct plant p = {"token_embd.weight", (int64_t)BAD_TOKEN * 8, 0, 2, 0x7E00};
    for (int kv = HASTEN_KV_F16; kv <= HASTEN_KV_Q4; kv++)
        contained("Q8_0", &p, (enum hasten_kv_type)kv);
}

/* A bad number in the pages of one sequence alone, as damaged memory would leave it. */
static void in_the_pages_of_a_sequence(void **state)
{
    (void)state;
    static struct taken sound[3], got;
    struct pair p;
    int32_t tokens[N_GOOD], other[8];
    random_tokens(1, BAD_TOKEN, tokens, N_GOOD);
    random_tokens(2, BAD_TOKEN, other, 8);
    sound_run("Q8_0", HASTEN_KV_F32, tokens, sound);
    open_pair(&p, HASTEN_KV_F32);
    run(&p, other, 8, tokens, N_GOOD / 2, &got);
    same(got.logits[1], sound[0].logits[1]);
    const struct kv_tile tile = kv_tile_at(&p.e->kv, &p.bad->kv, 0, 0);
    ((float *)(uintptr_t)tile.v)[0] = NAN; /* value 0 of position 0 */
    run(&p, other, 1, tokens + N_GOOD / 2, N_GOOD / 2, &got);
    same(got.logits[1], sound[1].logits[1]);
    ends(got.logits[0]);
    close_pair(&p);
}

/* What all sequences share: all end, and the process goes on. */
static void in_shared_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_q.weight",   "blk.0.attn_v.weight",
                                        "blk.0.ffn_gate.weight", "blk.1.ffn_down.weight",
                                        "output.weight",         "blk.1.attn_output.weight"};
    static const uint64_t bits[] = {0x7E00, 0x7C00, 0xFC00};
    static struct taken got;
    int32_t tokens[N_GOOD], other[8];
    random_tokens(1, BAD_TOKEN, tokens, N_GOOD);
    random_tokens(2, BAD_TOKEN, other, 8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
            struct pair p;
            struct hasten_error err = {0};
            save("Q8_0", &(struct plant){names[i], 0, 0, 2, bits[b]});
            open_pair(&p, HASTEN_KV_F16);
            run(&p, other, 8, tokens, N_GOOD / 2, &got);
            for (int k = 0; k < 2; k++) {
                const hasten_status st = choose(got.logits[k], &err);
                if (strcmp(names[i], "output.weight") == 0)
                    assert_int_equal(st, HASTEN_OK); /* one logit is bad, and never chosen */
                else
                    assert_true(st == HASTEN_OK || st == HASTEN_ERR_NON_FINITE);
                if (st == HASTEN_OK && strcmp(names[i], "output.weight"))
                    printf("%s %#x: sequence %d goes on\n", names[i], (unsigned)bits[b], k);
            }
            close_pair(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_every_format, setup, teardown),
        cmocka_unit_test_setup_teardown(in_every_kind_of_kv, setup, teardown),
        cmocka_unit_test_setup_teardown(in_the_pages_of_a_sequence, setup, teardown),
        cmocka_unit_test_setup_teardown(in_shared_weights, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
