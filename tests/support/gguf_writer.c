/* The writer of small GGUF files (gguf_writer.h says what can be lied about).
 *
 * Keys are kept as a list of finished fields, tensors as records; building walks header, keys, records and
 * data through one function, emit, which is where lies come in. */
#include "gguf_writer.h"

#include "base/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIELD_NAME 64

struct field { /* one field of a key: bytes[at, at + len) of writer.keys */
    char name[FIELD_NAME];
    size_t at, len;
};

struct tensor {
    char name[257];
    uint32_t type, n_dims;
    uint64_t ne[4];
    uint8_t *data; /* NULL: zeros */
    size_t size;
};

struct gguf_writer {
    struct buf keys, fields, tensors; /* key bytes; array of struct field; array of struct tensor */
    uint64_t n_keys, n_tensors;
    uint32_t alignment;
    bool failed;
};

struct build { /* one walk over the file */
    const struct gguf_lie *lies;
    size_t n_lies;
    uint64_t used; /* bit i: lie i met its field */
    struct buf *out;
    gguf_field_fn fn; /* instead of out: report the fields */
    void *ctx;
    uint64_t pos;
    bool cut, failed;
};

struct gguf_writer *gguf_writer_new(void)
{
    struct gguf_writer *w = mem_calloc(1, sizeof *w);
    if (w)
        w->alignment = 32;
    return w;
}

static struct tensor *tensor_at(const struct gguf_writer *w, uint64_t i)
{
    return (struct tensor *)(void *)w->tensors.data + i;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (!w)
        return;
    for (uint64_t i = 0; i < w->n_tensors; i++)
        mem_free(tensor_at(w, i)->data);
    buf_free(&w->keys);
    buf_free(&w->fields);
    buf_free(&w->tensors);
    mem_free(w);
}

/* ---- keys ---- */

/* Adds a field to the key being written. fmt makes what follows "key[I]." in its name. */
__attribute__((format(printf, 4, 5))) static void key_field(struct gguf_writer *w, const void *bytes,
                                                            size_t len, const char *fmt, ...)
{
    struct field f = {.at = w->keys.len, .len = len};
    int n = snprintf(f.name, sizeof f.name, "key[%llu].", (unsigned long long)w->n_keys);
    va_list args;
    va_start(args, fmt);
    n += vsnprintf(f.name + n, sizeof f.name - (size_t)n, fmt, args);
    va_end(args);
    if ((size_t)n >= sizeof f.name || buf_put(&w->keys, bytes, len) || buf_put(&w->fields, &f, sizeof f))
        w->failed = true;
}

static void key_head(struct gguf_writer *w, const char *key, uint32_t type)
{
    uint64_t len = strlen(key);
    key_field(w, &len, 8, "length");
    key_field(w, key, len, "bytes");
    key_field(w, &type, 4, "type");
}

void gguf_writer_number(struct gguf_writer *w, const char *key, enum gguf_value_type type, uint64_t bits)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    key_head(w, key, type);
    key_field(w, &bits, bytes[type], "value");
    w->n_keys++;
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    gguf_writer_number(w, key, GGUF_U32, value);
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    gguf_writer_number(w, key, GGUF_F32, bits);
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value)
{
    gguf_writer_number(w, key, GGUF_BOOL, value);
}

void gguf_writer_strn(struct gguf_writer *w, const char *key, const char *value, size_t len)
{
    uint64_t n = len;
    key_head(w, key, GGUF_STRING);
    key_field(w, &n, 8, "string_length");
    key_field(w, value, len, "string_bytes");
    w->n_keys++;
}

void gguf_writer_str(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_writer_strn(w, key, value, strlen(value));
}

static void array_head(struct gguf_writer *w, const char *key, uint32_t elem, uint64_t n)
{
    key_head(w, key, GGUF_ARRAY);
    key_field(w, &elem, 4, "elem_type");
    key_field(w, &n, 8, "array_length");
}

void gguf_writer_array(struct gguf_writer *w, const char *key, enum gguf_value_type elem, const void *elems,
                       uint64_t n)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    array_head(w, key, elem, n);
    key_field(w, elems, (size_t)n * bytes[elem], "elems");
    w->n_keys++;
}

void gguf_writer_strs(struct gguf_writer *w, const char *key, const struct gguf_str *strs, uint64_t n)
{
    array_head(w, key, GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t len = strs[i].len;
        key_field(w, &len, 8, "elem[%llu].length", (unsigned long long)i);
        key_field(w, strs[i].data, strs[i].len, "elem[%llu].bytes", (unsigned long long)i);
    }
    w->n_keys++;
}

void gguf_writer_raw(struct gguf_writer *w, const char *key, uint32_t type, const void *payload, size_t len)
{
    key_head(w, key, type);
    key_field(w, payload, len, "raw");
    w->n_keys++;
}

void gguf_writer_alignment(struct gguf_writer *w, uint32_t alignment)
{
    gguf_writer_u32(w, "general.alignment", alignment);
    w->alignment = alignment;
}

/* ---- tensors ---- */

void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                        const uint64_t *ne, const void *data, size_t size)
{
    struct tensor t = {.type = type, .n_dims = n_dims, .size = size};
    size_t len = strlen(name);
    if (len >= sizeof t.name || n_dims > 4) {
        w->failed = true;
        return;
    }
    memcpy(t.name, name, len + 1);
    memcpy(t.ne, ne, n_dims * sizeof *ne);
    if (data && !(t.data = mem_alloc(size ? size : 1))) {
        w->failed = true;
        return;
    }
    if (data)
        memcpy(t.data, data, size);
    if (buf_put(&w->tensors, &t, sizeof t)) {
        mem_free(t.data);
        w->failed = true;
        return;
    }
    w->n_tensors++;
}

uint64_t gguf_writer_n_keys(const struct gguf_writer *w)
{
    return w->n_keys;
}

uint64_t gguf_writer_n_tensors(const struct gguf_writer *w)
{
    return w->n_tensors;
}

/* ---- building ---- */

static void put(struct build *b, const void *bytes, size_t len)
{
    if (b->cut || b->failed)
        return;
    b->pos += len;
    if (b->out && buf_put(b->out, bytes, len))
        b->failed = true;
}

static void put_zeros(struct build *b, size_t len)
{
    static const uint8_t zeros[4096];
    for (; len > sizeof zeros; len -= sizeof zeros)
        put(b, zeros, sizeof zeros);
    put(b, zeros, len);
}

static void put_number(struct build *b, uint64_t value, size_t len)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    put(b, bytes, len < 8 ? len : 8);
    if (len > 8)
        put_zeros(b, len - 8);
}

static void put_lie(struct build *b, const struct gguf_lie *lie, const uint8_t *bytes, size_t len)
{
    uint64_t honest = 0;
    for (size_t i = 0; bytes && i < len && i < 8; i++)
        honest |= (uint64_t)bytes[i] << (8 * i);
    switch (lie->kind) {
    case LIE_VALUE:
        put_number(b, lie->value, len);
        break;
    case LIE_ADD:
        put_number(b, honest + lie->value, len);
        break;
    case LIE_BYTES:
        put(b, lie->bytes, lie->len);
        break;
    case LIE_FLIP:
        if (lie->len >= len) {
            b->failed = true;
            break;
        }
        bytes ? put(b, bytes, lie->len) : put_zeros(b, lie->len);
        put_number(b, (bytes ? bytes[lie->len] : 0) ^ lie->value, 1);
        bytes ? put(b, bytes + lie->len + 1, len - lie->len - 1) : put_zeros(b, len - lie->len - 1);
        break;
    case LIE_CUT:
        if (lie->len > len)
            b->failed = true;
        else
            bytes ? put(b, bytes, lie->len) : put_zeros(b, lie->len);
        b->cut = true;
        break;
    case LIE_TWICE:
        for (int i = 0; i < 2; i++)
            bytes ? put(b, bytes, len) : put_zeros(b, len);
        break;
    }
}

/* Writes one field (bytes NULL: zeros), or the lie about it. */
static void emit(struct build *b, const char *name, const void *bytes, size_t len)
{
    if (b->fn)
        b->fn(b->ctx, name, b->pos, len);
    for (size_t i = 0; i < b->n_lies; i++)
        if (strcmp(b->lies[i].field, name) == 0) {
            b->used |= (uint64_t)1 << i;
            put_lie(b, &b->lies[i], bytes, len);
            return;
        }
    bytes ? put(b, bytes, len) : put_zeros(b, len);
}

static void emit_tensor_field(struct build *b, uint64_t i, const char *field, const void *bytes, size_t len)
{
    char name[FIELD_NAME];
    snprintf(name, sizeof name, "tensor[%llu].%s", (unsigned long long)i, field);
    emit(b, name, bytes, len);
}

static size_t padding(uint64_t pos, uint32_t alignment)
{
    return (size_t)((alignment - pos % alignment) % alignment);
}

static void emit_records(const struct gguf_writer *w, struct build *b)
{
    uint64_t offset = 0;
    for (uint64_t i = 0; i < w->n_tensors; i++) {
        const struct tensor *t = tensor_at(w, i);
        uint64_t len = strlen(t->name);
        char field[16];
        emit_tensor_field(b, i, "name_length", &len, 8);
        emit_tensor_field(b, i, "name", t->name, len);
        emit_tensor_field(b, i, "n_dims", &t->n_dims, 4);
        for (uint32_t j = 0; j < t->n_dims; j++) {
            snprintf(field, sizeof field, "ne[%u]", j);
            emit_tensor_field(b, i, field, &t->ne[j], 8);
        }
        emit_tensor_field(b, i, "type", &t->type, 4);
        emit_tensor_field(b, i, "offset", &offset, 8);
        offset += t->size;
        offset += padding(offset, w->alignment);
    }
}

static void emit_data(const struct gguf_writer *w, struct build *b)
{
    if (w->n_tensors)
        emit(b, "padding", NULL, padding(b->pos, w->alignment));
    for (uint64_t i = 0; i < w->n_tensors; i++) {
        const struct tensor *t = tensor_at(w, i);
        emit_tensor_field(b, i, "data", t->data, t->size);
        emit_tensor_field(b, i, "padding", NULL, padding(t->size, w->alignment));
    }
}

static int walk(const struct gguf_writer *w, struct build *b)
{
    const uint32_t version = 3;
    const struct field *fields = (const struct field *)(const void *)w->fields.data;
    emit(b, "magic", "GGUF", 4);
    emit(b, "version", &version, 4);
    emit(b, "n_tensors", &w->n_tensors, 8);
    emit(b, "n_keys", &w->n_keys, 8);
    for (size_t i = 0; i < w->fields.len / sizeof *fields; i++)
        emit(b, fields[i].name, w->keys.data + fields[i].at, fields[i].len);
    emit_records(w, b);
    emit_data(w, b);
    return w->failed || b->failed || b->n_lies > 64 ||
                   b->used + 1 != (b->n_lies == 64 ? 0 : 1ull << b->n_lies)
               ? -1
               : 0;
}

int gguf_writer_build(struct gguf_writer *w, const struct gguf_lie *lies, size_t n_lies, struct buf *out)
{
    struct build b = {.lies = lies, .n_lies = n_lies, .out = out};
    buf_clear(out);
    return walk(w, &b);
}

int gguf_writer_save(struct gguf_writer *w, const struct gguf_lie *lies, size_t n_lies, const char *path)
{
    struct buf out = {0};
    struct file *f = NULL;
    int failed = gguf_writer_build(w, lies, n_lies, &out) || file_open(path, FILE_WRITE_TRUNC, &f, NULL) ||
                 file_write(f, out.data, out.len, NULL) || file_sync(f, NULL);
    file_close(f);
    buf_free(&out);
    return failed ? -1 : 0;
}

int gguf_writer_fields(struct gguf_writer *w, gguf_field_fn fn, void *ctx)
{
    struct build b = {.fn = fn, .ctx = ctx};
    return walk(w, &b);
}
