/* The adapters of --lora FILE[:SCALE]: opened for a model, as an engine's settings want them. */
#ifndef HASTEN_CLI_ADAPTERS_H
#define HASTEN_CLI_ADAPTERS_H
#include "cli/options.h"
#include "hasten/hasten.h"

/* Zero-initialise. */
struct adapters {
    struct hasten_lora_use *use; /* [n], owned */
    int32_t n;
};

/* Opens them and points s at them. HASTEN_ERR_USAGE for a scale that is no number, else hasten_lora_open's errors. */
hasten_status adapters_open(const struct option_list *given, const struct hasten_model *m,
                            struct adapters *out, struct hasten_engine_settings *s, struct hasten_error *err);
void adapters_close(struct adapters *a);

#endif
