/* Fuzz target of the command line: a command's name and its arguments, separated by NULs, read by the command's own
 * tables. What is accepted is in range, and `config` would print it; what is refused is refused in one sentence. */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "fuzz.h"
#include <math.h>

#define MOST 40

struct line {
    int argc;
    char *argv[MOST + 1];
};

static void check_value(const struct option_group *g, int j)
{
    const struct option_def *d = &g->defs[j];
    const void *at = (const char *)g->dst + d->offset;
    if (!option_given(g, d->name))
        return;
    if (d->type == OPT_INT)
        check((double)*(const int32_t *)at >= d->lo && (double)*(const int32_t *)at <= d->hi);
    if (d->type == OPT_FLOAT) {
        const float x = *(const float *)at;
        check(isfinite(x) && x >= (float)(d->lo == VALUE_ABOVE_ZERO ? 0 : d->lo) && x <= (float)d->hi);
    }
    if (d->type == OPT_STRING)
        check(*(const char *const *)at != NULL);
}

static int read_line(void *ctx, const struct command_options *o)
{
    struct line *l = ctx;
    struct profile *profile = NULL;
    struct option_positionals pos = {0};
    struct hasten_error err = {0};
    const hasten_status st = command_take(o, &profile, l->argc, l->argv, &pos, &err);
    check_error(st, &err);
    check(!st || st == HASTEN_ERR_USAGE || st == HASTEN_ERR_FILE);
    for (int i = 0; i < o->n_groups && !st; i++)
        for (int j = 0; j < o->groups[i].n; j++)
            check_value(&o->groups[i], j);
    check(st || (pos.n >= 0 && pos.n <= o->max_positional));
    options_free(o->groups, o->n_groups);
    profile_close(profile);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct line l = {0};
    if (size > 4096)
        return 0;
    const struct part name = next_part(&data, &size);
    const struct command *c = NULL;
    for (int i = 0; command_at(i); i++)
        if (strlen(command_at(i)->name) == name.len && memcmp(command_at(i)->name, name.text, name.len) == 0)
            c = command_at(i);
    while (size && l.argc < MOST && c) {
        const struct part p = next_part(&data, &size);
        l.argv[l.argc] = mem_strndup(p.text, p.len);
        check(l.argv[l.argc] != NULL);
        if (strstr(l.argv[l.argc], "prof")) /* reads a file: profile_fuzz.c */
            l.argv[l.argc][0] = 0;
        l.argc++;
    }
    if (c)
        command_visit(c, read_line, &l);
    for (int i = 0; i < l.argc; i++)
        mem_free(l.argv[i]);
    return 0;
}
