/* Pairing two results (compare.h). */
#include "eval/compare.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

struct pairs { /* unit i has sums a[i] and b[i] over w[i] tokens (blocks) or 1 (items) */
    double *w, *a, *b;
    int32_t n;
};

struct comparing {
    int32_t resamples;
    uint64_t seed;
    struct eval_comparison *rows;
    int32_t n;
};

static hasten_status pairs_open(struct pairs *p, size_t n, struct hasten_error *err)
{
    p->w = mem_array(n, sizeof *p->w);
    p->a = mem_array(n, sizeof *p->a);
    p->b = mem_array(n, sizeof *p->b);
    return p->w && p->a && p->b ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "comparing: out of memory");
}

static void pairs_close(struct pairs *p)
{
    mem_free(p->w);
    mem_free(p->a);
    mem_free(p->b);
    *p = (struct pairs){0};
}

static void mean_difference(const void *ctx, const int32_t *weight, int32_t m, double *out)
{
    const struct pairs *p = ctx;
    double w = 0, a = 0, b = 0;
    for (int32_t i = 0; i < m; i++) {
        w += weight[i] * p->w[i];
        a += weight[i] * p->a[i];
        b += weight[i] * p->b[i];
    }
    out[0] = (b - a) / w;
    out[1] = a / w;
    out[2] = b / w;
}

/* One row from pairs. */
static hasten_status add_row(struct comparing *c, const char *name, const struct pairs *p, bool more_is_worse,
                             struct hasten_error *err)
{
    if (c->n == EVAL_MAX_ROWS_COMPARED)
        return error_set(err, HASTEN_ERR_LIMIT, "comparing: more than %d figures", EVAL_MAX_ROWS_COMPARED);
    struct eval_comparison *r = &c->rows[c->n++];
    struct eval_interval v[3];
    double pv[3];
    const struct eval_bootstrap b = {.m = p->n,
                                     .resamples = c->resamples,
                                     .seed = c->seed,
                                     .n_stats = 3,
                                     .statistic = mean_difference,
                                     .ctx = p};
    hasten_status st = eval_bootstrap_run(&b, v, pv, err);
    if (st)
        return st;
    *r = (struct eval_comparison){.n = p->n,
                                  .a = v[1].value,
                                  .b = v[2].value,
                                  .difference = v[0],
                                  .p = pv[0],
                                  .more_is_worse = more_is_worse};
    snprintf(r->name, sizeof r->name, "%s", name);
    bool whole = !more_is_worse;
    for (int32_t i = 0; i < p->n; i++) {
        whole &= p->w[i] == 1 && (p->a[i] == 0 || p->a[i] == 1) && (p->b[i] == 0 || p->b[i] == 1);
        r->a_only += p->a[i] > p->b[i];
        r->b_only += p->b[i] > p->a[i];
    }
    if (whole)
        r->p = eval_mcnemar(r->a_only, r->b_only);
    return HASTEN_OK;
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

static const json_t *find_task(const json_t *doc, const json_t *like)
{
    const json_t *tasks = json_object_get(doc, "tasks");
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const json_t *t = json_array_get(tasks, i);
        if (json_equal(json_object_get(t, "task"), json_object_get(like, "task")) &&
            json_equal(json_object_get(t, "length"), json_object_get(like, "length")))
            return t;
    }
    return NULL;
}

static hasten_status compare_task(struct comparing *c, const json_t *a, const json_t *b,
                                  struct hasten_error *err)
{
    const json_t *items = json_object_get(a, "items"), *others = json_object_get(b, "items");
    const char *task = json_string_value(json_object_get(a, "task")), *id;
    const json_t *length = json_object_get(a, "length");
    struct pairs p = {0};
    char name[96];
    json_t *score;
    if (!task || !json_is_object(items) || !json_is_object(others))
        return error_set(err, HASTEN_ERR_FILE,
                         "comparing: a task without a name or items (expected eval --task --json)");
    hasten_status st = pairs_open(&p, json_object_size(items) + 1, err);
    if (!st) {
        json_object_foreach((json_t *)(uintptr_t)items, id, score)
        {
            const json_t *other = json_object_get(others, id);
            if (!json_is_number(other) || !json_is_number(score))
                continue;
            p.w[p.n] = 1;
            p.a[p.n] = json_number_value(score);
            p.b[p.n++] = json_number_value(other);
        }
        if (p.n == 0)
            st = error_set(err, HASTEN_ERR_USAGE, "comparing: %s: no item is in both files", task);
    }
    if (json_is_integer(length))
        snprintf(name, sizeof name, "%s %lld", task, (long long)json_integer_value(length));
    else
        snprintf(name, sizeof name, "%s", task);
    if (!st)
        st = add_row(c, name, &p, false, err);
    pairs_close(&p);
    return st;
}

static hasten_status compare_tasks(struct comparing *c, const json_t *a, const json_t *b,
                                   struct hasten_error *err)
{
    const json_t *tasks = json_object_get(a, "tasks");
    hasten_status st = HASTEN_OK;
    if (!json_equal(json_object_get(a, "seed"), json_object_get(b, "seed")))
        return error_set(err, HASTEN_ERR_USAGE,
                         "comparing: runs of different seeds (expected the same items)");
    for (size_t i = 0; i < json_array_size(tasks) && !st; i++) {
        const json_t *t = json_array_get(tasks, i), *other = find_task(b, t);
        if (other)
            st = compare_task(c, t, other, err);
    }
    if (!st && c->n == 0)
        st = error_set(err, HASTEN_ERR_USAGE, "comparing: no task is in both files");
    return st;
}

/* ---- texts --------------------------------------------------------------------------------------------- */

static hasten_status compare_column(struct comparing *c, const json_t *a, const json_t *b, const char *column,
                                    const char *name, bool more_is_worse, struct hasten_error *err)
{
    const json_t *n = json_object_get(a, "n"), *x = json_object_get(a, column),
                 *y = json_object_get(b, column);
    const size_t count = json_array_size(n);
    struct pairs p = {0};
    if (!x || !y)
        return HASTEN_OK;
    if (json_array_size(x) != count || json_array_size(y) != count || count == 0 || count > INT32_MAX ||
        !json_equal(n, json_object_get(b, "n")))
        return error_set(err, HASTEN_ERR_USAGE,
                         "comparing: blocks of tokens differ (expected the same text and --block)");
    hasten_status st = pairs_open(&p, count, err);
    for (size_t i = 0; i < count && !st; i++) {
        p.w[i] = json_number_value(json_array_get(n, i));
        p.a[i] = json_number_value(json_array_get(x, i));
        p.b[i] = json_number_value(json_array_get(y, i));
        if (p.w[i] < 1)
            st = error_set(err, HASTEN_ERR_FILE, "comparing: block %zu has no tokens (expected eval --json)",
                           i);
    }
    p.n = (int32_t)count;
    if (!st)
        st = add_row(c, name, &p, more_is_worse, err);
    pairs_close(&p);
    return st;
}

static hasten_status compare_texts(struct comparing *c, const json_t *a, const json_t *b,
                                   struct hasten_error *err)
{
    const json_t *x = json_object_get(a, "blocks"), *y = json_object_get(b, "blocks");
    if (!json_equal(json_object_get(a, "text"), json_object_get(b, "text")))
        return error_set(
            err, HASTEN_ERR_USAGE,
            "comparing: runs over different texts or windows (expected the same tokens, -c, --stride)");
    hasten_status st = compare_column(c, x, y, "nll", "nll", true, err);
    if (!st)
        st = compare_column(c, x, y, "kl", "KL", true, err);
    return st ? st : compare_column(c, x, y, "agree", "top-1 agreement", false, err);
}

hasten_status eval_compare(const json_t *a, const json_t *b, int32_t resamples, uint64_t seed,
                           struct eval_comparison *rows, int32_t *n, struct hasten_error *err)
{
    struct comparing c = {.resamples = resamples, .seed = seed, .rows = rows};
    double p[EVAL_MAX_ROWS_COMPARED];
    hasten_status st;
    if (json_object_get(a, "tasks") && json_object_get(b, "tasks"))
        st = compare_tasks(&c, a, b, err);
    else if (json_object_get(a, "blocks") && json_object_get(b, "blocks"))
        st = compare_texts(&c, a, b, err);
    else
        st = error_set(
            err, HASTEN_ERR_FILE,
            "comparing: not two results of one kind (expected two of eval --task, or of eval --ppl, --json)");
    if (!st && c.n == 0)
        st = error_set(err, HASTEN_ERR_FILE, "comparing: no figure is in both files");
    for (int32_t i = 0; i < c.n && !st; i++)
        p[i] = rows[i].p;
    if (!st)
        eval_holm(p, c.n);
    for (int32_t i = 0; i < c.n && !st; i++) {
        struct eval_comparison *r = &rows[i];
        const bool significant = p[i] <= 1 - EVAL_LEVEL;
        r->p_adjusted = p[i];
        r->worse = significant && (r->b > r->a) == r->more_is_worse && r->b != r->a;
        r->better = significant && !r->worse && r->b != r->a;
    }
    *n = st ? 0 : c.n;
    return st;
}
