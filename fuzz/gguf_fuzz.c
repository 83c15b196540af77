/* Fuzz target of the GGUF reader: opens the bytes as a file and, if they open, reads every value, string and
 * tensor through the public functions. The corpus is made by tests/formats/make_corpus. */
#include "base/mem.h"
#include "formats/gguf.h"

#include <string.h>

static void read_key(const struct gguf *g, int64_t i)
{
    const char *key = gguf_key(g, i);
    enum gguf_value_type elem;
    struct hasten_error err;
    struct gguf_str s;
    char text[100];
    uint32_t u;
    float f;
    bool flag;
    int64_t n = 0;
    if (gguf_find(g, key) != i)
        __builtin_trap();
    gguf_value_text(g, i, text, sizeof text);
    gguf_value_text(g, i, text, 5);
    gguf_get_u32(g, key, &u, &err);
    gguf_get_f32(g, key, &f, &err);
    gguf_get_bool(g, key, &flag, &err);
    gguf_get_str(g, key, &s, &err);
    gguf_opt_u32(g, "absent", &u, &err);
    if (gguf_array_info(g, key, &elem, &n, &err) != HASTEN_OK || n > 4096)
        return;
    float *numbers = mem_array((size_t)n + 1, sizeof *numbers);
    if (!numbers)
        return;
    gguf_array_f32(g, key, numbers, n, &err);
    gguf_array_i32(g, key, (int32_t *)(void *)numbers, n, &err);
    mem_free(numbers);
    for (int64_t j = 0; j <= n; j++)
        gguf_array_str(g, key, j, &s, &err);
}

static void read_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
    float row[256];
    if (gguf_tensor_find(g, t->name) != t || t->size_bytes > gguf_file_bytes(g))
        __builtin_trap();
    if (t->type->decode && t->size_bytes > 0)
        t->type->decode(t->data + t->size_bytes - (uint64_t)t->type->block_bytes, t->type->block, row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    if (gguf_open_memory(data, size, "fuzz.gguf", &g, &err) != HASTEN_OK) {
        if (g || err.status == HASTEN_OK || !strstr(err.message, "fuzz.gguf"))
            __builtin_trap();
        return 0;
    }
    for (int64_t i = 0; i < gguf_n_keys(g); i++)
        read_key(g, i);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++)
        read_tensor(g, gguf_tensor_at(g, i));
    gguf_close(g);
    return 0;
}
