/* Encoding takes linear time on hostile repetitions, each a MiB, and 131,072 equal letters are nothing special. */
#include "text_test.h"

#include <string.h>
#include <time.h>

#define ALL_KINDS 4

static const struct text_options kinds[ALL_KINDS] = {
    {.kind = TINY_SMOLLM, .n_tokens = 600},
    {.kind = TINY_QWEN2, .n_tokens = 600},
    {.kind = TINY_GEMMA3, .n_tokens = 700},
    {.kind = TINY_GEMMA3, .n_tokens = 700, .prefix = 1},
};

static void open_kind(int i, struct text_vocab *t)
{
    struct hasten_error err = {0};
    if (text_vocab_open(&kinds[i], t, &err))
        fail_msg("%s", err.message);
}

static double encode_seconds(const struct vocab *v, const char *text, size_t len)
{
    double best = 1e9;
    for (int i = 0; i < 2; i++) {
        struct tokens ids = {0};
        struct hasten_error err = {0};
        clock_t start = clock(); /* processor time: other processes may run */
        assert_int_equal(vocab_encode(v, text, len, 0, &ids, &err), HASTEN_OK);
        double s = (double)(clock() - start) / CLOCKS_PER_SEC;
        best = s < best ? s : best;
        tokens_free(&ids);
    }
    return best;
}

/* n -> 2n may cost 2.5 times as much at most (and 50 ms, for page faults), and a MiB a second (ten under sanitizers). */
static void test_linear(void **state)
{
    (void)state;
    static const char *const units[] = {"a",
                                        "ab",
                                        "the",
                                        " ",
                                        "\n",
                                        " \n",
                                        "\t ",
                                        "'",
                                        "\xCC\x81",
                                        "a\xCC\x81",
                                        "\xCC\x81\xCC\xA3",
                                        "\xE4\xBD\xA0",
                                        "\xFF",
                                        "<",
                                        "<|im_start|",
                                        "<|im_start|>",
                                        "7",
                                        "\xE2\x96\x81",
                                        "\xC3"};
    const size_t half = 1u << 19;
#ifdef HASTEN_SANITIZED
    const double slow = 12;
#else
    const double slow = 1;
#endif
    char *text = mem_alloc(2 * half);
    for (int k = 0; k < ALL_KINDS; k++) {
        struct text_vocab t;
        open_kind(k, &t);
        for (size_t u = 0; u < N_ELEMENTS(units); u++) {
            size_t m = strlen(units[u]);
            for (size_t i = 0; i < 2 * half; i++)
                text[i] = units[u][i % m];
            double one = 0, two = 0;
            for (int attempt = 0; attempt < 4; attempt++) { /* other processes may disturb */
                one = encode_seconds(t.v, text, half);
                two = encode_seconds(t.v, text, 2 * half);
                if (two <= 2.5 * one + 0.05 && two <= slow)
                    break;
            }
            if (two > 2.5 * one + 0.05 || two > slow)
                fail_msg("kind %d, '%s' repeated: %.3f s for half a MiB, %.3f s for one", k, units[u], one,
                         two);
        }
        text_vocab_close(&t);
    }
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
