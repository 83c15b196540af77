/* Opening a model: map the file, read its description, open its vocabulary; undo in order on failure. Meanwhile a
 * thread makes the weights present, which the first step would wait for. */
#include "model/loaded.h"
#include "base/mem.h"
#include "base/prefault.h"

static hasten_status load(struct hasten_model *m, const char *path, bool ahead, struct hasten_error *err)
{
    hasten_status st;
    if ((st = gguf_open(path, &m->gguf, err)) || (st = model_map(m->gguf, &m->desc, err)))
        return st;
    if (ahead && (st = model_read_ahead(m, err)))
        return st;
    if ((st = vocab_open(m->gguf, &m->vocab, err)))
        return st;
    if (vocab_size(m->vocab) > m->desc.n_vocab)
        return error_set(
            err, HASTEN_ERR_FILE,
            "%s: tokenizer.ggml.tokens: found %d tokens (expected at most %d, the rows of token_embd.weight)",
            path, vocab_size(m->vocab), m->desc.n_vocab);
    return HASTEN_OK;
}

static hasten_status open_model(const char *path, bool ahead, struct hasten_model **out,
                                struct hasten_error *err)
{
    struct hasten_model *m = mem_calloc(1, sizeof *m);
    if (!m)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", path);
    hasten_status st = load(m, path, ahead, err);
    if (st) {
        hasten_model_close(m);
        return st;
    }
    *out = m;
    return HASTEN_OK;
}

hasten_status hasten_model_open(const char *path, struct hasten_model **out, struct hasten_error *err)
{
    return open_model(path, true, out, err);
}

hasten_status model_open_unread(const char *path, struct hasten_model **out, struct hasten_error *err)
{
    return open_model(path, false, out, err);
}

void hasten_model_close(struct hasten_model *m)
{
    if (!m)
        return;
    prefault_stop(m->ahead);
    vocab_close(m->vocab);
    model_unmap(&m->desc);
    gguf_close(m->gguf);
    mem_free(m);
}

int32_t hasten_model_n_vocab(const struct hasten_model *m)
{
    return m->desc.n_vocab;
}

int32_t hasten_model_n_ctx_train(const struct hasten_model *m)
{
    return m->desc.n_ctx_train;
}

const struct gguf *model_gguf(const struct hasten_model *m)
{
    return m->gguf;
}

const struct vocab *model_vocab(const struct hasten_model *m)
{
    return m->vocab;
}
