/* Fuzz target of workloads (bench/workload.h): what is read has items of different names, each of which ends with a question. */
#include "bench/workload.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct memory_file f = memory_file(data, size);
    struct workload *w = NULL;
    struct hasten_error err = {0};
    const hasten_status st = workload_open(f.path, &w, &err);
    check_error(st, &err);
    check(!st == (w != NULL));
    check(!w || (w->n >= 1 && w->n <= WORKLOAD_MAX_ITEMS));
    for (int32_t i = 0; w && i < w->n; i++) {
        const struct workload_item *a = &w->items[i];
        check(a->name[0] && a->half[0] && a->n_answer >= 1 && a->n_messages >= 1);
        check(a->messages[a->n_messages - 1].role == WORKLOAD_USER);
        for (int32_t j = 0; j < a->n_messages; j++)
            check(a->messages[j].text.len > 0);
        for (int32_t j = 0; j < i; j++)
            check(strcmp(a->name, w->items[j].name) != 0);
    }
    workload_close(w);
    memory_file_close(&f);
    return 0;
}
