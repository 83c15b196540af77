"""Makes the files of data/: compact references of the three prompts, and perplexities on WikiText-2.

    HASTEN_LLAMA_CPP=DIR make_reference.py prompts --models DIR [--only NAME]
    HASTEN_LLAMA_CPP=DIR make_reference.py wikitext --models DIR --data DIR [--only NAME]

HASTEN_LLAMA_CPP is a directory with llama.cpp's `llama-tokenize`: the ids come from another tokenizer than
ours. All products are float64. About a minute a model for `prompts`, a few for `wikitext`, on 2 cores."""
import argparse
import json
import os
import tempfile

import gguf
import numpy as np

import common
import compact
from reference import ROW_BLOCK, Reference, cut, scored

FULL_ROWS = 64  # rows of a prompt stored wholly; all rows of the shortest


def tokenize(model, text):
    tool = os.environ.get("HASTEN_LLAMA_CPP")
    if not tool:
        raise common.Failure("HASTEN_LLAMA_CPP is not set (expected: the directory of llama-tokenize)")
    with tempfile.NamedTemporaryFile() as f:
        f.write(text)
        f.flush()
        out = common.run([os.path.join(tool, "llama-tokenize"), "-m", model, "-f", f.name, "--ids",
                          "--no-parse-special", "--log-disable"])
    return json.loads(out)


def full_rows(n):
    """The last row and rows spread evenly before it."""
    return np.unique(np.linspace(0, n - 1, min(n, FULL_ROWS)).round().astype(np.int32))


def reference_of(ref, ids):
    """The arrays of compact.py for one prompt, and the mean KL over the full vocabulary."""
    exact = ref.hidden([ids])[:-1]
    rounded = ref.hidden([ids], "int8")[:-1]
    rows = full_rows(len(ids) - 1)
    keys = ("next_logp", "top_ids", "top_logp", "rest_logp", "int8_kl")
    parts = {k: [] for k in keys}
    gaps, logps, exact_kl = [], [], []
    for first, lp in ref.log_prob_blocks(exact):
        n = lp.shape[0]
        top_ids, top_logp, rest = compact.top_of(lp)
        other = ref.log_probs(rounded[first:first + ROW_BLOCK], "int8")
        for k, v in zip(keys, (lp[np.arange(n), ids[first + 1:first + 1 + n]], top_ids, top_logp, rest,
                               compact.partition_kl(top_logp, rest, top_ids, other))):
            parts[k].append(v)
        exact_kl.extend(float(np.exp(lp[i]) @ (lp[i] - other[i])) for i in range(n))
        for r in rows[(rows >= first) & (rows < first + n)]:
            gap, logp = compact.full_of(lp[r - first])
            gaps.append(gap)
            logps.append(logp)
    arrays = {k: np.concatenate(v).astype(np.float32) for k, v in parts.items() if k != "top_ids"}
    arrays["top_ids"] = np.concatenate(parts["top_ids"]).astype(np.int32)
    arrays.update(ids=np.array(ids, dtype=np.int32), full_rows=rows,
                  full_count=np.array([len(g) for g in gaps], dtype=np.int32),
                  full_gap=np.concatenate(gaps), full_logp=np.concatenate(logps))
    return arrays, float(np.mean(exact_kl))


def prompts(args, name):
    path = common.model_path(args.models, name)
    ref = Reference(path)
    for prompt, (text, n) in common.PROMPTS.items():
        with open(os.path.join(common.TEXTS, text), "rb") as f:
            ids = tokenize(path, f.read())[:n]
        if len(ids) != n:
            raise common.Failure(f"{text} gives {len(ids)} ids for {name} (expected at least {n})")
        arrays, kl = reference_of(ref, ids)
        meta = {"model": name, "model_sha256": common.sha256_file(path), "n_vocab": ref.n_vocab, "text": text,
                "command": f"make_reference.py prompts --only {name}", "numpy": np.__version__,
                "gguf": getattr(gguf, "__version__", "0.19"), "arithmetic": "float64",
                "ppl": float(np.exp(-arrays["next_logp"].astype(np.float64).mean())),
                "int8_kl_full_vocabulary": kl, "int8_kl_partition": float(arrays["int8_kl"].mean())}
        out = os.path.join(common.DATA, f"{name}-{prompt}.npz")
        compact.save(out, meta, arrays)
        print(f"{name} {prompt}: ppl {meta['ppl']:.4f}, int8 KL {kl:.6f} (partition "
              f"{meta['int8_kl_partition']:.6f}), {arrays['full_count'].mean():.0f} ids a row, "
              f"{os.path.getsize(out)} bytes", flush=True)


def wikitext(args, name):
    path = common.model_path(args.models, name)
    ids = common.windows_of(tokenize(path, common.wiki_text(args.data)), common.MODELS[name][1],
                            common.WIKI_CONTEXT, common.WIKI_TOKENS)
    ref = Reference(path)
    windows = cut(ids, common.WIKI_CONTEXT)
    rows, targets = scored(windows)
    hidden = ref.hidden(windows)[rows]
    nll = [-lp[np.arange(len(lp)), targets[i:i + len(lp)]] for i, lp in ref.log_prob_blocks(hidden)]
    nll = float(np.concatenate(nll).mean())
    out = os.path.join(common.DATA, "wikitext.json")
    table = {}
    if os.path.exists(out):
        with open(out, encoding="utf-8") as f:
            table = json.load(f)
    table[name] = {"ppl": float(np.exp(nll)), "nll": nll, "n_scored": len(rows), "n_tokens": len(ids),
                   "context": common.WIKI_CONTEXT, "ids_sha256": common.sha256_ids(ids),
                   "model_sha256": common.sha256_file(path), "arithmetic": "float64",
                   "command": f"make_reference.py wikitext --only {name}"}
    with open(out, "w", encoding="utf-8") as f:
        json.dump(table, f, indent=1)
        f.write("\n")
    print(f"{name} wikitext: ppl {np.exp(nll):.6f} over {len(rows)}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("what", choices=("prompts", "wikitext"))
    p.add_argument("--models", required=True)
    p.add_argument("--data", default=os.environ.get("HASTEN_DATA", ""))
    p.add_argument("--only", choices=sorted(common.MODELS))
    args = p.parse_args()
    os.makedirs(common.DATA, exist_ok=True)
    for name in [args.only] if args.only else common.MODELS:
        (prompts if args.what == "prompts" else wikitext)(args, name)
    return 0


if __name__ == "__main__":
    common.main_of(main)
