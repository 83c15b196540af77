/* The files of a model folder: config.json, and the tensors in one safetensors file or in the shards that an index
 * names. Owns finding and opening them and holding the index to what the shards say. Knows no architecture. */
#include "base/file.h"
#include "base/limits.h"
#include "model/hf.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define CONFIG "config.json"
#define WEIGHTS "model.safetensors"
#define INDEX "model.safetensors.index.json"

static hasten_status no_memory(const char *folder, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for its files", folder);
}

/* "folder/name", or NULL when out of memory. */
static char *join(const char *folder, const char *name)
{
    struct buf path = {0};
    if (buf_printf(&path, "%s/%s", folder, name)) {
        buf_free(&path);
        return NULL;
    }
    return path.data;
}

bool hf_has(const char *folder, const char *name)
{
    char path[PATH_MAX]; /* a longer one leads nowhere */
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && file_exists(path);
}

hasten_status hf_slurp(const char *folder, const char *name, char **data, size_t *len,
                       struct hasten_error *err)
{
    char *path = join(folder, name);
    if (!path)
        return no_memory(folder, err);
    const hasten_status st = file_slurp(path, LIMIT_JSON_BYTES, data, len, err);
    mem_free(path);
    return st;
}

static hasten_status read_json(const char *folder, const char *name, json_t **out, struct hasten_error *err)
{
    char *text = NULL, *path = join(folder, name);
    size_t len = 0;
    hasten_status st = path ? hf_slurp(folder, name, &text, &len, err) : no_memory(folder, err);
    if (!st)
        st = json_parse(path, text, len, out, err);
    if (!st && !json_is_object(*out))
        st = error_set(err, HASTEN_ERR_FILE, "%s: found JSON of another kind (expected an object)", path);
    mem_free(text);
    mem_free(path);
    return st;
}

static hasten_status open_shard(struct hf_folder *f, const char *name, struct hasten_error *err)
{
    struct safetensors **p = mem_realloc(f->shards, (size_t)(f->n_shards + 1) * sizeof(struct safetensors *));
    if (!p)
        return no_memory(f->path, err);
    f->shards = p;
    char *path = join(f->path, name);
    if (!path)
        return no_memory(f->path, err);
    const hasten_status st = st_open(path, &p[f->n_shards], err);
    mem_free(path);
    f->n_shards += !st;
    return st;
}

/* ---- an index and its shards ---- */

/* A file beside the index, and nothing else. */
static bool is_plain_name(const char *name)
{
    const size_t len = strlen(name), end = sizeof ".safetensors" - 1;
    return len > end && len < 256 && strcmp(name + len - end, ".safetensors") == 0 && name[0] != '.' &&
           !strchr(name, '/');
}

static hasten_status open_named(struct hf_folder *f, const json_t *map, json_t *seen,
                                struct hasten_error *err)
{
    const char *tensor;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, v)
    {
        const char *name = json_string_value(v);
        if (!name || !is_plain_name(name))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s/" INDEX
                             ": weight_map: tensor '%.100s': found '%.100s' (expected the name of a "
                             ".safetensors file beside it)",
                             f->path, tensor, name ? name : "no string");
        if (json_object_get(seen, name))
            continue;
        if (f->n_shards == LIMIT_ST_SHARDS)
            return error_set(err, HASTEN_ERR_LIMIT, "%s/" INDEX ": weight_map: more than %d files", f->path,
                             LIMIT_ST_SHARDS);
        const hasten_status st = open_shard(f, name, err);
        if (st) {
            error_prefix(err, "%s/" INDEX ": weight_map: tensor '%.100s'", f->path, tensor);
            return st;
        }
        if (json_object_set_new(seen, name, json_integer(f->n_shards)))
            return no_memory(f->path, err);
    }
    return HASTEN_OK;
}

/* The name that the index has for shard i. */
static const char *shard_name(const struct hf_folder *f, int32_t i)
{
    const char *path = st_path(f->shards[i]), *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Every tensor of a shard is the index's, and the other way round. */
static hasten_status check_index(const struct hf_folder *f, const json_t *map, struct hasten_error *err)
{
    size_t n = 0;
    for (int32_t i = 0; i < f->n_shards; i++)
        for (int64_t j = 0; j < st_n_tensors(f->shards[i]); j++, n++) {
            const char *tensor = st_tensor_at(f->shards[i], j)->name;
            const char *named = json_string_value(json_object_get(map, tensor));
            if (!named || strcmp(named, shard_name(f, i)) != 0)
                return error_set(err, HASTEN_ERR_FILE,
                                 "%s: tensor '%.100s': not expected here, " INDEX " has it in %s",
                                 st_path(f->shards[i]), tensor, named ? named : "no file");
        }
    if (n == json_object_size(map))
        return HASTEN_OK;
    const char *tensor;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, v)
    {
        bool found = false;
        for (int32_t i = 0; i < f->n_shards && !found; i++)
            for (int64_t j = 0; j < st_n_tensors(f->shards[i]) && !found; j++)
                found = strcmp(st_tensor_at(f->shards[i], j)->name, tensor) == 0;
        if (!found)
            return error_set(err, HASTEN_ERR_FILE,
                             "%s/%s: tensor '%.100s': missing (expected here by " INDEX ")", f->path,
                             json_string_value(v), tensor);
    }
    return HASTEN_OK;
}

static hasten_status open_index(struct hf_folder *f, struct hasten_error *err)
{
    json_t *index = NULL, *seen = json_object();
    hasten_status st = seen ? read_json(f->path, INDEX, &index, err) : no_memory(f->path, err);
    const json_t *map = json_object_get(index, "weight_map");
    if (!st &&
        (!json_is_object(map) || json_object_size(map) < 1 || json_object_size(map) > LIMIT_ST_TENSORS))
        st = error_set(err, HASTEN_ERR_FILE,
                       "%s/" INDEX ": weight_map: missing or of no use (expected 1 to %d names of tensors)",
                       f->path, LIMIT_ST_TENSORS);
    if (!st)
        st = open_named(f, map, seen, err);
    if (!st)
        st = check_index(f, map, err);
    json_decref(index);
    json_decref(seen);
    return st;
}

static hasten_status open_weights(struct hf_folder *f, struct hasten_error *err)
{
    if (hf_has(f->path, WEIGHTS))
        return open_shard(f, WEIGHTS, err);
    if (hf_has(f->path, INDEX))
        return open_index(f, err);
    const bool pickle =
        hf_has(f->path, "pytorch_model.bin") || hf_has(f->path, "pytorch_model.bin.index.json");
    return error_set(err, pickle ? HASTEN_ERR_UNSUPPORTED : HASTEN_ERR_FILE,
                     "%s: found %s (expected " WEIGHTS " or " INDEX ")", f->path,
                     pickle ? "pytorch_model.bin, which is unsupported" : "no weights");
}

/* ---- the folder ---- */

hasten_status hf_folder_open(const char *path, struct hf_folder **out, struct hasten_error *err)
{
    size_t len = strlen(path);
    struct hf_folder *f = mem_calloc(1, sizeof *f);
    *out = NULL;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (f)
        f->path = mem_strndup(path, len);
    if (!f || !f->path) {
        mem_free(f);
        return no_memory(path, err);
    }
    hasten_status st = HASTEN_OK;
    if (!hf_has(f->path, CONFIG))
        st = error_set(err, HASTEN_ERR_FILE,
                       "%s: a folder without " CONFIG " (expected a GGUF file or a model folder)", f->path);
    if (!st)
        st = read_json(f->path, CONFIG, &f->config, err);
    if (!st)
        st = open_weights(f, err);
    if (st)
        hf_folder_close(f);
    else
        *out = f;
    return st;
}

void hf_folder_close(struct hf_folder *f)
{
    if (!f)
        return;
    for (int32_t i = 0; i < f->n_shards; i++)
        st_close(f->shards[i]);
    mem_free(f->shards);
    for (int32_t i = 0; i < f->n_owned; i++)
        mem_free(f->owned[i]);
    mem_free(f->owned);
    json_decref(f->config);
    mem_free(f->path);
    mem_free(f);
}

void *hf_own(struct hf_folder *f, size_t bytes)
{
    void **p = mem_realloc(f->owned, (size_t)(f->n_owned + 1) * sizeof *p);
    if (!p)
        return NULL;
    f->owned = p;
    p[f->n_owned] = mem_aligned(bytes ? bytes : 1);
    return p[f->n_owned] ? p[f->n_owned++] : NULL;
}
