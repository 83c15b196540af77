/* A writer of small GGUF files for tests, with a hook to lie.
 *
 * Every byte it writes belongs to a named field, and every field can be lied about when the file is built:
 *   magic version n_tensors n_keys
 *   key[I].length key[I].bytes key[I].type
 *     number or bool:  key[I].value
 *     string:          key[I].string_length key[I].string_bytes
 *     array:           key[I].elem_type key[I].array_length key[I].elems        (numbers: all in one field)
 *     array of str:    key[I].elem_type key[I].array_length key[I].elem[J].length key[I].elem[J].bytes
 *     raw payload:     key[I].raw
 *   tensor[I].name_length tensor[I].name tensor[I].n_dims tensor[I].ne[J] tensor[I].type tensor[I].offset
 *   padding tensor[I].data tensor[I].padding
 * I counts from 0 in order of adding. Counts, lengths, offsets and padding are honest unless lied about; a
 * lie that changes a length moves what follows, and the padding is computed for where things really are.
 *
 * A failed allocation or a name that does not fit is remembered; build and save then return -1. */
#ifndef HASTEN_TESTS_GGUF_WRITER_H
#define HASTEN_TESTS_GGUF_WRITER_H
#include "base/mem.h"
#include "formats/gguf.h"

struct gguf_writer;

enum gguf_lie_kind {
    LIE_VALUE, /* the field's bytes become `value`, little-endian, as wide as the field (8 at most) */
    LIE_ADD,   /* `value` is added to the honest number, wrapping at its width */
    LIE_BYTES, /* the field becomes bytes[0..len), of any length */
    LIE_FLIP,  /* byte number `len` of the field is xored with `value` */
    LIE_CUT,   /* the file ends `len` bytes into the field */
    LIE_TWICE  /* the field is written twice */
};

struct gguf_lie {
    const char *field;
    enum gguf_lie_kind kind;
    uint64_t value;
    const void *bytes;
    size_t len;
};

struct gguf_writer *gguf_writer_new(void); /* alignment 32; NULL when out of memory */
void gguf_writer_free(struct gguf_writer *w);

/* Writes the key general.alignment and aligns the data by it (a power of two). Call before adding tensors. */
void gguf_writer_alignment(struct gguf_writer *w, uint32_t alignment);

void gguf_writer_number(struct gguf_writer *w, const char *key, enum gguf_value_type type, uint64_t bits);
void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float value);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_writer_str(struct gguf_writer *w, const char *key, const char *value);
void gguf_writer_strn(struct gguf_writer *w, const char *key, const char *value, size_t len);
/* Numbers as they lie in memory (little-endian machine). */
void gguf_writer_array(struct gguf_writer *w, const char *key, enum gguf_value_type elem, const void *elems,
                       uint64_t n);
void gguf_writer_strs(struct gguf_writer *w, const char *key, const struct gguf_str *strs, uint64_t n);
/* Any payload under any type: what the calls above cannot say (nested arrays, for one). */
void gguf_writer_raw(struct gguf_writer *w, const char *key, uint32_t type, const void *payload, size_t len);

/* Copies size bytes of data; NULL writes zeros. ne[n_dims], ne[0] the row length. */
void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                        const uint64_t *ne, const void *data, size_t size);

uint64_t gguf_writer_n_keys(const struct gguf_writer *w);
uint64_t gguf_writer_n_tensors(const struct gguf_writer *w);

/* The whole file into out (cleared first). 0, or -1: out of memory, or a lie about a field that is not
 * there. At most 64 lies. */
int gguf_writer_build(struct gguf_writer *w, const struct gguf_lie *lies, size_t n_lies, struct buf *out);
/* The same into a file, replacing it. */
int gguf_writer_save(struct gguf_writer *w, const struct gguf_lie *lies, size_t n_lies, const char *path);

/* Calls fn for each field of the honest file, in order. */
typedef void (*gguf_field_fn)(void *ctx, const char *field, uint64_t offset, uint64_t len);
int gguf_writer_fields(struct gguf_writer *w, gguf_field_fn fn, void *ctx);

#endif
