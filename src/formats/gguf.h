/* Reader of GGUF files, versions 2 and 3. Maps the file, checks every number before use, copies nothing but small
 * tables. A split model is opened by its first shard and read as one: keys of the first, tensors of all.
 *
 * A gguf is immutable after gguf_open and may be read from any thread. All pointers it hands out (keys,
 * strings, tensor data) live until gguf_close. Errors name file, field, byte offset, expected and found. */
#ifndef HASTEN_FORMATS_GGUF_H
#define HASTEN_FORMATS_GGUF_H
#include "base/error.h"
#include "formats/quant.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;

enum gguf_value_type { /* values as in the GGUF specification */
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};

struct gguf_str { /* not NUL-terminated; may hold any byte */
    const char *data;
    size_t len;
};

struct gguf_tensor {
    const char *name; /* NUL-terminated */
    const struct quant_type *type;
    int32_t n_dims;              /* 1..4 */
    int64_t ne[4];               /* ne[0] is the row length (fastest); unused dims are 1 */
    const uint8_t *data;         /* into the map; alignment of the file (>= 8) */
    uint64_t size_bytes, offset; /* offset within its part */
    int32_t part;                /* the file it lies in: gguf_part_at */
    int64_t row_bytes;           /* bytes of one row of ne[0] elements */
};

/* The first shard of a split model (NAME-00001-of-0000N.gguf, key split.count above 1) opens all of them; each must
 * be there, say its own number and hold no tensor of another. Another shard is refused with the name of the first. */
hasten_status gguf_open(const char *path, struct gguf **out, struct hasten_error *err);
/* One file from memory that stays owned by the caller (fuzzing, tests); name is used in messages. */
hasten_status gguf_open_memory(const void *data, size_t size, const char *name, struct gguf **out,
                               struct hasten_error *err);
void gguf_close(struct gguf *g);

const char *gguf_path(const struct gguf *g);
uint64_t gguf_file_bytes(const struct gguf *g); /* of all parts */
uint32_t gguf_version(const struct gguf *g);    /* of the first; 0: no GGUF file (gguf_compose.h) */

/* The mapped files: one, or a split model's shards in order. */
struct gguf_part {
    const char *path;
    const uint8_t *data; /* [size] */
    uint64_t size;
    bool mapped; /* a map of a file, whose pages can be given back; else the memory of gguf_open_memory */
};
int32_t gguf_n_parts(const struct gguf *g);
struct gguf_part gguf_part_at(const struct gguf *g, int32_t i);

/* Keys, in file order. */
int64_t gguf_n_keys(const struct gguf *g);
const char *gguf_key(const struct gguf *g, int64_t i);
enum gguf_value_type gguf_key_type(const struct gguf *g, int64_t i); /* GGUF_ARRAY for arrays */
int64_t gguf_find(const struct gguf *g, const char *key);            /* index, or -1 */

/* Typed access by key. Integers of any width and sign are accepted if the value fits; floats take F32/F64.
 * Missing key: *_opt leave *out unchanged and return OK; the others return HASTEN_ERR_FILE naming the key.
 * Wrong type is always HASTEN_ERR_FILE. */
hasten_status gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, struct hasten_error *err);
hasten_status gguf_get_f32(const struct gguf *g, const char *key, float *out, struct hasten_error *err);
hasten_status gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct hasten_error *err);
hasten_status gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out,
                           struct hasten_error *err);
hasten_status gguf_opt_u32(const struct gguf *g, const char *key, uint32_t *out, struct hasten_error *err);
hasten_status gguf_opt_f32(const struct gguf *g, const char *key, float *out, struct hasten_error *err);
hasten_status gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct hasten_error *err);
hasten_status gguf_opt_str(const struct gguf *g, const char *key, struct gguf_str *out,
                           struct hasten_error *err);

/* Arrays by key: element type and count; n = 0 with OK when the key is missing (opt semantics). */
hasten_status gguf_array_info(const struct gguf *g, const char *key, enum gguf_value_type *elem, int64_t *n,
                              struct hasten_error *err);
/* Element i of an array of strings: pointers into the map. O(1). */
hasten_status gguf_array_str(const struct gguf *g, const char *key, int64_t i, struct gguf_str *out,
                             struct hasten_error *err);
/* Elements [from, from + n): the key is looked up once. */
hasten_status gguf_array_strs(const struct gguf *g, const char *key, int64_t from, int64_t n,
                              struct gguf_str *out, struct hasten_error *err);
/* Whole numeric array converted into the caller's buffer of n elements (n must equal the count). */
hasten_status gguf_array_f32(const struct gguf *g, const char *key, float *out, int64_t n,
                             struct hasten_error *err);
hasten_status gguf_array_i32(const struct gguf *g, const char *key, int32_t *out, int64_t n,
                             struct hasten_error *err);

/* Value of key i, for readers that do not know the key: a scalar, or element `element` of an array (which must
 * exist; arrays of arrays have none). Whole numbers are sign and magnitude, so that every u64 and i64 fits. */
struct gguf_value {
    enum gguf_value_type type;
    bool boolean, negative;
    uint64_t magnitude;
    double real;         /* GGUF_F32, GGUF_F64 */
    struct gguf_str str; /* into the map */
};
void gguf_value_at(const struct gguf *g, int64_t i, int64_t element, struct gguf_value *out);
/* Element type and count of key i; GGUF_ARRAY's n, else 1. */
enum gguf_value_type gguf_value_elements(const struct gguf *g, int64_t i, int64_t *n);
const char *gguf_value_type_name(enum gguf_value_type type); /* "u32", "string", "array" */
/* Value i as it stands in the file, its type included: what a writer copies. Pointer into the map. */
struct gguf_str gguf_value_raw(const struct gguf *g, int64_t i);
/* The alignment of tensor data. */
uint32_t gguf_alignment(const struct gguf *g);

/* Writes "value" as JSON-ish text for display (arrays shortened to their first elements). */
void gguf_value_text(const struct gguf *g, int64_t i, char *out, size_t out_size);

/* Tensors, in file order. */
int64_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int64_t i);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name); /* NULL if absent; O(1) */

#endif
