/* Errors: how a function inside the library says what went wrong. */
#ifndef HASTEN_BASE_ERROR_H
#define HASTEN_BASE_ERROR_H
#include "hasten/status.h"

/* Writes status and one formatted line into err (err may be NULL) and returns status, so that callers write
 * `return error_set(err, HASTEN_ERR_FILE, "...")`. Control bytes in the result are replaced by '?'. */
hasten_status error_set(struct hasten_error *err, hasten_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the message already in err. Returns err->status; HASTEN_ERR_INTERNAL
 * when err is NULL, so a caller that allows NULL keeps the status itself. */
hasten_status error_prefix(struct hasten_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
