// One answer while it comes: asks the server, fills the message, counts. Knows nothing of the page's elements.
import { ApiError, streamChat } from "./api.js";
import { messagesUpTo } from "./tree.js";
import { bodyText } from "./settings.js";

const OPEN = "<think>", CLOSE = "</think>";
const WINDOW_MS = 2000; // over which speed is shown

// Thoughts that came within the text, as models write them when the server does not split them off.
export function splitThoughts(text) {
    const start = text.trimStart();
    if (!start.startsWith("<"))
        return { reasoning: "", content: text };
    if (!start.startsWith(OPEN))
        return OPEN.startsWith(start) ? { reasoning: "", content: "" } : { reasoning: "", content: text };
    const end = start.indexOf(CLOSE);
    if (end < 0)
        return { reasoning: start.slice(OPEN.length).trimStart(), content: "" };
    return { reasoning: start.slice(OPEN.length, end).trim(), content: start.slice(end + CLOSE.length).trimStart() };
}

export class Answer {
    // node: an empty message of the assistant. changed() after each piece; ended() once.
    constructor(chat, node, changed, ended) {
        this.chat = chat;
        this.node = node;
        this.changed = changed;
        this.ended = ended;
        this.control = new AbortController();
        this.raw = "";
        this.thoughts = "";
        this.began = performance.now();
        this.first = 0; // when the first piece came
        this.thought = 0; // when the first piece of the answer itself came
        this.marks = []; // times of the last pieces
        this.pieces = 0;
        this.progress = null;
        this.over = false;
    }

    stop() {
        this.control.abort();
    }

    take(chunk) {
        const now = performance.now(), { node } = this;
        if (chunk.model)
            node.model = chunk.model;
        if (chunk.prompt_progress)
            this.progress = chunk.prompt_progress;
        if (chunk.usage)
            node.usage = chunk.usage;
        if (chunk.receipt || chunk.warnings)
            node.receipt = { ...node.receipt, ...chunk.receipt, ...(chunk.warnings && { warnings: chunk.warnings }) };
        const choice = chunk.choices?.[0], delta = choice?.delta || {};
        const thoughts = delta.reasoning_content ?? delta.reasoning, text = delta.content;
        if (typeof thoughts === "string")
            this.thoughts += thoughts;
        if (typeof text === "string")
            this.raw += text;
        if (thoughts || text)
            this.count(now);
        const split = splitThoughts(this.raw);
        node.reasoning = this.thoughts || split.reasoning;
        node.content = this.thoughts ? this.raw.trimStart() : split.content;
        if (node.content && node.reasoning && !this.thought)
            this.thought = now;
        if (choice?.finish_reason)
            node.finish = choice.finish_reason;
        this.changed(this);
    }

    count(now) {
        this.first ||= now;
        this.pieces++;
        this.marks.push(now);
        while (this.marks.length > 2 && this.marks[0] < now - WINDOW_MS)
            this.marks.shift();
    }

    // Pieces a second just now; a piece is about a token. 0: not known yet.
    rate(now = performance.now()) {
        const n = this.marks.length, first = this.marks[0];
        const span = n < 2 ? 0 : Math.max(this.marks[n - 1], Math.min(now, first + WINDOW_MS)) - first;
        return n < 3 || span < 50 ? 0 : (1000 * (n - 1)) / span;
    }

    async run(model, params) {
        const { node, chat } = this;
        node.model = model;
        const body = { model, messages: messagesUpTo(chat, chat.nodes[node.parent]), stream: true,
            stream_options: { include_usage: true }, receipt: true, return_progress: true };
        try {
            await streamChat(bodyText(body, params), this.control.signal, (chunk) => this.take(chunk));
        } catch (e) {
            if (e.name === "AbortError")
                node.finish = "stopped";
            else if (e instanceof ApiError)
                node.error = { message: e.message, status: e.status, code: e.code, param: e.param,
                    retryAfter: e.retryAfter };
            else
                node.error = { message: `The page failed: ${e.message}`, status: 0 };
        }
        if (!this.thoughts && !node.content && this.raw && !node.reasoning)
            node.content = this.raw; // it only looked as if a thought began
        const now = performance.now();
        node.times = { total: now - this.began, pieces: this.pieces };
        if (this.first) {
            node.times.first = this.first - this.began;
            node.times.decode = (this.marks.at(-1) ?? now) - this.first;
        }
        if (node.reasoning && this.first)
            node.times.thought = (this.thought || now) - this.first;
        this.over = true;
        this.ended(this);
    }
}
