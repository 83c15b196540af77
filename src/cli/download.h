/* A file from a URL to its place: in parts that survive a kill, hashed before it gets its name. */
#ifndef HASTEN_CLI_DOWNLOAD_H
#define HASTEN_CLI_DOWNLOAD_H
#include "cli/cli.h"

struct download {
    const char *name; /* in messages and in the record */
    const char *url;
    const char *path;    /* where the whole file goes */
    const char *sha256;  /* 64 lower-case hex digits that it must have, or NULL */
    const char *trusted; /* origin that may say a hash and gets the token, or NULL (http.h) */
    const char *token;   /* or NULL */
    uint64_t stall_ms;
    int retries; /* further tries after one that brought nothing */
    struct ui *ui;
    char got_sha256[65]; /* set: of the file in its place */
    uint64_t bytes;      /* set */
};

/* HASTEN_ERR_FILE: the hash is another (nothing is kept); HASTEN_ERR_NETWORK: what came is kept, to go on with;
 * HASTEN_ERR_DISK: no room, found out before the first byte where the size is known. */
hasten_status download_file(struct download *d, struct hasten_error *err);

/* Is there a file at path that this name was pulled to, with the hash it had then? Reads it whole. *other: the record
 * names another source. */
bool download_present(struct download *d, bool *other);

#endif
