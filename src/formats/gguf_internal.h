/* What the files of the GGUF reader share: the parsed tables. gguf_parse.c and gguf_tensors.c fill them by
 * way of gguf_cursor.c, gguf.c owns them and looks things up, gguf_value.c reads values. Private to them;
 * everybody else includes formats/gguf.h. */
#ifndef HASTEN_FORMATS_GGUF_INTERNAL_H
#define HASTEN_FORMATS_GGUF_INTERNAL_H
#include "formats/gguf.h"

struct gguf_name {
    const char *data; /* into the map while parsing; then a NUL-terminated copy in gguf.arena */
    uint64_t hash;
    uint32_t len;
};

/* Names in file order with a hash table over them (linear probing, at most half full). */
struct gguf_names {
    struct gguf_name *at;
    uint32_t *slots; /* index + 1; 0 is free */
    uint64_t mask;   /* number of slots - 1 */
    int64_t n;
};

struct gguf_entry {                  /* the value of one key */
    enum gguf_value_type type, elem; /* elem: of an array */
    uint64_t at;                     /* file offset of the number, the string's length, the first element */
    uint64_t begin, end;             /* file offsets of the value with what describes it: type to last byte */
    uint64_t n;                      /* elements of an array */
    uint32_t *strings;               /* array of strings: file offset of each element's length; else NULL */
};

struct gguf {
    char *path;
    char shown_path[256]; /* its end, if long: what messages print */
    const uint8_t *data;  /* the whole file */
    uint64_t size;
    bool mapped;
    uint32_t version, alignment;
    struct gguf_names key_names, tensor_names;
    struct gguf_entry *entries;  /* [key_names.n] */
    struct gguf_tensor *tensors; /* [tensor_names.n] */
    char *arena;                 /* all names, each with its NUL */
    struct gguf **shards; /* [n_shards] the other shards of a split model, owned; tensors point into them */
    int32_t n_shards;

    /* composed (gguf_compose.h): the header is memory, the tensors lie in other files */
    bool composed;
    char *header, *names;    /* owned */
    struct gguf_part *parts; /* [n_parts], owned */
    int32_t n_parts;
    void *owner; /* of the tensors' data */
    void (*close_owner)(void *);
};

/* Opens and parses one file, shard or not. */
hasten_status gguf_open_one(const char *path, struct gguf **out, struct hasten_error *err);
/* Opens the other shards when g, just parsed, is the first of a split model, and takes their tensors over. */
hasten_status gguf_join_shards(struct gguf *g, struct hasten_error *err);

/* Fills g from g->data and g->size. On failure g holds what it had allocated: call gguf_close. */
hasten_status gguf_parse(struct gguf *g, struct hasten_error *err);

/* Room for n names: 0, or -1 when out of memory. */
int gguf_names_init(struct gguf_names *names, int64_t n);
/* Makes data the name of number index. Returns -1 when done, the number of an equal name that is there
 * already, or -2 after LIMIT_GGUF_PROBES collisions. */
int64_t gguf_names_add(struct gguf_names *names, int64_t index, const char *data, size_t len);
int64_t gguf_names_find(const struct gguf_names *names, const char *data, size_t len); /* index, or -1 */

/* Bytes of a number of this type; 0 for strings, arrays and what is no type. */
uint32_t gguf_number_bytes(uint32_t type);
const char *gguf_type_name(uint32_t type); /* "u32", "string"; "?" for what is no type */

/* Bytes of the well-formed UTF-8 sequence at s (Unicode, table 3-7), or 0. len >= 1. */
size_t gguf_utf8_sequence(const uint8_t *s, size_t len);

static inline uint16_t gguf_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t gguf_load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t gguf_load_u64(const uint8_t *p)
{
    return gguf_load_u32(p) | (uint64_t)gguf_load_u32(p + 4) << 32;
}

/* Bytes from a file as printable ASCII in quotes: others as \xNN, shortened after about 60 characters. */
#define GGUF_QUOTED 80
const char *gguf_quote(char out[GGUF_QUOTED], const void *data, size_t len);

#endif
