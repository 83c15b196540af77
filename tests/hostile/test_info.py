#!/usr/bin/env python3
"""`hasten info` and `hasten check` on twelve generated files of different families and forms: what info says equals
what the gguf package reads from the same file, in JSON and as a table; check finds nothing wrong, and where one scale
of a matrix is overwritten it names that tensor, row and block.

    test_info.py HASTEN MAKE_TINY WORK"""

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from gguf import GGUFReader

FILES = {  # name: make_tiny's arguments
    "llama": ["llama", "1"],
    "llama-3": ["llama", "2", "rope=llama3"],
    "llama-yarn": ["llama", "3", "rope=yarn", "wide=1"],
    "mistral": ["llama", "4", "window=70", "tied=0"],
    "mixtral": ["llama", "5", "n_expert=6"],
    "qwen2": ["qwen2", "6"],
    "qwen3": ["qwen3", "7"],
    "qwen3moe": ["qwen3moe", "8"],
    "gemma2": ["gemma2", "9"],
    "gemma3": ["gemma3", "10"],
    "phi3": ["phi3", "11"],
    "gpt-oss": ["gpt-oss", "12"],
}
SCALE_AT = {"Q4_0": 0, "Q8_0": 0, "Q5_0": 0, "Q4_1": 0, "Q5_1": 0, "Q4_K": 0, "Q6_K": 208, "MXFP4": None}


def run(*args, status=0):
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=100)
    assert r.returncode == status, f"{args}: exit status {r.returncode}: {r.stderr}"
    return r


def check_info(hasten, path, architecture):
    info = json.loads(run(hasten, "info", "--json", "--tensors", path).stdout)
    reader = GGUFReader(path)
    tensors = {t.name: t for t in reader.tensors}
    assert info["architecture"] == architecture, info["architecture"]
    assert info["gguf_version"] == 3 and info["file_bytes"] == path.stat().st_size
    assert info["n_tensors"] == len(tensors) == len(info["tensors"])
    assert info["n_params"] == sum(int(t.n_elements) for t in reader.tensors)
    for t in info["tensors"]:
        other = tensors[t["name"]]
        assert t["type"] == other.tensor_type.name, t
        assert t["shape"] == [int(n) for n in other.shape], (t, other.shape)
        assert t["bytes"] == int(other.n_bytes), t
    assert set(info["keys"]) == {k for k in reader.fields if not k.startswith("GGUF.")}
    assert info["memory"], "no plan: the model cannot be run"
    assert (info["experts"] is not None) == any("_exps" in name for name in tensors)
    table = run(hasten, "info", path).stdout
    for word in ["architecture " + architecture, "memory ", f"tensors      {len(tensors)},"]:
        assert word in table.replace("architecture  ", "architecture "), (word, table)
    return reader


def check_check(hasten, path, reader):
    v = json.loads(run(hasten, "check", "--json", path).stdout)
    assert v["non_finite"] == [] and v["bytes_searched"] == sum(int(t.n_bytes) for t in reader.tensors), v
    matrix = next(t for t in reader.tensors if SCALE_AT.get(t.tensor_type.name) is not None and int(t.shape[1]) > 4)
    type_name = matrix.tensor_type.name
    row_bytes = int(matrix.n_bytes) * int(matrix.shape[0]) // int(matrix.n_elements)
    bad = path.with_suffix(".bad.gguf")
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, int(matrix.data_offset) + 3 * row_bytes + SCALE_AT[type_name], 0x7E00)
    bad.write_bytes(data)
    r = run(hasten, "check", "--json", bad, status=1)
    assert json.loads(r.stdout)["non_finite"] == [{"tensor": matrix.name, "type": type_name, "row": 3, "block": 0,
                                                   "column": 0, "value": "NaN", "blocks": 1}], r.stdout
    assert f"tensor '{matrix.name}', row 3, block 0: found NaN" in r.stderr, r.stderr


def main():
    hasten, make_tiny, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name, args in FILES.items():
        path = work / f"{name}.gguf"
        run(make_tiny, args[0], args[1], path, *args[2:])
        check_check(hasten, path, check_info(hasten, path, args[0]))
    shutil.rmtree(work)
    print(f"{len(FILES)} files")


main()
