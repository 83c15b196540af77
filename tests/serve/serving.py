"""A running `hasten serve` and clients for it, for the tests of this folder.

Owns: starting and stopping a server, requests over sockets of our own (so that a test can stop in the middle of one),
server-sent events. The models are scripted or tiny: no test here measures a model.
"""
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_") and k != "NOTIFY_SOCKET"}
SANITIZED = bool(os.environ.get("HASTEN_TEST_SANITIZED"))


class Server:
    """`hasten serve MODEL OPTIONS`, on a port of its own."""

    def __init__(self, hasten, model, *options, environment=None, wait=True):
        self.folder = tempfile.TemporaryDirectory()
        port_file = Path(self.folder.name) / "port"
        self.log = open(Path(self.folder.name) / "log", "w+b")
        self.process = subprocess.Popen(
            [hasten, "serve", str(model), "--port", "0", "--port-file", str(port_file), "-t", "2", *map(str, options)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=ENVIRONMENT | (environment or {}))
        until = time.monotonic() + 60
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the server did not begin: {self.errors()}")
            time.sleep(0.005)
        self.port = int(port_file.read_text())
        while wait and self.request("GET", "/health").status != 200:
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the server was never ready: {self.errors()}")
            time.sleep(0.005)

    def errors(self):
        self.log.flush()
        return Path(self.log.name).read_text(errors="replace")

    def connect(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """One request on a connection of its own: an answer with .status, .body (bytes), .headers, .json()."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
            c.request(method, path, data, {"Content-Type": "application/json"} | (headers or {}))
            return Answer(c.getresponse())
        finally:
            c.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body, **kw):
        return self.request("POST", path, body, **kw)

    def chat(self, text="hello", **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]} | fields)

    def complete(self, prompt="hello", **fields):
        return self.post("/v1/completions", {"prompt": prompt} | fields)

    def metrics(self):
        """{name{labels}: value} of /metrics."""
        lines = self.get("/metrics").body.decode().splitlines()
        return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if x and x[0] != "#")}

    def metric(self, name):
        return next(v for k, v in self.metrics().items() if k.split("{")[0] == name)

    def busy(self):
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")

    def wait_idle(self, seconds=5.0):
        until = time.monotonic() + seconds
        while self.busy():
            if time.monotonic() > until:
                raise AssertionError("answers still run")
            time.sleep(0.005)

    def memory(self):
        """Anonymous memory in bytes, swap included."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return sum(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(("RssAnon", "VmSwap")))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self):
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, sig=signal.SIGTERM, timeout=30):
        """Ends it; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end: {self.errors()}") from None
        finally:
            self.process.stdout.close()
            self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with contextlib.suppress(AssertionError, ValueError):
            self.stop()
        self.folder.cleanup()


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.json()["error"]

    def text(self):
        c = self.json()["choices"][0]
        return c["message"]["content"] if "message" in c else c["text"]

    def events(self):
        """The data of server-sent events, parsed but for [DONE]; comments are left out."""
        return events_of(self.body)


def events_of(body):
    out = []
    for block in body.decode().split("\n\n"):
        for line in block.split("\n"):
            if line.startswith("data: "):
                out.append(line[6:] if line[6:] == "[DONE]" else json.loads(line[6:]))
    return out


def request_bytes(path, body, method="POST", extra=""):
    data = json.dumps(body).encode() if not isinstance(body, bytes) else body
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {len(data)}\r\n\r\n".encode() + data


def read_until(s, mark, limit=1 << 20):
    data = b""
    while mark not in data:
        more = s.recv(65536)
        if not more or len(data) > limit:
            raise AssertionError(f"ended without {mark!r}: {data[-400:]!r}")
        data += more
    return data
