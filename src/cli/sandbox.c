/* A child under a filter of system calls (sandbox.h; seccomp(2), and "Secure computing with filters" in the kernel's
 * documentation for the layout of filters and their data).
 *
 * The list names what is allowed; everything else fails with EPERM, so that programs see an ordinary error. execve stays
 * allowed, as the filter stands before the interpreter starts: what is started is under the same filter. open and
 * openat are allowed with flags that only read. The kernel compares the architecture first, as numbers differ.
 *
 * That a program came to its end is told by a random word that it writes to a pipe as its last act: an early
 * sys.exit(0) does not pass. */
#include "cli/sandbox.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define SANDBOX_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_ARCH AUDIT_ARCH_AARCH64
#else
#define SANDBOX_ARCH 0
#endif

#define TOKEN_FD 3
#define TOKEN_BYTES 16 /* of the last word, in hexadecimal */
#define MOST_RULES 256

/* ---- the filter ---------------------------------------------------------------------------------------- */

/* What an interpreter calls to start, compute, read and end. */
static const int allowed[] = {
#ifdef __NR_access
    __NR_access,
#endif
#ifdef __NR_stat
    __NR_stat,
    __NR_lstat,
#endif
#ifdef __NR_readlink
    __NR_readlink,
#endif
#ifdef __NR_getdents
    __NR_getdents,
#endif
#ifdef __NR_dup2
    __NR_dup2,
#endif
#ifdef __NR_poll
    __NR_poll,
    __NR_select,
#endif
#ifdef __NR_arch_prctl
    __NR_arch_prctl,
#endif
#ifdef __NR_time
    __NR_time,
#endif
#ifdef __NR_getrlimit
    __NR_getrlimit,
#endif
#ifdef __NR_pipe
    __NR_pipe,
#endif
#ifdef __NR_epoll_create1
    __NR_epoll_create1,
#endif
#ifdef __NR_newfstatat
    __NR_newfstatat,
#endif
#ifdef __NR_statx
    __NR_statx,
#endif
#ifdef __NR_rseq
    __NR_rseq,
#endif
#ifdef __NR_faccessat2
    __NR_faccessat2,
#endif
#ifdef __NR_membarrier
    __NR_membarrier,
#endif
    __NR_read,
    __NR_pread64,
    __NR_readv,
    __NR_write,
    __NR_writev,
    __NR_close,
    __NR_fstat,
    __NR_lseek,
    __NR_mmap,
    __NR_mprotect,
    __NR_munmap,
    __NR_mremap,
    __NR_madvise,
    __NR_brk,
    __NR_rt_sigaction,
    __NR_rt_sigprocmask,
    __NR_rt_sigreturn,
    __NR_sigaltstack,
    __NR_ioctl,
    __NR_faccessat,
    __NR_getpid,
    __NR_getppid,
    __NR_gettid,
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
    __NR_getgroups,
    __NR_getpgid,
    __NR_getsid,
    __NR_uname,
    __NR_getcwd,
    __NR_readlinkat,
    __NR_getdents64,
    __NR_clock_gettime,
    __NR_clock_getres,
    __NR_clock_nanosleep,
    __NR_nanosleep,
    __NR_gettimeofday,
    __NR_times,
    __NR_getrusage,
    __NR_sysinfo,
    __NR_futex,
    __NR_sched_yield,
    __NR_sched_getaffinity,
    __NR_getrandom,
    __NR_exit,
    __NR_exit_group,
    __NR_set_tid_address,
    __NR_set_robust_list,
    __NR_fcntl,
    __NR_dup,
    __NR_dup3,
    __NR_ppoll,
    __NR_pselect6,
    __NR_pipe2,
    __NR_getpriority,
    __NR_execve,
    __NR_restart_syscall,
    __NR_statfs,
    __NR_fstatfs,
    __NR_capget,
    __NR_fadvise64};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define IF_EQUAL(value, then, otherwise)                                                                     \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), then, otherwise)
#define LOW_WORD(arg)                                                                                        \
    (offsetof(struct seccomp_data, args) + 8 * (arg)) /* little-endian, as both architectures are */
#define DENIED (SECCOMP_RET_ERRNO | EPERM)
#define MAY_CHANGE (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY))

static int add(struct sock_filter *f, int n, struct sock_filter rule)
{
    f[n] = rule;
    return n + 1;
}

/* Call nr is allowed unless the word at an offset of its data has one of these bits. */
static int add_masked(struct sock_filter *f, int n, int nr, size_t word, uint32_t bits)
{
    n = add(f, n, (struct sock_filter)IF_EQUAL(nr, 0, 4));
    n = add(f, n, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)word));
    n = add(f, n, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    n = add(f, n, (struct sock_filter)RETURN(DENIED));
    return add(f, n, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
}

/* Rules into f[MOST_RULES]; how many. */
static unsigned short make_filter(struct sock_filter *f)
{
    int n = 0;
    n = add(f, n, (struct sock_filter)LOAD(arch));
    n = add(f, n, (struct sock_filter)IF_EQUAL(SANDBOX_ARCH, 1, 0));
    n = add(f, n, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
    n = add(f, n, (struct sock_filter)LOAD(nr));
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        n = add(f, n, (struct sock_filter)IF_EQUAL(allowed[i], 0, 1));
        n = add(f, n, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
    }
#ifdef __NR_open
    n = add_masked(f, n, __NR_open, LOW_WORD(1), MAY_CHANGE);
#endif
    n = add_masked(f, n, __NR_openat, LOW_WORD(2), MAY_CHANGE);
    n = add_masked(f, n, __NR_prlimit64, LOW_WORD(2), 0xffffffff); /* a new limit: no; asking: yes */
    return (unsigned short)add(f, n, (struct sock_filter)RETURN(DENIED));
}

/* ---- the child ----------------------------------------------------------------------------------------- */

static void bound(int what, uint64_t limit)
{
    const struct rlimit r = {limit, limit};
    setrlimit((__rlimit_resource_t)what, &r);
}

/* Never returns: becomes the interpreter, or says on the token's pipe what failed ('!'). */
static void become(const struct sandbox *s, int program, int token, const struct sock_fprog *filter)
{
    static char *const environment[] = {"PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0",
                                        "LC_ALL=C.UTF-8", NULL};
    char *const argv[] = {s->python.data, "-I", "-B", "-", NULL};
    const int nowhere = open("/dev/null", O_WRONLY); /* lint: allow open: a child between fork and exec */
    int saved = fcntl(token, F_DUPFD, 10), input = fcntl(program, F_DUPFD, 10);
    int failed = nowhere < 0 || saved < 0 || input < 0 || dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0 ||
                 dup2(input, 0) < 0 || dup2(saved, TOKEN_FD) < 0 || chdir("/") != 0;
    failed = failed || syscall(SYS_close_range, 4u, ~0u, 0u) != 0;
    setsid();
    bound(RLIMIT_AS, s->memory_bytes);
    bound(RLIMIT_CPU, (uint64_t)s->seconds + 1);
    bound(RLIMIT_FSIZE, 0);
    bound(RLIMIT_CORE, 0);
    bound(RLIMIT_NOFILE, 64);
    bound(RLIMIT_STACK, 64u << 20);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    failed = failed || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
             prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter) != 0;
    if (!failed)
        execve(s->python.data, argv, environment);
    const ssize_t said =
        write(failed ? saved : TOKEN_FD, failed ? "!" : "?", 1); /* lint: allow write: the same */
    _exit(said == 1 ? 126 : 127);
}

/* ---- the parent ---------------------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int program, token; /* our ends of its pipes */
    char said[TOKEN_BYTES * 2 + 1];
    size_t n_said;
};

static hasten_status start(const struct sandbox *s, struct child *c, struct hasten_error *err)
{
    struct sock_filter rules[MOST_RULES];
    const struct sock_fprog filter = {.len = make_filter(rules), .filter = rules};
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return error_set(err, HASTEN_ERR_MEMORY, "sandbox: no pipe (%s)", strerror(errno));
    }
    c->pid = fork();
    if (c->pid == 0)
        become(s, in[0], out[1], &filter);
    const int failed = errno;
    close(in[0]);
    close(out[1]);
    c->program = in[1];
    c->token = out[0];
    fcntl(c->program, F_SETFL, O_NONBLOCK);
    if (c->pid > 0)
        return HASTEN_OK;
    close(c->program);
    close(c->token);
    return error_set(err, HASTEN_ERR_MEMORY, "sandbox: no process (%s)", strerror(failed));
}

/* Gives the program and hears what it says until its end or the time's; true: in time. */
static bool attend(const struct sandbox *s, struct child *c, const char *program, size_t len)
{
    const uint64_t end = clock_now_ns() + (uint64_t)s->seconds * 1000000000u;
    size_t given = 0;
    for (;;) {
        const uint64_t now = clock_now_ns();
        if (now >= end || interrupt_seen())
            return false;
        struct pollfd p[2] = {{.fd = c->token, .events = POLLIN},
                              {.fd = given < len ? c->program : -1, .events = POLLOUT}};
        if (poll(p, 2, (int)((end - now) / 1000000 + 1)) < 0 && errno != EINTR)
            return false;
        if (p[1].revents) {
            const ssize_t n = write(c->program, program + given, len - given); /* lint: allow write: a pipe */
            given = n > 0 ? given + (size_t)n : errno == EAGAIN ? given : len;
            if (given == len) {
                close(c->program);
                c->program = -1;
            }
        }
        if (p[0].revents) {
            char more[64];
            const ssize_t n = read(c->token, more, sizeof more);
            if (n == 0)
                return true;
            for (ssize_t i = 0; i < n && c->n_said < sizeof c->said - 1; i++)
                c->said[c->n_said++] = more[i];
        }
    }
}

static void describe_end(int status, bool in_time, bool interrupted, char note[160])
{
    if (interrupted)
        snprintf(note, 160, "interrupted");
    else if (!in_time || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
        snprintf(note, 160, "out of time");
    else if (WIFSIGNALED(status))
        snprintf(note, 160, "ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) == 0)
        snprintf(note, 160, "left before its end");
    else
        snprintf(note, 160, "ended with an exception");
}

static hasten_status run(const struct sandbox *s, const char *program, size_t len, const char *token,
                         bool *passed, char note[160], struct hasten_error *err)
{
    struct child c = {.program = -1, .token = -1};
    void (*pipes)(int) = signal(SIGPIPE, SIG_IGN);
    hasten_status st = start(s, &c, err);
    if (st) {
        signal(SIGPIPE, pipes);
        return st;
    }
    const bool in_time = attend(s, &c, program, len);
    int status = 0;
    if (!in_time)
        kill(c.pid, SIGKILL);
    close(c.program);
    close(c.token);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    signal(SIGPIPE, pipes);
    c.said[c.n_said] = '\0';
    *passed = in_time && strcmp(c.said, token) == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    note[0] = '\0';
    if (!*passed)
        describe_end(status, in_time, interrupt_seen(), note);
    if (c.said[0] == '!')
        return error_set(
            err, HASTEN_ERR_UNSUPPORTED,
            "sandbox: unsupported here: no filter of system calls (expected seccomp; code is not run "
            "without it)");
    return c.said[0] == '?' ? error_set(err, HASTEN_ERR_FILE, "sandbox: %s cannot be run", s->python.data)
                            : HASTEN_OK;
}

hasten_status sandbox_run(void *ctx, const char *program, size_t len, bool *passed, char note[160],
                          struct hasten_error *err)
{
    const struct sandbox *s = ctx;
    struct buf text = {0};
    char token[TOKEN_BYTES + 1];
    snprintf(token, sizeof token, "%016llx", (unsigned long long)random_seed());
    int bad = buf_put(&text, program, len) ||
              buf_printf(&text, "\nimport os as _os\n_os.write(%d, b'%s')\n", TOKEN_FD, token);
    hasten_status st = bad ? error_set(err, HASTEN_ERR_MEMORY, "sandbox: out of memory")
                           : run(s, text.data, text.len, token, passed, note, err);
    buf_free(&text);
    return st;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static hasten_status try_python(struct sandbox *s, struct hasten_error *err)
{
    static const char program[] = "import sys\nassert sys.version_info >= (3, 7)\n";
    char note[160];
    bool passed = false;
    hasten_status st = sandbox_run(s, program, sizeof program - 1, &passed, note, err);
    if (!st && !passed)
        st = error_set(err, HASTEN_ERR_FILE,
                       "sandbox: %s does not run an empty program: %s (expected a Python 3)", s->python.data,
                       note);
    return st;
}

/* A name without a slash: the first in PATH that works. Wrappers that start further processes do not. */
static hasten_status find_python(const char *name, struct sandbox *s, struct hasten_error *err)
{
    struct buf *out = &s->python;
    const char *path = strchr(name, '/') ? NULL : getenv("PATH");
    hasten_status st = error_set(err, HASTEN_ERR_FILE,
                                 "sandbox: no %s in PATH (expected a Python 3, or --python FILE)", name);
    if (!path && buf_puts(out, name))
        return error_set(err, HASTEN_ERR_MEMORY, "sandbox: out of memory");
    if (!path)
        return try_python(s, err);
    for (const char *at = path; *at && st == HASTEN_ERR_FILE;) {
        const size_t n = strcspn(at, ":");
        buf_clear(out);
        if (buf_put(out, at, n) || buf_printf(out, "/%s", name))
            return error_set(err, HASTEN_ERR_MEMORY, "sandbox: out of memory");
        if (n > 0 && file_kind(out->data) == FILE_REGULAR && access(out->data, X_OK) == 0)
            st = try_python(s, err);
        at += n + (at[n] == ':');
    }
    return st;
}

hasten_status sandbox_open(const char *python, struct sandbox *out, struct hasten_error *err)
{
    *out = (struct sandbox){.seconds = SANDBOX_SECONDS, .memory_bytes = SANDBOX_MEMORY};
    if (SANDBOX_ARCH == 0)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "sandbox: unsupported on this architecture (expected x86-64 or aarch64)");
    hasten_status st = find_python(python, out, err);
    if (st)
        sandbox_close(out);
    return st;
}

void sandbox_close(struct sandbox *s)
{
    buf_free(&s->python);
}
