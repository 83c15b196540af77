#!/usr/bin/env python3
"""Many clients at once, and bad ones: the same bits in any company, clients that leave, that are slow, that send rubbish;
nothing is lost on the way.

    test_load.py HASTEN MAKE_TINY WORK [deep]"""

import json
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from serving import SANITIZED, Server, read_until, request_bytes

HASTEN, MAKE_TINY, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
DEEP = "deep" in sys.argv[4:]


def setUpModule():
    global server, tiny
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    subprocess.run([MAKE_TINY, "llama", "1", str(WORK / "llama.gguf")], check=True, stdout=subprocess.DEVNULL)
    server = Server(HASTEN, "script:hash=7,length=40,ctx=8192", "-c", 8192, "--header-timeout", "300ms", "--idle-timeout",
                    "1s", "--slots", 8)
    tiny = Server(HASTEN, WORK / "llama.gguf", "-c", 256, "--slots", 16)


def tearDownModule():
    status = server.stop(), tiny.stop()
    if status != (0, 0):
        raise AssertionError(f"exit statuses {status}")


def together(calls):
    """The results of functions that run at once."""
    results = [None] * len(calls)

    def run(i):
        try:
            results[i] = calls[i]()
        except Exception as error:  # the caller compares
            results[i] = error
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


class Company(unittest.TestCase):
    def test_the_same_bits_alone_and_together(self):
        """Mixed requests, all at once, answer what each answers alone."""
        r = random.Random(1)
        words = "the water is cold and clear so we went down to the river with a boat".split()
        requests = []
        for i in range(16):
            f = {"max_tokens": r.randrange(4, 24), "seed": i, "temperature": r.choice([0, 0.8, 1.3]), "ignore_eos": True}
            if i % 4 == 1:
                f |= {"n": 2}
            if i % 4 == 2:
                f |= {"logprobs": 3}
            if i % 4 == 3:
                f |= {"repeat_penalty": 1.2, "top_k": 5}
            requests.append({"prompt": " ".join(r.choices(words, k=r.randrange(1, 30)))} | f)

        def ask(q):
            return json.dumps(tiny.post("/v1/completions", q).json()["choices"])
        alone = [ask(q | {"cache_prompt": False}) for q in requests]
        for _ in range(4 if DEEP else 1):
            self.assertEqual(together([lambda q=q: ask(q) for q in requests]), alone)

    def test_one_error_touches_nobody(self):
        good = {"prompt": "the water is", "max_tokens": 16, "seed": 4, "ignore_eos": True}
        alone = tiny.post("/v1/completions", good).json()["choices"]
        bad = [lambda: tiny.post("/v1/completions", {"prompt": "x" * 5000}).status,
               lambda: tiny.post("/v1/completions", {"prompt": "x", "grammar": "root ::= ("}).status]
        results = together([lambda: tiny.post("/v1/completions", good).json()["choices"], *bad] * 4)
        self.assertEqual(results, [alone, 400, 400] * 4)


class Leaving(unittest.TestCase):
    def test_clients_that_leave_free_their_places(self):
        for stream in (True, False):
            held = [server.connect() for _ in range(12)]
            for c in held:
                c.sendall(request_bytes("/v1/completions", {"prompt": "x", "stream": stream, "ignore_eos": True}))
            if stream:
                for c in held[:8]:
                    read_until(c, b"data: ")
            else:
                until = time.monotonic() + 5
                while server.metric("vllm:num_requests_running") < 8 and time.monotonic() < until:
                    time.sleep(0.002)
            for c in held:
                c.close()
            server.wait_idle(2)
        self.assertGreater(server.metrics()['vllm:request_success_total{model_name="script:hash=7,length=40,ctx=8192",'
                                            'engine="0",finished_reason="abort"}'], 0)

    def test_a_neighbour_does_not_notice(self):
        alone = server.complete("y", seed=2, max_tokens=300, ignore_eos=True).text()
        left = []

        def leave():
            c = server.connect()
            c.sendall(request_bytes("/v1/completions", {"prompt": "z", "stream": True, "ignore_eos": True}))
            read_until(c, b"data: ")
            c.close()
        results = together([lambda: server.complete("y", seed=2, max_tokens=300, ignore_eos=True).text(), leave, leave])
        self.assertEqual(results[0], alone)
        self.assertEqual(left, [])
        server.wait_idle()


class Slow(unittest.TestCase):
    def test_half_headers_end(self):
        held = [server.connect() for _ in range(50)]
        for c in held:
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
        self.assertEqual(server.get("/health").status, 200)
        t0 = time.monotonic()
        for c in held:
            c.settimeout(5)
            while c.recv(4096):
                pass
            c.close()
        self.assertLess(time.monotonic() - t0, 3)

    def test_a_body_that_drips_ends(self):
        with server.connect() as c:
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
            t0 = time.monotonic()
            try:
                while time.monotonic() - t0 < 5:
                    c.sendall(b"x")
                    time.sleep(0.02)
            except OSError:
                pass
            self.assertLess(time.monotonic() - t0, 4)

    def test_a_reader_that_stops_holds_nobody_up(self):
        with socket.socket() as c:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.connect(("127.0.0.1", server.port))
            c.sendall(request_bytes("/v1/completions", {"prompt": "x", "stream": True, "ignore_eos": True, "max_tokens": 8000,
                                                        "logprobs": 20}))
            read_until(c, b"data: ")
            self.assertEqual(server.complete("x", max_tokens=5, ignore_eos=True).status, 200)
            server.wait_idle(20)

    def test_health_while_much_is_read(self):
        """Probes are answered while prompts are tokenised and read."""
        with Server(HASTEN, WORK / "llama.gguf", "-c", 4096, "--slots", 4) as s:
            stop = threading.Event()

            def load():
                while not stop.is_set():
                    s.complete("the water is cold " * 180, max_tokens=2, cache_prompt=False)
            threads = [threading.Thread(target=load) for _ in range(4)]
            for t in threads:
                t.start()
            times = []
            for path in ("/health", "/metrics") * (100 if DEEP else 25):
                t0 = time.monotonic()
                self.assertEqual(s.get(path).status, 200)
                times.append(time.monotonic() - t0)
                time.sleep(0.005)
            stop.set()
            for t in threads:
                t.join()
        times.sort()
        self.assertLess(times[len(times) * 95 // 100], 0.5 if SANITIZED else 0.05)

    def test_idle_connections(self):
        """Hundreds that say nothing cost little, and nothing of the others."""
        with Server(HASTEN, "script:hash=1") as s:
            s.complete("x", max_tokens=1)
            before = s.memory()
            held = []
            for _ in range(500):
                c = s.connect()
                c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                held.append(c)
            for c in held:
                read_until(c, b"ok")
            each = (s.memory() - before) / len(held)
            self.assertEqual(s.complete("x", max_tokens=1).status, 200)
            used = s.cpu_seconds()
            time.sleep(0.3)
            self.assertLess(s.cpu_seconds() - used, 0.05)
            for c in held:
                c.close()
        if not SANITIZED:
            self.assertLess(each, 64 << 10)

    def test_too_many_connections(self):
        with Server(HASTEN, "script:hash=1", "--max-connections", 5) as s:
            held = [s.connect() for _ in range(8)]
            for c in held:
                c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            answers = [read_until(c, b"\r\n\r\n").split(b"\r\n\r\n")[0] for c in held]
            self.assertTrue(any(b" 503 " in a and b"Retry-After: 1" in a for a in answers), answers)
            for c in held:
                c.close()
            time.sleep(0.1)
            self.assertEqual(s.get("/health").status, 200)


class Rubbish(unittest.TestCase):
    def mutate(self, r, data):
        data = bytearray(data)
        for _ in range(r.randrange(1, 6)):
            at = r.randrange(len(data))
            how = r.randrange(4)
            if how == 0:
                data[at] = r.randrange(256)
            elif how == 1:
                del data[at:at + r.randrange(1, 20)]
            elif how == 2:
                data[at:at] = bytes(r.randrange(256) for _ in range(r.randrange(1, 20)))
            else:
                data[at:at] = data[at:at + r.randrange(1, 40)]
            if not data:
                return b"x"
        return bytes(data)

    def test_mutated_requests(self):
        """Requests with bytes changed end in an answer or a closed connection; the server goes on as before."""
        r = random.Random(5)
        seeds = [request_bytes("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4,
                                                        "stop": ["a"], "temperature": 0.5, "stream": True}),
                 request_bytes("/v1/completions", {"prompt": [1, 2, 3], "n": 2, "logprobs": 2, "max_tokens": 3}),
                 request_bytes("/tokenize", {"content": "h\u00e9llo"}), request_bytes("/slots", b"", "GET"),
                 request_bytes("/v1/completions", {"prompt": "x", "grammar": 'root ::= [a-z]+', "max_tokens": 3})]
        alone = server.complete("hello", seed=1, max_tokens=30).text()
        for i in range(5000 if DEEP else 150):
            with server.connect(timeout=10) as c:
                try:
                    c.sendall(self.mutate(r, r.choice(seeds)))
                    c.shutdown(socket.SHUT_WR)
                    while c.recv(65536):
                        pass
                except OSError:
                    pass
        self.assertEqual(server.complete("hello", seed=1, max_tokens=30).text(), alone)
        server.wait_idle()


class Flat(unittest.TestCase):
    def test_memory_and_descriptors(self):
        def round_of(n):
            import http.client
            c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            for i in range(n):
                body = {"prompt": f"request {i % 50}", "max_tokens": 3, "stream": i % 2 == 0, "seed": i}
                if i % 7 == 0:
                    body |= {"grammar": 'root ::= "a" | "b"'}
                if i % 11 == 0:
                    body = {"messages": 5}
                c.request("POST", "/v1/completions", json.dumps(body))
                c.getresponse().read()
            c.close()
        n = 20000 if DEEP else 400
        round_of(max(n // 4, 200))
        server.wait_idle()
        time.sleep(1.5)  # what the tests before left is closed by its idle time
        memory, descriptors = server.memory(), server.descriptors()
        round_of(n)
        server.wait_idle()
        time.sleep(0.1)
        self.assertLessEqual(server.descriptors(), descriptors)
        if not SANITIZED:
            self.assertLess(server.memory() - memory, 1 << 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
