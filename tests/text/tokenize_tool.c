/* What the Python tests drive: tokenizer and detokenizer over pipes. MODEL: a GGUF file, or a tokenizer.json (with
 * the tokenizer_config.json beside it).
 *
 * tokenize_tool MODEL encode FLAGS: records on stdin, each a u32 length (little endian) and that many bytes;
 * for each, on stdout, a u32 count and that many i32 ids, then a u32 length and the bytes of their decoding
 * (special when FLAGS has VOCAB_SPECIAL). A failure ends it with the message on stderr.
 * tokenize_tool MODEL words: for each record the number of words that the pre-tokeniser cuts it into (nothing
 * normalised), and where each begins and ends.
 * tokenize_tool MODEL open: prints "description size bos eos milliseconds" or the error, exit 1. */
#include "base/clock.h"
#include "text/vocab_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct hasten_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

/* The next record, or NULL. */
static char *read_record(uint32_t *len)
{
    char *text = NULL;
    if (fread(len, sizeof *len, 1, stdin) != 1)
        return NULL;
    text = malloc(*len + 1);
    if (!text || fread(text, 1, *len, stdin) != *len) {
        free(text);
        fputs("record cut short\n", stderr);
        exit(1);
    }
    return text;
}

static int word_records(const struct vocab *v)
{
    struct pretok p;
    uint32_t len;
    for (char *text; (text = read_record(&len)); free(text)) {
        struct buf ends = {0};
        size_t start, end;
        uint32_t n = 0;
        pretok_begin(&p, v->recipe.split, v->recipe.n_split, text, len);
        while (pretok_next(&p, &start, &end)) {
            uint32_t pair[2] = {(uint32_t)start, (uint32_t)end};
            buf_put(&ends, pair, sizeof pair);
            n++;
        }
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(ends.data, 1, ends.len, stdout);
        buf_free(&ends);
    }
    return 0;
}

static int encode_records(const struct vocab *v, unsigned flags)
{
    struct hasten_error err;
    uint32_t len, n;
    for (char *text; (text = read_record(&len)); free(text)) {
        struct tokens ids = {0};
        struct buf back = {0};
        if (vocab_encode(v, text, len, flags, &ids, &err) ||
            vocab_decode(v, ids.ids, ids.n, flags & VOCAB_SPECIAL, &back, &err))
            return fail(&err);
        n = (uint32_t)ids.n;
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(ids.ids, sizeof *ids.ids, (size_t)ids.n, stdout);
        n = (uint32_t)back.len;
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(back.data, 1, back.len, stdout);
        tokens_free(&ids);
        buf_free(&back);
    }
    return 0;
}

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    struct buf b = {0};
    char part[65536];
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_put(&b, part, n);
    if (f)
        fclose(f);
    *len = b.len;
    return b.data;
}

static hasten_status open_json(const char *path, struct vocab **v, struct hasten_error *err)
{
    char config[4096];
    struct vocab_json src = {.path = path};
    const char *slash = strrchr(path, '/');
    snprintf(config, sizeof config, "%.*stokenizer_config.json", slash ? (int)(slash + 1 - path) : 0, path);
    char *text = read_file(path, &src.tokenizer_len), *more = read_file(config, &src.config_len);
    src.tokenizer = text ? text : "";
    src.config = more;
    hasten_status st = vocab_open_json(&src, v, err);
    mem_free(text);
    mem_free(more);
    return st;
}

int main(int argc, char **argv)
{
    struct hasten_error err;
    struct gguf *g = NULL;
    struct vocab *v;
    if (argc < 3) {
        fputs("usage: tokenize_tool MODEL encode FLAGS | words | open\n", stderr);
        return 2;
    }
    size_t n = strlen(argv[1]);
    bool json = n > 5 && strcmp(argv[1] + n - 5, ".json") == 0;
    if (!json && gguf_open(argv[1], &g, &err))
        return fail(&err);
    uint64_t start = clock_now_ns();
    if (json ? open_json(argv[1], &v, &err) : vocab_open(g, &v, &err)) {
        gguf_close(g);
        return fail(&err);
    }
    double ms = (double)(clock_now_ns() - start) / 1e6;
    int rc = 0;
    if (strcmp(argv[2], "open") == 0)
        printf("%s %d %d %d %.1f\n", vocab_describe(v), vocab_size(v), vocab_bos(v), vocab_eos(v), ms);
    else if (strcmp(argv[2], "words") == 0)
        rc = word_records(v);
    else
        rc = encode_records(v, argc > 3 ? (unsigned)atoi(argv[3]) : 0);
    vocab_close(v);
    gguf_close(g);
    return rc;
}
