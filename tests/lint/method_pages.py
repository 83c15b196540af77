"""Shows that the check of docs/methods/, the schema and the receipts can fail: method_pages.py HASTEN WORK."""

import contextlib
import io
import json
import shutil
import sys
import unittest
from pathlib import Path

HASTEN, WORK = sys.argv[1], Path(sys.argv[2])
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import make_method_pages  # noqa: E402

MADE = make_method_pages.pages(HASTEN)


class Check(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)
        shutil.copytree(ROOT / "docs/receipts", WORK / "receipts")
        make_method_pages.write(WORK, MADE)

    def check(self, *words):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(make_method_pages.check(WORK, MADE), bool(words))
        for word in words:
            self.assertIn(word, out.getvalue())

    def test_what_was_written_passes(self):
        self.check()

    def test_pages(self):
        (WORK / "methods/quest.md").write_text("# quest\n")
        (WORK / "methods/lookup.md").unlink()
        (WORK / "methods/none.md").write_text("# none\n")
        self.check("docs/methods/quest.md is not", "docs/methods/lookup.md is not", "docs/methods/none.md is of no method")

    def test_schema_is_written(self):
        (WORK / "receipt.schema.json").write_text("{}")
        self.check("docs/receipt.schema.json is not")

    def test_receipts(self):
        path = next((WORK / "receipts").glob("*/*.json"))
        good = json.loads(path.read_text())
        for change, word in (({"schema": 2}, "receipt.schema is 2"), ({"knobs": ["attend nothing:x=1"]}, "receipt.knobs[0]"),
                             ({"model_sha256": "abc"}, "receipt.model_sha256"), ({"date": 5}, "receipt.date is 5"),
                             ({"machine": {"cpu": "x", "threads": 0, "kernels": "plain"}}, "receipt.machine.threads is 0"),
                             ({"damage": {}}, "receipt.damage has no 'kl'"), ({"gain": {"decode": {}}}, "has no 'ratio'")):
            path.write_text(json.dumps(good | change))
            self.check(word)
        del good["commands"]
        path.write_text(json.dumps(good))
        self.check("receipt has no 'commands'")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
