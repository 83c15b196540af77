#!/usr/bin/env python3
"""What scripts rely on: the fields of --json and what their numbers mean, on tiny models.

    test_json.py HASTEN MAKE_TINY WORK"""

import json
import math
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
from gguf import GGUFReader

HASTEN, MAKE_TINY, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
FAMILIES = ["llama", "qwen2", "gemma3"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")}


def tiny(family):
    return str(WORK / f"{family}.gguf")


def hasten(*args, stdin=b"", rc=0):
    r = subprocess.run([HASTEN, *map(str, args)], input=stdin, capture_output=True, env=ENVIRONMENT, timeout=100)
    if r.returncode != rc:
        raise AssertionError(f"{args}: exit status {r.returncode}, expected {rc}: {r.stderr.decode()}")
    if rc == 0 and r.stderr:
        raise AssertionError(f"{args}: stderr not empty: {r.stderr.decode()}")
    return r.stdout


def run(family, *args, prompt="the water is"):
    return json.loads(hasten("run", tiny(family), "-p", prompt, "--json", *args))


class Run(unittest.TestCase):
    def test_fields(self):
        for family in FAMILIES:
            r = run(family, "-n", 7, "--ignore-eos")
            self.assertEqual(set(r), {"text", "tokens", "finish_reason", "seed", "timings", "methods"})
            self.assertEqual(set(r["timings"]), {"prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "cached_n", "passes",
                                               "drafted_n", "accepted_n", "injected_n"})
            self.assertEqual((len(r["tokens"]), r["finish_reason"], r["methods"]), (7, "length", []))
            self.assertEqual((r["timings"]["predicted_n"], r["timings"]["cached_n"]), (7, 0))

    def test_text_is_the_tokens(self):
        for family in FAMILIES:
            r = run(family, "--raw", "-n", 20, "-s", 3, "--ignore-eos")
            text = hasten("detokenize", tiny(family), stdin=json.dumps(r["tokens"]).encode())
            self.assertEqual(text.decode(errors="replace").strip(), r["text"].strip())

    def test_zero_tokens(self):
        r = run("llama", "-n", 0)
        self.assertEqual((r["text"], r["tokens"], r["finish_reason"]), ("", [], "length"))

    def test_seed(self):
        a = run("llama", "-n", 30, "--ignore-eos", "--temp", 1.5)
        b = run("llama", "-n", 30, "--ignore-eos", "--temp", 1.5, "-s", a["seed"])
        c = run("llama", "-n", 30, "--ignore-eos", "--temp", 1.5)
        self.assertEqual(a["tokens"], b["tokens"])
        self.assertNotEqual(a["tokens"], c["tokens"])
        self.assertNotEqual(a["seed"], c["seed"])

    def test_threads_and_batches_do_not_show(self):
        for family in FAMILIES:
            want = run(family, "-n", 25, "-s", 1, "--ignore-eos", "-t", 1)["tokens"]
            for args in (["-t", 2], ["-t", 3], ["-b", 1], ["-b", 7], ["-t", 3, "-b", 5]):
                self.assertEqual(run(family, "-n", 25, "-s", 1, "--ignore-eos", *args)["tokens"], want, (family, args))

    def test_end_of_turn(self):
        """<|im_end|> is id 2 of the tiny llama: made certain, it ends the answer; forbidden, nothing does."""
        r = run("llama", "-n", 9, "--logit-bias", "2=1000")
        self.assertEqual((r["text"], r["tokens"], r["finish_reason"]), ("", [], "stop"))
        r = run("llama", "-n", 9, "--logit-bias", "2=1000", "--ignore-eos")
        self.assertEqual((len(r["tokens"]), r["finish_reason"]), (9, "length"))

    def test_logit_bias(self):
        r = run("qwen2", "-n", 5, "--temp", 0, "--logit-bias", "100=1000", "--logit-bias", "101=500")
        self.assertEqual(r["tokens"], [100] * 5)
        r = run("qwen2", "-n", 5, "--temp", 0, "--logit-bias", "100=1000", "--logit-bias", "101=500", "--logit-bias", "100=-inf")
        self.assertEqual(r["tokens"], [101] * 5)

    def test_stop_strings(self):
        full = run("gemma3", "-n", 40, "-s", 2, "--temp", 2, "--ignore-eos")["text"]
        tested = 0
        for at in range(1, len(full) - 4, 3):
            stop = full[at:at + 4]
            if "\ufffd" in stop:
                continue
            r = run("gemma3", "-n", 40, "-s", 2, "--temp", 2, "--ignore-eos", "--stop", stop)
            self.assertEqual((r["text"], r["finish_reason"]), (full[:full.index(stop)], "stop"), stop)
            tested += 1
            if tested == 12:
                break  # `stop` was tested
        self.assertGreater(tested, 5)
        r = run("gemma3", "-n", 40, "-s", 2, "--temp", 2, "--ignore-eos", "--stop", "never said", "--stop", stop)
        self.assertEqual(r["text"], full[:full.index(stop)])

    def test_logprobs(self):
        for family in FAMILIES:
            r = run(family, "-n", 6, "--temp", 0, "--logprobs", 5, "--ignore-eos")
            self.assertEqual([x["id"] for x in r["logprobs"]], r["tokens"])
            for x in r["logprobs"]:
                values = [t["logprob"] for t in x["top"]]
                self.assertEqual(len(values), 5)
                self.assertEqual(values, sorted(values, reverse=True))
                self.assertLess(sum(map(math.exp, values)), 1 + 1e-5)
                for t in x["top"]:
                    if t["id"] == x["id"]:
                        self.assertEqual(t, {k: x[k] for k in t})
        self.assertEqual(len(run("llama", "-n", 2, "--logprobs", 0)["logprobs"][0]["top"]), 0)

    def test_file_sampling_is_default(self):
        """Tiny files carry no general.sampling: the default is not greedy, --temp 0 is."""
        answers = {tuple(run("llama", "-n", 12, "--temp", 0, "--ignore-eos", "-s", s)["tokens"]) for s in range(3)}
        self.assertEqual(len(answers), 1)
        answers = {tuple(run("llama", "-n", 12, "--ignore-eos", "-s", s)["tokens"]) for s in range(3)}
        self.assertEqual(len(answers), 3)

    def test_invalid_utf8_becomes_replacement(self):
        raw = hasten("run", tiny("llama"), "-p", "x", "-n", 40, "-s", 1, "--temp", 3, "--top-k", 0, "--min-p", 0, "--ignore-eos")
        text = run("llama", "-n", 40, "-s", 1, "--temp", 3, "--top-k", 0, "--min-p", 0, "--ignore-eos", prompt="x")["text"]
        self.assertRaises(UnicodeDecodeError, raw.decode)
        self.assertIn("\ufffd", text)
        self.assertEqual([c for c in text if c != "\ufffd"],
                         [c for c in raw.decode(errors="replace") if c != "\ufffd"])


class Turns(unittest.TestCase):
    def turns(self, family, messages, *args):
        path = WORK / "turns.json"
        path.write_text(json.dumps(messages))
        lines = hasten("run", tiny(family), "--turns", path, *args).decode().splitlines()
        return [json.loads(line) for line in lines]

    def test_only_new_tokens_are_prefilled(self):
        for family in FAMILIES:
            answers = self.turns(family, ["one", "two and", "three <|im_end|>", "four"], "-n", 6, "-s", 1, "--ignore-eos")
            self.assertEqual(len(answers), 4)
            held = prompt = 0
            for a in answers:
                t = a["timings"]
                if family == "gemma3":  # its template trims the answer, which is then read again
                    self.assertGreaterEqual(t["cached_n"], prompt)
                else:
                    self.assertEqual(t["cached_n"], held, family)
                self.assertGreater(t["prompt_n"], 0)
                if held:  # the last answered token, the end of the turn, the new message: not the conversation
                    self.assertLess(t["prompt_n"], 60)
                prompt = t["cached_n"] + t["prompt_n"]
                held = t["cached_n"] + t["prompt_n"] + t["predicted_n"] - 1  # the last token was never read

    def test_a_turn_equals_a_fresh_run(self):
        """The second turn's log-probabilities do not depend on what the cache kept: -b 3 cuts prefill differently,
        and a stop string (which rebuilds the prompt from text) gives the same as no stop string."""
        a = self.turns("llama", ["one", "two"], "-n", 6, "-s", 1, "--ignore-eos", "--logprobs", 3)
        b = self.turns("llama", ["one", "two"], "-n", 6, "-s", 1, "--ignore-eos", "--logprobs", 3, "-b", 3, "-t", 1)
        self.assertEqual([x["logprobs"] for x in a], [x["logprobs"] for x in b])

    def test_full_context_drops_the_oldest_turns(self):
        answers = self.turns("llama", [f"message {i}" for i in range(12)], "-n", 8, "-c", 160, "-s", 1, "--ignore-eos")
        self.assertEqual(len(answers), 12)
        sizes = [a["timings"]["cached_n"] + a["timings"]["prompt_n"] for a in answers]
        self.assertLessEqual(max(sizes) + 8, 160)
        self.assertTrue(any(b < a for a, b in zip(sizes, sizes[1:])), sizes)

    def test_raw_transcript(self):
        answers = self.turns("llama", ["one", "two"], "-n", 4, "-s", 1, "--raw", "--ignore-eos")
        self.assertEqual(answers[1]["timings"]["cached_n"], answers[0]["timings"]["prompt_n"] + 3)


class Eval(unittest.TestCase):
    TEXT = ("the water is cold and the people of the first house are not here; they will come. " * 9).encode()

    def evaluate(self, family, *args):
        text, out = WORK / "text", WORK / "logits"
        text.write_bytes(self.TEXT)
        r = json.loads(hasten("eval", tiny(family), "--ppl", text, "--logits", out, "--json", *args))
        ids = json.loads(hasten("tokenize", tiny(family), stdin=self.TEXT))
        return r, ids, np.fromfile(out, dtype=np.float32)

    def expected(self, ids, context, stride):
        """Targets in order, by the words of the convention."""
        targets, done = [], 1
        for begin in range(0, len(ids) - 1, stride):
            end = min(begin + context, len(ids))
            targets += range(max(begin + 1, done), end)
            done = max(done, end)
        return targets

    def test_numbers(self):
        for family in FAMILIES:
            for context, stride in ((512, 512), (32, 32), (32, 20), (50, 1)):
                r, ids, flat = self.evaluate(family, "-c", context, "--stride", stride)
                targets = self.expected(ids, context, stride)
                self.assertEqual((r["n_tokens"], r["n_scored"]), (len(ids), len(targets)))
                self.assertEqual((r["convention"]["context"], r["convention"]["stride"]), (context, stride))
                rows = flat.reshape(len(targets), -1).astype(np.float64)
                top = rows.max(axis=1, keepdims=True)
                nll = np.log(np.exp(rows - top).sum(axis=1)) + top[:, 0] - rows[np.arange(len(targets)), [ids[t] for t in targets]]
                self.assertAlmostEqual(r["nll"], nll.mean(), places=6)
                self.assertAlmostEqual(r["ppl"], math.exp(nll.mean()), delta=1e-4 * r["ppl"])

    def test_window_rows_equal_whatever_the_stride(self):
        """Rows of the first window do not depend on the stride, bit for bit."""
        _, _, a = self.evaluate("qwen2", "-c", 40, "--stride", 40)
        _, _, b = self.evaluate("qwen2", "-c", 40, "--stride", 10, "-b", 3, "-t", 1)
        n_vocab = json.loads(hasten("info", tiny("qwen2"), "--json"))["n_vocab"]
        self.assertTrue(np.array_equal(a[:39 * n_vocab].view(np.uint32), b[:39 * n_vocab].view(np.uint32)))

    def test_ids_and_limit(self):
        r, ids, _ = self.evaluate("llama", "-c", 64)
        path = WORK / "ids"
        path.write_text(json.dumps(ids))
        self.assertEqual(json.loads(hasten("eval", tiny("llama"), "--ids", path, "-c", 64, "--json"))["nll"], r["nll"])
        limited = json.loads(hasten("eval", tiny("llama"), "--ids", path, "-c", 64, "--limit-tokens", 65, "--json"))
        self.assertEqual((limited["n_tokens"], limited["n_scored"]), (65, 63))  # a last window of one token: nothing

    def test_reference_is_near(self):
        for family in FAMILIES:
            a, _, _ = self.evaluate(family, "-c", 64)
            b, _, _ = self.evaluate(family, "-c", 64, "--reference")
            self.assertEqual(b["kernels"], "reference")
            self.assertLess(abs(a["nll"] - b["nll"]), 0.05)
            self.assertNotEqual(a["nll"], b["nll"])  # it did take the other path


class Others(unittest.TestCase):
    def test_info(self):
        r = json.loads(hasten("info", tiny("gemma3"), "--json", "--tensors", "-c", 1000))
        self.assertEqual((r["architecture"], r["chat_template"]), ("gemma3", True))
        self.assertEqual(len(r["tensors"]), r["n_tensors"])
        self.assertEqual(r["n_params"], sum(math.prod(t["shape"]) for t in r["tensors"]))
        self.assertEqual(sum(t["bytes"] for t in r["types"].values()), sum(t["bytes"] for t in r["tensors"]))
        m = r["memory"]
        self.assertEqual(m["context"], 1000)
        self.assertEqual(m["total_bytes"], sum(m[k] for k in ("file_bytes", "kv_bytes", "compute_bytes", "base_bytes")))
        self.assertEqual(m["file_bytes"], r["file_bytes"])
        self.assertIsNone(json.loads(hasten("info", tiny("vocab"), "--json"))["memory"])

    def test_info_keys(self):
        """Values keep their kind, and equal those that the gguf package reads."""
        for family in FAMILIES:
            keys = json.loads(hasten("info", tiny(family), "--json"))["keys"]
            reader = GGUFReader(tiny(family))
            self.assertEqual(set(keys), {k for k in reader.fields if not k.startswith("GGUF.")})
            for name, value in keys.items():
                want = reader.fields[name].contents()
                if isinstance(want, list):
                    self.assertEqual((value["n"], len(value["first"])), (len(want), min(8, len(want))), name)
                    self.assertIn(value["type"], ("string", "i32", "f32", "u32"))
                    got, want = value["first"], want[:8]
                else:
                    got, want = [value], [want]
                self.assertEqual([type(x) for x in got], [type(x) for x in want], name)
                for x, y in zip(got, want):
                    self.assertTrue(math.isclose(x, y, rel_tol=1e-7) if isinstance(x, float) else x == y, (name, x, y))
            kinds = {type(v) for v in keys.values()}
            self.assertTrue({int, float, str, bool, dict} <= kinds | {bool}, kinds)

    def test_doctor(self):
        r = json.loads(hasten("doctor", "--json"))
        self.assertGreater(r["read_gbs"], 0)
        self.assertGreater(r["int8_gops"], 0)
        self.assertEqual([m["name"] for m in r["models"]], ["smollm2", "gemma3-270m", "qwen-0.5b", "qwen-1.5b", "minilm"])
        self.assertGreaterEqual(r["threads"], 1)
        self.assertLessEqual(r["threads"], len(os.sched_getaffinity(0)))

    def test_doctor_obeys_affinity_and_mask(self):
        one = sorted(os.sched_getaffinity(0))[0]
        r = subprocess.run([HASTEN, "doctor", "--json"], capture_output=True, env=dict(ENVIRONMENT, HASTEN_CPU="plain"),
                           preexec_fn=lambda: os.sched_setaffinity(0, {one}), check=True)
        r = json.loads(r.stdout)
        self.assertEqual((r["threads"], r["affinity_cpus"], r["kernels"]), (1, 1, "plain"))

    def test_threads_are_clamped_to_the_cpus(self):
        """Beyond the CPUs allowed threads only slow each other down: JSON and the note give the number that runs."""
        allowed = sorted(os.sched_getaffinity(0))
        for cpus in ({allowed[0]}, set(allowed)):
            for asked in (1, 500):
                r = subprocess.run([HASTEN, "bench", tiny("llama"), "-p", "8", "-n", "2", "-r", "1", "-t", str(asked), "-v",
                                    "--no-limits", "--json"], capture_output=True, env=ENVIRONMENT, check=True,
                                   preexec_fn=lambda: os.sched_setaffinity(0, cpus))
                runs = json.loads(r.stdout)["threads"]
                self.assertLessEqual(runs, min(asked, len(cpus)))  # less under a CPU quota
                self.assertGreaterEqual(runs, 1)
                self.assertEqual(f"-t {asked}: {runs} run" in r.stderr.decode(), runs < asked)

    def test_bench(self):
        r = json.loads(hasten("bench", tiny("llama"), "-p", 40, "-n", 5, "-d", 70, "-r", 3, "--json"))
        self.assertEqual((r["depth"], r["repeat"]), (70, 3))
        for part, n in (("prefill", 40), ("decode", 5)):
            self.assertEqual(r[part]["n"], n)
            self.assertGreater(r[part]["tps"], 0)
            self.assertGreaterEqual(r[part]["sd"], 0)
        self.assertAlmostEqual(r["ttft_ms"], 1e3 * 40 / r["prefill"]["tps"], delta=0.01 * r["ttft_ms"])


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for seed, name in enumerate(FAMILIES, 1):
        subprocess.run([MAKE_TINY, name, str(seed), tiny(name)], check=True)
    subprocess.run([MAKE_TINY, "llama", "1", tiny("vocab"), "vocab_only=1"], check=True)
    unittest.main(argv=sys.argv[:1])
