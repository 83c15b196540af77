/* What `serve` and `batch` share: an engine for many answers, and what its model is called. */
#ifndef HASTEN_CLI_MANY_H
#define HASTEN_CLI_MANY_H
#include "cli/session.h"

/* What the model is called: the alias unless NULL, a name in the cache as it was given, a file without folder and
 * ending. The caller's; NULL: out of memory. */
char *many_model_id(const char *alias, const char *argument);
/* What an engine for many answers has that one for a single one has not: sequences, a pool that all share (of kv_size
 * positions; 0: four contexts), and a store, so that prompts begin with what earlier ones left, unless another is named. */
void many_adjust(struct model_args *model, int32_t slots, uint64_t kv_size, const struct hasten_model *m,
                 struct hasten_engine_settings *settings);

#endif
