// The server as the page uses it: requests with the key, errors as one kind, and the events of a streamed answer.
// Addresses are relative, so that the page works behind a proxy under any path.
import { apiKey } from "./store.js";

const MAX_EVENT = 16 << 20; // characters without an end: not a stream of events

// error.status: HTTP's; 0 when the server was not reached, -1 when a stream that had begun says so. error.code,
// error.param: as the server says them.
export class ApiError extends Error {
    constructor(message, status, more = {}) {
        super(message);
        this.status = status;
        this.code = more.code || "";
        this.param = more.param || "";
        this.retryAfter = more.retryAfter || 0;
    }
}

async function failure(response) {
    let said = null;
    try {
        said = (await response.json()).error;
    } catch {
        // no JSON
    }
    const message = said && typeof said.message === "string" ? said.message :
        `The server answered ${response.status} ${response.statusText}`.trimEnd() + ".";
    return new ApiError(message, response.status, { code: said?.code, param: said?.param,
        retryAfter: Number(response.headers.get("Retry-After")) || 0 });
}

async function request(path, options = {}) {
    const headers = new Headers(options.headers);
    const key = apiKey();
    if (key)
        headers.set("Authorization", `Bearer ${key}`);
    let response;
    try {
        response = await fetch(path, { cache: "no-store", ...options, headers });
    } catch (e) {
        if (e.name === "AbortError")
            throw e;
        throw new ApiError(e.name === "TypeError" && key && /[^\x20-\x7e]/.test(key) ?
            "The API key holds characters that cannot be sent." : "The server does not answer.", 0);
    }
    if (!response.ok)
        throw await failure(response);
    return response;
}

export async function getJson(path, signal) {
    return (await request(path, { signal })).json();
}

export async function getText(path, signal) {
    return (await request(path, { signal })).text();
}

// ---- server-sent events ----------------------------------------------------------------------------------------

// Splits text as it comes into the data of events (HTML, section 9.2): fn(data) for each.
export function eventParser(fn) {
    let rest = "", data = [];
    const line = (text) => {
        if (text === "") {
            if (data.length)
                fn(data.join("\n"));
            data = [];
        } else if (text.startsWith("data:")) {
            data.push(text.slice(text[5] === " " ? 6 : 5));
        }
    };
    return (text) => {
        rest += text;
        let from = 0;
        for (;;) {
            const end = rest.slice(from).search(/\r\n|\n|\r(?=[^])/); // a \r at the end may be half of a pair
            if (end < 0)
                break;
            line(rest.slice(from, from + end));
            from += end + (rest.startsWith("\r\n", from + end) ? 2 : 1);
        }
        rest = rest.slice(from);
        if (rest.length > MAX_EVENT)
            throw new ApiError("The server's stream has an event without an end.", 0);
    };
}

// Whole numbers beyond what JavaScript holds (seeds) stay as the digits that came; browsers that do not tell them get
// null, since a number that is nearly a seed is none.
function parseJson(text) {
    return JSON.parse(text, (key, value, context) => {
        if (!Number.isInteger(value) || Number.isSafeInteger(value))
            return value;
        return context?.source ?? null;
    });
}

// Asks for an answer; body is JSON's text. fn(chunk) for each chunk, parsed. Resolves when the stream is over; rejects
// with an ApiError, or an AbortError after signal.
export async function streamChat(body, signal, fn) {
    const response = await request("v1/chat/completions", { method: "POST", signal,
        headers: { "Content-Type": "application/json", Accept: "text/event-stream" }, body });
    const reader = response.body.getReader(), decoder = new TextDecoder();
    let done = false;
    const parse = eventParser((data) => {
        if (data === "[DONE]") {
            done = true;
            return;
        }
        let chunk;
        try {
            chunk = parseJson(data);
        } catch {
            throw new ApiError("The server sent an event that is not JSON.", 0);
        }
        if (chunk.error)
            throw new ApiError(String(chunk.error.message || "The answer failed."), -1, chunk.error);
        fn(chunk);
    });
    try {
        while (!done) {
            const part = await reader.read();
            if (part.done)
                break;
            parse(decoder.decode(part.value, { stream: true }));
        }
    } catch (e) {
        if (e instanceof ApiError || e.name === "AbortError")
            throw e;
        throw new ApiError("The connection broke before the answer ended.", 0);
    } finally {
        reader.cancel().catch(() => {});
    }
    if (!done)
        throw new ApiError("The connection ended before the answer did.", 0);
}
