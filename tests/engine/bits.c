/* The bit matrix: the logits of every position are the same bits for any number of threads, any cut of the
 * prompt, alone or with neighbours, fresh or forked, after truncation and regrowth, restored from a file (also by the
 * plain twins), and from the plain twins, whether weights are packed or read in place.
 *
 * Usage: bits MODEL N_TOKENS full|quick|self-test [f16|bf16|q8|f32 [ADAPTER...]]. Prints a line per difference and a summary. */
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct matrix {
    const struct hasten_model *model;
    const int32_t *tokens;
    const float *base;
    int32_t n;
    enum hasten_kv_type kv; /* of all runs that name none */
    struct hasten_lora_use loras[4];
    int n_loras;
    int n_runs, n_different;
};

static void compare(struct matrix *x, const struct run_spec *spec)
{
    char text[160];
    struct run_spec with_kv = *spec;
    const struct run_spec *s = &with_kv;
    if (with_kv.kv == HASTEN_KV_F16)
        with_kv.kv = x->kv;
    with_kv.loras = x->loras;
    with_kv.n_loras = x->n_loras;
    float *got = run_logits(x->model, s, x->tokens, x->n);
    const int32_t row = first_difference(x->base, got, x->n, hasten_model_n_vocab(x->model));
    free(got);
    x->n_runs++;
    if (row < 0)
        return;
    x->n_different++;
    printf("DIFFERENT at position %d: %s\n", row, spec_text(s, text, sizeof text));
}

static void full_matrix(struct matrix *x)
{
    static const int chunks[] = {0, 1, 7, 32, 512};
    for (int threads = 1; threads <= 3; threads++)
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++)
            for (int neighbours = 0; neighbours <= 3; neighbours += 3)
                for (int forked = 0; forked <= 1; forked++)
                    compare(x, &(struct run_spec){.n_threads = threads,
                                                  .chunk = chunks[c],
                                                  .n_neighbours = neighbours,
                                                  .forked = forked,
                                                  .n_batch = chunks[c] ? 512 : 4096});
    compare(x, &(struct run_spec){.n_threads = 2, .chunk = 37, .n_batch = 50, .regrown = true});
    compare(x, &(struct run_spec){.n_threads = 2, .n_batch = 512, .plain = true});
    compare(x,
            &(struct run_spec){.n_threads = 3, .chunk = 41, .n_batch = 64, .n_neighbours = 3, .restored = 1});
    compare(x, &(struct run_spec){.n_threads = 2, .n_batch = 512, .restored = 2});
    compare(x, &(struct run_spec){.n_threads = 2, .chunk = 5, .n_batch = 512, .in_place = true});
}

static void quick_matrix(struct matrix *x)
{
    static const struct run_spec specs[] = {
        {.n_threads = 1, .chunk = 1, .n_batch = 512},
        {.n_threads = 2, .chunk = 7, .n_batch = 512, .n_neighbours = 3},
        {.n_threads = 3, .chunk = 32, .n_batch = 512, .forked = true},
        {.n_threads = 2, .chunk = 0, .n_batch = 19, .n_neighbours = 3, .forked = true},
        {.n_threads = 2, .chunk = 23, .n_batch = 16, .regrown = true},
        {.n_threads = 2, .chunk = 29, .n_batch = 64, .n_neighbours = 3, .restored = 1},
        {.n_threads = 2, .n_batch = 512, .plain = true},
        {.n_threads = 1, .chunk = 50, .n_batch = 512, .restored = 2},
        {.n_threads = 2, .chunk = 5, .n_batch = 512, .in_place = true},
        {.n_threads = 2, .chunk = 1, .n_batch = 16, .hasty = true},
        {.n_threads = 5, .chunk = 7, .n_batch = 64, .n_neighbours = 3, .regrown = true, .hasty = true},
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        compare(x, &specs[i]);
}

/* The comparison must be able to fail: other KV representations and another arithmetic give other bits, and a
 * single changed token shows from its position on. */
static int self_test(struct matrix *x)
{
    struct run_spec s = {.n_threads = 2, .n_batch = 512};
    for (s.kv = HASTEN_KV_F32; s.kv <= HASTEN_KV_Q4; s.kv++)
        compare(x, &s);
    s = (struct run_spec){.n_threads = 2, .n_batch = 512, .reference = true};
    compare(x, &s);
    int32_t *changed = malloc((size_t)x->n * sizeof *changed);
    if (!changed)
        return 1;
    memcpy(changed, x->tokens, (size_t)x->n * sizeof *changed);
    changed[x->n / 2] ^= 1;
    s = (struct run_spec){.n_threads = 1, .n_batch = 512, .loras = x->loras, .n_loras = x->n_loras};
    float *got = run_logits(x->model, &s, changed, x->n);
    const int32_t row = first_difference(x->base, got, x->n, hasten_model_n_vocab(x->model));
    free(got);
    free(changed);
    printf("self-test: %d of 5 other arithmetics differ, a changed token shows at %d (expected 5, %d)\n",
           x->n_different, row, x->n / 2);
    return x->n_different == 5 && row == x->n / 2 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char *const kv[] = {"f16", "f32", "bf16", "q8", "q4"};
    size_t type = 0;
    while (argc >= 5 && type < 5 && strcmp(argv[4], kv[type]) != 0)
        type++;
    if (argc < 4 || argc > 9 || type == 5) {
        fprintf(stderr,
                "usage: bits MODEL N_TOKENS full|quick|self-test [f16|f32|bf16|q8|q4 [ADAPTER...]]\n");
        return 2;
    }
    struct hasten_model *m = open_or_exit(argv[1]);
    struct matrix x = {.model = m, .n = atoi(argv[2]), .kv = (enum hasten_kv_type)type};
    for (int i = 5; i < argc; i++)
        x.loras[x.n_loras++] = adapter_or_exit(m, argv[i], i == 5 ? 1.0f : -0.5f);
    int32_t *tokens = malloc((size_t)x.n * sizeof *tokens);
    if (!tokens)
        return 1;
    random_tokens(1, hasten_model_n_vocab(m), tokens, x.n);
    x.tokens = tokens;
    const struct run_spec first = {
        .n_threads = 2, .n_batch = 512, .kv = x.kv, .loras = x.loras, .n_loras = x.n_loras};
    float *base = run_logits(m, &first, tokens, x.n);
    x.base = base;
    int rc;
    if (strcmp(argv[3], "self-test") == 0) {
        rc = self_test(&x);
    } else {
        if (strcmp(argv[3], "full") == 0)
            full_matrix(&x);
        else
            quick_matrix(&x);
        printf("%d runs of %d tokens, %d different\n", x.n_runs, x.n, x.n_different);
        rc = x.n_different ? 1 : 0;
    }
    free(base);
    free(tokens);
    for (int i = 0; i < x.n_loras; i++)
        hasten_lora_close((struct hasten_lora *)(uintptr_t)x.loras[i].lora);
    hasten_model_close(m);
    return rc;
}
