/* What choosing a token costs at 151,936 logits, one configuration a line: the mean over rows of the best of several
 * passes, and the median of all. The rows are together larger than the second-level cache, as in a running engine.
 * Fails when a median is above the bound, which is generous: a busy machine passes, a forgotten full sort does not.
 *
 *     sample_cost [ROWS.f32]      rows as `hasten eval --logits` writes them, instead of the synthetic ones */
#include "base/clock.h"
#include "base/cpu.h"
#include "kernels/row.h"
#include "sample/noise.h"
#include "sample/sampler.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 151936,
    ROWS = 12,
    PASSES = 5,
    N_BIAS = 300,
    N_PATH = 4096,
    BOUND_US = 1000,
    BOUND_PLAIN_US = 20000 /* no vectors, no fused multiply-add */
};

/* The shape of a small language model's row: the bulk normal about 17 below the best, one token in 20 with an
 * exponential upper tail. */
static void synthetic_row(float *l, uint32_t row)
{
    for (uint32_t i = 0; i < N; i++) {
        uint32_t x[4];
        noise_quad(77, row, 0, i, x);
        double u = ((double)x[0] + 0.5) * 0x1p-32, v = ((double)x[1] + 0.5) * 0x1p-32;
        double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
        double tail = x[2] % 20 == 0 ? -3.0 * log(((double)x[3] + 0.5) * 0x1p-32) : 0;
        l[i] = (float)(2.1 * normal + fmin(tail, 16));
    }
}

static int read_rows(const char *path, float *rows)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(rows, sizeof *rows, (size_t)ROWS * N, f) : 0;
    if (f)
        fclose(f);
    if (n == (size_t)ROWS * N)
        return 0;
    fprintf(stderr, "%s: %zu values (expected at least %d rows of %d)\n", path, n, ROWS, N);
    return -1;
}

struct kind {
    const char *name;
    float temperature, top_p, min_p;
    int32_t top_k, last_n, n_bias, n_logprobs; /* n_bias -1: a mask of half of the tokens, -2: of four */
};

static const struct kind kinds[] = {
    {"greedy", 0, 1, 0, 0, 0, 0, -1},
    {"default", 0.8f, 0.95f, 0.05f, 40, 0, 0, -1},
    {"temperature 1", 1, 1, 0, 0, 0, 0, -1},
    {"temperature 5", 5, 1, 0, 0, 0, 0, -1},
    {"top-k 1", 1, 1, 0, 1, 0, 0, -1},
    {"top-k 200", 1, 1, 0, 200, 0, 0, -1},
    {"top-k 1000, top-p 0.95", 1, 0.95f, 0, 1000, 0, 0, -1},
    {"top-k 5000", 1, 1, 0, 5000, 0, 0, -1},
    {"top-k 50000, top-p 0.9", 1, 0.9f, 0, 50000, 0, 0, -1},
    {"min-p 0.05", 1, 1, 0.05f, 0, 0, 0, -1},
    {"min-p 0.01, temperature 2", 2, 1, 0.01f, 0, 0, 0, -1},
    {"top-p 0.5", 1, 0.5f, 0, 0, 0, 0, -1},
    {"top-p 0.95", 1, 0.95f, 0, 0, 0, 0, -1},
    {"top-p 0.95, temperature 0.6", 0.6f, 0.95f, 0, 0, 0, 0, -1},
    {"top-p 0.95, temperature 5", 5, 0.95f, 0, 0, 0, 0, -1},
    {"top-p 0.999", 1, 0.999f, 0, 0, 0, 0, -1},
    {"top-p 0.9, min-p 0.02", 1, 0.9f, 0.02f, 0, 0, 0, -1},
    {"penalties of 64", 0.8f, 0.95f, 0.05f, 40, 64, 0, -1},
    {"penalties of 4096", 0.8f, 0.95f, 0.05f, 40, -1, 0, -1},
    {"bias of 300", 0.8f, 0.95f, 0.05f, 40, 0, N_BIAS, -1},
    {"a mask of half", 0.8f, 0.95f, 0.05f, 40, 0, -1, -1},
    {"a mask of four", 0.8f, 0.95f, 0.05f, 40, 0, -2, -1},
    {"greedy, logprobs 0", 0, 1, 0, 0, 0, 0, 0},
    {"default, logprobs 5", 0.8f, 0.95f, 0.05f, 40, 0, 0, 5},
    {"temperature 1, logprobs 64", 1, 1, 0, 0, 0, 0, 64},
    {"all of it", 1, 0.95f, 0.01f, 0, 64, N_BIAS, 20},
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median in microseconds, or -1. *quiet: the mean over rows of the best pass. */
static double measure(struct sampler *sampler, const struct kind *k, const float *rows, const int32_t *path,
                      const struct logit_bias *bias, double *quiet)
{
    struct sampler_settings s = {.typical_p = 1,
                                 .temperature = k->temperature,
                                 .top_k = k->top_k,
                                 .top_p = k->top_p,
                                 .min_p = k->min_p,
                                 .repeat_penalty = k->last_n ? 1.1f : 1.0f,
                                 .frequency_penalty = k->last_n ? 0.1f : 0.0f,
                                 .penalty_last_n = k->last_n,
                                 .seed = 5,
                                 .bias = bias,
                                 .n_bias = k->n_bias > 0 ? k->n_bias : 0,
                                 .n_logprobs = k->n_logprobs < 0 ? 0 : k->n_logprobs};
    static uint64_t mask[(N + 63) / 64];
    for (int i = 0; i < (N + 63) / 64; i++)
        mask[i] = k->n_bias == -1 ? 0xFF00FF00FF00FF00u : i % 600 == 0;
    if (k->n_bias < 0)
        s.mask = mask;
    struct token_logprob t, top[64];
    struct hasten_error err;
    double us[PASSES * ROWS], best[ROWS];
    for (int i = 0; i < PASSES * ROWS; i++) {
        uint64_t t0 = clock_now_ns();
        hasten_status st = sampler_choose(sampler, NULL, &s, rows + (size_t)(i % ROWS) * N, path, N_PATH,
                                          100 + i, &t, k->n_logprobs < 0 ? NULL : top, &err);
        us[i] = (double)(clock_now_ns() - t0) / 1e3;
        best[i % ROWS] = i < ROWS || us[i] < best[i % ROWS] ? us[i] : best[i % ROWS];
        if (st) {
            fprintf(stderr, "%s: %s\n", k->name, err.message);
            return -1;
        }
    }
    *quiet = 0;
    for (int r = 0; r < ROWS; r++)
        *quiet += best[r] / ROWS;
    qsort(us, PASSES * ROWS, sizeof *us, ascending);
    return us[PASSES * ROWS / 2];
}

int main(int argc, char **argv)
{
    float *rows = malloc((size_t)ROWS * N * sizeof *rows);
    static int32_t path[N_PATH];
    static struct logit_bias bias[N_BIAS];
    struct sampler *sampler;
    struct hasten_error err;
    int failed = 0;
    if (!rows || sampler_open(N, &sampler, &err) || (argc > 1 && read_rows(argv[1], rows)))
        return 1;
    for (uint32_t r = 0; argc == 1 && r < ROWS; r++)
        synthetic_row(rows + (size_t)r * N, r);
    for (uint32_t i = 0; i < N_PATH; i++)
        path[i] = (int32_t)(noise_x(1, 0, 0, i) % N);
    for (uint32_t i = 0; i < N_BIAS; i++)
        bias[i] = (struct logit_bias){(int32_t)(noise_x(2, 0, 0, i) % N), i % 3 ? 1.5f : -INFINITY};
    const char *set = row_passes_select(cpu_features())->name;
    const double bound = strcmp(set, "plain") == 0 ? BOUND_PLAIN_US : BOUND_US;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        double quiet = 0, median = measure(sampler, &kinds[k], rows, path, bias, &quiet);
        printf("%-28s %6.0f us, median %6.0f us (%s)\n", kinds[k].name, quiet, median, set);
        if (median < 0 || median > bound) {
            printf("  above the bound of %.0f us\n", bound);
            failed++;
        }
    }
    sampler_close(sampler);
    free(rows);
    return failed ? 1 : 0;
}
