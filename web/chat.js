// The chat that is open: its messages on the page, the field below them, answers that run. Chats are trees (tree.js);
// several may be answered at once, one answer a chat.
import { Answer } from "./answer.js";
import { Message } from "./message.js";
import { $, count, decimals, duration, plural, say } from "./parts.js";
import { addNode, dropLeaf, move, path, ROOT } from "./tree.js";

const SAVE_MS = 3000, NEAR_PX = 60;

export class ChatView {
    // host: { chat(), save(chat), listChanged(), needKey(), lost(), useSeed(seed), modelFor(chat) }
    constructor(host) {
        this.host = host;
        this.answers = new Map(); // by the chat's id
        this.views = new Map(); // by the message's id, of the open chat
        this.stick = true;
        this.due = false;
        this.actions = {
            move: (node, step) => this.move(node, step),
            edit: (node, text) => this.edit(node, text),
            again: (node) => this.again(node),
            seed: (seed) => host.useSeed(seed),
            answering: (node) => [...this.answers.values()].find((a) => a.node === node) || null,
        };
        this.wireEntry();
        $("scroll").addEventListener("scroll", () => {
            const s = $("scroll");
            this.stick = s.scrollHeight - s.scrollTop - s.clientHeight < NEAR_PX;
            $("latest").hidden = this.stick;
        }, { passive: true });
        $("latest").addEventListener("click", () => {
            this.toEnd();
            $("entry").focus();
        });
        new ResizeObserver(() => this.stick && this.toEnd()).observe($("scroll"));
    }

    wireEntry() {
        const entry = $("entry");
        $("composer").addEventListener("submit", (e) => {
            e.preventDefault();
            this.send();
        });
        $("stop").addEventListener("click", () => this.stop());
        entry.addEventListener("input", () => this.fitEntry());
        entry.addEventListener("keydown", (e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.isComposing && e.keyCode !== 229) {
                e.preventDefault();
                this.send();
            } else if (e.key === "ArrowUp" && !entry.value) { // the last message again, as in a shell
                const last = path(this.host.chat()).findLast((n) => n.role === "user");
                if (last) {
                    e.preventDefault();
                    this.views.get(last.id)?.edit();
                }
            }
        });
    }

    fitEntry() {
        const entry = $("entry");
        entry.style.height = "auto";
        entry.style.height = `${Math.min(entry.scrollHeight + 2, window.innerHeight * 0.4)}px`;
    }

    // ---- showing ----

    // Another chat is open.
    open() {
        this.views.clear();
        this.stick = true;
        this.show();
        this.toEnd();
    }

    // The path as it is now; messages that stay keep their elements.
    show() {
        const chat = this.host.chat(), shown = path(chat), box = $("messages");
        const wanted = shown.map((node) => {
            if (!this.views.has(node.id))
                this.views.set(node.id, new Message(chat, node, this.actions));
            const view = this.views.get(node.id);
            view.updateFoot();
            return view.element;
        });
        let same = 0;
        while (same < wanted.length && box.children[same] === wanted[same])
            same++;
        while (box.children.length > same)
            box.lastChild.remove();
        box.append(...wanted.slice(same));
        $("empty").hidden = shown.length > 0;
        this.showState();
    }

    showState() {
        const answer = this.answers.get(this.host.chat().id);
        $("stop").hidden = !answer;
        $("send").hidden = Boolean(answer);
        if (!answer) {
            $("live").textContent = "";
            return;
        }
        const seconds = duration(performance.now() - answer.began), p = answer.progress;
        if (answer.first) {
            const rate = answer.rate();
            const parts = [rate ? `${decimals(rate)} tokens/s` : "", plural(answer.pieces, "token"), seconds];
            $("live").textContent = parts.filter(Boolean).join(" · ");
        } else if (p && p.total > 0) {
            const done = Math.min(100, Math.floor((100 * p.processed) / p.total));
            $("live").textContent = `Reading the prompt: ${done} % of ${count(p.total)} tokens` +
                (p.cache ? `, ${count(p.cache)} cached` : "") + ` · ${seconds}`;
        } else {
            $("live").textContent = `Waiting · ${seconds}`;
        }
    }

    toEnd() {
        $("scroll").scrollTop = $("scroll").scrollHeight;
        $("latest").hidden = true;
        this.stick = true;
    }

    // ---- asking ----

    send() {
        const entry = $("entry"), text = entry.value, chat = this.host.chat();
        if (!text.trim() || this.answers.has(chat.id))
            return;
        entry.value = "";
        this.fitEntry();
        const node = addNode(chat, path(chat).at(-1)?.id ?? ROOT, "user", text);
        this.stick = true;
        this.answer(chat, node);
        entry.focus();
    }

    stop() {
        this.answers.get(this.host.chat().id)?.stop();
        $("entry").focus();
    }

    edit(node, text) {
        const chat = this.host.chat();
        if (text === node.content) {
            if (node.role === "user")
                this.again(node);
            return;
        }
        const more = node.role === "user" ? {} : { model: node.model, finish: "edited" };
        const next = addNode(chat, node.parent, node.role, text, more);
        if (node.role === "user")
            this.answer(chat, next);
        else
            this.changed(chat);
        $("entry").focus();
    }

    // Another answer: beside this one, or to this message.
    again(node) {
        const chat = this.host.chat(), question = node.role === "user" ? node : chat.nodes[node.parent];
        const empty = node.role === "assistant" && !node.content && !node.children.length;
        if (empty && (node.error || node.finish === "stopped"))
            dropLeaf(chat, node); // nothing to keep
        this.answer(chat, question);
        $("entry").focus();
    }

    move(node, step) {
        const chat = this.host.chat(), next = move(chat, node, step);
        if (!next)
            return;
        this.changed(chat);
        const foot = this.views.get(next.id)?.foot;
        const same = foot?.querySelector(`[data-action=${step < 0 ? "before" : "after"}]`);
        (same?.disabled ? foot.querySelector(".branch button:not(:disabled)") : same)?.focus();
        this.views.get(next.id)?.element.scrollIntoView({ block: "nearest" });
        say(foot?.querySelector(".branch")?.getAttribute("aria-label") || "");
    }

    changed(chat) {
        this.host.save(chat);
        this.show();
    }

    async answer(chat, question) {
        this.answers.get(chat.id)?.stop();
        const node = addNode(chat, question.id, "assistant", "", { reasoning: "" });
        const answer = new Answer(chat, node, () => this.piece(answer), () => this.ended(answer));
        answer.saved = performance.now();
        answer.spoken = 0;
        this.answers.set(chat.id, answer);
        this.changed(chat);
        this.host.listChanged();
        if (chat === this.host.chat())
            this.toEnd();
        const model = await this.host.modelFor(chat);
        answer.clock = setInterval(() => this.piece(answer), 250); // time goes on without pieces, too
        answer.run(model, chat.params);
    }

    // Something came: the page follows at its own pace.
    piece(answer) {
        if (!this.due) {
            this.due = true;
            const draw = () => {
                this.due = false;
                this.draw();
            };
            if (document.hidden)
                setTimeout(draw, 500);
            else
                requestAnimationFrame(draw);
        }
        if (performance.now() - answer.saved > SAVE_MS) {
            answer.saved = performance.now();
            this.host.save(answer.chat);
        }
    }

    draw() {
        const answer = this.answers.get(this.host.chat().id);
        this.showState();
        if (!answer)
            return;
        this.views.get(answer.node.id)?.update();
        this.speak(answer, false);
        if (this.stick)
            this.toEnd();
    }

    // Paragraphs are spoken as they are whole, so that a screen reader is neither silent nor drowned.
    speak(answer, all) {
        const { content } = answer.node, end = all ? content.length : content.lastIndexOf("\n\n");
        if (end <= answer.spoken)
            return;
        const text = content.slice(answer.spoken, end).replace(/[*`#>|]+/g, "").trim();
        answer.spoken = end;
        if (text)
            say(text);
    }

    ended(answer) {
        clearInterval(answer.clock);
        if (this.answers.get(answer.chat.id) === answer)
            this.answers.delete(answer.chat.id);
        const { node, chat } = answer;
        chat.updated = Date.now();
        this.host.save(chat);
        this.host.listChanged();
        if (node.error?.status === 401)
            this.host.needKey();
        if (node.error?.status === 0)
            this.host.lost();
        if (chat !== this.host.chat())
            return;
        this.speak(answer, true);
        const tokens = plural(node.usage?.completion_tokens ?? answer.pieces, "token");
        say(node.error ? `The answer failed: ${node.error.message}` :
            `Answer ${node.finish === "stopped" ? "stopped" : "complete"}, ${tokens}.`);
        const view = this.views.get(node.id);
        view?.update();
        view?.updateFoot();
        this.showState();
        if (this.stick)
            this.toEnd();
    }
}
