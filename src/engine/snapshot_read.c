/* Reading snapshots (snapshot.h): a file may be damaged, cut, of another engine, or made to harm. Each section is read
 * to where it belongs in a sequence that nobody else knows yet; whatever is wrong closes it. */
#include "base/checked.h"
#include "base/file.h"
#include "base/limits.h"
#include "engine/snapshot_inside.h"
#include "engine/store.h"
#include <inttypes.h>
#include <string.h>

struct reader {
    const char *path;
    struct file *f;
    struct snapshot_header h;
    uint64_t at;   /* in the file */
    uint64_t left; /* of the section */
    int section;
    struct checksum sum;
    struct snapshot_sequence q;
};

static hasten_status bad(const struct reader *r, struct hasten_error *err, const char *what, int64_t found,
                         int64_t lo, int64_t hi)
{
    return error_set(err, HASTEN_ERR_FILE, "%s: %s: found %" PRId64 " (expected %" PRId64 " to %" PRId64 ")",
                     r->path, what, found, lo, hi);
}

/* ---- the header ----------------------------------------------------------------------------------------------- */

static hasten_status check_header(const struct reader *r, uint64_t file_bytes, struct hasten_error *err)
{
    const struct snapshot_header *h = &r->h;
    uint8_t sum[CHECKSUM_BYTES];
    uint64_t end = sizeof *h;
    if (memcmp(h->magic, SNAPSHOT_MAGIC, sizeof h->magic) != 0)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: not a snapshot of a sequence (expected it to begin with %s)", r->path,
                         SNAPSHOT_MAGIC);
    if (h->version != SNAPSHOT_VERSION)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: a snapshot of version %" PRIu32 ": unsupported (expected version %d)", r->path,
                         h->version, SNAPSHOT_VERSION);
    checksum_of(h, offsetof(struct snapshot_header, sum), sum);
    if (!checksum_holds(h->sum, sum) || h->n_sections != SNAPSHOT_SECTIONS)
        return error_set(
            err, HASTEN_ERR_FILE,
            "%s: the header is damaged: its checksum is another (expected the file as it was written)",
            r->path);
    for (int i = 0; i < SNAPSHOT_SECTIONS; i++)
        if (checked_add_u64(end, h->bytes[i], &end) || checked_add_u64(end, CHECKSUM_BYTES, &end))
            return error_set(err, HASTEN_ERR_FILE, "%s: section %s is larger than a file can be", r->path,
                             snapshot_section_names[i]);
    if (end != h->file_bytes || file_bytes != end)
        return error_set(err, HASTEN_ERR_FILE, "%s: found %" PRIu64 " bytes (expected %" PRIu64 ")", r->path,
                         file_bytes, end);
    return HASTEN_OK;
}

static hasten_status open_reader(const char *path, struct reader *r, struct hasten_error *err)
{
    uint64_t bytes;
    *r = (struct reader){.path = path};
    hasten_status st = file_open(path, FILE_READ, &r->f, err);
    st = st ? st : file_size(r->f, &bytes, err);
    if (!st && bytes < sizeof r->h)
        st = error_set(err, HASTEN_ERR_FILE,
                       "%s: found %" PRIu64 " bytes (expected a snapshot, which has at least %zu)", path,
                       bytes, sizeof r->h);
    st = st ? st : file_pread(r->f, &r->h, sizeof r->h, 0, err);
    st = st ? st : check_header(r, bytes, err);
    r->at = sizeof r->h;
    if (st)
        file_close(r->f);
    return st;
}

bool snapshot_named(const char *path)
{
    struct file *f = NULL;
    char magic[8] = {0};
    const bool read = file_kind(path) == FILE_REGULAR && !file_open(path, FILE_READ, &f, NULL) &&
                      !file_pread(f, magic, sizeof magic, 0, NULL);
    file_close(f);
    return read && memcmp(magic, SNAPSHOT_MAGIC, sizeof magic) == 0;
}

/* ---- sections ------------------------------------------------------------------------------------------------- */

static void begin_section(struct reader *r, int section)
{
    r->section = section;
    r->left = r->h.bytes[section];
    checksum_begin(&r->sum);
}

/* The section's bytes are what a reader that believes the sequence will ask for. */
static hasten_status expect(const struct reader *r, int section, uint64_t bytes, struct hasten_error *err)
{
    return r->h.bytes[section] == bytes
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_FILE,
                           "%s: section %s: found %" PRIu64 " bytes (expected %" PRIu64 ")", r->path,
                           snapshot_section_names[section], r->h.bytes[section], bytes);
}

static hasten_status get(struct reader *r, void *dst, size_t size, struct hasten_error *err)
{
    if (size > r->left)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: section %s ends early: found %" PRIu64 " more bytes (expected %zu)", r->path,
                         snapshot_section_names[r->section], r->left, size);
    const hasten_status st = size ? file_pread(r->f, dst, size, r->at, err) : HASTEN_OK;
    if (st)
        return st;
    checksum_add(&r->sum, dst, size);
    r->at += size;
    r->left -= size;
    return HASTEN_OK;
}

static hasten_status end_section(struct reader *r, struct hasten_error *err)
{
    uint8_t sum[CHECKSUM_BYTES], found[CHECKSUM_BYTES];
    if (r->left)
        return error_set(err, HASTEN_ERR_FILE, "%s: section %s: %" PRIu64 " bytes too many", r->path,
                         snapshot_section_names[r->section], r->left);
    const hasten_status st = file_pread(r->f, found, sizeof found, r->at, err);
    if (st)
        return st;
    r->at += sizeof found;
    checksum_end(&r->sum, sum);
    return checksum_holds(found, sum)
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_FILE,
                           "%s: section %s is damaged: its checksum is another (expected the file as it was "
                           "written)",
                           r->path, snapshot_section_names[r->section]);
}

/* A section of at most `most` bytes into a buffer, NUL-terminated. */
static hasten_status get_text(struct reader *r, int section, uint64_t most, struct buf *out,
                              struct hasten_error *err)
{
    static const uint8_t none[1] = {0};
    begin_section(r, section);
    if (r->left > most)
        return bad(r, err, snapshot_section_names[section],
                   (int64_t)(r->left > INT64_MAX ? INT64_MAX : r->left), 0, (int64_t)most);
    uint8_t *data = mem_alloc((size_t)r->left + 1);
    if (!data)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for section %s", r->path,
                         snapshot_section_names[section]);
    hasten_status st = get(r, data, (size_t)r->left, err);
    if (!st && buf_put(out, r->h.bytes[section] ? data : none, (size_t)r->h.bytes[section]))
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for section %s", r->path,
                       snapshot_section_names[section]);
    mem_free(data);
    return st ? st : end_section(r, err);
}

static hasten_status check_sequence(const struct reader *r, struct hasten_error *err)
{
    const struct snapshot_sequence *q = &r->q;
    if (q->length < 0 || q->length > LIMIT_CONTEXT)
        return bad(r, err, "length", q->length, 0, LIMIT_CONTEXT);
    if (q->n_kv < 0 || q->n_kv > q->length)
        return bad(r, err, "positions", q->n_kv, 0, q->length);
    if (q->sealed < 0 || q->sealed > q->n_kv)
        return bad(r, err, "sealed positions", q->sealed, 0, q->n_kv);
    if (q->n_prompt < -1)
        return bad(r, err, "announced prompt", q->n_prompt, -1, INT32_MAX);
    if (q->n_lead < 0 || q->n_lead > q->n_kv)
        return bad(r, err, "positions of the prompt", q->n_lead, 0, q->n_kv);
    if (q->beyond < 0 || q->beyond > 1)
        return bad(r, err, "beyond the switch", q->beyond, 0, 1);
    return HASTEN_OK;
}

static hasten_status get_sequence(struct reader *r, struct hasten_error *err)
{
    begin_section(r, SNAPSHOT_SEQUENCE);
    hasten_status st = expect(r, SNAPSHOT_SEQUENCE, sizeof r->q, err);
    st = st ? st : get(r, &r->q, sizeof r->q, err);
    st = st ? st : end_section(r, err);
    st = st ? st : check_sequence(r, err);
    return st ? st : expect(r, SNAPSHOT_TOKENS, (uint64_t)r->q.length * sizeof(int32_t), err);
}

static hasten_status get_tokens(struct reader *r, int32_t *tokens, int32_t n_vocab, struct hasten_error *err)
{
    begin_section(r, SNAPSHOT_TOKENS);
    hasten_status st = get(r, tokens, (size_t)r->q.length * sizeof *tokens, err);
    st = st ? st : end_section(r, err);
    for (int32_t i = 0; i < r->q.length && !st; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            st = bad(r, err, "a token", tokens[i], 0, n_vocab - 1);
    return st;
}

/* ---- into a sequence ------------------------------------------------------------------------------------------ */

/* What entries of a lane were left: ascending positions below sealed. */
static hasten_status get_lane_entries(struct reader *r, struct hasten_seq *s, int32_t lane,
                                      struct hasten_error *err)
{
    const int32_t n = r->q.sealed - s->kv.removed[lane];
    int32_t *positions = s->kv.positions + (int64_t)lane * s->kv.max_pages * KV_PAGE;
    const hasten_status st = get(r, positions, (size_t)n * sizeof *positions, err);
    for (int32_t i = 0; i < n && !st; i++)
        if (positions[i] < (i ? positions[i - 1] + 1 : 0) || positions[i] >= r->q.sealed)
            return bad(r, err, "the position of an entry", positions[i], i ? positions[i - 1] + 1 : 0,
                       r->q.sealed - 1);
    return st;
}

static hasten_status get_entries(struct reader *r, struct hasten_seq *s, struct hasten_error *err)
{
    const int32_t n_lanes = r->q.sealed ? s->engine->kv.n_lanes : 0;
    begin_section(r, SNAPSHOT_ENTRIES);
    if (n_lanes && !s->kv.removed)
        return bad(r, err, "sealed positions", r->q.sealed, 0, 0);
    hasten_status st =
        n_lanes ? get(r, s->kv.removed, (size_t)n_lanes * sizeof *s->kv.removed, err) : HASTEN_OK;
    for (int32_t lane = 0; lane < n_lanes && !st; lane++)
        if (s->kv.removed[lane] < 0 || s->kv.removed[lane] > r->q.sealed)
            st = bad(r, err, "entries taken out of a lane", s->kv.removed[lane], 0, r->q.sealed);
    for (int32_t lane = 0; lane < n_lanes && !st; lane++)
        st = get_lane_entries(r, s, lane, err);
    return st ? st : end_section(r, err);
}

static hasten_status take_pages(struct reader *r, struct hasten_seq *s, struct hasten_error *err)
{
    struct kv_pool *p = &s->engine->kv;
    const int64_t wanted = r->q.n_kv ? kv_wanted(p, &s->kv, r->q.n_kv) : 0;
    if (wanted > p->n_free && !store_make_room(s->engine->store, wanted))
        return error_set(err, HASTEN_ERR_FULL,
                         "%s: the pool has %" PRId64 " free KV pages, %" PRId64
                         " are needed (expected a larger kv_positions)",
                         r->path, p->n_free, wanted);
    if (r->q.n_kv)
        kv_take(p, &s->kv, r->q.n_kv);
    s->kv.sealed = r->q.sealed;
    return HASTEN_OK;
}

static hasten_status get_pages(struct reader *r, struct hasten_seq *s, struct hasten_error *err)
{
    const struct kv_pool *p = &s->engine->kv;
    hasten_status st = HASTEN_OK;
    begin_section(r, SNAPSHOT_PAGES);
    for (int32_t lane = 0; lane < p->n_lanes && r->q.n_kv; lane++)
        for (int32_t page = 0; page < snapshot_lane_pages(&s->kv, lane, r->q.n_kv) && !st; page++) {
            const struct kv_tile t = kv_tile_at(p, &s->kv, page, lane);
            st = get(r, (void *)(uintptr_t)t.k, kv_page_bytes(p->rep, &p->lanes[lane]), err);
        }
    return st ? st : end_section(r, err);
}

static hasten_status get_state(void *ctx, void *at, size_t bytes, struct hasten_error *err)
{
    return get(ctx, at, bytes, err);
}

static hasten_status get_states(struct reader *r, struct hasten_seq *s, struct hasten_error *err)
{
    begin_section(r, SNAPSHOT_STATES);
    const hasten_status st = snapshot_each_state(s->engine, s, get_state, r, err);
    return st ? st : end_section(r, err);
}

/* Everything about s but its pages is set last, so that closing it half made gives back what it took. */
static hasten_status fill(struct reader *r, struct hasten_seq *s, struct hasten_error *err)
{
    hasten_status st = get_tokens(r, s->tokens, s->engine->model->desc.n_vocab, err);
    st = st ? st : get_entries(r, s, err);
    st = st ? st : take_pages(r, s, err);
    st = st ? st : get_pages(r, s, err);
    st = st ? st : get_states(r, s, err);
    if (st)
        return st;
    s->length = r->q.length;
    s->n_kv = r->q.n_kv;
    s->n_lead = r->q.n_lead;
    s->n_prompt = r->q.n_prompt;
    s->beyond = r->q.beyond;
    return HASTEN_OK;
}

/* Of this engine, this label, and with room for it? */
static hasten_status check_owner(struct reader *r, struct hasten_engine *e,
                                 const struct snapshot_label *label, struct hasten_error *err)
{
    struct buf text = {0};
    const char *identity;
    hasten_status st = get_text(r, SNAPSHOT_LABEL, LIMIT_SNAPSHOT_TEXT, &text, err);
    if (!st && label && (text.len != label->len || memcmp(text.data, label->data, text.len) != 0))
        st = error_set(err, HASTEN_ERR_FILE, "%s: kept for somebody else: its label is another", r->path);
    buf_clear(&text);
    st = st ? st : get_text(r, SNAPSHOT_IDENTITY, LIMIT_SNAPSHOT_TEXT, &text, err);
    st = st ? st : engine_identity(e, &identity, err);
    st = st ? st : identity_compare(r->path, text.data, identity, err);
    buf_free(&text);
    st = st ? st : get_sequence(r, err);
    if (!st && r->q.length > e->settings.n_ctx)
        st = error_set(err, HASTEN_ERR_FULL,
                       "%s: holds %d positions, the context %d (expected a larger context)", r->path,
                       (int)r->q.length, (int)e->settings.n_ctx);
    if (!st && r->q.beyond && r->q.n_kv && !e->model->desc.rope_switch)
        st = bad(r, err, "beyond the switch", r->q.beyond, 0, 0);
    return st;
}

hasten_status snapshot_load(struct hasten_engine *e, const char *path, const struct snapshot_label *label,
                            struct hasten_seq **out, struct hasten_error *err)
{
    struct reader r;
    struct hasten_seq *s = NULL;
    hasten_status st = snapshot_possible(e, "restoring", path, err);
    st = st ? st : open_reader(path, &r, err);
    if (st)
        return st;
    st = check_owner(&r, e, label, err);
    st = st ? st : hasten_seq_open(e, &s, err);
    st = st ? st : fill(&r, s, err);
    file_close(r.f);
    if (st && s) {
        hasten_seq_close(s);
        if (s->kv.removed) /* set before there were pages */
            memset(s->kv.removed, 0, (size_t)e->kv.n_lanes * sizeof *s->kv.removed);
    }
    if (!st)
        *out = s;
    return st;
}

hasten_status hasten_seq_load(struct hasten_engine *e, const char *path, struct hasten_seq **out,
                              struct hasten_error *err)
{
    return snapshot_load(e, path, NULL, out, err);
}

/* ---- without an engine ---------------------------------------------------------------------------------------- */

static hasten_status skim(struct reader *r, int section, struct hasten_error *err)
{
    uint8_t chunk[16384];
    hasten_status st = HASTEN_OK;
    begin_section(r, section);
    while (r->left && !st)
        st = get(r, chunk, r->left < sizeof chunk ? (size_t)r->left : sizeof chunk, err);
    return st ? st : end_section(r, err);
}

static hasten_status inspect(struct reader *r, bool whole, struct snapshot_info *out,
                             struct hasten_error *err)
{
    hasten_status st = get_text(r, SNAPSHOT_LABEL, LIMIT_SNAPSHOT_TEXT, &out->label, err);
    st = st ? st : get_text(r, SNAPSHOT_IDENTITY, LIMIT_SNAPSHOT_TEXT, &out->identity, err);
    st = st ? st : get_sequence(r, err);
    st = st ? st : get_text(r, SNAPSHOT_TOKENS, (uint64_t)LIMIT_CONTEXT * sizeof(int32_t), &out->tokens, err);
    for (int i = SNAPSHOT_ENTRIES; i < SNAPSHOT_SECTIONS && whole && !st; i++)
        st = skim(r, i, err);
    out->sequence = r->q;
    out->file_bytes = r->h.file_bytes;
    out->page_bytes = r->h.bytes[SNAPSHOT_PAGES];
    out->state_bytes = r->h.bytes[SNAPSHOT_STATES];
    return st;
}

hasten_status snapshot_inspect(const char *path, bool whole, struct snapshot_info *out,
                               struct hasten_error *err)
{
    struct reader r;
    hasten_status st = open_reader(path, &r, err);
    if (st)
        return st;
    st = inspect(&r, whole, out, err);
    file_close(r.f);
    if (st)
        snapshot_info_free(out);
    return st;
}

void snapshot_info_free(struct snapshot_info *i)
{
    buf_free(&i->label);
    buf_free(&i->identity);
    buf_free(&i->tokens);
    *i = (struct snapshot_info){0};
}
