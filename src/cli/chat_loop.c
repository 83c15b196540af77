/* Chat on a terminal: line editing and history by libedit, slash commands, Ctrl-C. Knows the terminal and
 * nothing of tokens; the conversation is chat.c's. History stays in memory: nothing typed is written to disk. */
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

static const char *prompt_text(EditLine *el)
{
    (void)el;
    return "> ";
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

/* False: leave. */
static bool slash(struct chat *c, const char *line)
{
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0)
        return false;
    if (strcmp(line, "/clear") == 0)
        restart(c, NULL);
    else if (strcmp(line, "/regen") == 0)
        regenerate(c);
    else if (strncmp(line, "/system", 7) == 0 && !line[7 + strspn(line + 7, " ")])
        fputs("usage: /system TEXT (forgets the conversation, starts with this system prompt)\n", stderr);
    else if (strncmp(line, "/system ", 8) == 0)
        restart(c, line + 7 + strspn(line + 7, " "));
    else if (strcmp(line, "/help") == 0)
        fputs("/clear         forget the conversation\n"
              "/system TEXT   start again with this system prompt\n"
              "/regen         answer the last question again\n"
              "/exit          leave (also Ctrl-D)\n"
              "Ctrl-C stops an answer.\n",
              stderr);
    else
        fprintf(stderr, "hasten: unknown command '%s' (/help lists them)\n", line);
    return true;
}

static bool one_line(struct chat *c, EditLine *el, History *h)
{
    int n = 0;
    interrupt_clear();
    const char *got = el_gets(el, &n);
    if (interrupt_seen()) {
        fputs("\n", stderr);
        el_reset(el);
        return true;
    }
    if (!got || n <= 0) {
        fputs("\n", stderr);
        return false;
    }
    struct buf line = {0};
    size_t len = strcspn(got, "\r\n");
    bool go_on = true;
    if (len > 0 && !buf_put(&line, got, len)) {
        HistEvent ev;
        history(h, &ev, H_ENTER, line.data);
        if (line.data[0] == '/')
            go_on = slash(c, line.data);
        else
            say(c, line.data, line.len);
    }
    buf_free(&line);
    return go_on;
}

int chat_loop(struct chat *c)
{
    struct hasten_error err;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) /* libedit decodes what is typed by the locale; ours is UTF-8 */
        setlocale(LC_CTYPE, "");
    History *h = history_init();
    EditLine *el = el_init("hasten", stdin, stderr, stderr);
    if (!h || !el) {
        error_set(&err, HASTEN_ERR_MEMORY, "chat: the terminal cannot be set up");
        if (h)
            history_end(h);
        return cli_fail(&err);
    }
    HistEvent ev;
    history(h, &ev, H_SETSIZE, 500);
    el_set(el, EL_PROMPT, prompt_text);
    el_set(el, EL_HIST, history, h);
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_GETCFN, next_character);
    el_source(el, NULL);
    ui_note(c->ui, "chat with %s; /help lists the commands", c->session->path.data);
    interrupt_arm();
    while (one_line(c, el, h))
        ;
    interrupt_disarm();
    el_end(el);
    history_end(h);
    return cli_finish(0);
}
