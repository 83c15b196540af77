#!/usr/bin/env python3
"""Hasten beside llama.cpp and ik_llama.cpp: same file, same threads, same run, alternating (A B C, C B A, ...).

    bench/peers/compare.py [--pairs 5] [--tests prefill,decode,...] [--threads 2] [-n 64] [--out FILE] MODEL...

Each peer's settings are tried once per model and test; the best one is kept and named. MODEL is a file or a name in
the cache. Prints each figure as it comes, as JSON lines in FILE (build/bench/results.jsonl), and goes on there after
an interruption. bench/report.py makes the tables. Tests: prefill decode batch4 batch16 depth8k start; depth32k when
asked for."""

import argparse
import math
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from engines import DEPTHS, LOWER_IS_BETTER, TESTS, Failed, Hasten, find_peers  # noqa: E402
from script import Parser, positive, run  # noqa: E402
from store import Store, ask, now  # noqa: E402

DEFAULT_TESTS = "prefill,decode,batch4,batch16,depth8k,start"
TIMEOUT = 900  # of one process


def say(text):
    print(text, file=sys.stderr, flush=True)


def find_model(hasten, name):
    """The path that `hasten` opens for a name, and its short name."""
    if os.path.exists(name):
        return name, os.path.basename(name)
    return ask(hasten, "info", name)["path"], name


def test_names(text):
    """The type of --tests: the text as it is, of known names."""
    for name in text.split(","):
        if name not in TESTS:
            raise argparse.ArgumentTypeError(f"unknown test '{name}' (expected {', '.join(TESTS)})")
    return text


def goodness(metrics):
    """Larger is better; several metrics by their product."""
    return math.prod(1 / v if k in LOWER_IS_BETTER else v for k, v in metrics.items() if k != "rss_mib")


class Comparison:
    def __init__(self, args, store, engines):
        self.args, self.store, self.engines = args, store, engines
        self.began, self.done = time.monotonic(), 0

    def run_once(self, engine, test, path, setting):
        return engine.run(test, path, self.args.threads, setting, self.args.n, TIMEOUT)

    def choose(self, engine, test, model, path):
        """The engine's best setting for this model and test, each tried once; None: none worked."""
        settings = engine.settings(test)
        if len(settings) == 1:
            return settings[0]
        known = self.store.find(kind="choice", engine=engine.name, model=model, test=test)
        if known:
            return known[0]["setting"]
        tried = []
        for setting in settings:
            try:
                metrics, _ = self.run_once(engine, test, path, setting)
                tried.append({"setting": setting, "metrics": metrics, "good": goodness(metrics)})
            except Failed as error:
                tried.append({"setting": setting, "error": str(error)})
        working = [t for t in tried if "good" in t]
        best = max(working, key=lambda t: t["good"])["setting"] if working else None
        self.store.add({"kind": "choice", "engine": engine.name, "model": model, "test": test, "setting": best,
                        "tried": tried, "date": now()})
        say(f"{model} {test}: {engine.name}: best of {len(settings)} settings: {' '.join(best or ['none works'])}")
        return best

    def pair(self, number, test, model, path, engines):
        """Every engine once, in the order of the pair."""
        for engine, setting in engines if number % 2 == 0 else engines[::-1]:
            if self.store.find(kind="measure", engine=engine.name, model=model, test=test, pair=number):
                continue
            line = {"kind": "measure", "test": test, "model": model, "pair": number, "engine": engine.name,
                    "setting": setting, "date": now()}
            began = time.monotonic()
            try:
                line["metrics"], line["costs"] = self.run_once(engine, test, path, setting)
            except Failed as error:
                line["error"] = str(error)
            line.update(seconds=round(time.monotonic() - began, 2), version=engine.version())
            self.store.add(line)
            shown = line.get("error") or ", ".join(f"{k} {v:.1f}" for k, v in line["metrics"].items())
            say(f"{model} {test} pair {number + 1}: {engine.name}: {shown}")

    def compare(self, test, model, path):
        chosen = []
        for engine in self.engines:
            for variant in engine.variants(test):
                setting = self.choose(variant, test, model, path)
                if setting is not None:
                    chosen.append((variant, setting))
        for number in range(1 if test == "depth32k" else self.args.pairs):
            self.pair(number, test, model, path, chosen)


def parse_args():
    parser = Parser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a GGUF file, or a name in the cache")
    parser.add_argument("--pairs", type=positive, default=5, metavar="N", help="how often each engine is measured [5]")
    parser.add_argument("--tests", type=test_names, default=DEFAULT_TESTS, metavar="T,...",
                        help=f"of {', '.join(TESTS)} [all but depth32k]")
    parser.add_argument("--depth-models", default="qwen-0.5b", metavar="M,...",
                        help="models of the tests at depth [qwen-0.5b]")
    parser.add_argument("--threads", "-t", type=positive, default=min(2, len(os.sched_getaffinity(0))), metavar="N",
                        help="of every engine [two, or one where there is one CPU]")
    parser.add_argument("-n", type=positive, default=64, metavar="N", help="tokens decoded [64]")
    parser.add_common()
    args = parser.parse_args()
    args.tests = args.tests.split(",")
    return args


def main():
    args = parse_args()
    store = Store(args.out, args.hasten, say)
    peers, missing = find_peers()
    for sentence in missing:
        say(sentence)
        if not store.find(kind="note", text=sentence):
            store.add({"kind": "note", "text": sentence})
    comparison = Comparison(args, store, [Hasten(args.hasten), *peers])
    deep = args.depth_models.split(",")
    for name, (path, model) in zip(args.models, [find_model(args.hasten, name) for name in args.models]):
        store.measure_limits(args.hasten, args.threads)
        for test in args.tests:
            if test not in DEPTHS or name in deep or model in deep:
                comparison.compare(test, model, path)
        store.measure_limits(args.hasten, args.threads)


if __name__ == "__main__":
    run(main, "interrupted; the same command goes on where it stopped")
