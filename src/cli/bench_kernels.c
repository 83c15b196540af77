/* `hasten bench --kernels`: each kernel on its own, a line each as it is measured. */
#include "bench/kernels.h"
#include "base/cpu.h"
#include "cli/bench.h"
#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#define LIMITS_BUDGET_MS 100
#define BUDGET_MS 20

struct kernels_run {
    struct bench_args *a;
    struct bench_limits limits;
    json_t *rows;
};

static int take_row(void *ctx, const struct bench_kernel_row *row)
{
    struct kernels_run *r = ctx;
    if (r->a->ui.json) {
        json_add(&r->rows, json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:f}", "set", row->set,
                                     "kernel", row->kernel, "form", row->form, "n", (json_int_t)row->n,
                                     "threads", row->threads, "gbs", row->gbs, "gops", row->gops, "bus_share",
                                     row->bus_share, "peak_share", row->peak_share));
        return 0;
    }
    printf("%-10s %-12s %-10s %6lld %9.1f GB/s", row->set, row->kernel, row->form, (long long)row->n,
           row->gbs);
    if (row->gops > 0)
        printf(" %9.1f GOP/s %6.1f%% bus %6.1f%% peak", row->gops, 1e2 * row->bus_share,
               1e2 * row->peak_share);
    printf("\n");
    return fflush(stdout) != 0;
}

/* --type: a format's name, in any case. */
static hasten_status find_type(const char *name, const struct quant_type **out, struct hasten_error *err)
{
    struct buf known = {0};
    hasten_status st = HASTEN_OK;
    *out = NULL;
    for (uint32_t id = 0; name && id < 64; id++) {
        const struct quant_type *t = quant_type_get(id);
        if (!t || !kernels_supports(t))
            continue;
        buf_printf(&known, "%s%s", known.len ? ", " : "", t->name);
        if (strcasecmp(t->name, name) == 0)
            *out = t;
    }
    if (name && !*out)
        st =
            error_set(err, HASTEN_ERR_USAGE, "bench: option --type: unknown format '%s' (expected one of %s)",
                      name, known.data ? known.data : "");
    buf_free(&known);
    return st;
}

int bench_kernels(struct bench_args *a)
{
    struct kernels_run r = {.a = a};
    struct bench_kernels b = {.budget_ms = BUDGET_MS, .row = take_row, .ctx = &r, .limits = &r.limits};
    struct hasten_error err;
    struct pool *pool = NULL;
    hasten_status st = find_type(a->type, &b.only, &err);
    if (!st)
        st = pool_create(cli_threads(a->model.n_threads, &a->ui), &pool, &err);
    b.cancel = interrupt_arm();
    if (!st)
        st = bench_measure_limits(pool, LIMITS_BUDGET_MS, false, 0, b.cancel, &r.limits, &err);
    if (!st) {
        b.pool = pool;
        r.rows = json_array();
        if (!a->ui.json) {
            printf("cpu          %s\n", cpu_name());
            bench_limits_print(&r.limits);
            printf("products and attention: all threads, data from memory; the rest: one thread, in cache\n");
            printf("%-10s %-12s %-10s %6s\n", "set", "kernel", "form", "n");
        }
        st = bench_kernels_run(&b, &err);
    }
    interrupt_disarm();
    pool_destroy(pool);
    if (!st && a->ui.json)
        return cli_json(json_pack("{s:o, s:o}", "limits", bench_limits_json(&r.limits), "kernels", r.rows));
    json_decref(r.rows);
    return st ? cli_fail(&err) : cli_finish(0);
}
