/* Where models lie in the user's cache, and what a MODEL argument means (cache.h). Fetches nothing. */
#include "cli/cache.h"
#include "base/file.h"
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

hasten_status model_resolve(const char *arg, struct buf *out, struct hasten_error *err)
{
    const struct table_model *m = model_table_find(arg);
    if (!m) {
        if (!file_exists(arg))
            return no_such_model(arg, err);
        return buf_puts(out, arg) ? error_set(err, HASTEN_ERR_MEMORY, "opening model: out of memory")
                                  : HASTEN_OK;
    }
    hasten_status st = cache_path(m, out, err);
    if (st)
        return st;
    if (!file_exists(out->data))
        return error_set(err, HASTEN_ERR_FILE,
                         "opening model '%s': not in the cache yet (hasten pull %s fetches it)", arg, arg);
    return HASTEN_OK;
}
