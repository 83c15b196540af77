/* A model folder in the manner of Hugging Face, while it is put into GGUF's terms. hf_folder.c opens the files,
 * hf_keys.c maps config.json to keys, hf_names.c maps tensors to names; source.c puts them together. Private to them. */
#ifndef HASTEN_MODEL_HF_H
#define HASTEN_MODEL_HF_H
#include "text/vocab.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/gguf_compose.h"
#include "formats/safetensors.h"

/* How an architecture names its norms, and what its weights mean. */
enum hf_style {
    HF_LLAMA = 1,
    HF_GEMMA = 2, /* norms before and after; their weights are to be increased by 1 */
    HF_BERT = 4
};

/* An architecture of config.json and the family that it belongs to. */
struct hf_arch {
    const char *hf, *family; /* "LlamaForCausalLM", "llama" */
    enum hf_style style;
    const char *act;   /* the activation that the family computes */
    double rope_theta; /* where config.json does not say */
    bool window;       /* config.json's sliding_window holds for the family's local layers */
    bool experts;      /* num_experts or num_local_experts */
};

struct hf_folder {
    char *path;
    json_t *config; /* config.json */
    const struct hf_arch *arch;
    struct safetensors **shards; /* [n_shards] */
    int32_t n_shards;
    bool tied;    /* the head is the embedding */
    void **owned; /* [n_owned] tensors that had to be changed */
    int32_t n_owned;
};

/* Opens config.json and the tensors' files. */
hasten_status hf_folder_open(const char *path, struct hf_folder **out, struct hasten_error *err);
void hf_folder_close(struct hf_folder *f); /* NULL is fine */
/* "FOLDER/name" read whole, NUL-terminated. */
hasten_status hf_slurp(const char *folder, const char *name, char **data, size_t *len,
                       struct hasten_error *err);
bool hf_has(const char *folder, const char *name);
/* Memory that lives as long as the folder; 64-byte aligned. */
void *hf_own(struct hf_folder *f, size_t bytes);

/* Finds the architecture and writes the keys. */
hasten_status hf_write_keys(struct hf_folder *f, struct gguf_compose *c, struct hasten_error *err);
/* Enters the tensors under their names. */
hasten_status hf_write_tensors(struct hf_folder *f, struct gguf_compose *c, struct hasten_error *err);

/* source_open and source_vocab of a folder (hf_source.c). */
hasten_status hf_source_open(const char *path, struct gguf **out, struct hasten_error *err);
hasten_status hf_source_vocab(const struct gguf *g, struct vocab **out, struct hasten_error *err);
/* source_tokenizer of a folder, and the vocabulary of a GGUF file that holds a tokenizer.json. */
hasten_status hf_source_tokenizer(const struct gguf *g, int64_t n_rows, struct gguf **out,
                                  struct hasten_error *err);
hasten_status hf_keys_vocab(const struct gguf *g, struct vocab **out, struct hasten_error *err);

#endif
