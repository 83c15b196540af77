"""A chat completions server that does what its path says, for test_serve.py: no model, a script per kind. It remembers
every request it got: (kind, body, headers, when)."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN_S = 0.004


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def send_json(self, value, status=200, **headers):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, text in headers.items():
            self.send_header(key.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(data)

    def begin(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, value):
        self.piece(b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n")

    def delta(self, text, **more):
        self.event({"choices": [{"index": 0, "delta": {"content": text, **more}, "finish_reason": None}]})

    def end(self, usage=None, finish="length"):
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if usage:
            self.event({"choices": [], "usage": usage})
        self.event(b"[DONE]")
        self.piece(b"")

    def usage(self, n, cached=0):
        prompt = sum(len(m["content"]) for m in self.body["messages"]) // 4
        return {"prompt_tokens": prompt, "completion_tokens": n, "prompt_tokens_details": {"cached_tokens": cached}}

    def tokens(self, n, per=1):
        for i in range(0, n, per):
            time.sleep(TOKEN_S)
            self.delta(" token" * per)

    # ---- kinds ------------------------------------------------------------------------------------------------

    def serve_good(self, n):
        self.begin()
        self.delta(None, role="assistant")
        self.tokens(n)
        self.end(self.usage(n, 16))

    def serve_silent(self, n):  # no usage
        self.begin()
        self.tokens(n)
        self.end()

    def serve_double(self, n):  # two tokens in each event
        self.begin()
        self.tokens(n, 2)
        self.end(self.usage(n))

    def serve_late(self, n):  # the role at once, the first token after 150 ms, a pause of 100 ms before the last
        self.begin()
        self.delta(None, role="assistant")
        self.delta("")
        time.sleep(0.15)
        self.delta(None, reasoning_content="hm")
        self.tokens(n - 2)
        time.sleep(0.1)
        self.delta("end")
        self.end(self.usage(n))

    def serve_chat(self, n):  # answers with the number of messages, says all but the last 40 bytes are cached
        self.begin()
        self.delta(f"answer to {len(self.body['messages'])}")
        usage = self.usage(1)
        usage["prompt_tokens_details"]["cached_tokens"] = max(0, usage["prompt_tokens"] - 10)
        self.end(usage, "stop")

    def serve_stall(self, n):
        self.begin()
        self.tokens(2)
        self.server.stopping.wait(10)

    def serve_cut(self, n):
        self.begin()
        self.tokens(3)
        self.close_connection = True
        self.connection.close()

    def serve_short(self, n):  # whole as HTTP says, but no finish_reason
        self.begin()
        self.tokens(3)
        self.piece(b"")

    def serve_dropped(self, n):  # nothing at all
        self.close_connection = True
        self.connection.close()

    def serve_busy(self, n):  # the first is refused for a second
        if sum(r["kind"] == "busy" for r in self.server.requests) == 1:
            return self.send_json({"error": {"message": "the queue is full", "code": "queue_full"}}, 429, Retry_After="1")
        return self.serve_good(n)

    def serve_refusing(self, n):
        self.send_json({"error": {"message": "no\u0007 such\nmodel"}}, 404)

    def serve_malformed(self, n):
        self.begin()
        self.tokens(1)
        self.event(b'{"choices": oops')
        self.piece(b"")

    def serve_page(self, n):
        self.send_json(b"<html>hello</html>")

    def serve_failing(self, n):
        self.begin()
        self.tokens(2)
        self.event({"error": {"message": "out of pages", "code": 500}})
        self.piece(b"")

    def serve_pieces(self, n):  # every byte a piece; comments, several data lines, CR LF, other fields
        self.begin()
        text = (": ping\r\n\r\nevent: message\r\nid: 7\r\n" 'data: {"choices":[{"index":0,\r\n'
                'data: "delta":{"content":"Grüße 🦊"},"finish_reason":null}]}\r\n\r\n'
                'data:{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n'
                "data: [DONE]\n\n").encode()
        for i in range(len(text)):
            self.piece(text[i:i + 1])
        self.piece(b"")

    # ---- HTTP -------------------------------------------------------------------------------------------------

    def do_GET(self):
        kind = self.path.split("/")[1]
        if kind == "keyed" and self.headers.get("Authorization") != "Bearer secret":
            self.send_json({"error": {"message": "bad key"}}, 401)
        else:
            self.send_json({"object": "list", "data": [{"id": f"model-{kind}", "owned_by": "test"}]})

    def do_POST(self):
        kind, path = self.path.split("/", 2)[1:]
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path == "tokenize":
            if kind == "silent":
                self.send_json({"error": {"message": "no such path"}}, 404)
            else:
                self.send_json({"tokens": list(range(len(self.body["content"]) // 5))})
            return
        with self.server.lock:
            self.server.requests.append({"kind": kind, "path": path, "body": self.body, "headers": dict(self.headers),
                                         "at": time.monotonic()})
            self.server.running += 1
            self.server.most = max(self.server.most, self.server.running)
        if kind == "keyed":
            kind = "good" if self.headers.get("Authorization") == "Bearer secret" else "refusing"
        try:
            getattr(self, "serve_" + kind)(self.body["max_tokens"])
        except (BrokenPipeError, ConnectionResetError, OSError):
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.running -= 1


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.requests, self.running, self.most = [], 0, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def url(self, kind):
        return f"http://127.0.0.1:{self.server_address[1]}/{kind}"

    def forget(self):
        with self.lock:
            self.requests, self.most = [], 0

    def close(self):
        self.stopping.set()
        self.shutdown()
        self.server_close()
