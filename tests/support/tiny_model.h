/* Tiny random models with the keys and tensors that real files of a family have (as read from SmolLM2,
 * Qwen2.5 and Gemma 3 files; for experts as the published converter writes them), a small real vocabulary and a short chat template. The same options and seed
 * give the same bytes on every machine. */
#ifndef HASTEN_TESTS_TINY_MODEL_H
#define HASTEN_TESTS_TINY_MODEL_H
#include "gguf_writer.h"

struct tiny_options {
    /* "llama" (SmolLM2-like; with n_expert Mixtral-like), "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "qwen3moe",
     * "gpt-oss" */
    const char *family;
    uint64_t seed;
    const char
        *type; /* of the matrices: "Q4_0" ..., or "mix" (every format whose block divides the row, in turn) */
    int32_t n_layer, d_model, n_head, n_head_kv, head_dim, d_ff, n_vocab, context, window;
    int32_t
        pattern;  /* gemma3: writes attention.sliding_window_pattern when not 0 (real files have none: 6) */
    int32_t tied; /* 1: no output.weight */
    int32_t vocab_only;       /* 1: keys and vocabulary, no tensors */
    const char *expert_type;  /* of the experts' matrices, as type */
    int32_t n_expert, n_used; /* experts of a layer, of a row; 0: dense */
    int32_t d_expert;         /* rows of an expert's gate and up */
    int32_t split_experts;    /* 1: a tensor for each expert, as older files have them */
    const char
        *rope; /* scaling: "none", "linear", "yarn", "yarn_keys" (every key of it), "llama3" (a tensor),
                       * "llama3_keys", "longrope" */
    int32_t original; /* context before scaling */
    int32_t n_rot;    /* values rotated per head; 0: all */
    int32_t biases;   /* 1: on every matrix of a dense layer */
};

/* Defaults of a family: 3 layers × 64, 4/2 heads of 16 (llama; qwen2 with separate head and biases); 7
 * layers × 64, 4/1 heads of 32, window 96, so that layer 5 is global (gemma3); 3 layers × 64, 4/2 heads of 32, 8
 * experts of 96, 3 used (qwen3moe); 4 layers × 64, 8/2 heads of 16, window 48, 5 experts of 64, 2 used (gpt-oss).
 * qwen3: heads of 32; gemma2: 4 layers × 64, 4/2 heads of 32, window 96 in every other layer, caps of 6 and 10; phi3: 12
 * of 16 values rotated, LongRoPE from 160 positions on. Context 4,096; types "mix". -1: no such family. */
int tiny_options_default(const char *family, uint64_t seed, struct tiny_options *out);
/* Widens d_model, d_ff and head_dim to multiples of 256, so that every matrix can be a K-quant. */
void tiny_options_widen(struct tiny_options *o);
/* Sets one option from "name=value" (names as above; "wide=1" widens). -1: no such option or value. */
int tiny_options_set(struct tiny_options *o, const char *assignment);

/* The model as a writer, so that it can be lied about. NULL: out of memory, or the type's block does not
 * divide a row. Free with gguf_writer_free. */
struct gguf_writer *tiny_model_writer(const struct tiny_options *o);
int tiny_model_build(const struct tiny_options *o, struct buf *out); /* 0, or -1 */
int tiny_model_save(const struct tiny_options *o, const char *path); /* 0, or -1 */

#endif
