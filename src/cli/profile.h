/* A file of options (YAML): `temp: 0.2`, lists for options that repeat, and a mapping under a command's name for
 * options of that command alone. What the options mean is not known here. */
#ifndef HASTEN_CLI_PROFILE_H
#define HASTEN_CLI_PROFILE_H
#include "base/error.h"

struct profile;

struct profile_line {    /* strings live as long as the profile */
    const char *command; /* NULL: for every command that has the option */
    const char *key;     /* `_` is `-` already */
    const char *value;
    int line;         /* from 1: of the key; of a list's value its own */
    int command_line; /* of the command's name; 0 without one */
};

/* HASTEN_ERR_FILE with file and line for what is no such file, also for one key twice. */
hasten_status profile_open(const char *path, struct profile **out, struct hasten_error *err);
void profile_close(struct profile *p); /* NULL is fine */
const char *profile_path(const struct profile *p);
/* In the order of the file; the values of a list are lines of their own. NULL after the last. */
const struct profile_line *profile_at(const struct profile *p, int i);

#endif
