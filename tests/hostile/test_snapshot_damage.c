/* Damaged snapshots. Every byte of small ones is another, and they end at every place: each is refused in a sentence, takes
 * no page, no sequence and no memory, and the whole file goes on afterwards to the same bits. Then the same with checksums
 * made right again, as by somebody who wants to harm: each is refused, or what comes of it can be stepped, forked, cut
 * back and saved (the sanitizers watch).
 *
 *     test_snapshot_damage STRIDE */
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/snapshot.h"
#include "tiny_snapshot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_VOCAB 400

static int64_t n_damages, n_refused, n_lived, n_problems;
static struct hasten_engine *e;

static void problem(const char *kind, size_t at, const char *found)
{
    n_problems++;
    printf("%s at %zu: %s\n", kind, at, found);
}

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    (void)rows;
    memcpy(ctx, logits + (int64_t)(n_rows - 1) * n_vocab, (size_t)n_vocab * sizeof *logits);
    return 0;
}

/* A restored sequence is used in every way. */
static hasten_status use(struct hasten_seq *s, float *row, struct hasten_error *err)
{
    static const int32_t ids[] = {7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43};
    struct hasten_seq *fork = NULL;
    hasten_status st = hasten_step(
        e, &(struct hasten_item){.seq = s, .tokens = ids, .n = 19, .want_from = 18}, 1, keep, row, NULL, err);
    st = st ? st : hasten_seq_fork(s, hasten_seq_length(s) / 2, &fork, err);
    st = st ? st
            : hasten_step(e, &(struct hasten_item){.seq = fork, .tokens = ids, .n = 5, .want_from = 5}, 1,
                          NULL, NULL, NULL, err);
    hasten_seq_close(fork);
    st = st ? st : hasten_seq_truncate(s, hasten_seq_length(s) / 3, err);
    return st ? st
              : hasten_step(e, &(struct hasten_item){.seq = s, .tokens = ids, .n = 5, .want_from = 5}, 1,
                            NULL, NULL, NULL, err);
}

static hasten_status load(const struct buf *file, float *row, const char *kind, size_t at)
{
    char path[40];
    struct hasten_error err = {0};
    struct hasten_seq *s = NULL;
    struct mem_stats before, after;
    struct snapshot_info info = {0};
    const int fd = memfd_create("damage", 0);
    if (fd < 0 || write(fd, file->data, file->len) != (ssize_t)file->len)
        exit(1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    mem_stats_get(&before);
    const hasten_status st = hasten_seq_load(e, path, &s, &err);
    if (st && (err.status != st || !err.message[0]))
        problem(kind, at, "an error without a sentence");
    if (st && s)
        problem(kind, at, "a sequence is given out all the same");
    if (!st) {
        const hasten_status used = use(s, row, &err);
        if (used == HASTEN_ERR_INTERNAL)
            problem(kind, at, err.message);
    }
    hasten_seq_close(s);
    const hasten_status seen = snapshot_inspect(path, true, &info, &err);
    if (!st && seen)
        problem(kind, at, "restored, but refused when it is looked at");
    snapshot_info_free(&info);
    mem_stats_get(&after);
    close(fd);
    if (before.live_bytes != after.live_bytes)
        problem(kind, at, "memory has leaked");
    if (e->kv.n_free != e->kv.n_blocks)
        problem(kind, at, "pages are missing");
    for (int32_t i = 0; i < e->settings.n_seq_max; i++)
        if (e->seqs[i].open)
            problem(kind, at, "a sequence is left open");
    n_damages++;
    n_refused += st != HASTEN_OK;
    n_lived += st == HASTEN_OK;
    return st;
}

static void damage(const struct buf *file, size_t stride)
{
    static float whole[N_VOCAB], row[N_VOCAB];
    struct buf copy = {0};
    if (buf_put(&copy, file->data, file->len) || load(file, whole, "nothing", 0)) {
        problem("nothing", 0, "the whole file is refused");
        return;
    }
    for (size_t i = 0; i < file->len; i += stride) {
        copy.data[i] = (char)((uint8_t)copy.data[i] ^ (uint8_t)(1 + i * 37 % 255));
        if (!load(&copy, row, "another byte", i))
            problem("another byte", i, "was not noticed");
        if (!tiny_snapshot_seal(&copy))
            load(&copy, row, "another byte, sealed", i);
        buf_clear(&copy);
        if (buf_put(&copy, file->data, file->len))
            exit(1);
    }
    for (copy.len = 0; copy.len < file->len; copy.len += stride)
        if (!load(&copy, row, "an end", copy.len))
            problem("an end", copy.len, "was not noticed");
    copy.len = file->len;
    if (buf_putc(&copy, 0) || !load(&copy, row, "one more", file->len))
        problem("one more", file->len, "was not noticed");
    memset(row, 0, sizeof row);
    if (load(file, row, "nothing", 0) || memcmp(row, whole, sizeof row))
        problem("nothing", 0, "the whole file goes on otherwise afterwards");
    buf_free(&copy);
}

int main(int argc, char **argv)
{
    const size_t stride = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (!stride)
        return 2;
    for (int kind = 0; kind < TINY_SNAPSHOT_KINDS; kind++) {
        struct hasten_model *m = NULL;
        struct buf file = {0};
        if (tiny_snapshot_open((enum tiny_snapshot_kind)kind, &m, &e) || tiny_snapshot_make(e, 37, &file)) {
            fprintf(stderr, "test_snapshot_damage: cannot make a snapshot\n");
            return 1;
        }
        damage(&file, stride);
        printf("kind %d: %zu bytes\n", kind, file.len);
        buf_free(&file);
        hasten_engine_close(e);
        hasten_model_close(m);
    }
    printf("%lld damages of snapshots, %lld refused, %lld lived with, %lld problems\n", (long long)n_damages,
           (long long)n_refused, (long long)n_lived, (long long)n_problems);
    return n_problems || n_refused < n_damages / 3 || n_lived < 10 ? 1 : 0;
}
