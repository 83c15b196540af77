"""How the scripts of bench/ begin and end: options that are refused in one line (exit 2), files that are not there or
not readable (3), Ctrl-C (130). Statuses are those of the command `hasten`; nothing here measures."""

import argparse
import errno
import os
import shutil
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def stop(status, text):
    """Ends the script with one line."""
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr, flush=True)
    sys.exit(status)


class Parser(argparse.ArgumentParser):
    """Errors are one line, without the usage."""

    def error(self, message):
        stop(2, f"{message} (--help lists the options)")

    def add_common(self):
        """--hasten and --out, which every script that measures has."""
        self.add_argument("--hasten", metavar="PROGRAM", default=os.path.join(ROOT, "build/release/hasten"),
                          help="the program to measure [build/release/hasten]")
        self.add_argument("--out", metavar="FILE", default=os.path.join(ROOT, "build/bench/results.jsonl"),
                          help="JSON lines of the results; what is in it is not measured again [build/bench/results.jsonl]")


def positive(text):
    """The type of an option that is a number of things."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000000:
        raise argparse.ArgumentTypeError(f"'{text}' (expected an integer from 1)")
    return int(text)


def need_program(path):
    if not shutil.which(path):
        stop(3, f"--hasten: {path} is no program (expected the command `hasten`, as `make build` leaves it)")
    return path


def run(main, interrupted="interrupted"):
    """main(), with an end in one line when Ctrl-C or a file ends it."""
    try:
        main()
    except KeyboardInterrupt:
        stop(130, interrupted)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        stop(4 if error.errno == errno.ENOSPC else 3, f"{where}{error.strerror or error}")
