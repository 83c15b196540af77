/* Every hostile case is refused as its row says, from a file, by a process of its own whose memory and time
 * are measured; and its valid twin (the same place of the file changed honestly, see cases.h) loads.
 *
 * use: test_hostile            runs the cases
 *      test_hostile --open F   opens F and reports on one line: status peak_bytes hwm_kib ns message */
#include "cases.h"

#include "base/clock.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_MEMORY (256ull << 20)
#define MAX_NS 5000000000ull
#define MAX_UNCHANGED 8 /* wrong magics and versions: only the true value loads */

struct outcome {
    int status;
    uint64_t peak_bytes, hwm_kib, ns;
    char message[1100];
};

static uint64_t hwm_kib(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "VmHWM: %llu", &kib);
    if (f)
        fclose(f);
    return kib;
}

static int open_one(const char *path)
{
    struct gguf *g = NULL;
    struct hasten_error err = {0};
    struct mem_stats stats;
    uint64_t start = clock_now_ns();
    hasten_status s = gguf_open(path, &g, &err);
    uint64_t ns = clock_now_ns() - start;
    mem_stats_get(&stats);
    printf("%d %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", (int)s, stats.peak_bytes, hwm_kib(), ns,
           err.message);
    gguf_close(g);
    return 0;
}

static int run_open(const char *self, const char *path, struct outcome *out)
{
    char command[900];
    unsigned long long peak, hwm, ns;
    int used = 0;
    snprintf(command, sizeof command, "'%s' --open '%s'", self, path);
    FILE *f = popen(command, "r");
    char line[1400] = "";
    int ok = f && fgets(line, sizeof line, f) &&
             sscanf(line, "%d %llu %llu %llu %n", &out->status, &peak, &hwm, &ns, &used) >= 4;
    if (f && pclose(f) != 0)
        ok = 0;
    if (!ok)
        return -1;
    line[strcspn(line, "\n")] = '\0';
    snprintf(out->message, sizeof out->message, "%s", line + used);
    out->peak_bytes = peak;
    out->hwm_kib = hwm;
    out->ns = ns;
    return 0;
}

static int write_file(const char *path, const struct buf *b)
{
    struct file *f = NULL;
    int failed = file_open(path, FILE_WRITE_TRUNC, &f, NULL) || file_write(f, b->data, b->len, NULL);
    file_close(f);
    return failed ? -1 : 0;
}

/* What is wrong with the message, or NULL. */
static const char *judge_message(const struct hostile_case *c, const char *path, const char *message)
{
    char expected[200], found[200], at[64];
    uint64_t offset = c->at_field ? case_offset(c->at_field) + c->at_delta : 0;
    snprintf(expected, sizeof expected, "expected %s", c->expected);
    snprintf(found, sizeof found, "found ");
    snprintf(at, sizeof at, " at byte %" PRIu64 ":", offset);
    const char *found_at = strstr(message, found);
    if (strncmp(message, path, strlen(path)) != 0 || message[strlen(path)] != ':')
        return "does not begin with the file";
    if (!strstr(message, c->field))
        return "does not name the field";
    if (!strstr(message, at))
        return "does not give the offset";
    if (!strstr(message, expected) && !(strstr(message, "expected ") && strstr(message, c->expected)))
        return "does not say what was expected";
    if (!found_at || !strstr(found_at, c->found))
        return "does not say what was found";
    for (const char *p = message; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return "holds a control byte";
    return NULL;
}

static const char *judge(const struct hostile_case *c, const char *path, const struct outcome *o)
{
    if (o->status != (int)c->status)
        return "has another status";
    if (o->peak_bytes > MAX_MEMORY)
        return "took too much memory";
#ifndef HASTEN_SANITIZED
    if (o->hwm_kib > MAX_MEMORY >> 10)
        return "took too much memory (VmHWM)";
#endif
    if (o->ns > MAX_NS)
        return "took too long";
    return judge_message(c, path, o->message);
}

static int build_base(struct buf *out)
{
    struct gguf_writer *w = case_base();
    int failed = !w || gguf_writer_build(w, NULL, 0, out);
    gguf_writer_free(w);
    return failed;
}

/* Builds, writes and opens the twin. What is wrong with it, or NULL; counts it when it is not the base file. */
static const char *judge_twin(const struct hostile_case *c, const char *self, const char *path,
                              const struct buf *base, size_t *n_changed)
{
    static char why[1200];
    struct outcome o = {0};
    struct buf lie = {0}, twin = {0};
    const char *wrong = NULL;
    if (case_build(c, &lie) || case_build_twin(c, &twin) || write_file(path, &twin))
        wrong = "could not be made";
    else if (twin.len == lie.len && memcmp(twin.data, lie.data, lie.len) == 0)
        wrong = "is the hostile file itself";
    else if (run_open(self, path, &o))
        wrong = "could not be opened";
    else if (o.status != HASTEN_OK || o.peak_bytes > MAX_MEMORY || o.ns > MAX_NS) {
        snprintf(why, sizeof why, "does not load as it should: status %d: %s", o.status, o.message);
        wrong = why;
    }
    *n_changed += twin.len != base->len || memcmp(twin.data, base->data, base->len) != 0;
    buf_free(&lie);
    buf_free(&twin);
    return wrong;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/hasten-hostile-XXXXXX", path[300];
    struct buf bytes = {0}, base = {0};
    struct outcome o = {0}, worst = {0};
    size_t n_changed = 0;
    int failures = 0;
    if (argc == 3 && strcmp(argv[1], "--open") == 0)
        return open_one(argv[2]);
    if (!mkdtemp(folder)) {
        fprintf(stderr, "no temporary folder\n");
        return 1;
    }
    if (build_base(&base)) {
        fprintf(stderr, "the base file could not be built\n");
        return 1;
    }
    for (size_t i = 0; i < n_hostile_cases; i++) {
        const struct hostile_case *c = &hostile_cases[i];
        const char *wrong = NULL;
        snprintf(path, sizeof path, "%s/%s.gguf", folder, c->name);
        if (case_build(c, &bytes) || write_file(path, &bytes) || run_open(argv[0], path, &o))
            wrong = "could not be made or opened";
        else
            wrong = judge(c, path, &o);
        if (wrong) {
            printf("FAILED %s: %s: status %d: %s\n", c->name, wrong, o.status, o.message);
            failures++;
        }
        worst.peak_bytes = o.peak_bytes > worst.peak_bytes ? o.peak_bytes : worst.peak_bytes;
        worst.hwm_kib = o.hwm_kib > worst.hwm_kib ? o.hwm_kib : worst.hwm_kib;
        worst.ns = o.ns > worst.ns ? o.ns : worst.ns;
        unlink(path);
        snprintf(path, sizeof path, "%s/%s.twin.gguf", folder, c->name);
        wrong = judge_twin(c, argv[0], path, &base, &n_changed);
        if (wrong) {
            printf("FAILED %s: the twin %s\n", c->name, wrong);
            failures++;
        }
        unlink(path);
    }
    if (n_changed < n_hostile_cases - MAX_UNCHANGED) {
        printf("FAILED: only %zu twins differ from the base file\n", n_changed);
        failures++;
    }
    buf_free(&bytes);
    buf_free(&base);
    rmdir(folder);
    printf("%zu hostile files, %zu twins of their own, %d failures; worst: %" PRIu64 " bytes, VmHWM %" PRIu64
           " KiB, %" PRIu64 " us\n",
           n_hostile_cases, n_changed, failures, worst.peak_bytes, worst.hwm_kib, worst.ns / 1000);
    return failures ? 1 : 0;
}
