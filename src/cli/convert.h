/* One tensor from its format into another, piece by piece over the workers, straight into the file being written. */
#ifndef HASTEN_CLI_CONVERT_H
#define HASTEN_CLI_CONVERT_H
#include "base/pool.h"
#include "formats/gguf_write.h"

#define CONVERT_PIECE 32768 /* values of a row that one worker takes at once; whole blocks of any format */
#define CONVERT_SLICE_BYTES (8u << 20) /* of output, between two writes */
#define CONVERT_SLICE_PIECES 65536

struct converter; /* buffers for any tensor; owned by the caller */

hasten_status converter_open(struct pool *pool, struct converter **out, struct hasten_error *err);
void converter_close(struct converter *c); /* NULL is fine */

struct convert_sums { /* over all values converted so far, in f64 */
    double error2, value2;
    uint64_t n;
};

/* Called between slices with the values done in this tensor; non-zero stops with HASTEN_ERR_CANCELLED. */
typedef int (*convert_progress_fn)(void *ctx, uint64_t done);

struct convert_request {
    const struct gguf_tensor *from;
    const struct quant_type *to; /* the same as from's: its bytes are copied */
    const float *importance;     /* NULL, or [ne[2] ne[3] x ne[0]] */
    int64_t
        head_rows; /* row 2 i of so many becomes row i, row 2 i + 1 the i-th of their second half: RoPE on pairs, from
                        * a folder's on halves; 0: rows stay */
    struct gguf_write *out;
    convert_progress_fn progress;
    void *ctx;
};

/* Adds to sums. HASTEN_ERR_FILE naming tensor and index for a value that is not finite. The bytes written do not
 * depend on the number of workers. */
hasten_status convert_tensor(struct converter *c, const struct convert_request *r, struct convert_sums *sums,
                             struct hasten_error *err);

#endif
