/* The contract tests: what every method of the engine's stages must keep, on a tiny model (engine/method.h). For each
 * method, from its description alone:
 *     neutral    knobs at their neutral setting give the plain engine's bits
 *     works      at its exercise setting logits differ from the plain engine's, or it is exact and they do not
 *     invariant  at that setting the same bits for any threads, chunks, neighbours; forked; cut back and regrown; by the
 *                plain twins; saved to a file and restored by another engine
 *     knobs      every bad value is refused, by the knob's name
 *     memory     what opening allocates stays within the plan; steps allocate nothing
 *     faults     (faults.c) a failed allocation is an error with a sentence or changes nothing, and nothing leaks; a
 *                step that is cancelled leaves no trace; NaN in the cache stays with its sequence, and goes with the
 *                positions that hold it
 * Methods that the loop of an answer drives keep the same, of answers (hosted.c).
 * For each pair: it keeps `invariant`, or it is refused at the start by both names.
 *
 * Usage: contract MODEL [list | wrong | [alone | pairs] [all | deep | NAME...]]: all methods and pairs, or those among the
 * named; alone: no pairs; pairs: nothing but; deep: faults at every place instead of every few; list: the names. `wrong` runs methods that are wrong on purpose, and each must be caught by the check
 * that it breaks. Prints a line per failure and a summary. */
#include "contract.h"
#include "wrong.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check(struct contract *c, bool good, const char *name, const char *what, const char *more)
{
    c->n_checks++;
    if (good)
        return;
    c->n_failed++;
    c->n_expected += c->expected && (strstr(what, c->expected) || strstr(more, c->expected));
    printf("FAILED %s: %s%s%s\n", name, what, *more ? ": " : "", more);
}

static float *logits_of(const struct contract *c, struct run_spec s, const struct hasten_method_use *use,
                        int n)
{
    s.methods = use;
    s.n_methods = n;
    s.n_prompt = N_PROMPT;
    return run_logits(c->model, &s, c->tokens, N_TOKENS);
}

static bool same(const struct contract *c, const float *a, const float *b)
{
    return first_difference(a, b, N_TOKENS, hasten_model_n_vocab(c->model)) < 0;
}

/* ---- same bits ------------------------------------------------------------------------------------------------ */

static const struct run_spec specs[] = {
    {.n_threads = 1, .chunk = 1, .n_batch = 512},
    {.n_threads = 2, .chunk = 7, .n_batch = 512, .n_neighbours = 3},
    {.n_threads = 3, .chunk = 32, .n_batch = 512, .forked = true},
    {.n_threads = 2, .chunk = 23, .n_batch = 16, .regrown = true, .restored = 1},
    {.n_threads = 2, .chunk = 50, .n_batch = 19, .plain = true},
    {.n_threads = 2, .chunk = 3, .n_batch = 64, .n_neighbours = 3, .regrown = true, .hasty = true},
};

static bool invariant(struct contract *c, const char *name, const struct hasten_method_use *use, int n,
                      size_t n_specs)
{
    bool good = true;
    float *base = logits_of(c, (struct run_spec){.n_threads = 2, .n_batch = 512}, use, n);
    for (size_t i = 0; i < n_specs; i++) {
        char text[160];
        float *got = logits_of(c, specs[i], use, n);
        const bool equal = same(c, base, got);
        check(c, equal, name, "other bits", equal ? "" : spec_text(&specs[i], text, sizeof text));
        good &= equal;
        free(got);
    }
    free(base);
    return good;
}

static bool neutral(struct contract *c, const struct method *m, const struct hasten_method_use *use)
{
    float *got = logits_of(c, (struct run_spec){.n_threads = 2, .chunk = 37, .n_batch = 512}, use, 1);
    const bool equal = same(c, c->plain, got);
    check(c, equal, m->name, "not the plain engine's bits at its neutral setting", m->neutral);
    free(got);
    return equal;
}

static void works(struct contract *c, const struct method *m, const struct hasten_method_use *use)
{
    float *got = logits_of(c, (struct run_spec){.n_threads = 2, .n_batch = 512}, use, 1);
    const bool equal = same(c, c->plain, got);
    if (m->guarantee == METHOD_APPROXIMATE)
        check(c, !equal, m->name, "does nothing at its exercise setting", m->exercise ? m->exercise : "");
    free(got);
}

/* ---- knobs ---------------------------------------------------------------------------------------------------- */

/* Opening an engine with a spec fails as a usage error whose message has `word` in it. */
static bool refused(const struct contract *c, const struct hasten_method_use *use, int n, const char *word)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_error err = {0};
    hasten_engine_default_settings(&s);
    s.n_ctx = N_TOKENS;
    s.n_seq_max = 2;
    s.methods = use;
    s.n_methods = n;
    const hasten_status st = hasten_engine_open(c->model, &s, &e, &err);
    hasten_engine_close(e);
    return st == HASTEN_ERR_USAGE && strstr(err.message, word);
}

static void bad_value(struct contract *c, const struct method *m, const struct knob *k, const char *value)
{
    char spec[256];
    snprintf(spec, sizeof spec, "%s=%s", k->name, value);
    const struct hasten_method_use use = {NULL, spec, m};
    check(c, refused(c, &use, 1, k->name), m->name, "takes a bad value, or does not name the knob", spec);
}

static void knobs(struct contract *c, const struct method *m)
{
    for (int32_t i = 0; i < m->n_knobs; i++) {
        const struct knob *k = &m->knobs[i];
        char beyond[64];
        if (k->type != KNOB_TEXT)
            bad_value(c, m, k, "x!");
        bad_value(c, m, k, "");
        if (k->type == KNOB_INT || k->type == KNOB_FLOAT) {
            snprintf(beyond, sizeof beyond, "%.17g", k->hi + fabs(k->hi) + 1);
            bad_value(c, m, k, beyond);
            snprintf(beyond, sizeof beyond, "%.17g", k->lo - fabs(k->lo) - 1);
            bad_value(c, m, k, beyond);
            bad_value(c, m, k, "nan");
        }
        if (k->type == KNOB_BUDGET) {
            bad_value(c, m, k, "0");
            bad_value(c, m, k, "-3");
            bad_value(c, m, k, "2.5");
            bad_value(c, m, k, "nan");
        }
        if (k->type == KNOB_LAYERS) {
            bad_value(c, m, k, "3-1");
            bad_value(c, m, k, "0+");
            bad_value(c, m, k, "900");
        }
        check(c, k->help && *k->help, m->name, "a knob without help", k->name);
    }
    check(c, refused(c, &(struct hasten_method_use){NULL, "no_such_knob=1", m}, 1, "no_such_knob"), m->name,
          "takes a knob that it does not have", "");
}

static void words(struct contract *c, const struct method *m)
{
    check(c, m->title && m->paper && m->exact_to && m->text, m->name, "a description is missing", "");
    check(c,
          m->neutral || m->guarantee != METHOD_APPROXIMATE || m->traits & METHOD_FOR_TESTS || !m->n_knobs ||
              m->stage == STAGE_DECIDE, /* it changes no answer */

          m->name, "no neutral setting", "");
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static void memory(struct contract *c, const struct method *m, const struct hasten_method_use *use)
{
    struct hasten_engine_settings s;
    struct hasten_engine *e = NULL;
    struct hasten_seq *seq = NULL;
    struct hasten_error err = {0};
    struct hasten_plan plan;
    struct mem_stats before, opened, after;
    hasten_engine_default_settings(&s);
    s.n_ctx = N_TOKENS;
    s.n_threads = 2;
    s.n_seq_max = 2;
    s.methods = use;
    s.n_methods = 1;
    die_unless_ok(hasten_engine_plan(c->model, &s, &plan, &err), &err, "planning");
    mem_stats_get(&before);
    die_unless_ok(hasten_engine_open(c->model, &s, &e, &err), &err, "opening");
    die_unless_ok(hasten_seq_open(e, &seq, &err), &err, "a sequence");
    die_unless_ok(hasten_seq_announce(seq, N_PROMPT, &err), &err, "announcing");
    mem_stats_get(&opened);
    check(c, opened.live_bytes - before.live_bytes <= plan.total_bytes - plan.file_bytes, m->name,
          "allocates more than was planned", "");
    for (int32_t at = 0; at < N_TOKENS; at += N_TOKENS / 10)
        die_unless_ok(hasten_step(e,
                                  &(struct hasten_item){.seq = seq,
                                                        .tokens = c->tokens + at,
                                                        .n = N_TOKENS / 10,
                                                        .want_from = N_TOKENS / 10},
                                  1, NULL, NULL, NULL, &err),
                      &err, "a step");
    mem_stats_get(&after);
    check(c, after.n_calls == opened.n_calls, m->name, "allocates while tokens flow", "");
    hasten_engine_close(e);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

static bool in_engine(const struct method *m)
{
    return m->attend || m->cache || m->depth || m->weights;
}

static void one(struct contract *c, const struct method *m)
{
    const struct hasten_method_use use = {NULL, m->exercise ? m->exercise : "", m};
    words(c, m);
    knobs(c, m);
    if (m->neutral)
        neutral(c, m, &(struct hasten_method_use){NULL, m->neutral, m});
    works(c, m, &use);
    invariant(c, m->name, &use, 1, sizeof specs / sizeof *specs);
    memory(c, m, &use);
    faults(c, m, &use);
}

/* Stages that answers are made with here; others have tests of their own for what they do. */
static bool in_answers(const struct method *m)
{
    return m->hosted && (m->stage == STAGE_DRAFT || m->stage == STAGE_STOP || m->stage == STAGE_STORE);
}

static void one_hosted(struct contract *c, const struct method *m)
{
    words(c, m);
    knobs(c, m);
    if (m->exercise)
        memory(c, m, &(struct hasten_method_use){NULL, m->exercise, m});
    if (in_answers(m))
        hosted(c, m);
}

static void each(struct contract *c, const struct method *m)
{
    if (in_engine(m))
        one(c, m);
    else if (m->hosted)
        one_hosted(c, m);
}

static void pair(struct contract *c, const struct method *a, const struct method *b)
{
    const struct hasten_method_use use[] = {{NULL, a->exercise ? a->exercise : "", a},
                                            {NULL, b->exercise ? b->exercise : "", b}};
    char name[128];
    snprintf(name, sizeof name, "%s + %s", a->name, b->name);
    if (method_clash(a, b)) {
        check(c, refused(c, use, 2, a->name) && refused(c, use, 2, b->name), name,
              "not refused by both names", "");
        return;
    }
    if (in_engine(a) && in_engine(b))
        invariant(c, name, use, 2, 4);
    else
        hosted_pair(c, name, use);
}

/* Pairs are run with what can be exercised without a file. */
static bool has_tests(const struct method *m)
{
    return in_engine(m) || (in_answers(m) && m->exercise);
}

static bool asked(const struct method *m, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "all") == 0 || strcmp(argv[i], "deep") == 0 || strcmp(argv[i], m->name) == 0)
            return true;
    return argc == 2;
}

/* Each wrong method is caught, and by the check that it is to break. */
static int run_wrong(struct contract *c, const struct wrong_method *list)
{
    int bad = 0;
    for (size_t i = 0; list[i].m; i++) {
        struct contract quiet = *c;
        quiet.n_expected = 0;
        quiet.expected = list[i].caught;
        if (strstr(list[i].caught, "alloc") || strstr(list[i].caught, "said"))
            quiet.every = 1; /* one place of many */
        printf("-- %s must be caught by '%s':\n", list[i].m->name, list[i].caught);
        each(&quiet, list[i].m);
        if (quiet.n_expected == 0) {
            printf("NOT CAUGHT: %s\n", list[i].m->name);
            bad++;
        }
    }
    printf("%d wrong methods not caught\n", bad);
    return bad != 0;
}

#ifdef CONTRACT_PAGE
extern const struct method method_stride; /* of docs/add-a-method.md */
#endif

int main(int argc, char **argv)
{
    static struct contract c;
    int32_t n;
    const struct method *const *all = methods_all(&n);
#ifdef CONTRACT_PAGE
    static const struct method *const of_page[] = {&method_stride};
    all = of_page;
    n = 1;
#endif
    if (argc < 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct hasten_model *m = open_or_exit(argv[1]);
    c.model = m;
    c.path = argv[1];
    c.every = argc > 2 && strcmp(argv[argc - 1], "deep") == 0 ? 1 : FAULTS_APART;
    random_tokens(3, hasten_model_n_vocab(m), c.tokens, N_TOKENS);
    c.plain = logits_of(&c, (struct run_spec){.n_threads = 2, .n_batch = 512}, NULL, 0);
    int rc = 0;
    const char *first = argc > 2 ? argv[2] : "all";
    if (strcmp(first, "wrong") == 0) {
        rc = run_wrong(&c, wrong_methods);
        rc |= run_wrong(&c, wrong_hosted);
    } else if (strcmp(first, "list") == 0) {
        for (int32_t i = 0; i < n; i++)
            if (in_engine(all[i]) || all[i]->hosted)
                printf("%s\n", all[i]->name);
    } else {
        for (int32_t i = 0; i < n && strcmp(first, "pairs") != 0; i++)
            if (asked(all[i], argc, argv))
                each(&c, all[i]);
        for (int32_t i = 0; i < n && strcmp(first, "alone") != 0; i++)
            for (int32_t j = i; j < n; j++)
                if (has_tests(all[i]) && has_tests(all[j]) && asked(all[i], argc, argv) &&
                    asked(all[j], argc, argv))
                    pair(&c, all[i], all[j]);
        printf("%d checks, %d failed\n", c.n_checks, c.n_failed);
        rc = c.n_failed != 0 || c.n_checks == 0;
    }
    free(c.plain);
    hasten_model_close(m);
    return rc;
}
