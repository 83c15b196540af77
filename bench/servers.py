"""How each server is started for bench/serve.py: Hasten's, llama-server and that of ik_llama.cpp. A class per engine: its
program, the settings that are tried, how it is told of a model, slots and a context. Nothing here measures."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from engines import Failed, Hasten, IkLlama, LlamaCpp, find_peers

READY_S = 300


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Running:
    """A server process, ready: .url. Ends with the `with`."""

    def __init__(self, command, port):
        self.url, self.command = f"http://127.0.0.1:{port}", command
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True)
        began = time.monotonic()
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() - began > READY_S:
                said = self.said()
                self.end()
                raise Failed(f"{os.path.basename(command[0])} does not serve: {said}")
            time.sleep(0.05)
        self.start_s = time.monotonic() - began

    def answers(self):
        with contextlib.suppress(OSError, urllib.error.URLError):
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return answer.status == 200
        return False

    def said(self):
        self.log.seek(0)
        return " ".join(self.log.read().decode(errors="replace").split())[-300:] or "it said nothing"

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.end()


class HastenServer:
    name = "hasten"
    settings = {"plain": [], "itl-target 150": ["--itl-target", "150"], "itl-target 60": ["--itl-target", "60"]}

    def __init__(self, program):
        self.program = program

    def version(self):
        return Hasten(self.program).version()

    def start(self, model, threads, setting, streams, context):
        """context: tokens of one answer with its prompt. Room for all streams at once, as the peers reserve it."""
        port = free_port()
        return Running([self.program, "serve", model, "--port", str(port), "-t", str(threads), "-c", str(context), "--slots",
                        str(streams), "--kv-size", str(context * streams), "-q", *self.settings[setting]], port)


class LlamaServer:
    """What llama-server and its fork's share. A context there is that of all slots together."""

    def __init__(self, peer):
        self.peer, self.program = peer, os.path.join(peer.folder, "llama-server")

    @property
    def name(self):
        return self.peer.name

    def version(self):
        r = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        found = [line.split("version: ")[1] for line in (r.stdout + r.stderr).splitlines() if line.startswith("version: ")]
        self.peer.commit = found[0] if found else "unknown"
        return self.peer.version()

    def start(self, model, threads, setting, streams, context):
        port = free_port()
        return Running([self.program, "-m", model, "--host", "127.0.0.1", "--port", str(port), "-t", str(threads), "-c",
                        str(context * streams), "-np", str(streams), *self.common, *self.settings[setting]], port)


class LlamaCppServer(LlamaServer):
    common = []
    settings = {"fa on": ["-fa", "on"], "fa off": ["-fa", "off"], "fa on, ub 128": ["-fa", "on", "-ub", "128"],
                "fa on, one KV for all": ["-fa", "on", "-kvu"]}


class IkServer(LlamaServer):
    common = []
    settings = {"fa, rtr": ["-fa", "on", "-rtr"], "fa": ["-fa", "on"], "fa, rtr, ub 128": ["-fa", "on", "-rtr", "-ub", "128"]}


def find_servers(hasten):
    """Ours, the peers whose llama-server is there, and sentences about those that are missing."""
    peers, missing = find_peers()
    servers = [HastenServer(hasten)]
    for peer in peers:
        kind = {LlamaCpp: LlamaCppServer, IkLlama: IkServer}[type(peer)](peer)
        if os.access(kind.program, os.X_OK):
            servers.append(kind)
        else:
            missing.append(f"{peer.name} is not measured: no llama-server in {peer.folder} (bench/peers/build.py {peer.name})")
    return servers, missing
