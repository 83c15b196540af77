// The page of `hasten serve`: puts its parts together. Owns which chat is open, the list of chats, which view is shown,
// the panels, the keys. Addresses: #chat, #chat-ID, #monitor.
import { ChatView } from "./chat.js";
import { Monitor } from "./monitor.js";
import { $, ask, closeNotice, make, notice, plural, saveFile, say, when, wireParts } from "./parts.js";
import { Settings } from "./settings.js";
import { dropChat, loadChat, loadChats, onOtherTab, onTrouble, preference, saveChat, setPreference } from "./store.js";
import { exportChats, importChats, newChat, newId, path } from "./tree.js";

const narrow = window.matchMedia("(max-width: 820px)");
const middling = window.matchMedia("(max-width: 1180px)"); // settings lie over the chat
const chats = new Map();
let open = null; // the chat on the page
let settings = null, view = null, monitor = null;

const isKept = (chat) => Object.keys(chat.nodes).length > 1;

// ---- chats -----------------------------------------------------------------------------------------------------

function openChat(chat, focus = true) {
    open = chat;
    chats.set(chat.id, chat);
    settings.show();
    view.open();
    showTitle();
    showList();
    showModel();
    showView("chat");
    const address = isKept(chat) ? `#chat-${chat.id}` : "#chat";
    if (location.hash !== address)
        history.pushState(null, "", address);
    if (focus && !narrow.matches)
        $("entry").focus();
    if (narrow.matches)
        showSide(false);
}

function startChat() {
    openChat(newChat(Settings.last()));
    say("New chat.");
}

function showTitle() {
    const title = open.title || "New chat";
    $("title").textContent = title;
    $("rename").hidden = !isKept(open);
    document.title = $("monitor-view").hidden ? `${title} – Hasten` : "Monitor – Hasten";
}

function sign(text, what, title, fn) {
    const label = `${what} ${title}`;
    return make("button", { class: "icon", type: "button", "aria-label": label, title: what, onclick: fn }, text);
}

function showList() {
    const kept = [...chats.values()].filter(isKept).sort((a, b) => b.updated - a.updated);
    $("export").disabled = !kept.length;
    $("chats").replaceChildren(...kept.map((chat) => {
        const title = chat.title || "Chat", current = chat === open ? "true" : undefined;
        const link = make("a", { href: `#chat-${chat.id}`, "aria-current": current },
            make("span", { class: "chat-title" }, title),
            make("span", { class: "chat-when" }, view.answers.has(chat.id) ? "answering" : when(chat.updated)));
        return make("li", {}, link,
            sign("↧", "Export", title, () => saveFile("hasten-chat.json", exportChats([chat]))),
            sign("✕", "Delete", title, () => deleteChat(chat)));
    }));
}

async function deleteChat(chat) {
    if (!await ask({ title: "Delete this chat?", text: chat.title, yes: "Delete", danger: true }))
        return;
    view.answers.get(chat.id)?.stop();
    chats.delete(chat.id);
    dropChat(chat.id);
    if (chat === open)
        startChat();
    showList();
    $("new-chat").focus();
    say("Deleted.");
}

async function renameChat() {
    const title = await ask({ title: "Name of this chat", yes: "Rename", value: open.title });
    if (!title)
        return;
    open.title = title;
    open.named = true;
    save(open);
    showTitle();
    showList();
}

function save(chat) {
    if (chats.get(chat.id) === chat && isKept(chat))
        saveChat(chat);
}

async function importFile(file) {
    try {
        const found = importChats(await file.text()).filter(isKept);
        for (const chat of found) {
            if (chats.has(chat.id))
                chat.id = newId();
            chats.set(chat.id, chat);
            saveChat(chat);
        }
        showList();
        if (found.length)
            openChat(found[0]);
        say(`Imported ${plural(found.length, "chat")}.`);
    } catch (e) {
        notice(`${file.name} was not imported: ${e.message}.`);
    }
}

// ---- models ----------------------------------------------------------------------------------------------------

async function loadModels() {
    try {
        await settings.loadModels();
        closeNotice();
        return true;
    } catch (e) {
        if (e.status === 401) {
            needKey();
        } else if (e.status === 503 && e.code === "loading") {
            notice("The server is loading its model.");
            setTimeout(loadModels, 1000);
        } else {
            notice(e.status ? e.message : "The server does not answer.", loadModels);
        }
        showModel();
        return false;
    }
}

async function modelFor() {
    if (!settings.model())
        await loadModels();
    return settings.model()?.id ?? open.model;
}

function showModel() {
    const model = settings.model();
    $("empty-model").textContent = model ? model.id : "No model yet";
    $("empty-about").textContent = Settings.aboutModel(model);
}

function needKey() {
    showSettings(true);
    notice("The server wants an API key that it knows: see Settings.");
    $("key").focus();
}

// ---- views and panels ------------------------------------------------------------------------------------------

function showTab() {
    $("tab-chat").href = isKept(open) ? `#chat-${open.id}` : "#chat";
}

function showView(name) {
    const isMonitor = name === "monitor";
    $("chat-view").hidden = isMonitor;
    $("monitor-view").hidden = !isMonitor;
    document.body.dataset.view = name;
    for (const [id, on] of [["tab-chat", !isMonitor], ["tab-monitor", isMonitor]])
        if (on)
            $(id).setAttribute("aria-current", "page");
        else
            $(id).removeAttribute("aria-current");
    showTab();
    monitor.show(isMonitor);
    showTitle();
}

function route() {
    const id = location.hash.startsWith("#chat-") ? location.hash.slice(6) : null;
    if (location.hash === "#monitor")
        showView("monitor");
    else if (id && id !== open.id && chats.has(id))
        openChat(chats.get(id));
    else if (id === null && isKept(open) && location.hash === "#chat")
        startChat();
    else
        showView("chat");
}

// On a narrow page panels lie over it: what is behind them is out of reach.
function showVeil() {
    const side = narrow.matches && document.body.classList.contains("side-open");
    const over = (narrow.matches || middling.matches) && !$("settings").hidden;
    $("veil").hidden = !side && !over;
    $("page").inert = side || over;
    $("side").inert = (narrow.matches && !side) || over;
}

function showSide(on) {
    const was = document.body.classList.contains("side-open");
    document.body.classList.toggle("side-open", on);
    $("open-side").setAttribute("aria-expanded", String(on));
    showVeil();
    if (on && narrow.matches)
        $("close-side").focus();
    else if (was && narrow.matches)
        $("open-side").focus();
}

function showSettings(on) {
    const was = !$("settings").hidden;
    $("settings").hidden = !on;
    document.body.classList.toggle("settings-open", on);
    $("open-settings").setAttribute("aria-expanded", String(on));
    if (!middling.matches)
        setPreference("settings", on);
    showVeil();
    if (on && !was)
        $("close-settings").focus();
    else if (!on && was)
        $("open-settings").focus();
}

const THEMES = ["system", "light", "dark"];
function showTheme(theme) {
    if (theme === "system")
        delete document.documentElement.dataset.theme;
    else
        document.documentElement.dataset.theme = theme;
    const label = theme === "system" ? "Colours: as the system" : `Colours: ${theme}`;
    $("theme").setAttribute("aria-label", label);
    $("theme").title = label;
    $("theme").textContent = { system: "◐", light: "○", dark: "●" }[theme];
}

function nextTheme() {
    const now = THEMES.indexOf(document.documentElement.dataset.theme || "system");
    const theme = THEMES[(now + 1) % THEMES.length];
    setPreference("theme", theme);
    showTheme(theme);
    say($("theme").title);
}

// ---- keys ------------------------------------------------------------------------------------------------------

const lastOf = (role) => path(open).findLast((n) => n.role === role);
const branch = (step) => {
    const node = path(open).findLast((n) => open.nodes[n.parent].children.length > 1);
    if (node)
        view.move(node, step);
};
const KEYS = {
    "/": ["to the message", () => $("entry").focus()],
    n: ["new chat", startChat],
    e: ["edit your last message", () => view.views.get(lastOf("user")?.id)?.edit()],
    r: ["regenerate the last answer", () => {
        if (lastOf("assistant") && !view.answers.has(open.id))
            view.again(lastOf("assistant"));
    }],
    "[": ["version before", () => branch(-1)],
    "]": ["version after", () => branch(1)],
    m: ["monitor, or back to the chat", () => {
        location.hash = $("monitor-view").hidden ? "#monitor" : $("tab-chat").getAttribute("href");
    }],
    s: ["settings", () => showSettings($("settings").hidden)],
    t: ["colours", nextTheme],
    "?": ["these keys", showKeys],
};
const ALWAYS = [["Enter", "send"], ["Shift+Enter", "a new line"], ["Esc", "stop the answer; close a panel"],
    ["↑", "edit your last message, from an empty field"], ["Ctrl+Enter", "send an edited message"]];

function showKeys() {
    const caps = (k) => k.split("+").map((part) => make("kbd", {}, part));
    const key = (k, what) => [make("dt", {}, ...caps(k)), make("dd", {}, what)];
    $("keys-list").replaceChildren(...ALWAYS.flatMap(([k, what]) => key(k, what)),
        ...Object.entries(KEYS).flatMap(([k, [what]]) => key(k, what)));
    $("single-keys").checked = preference("keys", true);
    $("keys").showModal();
}

function escape() {
    if (narrow.matches && document.body.classList.contains("side-open"))
        showSide(false);
    else if (middling.matches && !$("settings").hidden)
        showSettings(false);
    else if (view.answers.has(open.id))
        view.stop();
    else if (!$("notice").hidden)
        closeNotice();
}

function onKey(e) {
    if (e.defaultPrevented || e.isComposing || document.querySelector("dialog[open]"))
        return;
    if (e.key === "Escape") {
        escape();
        return;
    }
    const typing = e.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || e.ctrlKey || e.metaKey || e.altKey || !Object.hasOwn(KEYS, e.key) || !preference("keys", true))
        return;
    e.preventDefault();
    KEYS[e.key][1]();
}

// ---- beginning -------------------------------------------------------------------------------------------------

function wire() {
    const on = (id, fn, what = "click") => $(id).addEventListener(what, fn);
    on("new-chat", startChat);
    on("rename", renameChat);
    on("import", () => $("import-file").click());
    on("import-file", () => {
        const file = $("import-file").files[0];
        $("import-file").value = "";
        if (file)
            importFile(file);
    }, "change");
    on("export", () => saveFile("hasten-chats.json", exportChats([...chats.values()].filter(isKept))));
    on("theme", nextTheme);
    on("shortcuts", showKeys);
    on("single-keys", () => setPreference("keys", $("single-keys").checked), "change");
    on("open-side", () => showSide(true));
    on("close-side", () => showSide(false));
    on("open-settings", () => showSettings($("settings").hidden));
    on("close-settings", () => showSettings(false));
    on("veil", () => {
        showSide(false);
        if (middling.matches)
            showSettings(false);
    });
    document.addEventListener("keydown", onKey);
    window.addEventListener("hashchange", route);
    window.addEventListener("popstate", route);
    window.addEventListener("pagehide", () => view.answers.forEach((a) => save(a.chat)));
    narrow.addEventListener("change", showVeil);
    middling.addEventListener("change", showVeil);
}

function otherTab(id) {
    const chat = loadChat(id);
    if (view.answers.has(id))
        return; // ours goes on, and is saved over it
    if (chat)
        chats.set(id, chat);
    else
        chats.delete(id);
    if (open.id === id && chat) {
        open = chat;
        view.open();
    }
    showList();
}

function begin() {
    wireParts();
    onTrouble(notice);
    monitor = new Monitor();
    open = newChat(Settings.last());
    chats.set(open.id, open);
    settings = new Settings({
        chat: () => open,
        changed: () => {
            save(open);
            showModel();
        },
        keyChanged: loadModels,
        modelsChanged: showModel,
    });
    view = new ChatView({
        chat: () => open,
        save,
        listChanged: () => {
            showList();
            showTitle();
            if (isKept(open) && location.hash !== "#monitor")
                history.replaceState(null, "", `#chat-${open.id}`);
            showTab();
        },
        needKey,
        modelFor,
        lost: () => notice("The server does not answer.", loadModels),
        useSeed: (seed) => {
            settings.set("params", { ...open.params, seed });
            settings.show();
            showSettings(true);
            $("param-seed").focus();
        },
    });
    for (const chat of loadChats())
        chats.set(chat.id, chat);
    wire();
    onOtherTab(otherTab);
    showTheme(document.documentElement.dataset.theme || "system");
    if (preference("settings", false) && !middling.matches)
        showSettings(true);
    const id = location.hash.slice("#chat-".length);
    if (location.hash.startsWith("#chat-") && chats.has(id))
        openChat(chats.get(id), false);
    settings.show();
    view.open();
    showList();
    route();
    showVeil();
    loadModels();
    if (!narrow.matches && location.hash !== "#monitor")
        $("entry").focus();
    document.documentElement.dataset.ready = "";
}

begin();
