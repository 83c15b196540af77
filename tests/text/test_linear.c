/* Encoding takes linear time on hostile repetitions, each a MiB, and 131,072 equal letters are nothing special. So does
 * cutting into words by every pre-tokeniser that GGUF files name: 32 KiB, and with the argument "deep" all of the
 * encoding of a MiB. */
#include "text_test.h"

#include "text/vocab_internal.h"

#include <string.h>
#include <time.h>

#define ALL_KINDS 6

static const struct text_options kinds[ALL_KINDS] = {
    {.kind = TINY_SMOLLM, .n_tokens = 600},
    {.kind = TINY_QWEN2, .n_tokens = 600},
    {.kind = TINY_GEMMA3, .n_tokens = 700},
    {.kind = TINY_GEMMA3, .n_tokens = 700, .prefix = 1},
    {.kind = TINY_GEMMA3, .n_tokens = 700, .model = TEXT_GEMMA4},
    {.kind = TINY_SMOLLM, .n_tokens = 600, .model = TEXT_BERT},
};

#ifdef HASTEN_SANITIZED
static const double slow = 12;
#else
static const double slow = 1;
#endif

static bool deep;

static void open_kind(const struct text_options *o, struct text_vocab *t)
{
    struct hasten_error err = {0};
    if (text_vocab_open(o, t, &err))
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

/* What the matchers look at: classes, and what stops them late. */
static const char *const cut_units[] = {"a",
                                        " ",
                                        "\n",
                                        " \n",
                                        "\t ",
                                        "'",
                                        "\xCC\x81",
                                        "A",
                                        "Aa",
                                        "A\xCC\x81",
                                        "\xCA\xB0",
                                        "\xCA\xB0"
                                        "A",
                                        "7",
                                        "77 ",
                                        "\xD9\xA1",
                                        "\xC2\xBD",
                                        "7\xC2\xBD",
                                        "\xE4\xBD\xA0",
                                        "\xEA\xB0\x80",
                                        "!",
                                        "=",
                                        "/",
                                        "/\n",
                                        "a a",
                                        "<sentinel:7",
                                        "IMGIMGAAAA",
                                        "\xE2\x80\xA6",
                                        "\xE3\x80\x80",
                                        "\xE2\x96\x81",
                                        "\x01",
                                        "\xE3\x80\x80\xE3\x80\x81",
                                        "'s",
                                        "\r"};

static void fill(char *text, size_t len, const char *unit)
{
    size_t m = strlen(unit);
    for (size_t i = 0; i < len; i++)
        text[i] = unit[i % m];
}

/* n -> 2n may cost 2.5 times as much at most (and slack seconds, for page faults and other processes), and twice n no
 * more than limit (more under sanitizers). */
static void check_linear(const char *name, const char *unit,
                         double (*seconds)(const struct vocab *, const char *, size_t), const struct vocab *v,
                         char *text, size_t half, double slack, double limit)
{
    double one = 0, two = 0;
    fill(text, 2 * half, unit);
    for (int attempt = 0; attempt < 4; attempt++) {
        one = seconds(v, text, half);
        two = seconds(v, text, 2 * half);
        if (two <= 2.5 * one + slack && two <= limit * slow)
            return;
    }
    fail_msg("%s, '%s' repeated: %.3f s for %zu bytes, %.3f s for twice as many", name, unit, one, half, two);
}

static void test_linear(void **state)
{
    (void)state;
    char *text = mem_alloc((size_t)1 << 20);
    for (int k = 0; k < ALL_KINDS; k++) {
        struct text_vocab t;
        const size_t half = (size_t)1 << (k < 4 || deep ? 19 : 17);
        open_kind(&kinds[k], &t);
        for (size_t u = 0; u < N_ELEMENTS(units); u++)
            check_linear(vocab_describe(t.v), units[u], encode_seconds, t.v, text, half, 0.05,
                         (double)half / (1 << 19));
        text_vocab_close(&t);
    }
    mem_free(text);
}

static double cut_seconds(const struct vocab *v, const char *text, size_t len)
{
    double best = 1e9;
    for (int i = 0; i < 2; i++) {
        struct pretok p;
        size_t start, end, done = 0;
        clock_t begin = clock();
        pretok_begin(&p, v->recipe.split, v->recipe.n_split, text, len);
        while (pretok_next(&p, &start, &end)) {
            assert_int_equal(start, done); /* no byte is lost, none is in two words */
            done = end;
        }
        double s = (double)(clock() - begin) / CLOCKS_PER_SEC;
        assert_int_equal(done, len);
        best = s < best ? s : best;
    }
    return best;
}

static void test_every_pre(void **state)
{
    (void)state;
    const size_t half = deep ? 1u << 19 : 1u << 14;
    char *text = mem_alloc(2 * half + 8);
    for (int k = 0; k < text_n_pre_names; k++) {
        struct text_options o = {.kind = TINY_SMOLLM, .n_tokens = 400, .pre = text_pre_names[k]};
        struct text_vocab t;
        open_kind(&o, &t);
        for (size_t u = 0; u < N_ELEMENTS(cut_units); u++) {
            size_t m = strlen(cut_units[u]),
                   n = half / m * m; /* whole characters: matchers want valid text */
            if (deep)
                check_linear(o.pre, cut_units[u], encode_seconds, t.v, text, n, 0.05, 1);
            else
                check_linear(o.pre, cut_units[u], cut_seconds, t.v, text, n, 0.01, 0.03125);
        }
        text_vocab_close(&t);
    }
    mem_free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear), cmocka_unit_test(test_every_pre)};
    deep = argc > 1 && strcmp(argv[1], "deep") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
