// The panel of settings: model, system prompt, sampling, API key. An empty field means that the server decides, and is
// not sent. The chat that is open owns the values; the last ones are what a new chat begins with.
import { getJson } from "./api.js";
import { apiKey, preference, setApiKey, setPreference } from "./store.js";
import { $, count, make } from "./parts.js";

// name as the server calls it; whole: no fractions. seed is digits, as it may not fit a number.
export const PARAMS = [
    { name: "temperature", label: "Temperature", min: 0, max: 100, step: 0.1, hint: "0: always the likeliest token" },
    { name: "top_k", label: "Top-k", min: 0, max: 16777216, step: 1, whole: true, hint: "keep so many tokens; 0: all" },
    { name: "top_p", label: "Top-p", min: 0, max: 1, step: 0.05, hint: "keep so much of the mass; 1: all" },
    { name: "min_p", label: "Min-p", min: 0, max: 1, step: 0.01, hint: "least share of the best’s; 0: off" },
    { name: "max_tokens", label: "Most tokens", min: 1, max: 2147483647, step: 1, whole: true,
        hint: "empty: to the end of the context" },
    { name: "seed", label: "Seed", digits: true, hint: "empty: random; the same seed, the same answer" },
];

export const MAX_SEED = 9223372036854774784n; // what the server takes

// The value of a field: undefined when empty, null when it is no value.
export function readParam(param, text) {
    const given = text.trim();
    if (!given)
        return undefined;
    if (param.digits)
        return /^\d{1,19}$/.test(given) && BigInt(given) <= MAX_SEED ? given.replace(/^0+(?=\d)/, "") : null;
    const value = Number(given.replace(",", "."));
    if (!Number.isFinite(value) || value < param.min || value > param.max || (param.whole && !Number.isInteger(value)))
        return null;
    return value;
}

function rangeOf(param) {
    if (param.digits)
        return "a number without a fraction";
    const what = param.whole ? "a number without a fraction" : "a number";
    return param.max > 1e6 ? `${what}, ${param.min} or more` : `${what} from ${param.min} to ${param.max}`;
}

// The text of a request's body. A seed may be longer than a number of JavaScript holds.
export function bodyText(body, params) {
    const { seed, ...rest } = params;
    const text = JSON.stringify({ ...body, ...rest });
    return seed === undefined ? text : `${text.slice(0, -1)},"seed":${seed}}`;
}

export class Settings {
    // host: { chat() the open chat, changed() after a change, keyChanged(), modelsChanged() }
    constructor(host) {
        this.host = host;
        this.models = [];
        for (const param of PARAMS)
            $("params").append(this.paramField(param));
        $("system").addEventListener("input", () => this.set("system", $("system").value));
        $("model").addEventListener("change", () => {
            this.set("model", $("model").value);
            this.showModel();
        });
        $("defaults").addEventListener("click", () => {
            this.set("params", {});
            this.show();
        });
        $("key").value = apiKey();
        $("key").addEventListener("change", () => {
            setApiKey($("key").value.trim());
            host.keyChanged();
        });
        $("settings-form").addEventListener("submit", (e) => {
            e.preventDefault();
            document.activeElement?.blur?.(); // so that the field counts as changed
        });
    }

    paramField(param) {
        const id = `param-${param.name}`, hint = make("p", { class: "hint", id: `${id}-hint` }, param.hint);
        const input = make("input", { id, inputmode: param.whole || param.digits ? "numeric" : "decimal",
            placeholder: "default", spellcheck: "false", "aria-describedby": `${id}-hint` });
        input.addEventListener("input", () => {
            const value = readParam(param, input.value);
            hint.textContent = value === null ? `Expected ${rangeOf(param)}.` : param.hint;
            hint.classList.toggle("wrong", value === null);
            input.setAttribute("aria-invalid", String(value === null));
            if (value === null)
                return;
            const params = { ...this.host.chat().params };
            delete params[param.name];
            this.set("params", value === undefined ? params : { ...params, [param.name]: value });
        });
        input.addEventListener("keydown", (e) => { // the arrows step
            if ((e.key !== "ArrowUp" && e.key !== "ArrowDown") || !param.step)
                return;
            e.preventDefault();
            const now = readParam(param, input.value), step = e.key === "ArrowUp" ? param.step : -param.step;
            const next = Math.min(param.max, Math.max(param.min, (now ?? param.min) + step));
            input.value = String(Number(next.toFixed(6)));
            input.dispatchEvent(new Event("input"));
        });
        return make("div", { class: "field param" }, make("label", { for: id }, param.label), input, hint);
    }

    set(name, value) {
        this.host.chat()[name] = value;
        const { system, model, params } = this.host.chat();
        setPreference("last", { system, model, params });
        this.host.changed();
    }

    // What a new chat begins with.
    static last() {
        const { system, model, params } = preference("last", {}) || {};
        return { system: typeof system === "string" ? system : "", model: typeof model === "string" ? model : "",
            params: params && typeof params === "object" ? params : {} };
    }

    show() {
        const { chat } = this.host;
        $("system").value = chat().system;
        for (const param of PARAMS) {
            const input = $(`param-${param.name}`), hint = $(`param-${param.name}-hint`);
            input.value = chat().params[param.name] ?? "";
            input.setAttribute("aria-invalid", "false");
            hint.textContent = param.hint;
            hint.classList.remove("wrong");
        }
        this.showModel();
    }

    // ---- models ----

    async loadModels() {
        const list = await getJson("v1/models");
        this.showDefaults(await getJson("props").catch(() => null)); // an older server has none
        this.models = (Array.isArray(list?.data) ? list.data : []).filter((m) => typeof m?.id === "string");
        this.showModel();
        this.host.modelsChanged();
    }

    // What holds where nothing is entered.
    showDefaults(props) {
        const known = props?.default_generation_settings?.params || {};
        for (const { name } of PARAMS)
            $(`param-${name}`).placeholder = known[name] >= 0 ? String(known[name]) : "default";
    }

    // The model that the open chat is asked with: its own where the server still has it, else the server's first.
    model() {
        const own = this.host.chat().model;
        return this.models.find((m) => m.id === own) || this.models[0] || null;
    }

    showModel() {
        const select = $("model"), model = this.model();
        select.replaceChildren(...this.models.map((m) => make("option", { value: m.id }, m.id)));
        if (!this.models.length)
            select.append(make("option", { value: "" }, "none yet"));
        select.value = model ? model.id : "";
        select.disabled = this.models.length < 2;
        $("model-about").textContent = Settings.aboutModel(model);
    }

    static aboutModel(model) {
        if (!model)
            return "";
        const parts = [];
        if (Number.isFinite(model.max_model_len))
            parts.push(`${count(model.max_model_len)} tokens of context`);
        if (typeof model.parent === "string" && model.parent)
            parts.push(`of ${model.parent}`);
        return parts.join(", ");
    }
}
