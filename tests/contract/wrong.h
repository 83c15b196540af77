/* Methods that are wrong on purpose, one for each check of the contract tests. */
#ifndef TESTS_CONTRACT_WRONG_H
#define TESTS_CONTRACT_WRONG_H
#include "engine/method.h"

struct wrong_method {
    const struct method *m;
    const char *caught; /* part of the message that must come */
};
extern const struct wrong_method wrong_methods[], wrong_hosted[]; /* end with a NULL method */

#endif
