/* Where a model comes from: a GGUF file, or a folder as Hugging Face models are published. Both become a struct gguf:
 * a folder's configuration is put into GGUF's keys and its tensors get GGUF's names (hf_keys.c, hf_names.c), so that
 * everything that reads models reads one thing.
 *
 * What stays different is told by keys: hasten.rope_halves is true where rows of q and k lie for RoPE on halves, as in
 * a folder they always do. */
#ifndef HASTEN_MODEL_SOURCE_H
#define HASTEN_MODEL_SOURCE_H
#include "formats/gguf.h"
#include "text/vocab.h"

/* path: a GGUF file (gguf_open), or a folder (or the model.safetensors in it) with config.json and model.safetensors, or with
 * model.safetensors.index.json and the files it names. HASTEN_ERR_UNSUPPORTED for an architecture, a configuration or
 * a type of tensor that Hasten does not know, by name. */
hasten_status source_open(const char *path, struct gguf **out, struct hasten_error *err);
/* Its vocabulary: from the file, or from the folder's tokenizer.json. g must outlive it. */
hasten_status source_vocab(const struct gguf *g, struct vocab **out, struct hasten_error *err);
/* What a GGUF file of a folder's model must have beside the keys of g: its tokenizer, as tokenizer.ggml.* where these can
 * say it, else as tokenizer.huggingface.json (and hasten.tokenizer_config), which source_vocab reads too; n_rows: of the
 * embeddings. *out is NULL when g is a GGUF file. */
hasten_status source_tokenizer(const struct gguf *g, int64_t n_rows, struct gguf **out,
                               struct hasten_error *err);

#endif
