/* The option parser (options.h says the rules). Owns: reading argv and the environment into structs, help text
 * of options, sizes, suggestions. Does not print and knows no command. */
#include "cli/options.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ------------------------------------------------------------------------------------------- */

hasten_status parse_size(const char *text, uint64_t *out, struct hasten_error *err)
{
    return value_size(text, out, err);
}

hasten_status parse_duration(const char *text, uint64_t *out, struct hasten_error *err)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}};
    char *end = NULL;
    const double x = isdigit((unsigned char)text[0]) ? strtod(text, &end) : -1;
    double ms = x == 0 && *end == 0 ? 0 : -1;
    for (size_t i = 0; i < sizeof units / sizeof *units && x >= 0; i++)
        if (strcmp(end, units[i].unit) == 0)
            ms = x * units[i].ms;
    if (!(ms >= 0 && ms < 0x1p52))
        return error_set(err, HASTEN_ERR_USAGE, "'%s' (expected a duration such as 250ms, 10s or 5m)", text);
    *out = (uint64_t)ms;
    return HASTEN_OK;
}

static hasten_status parse_bounded_duration(const struct option_def *d, const char *text, uint64_t *out,
                                            struct hasten_error *err)
{
    hasten_status st = parse_duration(text, out, err);
    if (!st && ((double)*out < d->lo * 1e3 || (double)*out > d->hi * 1e3))
        st = error_set(err, HASTEN_ERR_USAGE, "'%s' (expected a duration from %gs to %gs)", text, d->lo,
                       d->hi);
    return st;
}

static hasten_status parse_seed(const char *text, uint64_t *out, struct hasten_error *err)
{
    char *end;
    errno = 0;
    unsigned long long x = strtoull(text, &end, 0);
    if (value_starts_blank(text) || end == text || *end || errno || text[0] == '-' || x > INT64_MAX)
        return error_set(err, HASTEN_ERR_USAGE, "'%s' (expected an integer from 0 to 9223372036854775807)",
                         text);
    *out = x;
    return HASTEN_OK;
}

static hasten_status list_push(struct option_list *l, const char *text, struct hasten_error *err)
{
    const char **items = mem_realloc(l->items, (size_t)(l->n + 1) * sizeof *items);
    if (!items)
        return error_set(err, HASTEN_ERR_MEMORY, "options: out of memory");
    l->items = items;
    l->items[l->n++] = text;
    return HASTEN_OK;
}

static hasten_status store(const struct option_group *g, int index, const char *text,
                           struct hasten_error *err)
{
    const struct option_def *d = &g->defs[index];
    void *at = (char *)g->dst + d->offset;
    switch (d->type) {
    case OPT_FLAG:
        return value_flag(text, at, err);
    case OPT_INT:
        return value_int(text, d->lo, d->hi, at, err);
    case OPT_SEED:
        return parse_seed(text, at, err);
    case OPT_FLOAT:
        return value_float(text, d->lo, d->hi, at, err);
    case OPT_SIZE:
        return parse_size(text, at, err);
    case OPT_DURATION:
        return parse_bounded_duration(d, text, at, err);
    case OPT_CHOICE:
        return value_choice(text, d->arg, at, err);
    case OPT_LIST:
        return list_push(at, text, err);
    case OPT_STRING:
        *(const char **)at = text;
        return HASTEN_OK;
    }
    return error_set(err, HASTEN_ERR_INTERNAL, "option --%s has no type", d->name);
}

/* ---- names -------------------------------------------------------------------------------------------- */

static bool same_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    for (size_t i = 0; i < a_len; i++)
        if ((a[i] == '_' ? '-' : a[i]) != b[i])
            return false;
    return true;
}

size_t option_spelling(const char **at, const char **spelling)
{
    if (!*at)
        return 0;
    *spelling = *at;
    const size_t n = strcspn(*at, " ");
    *at += n + ((*at)[n] == ' ');
    return n;
}

/* Does name[0, len) (without its dashes) mean d? Letters have one dash. */
static bool matches(const struct option_def *d, const char *name, size_t len, bool two_dashes)
{
    if (same_name(name, len, d->name, strlen(d->name)))
        return true;
    const char *at = d->letters, *c = NULL;
    for (size_t n; (n = option_spelling(&at, &c)) > 0;)
        if (!(two_dashes && n <= OPTION_LETTERS_MAX) && same_name(name, len, c, n))
            return true;
    return false;
}

static bool find(struct option_group *groups, int n_groups, const char *name, size_t len, bool two_dashes,
                 struct option_group **g, int *index)
{
    for (int i = 0; i < n_groups; i++)
        for (int j = 0; j < groups[i].n; j++)
            if (matches(&groups[i].defs[j], name, len, two_dashes)) {
                *g = &groups[i];
                *index = j;
                return true;
            }
    return false;
}

/* Options that people know from llama.cpp or from what is planned, and that no command has today. */
static const char *const not_yet[] = {"hf", "hf-repo", "draft", "attend", "cache-ram", "task", "serve"};

int option_names(const struct option_group *groups, int n_groups, const char **names, int cap)
{
    int n = 0;
    for (int i = 0; i < n_groups; i++)
        for (int j = 0; j < groups[i].n && n < cap; j++)
            names[n++] = groups[i].defs[j].name;
    return n;
}

static hasten_status unknown_option(const struct option_group *groups, int n_groups, const char *arg,
                                    struct hasten_error *err)
{
    const char *names[160];
    char word[OPTION_NAME_BYTES + 1];
    const int n = option_names(groups, n_groups, names, 160);
    const char *start = arg + strspn(arg, "-");
    size_t len = strcspn(start, "=");
    len = len > OPTION_NAME_BYTES ? OPTION_NAME_BYTES : len;
    for (size_t i = 0; i < len; i++)
        word[i] = start[i] == '_' ? '-' : start[i];
    word[len] = 0;
    for (size_t i = 0; i < sizeof not_yet / sizeof *not_yet; i++)
        if (strcmp(word, not_yet[i]) == 0)
            return error_set(err, HASTEN_ERR_USAGE,
                             "option '%s' is not supported yet (--help lists those that are)", arg);
    const char *near = len > 1 ? nearest_word(word, names, n) : NULL;
    if (near)
        return error_set(err, HASTEN_ERR_USAGE, "unknown option '%s' (did you mean --%s?)", arg, near);
    return error_set(err, HASTEN_ERR_USAGE, "unknown option '%s' (--help lists the options)", arg);
}

/* ---- sources: defaults, environment, command line ----------------------------------------------------- */

static hasten_status take_defaults(struct option_group *groups, int n_groups, struct hasten_error *err)
{
    for (int i = 0; i < n_groups; i++) {
        groups[i].given = groups[i].on_line = groups[i].in_profile = 0;
        for (int j = 0; j < groups[i].n; j++)
            if (groups[i].defs[j].value) {
                hasten_status st = store(&groups[i], j, groups[i].defs[j].value, err);
                if (st)
                    return error_prefix(err, "default of --%s", groups[i].defs[j].name);
            }
    }
    return HASTEN_OK;
}

void option_environment_name(const char *option, char out[OPTION_NAME_BYTES + 8])
{
    size_t n = 0;
    for (const char *c = "HASTEN_"; *c; c++)
        out[n++] = *c;
    for (const char *c = option; *c && n < OPTION_NAME_BYTES + 7; c++)
        out[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    out[n] = 0;
}

/* Is `name` one of the names in the space-separated list [names, end)? */
static bool listed(const char *names, const char *end, const char *name)
{
    for (const char *c = names; c < end;) {
        size_t n = 0;
        while (c + n < end && c[n] != ' ')
            n++;
        if (strlen(name) == n && memcmp(c, name, n) == 0)
            return true;
        c += n + (c + n < end);
    }
    return false;
}

/* A flag that was set to "no" excludes nothing. */
static bool counts(const struct option_group *g, int j, uint64_t mask)
{
    return (mask >> j & 1) &&
           (g->defs[j].type != OPT_FLAG || *(const bool *)((const char *)g->dst + g->defs[j].offset));
}

/* Does an option of mask exclude defs[index]? Its index, or -1. */
static int rival(const struct option_group *g, int index, uint64_t mask)
{
    for (const char *set = g->exclusive; set && *set;) {
        const char *end = set + strcspn(set, "|");
        for (int j = 0; j < g->n && listed(set, end, g->defs[index].name); j++)
            if (j != index && counts(g, j, mask) && listed(set, end, g->defs[j].name))
                return j;
        set = end + (*end == '|');
    }
    return -1;
}

bool option_in_environment(const struct option_def *d)
{
    return strcmp(d->name, "help") != 0 && strcmp(d->name, "cache") != 0;
}

bool option_in_profile(const struct option_def *d)
{
    return strcmp(d->name, "help") != 0 && strcmp(d->name, "profile") != 0;
}

/* What the command line says, by itself or by an option that excludes this one, is not looked up. */
static hasten_status take_environment(struct option_group *groups, int n_groups, struct hasten_error *err)
{
    char name[OPTION_NAME_BYTES + 8];
    for (int i = 0; i < n_groups; i++)
        for (int j = 0; j < groups[i].n; j++) {
            option_environment_name(groups[i].defs[j].name, name);
            const char *text = option_in_environment(&groups[i].defs[j]) ? getenv(name) : NULL;
            if (!text || groups[i].on_line >> j & 1 || rival(&groups[i], j, groups[i].on_line) >= 0)
                continue;
            if (store(&groups[i], j, text, err))
                return error_prefix(err, "environment %s", name);
            groups[i].given |= 1ull << j;
        }
    return HASTEN_OK;
}

bool options_single(struct option_group *groups, int n_groups, const char *name)
{
    struct option_group *g = NULL;
    int j = 0;
    return find(groups, n_groups, name, strlen(name), true, &g, &j) && g->defs[j].type != OPT_LIST;
}

hasten_status options_set(struct option_group *groups, int n_groups, const char *name, const char *text,
                          bool *known, struct hasten_error *err)
{
    struct option_group *g = NULL;
    int j = 0;
    *known = find(groups, n_groups, name, strlen(name), true, &g, &j);
    if (!*known)
        return HASTEN_OK;
    const uint64_t before = g->given & ~g->in_profile;
    if (before >> j & 1 || rival(g, j, before) >= 0)
        return HASTEN_OK;
    if (store(g, j, text, err))
        return error_prefix(err, "option %s", g->defs[j].name);
    g->given |= 1ull << j;
    g->in_profile |= 1ull << j;
    return HASTEN_OK;
}

hasten_status options_check(const struct option_group *groups, int n_groups, struct hasten_error *err)
{
    for (int i = 0; i < n_groups; i++)
        for (int j = 0; j < groups[i].n; j++) {
            int other = counts(&groups[i], j, groups[i].given) ? rival(&groups[i], j, groups[i].given) : -1;
            if (other >= 0)
                return error_set(err, HASTEN_ERR_USAGE, "both --%s and --%s (expected one of them)",
                                 groups[i].defs[j].name, groups[i].defs[other].name);
        }
    return HASTEN_OK;
}

/* Is it the whole of an option's long spelling? As a value it is far likelier a value forgotten. */
static bool is_long_option(struct option_group *groups, int n_groups, const char *text)
{
    struct option_group *g = NULL;
    int index = 0;
    return strncmp(text, "--", 2) == 0 && strlen(text) > 3 &&
           find(groups, n_groups, text + 2, strlen(text + 2), true, &g, &index);
}

static hasten_status take_option(struct option_group *groups, int n_groups, int argc, char **argv, int *i,
                                 struct hasten_error *err)
{
    const char *arg = argv[*i], *name = arg + (arg[1] == '-' ? 2 : 1), *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    struct option_group *g = NULL;
    int index = 0;
    if (!find(groups, n_groups, name, len, arg[1] == '-', &g, &index))
        return unknown_option(groups, n_groups, arg, err);
    const struct option_def *d = &g->defs[index];
    const char *text = equals ? equals + 1 : "yes";
    if (!equals && d->type != OPT_FLAG) {
        if (*i + 1 >= argc)
            return error_set(err, HASTEN_ERR_USAGE, "option %s has no value (expected %s %s)", arg, arg,
                             d->arg ? d->arg : "VALUE");
        text = argv[++*i];
        if (is_long_option(groups, n_groups, text))
            return error_set(err, HASTEN_ERR_USAGE,
                             "option %s wants a value, found option '%s' (write --%s=%s to mean it)", arg,
                             text, d->name, text);
    }
    if (store(g, index, text, err))
        return error_prefix(err, "option --%s", d->name);
    g->on_line |= 1ull << index;
    g->given |= 1ull << index;
    return HASTEN_OK;
}

hasten_status options_parse(struct option_group *groups, int n_groups, int max_positional, int argc,
                            char **argv, struct option_positionals *out, struct hasten_error *err)
{
    out->n = 0;
    hasten_status st = take_defaults(groups, n_groups, err);
    bool only_positional = false;
    for (int i = 0; i < argc && !st; i++) {
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (!only_positional && argv[i][0] == '-' && argv[i][1]) {
            st = take_option(groups, n_groups, argc, argv, &i, err);
        } else if (out->n >= max_positional || out->n >= OPTION_MAX_POSITIONAL) {
            st = error_set(err, HASTEN_ERR_USAGE, "unexpected argument '%s' (expected at most %d)", argv[i],
                           max_positional);
        } else {
            out->items[out->n++] = argv[i];
        }
    }
    return st ? st : take_environment(groups, n_groups, err);
}

static bool in_mask(const struct option_group *g, const char *name, uint64_t mask)
{
    for (int j = 0; j < g->n; j++)
        if (strcmp(g->defs[j].name, name) == 0)
            return mask >> j & 1;
    return false;
}

bool option_given(const struct option_group *g, const char *name)
{
    return in_mask(g, name, g->given);
}

bool option_on_line(const struct option_group *g, const char *name)
{
    return in_mask(g, name, g->on_line);
}

void options_free(struct option_group *groups, int n_groups)
{
    for (int i = 0; i < n_groups; i++)
        for (int j = 0; j < groups[i].n; j++)
            if (groups[i].defs[j].type == OPT_LIST) {
                struct option_list *l = (void *)((char *)groups[i].dst + groups[i].defs[j].offset);
                mem_free(l->items);
                *l = (struct option_list){0};
            }
}

/* ---- help --------------------------------------------------------------------------------------------- */

static int help_line(const struct option_def *d, struct buf *out)
{
    struct buf left = {0};
    int bad = 0;
    const char *at = d->letters, *c = NULL;
    for (size_t n; (n = option_spelling(&at, &c)) > 0;)
        bad |= n > OPTION_LETTERS_MAX ? 0 : buf_printf(&left, "-%.*s, ", (int)n, c);
    bad |= buf_printf(&left, "--%s", d->name);
    if (d->type != OPT_FLAG)
        bad |= buf_printf(&left, " %s", d->arg ? d->arg : "VALUE");
    bad |= buf_printf(out, "  %-30s %s", left.data ? left.data : "", d->help);
    if (d->value && d->type != OPT_FLAG)
        bad |= buf_printf(out, " [%s]", d->value);
    bad |= buf_putc(out, '\n');
    buf_free(&left);
    return bad ? -1 : 0;
}

int options_help(const struct option_group *groups, int n_groups, struct buf *out)
{
    int bad = 0;
    for (int i = 0; i < n_groups; i++) {
        bad |= buf_printf(out, "\n%s\n", groups[i].title);
        for (int j = 0; j < groups[i].n; j++)
            bad |= help_line(&groups[i].defs[j], out);
    }
    return bad ? -1 : 0;
}
