/* Methods around a prompt and an answer: a grammar with a sparse head is the one with a full head, to the bit; vectors of
 * tokens before a prompt are these tokens; a shortened prompt is read as if it had been given so. */
#include "engine/context.h"
#include "engine/modality.h"
#include "model/loaded.h"
#include "tiny_model.h"
#include "world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TINY "test_around.gguf"
#define VECTORS "test_around.f32"
#define GRAMMAR                                                                                              \
    "root ::= \"{\\\"name\\\": \\\"\" [a-z]+ \"\\\", \\\"age\\\": \" [1-9] [0-9]? \", \\\"kind\\\": \" "     \
    "(\"\\\"cat\\\"\" | \"\\\"dog\\\"\" | \"null\") \"}\""
#define PROMPT "The river is long. The sea is wide. The mountain is high. What is high?"

static struct hasten_model *model;

static uint64_t weight_bytes(const struct world *w)
{
    struct hasten_counters c;
    hasten_engine_counters(w->engine, &c);
    return c.weight_bytes;
}

/* ---- the sparse head ------------------------------------------------------------------------------------------ */

static void constrain(struct world *w, bool full)
{
    struct hasten_error err;
    struct sampling *l = &w->law;
    const int32_t n_vocab = hasten_model_n_vocab(model);
    assert_int_equal(grammar_open("test", GRAMMAR, strlen(GRAMMAR), &l->grammar, &err), HASTEN_OK);
    assert_int_equal(token_trie_open(model_vocab(model), n_vocab, &l->trie, &err), HASTEN_OK);
    assert_int_equal(grammar_masks_open(l->grammar, l->trie, GRAMMAR_TRIE, false, &l->masks, &err),
                     HASTEN_OK);
    l->memory = NULL; /* mirostat's, which needs whole rows */
    l->full_head = full;
}

static void unconstrain(struct world *w)
{
    grammar_masks_close(w->law.masks);
    token_trie_close(w->law.trie);
    grammar_close(w->law.grammar);
}

static void sparse_is_full(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct world a, b;
        struct answer x, y;
        struct tokens ids = world_ids(model, PROMPT);
        world_open(&a, model, NULL, 0, 0);
        world_open(&b, model, NULL, 0, 0);
        constrain(&a, true);
        constrain(&b, false);
        for (int w = 0; w < 2; w++) {
            struct sampler_settings *s = w ? &b.law.settings : &a.law.settings;
            s->temperature = (float)i * 0.5f;
            s->seed = (uint64_t)i;
            s->top_k = i % 2 ? 40 : 0;
            s->repeat_penalty = i == 3 ? 1.3f : 1;
            (w ? &b : &a)->law.n_predict = 60;
        }
        world_answer(&a, ids.ids, ids.n, &x);
        world_answer(&b, ids.ids, ids.n, &y);
        answer_must_equal(&a, &x, &b, &y, "a grammar");
        assert_true(weight_bytes(&b) < weight_bytes(&a));
        answer_free(&x);
        answer_free(&y);
        unconstrain(&a);
        unconstrain(&b);
        world_close(&a);
        world_close(&b);
        tokens_free(&ids);
    }
}

/* Two answers in the same steps: each is what it is alone, though each names tokens of its own. */
struct both {
    struct run *run[2];
    int32_t item_of[2];
};

static int take_both(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct both *b = ctx;
    for (int32_t i = 0; i < n_rows; i++)
        run_take(b->run[b->item_of[rows[i].item]], logits + (int64_t)i * n_vocab);
    return 0;
}

static void run_both(struct world *w, struct both *b)
{
    struct hasten_error err = {0};
    for (int n = 1; n > 0;) {
        struct hasten_item items[2];
        n = 0;
        for (int i = 0; i < 2; i++)
            if (run_next(b->run[i], 512, &items[n]))
                b->item_of[n++] = i;
        const hasten_status st = n ? hasten_step(w->engine, items, n, take_both, b, NULL, &err) : HASTEN_OK;
        for (int i = 0; i < n; i++)
            assert_int_equal(run_after(b->run[b->item_of[i]], st, &err), HASTEN_OK);
    }
}

static void answers_side_by_side(void **state)
{
    (void)state;
    static const char *const prompts[2] = {PROMPT, "The cat"};
    struct answer alone[2], together[2] = {0};
    struct hasten_error err = {0};
    struct world w;
    struct tokens ids[2];
    struct both b = {0};
    struct hasten_seq *seqs[2];
    world_open(&w, model, NULL, 0, 2);
    constrain(&w, false);
    w.law.n_predict = 40;
    w.law.settings.temperature = 1;
    for (int i = 0; i < 2; i++) {
        ids[i] = world_ids(model, prompts[i]);
        world_answer(&w, ids[i].ids, ids[i].n, &alone[i]);
    }
    seqs[0] = w.seq;
    assert_int_equal(hasten_seq_open(w.engine, &seqs[1], &err), HASTEN_OK);
    for (int i = 0; i < 2; i++) {
        const struct run_task task = {.engine = w.engine,
                                      .seq = seqs[i],
                                      .vocab = model_vocab(model),
                                      .law = &w.law,
                                      .ids = ids[i].ids,
                                      .n = ids[i].n};
        assert_int_equal(run_open(&task, &together[i], &b.run[i], &err), HASTEN_OK);
    }
    run_both(&w, &b);
    for (int i = 0; i < 2; i++) {
        assert_true(alone[i].ids.n > 5);
        assert_int_equal(alone[i].ids.n, together[i].ids.n);
        assert_memory_equal(alone[i].ids.ids, together[i].ids.ids,
                            (size_t)alone[i].ids.n * sizeof *alone[i].ids.ids);
        run_close(b.run[i]);
        answer_free(&alone[i]);
        answer_free(&together[i]);
        tokens_free(&ids[i]);
    }
    hasten_seq_close(seqs[1]);
    unconstrain(&w);
    world_close(&w);
}

/* Log-probabilities are of the whole row. */
static void logprobs_take_the_whole_head(void **state)
{
    (void)state;
    struct world a, b;
    struct answer x, y;
    struct tokens ids = world_ids(model, PROMPT);
    world_open(&a, model, NULL, 0, 0);
    world_open(&b, model, NULL, 0, 0);
    for (int w = 0; w < 2; w++) {
        struct world *of = w ? &b : &a;
        constrain(of, w == 0);
        of->law.logprobs = true;
        of->law.n_predict = 20;
    }
    world_answer(&a, ids.ids, ids.n, &x);
    world_answer(&b, ids.ids, ids.n, &y);
    answer_must_equal(&a, &x, &b, &y, "log-probabilities");
    assert_non_null(x.chosen);
    assert_int_equal(weight_bytes(&a), weight_bytes(&b));
    answer_free(&x);
    answer_free(&y);
    unconstrain(&a);
    unconstrain(&b);
    world_close(&a);
    world_close(&b);
    tokens_free(&ids);
}

/* ---- vectors before the prompt -------------------------------------------------------------------------------- */

static void write_vectors(const struct tokens *ids, int64_t n)
{
    struct hasten_error err;
    const int32_t d = hasten_model_n_embd(model);
    float *v = calloc((size_t)n * (size_t)d, sizeof *v);
    assert_non_null(v);
    assert_int_equal(hasten_token_rows(model, ids->ids, (int32_t)n, v, &err), HASTEN_OK);
    FILE *f = fopen(VECTORS, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(v, sizeof *v * (size_t)d, (size_t)n, f), n);
    fclose(f);
    free(v);
}

static void vectors_are_their_tokens(void **state)
{
    (void)state;
    struct tokens ids = world_ids(model, PROMPT);
    for (int64_t n = 1; n < ids.n; n += 4) {
        struct world a, b;
        struct answer x, y;
        write_vectors(&ids, n);
        world_open(&a, model, NULL, 0, 0);
        world_open(&b, model, (const char *const[]){"modality raw:file=" VECTORS, "draft lookup", NULL}, 0,
                   0);
        a.law.n_predict = b.law.n_predict = 20;
        a.law.settings.temperature = b.law.settings.temperature = 0.9f;
        world_answer(&a, ids.ids, ids.n, &x);
        world_answer(&b, ids.ids + n, ids.n - n, &y);
        assert_int_equal(x.ids.n, y.ids.n);
        assert_memory_equal(x.ids.ids, y.ids.ids, (size_t)x.ids.n * sizeof *x.ids.ids);
        assert_int_equal(x.prompt_n, y.prompt_n);
        answer_free(&y);
        world_answer(&b, ids.ids + n, ids.n - n, &y); /* all but the last token is there */
        assert_int_equal(y.cached_n, ids.n - 1);
        assert_memory_equal(x.ids.ids, y.ids.ids, (size_t)x.ids.n * sizeof *x.ids.ids);
        answer_free(&x);
        answer_free(&y);
        world_close(&a);
        world_close(&b);
    }
    tokens_free(&ids);
}

static void bad_vectors(void **state)
{
    (void)state;
    const struct {
        const char *spec, *says;
    } bad[] = {{"raw", "raw:file"},
               {"raw:file=missing.f32", "missing.f32"},
               {"raw:file=" TINY ",tensor=none", "tensor none"},
               {"raw:file=short.f32", "found 12 bytes"},
               {"raw:file=nan.f32", "row 0, number 3 is not finite"}};
    float v[4096] = {0};
    v[3] = (float)(0.0 / 0.0 * 1.0);
    FILE *f = fopen("short.f32", "wb");
    fwrite(v, 4, 3, f);
    fclose(f);
    f = fopen("nan.f32", "wb");
    fwrite(v, 4, (size_t)hasten_model_n_embd(model), f);
    fclose(f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hasten_engine_settings s;
        struct hasten_engine *e = NULL;
        struct hasten_error err = {0};
        const struct hasten_method_use use = {"modality", bad[i].spec, NULL};
        hasten_engine_default_settings(&s);
        s.n_ctx = 64;
        s.methods = &use;
        s.n_methods = 1;
        assert_int_not_equal(hasten_engine_open(model, &s, &e, &err), HASTEN_OK);
        if (!strstr(err.message, bad[i].says))
            fail_msg("%s: '%s' (expected '%s')", bad[i].spec, err.message, bad[i].says);
    }
}

/* ---- shorter prompts ------------------------------------------------------------------------------------------ */

static struct tokens shorten(const char *spec, const struct tokens *ids, int n_threads, int n_batch,
                             int32_t n_ctx)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_error err = {0};
    struct tokens out = {0};
    const struct hasten_method_use use = {"context", spec, NULL};
    hasten_engine_default_settings(&s);
    s.n_ctx = n_ctx;
    s.n_threads = n_threads;
    s.n_batch = n_batch;
    s.n_seq_max = 2;
    s.methods = &use;
    s.n_methods = 1;
    if (hasten_engine_open(model, &s, &e, &err) || context_shorten(e, ids->ids, ids->n, NULL, &out, &err))
        fail_msg("%s", err.message);
    hasten_engine_close(e);
    return out;
}

static bool is_part_of(const struct tokens *part, const struct tokens *whole)
{
    int64_t at = 0;
    for (int64_t i = 0; i < whole->n && at < part->n; i++)
        at += part->ids[at] == whole->ids[i];
    return at == part->n;
}

static void selective_keeps_its_share(void **state)
{
    (void)state;
    struct tokens ids =
        world_ids(model, "<|im_start|>user\n" PROMPT PROMPT PROMPT "<|im_end|>\n<|im_start|>assistant\n");
    static const char *const units[] = {"word", "token", "sentence"};
    for (int u = 0; u < 3; u++) {
        char spec[96];
        int64_t before = ids.n + 1;
        for (int ratio = 10; ratio >= 0; ratio -= 2) {
            snprintf(spec, sizeof spec, "selective:ratio=%.1f,unit=%s,last=6", ratio / 10.0, units[u]);
            struct tokens a = shorten(spec, &ids, 1, 512, 512), b = shorten(spec, &ids, 2, 7, 512);
            assert_int_equal(a.n, b.n);
            assert_memory_equal(a.ids, b.ids, (size_t)a.n * sizeof *a.ids);
            assert_true(is_part_of(&a, &ids));
            assert_true(a.n <= before && (double)a.n >= (double)ids.n * ratio / 10.0);
            assert_true(ratio < 10 ? a.n < ids.n : a.n == ids.n);
            assert_int_equal(a.ids[0], ids.ids[0]); /* <|im_start|> */
            assert_memory_equal(a.ids + a.n - 6, ids.ids + ids.n - 6, 6 * sizeof *ids.ids);
            before = a.n;
            tokens_free(&a);
            tokens_free(&b);
        }
    }
    struct tokens windows =
        shorten("selective:ratio=0.5,last=4", &ids, 1, 512, 32); /* longer than the context */
    assert_true(windows.n < ids.n && is_part_of(&windows, &ids));
    tokens_free(&windows);
    tokens_free(&ids);
}

static void a_shorter_prompt_is_read_as_such(void **state)
{
    (void)state;
    struct world a, b;
    struct answer x, y;
    struct tokens ids = world_ids(model, PROMPT);
    struct tokens less = shorten("selective:ratio=0.6,last=4", &ids, 2, 512, 512);
    world_open(&a, model, NULL, 0, 0);
    world_open(&b, model, (const char *const[]){"context selective:ratio=0.6,last=4", NULL}, 0, 2);
    a.law.n_predict = b.law.n_predict = 20;
    world_answer(&a, less.ids, less.n, &x);
    world_answer(&b, ids.ids, ids.n, &y);
    answer_must_equal(&a, &x, &b, &y, "a shorter prompt");
    assert_int_equal(y.dropped_n, ids.n - less.n);
    assert_int_equal(y.prompt_n, less.n);
    assert_true(y.dropped_n > 0);
    answer_free(&x);
    answer_free(&y);
    world_close(&a);
    world_close(&b);
    tokens_free(&less);
    tokens_free(&ids);
}

int main(void)
{
    struct tiny_options o;
    if (tiny_options_default("qwen2", 4, &o) || tiny_model_save(&o, TINY))
        return 1;
    model = world_model(TINY);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_is_full),
        cmocka_unit_test(answers_side_by_side),
        cmocka_unit_test(logprobs_take_the_whole_head),
        cmocka_unit_test(vectors_are_their_tokens),
        cmocka_unit_test(bad_vectors),
        cmocka_unit_test(selective_keeps_its_share),
        cmocka_unit_test(a_shorter_prompt_is_read_as_such),
    };
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    hasten_model_close(model);
    return rc;
}
