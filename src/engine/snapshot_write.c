/* Writing snapshots, and what both sides share (snapshot.h). */
#include "base/file.h"
#include "base/limits.h"
#include "base/rng.h"
#include "engine/snapshot_inside.h"
#include "model/script.h"
#include <inttypes.h>
#include <string.h>

const char *const snapshot_section_names[SNAPSHOT_SECTIONS] = {"label",   "identity", "sequence", "tokens",
                                                               "entries", "pages",    "states"};

/* ---- what both sides share ------------------------------------------------------------------------------------ */

hasten_status snapshot_possible(const struct hasten_engine *e, const char *doing, const char *path,
                                struct hasten_error *err)
{
    if (e->model->desc.encoder)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s %s: unsupported with an encoder (%s), which keeps no keys and values", doing,
                         path, e->model->desc.arch);
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct method *m = e->methods.use[i].m;
        if (m->traits & METHOD_NO_SAVE)
            return error_set(err, HASTEN_ERR_UNSUPPORTED,
                             "%s %s: unsupported with --%s %s, whose state cannot be saved (expected to go "
                             "without it)",
                             doing, path, method_stage_option(m->stage), m->name);
    }
    return HASTEN_OK;
}

hasten_status snapshot_each_state(const struct hasten_engine *e, const struct hasten_seq *s,
                                  snapshot_state_fn fn, void *ctx, struct hasten_error *err)
{
    const struct method_site site = method_site_of(e->model, &e->settings);
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < e->methods.n && !st; i++) {
        const struct method_use *u = &e->methods.use[i];
        if (!identity_has(u->m))
            continue;
        if (u->m->seq_bytes)
            st = fn(ctx, method_seq_state(e, u, s), u->m->seq_bytes(&site, u->knobs), err);
        const size_t queries = u->m->cache ? caching_seq_bytes(&site, u) : 0; /* the driver's own */
        if (queries && !st)
            st = fn(ctx,
                    e->methods.memory + (size_t)(s - e->seqs) * e->methods.seq_bytes +
                        e->methods.caching.queries_at,
                    queries, err);
    }
    return st;
}

static hasten_status add_bytes(void *ctx, void *at, size_t bytes, struct hasten_error *err)
{
    (void)at, (void)err;
    *(uint64_t *)ctx += bytes;
    return HASTEN_OK;
}

uint64_t snapshot_state_bytes(const struct hasten_engine *e, const struct hasten_seq *s)
{
    uint64_t bytes = 0;
    snapshot_each_state(e, s, add_bytes, &bytes, NULL);
    return bytes;
}

int32_t snapshot_lane_pages(const struct kv_seq *s, int32_t lane, int32_t n_kv)
{
    return (n_kv - kv_removed(s, lane) + KV_PAGE - 1) / KV_PAGE;
}

int32_t snapshot_page_entries(const struct kv_seq *s, int32_t lane, int32_t n_kv, int32_t page)
{
    const int32_t left = n_kv - kv_removed(s, lane) - page * KV_PAGE;
    return left < KV_PAGE ? left : KV_PAGE;
}

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

/* What of a sequence is saved. After a cancelled step it holds tokens without keys and values; where these end before
 * `sealed`, what was taken out is missed, and none are worth saving. */
static struct snapshot_sequence sequence_of(const struct hasten_seq *s)
{
    int32_t n_kv = s->n_kv < s->kv.n_positions ? s->n_kv : s->kv.n_positions;
    n_kv = n_kv < s->kv.sealed ? 0 : n_kv;
    return (struct snapshot_sequence){.length = s->length,
                                      .n_kv = n_kv,
                                      .sealed = n_kv ? s->kv.sealed : 0,
                                      .n_prompt = s->n_prompt,
                                      .n_lead = s->n_lead < n_kv ? s->n_lead : n_kv,
                                      .beyond = s->beyond};
}

static struct snapshot_header header_of(const struct hasten_seq *s, const struct snapshot_sequence *q,
                                        size_t label_len, size_t identity_len)
{
    const struct hasten_engine *e = s->engine;
    struct snapshot_header h = {.magic = SNAPSHOT_MAGIC,
                                .version = SNAPSHOT_VERSION,
                                .n_sections = SNAPSHOT_SECTIONS,
                                .file_bytes = sizeof h,
                                .bytes = {[SNAPSHOT_LABEL] = label_len,
                                          [SNAPSHOT_IDENTITY] = identity_len,
                                          [SNAPSHOT_SEQUENCE] = sizeof *q,
                                          [SNAPSHOT_TOKENS] = (uint64_t)q->length * sizeof(int32_t)}};
    for (int32_t lane = 0; lane < e->kv.n_lanes; lane++) {
        if (q->sealed)
            h.bytes[SNAPSHOT_ENTRIES] += (uint64_t)(1 + q->sealed - s->kv.removed[lane]) * sizeof(int32_t);
        h.bytes[SNAPSHOT_PAGES] += (uint64_t)(q->n_kv ? snapshot_lane_pages(&s->kv, lane, q->n_kv) : 0) *
                                   kv_page_bytes(e->kv.rep, &e->kv.lanes[lane]);
    }
    h.bytes[SNAPSHOT_STATES] = snapshot_state_bytes(e, s);
    for (int i = 0; i < SNAPSHOT_SECTIONS; i++)
        h.file_bytes += h.bytes[i] + CHECKSUM_BYTES;
    checksum_of(&h, offsetof(struct snapshot_header, sum), h.sum);
    return h;
}

hasten_status snapshot_bytes(const struct hasten_seq *s, size_t label_len, uint64_t *out,
                             struct hasten_error *err)
{
    const char *identity;
    const struct snapshot_sequence q = sequence_of(s);
    const hasten_status st = engine_identity(s->engine, &identity, err);
    if (!st)
        *out = header_of(s, &q, label_len, strlen(identity)).file_bytes;
    return st;
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

struct writer {
    const struct hasten_seq *s;
    struct snapshot_sequence q;
    struct file *f;
    struct checksum sum; /* of the section */
    uint8_t *page;       /* [block_bytes] of the pool: the last page of a lane */
};

static hasten_status put(struct writer *w, const void *data, size_t size, struct hasten_error *err)
{
    checksum_add(&w->sum, data, size);
    return size ? file_write(w->f, data, size, err) : HASTEN_OK;
}

static hasten_status end_section(struct writer *w, struct hasten_error *err)
{
    uint8_t sum[CHECKSUM_BYTES];
    checksum_end(&w->sum, sum);
    checksum_begin(&w->sum);
    return file_write(w->f, sum, sizeof sum, err);
}

static hasten_status put_section(struct writer *w, const void *data, size_t size, struct hasten_error *err)
{
    const hasten_status st = put(w, data, size, err);
    return st ? st : end_section(w, err);
}

static hasten_status put_entries(struct writer *w, struct hasten_error *err)
{
    const struct kv_seq *kv = &w->s->kv;
    const int32_t n_lanes = w->q.sealed ? w->s->engine->kv.n_lanes : 0;
    hasten_status st = n_lanes ? put(w, kv->removed, (size_t)n_lanes * sizeof *kv->removed, err) : HASTEN_OK;
    for (int32_t lane = 0; lane < n_lanes && !st; lane++)
        st = put(w, kv->positions + (int64_t)lane * kv->max_pages * KV_PAGE,
                 (size_t)(w->q.sealed - kv->removed[lane]) * sizeof *kv->positions, err);
    return st ? st : end_section(w, err);
}

/* A page of which n < KV_PAGE entries are used, without what the others hold. */
static const uint8_t *clean_page(struct writer *w, const struct kv_tile *t, int32_t lane, int32_t n)
{
    const struct hasten_engine *e = w->s->engine;
    const struct kv_lane *l = &e->kv.lanes[lane];
    const struct kv_tile to = {
        .rep = e->kv.rep, .k = w->page, .v = w->page + kv_key_bytes(e->kv.rep, l->d_k)};
    memset(w->page, 0, e->kv.block_bytes);
    if (e->model->script) { /* its pages hold states, not keys (scripted.c) */
        memcpy(w->page, t->k, (size_t)n * sizeof(struct script_state));
        return w->page;
    }
    for (int32_t i = 0; i < n; i++)
        kv_move(t, i, l->d_k, l->d_v, &to, i);
    return w->page;
}

static hasten_status put_pages(struct writer *w, struct hasten_error *err)
{
    const struct kv_pool *p = &w->s->engine->kv;
    hasten_status st = HASTEN_OK;
    for (int32_t lane = 0; lane < p->n_lanes && w->q.n_kv; lane++)
        for (int32_t page = 0; page < snapshot_lane_pages(&w->s->kv, lane, w->q.n_kv) && !st; page++) {
            const struct kv_tile t = kv_tile_at(p, &w->s->kv, page, lane);
            const int32_t n = snapshot_page_entries(&w->s->kv, lane, w->q.n_kv, page);
            st = put(w, n < KV_PAGE ? clean_page(w, &t, lane, n) : t.k,
                     kv_page_bytes(p->rep, &p->lanes[lane]), err);
        }
    return st ? st : end_section(w, err);
}

static hasten_status put_state(void *ctx, void *at, size_t bytes, struct hasten_error *err)
{
    return put(ctx, at, bytes, err);
}

static hasten_status put_all(struct writer *w, struct snapshot_label label, const char *identity,
                             struct hasten_error *err)
{
    const struct snapshot_header h = header_of(w->s, &w->q, label.len, strlen(identity));
    hasten_status st = file_write(w->f, &h, sizeof h, err);
    checksum_begin(&w->sum);
    st = st ? st : put_section(w, label.data, label.len, err);
    st = st ? st : put_section(w, identity, strlen(identity), err);
    st = st ? st : put_section(w, &w->q, sizeof w->q, err);
    st = st ? st : put_section(w, w->s->tokens, (size_t)w->q.length * sizeof(int32_t), err);
    st = st ? st : put_entries(w, err);
    st = st ? st : put_pages(w, err);
    st = st ? st : snapshot_each_state(w->s->engine, w->s, put_state, w, err);
    return st ? st : end_section(w, err);
}

/* Another name in the same folder; one that is taken is somebody else's. */
static hasten_status create_part(const char *path, struct buf *part, struct file **f,
                                 struct hasten_error *err)
{
    hasten_status st = HASTEN_ERR_FILE;
    for (int i = 0; i < 8 && !*f; i++) {
        buf_clear(part);
        if (buf_printf(part, "%s.%016" PRIx64 ".part", path, random_seed()))
            return error_set(err, HASTEN_ERR_MEMORY, "saving %s: out of memory", path);
        st = file_open(part->data, FILE_WRITE_NEW, f, err);
        if (st != HASTEN_OK && file_kind(part->data) == FILE_MISSING)
            break;
    }
    return st;
}

static hasten_status check_room(const char *path, uint64_t bytes, struct hasten_error *err)
{
    uint64_t room;
    const hasten_status st = file_space(path, &room, err);
    return !st && room < bytes
               ? error_set(err, HASTEN_ERR_DISK,
                           "saving %s: %" PRIu64 " bytes free on the disk (expected %" PRIu64 ")", path, room,
                           bytes)
               : st;
}

static hasten_status write_file(struct writer *w, struct snapshot_label label, const char *identity,
                                const char *path, bool sync, struct hasten_error *err)
{
    struct buf part = {0};
    hasten_status st = create_part(path, &part, &w->f, err);
    const bool made = w->f != NULL;
    st = st ? st : put_all(w, label, identity, err);
    if (!st && sync)
        st = file_sync(w->f, err);
    file_close(w->f);
    if (!st)
        st = file_rename(part.data, path, err);
    if (st && made)
        file_unlink(part.data, NULL);
    buf_free(&part);
    return st;
}

hasten_status snapshot_save(const struct hasten_seq *s, struct snapshot_label label, const char *path,
                            bool sync, struct hasten_error *err)
{
    const char *identity;
    uint64_t bytes;
    hasten_status st = snapshot_possible(s->engine, "saving", path, err);
    if (!st && seq_is_soft(s))
        st = error_set(
            err, HASTEN_ERR_UNSUPPORTED,
            "saving %s: unsupported with soft input, which nothing could compute again (expected tokens)",
            path);
    if (!st && label.len > LIMIT_SNAPSHOT_TEXT)
        st = error_set(err, HASTEN_ERR_LIMIT, "saving %s: a label of %zu bytes (expected at most %d)", path,
                       label.len, LIMIT_SNAPSHOT_TEXT);
    st = st ? st : engine_identity(s->engine, &identity, err);
    st = st ? st : snapshot_bytes(s, label.len, &bytes, err);
    st = st ? st : check_room(path, bytes, err);
    if (st)
        return st;
    struct writer w = {.s = s, .q = sequence_of(s), .page = mem_aligned(s->engine->kv.block_bytes)};
    st = w.page ? write_file(&w, label, identity, path, sync, err)
                : error_set(err, HASTEN_ERR_MEMORY, "saving %s: out of memory", path);
    mem_free(w.page);
    return st;
}

hasten_status hasten_seq_save(const struct hasten_seq *s, const char *path, struct hasten_error *err)
{
    return snapshot_save(s, (struct snapshot_label){0}, path, true, err);
}
