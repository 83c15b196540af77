/* See tiny_snapshot.h. */
#include "tiny_snapshot.h"
#include "base/file.h"
#include "engine/snapshot_inside.h"
#include "tiny_model.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int open_model(struct hasten_model **m)
{
    struct tiny_options o;
    struct buf b = {0};
    char path[40];
    struct hasten_error err;
    if (tiny_options_default("llama", 1, &o))
        return -1;
    o.n_layer = 1;
    o.d_model = o.d_ff = 32;
    o.n_head = 2;
    o.n_head_kv = 1;
    o.n_vocab = 400;
    o.context = 128;
    o.type = "F32";
    const int fd = memfd_create("tiny", 0);
    int rc = fd < 0 || tiny_model_build(&o, &b) || write(fd, b.data, b.len) != (ssize_t)b.len ? -1 : 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = rc || hasten_model_open(path, m, &err) ? -1 : 0;
    close(fd);
    buf_free(&b);
    return rc;
}

int tiny_snapshot_open(enum tiny_snapshot_kind kind, struct hasten_model **m, struct hasten_engine **e)
{
    static const struct hasten_method_use methods[] = {
        {"attend", "quest:budget=0.25,phase=both,layers=all,recent=4,sink=1,page=8", NULL},
        {"cache", "h2o:keep=24,every=16,recent=8", NULL}};
    struct hasten_engine_settings s;
    struct hasten_error err;
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = 128;
    s.n_batch = 32;
    s.n_seq_max = 2;
    s.plain = true; /* plain C: the sanitizers see it */
    s.kv_type = kind == TINY_SNAPSHOT_Q8 ? HASTEN_KV_Q8 : HASTEN_KV_F16;
    s.methods = kind == TINY_SNAPSHOT_METHODS ? methods : NULL;
    s.n_methods = kind == TINY_SNAPSHOT_METHODS ? 2 : 0;
    return open_model(m) || hasten_engine_open(*m, &s, e, &err) ? -1 : 0;
}

int tiny_snapshot_make(struct hasten_engine *e, int32_t n, struct buf *out)
{
    char path[64];
    int32_t ids[128];
    struct hasten_seq *s = NULL;
    struct hasten_error err;
    snprintf(path, sizeof path, "/tmp/hasten-tiny-%ld.seq", (long)getpid());
    for (int32_t i = 0; i < n; i++)
        ids[i] = 5 + i * 37 % 390;
    int rc = hasten_seq_open(e, &s, &err) || hasten_seq_announce(s, n / 2, &err) ||
             (n && hasten_step(e, &(struct hasten_item){.seq = s, .tokens = ids, .n = n, .want_from = n}, 1,
                               NULL, NULL, NULL, &err)) ||
             hasten_seq_save(s, path, &err) || file_slurp(path, (size_t)1 << 24, &out->data, &out->len, &err);
    unlink(path);
    hasten_seq_close(s);
    return rc ? -1 : 0;
}

int tiny_snapshot_seal(struct buf *b)
{
    struct snapshot_header h;
    uint64_t at = sizeof h;
    if (b->len < sizeof h)
        return -1;
    memcpy(&h, b->data, sizeof h);
    checksum_of(&h, offsetof(struct snapshot_header, sum), h.sum);
    memcpy(b->data, &h, sizeof h);
    for (int i = 0; i < SNAPSHOT_SECTIONS; i++) {
        if (h.bytes[i] > b->len || at + h.bytes[i] + CHECKSUM_BYTES > b->len)
            return -1;
        checksum_of(b->data + at, h.bytes[i], (uint8_t *)b->data + at + h.bytes[i]);
        at += h.bytes[i] + CHECKSUM_BYTES;
    }
    return at == b->len ? 0 : -1;
}
