/* Running code that a model wrote, as a child process that can do nothing but compute and read.
 *
 * The program is Python, given on the interpreter's standard input. It runs under a list of system calls that are
 * allowed (seccomp): no sockets, no further processes or threads, no file is opened for writing, made, renamed or
 * removed, no signal reaches another process. Bounds on memory, processor time and wall time, files and output. It
 * needs no privileges, no namespaces and no temporary folder; where the kernel offers no filters, or the architecture is
 * not known, running code is refused (HASTEN_ERR_UNSUPPORTED), never done without.
 *
 * What it may do: read what the user may read. It can send nothing: its output goes nowhere. */
#ifndef HASTEN_CLI_SANDBOX_H
#define HASTEN_CLI_SANDBOX_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>

struct sandbox {
    struct buf python;     /* path of the interpreter */
    int32_t seconds;       /* wall time; processor time is bounded by the same */
    uint64_t memory_bytes; /* address space */
};

#define SANDBOX_SECONDS 10
#define SANDBOX_MEMORY (1ull << 30)

/* python: a path, or a name searched in PATH. Tries an empty program, so that what cannot work is refused here:
 * HASTEN_ERR_UNSUPPORTED without filters, HASTEN_ERR_FILE without an interpreter that runs under them. */
hasten_status sandbox_open(const char *python, struct sandbox *out, struct hasten_error *err);
void sandbox_close(struct sandbox *s);

/* *passed: the program came to its end by itself, without an exception and without leaving early (which would
 * leave out what stands behind it). note: else why. An eval_run_fn, ctx being a struct sandbox. */
hasten_status sandbox_run(void *ctx, const char *program, size_t len, bool *passed, char note[160],
                          struct hasten_error *err);

#endif
