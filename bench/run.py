#!/usr/bin/env python3
"""The whole measurement: every model beside the peers, the busy neighbour, docs/performance.md.

    bench/run.py [--models smollm2,gemma3-270m,qwen-0.5b,qwen-1.5b] [--pairs 5] [--tests ...] [--no-neighbour]

Says before it starts about how long it will take. An interrupted run goes on where it stopped (build/bench/). Without
peers their columns are missing, and the report says so. The models must be in the cache (scripts/models)."""

import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "peers")]

from compare import DEFAULT_TESTS, test_names  # noqa: E402
from engines import DEPTHS, TESTS, find_peers  # noqa: E402
from script import Parser, need_program, positive, run  # noqa: E402

MODELS = "smollm2,gemma3-270m,qwen-0.5b,qwen-1.5b"
# Seconds of one process on two slow cores, about: (ours, a peer), for a model of 0.5 billion parameters.
SECONDS = {"prefill": (4, 6), "decode": (4, 5), "batch4": (8, 12), "batch16": (12, 30), "depth8k": (90, 150),
           "depth32k": (500, 1500), "start": (1, 2)}
SIZE = {"smollm2": 0.5, "gemma3-270m": 0.5, "qwen-0.5b": 1.0, "qwen-1.5b": 3.0}


def minutes(models, tests, pairs, n_peers, depth_models, neighbour):
    total = 0.0
    for model in models:
        for test in tests:
            if test in DEPTHS and model not in depth_models:
                continue
            ours, peer = SECONDS[test]
            ours *= 3 if test in DEPTHS else 1  # f16, bf16, q8
            runs = 1 if test == "depth32k" else pairs
            total += SIZE.get(model, 1.0) * (runs * (ours + n_peers * peer) + 3 * n_peers * peer)
    if neighbour:
        total += 3 * 8 * (6 + n_peers * 40)
    return total / 60


def names(value):
    """A list of models without the folders of files."""
    return ",".join(os.path.basename(part) for part in str(value).split(","))


def step(command):
    """Runs a script to its end; when this one is ended first, so is that one, with all that it has started."""
    child = subprocess.Popen([sys.executable, *command], start_new_session=True)
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()


def end(number, frame):
    sys.exit(128 + number)


def parse_args():
    parser = Parser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=MODELS, metavar="M,...", help=f"files, or names in the cache [{MODELS}]")
    parser.add_argument("--pairs", type=positive, default=5, metavar="N",
                        help="how often each engine is measured [5]; the neighbour at most 3 times")
    parser.add_argument("--tests", type=test_names, default=DEFAULT_TESTS, metavar="T,...",
                        help=f"of {', '.join(TESTS)} [all but depth32k]")
    parser.add_argument("--depth-models", default="qwen-0.5b", metavar="M,...",
                        help="models of the tests at depth [qwen-0.5b]")
    parser.add_argument("--no-neighbour", action="store_true", help="leave out the measurement beside other work")
    parser.add_common()
    parser.add_argument("--report", metavar="FILE", default=os.path.join(HERE, "../docs/performance.md"),
                        help="the tables, as Markdown [docs/performance.md]")
    return parser, parser.parse_args()


def main():
    parser, args = parse_args()
    need_program(args.hasten)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    models, tests = args.models.split(","), args.tests.split(",")
    peers, missing = find_peers()
    about = minutes(models, [t for t in tests if t in SECONDS], args.pairs, len(peers), args.depth_models.split(","),
                    not args.no_neighbour)
    counts = [f"{n} {what}{'s' * (n > 1)}" for n, what in ((len(models), "model"), (args.pairs, "pair"))]
    print(f"bench: {', '.join(counts)}, peers: {', '.join(p.name for p in peers) or 'none'}; about {about:.0f} minutes on two "
          "cores; a second call goes on where the first stopped", file=sys.stderr, flush=True)
    common = ["--hasten", args.hasten, "--out", args.out]
    steps = [[os.path.join(HERE, "peers", "compare.py"), *common, "--pairs", str(args.pairs), "--tests", args.tests,
              "--depth-models", args.depth_models, *models]]
    if not args.no_neighbour:
        model = "qwen-0.5b" if "qwen-0.5b" in models else models[0]
        steps.append([os.path.join(HERE, "neighbour.py"), *common, "--pairs", str(min(3, args.pairs)), model])
    shown = [f"--{name} {names(getattr(args, name.replace('-', '_')))}" for name in ("models", "pairs", "tests", "depth-models")
             if getattr(args, name.replace("-", "_")) != parser.get_default(name.replace("-", "_"))]
    shown_command = " ".join(["bench/run.py", *shown, *(["--no-neighbour"] if args.no_neighbour else [])])
    steps.append([os.path.join(HERE, "report.py"), args.out, "-o", args.report, "--command", shown_command])
    for command in steps:
        status = step(command)
        if status:  # it has said why
            sys.exit(status if status > 0 else 128 - status)


if __name__ == "__main__":
    run(main, "interrupted; the same command goes on where it stopped")
