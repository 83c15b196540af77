/* Importance matrices: files that say, for each weight matrix of a model, how much each of its columns counts.
 *
 * A file is a GGUF with general.type "imatrix" and two F32 tensors per matrix NAME: NAME.in_sum2 [k x n_mat], the sums
 * over a text of the squares of what column j is multiplied by, and NAME.counts [1 x n_mat], the number of rows
 * summed (n_mat: matrices stacked in one tensor, one each for experts, else 1). Keys imatrix.datasets (strings),
 * imatrix.chunk_count, imatrix.chunk_size. llama.cpp writes and reads the same layout (its tools/imatrix). */
#ifndef HASTEN_FORMATS_IMATRIX_H
#define HASTEN_FORMATS_IMATRIX_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct imatrix;

/* HASTEN_ERR_FILE for what is no importance matrix, an entry without its other half, a shape that does not fit, a
 * sum or a count that is negative or not finite (tensor and index are named). */
hasten_status imatrix_open(const char *path, struct imatrix **out, struct hasten_error *err);
void imatrix_close(struct imatrix *m); /* NULL is fine */

int64_t imatrix_n_entries(const struct imatrix *m);
const char *imatrix_entry_name(const struct imatrix *m, int64_t i); /* of the matrix: "blk.0.ffn_up.weight" */
uint32_t imatrix_chunk_count(const struct imatrix *m);              /* 0: not said */
const char *imatrix_dataset(const struct imatrix *m);               /* "": not said */

/* Entry of a matrix by name: its number, or -1. */
int64_t imatrix_find(const struct imatrix *m, const char *name);
/* The importances of entry i as means per row into out [k x n_mat]: finite, from 0 up (what overflows
 * becomes the largest float); a stacked matrix that saw no row gets zeros. HASTEN_ERR_FILE when the entry
 * has another shape. */
hasten_status imatrix_get(const struct imatrix *m, int64_t i, int64_t k, int64_t n_mat, float *out,
                          struct hasten_error *err);

#endif
