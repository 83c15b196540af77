/* Chat on a terminal: line editing and history by libedit, slash commands, questions of several lines, Ctrl-C. Knows the
 * terminal and nothing of tokens; the conversation is chat.c's. History stays in memory, nothing typed is written to
 * disk, unless --history names a file. */
#include "cli/chat.h"
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
#include <wchar.h>

struct terminal {
    EditLine *el;
    History *history;
    bool inside; /* a question of several lines */
};

static const char *prompt_text(EditLine *el)
{
    const struct terminal *t = NULL;
    el_get(el, EL_CLIENTDATA, &t);
    return t && t->inside ? ". " : "> ";
}

/* Waits for a byte with SIGINT let through only while waiting, so that one which comes just before is not lost.
 * Gives the byte, 0 at the end of input, -1 when interrupted. */
static int wait_for_byte(char *byte)
{
    sigset_t block, before;
    fd_set fds;
    int ready = -1;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    sigprocmask(SIG_BLOCK, &block, &before);
    FD_ZERO(&fds);
    FD_SET(STDIN_FILENO, &fds);
    while (!interrupt_seen()) {
        ready = pselect(STDIN_FILENO + 1, &fds, NULL, NULL, NULL, &before);
        if (ready > 0 || errno != EINTR)
            break;
        ready = -1;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready < 0 ? -1 : (int)read(STDIN_FILENO, byte, 1);
}

/* libedit's source of characters: 1 and the character, 0 at the end of input, -1 when interrupted. */
static int next_character(EditLine *el, wchar_t *out)
{
    mbstate_t state = {0};
    char byte;
    (void)el;
    for (;;) {
        const int n = wait_for_byte(&byte);
        if (n <= 0)
            return n;
        if (byte == 0) /* also what a Ctrl-D becomes that came before the terminal was in raw mode */
            continue;
        const size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == 1)
            return 1;
        if (used == (size_t)-1) { /* not of this locale's encoding: dropped */
            memset(&state, 0, sizeof state);
        }
    }
}

static int show_on_stdout(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    return cli_out(bytes, len);
}

/* Answers text; NULL: the last question again. */
static void say(struct chat *c, const char *text, size_t len)
{
    struct answer a = {0};
    struct hasten_error err;
    hasten_status st = text ? chat_turn(c, text, len, show_on_stdout, NULL, &a, &err)
                            : chat_repeat(c, show_on_stdout, NULL, &a, &err);
    cli_out("\n", 1);
    if (st) {
        cli_fail(&err);
    } else if (a.finish == FINISH_INTERRUPTED) {
        ui_note(c->ui, "stopped");
    } else if (a.finish == FINISH_LENGTH) {
        ui_note(c->ui, "the answer reached its limit of tokens");
    } else if (a.finish == FINISH_GRAMMAR) {
        ui_note(c->ui, "the grammar allows no token of this vocabulary here");
    }
    if (!st)
        ui_detail(c->ui, "%d tokens read (%d kept) in %.0f ms, %d written in %.0f ms",
                  (int)(a.prompt_n - a.cached_n), (int)a.cached_n, a.prompt_ms, (int)a.predicted_n,
                  a.predicted_ms);
    interrupt_clear();
    answer_free(&a);
}

static void regenerate(struct chat *c)
{
    if (!chat_can_repeat(c)) {
        ui_note(c->ui, "there is no answer to write again");
        return;
    }
    c->law->settings.stream++; /* other noise, or the answer would be the same */
    say(c, NULL, 0);
}

static void restart(struct chat *c, const char *system)
{
    struct hasten_error err;
    if (chat_restart(c, system, &err))
        cli_fail(&err);
}

static void save(struct chat *c, const char *path)
{
    struct hasten_error err;
    if (!*path)
        fputs(
            "usage: /save FILE (the conversation as JSON, or with its keys and values where FILE ends with .seq; FILE "
            "must be new)\n",
            stderr);
    else if (chat_save(c, path, &err))
        cli_fail(&err);
    else
        ui_note(c->ui, "saved to %s", path);
}

static void load(struct chat *c, const char *path)
{
    struct hasten_error err;
    if (!*path)
        fputs("usage: /load FILE (a conversation that was saved, in the place of this one)\n", stderr);
    else if (chat_load(c, path, &err))
        cli_fail(&err);
    else
        ui_note(c->ui, "goes on from %s, %d tokens held", path, (int)hasten_seq_length(c->session->seq));
}

static void help(void)
{
    fputs(
        "/clear         forget the conversation\n"
        "/system TEXT   start again with this system prompt\n"
        "/regen         answer the last question again\n"
        "/save FILE     write the conversation into a new file; FILE.seq: with all that was computed\n"
        "/load FILE     go on with a conversation that was saved\n"
        "/exit          leave (also Ctrl-D)\n"
        "A \\ at the end of a line goes on in the next one; \"\"\" begins and ends a question of several lines.\n"
        "Ctrl-C stops an answer.\n",
        stderr);
}

static void unknown(const char *line)
{
    static const char *const names[] = {"/clear", "/system", "/regen", "/save",
                                        "/load",  "/exit",   "/quit",  "/help"};
    const char *near = nearest_word(line, names, sizeof names / sizeof *names);
    if (near)
        fprintf(stderr, "hasten: unknown command '%s' (did you mean %s?)\n", line, near);
    else
        fprintf(stderr, "hasten: unknown command '%s' (/help lists them)\n", line);
}

/* False: leave. */
static bool slash(struct chat *c, const char *line)
{
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0)
        return false;
    if (strcmp(line, "/clear") == 0)
        restart(c, NULL);
    else if (strcmp(line, "/regen") == 0)
        regenerate(c);
    else if (strcmp(line, "/save") == 0 || strncmp(line, "/save ", 6) == 0)
        save(c, line + 5 + strspn(line + 5, " "));
    else if (strcmp(line, "/load") == 0 || strncmp(line, "/load ", 6) == 0)
        load(c, line + 5 + strspn(line + 5, " "));
    else if (strncmp(line, "/system", 7) == 0 && !line[7 + strspn(line + 7, " ")])
        fputs("usage: /system TEXT (forgets the conversation, starts with this system prompt)\n", stderr);
    else if (strncmp(line, "/system ", 8) == 0)
        restart(c, line + 7 + strspn(line + 7, " "));
    else if (strcmp(line, "/help") == 0)
        help();
    else
        unknown(line);
    return true;
}

enum got {
    GOT_LINE,
    GOT_INTERRUPT,
    GOT_END
};

/* One line without its end, appended to out. */
static enum got read_line(struct terminal *t, struct buf *out, const char **line)
{
    int n = 0;
    const size_t before = out->len;
    interrupt_clear();
    const char *got = el_gets(t->el, &n);
    if (interrupt_seen()) {
        fputs("\n", stderr);
        el_reset(t->el);
        return GOT_INTERRUPT;
    }
    if (!got || n <= 0 || buf_put(out, got, strcspn(got, "\r\n"))) {
        fputs("\n", stderr);
        return GOT_END;
    }
    *line = out->data + before;
    if (**line) {
        HistEvent ev;
        history(t->history, &ev, H_ENTER, *line);
    }
    return GOT_LINE;
}

/* A question: one line, more behind a `\` at the end, or what stands between two """. */
static enum got read_question(struct terminal *t, struct buf *out)
{
    static const char fence[] = "\"\"\"";
    const size_t n = sizeof fence - 1;
    const char *line = "";
    bool fenced = false;
    t->inside = false;
    enum got got = read_line(t, out, &line);
    if (got == GOT_LINE && strncmp(line, fence, n) == 0) {
        fenced = true;
        memmove(out->data, out->data + n, out->len - n + 1);
        out->len -= n;
        line = out->data;
    }
    while (got == GOT_LINE) {
        const bool closed = fenced && out->len >= n && strcmp(out->data + out->len - n, fence) == 0;
        const bool more = fenced ? !closed : out->len > 0 && out->data[out->len - 1] == '\\';
        out->len -= closed ? n : more && !fenced ? 1 : 0;
        out->data[out->len] = 0;
        if (!more)
            break;
        if (out->len > 0 || !fenced) /* the line of the fence alone is no line of the question */
            if (buf_putc(out, '\n'))
                return GOT_END;
        t->inside = true;
        got = read_line(t, out, &line);
    }
    while (fenced && out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = 0;
    return got;
}

/* False: leave. */
static bool one_question(struct chat *c, struct terminal *t)
{
    struct buf text = {0};
    const enum got got = read_question(t, &text);
    bool go_on = got != GOT_END;
    if (got == GOT_LINE && text.len > 0) {
        if (text.data[0] == '/' && !t->inside)
            go_on = slash(c, text.data);
        else
            say(c, text.data, text.len);
    }
    buf_free(&text);
    return go_on;
}

/* What --history keeps, into the list; a file that is not there yet is made at the end. */
static void load_history(const struct terminal *t, const char *path)
{
    HistEvent ev;
    history(t->history, &ev, H_SETSIZE, 500);
    if (path)
        history(t->history, &ev, H_LOAD, path);
}

static int save_history(const struct terminal *t, const char *path)
{
    HistEvent ev;
    struct hasten_error err;
    if (!path || history(t->history, &ev, H_SAVE, path) >= 0)
        return 0;
    error_set(&err, HASTEN_ERR_DISK, "writing %s: it cannot be written (expected a file for the history)",
              path);
    return cli_fail(&err);
}

int chat_loop(struct chat *c, const char *history_path)
{
    struct hasten_error err;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) /* libedit decodes what is typed by the locale; ours is UTF-8 */
        setlocale(LC_CTYPE, "");
    struct terminal t = {.history = history_init(), .el = el_init("hasten", stdin, stderr, stderr)};
    if (!t.history || !t.el) {
        error_set(&err, HASTEN_ERR_MEMORY, "chat: the terminal cannot be set up");
        if (t.history)
            history_end(t.history);
        return cli_fail(&err);
    }
    load_history(&t, history_path);
    el_set(t.el, EL_CLIENTDATA, &t);
    el_set(t.el, EL_PROMPT, prompt_text);
    el_set(t.el, EL_HIST, history, t.history);
    el_set(t.el, EL_EDITOR, "emacs");
    el_set(t.el, EL_GETCFN, next_character);
    el_source(t.el, NULL);
    ui_note(c->ui, "chat with %s; /help lists the commands", c->session->path.data);
    interrupt_arm();
    while (one_question(c, &t))
        ;
    interrupt_disarm();
    const int rc = save_history(&t, history_path);
    el_end(t.el);
    history_end(t.history);
    return rc ? rc : cli_finish(0);
}
