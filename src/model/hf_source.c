/* A model folder as a struct gguf, and its vocabulary (source.h). Owns the way from a folder's parts to one gguf. */
#include "model/hf.h"
#include "model/source.h"
#include <string.h>

static void close_folder(void *folder)
{
    hf_folder_close(folder);
}

hasten_status hf_source_open(const char *path, struct gguf **out, struct hasten_error *err)
{
    struct hf_folder *f = NULL;
    hasten_status st = hf_folder_open(path, &f, err);
    if (st)
        return st;
    struct gguf_compose *c = gguf_compose_open(f->path);
    if (!c)
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", path);
    if (!st)
        st = hf_write_keys(f, c, err);
    if (!st)
        st = hf_write_tensors(f, c, err);
    if (!st)
        st = gguf_compose_finish(c, f, close_folder, out, err);
    gguf_compose_close(c);
    if (st)
        hf_folder_close(f);
    return st;
}

static hasten_status slurp_optional(const char *folder, const char *name, char **data, size_t *len,
                                    struct hasten_error *err)
{
    return hf_has(folder, name) ? hf_slurp(folder, name, data, len, err) : HASTEN_OK;
}

hasten_status hf_source_vocab(const struct gguf *g, struct vocab **out, struct hasten_error *err)
{
    const char *folder = gguf_path(g);
    char *tokenizer = NULL, *config = NULL, *template = NULL;
    struct buf path = {0};
    struct vocab_json src = {0};
    hasten_status st = hf_slurp(folder, "tokenizer.json", &tokenizer, &src.tokenizer_len, err);
    if (!st)
        st = slurp_optional(folder, "tokenizer_config.json", &config, &src.config_len, err);
    if (!st)
        st = slurp_optional(folder, "chat_template.jinja", &template, &src.template_len, err);
    if (!st && buf_printf(&path, "%s/tokenizer.json", folder))
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", folder);
    src.path = path.data;
    src.tokenizer = tokenizer;
    src.config = config;
    src.template = template;
    if (!st)
        st = vocab_open_json(&src, out, err);
    buf_free(&path);
    mem_free(template);
    mem_free(config);
    mem_free(tokenizer);
    return st;
}
