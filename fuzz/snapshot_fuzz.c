/* Fuzz target of snapshots: the first byte chooses an engine, the rest is a file. What is restored is stepped, forked, cut
 * back and looked at; what is refused has taken nothing. Fuzzers' builds take any checksum (base/checksum.c). */
#include "engine/engine.h"
#include "engine/snapshot.h"
#include "fuzz.h"
#include "tiny_snapshot.h"

static struct hasten_model *model[TINY_SNAPSHOT_KINDS];
static struct hasten_engine *engine[TINY_SNAPSHOT_KINDS];

static void use(struct hasten_engine *e, struct hasten_seq *s)
{
    static const int32_t ids[] = {7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43};
    struct hasten_seq *fork = NULL;
    struct hasten_error err = {0};
    hasten_status st =
        hasten_step(e, &(struct hasten_item){.seq = s, .tokens = ids, .n = 19, .want_from = 19}, 1, NULL,
                    NULL, NULL, &err);
    check_error(st, &err);
    check(!hasten_seq_fork(s, hasten_seq_length(s) / 2, &fork, &err));
    st = hasten_step(e, &(struct hasten_item){.seq = fork, .tokens = ids, .n = 5, .want_from = 4}, 1, NULL,
                     NULL, NULL, &err);
    check_error(st, &err);
    hasten_seq_close(fork);
    check(!hasten_seq_truncate(s, hasten_seq_length(s) / 3, &err));
    st = hasten_step(e, &(struct hasten_item){.seq = s, .tokens = ids, .n = 5, .want_from = 5}, 1, NULL, NULL,
                     NULL, &err);
    check_error(st, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hasten_seq *s = NULL;
    struct hasten_error err = {0};
    struct snapshot_info info = {0};
    if (size < 1)
        return 0;
    const int kind = data[0] % TINY_SNAPSHOT_KINDS;
    if (!engine[kind])
        check(!tiny_snapshot_open((enum tiny_snapshot_kind)kind, &model[kind], &engine[kind]));
    struct hasten_engine *e = engine[kind];
    const struct memory_file f = memory_file(data + 1, size - 1);
    const hasten_status st = hasten_seq_load(e, f.path, &s, &err),
                        seen = snapshot_inspect(f.path, true, &info, &err);
    check_error(seen, &err);
    check(!st == (s != NULL) && (st || !seen));
    if (!st)
        use(e, s);
    hasten_seq_close(s);
    snapshot_info_free(&info);
    memory_file_close(&f);
    check(e->kv.n_free == e->kv.n_blocks);
    for (int32_t i = 0; i < e->settings.n_seq_max; i++)
        check(!e->seqs[i].open);
    return 0;
}
