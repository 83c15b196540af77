/* Fuzz target of sampling: the bytes are settings, then a path, then a row of logits, as they come (NaN, infinities and
 * all). Settings out of range are refused by name; what is chosen is a token whose logit is finite, the same twice. */
#include "fuzz.h"
#include "hasten/sample.h"
#include <math.h>

#define N_VOCAB 300

static struct hasten_model *model;

/* The next n bytes, zeros beyond the end. */
static void take(const uint8_t **data, size_t *size, void *out, size_t n)
{
    const size_t some = *size < n ? *size : n;
    memset(out, 0, n);
    if (some)
        memcpy(out, *data, some);
    *data += some;
    *size -= some;
}

/* Half of the fields keep their default, or few inputs were ever in range. */
static void take_settings(const uint8_t **data, size_t *size, struct hasten_sampler_settings *s)
{
    float *const floats[] = {&s->temperature,      &s->top_p,           &s->min_p,
                             &s->typical_p,        &s->xtc_probability, &s->xtc_threshold,
                             &s->dry_multiplier,   &s->dry_base,        &s->mirostat_tau,
                             &s->mirostat_eta,     &s->repeat_penalty,  &s->presence_penalty,
                             &s->frequency_penalty};
    int32_t *const ints[] = {&s->top_k, &s->dry_allowed_length, &s->dry_last_n, &s->mirostat,
                             &s->penalty_last_n};
    uint32_t which;
    take(data, size, &which, sizeof which);
    for (size_t i = 0; i < 13; i++)
        if (which >> i & 1)
            take(data, size, floats[i], sizeof(float));
    for (size_t i = 0; i < 5; i++)
        if (which >> (13 + i) & 1)
            take(data, size, ints[i], sizeof(int32_t));
    take(data, size, &s->seed, sizeof s->seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hasten_sampler_settings law;
    struct hasten_sampler *a = NULL, *b = NULL;
    struct hasten_error err = {0};
    float row[N_VOCAB];
    int32_t path[16], id = -1, again = -1;
    uint8_t bytes[16];
    if (!model)
        check(!hasten_model_open("script:hash=1,vocab=300", &model, &err));
    check(!hasten_sampler_default_settings(model, &law, &err));
    take_settings(&data, &size, &law);
    take(&data, &size, bytes, sizeof bytes);
    for (int i = 0; i < 16; i++)
        path[i] = bytes[i];
    bool any = false;
    take(&data, &size, row, sizeof row);
    for (int i = 0; i < N_VOCAB; i++)
        any |= isfinite(row[i]);
    hasten_status st = hasten_sampler_open(model, &law, &a, &err);
    check_error(st, &err);
    check(!st || st == HASTEN_ERR_USAGE);
    if (!st && !hasten_sampler_open(model, &law, &b, &err)) {
        st = hasten_sampler_choose(a, row, path, 16, &id, &err);
        check_error(st, &err);
        check(any || st == HASTEN_ERR_NON_FINITE);
        check(st || (id >= 0 && id < N_VOCAB && isfinite(row[id])));
        check(hasten_sampler_choose(b, row, path, 16, &again, &err) == st && (st || again == id));
    }
    hasten_sampler_close(a);
    hasten_sampler_close(b);
    return 0;
}
