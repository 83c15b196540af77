/* Output manners: notes, progress, errors, JSON to stdout (cli.h). The only place that knows whether stderr is
 * a terminal. */
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "text/template.h"
#include "text/unicode.h"
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_def ui_defs[] = {
    {"json", NULL, OPT_FLAG, offsetof(struct ui, json), 0, 0, NULL, NULL, "print the result as JSON"},
    {"quiet", "q", OPT_FLAG, offsetof(struct ui, quiet), 0, 0, NULL, NULL, "no notes, no progress"},
    {"verbose", "v", OPT_FLAG, offsetof(struct ui, verbose), 0, 0, NULL, NULL,
     "explain, also when not on a terminal"},
    {"profile", NULL, OPT_STRING, offsetof(struct ui, profile), 0, 0, NULL, "FILE",
     "options from a YAML file (hasten config shows what comes of it)"},
    {"help", "h", OPT_FLAG, offsetof(struct ui, help), 0, 0, NULL, NULL,
     "this text; with --json the table of options"},
};

struct option_group ui_group(struct ui *ui)
{
    return (struct option_group){
        .title = "Output:", .defs = ui_defs, .n = 5, .dst = ui, .exclusive = "quiet verbose"};
}

int cli_fail(const struct hasten_error *err)
{
    fflush(stdout);
    fprintf(stderr, "hasten: %s\n", err->message);
    return hasten_exit_code(err->status);
}

int ui_fail(const struct ui *ui, struct hasten_error *err)
{
    const size_t n = ui->command ? strlen(ui->command) : 0;
    const bool named =
        strncmp(err->message, ui->command ? ui->command : "", n) == 0 && err->message[n] == ':';
    if (n && err->status == HASTEN_ERR_USAGE && !named)
        error_prefix(err, "%s", ui->command);
    return cli_fail(err);
}

int cli_usage(const struct command *c, const char *fmt, ...)
{
    char text[900];
    struct hasten_error err;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    error_set(&err, HASTEN_ERR_USAGE, "%s: %s", c->name, text);
    return cli_fail(&err);
}

hasten_status cli_read_json(const char *path, json_t **out, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    hasten_status st = file_slurp(path, LIMIT_JSON_BYTES, &text, &len, err);
    if (!st)
        st = json_parse(cli_input_name(path), text, len, out, err);
    mem_free(text);
    return st;
}

static bool may_talk(const struct ui *ui)
{
    return !ui->quiet && (ui->verbose || isatty(STDERR_FILENO));
}

/* Wipes the progress line. */
static void wipe(struct ui *ui)
{
    if (ui->shown)
        fputs("\r\033[K", stderr);
    ui->shown = false;
}

static void say(struct ui *ui, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void say(struct ui *ui, const char *fmt, va_list ap)
{
    wipe(ui);
    fputs("hasten: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

void ui_note(struct ui *ui, const char *fmt, ...)
{
    if (!may_talk(ui))
        return;
    va_list ap;
    va_start(ap, fmt);
    say(ui, fmt, ap);
    va_end(ap);
}

void ui_warn(struct ui *ui, const char *fmt, ...)
{
    if (ui->quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(ui, fmt, ap);
    va_end(ap);
}

const char *cli_input_name(const char *path)
{
    return !path || strcmp(path, "-") == 0 ? "stdin" : path;
}

void ui_detail(struct ui *ui, const char *fmt, ...)
{
    if (ui->quiet || !ui->verbose)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(ui, fmt, ap);
    va_end(ap);
}

/* "12.3 MB" for bytes, "12 tokens" else. */
static void print_amount(double amount, const char *unit)
{
    if (strcmp(unit, "bytes") == 0)
        fprintf(stderr, "%.1f MB", amount / 1e6);
    else
        fprintf(stderr, "%.0f %s", amount, unit);
}

bool ui_draws(const struct ui *ui)
{
    return !ui->quiet && isatty(STDERR_FILENO);
}

void ui_progress(struct ui *ui, const char *what, uint64_t done, uint64_t total, const char *unit,
                 uint64_t since_ns)
{
    uint64_t now = clock_now_ns();
    double s = (double)(now - since_ns) / 1e9;
    if (!ui_draws(ui) || s < 1 || (ui->shown && now - ui->last_ns < 100000000u))
        return;
    double rate = done > ui->progress_from ? (double)(done - ui->progress_from) / s : 0;
    fprintf(stderr, "\r\033[K%s ", what);
    print_amount((double)done, unit);
    if (total)
        fprintf(stderr, " of "), print_amount((double)total, unit);
    fprintf(stderr, ", "), print_amount(rate, unit), fprintf(stderr, "/s");
    if (total > done && rate > 0)
        fprintf(stderr, ", %.0f s left", (double)(total - done) / rate);
    ui->shown = true;
    ui->last_ns = now;
}

void ui_progress_end(struct ui *ui)
{
    wipe(ui);
    ui->progress_from = 0;
}

int cli_out(const void *data, size_t len)
{
    if (len && fwrite(data, 1, len, stdout) != len)
        return -1;
    return fflush(stdout) ? -1 : 0;
}

int cli_finish(int exit_status)
{
    if (!fflush(stdout) && !ferror(stdout))
        return exit_status;
    struct hasten_error err;
    error_set(&err, HASTEN_ERR_DISK, "writing stdout: %s (expected room for the answer)", strerror(errno));
    return cli_fail(&err);
}

/* Bytes at s that are one U+FFFD: the longest proper beginning of a character, else one byte (the Unicode
 * Standard, section 3.9, "maximal subparts"; what Python and browsers do). */
static size_t invalid_run(const char *s, size_t len)
{
    uint32_t cp;
    size_t n = 1;
    while (n < len && n < 4 && utf8_decode(s, n + 1, &cp) == -1)
        n++;
    return n;
}

json_t *json_bytes(const char *data, size_t len)
{
    struct buf b = {0};
    int bad = buf_puts(&b, "");
    for (size_t i = 0; i < len && !bad;) {
        size_t run = utf8_valid_run(data + i, len - i);
        bad = buf_put(&b, data + i, run);
        i += run;
        if (i < len && !bad) {
            bad = buf_puts(&b, "\xEF\xBF\xBD");
            i += invalid_run(data + i, len - i);
        }
    }
    json_t *v = bad ? NULL : json_stringn(b.data, b.len);
    buf_free(&b);
    return v;
}

static void json_check(json_t **to, int failed)
{
    if (!failed)
        return;
    json_decref(*to);
    *to = NULL;
}

void json_add(json_t **to, json_t *v)
{
    if (*to)
        json_check(to, json_array_append_new(*to, v));
    else
        json_decref(v);
}

void json_put(json_t **to, const char *key, json_t *v)
{
    if (*to)
        json_check(to, json_object_set_new(*to, key, v));
    else
        json_decref(v);
}

int cli_json(json_t *v)
{
    return cli_json_to(stdout, v);
}

int cli_json_to(FILE *to, json_t *v)
{
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(v);
    if (!text) {
        struct hasten_error err;
        error_set(&err, HASTEN_ERR_MEMORY, "printing the result: out of memory");
        return cli_fail(&err);
    }
    fprintf(to, "%s\n", text);
    mem_free(text); /* main made the door jansson's allocator */
    return cli_finish(0);
}
