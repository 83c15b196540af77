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

/* The texts that a folder's vocabulary is read from. */
struct tokenizer_files {
    char *tokenizer, *config, *template;
    struct buf path;
    struct vocab_json src;
};

static void free_files(struct tokenizer_files *t)
{
    buf_free(&t->path);
    mem_free(t->template);
    mem_free(t->config);
    mem_free(t->tokenizer);
}

/* The caller frees, whatever the status. */
static hasten_status read_files(const char *folder, struct tokenizer_files *t, struct hasten_error *err)
{
    *t = (struct tokenizer_files){0};
    hasten_status st = hf_slurp(folder, "tokenizer.json", &t->tokenizer, &t->src.tokenizer_len, err);
    if (!st)
        st = slurp_optional(folder, "tokenizer_config.json", &t->config, &t->src.config_len, err);
    if (!st)
        st = slurp_optional(folder, "chat_template.jinja", &t->template, &t->src.template_len, err);
    if (!st && buf_printf(&t->path, "%s/tokenizer.json", folder))
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", folder);
    t->src.path = t->path.data;
    t->src.tokenizer = t->tokenizer;
    t->src.config = t->config;
    t->src.template = t->template;
    return st;
}

hasten_status hf_source_vocab(const struct gguf *g, struct vocab **out, struct hasten_error *err)
{
    struct tokenizer_files t;
    hasten_status st = read_files(gguf_path(g), &t, err);
    if (!st)
        st = vocab_open_json(&t.src, out, err);
    free_files(&t);
    return st;
}

hasten_status hf_source_tokenizer(const struct gguf *g, int64_t n_rows, struct gguf **out,
                                  struct hasten_error *err)
{
    struct tokenizer_files t;
    struct vocab *v = NULL;
    struct gguf_compose *c = gguf_compose_open(gguf_path(g));
    bool put = false;
    hasten_status st = read_files(gguf_path(g), &t, err);
    if (!st && !c)
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", gguf_path(g));
    if (!st)
        st = vocab_open_json(&t.src, &v, err);
    if (!st)
        st = vocab_put_keys(v, n_rows, c, &put, err);
    if (!st && !put) {
        gguf_compose_str(c, "tokenizer.huggingface.json", t.tokenizer, t.src.tokenizer_len);
        if (t.config)
            gguf_compose_str(c, "hasten.tokenizer_config", t.config, t.src.config_len);
    }
    const struct gguf_str template = st ? (struct gguf_str){"", 0} : vocab_chat_template(v);
    if (template.len)
        gguf_compose_str(c, "tokenizer.chat_template", template.data, template.len);
    if (!st)
        st = gguf_compose_finish(c, NULL, NULL, out, err);
    gguf_compose_close(c);
    vocab_close(v);
    free_files(&t);
    return st;
}

hasten_status hf_keys_vocab(const struct gguf *g, struct vocab **out, struct hasten_error *err)
{
    struct gguf_str tokenizer = {"", 0}, config = {NULL, 0}, template = {NULL, 0};
    hasten_status st = gguf_get_str(g, "tokenizer.huggingface.json", &tokenizer, err);
    if (!st)
        st = gguf_opt_str(g, "hasten.tokenizer_config", &config, err);
    if (!st)
        st = gguf_opt_str(g, "tokenizer.chat_template", &template, err);
    const struct vocab_json src = {.path = gguf_path(g),
                                   .tokenizer = tokenizer.data,
                                   .tokenizer_len = tokenizer.len,
                                   .config = config.data,
                                   .config_len = config.len,
                                   .template = template.data,
                                   .template_len = template.len};
    return st ? st : vocab_open_json(&src, out, err);
}
