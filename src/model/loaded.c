/* Opening a model: map the file, read its description, open its vocabulary; undo in order on failure. Meanwhile a
 * thread makes the weights present, which the first step would wait for. */
#include "model/loaded.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include "base/prefault.h"
#include "model/script.h"
#include "model/source.h"
#include <stdio.h>

/* How the file pools (GGUF: pooling_type of the architecture; 1 mean, 2 cls, 3 last). Kinds that give no vector of a
 * text, and files that say nothing, leave the choice to the caller. */
static hasten_status read_pooling(struct hasten_model *m, struct hasten_error *err)
{
    char key[64];
    uint32_t type = 0;
    snprintf(key, sizeof key, "%s.pooling_type", m->desc.arch);
    const hasten_status st = gguf_opt_u32(m->gguf, key, &type, err);
    m->pooling = type <= HASTEN_POOLING_LAST ? (enum hasten_pooling)type : HASTEN_POOLING_MODEL;
    return st;
}

#define FOLIO_BYTES ((uint64_t)2 << 20)

/* ---- copying and locking -------------------------------------------------------------------------------- */

struct reading {
    const struct hasten_model_settings *s;
    uint64_t before, total; /* bytes of the parts that are done; of all, as often as they are gone through */
};

static int on_piece(void *ctx, uint64_t done)
{
    const struct reading *r = ctx;
    return r->s->progress ? r->s->progress(r->s->progress_ctx, r->before + done, r->total) : 0;
}

static hasten_status check_room(const struct hasten_model *m, struct hasten_error *err)
{
    uint64_t available = 0;
    hasten_status st = meminfo_available("/proc/meminfo", "/sys/fs/cgroup", &available, err);
    if (!st && gguf_file_bytes(m->gguf) > available)
        st = error_set(err, HASTEN_ERR_MEMORY,
                       "%s: %.1f MiB to read, %.1f MiB of memory are free (expected more, or a map)",
                       gguf_path(m->gguf), (double)gguf_file_bytes(m->gguf) / 1048576.0,
                       (double)available / 1048576.0);
    return st;
}

typedef hasten_status (*part_fn)(const void *data, uint64_t size, const char *name, file_progress_fn progress,
                                 void *ctx, struct hasten_error *err);

static hasten_status each_part(const struct hasten_model *m, part_fn fn, struct reading *r,
                               struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < gguf_n_parts(m->gguf) && !st; i++) {
        const struct gguf_part part = gguf_part_at(m->gguf, i);
        st = fn(part.data, part.size, gguf_path(m->gguf), on_piece, r, err);
        r->before += part.size;
    }
    return st;
}

static hasten_status copy_and_lock(struct hasten_model *m, const struct hasten_model_settings *s,
                                   struct hasten_error *err)
{
    struct reading r = {.s = s, .total = (uint64_t)(s->copy + s->lock) * gguf_file_bytes(m->gguf)};
    hasten_status st = s->copy || s->lock ? check_room(m, err) : HASTEN_OK;
    if (!st && s->copy)
        st = each_part(m, file_map_copy, &r, err);
    if (!st && s->lock)
        st = each_part(m, file_map_lock, &r, err);
    m->copied = s->copy;
    m->locked = s->lock;
    return st;
}

/* ---- opening ---------------------------------------------------------------------------------------------- */

static hasten_status load(struct hasten_model *m, const char *path, bool ahead,
                          const struct hasten_model_settings *settings, struct hasten_error *err)
{
    hasten_status st;
#ifndef HASTEN_WITHOUT_PACKAGES
    if (script_named(path))
        return script_load(m, path, err);
#endif
    if ((st = source_open(path, &m->gguf, err)) || (st = model_map(m->gguf, &m->desc, err)) ||
        (st = read_pooling(m, err)))
        return st;
    if ((st = copy_and_lock(m, settings, err)))
        return st;
    if (ahead && !settings->copy && !settings->lock && (st = model_read_ahead(m, err)))
        return st;
    if ((st = source_vocab(m->gguf, &m->vocab, err)))
        return st;
    if (vocab_size(m->vocab) > m->desc.n_vocab)
        return error_set(
            err, HASTEN_ERR_FILE,
            "%s: tokenizer.ggml.tokens: found %d tokens (expected at most %d, the rows of token_embd.weight)",
            path, vocab_size(m->vocab), m->desc.n_vocab);
    return HASTEN_OK;
}

static hasten_status open_model(const char *path, bool ahead, const struct hasten_model_settings *settings,
                                struct hasten_model **out, struct hasten_error *err)
{
    struct hasten_model *m = mem_calloc(1, sizeof *m);
    if (!m)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", path);
    hasten_status st = load(m, path, ahead, settings, err);
    if (st) {
        hasten_model_close(m);
        return st;
    }
    *out = m;
    return HASTEN_OK;
}

hasten_status hasten_model_open(const char *path, struct hasten_model **out, struct hasten_error *err)
{
    return open_model(path, true, &(struct hasten_model_settings){0}, out, err);
}

hasten_status hasten_model_open_with(const char *path, const struct hasten_model_settings *settings,
                                     struct hasten_model **out, struct hasten_error *err)
{
    return open_model(path, true, settings, out, err);
}

hasten_status model_open_unread(const char *path, struct hasten_model **out, struct hasten_error *err)
{
    return open_model(path, false, &(struct hasten_model_settings){0}, out, err);
}

void hasten_model_close(struct hasten_model *m)
{
    if (!m)
        return;
    prefault_stop(m->ahead);
    vocab_close(m->vocab);
    model_unmap(&m->desc);
    gguf_close(m->gguf);
    script_close(m->script);
    mem_free(m);
}

const char *hasten_version(void)
{
    return HASTEN_VERSION;
}

bool model_reading(const struct hasten_model *m, uint64_t *done, uint64_t *total)
{
    return m->ahead && prefault_reading(m->ahead, done, total);
}

int32_t hasten_model_n_vocab(const struct hasten_model *m)
{
    return m->desc.n_vocab;
}

int32_t hasten_model_n_ctx_train(const struct hasten_model *m)
{
    return m->desc.n_ctx_train;
}

void model_forget(const struct hasten_model *m, const uint8_t *data, uint64_t size)
{
    for (int32_t i = 0; i < gguf_n_parts(m->gguf) && !m->copied && !m->locked; i++) {
        const struct gguf_part part = gguf_part_at(m->gguf, i);
        const uint64_t at = (uint64_t)(data - part.data);
        if (!part.mapped || data < part.data || at >= part.size)
            continue;
        const uint64_t from = at < FOLIO_BYTES ? 0 : at - FOLIO_BYTES, left = part.size - from;
        const uint64_t want = at - from + size + FOLIO_BYTES;
        file_release(part.data + from, want < left ? want : left);
    }
}

void model_stop_ahead(const struct hasten_model *m)
{
    prefault_cancel(m->ahead);
}

const struct gguf *model_gguf(const struct hasten_model *m)
{
    return m->gguf;
}

const struct vocab *model_vocab(const struct hasten_model *m)
{
    return m->vocab;
}

int32_t hasten_model_n_embd(const struct hasten_model *m)
{
    return m->desc.d_model;
}

bool hasten_model_is_encoder(const struct hasten_model *m)
{
    return m->desc.encoder;
}

enum hasten_pooling hasten_model_pooling(const struct hasten_model *m)
{
    return m->pooling;
}
