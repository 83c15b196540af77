/* Options of commands: one table per group says name, letters, type, range, default and help; from it come the
 * parser, --help, man pages, completions, `hasten config`, suggestions for typos, HASTEN_<OPTION> and profiles.
 * Values land in the caller's struct.
 *
 * Syntax: --name VALUE, --name=VALUE, -x VALUE, -xyz VALUE for letters of several characters (-sys), which two dashes
 * do not take; `_` equals `-`; `--` ends the options; a VALUE that is the name of an option is refused but after `=`.
 * Precedence: command line, environment, profile, default; a variable is not even read, and a line of a profile not
 * taken, when a source before it gives its option or one that excludes it. HASTEN_HELP is never read: a forgotten
 * one would turn every command into its help. */
#ifndef HASTEN_CLI_OPTIONS_H
#define HASTEN_CLI_OPTIONS_H
#include "base/error.h"
#include "base/mem.h"
#include "base/values.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPT_FLAG,     /* bool */
    OPT_INT,      /* int32_t in [lo, hi] */
    OPT_SEED,     /* uint64_t up to 2^63 - 1, which JSON readers' integers hold */
    OPT_FLOAT,    /* float in [lo, hi] */
    OPT_STRING,   /* const char * */
    OPT_SIZE,     /* uint64_t bytes: 1048576, 512M, 4G, 1.5GiB */
    OPT_DURATION, /* uint64_t milliseconds in [lo, hi] seconds: 250ms, 10s, 5m, 1h */
    OPT_CHOICE,   /* int: index in `choices` */
    OPT_LIST      /* struct option_list; repeatable */
};

struct option_list {
    const char **items;
    int n;
};

struct option_def {
    const char *name; /* "top-k" */
    const char *
        letters; /* "k" or "ctx-size c" (further spellings: one character or more, space-separated), or NULL */
    enum option_type type;
    size_t offset;     /* into the group's struct */
    double lo, hi;     /* OPT_INT, OPT_FLOAT */
    const char *value; /* default, as text shown and parsed; NULL: the struct's initial value stands */
    const char *arg;   /* what --help calls the value ("N"); choices: "f16|f32" */
    const char *help;  /* one line */
};

struct option_group {
    const char *title;
    const struct option_def *defs;
    int n;
    void *dst;             /* struct that receives the values; the caller initialises it */
    const char *exclusive; /* NULL, or sets of options of which at most one may be given: "a b c|d e" */
    /* set by the parser, bit i: defs[i] was given at all; on the command line; in a profile */
    uint64_t given, on_line, in_profile;
};

#define OPTION_MAX_POSITIONAL 8
struct option_positionals {
    const char *items[OPTION_MAX_POSITIONAL];
    int n;
};

/* Fills the groups from defaults, command line and environment. HASTEN_ERR_USAGE with one sentence (an unknown option
 * suggests the nearest). Then come options_set for each line of a profile, and options_check. */
hasten_status options_parse(struct option_group *groups, int n_groups, int max_positional, int argc,
                            char **argv, struct option_positionals *out, struct hasten_error *err);
/* Whether there is an option called name, and it takes one value. */
bool options_single(struct option_group *groups, int n_groups, const char *name);
/* One line of a profile: the option called name, unless a source before it decided. *known: is there such an option?
 * text must live as long as the values. */
hasten_status options_set(struct option_group *groups, int n_groups, const char *name, const char *text,
                          bool *known, struct hasten_error *err);
hasten_status options_check(const struct option_group *groups, int n_groups, struct hasten_error *err);
bool option_given(const struct option_group *g, const char *name);
bool option_on_line(const struct option_group *g, const char *name);
void options_free(struct option_group *groups, int n_groups); /* frees lists */
/* "HASTEN_TOP_K" for "top-k". */
#define OPTION_NAME_BYTES VALUE_WORD_BYTES
void option_environment_name(const char *option, char out[OPTION_NAME_BYTES + 8]);
/* Can the environment and a profile set it? Not --help, nor the environment --cache, as HASTEN_CACHE is the folder of
 * models; a profile no --profile either. */
bool option_in_environment(const struct option_def *d);
bool option_in_profile(const struct option_def *d);
/* All long names of the groups (and long spellings among the letters) into names[cap]; returns how many. */
int option_names(const struct option_group *groups, int n_groups, const char **names, int cap);
/* The next spelling in d->letters: its length, 0 at the end. *at begins as d->letters. */
size_t option_spelling(const char **at, const char **spelling);
#define OPTION_LETTERS_MAX 3 /* longer spellings in `letters` are names, which two dashes take */
/* The options part of --help. */
int options_help(const struct option_group *groups, int n_groups, struct buf *out);

/* "512M" -> bytes; "1.5G"; binary multiples. */
hasten_status parse_size(const char *text, uint64_t *out, struct hasten_error *err);
/* "250ms", "10s", "5m", "1h", "0" -> milliseconds. */
hasten_status parse_duration(const char *text, uint64_t *out, struct hasten_error *err);
#endif
