/* `hasten pull`: names of the built-in table, hf:USER/REPO/FILE and URLs into the cache. Here are the arguments and what
 * a URL needs around its download (download.c): its place, its hash, the token. */
#include "cli/cache.h"
#include "cli/download.h"
#include "cli/pull.h"
#include "cli/source.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct pull_args {
    bool list;
    const char *sha256;
    uint64_t timeout_ms;
    int32_t retries;
    struct ui ui;
};

static const struct option_def pull_defs[] = {
    {"list", NULL, OPT_FLAG, offsetof(struct pull_args, list), 0, 0, NULL, NULL,
     "what the built-in table has"},
    {"sha256", NULL, OPT_STRING, offsetof(struct pull_args, sha256), 0, 0, NULL, "HEX",
     "the hash that a URL's file must have [hf: what the hub says]"},
    {"timeout", NULL, OPT_DURATION, offsetof(struct pull_args, timeout_ms), 1, 3600, "30s", "TIME",
     "give up a connection that brings nothing, or next to nothing, for so long"},
    {"retries", NULL, OPT_INT, offsetof(struct pull_args, retries), 0, 1000, "5", "N",
     "further tries after a connection that failed"},
};

/* ---- the table ------------------------------------------------------------------------------------------ */

static int list_table(void)
{
    for (int i = 0; model_table_at(i); i++)
        printf("%-12s %5.0f MB  %s\n", model_table_at(i)->name, (double)model_table_at(i)->bytes / 1e6,
               model_table_at(i)->about);
    return cli_finish(0);
}

static int list_json(void)
{
    json_t *list = json_array();
    for (int i = 0; model_table_at(i); i++) {
        const struct table_model *m = model_table_at(i);
        json_add(&list, json_pack("{s:s, s:s, s:I, s:s, s:s}", "name", m->name, "file", m->file, "bytes",
                                  (json_int_t)m->bytes, "sha256", m->sha256, "about", m->about));
    }
    return cli_json(list);
}

/* ---- one URL ---------------------------------------------------------------------------------------------- */

int pull_print(struct ui *ui, const char *name, const char *path, uint64_t bytes, const char *sha256)
{
    if (ui->json)
        return cli_json(json_pack("{s:o, s:o, s:I, s:s}", "name", json_bytes(name, strlen(name)), "path",
                                  json_bytes(path, strlen(path)), "bytes", (json_int_t)bytes, "sha256",
                                  sha256));
    printf("%s\n", path);
    return 0;
}

/* HF_TOKEN, which must be a word: it goes into a header. NULL when there is none. */
static hasten_status find_token(const char **out, struct hasten_error *err)
{
    const char *token = getenv("HF_TOKEN");
    *out = token && *token ? token : NULL;
    bool good = !*out || strlen(*out) < 2000;
    for (const char *c = *out; c && *c; c++)
        good &= (unsigned char)*c > 32 && (unsigned char)*c < 127;
    return good
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_USAGE, "environment HF_TOKEN: not a word of printable characters");
}

static hasten_status fetch(struct pull_args *a, const struct source *s, const char *path, struct download *d,
                           struct hasten_error *err)
{
    char hub[SOURCE_ORIGIN_BYTES];
    bool other = false;
    *d = (struct download){.name = s->name.data,
                           .url = s->url.data,
                           .path = path,
                           .sha256 = a->sha256,
                           .stall_ms = a->timeout_ms,
                           .retries = a->retries,
                           .ui = &a->ui};
    hasten_status st = HASTEN_OK;
    if (s->hub) {
        source_origin(s->url.data, hub);
        d->trusted = hub;
        st = find_token(&d->token, err);
    }
    if (st || download_present(d, &other))
        return st;
    if (other)
        return error_set(err, HASTEN_ERR_USAGE, "%s was pulled from another URL (hasten rm removes it)",
                         path);
    return download_file(d, err);
}

static int pull_source(struct pull_args *a, const char *arg)
{
    struct source s = {0};
    struct buf path = {0};
    struct download d = {0};
    struct hasten_error err;
    hasten_status st = source_parse(arg, &s, &err);
    if (!st)
        st = cache_models_dir(&path, &err);
    if (!st && buf_printf(&path, "/%s", s.place.data))
        st = error_set(&err, HASTEN_ERR_MEMORY, "out of memory");
    interrupt_arm();
    if (!st)
        st = fetch(a, &s, path.data, &d, &err);
    interrupt_disarm();
    if (st && path.data)
        cache_prune(path.data);
    if (st)
        error_prefix(&err, "pull %.300s", arg);
    const int rc = st ? cli_fail(&err) : pull_print(&a->ui, s.name.data, path.data, d.bytes, d.got_sha256);
    source_free(&s);
    buf_free(&path);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------------------- */

/* All names before the first is fetched. */
static int check_names(const struct command *c, const struct option_positionals *pos)
{
    for (int i = 0; i < pos->n; i++) {
        const char *name = pos->items[i];
        struct source s = {0};
        struct hasten_error err;
        if (source_named(name)) {
            if (source_parse(name, &s, &err))
                return cli_usage(c, "%s", err.message);
            source_free(&s);
            continue;
        }
        const char *near = model_table_find(name) ? NULL : model_table_nearest(name, false);
        if (near)
            return cli_usage(c, "unknown model '%s' (did you mean %s?)", name, near);
        if (!model_table_find(name))
            return cli_usage(
                c,
                "unknown model '%s' (hasten pull --list shows the table; hf:USER/REPO/FILE and URLs are "
                "taken too)",
                name);
    }
    return 0;
}

/* 64 hex digits, in lower case into hex. */
static bool read_sha256(const char *text, char hex[65])
{
    if (strlen(text) != 64 || strspn(text, "0123456789abcdefABCDEF") != 64)
        return false;
    for (int i = 0; i < 65; i++)
        hex[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i]);
    return true;
}

int cmd_pull(const struct command *c, int argc, char **argv)
{
    struct pull_args a = {0};
    char hex[65];
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "Pull:", .defs = pull_defs, .n = sizeof pull_defs / sizeof *pull_defs, .dst = &a}};
    struct option_positionals pos;
    int rc = command_parse(c, &a.ui, groups, 2, OPTION_MAX_POSITIONAL, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    if (pos.n > 0 && !option_on_line(&groups[1], "list")) /* names beat the environment */
        a.list = false;
    if (a.list && pos.n > 0)
        return cli_usage(c, "both --list and '%s' (expected one of them)", pos.items[0]);
    if (a.list)
        return a.ui.json ? list_json() : list_table();
    if (pos.n == 0)
        return cli_usage(c, "no NAME (hasten pull --list shows the table)");
    if (a.sha256 && !read_sha256(a.sha256, hex))
        return cli_usage(c, "option --sha256: '%s' (expected 64 hex digits)", a.sha256);
    if (a.sha256 && (pos.n > 1 || !source_named(pos.items[0])))
        return cli_usage(c, "--sha256 with '%s' (expected one URL or hf: name)", pos.items[pos.n - 1]);
    a.sha256 = a.sha256 ? hex : NULL;
    if ((rc = check_names(c, &pos)))
        return rc;
    for (int i = 0; i < pos.n && !rc; i++)
        rc = source_named(pos.items[i]) ? pull_source(&a, pos.items[i])
                                        : pull_table_model(&a.ui, model_table_find(pos.items[i]));
    return rc ? rc : cli_finish(0);
}
