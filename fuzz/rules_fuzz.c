/* Fuzz target of scripted models: rules from a file, then forty tokens from them, each of the vocabulary, and the same
 * again from the same tokens. */
#include "fuzz.h"
#include "hasten/hasten.h"
#include "model/script.h"
#include <math.h>

#define N_STEPS 40

static int32_t back(const void *ctx, int32_t pos)
{
    return ((const int32_t *)ctx)[pos];
}

static void walk(const struct script *s)
{
    static float row[512];
    int32_t path[N_STEPS + 1] = {72};
    struct script_state at = {0}, before = {0};
    for (int32_t pos = 0; pos < N_STEPS; pos++) {
        const struct script_state again = script_next(s, pos ? &before : NULL, pos, path[pos], back, path);
        at = script_next(s, pos ? &before : NULL, pos, path[pos], back, path);
        check(at.hash == again.hash && at.seen == again.seen && at.token == path[pos]);
        script_logits(s, &at, pos, back, path, row);
        int32_t best = -1;
        for (int32_t i = 0; i < s->n_vocab; i++)
            if (isfinite(row[i]) && (best < 0 || row[i] > row[best]))
                best = i;
        path[pos + 1] = best < 0 ? 0 : best;
        before = at;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct memory_file f = memory_file(data, size);
    char name[80];
    struct hasten_model *m = NULL;
    struct hasten_error err = {0};
    snprintf(name, sizeof name, "script:%s", f.path);
    const hasten_status st = model_open_unread(name, &m, &err);
    check_error(st, &err);
    check(!st == (m != NULL));
    if (m && m->script->n_vocab <= 512)
        walk(m->script);
    hasten_model_close(m);
    memory_file_close(&f);
    return 0;
}
