"""A server that misbehaves, for test_pull_url.py: what it does is chosen by the path. It remembers every request."""

import hashlib
import random
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = random.Random(5).randbytes(700_001)
OTHER = random.Random(6).randbytes(700_001)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
GIT_SHA1 = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
HALF = 350_000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def headers_for(self, content, status=200, **headers):
        self.send_response(status)
        given = {"Content-Length": str(len(content)), "ETag": '"one"'}
        given.update({k.replace("_", "-"): str(v) for k, v in headers.items()})
        for key, value in given.items():
            if value != "":
                self.send_header(key, value)
        self.end_headers()

    def wanted_from(self):
        found = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        return int(found[1]) if found else 0

    def send_file(self, content=CONTENT, etag='"one"', upto=None, delay=0, block=65536, **headers):
        """With Range and If-Range as a good server; upto: the connection closes after so many bytes of the file."""
        begin = self.wanted_from()
        if begin and self.headers.get("If-Range") not in (None, etag):
            begin = 0
        if begin >= len(content):
            return self.headers_for(b"", 416, Content_Range=f"bytes */{len(content)}")
        if begin:
            headers["Content_Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        self.headers_for(content[begin:], 206 if begin else 200, ETag=etag, **headers)
        end = len(content) if upto is None else max(upto, begin)
        for at in range(begin, end, block):
            self.wfile.write(content[at:min(at + block, end)])
            time.sleep(delay)
        self.close_connection = end < len(content)
        return None

    def redirect(self, to, status=302, **headers):
        self.headers_for(b"", status, Location=to, ETag="", **headers)

    def do_GET(self):
        with self.server.lock:
            self.server.requests.append((self.path, dict(self.headers)))
            n = sum(path == self.path for path, _ in self.server.requests)
        kind = self.path.split("?")[0].split("/")[-2] if not self.path.startswith("http:") else "proxied"
        try:
            getattr(self, "serve_" + kind.replace("-", "_"), self.serve_404)(n)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def serve_good(self, n):
        self.send_file(Content_Disposition='attachment; filename="../../../evil"')

    serve_proxied = serve_good

    def serve_slow(self, n):
        self.send_file(delay=0.1, block=20_000)

    def serve_cut(self, n):  # at half, the first time
        self.send_file(upto=HALF if n == 1 else None)

    def serve_always_cut(self, n):
        self.send_file(upto=HALF)

    def serve_no_validator(self, n):
        self.send_file(etag="", upto=HALF if n == 1 else None)

    def serve_ignores_range(self, n):
        self.headers_for(CONTENT)
        self.wfile.write(CONTENT[:HALF] if n == 1 else CONTENT)
        self.close_connection = n == 1

    def serve_changes(self, n):
        self.send_file(*((CONTENT, '"one"', HALF) if n == 1 else (OTHER, '"two"')))

    def serve_other_total(self, n):  # a part of a longer file, although If-Range was asked
        if n == 1:
            self.send_file(upto=HALF)
        elif self.wanted_from():
            self.headers_for(b"x" * 10, 206, Content_Range="bytes 350000-350009/350010")
            self.wfile.write(b"x" * 10)
        else:
            self.send_file()

    def serve_wrong_range(self, n):
        if n == 1:
            return self.send_file(upto=HALF)
        self.headers_for(CONTENT[5:], 206, Content_Range=f"bytes 5-700000/{len(CONTENT)}")
        return self.wfile.write(CONTENT[5:])

    def serve_416(self, n):
        if n == 1:
            return self.send_file(upto=HALF)
        return self.headers_for(b"", 416) if self.wanted_from() else self.send_file()

    def serve_more(self, n):  # than it said
        self.headers_for(CONTENT[:HALF])
        self.wfile.write(CONTENT)
        self.close_connection = True

    def serve_chunked_more(self, n):  # than the hub said
        self.headers_for(b"", Content_Length="", Transfer_Encoding="chunked", X_Linked_Size=HALF)
        for at in range(0, len(CONTENT), 100_000):
            piece = CONTENT[at:at + 100_000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def serve_chunked_cut(self, n):
        self.headers_for(b"", Content_Length="", Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n%s\r\n" % (100_000, CONTENT[:100_000]))
        self.close_connection = True

    def serve_huge(self, n):
        self.headers_for(b"", Content_Length=1 << 60)
        self.wfile.write(CONTENT)

    def serve_stall(self, n):
        self.headers_for(CONTENT)
        self.wfile.write(CONTENT[:HALF])
        self.server.stopped.wait(20)

    def serve_silent(self, n):
        self.server.stopped.wait(20)

    def serve_drip(self, n):
        self.headers_for(CONTENT)
        for at in range(200):
            self.wfile.write(CONTENT[at:at + 1])
            if self.server.stopped.wait(0.1):
                break

    def serve_long_headers(self, n):
        self.headers_for(CONTENT, **{f"X_Filler_{i}": "y" * 60_000 for i in range(10)})

    def serve_garbage(self, n):
        self.wfile.write(b"\x00\xff nonsense \r\n\r\n" * 100)
        self.close_connection = True

    def serve_404(self, n):
        self.headers_for(b"", 404)

    def serve_401(self, n):
        self.headers_for(b"", 401)

    def serve_403(self, n):
        self.headers_for(b"", 403)

    def serve_500(self, n):
        self.headers_for(b"", 500)

    def serve_busy(self, n):
        self.headers_for(b"", 429, Retry_After=1) if n == 1 else self.send_file()

    def serve_503_once(self, n):
        self.headers_for(b"", 503) if n == 1 else self.send_file()

    def serve_relative(self, n):
        self.redirect("../good/model.gguf", 301)

    def serve_elsewhere(self, n):
        self.redirect(f"http://localhost:{self.server.server_port}/x/good/model.gguf", 307)

    def serve_loop(self, n):
        self.redirect(self.path)

    def serve_nowhere(self, n):
        self.headers_for(b"", 302)

    def serve_to_file(self, n):
        self.redirect("file:///etc/passwd")

    def serve_to_ftp(self, n):
        self.redirect("ftp://127.0.0.1/x")

    def serve_to_credentials(self, n):
        self.redirect(f"http://me:secret@127.0.0.1:{self.server.server_port}/x/good/model.gguf")

    def serve_to_http(self, n):
        self.redirect(f"{self.server.plain}/x/good/model.gguf")

    # As the hub does: facts about the file at its own place, the bytes on another host. The revision chooses.

    def serve_main(self, n):
        self.redirect(f"{self.server.bytes_at}/x/good/model.gguf", X_Linked_ETag=f'"{SHA256}"', X_Linked_Size=len(CONTENT))

    def serve_wrong(self, n):
        self.redirect("/x/good/model.gguf", X_Linked_ETag='"' + "0" * 64 + '"')

    def serve_wrong_size(self, n):
        self.redirect("/x/good/model.gguf", X_Linked_ETag=f'"{SHA256}"', X_Linked_Size=5)

    def serve_git(self, n):
        self.send_file(etag=f'"{GIT_SHA1}"')

    def serve_wrong_git(self, n):
        self.send_file(etag='"' + "0" * 40 + '"')

    def serve_liar(self, n):  # the bytes' host names a hash of its own: not believed
        self.redirect(f"{self.server.bytes_at}/x/hash-of-mine/model.gguf", X_Linked_ETag=f'"{SHA256}"')

    def serve_hash_of_mine(self, n):
        self.send_file(OTHER, X_Linked_ETag='"' + hashlib.sha256(OTHER).hexdigest() + '"')


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):  # clients that leave are what is tested here
        pass


class Server:
    def __init__(self, tls=None):
        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.http.lock = threading.Lock()
        self.http.requests = []
        self.http.stopped = threading.Event()
        self.port = self.http.server_port
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.http.plain = self.http.bytes_at = self.url
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        threading.Thread(target=self.http.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()

    @property
    def requests(self):
        with self.http.lock:
            return list(self.http.requests)

    def stop(self):
        self.http.stopped.set()
        self.http.shutdown()
        self.http.server_close()
