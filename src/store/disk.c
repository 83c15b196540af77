/* See disk.h. The folder is the truth: on any doubt about the index it is scanned. */
#include "store/disk.h"
#include "base/aside.h"
#include "base/checksum.h"
#include "base/file.h"
#include "engine/engine.h"
#include "engine/identity.h"
#include "engine/snapshot.h"
#include "store/disk_index.h"
#include <string.h>

#define MOST_TRIES 8 /* depths at which hashes may turn out to be those of other tokens */

struct record_label {
    char magic[8];
    uint64_t scope;
};

/* A record on its way to disk. */
struct writing {
    const struct hasten_seq *s; /* NULL: none */
    struct record_label label;
    struct disk_index_record r;
    char replaced[RECORD_NAME]; /* "": none */
    struct buf path;
    hasten_status status;
};

struct disk {
    struct hasten_engine *e; /* NULL: only checked */
    struct disk_settings s;
    struct file *lock;
    struct disk_index *index; /* NULL: there is none, and nothing is found until it can be made */
    struct buf path;          /* of the file at hand */
    uint64_t *hash;           /* [n_hash] of the blocks at hand */
    int64_t n_hash, used;     /* used: counts uses */
    uint8_t identity[CHECKSUM_BYTES];
    struct writing w;
    struct aside aside; /* who writes it */
    struct store_figures f;
};

static struct record_label label_of(uint64_t scope)
{
    return (struct record_label){.magic = "HKVSTORE", .scope = scope};
}

/* ---- paths and hashes ----------------------------------------------------------------------------------------- */

/* NULL when out of memory. Lives until the next call. */
static const char *path_of(struct disk *d, const char *name, const char *end)
{
    buf_clear(&d->path);
    return buf_printf(&d->path, "%s/%s%s", d->s.folder, name, end) ? NULL : d->path.data;
}

/* "0123...cdef.seq": a record's name; with a longer end: what a writing left behind. */
static bool is_record(const char *file, char name[RECORD_NAME], bool *part)
{
    const size_t n = strlen(file);
    if (strspn(file, "0123456789abcdef") != RECORD_NAME - 1 ||
        strncmp(file + RECORD_NAME - 1, ".seq", 4) != 0)
        return false;
    *part = n > 5 && strcmp(file + n - 5, ".part") == 0;
    memcpy(name, file, RECORD_NAME - 1);
    name[RECORD_NAME - 1] = 0;
    return *part || n == RECORD_NAME - 1 + 4;
}

static uint64_t first_hash(const uint8_t identity[CHECKSUM_BYTES], uint64_t scope)
{
    uint8_t in[CHECKSUM_BYTES + 8], sum[CHECKSUM_BYTES];
    uint64_t h;
    memcpy(in, identity, CHECKSUM_BYTES);
    memcpy(in + CHECKSUM_BYTES, &scope, sizeof scope);
    checksum_of(in, sizeof in, sum);
    memcpy(&h, sum, sizeof h);
    return h;
}

/* The chain over n tokens into d->hash; how many blocks, -1: out of memory. The chain goes on in full; what is looked up
 * may be fewer bits. */
static int32_t hash_blocks(struct disk *d, uint64_t first, const int32_t *tokens, int64_t n)
{
    const int64_t blocks = n / DISK_BLOCK;
    uint64_t h = first;
    if (blocks > d->n_hash) {
        uint64_t *more = mem_realloc(d->hash, (size_t)blocks * sizeof *more);
        if (!more)
            return -1;
        d->hash = more;
        d->n_hash = blocks;
    }
    for (int64_t i = 0; i < blocks; i++) {
        uint8_t in[8 + DISK_BLOCK * sizeof(int32_t)], sum[CHECKSUM_BYTES];
        memcpy(in, &h, 8);
        memcpy(in + 8, tokens + i * DISK_BLOCK, DISK_BLOCK * sizeof(int32_t));
        checksum_of(in, sizeof in, sum);
        memcpy(&h, sum, sizeof h);
        d->hash[i] = d->s.hash_bits >= 64 ? h : h & (((uint64_t)1 << d->s.hash_bits) - 1);
    }
    return (int32_t)blocks;
}

/* ---- the index, made anew ------------------------------------------------------------------------------------- */

static void remove_file(struct disk *d, const char *name, const char *end)
{
    const char *path = path_of(d, name, end);
    if (path && file_kind(path) == FILE_REGULAR)
        file_unlink(path, NULL);
}

static void remove_index(struct disk *d)
{
    disk_index_close(d->index);
    d->index = NULL;
    remove_file(d, "index.sqlite", "");
    remove_file(d, "index.sqlite", "-journal");
    remove_file(d, "index.sqlite", "-wal");
}

/* A record that says of itself what it should: into the index. */
static bool add_to_index(struct disk *d, const char *name, const struct snapshot_info *i)
{
    uint8_t identity[CHECKSUM_BYTES];
    struct record_label label;
    memcpy(&label, i->label.data, sizeof label);
    checksum_of(i->identity.data, i->identity.len, identity);
    const int32_t n = hash_blocks(d, first_hash(identity, label.scope),
                                  (const int32_t *)(const void *)i->tokens.data, i->sequence.length);
    struct disk_index_record r = {
        .bytes = (int64_t)i->file_bytes, .tokens = i->sequence.length, .used = ++d->used};
    memcpy(r.name, name, RECORD_NAME);
    return n >= 0 && d->index && disk_index_add(d->index, &r, d->hash, n);
}

/* Looks at one file of the folder. False: the index cannot be written. */
static bool scan_file(struct disk *d, const char *file, bool whole, struct disk_report *report)
{
    char name[RECORD_NAME];
    bool part;
    struct snapshot_info info = {0};
    struct hasten_error err = {0};
    const struct record_label none = label_of(0);
    if (!is_record(file, name, &part)) {
        report->foreign += strncmp(file, "index.sqlite", 12) != 0 && strcmp(file, "lock") != 0;
        return true;
    }
    const char *path = path_of(d, file, "");
    hasten_status st = !path  ? HASTEN_ERR_MEMORY
                       : part ? HASTEN_ERR_FILE
                              : snapshot_inspect(path, whole, &info, &err);
    if (!st && (info.label.len != sizeof none || memcmp(info.label.data, none.magic, sizeof none.magic) != 0))
        st = error_set(&err, HASTEN_ERR_FILE, "%s: holds no scope (expected a record of a store)", path);
    bool good = true;
    if (!st) {
        report->records++;
        report->bytes += info.file_bytes;
        report->tokens += (uint64_t)info.sequence.length;
        good = add_to_index(d, name, &info);
    } else if (st == HASTEN_ERR_FILE || st == HASTEN_ERR_UNSUPPORTED || st == HASTEN_ERR_LIMIT) {
        if (!part && report->bad++ == 0)
            report->first = err;
        remove_file(d, file, "");
    }
    snapshot_info_free(&info);
    return good;
}

/* The index from the records alone; d->index stays NULL where it cannot be written. */
static hasten_status rebuild(struct disk *d, bool whole, struct disk_report *report, struct hasten_error *err)
{
    struct file_names files = {0};
    bool good = true;
    remove_index(d);
    const hasten_status st = file_list(d->s.folder, &files, err);
    if (st)
        return st;
    const char *path = path_of(d, "index.sqlite", "");
    good = path && disk_index_open(path, &d->index);
    for (size_t i = 0; i < files.n; i++)
        good = scan_file(d, files.names[i], whole, report) && good;
    file_names_free(&files);
    if (!good)
        remove_index(d);
    return HASTEN_OK;
}

/* Something is wrong with the index, or it with the folder: once more from the records. */
static void mend(struct disk *d)
{
    struct disk_report report = {0};
    rebuild(d, false, &report, NULL);
    d->f.disk_failures += (uint64_t)report.bad;
}

struct comparing {
    struct disk *d;
    int64_t n; /* records of the index that stand in the folder */
};

static bool stands(void *ctx, const struct disk_index_record *r)
{
    struct comparing *c = ctx;
    const char *path = path_of(c->d, r->name, ".seq");
    c->n++;
    return path && r->bytes > 0 && file_bytes(path) == (uint64_t)r->bytes;
}

/* Are the records of the index those of the folder, by name and size? */
static bool index_fits(struct disk *d)
{
    struct file_names files = {0};
    struct comparing c = {d, 0};
    char name[RECORD_NAME];
    bool part, all = false;
    int64_t n = 0;
    if (!d->index || file_list(d->s.folder, &files, NULL))
        return false;
    for (size_t i = 0; i < files.n; i++)
        if (is_record(files.names[i], name, &part))
            n += part ? INT32_MAX : 1; /* what a writing left behind is removed by scanning */
    file_names_free(&files);
    return disk_index_each(d->index, stands, &c, &all) && all && c.n == n;
}

/* ---- opening -------------------------------------------------------------------------------------------------- */

static hasten_status take_lock(struct disk *d, struct hasten_error *err)
{
    int got = 0;
    hasten_status st = file_mkdirs(d->s.folder, err);
    const char *path = path_of(d, "lock", "");
    if (!st && !path)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the store in %s: out of memory", d->s.folder);
    st = st ? st : file_open(path, FILE_APPEND, &d->lock, err);
    st = st ? st : file_lock(d->lock, &got, err);
    return st || got
               ? st
               : error_set(err, HASTEN_ERR_USAGE,
                           "opening the store in %s: another process uses it (expected a folder of its own)",
                           d->s.folder);
}

static hasten_status take_identity(struct disk *d, struct hasten_error *err)
{
    const char *text;
    const hasten_status st = engine_identity(d->e, &text, err);
    if (!st)
        checksum_of(text, strlen(text), d->identity);
    return st;
}

static hasten_status open_folder(struct hasten_engine *e, const struct disk_settings *s, struct disk **out,
                                 struct hasten_error *err)
{
    struct disk *d = mem_calloc(1, sizeof *d);
    if (!d)
        return error_set(err, HASTEN_ERR_MEMORY, "opening the store in %s: out of memory", s->folder);
    d->e = e;
    d->s = *s;
    hasten_status st = take_lock(d, err);
    if (!st && e)
        st = take_identity(d, err);
    if (st)
        disk_close(d);
    else
        *out = d;
    return st;
}

static void keep_limit(struct disk *d, uint64_t more);
static void finish_writing(struct disk *d);

hasten_status disk_open(struct hasten_engine *e, const struct disk_settings *s, struct disk **out,
                        struct hasten_error *err)
{
    struct disk *d = NULL;
    int64_t entries, bytes;
    const hasten_status st = open_folder(e, s, &d, err);
    if (st)
        return st;
    const char *path = path_of(d, "index.sqlite", "");
    if (!path || file_kind(path) == FILE_OTHER || !disk_index_open(path, &d->index) || !index_fits(d))
        mend(d);
    if (d->index && !disk_index_totals(d->index, &entries, &bytes, &d->used))
        mend(d);
    keep_limit(d, 0);
    *out = d;
    return HASTEN_OK;
}

void disk_close(struct disk *d)
{
    if (!d)
        return;
    finish_writing(d);
    buf_free(&d->w.path);
    disk_index_close(d->index);
    file_close(d->lock);
    buf_free(&d->path);
    mem_free(d->hash);
    mem_free(d);
}

/* ---- finding -------------------------------------------------------------------------------------------------- */

struct record {
    char name[RECORD_NAME];
    int32_t common, length; /* tokens in common with what was asked; of the record */
};

static int32_t common(const int32_t *a, int64_t na, const int32_t *b, int64_t nb)
{
    const int64_t most = na < nb ? na : nb;
    int32_t i = 0;
    while (i < most && a[i] == b[i])
        i++;
    return i;
}

static void forget(struct disk *d, const char *name)
{
    remove_file(d, name, ".seq");
    if (d->index && !disk_index_remove(d->index, name))
        mend(d);
}

static bool is_ours(const struct disk *d, uint64_t scope, const struct snapshot_info *i)
{
    const struct record_label label = label_of(scope);
    uint8_t identity[CHECKSUM_BYTES];
    checksum_of(i->identity.data, i->identity.len, identity);
    return i->label.len == sizeof label && memcmp(i->label.data, &label, sizeof label) == 0 &&
           memcmp(identity, d->identity, sizeof identity) == 0;
}

/* What a record's tokens have in common with ids: compared in full. A record that cannot be read goes; one of another
 * scope or engine is none. */
static bool look_at(struct disk *d, uint64_t scope, const char *name, const int32_t *ids, int64_t n,
                    struct record *out)
{
    struct snapshot_info info = {0};
    struct hasten_error err;
    const char *path = path_of(d, name, ".seq");
    const hasten_status st = path ? snapshot_inspect(path, false, &info, &err) : HASTEN_ERR_MEMORY;
    if (st && st != HASTEN_ERR_MEMORY) {
        d->f.disk_failures++;
        forget(d, name);
    }
    if (st)
        return false;
    const bool ours = is_ours(d, scope, &info);
    memcpy(out->name, name, RECORD_NAME);
    out->length = info.sequence.length;
    out->common = common((const int32_t *)(const void *)info.tokens.data, info.sequence.length, ids, n);
    snapshot_info_free(&info);
    return ours;
}

/* The largest depth above `low` whose hash is known: who has a block has all before it, so it is halved. -1: trouble. */
static int32_t deepest(struct disk *d, int32_t low, int32_t high)
{
    char name[INDEX_CANDIDATES][RECORD_NAME];
    int32_t n;
    while (low < high) {
        const int32_t middle = low + (high - low + 1) / 2;
        if (!disk_index_find(d->index, d->hash[middle - 1], middle, name, &n))
            return -1;
        if (n)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The record with the most blocks in common, of more than `above`: false if none is known. */
static bool find(struct disk *d, uint64_t scope, const int32_t *ids, int64_t n, int32_t above,
                 struct record *out)
{
    char name[INDEX_CANDIDATES][RECORD_NAME];
    int32_t n_names;
    const int32_t least = above / DISK_BLOCK,
                  blocks = d->index ? hash_blocks(d, first_hash(d->identity, scope), ids, n) : 0;
    int32_t depth = blocks > least ? deepest(d, least, blocks) : least;
    for (int32_t tries = 0; depth > least && d->index && tries < MOST_TRIES; tries++, depth--) {
        if (!disk_index_find(d->index, d->hash[depth - 1], depth, name, &n_names)) {
            depth = -1;
            break;
        }
        for (int32_t i = 0; i < n_names; i++)
            if (look_at(d, scope, name[i], ids, n, out) && out->common >= depth * DISK_BLOCK)
                return true; /* others only have the hash in common */
    }
    if (depth < 0)
        mend(d);
    return false;
}

struct hasten_seq *disk_read(struct disk *d, uint64_t scope, const int32_t *ids, int64_t n, int32_t more_than,
                             bool *full)
{
    struct record r;
    struct hasten_seq *s = NULL;
    struct hasten_error err;
    const struct record_label label = label_of(scope);
    const struct snapshot_label must = {&label, sizeof label};
    *full = false;
    if (!find(d, scope, ids, n - 1, more_than, &r))
        return NULL;
    const char *path = path_of(d, r.name, ".seq");
    const hasten_status st = path ? snapshot_load(d->e, path, &must, &s, &err) : HASTEN_ERR_MEMORY;
    *full = st == HASTEN_ERR_FULL;
    if (st && st != HASTEN_ERR_FULL && st != HASTEN_ERR_MEMORY) {
        d->f.disk_failures++;
        forget(d, r.name);
    }
    if (st)
        return NULL;
    int32_t reach = common(s->tokens, s->length, ids, n - 1);
    reach = store_reach(s, reach, n);
    if (reach <= more_than || hasten_seq_truncate(s, reach, NULL)) {
        hasten_seq_close(s);
        return NULL;
    }
    d->f.disk_hits++;
    if (d->index && !disk_index_touch(d->index, r.name, ++d->used))
        mend(d);
    return s;
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

static void keep_limit(struct disk *d, uint64_t more)
{
    struct disk_index_record oldest;
    int64_t entries, bytes, last;
    while (d->s.limit != UINT64_MAX && d->index && disk_index_totals(d->index, &entries, &bytes, &last) &&
           entries && (uint64_t)bytes + more > d->s.limit) {
        if (!disk_index_oldest(d->index, &oldest)) {
            mend(d);
            return;
        }
        forget(d, oldest.name);
    }
}

static void name_of(const struct disk *d, uint64_t scope, const struct hasten_seq *s, char out[RECORD_NAME])
{
    struct checksum c;
    uint8_t sum[CHECKSUM_BYTES];
    checksum_begin(&c);
    checksum_add(&c, d->identity, sizeof d->identity);
    checksum_add(&c, &scope, sizeof scope);
    checksum_add(&c, s->tokens, (size_t)s->length * sizeof *s->tokens);
    checksum_end(&c, sum);
    checksum_hex(sum, out);
}

/* The part that waits for files, in a thread of its own: it reads the sequence, which nobody changes meanwhile. */
static void save_aside(void *ctx)
{
    struct writing *w = ctx;
    struct hasten_error err;
    w->status =
        snapshot_save(w->s, (struct snapshot_label){&w->label, sizeof w->label}, w->path.data, false, &err);
}

/* What became of the record that was being written: into the index, and what stands in it goes. */
static void finish_writing(struct disk *d)
{
    struct writing *w = &d->w;
    aside_wait(&d->aside);
    if (!w->s)
        return;
    const struct hasten_seq *s = w->s;
    w->s = NULL;
    if (w->status) {
        d->f.disk_failures++;
        return;
    }
    d->f.disk_writes++;
    const int32_t n = hash_blocks(d, first_hash(d->identity, w->label.scope), s->tokens, s->length);
    if (d->index && (n < 0 || !disk_index_add(d->index, &w->r, d->hash, n)))
        mend(d);
    if (w->replaced[0])
        forget(d, w->replaced);
}

static void begin_writing(struct disk *d, uint64_t scope, const struct hasten_seq *s, const char *replaced)
{
    struct writing *w = &d->w;
    struct hasten_error err;
    uint64_t bytes;
    if (snapshot_bytes(s, sizeof w->label, &bytes, &err) || bytes > d->s.limit)
        return;
    keep_limit(d, bytes);
    w->r = (struct disk_index_record){.bytes = (int64_t)bytes, .tokens = s->length, .used = ++d->used};
    name_of(d, scope, s, w->r.name);
    w->label = label_of(scope);
    memcpy(w->replaced, replaced, RECORD_NAME);
    buf_clear(&w->path);
    if (buf_printf(&w->path, "%s/%s.seq", d->s.folder, w->r.name)) {
        d->f.disk_failures++;
        return;
    }
    w->s = s;
    aside_start(&d->aside, save_aside, w);
}

const struct hasten_seq *disk_writing(struct disk *d)
{
    if (d->w.s && aside_done(&d->aside))
        finish_writing(d);
    return d->w.s;
}

void disk_wait(struct disk *d)
{
    finish_writing(d);
}

bool disk_write(struct disk *d, uint64_t scope, const struct hasten_seq *s, bool last)
{
    static const char none[RECORD_NAME] = "";
    struct record old = {.common = 0};
    if (last)
        finish_writing(d);
    if (disk_writing(d))
        return false;
    if (!d->index) /* perhaps there is room again */
        mend(d);
    if (!d->index || s->length < DISK_BLOCK)
        return true;
    const bool held = find(d, scope, s->tokens, s->length, 0, &old);
    const int32_t more = s->length - (held ? old.common : 0), enough = last ? DISK_BLOCK : 4 * DISK_BLOCK;
    if (held && more < (last || old.common / 4 < enough ? enough : old.common / 4))
        return true;
    /* a record all of which stands in the new one is worth nothing then */
    begin_writing(d, scope, s, held && old.common == old.length && old.length < s->length ? old.name : none);
    if (last)
        finish_writing(d);
    return true;
}

void disk_figures(struct disk *d, struct store_figures *out)
{
    int64_t last, bytes = 0;
    out->disk_hits = d->f.disk_hits;
    out->disk_writes = d->f.disk_writes;
    out->disk_failures = d->f.disk_failures;
    if (d->index)
        disk_index_totals(d->index, &out->disk_entries, &bytes, &last);
    out->disk_bytes = (uint64_t)bytes;
}

hasten_status disk_check(const char *folder, struct disk_report *out, struct hasten_error *err)
{
    const struct disk_settings s = {folder, UINT64_MAX, 64};
    struct disk *d = NULL;
    *out = (struct disk_report){0};
    if (file_kind(folder) != FILE_FOLDER)
        return error_set(err, HASTEN_ERR_FILE, "%s: no such folder (expected one of --store apc:dir=DIR)",
                         folder);
    struct buf lock = {0};
    const bool store = !buf_printf(&lock, "%s/lock", folder) && file_kind(lock.data) == FILE_REGULAR;
    buf_free(&lock);
    if (!store)
        return error_set(err, HASTEN_ERR_FILE, "%s: no store (expected a folder of --store apc:dir=DIR)",
                         folder);
    hasten_status st = open_folder(NULL, &s, &d, err);
    st = st ? st : rebuild(d, true, out, err);
    if (!st && !d->index)
        st = error_set(err, HASTEN_ERR_DISK, "%s: the index cannot be written (expected room on the disk)",
                       folder);
    disk_close(d);
    return st;
}
