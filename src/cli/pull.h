/* The two ways of `hasten pull`: packages of the built-in table (pull_table.c), URLs (cmd_pull.c). */
#ifndef HASTEN_CLI_PULL_H
#define HASTEN_CLI_PULL_H
#include "cli/cache.h"
#include "cli/cli.h"

/* Fetches what is missing, prints the path or JSON; exit status. */
int pull_table_model(struct ui *ui, const struct table_model *m);
int pull_print(struct ui *ui, const char *name, const char *path, uint64_t bytes, const char *sha256);

#endif
