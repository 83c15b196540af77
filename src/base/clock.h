/* The one clock. No other code asks for the time (a lint checks it). */
#ifndef HASTEN_BASE_CLOCK_H
#define HASTEN_BASE_CLOCK_H
#include <stdint.h>

uint64_t clock_now_ns(void);       /* monotonic */
int64_t clock_unix_s(void);        /* seconds since 1970 */
uint64_t clock_thread_ns(int tid); /* CPU time of a thread of this process; 0: none */
void clock_set_fake(int on, uint64_t now_ns, int64_t unix_s); /* tests: freeze at these values */

#endif
