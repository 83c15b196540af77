#!/usr/bin/env python3
"""hasten pull of URLs and hf: names against a server on this machine that stalls, cuts, lies and redirects
(pull_server.py): what is fetched, what is kept, what is refused, to whom the token goes. Then list, rm, MODEL.

    test_pull_url.py HASTEN MAKE_TINY"""

import json
import os
import pty
import re
import select
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import side_by_side  # noqa: E402
from pull_server import CONTENT, GIT_SHA1, HALF, OTHER, SHA256, Server  # noqa: E402

HASTEN, MAKE_TINY = sys.argv[1], sys.argv[2]


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        self.cache = self.folder / "cache"
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and not k.startswith("HF_")}
        self.environment.update(HASTEN_CACHE=str(self.cache), HF_ENDPOINT=self.server.url)

    def hasten(self, *args, **env):
        return subprocess.run([HASTEN, *args], capture_output=True, text=True, timeout=60,
                              env=dict(self.environment, **env))

    def pull(self, what, *args, **env):
        """what: a path on the server, or a name."""
        url = self.server.url + what if what.startswith("/") else what
        return self.hasten("pull", url, *args, **env)

    def place(self, kind, name="model.gguf"):
        return self.cache / "models/url" / f"127.0.0.1:{self.server.port}" / "x" / kind / name

    def files(self):
        return sorted(str(p.relative_to(self.cache)) for p in self.cache.rglob("*") if not p.is_dir())

    def assert_pulled(self, run, path, content=CONTENT):
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, f"{path}\n", ""))
        self.assertTrue(path.read_bytes() == content)
        self.assertEqual(sorted(p.name for p in path.parent.iterdir()), [path.name, path.name + ".pull.json"])

    def assert_refused(self, run, status, sentence):
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (status, "", 1), run.stderr)
        self.assertRegex(run.stderr, sentence)

    def refused_clean(self, what, status, sentence, *args, **env):
        self.assert_refused(self.pull(what, *args, **env), status, sentence)
        self.assertEqual(self.files(), [])


class Good(Case):
    def test_original_name_and_record(self):
        run = self.pull("/x/good/model.gguf")
        self.assert_pulled(run, self.place("good"))
        record = json.loads(self.place("good", "model.gguf.pull.json").read_text())
        self.assertEqual((record["sha256"], record["url"]), (SHA256, self.server.url + "/x/good/model.gguf"))
        self.assertEqual(len(self.server.requests), 1)
        again = self.pull("/x/good/model.gguf", "--json")  # hashed here, not asked for again
        self.assertEqual(json.loads(again.stdout)["sha256"], SHA256)
        self.assertEqual(len(self.server.requests), 1)
        self.assertFalse(list(self.folder.rglob("evil")))  # what Content-Disposition said

    def test_damage_in_the_cache_is_found(self):
        self.pull("/x/good/model.gguf")
        self.place("good").write_bytes(CONTENT[:-1] + b"?")
        self.assert_pulled(self.pull("/x/good/model.gguf"), self.place("good"))
        self.assertEqual(len(self.server.requests), 2)

    def test_expected_hash(self):
        self.assert_pulled(self.pull("/x/good/model.gguf", "--sha256", SHA256.upper()), self.place("good"))
        self.refused_other = self.pull("/x/slow/model.gguf", "--sha256", "0" * 64)
        self.assert_refused(self.refused_other, 3, f"what came has SHA-256 {SHA256} .expected 0000")
        self.assertFalse(self.place("slow").parent.exists())

    def test_no_hash_is_said(self):
        self.assertIn(f"nobody said a hash to compare with (--sha256 does); it is {SHA256}",
                      self.pull("/x/good/model.gguf", "-v").stderr)

    def test_query_belongs_to_the_source(self):
        self.assert_pulled(self.pull("/x/good/model.gguf?id=1"), self.place("good"))
        run = self.pull("/x/good/model.gguf?id=2")
        self.assert_refused(run, 2, "was pulled from another URL .hasten rm removes it")

    def test_percent_in_names(self):
        run = self.pull("/x/good/my%20model%2Dq4.gguf")
        self.assert_pulled(run, self.place("good", "my model-q4.gguf"))

    def test_proxy(self):
        run = self.pull("http://models.example/x/good/model.gguf", http_proxy=self.server.url)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.server.requests[0][0], "http://models.example/x/good/model.gguf")
        self.assert_pulled(self.pull("/x/good/model.gguf", http_proxy="http://127.0.0.1:9/", no_proxy="127.0.0.1"),
                           self.place("good"))


class GoesOn(Case):
    def start(self, kind, *args):
        p = subprocess.Popen([HASTEN, "pull", f"{self.server.url}/x/{kind}/model.gguf", *args], env=self.environment,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stderr.close)
        part, until = self.place(kind, "model.gguf.part"), time.monotonic() + 30
        while not part.exists() or part.stat().st_size < 100_000:
            self.assertIsNone(p.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        return p, part

    def ranges(self):
        return [headers.get("Range") for _, headers in self.server.requests]

    def test_after_a_kill(self):
        p, part = self.start("slow")
        p.kill()
        p.wait()
        have = part.stat().st_size
        self.assertFalse(self.place("slow").exists())
        self.assert_pulled(self.pull("/x/slow/model.gguf"), self.place("slow"))
        self.assertEqual(self.ranges(), [None, f"bytes={have}-"])
        self.assertEqual(self.server.requests[1][1]["If-Range"], '"one"')

    def test_after_a_kill_behind_the_last_byte(self):
        self.pull("/x/always_cut/model.gguf", "--retries", "0")
        part = self.place("always_cut", "model.gguf.part")
        part.write_bytes(CONTENT)
        self.assert_pulled(self.pull("/x/always_cut/model.gguf"), self.place("always_cut"))
        self.assertEqual(len(self.server.requests), 1)

    def test_after_an_interrupt(self):
        p, part = self.start("slow")
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        self.assertEqual((p.returncode, out), (130, ""))
        self.assertRegex(err, r"^hasten: pull .*: interrupted; 0.\d MB are here, pull again to go on\n$")
        self.assertTrue(part.exists())
        self.assert_pulled(self.pull("/x/slow/model.gguf"), self.place("slow"))

    def test_one_at_a_time(self):
        p, part = self.start("slow")
        self.assert_refused(self.pull("/x/slow/model.gguf"), 2, "another process is pulling it")
        self.assertEqual(p.wait(timeout=30), 0)
        self.assertEqual(self.place("slow").read_bytes(), CONTENT)

    def test_cut_connection(self):
        self.assert_pulled(self.pull("/x/cut/model.gguf"), self.place("cut"))
        self.assertEqual(self.ranges(), [None, f"bytes={HALF}-"])

    def test_always_cut(self):
        run = self.pull("/x/always_cut/model.gguf", "--retries", "1")
        self.assert_refused(run, 5, "0.[34] MB are here, pull again to go on")
        self.assertEqual(self.files()[0][-10:], "model.gguf.part"[-10:])
        self.assertEqual(len(self.server.requests), 2)

    def test_nothing_to_tell_that_the_part_fits(self):
        self.assert_pulled(self.pull("/x/no_validator/model.gguf"), self.place("no_validator"))
        again = self.server.requests[1][1]
        self.assertNotIn("If-Range", again)

    def test_a_part_of_something_else_is_not_used(self):
        part = self.place("good", "model.gguf.part")
        part.parent.mkdir(parents=True)
        part.write_bytes(b"of another file")
        self.assert_pulled(self.pull("/x/good/model.gguf"), self.place("good"))
        self.assertEqual(self.ranges(), [None])

    def test_servers_that_do_not_go_on(self):
        for kind in ("ignores_range", "other_total", "416"):
            with self.subTest(kind):
                self.assert_pulled(self.pull(f"/x/{kind}/model.gguf"), self.place(kind))
        self.assert_pulled(self.pull("/x/changes/model.gguf"), self.place("changes"), OTHER)

    def test_wrong_range(self):
        run = self.pull("/x/wrong_range/model.gguf")
        self.assert_refused(run, 5, "sends bytes from 5 on .expected from 350000")

    def test_progress_never_goes_back(self):
        """On a terminal, with a server that begins anew in the middle."""
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.update(self.environment)
            os.execv(HASTEN, [HASTEN, "pull", f"{self.server.url}/x/slow/model.gguf"])
        seen = b""
        while True:
            try:
                data = os.read(fd, 65536) if select.select([fd], [], [], 30)[0] else b""
            except OSError:
                data = b""
            if not data:
                break
            seen += data
        os.close(fd)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        shown = [float(x) for x in re.findall(rb"pull ([\d.]+) MB of 0.7 MB, [\d.]+ MB/s, \d+ s left", seen)]
        self.assertGreater(len(shown), 5, seen)
        self.assertEqual(shown, sorted(shown))


class Faults(Case):
    def test_statuses(self):
        for kind, tries, sentence in ((401, 1, "status 401 .expected access; HF_TOKEN"), (403, 1, "expected access"),
                                      (404, 1, "status 404"), (500, 2, "status 500")):
            before = len(self.server.requests)
            self.refused_clean(f"/x/{kind}/model.gguf", 5, sentence, "--retries", "1")
            self.assertEqual(len(self.server.requests) - before, tries)

    def test_servers_that_are_busy_once(self):
        began = time.monotonic()
        self.assert_pulled(self.pull("/x/busy/model.gguf"), self.place("busy"))
        self.assertGreater(time.monotonic() - began, 1)  # Retry-After
        self.assert_pulled(self.pull("/x/503_once/model.gguf"), self.place("503_once"))

    def test_stalls(self):
        began = time.monotonic()
        for kind in ("stall", "silent", "drip"):
            run = self.pull(f"/x/{kind}/model.gguf", "--retries", "0", "--timeout", "1s")
            self.assert_refused(run, 5, "sends nothing, or less than 64 bytes a second .expected data within 1 s")
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(self.place("stall", "model.gguf.part").stat().st_size, HALF)

    def test_sizes_that_lie(self):
        self.refused_clean("/x/more/model.gguf", 3, "what came has SHA-256", "--sha256", SHA256)
        self.refused_clean("/x/huge/model.gguf", 4, "MB free in .*expected 11529215046[0-9]* MB")
        self.refused_clean("/x/404/model.gguf", 5, "status 404")
        run = self.pull("/x/chunked_cut/model.gguf", "--retries", "0")
        self.assert_refused(run, 5, "0.1 MB are here")

    def test_answers_that_are_none(self):
        for kind in ("garbage", "long_headers"):
            self.refused_clean(f"/x/{kind}/model.gguf", 5, "127.0.0.1:", "--retries", "0")
        self.refused_clean("http://127.0.0.1:9/model.gguf", 5, "127.0.0.1:9: Couldn't connect", "--retries", "0")
        self.refused_clean("http://nowhere.invalid/model.gguf", 5, "nowhere.invalid", "--retries", "0", "--timeout", "1s")

    def test_redirects(self):
        self.assert_pulled(self.pull("/x/relative/model.gguf"), self.place("relative"))
        self.assert_pulled(self.pull("/x/elsewhere/model.gguf"), self.place("elsewhere"))
        for kind, sentence in (("loop", "redirects more than 10 times"), ("nowhere", "redirects to nowhere"),
                               ("to_file", "redirects to 'file:///etc/passwd' .expected a plain http"),
                               ("to_ftp", "redirects to 'ftp://"), ("to_credentials", "redirects to 'http://me")):
            before = len(self.server.requests)
            run = self.pull(f"/x/{kind}/model.gguf")
            self.assert_refused(run, 5, sentence)
            self.assertEqual(len(self.server.requests) - before, 11 if kind == "loop" else 1)
            self.assertFalse(self.place(kind).parent.exists())

    def test_names_are_confined(self):
        host = self.server.url
        for url in ("/x/good/..", "/x/../../y", "/x/good/%2e%2e", "/x/%2e%2e/model.gguf", "/x/good/a%2fb", "/x/good/a%00b",
                    "/x/good/a%5cb", "/x//model.gguf", "/x/good/", "", "/", "/x/good/%0a", "/x/good/%zz", "/x/good/a.part",
                    "/x/good/a.pull.json", "/x/" + "a" * 300, "/a" * 40, "/x/good/a b"):
            self.refused_clean(host + url, 2, "expected")
        for url in ("ftp://host/file", "file:///etc/passwd", "http://me:pw@127.0.0.1/x", "https://", "://x", "hf:", "hf:user",
                    "hf:user/repo", "hf:user/repo/", "hf:user/../file", "hf:../repo/file", "hf:user/repo/../../../file",
                    "hf:user/repo/a\\b", "hf:/etc/passwd", "hf:a/b/\x01", "http://127.0.0.1:1/" + "x" * 5000):
            self.refused_clean(url, 2, "expected")
        self.assertEqual(self.server.requests, [])
        self.refused_clean("/x/good/model.gguf", 2, "expected 64 hex digits", "--sha256", "abc")
        self.assertEqual(self.hasten("pull", "smollm2", "--sha256", SHA256).returncode, 2)
        self.assertEqual(self.hasten("pull", host + "/x/good/model.gguf", "bogus").returncode, 2)
        self.assertEqual(self.server.requests, [])


class Hub(Case):
    def setUp(self):
        super().setUp()
        self.bytes = Server()  # another host, as a browser counts them
        self.addCleanup(self.bytes.stop)
        self.server.http.bytes_at = self.bytes.url

    def model(self, revision=""):
        return self.cache / f"models/hf/some/repo{revision}/model.gguf"

    def test_hash_of_the_hub_and_token_for_it_alone(self):
        run = self.pull("hf:some/repo/model.gguf", HF_TOKEN="hf_secret")
        self.assert_pulled(run, self.model())
        (path, headers), = self.server.requests
        self.assertEqual((path, headers["Authorization"]), ("/some/repo/resolve/main/model.gguf", "Bearer hf_secret"))
        (path, headers), = self.bytes.requests
        self.assertEqual(path, "/x/good/model.gguf")
        self.assertNotIn("Authorization", headers)
        self.assertNotIn("hf_secret", run.stderr + "".join(p.read_text(errors="replace") for p in self.cache.rglob("*.json")))

    def test_no_token_for_urls(self):
        self.pull("/x/good/model.gguf", HF_TOKEN="hf_secret")
        self.assertNotIn("Authorization", self.server.requests[0][1])

    def test_no_token_without_encryption(self):
        """Another machine over http, reached through a proxy: the request comes, the token does not."""
        run = self.pull("hf:some/repo/model.gguf", "-v", HF_TOKEN="hf_secret", HF_ENDPOINT="http://hub.example",
                        http_proxy=self.server.url)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("the token is not sent: the connection is not encrypted", run.stderr)
        path, headers = self.server.requests[0]
        self.assertEqual(path, "http://hub.example/some/repo/resolve/main/model.gguf")
        self.assertNotIn("Authorization", headers)

    def test_bad_token(self):
        self.refused_clean("hf:some/repo/model.gguf", 2, "HF_TOKEN: not a word", HF_TOKEN="a\r\nX-Evil: 1")

    def test_wrong_hashes(self):
        self.refused_clean("hf:some/repo@wrong/model.gguf", 3, f"what came has SHA-256 {SHA256} .expected 000")
        self.refused_clean("hf:some/repo@wrong_git/model.gguf", 3, f"has git's SHA-1 {GIT_SHA1} .expected 000")
        self.refused_clean("hf:some/repo@liar/model.gguf", 3, f"expected {SHA256}")
        self.refused_clean("hf:some/repo@wrong_size/model.gguf", 5, "sends 700001 bytes .expected 5", "--retries", "0")
        self.refused_clean("hf:some/repo@main/model.gguf", 3, "expected 1111", "--sha256", "1" * 64)

    def test_more_than_the_hub_said(self):
        self.assert_refused(self.pull("hf:some/repo@chunked_more/model.gguf"), 3, "sends more than the 350000 bytes")

    def test_small_files_by_git_hash(self):
        self.assert_pulled(self.pull("hf:some/repo@git/model.gguf"), self.model("@git"))

    def test_bad_endpoint(self):
        self.refused_clean("hf:some/repo/model.gguf", 2, "HF_ENDPOINT: 'ftp://x' .expected https", HF_ENDPOINT="ftp://x")


class Encrypted(Case):
    def test_certificates_and_the_way_down(self):
        key, certificate = self.folder / "key.pem", self.folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        tls = Server(context)
        self.addCleanup(tls.stop)
        tls.http.plain = self.server.url
        good, down = tls.url + "/x/good/model.gguf", tls.url + "/x/to_http/model.gguf"
        self.refused_clean(good, 5, "peer certificate|SSL", "--retries", "3")
        known = {"SSL_CERT_FILE": str(certificate)}
        self.refused_clean(down, 5, "redirects from https to http .expected https", **known)
        self.assertEqual(self.server.requests, [])
        self.assertEqual(self.pull(good, **known).returncode, 0)


class Cache(Case):
    def test_list_run_rm(self):
        self.assertEqual(self.hasten("list").stdout, "")
        tiny = self.folder / "tiny.gguf"
        subprocess.run([MAKE_TINY, "llama", "1", tiny], check=True)
        place = self.place("good")
        place.parent.mkdir(parents=True)
        place.write_bytes(tiny.read_bytes())
        url = self.server.url + "/x/good/model.gguf"
        place.with_name("model.gguf.pull.json").write_text(json.dumps({"name": url, "sha256": "0" * 64}))
        self.pull("/x/always_cut/model.gguf", "--retries", "0")
        listed = json.loads(self.hasten("list", "--json").stdout)
        self.assertEqual([(m["name"], m["complete"]) for m in listed],
                         [(self.server.url + "/x/always_cut/model.gguf", False), (url, True)])
        self.assertEqual(self.hasten("list", "--names").stdout, url + "\n")
        self.assertIn("in part", self.hasten("list").stdout)
        run = self.hasten("run", url, "-p", "x", "-n", "2", "--reference", "--json")
        self.assertEqual(json.loads(run.stdout)["finish_reason"], "length", run.stderr)
        missing = self.hasten("run", "hf:some/repo/model.gguf", "-p", "x")
        self.assert_refused(missing, 3, "not in the cache yet .hasten pull hf:some/repo/model.gguf fetches it")
        typo = self.hasten("rm", url, url.replace("good", "god"))
        self.assert_refused(typo, 3, f"is not in the cache .did you mean {re.escape(url)}")
        self.assertTrue(place.exists())
        self.assertEqual(self.hasten("rm", url, listed[0]["name"], "-q").returncode, 0)
        self.assertEqual(self.files(), [])
        self.assertEqual(self.hasten("rm").returncode, 2)
        self.assertEqual(self.hasten("rm", "../../etc/passwd").returncode, 3)

    def test_rm_of_the_table(self):
        place = self.cache / "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        place.parent.mkdir(parents=True)
        place.write_bytes(b"x" * 1000)
        self.assertEqual(self.hasten("list").stdout.split()[0], "smollm2")
        run = self.hasten("rm", "smollm2", "--json")
        self.assertEqual(json.loads(run.stdout), [{"name": "smollm2", "bytes": 1000}])
        self.assertFalse(place.parent.exists())


if __name__ == "__main__":
    side_by_side.main()
