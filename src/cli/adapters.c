/* See adapters.h. A colon belongs to the file's name unless a number follows it to the end. */
#include "cli/adapters.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* FILE[:SCALE] -> the length of FILE, and SCALE or 1. */
static hasten_status split(const char *text, size_t *len, float *scale, struct hasten_error *err)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    *len = strlen(text);
    *scale = 1.0f;
    if (colon && colon[1] != '\0' && colon[1] != ' ') {
        const float x = strtof(colon + 1, &end);
        if (*end == '\0') {
            *len = (size_t)(colon - text);
            *scale = x;
        }
    }
    if (*len == 0)
        return error_set(err, HASTEN_ERR_USAGE, "option --lora: '%s' (expected FILE or FILE:SCALE)", text);
    if (!isfinite(*scale))
        return error_set(err, HASTEN_ERR_USAGE, "option --lora: '%s' (expected a finite number as the scale)",
                         text);
    return HASTEN_OK;
}

static hasten_status open_one(const char *text, const struct hasten_model *m, struct adapters *a,
                              struct hasten_error *err)
{
    size_t len;
    float scale;
    struct hasten_lora *lora = NULL;
    hasten_status st = split(text, &len, &scale, err);
    if (st)
        return st;
    char *path = mem_strndup(text, len);
    st = path ? hasten_lora_open(m, path, &lora, err)
              : error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", text);
    mem_free(path);
    if (!st)
        a->use[a->n++] = (struct hasten_lora_use){lora, scale};
    return st;
}

hasten_status adapters_open(const struct option_list *given, const struct hasten_model *m,
                            struct adapters *out, struct hasten_engine_settings *s, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    if (given->n == 0)
        return HASTEN_OK;
    out->use = mem_calloc((size_t)given->n, sizeof *out->use);
    if (!out->use)
        return error_set(err, HASTEN_ERR_MEMORY, "--lora: out of memory");
    for (int i = 0; i < given->n && !st; i++)
        st = open_one(given->items[i], m, out, err);
    s->loras = out->use;
    s->n_loras = out->n;
    return st;
}

void adapters_close(struct adapters *a)
{
    for (int32_t i = 0; i < a->n; i++)
        hasten_lora_close((struct hasten_lora *)(uintptr_t)a->use[i].lora);
    mem_free(a->use);
    *a = (struct adapters){0};
}
