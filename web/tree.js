// A chat as a tree of messages: plain data, no page, no storage.
//
// A message is never changed once it is answered: editing or regenerating adds a sibling, and each message remembers
// which of its children is shown. The chat that one reads is the path from the root along those picks.
//
// chat = { id, title, named, created, updated, system, model, params, nodes }
// node = { id, parent, role, content, children: [id], pick, created } and for answers
//        { reasoning, model, usage, receipt, finish, error, times }

export const ROOT = "root";
const ROLES = ["user", "assistant"];
const MAX_NODES = 100000;
const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

export function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export function newChat(from = {}) {
    const now = Date.now();
    return {
        id: newId(), title: "", named: false, created: now, updated: now,
        system: from.system || "", model: from.model || "", params: { ...from.params },
        nodes: { [ROOT]: { id: ROOT, parent: null, role: ROOT, content: "", children: [], pick: 0, created: now } },
    };
}

export function addNode(chat, parent, role, content, more = {}) {
    const node = { id: newId(), parent, role, content, children: [], pick: 0, created: Date.now(), ...more };
    const above = chat.nodes[parent];
    chat.nodes[node.id] = node;
    above.pick = above.children.push(node.id) - 1;
    chat.updated = node.created;
    if (!chat.named && role === "user" && parent === ROOT)
        chat.title = titleOf(content);
    return node;
}

export function titleOf(text) {
    const line = text.trim().split(/\s*\n/)[0].replace(/\s+/g, " ");
    const chars = Array.from(line);
    return chars.length > 60 ? chars.slice(0, 59).join("").trimEnd() + "…" : line;
}

// The messages that are shown, from the first question on.
export function path(chat) {
    const found = [];
    for (let node = chat.nodes[ROOT]; node.children.length;) {
        node = chat.nodes[node.children[node.pick]];
        found.push(node);
    }
    return found;
}

export function siblings(chat, node) {
    const all = chat.nodes[node.parent].children;
    return { all, index: all.indexOf(node.id) };
}

// Shows the sibling `step` places on; the node that is shown then, or null at an end.
export function move(chat, node, step) {
    const { all, index } = siblings(chat, node);
    const next = index + step;
    if (next < 0 || next >= all.length)
        return null;
    chat.nodes[node.parent].pick = next;
    return chat.nodes[all[next]];
}

// Takes away a message that has no children.
export function dropLeaf(chat, node) {
    const above = chat.nodes[node.parent];
    above.children.splice(above.children.indexOf(node.id), 1);
    above.pick = Math.max(0, Math.min(above.pick, above.children.length - 1));
    delete chat.nodes[node.id];
}

// What the model is asked with: the messages from the first down to `node`, the system prompt before them.
export function messagesUpTo(chat, node) {
    const messages = [];
    for (let n = node; n.id !== ROOT; n = chat.nodes[n.parent])
        messages.unshift({ role: n.role, content: n.content });
    if (chat.system.trim())
        messages.unshift({ role: "system", content: chat.system });
    return messages;
}

// ---- import and export -----------------------------------------------------------------------------------------

export const FORMAT = "hasten-chats";

export function exportChats(chats) {
    return JSON.stringify({ format: FORMAT, version: 1, exported: new Date().toISOString(), chats }, null, 1) + "\n";
}

function wrong(what) {
    throw new Error(what);
}

function text(value, what, otherwise = "") {
    if (value === undefined || value === null)
        return otherwise;
    return typeof value === "string" ? value : wrong(`${what}: expected a text`);
}

function number(value, otherwise) {
    return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
}

function plain(value) { // an object of JSON that is only ever shown
    return value && typeof value === "object" && !Array.isArray(value) ? value : undefined;
}

function checkNode(id, node, nodes) {
    if (!plain(node) || !ID.test(id))
        wrong(`message ${id}: expected an object`);
    const children = Array.isArray(node.children) ? node.children : wrong(`message ${id}: expected children`);
    for (const child of children)
        if (typeof child !== "string" || !Object.hasOwn(nodes, child) || nodes[child]?.parent !== id)
            wrong(`message ${id}: a child that is not its own`);
    if (new Set(children).size !== children.length)
        wrong(`message ${id}: a child twice`);
    if (id === ROOT ? node.role !== ROOT : !ROLES.includes(node.role))
        wrong(`message ${id}: expected the role user or assistant`);
    const pick = Number.isInteger(node.pick) && node.pick >= 0 && node.pick < children.length ? node.pick : 0;
    const kept = { id, parent: id === ROOT ? null : node.parent, role: node.role, children: [...children], pick,
        content: text(node.content, `message ${id}`), created: number(node.created, Date.now()) };
    if (node.role !== "assistant")
        return kept;
    return { ...kept, reasoning: text(node.reasoning, `message ${id}`), model: text(node.model, `message ${id}`),
        finish: text(node.finish, `message ${id}`), error: plain(node.error), usage: plain(node.usage),
        receipt: plain(node.receipt), times: plain(node.times) };
}

// Every message hangs on the root: no cycles, nothing adrift.
function checkReach(nodes) {
    const todo = [ROOT], seen = new Set();
    while (todo.length) {
        const id = todo.pop();
        if (seen.has(id))
            wrong(`message ${id}: in two places`);
        seen.add(id);
        todo.push(...nodes[id].children);
    }
    if (seen.size !== Object.keys(nodes).length)
        wrong("messages that hang on nothing");
}

// A chat as it comes from a file or from storage, every field checked; throws an Error that says what is wrong.
export function checkChat(given) {
    if (!plain(given) || !plain(given.nodes) || !Object.hasOwn(given.nodes, ROOT))
        wrong("expected a chat with messages");
    const ids = Object.keys(given.nodes);
    if (ids.length > MAX_NODES)
        wrong(`more than ${MAX_NODES} messages`);
    const nodes = {};
    for (const id of ids)
        nodes[id] = checkNode(id, given.nodes[id], given.nodes);
    checkReach(nodes);
    const params = {};
    for (const [name, value] of Object.entries(plain(given.params) || {}))
        if ((typeof value === "number" && Number.isFinite(value)) || (name === "seed" && /^\d{1,19}$/.test(value)))
            params[name] = value;
    return { id: ID.test(given.id) ? given.id : newId(), title: text(given.title, "title").slice(0, 200),
        named: given.named === true, created: number(given.created, Date.now()),
        updated: number(given.updated, Date.now()), system: text(given.system, "system prompt"),
        model: text(given.model, "model"), params, nodes };
}

// The chats of an exported file; throws an Error.
export function importChats(source) {
    let file;
    try {
        file = JSON.parse(source);
    } catch {
        wrong("it is not JSON");
    }
    if (!plain(file) || file.format !== FORMAT || !Array.isArray(file.chats))
        wrong("it holds no chats of Hasten");
    if (file.version !== 1)
        wrong(`its version is ${JSON.stringify(file.version)} (expected 1)`);
    return file.chats.map(checkChat);
}
