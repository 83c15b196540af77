// Answers in Markdown as elements of the page: CommonMark's usual parts with GitHub's tables, strike-through and task
// lists. Owns finding the blocks of a text, and drawing them. inline.js does what stands within a line.
//
// What a model writes never becomes markup: elements are made one by one, text only ever becomes text nodes. Tags of
// HTML are shown as they are written. Nesting is bounded; beyond, text stays as it is.
//
// Left out on purpose: code by indentation and headings by underlining (models mean something else by both), and
// reference links. A line's end is a line's end.
import { renderInline } from "./inline.js";

const MAX_DEPTH = 12;

// No pattern here may take more than linear time on any line.
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s|$)/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:_\s*){3,}|(?:\*\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)/;
const MATH = { "$$": "$$", "\\[": "\\]" };

function indentOf(line) {
    return line.length - line.trimStart().length;
}

function isBlank(line) {
    return line.trim() === "";
}

// ---- finding blocks --------------------------------------------------------------------------------------------
// A block: { type, from, to (lines), ... }. Each finder looks at line i and gives a block or null.

function findCode(lines, i) {
    const open = FENCE.exec(lines[i]);
    if (!open)
        return null;
    const indent = indentOf(lines[i]), mark = open[1];
    const close = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}\\s*$`);
    let end = i + 1;
    while (end < lines.length && !close.test(lines[end]))
        end++;
    const body = lines.slice(i + 1, end).map((l) => l.slice(Math.min(indent, indentOf(l))));
    return { type: "code", from: i, to: Math.min(end + 1, lines.length), language: open[2].trim().split(/\s/)[0],
        text: body.join("\n") };
}

function findMath(lines, i) {
    const open = lines[i].trimStart().slice(0, 2), close = MATH[open];
    if (!close)
        return null;
    for (let end = i; end < lines.length && !isBlank(lines[end]); end++) {
        const line = lines[end].trimEnd();
        if (line.endsWith(close) && (end > i || line.trimStart().length >= 4))
            return { type: "math", from: i, to: end + 1, text: lines.slice(i, end + 1).join("\n").trim() };
    }
    return null;
}

function findHeading(lines, i) {
    const found = HEADING.exec(lines[i]);
    if (!found)
        return null;
    const text = lines[i].slice(found[0].length).trim().replace(/(?:^|\s)#+$/, "").trimEnd();
    return { type: "heading", from: i, to: i + 1, level: found[1].length, text };
}

function findRule(lines, i) {
    return RULE.test(lines[i]) ? { type: "rule", from: i, to: i + 1 } : null;
}

function findQuote(lines, i) {
    if (!QUOTE.test(lines[i]))
        return null;
    const inner = [];
    let end = i;
    for (; end < lines.length && !isBlank(lines[end]); end++) {
        if (!QUOTE.test(lines[end]) && (startsBlock(lines, end) || isBlank(inner.at(-1))))
            break;
        inner.push(lines[end].replace(QUOTE, ""));
    }
    return { type: "quote", from: i, to: end, lines: inner };
}

// One item, from its marker's line on. Models often indent by two where CommonMark asks for the marker's width: both
// belong to the item.
function findItem(lines, i, marker) {
    const width = Math.min(marker[0].length, marker[1].length + marker[2].length + 4), least = marker[1].length + 2;
    const inner = [lines[i].slice(width)];
    let end = i + 1, fence = FENCE.exec(inner[0])?.[1];
    for (; end < lines.length; end++) {
        const line = lines[end], indent = indentOf(line);
        if (!isBlank(line) && indent < least &&
            (fence || isBlank(lines[end - 1]) || startsBlock(lines, end) || ITEM.test(line)))
            break;
        inner.push(line.slice(Math.min(indent, width)));
        const mark = FENCE.exec(inner.at(-1));
        if (mark && (!fence || (mark[1].startsWith(fence) && !mark[2].trim())))
            fence = fence ? null : mark[1];
    }
    while (end > i + 1 && isBlank(lines[end - 1])) {
        end--;
        inner.pop();
    }
    return { lines: inner, to: end };
}

function findList(lines, i) {
    const first = ITEM.exec(lines[i]);
    if (!first || (lines[i].trim() === first[2] && i > 0 && !isBlank(lines[i - 1])))
        return null;
    const ordered = first[2].length > 1, items = [], indent = first[1].length;
    let at = i, loose = false, gap = false;
    for (;;) {
        const marker = at < lines.length ? ITEM.exec(lines[at]) : null;
        if (!marker || marker[1].length > indent + 1 || ordered !== marker[2].length > 1 || RULE.test(lines[at]))
            break;
        loose ||= gap;
        const item = findItem(lines, at, marker);
        items.push(item.lines);
        at = item.to;
        while (at < lines.length && isBlank(lines[at]))
            at++;
        gap = at > item.to;
    }
    let to = at;
    while (to > i && isBlank(lines[to - 1]))
        to--;
    return { type: "list", from: i, to, ordered, start: ordered ? parseInt(first[2], 10) : 1, items, loose };
}

// The cells of a row of a table: at bars that are neither escaped nor in code.
function cells(line) {
    const row = line.trim().replace(/^\|/, ""), found = [];
    let cell = "", code = 0;
    for (let k = 0; k < row.length; k++) {
        if (row[k] === "\\" && row[k + 1] === "|") {
            cell += "|";
            k++;
        } else if (row[k] === "`") {
            const run = /^`+/.exec(row.slice(k))[0].length;
            if (code === run)
                code = 0;
            else if (!code && row.indexOf("`".repeat(run), k + run) >= 0)
                code = run;
            cell += "`".repeat(run);
            k += run - 1;
        } else if (row[k] === "|" && !code) {
            found.push(cell.trim());
            cell = "";
        } else {
            cell += row[k];
        }
    }
    if (cell.trim() || !found.length)
        found.push(cell.trim());
    return found;
}

function findTable(lines, i) {
    if (i + 1 >= lines.length || !lines[i].includes("|") || !/^[\s|:-]+$/.test(lines[i + 1]))
        return null;
    const head = cells(lines[i]), marks = cells(lines[i + 1]);
    if (head.length !== marks.length || !marks.every((m) => /^:?-+:?$/.test(m)))
        return null;
    const align = marks.map((m) => (m.endsWith(":") ? (m.startsWith(":") ? "center" : "right") : ""));
    const rows = [];
    let end = i + 2;
    for (; end < lines.length && lines[end].includes("|"); end++) {
        const row = cells(lines[end]);
        rows.push(head.map((_, k) => row[k] || ""));
    }
    return { type: "table", from: i, to: end, head, align, rows };
}

const FINDERS = [findCode, findMath, findHeading, findRule, findQuote, findList, findTable];

// Whether line i ends a paragraph above it. A list ends one only when it begins with a dash, or with 1.
function startsBlock(lines, i) {
    const item = ITEM.exec(lines[i]);
    return FENCE.test(lines[i]) || HEADING.test(lines[i]) || RULE.test(lines[i]) || QUOTE.test(lines[i]) ||
        (item !== null && lines[i].trim() !== item[2] && (item[2].length === 1 || parseInt(item[2], 10) === 1)) ||
        findTable(lines, i) !== null;
}

export function findBlocks(lines) {
    const blocks = [];
    for (let i = 0; i < lines.length;) {
        if (isBlank(lines[i])) {
            i++;
            continue;
        }
        let block = null;
        for (let k = 0; k < FINDERS.length && !block; k++)
            block = FINDERS[k](lines, i);
        if (!block) {
            let end = i + 1;
            while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines, end))
                end++;
            const text = lines.slice(i, end).map((l) => l.trimStart()).join("\n").trimEnd();
            block = { type: "text", from: i, to: end, text };
        }
        blocks.push(block);
        i = block.to;
    }
    return blocks;
}

// ---- drawing them ----------------------------------------------------------------------------------------------

function element(name, className, ...children) {
    const e = document.createElement(name);
    if (className)
        e.className = className;
    e.append(...children);
    return e;
}

function drawCode(block) {
    const label = block.language.replace(/[^\w+#.-]/g, "").slice(0, 24);
    const copy = element("button", "copy-code", "Copy");
    copy.type = "button";
    copy.setAttribute("aria-label", label ? `Copy this ${label} code` : "Copy this code");
    const pre = element("pre", "", element("code", "", block.text));
    pre.tabIndex = 0; // so that the arrow keys scroll it
    return element("div", "code", element("div", "code-head", element("span", "", label || "text"), copy), pre);
}

function drawItem(lines, loose, depth) {
    const item = document.createElement("li"), task = /^\[([ xX])\]\s+/.exec(lines[0]);
    if (task) {
        const box = document.createElement("input");
        box.type = "checkbox";
        box.disabled = true;
        box.checked = task[1] !== " ";
        box.setAttribute("aria-label", box.checked ? "done" : "to do");
        item.className = "task";
        item.append(box, " ");
        lines = [lines[0].slice(task[0].length), ...lines.slice(1)];
    }
    const blocks = findBlocks(lines);
    for (const [k, block] of blocks.entries())
        if (block.type === "text" && (!loose || task) && blocks[k - 1]?.type !== "text")
            item.append(renderInline(block.text));
        else
            item.append(draw(block, depth + 1));
    return item;
}

function drawList(block, depth) {
    const list = document.createElement(block.ordered ? "ol" : "ul");
    if (block.ordered && block.start !== 1)
        list.start = block.start;
    for (const item of block.items)
        list.append(drawItem(item, block.loose, depth));
    return list;
}

function drawRow(texts, name, align) {
    return element("tr", "", ...texts.map((text, k) => {
        const cell = element(name, align[k] && `align-${align[k]}`, renderInline(text));
        if (name === "th")
            cell.scope = "col";
        return cell;
    }));
}

function drawTable(block) {
    const table = element("table", "", element("thead", "", drawRow(block.head, "th", block.align)),
        element("tbody", "", ...block.rows.map((row) => drawRow(row, "td", block.align))));
    const frame = element("div", "table", table);
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Table");
    return frame;
}

function draw(block, depth) {
    if (depth > MAX_DEPTH)
        return element("p", "", block.text || (block.lines || block.items?.flat() || block.head).join("\n"));
    switch (block.type) {
    case "code":
        return drawCode(block);
    case "math":
        return element("p", "math", block.text);
    case "heading": // the page's own headings stand above
        return element(`h${Math.min(block.level + 2, 6)}`, `level-${block.level}`, renderInline(block.text));
    case "rule":
        return document.createElement("hr");
    case "quote":
        return element("blockquote", "", ...findBlocks(block.lines).map((b) => draw(b, depth + 1)));
    case "list":
        return drawList(block, depth);
    case "table":
        return drawTable(block);
    default:
        return element("p", "", renderInline(block.text));
    }
}

// Lines, with tabs that indent (outside fenced code) as four spaces.
function linesOf(text) {
    let fence = null;
    return text.replace(/\r\n?/g, "\n").split("\n").map((line) => {
        const mark = FENCE.exec(line.trimStart());
        const inside = fence !== null;
        if (mark && (!inside || (mark[1].startsWith(fence) && !mark[2].trim())))
            fence = inside ? null : mark[1];
        return inside ? line : line.replace(/^[ \t]+/, (blank) => blank.replaceAll("\t", "    "));
    });
}

// Keeps `parent` showing a text that grows: blocks that did not change keep their elements, so that a selection stands
// and a long answer costs no more at its end than at its start. Returns update(text).
export function growingMarkdown(parent) {
    let shown = [];
    return (text) => {
        const lines = linesOf(text);
        const next = findBlocks(lines).map((b) => ({ block: b, source: lines.slice(b.from, b.to).join("\n") }));
        let same = 0;
        while (same < shown.length && same < next.length && shown[same].source === next[same].source &&
            shown[same].block.type === next[same].block.type)
            same++;
        for (const old of shown.slice(same))
            old.element.remove();
        for (const [k, one] of next.entries()) {
            one.element = k < same ? shown[k].element : draw(one.block, 0);
            if (k >= same)
                parent.append(one.element);
        }
        shown = next;
    };
}
