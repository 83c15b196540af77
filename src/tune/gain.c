/* See gain.h. */
#include "tune/gain.h"
#include <math.h>

#define RESAMPLES 2000
#define SEED 1

struct parts { /* seconds of one pair, the second engine's scaled to as many tokens as the plain one wrote */
    double plain_prompt, plain_answer, prompt, answer;
};

static struct parts parts_of(const struct answers_pair *p)
{
    const bool both = p->tokens > 0 && p->plain_tokens > 0;
    const double scale = both ? (double)p->plain_tokens / (double)p->tokens : 0;
    return (struct parts){p->plain_prompt_s, both ? p->plain_answer_s : 0, p->prompt_s, p->answer_s * scale};
}

struct sample {
    const struct answers_pair *pairs;
    int32_t n;
};

static void ratios(const void *ctx, const int32_t *weight, int32_t m, double *out)
{
    const struct sample *s = ctx;
    struct parts sum = {0};
    for (int32_t i = 0; i < m; i++) {
        const struct parts p = parts_of(&s->pairs[i]);
        sum.plain_prompt += weight[i] * p.plain_prompt;
        sum.plain_answer += weight[i] * p.plain_answer;
        sum.prompt += weight[i] * p.prompt;
        sum.answer += weight[i] * p.answer;
    }
    const double whole = sum.prompt + sum.answer;
    out[0] = whole > 0 ? (sum.plain_prompt + sum.plain_answer) / whole : NAN;
    out[1] = sum.prompt > 0 ? sum.plain_prompt / sum.prompt : NAN;
    out[2] = sum.answer > 0 ? sum.plain_answer / sum.answer : NAN;
}

hasten_status gain_of(const struct answers_pair *pairs, int32_t n, struct gain *out, struct hasten_error *err)
{
    const struct sample s = {pairs, n};
    const struct eval_bootstrap b = {
        .m = n, .resamples = RESAMPLES, .seed = SEED, .n_stats = 3, .statistic = ratios, .ctx = &s};
    struct eval_interval v[3];
    const hasten_status st = eval_bootstrap_run(&b, v, NULL, err);
    if (!st)
        *out = (struct gain){n, v[0], v[1], v[2]};
    return st;
}
