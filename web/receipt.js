// What an answer cost, under the answer: one line of figures, and all that the server told when it is opened.
//
// From the server: `usage` and `receipt` of the last chunk. From here: `times`, for answers that were stopped or came
// without a receipt (speed is then counted in pieces, which are about tokens).
import { MAX_SEED } from "./settings.js";
import { count, decimals, duration, make, plural } from "./parts.js";

const NAMES = {
    seed: "Seed", stream: "Stream of noise", prompt_n: "Prompt, tokens", cached_n: "of these from the cache",
    queue_ms: "Waited for a place", prompt_ms: "Prompt read in", predicted_n: "Answer, tokens",
    predicted_ms: "Answer written in", passes: "Passes of the model", drafted_n: "Tokens proposed",
    accepted_n: "of these taken", injected_n: "Tokens put in by a method", preempted: "Times cut back for others",
};
const HIDDEN = new Set(["index"]);

function methodText(method) {
    if (typeof method === "string")
        return method;
    if (!method || typeof method !== "object")
        return String(method);
    const { stage, name, method: other, ...rest } = method;
    const knobs = Object.entries(rest).filter(([, v]) => typeof v !== "object").map(([k, v]) => `${k}=${v}`);
    return [stage, name || other].filter(Boolean).join(" ") + (knobs.length ? ` (${knobs.join(", ")})` : "");
}

// The numbers of an answer in one shape: anything may be missing (undefined).
export function figures(node) {
    const own = node.receipt?.choices?.[0] || {}, usage = node.usage || {}, times = node.times || {};
    const f = {
        promptTokens: own.prompt_n ?? usage.prompt_tokens,
        cachedTokens: own.cached_n ?? usage.prompt_tokens_details?.cached_tokens,
        tokens: own.predicted_n ?? usage.completion_tokens,
        promptMs: own.prompt_ms ?? times.first, decodeMs: own.predicted_ms ?? times.decode,
        passes: own.passes, pieces: times.pieces, exact: own.prompt_ms !== undefined,
    };
    const n = f.tokens ?? f.pieces;
    f.rate = n > 1 && f.decodeMs > 0 ? (1000 * n) / f.decodeMs : undefined;
    f.perPass = f.passes > 0 && f.tokens > 0 ? f.tokens / f.passes : undefined;
    f.methods = Array.isArray(node.receipt?.methods) ? node.receipt.methods.map(methodText) : undefined;
    return f;
}

function line(node, f) {
    const parts = [];
    if (f.tokens !== undefined)
        parts.push(plural(f.tokens, "token"));
    else if (f.pieces)
        parts.push(`about ${plural(f.pieces, "token")}`);
    if (f.rate)
        parts.push(`${decimals(f.rate)} tokens/s`);
    if (f.perPass)
        parts.push(`${f.perPass.toFixed(2)} tokens/pass`);
    if (f.promptTokens !== undefined)
        parts.push(f.cachedTokens === undefined ? `prompt ${count(f.promptTokens)}` :
            `prompt ${count(f.promptTokens)}, ${count(f.cachedTokens)} cached`);
    if (f.promptMs !== undefined)
        parts.push(`${f.exact ? "read in" : "the first after"} ${duration(f.promptMs)}`);
    if (f.methods?.length)
        parts.push(f.methods.length > 2 ? plural(f.methods.length, "method") :
            f.methods.map((m) => m.split(/[:(]/)[0].trim()).join(", ")); // knobs stand below
    if (node.finish === "length")
        parts.push("ended by length");
    if (node.finish === "stopped")
        parts.push("stopped");
    return parts.join(" · ");
}

function valueText(key, value) {
    if (key.endsWith("_ms"))
        return duration(value);
    if (key === "seed")
        return String(value);
    return typeof value === "number" ? count(value) : String(value);
}

function rows(node, f) {
    const found = [];
    if (node.model)
        found.push(["Model", node.model]);
    if (node.finish)
        found.push(["Ended by", node.finish]);
    if (f.methods)
        found.push(["Methods", f.methods.length ? f.methods.join(", ") : "none: the plain engine"]);
    const own = node.receipt?.choices?.[0];
    if (own) {
        for (const [key, value] of Object.entries(own))
            if (!HIDDEN.has(key) && typeof value !== "object")
                found.push([NAMES[key] || key.replaceAll("_", " "), valueText(key, value)]);
        if (f.perPass)
            found.push(["Tokens per pass", f.perPass.toFixed(3)]);
    } else {
        for (const [name, value] of [["Prompt, tokens", f.promptTokens], ["of these from the cache", f.cachedTokens],
            ["Answer, tokens", f.tokens]])
            if (value !== undefined)
                found.push([name, count(value)]);
        if (f.promptMs !== undefined)
            found.push(["First piece after", duration(f.promptMs)]);
    }
    if (f.rate)
        found.push(["Tokens a second", decimals(f.rate)]);
    for (const warning of node.receipt?.warnings || [])
        found.push(["Warning", String(warning)]);
    return found;
}

// useSeed(seed): the reader wants it for what follows. Null where nothing is known.
export function receiptElement(node, useSeed) {
    const f = figures(node), text = line(node, f);
    if (!text)
        return null;
    const list = make("dl", {}, ...rows(node, f).flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, v)]));
    const seed = node.receipt?.choices?.[0]?.seed;
    const more = !/^\d{1,19}$/.test(String(seed)) || BigInt(seed) > MAX_SEED ? null :
        make("button", { type: "button", class: "quiet", onclick: () => useSeed(String(seed)) }, "Use this seed");
    return make("details", { class: "receipt" }, make("summary", { title: "The answer’s receipt" }, text), list, more);
}
