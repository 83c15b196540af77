/* Subscriptions to taps (tap.h): plain lists, changed between steps only. */
#include "engine/tap.h"
#include "engine/engine.h"

void tap_linear_input_add(struct hasten_engine *e, struct tap_linear_input_sub *s)
{
    struct tap_linear_input_sub **at = &e->taps.linear_input;
    while (*at)
        at = &(*at)->next;
    s->next = NULL;
    *at = s;
}

void tap_linear_input_remove(struct hasten_engine *e, struct tap_linear_input_sub *s)
{
    struct tap_linear_input_sub **at = &e->taps.linear_input;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
}
