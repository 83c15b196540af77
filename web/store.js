// What the browser keeps: chats and preferences in localStorage, the API key in sessionStorage (gone with the tab).
// Storage may be forbidden or full: then this says so once, and the page works without it.
import { checkChat } from "./tree.js";

const CHAT = "hasten.chat.";
let complain = () => {};

export function onTrouble(fn) {
    complain = fn;
}

function put(storage, key, value) {
    try {
        window[storage].setItem(key, value);
        return true;
    } catch (e) {
        complain(e.name === "QuotaExceededError" ?
            "The browser's storage is full: this chat is not kept. Export and delete old chats." :
            "The browser keeps nothing for this page: chats are lost when it is closed.");
        return false;
    }
}

function get(storage, key) {
    try {
        return window[storage].getItem(key);
    } catch {
        return null;
    }
}

function drop(storage, key) {
    try {
        window[storage].removeItem(key);
    } catch {
        // nothing was kept
    }
}

// ---- chats -----------------------------------------------------------------------------------------------------

export function saveChat(chat) {
    return put("localStorage", CHAT + chat.id, JSON.stringify(chat));
}

export function loadChat(id) {
    try {
        return checkChat(JSON.parse(get("localStorage", CHAT + id)));
    } catch {
        return null;
    }
}

export function dropChat(id) {
    drop("localStorage", CHAT + id);
}

// All of them, the latest first. Damaged entries are left where they are.
export function loadChats() {
    const found = [];
    try {
        for (const key of Object.keys(window.localStorage))
            if (key.startsWith(CHAT)) {
                const chat = loadChat(key.slice(CHAT.length));
                if (chat)
                    found.push(chat);
            }
    } catch {
        // storage is forbidden
    }
    return found.sort((a, b) => b.updated - a.updated);
}

// fn(id) when another tab has changed a chat.
export function onOtherTab(fn) {
    window.addEventListener("storage", (e) => {
        if (e.key && e.key.startsWith(CHAT))
            fn(e.key.slice(CHAT.length));
    });
}

// ---- preferences and key ---------------------------------------------------------------------------------------

export function preference(name, otherwise) {
    try {
        const value = JSON.parse(get("localStorage", "hasten." + name));
        return value === null ? otherwise : value;
    } catch {
        return otherwise;
    }
}

export function setPreference(name, value) {
    put("localStorage", "hasten." + name, JSON.stringify(value));
}

export function apiKey() {
    return get("sessionStorage", "hasten.key") || "";
}

export function setApiKey(key) {
    if (key)
        put("sessionStorage", "hasten.key", key);
    else
        drop("sessionStorage", "hasten.key");
}
