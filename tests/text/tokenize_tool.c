/* What the Python tests drive: tokenizer and detokenizer over pipes.
 *
 * tokenize_tool MODEL.gguf encode FLAGS: records on stdin, each a u32 length (little endian) and that many bytes;
 * for each, on stdout, a u32 count and that many i32 ids, then a u32 length and the bytes of their decoding
 * (special when FLAGS has VOCAB_SPECIAL). A failure ends it with the message on stderr.
 * tokenize_tool MODEL.gguf open: prints "description size bos eos milliseconds" or the error, exit 1. */
#include "base/clock.h"
#include "text/vocab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct hasten_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

static int encode_records(const struct vocab *v, unsigned flags)
{
    struct hasten_error err;
    uint32_t len, n;
    while (fread(&len, sizeof len, 1, stdin) == 1) {
        char *text = malloc(len + 1);
        if (!text || fread(text, 1, len, stdin) != len) {
            free(text);
            fputs("record cut short\n", stderr);
            return 1;
        }
        struct tokens ids = {0};
        struct buf back = {0};
        if (vocab_encode(v, text, len, flags, &ids, &err) ||
            vocab_decode(v, ids.ids, ids.n, flags & VOCAB_SPECIAL, &back, &err)) {
            free(text);
            return fail(&err);
        }
        n = (uint32_t)ids.n;
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(ids.ids, sizeof *ids.ids, (size_t)ids.n, stdout);
        n = (uint32_t)back.len;
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(back.data, 1, back.len, stdout);
        tokens_free(&ids);
        buf_free(&back);
        free(text);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct hasten_error err;
    struct gguf *g;
    struct vocab *v;
    if (argc < 3) {
        fputs("usage: tokenize_tool MODEL.gguf encode FLAGS | open\n", stderr);
        return 2;
    }
    if (gguf_open(argv[1], &g, &err))
        return fail(&err);
    uint64_t start = clock_now_ns();
    if (vocab_open(g, &v, &err)) {
        gguf_close(g);
        return fail(&err);
    }
    double ms = (double)(clock_now_ns() - start) / 1e6;
    int rc = 0;
    if (strcmp(argv[2], "open") == 0)
        printf("%s %d %d %d %.1f\n", vocab_describe(v), vocab_size(v), vocab_bos(v), vocab_eos(v), ms);
    else
        rc = encode_records(v, argc > 3 ? (unsigned)atoi(argv[3]) : 0);
    vocab_close(v);
    gguf_close(g);
    return rc;
}
