/* Top-p: the shortest beginning of the order that holds at least top_p of the sum.
 *
 * The law sums in the order. A sum of n positive numbers in any other order differs from that by less than n 2^-52 of
 * itself, so where a comparison does not depend on such a difference it is the law's, and nothing need be sorted. A
 * token is kept when the sum of those ahead of it is below top_p of the whole: membership is one pass. So the race is
 * run over a set that surely holds all that is kept, and its winner, if it is kept, is the winner among the kept; if
 * it is not, the race is run again over the tokens ahead of it. The sums above some cuts choose the set so narrow
 * that this is rare. When rounding decides, the tokens are sorted and added as the law says. */
#include "sample/scratch.h"
#include <math.h>

#define CUT_MARGIN 1e-3 /* relative error of the sums at the cuts is below */

static void add_blocks(const struct view *v, int32_t b0, int32_t b1, float floor, struct row_sum *sum)
{
    int32_t whole = b1 < v->n_whole ? b1 : v->n_whole;
    if (whole > b0)
        v->pass->add(sum, v->row + (int64_t)b0 * ROW_BLOCK, v->block_max + b0, whole - b0, floor);
    if (b1 > v->n_whole && b1 > b0)
        v->pass->add(sum, v->tail, v->block_max + v->n_whole, 1, floor);
}

/* The block in which the set's equal values end. */
static void add_divided(const struct view *v, int32_t b, struct ahead set, struct row_sum *sum)
{
    float part[ROW_BLOCK], part_max;
    const float *x = block_of(v, b);
    for (int i = 0; i < ROW_BLOCK; i++)
        part[i] = is_ahead(set, x[i], b * ROW_BLOCK + i) ? x[i] : -INFINITY;
    v->pass->maxima(part, 1, &part_max);
    v->pass->add(sum, part, &part_max, 1, set.value);
}

void sum_of_set(const struct view *v, struct ahead set, struct row_sum *sum)
{
    int32_t b = set.place / ROW_BLOCK, b0 = b < v->n_blocks ? b : v->n_blocks;
    add_blocks(v, 0, b0, set.value, sum);
    if (b0 == v->n_blocks)
        return;
    add_divided(v, b0, set, sum);
    add_blocks(v, b0 + 1, v->n_blocks, nextafterf(set.value, INFINITY), sum);
}

double exps_of_list(struct sampler *s, int64_t n, float max)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        s->exps[i] = pack_value(s->cand[i]);
    for (int64_t i = n; i % ROW_LANES; i++)
        s->exps[i] = max;
    s->pass->exps(s->exps, (n + ROW_LANES - 1) / ROW_LANES * ROW_LANES, max, s->exps);
    for (int64_t i = 0; i < n; i++)
        sum += (double)s->exps[i];
    return sum;
}

int64_t top_p_of_list(struct sampler *s, int64_t n, float top_p, float max)
{
    double sum = exps_of_list(s, n, max), have = 0;
    for (int64_t i = 0; i < n; i++) {
        have += (double)s->exps[i];
        if (have >= (double)top_p * sum)
            return i + 1;
    }
    return n;
}

/* Where what is kept ends: every token with logit >= sure is kept, none below `least`. */
struct edge {
    float sure, least;
    double share; /* of what lies above least, the part that is kept */
};

/* Narrows e by the sums above the cuts; want: the sum to keep. */
static void narrow(struct edge *e, const struct row_sum *sum, double want)
{
    for (int32_t c = 0; c < sum->n_cuts; c++) {
        double at = (double)row_sum_at_cut(sum, c);
        if (at < want * (1 - CUT_MARGIN))
            e->sure = fminf(e->sure, sum->cut[c]);
        if (at > want * (1 + CUT_MARGIN)) {
            e->least = fmaxf(e->least, sum->cut[c]);
            e->share = want / at;
            return;
        }
    }
}

/* Cuts between the ends of a wide edge. */
static void narrow_again(const struct sampler *s, struct edge *e, struct ahead set, double want, float max)
{
    struct row_sum sum = {.max = max, .n_cuts = ROW_CUTS};
    float top = fminf(e->sure, max), step = (top - e->least) / (ROW_CUTS + 1);
    for (int c = 0; c < ROW_CUTS; c++)
        sum.cut[c] = top - step * (float)(c + 1);
    sum_of_set(&s->all, both(set, (struct ahead){e->least, INT32_MAX}), &sum);
    narrow(e, &sum, want);
}

static int32_t race_sorted(struct sampler *s, struct race *r, int64_t k, struct ahead min_p)
{
    int64_t n = select_all(s);
    n = top_p_of_list(s, n < k ? n : k, r->p->top_p, r->max);
    while (n > 1 && pack_value(s->cand[n - 1]) < min_p.value)
        n--;
    return race_list(r, s->cand, n);
}

int32_t race_top_p(struct sampler *s, struct race *r, struct ahead set, int64_t k, struct ahead min_p)
{
    static const float gaps[ROW_CUTS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11.5f, 13};
    struct row_sum sum = {.max = r->max, .n_cuts = ROW_CUTS};
    for (int c = 0; c < ROW_CUTS; c++)
        sum.cut[c] = finite_f32((double)r->max - (double)gaps[c]);
    sum_of_set(&s->all, set, &sum);
    double slack = s->n_vocab * 0x1p-50, want = (double)r->p->top_p * row_sum_total(&sum);
    struct edge e = {.sure = INFINITY, .least = -FLT_MAX, .share = (double)r->p->top_p};
    narrow(&e, &sum, want);
    struct ahead in;
    struct view v = select_view(s, both(set, (struct ahead){e.least, INT32_MAX}), &in);
    if (!v.ids && e.least > -FLT_MAX && (r->p->temperature > 1 || e.share < 0.9)) { /* races cost: make few */
        narrow_again(s, &e, set, want, r->max);
        v = select_view(s, both(set, (struct ahead){e.least, INT32_MAX}), &in);
    }
    for (in = both(in, min_p);;) {
        int32_t at = race_view(&v, r, in);
        float value = value_of(&v, at);
        if (value >= e.sure)
            return id_of(&v, at);
        struct row_sum before = {.max = r->max};
        in = (struct ahead){value, at};
        sum_of_set(&v, in, &before);
        double have = row_sum_total(&before);
        if (have < want * (1 - slack))
            return id_of(&v, at);
        if (have < want * (1 + slack))
            return race_sorted(s, r, k, min_p);
    }
}
