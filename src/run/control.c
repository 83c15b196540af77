/* See control.h.
 *
 * Tokens of a step that proposes k of a class: 1 + sum over i <= k of the product of the chances of the first i (each
 * given the one before, from counts that begin with what the drafter says of itself). Cost of a step of m rows: what was measured, between
 * measurements a straight line, beyond them its last slope. A class that does not pay is tried again now and then with
 * few tokens, so that a text which becomes predictable is noticed; that costs about 1 %, and so does the plain step that
 * is put in between many others to know what they are compared with.
 *
 * Counts of a new text say nothing yet, and an answer is often over before they do. So what proposals can lose is bounded
 * by an account: it begins with the cost of half a step, gets 1 % of each plain step and what each step with proposals saved
 * (or lost), and no step may add rows that cost more than is in it. A text in which nothing stands is slowed by that, not
 * more; one in which much stands has soon saved enough to try longer proposals. */
#include "run/control.h"

#define PRIOR 3.0        /* counts that the first proposals of a class begin with */
#define KEEP 0.98        /* of the counts, each time */
#define GAIN 1.02        /* less is not worth it */
#define RETRY 32         /* proposals let pass before one is tried */
#define RETRY_TOKENS 3   /* with so many tokens */
#define REFRESH 64       /* steps with proposals before a plain one is measured again */
#define FIRST_SLOPE 0.1  /* of a plain step's cost for each row more, before anything is known */
#define FIRST_CREDIT 0.5 /* of plain steps: what may be lost before anything was saved */
#define STEP_CREDIT 0.01 /* of each plain step */
#define MOST_CREDIT 4.0  /* of plain steps: what was saved long ago is no reason to lose much now */

static int32_t class_of(float conf)
{
    const int32_t c = (int32_t)(conf * CONTROL_CLASSES);
    return c < 0 || !(conf >= 0) ? 0 : c >= CONTROL_CLASSES ? CONTROL_CLASSES - 1 : c;
}

static int32_t place_of(int32_t i)
{
    return i < CONTROL_PLACES - 1 ? i : CONTROL_PLACES - 1;
}

static double chance(const struct draft_control *c, int32_t class, int32_t i)
{
    const int32_t p = place_of(i);
    const double sure = 0.5 + 0.45 * class / (CONTROL_CLASSES - 1);
    return (PRIOR * sure + c->stood[class][p]) / (PRIOR + c->checked[class][p]);
}

/* Cost of a step of m rows that is not shared; 0: nothing is known. */
static double own_cost(const struct draft_control *c, int32_t m)
{
    int32_t below = 0, above = 0, before = 0;
    for (int32_t i = 1; i <= DRAFT_MAX + 1; i++) {
        if (c->ms[i] <= 0)
            continue;
        if (i <= m) {
            before = below;
            below = i;
        } else if (!above) {
            above = i;
        }
    }
    if (below == m)
        return c->ms[m];
    if (below && above)
        return c->ms[below] + (c->ms[above] - c->ms[below]) * (m - below) / (above - below);
    if (!below)
        return above ? c->ms[above] : 0;
    double slope =
        before ? (c->ms[below] - c->ms[before]) / (below - before) : FIRST_SLOPE * c->ms[below] / below;
    return c->ms[below] + (slope > 0 ? slope : 0) * (m - below);
}

/* Cost of a step with k proposed tokens. */
static double cost_with(const struct draft_control *c, const struct draft_company *with, int32_t k)
{
    return with ? cost_of(with->cost, with->rows + k) : own_cost(c, k + 1);
}

int32_t control_choose(struct draft_control *c, const struct draft_company *with, int32_t n, float conf,
                       double *tokens)
{
    const int32_t class = class_of(conf);
    const double plain = cost_with(c, with, 0), others = with ? with->tokens : 0;
    double reach = 1, sum = 1, best = plain > 0 ? GAIN * (others + 1) / plain : 0;
    int32_t k = 0;
    *tokens = 1;
    if (n < 1 || plain <= 0 || (!with && (c->ms[1] <= 0 || c->since_plain >= REFRESH)))
        return 0;
    for (int32_t i = 0; i < n; i++) {
        reach *= chance(c, class, i);
        sum += reach;
        const double speed = (others + sum) / cost_with(c, with, i + 1);
        if (speed > best) {
            best = speed;
            k = i + 1;
            *tokens = sum;
        }
    }
    c->paused[class] = k ? 0 : c->paused[class] + 1;
    if (c->paused[class] >= RETRY) {
        c->paused[class] = 0;
        k = n < RETRY_TOKENS ? n : RETRY_TOKENS;
    }
    while (!with && k > 0 && own_cost(c, k + 1) - plain > c->credit)
        k--;
    return k;
}

/* What a step saved against plain ones, by what such steps usually cost: a disturbance is nobody's loss. */
static void settle(struct draft_control *c, int32_t rows, int32_t n_drafts, int32_t n_stood)
{
    const double plain = c->ms[1], most = MOST_CREDIT * plain;
    if (plain <= 0)
        return;
    if (n_drafts)
        c->credit += (n_stood + 1) * plain - c->ms[rows];
    else
        c->credit += STEP_CREDIT * plain;
    c->credit = c->credit > most ? most : c->credit < -plain ? -plain : c->credit;
}

void control_note(struct draft_control *c, int32_t n_due, int32_t n_drafts, float conf, int32_t n_checked,
                  int32_t n_stood, double ms)
{
    const int32_t class = class_of(conf), rows = n_due + n_drafts;
    c->since_plain = n_drafts ? c->since_plain + 1 : 0;
    for (int32_t i = 0; i < n_checked; i++) {
        double *checked = &c->checked[class][place_of(i)], *stood = &c->stood[class][place_of(i)];
        *checked = KEEP * *checked + 1;
        *stood = KEEP * *stood + (i < n_stood);
    }
    if (rows > DRAFT_MAX + 1 || !(ms > 0))
        return;
    double *known = &c->ms[rows]; /* down faster than up: what disturbs a step makes it longer */
    const double by = ms - *known;
    if (rows == 1 && *known <= 0)
        c->credit = FIRST_CREDIT * ms;
    *known = *known <= 0 ? ms : *known + (by < 0 ? 0.3 * by : 0.1 * (by < *known ? by : *known));
    settle(c, rows, n_drafts, n_stood);
}
