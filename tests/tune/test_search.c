/* The search of `tune` (src/tune/search.h) with candidates whose gain and damage are known: what it chooses, what it
 * rejects, and the reasons it gives. */
#include "tune/search.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define METHOD_OF(id, its_stage, its_role)                                                                   \
    static const struct method id = {                                                                        \
        .name = #id, .stage = its_stage, .role = its_role, .guarantee = METHOD_EXACT}
METHOD_OF(fast, STAGE_DRAFT, "propose");
METHOD_OF(faster, STAGE_DRAFT, "propose");
METHOD_OF(slow, STAGE_ATTEND, "select");
METHOD_OF(other_stage, STAGE_CACHE, "evict");
METHOD_OF(none, STAGE_DEPTH, NULL);

/* What is true of a method. */
struct truth {
    const struct method *m;
    double gain, held; /* on prompts to tune on; on held-out ones */
    double noise;      /* relative, of each pair */
    double kl;         /* above 0: approximate */
    bool differs, refused;
};

struct world {
    const struct truth *truth;
    int n, measured, late_after;
};

static const struct truth *truth_of(const struct world *w, const struct method *m)
{
    for (int i = 0; i < w->n; i++)
        if (w->truth[i].m == m)
            return &w->truth[i];
    fail_msg("no truth of %s", m->name);
    return NULL;
}

static hasten_status measure(void *ctx, const struct tune_candidate *c, bool held, int32_t first, int32_t n,
                             struct answers_pair *out, struct hasten_error *err)
{
    struct world *w = ctx;
    w->measured++;
    for (int32_t i = 0; i < n; i++) {
        double gain = 1, swing = 0;
        out[i] = (struct answers_pair){
            .plain_prompt_s = 0.1, .plain_answer_s = 1, .plain_tokens = 50, .tokens = 50, .same = true};
        for (int32_t j = 0; j < c->n_use; j++) {
            const struct truth *t = truth_of(w, c->use[j].m);
            if (t->refused)
                return error_set(err, HASTEN_ERR_USAGE, "%s needs another model", t->m->name);
            gain *= held ? t->held : t->gain;
            swing += t->noise;
            out[i].same &= !t->differs;
        }
        gain *= 1 + ((first + i) % 2 ? swing : -swing);
        out[i].prompt_s = out[i].plain_prompt_s / gain;
        out[i].answer_s = out[i].plain_answer_s / gain;
    }
    return HASTEN_OK;
}

static hasten_status damage(void *ctx, struct tune_candidate *c, struct hasten_error *err)
{
    double kl = 0;
    (void)err;
    for (int32_t j = 0; j < c->n_use; j++)
        kl += truth_of(ctx, c->use[j].m)->kl;
    c->kl = (struct eval_interval){kl, 0.9 * kl, 1.1 * kl};
    c->measured_kl = true;
    return HASTEN_OK;
}

static bool late(void *ctx)
{
    const struct world *w = ctx;
    return w->late_after > 0 && w->measured >= w->late_after;
}

static struct tune_search searched(struct world *w, double max_kl)
{
    struct tune_search s = {0};
    struct hasten_error err;
    const struct tune_settings settings = {
        .max_kl = max_kl, .n_tune = 6, .n_held = 4, .least = 2, .repeat = 2};
    const struct tune_ops ops = {measure, damage, late, NULL, w};
    for (int i = 0; i < w->n; i++) {
        struct tune_candidate *c = tune_add(&s, &err);
        assert_non_null(c);
        c->use[c->n_use++] = (struct tune_use){w->truth[i].m, ""};
        c->exact = w->truth[i].kl <= 0;
    }
    if (tune_run(&s, &settings, &ops, &err))
        fail_msg("%s", err.message);
    return s;
}

static void rejected(const struct tune_search *s, const struct method *m, const char *why)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->c[i].n_use == 1 && s->c[i].use[0].m == m) {
            assert_int_equal(s->c[i].verdict, TUNE_REJECTED);
            if (!strstr(s->c[i].why, why))
                fail_msg("%s: %s (expected %s)", m->name, s->c[i].why, why);
            return;
        }
    fail_msg("%s is no candidate", m->name);
}

static const struct tune_candidate *chosen(const struct tune_search *s)
{
    return s->chosen < 0 ? NULL : &s->c[s->chosen];
}

static void the_fastest_is_chosen_and_what_loses_is_not(void **state)
{
    (void)state;
    const struct truth t[] = {{&fast, 1.3, 1.3, 0.02, 0, false, false},
                              {&faster, 1.6, 1.5, 0.02, 0, false, false},
                              {&slow, 0.8, 0.8, 0.02, 0, false, false}};
    struct world w = {t, 3, 0, 0};
    struct tune_search s = searched(&w, 0);
    assert_ptr_equal(chosen(&s)->use[0].m, &faster);
    assert_int_equal(chosen(&s)->n_use, 1); /* fast has the same role */
    assert_true(chosen(&s)->held.answer.lo > 1 && fabs(chosen(&s)->held.answer.value - 1.5) < 0.03);
    rejected(&s, &slow, "slower: 0.8");
    rejected(&s, &fast, "others gain more");
    tune_search_free(&s);
}

static void what_only_may_win_is_not_chosen(void **state)
{
    (void)state;
    const struct truth t[] = {{&fast, 1.02, 1.0, 0.2, 0, false, false}};
    struct world w = {t, 1, 0, 0};
    struct tune_search s = searched(&w, 0);
    assert_null(chosen(&s));
    rejected(&s, &fast, "not shown to gain");
    tune_search_free(&s);
}

/* Chosen by luck, or by what the prompts to tune on have in common: the held-out ones say so, and the next one counts. */
static void held_out_prompts_decide(void **state)
{
    (void)state;
    const struct truth t[] = {{&faster, 2.0, 0.9, 0.01, 0, false, false},
                              {&fast, 1.2, 1.2, 0.01, 0, false, false}};
    struct world w = {t, 2, 0, 0};
    struct tune_search s = searched(&w, 0);
    rejected(&s, &faster, "held-out");
    assert_ptr_equal(chosen(&s)->use[0].m, &fast);
    assert_int_equal(chosen(&s)->n_use, 1);
    tune_search_free(&s);
}

static void damage_is_bounded(void **state)
{
    (void)state;
    const struct truth t[] = {{&slow, 3.0, 3.0, 0.01, 0.2, false, false},
                              {&other_stage, 1.5, 1.5, 0.01, 0.01, false, false}};
    struct world w = {t, 2, 0, 0};
    struct tune_search s = searched(&w, 0.05);
    rejected(&s, &slow, "damage: KL 0.2");
    assert_ptr_equal(chosen(&s)->use[0].m, &other_stage);
    assert_true(chosen(&s)->measured_kl);
    tune_search_free(&s);
    s = searched(&w, 0.3);
    assert_int_equal(chosen(&s)->n_use, 2); /* both together, 4.5 x, KL 0.21 up to 0.231 */
    tune_search_free(&s);
    s = searched(&w, 0.0105); /* the bound is for the upper end of the interval */
    assert_null(chosen(&s));
    rejected(&s, &other_stage, "damage");
    tune_search_free(&s);
}

static void what_lies_or_cannot_be_is_rejected(void **state)
{
    (void)state;
    const struct truth t[] = {{&fast, 2.0, 2.0, 0, 0, true, false},
                              {&slow, 3.0, 3.0, 0, 0, false, true},
                              {&other_stage, 1.2, 1.2, 0, 0, false, false}};
    struct world w = {t, 3, 0, 0};
    struct tune_search s = searched(&w, 0);
    rejected(&s, &fast, "not the plain engine's");
    rejected(&s, &slow, "not possible here: slow needs another model");
    assert_ptr_equal(chosen(&s)->use[0].m, &other_stage);
    tune_search_free(&s);
}

static void what_gains_together_is_put_together(void **state)
{
    (void)state;
    const struct truth t[] = {{&faster, 1.5, 1.5, 0.01, 0, false, false},
                              {&slow, 1.3, 1.3, 0.01, 0, false, false},
                              {&none, 0.7, 0.7, 0.01, 0, false, false}};
    struct world w = {t, 3, 0, 0};
    struct tune_search s = searched(&w, 0);
    struct buf name = {0};
    assert_int_equal(chosen(&s)->n_use, 2);
    assert_int_equal(tune_describe(chosen(&s), &name), HASTEN_OK);
    assert_string_equal(name.data, "draft faster + attend slow");
    buf_free(&name);
    tune_search_free(&s);
}

static void time_ends_the_search_and_not_the_judgement(void **state)
{
    (void)state;
    const struct truth t[] = {{&faster, 1.5, 1.5, 0.01, 0, false, false},
                              {&slow, 9, 9, 0.01, 0, false, false}};
    struct world w = {t, 2, 0, 1};
    struct tune_search s = searched(&w, 0);
    assert_ptr_equal(chosen(&s)->use[0].m, &faster);
    rejected(&s, &slow, "the time was over");
    tune_search_free(&s);
}

/* Of registered methods: what is approximate is not even tried when nothing may be damaged, and everything says why. */
static void candidates_are_what_applies(void **state)
{
    (void)state;
    struct tune_search exact = {0}, any = {0};
    struct hasten_error err;
    int n_exact = 0, n_any = 0;
    assert_int_equal(tune_candidates(&exact, 2, 0, &err), HASTEN_OK);
    assert_int_equal(tune_candidates(&any, 2, 0.1, &err), HASTEN_OK);
    assert_int_equal(exact.n, any.n);
    for (int32_t i = 0; i < exact.n; i++) {
        const struct tune_candidate *c = &exact.c[i];
        n_exact += c->verdict == TUNE_OPEN;
        n_any += any.c[i].verdict == TUNE_OPEN;
        assert_true(c->verdict == TUNE_OPEN ? c->exact : strlen(c->why) > 10);
        for (int32_t j = 0; j < c->n_use; j++) { /* what is tried can be parsed */
            struct method_use u;
            assert_false(any.c[i].verdict == TUNE_OPEN && c->use[j].m->traits & METHOD_FOR_TESTS);
            if (any.c[i].verdict == TUNE_OPEN && method_parse_knobs(c->use[j].m, c->use[j].knobs, &u, &err))
                fail_msg("%s: %s", c->use[j].knobs, err.message);
            else if (any.c[i].verdict == TUNE_OPEN)
                method_use_close(&u);
        }
    }
    assert_true(n_exact >= 4 && n_any > n_exact + 10);
    tune_search_free(&exact);
    tune_search_free(&any);
}

static void gains_are_ratios_of_sums(void **state)
{
    (void)state;
    struct gain g;
    struct hasten_error err;
    const struct answers_pair pairs[] = {
        {1, 8, 1, 2, 100, 50, false}, /* half the tokens in a quarter of the time */
        {1, 2, 1, 2, 10, 10, true}};
    assert_int_equal(gain_of(pairs, 2, &g, &err), HASTEN_OK);
    assert_true(fabs(g.decode.value - 10.0 / 6) < 1e-9 && fabs(g.prompt.value - 1) < 1e-9);
    assert_true(fabs(g.answer.value - 12.0 / 8) < 1e-9 && g.answer.lo <= g.answer.value);
    const struct answers_pair one = {1, 0, 0.5, 0,
                                     0, 0, true}; /* an answer of one token: nothing was decoded */
    assert_int_equal(gain_of(&one, 1, &g, &err), HASTEN_OK);
    assert_true(fabs(g.answer.value - 2) < 1e-9 && isnan(g.decode.value) && isnan(g.answer.lo));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_fastest_is_chosen_and_what_loses_is_not),
                                       cmocka_unit_test(what_only_may_win_is_not_chosen),
                                       cmocka_unit_test(held_out_prompts_decide),
                                       cmocka_unit_test(damage_is_bounded),
                                       cmocka_unit_test(what_lies_or_cannot_be_is_rejected),
                                       cmocka_unit_test(what_gains_together_is_put_together),
                                       cmocka_unit_test(time_ends_the_search_and_not_the_judgement),
                                       cmocka_unit_test(candidates_are_what_applies),
                                       cmocka_unit_test(gains_are_ratios_of_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
