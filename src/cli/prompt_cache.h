/* --prompt-cache FILE of `run`: the sequence of a prompt as a snapshot, so that a later run begins with it. */
#ifndef HASTEN_CLI_PROMPT_CACHE_H
#define HASTEN_CLI_PROMPT_CACHE_H
#include "base/error.h"
#include <stdbool.h>

struct session;
struct ui;

struct prompt_cache {
    const char *path;           /* NULL: none */
    bool all, read_only;        /* the answer too; never written */
    struct hasten_error failed; /* status: the file could not be written */
};

/* The session's sequence becomes what the file holds; a file that is missing or empty holds nothing. Errors of
 * hasten_seq_load: another model, damage. */
hasten_status prompt_cache_load(struct session *s, struct ui *ui, struct hasten_error *err);
/* Writes the sequence where a prompt has been read of which n_cached tokens were held; or (answered) its answer. What
 * fails is noted in cache->failed and not tried again. */
void prompt_cache_save(struct session *s, bool answered, int n_cached, struct ui *ui);

#endif
