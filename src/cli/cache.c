/* Where models lie in the user's cache, and what a MODEL argument means (cache.h). Fetches nothing. */
#include "cli/cache.h"
#include "base/depth.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/source.h"
#include "model/script.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

hasten_status cache_models_dir(struct buf *out, struct hasten_error *err)
{
    const char *own = variable("HASTEN_CACHE"), *xdg = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    int bad;
    if (own)
        bad = buf_printf(out, "%s/models", own);
    else if (xdg)
        bad = buf_printf(out, "%s/hasten/models", xdg);
    else if (home)
        bad = buf_printf(out, "%s/.cache/hasten/models", home);
    else
        return error_set(
            err, HASTEN_ERR_USAGE,
            "finding the cache: none of HASTEN_CACHE, XDG_CACHE_HOME, HOME is set (expected one)");
    return bad ? error_set(err, HASTEN_ERR_MEMORY, "finding the cache: out of memory") : HASTEN_OK;
}

hasten_status cache_path(const struct table_model *m, struct buf *out, struct hasten_error *err)
{
    hasten_status st = cache_models_dir(out, err);
    if (st)
        return st;
    if (buf_printf(out, "/%s/%s", m->name, m->file))
        return error_set(err, HASTEN_ERR_MEMORY, "finding the cache: out of memory");
    return HASTEN_OK;
}

void cache_prune(const char *path)
{
    struct buf models = {0}, folder = {0};
    struct hasten_error ignored;
    if (cache_models_dir(&models, &ignored) || buf_puts(&folder, path)) {
        buf_free(&models);
        buf_free(&folder);
        return;
    }
    const bool inside = strncmp(path, models.data, models.len) == 0;
    for (char *slash; inside && (slash = strrchr(folder.data, '/'));) {
        *slash = 0;
        if (strlen(folder.data) <= models.len || file_rmdir(folder.data, &ignored))
            break;
    }
    buf_free(&models);
    buf_free(&folder);
}

/* ---- what is there --------------------------------------------------------------------------------------- */

static bool ends(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + n - m, with) == 0;
}

struct walk {
    cache_fn fn;
    void *ctx;
    size_t root; /* bytes of ".../models/" in every path */
    struct depth depth;
};

/* The name under which path was pulled: what its record says, else what its place says. */
static int name_of(const struct walk *w, const char *path, const char *record, struct buf *out)
{
    struct hasten_error ignored;
    json_t *v = NULL;
    const char *place = path + w->root;
    int bad;
    if (file_exists(record) && cli_read_json(record, &v, &ignored) == HASTEN_ERR_MEMORY)
        return -1;
    const char *name = json_string_value(json_object_get(v, "name"));
    if (name && source_named(name))
        bad = buf_puts(out, name);
    else if (strncmp(place, "hf/", 3) == 0)
        bad = buf_printf(out, "hf:%s", place + 3);
    else
        bad = buf_printf(out, "https://%s", place + 4);
    json_decref(v);
    return bad;
}

static hasten_status visit_file(struct walk *w, const char *path, struct hasten_error *err)
{
    const bool part = ends(path, SOURCE_PART);
    struct buf record = {0}, name = {0}, whole = {0};
    hasten_status st = HASTEN_OK;
    if (ends(path, SOURCE_PART_META) || ends(path, SOURCE_RECORD) || ends(path, ".json.new"))
        return HASTEN_OK;
    int bad = buf_put(&whole, path, strlen(path) - (part ? strlen(SOURCE_PART) : 0));
    bad |= buf_printf(&record, "%s%s", whole.data ? whole.data : "", part ? SOURCE_PART_META : SOURCE_RECORD);
    if (bad || name_of(w, whole.data, record.data, &name))
        st = error_set(err, HASTEN_ERR_MEMORY, "reading the cache: out of memory");
    else if (!(part && file_exists(whole.data)))
        st = w->fn(w->ctx, &(struct cache_entry){name.data, whole.data, file_bytes(path), !part}, err);
    buf_free(&record);
    buf_free(&name);
    buf_free(&whole);
    return st;
}

static hasten_status walk(struct walk *w, const char *folder, struct hasten_error *err)
{
    struct file_names names = {0};
    if (depth_enter(&w->depth))
        return error_set(err, HASTEN_ERR_LIMIT, "reading the cache: %s lies too deep", folder);
    hasten_status st = file_list(folder, &names, err);
    for (size_t i = 0; i < names.n && !st; i++) {
        struct buf path = {0};
        if (buf_printf(&path, "%s/%s", folder, names.names[i]))
            st = error_set(err, HASTEN_ERR_MEMORY, "reading the cache: out of memory");
        else if (file_kind(path.data) == FILE_FOLDER)
            st = walk(w, path.data, err);
        else if (file_kind(path.data) == FILE_REGULAR)
            st = visit_file(w, path.data, err);
        buf_free(&path);
    }
    file_names_free(&names);
    depth_leave(&w->depth);
    return st;
}

/* A cache that is not there is empty; one that is no folder, or may not be read, is an error. */
static hasten_status check_cache(struct hasten_error *err)
{
    struct buf models = {0};
    struct file_names names = {0};
    hasten_status st = cache_models_dir(&models, err);
    if (!st && file_list_if_any(models.data, &names, err)) {
        error_prefix(err, "reading the cache");
        st = err->status;
    }
    file_names_free(&names);
    buf_free(&models);
    return st;
}

hasten_status cache_each(cache_fn fn, void *ctx, struct hasten_error *err)
{
    static const char *const roots[] = {"hf", "url"};
    struct buf path = {0};
    hasten_status st = check_cache(err);
    for (int i = 0; model_table_at(i) && !st; i++) {
        const struct table_model *m = model_table_at(i);
        buf_clear(&path);
        st = cache_path(m, &path, err);
        if (!st && file_exists(path.data))
            st = fn(ctx, &(struct cache_entry){m->name, path.data, file_bytes(path.data), true}, err);
    }
    for (size_t i = 0; i < 2 && !st; i++) {
        struct walk w = {.fn = fn, .ctx = ctx, .depth = {.limit = 64}};
        buf_clear(&path);
        st = cache_models_dir(&path, err);
        w.root = path.len + 1;
        if (!st && buf_printf(&path, "/%s", roots[i]))
            st = error_set(err, HASTEN_ERR_MEMORY, "reading the cache: out of memory");
        if (!st && file_kind(path.data) == FILE_FOLDER)
            st = walk(&w, path.data, err);
    }
    buf_free(&path);
    return st;
}

/* ---- MODEL ------------------------------------------------------------------------------------------------- */

static hasten_status no_such_model(const char *arg, struct hasten_error *err)
{
    const char *near = model_table_nearest(arg, true);
    if (near)
        return error_set(err, HASTEN_ERR_FILE, "opening model '%s': no such file (did you mean %s?)", arg,
                         near);
    struct buf names = {0};
    for (int i = 0; model_table_at(i); i++)
        if (model_table_runs(model_table_at(i)) &&
            buf_printf(&names, "%s%s", names.len ? ", " : "", model_table_at(i)->name))
            break;
    error_set(err, HASTEN_ERR_FILE, "opening model '%s': no such file (expected a path, or one of %s)", arg,
              names.data ? names.data : "");
    buf_free(&names);
    return HASTEN_ERR_FILE;
}

/* The path of a name into the cache: of the table, or of a source. *named: it is one. */
static hasten_status cached_path(const char *arg, struct buf *out, bool *named, struct hasten_error *err)
{
    const struct table_model *m = model_table_find(arg);
    struct source s = {0};
    *named = m || source_named(arg);
    if (m)
        return cache_path(m, out, err);
    if (!*named)
        return HASTEN_OK;
    hasten_status st = source_parse(arg, &s, err);
    if (!st)
        st = cache_models_dir(out, err);
    if (!st && buf_printf(out, "/%s", s.place.data))
        st = error_set(err, HASTEN_ERR_MEMORY, "finding the cache: out of memory");
    source_free(&s);
    return st ? error_prefix(err, "opening model") : HASTEN_OK;
}

static hasten_status find_model(const char *arg, struct buf *out, struct hasten_error *err)
{
    bool named = false;
    const bool file = strstr(arg, "://") == NULL && strncmp(arg, "hf:", 3) == 0 && file_exists(arg);
    if (file || script_named(arg)) /* a file of such a name; no file at all */
        return buf_puts(out, arg) ? error_set(err, HASTEN_ERR_MEMORY, "opening model: out of memory")
                                  : HASTEN_OK;
    hasten_status st = cached_path(arg, out, &named, err);
    if (st || (named && file_exists(out->data)))
        return st;
    if (named)
        return error_set(err, HASTEN_ERR_FILE,
                         "opening model '%s': not in the cache yet (hasten pull %s fetches it)", arg, arg);
    if (!file_exists(arg))
        return no_such_model(arg, err);
    return buf_puts(out, arg) ? error_set(err, HASTEN_ERR_MEMORY, "opening model: out of memory") : HASTEN_OK;
}

hasten_status model_resolve(const char *arg, struct buf *out, struct hasten_error *err)
{
    const hasten_status st = find_model(arg, out, err);
    if (!st)
        interrupt_on_lost_map(out->data);
    return st;
}
