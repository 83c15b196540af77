#!/usr/bin/env python3
"""/metrics as those read it who choose among servers: Prometheus' own parser (of prometheus_client, which vLLM's
production-stack uses), and the rules of the Gateway API inference extension's end point picker, written here again.

    test_metrics.py HASTEN"""

import re
import sys
import time
import unittest
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).resolve().parent))
from serving import Server  # noqa: E402

HASTEN = sys.argv[1]
MODEL = "script:hash=7,length=40"
NAME = 'a"b\\c\u00e9'
PICKER = {"queue": "vllm:num_requests_waiting", "running": "vllm:num_requests_running", "kv": "vllm:kv_cache_usage_perc",
          "cache": "vllm:cache_config_info"}


def picked(families, name):
    """What the picker takes: the first series of the family; one without a gauge's or counter's type counts 0."""
    for f in families:
        if f.name in (name, name.removesuffix("_total")):
            return f.samples[0].value if f.type in ("gauge", "counter") else 0.0
    return None


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(HASTEN, MODEL, "--alias", NAME, "-c", "512")
        for _ in range(3):
            cls.server.complete("hello there", max_tokens=5, ignore_eos=True)
        cls.server.wait_idle()
        cls.text = cls.server.get("/metrics").body.decode()
        cls.families = list(text_string_to_metric_families(cls.text))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_every_line_is_understood(self):
        samples = [s for f in self.families for s in f.samples]
        lines = [x for x in self.text.splitlines() if not x.startswith("#")]
        self.assertEqual(len(samples), len(lines))
        self.assertTrue(self.text.endswith("\n"))
        self.assertEqual(len({(s.name, tuple(sorted(s.labels.items()))) for s in samples}), len(samples))
        self.assertEqual({f.type for f in self.families}, {"gauge", "counter", "histogram"})
        for s in samples:
            self.assertEqual((s.labels["model_name"], s.labels["engine"]), (NAME, "0"))

    def test_one_series_where_one_is_read(self):
        """The picker takes the first series of a family, production-stack the last."""
        for f in self.families:
            if f.type != "histogram" and f.name != "vllm:request_success":
                self.assertEqual(len(f.samples), 1, f.name)

    def test_histograms_add_up(self):
        for f in self.families:
            if f.type != "histogram":
                continue
            buckets = [(float(s.labels["le"]), s.value) for s in f.samples if s.name.endswith("_bucket")]
            count = next(s.value for s in f.samples if s.name.endswith("_count"))
            total = next(s.value for s in f.samples if s.name.endswith("_sum"))
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual((buckets[-1][0], buckets[-1][1]), (float("inf"), count), f.name)
            self.assertEqual([v for _, v in buckets], sorted(v for _, v in buckets))
            self.assertGreaterEqual(total, 0)
        tokens = next(f for f in self.families if f.name == "vllm:request_generation_tokens")
        self.assertEqual([s.value for s in tokens.samples if s.name.endswith(("_count", "_sum"))], [15, 3])

    def test_what_the_picker_takes(self):
        got = {k: picked(self.families, name) for k, name in PICKER.items()}
        self.assertEqual((got["queue"], got["running"], got["cache"]), (0, 0, 1))
        self.assertTrue(0 <= got["kv"] <= 1)
        config = next(f for f in self.families if f.name == PICKER["cache"]).samples[0].labels
        self.assertTrue(config["block_size"].isdigit() and config["num_gpu_blocks"].isdigit(), config)
        self.assertGreaterEqual(int(config["block_size"]), 64)  # the picker clamps blocks to 64 tokens
        for name in ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:prefix_cache_queries_total"):
            self.assertGreater(picked(self.families, name), 0, name)

    def test_what_it_takes_while_an_answer_runs(self):
        with Server(HASTEN, "script:hash=7,length=0,ctx=1000000", "-c", "1000000", "--slots", "1") as s:
            def wait_for(name):
                until = time.monotonic() + 20
                while not s.metric(name):
                    self.assertLess(time.monotonic(), until, name)
            streams = []
            for _ in range(2):
                c = s.connect()
                body = b'{"prompt":"x","stream":true,"max_tokens":1000000000,"ignore_eos":true}'
                c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                          % (len(body), body))
                streams.append(c)
                if len(streams) == 1:
                    wait_for("vllm:num_requests_running")
            wait_for("vllm:num_requests_waiting")
            families = list(text_string_to_metric_families(s.get("/metrics").body.decode()))
            self.assertEqual((picked(families, PICKER["queue"]), picked(families, PICKER["running"])), (1, 1))
            self.assertGreater(picked(families, PICKER["kv"]), 0)
            for c in streams:
                c.close()

    def test_no_text_of_requests(self):
        self.server.complete("xyzzy-marker", max_tokens=2)
        self.assertNotIn("xyzzy", self.server.get("/metrics").body.decode())

    def test_dashboard(self):
        """Every name that the dashboard and the alerts of packaging/ ask for is one that the server has."""
        have = {s.name for f in self.families for s in f.samples}
        root = Path(__file__).resolve().parents[2] / "packaging"
        asked = set()
        for path in (root / "grafana.json", root / "prometheus" / "alerts.yml"):
            asked |= set(re.findall(r"\b(?:vllm:|hasten_)[a-z0-9_]+", path.read_text()))
        self.assertGreater(len(asked), 15)
        self.assertEqual(asked - have, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
