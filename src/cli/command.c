/* What stands between a command and its options: the sources in their order, --help, and asking a command what it
 * takes without running it. */
#include "base/cpu.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 512

/* ---- a profile ----------------------------------------------------------------------------------------- */

/* The options that commands have: is one called `name`? */
struct lookup {
    const char *name;
    bool found;
    const char *names[MAX_NAMES];
    int n;
};

static int look_up(void *ctx, const struct command_options *o)
{
    struct lookup *l = ctx;
    for (int i = 0; i < o->n_groups; i++)
        for (int j = 0; j < o->groups[i].n; j++) {
            const struct option_def *d = &o->groups[i].defs[j];
            const char *at = d->letters, *c = NULL;
            l->found |= option_in_profile(d) && strcmp(d->name, l->name) == 0;
            for (size_t n; (n = option_spelling(&at, &c)) > 0;)
                l->found |= n > OPTION_LETTERS_MAX && strlen(l->name) == n && memcmp(c, l->name, n) == 0;
            if (l->n < MAX_NAMES && option_in_profile(d))
                l->names[l->n++] = d->name;
        }
    return 0;
}

/* A line that the running command did not take: another's, or nobody's. */
static hasten_status refuse_unknown(const struct profile_line *line, struct hasten_error *err)
{
    struct lookup l = {.name = line->key};
    if (line->command && !command_find(line->command)) {
        const char *names[MAX_NAMES];
        int n = 0;
        while (n < MAX_NAMES && command_at(n)) {
            names[n] = command_at(n)->name;
            n++;
        }
        const char *near = nearest_word(line->command, names, n);
        return error_set(err, HASTEN_ERR_USAGE,
                         near ? "unknown command '%s' (did you mean %s?)"
                              : "unknown command '%s' (expected one, over its options)",
                         line->command, near);
    }
    for (int i = 0; command_at(i); i++)
        if (!line->command || strcmp(command_at(i)->name, line->command) == 0)
            command_visit(command_at(i), look_up, &l);
    if (l.found)
        return HASTEN_OK;
    const char *near = nearest_word(line->key, l.names, l.n);
    return error_set(err, HASTEN_ERR_USAGE,
                     near ? "unknown option '%s' (did you mean %s?)"
                          : "unknown option '%s' (hasten help COMMAND lists them)",
                     line->key, near);
}

static hasten_status take_line(const struct command_options *o, const struct profile_line *line,
                               struct hasten_error *err)
{
    bool known = false;
    hasten_status st = HASTEN_OK;
    if (strcmp(line->key, "help") == 0 || strcmp(line->key, "profile") == 0)
        return error_set(err, HASTEN_ERR_USAGE, "option '%s' cannot stand in a profile (expected another)",
                         line->key);
    if (!line->command || strcmp(line->command, o->command->name) == 0)
        st = options_set(o->groups, o->n_groups, line->key, line->value, &known, err);
    return st || known ? st : refuse_unknown(line, err);
}

/* A key stands once, so two lines in a row of the same one are values of a list. */
static bool is_second_value(const struct profile_line *a, const struct profile_line *b)
{
    const bool same =
        a->command && b->command ? strcmp(a->command, b->command) == 0 : a->command == b->command;
    return same && strcmp(a->key, b->key) == 0;
}

/* What stands under the command's name beats what stands for all. */
static hasten_status take_profile(const struct command_options *o, struct profile **p,
                                  struct hasten_error *err)
{
    hasten_status st = profile_open(o->ui->profile, p, err);
    const struct profile_line *l;
    for (int own = 1; own >= 0 && !st; own--)
        for (int i = 0; (l = profile_at(*p, i)) && !st; i++) {
            const bool for_own = l->command && strcmp(l->command, o->command->name) == 0;
            bool said = false;
            for (int k = 0; !for_own && own == 0 && profile_at(*p, k); k++) {
                const struct profile_line *m = profile_at(*p, k);
                said |=
                    m->command && strcmp(m->command, o->command->name) == 0 && strcmp(m->key, l->key) == 0;
            }
            if (for_own != own || said)
                continue;
            if (i > 0 && is_second_value(profile_at(*p, i - 1), l) &&
                options_single(o->groups, o->n_groups, l->key))
                st = error_set(err, HASTEN_ERR_USAGE, "option '%s': a list (expected one value)", l->key);
            else
                st = take_line(o, l, err);
            if (st)
                error_prefix(err, "profile %s line %d", o->ui->profile,
                             l->command && !command_find(l->command) ? l->command_line : l->line);
        }
    return st;
}

/* ---- parsing ------------------------------------------------------------------------------------------- */

/* What no table of options can say: two models, an environment variable that is no option. */
static hasten_status check_parsed(const struct command_options *o, const struct option_positionals *pos,
                                  struct hasten_error *err)
{
    const char *cpu = getenv("HASTEN_CPU");
    for (int i = 0; i < o->n_groups; i++)
        if (pos->n > 0 && option_on_line(&o->groups[i], "model"))
            return error_set(err, HASTEN_ERR_USAGE, "both --model and '%s' (expected one MODEL)",
                             pos->items[0]);
    if (cpu && *cpu && !cpu_bound_known(cpu))
        return error_set(err, HASTEN_ERR_USAGE,
                         "environment HASTEN_CPU: unknown value '%s' on this architecture (expected %s)", cpu,
                         cpu_bounds_text());
    return HASTEN_OK;
}

hasten_status command_take(const struct command_options *o, struct profile **profile, int argc, char **argv,
                           struct option_positionals *pos, struct hasten_error *err)
{
    hasten_status st = options_parse(o->groups, o->n_groups, o->max_positional, argc, argv, pos, err);
    if (!st && o->ui->profile && *o->ui->profile)
        st = take_profile(o, profile, err);
    if (!st)
        st = options_check(o->groups, o->n_groups, err);
    return st ? st : check_parsed(o, pos, err);
}

int command_parse(const struct command *c, struct ui *ui, struct option_group *groups, int n_groups,
                  int max_positional, int argc, char **argv, struct option_positionals *pos)
{
    const struct command_options o = {c, ui, groups, n_groups, max_positional};
    struct profile *unowned = NULL;
    struct hasten_error err;
    if (c->host && c->host->visit)
        return c->host->visit(c->host->visit_ctx, &o);
    ui->command = c->name;
    hasten_status st = command_take(&o, c->host ? &c->host->profile : &unowned, argc, argv, pos, &err);
    if (ui->help && (!st || st == HASTEN_ERR_USAGE)) {
        int rc = help_print(&o);
        options_free(groups, n_groups);
        return rc;
    }
    if (!st)
        return -1;
    options_free(groups, n_groups);
    error_prefix(&err, "%s", c->name);
    return cli_fail(&err);
}

int command_visit(const struct command *c, command_visit_fn visit, void *ctx)
{
    struct command_host host = {.visit = visit, .visit_ctx = ctx};
    struct command own = *c;
    own.host = &host;
    return own.run(&own, 0, NULL);
}

int command_unknown(const char *name)
{
    const char *names[MAX_NAMES];
    int n = 0;
    for (; n < MAX_NAMES && command_at(n); n++)
        names[n] = command_at(n)->name;
    const char *near = nearest_word(name, names, n);
    struct hasten_error err;
    error_set(&err, HASTEN_ERR_USAGE,
              near ? "unknown command '%s' (did you mean %s?)"
                   : "unknown command '%s' (hasten help lists the commands)",
              name, near);
    return cli_fail(&err);
}
