"""web/ on paper: nothing from outside, nothing that turns text into markup or code, nothing inline, no name that is
not there. `check_web.py WEB` prints a line per finding. The checks themselves are tried on a page with faults first.
What the modules do is tested in a browser (test_browser.py); with a node here, their syntax is read too."""
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

MAX_LINES, MAX_BYTES = 1000, 400_000
NAMESPACES = ("http://www.w3.org/2000/svg",)  # a name, never fetched
DANGEROUS = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|" \
            r"createContextualFragment|javascript:|\.style\.cssText|setHTML|parseHTML|importScripts|\.on[a-z]+ *= "
VOID = {"meta", "link", "input", "path", "rect", "br", "hr"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.faults, self.open = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes), self.getpos()[0]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes), self.getpos()[0]))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append((self.getpos()[0], f"</{tag}> closes something else"))

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style") and data.strip():
            self.faults.append((self.getpos()[0], f"<{self.open[-1]}> with text: the policy forbids it"))


def check_text(path, text):
    if text.count("\n") > MAX_LINES:
        yield 1, f"more than {MAX_LINES} lines"
    for number, line in enumerate(text.splitlines(), 1):
        plain = line
        for name in NAMESPACES:
            plain = plain.replace(name, "")
        if re.search(r"https?://|@import|\bwss?://", plain) or re.search(r"url\(\s*['\"]?(?!data:)", plain):
            yield number, "an address outside of the page"
        if path.suffix == ".js" and re.search(DANGEROUS, line.split("// ")[0]):
            yield number, f"{re.search(DANGEROUS, line).group()}: text would become markup or code"
        if len(line) > 120 and path.suffix != ".svg":
            yield number, f"{len(line)} characters"
    opens = {".js": "// ", ".css": "/* ", ".html": "<!doctype html>\n<!-- "}.get(path.suffix, "")
    if not text.startswith(opens):
        yield 1, "does not open with a comment that says what the file owns"


def check_html(root, path, text, ids):
    page = Page()
    page.feed(text)
    page.close()
    yield from page.faults
    used = re.findall(r'\bid="([^"]+)"', text)
    for name in {n for n in used if used.count(n) > 1}:
        yield 1, f"id {name} twice"
    labels = {a.get("for") for tag, a, _ in page.tags if tag == "label"}
    for tag, a, line in page.tags:
        for name in a:
            if name.startswith("on") or name == "style":
                yield line, f"{name}=: the policy forbids it"
        if tag == "script" and "src" not in a:
            yield line, "a script without src"
        address = a.get("src") or (a.get("href") if tag in ("link", "a") else None)
        if address and not address.startswith("#") and not (
                address.startswith("assets/") and (root / address[len("assets/"):]).is_file()):
            yield line, f"{address}: no file of the page"
        for name in ("for", "aria-controls", "aria-labelledby", "aria-describedby"):
            for one in a.get(name, "").split():
                if one not in ids:
                    yield line, f"{name}={one}: no such id"
        named = a.get("aria-label") or a.get("id") in labels or a.get("type") == "checkbox"
        if tag in ("input", "select", "textarea") and not named:
            yield line, f"<{tag} id={a.get('id')}> without a label"
        if tag == "button" and "icon" in a.get("class", "") and not a.get("aria-label"):
            yield line, "a button of a sign without aria-label"
        if tag == "button" and "type" not in a:
            yield line, "a button without a type sends its form"


def check_script(root, text, ids, exports):
    for m in re.finditer(r'\$\("([^"]+)"\)|\bon\("([\w-]+)",', text):
        name = m.group(1) or m.group(2)
        if name not in ids:
            yield text.count("\n", 0, m.start()) + 1, f"#{name} is not in index.html"
    for m in re.finditer(r'^import (?:\{([^}]*)\}|[^;{]*) from "([^"]+)";', text, re.M):
        line, source = text.count("\n", 0, m.start()) + 1, m.group(2).removeprefix("./")
        if not (root / source).is_file() or not m.group(2).startswith("./"):
            yield line, f"{m.group(2)}: no file of the page"
            continue
        for name in filter(None, (n.strip() for n in (m.group(1) or "").split(","))):
            if name not in exports[source]:
                yield line, f"{source} does not export {name}"
            elif len(re.findall(rf"(?<![\w.$]){re.escape(name)}(?![\w$])", text)) < 2:
                yield line, f"{name} is not used"


def check(root):
    texts = {p: p.read_text() for p in sorted(root.iterdir())}
    ids = set(re.findall(r'\bid="([^"]+)"', texts.get(root / "index.html", "")))
    exports = {p.name: set(re.findall(r"^export (?:async )?(?:function|const|class) ([\w$]+)", t, re.M))
               for p, t in texts.items()}
    # Fields that a script makes: $(`param-${name}`).
    ids |= {f"param-{n}" for n in re.findall(r'\{ name: "(\w+)"', texts.get(root / "settings.js", ""))}
    if sum(len(t.encode()) for t in texts.values()) > MAX_BYTES:
        yield root, 1, f"more than {MAX_BYTES} bytes"
    for path, text in texts.items():
        for line, what in check_text(path, text):
            yield path, line, what
        if path.suffix == ".html":
            for line, what in check_html(root, path, text, ids):
                yield path, line, what
        if path.suffix == ".js":
            for line, what in check_script(root, text, ids, exports):
                yield path, line, what


FAULTS = {
    "index.html": ("</head>", ['<script>alert(1)</script></head>', '<script src="https://example.org/x.js"></script></head>',
                               '<link rel="stylesheet" href="assets/none.css"></head>', '</div></head>']),
    "main.js": ("begin();", ["document.body.innerHTML = text;", '$("nowhere").focus();', 'fetch("http://example.org/");']),
    "style.css": ("html, body {", ["html { background: url(x.png) } html, body {", '@import "x"; html, body {']),
    "api.js": ('from "./store.js"', ['from "./absent.js"', 'from "https://example.org/store.js"']),
    "store.js": ("export function apiKey", ["function apiKey"]),
}


def try_checks(root):
    """Every fault above is found, each alone."""
    for name, (place, faults) in FAULTS.items():
        for fault in faults:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder)
                for path in root.iterdir():
                    text = path.read_text()
                    if path.name == name:
                        if place not in text:
                            yield path, 1, f"no {place!r} to put a fault at"
                        text = text.replace(place, fault, 1)
                    (copy / path.name).write_text(text)
                if not any(True for _ in check(copy)):
                    yield root / name, 1, f"a fault is not found: {fault}"


PARSE = """const fs = require("fs"), vm = require("vm");
for (const path of process.argv.slice(1))
    new vm.SourceTextModule(fs.readFileSync(path, "utf8"), { identifier: path });"""


def check_syntax(root):
    node = shutil.which("node")
    print("node is not there: syntax is left to web_browser" if not node else f"syntax by {node}")
    if node:
        run = subprocess.run([node, "--no-warnings", "--experimental-vm-modules", "-e", PARSE, *sorted(root.glob("*.js"))],
                             capture_output=True, text=True)
        if run.returncode:
            yield root, 1, run.stderr.strip()


def main():
    root = Path(sys.argv[1]).resolve()
    findings = [*check(root), *try_checks(root), *check_syntax(root)]
    for path, line, what in findings:
        print(f"{path.name}:{line}: {what}")
    print(f"{len(list(root.iterdir()))} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
