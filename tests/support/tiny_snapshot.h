/* A tiny engine whose sequences make small snapshots, for tests that damage them and for the fuzz target. */
#ifndef HASTEN_TESTS_TINY_SNAPSHOT_H
#define HASTEN_TESTS_TINY_SNAPSHOT_H
#include "base/mem.h"
#include "hasten/hasten.h"

enum tiny_snapshot_kind {
    TINY_SNAPSHOT_PLAIN,
    TINY_SNAPSHOT_Q8,
    TINY_SNAPSHOT_METHODS, /* quest, and h2o, which takes entries out */
    TINY_SNAPSHOT_KINDS
};
/* A model of one layer and one KV head, and an engine of it with a context of 128. 0, or -1. */
int tiny_snapshot_open(enum tiny_snapshot_kind kind, struct hasten_model **m, struct hasten_engine **e);
/* The bytes of a snapshot of n tokens of that engine. 0, or -1. */
int tiny_snapshot_make(struct hasten_engine *e, int32_t n, struct buf *out);
/* Makes all checksums of a snapshot right, so that what is behind them can be tried; -1: its header says other sizes. */
int tiny_snapshot_seal(struct buf *b);

#endif
