/* Scenarios of test_faults about files: model folders, split models, encoders, adapters, importance matrices, a model in
 * another format, profiles, the cache; and a sampler with all its processors. */
#include "base/file.h"
#include "cli/cache.h"
#include "cli/convert.h"
#include "cli/profile.h"
#include "faults.h"
#include "formats/imatrix.h"
#include "gguf_writer.h"
#include "harness.h"
#include "hasten/sample.h"
#include "tiny_lora.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SHARDS 3
#define MATRIX "blk.0.ffn_up.weight"

char quantized_path[600];
static char split_path[600], lora_path[600], imatrix_path[600], profile_path_[600], cache_folder[600];

static const char *in_folder(char out[600], const char *name)
{
    snprintf(out, 600, "%s/%s", paths.folder, name);
    return out;
}

/* ---- what is read ------------------------------------------------------------------------------------------ */

static void must(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "test_faults: cannot write %s\n", what);
        exit(1);
    }
}

static void write_shards(void)
{
    for (uint32_t i = 0; i < N_SHARDS; i++) {
        char name[40], path[600];
        const float data[8] = {(float)i, 1, 2, 3, 4, 5, 6, 7};
        struct gguf_writer *w = gguf_writer_new();
        must(!w, "a shard");
        gguf_writer_number(w, "split.no", GGUF_U16, i);
        gguf_writer_number(w, "split.count", GGUF_U16, N_SHARDS);
        gguf_writer_number(w, "split.tensors.count", GGUF_I32, N_SHARDS);
        if (i == 0)
            gguf_writer_str(w, "general.architecture", "llama");
        snprintf(name, sizeof name, "t%u.weight", i);
        gguf_writer_tensor(w, name, QUANT_F32, 1, (uint64_t[]){8}, data, sizeof data);
        snprintf(name, sizeof name, "split-%05u-of-%05u.gguf", i + 1, (unsigned)N_SHARDS);
        must(gguf_writer_save(w, NULL, 0, in_folder(i ? path : split_path, name)), name);
        gguf_writer_free(w);
    }
}

static void write_imatrix(void)
{
    struct gguf *g = NULL;
    struct hasten_error err;
    die_unless_ok(gguf_open(paths.model, &g, &err), &err, "opening the model");
    const struct gguf_tensor *t = gguf_tensor_find(g, MATRIX);
    must(!t, MATRIX);
    struct gguf_writer *w = gguf_writer_new();
    float *sums = calloc((size_t)t->ne[0], sizeof *sums);
    const float count = 3;
    must(!w || !sums, "an importance matrix");
    for (int64_t i = 0; i < t->ne[0]; i++)
        sums[i] = (float)i + 0.5f;
    gguf_writer_str(w, "general.type", "imatrix");
    gguf_writer_tensor(w, MATRIX ".in_sum2", QUANT_F32, 2, (uint64_t[]){(uint64_t)t->ne[0], 1}, sums,
                       (size_t)t->ne[0] * sizeof *sums);
    gguf_writer_tensor(w, MATRIX ".counts", QUANT_F32, 2, (uint64_t[]){1, 1}, &count, sizeof count);
    must(gguf_writer_save(w, NULL, 0, in_folder(imatrix_path, "faults.imatrix")), "an importance matrix");
    gguf_writer_free(w);
    gguf_close(g);
    free(sums);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    must(!f || fputs(text, f) < 0 || fclose(f), path);
}

/* A cache with a whole file that has a record, and a part of one. */
static void write_cache(void)
{
    static const char *const files[][2] = {
        {"models/hf/u/r/a.gguf", "whole"},
        {"models/hf/u/r/a.gguf.pull.json", "{\"name\": \"hf:u/r/a.gguf\", \"sha256\": \"x\"}"},
        {"models/url/h/b.gguf.part", "half"},
        {"models/url/h/b.gguf.part.json", "{\"name\": \"https://h/b.gguf?q\"}"}};
    struct hasten_error err;
    char path[1300];
    in_folder(cache_folder, "faults-cache");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", cache_folder, files[i][0]);
        char *slash = strrchr(path, '/');
        *slash = 0;
        die_unless_ok(file_mkdirs(path, &err), &err, "making the cache");
        *slash = '/';
        write_text(path, files[i][1]);
    }
    must(setenv("HASTEN_CACHE", cache_folder, 1), "the environment");
}

void fault_files_write(void)
{
    in_folder(quantized_path, "faults-q8.gguf");
    write_shards();
    write_imatrix();
    const struct tiny_lora lora = tiny_lora_default(3);
    must(tiny_lora_save(paths.model, &lora, in_folder(lora_path, "faults-lora.gguf")), "an adapter");
    write_text(in_folder(profile_path_, "faults.yaml"),
               "temp: 0.5\nstop: [a, \"b\\n\"]\nrun:\n  top_k: 3\neval: {stride: 4}\n");
    write_cache();
}

/* ---- scenarios ---------------------------------------------------------------------------------------------- */

hasten_status fault_folder(struct hasten_bytes *out, struct hasten_error *err)
{
    struct hasten_model *m = NULL;
    struct hasten_ids ids = {0};
    hasten_status st = hasten_model_open(paths.model_folder, &m, err);
    if (!st)
        st = hasten_tokenize(m, "The river runs", 14, HASTEN_TEXT_BOS, &ids, err);
    if (!st)
        note(out, ids.ids, (size_t)ids.n * sizeof *ids.ids);
    hasten_ids_free(&ids);
    hasten_model_close(m);
    return st;
}

hasten_status fault_split(struct hasten_bytes *out, struct hasten_error *err)
{
    struct gguf *g = NULL;
    const hasten_status st = gguf_open(split_path, &g, err);
    for (int64_t i = 0; !st && i < gguf_n_tensors(g); i++)
        note(out, gguf_tensor_at(g, i)->data, gguf_tensor_at(g, i)->size_bytes);
    gguf_close(g);
    return st;
}

hasten_status fault_embed(struct hasten_bytes *out, struct hasten_error *err)
{
    static const int32_t a[] = {1, 5, 6, 7, 2}, b[] = {1, 9, 2};
    static const struct hasten_text texts[] = {{a, 5}, {b, 3}};
    struct hasten_engine_settings s;
    struct hasten_model *m = NULL;
    struct hasten_engine *e = NULL;
    float v[2 * 1024];
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_seq_max = 2;
    hasten_status st = hasten_model_open(paths.bert, &m, err);
    if (!st && !(st = hasten_engine_open(m, &s, &e, err)))
        st = hasten_embed(e, texts, 2, HASTEN_POOLING_MODEL, true, v, NULL, err);
    if (!st)
        note(out, v, 2 * (size_t)hasten_model_n_embd(m) * sizeof *v);
    hasten_engine_close(e);
    hasten_model_close(m);
    return st;
}

static int keep_row(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                    int32_t n_vocab)
{
    (void)rows;
    note(ctx, logits, (size_t)n_rows * (size_t)n_vocab * sizeof *logits);
    return 0;
}

hasten_status fault_adapter(struct hasten_bytes *out, struct hasten_error *err)
{
    static const int32_t prompt[] = {5, 6, 7};
    struct hasten_engine_settings s;
    struct hasten_model *m = NULL;
    struct hasten_lora *l = NULL;
    struct hasten_engine *e = NULL;
    struct hasten_seq *seq = NULL;
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = 64;
    hasten_status st = hasten_model_open(paths.model, &m, err);
    if (!st && !(st = hasten_lora_open(m, lora_path, &l, err))) {
        const struct hasten_lora_use use = {l, 0.5f};
        s.loras = &use;
        s.n_loras = 1;
        if (!(st = hasten_engine_open(m, &s, &e, err)) && !(st = hasten_seq_open(e, &seq, err))) {
            const struct hasten_item item = {.seq = seq, .tokens = prompt, .n = 3, .want_from = 2};
            st = hasten_step(e, &item, 1, keep_row, out, NULL, err);
        }
    }
    hasten_engine_close(e);
    hasten_lora_close(l);
    hasten_model_close(m);
    return st;
}

hasten_status fault_sampling(struct hasten_bytes *out, struct hasten_error *err)
{
    static const struct hasten_bias bias[] = {{3, -INFINITY}, {4, 1.5f}};
    static const int32_t path[] = {5, 6, 7, 5, 6, 7, 5, 6};
    struct hasten_sampler_settings law;
    struct hasten_model *m = NULL;
    struct hasten_sampler *s = NULL;
    float row[4096];
    int32_t id = 0;
    hasten_status st = hasten_model_open(paths.model, &m, err);
    if (!st && !(st = hasten_sampler_default_settings(m, &law, err))) {
        law.dry_multiplier = 0.8f;
        law.repeat_penalty = 1.1f;
        law.typical_p = 0.9f;
        law.xtc_probability = 0.5f;
        law.bias = bias;
        law.n_bias = 2;
        for (int32_t i = 0; i < hasten_model_n_vocab(m) && i < 4096; i++)
            row[i] = sinf((float)i);
        if (!(st = hasten_sampler_open(m, &law, &s, err)))
            st = hasten_sampler_choose(s, row, path, 8, &id, err);
    }
    if (!st)
        note(out, &id, sizeof id);
    hasten_sampler_close(s);
    hasten_model_close(m);
    return st;
}

hasten_status fault_imatrix(struct hasten_bytes *out, struct hasten_error *err)
{
    struct imatrix *im = NULL;
    struct gguf *g = NULL;
    float *v = NULL;
    hasten_status st = gguf_open(paths.model, &g, err);
    if (!st && !(st = imatrix_open(imatrix_path, &im, err))) {
        const int64_t k = gguf_tensor_find(g, MATRIX)->ne[0];
        v = malloc((size_t)k * sizeof *v);
        st = imatrix_get(im, imatrix_find(im, MATRIX), k, 1, v, err);
        if (!st)
            note(out, v, (size_t)k * sizeof *v);
    }
    free(v);
    imatrix_close(im);
    gguf_close(g);
    return st;
}

static hasten_status convert_all(const struct gguf *g, struct gguf_write *w, struct converter *c,
                                 struct hasten_error *err)
{
    const struct quant_type *to = quant_type_get(QUANT_F16);
    struct convert_sums sums = {0};
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        gguf_write_tensor(w, t->name, t->n_dims > 1 ? to : t->type, t->n_dims, t->ne);
    }
    hasten_status st = gguf_write_begin(w, err);
    for (int64_t i = 0; !st && i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const struct convert_request r = {.from = t, .to = t->n_dims > 1 ? to : t->type, .out = w};
        st = convert_tensor(c, &r, &sums, err);
    }
    return st ? st : gguf_write_finish(w, err);
}

hasten_status fault_quantize(struct hasten_bytes *out, struct hasten_error *err)
{
    struct pool *pool = NULL;
    struct gguf *g = NULL;
    struct gguf_write *w = NULL;
    struct converter *c = NULL;
    hasten_status st = gguf_open(paths.model, &g, err);
    if (!st && !(st = pool_create(1, &pool, err)) && !(st = converter_open(pool, &c, err)) &&
        !(st = gguf_write_open(quantized_path, 32, &w, err)))
        st = convert_all(g, w, c, err);
    const uint64_t bytes = st ? 0 : gguf_write_bytes(w);
    gguf_write_close(w);
    converter_close(c);
    pool_destroy(pool);
    gguf_close(g);
    if (!st)
        note(out, &bytes, sizeof bytes);
    return st;
}

hasten_status fault_profile(struct hasten_bytes *out, struct hasten_error *err)
{
    struct profile *p = NULL;
    const hasten_status st = profile_open(profile_path_, &p, err);
    for (int i = 0; !st && profile_at(p, i); i++) {
        note(out, profile_at(p, i)->key, strlen(profile_at(p, i)->key));
        note(out, profile_at(p, i)->value, strlen(profile_at(p, i)->value));
    }
    profile_close(p);
    return st;
}

static hasten_status note_entry(void *ctx, const struct cache_entry *e, struct hasten_error *err)
{
    char line[600];
    (void)err;
    snprintf(line, sizeof line, "%s %llu %d\n", e->name, (unsigned long long)e->bytes, e->complete);
    struct buf *b = ctx;
    return buf_puts(b, line) ? HASTEN_ERR_MEMORY : HASTEN_OK;
}

hasten_status fault_cache(struct hasten_bytes *out, struct hasten_error *err)
{
    struct buf lines = {0}, path = {0};
    hasten_status st = cache_each(note_entry, &lines, err);
    if (st == HASTEN_ERR_MEMORY && !err->message[0])
        error_set(err, st, "out of memory");
    if (!st)
        st = model_resolve("hf:u/r/a.gguf", &path, err);
    if (!st)
        note(out, lines.data, lines.len);
    buf_free(&lines);
    buf_free(&path);
    return st;
}
