/* `hasten doctor`: what this machine is, what Hasten makes of it, and how fast memory and integer arithmetic
 * measure right now. Each figure says how it was measured. */
#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/file.h"
#include "bench/kernels.h"
#include "cli/bench.h"
#include "cli/cache.h"
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define LIMITS_BUDGET_MS 60
#define MATMUL_COLUMNS 64

struct report {
    int threads, affinity, quota;  /* quota 0: none */
    char features[256], used[256]; /* of the CPU; and those within HASTEN_CPU */
    const char *mask;              /* HASTEN_CPU, or NULL */
    const struct kernels *kernels;
    struct bench_limits limits;
    double gops; /* of a Q8_0 product */
};

/* ---- measurements (src/bench/) --------------------------------------------------------------------------- */

static hasten_status measure(struct report *r, struct pool *pool, const volatile int *cancel,
                             struct hasten_error *err)
{
    const struct bench_kernels b = {
        .pool = pool, .limits = &r->limits, .budget_ms = LIMITS_BUDGET_MS, .cancel = cancel};
    struct bench_kernel_row row;
    hasten_status st = bench_measure_limits(pool, LIMITS_BUDGET_MS, false, 0, cancel, &r->limits, err);
    if (!st)
        st = bench_matmul(&b, r->kernels, quant_type_get(QUANT_Q8_0), MATMUL_COLUMNS, &row, err);
    r->gops = st ? 0 : row.gops;
    return st;
}

static hasten_status examine(struct report *r, const volatile int *cancel, struct hasten_error *err)
{
    cpu_set_t set;
    uint32_t features = cpu_features();
    r->affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    r->quota = cgroup_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    r->threads = pool_default_threads();
    cpu_features_text(cpu_features_found(), r->features, (int)sizeof r->features);
    cpu_features_text(features, r->used, (int)sizeof r->used);
    r->mask = getenv("HASTEN_CPU");
    r->mask = r->mask && *r->mask ? r->mask : NULL;
    r->kernels = kernels_select(features);
    struct pool *pool = NULL;
    hasten_status st = pool_create(r->threads, &pool, err);
    if (!st)
        st = measure(r, pool, cancel, err);
    if (!st && *cancel)
        st = error_set(err, HASTEN_ERR_CANCELLED, "measuring the machine: interrupted");
    pool_destroy(pool);
    return st;
}

/* ---- the cache ----------------------------------------------------------------------------------------- */

/* Bytes of a table model in the cache, 0 when it is not there. */
static uint64_t cached_bytes(const struct table_model *m)
{
    struct buf path = {0};
    struct file *f = NULL;
    uint64_t size = 0;
    struct hasten_error err;
    if (!cache_path(m, &path, &err) && file_exists(path.data) && !file_open(path.data, FILE_READ, &f, &err) &&
        file_size(f, &size, &err))
        size = 0;
    file_close(f);
    buf_free(&path);
    return size;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static const char *kernels_reason(const struct report *r)
{
    if (r->mask)
        return "HASTEN_CPU bounds the choice";
    return strcmp(r->kernels->name, "plain") == 0 ? "no faster set fits this CPU"
                                                  : "the best set this CPU can run";
}

static const char *threads_reason(const struct report *r)
{
    return r->quota > 0 && r->quota < r->affinity ? "the control group's CPU quota"
                                                  : "the CPUs this process may run on";
}

static int print_json(const struct report *r)
{
    json_t *models = json_array();
    for (int i = 0; model_table_at(i); i++) {
        uint64_t bytes = cached_bytes(model_table_at(i));
        json_add(&models,
                 json_pack("{s:s, s:b, s:I, s:b}", "name", model_table_at(i)->name, "cached", bytes > 0,
                           "bytes", (json_int_t)bytes, "size_right", bytes == model_table_at(i)->bytes));
    }
    return cli_json(json_pack(
        "{s:s, s:s, s:s, s:s?, s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:f, s:f, s:o, s:o}", "version",
        HASTEN_VERSION, "cpu", cpu_name(), "features", r->features, "cpu_bound", r->mask, "features_used",
        r->used, "kernels", r->kernels->name, "kernels_reason", kernels_reason(r), "threads", r->threads,
        "threads_reason", threads_reason(r), "affinity_cpus", r->affinity, "quota_cpus", r->quota, "read_gbs",
        r->limits.read_all, "int8_gops", r->gops, "limits", bench_limits_json(&r->limits), "models", models));
}

static int print_table(const struct report *r)
{
    printf("hasten       %s\n", HASTEN_VERSION);
    printf("cpu          %s\n", cpu_name());
    printf("features     %s", r->features[0] ? r->features : "none that matter here");
    if (r->mask)
        printf("; HASTEN_CPU=%s leaves %s", r->mask, r->used[0] ? r->used : "none");
    printf("\n");
    printf("kernels      %s: %s\n", r->kernels->name, kernels_reason(r));
    printf("threads      %d: %s (affinity %d, quota %s", r->threads, threads_reason(r), r->affinity,
           r->quota ? "" : "none)\n");
    if (r->quota)
        printf("%d)\n", r->quota);
    bench_limits_print(&r->limits);
    printf("int8 product %.0f GOP/s, %d thread%s, Q8_0 by %d columns\n", r->gops, r->threads,
           bench_plural(r->threads), MATMUL_COLUMNS);
    for (int i = 0; model_table_at(i); i++) {
        const struct table_model *m = model_table_at(i);
        uint64_t bytes = cached_bytes(m);
        const char *state = !bytes              ? "not in the cache"
                            : bytes == m->bytes ? "in the cache"
                                                : "in the cache, WRONG SIZE";
        printf("model        %-12s %s%s", m->name, state, bytes ? "" : "\n");
        if (bytes)
            printf(", %.1f MB\n", (double)bytes / 1e6);
    }
    return cli_finish(0);
}

int cmd_doctor(const struct command *c, int argc, char **argv)
{
    struct ui ui = {0};
    struct report r = {0};
    struct option_group groups[] = {ui_group(&ui)};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &ui, groups, 1, 0, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    hasten_status st = examine(&r, interrupt_arm(), &err);
    interrupt_disarm();
    if (st)
        return cli_fail(&err);
    return ui.json ? print_json(&r) : print_table(&r);
}
