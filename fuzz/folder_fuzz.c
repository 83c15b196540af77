/* Fuzz target of model folders: config.json, a NUL, and the bytes of model.safetensors. What maps is what GGUF files hold,
 * and the families read it: the layers that come of it lie inside the file. */
#include "base/mem.h"
#include "fuzz.h"
#include "model/hf.h"
#include "model/model.h"

static hasten_status map_folder(struct hf_folder *f, struct gguf **g, struct hasten_error *err)
{
    struct gguf_compose *c = gguf_compose_open("fuzz");
    check(c != NULL);
    hasten_status st = hf_write_keys(f, c, err);
    if (!st)
        st = hf_write_tensors(f, c, err);
    if (!st)
        st = gguf_compose_finish(c, NULL, NULL, g, err);
    gguf_compose_close(c);
    return st;
}

static void describe(const struct gguf *g)
{
    struct model_desc d = {0};
    struct hasten_error err = {0};
    const hasten_status st = model_map(g, &d, &err);
    check_error(st, &err);
    if (!st)
        model_unmap(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hasten_error err = {0};
    struct safetensors *shard = NULL;
    struct gguf *g = NULL;
    json_t *config = NULL;
    const struct part text = next_part(&data, &size);
    uint8_t *copy = mem_aligned(size + 1);
    check(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    if (!json_parse("config.json", text.text, text.len, &config, &err) && json_is_object(config) &&
        !st_open_memory(copy, size, "model.safetensors", &shard, &err)) {
        struct hf_folder *f = mem_calloc(1, sizeof *f);
        check(f && (f->path = mem_strndup("fuzz", 4)) && (f->shards = mem_array(1, sizeof *f->shards)));
        f->config = config;
        f->shards[0] = shard;
        f->n_shards = 1;
        config = NULL;
        const hasten_status st = map_folder(f, &g, &err);
        check_error(st, &err);
        if (!st)
            describe(g);
        gguf_close(g);
        hf_folder_close(f);
    }
    json_decref(config);
    mem_free(copy);
    return 0;
}
