"""scripts/deps and scripts/deep where they must fail, and how: sentence and exit status. No network.
(scripts/models is `hasten pull`: tests/cli/test_pull.py.)"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


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
            self.assertIn("libjansson-dev", run.stderr)

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

    def test_counts_come_from_the_logs(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            (tree / "scripts").mkdir()
            for name in ("deep", "lib.sh"):
                (tree / "scripts" / name).write_bytes((SCRIPTS / name).read_bytes())
            counts = ["sh", str(tree / "scripts" / "deep"), "--counts"]
            run = subprocess.run(counts, capture_output=True, text=True)
            self.assertEqual(run.returncode, 1)
            self.assertIn("no logs", run.stderr)
            (tree / "build/deep/found").mkdir(parents=True)
            (tree / "build/deep/found/gguf-crash-1").touch()
            (tree / "build/deep/fuzz-gguf.log").write_text(
                "Done\nstat::number_of_executed_units: 1000000\nstat::average_exec_per_sec:     4321\n"
                "stat::new_units_added:          17\n")
            run = subprocess.run(counts, capture_output=True, text=True, check=True)
            self.assertEqual(run.stdout.splitlines()[2], "| gguf | 1000000 | 4321 | 17 | 1 |")


if __name__ == "__main__":
    unittest.main()
