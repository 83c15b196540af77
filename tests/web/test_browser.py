"""The page in Chromium, in front of `hasten serve`: what people do with it, by real clicks and keys, and what they must
never see. `test_browser.py HASTEN MODELS [--pictures FOLDER]`; needs scripts/deps --browser, and the model smollm2."""
import json
import pathlib
import re
import sys
import tempfile
import time
import traceback

import cases
from browser import Browser, find_browser

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "serve"))
from serving import Server

SIZES = [(320, 640, True), (390, 844, True), (768, 1024, True), (1024, 700, False), (1366, 768, False), (1920, 1080, False)]


class Test:
    def __init__(self, hasten, models, pictures):
        self.hasten, self.models, self.pictures = hasten, pathlib.Path(models), pictures
        self.failed = self.passed = 0
        self.browser = None

    def check(self, good, what):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED", what)

    def same(self, found, expected, what):
        self.check(found == expected, f"{what}: {found!r} (expected {expected!r})")

    def picture(self, name):
        if self.pictures:
            pathlib.Path(self.pictures).mkdir(parents=True, exist_ok=True)
            self.browser.picture(pathlib.Path(self.pictures) / f"{name}.png")

    # ---- what a user does ----

    def open(self, server, address="", clean=True):
        b = self.browser
        b.open("about:blank")
        b.open(f"http://127.0.0.1:{server.port}/{address}")
        if clean:
            b.run("(localStorage.clear(), sessionStorage.clear(), 1)")
            b.open("about:blank")
            b.open(f"http://127.0.0.1:{server.port}/{address}")
        b.wait("document.documentElement.dataset.ready === ''")

    def ready(self):
        self.browser.wait("document.getElementById('empty-model').textContent !== 'No model yet'")

    def ask(self, text):
        self.browser.click("#entry")
        self.browser.type(text)
        self.browser.key("Enter")
        self.done()

    def done(self):
        self.browser.wait("document.getElementById('stop').hidden")

    def texts(self, selector):
        return self.browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def requests(self, path, since=0):
        return [p["request"] for m, p in self.browser.events[since:]
                if m == "Network.requestWillBeSent" and p["request"]["url"].endswith(path)]

    def bodies(self):
        return [json.loads(r["postData"]) for r in self.requests("/v1/chat/completions")]

    # ---- groups ----

    def chat(self):
        b = self.browser
        with_server = self.scripted
        self.open(with_server)
        self.ready()
        self.same(b.run("document.activeElement.id"), "entry", "where the focus is at the start")
        self.ask("Say everything")
        answer = ".assistant .text"
        for selector, n in [("h3", 1), ("em", 1), ("strong", 1), ("p code", 1), ("s", 1), ("a", 1), ("ol > li", 2),
                            ("ol ul li", 1), ("li.task input", 2), ("blockquote p", 1), ("table", 1), ("td.align-right", 1),
                            ("pre code", 1), ("hr", 1), ("img", 0), ("script", 0), ("b", 0)]:
            self.same(b.run(f"document.querySelectorAll('{answer} {selector}').length"), n, f"{selector} of an answer")
        self.same(self.texts(f"{answer} pre code"), ["print('<b>')\n\tindented"], "a block of code")
        self.same(b.run(f"document.querySelector('{answer} a').rel"), "noopener noreferrer", "a link")
        self.check("<img src=x onerror=alert(1)> <script>alert(2)</script>" in self.texts(answer)[0], "tags are text")
        b.click(".copy-code")
        b.wait("document.querySelector('.copy-code').textContent !== 'Copy'")
        b.click(".receipt summary")
        receipt = dict(zip(self.texts(".receipt dt"), self.texts(".receipt dd")))
        for name in ("Model", "Ended by", "Methods", "Seed", "Prompt, tokens", "of these from the cache", "Answer, tokens",
                     "Prompt read in", "Answer written in", "Passes of the model", "Tokens per pass", "Tokens a second"):
            self.check(receipt.get(name), f"the receipt has no {name}: {receipt}")
        body = self.bodies()[-1]
        self.same({k: v for k, v in body.items() if k != "model"},
                  {"messages": [{"role": "user", "content": "Say everything"}], "stream": True, "receipt": True,
                   "stream_options": {"include_usage": True}, "return_progress": True}, "what is asked for")
        self.picture("answer")
        self.ask("thoughts")
        self.same(self.texts(".thoughts-text"), ["First this, then that."], "thoughts")
        self.same(b.run("document.querySelector('.thoughts').open"), False, "thoughts are folded")
        self.same(self.texts(answer)[1], "The answer.", "what follows thoughts")
        self.check("Thought" in self.texts(".thoughts summary")[0], "thoughts say how long")
        self.ask("next")
        self.same([m["content"] for m in self.bodies()[-1]["messages"]][2:4], ["thoughts", "The *answer*."],
                  "thoughts are not sent back")
        self.check("Answer complete" in b.run("document.getElementById('status').textContent"), "the end is announced")

    def branches(self):
        b = self.browser
        self.open(self.scripted)
        self.ask("first")
        b.click(".user [data-action=edit]")
        b.run("document.querySelector('.edit').select()")
        b.type("weather, thoughts")
        b.key("Enter", 2)
        self.done()
        self.same(self.texts(".user .text"), ["weather, thoughts"], "an edited message")
        self.same(self.texts(".user .branch span"), ["2/2"], "its version")
        b.click(".assistant [data-action=again]")
        self.done()
        self.same(self.texts(".assistant .branch span"), ["2/2"], "a second answer")
        b.click(".assistant [data-action=before]")
        self.same(self.texts(".assistant .branch span"), ["1/2"], "the answer before")
        self.same(b.run("document.activeElement.dataset.action"), "after", "the focus after a change of version")
        b.click(".user [data-action=before]")
        self.same(self.texts(".user .text") + self.texts(".assistant .text"), ["first", "I do not know."], "the first branch")
        self.ask("more")
        b.click(".assistant [data-action=edit]")
        b.type(" Or so.")
        b.click(".editor [type=submit]")
        self.same(self.texts(".assistant .text"), ["I do not know. Or so."], "an edited answer ends its branch")
        self.ask("so?")
        self.same([m["content"] for m in self.bodies()[-1]["messages"]], ["first", "I do not know. Or so.", "so?"],
                  "the model is asked with what is shown")
        b.click("#rename")
        b.type("My chat")
        b.key("Enter")
        b.wait("document.getElementById('title').textContent === 'My chat'")
        shown = self.texts(".text")
        self.open(self.scripted, b.run("location.hash"), clean=False)
        self.same(self.texts(".text"), shown, "the chat after a reload")
        self.same(self.texts(".chat-title"), ["My chat"], "the list after a reload")
        self.files(shown)
        b.click("[aria-label='Delete My chat']")
        b.click("#ask-yes")
        b.wait("document.querySelectorAll('#chats li').length === 1")
        self.same(b.run("Object.keys(localStorage).filter((k) => k.startsWith('hasten.chat.')).length"), 1, "chats kept")

    def files(self, shown):
        """Export and import, through real files."""
        b = self.browser
        with tempfile.TemporaryDirectory() as folder:
            b.send("Browser.setDownloadBehavior", session=None, behavior="allow", downloadPath=folder)
            b.click("#export")
            path = pathlib.Path(folder) / "hasten-chats.json"
            until = time.monotonic() + 10
            while not path.exists() and time.monotonic() < until:
                time.sleep(0.05)
            saved = json.loads(path.read_text())
            self.same((saved["format"], saved["version"], len(saved["chats"])), ("hasten-chats", 1, 1), "an exported file")
            broken = pathlib.Path(folder) / "broken.json"
            broken.write_text(json.dumps(saved | {"version": 2}))
            root = b.send("DOM.getDocument")["root"]["nodeId"]
            field = b.send("DOM.querySelector", nodeId=root, selector="#import-file")["nodeId"]
            b.send("DOM.setFileInputFiles", files=[str(broken)], nodeId=field)
            b.wait("!document.getElementById('notice').hidden")
            self.check("version" in self.texts("#notice-text")[0], "a refused file is explained")
            b.click("#notice-close")
            b.send("DOM.setFileInputFiles", files=[str(path)], nodeId=field)
            b.wait("document.querySelectorAll('#chats li').length === 2")
            self.same(self.texts(".text"), shown, "an imported chat")

    def settings(self):
        b = self.browser
        self.open(self.scripted)
        self.ready()
        b.click("#open-settings")
        for field, text in (("temperature", "0.25"), ("top_k", "7"), ("top_p", "0.9"), ("min_p", "0,01"), ("max_tokens", "5"),
                            ("seed", "9007199254740993")):
            b.click(f"#param-{field}")
            b.type(text)
        b.click("#system")
        b.type("Be brief.")
        b.key("Escape")
        if not b.run("document.getElementById('settings').hidden"):
            b.click("#close-settings")
        self.ask("endless?")
        raw = self.requests("/v1/chat/completions")[-1]["postData"]
        body = json.loads(raw)
        self.same({k: body.get(k) for k in ("temperature", "top_k", "top_p", "min_p", "max_tokens")},
                  {"temperature": 0.25, "top_k": 7, "top_p": 0.9, "min_p": 0.01, "max_tokens": 5}, "what was set is sent")
        self.check('"seed":9007199254740993}' in raw, f"a seed of 54 bits, digit by digit: {raw[-60:]}")
        self.same(body["messages"][0], {"role": "system", "content": "Be brief."}, "the system prompt")
        b.click(".receipt summary")
        receipt = dict(zip(self.texts(".receipt dt"), self.texts(".receipt dd")))
        self.same(receipt.get("Seed"), "9007199254740993", "the receipt's seed")
        b.click("#open-settings")
        b.click("#param-top_p")
        b.type("9")  # 0.99
        b.type("9x")
        self.same(b.run("document.getElementById('param-top_p').getAttribute('aria-invalid')"), "true", "a wrong value is marked")
        b.click("#defaults")
        b.click("#close-settings")
        b.run("document.getElementById('system').value")
        self.ask("again")
        self.check("temperature" not in self.bodies()[-1] and "seed" not in self.bodies()[-1], "defaults are not sent")
        b.click("#new-chat")
        self.same(b.run("document.getElementById('system').value"), "Be brief.", "a new chat begins with the last system prompt")

    def failures(self):
        b = self.browser
        self.open(self.scripted)
        self.ready()
        self.ask("broken")
        self.same(self.texts(".assistant .text"), ["It began"], "what came before a failure")
        self.check(len(self.texts(".failure")) == 1, "a failure is shown")
        self.ask("word " * 6000)
        self.check("context_length_exceeded" in self.texts(".failure")[-1], f"too long: {self.texts('.failure')}")
        self.picture("failure")
        articles, asked = len(self.texts("article")), len(self.bodies())
        b.click("article:last-child [data-action=retry]")
        self.done()
        self.same((len(self.texts("article")), len(self.bodies())), (articles, asked + 1), "another try takes the failure's place")
        server = Server(self.hasten, f"script:{HERE}/answers.txt")
        try:
            self.open(server)
            self.ready()
        finally:
            server.stop()
        self.ask("anybody?")
        self.check("does not answer" in self.texts(".failure")[0], "a server that is gone")
        b.wait("!document.getElementById('notice').hidden")
        b.complaints.clear()

    def keys(self):
        b = self.browser
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("sesame-1\n")
            keys.flush()
            server = Server(self.hasten, f"script:{HERE}/answers.txt", "--api-key-file", keys.name)
            try:
                self.open(server)
                b.wait("!document.getElementById('settings').hidden && document.activeElement.id === 'key'")
                b.type("sesame-1")
                b.key("Enter")
                self.ready()
                b.click("#close-settings")
                self.ask("open?")
                self.same(self.texts(".assistant .text"), ["I do not know."], "an answer to a key")
                self.same(b.run("Object.values(localStorage).some((v) => v.includes('sesame'))"), False, "the key is kept nowhere")
                self.same(b.run("sessionStorage.getItem('hasten.key')"), "sesame-1", "the key of this tab")
                self.check(not any("sesame" in r["url"] for r in self.requests("")), "the key is in no address")
            finally:
                server.stop()
        b.complaints.clear()

    def monitor(self):
        b = self.browser
        self.open(self.scripted)
        self.ready()
        self.ask("Say everything")
        b.click("#tab-monitor")
        since = len(b.events)
        b.wait("document.querySelectorAll('.chart strong').length === 4 && document.querySelectorAll('.counts dd').length > 5")
        time.sleep(2.5)
        b.run("1")
        polls = len(self.requests("/metrics", since))
        self.check(2 <= polls <= 4, f"{polls} requests for metrics in 2.5 s")
        counts = dict(zip(self.texts(".counts dt"), self.texts(".counts dd")))
        self.check(int(counts.get("Answer tokens", "0").replace(",", "")) > 100, f"counts: {counts}")
        self.check("running" in self.texts(".monitor-state")[0], "the state in words")
        self.check(all(re.search("now .*most", t) for t in b.run(
            "[...document.querySelectorAll('.graph svg')].map((s) => s.getAttribute('aria-label'))")), "charts say what they show")
        self.picture("monitor")
        b.click("#tab-chat")
        since = len(b.events)
        time.sleep(2.2)
        b.run("1")
        self.same(len(self.requests("/metrics", since)), 0, "requests for metrics when nobody looks")

    def stopping(self):
        """A real model, which takes its time."""
        model = self.models / "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        if not model.is_file():
            raise RuntimeError(f"{model} is not there (scripts/models smollm2 fetches it)")
        b, server = self.browser, Server(self.hasten, model, "-t", "2", "-c", "4096")
        try:
            self.open(server)
            self.ready()
            b.click("#entry")
            b.type("Write a very long story about a lighthouse. Do not stop.")
            b.key("Enter")
            b.wait("document.querySelector('.assistant .text').textContent.length > 60")
            live = self.texts("#live")[0]
            self.check(re.search(r"tokens · |tokens/s", live), f"live speed: {live!r}")
            self.picture("running")
            b.key("Escape")
            self.done()
            length = len(self.texts(".assistant .text")[0])
            self.check("stopped" in self.texts(".receipt summary")[0], "a stopped answer says so")
            b.wait("fetch('slots').then((r) => r.json()).then((s) => s.every((one) => !one.is_processing))", 3)
            self.same(len(self.texts(".assistant .text")[0]), length, "nothing comes after a stop")
            self.ask("Name a colour. One word.")
            rate = re.search(r"([\d.,]+) tokens/s", self.texts(".receipt summary")[-1])
            self.check(rate or "1 token" in self.texts(".receipt summary")[-1], "the second answer has a speed")
        finally:
            server.stop()

    def keyboard(self):
        b = self.browser
        self.open(self.scripted)
        self.ready()
        b.type("first")
        b.key("Enter", 8)
        b.type("second")
        b.key("Enter")
        self.done()
        self.same(self.texts(".user .text"), ["first\nsecond"], "Shift+Enter begins a line")
        b.key("ArrowUp")
        self.same(b.run("document.activeElement.className"), "edit", "the arrow up edits")
        b.key("Escape")
        self.same(b.run("document.activeElement.dataset.action"), "edit", "the focus goes back to where it was")
        b.key("?")
        self.same(b.run("document.getElementById('keys').open"), True, "? shows the keys")
        b.key("Escape")
        b.key("s")
        self.same(b.run("[document.getElementById('settings').hidden, document.activeElement.id]"), [False, "close-settings"],
                  "s opens the settings")
        b.key("s")
        b.key("t")
        self.same(b.run("document.documentElement.dataset.theme"), "light", "t changes colours")
        b.key("t")
        b.key("t")
        b.key("m")
        b.wait("!document.getElementById('monitor-view').hidden")
        b.key("m")
        b.wait("document.getElementById('monitor-view').hidden")
        b.key("/")
        self.same(b.run("document.activeElement.id"), "entry", "/ goes to the message")
        seen = set()
        for _ in range(60):
            b.key("Tab")
            seen.add(b.run("(document.activeElement.id || document.activeElement.dataset.action || document.activeElement.tagName)"))
        for name in ("new-chat", "import", "export", "theme", "tab-monitor", "open-settings", "entry", "send", "edit", "copy", "again"):
            self.check(name in seen, f"Tab reaches {name}: {seen}")

    def looks(self):
        """Every size and colour: nothing leaves the page sideways, everything has a name, text can be read."""
        b = self.browser
        self.open(self.scripted)
        self.ready()
        self.ask("wide")
        self.ask("Say everything")
        for width, height, phone in SIZES:
            b.size(width, height, phone)
            for scheme in ("light", "dark"):
                b.colours(scheme)
                for view in ("#tab-chat", "#tab-monitor"):
                    b.click(view)
                    b.run("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
                    where = f"{width} x {height}, {scheme}, {view}"
                    self.check(b.run(cases.FITS), f"{where}: wider than the page")
                    low = b.run(cases.CONTRAST)
                    self.check(not low, f"{where}: too little contrast: {low}")
                    if phone:
                        small = b.run(cases.SMALL)
                        self.check(not small, f"{where}: too small for a finger: {small}")
                    self.picture(f"{view[5:]}-{width}-{scheme}")
        b.run("document.documentElement.style.setProperty('--soft', 'light-dark(#999, #777)'), 1")
        self.check(b.run(cases.CONTRAST), "the check for contrast finds pale text")
        b.run("document.getElementById('tab-chat').style.marginLeft = '3000px', 1")
        self.check(not b.run(cases.FITS), "the check for width finds what sticks out")
        b.run("document.documentElement.removeAttribute('style'), document.getElementById('tab-chat').removeAttribute('style'), 1")
        b.size(390, 844, True)
        b.click("#tab-chat")
        b.click("#open-side")
        self.same(b.run("[document.getElementById('page').inert, document.activeElement.id]"), [True, "close-side"],
                  "the list lies over the page")
        self.picture("side-390")
        b.key("Escape")
        self.same(b.run("[document.getElementById('page').inert, document.activeElement.id]"), [False, "open-side"],
                  "and goes back")
        b.click("#open-settings")
        self.check(b.run(cases.FITS), "settings on a phone: wider than the page")
        self.picture("settings-390")
        b.click("#close-settings")
        b.size(1366, 768)
        b.click("#open-settings")
        nameless = [n for n in b.nodes() if n[0] in ("button", "link", "textbox", "combobox", "checkbox", "searchbox") and not n[1]]
        self.same(nameless, [], "what a screen reader cannot name")
        roles = {role for role, _, _ in b.nodes()}
        for role in ("main", "log", "navigation", "complementary", "heading", "article"):
            self.check(role in roles, f"no {role}: {sorted(roles)}")
        self.picture("settings")

    def modules(self):
        """The parts without a page, case by case."""
        b = self.browser
        self.open(self.scripted)
        for source, expected in cases.MARKDOWN:
            self.same(b.run(cases.RENDER % json.dumps(source)), expected, f"Markdown {source!r}")
        for name, script in cases.HOSTILE.items():
            ms = b.run(cases.TIMED % script)
            for _ in range(3):  # other programs may have the CPU
                ms = min(ms, b.run(cases.TIMED % script)) if ms > 1500 else ms
            self.check(ms < 1500, f"{name}: {ms:.0f} ms")
            self.check(b.run(cases.DEPTH % script) <= 60, f"{name}: nested too deep")
        for name, script in cases.SCRIPTS.items():
            self.same(b.run(script), True, name)
        self.check(any("TrustedHTML" in c for c in b.complaints), "the policy's refusal is seen here, as others would be")
        b.complaints.clear()

    # ---- all ----

    def run(self):
        binary = find_browser()
        if not binary:
            print("FAILED: no Chromium is there (scripts/deps --browser installs it)")
            return 1
        self.browser = Browser(binary)
        self.scripted = Server(self.hasten, f"script:{HERE}/answers.txt")
        groups = [self.modules, self.chat, self.branches, self.settings, self.monitor, self.keyboard, self.looks, self.stopping,
                  self.failures, self.keys]
        try:
            for group in groups:
                began = time.monotonic()
                self.browser.size(1366, 768)
                self.browser.colours("light")
                try:
                    group()
                except (RuntimeError, AssertionError, IndexError, KeyError, OSError):
                    self.check(False, f"{group.__name__}: {traceback.format_exc()}")
                    self.picture(f"failed-{group.__name__}")
                    self.browser.size(1366, 768)
                for said in [c for c in self.browser.complaints if "status of 4" not in c]:
                    self.check(False, f"{group.__name__}: the browser complains: {said}")
                self.browser.complaints.clear()
                print(f"{group.__name__}: {time.monotonic() - began:.1f} s")
            own = {p["request"]["url"].split("/")[2] for m, p in self.browser.events
                   if m == "Network.requestWillBeSent" and p["request"]["url"].startswith("http")}
            self.check(own and all(host.startswith("127.0.0.1:") for host in own), f"somebody else was asked: {own}")
        finally:
            self.browser.close()
            self.same(self.scripted.stop(), 0, "how the server ended")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def main():
    pictures = sys.argv[4] if sys.argv[3:4] == ["--pictures"] else None
    return Test(sys.argv[1], sys.argv[2], pictures).run()


if __name__ == "__main__":
    sys.exit(main())
