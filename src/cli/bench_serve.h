/* `hasten bench --serve`: what its two files share. bench_serve.c asks and measures, bench_serve_out.c prints. */
#ifndef HASTEN_CLI_BENCH_SERVE_H
#define HASTEN_CLI_BENCH_SERVE_H
#include "bench/load.h"
#include "bench/talks.h"
#include "cli/bench.h"

#define SERVE_LEVELS 16

struct serve_level {
    struct load_level level;
    struct load_summary summary;
};

struct serve_run {
    struct bench_args *a;
    const char *model;           /* as it is asked for */
    struct buf base, url;        /* the server; where chats go */
    struct buf model_id, owner;  /* as /v1/models says; "": it was not asked */
    double values[SERVE_LEVELS]; /* streams, or users a second */
    int32_t n_levels;
    struct serve_level levels[SERVE_LEVELS];
    int32_t n_done;
    struct talks talks;
    bool counted; /* has the server told how many bytes a token has? */
    struct json_t *fields;
};

/* Table or JSON on stdout, --csv and --plot; an exit status. */
int serve_print(const struct serve_run *r);

#endif
