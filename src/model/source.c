/* Opening a model wherever it comes from (source.h). Owns the choice between file and folder. */
#include "model/source.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/hf.h"
#include <string.h>

/* A build without packages has no JSON, so no folders. */
static hasten_status open_folder(const char *path, struct gguf **out, struct hasten_error *err)
{
#ifdef HASTEN_WITHOUT_PACKAGES
    *out = NULL;
    return error_set(err, HASTEN_ERR_UNSUPPORTED,
                     "%s: model folders are unsupported in this build (expected a GGUF file)", path);
#else
    return hf_source_open(path, out, err);
#endif
}

/* The weights of a model folder stand for it: config.json lies beside them. */
static bool is_folder_weights(const char *path, const char *slash)
{
    return slash && strcmp(slash + 1, "model.safetensors") == 0 && file_exists(path);
}

hasten_status source_open(const char *path, struct gguf **out, struct hasten_error *err)
{
    const char *slash = strrchr(path, '/');
    *out = NULL;
    if (file_kind(path) == FILE_FOLDER)
        return open_folder(path, out, err);
    if (!is_folder_weights(path, slash))
        return gguf_open(path, out, err);
    char *folder = mem_strndup(path, (size_t)(slash - path));
    if (!folder)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", path);
    const hasten_status st = open_folder(folder[0] ? folder : "/", out, err);
    mem_free(folder);
    return st;
}

hasten_status source_vocab(const struct gguf *g, struct vocab **out, struct hasten_error *err)
{
#ifndef HASTEN_WITHOUT_PACKAGES
    if (!gguf_version(g))
        return hf_source_vocab(g, out, err);
    if (gguf_find(g, "tokenizer.ggml.model") < 0 && gguf_find(g, "tokenizer.huggingface.json") >= 0)
        return hf_keys_vocab(g, out, err);
#endif
    return vocab_open(g, out, err);
}

hasten_status source_tokenizer(const struct gguf *g, int64_t n_rows, struct gguf **out,
                               struct hasten_error *err)
{
    *out = NULL;
#ifndef HASTEN_WITHOUT_PACKAGES
    if (!gguf_version(g))
        return hf_source_tokenizer(g, n_rows, out, err);
#else
    (void)g;
    (void)n_rows;
    (void)err;
#endif
    return HASTEN_OK;
}
