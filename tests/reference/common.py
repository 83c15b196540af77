"""What the scripts of this folder share: the models, their files and hashes, the prompts, running `hasten`.

Owns: names and paths, and the one place that calls the command. Does not own: numbers (reference.py makes
them, compact.py stores them)."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = os.path.join(HERE, "texts")
DATA = os.path.join(HERE, "data")

# name -> (file under the models directory, the BOS id that the file asks for or None)
MODELS = {
    "smollm2": ("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", None),
    "gemma3-270m": ("gemma3-270m/gemma-3-270m-q4_k_m.gguf", 2),
    "qwen-0.5b": ("qwen-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", None),
}
# name -> (text, tokens of it that are used)
PROMPTS = {"short": ("short.txt", 16), "code": ("code.txt", 200), "prose": ("prose.txt", 1000)}

WIKI_FILE = "wikitext2-test.txt"
WIKI_BYTES = 120000
WIKI_TOKENS = 16384
WIKI_CONTEXT = 2048


class Failure(Exception):
    """A sentence that says what was expected and what was found."""


def model_path(models_dir, name):
    path = os.path.join(models_dir, MODELS[name][0])
    if not os.path.isfile(path):
        raise Failure(f"model {name} is missing: {path} (expected; `hasten pull {name}` fetches it)")
    return path


def sha256_file(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    return h.hexdigest()


def sha256_ids(ids):
    return hashlib.sha256(json.dumps([int(i) for i in ids]).encode()).hexdigest()


def wiki_text(data_dir):
    """The whole lines within the first WIKI_BYTES of the file."""
    path = os.path.join(data_dir, WIKI_FILE)
    if not os.path.isfile(path):
        raise Failure(f"{path} is missing (expected in HASTEN_DATA)")
    with open(path, "rb") as f:
        text = f.read(WIKI_BYTES)
    return text[:text.rindex(b"\n") + 1]


def windows_of(ids, bos, context, total):
    """The first `total` ids. For a model that asks for a BOS each window of `context` begins with it (such
    models are not trained on anything else), and the rest of the window is the next context - 1 ids."""
    if bos is None:
        out = ids[:total]
    else:
        if ids[0] != bos:
            raise Failure(f"the text's first id is {ids[0]} (expected BOS {bos})")
        text, step = ids[1:], context - 1
        out = [i for w in range(total // context) for i in [bos] + text[w * step:(w + 1) * step]]
    if len(out) != total:
        raise Failure(f"the text gives {len(out)} ids (expected {total})")
    return out


def run(command, stdin=None):
    """stdout of a command as bytes; Failure with its words when it fails."""
    try:
        p = subprocess.run(command, input=stdin, capture_output=True, check=False)
    except OSError as e:
        raise Failure(f"cannot run {command[0]}: {e.strerror}") from e
    if p.returncode != 0:
        raise Failure(f"`{' '.join(command)}` ended with status {p.returncode} (expected 0): "
                      f"{p.stderr.decode(errors='replace').strip()[-500:]}")
    return p.stdout


def hasten_tokenize(hasten, model, text):
    return json.loads(run([hasten, "tokenize", model], stdin=text))


class Eval:
    """`hasten eval` over ids; result: its JSON; logits: [n_scored, n_vocab] float32, mapped, until closed."""

    def __init__(self, hasten, model, ids, context, options=(), logits=True, n_vocab=None):
        self.dir = tempfile.TemporaryDirectory(prefix="hasten-reference-")
        ids_path = os.path.join(self.dir.name, "ids.json")
        with open(ids_path, "w", encoding="utf-8") as f:
            json.dump([int(i) for i in ids], f)
        command = [hasten, "eval", model, "--ids", ids_path, "-c", str(context), "--json", *options]
        out_path = os.path.join(self.dir.name, "logits.f32")
        self.result = json.loads(run(command + (["--logits", out_path] if logits else [])))
        self.logits = None
        if logits:
            rows = self.result["n_scored"]
            found = os.path.getsize(out_path)
            if n_vocab is None or found != rows * n_vocab * 4:
                raise Failure(f"--logits wrote {found} bytes (expected {rows} rows of {n_vocab} float32)")
            self.logits = np.memmap(out_path, dtype=np.float32, mode="r", shape=(rows, n_vocab))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.logits = None
        self.dir.cleanup()


def main_of(function):
    """Runs function(); a Failure becomes one sentence and exit 1."""
    try:
        sys.exit(function())
    except Failure as e:
        print(f"FAILED: {e}", file=sys.stderr)
        sys.exit(1)
