// The monitor: what the server does just now, asked every second while somebody looks, and the last five minutes of it.
// Owns the view; the numbers come from /metrics and /slots.
import { ApiError, getJson, getText } from "./api.js";
import { $, count, decimals, duration, make } from "./parts.js";
import { buckets, parseMetrics, quantile, sum } from "./metrics.js";

const EVERY_MS = 1000, KEEP = 300, RATE_OVER = 3, LATENCY_OVER = 60, TIMEOUT_MS = 8000; // KEEP and *_OVER in samples
const SVG = "http://www.w3.org/2000/svg";

const HISTOGRAMS = [
    ["vllm:time_to_first_token_seconds", "To the first token"],
    ["vllm:inter_token_latency_seconds", "Between tokens"],
    ["vllm:request_queue_time_seconds", "In the queue"],
    ["vllm:e2e_request_latency_seconds", "Whole answer"],
];
const CHARTS = [
    { key: "answerRate", title: "Answers, tokens/s", text: decimals },
    { key: "promptRate", title: "Prompts, tokens/s", text: decimals },
    { key: "busy", title: "Running and waiting", text: count, second: "waiting" },
    { key: "pages", title: "KV pages in use", text: (v) => `${(100 * v).toFixed(0)} %`, top: 1 },
];
const SLOT_COLUMNS = [["id_task", "Number"], ["state", "State"], ["n_prompt", "Prompt"], ["n_cached", "Cached"],
    ["n_held", "Held"], ["n_decoded", "Answer"], ["pages", "Pages"]];

function sampleOf(metrics) {
    const get = (name) => sum(metrics, name);
    const sample = {
        at: performance.now(), metrics,
        answer: get("vllm:generation_tokens_total"), prompt: get("vllm:prompt_tokens_total"),
        running: get("vllm:num_requests_running"), waiting: get("vllm:num_requests_waiting"),
        pages: get("vllm:kv_cache_usage_perc"), hits: get("vllm:prefix_cache_hits_total"),
        queries: get("vllm:prefix_cache_queries_total"), latency: {},
    };
    sample.busy = sample.running + sample.waiting;
    for (const [name] of HISTOGRAMS)
        sample.latency[name] = buckets(metrics, name);
    return sample;
}

// ---- a chart ---------------------------------------------------------------------------------------------------

function svg(name, attributes) {
    const e = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes))
        e.setAttribute(key, value);
    return e;
}

// Lines of a series; a gap (no number) ends one.
function lines(values, top, offset) {
    const paths = [];
    let path = "";
    values.forEach((v, k) => {
        if (!Number.isFinite(v)) {
            path = "";
            return;
        }
        const point = `${(k + offset).toFixed(1)} ${(58 - (56 * Math.min(v, top)) / top).toFixed(2)}`;
        if (path)
            paths[paths.length - 1] += ` L${point}`;
        else
            paths.push(`M${point}`);
        path = point;
    });
    return paths.join(" ");
}

function niceTop(value) {
    if (!(value > 0))
        return 1;
    const unit = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].find((n) => n * unit >= value) * unit;
}

class Chart {
    constructor(about) {
        this.about = about;
        this.now = make("strong");
        this.topText = make("span", { class: "chart-top" });
        this.graph = svg("svg", { viewBox: `0 0 ${KEEP - 1} 60`, preserveAspectRatio: "none", role: "img" });
        this.second = svg("path", { class: "line second" });
        this.line = svg("path", { class: "line" });
        this.graph.append(svg("path", { class: "base", d: `M0 58H${KEEP}M0 2H${KEEP}` }), this.second, this.line);
        this.element = make("figure", { class: "chart" },
            make("figcaption", {}, make("span", {}, about.title), this.now),
            make("div", { class: "graph" }, this.topText, this.graph),
            make("div", { class: "chart-time", "aria-hidden": "true" },
                make("span", {}, "5 min ago"), make("span", {}, "now")));
    }

    update(history) {
        const { key, second, text, title } = this.about;
        const values = history.map((s) => s[key]), others = second ? history.map((s) => s[second]) : [];
        const known = values.filter(Number.isFinite), most = known.length ? Math.max(...known) : 0;
        const top = this.about.top || niceTop(most), offset = KEEP - history.length;
        const now = values.at(-1), other = others.at(-1);
        this.line.setAttribute("d", lines(values, top, offset));
        this.second.setAttribute("d", second ? lines(others, top, offset) : "");
        this.now.textContent = !Number.isFinite(now) ? "–" :
            second ? `${text(now - other)} + ${text(other)}` : text(now);
        this.topText.textContent = text(top);
        this.graph.setAttribute("aria-label",
            `${title}, the last five minutes: now ${this.now.textContent}, most ${text(most)}`);
    }
}

// ---- the view --------------------------------------------------------------------------------------------------

function table(caption, head, empty) {
    const body = make("tbody");
    const element = make("div", { class: "table" }, make("table", {}, make("caption", {}, caption),
        make("thead", {}, make("tr", {}, ...head.map((h) => make("th", { scope: "col" }, h)))), body));
    const fill = (rows) => body.replaceChildren(...(rows.length ? rows.map((row) =>
        make("tr", {}, ...row.map((cell, k) => make(k ? "td" : "th", k ? {} : { scope: "row" }, cell)))) :
        [make("tr", {}, make("td", { colspan: head.length, class: "none" }, empty))]));
    return { element, fill };
}

export class Monitor {
    constructor() {
        this.history = [];
        this.on = false;
        this.timer = 0;
        this.control = null;
        this.build();
        document.addEventListener("visibilitychange", () => this.wake());
    }

    build() {
        this.state = make("p", { class: "monitor-state", role: "status" });
        this.charts = CHARTS.map((about) => new Chart(about));
        this.latency = table(`Times of the last ${LATENCY_OVER} s`,
            ["", "Half within", "95 % within", "Since the start, half"], "");
        this.slots = table("Requests", SLOT_COLUMNS.map(([, name]) => name), "Nothing runs, nothing waits.");
        this.slotsNote = make("p", { class: "hint" });
        this.counts = make("dl", { class: "counts" });
        $("monitor-body").append(this.state, make("div", { class: "charts" }, ...this.charts.map((c) => c.element)),
            this.slots.element, this.slotsNote, make("div", { class: "pair" }, this.latency.element,
                make("section", { "aria-label": "Counts" }, make("h2", {}, "Cache and counts"), this.counts)));
    }

    show(on) {
        this.on = on;
        this.wake();
    }

    // Asks only while the view is seen.
    wake() {
        const seen = this.on && !document.hidden;
        clearTimeout(this.timer);
        if (seen)
            this.poll();
        else
            this.control?.abort();
    }

    async poll() {
        clearTimeout(this.timer);
        this.control?.abort();
        const control = new AbortController(), began = performance.now();
        this.control = control;
        const late = setTimeout(() => control.abort(), TIMEOUT_MS);
        const both = [getText("metrics", control.signal), getJson("slots", control.signal)];
        const [metrics, slots] = await Promise.allSettled(both);
        clearTimeout(late);
        if (this.control !== control || !this.on || document.hidden)
            return;
        this.take(metrics);
        this.takeSlots(slots);
        this.timer = setTimeout(() => this.poll(), Math.max(100, EVERY_MS - (performance.now() - began)));
    }

    take(result) {
        if (result.status === "rejected") {
            const e = result.reason, said = e instanceof ApiError ? e.message : "The server does not answer.";
            this.state.textContent = e.status === 404 ? "The server gives metrics at its admin address only." : said;
            this.state.classList.add("wrong");
            return;
        }
        this.state.classList.remove("wrong");
        const sample = sampleOf(parseMetrics(result.value)), last = this.history.at(-1);
        if (last && !(sample.answer >= last.answer && sample.prompt >= last.prompt))
            this.history = []; // another server
        this.fillGap(last, sample);
        this.history.push(sample);
        this.history.splice(0, this.history.length - KEEP);
        this.rates(sample);
        for (const chart of this.charts)
            chart.update(this.history);
        this.showLatency(sample);
        this.showCounts(sample);
        const model = sample.metrics.get("vllm:num_requests_running")?.[0]?.labels.model_name || "The server";
        this.state.textContent = `${model}: ${count(sample.running)} running, ${count(sample.waiting)} waiting.`;
    }

    // While nobody looked, nothing was asked: the charts have gaps there.
    fillGap(last, sample) {
        const missed = last ? Math.min(KEEP, Math.floor((sample.at - last.at) / EVERY_MS) - 1) : 0;
        for (let k = 1; k < missed; k++)
            this.history.push({ at: last.at + k * EVERY_MS, gap: true });
    }

    rates(sample) {
        const since = sample.at - 2 * RATE_OVER * EVERY_MS;
        const before = this.history.slice(-1 - RATE_OVER, -1).find((s) => !s.gap && s.at > since);
        if (!before)
            return;
        const seconds = (sample.at - before.at) / 1000;
        sample.answerRate = (sample.answer - before.answer) / seconds;
        sample.promptRate = (sample.prompt - before.prompt) / seconds;
    }

    showLatency(sample) {
        const old = this.history.find((s) => !s.gap && s.at >= sample.at - LATENCY_OVER * EVERY_MS);
        const time = (v) => duration(1000 * v);
        this.latency.fill(HISTOGRAMS.map(([name, title]) => [title,
            time(quantile(sample.latency[name], old.latency[name], 0.5)),
            time(quantile(sample.latency[name], old.latency[name], 0.95)),
            time(quantile(sample.latency[name], null, 0.5))]));
    }

    showCounts(sample) {
        const { metrics, hits, queries } = sample, get = (name) => sum(metrics, name), rows = [];
        const config = metrics.get("vllm:cache_config_info")?.[0]?.labels || {};
        if (config.num_gpu_blocks)
            rows.push(["KV pages", `${count(Number(config.num_gpu_blocks))} of ${config.block_size} tokens` +
                (config.cache_dtype ? `, ${config.cache_dtype}` : "")]);
        rows.push(["Pages in use", `${(100 * (sample.pages || 0)).toFixed(1)} %`]);
        if (get("hasten_stored_positions") !== undefined)
            rows.push(["Kept for later prompts", `${count(get("hasten_stored_positions"))} tokens`]);
        const share = (part, all) =>
            (all > 0 ? `${count(part)} of ${count(all)} (${((100 * part) / all).toFixed(0)} %)` : "–");
        rows.push(["Prompt tokens found", share(hits, queries)]);
        const drafted = get("hasten_drafted_tokens_total");
        if (drafted > 0)
            rows.push(["Proposed tokens taken", share(get("hasten_accepted_tokens_total"), drafted)]);
        rows.push(["Prompt tokens", count(sample.prompt)], ["Answer tokens", count(sample.answer)]);
        for (const { labels, value } of metrics.get("vllm:request_success_total") || [])
            if (value > 0)
                rows.push([`Answers ended by ${labels.finished_reason}`, count(value)]);
        for (const [name, title] of [["vllm:num_preemptions_total", "Answers cut back for pages"],
            ["hasten_requests_refused_total", "Refused, queue full"], ["hasten_http_connections", "Open connections"]])
            if (get(name) !== undefined)
                rows.push([title, count(get(name))]);
        this.counts.replaceChildren(...rows.flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, v)]));
    }

    takeSlots(result) {
        this.slotsNote.textContent = "";
        if (result.status === "rejected") {
            this.slots.fill([]);
            this.slotsNote.textContent = result.reason instanceof ApiError && result.reason.status === 401 ?
                "The requests are shown to those with an API key (Settings)." : "";
            return;
        }
        const all = (Array.isArray(result.value) ? result.value : []).filter((s) => s && typeof s === "object");
        const list = all.filter((slot) => slot.is_processing);
        this.slotsNote.textContent = `${count(all.length)} can run at once. Prompt, cached, held, answer: tokens.`;
        const text = (value) => (typeof value === "number" ? count(value) : String(value ?? "–"));
        this.slots.fill(list.map((slot) => SLOT_COLUMNS.map(([key]) => text(slot[key]))));
    }
}
