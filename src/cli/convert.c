/* Conversion of tensors (convert.h). A tensor is cut into pieces of a row; a slice of pieces is converted by all
 * workers into one buffer, then written. Errors are summed per piece and then in order of the pieces. */
#include "cli/convert.h"
#include "base/mem.h"
#include "formats/encode.h"
#include <math.h>
#include <string.h>

struct piece_result {
    double error2, value2;
    int64_t bad; /* index within the piece of a value that is not finite; -1: none */
};

struct converter {
    struct pool *pool;
    float *values;                /* [n_workers x 2 x CONVERT_PIECE] */
    uint8_t *slice;               /* [CONVERT_SLICE_BYTES] */
    struct piece_result *results; /* [CONVERT_SLICE_PIECES] */
};

struct slice {
    struct converter *c;
    const struct convert_request *r;
    int64_t per_row;   /* pieces of a row */
    int64_t row_bytes; /* of the output */
    int64_t first;     /* piece of the tensor that the slice begins with */
};

hasten_status converter_open(struct pool *pool, struct converter **out, struct hasten_error *err)
{
    struct converter *c = mem_calloc(1, sizeof *c);
    *out = c;
    if (c) {
        c->pool = pool;
        c->values = mem_array((size_t)pool_size(pool), 2 * CONVERT_PIECE * sizeof *c->values);
        c->slice = mem_alloc(CONVERT_SLICE_BYTES);
        c->results = mem_array(CONVERT_SLICE_PIECES, sizeof *c->results);
    }
    if (c && c->values && c->slice && c->results)
        return HASTEN_OK;
    converter_close(c);
    *out = NULL;
    return error_set(err, HASTEN_ERR_MEMORY, "out of memory for the buffers of %d workers", pool_size(pool));
}

void converter_close(struct converter *c)
{
    if (!c)
        return;
    mem_free(c->values);
    mem_free(c->slice);
    mem_free(c->results);
    mem_free(c);
}

static int64_t format_bytes(const struct quant_type *type, int64_t n)
{
    return n / type->block * type->block_bytes;
}

/* Where a piece begins in the output of the tensor. */
static int64_t piece_offset(const struct slice *s, int64_t piece)
{
    return piece / s->per_row * s->row_bytes +
           format_bytes(s->r->to, piece % s->per_row * (int64_t)CONVERT_PIECE);
}

static int64_t first_not_finite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return i;
    return -1;
}

static int64_t source_row(int64_t row, int64_t head_rows)
{
    const int64_t in_head = head_rows ? row % head_rows : 0;
    return row - in_head + in_head / 2 + in_head % 2 * (head_rows / 2);
}

static void convert_piece(const struct slice *s, int64_t piece, float *x, uint8_t *dst,
                          struct piece_result *res)
{
    const struct gguf_tensor *t = s->r->from;
    const int64_t row = piece / s->per_row, col = piece % s->per_row * (int64_t)CONVERT_PIECE;
    const int64_t n = t->ne[0] - col < CONVERT_PIECE ? t->ne[0] - col : CONVERT_PIECE;
    const uint8_t *src =
        t->data + source_row(row, s->r->head_rows) * t->row_bytes + format_bytes(t->type, col);
    float *y = x + CONVERT_PIECE;
    *res = (struct piece_result){.bad = -1};
    if (t->type->decode)
        t->type->decode(src, n, x);
    if (t->type == s->r->to) {
        memcpy(dst, src, (size_t)format_bytes(t->type, n));
        res->bad = t->type->decode ? first_not_finite(x, n) : -1;
        for (int64_t i = 0; i < n && t->type->decode; i++)
            res->value2 += (double)x[i] * (double)x[i];
        return;
    }
    const float *h = s->r->importance;
    res->bad = quant_encode(s->r->to, x, n, h ? h + row / t->ne[1] * t->ne[0] + col : NULL, dst);
    if (res->bad >= 0)
        return;
    s->r->to->decode(dst, n, y);
    for (int64_t i = 0; i < n; i++) {
        const double gap = (double)x[i] - (double)y[i];
        res->error2 += gap * gap;
        res->value2 += (double)x[i] * (double)x[i];
    }
}

static void convert_pieces(void *ctx, int64_t begin, int64_t end, int worker)
{
    const struct slice *s = ctx;
    float *x = s->c->values + (size_t)worker * 2 * CONVERT_PIECE;
    const int64_t base = piece_offset(s, s->first);
    for (int64_t i = begin; i < end; i++)
        convert_piece(s, s->first + i, x, s->c->slice + (piece_offset(s, s->first + i) - base),
                      &s->c->results[i]);
}

static hasten_status take_results(const struct slice *s, int64_t n, struct convert_sums *sums,
                                  struct hasten_error *err)
{
    const struct gguf_tensor *t = s->r->from;
    for (int64_t i = 0; i < n; i++) {
        const struct piece_result *res = &s->c->results[i];
        const int64_t piece = s->first + i;
        if (res->bad >= 0)
            return error_set(err, HASTEN_ERR_FILE,
                             "tensor '%s': value %lld is not a finite number (expected finite weights)",
                             t->name,
                             (long long)(piece / s->per_row * t->ne[0] +
                                         piece % s->per_row * (int64_t)CONVERT_PIECE + res->bad));
        sums->error2 += res->error2;
        sums->value2 += res->value2;
    }
    return HASTEN_OK;
}

hasten_status convert_tensor(struct converter *c, const struct convert_request *r, struct convert_sums *sums,
                             struct hasten_error *err)
{
    const struct gguf_tensor *t = r->from;
    const int64_t n_rows = t->ne[1] * t->ne[2] * t->ne[3];
    struct slice s = {.c = c, .r = r};
    s.per_row = (t->ne[0] + CONVERT_PIECE - 1) / CONVERT_PIECE;
    s.row_bytes = format_bytes(r->to, t->ne[0]);
    const int64_t n_pieces = n_rows * s.per_row;
    const int64_t piece_values = t->ne[0] < CONVERT_PIECE ? t->ne[0] : CONVERT_PIECE;
    int64_t per_slice = CONVERT_SLICE_BYTES / format_bytes(r->to, piece_values);
    per_slice = per_slice < CONVERT_SLICE_PIECES ? per_slice : CONVERT_SLICE_PIECES;
    const int64_t per_claim = 1 + CONVERT_PIECE / 4 / piece_values;
    for (; s.first < n_pieces; s.first += per_slice) {
        const int64_t n = n_pieces - s.first < per_slice ? n_pieces - s.first : per_slice;
        pool_for(c->pool, n, per_claim, convert_pieces, &s);
        hasten_status st = take_results(&s, n, sums, err);
        if (st == HASTEN_OK)
            st = gguf_write_data(r->out, c->slice,
                                 (size_t)(piece_offset(&s, s.first + n) - piece_offset(&s, s.first)), err);
        if (st != HASTEN_OK)
            return st;
        if (r->progress && r->progress(r->ctx, (uint64_t)((s.first + n) / s.per_row) * (uint64_t)t->ne[0]))
            return error_set(err, HASTEN_ERR_CANCELLED, "quantize: interrupted in tensor '%s'", t->name);
    }
    sums->n += (uint64_t)n_rows * (uint64_t)t->ne[0];
    return HASTEN_OK;
}
