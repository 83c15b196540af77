// Small things that the modules of the page share: elements, words for numbers, dialogs, the voice for screen readers.

export const $ = (id) => document.getElementById(id);

// make("button", { class: "icon", type: "button", "aria-label": "Copy", onclick: fn }, "text", element...)
export function make(name, attributes = {}, ...children) {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false)
            continue;
        if (key.startsWith("on"))
            e.addEventListener(key.slice(2), value);
        else if (value === true)
            e.setAttribute(key, "");
        else
            e.setAttribute(key === "class" ? "class" : key, String(value));
    }
    e.append(...children.filter((c) => c !== null && c !== undefined));
    return e;
}

// ---- words -----------------------------------------------------------------------------------------------------

const grouped = new Intl.NumberFormat("en");

export function count(n) {
    return Number.isFinite(n) ? grouped.format(Math.round(n)) : "–";
}

export function decimals(v) {
    return !Number.isFinite(v) ? "–" : v === 0 || v >= 100 ? count(v) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
}

export function duration(ms) {
    if (!Number.isFinite(ms))
        return "–";
    if (ms < 1000)
        return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    if (ms < 60000)
        return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
    return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export function plural(n, one, many = one + "s") {
    return `${count(n)} ${n === 1 ? one : many}`;
}

// "today 14:03", "3 Nov": when a chat was used last.
export function when(ms) {
    const then = new Date(ms), now = new Date();
    if (then.toDateString() === now.toDateString())
        return then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    return then.toLocaleDateString([], { day: "numeric", month: "short",
        year: then.getFullYear() === now.getFullYear() ? undefined : "numeric" });
}

// ---- the voice -------------------------------------------------------------------------------------------------

// Says a text to screen readers. Texts that come close together are said together.
let saying = [];
export function say(text) {
    saying.push(text);
    if (saying.length === 1)
        setTimeout(() => {
            $("status").textContent = saying.join(" ");
            saying = [];
        }, 150);
}

// ---- notices and dialogs ---------------------------------------------------------------------------------------

let again = null;
export function notice(text, retry = null) {
    $("notice-text").textContent = text;
    $("notice-again").hidden = !retry;
    again = retry;
    $("notice").hidden = false;
}

export function closeNotice() {
    $("notice").hidden = true;
    again = null;
}

export function wireParts() {
    $("ask-no").addEventListener("click", () => $("ask").close("no"));
    $("notice-close").addEventListener("click", closeNotice);
    $("notice-again").addEventListener("click", () => {
        const retry = again;
        closeNotice();
        retry?.();
    });
}

// Asks; resolves to true or false, or with `value` to the text that was entered or null.
export function ask({ title, text = "", yes = "OK", danger = false, value = null }) {
    const dialog = $("ask"), before = document.activeElement;
    $("ask-title").textContent = title;
    $("ask-text").textContent = text;
    $("ask-text").hidden = !text;
    $("ask-yes").textContent = yes;
    $("ask-yes").classList.toggle("danger", danger);
    $("ask-field").hidden = value === null;
    $("ask-input").value = value ?? "";
    dialog.returnValue = "";
    dialog.showModal();
    (value === null ? $(danger ? "ask-no" : "ask-yes") : $("ask-input")).focus();
    if (value !== null)
        $("ask-input").select();
    return new Promise((resolve) => {
        dialog.addEventListener("close", () => {
            const agreed = dialog.returnValue === "yes";
            before?.focus?.();
            resolve(value === null ? agreed : agreed ? $("ask-input").value.trim() : null);
        }, { once: true });
    });
}

// ---- clipboard and files ---------------------------------------------------------------------------------------

// The clipboard of the browser needs a secure page; elsewhere a selection is copied.
export async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        const area = make("textarea", { class: "hidden", "aria-hidden": "true", readonly: true });
        const before = document.activeElement;
        area.value = text;
        document.body.append(area);
        area.select();
        const done = document.execCommand("copy");
        area.remove();
        before?.focus?.();
        return done;
    }
}

// Copies, and lets the button say so for a while.
export async function copyWith(button, text) {
    const label = button.textContent, done = await copy(text);
    button.textContent = done ? "Copied" : "Failed";
    say(done ? "Copied." : "The browser did not let the text be copied.");
    setTimeout(() => {
        button.textContent = label;
    }, 1500);
}

export function saveFile(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const link = make("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
