/* Soft input: vectors in place of tokens (hasten_item.embd). The pass reads them in forward.c; here are their tags and
 * the vectors of tokens. */
#include "base/cpu.h"
#include "engine/engine.h"
#include <string.h>

/* FNV-1a over the row's 32-bit words, folded to 31 bits. */
int32_t hasten_soft_tag(const float *row, int32_t n_embd)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int32_t i = 0; i < n_embd; i++) {
        uint32_t word;
        memcpy(&word, row + i, sizeof word);
        for (int b = 0; b < 4; b++)
            h = (h ^ (word >> 8 * b & 0xff)) * 0x100000001b3u;
    }
    return -1 - (int32_t)((h ^ h >> 31) & 0x7fffffff);
}

hasten_status hasten_token_rows(const struct hasten_model *m, const int32_t *ids, int32_t n, float *out,
                                struct hasten_error *err)
{
    const struct model_desc *d = &m->desc;
    const struct kernels *k = kernels_select(cpu_features());
    if (m->script || d->encoder)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "vectors of tokens: unsupported with %s (expected a decoder with weights)",
                         m->script ? "a scripted model" : "an encoder");
    for (int32_t i = 0; i < n; i++) {
        float *x = out + (int64_t)i * d->d_model;
        if (ids[i] < 0 || ids[i] >= d->n_vocab)
            return error_set(err, HASTEN_ERR_USAGE, "vectors of tokens: found id %d (expected 0 to %d)",
                             (int)ids[i], (int)d->n_vocab - 1);
        k->row_gather(&d->token_embd, ids[i], x);
        if (d->embd_scale != 1.0f)
            k->scale(d->embd_scale, d->d_model, x);
    }
    return HASTEN_OK;
}
