/* Damage of any kind: one byte of a file is another, or the file ends early, at every place. What reads it says so in one
 * sentence or works with what it finds; it leaks nothing, and afterwards the whole file answers as before. A file that was
 * cut is refused (unless only padding is missing).
 *
 *     test_damage STRIDE      every STRIDE-th byte and length of a model, an adapter and an importance matrix */
#include "base/mem.h"
#include "formats/imatrix.h"
#include "gguf_writer.h"
#include "hasten/text.h"
#include "tiny_lora.h"
#include "tiny_model.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_VOCAB_MOST 512

struct outcome {
    hasten_status status;
    bool opened;
    float row[N_VOCAB_MOST];
};

static struct hasten_model *base; /* whole: what adapters are read for */
static int64_t n_damages, n_refused, n_problems;
static char path[40];

static void problem(const char *what, const char *kind, size_t at, const char *found)
{
    n_problems++;
    printf("%s, %s at %zu: %s\n", what, kind, at, found);
}

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    (void)rows;
    if (n_vocab <= N_VOCAB_MOST)
        memcpy(ctx, logits + (int64_t)(n_rows - 1) * n_vocab, (size_t)n_vocab * sizeof *logits);
    return 0;
}

static hasten_status answer(const struct hasten_model *m, const struct hasten_lora *l, float *row,
                            struct hasten_error *err)
{
    const struct hasten_lora_use use = {l, 1};
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_seq *seq = NULL;
    struct hasten_ids ids = {0};
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = 32;
    s.n_batch = 8;
    s.memory_limit = 64u << 20;
    s.loras = l ? &use : NULL;
    s.n_loras = l != NULL;
    hasten_status st = hasten_engine_open(m, &s, &e, err);
    if (!st && !(st = hasten_seq_open(e, &seq, err)))
        st = hasten_tokenize(m, "the river <|im_end|>", 20, HASTEN_TEXT_BOS, &ids, err);
    if (!st && ids.n) {
        const int32_t n = ids.n < 8 ? (int32_t)ids.n : 8;
        const struct hasten_item item = {.seq = seq, .tokens = ids.ids, .n = n, .want_from = n - 1};
        st = hasten_step(e, &item, 1, keep, row, NULL, err);
    }
    hasten_ids_free(&ids);
    hasten_engine_close(e);
    return st;
}

/* ---- what is damaged ---- */

typedef void (*read_fn)(struct outcome *out, struct hasten_error *err);

static void read_model(struct outcome *out, struct hasten_error *err)
{
    struct hasten_model *m = NULL;
    out->status = hasten_model_open(path, &m, err);
    out->opened = !out->status;
    if (out->opened)
        out->status = answer(m, NULL, out->row, err);
    hasten_model_close(m);
}

static void read_lora(struct outcome *out, struct hasten_error *err)
{
    struct hasten_lora *l = NULL;
    out->status = hasten_lora_open(base, path, &l, err);
    out->opened = !out->status;
    if (out->opened)
        out->status = answer(base, l, out->row, err);
    hasten_lora_close(l);
}

static void read_imatrix(struct outcome *out, struct hasten_error *err)
{
    struct imatrix *m = NULL;
    out->status = imatrix_open(path, &m, err);
    out->opened = !out->status;
    if (out->opened && imatrix_n_entries(m) > 0)
        out->status = imatrix_get(m, 0, 16, 1, out->row, err);
    imatrix_close(m);
}

/* ---- every place ---- */

static void run(const char *what, const char *kind, size_t at, read_fn read, const struct buf *file,
                struct outcome *out)
{
    struct hasten_error err = {0};
    struct mem_stats before, after;
    const int fd = memfd_create("damage", 0);
    if (fd < 0 || write(fd, file->data, file->len) != (ssize_t)file->len)
        exit(1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    memset(out, 0, sizeof *out);
    mem_stats_get(&before);
    read(out, &err);
    mem_stats_get(&after);
    close(fd);
    if (before.live_bytes != after.live_bytes)
        problem(what, kind, at, "memory has leaked");
    if (out->status && (err.status != out->status || !err.message[0]))
        problem(what, kind, at, "an error without a sentence");
    if (out->status == HASTEN_ERR_INTERNAL)
        problem(what, kind, at, err.message);
    n_damages++;
    n_refused += out->status != HASTEN_OK;
}

static void damage(const char *what, read_fn read, const struct buf *file, size_t padding, size_t stride)
{
    static struct outcome whole, now;
    run(what, "nothing", 0, read, file, &whole);
    if (whole.status)
        problem(what, "nothing", 0, "the whole file is refused");
    struct buf copy = {0};
    if (buf_put(&copy, file->data, file->len))
        exit(1);
    for (size_t i = 0; i < file->len; i += stride) {
        const uint8_t change = (uint8_t)(1 + i * 37 % 255); /* never 0 */
        copy.data[i] = (char)((uint8_t)copy.data[i] ^ change);
        run(what, "another byte", i, read, &copy, &now);
        copy.data[i] = file->data[i];
    }
    for (size_t len = 0; len < file->len; len += stride) {
        copy.len = len;
        run(what, "an end", len, read, &copy, &now);
        if (now.opened && len + padding < file->len)
            problem(what, "an end", len, "was not noticed");
    }
    copy.len = file->len;
    run(what, "nothing", 0, read, &copy, &now);
    if (now.status || memcmp(&now, &whole, sizeof now))
        problem(what, "nothing", 0, "the whole file answers otherwise afterwards");
    buf_free(&copy);
}

static void build(struct gguf_writer *w, struct buf *out)
{
    if (!w || gguf_writer_build(w, NULL, 0, out)) {
        fprintf(stderr, "test_damage: cannot build a file\n");
        exit(1);
    }
    gguf_writer_free(w);
}

static struct gguf_writer *importances(void)
{
    const float sums[16] = {1, 2, 3}, count = 2;
    struct gguf_writer *w = gguf_writer_new();
    if (!w)
        return NULL;
    gguf_writer_str(w, "general.type", "imatrix");
    gguf_writer_number(w, "imatrix.chunk_count", GGUF_U32, 3);
    gguf_writer_tensor(w, "w.in_sum2", QUANT_F32, 2, (uint64_t[]){16, 1}, sums, sizeof sums);
    gguf_writer_tensor(w, "w.counts", QUANT_F32, 2, (uint64_t[]){1, 1}, &count, sizeof count);
    return w;
}

int main(int argc, char **argv)
{
    const size_t stride = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    struct tiny_options o;
    struct tiny_lora adapter = tiny_lora_default(3);
    struct buf model = {0}, lora = {0}, matrix = {0};
    struct hasten_error err = {0};
    struct gguf *g = NULL;
    if (!stride || tiny_options_default("llama", 1, &o)) {
        fprintf(stderr, "usage: test_damage STRIDE\n");
        return 1;
    }
    o.n_layer = 1;
    o.d_model = o.d_ff = 32;
    o.n_head = 2;
    o.n_head_kv = 1;
    o.n_vocab = 400;
    o.context = 64;
    o.type = "Q4_0";
    adapter.rank = 1;
    adapter.only = "attn_q";
    if (tiny_model_build(&o, &model) || gguf_open_memory(model.data, model.len, "model", &g, &err))
        return 1;
    build(tiny_lora_writer(g, &adapter), &lora);
    build(importances(), &matrix);
    gguf_close(g);
    const int fd = memfd_create("base", 0);
    if (fd < 0 || write(fd, model.data, model.len) != (ssize_t)model.len)
        return 1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (hasten_model_open(path, &base, &err)) {
        fprintf(stderr, "test_damage: %s\n", err.message);
        return 1;
    }
    damage("model", read_model, &model, 32, stride);
    damage("adapter", read_lora, &lora, 32, stride < 4 ? 1 : stride / 4);
    damage("importance matrix", read_imatrix, &matrix, 32, 1);
    hasten_model_close(base);
    close(fd);
    buf_free(&model);
    buf_free(&lora);
    buf_free(&matrix);
    printf("%lld damages of files of any place, %lld refused, %lld problems\n", (long long)n_damages,
           (long long)n_refused, (long long)n_problems);
    return n_problems || n_refused < n_damages / 4 ? 1 : 0;
}
