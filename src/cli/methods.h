/* The options that choose methods, repeated to stack: --weights, --depth, --attend, --cache of what any step does;
 * --context, --draft, --stop-when, --sample and --modality where answers are made;
 * --schedule where many are. */
#ifndef HASTEN_CLI_METHODS_H
#define HASTEN_CLI_METHODS_H
#include "cli/cli.h"
#include "engine/method.h"

#define METHOD_ARGS_MAX 64
struct method_args {
    struct option_list spec[METHOD_STAGES];
    struct hasten_method_use use[METHOD_ARGS_MAX]; /* what methods_settings makes of them */
};

/* Which stages a command takes. */
enum method_options {
    METHODS_ENGINE,  /* of any step */
    METHODS_ANSWERS, /* and of the loop of an answer */
    METHODS_BATCH    /* and of many answers at once */
};
/* The group "Methods:". Initialise args with zeros. */
struct option_group methods_group(struct method_args *args, enum method_options kind);
/* An option of the command line that belongs to a larger kind than this; NULL: there is none. */
const char *methods_beyond(const struct option_group *g, enum method_options kind);
/* Sets s->methods: by stage, within a stage in the order given. They point into args. A method that forks sequences for
 * a moment gets room for one more: s->n_seq_max is raised. */
hasten_status methods_settings(struct method_args *args, struct hasten_engine_settings *s,
                               struct hasten_error *err);
/* ["attend quest:budget=0.125,..."]: what a program asked for, each with all its knobs. NULL when out of memory. */
struct json_t *methods_json(const struct hasten_engine_settings *s);

#endif
