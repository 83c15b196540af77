#!/usr/bin/env python3
"""Makes docs/performance.md (or any file) from the JSON lines of a run.

    bench/report.py RESULTS.jsonl [-o docs/performance.md] [--command TEXT]

For each test: our median, its share of the limits of the same run, each peer's median and the median of the paired
ratios with their range (larger than 1: we are faster, or smaller in memory)."""

import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from engines import LOWER_IS_BETTER  # noqa: E402
from script import Parser, run, stop  # noqa: E402
from store import best_limits, limit_speeds, read_lines  # noqa: E402

TITLES = [("prefill", "Prefill of 512 tokens", "tokens/s"), ("decode", "Decode", "tokens/s"),
          ("batch4", "Decode of 4 sequences, total", "tokens/s"), ("batch16", "Decode of 16 sequences, total", "tokens/s"),
          ("prefill_8k", "Prefill of 512 tokens at depth 8,192", "tokens/s"),
          ("decode_8k", "Decode at depth 8,192", "tokens/s"),
          ("prefill_32k", "Prefill of 512 tokens at depth 32,128 (one run)", "tokens/s"),
          ("decode_32k", "Decode at depth 32,128 (one run)", "tokens/s"),
          ("start_ms", "From the shell to the first token of a 16-token prompt, page cache warm", "ms"),
          ("rss_mib", "Peak resident memory of that process", "MiB")]
STATES = ["quiet", "one loop", "two loops", "oversubscribed"]


class Results:
    def __init__(self, path):
        self.lines = read_lines(path)
        if not self.find(kind="run"):
            stop(3, f"{path} says of no run what was measured (expected a line of kind \"run\")")

    def find(self, **wanted):
        return [line for line in self.lines if all(line.get(k) == v for k, v in wanted.items())]

    def names(self, key, **wanted):
        seen = []
        for line in self.find(**wanted):
            if line[key] not in seen:
                seen.append(line[key])
        return seen


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def values(results, metric, model, engine):
    """pair -> value"""
    return {line["pair"]: line["metrics"][metric] for line in results.find(kind="measure", model=model, engine=engine)
            if metric in line.get("metrics", {})}


def cost_of(results, metric, model, engine):
    for line in results.find(kind="measure", model=model, engine=engine):
        if metric in line.get("costs", {}):
            return line["costs"][metric]
    return None


def shares(results, metric, model, engine, median, limits):
    bus, peak = limit_speeds(cost_of(results, metric, model, engine), limits)
    if not bus:
        return "–"
    return f"{100 * median / bus:.0f} % of {figure(bus)} / {100 * median / peak:.0f} % of {figure(peak)}"


def ratio_cell(metric, ours, theirs):
    pairs = sorted(set(ours) & set(theirs))
    if not pairs:
        return "–"
    ratios = [theirs[p] / ours[p] if metric in LOWER_IS_BETTER else ours[p] / theirs[p] for p in pairs]
    median = statistics.median(ratios)
    if len(ratios) == 1:
        return f"{median:.2f}"
    return f"{median:.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def metric_table(results, metric, title, unit, limits, out):
    engines = [e for e in results.names("engine", kind="measure")
               if any(values(results, metric, m, e) for m in results.names("model", kind="measure"))]
    ours = [e for e in engines if e.startswith("hasten")]
    peers = [e for e in engines if not e.startswith("hasten")]
    if not ours:
        return
    head = [f"model ({unit})"]
    for engine in ours:
        head += [engine] + ([] if metric in LOWER_IS_BETTER else ["bus / peak"])
    for peer in peers:
        head += [peer, *("ratio" if len(ours) == 1 else f"ratio: {e}" for e in ours)]
    out += ["", f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for model in results.names("model", kind="measure"):
        mine = {e: values(results, metric, model, e) for e in ours}
        if not any(mine.values()):
            continue
        row = [model]
        for engine in ours:
            median = statistics.median(mine[engine].values()) if mine[engine] else None
            row.append(figure(median) if median else "–")
            if metric not in LOWER_IS_BETTER:
                row.append(shares(results, metric, model, engine, median, limits) if median else "–")
        for peer in peers:
            theirs = values(results, metric, model, peer)
            row.append(figure(statistics.median(theirs.values())) if theirs else "–")
            row += [ratio_cell(metric, mine[e], theirs) for e in ours]
        out.append("| " + " | ".join(row) + " |")


def neighbour_table(results, out):
    lines = results.find(kind="neighbour")
    if not lines:
        return
    out += ["", "## Beside other work", "",
            "Shares of the quiet figure of the same pair (medians); one endless loop pinned to one of two cores, two on "
            "both, and `-t 8` on two cores.", "", "| engine, model | test | quiet, tokens/s | one loop | two loops | -t 8 |",
            "|---|---|---|---|---|---|"]
    for engine in results.names("engine", kind="neighbour"):
        for model in results.names("model", kind="neighbour", engine=engine):
            for test in results.names("test", kind="neighbour", engine=engine, model=model):
                state = {s: {line["pair"]: line.get("tps") for line in results.find(
                    kind="neighbour", engine=engine, model=model, test=test, state=s)} for s in STATES}
                quiet = {p: v for p, v in state["quiet"].items() if v}
                cells = [figure(statistics.median(quiet.values())) if quiet else "–"]
                for s in STATES[1:]:
                    part = [state[s][p] / quiet[p] for p in state[s] if p in quiet and state[s][p]]
                    failed = [p for p, v in state[s].items() if v is None]
                    cells.append(f"{100 * statistics.median(part):.0f} %" if part else "no answer in 240 s" if failed else "–")
                out.append(f"| {engine}, {model} | {test} | " + " | ".join(cells) + " |")


def choices(results, out):
    lines = [line for line in results.find(kind="choice") if line["setting"]]
    if not lines:
        return
    out += ["", "## Settings of the peers", "", "Each tried once, the best kept:", ""]
    for engine in results.names("engine", kind="choice"):
        kept = {}
        for line in lines:
            if line["engine"] == engine:
                kept.setdefault(" ".join(line["setting"]), []).append(f"{line['model']} {line['test']}")
        for setting, where in kept.items():
            out.append(f"- {engine} `{setting}`: {', '.join(where)}")


def failures(results, out):
    lines = [line for line in results.find(kind="measure") if "error" in line]
    notes = [line["text"] for line in results.find(kind="note")]
    if lines or notes:
        out += ["", "## Missing", ""]
        out += [f"- {text}" for text in notes]
        out += [f"- {line['engine']}, {line['model']}, {line['test']}: {line['error']}" for line in lines]


def head(results, command, limits, out):
    run = results.find(kind="run")[0]
    measures = results.find(kind="measure")
    versions = {line["engine"]: line["version"] for line in measures if line.get("version")}
    pairs = [len(values(results, m, model, "hasten")) for m, _, _ in TITLES
             for model in results.names("model", kind="measure") if values(results, m, model, "hasten")]
    how = sorted({line["limits"][k]["how"] for line in results.find(kind="limits") for k in ("int8", "bf16", "f32")
                  if line["limits"][k]})
    spread = [line["limits"]["read"]["median_gbs"] for line in results.find(kind="limits")]
    out += ["# Performance", "",
            "Made by `make bench` (bench/report.py); do not edit. Every figure is of one run on one machine, engines "
            "alternating on the same file with the same threads.", "",
            f"- Machine: {run['cpu']}, {run['cpus']} CPUs; kernels `{run['kernels']}`.",
            f"- Date: {run['date']}. Command: `{command}`.",
            f"- Pairs: {min(pairs)} to {max(pairs)}." if pairs else "- Pairs: none.",
            "- Engines: " + "; ".join(f"{e} {v}" for e, v in versions.items()) + ".",
            f"- Limits, best of the run: memory {limits['read']:.1f} GB/s read; int8 {limits['int8']:,.0f} GOP/s; bf16 "
            f"{limits['bf16']:,.0f}, f32 {limits['f32']:,.0f} GFLOP/s ({', '.join(how)}; all threads). The median window "
            f"of memory was {min(spread):.1f} to {max(spread):.1f} GB/s: how quiet the machine was." if spread else "",
            "", "Medians over the pairs. *bus / peak*: the share of the tokens per second at which weights and KV would stream "
            "at the read limit, and of those at which the products would run at the peaks (int8 for quantised matrices, the faster "
            "of bf16 and f32 for halves and attention). *ratio*: median of the paired ratios and their range; above 1 "
            "Hasten is ahead."]


def main():
    parser = Parser(description=__doc__.split("\n")[0])
    parser.add_argument("results", metavar="RESULTS.jsonl", help="what a run left")
    parser.add_argument("-o", "--out", metavar="FILE", help="also write it there")
    parser.add_argument("--command", default="make bench", help="the command to name in it [make bench]")
    args = parser.parse_args()
    results = Results(args.results)
    limits = best_limits(results)
    out = []
    head(results, args.command, limits, out)
    for metric, title, unit in TITLES:
        metric_table(results, metric, title, unit, limits, out)
    neighbour_table(results, out)
    choices(results, out)
    failures(results, out)
    text = "\n".join(out) + "\n"
    if args.out:
        with open(args.out, "w") as f:
            f.write(text)
    print(text, end="")


if __name__ == "__main__":
    run(main)
