/* Fuzz target of profiles (YAML): what opens holds lines whose keys and values are text, each key once for a command. The
 * corpus is made by make_corpora.py, as those of the targets below it. */
#include "cli/profile.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct memory_file f = memory_file(data, size);
    struct profile *p = NULL;
    struct hasten_error err = {0};
    const hasten_status st = profile_open(f.path, &p, &err);
    check_error(st, &err);
    check(!st == (p != NULL));
    int n = 0;
    for (const struct profile_line *l; (l = profile_at(p, n)); n++)
        check(l->key && l->value && l->line > 0 && !strchr(l->key, '_') && (!l->command || l->command[0]));
    check(profile_at(p, n) == NULL && profile_at(p, -1) == NULL);
    profile_close(p);
    memory_file_close(&f);
    return 0;
}
