/* Fuzz target of importance matrices: what opens gives, for each entry, finite numbers from 0 up, or refuses a shape. */
#include "base/mem.h"
#include "formats/imatrix.h"
#include "fuzz.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct memory_file f = memory_file(data, size);
    struct imatrix *m = NULL;
    struct hasten_error err = {0};
    const hasten_status st = imatrix_open(f.path, &m, &err);
    check_error(st, &err);
    check(!st == (m != NULL));
    for (int64_t i = 0; !st && i < imatrix_n_entries(m); i++) {
        float v[256];
        check(imatrix_find(m, imatrix_entry_name(m, i)) == i);
        for (int64_t k = 1; k <= 64; k *= 2)
            for (int64_t n = 1; n <= 4; n++)
                if (!imatrix_get(m, i, k, n, v, &err))
                    for (int64_t j = 0; j < k * n; j++)
                        check(isfinite(v[j]) && v[j] >= 0);
    }
    if (!st) {
        imatrix_chunk_count(m);
        check(imatrix_dataset(m) != NULL);
    }
    imatrix_close(m);
    memory_file_close(&f);
    return 0;
}
