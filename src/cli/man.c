/* Man pages out of the table of commands and options: `hasten help --man`. roff with the man macros. */
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

/* Text in a line of roff: `-`, `\` escaped, a control character at a line's beginning hidden. */
static int put(struct buf *out, const char *text, size_t len)
{
    int bad = 0;
    for (size_t i = 0; i < len; i++) {
        const bool begins = out->len == 0 || out->data[out->len - 1] == '\n';
        if (begins && (text[i] == '.' || text[i] == '\''))
            bad |= buf_puts(out, "\\&");
        if (text[i] == '-')
            bad |= buf_puts(out, "\\-");
        else if (text[i] == '\\')
            bad |= buf_puts(out, "\\e");
        else
            bad |= buf_putc(out, text[i]);
    }
    return bad;
}

static int puts_roff(struct buf *out, const char *text)
{
    return put(out, text, strlen(text));
}

/* A sentence of the table as one of prose: big letter, full stop. */
static int put_sentence(struct buf *out, const char *text)
{
    const size_t n = strlen(text);
    int bad = 0;
    if (n && text[0] >= 'a' && text[0] <= 'z')
        bad = buf_putc(out, (char)(text[0] - 'a' + 'A'));
    else
        bad = put(out, text, n ? 1 : 0);
    bad |= puts_roff(out, n ? text + 1 : "");
    return bad | buf_puts(out, n && strchr(".!?", text[n - 1]) ? "\n" : ".\n");
}

static int put_option(struct buf *out, const struct option_def *d)
{
    const char *at = d->letters, *c = NULL;
    int bad = buf_puts(out, ".TP\n");
    for (size_t n; (n = option_spelling(&at, &c)) > 0;)
        if (n <= OPTION_LETTERS_MAX) {
            bad |= buf_puts(out, "\\fB\\-") | put(out, c, n) | buf_puts(out, "\\fR, ");
        }
    bad |= buf_puts(out, "\\fB\\-\\-") | puts_roff(out, d->name) | buf_puts(out, "\\fR");
    if (d->type != OPT_FLAG)
        bad |= buf_puts(out, " \\fI") | puts_roff(out, d->arg ? d->arg : "VALUE") | buf_puts(out, "\\fR");
    bad |= buf_putc(out, '\n') | put_sentence(out, d->help);
    if (d->value && d->type != OPT_FLAG)
        bad |= buf_puts(out, "Default: ") | puts_roff(out, d->value) | buf_puts(out, ".\n");
    return bad;
}

static int put_head(struct buf *out, const char *name, const char *summary)
{
    int bad = buf_puts(out, ".TH \"");
    for (const char *c = name; *c; c++)
        bad |= buf_putc(out, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
    bad |= buf_printf(out, "\" 1 \"\" \"hasten %s\" \"Hasten\"\n.SH NAME\n", HASTEN_VERSION);
    return bad | puts_roff(out, name) | buf_puts(out, " \\- ") | puts_roff(out, summary) |
           buf_putc(out, '\n');
}

static int put_exit_statuses(struct buf *out)
{
    int bad = buf_puts(out, ".SH EXIT STATUS\n");
    for (const struct exit_meaning *e = exit_meanings; e->text; e++)
        bad |= buf_printf(out, ".TP\n%d\n", e->status) | put_sentence(out, e->text);
    return bad;
}

int man_command(const struct command_options *o, struct buf *out)
{
    char name[64];
    snprintf(name, sizeof name, "hasten-%s", o->command->name);
    int bad = put_head(out, name, o->command->summary);
    bad |= buf_puts(out, ".SH SYNOPSIS\n\\fBhasten ") | puts_roff(out, o->command->name) |
           buf_puts(out, "\\fR ") | puts_roff(out, o->command->synopsis) |
           buf_puts(out, "\n.SH DESCRIPTION\n");
    bad |= o->command->text ? puts_roff(out, o->command->text) : put_sentence(out, o->command->summary);
    bad |= buf_puts(out, ".SH OPTIONS\n");
    for (int i = 1; i <= o->n_groups; i++) {
        const struct option_group *g = &o->groups[i % o->n_groups];
        bad |= buf_puts(out, ".SS ") | put(out, g->title, strcspn(g->title, ":")) | buf_putc(out, '\n');
        for (int j = 0; j < g->n; j++)
            bad |= put_option(out, &g->defs[j]);
    }
    bad |= put_exit_statuses(out);
    return bad | buf_puts(out, ".SH SEE ALSO\n.BR hasten (1)\n");
}

int man_overview(struct buf *out)
{
    int bad = put_head(out, "hasten", "an LLM inference engine");
    bad |= buf_puts(out, ".SH SYNOPSIS\n\\fBhasten\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH COMMANDS\n");
    for (int i = 0; command_at(i); i++)
        bad |= buf_puts(out, ".TP\n.BR hasten\\-") | puts_roff(out, command_at(i)->name) |
               buf_puts(out, " (1)\n") | put_sentence(out, command_at(i)->summary);
    bad |= buf_puts(
        out,
        ".SH OPTIONS\nEach command has its own page. An option may be given on the command line, as the variable\n"
        "HASTEN_<OPTION> (upper case, with underscores), or in a profile (\\-\\-profile FILE: YAML, one\n"
        "\\fIoption\\fR: \\fIvalue\\fR a line, a list for options that repeat, a mapping under the name of a command\n"
        "for that command alone). The first of these that gives it wins; then comes the default.\n"
        "\\fBhasten config\\fR shows each value and where it came from.\n"
        ".SH ENVIRONMENT\n.TP\nHASTEN_CACHE\nThe folder of the cache; models lie in its models/. Without it\n"
        "$XDG_CACHE_HOME/hasten or ~/.cache/hasten.\n.TP\nHASTEN_CPU\nThe highest set of instructions to use.\n");
    return bad | put_exit_statuses(out);
}
