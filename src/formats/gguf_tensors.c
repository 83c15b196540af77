/* The tensor records of a GGUF file: name, dimensions, type, offset, each checked, and the place of the data.
 *
 * Every tensor's bytes lie inside the file, aligned, and in nobody else's; rows are whole blocks; sizes are
 * products that were checked. Does not look at the data, nor ask whether the type can be decoded. */
#include "base/checked.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sort.h"
#include "formats/gguf_cursor.h"

#include <inttypes.h>

static hasten_status read_dims(struct gguf_cursor *c, struct gguf_tensor *t)
{
    static const char *const fields[4] = {"dimension 0", "dimension 1", "dimension 2", "dimension 3"};
    uint32_t n_dims;
    uint64_t at = c->pos;
    hasten_status s = gguf_take_u32(c, "number of dimensions", &n_dims);
    if (s != HASTEN_OK)
        return s;
    if (n_dims < 1 || n_dims > 4)
        return gguf_refuse(c, HASTEN_ERR_FILE, at, "number of dimensions", "expected 1 to 4, found %u",
                           n_dims);
    t->n_dims = (int32_t)n_dims;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t ne = 1;
        at = c->pos;
        if (i < n_dims && (s = gguf_take_u64(c, fields[i], &ne)) != HASTEN_OK)
            return s;
        if (ne == 0)
            return gguf_refuse(c, HASTEN_ERR_FILE, at, fields[i], "expected at least 1, found 0");
        if (ne > LIMIT_GGUF_DIM)
            return gguf_refuse(c, HASTEN_ERR_LIMIT, at, fields[i], "expected at most %lld, found %" PRIu64,
                               LIMIT_GGUF_DIM, ne);
        t->ne[i] = (int64_t)ne;
    }
    return HASTEN_OK;
}

/* Type, and from it the bytes of a row and of the tensor. dims_at: where the dimensions begin. */
static hasten_status read_tensor_type(struct gguf_cursor *c, struct gguf_tensor *t, uint64_t dims_at)
{
    uint32_t id;
    uint64_t at = c->pos, row, size;
    hasten_status s = gguf_take_u32(c, "type", &id);
    if (s != HASTEN_OK)
        return s;
    t->type = quant_type_get(id);
    if (!t->type)
        return gguf_refuse(c, HASTEN_ERR_UNSUPPORTED, at, "type",
                           "expected the id of a known block format, found %u", id);
    if (t->ne[0] % t->type->block)
        return gguf_refuse(c, HASTEN_ERR_FILE, dims_at, "dimension 0",
                           "expected a multiple of %d for type %s, found %" PRId64, t->type->block,
                           t->type->name, t->ne[0]);
    if (checked_mul_u64((uint64_t)(t->ne[0] / t->type->block), (uint64_t)t->type->block_bytes, &row) ||
        checked_mul_u64(row, (uint64_t)t->ne[1], &size) || checked_mul_u64(size, (uint64_t)t->ne[2], &size) ||
        checked_mul_u64(size, (uint64_t)t->ne[3], &size) || size > INT64_MAX)
        return gguf_refuse(c, HASTEN_ERR_FILE, dims_at, "dimensions",
                           "expected a size below 2^63 bytes, found %" PRId64 " x %" PRId64 " x %" PRId64
                           " x %" PRId64 " of type %s",
                           t->ne[0], t->ne[1], t->ne[2], t->ne[3], t->type->name);
    t->row_bytes = (int64_t)row;
    t->size_bytes = size;
    return HASTEN_OK;
}

static hasten_status read_tensors(struct gguf_cursor *c, uint64_t alignment)
{
    struct gguf *g = c->g;
    c->part = GGUF_IN_TENSOR;
    for (c->item = 0; c->item < g->tensor_names.n; c->item++) {
        struct gguf_tensor *t = &g->tensors[c->item];
        c->name = NULL;
        uint64_t at = c->pos + 8;
        hasten_status s = gguf_take_name(c, "name length", "name bytes", LIMIT_GGUF_NAME_BYTES);
        if (s == HASTEN_OK)
            s = gguf_add_name(c, &g->tensor_names, at, "name");
        if (s == HASTEN_OK)
            s = read_dims(c, t);
        if (s == HASTEN_OK)
            s = read_tensor_type(c, t, c->pos - 8 * (uint64_t)t->n_dims);
        if (s != HASTEN_OK)
            return s;
        at = c->pos;
        if ((s = gguf_take_u64(c, "offset", &t->offset)) != HASTEN_OK)
            return s;
        if (t->offset % alignment)
            return gguf_refuse(c, HASTEN_ERR_FILE, at, "offset",
                               "expected a multiple of %" PRIu64 ", found %" PRIu64, alignment, t->offset);
    }
    return HASTEN_OK;
}

/* Moves each tensor's offset from the data section to the file, and checks that its data lie in the file. */
static hasten_status place_tensors(struct gguf_cursor *c, uint64_t alignment)
{
    struct gguf *g = c->g;
    uint64_t start;
    if (checked_align_u64(c->pos, alignment, &start))
        return gguf_refuse(c, HASTEN_ERR_FILE, c->pos, "padding", "expected an end below 2^64, found more");
    for (c->item = 0; c->item < g->tensor_names.n; c->item++) {
        struct gguf_tensor *t = &g->tensors[c->item];
        const struct gguf_name *name = &g->tensor_names.at[c->item];
        uint64_t begin, end;
        c->name = (const uint8_t *)name->data;
        c->name_len = name->len;
        if (checked_add_u64(start, t->offset, &begin) || checked_add_u64(begin, t->size_bytes, &end))
            return gguf_refuse(c, HASTEN_ERR_FILE, start, "data",
                               "expected an end below 2^64, found offset %" PRIu64 " and %" PRIu64 " bytes",
                               t->offset, t->size_bytes);
        if (end > g->size)
            return gguf_refuse(c, HASTEN_ERR_FILE, begin, "data",
                               "expected %" PRIu64 " bytes up to byte %" PRIu64 ", found a file of %" PRIu64
                               " bytes",
                               t->size_bytes, end, g->size);
        t->offset = begin;
        t->data = g->data + begin;
    }
    return HASTEN_OK;
}

static hasten_status check_overlaps(struct gguf_cursor *c)
{
    struct gguf *g = c->g;
    size_t n = (size_t)g->tensor_names.n;
    hasten_status s = HASTEN_OK;
    uint32_t *order = mem_array(n ? n : 1, sizeof *order);
    if (!order)
        return gguf_no_memory(c, "the order of the tensors", n * sizeof *order);
    sort_indices(order, n, &g->tensors->offset, sizeof *g->tensors);
    for (size_t i = 1; i < n && s == HASTEN_OK; i++) {
        const struct gguf_tensor *a = &g->tensors[order[i - 1]], *b = &g->tensors[order[i]];
        if (a->offset + a->size_bytes <= b->offset)
            continue;
        char quoted[GGUF_QUOTED];
        const struct gguf_name *before = &g->tensor_names.at[order[i - 1]],
                               *name = &g->tensor_names.at[order[i]];
        c->item = order[i];
        c->name = (const uint8_t *)name->data;
        c->name_len = name->len;
        s = gguf_refuse(c, HASTEN_ERR_FILE, b->offset, "data",
                        "expected a place after byte %" PRIu64 ", found an overlap with tensor %u %s",
                        a->offset + a->size_bytes, order[i - 1],
                        gguf_quote(quoted, before->data, before->len));
    }
    mem_free(order);
    return s;
}

hasten_status gguf_parse_tensors(struct gguf_cursor *c, uint64_t alignment)
{
    hasten_status s = read_tensors(c, alignment);
    if (s == HASTEN_OK)
        s = place_tensors(c, alignment);
    return s == HASTEN_OK ? check_overlaps(c) : s;
}
