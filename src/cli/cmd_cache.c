/* `hasten list` and `hasten rm`: what is in the cache of models. */
#include "base/file.h"
#include "cli/cache.h"
#include "cli/cli.h"
#include "cli/source.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- list --------------------------------------------------------------------------------------------------- */

struct list_args {
    bool names;
    json_t *json; /* with --json */
    struct ui ui;
};

static const struct option_def list_defs[] = {
    {"names", NULL, OPT_FLAG, offsetof(struct list_args, names), 0, 0, NULL, NULL,
     "names alone, of what is complete, one a line"},
};

static hasten_status list_one(void *ctx, const struct cache_entry *e, struct hasten_error *err)
{
    struct list_args *a = ctx;
    (void)err;
    if (a->json)
        json_add(&a->json, json_pack("{s:o, s:o, s:I, s:b}", "name", json_bytes(e->name, strlen(e->name)),
                                     "path", json_bytes(e->path, strlen(e->path)), "bytes",
                                     (json_int_t)e->bytes, "complete", e->complete));
    else if (a->names && e->complete)
        printf("%s\n", e->name);
    else if (!a->names)
        printf("%-40s %9.1f MB%s\n", e->name, (double)e->bytes / 1e6, e->complete ? "" : ", in part");
    return HASTEN_OK;
}

int cmd_list(const struct command *c, int argc, char **argv)
{
    struct list_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "List:", .defs = list_defs, .n = sizeof list_defs / sizeof *list_defs, .dst = &a}};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 2, 0, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    a.json = a.ui.json ? json_array() : NULL;
    if (cache_each(list_one, &a, &err)) {
        json_decref(a.json);
        return cli_fail(&err);
    }
    return a.ui.json ? cli_json(a.json) : cli_finish(0);
}

/* ---- rm ------------------------------------------------------------------------------------------------------ */

#define MAX_NAMES 256

/* Is arg in the cache? If not, the nearest that is. */
struct lookup {
    const char *arg;
    struct buf path, names[MAX_NAMES];
    int n;
    uint64_t bytes;
};

static hasten_status look_up(void *ctx, const struct cache_entry *e, struct hasten_error *err)
{
    struct lookup *l = ctx;
    int bad = 0;
    if (strcmp(e->name, l->arg) == 0) {
        l->bytes = e->bytes;
        bad = buf_puts(&l->path, e->path);
    } else if (l->n < MAX_NAMES) {
        bad = buf_puts(&l->names[l->n], e->name);
        l->n += !bad;
    }
    return bad ? error_set(err, HASTEN_ERR_MEMORY, "rm: out of memory") : HASTEN_OK;
}

static hasten_status find(struct lookup *l, struct hasten_error *err)
{
    const char *names[MAX_NAMES];
    hasten_status st = cache_each(look_up, l, err);
    for (int i = 0; i < l->n; i++)
        names[i] = l->names[i].data;
    const char *near = nearest_word(l->arg, names, l->n);
    if (!st && !l->path.len)
        st = error_set(err, HASTEN_ERR_FILE,
                       near ? "rm: '%s' is not in the cache (did you mean %s?)"
                            : "rm: '%s' is not in the cache (hasten list shows what is)",
                       l->arg, near);
    return st;
}

static void lookup_free(struct lookup *l)
{
    buf_free(&l->path);
    for (int i = 0; i < l->n; i++)
        buf_free(&l->names[i]);
}

/* path with `end` behind it, if there is such a file. */
static hasten_status remove_if(const char *path, const char *end, struct hasten_error *err)
{
    struct buf p = {0};
    hasten_status st = buf_printf(&p, "%s%s", path, end)
                           ? error_set(err, HASTEN_ERR_MEMORY, "rm: out of memory")
                       : file_kind(p.data) == FILE_REGULAR ? file_unlink(p.data, err)
                                                           : HASTEN_OK;
    buf_free(&p);
    return st;
}

/* A model of the table has a folder of its own: all files in it. */
static hasten_status remove_folder(const char *path, struct hasten_error *err)
{
    struct buf folder = {0}, one = {0};
    struct file_names names = {0};
    hasten_status st = buf_put(&folder, path, (size_t)(strrchr(path, '/') - path))
                           ? error_set(err, HASTEN_ERR_MEMORY, "rm: out of memory")
                           : file_list(folder.data, &names, err);
    for (size_t i = 0; i < names.n && !st; i++) {
        buf_clear(&one);
        st = buf_printf(&one, "/%s", names.names[i]) ? error_set(err, HASTEN_ERR_MEMORY, "rm: out of memory")
                                                     : remove_if(folder.data, one.data, err);
    }
    file_names_free(&names);
    buf_free(&folder);
    buf_free(&one);
    return st;
}

static hasten_status remove_one(const struct lookup *l, struct hasten_error *err)
{
    static const char *const suffixes[] = {"", SOURCE_PART, SOURCE_PART_META, SOURCE_RECORD};
    hasten_status st = HASTEN_OK;
    if (model_table_find(l->arg))
        st = remove_folder(l->path.data, err);
    else
        for (int i = 0; i < 4 && !st; i++)
            st = remove_if(l->path.data, suffixes[i], err);
    cache_prune(l->path.data);
    return st;
}

int cmd_rm(const struct command *c, int argc, char **argv)
{
    struct ui ui = {0};
    struct option_group groups[] = {ui_group(&ui)};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &ui, groups, 1, OPTION_MAX_POSITIONAL, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    if (pos.n == 0)
        return cli_usage(c, "no NAME (hasten list shows what is in the cache)");
    json_t *json = ui.json ? json_array() : NULL;
    hasten_status st = HASTEN_OK;
    for (int pass = 0; pass < 2 && !st; pass++) /* all are found before the first is removed */
        for (int i = 0; i < pos.n && !st; i++) {
            struct lookup l = {.arg = pos.items[i]};
            st = find(&l, &err);
            if (!st && pass)
                st = remove_one(&l, &err);
            if (!st && pass && json)
                json_add(&json, json_pack("{s:o, s:I}", "name", json_bytes(l.arg, strlen(l.arg)), "bytes",
                                          (json_int_t)l.bytes));
            else if (!st && pass)
                ui_note(&ui, "removed %s, %.1f MB", l.arg, (double)l.bytes / 1e6);
            lookup_free(&l);
        }
    if (st) {
        json_decref(json);
        return cli_fail(&err);
    }
    return ui.json ? cli_json(json) : cli_finish(0);
}
