/* See disk_index.h. */
#include "store/disk_index.h"
#include "base/mem.h"
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define INDEX_VERSION 1

enum statement {
    ADD_RECORD,
    ADD_BLOCK,
    REMOVE_RECORD,
    REMOVE_BLOCKS,
    TOUCH,
    FIND,
    OLDEST,
    TOTALS,
    EACH,
    BEGIN,
    COMMIT,
    ROLLBACK,
    STATEMENTS
};

static const char *const texts[STATEMENTS] = {
    [ADD_RECORD] = "INSERT OR REPLACE INTO record VALUES (?1, ?2, ?3, ?4)",
    [ADD_BLOCK] = "INSERT OR REPLACE INTO block VALUES (?1, ?2, ?3)",
    [REMOVE_RECORD] = "DELETE FROM record WHERE name = ?1",
    [REMOVE_BLOCKS] = "DELETE FROM block WHERE name = ?1",
    [TOUCH] = "UPDATE record SET used = ?2 WHERE name = ?1",
    [FIND] = "SELECT b.name FROM block b JOIN record r ON r.name = b.name WHERE b.hash = ?1 AND b.depth = ?2 "
             "ORDER BY r.used DESC LIMIT ?3",
    [OLDEST] = "SELECT name, bytes, tokens, used FROM record ORDER BY used, name LIMIT 1",
    [TOTALS] = "SELECT COUNT(*), TOTAL(bytes), MAX(used) FROM record",
    [EACH] = "SELECT name, bytes, tokens, used FROM record",
    [BEGIN] = "BEGIN",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK"};

struct disk_index {
    sqlite3 *db;
    sqlite3_stmt *statement[STATEMENTS];
};

void disk_index_close(struct disk_index *x)
{
    if (!x)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(x->statement[i]);
    sqlite3_close(x->db);
    mem_free(x);
}

static bool run_text(struct disk_index *x, const char *sql)
{
    return sqlite3_exec(x->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool version_is(struct disk_index *x, int *version)
{
    sqlite3_stmt *s = NULL;
    const bool good = sqlite3_prepare_v2(x->db, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK &&
                      sqlite3_step(s) == SQLITE_ROW;
    *version = good ? sqlite3_column_int(s, 0) : -1;
    sqlite3_finalize(s);
    return good;
}

static bool set_up(struct disk_index *x)
{
    int version;
    if (!run_text(x,
                  "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
                  "PRAGMA trusted_schema = OFF; PRAGMA cache_size = -1024;") ||
        !version_is(x, &version))
        return false;
    if (version == 0 &&
        !run_text(
            x, "BEGIN;"
               "CREATE TABLE record (name TEXT PRIMARY KEY, bytes INTEGER, tokens INTEGER, used INTEGER) "
               "WITHOUT ROWID;"
               "CREATE INDEX record_used ON record (used);"
               "CREATE TABLE block (hash INTEGER, depth INTEGER, name TEXT, PRIMARY KEY (hash, depth, name)) "
               "WITHOUT ROWID;"
               "CREATE INDEX block_name ON block (name);"
               "PRAGMA user_version = 1;"
               "COMMIT;"))
        return false;
    if (version != 0 && version != INDEX_VERSION)
        return false;
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(x->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &x->statement[i], NULL) !=
            SQLITE_OK)
            return false;
    return true;
}

bool disk_index_open(const char *path, struct disk_index **out)
{
    struct disk_index *x = mem_calloc(1, sizeof *x);
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    if (!x)
        return false;
    if (sqlite3_open_v2(path, &x->db, flags, NULL) == SQLITE_OK && set_up(x)) {
        *out = x;
        return true;
    }
    disk_index_close(x);
    return false;
}

/* ---- statements ----------------------------------------------------------------------------------------------- */

static sqlite3_stmt *begin(struct disk_index *x, enum statement which)
{
    sqlite3_stmt *s = x->statement[which];
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return s;
}

static void bind_name(sqlite3_stmt *s, int at, const char *name)
{
    sqlite3_bind_text(s, at, name, -1, SQLITE_TRANSIENT);
}

/* A statement without rows. */
static bool finish(sqlite3_stmt *s)
{
    const bool good = sqlite3_step(s) == SQLITE_DONE;
    sqlite3_reset(s);
    return good;
}

static bool run(struct disk_index *x, enum statement which, const char *name)
{
    sqlite3_stmt *s = begin(x, which);
    if (name)
        bind_name(s, 1, name);
    return finish(s);
}

static bool add_all(struct disk_index *x, const struct disk_index_record *r, const uint64_t *hash, int32_t n)
{
    if (!run(x, REMOVE_BLOCKS, r->name))
        return false;
    sqlite3_stmt *s = begin(x, ADD_RECORD);
    bind_name(s, 1, r->name);
    sqlite3_bind_int64(s, 2, r->bytes);
    sqlite3_bind_int64(s, 3, r->tokens);
    sqlite3_bind_int64(s, 4, r->used);
    bool good = finish(s);
    for (int32_t i = 0; i < n && good; i++) {
        s = begin(x, ADD_BLOCK);
        sqlite3_bind_int64(s, 1, (sqlite3_int64)hash[i]);
        sqlite3_bind_int(s, 2, i + 1);
        bind_name(s, 3, r->name);
        good = finish(s);
    }
    return good;
}

bool disk_index_add(struct disk_index *x, const struct disk_index_record *r, const uint64_t *hash, int32_t n)
{
    if (!run(x, BEGIN, NULL))
        return false;
    const bool good = add_all(x, r, hash, n) && run(x, COMMIT, NULL);
    if (!good)
        run(x, ROLLBACK, NULL);
    return good;
}

bool disk_index_remove(struct disk_index *x, const char *name)
{
    return run(x, REMOVE_BLOCKS, name) && run(x, REMOVE_RECORD, name);
}

bool disk_index_touch(struct disk_index *x, const char *name, int64_t used)
{
    sqlite3_stmt *s = begin(x, TOUCH);
    bind_name(s, 1, name);
    sqlite3_bind_int64(s, 2, used);
    return finish(s);
}

/* A name as it must be, whatever the file says. */
static bool take_name(sqlite3_stmt *s, int column, char out[RECORD_NAME])
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    if (!text || strlen(text) != RECORD_NAME - 1 || strspn(text, "0123456789abcdef") != RECORD_NAME - 1)
        return false;
    memcpy(out, text, RECORD_NAME);
    return true;
}

bool disk_index_find(struct disk_index *x, uint64_t hash, int32_t depth, char name[][RECORD_NAME], int32_t *n)
{
    sqlite3_stmt *s = begin(x, FIND);
    int rc;
    *n = 0;
    sqlite3_bind_int64(s, 1, (sqlite3_int64)hash);
    sqlite3_bind_int(s, 2, depth);
    sqlite3_bind_int(s, 3, INDEX_CANDIDATES);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && *n < INDEX_CANDIDATES)
        if (!take_name(s, 0, name[(*n)++]))
            break;
    sqlite3_reset(s);
    return rc == SQLITE_DONE || (rc == SQLITE_ROW && *n == INDEX_CANDIDATES);
}

static bool take_record(sqlite3_stmt *s, struct disk_index_record *r)
{
    r->bytes = sqlite3_column_int64(s, 1);
    r->tokens = sqlite3_column_int64(s, 2);
    r->used = sqlite3_column_int64(s, 3);
    return take_name(s, 0, r->name);
}

bool disk_index_oldest(struct disk_index *x, struct disk_index_record *out)
{
    sqlite3_stmt *s = begin(x, OLDEST);
    const bool good = sqlite3_step(s) == SQLITE_ROW && take_record(s, out);
    sqlite3_reset(s);
    return good;
}

bool disk_index_totals(struct disk_index *x, int64_t *entries, int64_t *bytes, int64_t *last_used)
{
    sqlite3_stmt *s = begin(x, TOTALS);
    const bool good = sqlite3_step(s) == SQLITE_ROW;
    *entries = good ? sqlite3_column_int64(s, 0) : 0;
    *bytes = good ? sqlite3_column_int64(s, 1) : 0;
    *last_used = good ? sqlite3_column_int64(s, 2) : 0;
    sqlite3_reset(s);
    return good;
}

bool disk_index_each(struct disk_index *x, bool (*fn)(void *ctx, const struct disk_index_record *r),
                     void *ctx, bool *all)
{
    sqlite3_stmt *s = begin(x, EACH);
    struct disk_index_record r;
    int rc;
    *all = true;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && *all)
        *all = take_record(s, &r) && fn(ctx, &r);
    sqlite3_reset(s);
    return rc == SQLITE_DONE || !*all;
}
