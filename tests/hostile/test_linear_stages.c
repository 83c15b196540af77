/* Linear time on hostile text behind the tokenizer (which tests/text/test_linear.c tries): streams with stop strings that
 * almost match, conversations that spell control tokens, JSON, DRY on a path that repeats itself. Twice as much may take
 * 2.5 times as long, and a MiB a second.
 *
 *     test_linear_stages */
#include "base/json.h"
#include "base/mem.h"
#include "hasten/sample.h"
#include "hasten/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HALF ((size_t)1 << 16)

#ifdef HASTEN_SANITIZED
static const double slow = 12;
#else
static const double slow = 1;
#endif

static struct hasten_model *model;
static struct hasten_chat *chat;

static void must(hasten_status st, const struct hasten_error *err)
{
    if (!st)
        return;
    fprintf(stderr, "test_linear_stages: %s\n", err->message);
    exit(1);
}

static char *repeat(const char *unit, size_t len)
{
    const size_t m = strlen(unit);
    char *text = mem_alloc(len + 1);
    if (!text)
        exit(1);
    for (size_t i = 0; i < len; i++)
        text[i] = unit[i % m];
    text[len] = 0;
    return text;
}

/* ---- stages: what is done with len bytes of a unit ---- */

static void stream(const char *unit, size_t len)
{
    char stop[2][1024];
    const char *const stops[] = {stop[0], stop[1]};
    struct hasten_stream *s = NULL;
    struct hasten_bytes out = {0};
    struct hasten_error err;
    bool stopped = false;
    for (int i = 0; i < 2; i++) { /* of the unit all along, but for the last byte */
        for (size_t j = 0; j < sizeof stop[i] - 1; j++)
            stop[i][j] = unit[(j + (size_t)i) % strlen(unit)];
        stop[i][sizeof stop[i] - 2] = '#';
        stop[i][sizeof stop[i] - 1] = 0;
    }
    must(hasten_stream_open(model, stops, 2, true, &s, &err), &err);
    for (size_t i = 0; i < len && !stopped; i++)
        must(hasten_stream_push(s, (unsigned char)unit[i % strlen(unit)], &out, &stopped, &err), &err);
    must(hasten_stream_finish(s, &out, &err), &err);
    if (out.len != len)
        exit(1);
    hasten_stream_close(s);
    hasten_bytes_free(&out);
}

static void converse(const char *unit, size_t len)
{
    char *text = repeat(unit, len - len % strlen(unit)); /* whole characters */
    const struct hasten_message m = {"user", text};
    struct hasten_ids ids = {0};
    struct hasten_error err;
    must(hasten_chat_encode(chat, &m, 1, true, &ids, &err), &err);
    hasten_ids_free(&ids);
    mem_free(text);
}

static void read_json(const char *unit, size_t len)
{
    struct hasten_error err;
    json_t *v = NULL;
    const size_t whole = len - len % strlen(unit);
    char *units = repeat(unit, whole), *text = mem_alloc(whole + 4);
    if (!text)
        exit(1);
    snprintf(text, whole + 4, "[%s1]", units);
    mem_free(units);
    if (json_parse("hostile", text, strlen(text), &v, &err)) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    json_decref(v);
    mem_free(text);
}

static void choose(const char *unit, size_t len)
{
    struct hasten_sampler_settings law;
    struct hasten_sampler *s = NULL;
    struct hasten_error err;
    float row[259];
    int32_t id, *path = mem_array(len, sizeof *path);
    if (!path)
        exit(1);
    for (size_t i = 0; i < len; i++)
        path[i] = (unsigned char)unit[i % strlen(unit)];
    for (int i = 0; i < 259; i++)
        row[i] = (float)(i % 7);
    must(hasten_sampler_default_settings(model, &law, &err), &err);
    law.dry_multiplier = 1;
    law.penalty_last_n = -1;
    law.repeat_penalty = 1.1f;
    must(hasten_sampler_open(model, &law, &s, &err), &err);
    must(hasten_sampler_choose(s, row, path, (int64_t)len, &id, &err), &err);
    hasten_sampler_close(s);
    mem_free(path);
}

/* ---- the law ---- */

typedef void (*stage_fn)(const char *unit, size_t len);

static double seconds(stage_fn fn, const char *unit, size_t len)
{
    double best = 1e9;
    for (int i = 0; i < 2; i++) {
        const clock_t begin = clock(); /* processor time: other processes may run */
        fn(unit, len);
        const double s = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = s < best ? s : best;
    }
    return best;
}

static int check(const char *name, stage_fn fn, const char *unit)
{
    double one = 0, two = 0;
    for (int attempt = 0; attempt < 4; attempt++) {
        one = seconds(fn, unit, HALF);
        two = seconds(fn, unit, 2 * HALF);
        if (two <= 2.5 * one + 0.01 && two <= slow * 2 * (double)HALF / (1 << 20) + 0.01)
            return 0;
    }
    printf("%s, '%.20s' repeated: %.3f s for %zu bytes, %.3f s for twice as many\n", name, unit, one, HALF,
           two);
    return 1;
}

int main(void)
{
    static const char *const texts[] = {"a",
                                        "ab",
                                        "aab",
                                        " ",
                                        "\n",
                                        "<",
                                        "<|im_end",
                                        "<|im_end|>",
                                        "<|im_start|>",
                                        "\xC3\xA9",
                                        "{{",
                                        "{%",
                                        "\xE2\x96\x81",
                                        "'",
                                        "<|im_<|im_"};
    static const char *const elements[] = {"[],", "{},", "\"\",", "\"\\u0041\",", "1e5,", "[[[]]],"};
    static const char *const paths[] = {"a", "ab", "aaab", "abcabd", "aabaabaac"};
    struct hasten_error err;
    int failed = 0, n = 0;
    must(hasten_model_open("script:hash=1", &model, &err), &err);
    must(hasten_chat_open(model, &chat, &err), &err);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++, n += 2) {
        failed += check("stream", stream, texts[i]);
        failed += check("conversation", converse, texts[i]);
    }
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++, n++)
        failed += check("JSON", read_json, elements[i]);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++, n++)
        failed += check("DRY", choose, paths[i]);
    hasten_chat_close(chat);
    hasten_model_close(model);
    printf("%d hostile texts, %d of them not in linear time\n", n, failed);
    return failed != 0;
}
