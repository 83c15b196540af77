/* `hasten config [COMMAND [OPTIONS]]`: every option's value and where it came from. The command is asked what it takes
 * and the same sources are read as when it runs; it does not run. */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define MAX_NAMES 1024

struct config {
    int argc; /* of the command asked about */
    char **argv;
    bool json, quiet;
    json_t *commands;             /* with json: what was found */
    const char *names[MAX_NAMES]; /* options of the commands shown */
    int n_names;
};

/* ---- one value ----------------------------------------------------------------------------------------- */

static const void *value_at(const struct option_group *g, int j)
{
    return (const char *)g->dst + g->defs[j].offset;
}

static json_t *list_json(const struct option_list *l)
{
    json_t *list = json_array();
    for (int i = 0; i < l->n; i++)
        json_add(&list, json_bytes(l->items[i], strlen(l->items[i])));
    return list;
}

static json_t *choice_json(const struct option_def *d, int index)
{
    const char *at = d->arg, *c = NULL;
    size_t n = 0;
    for (int i = 0; i <= index; i++)
        n = value_choice_next(&at, &c);
    return json_stringn(c ? c : "", n);
}

/* 0.3f as 0.3: the shortest decimal that is the same float. */
static double shortest(float x)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            break;
    }
    return strtod(text, NULL);
}

/* null: not given, and what it then is stands in no table (the model's file, the machine decide). */
static json_t *value_json(const struct option_group *g, int j)
{
    const struct option_def *d = &g->defs[j];
    const void *at = value_at(g, j);
    if (!(g->given >> j & 1) && !d->value && d->type != OPT_FLAG)
        return json_null();
    switch (d->type) {
    case OPT_FLAG:
        return json_boolean(*(const bool *)at);
    case OPT_INT:
        return json_integer(*(const int32_t *)at);
    case OPT_FLOAT:
        return json_real(shortest(*(const float *)at));
    case OPT_SEED:
    case OPT_SIZE:
    case OPT_DURATION:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case OPT_CHOICE:
        return choice_json(d, *(const int *)at);
    case OPT_LIST:
        return list_json(at);
    case OPT_STRING:
        break;
    }
    const char *text = *(const char *const *)at;
    return text ? json_bytes(text, strlen(text)) : json_null();
}

/* ---- where it came from ---------------------------------------------------------------------------------- */

static int profile_line(const struct profile *p, const char *command, const struct option_def *d)
{
    const struct profile_line *l;
    int line = 0;
    for (int i = 0; (l = profile_at(p, i)); i++) {
        bool same = strcmp(l->key, d->name) == 0;
        const char *at = d->letters, *c = NULL;
        for (size_t n; (n = option_spelling(&at, &c)) > 0;)
            same |= n == strlen(l->key) && memcmp(c, l->key, n) == 0;
        if (same && (l->command ? strcmp(l->command, command) == 0 : !line))
            line = l->line;
    }
    return line;
}

static const char *source(const struct option_group *g, int j)
{
    if (g->on_line >> j & 1)
        return "command line";
    if (g->in_profile >> j & 1)
        return "profile";
    return g->given >> j & 1 ? "environment" : "default";
}

/* "HASTEN_TEMP", "mine.yaml:3"; "" for the others. */
static void source_detail(const struct command_options *o, const struct profile *p,
                          const struct option_group *g, int j, char *out, size_t size)
{
    char variable[OPTION_NAME_BYTES + 8];
    const uint64_t bit = 1ull << j;
    *out = 0;
    option_environment_name(g->defs[j].name, variable);
    if (g->in_profile & bit)
        snprintf(out, size, "%s:%d", profile_path(p), profile_line(p, o->command->name, &g->defs[j]));
    else if (g->given & ~g->on_line & bit)
        snprintf(out, size, "%s", variable);
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static void print_option(const struct command_options *o, const struct profile *p,
                         const struct option_group *g, int j)
{
    char detail[4200];
    size_t len = 0;
    const char *shown = option_default_text(&g->defs[j], &len);
    json_t *v = value_json(g, j);
    char *text = json_is_string(v) ? mem_strndup(json_string_value(v), json_string_length(v))
                 : json_is_null(v) ? mem_strndup(shown ? shown : "-", shown ? len : 1)
                                   : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    source_detail(o, p, g, j, detail, sizeof detail);
    printf("  --%-22s %-24s %s%s%s\n", g->defs[j].name, text ? text : "?", source(g, j), *detail ? " " : "",
           detail);
    mem_free(text);
    json_decref(v);
}

static json_t *option_json(const struct command_options *o, const struct profile *p,
                           const struct option_group *g, int j)
{
    char detail[4200];
    source_detail(o, p, g, j, detail, sizeof detail);
    return json_pack("{s:s, s:o, s:s, s:s?}", "name", g->defs[j].name, "value", value_json(g, j), "source",
                     source(g, j), "from", *detail ? detail : NULL);
}

/* HASTEN_TEMPP is read by nobody; what is near an option was meant for it. */
static void warn_of_variables(struct ui *ui, const struct config *c)
{
    for (char **e = environ; *e; e++) {
        char word[OPTION_NAME_BYTES + 1], variable[OPTION_NAME_BYTES + 8];
        const char *name = *e + 7;
        const size_t len = strncmp(*e, "HASTEN_", 7) == 0 ? strcspn(name, "=") : 0;
        bool known = len == 0 || len >= sizeof word;
        for (size_t i = 0; i < len && !known; i++)
            word[i] = name[i] == '_'
                          ? '-'
                          : (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
        if (known)
            continue;
        word[len] = 0;
        known = strcmp(word, "cache") == 0 || strcmp(word, "cpu") == 0; /* read, and no options */
        for (int i = 0; i < c->n_names && !known; i++)
            known = strcmp(c->names[i], word) == 0;
        const char *near = known ? NULL : nearest_word(word, c->names, c->n_names);
        if (!near)
            continue;
        option_environment_name(near, variable);
        ui_warn(ui, "environment %.*s: no option (did you mean %s?)", (int)(7 + len), *e, variable);
    }
}

static int show(void *ctx, const struct command_options *o)
{
    struct config *c = ctx;
    struct option_positionals pos;
    struct profile *p = NULL;
    struct hasten_error err;
    json_t *list = json_array();
    hasten_status st = command_take(o, &p, c->argc, c->argv, &pos, &err);
    const bool json = c->json || o->ui->json;
    c->n_names += option_names(o->groups, o->n_groups, c->names + c->n_names, MAX_NAMES - c->n_names);
    c->quiet |= o->ui->quiet;
    if (!st && !json)
        printf("%s\n", o->command->name);
    for (int i = 0; i < o->n_groups && !st; i++)
        for (int j = 0; j < o->groups[i].n; j++) {
            if (strcmp(o->groups[i].defs[j].name, "help") == 0)
                continue;
            if (json)
                json_add(&list, option_json(o, p, &o->groups[i], j));
            else
                print_option(o, p, &o->groups[i], j);
        }
    c->json = json;
    if (json && !st)
        json_put(&c->commands, o->command->name, json_incref(list));
    json_decref(list);
    options_free(o->groups, o->n_groups);
    profile_close(p);
    if (st) {
        error_prefix(&err, "config: %s", o->command->name);
        return cli_fail(&err);
    }
    return 0;
}

int cmd_config(const struct command *c, int argc, char **argv)
{
    struct ui ui = {0};
    struct option_group groups[] = {ui_group(&ui)};
    struct option_positionals pos;
    const bool one = argc > 0 && argv[0][0] != '-' && !(c->host && c->host->visit);
    const struct command *of = one ? command_find(argv[0]) : NULL;
    if (one && !of)
        return command_unknown(argv[0]);
    struct config config = {.commands = json_object()};
    int rc = one ? -1 : command_parse(c, &ui, groups, 1, 0, argc, argv, &pos);
    if (rc < 0 && one) {
        config.argc = argc - 1;
        config.argv = argv + 1;
        rc = command_visit(of, show, &config);
    } else if (rc < 0) {
        /* the sources that all commands share: what was said here is said to each */
        char option[] = "--profile", *args[] = {option, (char *)(uintptr_t)ui.profile, NULL};
        config.json = ui.json;
        config.argc = ui.profile ? 2 : 0;
        config.argv = args;
        rc = 0;
        for (int i = 0; command_at(i) && !rc; i++)
            rc = command_visit(command_at(i), show, &config);
    } else {
        json_decref(config.commands);
        return rc;
    }
    ui.quiet |= config.quiet;
    if (!rc)
        warn_of_variables(&ui, &config);
    if (!rc && config.json)
        return cli_json(config.commands);
    json_decref(config.commands);
    return rc ? rc : cli_finish(0);
}
