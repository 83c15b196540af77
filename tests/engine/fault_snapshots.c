/* Scenarios of test_faults about what is kept of sequences: written to a file, read back, held by a store. */
#include "base/file.h"
#include "engine/store.h"
#include "faults.h"
#include "harness.h"
#include "hasten/hasten.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char snapshot_path[600];
static char kept_path[600], disk_path[600];

struct machine {
    struct hasten_model *m;
    struct hasten_engine *e;
    struct hasten_seq *s;
    int32_t best;
};

static int take_best(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                     int32_t n_vocab)
{
    struct machine *x = ctx;
    (void)rows, (void)n_rows;
    x->best = 0;
    for (int32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[x->best])
            x->best = i;
    return 0;
}

static hasten_status append(struct machine *x, int32_t n, struct hasten_error *err)
{
    static const int32_t ids[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
    const struct hasten_item item = {
        .seq = x->s, .tokens = ids + hasten_seq_length(x->s), .n = n, .want_from = n - 1};
    return hasten_step(x->e, &item, 1, take_best, x, NULL, err);
}

static hasten_status start(struct machine *x, const struct hasten_method_use *use, struct hasten_error *err)
{
    struct hasten_engine_settings s;
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = 128;
    s.n_seq_max = 2;
    s.methods = use;
    s.n_methods = use != NULL;
    const hasten_status st = hasten_model_open(paths.model, &x->m, err);
    return st ? st : hasten_engine_open(x->m, &s, &x->e, err);
}

static void stop(struct machine *x)
{
    hasten_engine_close(x->e);
    hasten_model_close(x->m);
}

static const struct hasten_method_use h2o = {"cache", "h2o:keep=8,every=6,recent=2", NULL};

static hasten_status save_to(const char *path, struct hasten_bytes *out, struct hasten_error *err)
{
    struct machine x = {0};
    hasten_status st = start(&x, &h2o, err);
    st = st ? st : hasten_seq_open(x.e, &x.s, err);
    st = st ? st : append(&x, 13, err);
    st = st ? st : hasten_seq_save(x.s, path, err);
    if (!st)
        note(out, &x.best, sizeof x.best);
    stop(&x);
    return st;
}

hasten_status fault_save(struct hasten_bytes *out, struct hasten_error *err)
{
    return save_to(snapshot_path, out, err);
}

hasten_status fault_restore(struct hasten_bytes *out, struct hasten_error *err)
{
    struct machine x = {0};
    hasten_status st = start(&x, &h2o, err);
    st = st ? st : hasten_seq_load(x.e, kept_path, &x.s, err);
    st = st ? st : append(&x, 2, err);
    if (!st)
        note(out, &x.best, sizeof x.best);
    stop(&x);
    return st;
}

/* Two prompts, the second of which begins as the first; then the first again, with a place for one. */
hasten_status fault_store(struct hasten_bytes *out, struct hasten_error *err)
{
    static const struct hasten_method_use apc = {"store", "apc:slots=1,min=1", NULL};
    static const int32_t one[] = {5, 6, 7, 8, 9}, two[] = {5, 6, 7, 30, 31}, *const asked[] = {one, two, one};
    struct machine x = {0};
    struct store *store = NULL;
    hasten_status st = start(&x, &apc, err);
    st = st ? st : store_open(x.e, &store, err);
    for (int i = 0; i < 3 && !st; i++) {
        st = store_take(store, 1, asked[i], 5, &x.s, err);
        const int32_t n = st ? 0 : hasten_seq_length(x.s);
        const struct hasten_item item = {.seq = x.s, .tokens = asked[i] + n, .n = 5 - n, .want_from = 4 - n};
        st = st ? st : hasten_step(x.e, &item, 1, take_best, &x, NULL, err);
        if (!st)
            note(out, &x.best, sizeof x.best);
        store_give(store, 1, x.s);
        x.s = NULL;
    }
    store_close(store);
    stop(&x);
    return st;
}

static void empty(const char *folder)
{
    struct file_names f = {0};
    char path[1200];
    if (file_list_if_any(folder, &f, NULL))
        return;
    for (size_t i = 0; i < f.n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, f.names[i]);
        unlink(path);
    }
    file_names_free(&f);
}

/* Through the tier on disk: written by one store, read by the next. What fails there is missed. */
hasten_status fault_disk(struct hasten_bytes *out, struct hasten_error *err)
{
    static char spec[700];
    int32_t ids[100];
    const struct hasten_method_use apc = {"store", spec, NULL};
    struct machine x = {0};
    snprintf(spec, sizeof spec, "apc:slots=1,min=1,dir=%s", disk_path);
    for (int32_t i = 0; i < 100; i++)
        ids[i] = 5 + i % 20;
    hasten_status st = start(&x, &apc, err);
    for (int i = 0; i < 2 && !st; i++) {
        struct store *store = NULL;
        st = store_open(x.e, &store, err);
        st = st ? st : store_take(store, 1, ids, 100 - i, &x.s, err);
        const int32_t n = st ? 0 : hasten_seq_length(x.s);
        const struct hasten_item item = {
            .seq = x.s, .tokens = ids + n, .n = 100 - i - n, .want_from = 99 - i - n};
        st = st ? st : hasten_step(x.e, &item, 1, take_best, &x, NULL, err);
        if (!st)
            note(out, &x.best, sizeof x.best);
        store_give(store, 1, x.s);
        x.s = NULL;
        store_close(store);
    }
    stop(&x);
    mem_fail_at(0, 0);
    file_fail_at(0, 0, 0);
    empty(disk_path);
    return st;
}

void fault_snapshots_write(void)
{
    struct hasten_bytes out = {0};
    struct hasten_error err;
    snprintf(snapshot_path, sizeof snapshot_path, "%s/faults.seq", paths.folder);
    snprintf(disk_path, sizeof disk_path, "%s/disk", paths.folder);
    empty(disk_path);
    snprintf(kept_path, sizeof kept_path, "%s/kept.seq", paths.folder);
    die_unless_ok(save_to(kept_path, &out, &err), &err, "writing a snapshot");
    hasten_bytes_free(&out);
}
