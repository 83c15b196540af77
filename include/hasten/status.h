/* Status codes of Hasten: one enum, one table of sentences (hasten_status_text).
 *
 * Every function that can fail returns a hasten_status and, where it takes a struct hasten_error, writes
 * there one sentence: what was being done, to which object, what was found, what was expected. */
#ifndef HASTEN_STATUS_H
#define HASTEN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum hasten_status {
    HASTEN_OK = 0,
    HASTEN_ERR_USAGE,       /* an option, argument or combination is wrong                 (exit 2) */
    HASTEN_ERR_FILE,        /* a file is damaged, cut, hostile or cannot be read           (exit 3) */
    HASTEN_ERR_UNSUPPORTED, /* a well-formed file asks for something we do not do          (exit 3) */
    HASTEN_ERR_MEMORY,      /* an allocation failed, or a plan exceeds --memory            (exit 4) */
    HASTEN_ERR_DISK,        /* no space left, or a write failed                            (exit 4) */
    HASTEN_ERR_NETWORK,     /* a peer or package index does not answer                     (exit 5) */
    HASTEN_ERR_LIMIT,       /* input exceeds a bound of base/limits.h                      (exit 3) */
    HASTEN_ERR_FULL,        /* the context or the pool of KV pages is full                 (exit 1) */
    HASTEN_ERR_NON_FINITE,  /* a NaN or infinity where a number was expected               (exit 1) */
    HASTEN_ERR_CANCELLED,   /* the caller's cancel flag was seen                           (exit 130) */
    HASTEN_ERR_TEMPLATE,    /* a chat template failed, with line and column                (exit 3) */
    HASTEN_ERR_INTERNAL,    /* a state that must not occur                                 (exit 1) */
    HASTEN_ERR_TIMEOUT,     /* a deadline passed                                           (exit 1) */
    HASTEN_STATUS_COUNT
} hasten_status;

/* Written by the callee on failure only; the caller owns it and may pass NULL where it is not interested. */
struct hasten_error {
    hasten_status status;
    char message[1024]; /* one line of UTF-8, NUL-terminated, cut at a character border if too long */
};

/* A short fixed phrase for a status ("bad or damaged file"). Never NULL. */
const char *hasten_status_text(hasten_status status);

/* The exit status of the command line for a status , as README.md lists them. */
int hasten_exit_code(hasten_status status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
