/* `hasten help`, `--help` and the table of options as JSON. */
#include "base/file.h"
#include "cli/cli.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---------------------------------------------------------------------------------------------- */

static int help_text(const struct command_options *o)
{
    const struct command *c = o->command;
    struct buf b = {0};
    int bad = buf_printf(&b, "usage: hasten %s%s%s\n\n%s\n", c->name, *c->synopsis ? " " : "", c->synopsis,
                         c->summary);
    for (int i = 1; i < o->n_groups; i++)
        bad |= options_help(&o->groups[i], 1, &b);
    bad |= options_help(o->groups, 1, &b);
    if (c->text)
        bad |= buf_printf(&b, "\n%s", c->text);
    if (!bad)
        fputs(b.data, stdout);
    buf_free(&b);
    return cli_finish(0);
}

int help_usage(FILE *to)
{
    fprintf(to, "usage: hasten COMMAND [OPTIONS]\n\n");
    for (int i = 0; command_at(i); i++)
        fprintf(to, "  %-12s %s\n", command_at(i)->name, command_at(i)->summary);
    fprintf(
        to,
        "\nhasten help COMMAND lists its options; every option is also HASTEN_<OPTION> in the environment, and a "
        "line\nof a profile (--profile FILE). hasten config shows where each value comes from.\nexit status:\n");
    for (const struct exit_meaning *e = exit_meanings; e->text; e++)
        fprintf(to, "  %3d  %s\n", e->status, e->text);
    return to == stdout ? cli_finish(0) : 2;
}

const char *option_default_text(const struct option_def *d, size_t *len)
{
    const size_t n = strlen(d->help);
    const char *open = strrchr(d->help, '[');
    if (d->value) {
        *len = strlen(d->value);
        return d->value;
    }
    if (!open || n == 0 || d->help[n - 1] != ']')
        return NULL;
    *len = (size_t)(d->help + n - 1 - (open + 1));
    return open + 1;
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static const char *type_name(enum option_type t)
{
    static const char *const names[] = {
        [OPT_FLAG] = "flag",    [OPT_INT] = "integer",       [OPT_SEED] = "integer",
        [OPT_FLOAT] = "number", [OPT_STRING] = "string",     [OPT_SIZE] = "size",
        [OPT_LIST] = "list",    [OPT_DURATION] = "duration", [OPT_CHOICE] = "choice"};
    return names[t];
}

static json_t *spellings_json(const struct option_def *d)
{
    json_t *list = json_array();
    const char *at = d->letters, *c = NULL;
    for (size_t n; (n = option_spelling(&at, &c)) > 0;) {
        char text[OPTION_NAME_BYTES];
        snprintf(text, sizeof text, "%s%.*s", n > OPTION_LETTERS_MAX ? "--" : "-", (int)n, c);
        json_add(&list, json_string(text));
    }
    return list;
}

static json_t *choices_json(const struct option_def *d)
{
    json_t *list = json_array();
    const char *at = d->arg, *c = NULL;
    for (size_t n; (n = value_choice_next(&at, &c)) > 0;)
        json_add(&list, json_stringn(c, n));
    return list;
}

static json_t *option_json(const struct option_group *g, const struct option_def *d)
{
    char variable[OPTION_NAME_BYTES + 8];
    size_t len = 0;
    const char *shown = option_default_text(d, &len);
    option_environment_name(d->name, variable);
    json_t *v = json_pack("{s:s#, s:s, s:o, s:s, s:s?, s:o, s:b, s:s?, s:s}", "group", g->title,
                          (int)strcspn(g->title, ":"), "name", d->name, "also", spellings_json(d), "type",
                          type_name(d->type), "argument", d->type == OPT_FLAG ? NULL : d->arg, "default",
                          shown ? json_stringn(shown, len) : json_null(), "repeatable", d->type == OPT_LIST,
                          "environment", option_in_environment(d) ? variable : NULL, "help", d->help);
    if (d->type == OPT_CHOICE)
        json_put(&v, "choices", choices_json(d));
    if (d->type == OPT_INT || d->type == OPT_FLOAT) {
        json_put(&v, "minimum", json_real(d->lo));
        json_put(&v, "maximum", json_real(d->hi));
    }
    return v;
}

static json_t *command_json(const struct command_options *o)
{
    const struct command *c = o->command;
    json_t *options = json_array();
    for (int i = 1; i <= o->n_groups; i++) {
        const struct option_group *g = &o->groups[i % o->n_groups]; /* Output last, as in the text */
        for (int j = 0; j < g->n; j++)
            json_add(&options, option_json(g, &g->defs[j]));
    }
    return json_pack("{s:s, s:s, s:s, s:s?, s:o}", "name", c->name, "synopsis", c->synopsis, "summary",
                     c->summary, "text", c->text, "options", options);
}

static int add_command(void *ctx, const struct command_options *o)
{
    json_add(ctx, command_json(o));
    return 0;
}

static int all_json(void)
{
    json_t *commands = json_array(), *statuses = json_array();
    for (int i = 0; command_at(i); i++)
        command_visit(command_at(i), add_command, &commands);
    for (const struct exit_meaning *e = exit_meanings; e->text; e++)
        json_add(&statuses, json_pack("{s:i, s:s}", "status", e->status, "meaning", e->text));
    return cli_json(json_pack("{s:s, s:o, s:o}", "version", HASTEN_VERSION, "commands", commands,
                              "exit_status", statuses));
}

int help_print(const struct command_options *o)
{
    return o->ui->json ? cli_json(command_json(o)) : help_text(o);
}

/* ---- the command --------------------------------------------------------------------------------------- */

struct help_args {
    bool man;
    const char *output;
    struct ui ui;
};

static const struct option_def help_defs[] = {
    {"man", NULL, OPT_FLAG, offsetof(struct help_args, man), 0, 0, NULL, NULL, "a man page"},
    {"output", "o", OPT_STRING, offsetof(struct help_args, output), 0, 0, NULL, "FOLDER",
     "with --man: write all pages into it"},
};

struct page {
    struct buf text;
    int failed;
};

static int make_page(void *ctx, const struct command_options *o)
{
    struct page *p = ctx;
    p->failed = man_command(o, &p->text);
    return 0;
}

static hasten_status write_page(const char *folder, const char *name, const struct buf *text,
                                struct hasten_error *err)
{
    struct buf path = {0};
    struct file *f = NULL;
    hasten_status st = buf_printf(&path, "%s/hasten%s%s.1", folder, *name ? "-" : "", name)
                           ? error_set(err, HASTEN_ERR_MEMORY, "help: out of memory")
                           : file_open(path.data, FILE_WRITE_TRUNC, &f, err);
    if (!st)
        st = file_write(f, text->data, text->len, err);
    file_close(f);
    buf_free(&path);
    return st;
}

/* The page of c, NULL: of hasten itself; to stdout or into the folder. */
static hasten_status put_page(const struct command *c, const char *folder, struct hasten_error *err)
{
    struct page p = {0};
    if (c)
        command_visit(c, make_page, &p);
    else
        p.failed = man_overview(&p.text);
    hasten_status st = p.failed ? error_set(err, HASTEN_ERR_MEMORY, "help: out of memory") : HASTEN_OK;
    if (!st && folder)
        st = write_page(folder, c ? c->name : "", &p.text, err);
    else if (!st)
        cli_out(p.text.data, p.text.len);
    buf_free(&p.text);
    return st;
}

static int put_man(const struct help_args *a, const struct command *of)
{
    struct hasten_error err;
    hasten_status st = a->output ? file_mkdirs(a->output, &err) : HASTEN_OK;
    if (!st)
        st = put_page(of, a->output, &err);
    for (int i = 0; a->output && !of && command_at(i) && !st; i++)
        st = put_page(command_at(i), a->output, &err);
    return st ? cli_fail(&err) : cli_finish(0);
}

static int print_visited(void *ctx, const struct command_options *o)
{
    o->ui->json = *(const bool *)ctx;
    return help_print(o);
}

int cmd_help(const struct command *c, int argc, char **argv)
{
    struct help_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "Help:", .defs = help_defs, .n = sizeof help_defs / sizeof *help_defs, .dst = &a}};
    struct option_positionals pos;
    int rc = command_parse(c, &a.ui, groups, 2, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    const struct command *of = pos.n ? command_find(pos.items[0]) : NULL;
    if (pos.n && !of)
        return command_unknown(pos.items[0]);
    if (a.output && !a.man)
        return cli_usage(c, "--output without --man (expected both)");
    if (a.man)
        return put_man(&a, of);
    if (of)
        return command_visit(of, print_visited, &a.ui.json);
    return a.ui.json ? all_json() : help_usage(stdout);
}
