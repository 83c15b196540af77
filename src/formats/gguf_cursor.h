/* The parser's place in a GGUF file: what it reads with, and how it says what is wrong. Private. */
#ifndef HASTEN_FORMATS_GGUF_CURSOR_H
#define HASTEN_FORMATS_GGUF_CURSOR_H
#include "formats/gguf_internal.h"

enum gguf_section {
    GGUF_IN_HEADER,
    GGUF_IN_KEY,
    GGUF_IN_TENSOR
};

struct gguf_cursor {
    struct gguf *g;
    struct hasten_error *err;
    uint64_t pos; /* next byte to read */
    enum gguf_section part;
    int64_t item;        /* number of the key or tensor that is being read, for messages */
    const uint8_t *name; /* its name once read, else NULL */
    size_t name_len;
};

/* "FILE: FIELD of key 3 "name" at byte 120: " + fmt, which says what was expected and what was found. */
hasten_status gguf_refuse(const struct gguf_cursor *c, hasten_status status, uint64_t at, const char *field,
                          const char *fmt, ...) __attribute__((format(printf, 5, 6)));
hasten_status gguf_no_memory(const struct gguf_cursor *c, const char *what, uint64_t bytes);

uint64_t gguf_bytes_left(const struct gguf_cursor *c);
/* The next n bytes lie in the file and in the part of it that a header may fill. */
hasten_status gguf_need(const struct gguf_cursor *c, uint64_t n, const char *field);
hasten_status gguf_take_u32(struct gguf_cursor *c, const char *field, uint32_t *out);
hasten_status gguf_take_u64(struct gguf_cursor *c, const char *field, uint64_t *out);
/* The name of a key or tensor: 1 to limit bytes of UTF-8 without NUL. Becomes the cursor's name. */
hasten_status gguf_take_name(struct gguf_cursor *c, const char *len_field, const char *field, uint32_t limit);
/* Enters the cursor's name as that of number c->item; an equal one is refused. */
hasten_status gguf_add_name(struct gguf_cursor *c, struct gguf_names *names, uint64_t at, const char *field);

/* The tensor records at the cursor, into g->tensors; and the place of their data. */
hasten_status gguf_parse_tensors(struct gguf_cursor *c, uint64_t alignment);

#endif
