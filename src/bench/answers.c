/* See answers.h. */
#include "bench/answers.h"
#include "base/clock.h"
#include "base/file.h"
#include "engine/engine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "measuring answers: out of memory");
}

hasten_status answers_open(struct answers *a, struct hasten_engine *e, struct hasten_error *err)
{
    const struct vocab *v = model_vocab(e->model);
    const int32_t n_vocab = hasten_model_n_vocab(e->model);
    *a = (struct answers){.engine = e};
    hasten_status st = hasten_seq_open(e, &a->seq, err);
    if (!st)
        st = sampler_open(n_vocab, &a->sampler, err);
    if (!st) {
        a->ends = mem_array((size_t)sampler_forbid_ends(v, n_vocab, NULL) + 1, sizeof *a->ends);
        st = a->ends ? HASTEN_OK : no_memory(err);
    }
    if (!st)
        a->n_ends = sampler_forbid_ends(v, n_vocab, a->ends);
    if (!st)
        packing_finish(e); /* what is measured is the speed after the first steps */
    if (st)
        answers_close(a);
    return st;
}

void answers_close(struct answers *a)
{
    hasten_seq_close(a->seq);
    sampler_close(a->sampler);
    mem_free(a->ends);
    mem_free(a->ttft_ms);
    mem_free(a->gap_ms);
    *a = (struct answers){0};
}

/* ---- one answer ----------------------------------------------------------------------------------------------- */

static hasten_status note_gap(struct answers *a, double ms, struct hasten_error *err)
{
    if (a->n_gaps == a->cap_gaps) {
        const int64_t cap = a->cap_gaps ? 2 * a->cap_gaps : 256;
        double *more = mem_realloc(a->gap_ms, (size_t)cap * sizeof *more);
        if (!more)
            return no_memory(err);
        a->gap_ms = more;
        a->cap_gaps = cap;
    }
    a->gap_ms[a->n_gaps++] = ms;
    return HASTEN_OK;
}

static hasten_status note_first(struct answers *a, double ms, struct hasten_error *err)
{
    if (a->n == a->cap) {
        const int32_t cap = a->cap ? 2 * a->cap : 32;
        double *more = mem_realloc(a->ttft_ms, (size_t)cap * sizeof *more);
        if (!more)
            return no_memory(err);
        a->ttft_ms = more;
        a->cap = cap;
    }
    a->ttft_ms[a->n] = ms;
    return HASTEN_OK;
}

/* The loop of run_answer, with a look at the clock behind each step. */
static hasten_status drive(struct answers *a, struct run *r, const struct answer *answer,
                           const volatile int *cancel, struct hasten_error *err)
{
    struct hasten_counters before = {0}, after;
    struct hasten_item item;
    hasten_status st = HASTEN_OK;
    uint64_t last = clock_now_ns(), done, total;
    int32_t seen = 0;
    while (!st && run_next(r, a->engine->settings.n_batch, &item)) {
        st = hasten_step(a->engine, &item, 1, run_take_rows, r, cancel, err);
        if (st == HASTEN_ERR_CANCELLED)
            return st;
        st = run_after(r, st, err);
        if (st || run_reading(r, &done, &total) || answer->predicted_n == seen)
            continue;
        const uint64_t now = clock_now_ns();
        if (seen == 0) {
            st = note_first(a, (double)(now - last) * 1e-6, err);
            hasten_engine_counters(a->engine, &before);
        } else {
            st = note_gap(a, (double)(now - last) * 1e-6, err);
        }
        last = now;
        seen = answer->predicted_n;
    }
    hasten_engine_counters(a->engine, &after);
    a->weight_bytes += after.weight_bytes - before.weight_bytes;
    a->kv_bytes += after.kv_bytes - before.kv_bytes;
    return st;
}

static void add_up(struct answers *a, const struct answer *answer, struct answers_one *out)
{
    const int32_t behind = answer->predicted_n > 1 ? answer->predicted_n - 1 : 0;
    out->prompt_s = answer->prompt_ms * 1e-3;
    out->answer_s = behind ? answer->predicted_ms * 1e-3 : 0;
    out->n_tokens = behind;
    a->n++;
    a->n_prompt += answer->prompt_n;
    a->n_tokens += behind;
    a->n_passes += answer->passes;
    a->n_drafted += answer->drafted_n;
    a->n_accepted += answer->accepted_n;
    a->prompt_s += out->prompt_s;
    a->answer_s += out->answer_s;
}

hasten_status answers_run(struct answers *a, const struct answers_item *item, struct energy *energy,
                          const volatile int *cancel, struct answers_one *out, struct hasten_error *err)
{
    struct sampling law = {.sampler = a->sampler, .n_predict = item->n_answer};
    struct answer answer = {0};
    struct run *r = NULL;
    const struct run_task task = {.engine = a->engine,
                                  .seq = a->seq,
                                  .vocab = model_vocab(a->engine->model),
                                  .law = &law,
                                  .ids = item->ids,
                                  .n = item->n,
                                  .cancel = cancel};
    sampler_default_settings(&law.settings);
    law.settings.temperature = 0;
    law.settings.bias = a->ends;
    law.settings.n_bias = item->endless ? a->n_ends : 0;
    *out = (struct answers_one){0};
    if (energy)
        energy_read(energy);
    const double joules = energy ? energy->joules : 0;
    hasten_status st = hasten_seq_truncate(a->seq, 0, err);
    if (!st)
        st = run_open(&task, &answer, &r, err);
    if (!st)
        st = drive(a, r, &answer, cancel, err);
    run_close(r);
    if (!st) {
        if (energy)
            energy_read(energy);
        a->joules += energy ? energy->joules - joules : 0;
        add_up(a, &answer, out);
        out->ids = answer.ids;
        answer.ids = (struct tokens){0};
    }
    answer_free(&answer);
    return st;
}

/* ---- pairs ---------------------------------------------------------------------------------------------------- */

static bool equal_ids(const struct tokens *a, const struct tokens *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) == 0);
}

hasten_status answers_pair(struct answers *plain, struct answers *with, const struct answers_item *item,
                           bool flip, struct energy *energy, const volatile int *cancel,
                           struct answers_pair *out, struct hasten_error *err)
{
    struct answers_one one[4] = {0};
    hasten_status st = HASTEN_OK;
    *out = (struct answers_pair){.same = true};
    for (int i = 0; i < 4 && !st; i++) {
        const bool second = (i == 1 || i == 2) != flip;
        st = answers_run(second ? with : plain, item, energy, cancel, &one[i], err);
        *(second ? &out->prompt_s : &out->plain_prompt_s) += one[i].prompt_s;
        *(second ? &out->answer_s : &out->plain_answer_s) += one[i].answer_s;
        *(second ? &out->tokens : &out->plain_tokens) += one[i].n_tokens;
        out->same &= st || equal_ids(&one[i].ids, &one[0].ids);
    }
    for (int i = 0; i < 4; i++)
        tokens_free(&one[i].ids);
    return st;
}

/* ---- figures -------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double answers_quantile(double *values, int64_t n, double q)
{
    if (n < 1)
        return NAN;
    qsort(values, (size_t)n, sizeof *values, ascending);
    const double at = q * (double)(n - 1);
    const int64_t i = (int64_t)at, j = i + 1 < n ? i + 1 : i;
    return values[i] + (at - (double)i) * (values[j] - values[i]);
}

uint64_t answers_peak_bytes(void)
{
    struct hasten_error err;
    char *text = NULL;
    size_t len = 0;
    uint64_t kib = 0;
    if (file_slurp("/proc/self/status", 1 << 16, &text, &len, &err))
        return 0;
    const char *line = strstr(text, "VmHWM:");
    if (line)
        kib = strtoull(line + 6, NULL, 10);
    mem_free(text);
    return kib << 10;
}
