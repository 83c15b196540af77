/* What a step costs by its rows, learned from the steps that ran: means of steps of about so many rows, newer ones weigh
 * more; a straight line between two, the last slope beyond them. It decides about speed alone. */
#ifndef HASTEN_RUN_COST_H
#define HASTEN_RUN_COST_H
#include <stdint.h>

#define COST_CLASSES 32
struct step_cost {                               /* zero-initialise */
    double rows[COST_CLASSES], ms[COST_CLASSES]; /* means; ms 0: not seen */
};

void cost_note(struct step_cost *c, int32_t rows, double ms);
/* Milliseconds of a step of so many rows; 0: nothing is known. */
double cost_of(const struct step_cost *c, double rows);
/* The most rows, 1..most, of a step that takes no longer than ms; not many times more than was ever tried. */
int32_t cost_rows_within(const struct step_cost *c, int32_t most, double ms);

#endif
