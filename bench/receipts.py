#!/usr/bin/env python3
"""Makes receipts of methods: gain (hasten bench, in turns with the plain engine) and damage (hasten eval, against it),
each in one JSON file, and the page docs/receipts.md of all of them.

    bench/receipts.py --model smollm2 --text FILE [--only WORDS] [--quick]     measure
    bench/receipts.py --render                                                 the page alone

--only "attend quest:budget=256" measures one; without it the list METHODS below. Files lie in docs/receipts/MODEL/ (docs/receipt.schema.json says their form), and
once more where `hasten methods NAME` finds them."""

import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from script import ROOT, Parser, need_program, run, stop  # noqa: E402

FOLDER = os.path.join(ROOT, "docs", "receipts")
# stage, spec. Budgets are of a context of some 3,000 tokens, of which about a twelfth is read or kept.
METHODS = ["attend oracle:budget=256", "attend quest:budget=256", "attend moba:budget=256", "attend window:recent=252,phase=decode",
           "attend random:budget=256", "cache h2o:keep=256,recent=128", "cache snapkv:keep=256", "cache keydiff:keep=256",
           "cache stream:keep=256", "cache random:keep=256", "depth drop:layers=last", "depth exit:theta=0.9,at=0.75",
           "weights requant:type=q4_0,tensors=ffn", "weights requant:type=q8_0,tensors=ffn",
           "weights head:first=16384", "cache q8", "cache q4", "depth drop_oracle:n=2"]
# Methods of the loop of an answer: stage, spec, and the workload (with its half) whose answers are timed.
ANSWERS = [("draft lookup:gamma=10", "code", "edit"), ("draft lookup:gamma=10", "code", "fresh"), ("draft lookup:gamma=10", "chat", None),
           ("draft lookup:gamma=10", "rag", None), ("draft lookup:gamma=10", "agent", None), ("draft adversary:gamma=4", "code", "fresh")]
SCHEMA = 1


def ask(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        stop(done.returncode, f"{' '.join(command)}: {done.stderr.strip() or 'no reason given'}")
    return json.loads(done.stdout)


def file_hash(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for part in iter(lambda: f.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def commit():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or None


def options(method, n_layer):
    stage, spec = method.split(" ", 1)
    return [f"--{stage}", spec.replace("layers=last", f"layers={n_layer - 3}")]


def span(value):
    return {"value": value["value"], "lo": value["lo"], "hi": value["hi"]}


def receipt(args, method, info, model_hash):
    how = options(method, info["n_layer"])
    speed = [args.hasten, "bench", args.model, "-p", "128", "-n", "32", "-d", str(args.depth), "-r", str(args.repeat), *how,
             "--json", "-q"]
    damage = [args.hasten, "eval", args.model, "--ppl", args.text, "-c", str(args.depth + 256), "--prefix", str(args.depth),
              "--rows", "1", "--limit", str(args.windows), *how, "--json", "-q"]
    fast, harm = ask(speed), ask(damage)
    gain = fast["with"]
    return {"schema": SCHEMA, "method": how[0][2:] + " " + how[1], "knobs": gain["methods"], "model": args.model,
            "model_sha256": model_hash, "commit": commit(), "date": datetime.date.today().isoformat(),
            "machine": {"cpu": fast["limits"]["cpu"], "threads": fast["threads"], "kernels": fast["kernels"],
                        "read_gbs": fast["limits"]["read"]["all_gbs"], "load": round(os.getloadavg()[0], 1)},
            "workload": {"depth": args.depth, "prefill": 128, "decode": 32, "text": os.path.basename(args.text)},
            "gain": {phase: {"plain_tps": fast[phase]["median"], "tps": gain[phase]["median"],
                             "ratio": {k: gain[phase]["ratio"][k] for k in ("median", "lo", "hi", "level")},
                             **({"pages_read": gain[phase]["attend"]["pages_read"] / gain[phase]["attend"]["pages_all"]}
                                if "attend" in gain[phase] else {})} for phase in ("prefill", "decode")},
            "damage": {"scored": harm["n_scored"], "kl": span(harm["damage"]["kl"]), "kl_p99": harm["damage"]["kl_p99"]["value"],
                       "top1_agreement": span(harm["damage"]["top1_agreement"]),
                       "ppl_plain": harm["damage"]["ppl_plain"]["value"], "ppl": harm["damage"]["ppl_variant"]["value"]},
            "commands": [" ".join(c).replace(args.hasten, "hasten").replace(args.text, "TEXT") for c in (speed, damage)]}


def answers_receipt(args, method, workload, half, cpu, model_hash):
    """A method of the loop of an answer: whole answers to a workload's held-out prompts, which must be the plain engine's."""
    how = options(method, 0)
    command = [args.hasten, "bench", args.model, "--workload", workload, *(["--half", half] if half else []), "--part", "held",
               "-r", str(max(1, args.repeat // 3)), *(["-n", str(args.tokens)] if args.tokens else []), *how, "--json", "-q"]
    found = ask(command)
    plain, gain = found["plain"], found["with"]
    ratio = gain["ratio"]
    if not ratio["same_answers"]:
        stop(1, f"{method}: its answers are not the plain engine's")

    def phase(name, tps):
        v = ratio[name]
        return {"plain_tps": plain[tps], "tps": gain[tps], "ratio": {"median": v["value"], "lo": v["lo"], "hi": v["hi"], "level": 0.95}}
    nothing = {"value": 0.0, "lo": 0.0, "hi": 0.0}
    return {"schema": SCHEMA, "method": how[0][2:] + " " + how[1], "knobs": gain["methods"], "model": args.model,
            "model_sha256": model_hash, "commit": commit(), "date": datetime.date.today().isoformat(),
            "machine": {"cpu": cpu, "threads": found["threads"], "kernels": found["kernels"], "load": round(os.getloadavg()[0], 1)},
            "workload": {"name": workload, "half": half, "part": "held", "prompts": ratio["prompts"], "answers": ratio["pairs"]},
            "gain": {"prefill": phase("prefill", "prefill_tps"), "decode": phase("decode", "decode_tps"),
                     "answer": {"ratio": {"median": ratio["answer"]["value"], "lo": ratio["answer"]["lo"], "hi": ratio["answer"]["hi"], "level": 0.95}}},
            "counted": {"tokens_per_pass": gain["tokens_per_pass"], "drafted": gain["drafted_n"], "accepted": gain["accepted_n"],
                        "between_ms": gain["between_ms"], "plain_between_ms": plain["between_ms"],
                        "bytes_per_token": gain["bytes_per_token"], "plain_bytes_per_token": plain["bytes_per_token"]},
            "damage": {"exact": True, "scored": ratio["pairs"], "kl": nothing, "top1_agreement": {"value": 1.0, "lo": 1.0, "hi": 1.0}},
            "commands": [" ".join(command).replace(args.hasten, "hasten")]}


def own_folder():
    """Where `hasten methods NAME` looks for the receipts of this machine."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "hasten", "receipts")


def name_of(method):
    return re.sub(r"[^a-z0-9_.]+", "-", method).strip("-") + ".json"


def measure(args):
    info = ask([args.hasten, "info", args.model, "--json"])
    info = {"n_layer": info["keys"][info["architecture"] + ".block_count"]}
    path = subprocess.run([args.hasten, "pull", args.model], capture_output=True, text=True).stdout.strip()
    model_hash = file_hash(path if os.path.isfile(path) else args.model)
    folder = os.path.join(FOLDER, os.path.basename(args.model))
    os.makedirs(folder, exist_ok=True)
    chosen = [args.only] if args.only else METHODS
    for method in [m for m in chosen if m.split(" ")[0] not in ("draft", "stop")]:
        print(f"receipts: {method}", file=sys.stderr)
        save(args, folder, name_of(method), receipt(args, method, info, model_hash))
    cpu = ask([args.hasten, "doctor", "--json"])["cpu"]
    for method, workload, half in [a for a in ANSWERS if not args.only or a[0] == args.only]:
        print(f"receipts: {method}, {workload} {half or ''}", file=sys.stderr)
        name = name_of(f"{method} {workload} {half or ''}")
        save(args, folder, name, answers_receipt(args, method, workload, half, cpu, model_hash))


def save(args, folder, name, r):
    for place, prefix in ((folder, ""), (own_folder(), os.path.basename(args.model) + "-")):
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, prefix + name), "w") as f:
            json.dump(r, f, indent=1)
            f.write("\n")


def verdict(r):
    ratio = r["gain"]["decode"]["ratio"]
    return "faster" if ratio["lo"] > 1 else "slower" if ratio["hi"] < 1 else "no difference shown"


def ratio_text(r, phase):
    ratio = r["gain"][phase]["ratio"]
    return f"{ratio['median']:.2f} ({ratio['lo']:.2f} to {ratio['hi']:.2f})"


def text_table(receipts):
    """Methods that any step shows: at a depth of a text."""
    r, w = receipts[0], receipts[0]["workload"]
    lines = [f"{r['machine']['cpu']}, {r['machine']['threads']} threads, {r['machine']['kernels']}; "
             f"{w['decode']} tokens decoded and {w['prefill']} read at depth {w['depth']:,}; damage over "
             f"{r['damage']['scored']:,} tokens behind {w['depth']:,} of `{w['text']}`, read one by one.", "",
             "| method | decode, × plain | prefill, × plain | pages read | KL, nats | top-1 agrees | perplexity (plain) | decode is |",
             "|---|---|---|---|---|---|---|---|"]
    for r in receipts:
        pages = r["gain"]["decode"].get("pages_read")
        kl, top = r["damage"]["kl"], r["damage"]["top1_agreement"]
        lines.append(f"| `{r['method']}` | {ratio_text(r, 'decode')} | {ratio_text(r, 'prefill')} | "
                     f"{'' if pages is None else f'{100 * pages:.0f} %'} | {kl['value']:.4f} ({kl['lo']:.4f} to {kl['hi']:.4f}) | "
                     f"{100 * top['value']:.1f} % | {r['damage']['ppl']:.2f} ({r['damage']['ppl_plain']:.2f}) | {verdict(r)} |")
    return lines


def answers_table(receipts):
    """Methods of the loop of an answer: whole answers to a workload."""
    r = receipts[0]
    lines = ["", f"Whole answers to held-out prompts of the workloads in `bench/workloads/`, greedily, in turns with the plain engine "
             f"({r['machine']['threads']} threads, {r['machine']['kernels']}); all answers were the plain engine's, token by token.", "",
             "| method | workload | decode, × plain | whole answers, × plain | tokens a pass | proposed tokens that stood | decode is |",
             "|---|---|---|---|---|---|---|"]
    for r in receipts:
        w, n = r["workload"], r["counted"]
        lines.append(f"| `{r['method']}` | {w['name']}{', ' + w['half'] if w['half'] else ''} | {ratio_text(r, 'decode')} | {ratio_text(r, 'answer')} | "
                     f"{n['tokens_per_pass']:.2f} | {n['accepted']} of {n['drafted']} | {verdict(r)} |")
    return lines


def render():
    lines = ["# Receipts", "What methods gain and what they cost, each against the plain engine in the same run. Made by `bench/receipts.py`; "
             "a file for each lies in `docs/receipts/`, with the commands (their form: `docs/receipt.schema.json`). Losers stand here too."]
    for model in sorted(os.listdir(FOLDER)):
        folder = os.path.join(FOLDER, model)
        receipts = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name)) as f:
                receipts.append(json.load(f))
        of_text = [r for r in receipts if "depth" in r["workload"]]
        of_answers = [r for r in receipts if "name" in r["workload"] and "counted" in r]
        lines += ["", f"## {model}"] if receipts else []
        lines += text_table(of_text) if of_text else []
        lines += answers_table(of_answers) if of_answers else []
    with open(os.path.join(ROOT, "docs", "receipts.md"), "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hasten", default=os.path.join(ROOT, "build", "release", "hasten"))
    parser.add_argument("--model", default="smollm2", help="a name in the cache [%(default)s]")
    parser.add_argument("--text", help="the text of the damage; not one that anything was tuned on")
    parser.add_argument("--only", metavar="'STAGE SPEC'", help="one method")
    parser.add_argument("--depth", type=int, default=3072)
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--windows", type=int, default=8, help="of 256 scored tokens [%(default)s]")
    parser.add_argument("--tokens", type=int, default=0, help="of an answer to a workload, at most [as it says]")
    parser.add_argument("--quick", action="store_true", help="two windows, three repetitions, answers of 96 tokens")
    parser.add_argument("--render", action="store_true", help="only docs/receipts.md from what is there")
    args = parser.parse_args()
    if args.quick:
        args.windows, args.repeat, args.tokens = 2, 3, 96
    if not args.render and not args.text:
        stop(2, "no --text (expected a text file for the damage)")
    if not args.render:
        need_program(args.hasten)
        measure(args)
    render()


if __name__ == "__main__":
    run(main)
