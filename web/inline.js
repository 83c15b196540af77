// What stands within a paragraph of Markdown: emphasis (by CommonMark's rules of delimiter runs), code, links, line
// breaks, formulas (shown as they are written). Text becomes text nodes, nothing else; a link gets an address only
// when it leads to http, https or mailto. Pictures are not fetched: they become links.

const MAX_LINK = 2000, MAX_TEXT = 400, MAX_MATH = 400, MAX_NESTING = 24; // characters that one is looked for
const WORDLESS = /[\p{P}\p{S}]/u;
const ESCAPED = /[!-/:-@[-`{-~]/;
const BARE = /^https?:\/\/[^\s<>"'`]+/i;
const ADDRESS = /^\]\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/;
const SPECIAL = /[\\`*_~[!<$\n]|https?:\/\//gi;

function safeAddress(address) {
    return /^(?:https?:\/\/|mailto:)[^\s\u0000-\u0020]+$/i.test(address) ? address : null;
}

function link(address, content) {
    const a = document.createElement("a");
    a.href = address;
    a.target = "_blank";
    a.rel = "noopener noreferrer";
    a.append(content);
    return a;
}

class Inline {
    constructor(text, inLink) {
        this.text = text;
        this.inLink = inLink;
        this.at = 0;
        this.out = document.createDocumentFragment();
        this.pending = ""; // text that is not in `out` yet
        this.runs = []; // of delimiters: { node, mark, left, opens, closes }
        this.depths = new Map(); // of elements that emphasise: how many lie in each other
        this.noCode = new Set(); // lengths of runs of backticks that close nowhere
    }

    put(text) {
        this.pending += text;
    }

    flush() {
        if (this.pending)
            this.out.append(document.createTextNode(this.pending));
        this.pending = "";
    }

    add(node) {
        this.flush();
        this.out.append(node);
    }

    code() {
        const run = /^`+/.exec(this.text.slice(this.at))[0], from = this.at + run.length;
        if (!this.noCode.has(run.length)) {
            const close = new RegExp(`(?<!\`)${run}(?!\`)`, "g");
            close.lastIndex = from;
            const end = close.exec(this.text);
            if (end) {
                let inner = this.text.slice(from, end.index).replace(/\n/g, " ");
                if (/^ .* $/.test(inner) && inner.trim())
                    inner = inner.slice(1, -1);
                const e = document.createElement("code");
                e.textContent = inner;
                this.add(e);
                this.at = end.index + run.length;
                return;
            }
            this.noCode.add(run.length);
        }
        this.put(run);
        this.at = from;
    }

    escape() {
        const next = this.text[this.at + 1];
        if (next === "(") {
            const end = this.text.slice(this.at, this.at + MAX_MATH).indexOf("\\)");
            if (end > 0)
                return this.math(this.at + end + 2);
        }
        if (next === "\n") {
            this.add(document.createElement("br"));
            this.at += 2;
        } else if (next !== undefined && ESCAPED.test(next)) {
            this.put(next);
            this.at += 2;
        } else {
            this.put("\\");
            this.at++;
        }
        return undefined;
    }

    math(end) {
        const e = document.createElement("span");
        e.className = "math";
        e.textContent = this.text.slice(this.at, end);
        this.add(e);
        this.at = end;
    }

    dollar() { // money is no formula: a formula has a sign that money has not
        const found = /^(?:\$\$[^$]+\$\$|\$(?=\S)[^$\n]*?[\\^_{=][^$\n]*?(?<=\S)\$(?!\d))/.exec(
            this.text.slice(this.at, this.at + MAX_MATH));
        if (found)
            return this.math(this.at + found[0].length);
        this.put("$");
        this.at++;
        return undefined;
    }

    breakLine() {
        this.pending = this.pending.trimEnd();
        this.add(document.createElement("br"));
        this.at++;
    }

    tag() {
        const rest = this.text.slice(this.at, this.at + MAX_LINK);
        const auto = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(rest), br = /^<br\s*\/?>/i.exec(rest);
        if (auto && !this.inLink) {
            this.add(link(auto[1], auto[1]));
            this.at += auto[0].length;
        } else if (br) {
            this.add(document.createElement("br"));
            this.at += br[0].length;
        } else {
            this.put("<");
            this.at++;
        }
    }

    bare() {
        const inWord = /[\p{L}\p{N}]$/u.test(this.text.slice(Math.max(0, this.at - 2), this.at));
        const found = this.inLink || inWord ? null : BARE.exec(this.text.slice(this.at, this.at + MAX_LINK));
        if (!found) {
            this.put(this.text[this.at++]);
            return;
        }
        let address = found[0].replace(/[.,;:!?*_~|]+$/, "");
        while (address.endsWith(")") && address.split(")").length > address.split("(").length)
            address = address.slice(0, -1);
        this.add(link(address, address));
        this.at += address.length;
    }

    // [text](address "title"), from a bracket at `open`; what follows, or null.
    findLink(open) {
        const limit = Math.min(this.text.length, open + MAX_TEXT);
        let level = 0, end = open;
        for (; end < limit; end++) {
            const c = this.text[end];
            if (c === "\\")
                end++;
            else if (c === "[")
                level++;
            else if (c === "]" && --level === 0)
                break;
        }
        const found = end < limit && ADDRESS.exec(this.text.slice(end, end + MAX_LINK));
        if (!found)
            return null;
        const address = (found[1] ?? found[2]).replace(/\\([!-/:-@[-`{-~])/g, "$1");
        return { text: this.text.slice(open + 1, end), address, to: end + found[0].length };
    }

    link() {
        const picture = this.text[this.at] === "!";
        const open = this.at + (picture ? 1 : 0);
        const found = (!this.inLink || picture) && this.text[open] === "[" ? this.findLink(open) : null;
        if (!found) {
            this.put(this.text[this.at++]);
            return;
        }
        const address = safeAddress(found.address);
        const content = picture ? document.createTextNode(found.text || "picture") : renderInline(found.text, true);
        if (address && !this.inLink) {
            this.add(link(address, content));
        } else {
            this.add(content);
            if (found.address && !this.inLink)
                this.add(document.createTextNode(` (${found.address})`));
        }
        this.at = found.to;
    }

    // A run of * _ or ~: kept as text until it is known what it pairs with.
    run() {
        const mark = this.text[this.at], length = /^(\*+|_+|~+)/.exec(this.text.slice(this.at))[0].length;
        const before = this.at ? [...this.text.slice(Math.max(0, this.at - 2), this.at)].at(-1) : " ";
        const next = this.text.codePointAt(this.at + length);
        const after = next === undefined ? " " : String.fromCodePoint(next);
        const space = (c) => /\s/.test(c);
        const left = !space(after) && (!WORDLESS.test(after) || space(before) || WORDLESS.test(before));
        const right = !space(before) && (!WORDLESS.test(before) || space(after) || WORDLESS.test(after));
        const node = document.createTextNode(mark.repeat(length));
        this.add(node);
        this.at += length;
        if (mark === "~" && length !== 2)
            return;
        this.runs.push({ node, mark, left: length, length,
            opens: left && (mark !== "_" || !right || WORDLESS.test(before)),
            closes: right && (mark !== "_" || !left || WORDLESS.test(after)) });
    }

    // Wraps what lies between two runs, unless that is nested deeper than anybody means.
    wrap(opener, closer) {
        const n = opener.left >= 2 && closer.left >= 2 ? 2 : 1;
        let depth = 1;
        for (let node = opener.node.nextSibling; node && node !== closer.node; node = node.nextSibling)
            depth = Math.max(depth, 1 + (this.depths.get(node) ?? 0));
        if (depth > MAX_NESTING) {
            opener.left = closer.left = 0;
            return;
        }
        const e = document.createElement(opener.mark === "~" ? "s" : n === 2 ? "strong" : "em");
        for (let node = opener.node.nextSibling; node && node !== closer.node;) {
            const next = node.nextSibling;
            e.append(node);
            node = next;
        }
        opener.node.after(e);
        this.depths.set(e, depth);
        for (const run of [opener, closer]) {
            run.left -= n;
            run.node.data = run.mark.repeat(run.left);
        }
    }

    pair() {
        const bottom = new Map(); // below these, no run opens for such a closer
        for (let c = 0; c < this.runs.length; c++) {
            const closer = this.runs[c];
            while (closer.closes && closer.left) {
                const kind = closer.mark + closer.opens + (closer.length % 3);
                let o = c - 1;
                for (; o >= (bottom.get(kind) ?? 0); o--) {
                    const opener = this.runs[o];
                    if (opener.mark === closer.mark && opener.opens && opener.left &&
                        !((opener.closes || closer.opens) && (opener.length + closer.length) % 3 === 0 &&
                          (opener.length % 3 || closer.length % 3)))
                        break;
                }
                if (o < (bottom.get(kind) ?? 0)) {
                    bottom.set(kind, c);
                    break;
                }
                this.wrap(this.runs[o], closer);
                for (let k = o + 1; k < c; k++)
                    this.runs[k].left = 0; // they lie within; they pair no more
            }
        }
    }

    all() {
        const { text } = this;
        while (this.at < text.length) {
            SPECIAL.lastIndex = this.at;
            const next = SPECIAL.exec(text)?.index ?? text.length;
            if (next > this.at) {
                this.put(text.slice(this.at, next));
                this.at = next;
                continue;
            }
            switch (text[next]) {
            case "\\": this.escape(); break;
            case "`": this.code(); break;
            case "[": case "!": this.link(); break;
            case "<": this.tag(); break;
            case "$": this.dollar(); break;
            case "\n": this.breakLine(); break;
            case "h": case "H": this.bare(); break;
            default: this.run();
            }
        }
        this.flush();
        this.pair();
        return this.out;
    }
}

// inLink: within a link's text there are no links.
export function renderInline(text, inLink = false) {
    return new Inline(text, inLink).all();
}
