/* What a model's file asks of sampling: its keys general.sampling.*. */
#ifndef HASTEN_SAMPLE_OF_FILE_H
#define HASTEN_SAMPLE_OF_FILE_H
#include "formats/gguf.h"
#include "sample/sampler.h"

/* Overwrites the settings that the file names. HASTEN_ERR_FILE for values of a wrong type; ranges are sampler_check's. */
hasten_status sampler_settings_of_file(const struct gguf *g, struct sampler_settings *p,
                                       struct hasten_error *err);

#endif
