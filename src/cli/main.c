/* The command `hasten`: the dispatch. The table of commands is in commands.c, everything else in cmd_*.c. */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Without a command: its own letters, which are those of help. */
static const char *default_command(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ? "help" : word;
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(mem_alloc, mem_free); /* JSON goes through the one door too */
    if (argc < 2)
        return help_usage(stderr);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        printf("hasten %s\n", HASTEN_VERSION);
        return cli_finish(0);
    }
    const struct command *c = command_find(default_command(argv[1]));
    if (!c)
        return command_unknown(argv[1]);
    struct command_host host = {0};
    struct command own = *c;
    own.host = &host;
    const int rc = own.run(&own, argc - 2, argv + 2);
    profile_close(host.profile);
    return rc;
}
