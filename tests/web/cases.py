"""What test_browser.py tries on the page's modules, and how it looks at a page: tables and scripts, no doing."""

# ---- a page's looks ---------------------------------------------------------------------------------------------

FITS = """(() => {
    const over = document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth;
    const out = [...document.querySelectorAll("button, a, input, select, textarea, p, summary")].filter((e) => {
        const r = e.getBoundingClientRect();
        return e.checkVisibility({ visibilityProperty: true }) && r.width && !e.closest(".hidden, .skip, .table, pre") &&
            !e.matches(".hidden, .skip") && (r.right > innerWidth + 1 || r.left < -1);
    });
    return !over && !out.length;
})()"""

# Texts whose colour is too near to what lies behind (WCAG 2.2, 1.4.3: 4.5).
CONTRAST = """(() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (c) => {
        const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (e) => {
        for (; e; e = e.parentElement) {
            const c = rgba(getComputedStyle(e).backgroundColor);
            if (c[3] === 255)
                return c;
        }
        return [255, 255, 255, 255];
    };
    const found = [];
    for (const e of document.querySelectorAll("body *")) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!own || !e.checkVisibility({ visibilityProperty: true }) || e.closest(".hidden, .skip, :disabled, noscript"))
            continue;
        const style = getComputedStyle(e), a = light(rgba(style.color)), b = light(behind(e));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5 || style.opacity < 1)
            found.push(`${e.tagName}.${e.className} ${ratio.toFixed(2)} ${e.textContent.slice(0, 20)}`);
    }
    return found.slice(0, 5).join("; ");
})()"""

# Buttons and fields that are smaller than 24 pixels in a direction (WCAG 2.2, 2.5.8); links in text are exempt.
SMALL = """[...document.querySelectorAll("button, input:not([type=checkbox]), select, textarea, .tabs a, .side li a")]
    .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".hidden")).filter((e) => {
        const r = e.getBoundingClientRect();
        return r.width < 24 || r.height < 24;
    }).map((e) => e.id || e.textContent).join(", ")"""

# ---- modules ----------------------------------------------------------------------------------------------------

# Elements as text, for comparing: attributes that matter, no classes.
RENDER = """Promise.all([import("/assets/markdown.js")]).then(([m]) => {
    const box = document.createElement("div");
    m.growingMarkdown(box)(%s);
    const show = (n) => {
        if (n.nodeType === 3)
            return n.data.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
        if (n.className === "code-head")
            return "";
        const keep = [...n.attributes].filter((a) => ["href", "start", "checked"].includes(a.name));
        const name = n.localName + keep.map((a) => ` ${a.name}=${a.value}`).join("") + (n.className === "math" ? " math" : "");
        return `<${name}>` + [...n.childNodes].map(show).join("") + (["br", "hr", "input"].includes(n.localName) ? "" : `</${n.localName}>`);
    };
    return [...box.childNodes].map(show).join("").replaceAll(/<\\/?div>/g, "").replaceAll(/<\\/?(thead|tbody|tr)>/g, "");
})"""

MARKDOWN = [
    ("", ""),
    ("a", "<p>a</p>"),
    ("a\nb\n\nc", "<p>a<br>b</p><p>c</p>"),
    ("# a #\n## b", "<h3>a</h3><h4>b</h4>"),
    ("#a", "<p>#a</p>"),
    ("*a* _b_ **c** __d__ ***e***", "<p><em>a</em> <em>b</em> <strong>c</strong> <strong>d</strong> <em><strong>e</strong></em></p>"),
    ("**a*b*c**", "<p><strong>a<em>b</em>c</strong></p>"),
    ("*a **b*", "<p>*a *<em>b</em></p>"),
    ("snake_case_name 2*3*4 a * b", "<p>snake_case_name 2<em>3</em>4 a * b</p>"),
    ("~~a~~ ~b~", "<p><s>a</s> ~b~</p>"),
    ("\\*a\\* \\q", "<p>*a* \\q</p>"),
    ("`a*b*` ``c`d`` `e", "<p><code>a*b*</code> <code>c`d</code> `e</p>"),
    ("**a `b**` c", "<p>**a <code>b**</code> c</p>"),
    ("[a](https://x.y \"t\") [b](x)", "<p><a href=https://x.y>a</a> b (x)</p>"),
    ("[a](javascript:x) [b](data:text/html,x) [c]( https://x.y )",
     "<p>a (javascript:x) b (data:text/html,x) <a href=https://x.y>c</a></p>"),
    ("[a*b*](https://x.y_z_) [[c]](https://q)", "<p><a href=https://x.y_z_>a<em>b</em></a> <a href=https://q>[c]</a></p>"),
    ("![p](https://x.y/p.png)", "<p><a href=https://x.y/p.png>p</a></p>"),
    ("[![p](https://a/p)](https://b)", "<p><a href=https://b>p</a></p>"),
    ("see https://x.y/a_b_c. (https://x.y/d)", "<p>see <a href=https://x.y/a_b_c>https://x.y/a_b_c</a>. (<a href=https://x.y/d>https://x.y/d</a>)</p>"),
    ("<https://x.y> <b>c</b> a<br>d", "<p><a href=https://x.y>https://x.y</a> &lt;b>c&lt;/b> a<br>d</p>"),
    ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
    ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
    ("3. a\n4. b", "<ol start=3><li>a</li><li>b</li></ol>"),
    ("1. a\n  - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"),
    ("- a\n  b\n- c", "<ul><li>a<br>b</li><li>c</li></ul>"),
    ("1. a\n- b", "<ol><li>a</li></ol><ul><li>b</li></ul>"),
    ("1. a\n```\nx\n```\n2. b", "<ol><li>a</li></ol><pre><code>x</code></pre><ol start=2><li>b</li></ol>"),
    ("- a\n\n  ```\n  x\n    y\n  ```\n", "<ul><li>a<pre><code>x\n  y</code></pre></li></ul>"),
    ("- [x] a\n- [ ] b", "<ul><li><input> a</li><li><input> b</li></ul>"),
    ("text\n- a", "<p>text</p><ul><li>a</li></ul>"),
    ("In\n1998. It", "<p>In<br>1998. It</p>"),
    ("---\n***\na", "<hr><hr><p>a</p>"),
    ("> a\n> > b\nc", "<blockquote><p>a</p><blockquote><p>b<br>c</p></blockquote></blockquote>"),
    ("```py x\na\n", "<pre><code>a\n</code></pre>"),
    ("~~~\n```\n~~~\nb", "<pre><code>```</code></pre><p>b</p>"),
    ("````\n```\n````", "<pre><code>```</code></pre>"),
    ("```\n*a*\n<b>\n```", "<pre><code>*a*\n&lt;b></code></pre>"),
    ("|a|b|\n|-|:-:|\n|1|`x|y`|\n|2|\n\nend", "<table><th>a</th><th>b</th><td>1</td><td><code>x|y</code></td><td>2</td><td></td></table><p>end</p>"),
    ("a | b\n- | -\n1 | 2", "<table><th>a</th><th>b</th><td>1</td><td>2</td></table>"),
    ("a|b\n-", "<p>a|b<br>-</p>"),
    ("\\(a_1 * b_1\\) and $x^2$ for $5 and $6", "<p><span math>\\(a_1 * b_1\\)</span> and <span math>$x^2$</span> for $5 and $6</p>"),
    ("\\[\na_1\n\\]", "<p math>\\[\na_1\n\\]</p>"),
    ("\\[ open", "<p>[ open</p>"),
    ("&lt; &amp;", "<p>&amp;lt; &amp;amp;</p>"),
    ("\u00e4**\u00f6**\u00fc \U0001f600*x*", "<p>\u00e4<strong>\u00f6</strong>\u00fc \U0001f600<em>x</em></p>"),
]

TIMED = """import("/assets/markdown.js").then((m) => {
    const began = performance.now();
    m.growingMarkdown(document.createElement("div"))(%s);
    return performance.now() - began;
})"""
DEPTH = """import("/assets/markdown.js").then((m) => {
    const box = document.createElement("div");
    m.growingMarkdown(box)(%s);
    const depths = new Map([[box, 0]]);
    for (const e of box.querySelectorAll("*"))
        depths.set(e, depths.get(e.parentNode) + 1);
    return Math.max(...new Set(depths.values()));
})"""
HOSTILE = {
    "nested quotes": '">".repeat(20000) + "a"',
    "nested lists": 'Array.from({ length: 300 }, (_, i) => " ".repeat(2 * i) + "- a").join("\\n")',
    "open brackets": '"[".repeat(20000)',
    "brackets and addresses": '"[a](".repeat(20000)',
    "stars": '"*a ".repeat(20000)',
    "stars without blanks": '"*".repeat(50000)',
    "stars and underscores": '"*_".repeat(20000) + "a" + "_*".repeat(20000)',
    "backticks of rising length": 'Array.from({ length: 300 }, (_, i) => "`".repeat(i + 1)).join(" ")',
    "dollars": '"$a_".repeat(20000)',
    "blanks": '"#" + " ".repeat(100000) + "x"',
    "a table's dashes": '"a|b\\n" + "-".repeat(50000) + " ".repeat(50000) + "|x"',
    "a long table": '"|a|b|\\n|-|-|\\n" + "|1|2|\\n".repeat(3000)',
    "addresses": '"https://x.y/((((((".repeat(5000)',
    "less-than signs": '"<".repeat(50000)',
    "backslashes": '"\\\\(".repeat(20000)',
    "one long line": '"word ".repeat(100000)',
}

SCRIPTS = {
    "events are found however their bytes are cut": """import("/assets/api.js").then((m) => {
        const text = ": ping\\n\\ndata: a\\ndata: b\\n\\ndata:c\\r\\n\\r\\nevent: x\\ndata: d\\r\\rdata: [DONE]\\n\\n";
        for (let size = 1; size < text.length; size++) {
            const found = [], parse = m.eventParser((d) => found.push(d));
            for (let i = 0; i < text.length; i += size)
                parse(text.slice(i, i + size));
            if (JSON.stringify(found) !== JSON.stringify(["a\\nb", "c", "d", "[DONE]"]))
                return `pieces of ${size}: ${JSON.stringify(found)}`;
        }
        return true;
    })""",
    "thoughts are split off while they come": """import("/assets/answer.js").then((m) => {
        const text = "\\n<think>\\na < b\\n</think>\\n\\nSo.", seen = new Set();
        for (let i = 0; i <= text.length; i++)
            seen.add(JSON.stringify(m.splitThoughts(text.slice(0, i))));
        const last = m.splitThoughts(text), plain = m.splitThoughts("<thin ice"), other = m.splitThoughts("a <think>");
        return last.reasoning === "a < b" && last.content === "So." && plain.content === "<thin ice" &&
            other.content === "a <think>" && ![...seen].some((s) => s.includes("<think") || s.includes("</think>\\\\n")) || [...seen].join();
    })""",
    "a growing text keeps the elements that did not change": """import("/assets/markdown.js").then((m) => {
        const box = document.createElement("div"), grow = m.growingMarkdown(box);
        grow("# a\\n\\nb");
        const first = box.firstChild;
        grow("# a\\n\\nb c\\n\\n- d");
        return box.firstChild === first && box.children.length === 3 && box.children[1].textContent === "b c";
    })""",
    "a text that grows by characters ends as the whole": """import("/assets/markdown.js").then((m) => {
        const text = "# a\\n\\n1. b\\n   - c\\n\\n```x\\n*d*\\n```\\n\\n|e|f|\\n|-|-|\\n|1|2|\\n\\n> g\\n\\n**h** `i`", grown = document.createElement("div"),
            whole = document.createElement("div"), grow = m.growingMarkdown(grown);
        for (let i = 0; i <= text.length; i++)
            grow(text.slice(0, i));
        m.growingMarkdown(whole)(text);
        return grown.isEqualNode(whole);
    })""",
    "chats that are damaged are refused": """import("/assets/tree.js").then((m) => {
        const chat = m.newChat(), a = m.addNode(chat, "root", "user", "a"), b = m.addNode(chat, a.id, "assistant", "b");
        const file = (change) => {
            const copy = JSON.parse(m.exportChats([chat]));
            change(copy.chats[0].nodes, copy.chats[0], copy);
            return JSON.stringify(copy);
        };
        const good = m.importChats(file(() => {}))[0];
        if (JSON.stringify(m.path(good).map((n) => n.content)) !== '["a","b"]')
            return "a good file";
        const faults = [(n) => { n[b.id].children.push(a.id); n[a.id].parent = b.id; }, (n) => { n[a.id].children = ["x"]; },
            (n) => { delete n.root; }, (n) => { n[a.id].role = "system"; }, (n) => { n[a.id].content = {}; },
            (n) => { n.root.children = []; }, (n) => { n.root.children.push(a.id); }, (n) => { n[a.id].children = "x"; },
            (n, c) => { c.nodes = null; }, (n, c) => { c.system = 1; }, (n, c, f) => { f.version = 2; }, (n, c, f) => { f.format = ""; },
            (n, c, f) => { f.chats = {}; }, (n, c, f) => { f.chats[0] = null; }, (n) => { n.root.children = ["__proto__"]; }];
        for (const [k, fault] of faults.entries())
            try {
                m.importChats(file(fault));
                return `fault ${k} was taken`;
            } catch (e) {
                if (!e.message)
                    return `fault ${k}: ${e}`;
            }
        return true;
    })""",
    "quantiles": """import("/assets/metrics.js").then((m) => {
        const text = "# TYPE h histogram\\nh_bucket{le=\\"1\\",a=\\"x\\\\\\"y\\"} 10\\nh_bucket{le=\\"2\\"} 30\\nh_bucket{le=\\"+Inf\\"} 40\\nh_sum 9\\nv{a=\\"b\\"} 1\\nv 2.5e0\\n";
        const all = m.parseMetrics(text), b = m.buckets(all, "h");
        return m.sum(all, "v") === 3.5 && m.sum(all, "none") === undefined && m.quantile(b, null, 0.5) === 1.5 && m.quantile(b, null, 0.25) === 1 &&
            m.quantile(b, null, 0.99) === 2 && Number.isNaN(m.quantile(b, b, 0.5)) && m.quantile(b, [[1, 10], [2, 10], [Infinity, 20]], 0.5) === 1.5;
    })""",
    "values of fields": """import("/assets/settings.js").then((m) => {
        const t = m.PARAMS.find((p) => p.name === "temperature"), k = m.PARAMS.find((p) => p.name === "top_k"),
            s = m.PARAMS.find((p) => p.name === "seed");
        return m.readParam(t, " ") === undefined && m.readParam(t, "0,5") === 0.5 && m.readParam(t, "-1") === null &&
            m.readParam(t, "x") === null && m.readParam(t, "Infinity") === null && m.readParam(k, "1.5") === null &&
            m.readParam(k, "40") === 40 && m.readParam(s, "007") === "7" && m.readParam(s, "-1") === null &&
            m.readParam(s, "9223372036854775808") === null && m.readParam(s, "9223372036854774784") === "9223372036854774784" &&
            m.bodyText({ a: 1 }, { top_k: 2, seed: "9223372036854774784" }) === '{"a":1,"top_k":2,"seed":9223372036854774784}';
    })""",
    "text cannot become markup": """(() => {
        try {
            document.createElement("div").innerHTML = "<b>x</b>";
            return "innerHTML took a text";
        } catch (e) {
            return e instanceof TypeError;
        }
    })()""",
    "a script of somebody else is not run": """new Promise((resolve) => {
        const s = document.createElement("script");
        try {
            s.src = "data:text/javascript,window.hit=1";
        } catch {
            resolve(true);
        }
        s.onload = () => resolve("it was run");
        s.onerror = () => resolve(true);
        document.head.append(s);
    })""",
}
