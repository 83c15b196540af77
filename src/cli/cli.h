/* What the commands share: the table of commands, the manners of output, interrupts.
 *
 * stdout carries the answer and nothing else. Notes and progress go to stderr, and only to a terminal unless
 * -v; -q silences them. An error is one line on stderr: `hasten: WHAT: FOUND (expected ...)`. */
#ifndef HASTEN_CLI_CLI_H
#define HASTEN_CLI_CLI_H
#include "cli/options.h"
#include "hasten/hasten.h"
#include <stdio.h>

struct command_host;

struct command {
    const char *name;
    const char *synopsis; /* after the name: "MODEL [-p TEXT | -f FILE | < FILE]" */
    const char *summary;  /* one line */
    const char *text;     /* paragraphs of --help after the options; may be NULL */
    int (*run)(const struct command *c, int argc,
               char **argv);   /* argv after the command's name; exit status */
    struct command_host *host; /* who runs it; NULL in the table */
};

const struct command *command_find(const char *name);
const struct command *command_at(int i); /* NULL after the last */
int command_unknown(const char *name);   /* says so, with the nearest; exit status 2 */

struct exit_meaning {
    int status;
    const char *text;
};
extern const struct exit_meaning exit_meanings[]; /* ends with a NULL text */

/* ---- options and manners that every command has -------------------------------------------------------- */

struct ui {
    bool quiet, verbose, json, help;
    const char *profile;
    const char *command;    /* the name of the one that runs; NULL until it is parsed */
    bool shown;             /* a progress line stands on the terminal */
    uint64_t last_ns;       /* when it was drawn */
    uint64_t progress_from; /* what was done already when the work began: the rate does not count it */
};

/* The group "Output": --json -q -v --help. */
struct option_group ui_group(struct ui *ui);

/* What a command takes: groups[0] is ui_group's. */
struct command_options {
    const struct command *command;
    struct ui *ui;
    struct option_group *groups;
    int n_groups, max_positional;
};
/* Gets what a command takes instead of running it; returns an exit status. */
typedef int (*command_visit_fn)(void *ctx, const struct command_options *o);

struct command_host {
    command_visit_fn visit; /* NULL: the command runs */
    void *visit_ctx;
    struct profile *profile; /* the file of options in use: values point into it */
};

/* Parses, and answers --help: returns -1 to go on, else the exit status, which the command returns. Every command calls
 * it first, so that command_visit learns what it takes. */
int command_parse(const struct command *c, struct ui *ui, struct option_group *groups, int n_groups,
                  int max_positional, int argc, char **argv, struct option_positionals *pos);
int command_visit(const struct command *c, command_visit_fn visit, void *ctx);
/* The parsing part: command line, environment, profile (opened into *profile). */
hasten_status command_take(const struct command_options *o, struct profile **profile, int argc, char **argv,
                           struct option_positionals *pos, struct hasten_error *err);

/* Help of a command; of all (help.c). */
int help_print(const struct command_options *o);
int help_usage(FILE *to);
/* What help, man pages and `config` show as the default: the table's value, or what the help says in brackets at its
 * end; NULL: none. Its length in *len. */
const char *option_default_text(const struct option_def *d, size_t *len);
/* A man page into out (man.c): of one command; of hasten itself. */
int man_command(const struct command_options *o, struct buf *out);
int man_overview(struct buf *out);

/* Prints the one line and returns the exit status. */
int cli_fail(const struct hasten_error *err);
/* The same; an error of usage names the command, whoever found it: "run: ...". */
int ui_fail(const struct ui *ui, struct hasten_error *err);
/* The same for usage errors of a command: prefix "run: ". */
int cli_usage(const struct command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void ui_note(struct ui *ui, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* unless quiet */
void ui_warn(struct ui *ui, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* data are lost: unless quiet, terminal or not */
void ui_detail(struct ui *ui, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* -v only */
/* A line redrawn in place, at most ten times a second; only on a terminal. done of total in units. */
void ui_progress(struct ui *ui, const char *what, uint64_t done, uint64_t total, const char *unit,
                 uint64_t since_ns);
void ui_progress_end(struct ui *ui); /* wipes the line */
bool ui_draws(const struct ui *ui);  /* would ui_progress show anything? */

/* Flushes stdout; a failed write is HASTEN_ERR_DISK. Returns the exit status, 0 if all is well. */
int cli_finish(int exit_status);
int cli_out(const void *data, size_t len); /* to stdout, flushed; 0, or -1 */

const char *cli_input_name(const char *path); /* for messages: NULL and "-" are "stdin" */

/* ---- interrupts ---------------------------------------------------------------------------------------- */

/* The flag that Ctrl-C sets while armed (a second Ctrl-C ends the process at once with 130). */
const volatile int *interrupt_arm(void);
void interrupt_disarm(void);
/* The same around the life of a file that must not be left half written: SIGTERM, SIGHUP and SIGPIPE set the flag
 * too. Disarming, once the file is removed or complete, ends the process by the signal that came. */
const volatile int *interrupt_arm_writing(void);
void interrupt_disarm_writing(void);
bool interrupt_seen(void);
void interrupt_clear(void);

/* For a server: SIGTERM, SIGINT and SIGHUP wake who waits, instead of ending the process (asked to stop twice, it ends). */
enum interrupt_serve {
    INTERRUPT_STOP,
    INTERRUPT_BY_KEY, /* stop, by Ctrl-C */
    INTERRUPT_RELOAD
};
hasten_status interrupt_serve(struct hasten_error *err);
enum interrupt_serve interrupt_serve_wait(void);

/* From now on a file that is lost while its map is in use ends the process with one sentence that names path. */
void interrupt_on_lost_map(const char *path);

/* ---- JSON ---------------------------------------------------------------------------------------------- */

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. A new reference, NULL when out of memory. */
struct json_t *json_bytes(const char *data, size_t len);
/* Add a new reference, NULL when it could not be made, to the list or the object *to; takes it in any case. When
 * anything fails *to is released and NULL, so that a builder looks once, at the end. */
void json_add(struct json_t **to, struct json_t *v);
void json_put(struct json_t **to, const char *key, struct json_t *v);
/* A JSON file, or stdin for "-". */
hasten_status cli_read_json(const char *path, struct json_t **out, struct hasten_error *err);
/* Prints v as one line on stdout and releases it (NULL: out of memory). Returns an exit status. */
int cli_json(struct json_t *v);
int cli_json_to(FILE *to, struct json_t *v);

int cmd_run(const struct command *c, int argc, char **argv);
int cmd_tokenize(const struct command *c, int argc, char **argv);
int cmd_detokenize(const struct command *c, int argc, char **argv);
int cmd_check(const struct command *c, int argc, char **argv);
int cmd_template(const struct command *c, int argc, char **argv);
int cmd_info(const struct command *c, int argc, char **argv);
int cmd_eval(const struct command *c, int argc, char **argv);
int cmd_decide(const struct command *c, int argc, char **argv);
int cmd_serve(const struct command *c, int argc, char **argv);
int cmd_batch(const struct command *c, int argc, char **argv);
int cmd_embed(const struct command *c, int argc, char **argv);
int cmd_bench(const struct command *c, int argc, char **argv);
int cmd_quantize(const struct command *c, int argc, char **argv);
int cmd_imatrix(const struct command *c, int argc, char **argv);
int cmd_pull(const struct command *c, int argc, char **argv);
int cmd_help(const struct command *c, int argc, char **argv);
int cmd_config(const struct command *c, int argc, char **argv);
int cmd_completion(const struct command *c, int argc, char **argv);
int cmd_list(const struct command *c, int argc, char **argv);
int cmd_rm(const struct command *c, int argc, char **argv);
int cmd_methods(const struct command *c, int argc, char **argv);
int cmd_tune(const struct command *c, int argc, char **argv);
int cmd_doctor(const struct command *c, int argc, char **argv);

#endif
