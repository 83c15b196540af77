#!/usr/bin/env python3
"""Servers beside each other: hasten serve, llama-server and that of ik_llama.cpp, each alone, on the same model file,
under the same load (`hasten bench --serve`), and docs/serving.md.

    bench/serve.py [--models qwen-0.5b,qwen-1.5b] [--streams 1,4,16,64] [--rounds 3] [--only hasten,...] [--no-chats]

First each engine tries its grid of settings at the level of 16 streams (or the largest below) and keeps what writes most
tokens a second; then rounds, in which every engine is measured at every level, in turning order. Then growing chats:
the time to the first token of a long prompt, and of the turns after it. An interrupted run goes on where it stopped."""

import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "peers")]

from compare import find_model, say  # noqa: E402
from engines import Failed  # noqa: E402
from script import ROOT, Parser, need_program, positive, run, stop  # noqa: E402
from servers import find_servers  # noqa: E402
from store import Store, now  # noqa: E402

FIELDS = ["--field", "ignore_eos=true", "--field", "temperature=0"]
FIGURES = [("tokens_per_s", "tokens/s"), ("ttft_ms.p50", "first token p50, ms"), ("ttft_ms.p95", "p95"),
           ("itl_ms.p50", "between tokens p50, ms"), ("itl_ms.p95", "p95"), ("itl_ms.p99", "p99"),
           ("longest_pause_ms", "longest pause, ms")]


def load(args, url, timeout, *options):
    """The levels that `hasten bench --serve` saw."""
    command = [args.hasten, "bench", "--serve", url, "--json", "-n", str(args.tokens), *FIELDS, *map(str, options)]
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end within {timeout} s") from None
    if r.returncode:
        raise Failed(" ".join(r.stderr.split())[-300:] or r.stdout[-300:])
    return json.loads(r.stdout)["levels"]


def requests_of(streams, waves):
    return max(6, waves * streams)


def level(args, server, path, setting, streams, waves, seed):
    context = (args.prompt + args.tokens) * 5 // 4 + 128
    with server.start(path, args.threads, setting, streams, context) as s:
        return load(args, s.url, 1800, "--streams", streams, "--requests", requests_of(streams, waves), "-p", args.prompt,
                    "--warm-up", min(streams, 2), "-s", seed)[0]


def choose(args, store, server, model, path, streams):
    """The setting of the grid with the most tokens a second; each tried once, for two waves."""
    for setting in server.settings:
        if store.find(kind="try", engine=server.name, model=model, setting=setting, streams=streams):
            continue
        line = {"kind": "try", "engine": server.name, "model": model, "setting": setting, "streams": streams, "date": now()}
        try:
            line["level"] = level(args, server, path, setting, streams, 2, 1)
            say(f"{server.name} {model} '{setting}', {streams} streams: {line['level']['tokens_per_s']:.1f} tokens/s")
        except Failed as why:
            line["failed"] = str(why)
            say(f"{server.name} {model} '{setting}': {why}")
        store.add(line)
    tried = [t for t in store.find(kind="try", engine=server.name, model=model, streams=streams) if "level" in t]
    if not tried:
        raise Failed("no setting works")
    return max(tried, key=lambda t: t["level"]["tokens_per_s"])["setting"]


def measure(args, store, server, model, path, setting, streams, number):
    at = {"engine": server.name, "model": model, "streams": streams, "round": number}
    if store.find(kind="level", **at):
        return
    line = {"kind": "level", **at, "setting": setting, "date": now()}
    try:
        line["level"] = got = level(args, server, path, setting, streams, args.waves, 100 + number)
        say(f"round {number}: {server.name} {model}, {streams} streams: {got['tokens_per_s']:.1f} tokens/s, first token "
            f"{got['ttft_ms']['p50']:.0f} ms, between tokens p95 {got['itl_ms']['p95']:.0f} ms")
    except Failed as why:
        line["failed"] = str(why)
        say(f"round {number}: {server.name} {model}, {streams} streams: {why}")
    store.add(line)


def chats(args, store, server, model, path, setting, number):
    """One user whose chat begins with a long text: four turns."""
    at = {"engine": server.name, "model": model, "round": number}
    if store.find(kind="chat", **at):
        return
    line = {"kind": "chat", **at, "setting": setting, "tokens": args.chat_prompt, "date": now()}
    try:
        with server.start(path, args.threads, setting, 1, args.chat_prompt * 9 // 8 + 2048) as s:
            line["level"] = got = load(args, s.url, 1800, "--streams", 1, "--chats", 1, "--turns", 4, "-p", args.chat_prompt,
                                       "-s", 200 + number, "--warm-up", 1 if args.chat_prompt < 2000 else 0)[0]
        say(f"round {number}: {server.name} {model}, chat: first token "
            + ", ".join(f"{t['ttft_ms']['p50']:.0f}" for t in got["turns"]) + " ms")
    except Failed as why:
        line["failed"] = str(why)
        say(f"round {number}: {server.name} {model}, chat: {why}")
    store.add(line)


# ---- the report -------------------------------------------------------------------------------------------------


def pick(lines, name):
    """The figure over rounds: values."""
    out = []
    for line in lines:
        value = line.get("level")
        for part in name.split("."):
            value = value.get(part) if value else None
        if value is not None:
            out.append(value)
    return out


def figure(values, span=False):
    if not values:
        return "–"
    m = statistics.median(values)
    text = f"{m:,.0f}" if m >= 100 else f"{m:.1f}"
    if span and len(values) > 1:
        text += f" ({min(values):,.1f}–{max(values):,.1f})"
    return text


def level_table(store, model, streams, engines, out):
    out.append(f"\n### {streams} stream{'s' * (streams > 1)}\n")
    out.append("| engine | " + " | ".join(title for _, title in FIGURES) + " | failed | tokens by |")
    out.append("|---|" + "---|" * (len(FIGURES) + 2))
    best = {}
    for engine in engines:
        lines = store.find(kind="level", engine=engine, model=model, streams=streams)
        cells = [figure(pick(lines, name), name == "tokens_per_s") for name, _ in FIGURES]
        best[engine] = {name: statistics.median(v) for name, _ in FIGURES if (v := pick(lines, name))}
        failed = sum(pick(lines, "failed"))
        by = "/".join(sorted(set(pick(lines, "counted_by")))) or "–"
        why = next((line["failed"] for line in lines if "failed" in line), None)
        out.append(f"| {engine} | " + " | ".join(cells) + f" | {why or f'{failed:.0f}'} | {by} |")
    peers = [e for e in engines if e != "hasten" and "tokens_per_s" in best[e]]
    if peers and "tokens_per_s" in best.get("hasten", {}):
        top = max(peers, key=lambda e: best[e]["tokens_per_s"])
        itl = min(best[e]["itl_ms.p95"] for e in peers)
        out.append(f"\nTokens a second: **{best['hasten']['tokens_per_s'] / best[top]['tokens_per_s']:.2f} ×** the better peer "
                   f"({top}). Pauses, p95: {best['hasten']['itl_ms.p95']:.0f} ms beside the better peer's {itl:.0f} ms.")


def chat_table(store, model, engines, out):
    lines = store.find(kind="chat", model=model)
    if not lines:
        return
    turns = max((len(line["level"]["turns"]) for line in lines if "level" in line), default=0)
    out.append(f"\n### A chat that begins with {lines[0]['tokens']:,} tokens: first token, ms\n")
    out.append("| engine | " + " | ".join(f"turn {t + 1}" for t in range(turns)) + " | cached at the last | cold / last |")
    out.append("|---|" + "---|" * (turns + 2))
    for engine in engines:
        mine = [line for line in lines if line["engine"] == engine and "level" in line]
        if not mine:
            continue
        at = [[line["level"]["turns"][t]["ttft_ms"]["p50"] for line in mine if len(line["level"]["turns"]) > t]
              for t in range(turns)]
        last = [line["level"]["turns"][-1] for line in mine]
        cached = [t["cached_tokens"] for t in last if t["cached_tokens"] is not None]
        shares = f"{figure(cached)} of {figure([t['prompt_tokens'] for t in last if t['prompt_tokens'] is not None])}"
        gain = statistics.median(at[0]) / statistics.median(at[-1]) if at[-1] else 0
        out.append(f"| {engine} | " + " | ".join(figure(v) for v in at) + f" | {shares} | {gain:.0f} × |")


def report(args, store, servers, missing, models):
    head = store.lines[0]
    engines = [s.name for s in servers]
    out = ["# Serving beside other servers", "",
           "Made by `bench/serve.py`; do not edit. Every figure is of one run on one machine; the servers take turns on the same "
           "model file with the same threads, each alone.", "",
           f"- Machine: {head['cpu']}, {head['cpus']} CPUs, {args.threads} threads. Date: {now()}. Hasten {head['version']}, "
           f"kernels {head['kernels']}.",
           "- Engines: " + "; ".join(f"{s.name} {s.version()}" for s in servers) + "."
           + (" Missing: " + "; ".join(missing) + "." if missing else ""),
           f"- Load: `hasten bench --serve`, closed loop, prompts of about {args.prompt} tokens of a book, no two alike, "
           f"{args.tokens} tokens each (`ignore_eos`, greedy), {args.waves} answers a stream and level. Medians over {args.rounds} "
           "round(s), range in brackets. `docs/operation.md` says how each figure is defined.",
           "- Each engine with the setting of its grid that wrote most tokens a second:"]
    for model in models:
        for s in servers:
            tried = [t for t in store.find(kind="try", engine=s.name, model=model) if "level" in t]
            if tried:
                tried.sort(key=lambda t: -t["level"]["tokens_per_s"])
                out.append(f"  - {model}, {s.name}: " + ", ".join(
                    f"`{t['setting']}` {t['level']['tokens_per_s']:.1f}" for t in tried) + f" tokens/s at {tried[0]['streams']} streams")
    for model in models:
        out.append(f"\n## {model}")
        for streams in args.streams:
            level_table(store, model, streams, engines, out)
        chat_table(store, model, engines, out)
    with open(args.report, "w") as f:
        f.write("\n".join(out) + "\n")
    say(f"{args.report} is written")


# ---- the run ----------------------------------------------------------------------------------------------------


def numbers(text):
    return [positive(part) for part in text.split(",")]


def parse_args():
    parser = Parser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="qwen-0.5b,qwen-1.5b", metavar="M,...",
                        help="files, or names in the cache [qwen-0.5b,qwen-1.5b]")
    parser.add_argument("--streams", type=numbers, default=[1, 4, 16, 64], metavar="N,...", help="levels [1,4,16,64]")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="how often each is measured [3]")
    parser.add_argument("--waves", type=positive, default=3, metavar="N", help="answers of each stream in a level [3]")
    parser.add_argument("--prompt", type=positive, default=150, metavar="N", help="tokens of a prompt [150]")
    parser.add_argument("--tokens", type=positive, default=64, metavar="N", help="tokens of an answer [64]")
    parser.add_argument("--chat-prompt", type=positive, default=8000, metavar="N", help="tokens that a chat begins with [8000]")
    parser.add_argument("--no-chats", action="store_true", help="leave out the growing chats")
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)), metavar="N", help="of each [CPUs]")
    parser.add_argument("--only", default="", metavar="ENGINE,...", help="of hasten, llama.cpp, ik_llama.cpp [all that are there]")
    parser.add_common()
    parser.set_defaults(out=os.path.join(ROOT, "build/bench/serving.jsonl"))
    parser.add_argument("--report", metavar="FILE", default=os.path.join(ROOT, "docs/serving.md"),
                        help="the tables, as Markdown [docs/serving.md]")
    return parser.parse_args()


def main():
    args = parse_args()
    need_program(args.hasten)
    servers, missing = find_servers(args.hasten)
    if args.only:
        servers = [s for s in servers if s.name in args.only.split(",")]
        if not servers:
            stop(2, f"--only {args.only}: none of these is there (expected hasten, llama.cpp, ik_llama.cpp)")
    for sentence in missing:
        say(sentence)
    store = Store(args.out, args.hasten, say)
    models = {short: path for path, short in (find_model(args.hasten, name) for name in args.models.split(","))}
    usual = max([n for n in args.streams if n <= 16] or [min(args.streams)])
    for model, path in models.items():
        settings = {}
        for server in list(servers):
            try:
                settings[server.name] = choose(args, store, server, model, path, usual)
            except Failed as why:
                say(f"{server.name} {model}: {why}")
        for number in range(1, args.rounds + 1):
            order = [s for s in servers if s.name in settings]
            order = order if number % 2 else order[::-1]
            for streams in args.streams:
                for server in order:
                    measure(args, store, server, model, path, settings[server.name], streams, number)
            for server in order if not args.no_chats else []:
                chats(args, store, server, model, path, settings[server.name], number)
        report(args, store, servers, missing, models)


if __name__ == "__main__":
    run(main, "interrupted; the same command goes on where it stopped")
