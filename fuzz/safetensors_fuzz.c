/* Fuzz target of the safetensors reader: opens the bytes as a file and, if they open, touches the ends of every tensor.
 * The corpus is made by tests/formats/st_cases.py. */
#include "formats/safetensors.h"

#include <string.h>

static void read_tensor(const struct safetensors *s, const struct st_tensor *t)
{
    uint64_t n = 1;
    for (int32_t i = 0; i < t->n_dims; i++)
        n *= (uint64_t)t->shape[i];
    if (t->offset > st_file_bytes(s) || t->size_bytes > st_file_bytes(s) - t->offset ||
        t->data != st_bytes(s) + t->offset || !t->name[0] || (n == 0) != (t->size_bytes == 0))
        __builtin_trap();
    if (t->type && t->type->decode && t->size_bytes) {
        float v;
        if (t->size_bytes != n * (uint64_t)t->type->block_bytes)
            __builtin_trap();
        t->type->decode(t->data, 1, &v);
        t->type->decode(t->data + t->size_bytes - (uint64_t)t->type->block_bytes, 1, &v);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *s = NULL;
    struct hasten_error err = {0};
    if (st_open_memory(data, size, "fuzz.safetensors", &s, &err) != HASTEN_OK) {
        if (s || err.status == HASTEN_OK || !strstr(err.message, "fuzz.safetensors"))
            __builtin_trap();
        return 0;
    }
    uint64_t at = 0;
    for (int64_t i = 0; i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        read_tensor(s, t);
        if (t->size_bytes && t->offset < at) /* in order, apart */
            __builtin_trap();
        at = t->size_bytes ? t->offset + t->size_bytes : at;
    }
    st_close(s);
    return 0;
}
