"""Stands in for `hasten serve` and llama-server in the test of bench/serve.py: chat completions at a pace that its
options choose, no model. Writes its command line to FAKE_LOG.

    fake_server.py NAME ... --port N ..."""

import json
import os
import sys
from http.server import ThreadingHTTPServer

import load_server

PACE = {"hasten": 0.001, "llama.cpp": 0.02, "ik_llama.cpp": 0.016}


class Handler(load_server.Handler):
    def do_GET(self):
        if self.path == "/health":
            self.send_json({"status": "ok"})
        else:
            self.send_json({"data": [{"id": "m", "owned_by": self.server.name}]})

    def do_POST(self):
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.send_json({"tokens": list(range(len(self.body["content"]) // 4))})
            return
        self.begin()
        self.tokens(self.body["max_tokens"])
        seen = len(self.body["messages"]) // 2
        self.end(self.usage(self.body["max_tokens"], 100 * seen if self.server.name == "hasten" else 0))


def main():
    name, args = sys.argv[1], sys.argv[2:]
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(json.dumps([name, args]) + "\n")
    if "-rtr" in args and "-ub" in args:
        sys.exit("cannot do that")
    load_server.TOKEN_S = PACE[name] / (2 if {"off", "--itl-target"} & set(args) else 1)
    server = ThreadingHTTPServer(("127.0.0.1", int(args[args.index("--port") + 1])), Handler)
    server.daemon_threads, server.name = True, name
    server.serve_forever()


main()
