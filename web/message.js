// How one message looks: its text, thoughts, failure, receipt, and what can be done with it. Owns the elements of one
// message; what the actions do is the chat's (chat.js).
import { growingMarkdown } from "./markdown.js";
import { copyWith, duration, make } from "./parts.js";
import { receiptElement } from "./receipt.js";
import { siblings } from "./tree.js";

const WHO = { user: "You", assistant: "Answer" };

function button(label, action, fn, more = {}) {
    return make("button", { type: "button", class: "quiet", "data-action": action, onclick: fn, ...more }, label);
}

export class Message {
    // actions: { move(node, step), edit(node, text), again(node), seed(text), answering(node) the Answer or null }
    constructor(chat, node, actions) {
        this.chat = chat;
        this.node = node;
        this.actions = actions;
        this.text = make("div", { class: "text" });
        this.foot = make("div", { class: "foot" });
        this.body = make("div", { class: "body" }, this.text, this.foot);
        const who = WHO[node.role];
        this.element = make("article", { class: `message ${node.role}`, "data-id": node.id, tabindex: "-1",
            "aria-label": who }, make("div", { class: "who", "aria-hidden": "true" }, who), this.body);
        this.grow = node.role === "assistant" ? growingMarkdown(this.text) : null;
        this.element.addEventListener("click", (e) => {
            const copy = e.target.closest?.(".copy-code");
            if (copy)
                copyWith(copy, copy.closest(".code").querySelector("code").textContent);
        });
        this.update();
        this.updateFoot();
    }

    // The text as it is now.
    update() {
        const { node } = this, running = this.actions.answering(node);
        if (this.grow) {
            this.grow(node.content);
            this.updateThoughts(running);
        } else {
            this.text.textContent = node.content;
        }
        this.element.classList.toggle("running", Boolean(running));
        this.element.classList.toggle("waiting", Boolean(running) && !node.content && !node.reasoning);
        this.element.setAttribute("aria-busy", String(Boolean(running)));
    }

    updateThoughts(running) {
        const { node } = this;
        if (!node.reasoning)
            return;
        if (!this.thoughts) {
            this.thoughtsHead = make("summary");
            this.thoughtsText = make("div", { class: "thoughts-text" });
            this.thoughts = make("details", { class: "thoughts" }, this.thoughtsHead, this.thoughtsText);
            this.text.before(this.thoughts);
        }
        const took = node.times?.thought;
        this.thoughtsHead.textContent = running && !node.content ? "Thinking…" :
            took ? `Thought for ${duration(took)}` : "Thoughts";
        this.thoughtsText.textContent = node.reasoning;
    }

    // What stands below: after the answer is over, or a sibling came.
    updateFoot() {
        const { node, chat, actions } = this;
        this.foot.replaceChildren();
        this.body.querySelector(".failure")?.remove();
        if (actions.answering(node))
            return;
        if (node.error)
            this.foot.before(this.failure());
        const receipt = node.role === "assistant" ? receiptElement(node, actions.seed) : null;
        const row = make("div", { class: "actions" });
        if (siblings(chat, node).all.length > 1)
            row.append(this.branches());
        if (node.content)
            row.append(button("Copy", "copy", (e) => copyWith(e.currentTarget, node.content)));
        if (node.content || !node.error)
            row.append(button("Edit", "edit", () => this.edit()));
        if (node.role === "assistant" && (node.content || !node.error))
            row.append(button("Regenerate", "again", () => actions.again(node)));
        else if (node.role === "user" && !node.children.length)
            row.append(button("Answer", "again", () => actions.again(node)));
        this.foot.append(...[receipt, row].filter(Boolean));
    }

    branches() {
        const { all, index } = siblings(this.chat, this.node), last = index === all.length - 1;
        const step = (sign, action, by, disabled) => button(sign, action, () => this.actions.move(this.node, by),
            { "aria-label": `Version ${action}`, disabled });
        return make("span", { class: "branch", role: "group", "aria-label": `Version ${index + 1} of ${all.length}` },
            step("‹", "before", -1, index === 0), make("span", {}, `${index + 1}/${all.length}`),
            step("›", "after", 1, last));
    }

    failure() {
        const { error } = this.node, details = [];
        if (error.param)
            details.push(`field ${error.param}`);
        if (error.code)
            details.push(error.code);
        if (error.status > 0)
            details.push(`HTTP ${error.status}`);
        if (error.retryAfter)
            details.push(`again in ${error.retryAfter} s`);
        return make("div", { class: "failure" }, make("p", {}, error.message || "The answer failed."),
            make("p", { class: "hint" }, details.join(" · ")),
            button("Try again", "retry", () => this.actions.again(this.node), { class: null }));
    }

    // ---- editing ----

    edit() {
        if (this.editor)
            return;
        const { node } = this, user = node.role === "user";
        const label = user ? "Your message" : "The answer’s text";
        const area = make("textarea", { class: "edit", rows: "3", "aria-label": label });
        area.value = node.content;
        const close = (focus) => {
            this.editor.remove();
            this.editor = null;
            this.element.classList.remove("editing");
            if (focus)
                this.foot.querySelector("[data-action=edit]")?.focus();
        };
        const save = () => {
            const text = area.value;
            if (!text.trim())
                return;
            close(false);
            this.actions.edit(node, text);
        };
        this.editor = make("form", { class: "editor", onsubmit: (e) => {
            e.preventDefault();
            save();
        } }, area, make("div", { class: "row" },
            make("span", { class: "hint" }, `The old ${user ? "message" : "answer"} stays as another version.`),
            make("button", { type: "button", onclick: () => close(true) }, "Cancel"),
            make("button", { type: "submit", class: "primary" }, user ? "Send" : "Keep")));
        area.addEventListener("keydown", (e) => {
            if (e.key === "Escape") {
                e.stopPropagation();
                close(true);
            } else if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.isComposing) {
                e.preventDefault();
                save();
            }
        });
        this.element.classList.add("editing");
        this.body.prepend(this.editor);
        area.style.height = `${Math.min(area.scrollHeight + 4, window.innerHeight / 2)}px`;
        area.focus();
        area.setSelectionRange(area.value.length, area.value.length);
    }
}
