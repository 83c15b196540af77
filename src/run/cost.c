/* See cost.h. Classes of rows lie a quarter apart, the first few one row each. What was seen of more rows than a step had
 * is believed a little less with every step, so that a disturbance, or a context that was longer, is forgotten. */
#include "run/cost.h"

#define NEWER 0.3        /* weight of a new figure */
#define FORGET 0.999     /* of what is known of larger steps, each time */
#define FIRST_SLOPE 0.33 /* of a row's share, for each row more, before anything is known */
#define BEYOND 4         /* times the rows of the largest step seen may be tried */

static const int32_t least_rows[COST_CLASSES] = {1,   2,   3,   4,   5,   6,    8,    10,   12,   16,  20,
                                                 24,  32,  40,  48,  64,  80,   96,   128,  160,  192, 256,
                                                 320, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096};

static int class_of(int32_t rows)
{
    int c = COST_CLASSES - 1;
    while (c > 0 && least_rows[c] > rows)
        c--;
    return c;
}

void cost_note(struct step_cost *c, int32_t rows, double ms)
{
    const int at = class_of(rows);
    if (rows < 1 || !(ms > 0))
        return;
    if (c->ms[at] <= 0) {
        c->ms[at] = ms;
        c->rows[at] = rows;
    } else {
        const double by =
            ms - c->ms[at]; /* what disturbs a step makes it longer: not more than double at once */
        c->ms[at] += NEWER * (by < c->ms[at] ? by : c->ms[at]);
        c->rows[at] += NEWER * (rows - c->rows[at]);
    }
    for (int i = at + 1; i < COST_CLASSES; i++)
        c->ms[i] *= FORGET;
}

/* Line through two figures, not falling. */
static double line(double x0, double y0, double x1, double y1, double x)
{
    const double slope = x1 > x0 && y1 > y0 ? (y1 - y0) / (x1 - x0) : 0;
    return y0 + slope * (x - x0);
}

double cost_of(const struct step_cost *c, double rows)
{
    double x0 = 0, y0 = 0, x1 = 0, y1 = 0; /* the last two figures below `rows`, y0 <= y1 */
    for (int i = 0; i < COST_CLASSES; i++) {
        if (c->ms[i] <= 0)
            continue;
        const double y = c->ms[i] > y1 ? c->ms[i] : y1;
        if (c->rows[i] > rows)
            return x1 > 0 ? line(x1, y1, c->rows[i], y, rows) : y;
        x0 = x1;
        y0 = y1;
        x1 = c->rows[i];
        y1 = y;
    }
    if (x1 <= 0)
        return 0;
    if (x0 <= 0)
        return y1 + FIRST_SLOPE * y1 / x1 * (rows - x1);
    return line(x0, y0, x1, y1, rows);
}

int32_t cost_rows_within(const struct step_cost *c, int32_t most, double ms)
{
    double seen = 16;
    for (int i = 0; i < COST_CLASSES; i++)
        if (c->ms[i] > 0 && c->rows[i] > seen)
            seen = c->rows[i];
    most = most > BEYOND * seen ? (int32_t)(BEYOND * seen) : most;
    int32_t lo = 1, hi = most; /* cost_of never falls */
    while (lo < hi) {
        const int32_t mid = hi - (hi - lo) / 2;
        if (cost_of(c, mid) <= ms)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}
