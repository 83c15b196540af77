"""Which methods a change touches (chosen.py), with a git that says what a test wants."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import chosen  # noqa: E402

NAMES = ["quest", "h2o", "lookup", "budget", "drop", "window"]


class Chosen(unittest.TestCase):
    def test_touched(self):
        files = {"src/attend/quest.c": {"quest"}, "src/draft/lookup.c": {"lookup", "other"}, "src/attend/paged.c": set()}

        def touched(*paths):
            return chosen.touched(paths, NAMES, lambda path: files.get(path, set()))
        self.assertEqual(touched("src/attend/quest.c", "docs/x.md"), {"quest"})
        self.assertEqual(touched("src/draft/lookup.c", "src/attend/paged.c"), {"lookup"})
        self.assertEqual(touched("docs/x.md", "src/cli/main.c"), set())
        for path in ("src/engine/step.c", "src/run/run.c", "src/kernels/x86/a.c", "include/hasten/hasten.h", "tests/contract/contract.c"):
            self.assertEqual(touched(path), set(NAMES), path)
        self.assertEqual(chosen.touched(None, NAMES), set(NAMES))

    def test_names_are_found_in_the_tree(self):
        for path, name in (("src/attend/quest.c", "quest"), ("src/cache/stream.c", "stream"), ("src/stop/same.c", "same")):
            self.assertIn(name, chosen.touched([path], [name, "x"]))

    def test_samples_cover_all_in_turn(self):
        self.assertEqual(set().union(*(chosen.sample(NAMES, turn) for turn in range(5, 8))), set(NAMES))
        self.assertLess(len(chosen.sample(NAMES, 1)), len(NAMES))

    def test_changed(self):
        def git(**answers):
            return lambda *args: answers.get(args[0].replace("-", "_") + ("_before" if args[-1] == "HEAD~1" else ""))
        self.assertIsNone(chosen.changed(git()))
        self.assertIsNone(chosen.changed(git(rev_parse="a")))
        self.assertEqual(chosen.changed(git(rev_parse="a", merge_base="b", diff="x.c\ny.c")), ["x.c", "y.c"])
        self.assertEqual(chosen.changed(git(rev_parse="a", merge_base="a", rev_parse_before="c", diff="x.c")), ["x.c"])
        self.assertIsNone(chosen.changed(git(rev_parse="a", merge_base="a")))


if __name__ == "__main__":
    unittest.main()
