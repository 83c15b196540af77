/* Ctrl-C. A signal handler can reach nothing but static storage, so the flag here is the one piece of mutable
 * global state of the command (the library has none). While armed, the first SIGINT sets the flag, which the
 * engine polls; a second one before the flag is cleared ends the process with 130. Arming nests: a chat stays armed
 * from end to end, so that no Ctrl-C finds the program without a handler. */
#include "cli/cli.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile int flag;
static int depth; /* arms not yet disarmed */

static void on_interrupt(int sig)
{
    (void)sig;
    if (flag)
        _exit(130);
    flag = 1;
}

static void set_handler(void (*fn)(int))
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = fn;
    sa.sa_flags = SA_RESTART; /* a write in progress goes on; who must wake up waits with pselect */
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
}

const volatile int *interrupt_arm(void)
{
    if (depth++ == 0) {
        flag = 0;
        set_handler(on_interrupt);
    }
    return &flag;
}

void interrupt_disarm(void)
{
    if (--depth == 0)
        set_handler(SIG_DFL);
}

bool interrupt_seen(void)
{
    return flag != 0;
}

void interrupt_clear(void)
{
    flag = 0;
}
