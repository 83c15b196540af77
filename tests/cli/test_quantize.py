#!/usr/bin/env python3
"""Quantised files read by another implementation: the gguf package finds the same keys and the same floats; its own
quantisers, which round plainly, do worse. Imports of importance matrices in llama.cpp's layout.

    test_quantize.py HASTEN MAKE_TINY"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

HASTEN, MAKE_TINY = sys.argv[1], sys.argv[2]
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_0", "Q5_1", "Q5_K_S", "Q5_K_M", "Q4_0", "Q4_1", "Q4_K_S", "Q4_K_M",
         "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q2_K"]
READ_ONLY = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0",
             "MXFP4", "NVFP4"]
CHANGED = {"general.file_type", "general.quantization_version"}


def quantize(*args):
    r = subprocess.run([HASTEN, "quantize", *args, "--json"], capture_output=True, stdin=subprocess.DEVNULL, timeout=110)
    if r.returncode:
        raise AssertionError(r.stderr.decode())
    return json.loads(r.stdout)


def floats(tensor):
    """As [rows, columns]."""
    t = tensor.tensor_type
    if t == Type.F32:
        data = np.asarray(tensor.data, np.float32)
    else:
        data = gguf.dequantize(np.asarray(tensor.data), t).astype(np.float32)
    return data.reshape(-1, int(tensor.shape[0]))


def tensors(path):
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


class Quantize(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = lambda name: os.path.join(self.folder.name, name)
        self.model = self.path("model.gguf")
        subprocess.run([MAKE_TINY, "gemma3", "5", self.model, "wide=1", "n_layer=3", "type=F32"], check=True)

    def tearDown(self):
        self.folder.cleanup()

    def test_same_floats_and_keys(self):
        """What the package decodes is what our own decoder gives when the file is written as F32."""
        seen = set()
        before = gguf.GGUFReader(self.model)
        for kind in TYPES:
            quantize(self.model, self.path("q"), kind)
            quantize(self.path("q"), self.path("back"), "F32")
            theirs, ours = tensors(self.path("q")), tensors(self.path("back"))
            self.assertEqual(list(theirs), list(ours))
            for name, t in theirs.items():
                seen.add(t.tensor_type.name)
                self.assertTrue(np.array_equal(floats(t), floats(ours[name])), f"{kind}: {name}")
            after = gguf.GGUFReader(self.path("q"))
            keys = {k: v for k, v in after.fields.items() if k not in CHANGED and not k.startswith("GGUF.")}
            want = {k: v for k, v in before.fields.items() if k not in CHANGED and not k.startswith("GGUF.")}
            self.assertEqual(list(keys), list(want))
            for k, field in keys.items():
                self.assertEqual(field.contents(), want[k].contents(), k)
            self.assertEqual(after.fields["general.quantization_version"].contents(), 2)
            self.assertEqual(after.fields["general.file_type"].contents(), self.file_type(kind))
        self.assertEqual(seen, {"F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_0", "Q5_1", "Q4_K", "Q4_0", "Q4_1",
                                "Q3_K", "Q2_K"})

    def test_read_only_types(self):
        """What is not written is read: as the source, by info, and as weights, with the bits of the plain kernels."""
        text = self.path("text")
        with open(text, "w", encoding="utf-8") as f:
            f.write("the cat sat on the mat and looked at the dog")
        for kind in READ_ONLY:
            model, back = self.path(kind), self.path("back")
            subprocess.run([MAKE_TINY, "gemma3", "5", model, "wide=1", "n_layer=2", f"type={kind}"], check=True)
            quantize(model, back, "F32")
            theirs, ours = tensors(model), tensors(back)
            self.assertIn(kind, {t.tensor_type.name for t in theirs.values()})
            for name, t in theirs.items():
                self.assertTrue(np.array_equal(floats(t), floats(ours[name])), f"{kind}: {name}")
            listed = subprocess.run([HASTEN, "info", model, "--tensors"], capture_output=True, check=True)
            self.assertIn(f" {kind} ".encode(), listed.stdout)
            rows = []
            for cpu in ({}, {"HASTEN_CPU": "plain"}):
                logits = self.path("logits")
                r = subprocess.run([HASTEN, "eval", model, "--ppl", text, "--logits", logits], capture_output=True,
                                   env=dict(os.environ, **cpu))
                self.assertEqual(r.returncode, 0, r.stderr)
                with open(logits, "rb") as f:
                    rows.append(f.read())
            self.assertTrue(len(rows[0]) > 1000 and rows[0] == rows[1], f"{kind}: not the bits of the plain kernels")
            asked = subprocess.run([HASTEN, "quantize", self.model, self.path("no"), kind], capture_output=True)
            self.assertEqual(asked.returncode, 2, kind)

    @staticmethod
    def file_type(kind):
        """The package's own numbers."""
        return int(gguf.LlamaFileType["ALL_F32" if kind == "F32" else f"MOSTLY_{kind}"])

    def test_better_than_plain_rounding(self):
        source = {n: floats(t) for n, t in tensors(self.model).items() if t.name.endswith("ffn_up.weight")}
        for kind, share in (("Q8_0", 1.0), ("Q5_0", 0.95), ("Q5_1", 0.95), ("Q4_0", 0.95), ("Q4_1", 0.95)):
            quantize(self.model, self.path("q"), kind)
            found = tensors(self.path("q"))
            ours = theirs = 0.0
            for name, x in source.items():
                ours += float(((floats(found[name]) - x) ** 2).sum())
                plain = gguf.dequantize(gguf.quantize(x, Type[kind]), Type[kind])
                theirs += float(((plain - x) ** 2).sum())
            self.assertLess(ours, share * theirs, kind)

    def importance(self, name, h, count=8.0, said=None):
        """A file in the layout of llama.cpp, written by the package."""
        w = gguf.GGUFWriter(self.path("imatrix"), arch="", use_temp_file=False)
        w.kv_data[0].clear()
        w.add_string("general.type", "imatrix")
        w.add_array("imatrix.datasets", ["by hand"])
        w.add_uint32("imatrix.chunk_count", 3)
        w.add_uint32("imatrix.chunk_size", 512)
        w.add_tensor(name + ".in_sum2", (h * count).astype(np.float32).reshape(1, -1))
        w.add_tensor(name + ".counts", np.array([[count if said is None else said]], np.float32))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        return self.path("imatrix")

    def test_importance_of_another_program(self):
        name = "blk.1.ffn_up.weight"
        x = floats(tensors(self.model)[name])
        h = np.exp(np.random.default_rng(1).normal(0, 1.5, x.shape[1]))
        for kind in ("Q2_K", "Q3_K_S", "Q4_K_S", "Q4_0", "Q4_1", "Q5_0"):
            quantize(self.model, self.path("plain"), kind)
            report = quantize(self.model, self.path("weighted"), kind, "--imatrix", self.importance(name, h))
            self.assertEqual(report["imatrix"]["entries"], 1)
            self.assertEqual(report["imatrix"]["weighted"], 1)
            self.assertGreater(report["imatrix"]["unweighted"], 5)
            plain, weighted = tensors(self.path("plain")), tensors(self.path("weighted"))
            errors = [float((h * (floats(t[name]) - x) ** 2).sum()) for t in (plain, weighted)]
            self.assertLess(errors[1], 0.9 * errors[0], kind)
            for other in plain:
                if other != name:
                    self.assertTrue(np.array_equal(plain[other].data, weighted[other].data), other)

    def test_sums_are_those_of_the_inputs(self):
        """The first layer's input can be computed from the file: rms-normed embeddings of the tokens, BOS included."""
        subprocess.run([MAKE_TINY, "llama", "3", self.model, "type=F32"], check=True)
        text = self.path("text")
        with open(text, "w") as f:
            f.write("The sums of squares of what each column is multiplied by. " * 9)
        ids = json.loads(subprocess.run([HASTEN, "tokenize", self.model, "-f", text], capture_output=True, check=True).stdout)
        subprocess.run([HASTEN, "imatrix", self.model, "-f", text, "-o", self.path("m"), "-c", "512", "-b", "50"], check=True)
        model, found = tensors(self.model), tensors(self.path("m"))
        eps = gguf.GGUFReader(self.model).fields["llama.attention.layer_norm_rms_epsilon"].contents()
        x = floats(model["token_embd.weight"])[ids].astype(np.float64)
        x *= floats(model["blk.0.attn_norm.weight"])[0] / np.sqrt((x ** 2).mean(axis=1, keepdims=True) + eps)
        for name in ("q", "k", "v"):
            sums = floats(found[f"blk.0.attn_{name}.weight.in_sum2"])[0]
            np.testing.assert_allclose(sums, (x ** 2).sum(axis=0), rtol=1e-5)
            self.assertEqual(floats(found[f"blk.0.attn_{name}.weight.counts"])[0, 0], len(ids))
        self.assertNotIn("token_embd.weight.in_sum2", found)

    def test_sums_of_experts_are_their_own(self):
        """Gate and up of the experts read what the router reads: the sums over the experts are those of the router, once
        for each expert that a row goes through. Each layer's rows are all counted, for gate, up and down alike."""
        for family, options, used in (("qwen3moe", [], 3), ("llama", ["n_expert=4", "n_used=2"], 2)):
            subprocess.run([MAKE_TINY, family, "3", self.model, *options, "type=F32", "expert_type=F32", "wide=1",
                            "n_layer=2"], check=True)
            text = self.path("text")
            with open(text, "w") as f:
                f.write("Each expert sees the rows that have chosen it, and no others. " * 9)
            written = []
            for extra in (["-b", "64", "-t", "2"], ["-b", "9", "-t", "1"]):
                subprocess.run([HASTEN, "imatrix", self.model, "-f", text, "-o", self.path("m"), *extra], check=True)
                with open(self.path("m"), "rb") as f:
                    written.append(f.read())
            self.assertEqual(written[0], written[1])
            found, model = tensors(self.path("m")), tensors(self.model)
            for layer in ("blk.0", "blk.1"):
                of_router = floats(found[f"{layer}.ffn_gate_inp.weight.in_sum2"])[0]
                n_rows = floats(found[f"{layer}.ffn_gate_inp.weight.counts"])[0, 0]
                n_expert = int(model[f"{layer}.ffn_gate_inp.weight"].shape[1])
                counts = floats(found[f"{layer}.ffn_down_exps.weight.counts"])
                self.assertEqual(counts.shape, (n_expert, 1))
                self.assertEqual(counts.sum(), used * n_rows)
                for part in ("gate", "up"):
                    sums = floats(found[f"{layer}.ffn_{part}_exps.weight.in_sum2"])
                    self.assertEqual(sums.shape[0], n_expert)
                    np.testing.assert_allclose(sums.sum(axis=0), used * of_router, rtol=1e-5)
                    np.testing.assert_array_equal(floats(found[f"{layer}.ffn_{part}_exps.weight.counts"]), counts)
                down = floats(found[f"{layer}.ffn_down_exps.weight.in_sum2"])
                np.testing.assert_array_equal(down.sum(axis=1) > 0, counts[:, 0] > 0)
            report = quantize(self.model, self.path("q"), "Q4_K_M", "--imatrix", self.path("m"))
            self.assertEqual(report["imatrix"]["unused"], 0)
            self.assertLessEqual(report["imatrix"]["unweighted"], 2)  # embedding and head
            plain = quantize(self.model, self.path("p"), "Q4_K_M")
            name = "blk.1.ffn_up_exps.weight"
            a, b = tensors(self.path("q"))[name], tensors(self.path("p"))[name]
            h = floats(found[f"{name}.in_sum2"]) / np.maximum(floats(found[f"{name}.counts"]), 1)
            error = [(h[:, None] * (floats(t).reshape(n_expert, -1, h.shape[1]) -
                                    floats(model[name]).reshape(n_expert, -1, h.shape[1])) ** 2).sum() for t in (a, b)]
            self.assertLess(error[0], error[1])
            self.assertEqual(plain["tensors"], report["tensors"])

    def test_split_model(self):
        """The first shard is the whole model."""
        keys, all_tensors = gguf.GGUFReader(self.model).fields, list(gguf.GGUFReader(self.model).tensors)
        shards = [self.path(f"parts-{i + 1:05d}-of-00002.gguf") for i in range(2)]
        for i, path in enumerate(shards):
            w = gguf.GGUFWriter(path, arch="gemma3", use_temp_file=False)
            for key, field in keys.items():
                if i == 0 and not key.startswith("GGUF.") and key != "general.architecture":
                    element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                    w.add_key_value(key, field.contents(), field.types[0], sub_type=element)
            w.add_uint16("split.no", i)
            w.add_uint16("split.count", 2)
            w.add_int32("split.tensors.count", len(all_tensors))
            for t in all_tensors[i::2]:
                w.add_tensor(t.name, np.asarray(t.data))
            w.write_header_to_file()
            w.write_kv_data_to_file()
            w.write_tensors_to_file()
            w.close()
        quantize(shards[0], self.path("joined"), "Q4_K_M")
        quantize(self.model, self.path("whole"), "Q4_K_M")
        a, b = tensors(self.path("joined")), tensors(self.path("whole"))
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.assertEqual(a[name].tensor_type, b[name].tensor_type)
            self.assertTrue(np.array_equal(a[name].data, b[name].data), name)
        self.assertFalse([k for k in gguf.GGUFReader(self.path("joined")).fields if k.startswith("split.")])
        for i, code in ((0, 2), (1, 2)):  # no part of the input is the output
            r = subprocess.run([HASTEN, "quantize", shards[0], shards[i], "Q4_0"], capture_output=True)
            self.assertEqual(r.returncode, code)
            self.assertIn(b"expected another file", r.stderr)
        r = subprocess.run([HASTEN, "quantize", shards[1], self.path("q"), "Q4_0"], capture_output=True)
        self.assertIn(b"expected the first shard", r.stderr)

    def test_hostile_importance(self):
        name = "blk.0.ffn_up.weight"
        k = floats(tensors(self.model)[name]).shape[1]
        strange = np.resize(np.array([0, 1e-45, 3e38, 1e-30, 1], np.float32), k)
        for kind in ("Q2_K", "Q4_K_S", "Q8_0", "Q4_1"):
            for count in (1.0, 0.0, 1e-45, 0.5, 3e38):
                file = self.importance(name, strange, 1.0, count)
                report = quantize(self.model, self.path("q"), kind, "--imatrix", file)
                self.assertLess(report["relative_error"], 0.5, kind)
                for t in tensors(self.path("q")).values():
                    self.assertTrue(np.isfinite(floats(t)).all(), t.name)

    def test_damaged_importance(self):
        """A sum or a count that nothing can have measured: the entry and the index are named, the old file stays."""
        name = "blk.0.ffn_up.weight"
        good = np.ones(floats(tensors(self.model)[name]).shape[1], np.float32)
        with open(self.path("q"), "w") as f:
            f.write("old")
        for value in (np.nan, np.inf, -np.inf, -1, -1e-45):
            bad = good.copy()
            bad[37] = value
            for sums, count, where in ((bad, 1.0, f"'{name}.in_sum2': value 37 is "),
                                       (good, value, f"'{name}.counts': value 0 is ")):
                file = self.importance(name, sums, 1.0, count)
                r = subprocess.run([HASTEN, "quantize", self.model, self.path("q"), "Q4_0", "--imatrix", file],
                                   capture_output=True, text=True)
                self.assertEqual(r.returncode, 3, r.stderr)
                self.assertIn(where, r.stderr)
                self.assertEqual(r.stderr.count("\n"), 1)
        with open(self.path("q")) as f:
            self.assertEqual(f.read(), "old")

    def wait_for_part(self, p):
        until = time.monotonic() + 60
        while not any(n.endswith(".part") for n in os.listdir(self.folder.name)):
            self.assertIsNone(p.poll(), "it ended before it began to write")
            self.assertLess(time.monotonic(), until)
            time.sleep(0.002)

    def test_ended_half_way(self):
        """-v into a pipe that is full holds it up after the first tensor. However it is ended then, the old file stays
        and nothing beside it; a signal that was ignored (nohup) stays so."""
        out = self.path("out.gguf")
        for sig, status in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP),
                            (signal.SIGPIPE, -signal.SIGPIPE), (None, 0)):
            with open(out, "w") as f:
                f.write("old")
            before = sorted(os.listdir(self.folder.name))
            read, write = os.pipe()
            os.set_blocking(write, False)
            filled = 0
            try:
                while True:
                    filled += os.write(write, b"x" * 512)
            except BlockingIOError:
                os.set_blocking(write, True)
            p = subprocess.Popen([HASTEN, "quantize", self.model, out, "Q8_0", "-v", "-t", "1"], stderr=write,
                                 preexec_fn=None if sig else lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
            os.close(write)
            self.wait_for_part(p)
            if sig == signal.SIGPIPE:
                os.close(read)
            else:
                p.send_signal(sig or signal.SIGHUP)
                time.sleep(0.05)
                while os.read(read, 1 << 16):
                    pass
                os.close(read)
            self.assertEqual(p.wait(60), status, sig)
            self.assertEqual(sorted(os.listdir(self.folder.name)), before)
            if sig:
                with open(out) as f:
                    self.assertEqual(f.read(), "old")
        self.assertEqual(gguf.GGUFReader(out).fields["general.file_type"].contents(), 7)

    def test_logits_ended_half_way(self):
        with open(self.path("text"), "w") as f:
            f.write("The sums of squares of what each column is multiplied by. " * 20000)
        before = sorted(os.listdir(self.folder.name))
        for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            p = subprocess.Popen([HASTEN, "eval", self.model, "--ppl", self.path("text"), "-c", "64", "-t", "1", "-q",
                                  "--logits", self.path("rows")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait_for_part(p)
            p.send_signal(sig)
            self.assertEqual(p.wait(60), -sig)
            self.assertEqual(sorted(os.listdir(self.folder.name)), before)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
