/* The sandbox against programs that mean harm, or go wrong: none passes that should not, none leaves anything behind,
 * and what only computes passes. `test_sandbox FOLDER`: a folder that programs try to write to. */
#include "base/clock.h"
#include "base/file.h"
#include "cli/sandbox.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sandbox sandbox;
static const char *folder;

static bool run(const char *program, char note[160])
{
    struct hasten_error err;
    bool passed;
    if (sandbox_run(&sandbox, program, strlen(program), &passed, note, &err))
        fail_msg("%s", err.message);
    return passed;
}

/* Programs that say themselves whether they were stopped: each statement must raise. */
#define MUST_RAISE(setup, statement)                                                                         \
    setup "\ntry:\n    " statement "\nexcept (OSError, RuntimeError, ValueError):\n    pass\nelse:\n"        \
          "    raise SystemExit(3)\n"

static const struct {
    const char *program;
    bool passes;
    const char *note;
} table[] = {
    {"", true, ""},
    {"import math, typing, hashlib, re, collections, itertools, random, json\nassert math.gcd(12, 18) == 6\n",
     true, ""},
    {"for i in range(20000):\n    print('x' * 200)\n", true, ""}, /* its output goes nowhere */
    {"assert 1 == 2\n", false, "exception"},
    {"def f(:\n", false, "exception"},
    {"import sys\nsys.exit(0)\n", false, "left before its end"},
    {"import os\nos._exit(0)\n", false, "left before its end"},
    {"import os\nos.write(3, b'0123456789abcdef')\nos._exit(0)\n", false, "left before its end"},
    {"import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", false, ""},
    {"import ctypes\nctypes.string_at(0)\n", false, "signal"},
    {"def f():\n    f()\nf()\n", false, "exception"},
    {"x = bytearray(3 << 30)\n", false, "exception"},
    {"x = []\nwhile True:\n    x.append(bytearray(64 << 20))\n", false, "exception"},
    {MUST_RAISE("import os", "os.fork()"), true, ""},
    {"import os\nwhile True:\n    os.fork()\n", false, "exception"},
    {MUST_RAISE("import threading", "threading.Thread(target=print).start()"), true, ""},
    {MUST_RAISE("import subprocess", "subprocess.run(['/bin/true'])"), true, ""},
    {MUST_RAISE("import os", "os.kill(os.getppid(), 9)"), true, ""},
    {MUST_RAISE("import os", "os.kill(-1, 9)"), true, ""},
    {MUST_RAISE("import socket", "socket.socket()"), true, ""},
    {MUST_RAISE("import socket", "socket.create_connection(('127.0.0.1', 80))"), true, ""},
    {MUST_RAISE("import resource", "resource.setrlimit(resource.RLIMIT_CPU, (5, 5))"), true, ""},
    {MUST_RAISE("import os", "os.open('/proc/self/mem', os.O_RDWR)"), true, ""},
    {"import os\nopen(os.devnull).close()\nassert os.listdir('/')\n", true, ""},
    {"import ctypes, platform\nc = ctypes.CDLL(None, use_errno=True)\n"
     "n = 41 if platform.machine() == 'x86_64' else 198\n"
     "assert c.syscall(n, 2, 1, 0) == -1 and ctypes.get_errno() == 1\n", /* socket, past Python */
     true, ""},
};

static void test_programs(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char note[160];
        const bool passed = run(table[i].program, note);
        if (passed != table[i].passes || !strstr(note, table[i].note))
            fail_msg("program %zu %s (%s):\n%s", i, passed ? "passed" : "did not pass", note,
                     table[i].program);
    }
}

/* Nothing is made, changed or removed. */
static void test_files(void **unused)
{
    static const char *const attempts[] = {
        "open('%s/new', 'w')",
        "open('%s/kept', 'a')",
        "open('%s/kept', 'r+')",
        "os.open('%s/new', os.O_CREAT | os.O_RDONLY)",
        "os.open('%s', os.O_TMPFILE | os.O_WRONLY)",
        "os.remove('%s/kept')",
        "os.truncate('%s/kept', 0)",
        "os.rename('%s/kept', '/tmp/away')",
        "os.mkdir('%s/new')",
        "os.symlink('/', '%s/new')",
        "os.link('/etc/passwd', '%s/new')",
        "os.mkfifo('%s/new')",
        "os.chmod('%s/kept', 0)",
        "os.utime('%s/kept')",
    };
    char name[600], text[900], note[160];
    struct file *f;
    uint64_t size;
    (void)unused;
    snprintf(name, sizeof name, "%s/kept", folder);
    assert_int_equal(file_open(name, FILE_WRITE_TRUNC, &f, NULL), HASTEN_OK);
    assert_int_equal(file_write(f, "kept", 4, NULL), HASTEN_OK);
    file_close(f);
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        char attempt[700], before[300];
        const char *mark = strstr(attempts[i], "%s");
        snprintf(before, sizeof before, "%.*s", (int)(mark - attempts[i]), attempts[i]);
        snprintf(attempt, sizeof attempt, "%s%s%s", before, folder, mark + 2);
        snprintf(
            text, sizeof text,
            "import os\ntry:\n    %s\nexcept PermissionError:\n    pass\nelse:\n    raise SystemExit(3)\n",
            attempt);
        if (!run(text, note))
            fail_msg("%s: %s", attempt, note);
    }
    assert_int_equal(file_open(name, FILE_READ, &f, NULL), HASTEN_OK);
    assert_int_equal(file_size(f, &size, NULL), HASTEN_OK);
    assert_int_equal(size, 4);
    file_close(f);
    snprintf(name, sizeof name, "%s/new", folder);
    assert_false(file_exists(name));
}

/* What never ends is ended, and soon. */
static void test_time(void **unused)
{
    static const char *const programs[] = {"while True:\n    pass\n", "import time\ntime.sleep(1000)\n",
                                           "import signal, time\nfor s in range(1, 30):\n    try:\n"
                                           "        signal.signal(s, signal.SIG_IGN)\n    except Exception:\n"
                                           "        pass\nwhile True:\n    pass\n"};
    (void)unused;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char note[160];
        const uint64_t t0 = clock_now_ns();
        sandbox.seconds = 1;
        assert_false(run(programs[i], note));
        assert_string_equal(note, "out of time");
        assert_true((double)(clock_now_ns() - t0) / 1e9 < 30);
    }
    sandbox.seconds = 60;
}

static void test_interpreters(void **unused)
{
    struct sandbox s;
    struct hasten_error err;
    (void)unused;
    assert_int_equal(sandbox_open("/no/such/python", &s, &err), HASTEN_ERR_FILE);
    assert_int_equal(sandbox_open("no-such-python", &s, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "no no-such-python in PATH"));
    assert_int_equal(sandbox_open("/bin/true", &s, &err), HASTEN_ERR_FILE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_interpreters),
    };
    struct hasten_error err;
    folder = argc > 1 ? argv[1] : ".";
    if (sandbox_open(argc > 2 ? argv[2] : "python3", &sandbox, &err)) {
        fprintf(stderr, "FAILED: %s\n", err.message);
        return 1;
    }
    sandbox.seconds = 60; /* machines may be busy */
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    sandbox_close(&sandbox);
    return rc;
}
