/* Fuzz target of a file and a prompt together: the length of the file (u32, little endian), the file, a prompt. A file that
 * opens as a model is planned, and if it is small the prompt is encoded and goes through the forward pass twice: whole,
 * and token by token. Both give the same bits, or the same refusal. */
#include "base/mem.h"
#include "fuzz.h"
#include "hasten/text.h"

#define MOST_TOKENS 12

struct row {
    float *v;
    int32_t n;
};

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    struct row *r = ctx;
    (void)rows;
    memcpy(r->v, logits + (int64_t)(n_rows - 1) * n_vocab, (size_t)n_vocab * sizeof *logits);
    r->n = n_vocab;
    return 0;
}

static void run(struct hasten_engine *e, const int32_t *ids, int32_t n, int32_t at_once, struct row *out)
{
    struct hasten_seq *s = NULL;
    struct hasten_error err = {0};
    check(!hasten_seq_open(e, &s, &err));
    for (int32_t i = 0; i < n; i += at_once) {
        const int32_t some = n - i < at_once ? n - i : at_once;
        const struct hasten_item item = {.seq = s, .tokens = ids + i, .n = some, .want_from = some - 1};
        const hasten_status st = hasten_step(e, &item, 1, keep, out, NULL, &err);
        check_error(st, &err);
        if (st)
            out->n = -(int32_t)st;
        if (st)
            break;
    }
    hasten_seq_close(s);
}

static void answer(const struct hasten_model *m, const char *prompt, size_t len)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_plan plan;
    struct hasten_ids ids = {0};
    struct hasten_error err = {0};
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = 32;
    s.n_batch = 16;
    s.plain = true; /* plain C: the sanitizers see it */
    s.memory_limit = 64u << 20;
    hasten_status st = hasten_engine_plan(m, &s, &plan, &err);
    check_error(st, &err);
    if (st || hasten_model_n_vocab(m) > 4096)
        return;
    st = hasten_tokenize(m, prompt, len, HASTEN_TEXT_BOS, &ids, &err);
    check_error(st, &err);
    if (!st && !hasten_engine_open(m, &s, &e, &err)) {
        const int32_t n = ids.n < MOST_TOKENS ? (int32_t)ids.n : MOST_TOKENS;
        const size_t bytes = (size_t)hasten_model_n_vocab(m) * sizeof(float);
        struct row a = {mem_calloc(1, bytes), 0}, b = {mem_calloc(1, bytes), 0};
        check(a.v && b.v);
        run(e, ids.ids, n, n ? n : 1, &a);
        run(e, ids.ids, n, 1, &b);
        check(a.n == b.n && memcmp(a.v, b.v, bytes) == 0);
        mem_free(a.v);
        mem_free(b.v);
    }
    hasten_engine_close(e);
    hasten_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    size_t n = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24;
    n = n < size - 4 ? n : size - 4;
    const struct memory_file f = memory_file(data + 4, n);
    struct hasten_model *m = NULL;
    struct hasten_error err = {0};
    const hasten_status st = hasten_model_open(f.path, &m, &err);
    check_error(st, &err);
    if (!st && !hasten_model_is_encoder(m))
        answer(m, (const char *)data + 4 + n, size - 4 - n);
    hasten_model_close(m);
    memory_file_close(&f);
    return 0;
}
