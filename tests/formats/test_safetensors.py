"""The safetensors reader on every case of st_cases.py, through the dump that reads a file and tells what it found.

    test_safetensors.py ST_DUMP CORPUS
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

from st_cases import BYTES, GOOD, cases, header


def main():
    dump, corpus = sys.argv[1], pathlib.Path(sys.argv[2])
    failed, n_hostile, names = 0, 0, set()

    def check(good, what):
        nonlocal failed
        if not good:
            print("FAILED", what)
            failed += 1

    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "x.safetensors"
        for name, data, says in cases():
            path.write_bytes(data)
            names.add(f"{name}.safetensors")
            r = subprocess.run([dump, str(path)], capture_output=True, text=True, timeout=20)
            err = r.stderr
            if says is None:
                check(r.returncode == 0, f"{name}: exit {r.returncode}: {err}")
            else:
                n_hostile += 1
                check(r.returncode == 3 and says in err and str(path) in err and err.count("\n") == 1 and not r.stdout,
                      f"{name}: exit {r.returncode}: {err!r} (expected exit 3, {says!r})")
            check((corpus / f"{name}.safetensors").read_bytes() == data, f"{name}: the corpus has other bytes")
            if name in ("valid", "valid-other-order"):
                head, _ = header(GOOD)
                start = 8 + struct.unpack("<Q", data[:8])[0]
                expected = []
                for key in GOOD:
                    begin, end = head[key]["data_offsets"]
                    expected.append({"name": key, "dtype": GOOD[key][0], "shape": GOOD[key][1],
                                     "offset": start + begin, "bytes": end - begin,
                                     "sum": sum(data[start + begin:start + end]),
                                     "weight": GOOD[key][0] in ("F32", "F16", "BF16")})
                found = [json.loads(line) for line in r.stdout.splitlines()]
                check(sorted(found, key=lambda t: t["name"]) == expected, f"{name}: found {found}")
        check(names == {p.name for p in corpus.iterdir()}, "the corpus holds other files (make it anew)")
        path.write_bytes(next(iter(cases()))[1])
        r = subprocess.run([dump, "--faults", str(path)], capture_output=True, text=True, timeout=60)
        check(r.returncode == 0, f"failing allocations: exit {r.returncode}: {r.stdout}{r.stderr}")
        print(r.stdout.strip())
    print(f"{n_hostile} hostile files, {len(names) - n_hostile} valid ones, {failed} failures; {len(BYTES)} types")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
