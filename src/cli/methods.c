/* See methods.h. */
#include "cli/methods.h"
#include <jansson.h>
#include <string.h>

/* Stages that an engine drives on its own, then those of the loop of an answer, then those of many. */
#define STAGE_OPTION(name, stage, help)                                                                      \
    {                                                                                                        \
        name, NULL, OPT_LIST, offsetof(struct method_args, spec) + (stage) * sizeof(struct option_list), 0,  \
            0, NULL, "NAME[:KNOB=V,...]", help                                                               \
    }

#define N_ANSWERS 6
#define N_BATCH 1
static const struct option_def method_defs[] = {
    STAGE_OPTION("weights", STAGE_WEIGHTS, "what matrices are made of: requant:type=q4_0,tensors=ffn"),
    STAGE_OPTION("depth", STAGE_DEPTH, "which layers a row runs through: drop:layers=10-13"),
    STAGE_OPTION("cache", STAGE_CACHE, "what the cache keeps: keydiff:keep=0.5; in which form: q8"),
    STAGE_OPTION("attend", STAGE_ATTEND,
                 "what of the cache a query reads: quest:budget=0.125 (hasten methods)"),
    STAGE_OPTION("store", STAGE_STORE,
                 "what is kept of sequences that are not in use: apc (regenerated, edited turns)"),
    STAGE_OPTION("context", STAGE_CONTEXT, "what of the prompt is read: selective:ratio=0.5"),
    STAGE_OPTION("draft", STAGE_DRAFT, "who proposes tokens that one pass then checks: lookup:gamma=10"),
    STAGE_OPTION("stop-when", STAGE_STOP, "when it is enough, beside --stop: budget:max=512"),
    STAGE_OPTION("sample", STAGE_SAMPLE, "which tokens may be chosen: gbnf:file=F, as --grammar F"),
    STAGE_OPTION("modality", STAGE_MODALITY, "what is read before the prompt: raw:file=VECTORS"),
    STAGE_OPTION("schedule", STAGE_SCHEDULE, "who of those that wait comes next: sjf (default: fcfs)"),
};

static int n_options(enum method_options kind)
{
    const int all = (int)(sizeof method_defs / sizeof *method_defs);
    return all - (kind < METHODS_BATCH ? N_BATCH : 0) - (kind < METHODS_ANSWERS ? N_ANSWERS : 0);
}

struct option_group methods_group(struct method_args *args, enum method_options kind)
{
    return (struct option_group){.title = "Methods:", .defs = method_defs, .n = n_options(kind), .dst = args};
}

const char *methods_beyond(const struct option_group *g, enum method_options kind)
{
    for (int i = n_options(kind); i < g->n; i++)
        if (option_on_line(g, g->defs[i].name))
            return g->defs[i].name;
    return NULL;
}

static bool forks(enum method_stage stage, const char *spec)
{
    struct method_use u;
    struct hasten_error err;
    if (method_parse(stage, spec, &u, &err))
        return false; /* the engine will say it */
    const bool yes = u.m->traits & METHOD_BRANCHES;
    method_use_close(&u);
    return yes;
}

hasten_status methods_settings(struct method_args *args, struct hasten_engine_settings *s,
                               struct hasten_error *err)
{
    s->methods = args->use;
    s->n_methods = 0;
    bool branches = false;
    for (int stage = 0; stage < METHOD_STAGES; stage++)
        for (int i = 0; i < args->spec[stage].n; i++) {
            if (s->n_methods == METHOD_ARGS_MAX)
                return error_set(err, HASTEN_ERR_USAGE, "methods: more than %d are given", METHOD_ARGS_MAX);
            branches |= forks((enum method_stage)stage, args->spec[stage].items[i]);
            args->use[s->n_methods++] = (struct hasten_method_use){
                method_stage_name((enum method_stage)stage), args->spec[stage].items[i], NULL};
        }
    s->n_seq_max += branches;
    return HASTEN_OK;
}

json_t *methods_json(const struct hasten_engine_settings *s)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < s->n_methods; i++) {
        struct method_use u;
        struct buf text = {0};
        struct hasten_error err;
        json_t *one = NULL;
        for (int stage = 0; stage < METHOD_STAGES; stage++) {
            if (strcmp(method_stage_name((enum method_stage)stage), s->methods[i].stage) != 0 ||
                method_parse((enum method_stage)stage, s->methods[i].spec, &u, &err))
                continue;
            if (!buf_printf(&text, "%s ", s->methods[i].stage) && !method_describe(&u, &text))
                one = json_bytes(text.data, text.len);
            method_use_close(&u);
        }
        buf_free(&text);
        json_add(&list, one);
    }
    return list;
}
