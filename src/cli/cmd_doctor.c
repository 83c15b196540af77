/* `hasten doctor`: what this machine is, what Hasten makes of it, and how fast memory and integer arithmetic
 * measure right now. Each figure says how it was measured. */
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/pool.h"
#include "cli/cache.h"
#include "cli/cli.h"
#include "kernels/kernels.h"
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define READ_BYTES (256u << 20) /* larger than the caches of most machines */
#define MATMUL_ROWS 256
#define MATMUL_K 4096
#define MATMUL_N 64
#define MEASURE_NS 300000000u

struct report {
    int threads, affinity, quota; /* quota 0: none */
    char features[256];
    const char *mask; /* HASTEN_CPU, or NULL */
    const struct kernels *kernels;
    double read_gbs, gops; /* 0: not measured */
};

/* ---- measurements -------------------------------------------------------------------------------------- */

struct read_job {
    const uint64_t *data;
    uint64_t sums[64]; /* so that the reading cannot be left out */
};

static void read_chunk(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct read_job *j = ctx;
    uint64_t s[8] = {0};
    for (int64_t i = begin * 512; i < end * 512; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] += j->data[i + k];
    j->sums[worker & 63] += s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

/* Best of several passes over 256 MiB by all workers, in 10^9 bytes a second. */
static double measure_read(struct pool *pool)
{
    struct read_job j = {0};
    uint64_t *data = mem_map(READ_BYTES);
    if (!data)
        return 0;
    memset(data, 1, READ_BYTES);
    j.data = data;
    double best = 0;
    for (uint64_t t0 = clock_now_ns(); clock_now_ns() - t0 < MEASURE_NS;) {
        uint64_t t = clock_now_ns();
        pool_for(pool, READ_BYTES / 4096, 256, read_chunk, &j);
        double gbs = (double)READ_BYTES / (double)(clock_now_ns() - t);
        best = gbs > best ? gbs : best;
    }
    mem_unmap(data, READ_BYTES);
    return best;
}

struct matmul_job {
    const struct kernels *k;
    struct weight w;
    struct act a;
    float *y;
    uint8_t *scratch;
    size_t scratch_bytes;
};

static void matmul_chunk(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct matmul_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i * PANEL_ROWS;
        j->k->matmul(&j->w, &j->a, row, row + PANEL_ROWS, j->y, j->w.n_rows,
                     j->scratch + (size_t)worker * j->scratch_bytes);
    }
}

static double time_matmul(struct pool *pool, struct matmul_job *j)
{
    double best = 0, ops = 2.0 * MATMUL_ROWS * MATMUL_K * MATMUL_N;
    for (uint64_t t0 = clock_now_ns(); clock_now_ns() - t0 < MEASURE_NS;) {
        uint64_t t = clock_now_ns();
        pool_for(pool, MATMUL_ROWS / PANEL_ROWS, 1, matmul_chunk, j);
        double gops = ops / (double)(clock_now_ns() - t);
        best = gops > best ? gops : best;
    }
    return best;
}

/* A Q8_0 matrix product out of cache: 256 x 4096 by 64 rows, best of several, in 10^9 operations a second. */
static double measure_matmul(struct pool *pool, const struct kernels *k)
{
    struct matmul_job j = {.k = k};
    const struct quant_type *t = quant_type_get(QUANT_Q8_0);
    j.w = (struct weight){.type = t, .n_rows = MATMUL_ROWS, .k = MATMUL_K};
    j.w.row_bytes = MATMUL_K / t->block * t->block_bytes;
    enum act_form form = k->form_of(t, MATMUL_K);
    size_t act_row = k->act_row_bytes(form, MATMUL_K), weight_bytes = (size_t)j.w.row_bytes * MATMUL_ROWS;
    j.scratch_bytes = (k->matmul_scratch_bytes(&j.w) + 63) / 64 * 64;
    uint8_t *weights = mem_aligned(weight_bytes), *acts = mem_aligned(act_row * MATMUL_N);
    float *x = mem_array(MATMUL_K, sizeof *x);
    j.y = mem_array(MATMUL_ROWS * MATMUL_N, sizeof *j.y);
    j.scratch = mem_aligned(j.scratch_bytes * (size_t)pool_size(pool) + 64);
    double gops = 0;
    if (weights && acts && x && j.y && j.scratch) {
        for (size_t i = 0; i < weight_bytes; i++)
            weights[i] = (uint8_t)(i % 61); /* f16 scales stay finite: no byte is above 0x3c */
        for (int i = 0; i < MATMUL_K; i++)
            x[i] = (float)(i % 17) - 8;
        for (size_t i = 0; i < MATMUL_N; i++)
            k->act_make(form, x, MATMUL_K, acts + i * act_row);
        j.w.data = weights;
        j.a = (struct act){.form = form, .n = MATMUL_N, .k = MATMUL_K, .rows = acts, .row_stride = act_row};
        gops = time_matmul(pool, &j);
    }
    mem_free(weights);
    mem_free(acts);
    mem_free(x);
    mem_free(j.y);
    mem_free(j.scratch);
    return gops;
}

static hasten_status examine(struct report *r, struct hasten_error *err)
{
    cpu_set_t set;
    uint32_t features = cpu_features();
    r->affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    r->quota = cgroup_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    r->threads = pool_default_threads();
    cpu_features_text(features, r->features, (int)sizeof r->features);
    r->mask = getenv("HASTEN_CPU");
    r->kernels = kernels_select(features);
    struct pool *pool = NULL;
    hasten_status st = pool_create(r->threads, &pool, err);
    if (!st) {
        r->read_gbs = measure_read(pool);
        r->gops = measure_matmul(pool, r->kernels);
    }
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
    if (r->mask && *r->mask)
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
        json_array_append_new(models, json_pack("{s:s, s:b, s:I, s:b}", "name", model_table_at(i)->name,
                                                "cached", bytes > 0, "bytes", (json_int_t)bytes, "size_right",
                                                bytes == model_table_at(i)->bytes));
    }
    return cli_json(json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:f, s:f, s:o}", "version",
                              HASTEN_VERSION, "cpu", cpu_name(), "features", r->features, "kernels",
                              r->kernels->name, "kernels_reason", kernels_reason(r), "threads", r->threads,
                              "threads_reason", threads_reason(r), "affinity_cpus", r->affinity, "quota_cpus",
                              r->quota, "read_gbs", r->read_gbs, "int8_gops", r->gops, "models", models));
}

static int print_table(const struct report *r)
{
    printf("hasten       %s\n", HASTEN_VERSION);
    printf("cpu          %s\n", cpu_name());
    printf("features     %s\n", r->features[0] ? r->features : "none that matter here");
    printf("kernels      %s: %s\n", r->kernels->name, kernels_reason(r));
    printf("threads      %d: %s (affinity %d, quota %s", r->threads, threads_reason(r), r->affinity,
           r->quota ? "" : "none)\n");
    if (r->quota)
        printf("%d)\n", r->quota);
    printf("memory       %.1f GB/s read, %d threads, 256 MiB\n", r->read_gbs, r->threads);
    printf("int8         %.0f GOP/s, %d threads, Q8_0 %dx%d by %d rows\n", r->gops, r->threads, MATMUL_ROWS,
           MATMUL_K, MATMUL_N);
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
    if (examine(&r, &err))
        return cli_fail(&err);
    return ui.json ? print_json(&r) : print_table(&r);
}
