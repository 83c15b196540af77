/* Downloads (download.h). While a file comes it is PATH.part, with PATH.part.json beside it: URL, validator and size,
 * written before the first byte, so that after a kill the next run knows what it is part of and asks for the rest only.
 * A server that ignores the question, or whose file has changed, sends all of it: then the part begins anew. When all is
 * there it is hashed from the disk; only then does it get its name, and PATH.pull.json records source and hash.
 *
 * The part is locked as long as a process works on it. */
#include "cli/download.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/hash.h"
#include "cli/http.h"
#include "cli/source.h"
#include <jansson.h>
#include <string.h>
#include <time.h>

#define ROOM_TO_SPARE (16u << 20)
#define FIRST_PAUSE_MS 250u
#define LONGEST_PAUSE_MS 60000u
#define PROGRESS_THAT_COUNTS (1u << 20) /* a try that brought so much does not count as failed */

struct job {
    struct download *d;
    struct buf part, meta, record;
    struct file *out; /* the part, locked */
    uint64_t have;    /* bytes in it */
    uint64_t shown;   /* highest progress shown: it never goes back */
    int64_t size;     /* of the whole file, -1: unknown */
    char validator[200];
    char sha256[65], sha1[41]; /* that the file must have; "": nobody said */
    bool locked, complete;
    bool changed; /* the file behind the URL is not the one that the part is of */
    uint64_t t0;
};

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "out of memory");
}

/* ---- what stands beside the file ------------------------------------------------------------------------- */

/* Written whole and renamed, so that it is never half. */
static hasten_status write_json(const char *path, json_t *v, struct hasten_error *err)
{
    struct buf tmp = {0};
    struct file *f = NULL;
    char *text = v ? json_dumps(v, JSON_INDENT(1)) : NULL;
    json_decref(v);
    hasten_status st = !text || buf_printf(&tmp, "%s.new", path) ? no_memory(err) : HASTEN_OK;
    if (!st)
        st = file_open(tmp.data, FILE_WRITE_TRUNC, &f, err);
    if (!st)
        st = file_write(f, text, strlen(text), err);
    if (!st)
        st = file_sync(f, err);
    file_close(f);
    if (!st)
        st = file_rename(tmp.data, path, err);
    mem_free(text);
    buf_free(&tmp);
    return st;
}

static json_t *read_json(const char *path)
{
    struct hasten_error ignored;
    json_t *v = NULL;
    return file_exists(path) && !cli_read_json(path, &v, &ignored) ? v : NULL;
}

/* A string of an object that fits into out, else "". */
static void take_string(const json_t *v, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(v, key));
    out[0] = 0;
    if (text && strlen(text) < size)
        memcpy(out, text, strlen(text) + 1);
}

static void forget_part(struct job *j)
{
    struct hasten_error ignored;
    if (file_exists(j->part.data))
        file_unlink(j->part.data, &ignored);
    if (file_exists(j->meta.data))
        file_unlink(j->meta.data, &ignored);
}

static hasten_status begin_anew(struct job *j, struct hasten_error *err)
{
    j->have = 0;
    j->size = -1;
    j->validator[0] = 0;
    return file_truncate(j->out, 0, err);
}

/* What an earlier run left: its bytes count when it was the same URL and something can tell that they still fit. */
static hasten_status find_part(struct job *j, struct hasten_error *err)
{
    int got = 0;
    hasten_status st = file_open(j->part.data, FILE_APPEND, &j->out, err);
    if (!st)
        st = file_lock(j->out, &got, err);
    j->locked = !st && got;
    if (!st && !got)
        st = error_set(err, HASTEN_ERR_USAGE, "another process is pulling it (expected one at a time)");
    if (!st)
        st = file_size(j->out, &j->have, err);
    json_t *v = st ? NULL : read_json(j->meta.data);
    const char *url = json_string_value(json_object_get(v, "url"));
    const bool same = url && strcmp(url, j->d->url) == 0;
    const json_t *size = json_object_get(v, "size");
    if (same) {
        take_string(v, "validator", j->validator, sizeof j->validator);
        take_string(v, "sha256", j->sha256, sizeof j->sha256);
        take_string(v, "sha1", j->sha1, sizeof j->sha1);
        j->size = json_is_integer(size) ? json_integer_value(size) : -1;
    }
    json_decref(v);
    if (j->d->sha256)
        memcpy(j->sha256, j->d->sha256, sizeof j->sha256);
    const bool fits =
        same && (*j->validator || *j->sha256 || *j->sha1) && (j->size < 0 || j->have <= (uint64_t)j->size);
    if (!st && j->have > 0 && !fits)
        st = begin_anew(j, err);
    j->complete = !st && j->have > 0 && j->size >= 0 && j->have == (uint64_t)j->size;
    return st;
}

/* ---- one try --------------------------------------------------------------------------------------------- */

static void show(struct job *j)
{
    j->shown = j->have > j->shown ? j->have : j->shown;
    ui_progress(j->d->ui, "pull", j->shown, j->size > 0 ? (uint64_t)j->size : 0, "bytes", j->t0);
}

static hasten_status check_room(struct job *j, struct hasten_error *err)
{
    uint64_t room = 0;
    if (j->size < 0 || file_space(j->part.data, &room, NULL))
        return HASTEN_OK;
    const uint64_t need = (uint64_t)j->size - j->have + ROOM_TO_SPARE;
    return room >= need
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_DISK, "%.0f MB free in %s (expected %.0f MB for the file)",
                           (double)room / 1e6, j->part.data, (double)need / 1e6);
}

/* The sizes and hashes that an answer says, against what is known. */
static hasten_status check_answer(struct job *j, const struct http_response *r, struct hasten_error *err)
{
    const int64_t total = r->total;
    if (r->status == 206 && r->range_from != (int64_t)j->have)
        return error_set(err, HASTEN_ERR_NETWORK, "the server sends bytes from %lld on (expected from %llu)",
                         (long long)r->range_from, (unsigned long long)j->have);
    if (r->size >= 0 && total >= 0 && r->size != total)
        return error_set(err, HASTEN_ERR_NETWORK, "the server sends %lld bytes (expected %lld)",
                         (long long)total, (long long)r->size);
    j->changed = r->status == 206 && ((j->size >= 0 && total >= 0 && total != j->size) ||
                                      (*j->sha256 && *r->sha256 && strcmp(j->sha256, r->sha256) != 0));
    if (j->changed && !j->d->sha256)
        return error_set(err, HASTEN_ERR_NETWORK, "the file behind the URL has changed");
    j->size = total >= 0 ? total : r->size >= 0 ? r->size : j->size;
    if (!j->d->sha256 && *r->sha256)
        memcpy(j->sha256, r->sha256, sizeof j->sha256);
    if (!j->d->sha256 && *r->sha1)
        memcpy(j->sha1, r->sha1, sizeof j->sha1);
    memcpy(j->validator, r->etag, sizeof j->validator);
    return HASTEN_OK;
}

static hasten_status on_begin(void *ctx, const struct http_response *r, struct hasten_error *err)
{
    struct job *j = ctx;
    hasten_status st = HASTEN_OK;
    if (r->status == 200 && j->have > 0) {
        ui_note(j->d->ui, "pull %s: the server does not go on, it begins anew", j->d->name);
        st = begin_anew(j, err);
    }
    if (!st)
        st = check_answer(j, r, err);
    if (!st)
        st = check_room(j, err);
    return st ? st
              : write_json(j->meta.data,
                           json_pack("{s:s, s:s, s:s, s:I, s:s, s:s}", "name", j->d->name, "url", j->d->url,
                                     "validator", j->validator, "size", (json_int_t)j->size, "sha256",
                                     j->sha256, "sha1", j->sha1),
                           err);
}

static hasten_status on_take(void *ctx, const void *data, size_t n, struct hasten_error *err)
{
    struct job *j = ctx;
    if (j->size >= 0 && n > (uint64_t)j->size - j->have)
        return error_set(err, HASTEN_ERR_FILE, "the server sends more than the %lld bytes that it said",
                         (long long)j->size);
    hasten_status st = file_write(j->out, data, n, err);
    j->have += st ? 0 : n;
    show(j);
    return st;
}

static bool on_stop(void *ctx)
{
    struct job *j = ctx;
    show(j);
    return interrupt_seen();
}

static void on_note(void *ctx, const char *text)
{
    const struct job *j = ctx;
    ui_detail(j->d->ui, "pull %s: %s", j->d->name, text);
}

static hasten_status try_once(struct job *j, struct http *h, struct http_response *r,
                              struct hasten_error *err)
{
    const struct http_request q = {.url = j->d->url,
                                   .from = j->have,
                                   .if_range = *j->validator ? j->validator : NULL,
                                   .token = j->d->token,
                                   .trusted = j->d->trusted,
                                   .stall_ms = j->d->stall_ms,
                                   .begin = on_begin,
                                   .take = on_take,
                                   .stop = on_stop,
                                   .note = on_note,
                                   .ctx = j};
    ui_detail(j->d->ui, "pull %s: GET %s from byte %llu", j->d->name, j->d->url, (unsigned long long)j->have);
    hasten_status st = http_get(h, &q, r, err);
    if (!st && j->size >= 0 && j->have != (uint64_t)j->size) {
        r->again = true;
        st = error_set(err, HASTEN_ERR_NETWORK, "the answer ended after %llu of %lld bytes",
                       (unsigned long long)j->have, (long long)j->size);
    }
    return st;
}

/* ---- all tries ------------------------------------------------------------------------------------------- */

/* Waits, in short pieces that look for Ctrl-C. */
static hasten_status pause_ms(uint64_t ms, struct hasten_error *err)
{
    const uint64_t end = clock_now_ns() + ms * 1000000;
    while (clock_now_ns() < end && !interrupt_seen())
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return interrupt_seen() ? error_set(err, HASTEN_ERR_CANCELLED, "interrupted") : HASTEN_OK;
}

/* 416: there is nothing from this byte on, so what is here fits no more. */
static bool out_of_range(struct job *j, const struct http_response *r)
{
    return r->status == 416 && j->have > 0;
}

static hasten_status try_all(struct job *j, struct hasten_error *err)
{
    struct http *h = NULL;
    hasten_status st = http_open(&h, err);
    uint64_t pause = FIRST_PAUSE_MS;
    bool anew = false;
    for (int failed = 0; !st && !j->complete;) {
        struct http_response r;
        const uint64_t before = j->have;
        st = try_once(j, h, &r, err);
        j->complete = !st;
        if (st == HASTEN_ERR_NETWORK && (out_of_range(j, &r) || j->changed) && !anew) {
            anew = true; /* once: a server that always says so is not believed twice */
            j->sha256[0] = j->sha1[0] = 0;
            if (j->d->sha256)
                memcpy(j->sha256, j->d->sha256, sizeof j->sha256);
            st = begin_anew(j, err);
            continue;
        }
        if (st != HASTEN_ERR_NETWORK || !r.again)
            break;
        if (j->have >= before + PROGRESS_THAT_COUNTS) {
            failed = 0;
            pause = FIRST_PAUSE_MS;
        }
        if (failed++ == j->d->retries)
            break;
        ui_note(j->d->ui, "pull %s: %s; trying again", j->d->name, err->message);
        pause = r.retry_after_ms > pause ? r.retry_after_ms : pause;
        st = pause_ms(pause < LONGEST_PAUSE_MS ? pause : LONGEST_PAUSE_MS, err);
        pause *= 2;
    }
    http_close(h);
    return st;
}

static bool on_hash(void *ctx, uint64_t done)
{
    struct job *j = ctx;
    ui_progress(j->d->ui, "hash", done, j->have, "bytes", j->t0);
    return interrupt_seen();
}

static hasten_status check_hash(struct job *j, struct hasten_error *err)
{
    char sha1[41] = "";
    j->t0 = clock_now_ns();
    hasten_status st = file_sync(j->out, err);
    if (!st)
        st = hash_sha256(j->part.data, j->d->got_sha256, on_hash, j, err);
    if (!st && *j->sha1 && !*j->sha256)
        st = hash_git_blob(j->part.data, sha1, err);
    if (st)
        return st;
    const bool wrong = *j->sha256 ? strcmp(j->sha256, j->d->got_sha256) != 0 : strcmp(j->sha1, sha1) != 0;
    if (wrong) {
        forget_part(j);
        return error_set(err, HASTEN_ERR_FILE, "what came has %s %s (expected %s)",
                         *j->sha256 ? "SHA-256" : "git's SHA-1", *j->sha256 ? j->d->got_sha256 : sha1,
                         *j->sha256 ? j->sha256 : j->sha1);
    }
    if (!*j->sha256 && !*j->sha1)
        ui_note(j->d->ui, "pull %s: nobody said a hash to compare with (--sha256 does); it is %s", j->d->name,
                j->d->got_sha256);
    return HASTEN_OK;
}

static hasten_status publish(struct job *j, struct hasten_error *err)
{
    struct hasten_error ignored;
    hasten_status st = write_json(j->record.data,
                                  json_pack("{s:s, s:s, s:s, s:I, s:b}", "name", j->d->name, "url", j->d->url,
                                            "sha256", j->d->got_sha256, "bytes", (json_int_t)j->have,
                                            "expected", *j->sha256 || *j->sha1),
                                  err);
    if (!st)
        st = file_rename(j->part.data, j->d->path, err);
    if (!st && file_exists(j->meta.data))
        file_unlink(j->meta.data, &ignored);
    return st;
}

/* The sentence of a failure, with what is kept. */
static void add_remedy(const struct job *j, hasten_status st, struct hasten_error *err)
{
    struct hasten_error why = *err;
    if ((st == HASTEN_ERR_NETWORK || st == HASTEN_ERR_CANCELLED) && j->have > 0)
        error_set(err, st, "%.900s; %.1f MB are here, pull again to go on", why.message,
                  (double)j->have / 1e6);
}

hasten_status download_file(struct download *d, struct hasten_error *err)
{
    struct job j = {.d = d, .size = -1, .t0 = clock_now_ns()};
    struct buf folder = {0};
    const char *slash = strrchr(d->path, '/');
    int bad = buf_printf(&j.part, "%s" SOURCE_PART, d->path) |
              buf_printf(&j.meta, "%s" SOURCE_PART_META, d->path) |
              buf_printf(&j.record, "%s" SOURCE_RECORD, d->path) |
              buf_put(&folder, d->path, (size_t)(slash - d->path));
    hasten_status st = bad ? no_memory(err) : file_mkdirs(folder.data, err);
    if (!st)
        st = find_part(&j, err);
    d->ui->progress_from = j.shown = j.have;
    if (!st)
        st = try_all(&j, err);
    if (!st) {
        ui_progress_end(d->ui);
        st = check_hash(&j, err);
    }
    if (!st)
        st = publish(&j, err);
    d->bytes = j.have;
    ui_progress_end(d->ui);
    if (st)
        add_remedy(&j, st, err);
    if (st && j.locked && j.have == 0)
        forget_part(&j);
    file_close(j.out);
    buf_free(&folder);
    buf_free(&j.part);
    buf_free(&j.meta);
    buf_free(&j.record);
    return st;
}

bool download_present(struct download *d, bool *other)
{
    struct buf record = {0};
    struct hasten_error ignored;
    char name[4200], sha256[65];
    *other = false;
    if (!file_exists(d->path) || buf_printf(&record, "%s" SOURCE_RECORD, d->path)) {
        buf_free(&record);
        return false;
    }
    json_t *v = read_json(record.data);
    take_string(v, "name", name, sizeof name);
    take_string(v, "sha256", sha256, sizeof sha256);
    d->bytes = (uint64_t)json_integer_value(json_object_get(v, "bytes"));
    *other = *name && strcmp(name, d->name) != 0;
    json_decref(v);
    buf_free(&record);
    const char *wanted = d->sha256 ? d->sha256 : sha256;
    return !*other && *wanted && !hash_sha256(d->path, d->got_sha256, NULL, NULL, &ignored) &&
           strcmp(wanted, d->got_sha256) == 0;
}
