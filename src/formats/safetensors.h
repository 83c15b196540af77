/* Reader of safetensors files: a table of named arrays, mapped in place.
 *
 * Layout (github.com/huggingface/safetensors, "Format"): the header's length as u64, the header, a JSON object of
 * NAME: {"dtype", "shape", "data_offsets": [begin, end]} and at most one "__metadata__" of strings, then the data,
 * which the tensors fill without hole or overlap. Everything is checked before use; errors name file and tensor.
 *
 * Immutable after st_open, readable from any thread. What it hands out lives until st_close. */
#ifndef HASTEN_FORMATS_SAFETENSORS_H
#define HASTEN_FORMATS_SAFETENSORS_H
#include "base/error.h"
#include "base/limits.h"
#include "formats/quant.h"
#include <stddef.h>
#include <stdint.h>

struct safetensors;

struct st_tensor {
    const char *name;
    const char *dtype;             /* as written: "F32" */
    const struct quant_type *type; /* F32, F16, BF16; NULL: a type that no weight may have */
    int32_t n_dims;                /* 0: a scalar */
    int64_t shape[LIMIT_ST_DIMS];  /* the last one varies fastest */
    const uint8_t *data;           /* into the map; of any alignment */
    uint64_t size_bytes, offset;   /* offset within the file */
};

hasten_status st_open(const char *path, struct safetensors **out, struct hasten_error *err);
/* The same from memory that stays owned by the caller; name is used in messages. */
hasten_status st_open_memory(const void *data, size_t size, const char *name, struct safetensors **out,
                             struct hasten_error *err);
void st_close(struct safetensors *s); /* NULL is fine */

const char *st_path(const struct safetensors *s);
uint64_t st_file_bytes(const struct safetensors *s);
const uint8_t *st_bytes(const struct safetensors *s); /* the whole file */
int64_t st_n_tensors(const struct safetensors *s);
const struct st_tensor *st_tensor_at(const struct safetensors *s, int64_t i); /* in the order of their data */

#endif
