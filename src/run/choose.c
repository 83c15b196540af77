/* Choosing a token from a row: the law's sampler under the grammar's mask. Tokens that alone are allowed need no row. */
#include "run/inside.h"
#include <math.h>

/* The mask here, without what the bias forbids; *n: how many tokens it allows. */
static hasten_status mask_here(const struct run *r, int32_t *n, struct hasten_error *err)
{
    const struct sampler_settings *law = &r->task.law->settings;
    uint64_t *mask = r->mask;
    hasten_status st = grammar_mask(r->grammar, mask, n, err);
    for (int32_t i = 0; i < law->n_bias && !st; i++) {
        const int32_t id = law->bias[i].id;
        if (isinf(law->bias[i].bias) && mask[id / 64] >> id % 64 & 1) {
            mask[id / 64] &= ~(1ull << id % 64);
            --*n;
        }
    }
    return st;
}

/* No token can follow: well if the text is complete. */
static hasten_status end_without_token(struct run *r, struct hasten_error *err)
{
    bool complete;
    if (r->task.law->n_predict == 0)
        return commit_finish(r, FINISH_LENGTH, err);
    const hasten_status st = grammar_complete(r->grammar, &complete, err);
    return st ? st : commit_finish(r, complete ? FINISH_STOP : FINISH_GRAMMAR, err);
}

hasten_status choose_token(struct run *r, const float *row, struct hasten_error *err)
{
    const struct sampling *law = r->task.law;
    struct sampler_settings settings = law->settings;
    if (r->grammar) {
        int32_t n = r->n_masked;
        const hasten_status st = r->masked ? HASTEN_OK : mask_here(r, &n, err);
        if (st || n == 0)
            return st ? st : end_without_token(r, err);
        settings.mask = r->mask;
    }
    return sampler_choose(law->sampler, law->memory, &settings, row, r->path + r->n_soft,
                          r->n_path - r->n_soft, r->n_path, &r->chosen, law->logprobs ? r->top : NULL, err);
}

const uint64_t *choose_mask(struct run *r)
{
    const struct sampling *law = r->task.law;
    r->masked = false;
    if (r->status || !r->grammar || law->full_head || law->logprobs || law->memory || !r->sampling ||
        r->n_drafts)
        return NULL;
    r->status = mask_here(r, &r->n_masked, &r->err);
    r->masked = !r->status && r->n_masked > 0;
    return r->masked ? r->mask : NULL;
}

/* Log-probabilities and mirostat need the row; so does a stop method, to decide. */
hasten_status choose_forced(struct run *r, struct hasten_error *err)
{
    const struct sampling *law = r->task.law;
    hasten_status st = HASTEN_OK;
    while (r->grammar && !law->logprobs && !law->memory && !r->done && !st) {
        int32_t n = 0, id = 0;
        st = mask_here(r, &n, err);
        if (st || n != 1)
            return st;
        while (!r->mask[id / 64])
            id += 64;
        r->chosen = (struct token_logprob){id + __builtin_ctzll(r->mask[id / 64]), NAN};
        st = commit_chosen(r, err);
    }
    return st;
}
