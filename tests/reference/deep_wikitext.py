"""Perplexity on WikiText-2: the engine's within 1 % of the float64 reference's (data/wikitext.json).

    HASTEN_DATA=DIR deep_wikitext.py --hasten BIN --models DIR --model NAME [--reference]

The first 16,384 tokens of wikitext2-test.txt in windows of 2,048, each from an empty context; for a model
that asks for a BOS each window begins with one (common.windows_of). The ids come from `hasten tokenize` and
must have the stored hash. Without the data or the model it fails."""
import argparse
import json
import os

import common

MAX_RELATIVE = 0.01


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--hasten", required=True)
    p.add_argument("--models", required=True)
    p.add_argument("--model", required=True, choices=sorted(common.MODELS))
    p.add_argument("--data", default="", help="instead of HASTEN_DATA")
    p.add_argument("--reference", action="store_true", help="the plain-C float path instead of the default")
    p.add_argument("-t", "--threads", type=int, default=2)
    args = p.parse_args()
    args.data = args.data or os.environ.get("HASTEN_DATA", "")
    if not args.data:
        raise common.Failure("HASTEN_DATA is not set (expected: the directory of wikitext2-test.txt)")
    with open(os.path.join(common.DATA, "wikitext.json"), encoding="utf-8") as f:
        want = json.load(f)[args.model]
    path = common.model_path(args.models, args.model)
    found = common.sha256_file(path)
    if found != want["model_sha256"]:
        raise common.Failure(f"{path}: SHA-256 is {found} (expected {want['model_sha256']})")
    ids = common.hasten_tokenize(args.hasten, path, common.wiki_text(args.data))
    ids = common.windows_of(ids, common.MODELS[args.model][1], want["context"], want["n_tokens"])
    if common.sha256_ids(ids) != want["ids_sha256"]:
        raise common.Failure(f"{args.model}: the ids of {common.WIKI_FILE} differ from the reference's "
                             f"(hash {common.sha256_ids(ids)}, expected {want['ids_sha256']})")
    options = ["-t", str(args.threads)] + (["--reference"] if args.reference else [])
    with common.Eval(args.hasten, path, ids, want["context"], options, logits=False) as run:
        ours, n = run.result["ppl"], run.result["n_scored"]
    off = ours / want["ppl"] - 1
    print(f"{args.model}: perplexity {ours:.4f}, reference {want['ppl']:.4f} ({100 * off:+.3f} %), "
          f"{n} scored")
    if n != want["n_scored"]:
        raise common.Failure(f"{args.model}: {n} tokens scored (expected {want['n_scored']})")
    if not abs(off) <= MAX_RELATIVE:
        raise common.Failure(f"{args.model}: perplexity {ours:.4f} is {100 * off:+.3f} % off the reference's "
                             f"{want['ppl']:.4f} (expected within {100 * MAX_RELATIVE} %)")
    return 0


if __name__ == "__main__":
    common.main_of(main)
