#!/usr/bin/env python3
"""Speed beside other work, as a share of quiet: one endless loop pinned to a core, two on two cores, and four times
as many threads as cores. Ours, and the peers that are there.

    bench/neighbour.py [--pairs 3] [--out FILE] [MODEL]

Everything runs on the first two CPUs this process may use. Each pair measures every engine in every state, in turning
order; shares are of the same pair's quiet figure."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "peers")]

from compare import find_model, say  # noqa: E402
from engines import Failed, Hasten, find_peers  # noqa: E402
from script import Parser, positive, run  # noqa: E402
from store import Store, now  # noqa: E402

STATES = ["quiet", "one loop", "two loops", "oversubscribed"]
TIMEOUT = 240  # a peer beside two loops may need minutes for a token


class Loops:
    """n endless loops, one pinned to each of the first n CPUs, for the time of a `with`."""

    def __init__(self, cpus):
        self.cpus, self.processes = cpus, []

    def __enter__(self):
        for cpu in self.cpus:
            self.processes.append(subprocess.Popen(
                [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"],
                stdin=subprocess.DEVNULL))

    def __exit__(self, *what):
        for process in self.processes:
            process.kill()
            process.wait()


def measure(engine, setting, test, state, path, cpus, n_gen):
    loops = {"one loop": cpus[:1], "two loops": cpus[:2]}.get(state, [])
    threads = 4 * len(cpus) if state == "oversubscribed" else len(cpus)
    with Loops(loops):
        return engine.run(test, path, threads, setting, n_gen, TIMEOUT)[0][test]


def setting_of(store, engine, test, model):
    chosen = store.find(kind="choice", engine=engine.name, model=model, test=test)
    return chosen[0]["setting"] or [] if chosen else engine.settings(test)[0]


def main():
    parser = Parser(description="Speed beside other work, as a share of quiet.")
    parser.add_argument("model", nargs="?", default="qwen-0.5b", metavar="MODEL",
                        help="a GGUF file, or a name in the cache [qwen-0.5b]")
    parser.add_argument("--pairs", type=positive, default=3, metavar="N", help="how often each state is measured [3]")
    parser.add_argument("-n", type=positive, default=32, metavar="N", help="tokens decoded [32]")
    parser.add_argument("--no-peers", action="store_true", help="measure Hasten alone")
    parser.add_common()
    args = parser.parse_args()
    store = Store(args.out, args.hasten, say)
    path, model = find_model(args.hasten, args.model)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cpus)
    engines = [Hasten(args.hasten)] + ([] if args.no_peers else find_peers()[0])
    for pair in range(args.pairs):
        jobs = [(engine, test, state) for engine in engines for test in ("decode", "prefill") for state in STATES]
        for engine, test, state in jobs if pair % 2 == 0 else jobs[::-1]:
            key = {"kind": "neighbour", "engine": engine.name, "model": model, "test": test, "state": state, "pair": pair}
            if store.find(**key):
                continue
            try:
                key["tps"] = measure(engine, setting_of(store, engine, test, model), test, state, path, cpus, args.n)
            except Failed as error:
                key["error"] = str(error)
            store.add({**key, "date": now()})
            say(f"{model} {test} {state}: {engine.name}: {key.get('error') or round(key['tps'], 1)}")


if __name__ == "__main__":
    run(main, "interrupted; the same command goes on where it stopped")
