/* Experts: of equal router logits the lower id wins; experts that no row has chosen are not touched, so that a file
 * larger than memory runs from its map; nothing of them is read ahead. The model has one layer of 8 experts, 3 used. */
#include "base/file.h"
#include "base/mem.h"
#include "base/prefault.h"
#include "engine/engine.h"
#include "harness.h"
#include "tiny_model.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "experts_test.gguf"
#define TIED "experts_tied_test.gguf"

struct fixture {
    struct hasten_model *model;
    struct hasten_engine *engine;
    struct hasten_seq *seq;
};

static struct fixture open_model(const char *path)
{
    struct fixture f;
    struct hasten_error err = {0};
    struct hasten_engine_settings s;
    hasten_engine_default_settings(&s);
    s.n_threads = 2;
    s.n_ctx = 64;
    s.n_batch = 32;
    f.model = open_or_exit(path);
    die_unless_ok(hasten_engine_open(f.model, &s, &f.engine, &err), &err, "opening an engine");
    die_unless_ok(hasten_seq_open(f.engine, &f.seq, &err), &err, "opening a sequence");
    return f;
}

static void close_model(struct fixture *f)
{
    hasten_engine_close(f->engine);
    hasten_model_close(f->model);
}

static int keep_logits(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                       int32_t n_vocab)
{
    (void)rows, (void)n_rows;
    memcpy(ctx, logits, (size_t)n_vocab * sizeof *logits);
    return 0;
}

/* One token; its logits, malloc'ed. */
static float *run_token(const struct fixture *f, int32_t token)
{
    struct hasten_error err = {0};
    float *logits = malloc((size_t)hasten_model_n_vocab(f->model) * sizeof *logits);
    assert_non_null(logits);
    die_unless_ok(hasten_step(f->engine,
                              &(struct hasten_item){.seq = f->seq, .tokens = &token, .n = 1, .want_from = 0},
                              1, keep_logits, logits, NULL, &err),
                  &err, "a step");
    return logits;
}

static int make_models(void **state)
{
    (void)state;
    struct tiny_options o;
    struct hasten_error err;
    struct gguf *g;
    if (tiny_options_default("qwen3moe", 4, &o) || tiny_options_set(&o, "n_layer=1") ||
        tiny_options_set(&o, "d_expert=512") || tiny_options_set(&o, "expert_type=F32") ||
        tiny_model_save(&o, MODEL) || tiny_model_save(&o, TIED) || gguf_open(TIED, &g, &err) != HASTEN_OK)
        return -1;
    const struct gguf_tensor *router = gguf_tensor_find(g, "blk.0.ffn_gate_inp.weight");
    FILE *f = fopen(TIED, "r+b");
    int bad = !f || !router || fseek(f, (long)router->offset, SEEK_SET);
    for (uint64_t i = 0; !bad && i < router->size_bytes; i++)
        bad = fputc(0, f) == EOF;
    gguf_close(g);
    return (f && fclose(f)) || bad ? -1 : 0;
}

static void of_equal_logits_the_lower_id_wins(void **state)
{
    (void)state;
    struct fixture f = open_model(TIED);
    free(run_token(&f, 7));
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(f.engine->buf.moe.expert[i], i);
        assert_true(f.engine->buf.moe.weight[i] == 1.0f / 3.0f);
    }
    close_model(&f);
}

/* Takes away the whole pages of the experts of which wanted(x) is `which`; how many bytes that were. */
static size_t forbid(const struct fixture *f, const bool wanted[8], bool which)
{
    const struct moe *m = &f->model->desc.layers[0].moe;
    const struct weight *const parts[] = {m->gate, m->up, m->down};
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t sum = 0;
    for (int32_t x = 0; x < m->n_expert; x++)
        for (size_t j = 0; wanted[x] == which && j < 3; j++) {
            const struct weight *w = &parts[j][x];
            const uintptr_t begin = ((uintptr_t)w->data + page - 1) / page * page,
                            end = ((uintptr_t)w->data + (uintptr_t)(w->n_rows * w->row_bytes)) / page * page;
            assert_true(end > begin);
            assert_int_equal(mprotect((void *)begin, end - begin, PROT_NONE), 0);
            sum += end - begin;
        }
    return sum;
}

/* Whether a run of the token survives in a child in which those experts are out of reach. */
static bool survives(const bool wanted[8], bool which, const float *expected)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        struct fixture f = open_model(MODEL);
        const size_t n = forbid(&f, wanted, which);
        float *got = run_token(&f, 7);
        const int same = memcmp(got, expected, (size_t)hasten_model_n_vocab(f.model) * sizeof *got) == 0;
        _exit(n > 0 && same ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
}

static void experts_not_chosen_are_not_touched(void **state)
{
    (void)state;
    bool wanted[8] = {0};
    struct fixture f = open_model(MODEL);
    float *expected = run_token(&f, 7);
    for (int32_t i = 0; i < 3; i++)
        wanted[f.engine->buf.moe.expert[i]] = true;
    close_model(&f);
    assert_true(survives(wanted, false, expected));
    assert_false(survives(wanted, true, expected)); /* the test can fail */
    free(expected);
}

static void experts_are_not_read_ahead(void **state)
{
    (void)state;
    struct fixture f = open_model(MODEL);
    struct prefault_range *range;
    struct hasten_error err;
    int32_t n;
    uint64_t sum = 0, experts = 0;
    const struct moe *m = &f.model->desc.layers[0].moe;
    const struct weight *const parts[] = {m->gate, m->up, m->down}, *embd = &f.model->desc.token_embd;
    assert_int_equal(model_ahead_ranges(f.model, &range, &n, &err), HASTEN_OK);
    for (int32_t x = 0; x < m->n_expert; x++)
        for (size_t j = 0; j < 3; j++) {
            const uint8_t *data = parts[j][x].data;
            const uint64_t size = (uint64_t)(parts[j][x].n_rows * parts[j][x].row_bytes);
            experts += size;
            for (int32_t i = 0; i < n; i++) {
                const uint8_t *at = range[i].data;
                assert_true(at >= data + size || at + range[i].size <= data);
            }
        }
    for (int32_t i = 0; i < n; i++)
        sum += range[i].size;
    assert_int_equal(sum + experts + (uint64_t)(embd->n_rows * embd->row_bytes),
                     gguf_file_bytes(f.model->gguf)); /* everything else is */
    mem_free(range);
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_equal_logits_the_lower_id_wins),
        cmocka_unit_test(experts_not_chosen_are_not_touched),
        cmocka_unit_test(experts_are_not_read_ahead),
    };
    return cmocka_run_group_tests(tests, make_models, NULL);
}
