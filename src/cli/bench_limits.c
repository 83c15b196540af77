/* `hasten bench --roofline`, and the lines about limits that other commands print. */
#include "base/cpu.h"
#include "cli/bench.h"
#include <jansson.h>
#include <math.h>

#define BUDGET_MS 200

static const char *const kind_names[PEAK_KINDS] = {"int8", "bf16", "f32"};

hasten_status bench_limits_run(int n_threads, int budget_ms, bool curve, const volatile int *cancel,
                               struct bench_limits *out, struct hasten_error *err)
{
    struct pool *pool = NULL;
    hasten_status st = pool_create(cli_threads(n_threads, NULL), &pool, err);
    if (!st)
        st = bench_measure_limits(pool, budget_ms, curve, 0, cancel, out, err);
    pool_destroy(pool);
    return st;
}

void bench_stats_put(json_t **to, const struct bench_stats *s)
{
    json_put(to, "median", json_real(s->median));
    json_put(to, "lo", json_real(s->lo));
    json_put(to, "hi", json_real(s->hi));
    json_put(to, "level", json_real(s->level));
    json_put(to, "mean", json_real(s->mean));
    json_put(to, "sd", json_real(s->sd));
    json_put(to, "min", json_real(s->min));
    json_put(to, "max", json_real(s->max));
}

json_t *bench_limits_json(const struct bench_limits *l)
{
    json_t *v = json_pack("{s:s, s:i}", "cpu", cpu_name(), "threads", l->threads), *curve = json_array();
    for (int i = 0; i < PEAK_KINDS; i++) {
        const struct bench_peak *p = &l->peak[i];
        json_put(&v, kind_names[i],
                 p->how ? json_pack("{s:s, s:f, s:f}", "how", p->how, "one_gops", p->one, "all_gops", p->all)
                        : json_null());
    }
    json_put(&v, "read",
             json_pack("{s:f, s:f, s:f, s:I, s:I}", "one_gbs", l->read_one, "all_gbs", l->read_all,
                       "median_gbs", l->read_median, "buffer_bytes", (json_int_t)l->read_bytes, "cache_bytes",
                       (json_int_t)l->cache_bytes));
    for (int i = 0; i < l->n_curve; i++)
        json_add(&curve, json_pack("{s:I, s:b, s:f}", "bytes", (json_int_t)l->curve[i].bytes, "per_thread",
                                   l->curve[i].per_thread, "gbs", l->curve[i].gbs));
    json_put(&v, "curve", curve);
    return v;
}

void bench_limits_print(const struct bench_limits *l)
{
    const char *s = bench_plural(l->threads);
    printf(
        "memory       %.1f GB/s read, %d thread%s (one: %.1f; median window %.1f), round and round in %.0f MiB\n",
        l->read_all, l->threads, s, l->read_one, l->read_median, (double)l->read_bytes / (1 << 20));
    for (int i = 0; i < PEAK_KINDS; i++)
        if (l->peak[i].how)
            printf("%-4s peak    %.0f %s/s, %d thread%s (one: %.0f), %s\n", kind_names[i], l->peak[i].all,
                   i == PEAK_INT8 ? "GOP" : "GFLOP", l->threads, s, l->peak[i].one, l->peak[i].how);
}

int bench_roofline(struct bench_args *a)
{
    struct bench_limits l;
    struct hasten_error err;
    hasten_status st = bench_limits_run(a->model.n_threads, BUDGET_MS, true, interrupt_arm(), &l, &err);
    interrupt_disarm();
    if (st)
        return cli_fail(&err);
    if (a->ui.json)
        return cli_json(bench_limits_json(&l));
    printf("cpu          %s\n", cpu_name());
    bench_limits_print(&l);
    for (int i = 0; i < l.n_curve; i++)
        printf("read %6.0f %s %8.1f GB/s%s\n",
               (double)l.curve[i].bytes / (l.curve[i].bytes < 1 << 20 ? 1 << 10 : 1 << 20),
               l.curve[i].bytes < 1 << 20 ? "KiB" : "MiB", l.curve[i].gbs,
               l.curve[i].per_thread ? ", each thread its own" : "");
    return cli_finish(0);
}
