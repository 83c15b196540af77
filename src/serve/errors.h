/* What is wrong with a request, as OpenAI's clients read it:
 * {"error":{"message","type","param","code"}}, with the HTTP status that goes with it. */
#ifndef HASTEN_SERVE_ERRORS_H
#define HASTEN_SERVE_ERRORS_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>

struct fault { /* zero-initialise: status 0 is none */
    int status;
    const char *type, *code; /* static; code NULL: null */
    char param[96];          /* the field it is about; "": null */
    char message[1024];
    int retry_after; /* seconds; 0: not said */
};

/* Fills f and returns false, so that checks write `return fault_set(...)`. type follows from the status. */
bool fault_set(struct fault *f, int status, const char *code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* What a library call returned. */
bool fault_of(struct fault *f, const struct hasten_error *err);
/* The object as JSON, appended. */
int fault_json(const struct fault *f, struct buf *out);
/* The same; anthropic: with "type": "error" beside it, as Anthropic's clients read it. */
int fault_json_as(const struct fault *f, bool anthropic, struct buf *out);

#endif
