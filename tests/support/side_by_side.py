"""unittest.main for tests that mostly wait (for servers, signals, timeouts): shares the module's tests out to several
processes, forked before any test began, and prints what each said."""

import os
import sys
import tempfile
import unittest


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def run_share(tests, out):
    os.dup2(out.fileno(), 1)
    os.dup2(out.fileno(), 2)
    result = unittest.TextTestRunner(stream=sys.stderr).run(unittest.TestSuite(tests))
    sys.stdout.flush()
    sys.stderr.flush()
    return 0 if result.wasSuccessful() and result.testsRun == len(tests) and not result.skipped else 1


def main(processes=4):
    """Exits with 1 when a test failed, was skipped or did not run."""
    tests = list(flat(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    shares = [tests[i::processes] for i in range(processes) if tests[i::processes]]
    children = []
    for share in shares:
        out = tempfile.TemporaryFile()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = run_share(share, out)
            finally:
                os._exit(status)
        children.append((pid, out))
    failed = 0 if tests else 1
    for pid, out in children:
        failed |= os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
        out.seek(0)
        print(out.read().decode(errors="replace"), end="")
    sys.exit(1 if failed else 0)
