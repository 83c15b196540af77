/* st_dump FILE: one JSON object a line for each tensor of a safetensors file; exit 3 with the sentence if it is refused.
 * st_dump --faults FILE: the n-th allocation fails, for every n: an error each time (jansson calls some of them errors of
 * syntax), and nothing is left. */
#include "base/mem.h"
#include "formats/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void print_tensor(const struct st_tensor *t)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < t->size_bytes; i++)
        sum += t->data[i];
    printf("{\"name\": \"%s\", \"dtype\": \"%s\", \"shape\": [", t->name, t->dtype);
    for (int32_t i = 0; i < t->n_dims; i++)
        printf("%s%" PRId64, i ? ", " : "", t->shape[i]);
    printf("], \"offset\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"sum\": %" PRIu64 ", \"weight\": %s}\n",
           t->offset, t->size_bytes, sum, t->type ? "true" : "false");
}

static int dump(const char *path)
{
    struct safetensors *s = NULL;
    struct hasten_error err;
    if (st_open(path, &s, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return err.status == HASTEN_ERR_MEMORY ? 4 : 3;
    }
    for (int64_t i = 0; i < st_n_tensors(s); i++)
        print_tensor(st_tensor_at(s, i));
    st_close(s);
    return 0;
}

static uint64_t live_bytes(void)
{
    struct mem_stats stats;
    mem_stats_get(&stats);
    return stats.live_bytes;
}

static int sweep(const char *path)
{
    json_set_alloc_funcs(mem_alloc, mem_free);
    for (uint64_t n = 1;; n++) {
        struct safetensors *s = NULL;
        struct hasten_error err = {0};
        const uint64_t before = live_bytes();
        mem_fail_at(n, 0);
        const hasten_status st = st_open(path, &s, &err);
        const uint64_t failed = mem_fail_count();
        mem_fail_at(0, 0);
        st_close(s);
        if (live_bytes() != before || (failed ? !st : st)) {
            printf("allocation %" PRIu64 ": status %d, %" PRIu64 " bytes left: %s\n", n, (int)st,
                   live_bytes() - before, err.message);
            return 1;
        }
        if (!failed) {
            printf("%" PRIu64 " allocations failed in turn\n", n - 1);
            return n > 10 ? 0 : 1;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--faults") == 0)
        return sweep(argv[2]);
    return argc == 2 ? dump(argv[1]) : 2;
}
