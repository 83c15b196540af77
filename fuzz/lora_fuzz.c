/* Fuzz target of adapters: the bytes of a GGUF file, read as an adapter of a tiny model. */
#include "base/mem.h"
#include "fuzz.h"
#include "model/lora.h"
#include "tiny_model.h"
#include <math.h>

static struct hasten_model *model;

static void open_once(void)
{
    struct tiny_options o;
    struct buf b = {0};
    struct hasten_error err;
    if (model)
        return;
    check(!tiny_options_default("llama", 1, &o));
    o.n_layer = 1;
    o.type = "F32";
    check(!tiny_model_build(&o, &b));
    const struct memory_file f = memory_file(b.data, b.len);
    check(!hasten_model_open(f.path, &model, &err));
    memory_file_close(&f);
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g = NULL;
    struct hasten_lora *l = NULL;
    struct hasten_error err = {0};
    open_once();
    uint8_t *copy = mem_aligned(size + 1);
    check(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    if (!gguf_open_memory(copy, size, "fuzz.gguf", &g, &err)) {
        const hasten_status st = lora_read(model, g, &l, &err);
        check_error(st, &err);
        check(!st == (l != NULL));
        for (int32_t i = 0; !st && i < l->n_pairs; i++) {
            const struct lora_pair *p = &l->pairs[i];
            float sum = 0;
            for (int64_t j = 0; j < p->rank * p->base->k; j++)
                sum += p->a[j];
            for (int64_t j = 0; j < p->rank * p->base->n_rows; j++)
                sum += p->b[j];
            check(p->rank > 0 && isfinite(p->factor));
            (void)sum;
        }
        hasten_lora_close(l);
    }
    gguf_close(g);
    mem_free(copy);
    return 0;
}
