/* Snapshots: what was saved goes on to the same bits, a file says the same twice, every engine that would go on otherwise
 * refuses by what differs, and a snapshot of version 1 from the tree is still read.
 *
 *     test_snapshot FOLDER GOLDEN            files are written in FOLDER
 *     test_snapshot FOLDER GOLDEN write      writes GOLDEN, for a new version */
#include "base/file.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/snapshot.h"
#include "harness.h"
#include "tiny_lora.h"
#include "tiny_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_MOST 700
#define VOCAB_MOST 1024
#define GOLDEN_MODEL "script:hash=5"
#define GOLDEN_TOKENS 150

static const char *folder, *golden;
static char path[600], other_path[600];
static struct hasten_model *tiny, *sister, *scripted; /* sister: the same shapes, other weights */
static struct hasten_error err;

static struct hasten_model *make(const char *name, uint64_t seed)
{
    struct tiny_options o;
    char file[600];
    snprintf(file, sizeof file, "%s/%s.gguf", folder, name);
    assert_int_equal(tiny_options_default("llama", seed, &o), 0);
    o.n_vocab = 400;
    assert_int_equal(tiny_model_save(&o, file), 0);
    return open_or_exit(file);
}

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/one.seq", folder);
    snprintf(other_path, sizeof other_path, "%s/two.seq", folder);
    tiny = make("tiny", 7);
    sister = make("sister", 8);
    scripted = open_or_exit(GOLDEN_MODEL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hasten_model_close(tiny);
    hasten_model_close(sister);
    hasten_model_close(scripted);
    return 0;
}

static struct hasten_engine_settings usual(void)
{
    struct hasten_engine_settings s;
    hasten_engine_default_settings(&s);
    s.n_threads = 2;
    s.n_ctx = N_MOST;
    s.n_seq_max = 3;
    s.poison = true;
    return s;
}

static struct hasten_engine *engine(const struct hasten_model *m, const struct hasten_engine_settings *s)
{
    struct hasten_engine *e = NULL;
    die_unless_ok(hasten_engine_open(m, s, &e, &err), &err, "opening an engine");
    return e;
}

struct row {
    float v[VOCAB_MOST];
};

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    (void)rows;
    memcpy(ctx, logits + (int64_t)(n_rows - 1) * n_vocab, (size_t)n_vocab * sizeof *logits);
    return 0;
}

/* Appends n random tokens; the last row of logits. */
static struct row append(struct hasten_seq *s, uint64_t seed, int32_t n)
{
    static int32_t ids[N_MOST];
    struct row r = {{0}};
    random_tokens(seed, hasten_model_n_vocab(s->engine->model), ids, n);
    die_unless_ok(hasten_step(s->engine,
                              &(struct hasten_item){.seq = s, .tokens = ids, .n = n, .want_from = n - 1}, 1,
                              keep, &r, NULL, &err),
                  &err, "a step");
    return r;
}

static struct hasten_seq *grown(struct hasten_engine *e, int32_t n)
{
    struct hasten_seq *s = NULL;
    die_unless_ok(hasten_seq_open(e, &s, &err), &err, "a sequence");
    die_unless_ok(hasten_seq_announce(s, n, &err), &err, "announcing");
    if (n)
        append(s, 1, n);
    return s;
}

static void save(const struct hasten_seq *s, const char *to)
{
    die_unless_ok(hasten_seq_save(s, to, &err), &err, "saving");
}

static struct buf read_all(const char *from)
{
    struct buf b = {0};
    die_unless_ok(file_slurp(from, (size_t)64 << 20, &b.data, &b.len, &err), &err, "reading");
    return b;
}

static void write_all(const char *to, const struct buf *b)
{
    struct file *f = NULL;
    die_unless_ok(file_open(to, FILE_WRITE_TRUNC, &f, &err), &err, "writing");
    die_unless_ok(file_write(f, b->data, b->len, &err), &err, "writing");
    file_close(f);
}

static uint64_t pages_used(const struct hasten_engine *e)
{
    struct hasten_counters c;
    hasten_engine_counters(e, &c);
    return c.kv_pages_used;
}

static size_t names_in_folder(void)
{
    struct file_names f = {0};
    die_unless_ok(file_list(folder, &f, &err), &err, "listing");
    const size_t n = f.n;
    file_names_free(&f);
    return n;
}

/* ---- going on ------------------------------------------------------------------------------------------------- */

/* Saved at n positions, restored beside itself and in another engine; all go on alike, and say the same when saved. */
static void goes_on(const struct hasten_model *m, const struct hasten_engine_settings *settings, int32_t n)
{
    struct hasten_engine *a = engine(m, settings), *b = engine(m, settings);
    struct hasten_seq *s = grown(a, n), *again = NULL, *there = NULL;
    save(s, path);
    const size_t names = names_in_folder();
    save(s, path); /* over it: nothing is left beside */
    assert_int_equal(names, names_in_folder());
    die_unless_ok(hasten_seq_load(a, path, &again, &err), &err, "restoring");
    die_unless_ok(hasten_seq_load(b, path, &there, &err), &err, "restoring");
    assert_int_equal(hasten_seq_length(there), n);
    assert_memory_equal(hasten_seq_tokens(there), hasten_seq_tokens(s), (size_t)n * sizeof(int32_t));
    assert_int_equal(there->n_prompt, n);
    save(there, other_path);
    struct buf x = read_all(path), y = read_all(other_path);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    uint64_t bytes;
    die_unless_ok(snapshot_bytes(s, 0, &bytes, &err), &err, "asking for the size");
    assert_int_equal(bytes, x.len);
    buf_free(&x);
    buf_free(&y);
    for (int32_t k = 1; k <= 70; k += 69) {
        const struct row one = append(s, (uint64_t)k, k), two = append(again, (uint64_t)k, k),
                         three = append(there, (uint64_t)k, k);
        assert_memory_equal(&one, &two, sizeof one);
        assert_memory_equal(&one, &three, sizeof one);
    }
    hasten_engine_close(a);
    hasten_engine_close(b);
}

static void test_goes_on(void **state)
{
    (void)state;
    static const int32_t lengths[] = {0, 1, 63, 64, 65, 200};
    struct hasten_engine_settings s = usual();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        goes_on(scripted, &s, lengths[i]);
        for (s.kv_type = HASTEN_KV_F16; s.kv_type <= HASTEN_KV_Q4; s.kv_type++)
            goes_on(tiny, &s, lengths[i]);
        s.kv_type = HASTEN_KV_F16;
    }
}

/* Methods: one with statistics, one that takes entries out (before and after it has), both. */
static void test_methods(void **state)
{
    (void)state;
    static const struct hasten_method_use uses[] = {{"attend", "quest:budget=0.25,page=8", NULL},
                                                    {"cache", "h2o:keep=48,every=32,recent=16", NULL},
                                                    {"cache", "snapkv:keep=40,window=8", NULL}};
    struct hasten_engine_settings s = usual();
    for (int32_t i = 0; i < 3; i++)
        for (int32_t n = 20; n <= 200; n += 90) {
            s.methods = &uses[i];
            s.n_methods = 1;
            goes_on(tiny, &s, n);
        }
    s.methods = uses;
    s.n_methods = 2;
    goes_on(tiny, &s, 150);
}

/* Cut back to where entries have been taken out since: it holds tokens, and no keys. */
static void test_without_keys(void **state)
{
    (void)state;
    const struct hasten_method_use use = {"cache", "h2o:keep=48,every=32,recent=16", NULL};
    struct hasten_engine_settings s = usual();
    s.methods = &use;
    s.n_methods = 1;
    struct hasten_engine *e = engine(tiny, &s);
    struct hasten_seq *a = grown(e, 150), *b = NULL;
    die_unless_ok(hasten_seq_truncate(a, 70, &err), &err, "cutting");
    save(a, path);
    die_unless_ok(hasten_seq_load(e, path, &b, &err), &err, "restoring");
    const struct row x = append(a, 2, 40), y = append(b, 2, 40);
    assert_memory_equal(&x, &y, sizeof x);
    hasten_engine_close(e);
}

/* ---- refusals ------------------------------------------------------------------------------------------------- */

static void refuses(const struct hasten_model *m, const struct hasten_engine_settings *s,
                    hasten_status status, const char *word)
{
    struct hasten_engine *e = engine(m, s);
    struct hasten_seq *seq = NULL, *after = NULL;
    err = (struct hasten_error){0};
    assert_int_equal(hasten_seq_load(e, path, &seq, &err), status);
    assert_int_equal(err.status, status);
    if (!strstr(err.message, word) || !strstr(err.message, "expected"))
        fail_msg("'%s' does not say '%s'", err.message, word);
    assert_null(seq);
    assert_int_equal(pages_used(e), 0);
    for (int32_t i = 0; i < s->n_seq_max; i++) /* no slot is lost */
        die_unless_ok(hasten_seq_open(e, &after, &err), &err, "a sequence");
    hasten_engine_close(e);
}

static void test_refuses(void **state)
{
    (void)state;
    const struct hasten_method_use quest = {"attend", "quest:budget=0.25", NULL},
                                   other = {"attend", "quest:budget=0.5", NULL},
                                   drafts = {"draft", "lookup", NULL};
    struct hasten_engine_settings s = usual();
    struct hasten_engine *e = engine(tiny, &s);
    save(grown(e, 100), path);
    refuses(sister, &s, HASTEN_ERR_FILE, "otherwise: model");
    refuses(scripted, &s, HASTEN_ERR_FILE, "otherwise: model");
    s.kv_type = HASTEN_KV_Q8;
    refuses(tiny, &s, HASTEN_ERR_FILE, "otherwise: kv: found 'f16");
    s.kv_type = HASTEN_KV_F16;
    s.reference = true;
    refuses(tiny, &s, HASTEN_ERR_FILE, "otherwise: arithmetic");
    s.reference = false;
    s.methods = &quest;
    s.n_methods = 1;
    refuses(tiny, &s, HASTEN_ERR_FILE, "otherwise: context");
    s.methods = &drafts; /* changes nothing that is kept */
    goes_on(tiny, &s, 30);
    s.n_methods = 0;
    s.n_ctx = 99;
    save(grown(e, 100), path);
    refuses(tiny, &s, HASTEN_ERR_FULL, "the context 99");
    s.n_ctx = N_MOST;
    s.n_seq_max = 1;
    s.kv_positions = 64;
    refuses(tiny, &s, HASTEN_ERR_FULL, "free KV pages");
    hasten_engine_close(e);
    s = usual();
    s.methods = &quest;
    s.n_methods = 1;
    e = engine(tiny, &s);
    save(grown(e, 100), path);
    s.methods = &other;
    refuses(tiny, &s, HASTEN_ERR_FILE, "budget=0.25");
    s.n_ctx = 300;
    s.methods = &quest;
    refuses(tiny, &s, HASTEN_ERR_FILE, "otherwise: context: found '700'");
    hasten_engine_close(e);
}

static void test_adapters(void **state)
{
    (void)state;
    char file[600], model[600];
    const struct tiny_lora adapter = tiny_lora_default(3);
    snprintf(file, sizeof file, "%s/adapter.gguf", folder);
    snprintf(model, sizeof model, "%s/tiny.gguf", folder);
    assert_int_equal(tiny_lora_save(model, &adapter, file), 0);
    const struct hasten_lora_use one = adapter_or_exit(tiny, file, 1), half = {one.lora, 0.5f};
    struct hasten_engine_settings s = usual();
    s.loras = &one;
    s.n_loras = 1;
    goes_on(tiny, &s, 90);
    s.loras = &half;
    refuses(tiny, &s, HASTEN_ERR_FILE, "otherwise: adapters");
    s.n_loras = 0;
    refuses(tiny, &s, HASTEN_ERR_FILE, "expected 'none'");
    hasten_lora_close((struct hasten_lora *)(uintptr_t)one.lora);
}

static void test_version_and_kind(void **state)
{
    (void)state;
    struct hasten_engine_settings s = usual();
    struct hasten_engine *e = engine(tiny, &s);
    save(grown(e, 10), path);
    struct buf b = read_all(path);
    b.data[8]++;
    write_all(path, &b);
    refuses(tiny, &s, HASTEN_ERR_UNSUPPORTED, "version 2");
    b.data[0] = 'x';
    write_all(path, &b);
    refuses(tiny, &s, HASTEN_ERR_FILE, "not a snapshot");
    b.len = 5;
    write_all(path, &b);
    refuses(tiny, &s, HASTEN_ERR_FILE, "found 5 bytes");
    struct hasten_seq *seq = NULL;
    char nowhere[700];
    snprintf(nowhere, sizeof nowhere, "%s/no such folder/x", folder);
    assert_int_equal(hasten_seq_load(e, nowhere, &seq, &err), HASTEN_ERR_FILE);
    assert_int_equal(hasten_seq_save(grown(e, 3), nowhere, &err), HASTEN_ERR_FILE);
    buf_free(&b);
    hasten_engine_close(e);
}

static void test_label(void **state)
{
    (void)state;
    const struct snapshot_label mine = {"mine", 4}, yours = {"yours", 5};
    struct hasten_engine_settings s = usual();
    struct hasten_engine *e = engine(tiny, &s);
    struct hasten_seq *seq = grown(e, 10), *back = NULL;
    struct snapshot_info info = {0};
    die_unless_ok(snapshot_save(seq, mine, path, true, &err), &err, "saving");
    assert_int_equal(snapshot_load(e, path, &yours, &back, &err), HASTEN_ERR_FILE);
    die_unless_ok(snapshot_load(e, path, &mine, &back, &err), &err, "restoring");
    die_unless_ok(snapshot_inspect(path, true, &info, &err), &err, "looking");
    assert_int_equal(info.label.len, 4);
    assert_int_equal(info.sequence.length, 10);
    assert_memory_equal(info.tokens.data, hasten_seq_tokens(seq), 10 * sizeof(int32_t));
    assert_non_null(strstr(info.identity.data, "model: llama, 3 layers, "));
    snapshot_info_free(&info);
    /* a text of the largest size that is read, and one byte more */
    struct snapshot_label large = {mem_calloc(1, LIMIT_SNAPSHOT_TEXT + 1), LIMIT_SNAPSHOT_TEXT};
    die_unless_ok(snapshot_save(seq, large, path, false, &err), &err, "saving");
    die_unless_ok(snapshot_inspect(path, true, &info, &err), &err, "looking");
    snapshot_info_free(&info);
    large.len++;
    assert_int_equal(snapshot_save(seq, large, path, false, &err), HASTEN_ERR_LIMIT);
    mem_free((void *)(uintptr_t)large.data);
    hasten_engine_close(e);
}

/* Named where it cannot be saved. */
static void test_cannot_be_saved(void **state)
{
    (void)state;
    struct method m = *method_find(STAGE_ATTEND, "window", &err);
    m.traits |= METHOD_NO_SAVE;
    const struct hasten_method_use use = {NULL, "", &m};
    struct hasten_engine_settings s = usual();
    s.methods = &use;
    s.n_methods = 1;
    struct hasten_engine *e = engine(tiny, &s);
    struct hasten_seq *back = NULL;
    assert_int_equal(hasten_seq_save(grown(e, 10), path, &err), HASTEN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "--attend window"));
    assert_int_equal(hasten_seq_load(e, path, &back, &err), HASTEN_ERR_UNSUPPORTED);
    hasten_engine_close(e);
}

/* ---- old data ------------------------------------------------------------------------------------------------- */

static struct hasten_seq *golden_sequence(struct hasten_engine *e)
{
    struct hasten_seq *s = grown(e, GOLDEN_TOKENS);
    append(s, 9, 5);
    return s;
}

static void test_golden(void **state)
{
    (void)state;
    struct hasten_engine_settings s = usual();
    struct hasten_engine *e = engine(scripted, &s);
    struct hasten_seq *now = golden_sequence(e), *then = NULL;
    die_unless_ok(hasten_seq_load(e, golden, &then, &err), &err, "restoring what version 1 wrote");
    const struct row x = append(now, 3, 20), y = append(then, 3, 20);
    assert_memory_equal(&x, &y, sizeof x);
    hasten_engine_close(e);
}

static int write_golden(void)
{
    struct hasten_engine_settings s = usual();
    struct hasten_model *m = open_or_exit(GOLDEN_MODEL);
    s.poison = false;
    struct hasten_engine *e = engine(m, &s);
    save(golden_sequence(e), golden);
    hasten_engine_close(e);
    hasten_model_close(m);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on),      cmocka_unit_test(test_methods),
        cmocka_unit_test(test_without_keys), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_adapters),     cmocka_unit_test(test_version_and_kind),
        cmocka_unit_test(test_label),        cmocka_unit_test(test_cannot_be_saved),
        cmocka_unit_test(test_golden),
    };
    if (argc < 3) {
        fprintf(stderr, "usage: test_snapshot FOLDER GOLDEN [write]\n");
        return 1;
    }
    folder = argv[1];
    golden = argv[2];
    if (argc > 3)
        return write_golden();
    return cmocka_run_group_tests(tests, setup, teardown);
}
