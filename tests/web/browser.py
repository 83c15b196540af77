"""Chromium, driven through its DevTools protocol over two pipes (--remote-debugging-pipe: messages are JSON, each
ended by a NUL), so that no package is needed for it.

Owns: starting and ending the browser, one page, its console's complaints. Does not own: what is tested."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = """--headless --remote-debugging-pipe --no-first-run --no-default-browser-check --disable-gpu --disable-sync
    --disable-extensions --disable-background-networking --disable-component-update --disable-default-apps --mute-audio
    --hide-scrollbars --disable-dev-shm-usage --password-store=basic --force-color-profile=srgb""".split()


def find_browser():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, binary, timeout=30):
        self.profile = tempfile.mkdtemp(prefix="hasten-browser-")
        self.timeout, self.rest, self.next_id, self.session = timeout, b"", 0, None
        self.complaints, self.events = [], []
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()

        def place():  # in the child: the browser reads from 3 and writes to 4
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (to_read, to_write)]
            for fd, number in zip(high, (3, 4)):
                os.dup2(fd, number)
                os.close(fd)

        root = ["--no-sandbox"] if os.getuid() == 0 else []
        self.process = subprocess.Popen([binary, *FLAGS, *root, f"--user-data-dir={self.profile}", "about:blank"],
                                        close_fds=False, preexec_fn=place, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.new_page()

    def new_page(self):
        target = self.send("Target.createTarget", url="about:blank", session=None)["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.send(f"{domain}.enable")

    def close(self):
        try:
            self.send("Browser.close", session=None)
            self.process.wait(timeout=5)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- messages ----

    def send(self, method, session="", **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.timeout
        while True:
            answer = self.receive(until - time.monotonic())
            if answer is None:
                raise RuntimeError(f"the browser did not answer {method}")
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, seconds):
        """The next message, or None; events are noted."""
        until = time.monotonic() + max(0, seconds)
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.into], [], [], max(0, until - time.monotonic()))
            data = os.read(self.into, 1 << 16) if ready else b""
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self.note(message["method"], message["params"])
        return message

    def note(self, method, params):
        self.events.append((method, params))
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str([a.get("value") for a in params["args"]]))

    # ---- the page ----

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.split('#')[0] === {json.dumps(url.split('#')[0])}")

    def run(self, script):
        """The value of an expression; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(f"{script}: {details.get('exception', {}).get('description', details['text'])}")
        return answer["result"].get("value")

    def wait(self, script, seconds=None):
        until = time.monotonic() + (seconds or self.timeout)
        while time.monotonic() < until:
            try:
                value = self.run(script)
            except RuntimeError:
                value = None  # the page is just being left
            if value:
                return value
            time.sleep(0.02)
        raise RuntimeError(f"did not come to be: {script}")

    def size(self, width, height, phone=False, scale=1):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)

    def colours(self, scheme):
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        data = self.send("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def click(self, selector):
        """A real click in the middle of an element, which must be seen and not be covered."""
        place = self.run(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            if (!e) return null;
            e.scrollIntoView({{ block: "nearest" }});
            const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
            const top = document.elementFromPoint(x, y);
            return [x, y, r.width > 0 && (e === top || e.contains(top))];
        }})()""")
        if not place or not place[2]:
            raise RuntimeError(f"{selector} cannot be clicked: {place}")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def type(self, text):
        self.send("Input.insertText", text=text)

    KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowUp": (38, ""), "ArrowDown": (40, ""), " ": (32, " ")}

    def key(self, key, modifiers=0):
        """modifiers: 1 Alt, 2 Ctrl, 4 Meta, 8 Shift."""
        code, text = self.KEYS.get(key, (ord(key[0].upper()), key))
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        down = {"type": "keyDown", "text": text} if text and not modifiers & 7 else {"type": "rawKeyDown"}
        self.send("Input.dispatchKeyEvent", **common, **down)
        self.send("Input.dispatchKeyEvent", **common, type="keyUp")

    def nodes(self):
        """What a screen reader is given: (role, name, properties) of every node that is not ignored."""
        tree = self.send("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", ""),
                 {p["name"]: p["value"].get("value") for p in n.get("properties", [])})
                for n in tree if not n.get("ignored")]
