/* Every allocation and every file operation may fail, once and from then on: nothing crashes, nothing leaks, an error
 * has a sentence, what succeeds all the same gives the same bytes, and so does the run afterwards. What a file was
 * before a failed writing it still is, and nothing lies beside it.
 *
 *     test_faults FOLDER MODEL QWEN2 MIXTRAL BERT MODEL_FOLDER [SCENARIO]
 *
 * FOLDER: where files are written; MODEL: with a chat template; QWEN2: with biases of keys. */
#include "faults.h"
#include "base/file.h"
#include "formats/gguf_write.h"
#include "harness.h"
#include "hasten/sample.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault_paths paths;
static const char *model_path, *rules_name;
static char copy_path[600];

void note(struct hasten_bytes *out, const void *data, size_t len)
{
    struct buf b = {out->data, out->len, out->cap};
    mem_fail_at(0, 0); /* the test's own memory */
    if (buf_put(&b, data, len))
        exit(1);
    *out = (struct hasten_bytes){b.data, b.len, b.cap};
}

/* ---- scenarios ------------------------------------------------------------------------------------------ */

static hasten_status load(struct hasten_bytes *out, struct hasten_error *err)
{
    struct hasten_model *m = NULL;
    const hasten_status st = hasten_model_open(model_path, &m, err);
    const int32_t n = st ? 0 : hasten_model_n_vocab(m);
    hasten_model_close(m);
    if (!st)
        note(out, &n, sizeof n);
    return st;
}

static hasten_status load_copied(struct hasten_bytes *out, struct hasten_error *err)
{
    const struct hasten_model_settings s = {.copy = true};
    struct hasten_model *m = NULL;
    const hasten_status st = hasten_model_open_with(model_path, &s, &m, err);
    const int32_t n = st ? 0 : hasten_model_n_tokens(m);
    hasten_model_close(m);
    if (!st)
        note(out, &n, sizeof n);
    return st;
}

static hasten_status tokenise(struct hasten_bytes *out, struct hasten_error *err)
{
    static const char text[] = "The river runs past the old mill, caf\xc3\xa9 \xff <|im_end|> 1984.\n";
    struct hasten_model *m = NULL;
    struct hasten_ids ids = {0};
    struct hasten_bytes back = {0};
    hasten_status st = hasten_model_open(model_path, &m, err);
    if (!st && !(st = hasten_tokenize(m, text, sizeof text - 1, HASTEN_TEXT_BOS, &ids, err)))
        st = hasten_detokenize(m, ids.ids, ids.n, true, &back, err);
    if (!st)
        note(out, back.data, back.len);
    hasten_bytes_free(&back);
    hasten_ids_free(&ids);
    hasten_model_close(m);
    return st;
}

static hasten_status chat(struct hasten_bytes *out, struct hasten_error *err)
{
    const struct hasten_message messages[] = {{"system", "Be kind."}, {"user", "Hi <|im_end|> there"}};
    struct hasten_model *m = NULL;
    struct hasten_chat *c = NULL;
    struct hasten_ids ids = {0};
    hasten_status st = hasten_model_open(model_path, &m, err);
    if (!st && !(st = hasten_chat_open(m, &c, err)) &&
        !(st = hasten_chat_encode(c, messages, 2, true, &ids, err)))
        st = hasten_chat_encode_json(c, "[{\"role\": \"user\", \"content\": \"hi\"}]", "[]", true, &ids, err);
    if (!st)
        note(out, ids.ids, (size_t)ids.n * sizeof *ids.ids);
    hasten_ids_free(&ids);
    hasten_chat_close(c);
    hasten_model_close(m);
    return st;
}

/* ---- an engine: steps, forks, sampling, a stream ---- */

struct run {
    struct hasten_model *m;
    struct hasten_engine *e;
    struct hasten_seq *a, *b;
    struct hasten_sampler *sampler;
    struct hasten_stream *stream;
    struct hasten_bytes text;
    struct hasten_error *err;
    hasten_status chosen;
    int32_t next;
};

static int choose(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                  int32_t n_vocab)
{
    struct run *r = ctx;
    (void)rows, (void)n_rows, (void)n_vocab;
    r->chosen = hasten_sampler_choose(r->sampler, logits, hasten_seq_tokens(r->b), hasten_seq_length(r->b),
                                      &r->next, r->err);
    return 0;
}

static hasten_status run_steps(struct run *r, struct hasten_error *err)
{
    static const int32_t prompt[] = {5, 6, 7, 8, 9, 10, 11};
    const struct hasten_item first = {.seq = r->a, .tokens = prompt, .n = 7, .want_from = 7};
    bool stopped;
    hasten_status st = hasten_step(r->e, &first, 1, NULL, NULL, NULL, err);
    if (st || (st = hasten_seq_fork(r->a, 5, &r->b, err)))
        return st;
    r->next = 12;
    for (int i = 0; i < 6 && !st; i++) {
        const struct hasten_item item = {.seq = r->b, .tokens = &r->next, .n = 1, .want_from = 0};
        if (!(st = hasten_step(r->e, &item, 1, choose, r, NULL, err)) && !(st = r->chosen))
            st = hasten_stream_push(r->stream, r->next, &r->text, &stopped, err);
    }
    return st ? st : hasten_stream_finish(r->stream, &r->text, err);
}

static hasten_status run_engine(const char *path, enum hasten_kv_type kv, struct hasten_bytes *out,
                                struct hasten_error *err)
{
    static const char *const stops[] = {"zzzz"};
    struct hasten_engine_settings s;
    struct hasten_sampler_settings law;
    struct run r = {.err = err};
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = 128;
    s.n_seq_max = 2;
    s.kv_type = kv;
    hasten_status st;
    if (!(st = hasten_model_open(path, &r.m, err)) && !(st = hasten_engine_open(r.m, &s, &r.e, err)) &&
        !(st = hasten_seq_open(r.e, &r.a, err)) && !(st = hasten_sampler_default_settings(r.m, &law, err))) {
        law.mirostat = 2;
        if (!(st = hasten_sampler_open(r.m, &law, &r.sampler, err)) &&
            !(st = hasten_stream_open(r.m, stops, 1, true, &r.stream, err)))
            st = run_steps(&r, err);
    }
    if (!st) {
        note(out, hasten_seq_tokens(r.b), (size_t)hasten_seq_length(r.b) * sizeof(int32_t));
        note(out, r.text.data, r.text.len);
    }
    hasten_bytes_free(&r.text);
    hasten_stream_close(r.stream);
    hasten_sampler_close(r.sampler);
    hasten_engine_close(r.e);
    hasten_model_close(r.m);
    return st;
}

static hasten_status steps_and_forks(struct hasten_bytes *out, struct hasten_error *err)
{
    return run_engine(model_path, HASTEN_KV_F16, out, err);
}

static hasten_status scripted(struct hasten_bytes *out, struct hasten_error *err)
{
    return run_engine(rules_name, HASTEN_KV_F16, out, err);
}

static hasten_status experts(struct hasten_bytes *out, struct hasten_error *err)
{
    return run_engine(paths.mixtral, HASTEN_KV_BF16, out, err);
}

/* With the mean of keys that q8 wants where keys have a bias. */
static hasten_status low_cache(struct hasten_bytes *out, struct hasten_error *err)
{
    return run_engine(paths.qwen2, HASTEN_KV_Q8, out, err);
}

/* ---- writing a model ---- */

static void add_all(struct gguf_write *w, const struct gguf *g)
{
    for (int64_t i = 0; i < gguf_n_keys(g); i++)
        if (strcmp(gguf_key(g, i), "general.alignment"))
            gguf_write_copy(w, g, i);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        gguf_write_tensor(w, t->name, t->type, t->n_dims, t->ne);
    }
}

/* What stood under the name stays whole whatever fails: it opens, before and after. */
static hasten_status write_model(struct hasten_bytes *out, struct hasten_error *err)
{
    struct gguf *g = NULL;
    struct gguf_write *w = NULL;
    hasten_status st = gguf_open(model_path, &g, err);
    if (!st && !(st = gguf_write_open(copy_path, 32, &w, err))) {
        add_all(w, g);
        st = gguf_write_begin(w, err);
        for (int64_t i = 0; !st && i < gguf_n_tensors(g); i++)
            st = gguf_write_data(w, gguf_tensor_at(g, i)->data, gguf_tensor_at(g, i)->size_bytes, err);
        if (!st)
            st = gguf_write_finish(w, err);
    }
    const uint64_t bytes = st ? 0 : gguf_write_bytes(w);
    gguf_write_close(w);
    gguf_close(g);
    if (!st)
        note(out, &bytes, sizeof bytes);
    return st;
}

/* ---- sweeps --------------------------------------------------------------------------------------------- */

static const struct scenario scenarios[] = {{"load", load, NULL, false, false},
                                            {"load copied", load_copied, NULL, false, false},
                                            {"tokenise", tokenise, NULL, false, false},
                                            {"chat", chat, NULL, false, false},
                                            {"steps and forks", steps_and_forks, NULL, false, false},
                                            {"experts", experts, NULL, false, false},
                                            {"q8 cache", low_cache, NULL, false, false},
                                            {"scripted", scripted, NULL, false, false},
                                            {"write", write_model, &copy_path[0], false, false},
                                            {"folder", fault_folder, NULL, false, false},
                                            {"split", fault_split, NULL, false, false},
                                            {"embed", fault_embed, NULL, false, false},
                                            {"adapter", fault_adapter, NULL, false, false},
                                            {"sampling", fault_sampling, NULL, false, false},
                                            {"imatrix", fault_imatrix, NULL, false, false},
                                            {"quantize", fault_quantize, quantized_path, false, true},
                                            {"save", fault_save, snapshot_path, false, false},
                                            {"restore", fault_restore, NULL, false, false},
                                            {"store", fault_store, NULL, false, false},
                                            {"disk", fault_disk, NULL, false, false},
                                            {"profile", fault_profile, NULL, false, false},
                                            {"cache", fault_cache, NULL, true, false}};

static int64_t n_faults, n_problems;

/* ---- what a writing leaves behind ---- */

struct left {
    char *data;
    size_t len, n_names; /* names in the folder */
};

static void clean_up(const char *path)
{
    struct hasten_error err;
    struct file_names names = {0};
    char other[700];
    const char *own = strrchr(path, '/') + 1;
    die_unless_ok(file_list(paths.folder, &names, &err), &err, "listing the folder");
    for (size_t i = 0; i < names.n; i++)
        if (strcmp(names.names[i], own) && strncmp(names.names[i], own, strlen(own)) == 0) {
            snprintf(other, sizeof other, "%s/%s", paths.folder, names.names[i]);
            die_unless_ok(file_unlink(other, &err), &err, "cleaning up");
        }
    file_names_free(&names);
}

static struct left look(const char *path)
{
    struct left l = {0};
    struct hasten_error err;
    struct file_names names = {0};
    die_unless_ok(file_slurp(path, (size_t)64 << 20, &l.data, &l.len, &err), &err,
                  "reading what was written");
    die_unless_ok(file_list(paths.folder, &names, &err), &err, "listing the folder");
    l.n_names = names.n;
    file_names_free(&names);
    return l;
}

static void problem(const struct scenario *s, const char *kind, uint64_t n, const char *what)
{
    n_problems++;
    printf("%s: %s %llu: %s\n", s->name, kind, (unsigned long long)n, what);
}

/* One run with a fault; every: 0 once, 1 from then on; error: of files, -1: an allocation. */
static void run_fault(const struct scenario *s, const struct hasten_bytes *clean, const struct left *whole,
                      uint64_t n, uint64_t every, int error)
{
    const char *kind = error < 0 ? "allocation" : "file operation";
    struct hasten_error err = {0};
    struct hasten_bytes out = {0};
    struct mem_stats before, after;
    mem_stats_get(&before);
    if (error < 0)
        mem_fail_at(n, every);
    else
        file_fail_at(n, every, error);
    const hasten_status st = s->fn(&out, &err);
    mem_fail_at(0, 0);
    file_fail_at(0, 0, 0);
    if (st && !err.message[0])
        problem(s, kind, n, "an error without a sentence");
    if (st && error < 0 && st != HASTEN_ERR_MEMORY)
        problem(s, kind, n, err.message);
    const bool may_differ = error >= 0 && s->shows_what_it_can;
    if (!st && !may_differ && (out.len != clean->len || memcmp(out.data, clean->data, out.len)))
        problem(s, kind, n, "succeeded with other bytes");
    if (s->written) {
        struct left now = look(s->written);
        if (now.len != whole->len || memcmp(now.data, whole->data, now.len))
            problem(s, kind, n, "the file is no longer what it was");
        const bool may_stay = every && error >= 0; /* nothing can be removed either */
        if (now.n_names != whole->n_names && !may_stay)
            problem(s, kind, n, "something was left beside the file");
        clean_up(s->written);
        mem_free(now.data);
    }
    hasten_bytes_free(&out);
    mem_stats_get(&after);
    if (after.live_bytes != before.live_bytes)
        problem(s, kind, n, "memory has leaked");
    n_faults++;
}

static void sweep(const struct scenario *s)
{
    static const int errors[] = {EIO, ENOSPC, 0};
    struct hasten_bytes clean = {0};
    struct hasten_error err = {0};
    struct mem_stats before, after;
    mem_stats_get(&before);
    const uint64_t files_before = file_op_count();
    die_unless_ok(s->fn(&clean, &err), &err, s->name);
    if (!clean.len) {
        fprintf(stderr, "test_faults: %s: noted nothing\n", s->name);
        exit(1);
    }
    const uint64_t n_files = file_op_count() - files_before;
    mem_stats_get(&after);
    const uint64_t n_allocs = after.n_calls - before.n_calls;
    const int64_t faults_before = n_faults;
    struct left whole = {0};
    if (s->written) {
        clean_up(s->written);
        whole = look(s->written);
    }
    for (uint64_t every = 0; every <= 1; every++) {
        for (uint64_t n = 1; n <= n_allocs; n += n_allocs > 1500 && n > 700 && n + 300 < n_allocs ? 17 : 1)
            run_fault(s, &clean, &whole, n, every, -1);
        for (uint64_t n = 1; n <= n_files; n++)
            for (size_t i = 0; i < (s->one_error ? 1 : sizeof errors / sizeof *errors); i++)
                run_fault(s, &clean, &whole, n, every, errors[i]);
    }
    run_fault(s, &clean, &whole, UINT64_MAX, 0, -1); /* and a clean run afterwards: the same bytes */
    struct hasten_bytes again = {0};
    die_unless_ok(s->fn(&again, &err), &err, s->name);
    if (again.len != clean.len || memcmp(again.data, clean.data, clean.len))
        problem(s, "run", 0, "other bytes after all faults");
    hasten_bytes_free(&again);
    hasten_bytes_free(&clean);
    mem_free(whole.data);
    printf("%-16s %5llu allocations, %3llu file operations, %lld faults\n", s->name,
           (unsigned long long)n_allocs, (unsigned long long)n_files, (long long)(n_faults - faults_before));
}

static void write_rules(const char *folder)
{
    static const char rules[] = "if 5 after 12: \"What follows\" eos\nelse \".\"\n";
    static char name[600];
    struct file *f;
    struct hasten_error err;
    snprintf(name, sizeof name, "script:%s/faults.rules", folder);
    snprintf(copy_path, sizeof copy_path, "%s/faults.gguf", folder);
    die_unless_ok(file_open(name + 7, FILE_WRITE_TRUNC, &f, &err), &err, "writing rules");
    die_unless_ok(file_write(f, rules, sizeof rules - 1, &err), &err, "writing rules");
    file_close(f);
    rules_name = name;
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(mem_alloc, mem_free); /* as the command does */
    if (argc < 7) {
        fprintf(stderr, "usage: test_faults FOLDER MODEL QWEN2 MIXTRAL BERT MODEL_FOLDER [SCENARIO]\n");
        return 1;
    }
    paths = (struct fault_paths){argv[1], argv[2], argv[3], argv[4], argv[5], argv[6]};
    model_path = paths.model;
    write_rules(paths.folder);
    fault_files_write();
    fault_snapshots_write();
    int n_run = 0;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (argc > 7 && strcmp(argv[7], scenarios[i].name))
            continue;
        sweep(&scenarios[i]);
        n_run++;
    }
    printf("%lld faults injected in %d scenarios, %lld problems\n", (long long)n_faults, n_run,
           (long long)n_problems);
    return n_problems || n_faults < 100 ? 1 : 0;
}
