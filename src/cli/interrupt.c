/* Ctrl-C, and the other ends that must not leave half a file. A signal handler can reach nothing but static storage,
 * so what is here is the one piece of mutable global state of the command (the library has none). While armed, the
 * first SIGINT sets the flag, which the engine polls; a second one before the flag is cleared ends the process with
 * 130. Arming nests: a chat stays armed from end to end, so that no Ctrl-C finds the program without a handler.
 *
 * While a file is being written, SIGTERM, SIGHUP and SIGPIPE set the flag too, any number of times; when the writing
 * is over and the file is removed, the process ends by the first of them, as it would have at once without a file.
 * One that the parent had ignored (nohup) stays ignored.
 *
 * A map of a file that somebody cuts short, or that a disk cannot give, raises SIGBUS where it is touched. Nothing can
 * go on then: one sentence names the file, and the process ends with 3. */
#include "base/error.h"
#include "cli/cli.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static volatile int flag;
static int depth; /* arms not yet disarmed */

static const int ends[] = {SIGTERM, SIGHUP, SIGPIPE};
#define N_ENDS (sizeof ends / sizeof *ends)
static volatile sig_atomic_t ended_by; /* the first of them that came; 0: none */
static bool caught[N_ENDS];
static int writers; /* writings not yet over */

static void on_interrupt(int sig)
{
    (void)sig;
    if (flag)
        _exit(130);
    flag = 1;
}

static void on_end(int sig)
{
    if (!ended_by)
        ended_by = sig;
    flag = 1;
}

static char map_message[1200]; /* made beforehand: a handler may format nothing */

static void on_bus(int sig)
{
    (void)sig;
    size_t len = strlen(map_message);
    for (size_t at = 0; at < len;) {
        const ssize_t n = write(STDERR_FILENO, map_message + at, len - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    _exit(hasten_exit_code(HASTEN_ERR_FILE));
}

static void set_handler(int sig, void (*fn)(int))
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = fn;
    sa.sa_flags = SA_RESTART; /* a write in progress goes on; who must wake up waits with pselect */
    sigemptyset(&sa.sa_mask);
    sigaction(sig, &sa, NULL);
}

void interrupt_on_lost_map(const char *path)
{
    struct hasten_error err; /* which cleans the name */
    error_set(&err, HASTEN_ERR_FILE,
              "%s: cut short or unreadable while in use (expected a file that stays; %s)", path,
              "--no-mmap runs a copy in memory");
    snprintf(map_message, sizeof map_message, "hasten: %s\n", err.message);
    set_handler(SIGBUS, on_bus);
}

const volatile int *interrupt_arm(void)
{
    if (depth++ == 0) {
        flag = 0;
        set_handler(SIGINT, on_interrupt);
    }
    return &flag;
}

void interrupt_disarm(void)
{
    if (--depth == 0)
        set_handler(SIGINT, SIG_DFL);
}

const volatile int *interrupt_arm_writing(void)
{
    interrupt_arm();
    if (writers++ > 0)
        return &flag;
    for (size_t i = 0; i < N_ENDS; i++) {
        struct sigaction now;
        caught[i] = sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL;
        if (caught[i])
            set_handler(ends[i], on_end);
    }
    return &flag;
}

void interrupt_disarm_writing(void)
{
    interrupt_disarm();
    if (--writers > 0)
        return;
    for (size_t i = 0; i < N_ENDS; i++)
        if (caught[i])
            set_handler(ends[i], SIG_DFL);
    if (ended_by)
        raise(ended_by);
}

/* ---- a server ------------------------------------------------------------------------------------------------ */

static int serve_event = -1; /* an eventfd */
static volatile sig_atomic_t stopped_by, reload;

static void on_serve(int sig)
{
    if (sig == SIGHUP) {
        reload = 1;
    } else {
        if (stopped_by)
            _exit(130); /* asked twice */
        stopped_by = sig;
    }
    eventfd_write(serve_event, 1);
}

hasten_status interrupt_serve(struct hasten_error *err)
{
    serve_event = eventfd(0, EFD_CLOEXEC);
    if (serve_event < 0)
        return error_set(err, HASTEN_ERR_MEMORY, "signals: no descriptor is left");
    signal(SIGPIPE, SIG_IGN); /* a client that leaves is no reason to end */
    set_handler(SIGINT, on_serve);
    set_handler(SIGTERM, on_serve);
    set_handler(SIGHUP, on_serve);
    return HASTEN_OK;
}

enum interrupt_serve interrupt_serve_wait(void)
{
    eventfd_t n;
    while (!stopped_by && !reload)
        eventfd_read(serve_event, &n);
    if (stopped_by)
        return stopped_by == SIGINT ? INTERRUPT_BY_KEY : INTERRUPT_STOP;
    reload = 0;
    return INTERRUPT_RELOAD;
}

bool interrupt_seen(void)
{
    return flag != 0;
}

void interrupt_clear(void)
{
    flag = 0;
}
