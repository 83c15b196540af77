/* `hasten completion bash|zsh|fish`: a script that completes commands, options, values and models, made from the table
 * of commands and options. Names of models in the cache are asked for while completing (`hasten list --names`). */
#include "cli/cache.h"
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

/* ---- what a word may be -------------------------------------------------------------------------------- */

enum kind {
    KIND_NONE,
    KIND_FILE,
    KIND_MODEL,  /* a file, or a name in the cache */
    KIND_CACHED, /* a name in the cache */
    KIND_PULL,   /* a name of the built-in table */
    KIND_COMMAND,
    KIND_WORDS /* listed */
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Of the words after a command that are no options. */
static enum kind positional_kind(const struct command *c)
{
    if (begins(c->synopsis, "MODEL") || begins(c->synopsis, "IN "))
        return KIND_MODEL;
    if (begins(c->synopsis, "NAME"))
        return begins(c->synopsis, "NAME|URL") ? KIND_PULL : KIND_CACHED;
    if (begins(c->synopsis, "[COMMAND"))
        return KIND_COMMAND;
    return strchr(c->synopsis, '|') && !strchr(c->synopsis, ' ') ? KIND_WORDS : KIND_NONE;
}

static enum kind option_kind(const struct option_def *d)
{
    static const char *const files[] = {"FILE", "OUT", "FOLDER", "DIR"};
    if (d->type == OPT_CHOICE)
        return KIND_WORDS;
    for (size_t i = 0; d->arg && i < sizeof files / sizeof *files; i++)
        if (begins(d->arg, files[i]))
            return KIND_FILE;
    return d->arg && strcmp(d->arg, "MODEL") == 0 ? KIND_MODEL : KIND_NONE;
}

static void print_words(const char *bars, const char *between)
{
    const char *at = bars, *c = NULL;
    bool first = true;
    for (size_t n; (n = value_choice_next(&at, &c)) > 0; first = false)
        printf("%s%.*s", first ? "" : between, (int)n, c);
}

static void print_commands(void)
{
    for (int i = 0; command_at(i); i++)
        printf("%s%s", i ? " " : "", command_at(i)->name);
}

static void print_table_names(void)
{
    for (int i = 0; model_table_at(i); i++)
        printf("%s%s", i ? " " : "", model_table_at(i)->name);
}

/* text inside single quotes of a shell, each of the characters in `special` behind a backslash; `'` becomes `quote`;
 * line ends become blanks. */
static void print_quoted(const char *text, const char *special, const char *quote)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'') {
            fputs(quote, stdout);
            continue;
        }
        if (strchr(special, *c))
            putchar('\\');
        putchar(*c == '\n' ? ' ' : *c);
    }
}

/* ---- bash ---------------------------------------------------------------------------------------------- */

static void bash_reply(enum kind k, const char *words)
{
    switch (k) {
    case KIND_FILE:
        printf("COMPREPLY=($(compgen -f -- \"$cur\"))");
        break;
    case KIND_MODEL:
        printf("COMPREPLY=($(compgen -f -W \"$(hasten list --names 2>/dev/null)\" -- \"$cur\"))");
        break;
    case KIND_CACHED:
        printf("COMPREPLY=($(compgen -W \"$(hasten list --names 2>/dev/null)\" -- \"$cur\"))");
        break;
    case KIND_PULL:
        printf("COMPREPLY=($(compgen -W \""), print_table_names(), printf("\" -- \"$cur\"))");
        break;
    case KIND_COMMAND:
        printf("COMPREPLY=($(compgen -W \""), print_commands(), printf("\" -- \"$cur\"))");
        break;
    case KIND_WORDS:
        printf("COMPREPLY=($(compgen -W \""), print_words(words, " "), printf("\" -- \"$cur\"))");
        break;
    case KIND_NONE:
        printf(":");
        break;
    }
}

static void bash_value(const struct command *c, const struct option_def *d)
{
    if (d->type == OPT_FLAG)
        return;
    const char *at = d->letters, *l = NULL;
    printf("    '%s --%s'", c->name, d->name);
    for (size_t n; (n = option_spelling(&at, &l)) > 0;)
        printf("|'%s %s%.*s'", c->name, n > OPTION_LETTERS_MAX ? "--" : "-", (int)n, l);
    printf(") ");
    bash_reply(option_kind(d), d->arg);
    printf("; return ;;\n");
}

static int bash_values(void *ctx, const struct command_options *o)
{
    (void)ctx;
    for (int i = 0; i < o->n_groups; i++)
        for (int j = 0; j < o->groups[i].n; j++)
            bash_value(o->command, &o->groups[i].defs[j]);
    return 0;
}

static int bash_options(void *ctx, const struct command_options *o)
{
    (void)ctx;
    printf("    %s) if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"", o->command->name);
    for (int i = 0; i < o->n_groups; i++)
        for (int j = 0; j < o->groups[i].n; j++)
            printf("%s--%s", i + j ? " " : "", o->groups[i].defs[j].name);
    printf("\" -- \"$cur\")); else ");
    bash_reply(positional_kind(o->command), o->command->synopsis);
    printf("; fi ;;\n");
    return 0;
}

static void print_bash(void)
{
    printf("# bash completion of hasten; hasten completion bash > "
           "~/.local/share/bash-completion/completions/hasten\n"
           "_hasten() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"");
    print_commands();
    printf(" --help --version\" -- \"$cur\")); return; fi\n    case \"$cmd $prev\" in\n");
    for (int i = 0; command_at(i); i++)
        command_visit(command_at(i), bash_values, NULL);
    printf("    esac\n    case \"$cmd\" in\n");
    for (int i = 0; command_at(i); i++)
        command_visit(command_at(i), bash_options, NULL);
    printf("    esac\n}\ncomplete -o filenames -F _hasten hasten\n");
}

/* ---- zsh ----------------------------------------------------------------------------------------------- */

static void zsh_action(enum kind k, const char *words)
{
    switch (k) {
    case KIND_FILE:
        printf("_files");
        break;
    case KIND_MODEL:
        printf("_hasten_models");
        break;
    case KIND_CACHED:
        printf("_hasten_cached");
        break;
    case KIND_PULL:
        printf("("), print_table_names(), printf(")");
        break;
    case KIND_COMMAND:
        printf("("), print_commands(), printf(")");
        break;
    case KIND_WORDS:
        printf("("), print_words(words, " "), printf(")");
        break;
    case KIND_NONE:
        printf(" ");
        break;
    }
}

static void zsh_spelling(const struct option_def *d, const char *dashes, const char *name, int len)
{
    printf("            '%s%s%.*s[", d->type == OPT_LIST ? "*" : "", dashes, len, name);
    print_quoted(d->help, "[]\\", "'\\''");
    printf("]");
    if (d->type != OPT_FLAG) {
        printf(":%s:", d->type == OPT_CHOICE || !d->arg ? "value" : d->arg);
        zsh_action(option_kind(d), d->arg);
    }
    printf("' \\\n");
}

static int zsh_options(void *ctx, const struct command_options *o)
{
    (void)ctx;
    printf("    %s)\n        _arguments -S : \\\n", o->command->name);
    for (int i = 0; i < o->n_groups; i++)
        for (int j = 0; j < o->groups[i].n; j++) {
            const struct option_def *d = &o->groups[i].defs[j];
            const char *at = d->letters, *l = NULL;
            zsh_spelling(d, "--", d->name, (int)strlen(d->name));
            for (size_t n; (n = option_spelling(&at, &l)) > 0;)
                if (n <= OPTION_LETTERS_MAX)
                    zsh_spelling(d, "-", l, (int)n);
        }
    printf("            '*:argument:");
    zsh_action(positional_kind(o->command), o->command->synopsis);
    printf("' ;;\n");
    return 0;
}

static void print_zsh(void)
{
    printf(
        "#compdef hasten\n# zsh completion of hasten; hasten completion zsh > a folder of $fpath/_hasten\n"
        "_hasten_cached() { local -a names; names=(${(f)\"$(hasten list --names 2>/dev/null)\"}); "
        "compadd -a names }\n"
        "_hasten_models() { _hasten_cached; _files }\n_hasten() {\n    local -a commands\n    commands=(\n");
    for (int i = 0; command_at(i); i++) {
        printf("        '%s:", command_at(i)->name);
        print_quoted(command_at(i)->summary, ":\\", "'\\''");
        printf("'\n");
    }
    printf("    )\n    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
           "    local cmd=$words[2]\n    shift words; (( CURRENT-- ))\n    case $cmd in\n");
    for (int i = 0; command_at(i); i++)
        command_visit(command_at(i), zsh_options, NULL);
    printf(
        "    esac\n}\nif [ \"$funcstack[1]\" = _hasten ]; then _hasten \"$@\"; else compdef _hasten hasten; fi\n");
}

/* ---- fish ---------------------------------------------------------------------------------------------- */

static void fish_values(enum kind k, const char *words)
{
    switch (k) {
    case KIND_FILE:
        printf(" -r -F");
        break;
    case KIND_MODEL:
        printf(" -r -F -a '(hasten list --names 2>/dev/null)'");
        break;
    case KIND_WORDS:
        printf(" -x -a '"), print_words(words, " "), printf("'");
        break;
    default:
        printf(" -x");
        break;
    }
}

static int fish_options(void *ctx, const struct command_options *o)
{
    (void)ctx;
    for (int i = 0; i < o->n_groups; i++)
        for (int j = 0; j < o->groups[i].n; j++) {
            const struct option_def *d = &o->groups[i].defs[j];
            const char *at = d->letters, *l = NULL;
            printf("complete -c hasten -n '__fish_seen_subcommand_from %s' -l %s", o->command->name, d->name);
            for (size_t n; (n = option_spelling(&at, &l)) > 0;)
                if (n <= OPTION_LETTERS_MAX)
                    printf(" -%c %.*s", n == 1 ? 's' : 'o', (int)n, l);
            if (d->type != OPT_FLAG)
                fish_values(option_kind(d), d->arg);
            printf(" -d '");
            print_quoted(d->help, "\\", "\\'");
            printf("'\n");
        }
    return 0;
}

static void fish_positional(const struct command *c)
{
    const enum kind k = positional_kind(c);
    if (k == KIND_NONE)
        return;
    printf("complete -c hasten -n '__fish_seen_subcommand_from %s'%s -a '", c->name,
           k == KIND_MODEL ? " -F" : "");
    if (k == KIND_MODEL || k == KIND_CACHED)
        printf("(hasten list --names 2>/dev/null)");
    else if (k == KIND_PULL)
        print_table_names();
    else if (k == KIND_COMMAND)
        print_commands();
    else
        print_words(c->synopsis, " ");
    printf("'\n");
}

static void print_fish(void)
{
    printf("# fish completion of hasten; hasten completion fish > ~/.config/fish/completions/hasten.fish\n"
           "complete -c hasten -f\n");
    for (int i = 0; command_at(i); i++) {
        printf("complete -c hasten -n __fish_use_subcommand -a %s -d '", command_at(i)->name);
        print_quoted(command_at(i)->summary, "\\", "\\'");
        printf("'\n");
    }
    for (int i = 0; command_at(i); i++) {
        fish_positional(command_at(i));
        command_visit(command_at(i), fish_options, NULL);
    }
}

/* ---- the command --------------------------------------------------------------------------------------- */

int cmd_completion(const struct command *c, int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    static const char *const names[] = {"bash", "zsh", "fish"};
    struct ui ui = {0};
    struct option_group groups[] = {ui_group(&ui)};
    struct option_positionals pos;
    int rc = command_parse(c, &ui, groups, 1, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    if (pos.n == 0)
        return cli_usage(c, "no shell (expected bash, zsh or fish)");
    for (int i = 0; i < 3; i++)
        if (strcmp(pos.items[0], shells[i].name) == 0) {
            shells[i].print();
            return cli_finish(0);
        }
    const char *near = nearest_word(pos.items[0], names, 3);
    return near ? cli_usage(c, "unknown shell '%s' (did you mean %s?)", pos.items[0], near)
                : cli_usage(c, "unknown shell '%s' (expected bash, zsh or fish)", pos.items[0]);
}
