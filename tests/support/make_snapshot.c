/* make_snapshot KIND TOKENS OUT: writes a small snapshot of a tiny engine (tiny_snapshot.h), for corpora. */
#include "tiny_snapshot.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct hasten_model *m = NULL;
    struct hasten_engine *e = NULL;
    struct buf b = {0};
    if (argc != 4) {
        fprintf(stderr, "use: make_snapshot KIND TOKENS OUT\n");
        return 2;
    }
    if (tiny_snapshot_open((enum tiny_snapshot_kind)atoi(argv[1]), &m, &e) ||
        tiny_snapshot_make(e, atoi(argv[2]), &b))
        return 1;
    FILE *f = fopen(argv[3], "wb");
    const int rc = !f || fwrite(b.data, 1, b.len, f) != b.len || fclose(f);
    buf_free(&b);
    hasten_engine_close(e);
    hasten_model_close(m);
    return rc;
}
