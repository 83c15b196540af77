"""The page as `hasten serve` gives it: status, type, tag, policy, what a client already has, and without a key.
`test_served.py HASTEN WEB`."""
import http.client
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from serving import Server

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}


class Test:
    def __init__(self, hasten, web):
        self.hasten, self.web, self.failed = hasten, pathlib.Path(web), 0

    def same(self, found, expected, what):
        if found != expected:
            self.failed += 1
            print(f"FAILED {what}: {found!r} (expected {expected!r})")

    def get(self, path, method="GET", **headers):
        self.connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = self.connection.getresponse()
        return answer, answer.read()

    def file(self, path, name):
        expected = (self.web / name).read_bytes()
        answer, body = self.get(path)
        self.same((answer.status, body == expected), (200, True), f"GET {path}")
        self.same(answer.getheader("Content-Type"), TYPES[pathlib.Path(name).suffix], f"type of {path}")
        policy, tag = answer.getheader("Content-Security-Policy") or "", answer.getheader("ETag")
        self.same(("default-src 'self'" in policy, "unsafe" in policy), (True, False), f"policy of {path}")
        self.same((answer.getheader("Cache-Control"), answer.getheader("X-Content-Type-Options")), ("no-cache", "nosniff"), path)
        again, body = self.get(path, If_None_Match=f'"x", {tag}')
        self.same((again.status, body, again.getheader("ETag")), (304, b"", tag), f"{path} once more")
        other, body = self.get(path, If_None_Match='"x"')
        self.same((other.status, body == expected), (200, True), f"{path} with another's tag")
        head, body = self.get(path, "HEAD")
        self.same((head.status, body, head.getheader("Content-Length")), (200, b"", str(len(expected))), f"HEAD {path}")

    def run(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("sesame-1\n")
            keys.flush()
            server = Server(self.hasten, "script:hash=1", "--api-key-file", keys.name)
            self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            try:
                for path in sorted(self.web.iterdir()):
                    self.file("/" if path.name == "index.html" else f"/assets/{path.name}", path.name)
                self.same(self.get("/?x=1")[0].status, 200, "a query")
                for path in ("/assets/none.js", "/assets/", "/assets/../main.js", "/index.html", "/assets/%2e%2e/main.js"):
                    status, body = self.get(path)[0].status, self.get(path)[1]
                    self.same((status in (401, 404), body[:9]), (True, b'{"error":'), path)
                answer, _ = self.get("/assets/none.js", Authorization="Bearer sesame-1")
                self.same(answer.status, 404, "a file that is not there, with a key")
                for method in ("POST", "PUT", "DELETE"):
                    answer, _ = self.get("/", method)
                    self.same((answer.status, answer.getheader("Allow")), (405, "GET, HEAD"), f"{method} /")
                self.same(self.get("/v1/models")[0].status, 401, "what needs a key still does")
            finally:
                self.connection.close()
                self.same(server.stop(), 0, "how the server ended")
        print(f"{self.failed} failures")
        return 1 if self.failed else 0


if __name__ == "__main__":
    sys.exit(Test(*sys.argv[1:3]).run())
