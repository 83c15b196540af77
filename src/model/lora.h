/* Low-rank adapters (LoRA, Hu et al., arXiv:2106.09685) as GGUF files hold them: general.type "adapter",
 * adapter.type "lora", adapter.lora.alpha, and for a matrix NAME of the base model NAME.lora_a [rank × k] and
 * NAME.lora_b [n_rows × rank] (layout of llama.cpp's src/llama-adapter.cpp). What an adapter adds to y = W x is
 * alpha / rank * B (A x); an alpha of 0, or none, stands for alpha = rank.
 *
 * Owns the decoded matrices (F32, whatever the file holds) and to which matrices of a model they belong. Does not
 * multiply: engine/overlay.c. */
#ifndef HASTEN_MODEL_LORA_H
#define HASTEN_MODEL_LORA_H
#include "model/loaded.h"

/* A matrix that is adapted. Rows of one tensor may be several matrices (phi3's attn_qkv): then they share a. */
struct lora_pair {
    const struct weight *base; /* in model->desc: a layer's, or the output */
    const float *a, *b;        /* [rank × base->k], [base->n_rows × rank] */
    int32_t rank;
    float factor; /* alpha / rank */
};

struct hasten_lora {
    const struct hasten_model *model;
    struct lora_pair *pairs; /* [n_pairs], owned */
    float **values;          /* [n_values] owned: decoded tensors */
    int32_t n_pairs, cap_pairs, n_values, cap_values;
};

/* The same from memory (tests, fuzzing): g is read and not kept. */
hasten_status lora_read(const struct hasten_model *m, const struct gguf *g, struct hasten_lora **out,
                        struct hasten_error *err);

#endif
