/* `hasten eval --compare A.json B.json`: whether B is worse than A (src/eval/compare.h). */
#include "eval/compare.h"
#include "cli/eval.h"
#include <math.h>

static const char *verdict(const struct eval_comparison *r)
{
    return r->worse ? "worse" : r->better ? "better" : "";
}

static int print_json(const struct eval_args *a, const struct eval_comparison *rows, int32_t n, bool worse)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        const struct eval_comparison *r = &rows[i];
        json_add(&list,
                 json_pack("{s:s, s:i, s:f, s:f, s:o, s:f, s:f, s:i, s:i, s:s}", "name", r->name, "n",
                           (int)r->n, "a", r->a, "b", r->b, "difference", eval_interval_json(&r->difference),
                           "p", r->p, "p_adjusted", r->p_adjusted, "a_larger", (int)r->a_only, "b_larger",
                           (int)r->b_only, "verdict", verdict(r)));
    }
    const int rc = cli_json(json_pack("{s:o, s:b, s:i, s:I, s:f}", "rows", list, "worse", worse, "resamples",
                                      (int)a->resamples, "seed", (json_int_t)a->seed, "level", EVAL_LEVEL));
    return rc ? rc : worse;
}

static int print_table(const struct eval_args *a, const struct eval_comparison *rows, int32_t n,
                       const char *const *files, bool worse)
{
    printf("A  %s\nB  %s\n\n%-22s %6s %10s %10s %10s   %-24s %8s\n", files[0], files[1], "", "pairs", "A",
           "B", "B - A", "95 % interval", "p (Holm)");
    for (int32_t i = 0; i < n; i++) {
        const struct eval_comparison *r = &rows[i];
        char interval[48] = "";
        if (isfinite(r->difference.lo))
            snprintf(interval, sizeof interval, "[%.4g, %.4g]", r->difference.lo, r->difference.hi);
        printf("%-22s %6d %10.4g %10.4g %10.4g   %-24s %8.4f  %s\n", r->name, (int)r->n, r->a, r->b,
               r->difference.value, interval, r->p_adjusted, verdict(r));
    }
    printf("\nB is %s (two-sided, level 0.05 over all rows; %d resamples, seed %llu)\n",
           worse ? "significantly worse" : "not significantly worse", (int)a->resamples,
           (unsigned long long)a->seed);
    return cli_finish(worse);
}

int eval_compare_mode(struct eval_args *a, const struct option_positionals *files)
{
    struct eval_comparison rows[EVAL_MAX_ROWS_COMPARED];
    struct hasten_error err;
    json_t *doc[2] = {NULL, NULL};
    int32_t n = 0;
    bool worse = false;
    hasten_status st = HASTEN_OK;
    for (int i = 0; i < 2 && !st; i++)
        st = cli_read_json(files->items[i], &doc[i], &err);
    if (!st)
        st = eval_compare(doc[0], doc[1], a->resamples, a->seed, rows, &n, &err);
    for (int32_t i = 0; i < n; i++)
        worse |= rows[i].worse;
    json_decref(doc[0]);
    json_decref(doc[1]);
    return st           ? ui_fail(&a->ui, &err)
           : a->ui.json ? print_json(a, rows, n, worse)
                        : print_table(a, rows, n, files->items, worse);
}
