/* The writer of GGUF files (gguf_write.h). The layout is that of the specification, as gguf_parse.c reads it.
 *
 * Does not: know what the keys mean, or encode values into blocks. */
#include "formats/gguf_write.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include <string.h>

#define GGUF_VERSION 3
#define DEFAULT_ALIGNMENT 32

struct gguf_write {
    struct buf path, part;    /* final name, name while writing */
    struct buf keys, records; /* as they stand in the file */
    struct buf ends;          /* uint64_t per tensor: its end in the data section, before padding */
    uint64_t n_keys, n_tensors, alignment;
    uint64_t data_bytes;   /* of all tensors, padded */
    uint64_t done;         /* bytes of the data section written */
    uint64_t tensor;       /* the one whose data come next */
    uint64_t header_bytes; /* padded */
    struct file *file;
    bool exists;           /* the part file is there */
    hasten_status trouble; /* remembered until begin */
    struct hasten_error why;
};

static hasten_status no_memory(const struct gguf_write *w, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "writing %s: out of memory", w->path.data);
}

hasten_status gguf_write_open(const char *path, uint32_t alignment, struct gguf_write **out,
                              struct hasten_error *err)
{
    *out = NULL;
    if (alignment < 8 || alignment > 65536 || (alignment & (alignment - 1)))
        return error_set(err, HASTEN_ERR_USAGE,
                         "writing %s: alignment %u (expected a power of two from 8 to 65536)", path,
                         alignment);
    struct gguf_write *w = mem_calloc(1, sizeof *w);
    if (!w || buf_puts(&w->path, path)) {
        gguf_write_close(w);
        return error_set(err, HASTEN_ERR_MEMORY, "writing %s: out of memory", path);
    }
    w->alignment = alignment;
    if (alignment != DEFAULT_ALIGNMENT)
        gguf_write_u32(w, "general.alignment", alignment);
    *out = w;
    return HASTEN_OK;
}

void gguf_write_close(struct gguf_write *w)
{
    if (!w)
        return;
    file_close(w->file);
    if (w->exists)
        file_unlink(w->part.data, NULL);
    buf_free(&w->path);
    buf_free(&w->part);
    buf_free(&w->keys);
    buf_free(&w->records);
    buf_free(&w->ends);
    mem_free(w);
}

/* ---- keys -------------------------------------------------------------------------------------------------- */

static void remember(struct gguf_write *w, hasten_status status, const char *what)
{
    if (w->trouble == HASTEN_OK)
        w->trouble = error_set(&w->why, status, "writing %s: %s", w->path.data, what);
}

/* A little-endian number of `bytes` bytes. */
static void put_number(struct gguf_write *w, struct buf *b, uint64_t v, int bytes)
{
    uint8_t le[8];
    for (int i = 0; i < bytes; i++)
        le[i] = (uint8_t)(v >> (8 * i) & 0xff);
    if (buf_put(b, le, (size_t)bytes))
        remember(w, HASTEN_ERR_MEMORY, "out of memory for the header");
}

static void put_string(struct gguf_write *w, struct buf *b, const char *s)
{
    const size_t len = strlen(s);
    put_number(w, b, len, 8);
    if (buf_put(b, s, len))
        remember(w, HASTEN_ERR_MEMORY, "out of memory for the header");
}

static void put_key(struct gguf_write *w, const char *key)
{
    if (*key == '\0' || strlen(key) > LIMIT_GGUF_KEY_BYTES)
        remember(w, HASTEN_ERR_LIMIT, "a key is empty or too long");
    if (++w->n_keys > LIMIT_GGUF_KEYS)
        remember(w, HASTEN_ERR_LIMIT, "too many keys");
    put_string(w, &w->keys, key);
}

void gguf_write_u32(struct gguf_write *w, const char *key, uint32_t value)
{
    put_key(w, key);
    put_number(w, &w->keys, GGUF_U32, 4);
    put_number(w, &w->keys, value, 4);
}

void gguf_write_str(struct gguf_write *w, const char *key, const char *value)
{
    put_key(w, key);
    put_number(w, &w->keys, GGUF_STRING, 4);
    put_string(w, &w->keys, value);
}

void gguf_write_strs(struct gguf_write *w, const char *key, const char *const *values, uint64_t n)
{
    put_key(w, key);
    put_number(w, &w->keys, GGUF_ARRAY, 4);
    put_number(w, &w->keys, GGUF_STRING, 4);
    put_number(w, &w->keys, n, 8);
    for (uint64_t i = 0; i < n; i++)
        put_string(w, &w->keys, values[i]);
}

void gguf_write_copy(struct gguf_write *w, const struct gguf *from, int64_t i)
{
    const struct gguf_str raw = gguf_value_raw(from, i);
    put_key(w, gguf_key(from, i));
    if (buf_put(&w->keys, raw.data, raw.len))
        remember(w, HASTEN_ERR_MEMORY, "out of memory for the header");
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

/* Bytes of a tensor; 0 after remembering what is wrong. */
static uint64_t tensor_bytes(struct gguf_write *w, const struct quant_type *type, int32_t n_dims,
                             const int64_t *ne)
{
    uint64_t size = (uint64_t)type->block_bytes;
    bool bad = n_dims < 1 || n_dims > 4;
    for (int32_t i = 0; i < n_dims && !bad; i++) {
        bad = ne[i] < 1 || ne[i] > LIMIT_GGUF_DIM || (i == 0 && ne[0] % type->block);
        bad = bad || checked_mul_u64(size, (uint64_t)(i == 0 ? ne[0] / type->block : ne[i]), &size);
    }
    if (bad || size > INT64_MAX) {
        remember(w, HASTEN_ERR_LIMIT, "a tensor's dimensions do not fit its type or the format");
        return 0;
    }
    return size;
}

void gguf_write_tensor(struct gguf_write *w, const char *name, const struct quant_type *type, int32_t n_dims,
                       const int64_t *ne)
{
    const uint64_t size = tensor_bytes(w, type, n_dims, ne);
    uint64_t end;
    if (*name == '\0' || strlen(name) > LIMIT_GGUF_NAME_BYTES)
        remember(w, HASTEN_ERR_LIMIT, "a tensor's name is empty or too long");
    if (++w->n_tensors > LIMIT_GGUF_TENSORS)
        remember(w, HASTEN_ERR_LIMIT, "too many tensors");
    if (w->trouble != HASTEN_OK)
        return;
    put_string(w, &w->records, name);
    put_number(w, &w->records, (uint64_t)n_dims, 4);
    for (int32_t i = 0; i < n_dims; i++)
        put_number(w, &w->records, (uint64_t)ne[i], 8);
    put_number(w, &w->records, type->id, 4);
    put_number(w, &w->records, w->data_bytes, 8);
    if (checked_add_u64(w->data_bytes, size, &end) || checked_align_u64(end, w->alignment, &w->data_bytes)) {
        remember(w, HASTEN_ERR_LIMIT, "the tensors are larger than a file can be");
        return;
    }
    if (buf_put(&w->ends, &end, sizeof end))
        remember(w, HASTEN_ERR_MEMORY, "out of memory for the header");
}

static uint64_t tensor_end(const struct gguf_write *w, uint64_t i)
{
    uint64_t end;
    memcpy(&end, w->ends.data + i * sizeof end, sizeof end);
    return end;
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static hasten_status create_part(struct gguf_write *w, struct hasten_error *err)
{
    hasten_status st = HASTEN_ERR_FILE;
    for (int i = 0; i < 8 && !w->file; i++) { /* a name that is taken is somebody else's */
        buf_clear(&w->part);
        if (buf_printf(&w->part, "%s.%016" PRIx64 ".part", w->path.data, random_seed()))
            return no_memory(w, err);
        st = file_open(w->part.data, FILE_WRITE_NEW, &w->file, err);
        if (st != HASTEN_OK && file_kind(w->part.data) == FILE_MISSING)
            break;
    }
    w->exists = w->file != NULL;
    return st;
}

static hasten_status check_room(const struct gguf_write *w, struct hasten_error *err)
{
    uint64_t room;
    hasten_status st = file_space(w->path.data, &room, err);
    if (st == HASTEN_OK && room < gguf_write_bytes(w))
        st = error_set(err, HASTEN_ERR_DISK,
                       "writing %s: %" PRIu64 " bytes free on the disk (expected %" PRIu64 ")", w->path.data,
                       room, gguf_write_bytes(w));
    return st;
}

static hasten_status write_zeros(struct gguf_write *w, uint64_t n, struct hasten_error *err)
{
    static const uint8_t zeros[4096];
    hasten_status st = HASTEN_OK;
    for (uint64_t part; n > 0 && st == HASTEN_OK; n -= part) {
        part = n < sizeof zeros ? n : sizeof zeros;
        st = file_write(w->file, zeros, (size_t)part, err);
    }
    return st;
}

hasten_status gguf_write_begin(struct gguf_write *w, struct hasten_error *err)
{
    struct buf head = {0};
    uint64_t total;
    if (w->trouble == HASTEN_OK && w->keys.len + w->records.len + 24 > LIMIT_GGUF_HEADER_BYTES)
        remember(w, HASTEN_ERR_LIMIT, "the header is larger than a reader takes");
    if (w->trouble == HASTEN_OK && buf_puts(&head, "GGUF"))
        remember(w, HASTEN_ERR_MEMORY, "out of memory for the header");
    put_number(w, &head, GGUF_VERSION, 4);
    put_number(w, &head, w->n_tensors, 8);
    put_number(w, &head, w->n_keys, 8);
    if (w->trouble == HASTEN_OK &&
        (buf_put(&head, w->keys.data, w->keys.len) || buf_put(&head, w->records.data, w->records.len)))
        remember(w, HASTEN_ERR_MEMORY, "out of memory for the header");
    if (checked_align_u64(head.len, w->alignment, &w->header_bytes) ||
        checked_add_u64(w->header_bytes, w->data_bytes, &total) || total > INT64_MAX)
        remember(w, HASTEN_ERR_LIMIT, "the file is larger than a file can be");
    hasten_status st = w->trouble;
    if (st != HASTEN_OK && err)
        *err = w->why;
    if (st == HASTEN_OK)
        st = check_room(w, err);
    if (st == HASTEN_OK)
        st = create_part(w, err);
    if (st == HASTEN_OK)
        st = file_write(w->file, head.data, head.len, err);
    if (st == HASTEN_OK)
        st = write_zeros(w, w->header_bytes - head.len, err);
    buf_free(&head);
    return st;
}

hasten_status gguf_write_data(struct gguf_write *w, const void *data, size_t size, struct hasten_error *err)
{
    const uint8_t *p = data;
    while (size > 0) {
        if (w->tensor == w->n_tensors)
            return error_set(err, HASTEN_ERR_INTERNAL, "writing %s: %zu bytes behind the last tensor",
                             w->path.data, size);
        const uint64_t end = tensor_end(w, w->tensor), left = end - w->done;
        const size_t part = size < left ? size : (size_t)left;
        hasten_status st = file_write(w->file, p, part, err);
        if (st != HASTEN_OK)
            return st;
        w->done += part;
        p += part;
        size -= part;
        if (w->done < end)
            continue;
        uint64_t padded = (end + w->alignment - 1) & ~(w->alignment - 1);
        if ((st = write_zeros(w, padded - end, err)) != HASTEN_OK)
            return st;
        w->done = padded;
        w->tensor++;
    }
    return HASTEN_OK;
}

hasten_status gguf_write_finish(struct gguf_write *w, struct hasten_error *err)
{
    if (!w->file || w->tensor != w->n_tensors)
        return error_set(err, HASTEN_ERR_INTERNAL,
                         "writing %s: data of %" PRIu64 " of %" PRIu64 " tensors (expected all)",
                         w->path.data, w->tensor, w->n_tensors);
    hasten_status st = file_sync(w->file, err);
    file_close(w->file);
    w->file = NULL;
    if (st == HASTEN_OK)
        st = file_rename(w->part.data, w->path.data, err);
    if (st == HASTEN_OK)
        w->exists = false;
    return st;
}

uint64_t gguf_write_bytes(const struct gguf_write *w)
{
    return w->header_bytes + w->data_bytes;
}
