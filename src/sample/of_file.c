/* Reading general.sampling.* (of_file.h). */
#include "sample/of_file.h"
#include <stdio.h>

/* A file's count: integer key, kept when absent. */
static hasten_status file_count(const struct gguf *g, const char *key, int32_t *out, struct hasten_error *err)
{
    uint32_t v = (uint32_t)*out;
    hasten_status st = gguf_opt_u32(g, key, &v, err);
    *out = v > 1u << 24 ? 1 << 24 : (int32_t)v;
    return st;
}

hasten_status sampler_settings_of_file(const struct gguf *g, struct sampler_settings *p,
                                       struct hasten_error *err)
{
    const struct {
        const char *key;
        float *value;
    } numbers[] = {
        {"temp", &p->temperature},
        {"top_p", &p->top_p},
        {"min_p", &p->min_p},
        {"penalty_repeat", &p->repeat_penalty},
        {"xtc_probability", &p->xtc_probability},
        {"xtc_threshold", &p->xtc_threshold},
        {"mirostat_tau", &p->mirostat_tau},
        {"mirostat_eta", &p->mirostat_eta},
    };
    hasten_status st = file_count(g, "general.sampling.top_k", &p->top_k, err);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !st; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", numbers[i].key);
        st = gguf_opt_f32(g, key, numbers[i].value, err);
    }
    if (!st)
        st = file_count(g, "general.sampling.mirostat", &p->mirostat, err);
    if (!st)
        st = file_count(g, "general.sampling.penalty_last_n", &p->penalty_last_n, err);
    return st;
}
