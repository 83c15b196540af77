/* What fuzz targets share: a check that stops the fuzzer, a file that lies in memory, fields of an input. */
#ifndef HASTEN_FUZZ_H
#define HASTEN_FUZZ_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void check(bool ok)
{
    if (!ok)
        __builtin_trap();
}

/* Every failure has a status and a sentence. */
static inline void check_error(hasten_status st, const struct hasten_error *err)
{
    check(!st || (err->status == st && err->message[0] && strlen(err->message) < sizeof err->message));
}

/* A path that leads to these bytes until it is closed: for readers that open files. */
struct memory_file {
    int fd;
    char path[40];
};

static inline struct memory_file memory_file(const void *data, size_t size)
{
    struct memory_file f = {.fd = memfd_create("fuzz", 0)};
    check(f.fd >= 0);
    for (size_t at = 0; at < size;) {
        const ssize_t n = write(f.fd, (const uint8_t *)data + at, size - at);
        check(n > 0);
        at += (size_t)n;
    }
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

static inline void memory_file_close(const struct memory_file *f)
{
    close(f->fd);
}

/* An input's parts are separated by NUL bytes: the next one, which ends before the NUL or the end. */
struct part {
    const char *text;
    size_t len;
};

static inline struct part next_part(const uint8_t **data, size_t *size)
{
    const uint8_t *nul = *size ? memchr(*data, 0, *size) : NULL;
    const struct part p = {(const char *)*data, nul ? (size_t)(nul - *data) : *size};
    const size_t used = p.len + (nul != NULL);
    *data += used;
    *size -= used;
    return p;
}

#endif
