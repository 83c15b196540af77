/* See prompts.h. */
#include "bench/prompts.h"
#include <jansson.h>
#include <string.h>

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "workload: out of memory");
}

static json_t *message_json(const char *role, const char *text, size_t len)
{
    json_t *content = json_stringn(text, len);
    return content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
}

/* folded: the system message stands before the first question. NULL: no memory, or text that is not UTF-8. */
static json_t *messages_json(const struct workload_item *w, bool folded)
{
    json_t *list = json_array();
    struct buf before = {0};
    bool good = list != NULL;
    for (int32_t i = 0; i < w->n_messages && good; i++) {
        const struct workload_message *m = &w->messages[i];
        if (folded && m->role == WORKLOAD_SYSTEM) {
            good = !buf_printf(&before, "%s\n\n", m->text.data);
            continue;
        }
        if (m->role == WORKLOAD_USER && before.len) {
            good = !buf_puts(&before, m->text.data) &&
                   !json_array_append_new(list, message_json("user", before.data, before.len));
            buf_clear(&before);
            continue;
        }
        good = !json_array_append_new(list,
                                      message_json(workload_role_name(m->role), m->text.data, m->text.len));
    }
    buf_free(&before);
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

static hasten_status render(const struct prompter *p, const struct workload_item *w, bool folded,
                            struct prompt *out, struct hasten_error *err)
{
    json_t *messages = messages_json(w, folded);
    const hasten_status st =
        messages ? prompter_render(p, messages, NULL, true, out, err)
                 : error_set(err, HASTEN_ERR_FILE, "workload item %s: its text is not UTF-8", w->name);
    json_decref(messages);
    return st;
}

static hasten_status encode(const struct prompter *p, const struct vocab *v, const struct workload_item *w,
                            struct tokens *ids, struct hasten_error *err)
{
    struct prompt text = {0};
    struct buf plain = {0};
    hasten_status st = HASTEN_OK;
    if (p) {
        st = render(p, w, false, &text, err);
        if (st == HASTEN_ERR_TEMPLATE && w->messages[0].role == WORKLOAD_SYSTEM) {
            prompt_free(&text);
            text = (struct prompt){0};
            st = render(p, w, true, &text, err);
        }
        if (!st)
            st = prompter_encode(p, &text, 0, ids, err);
    } else {
        for (int32_t i = 0; i < w->n_messages && !st; i++)
            if (buf_printf(&plain, "%s\n\n", w->messages[i].text.data))
                st = no_memory(err);
        if (!st)
            st = vocab_encode(v, plain.data, plain.len, VOCAB_BOS, ids, err);
    }
    prompt_free(&text);
    buf_free(&plain);
    return st;
}

static bool wanted(const struct workload_item *i, const char *half, enum prompts_part part)
{
    return (!half || strcmp(half, i->half) == 0) &&
           (part == PROMPTS_ALL || i->held == (part == PROMPTS_HELD));
}

static hasten_status none_found(const struct workload *w, const char *half, struct hasten_error *err)
{
    struct buf halves = {0};
    for (int32_t i = 0; i < w->n; i++) {
        bool seen = false;
        for (int32_t j = 0; j < i; j++)
            seen |= strcmp(w->items[i].half, w->items[j].half) == 0;
        if (!seen)
            buf_printf(&halves, "%s%s", halves.len ? ", " : "", w->items[i].half);
    }
    error_set(err, HASTEN_ERR_USAGE, "workload %s has no such prompts%s%s (it has %s)", w->name,
              half ? " in its half " : "", half ? half : "", halves.data ? halves.data : "");
    buf_free(&halves);
    return HASTEN_ERR_USAGE;
}

hasten_status prompts_open(const struct workload *w, const struct prompter *p, const struct vocab *v,
                           const char *half, enum prompts_part part, int32_t n_answer, struct prompts *out,
                           struct hasten_error *err)
{
    const size_t n = (size_t)w->n;
    *out = (struct prompts){.items = mem_calloc(n, sizeof *out->items),
                            .of = mem_calloc(n, sizeof *out->of),
                            .ids = mem_calloc(n, sizeof *out->ids)};
    hasten_status st = out->items && out->of && out->ids ? HASTEN_OK : no_memory(err);
    for (int32_t i = 0; i < w->n && !st; i++) {
        const struct workload_item *item = &w->items[i];
        if (!wanted(item, half, part))
            continue;
        struct tokens *ids = &out->ids[out->n];
        st = encode(p, v, item, ids, err);
        if (!st && ids->n < 1)
            st = error_set(err, HASTEN_ERR_FILE, "workload item %s has no tokens", item->name);
        const int32_t most = n_answer > 0 && n_answer < item->n_answer ? n_answer : item->n_answer;
        out->of[out->n] = item;
        out->items[out->n++] = (struct answers_item){ids->ids, ids->n, most, false};
        out->longest = ids->n + most > out->longest ? ids->n + most : out->longest;
    }
    if (!st && out->n == 0)
        st = none_found(w, half, err);
    if (st)
        prompts_close(out);
    return st;
}

void prompts_close(struct prompts *p)
{
    for (int32_t i = 0; i < p->n; i++)
        tokens_free(&p->ids[i]);
    mem_free(p->items);
    mem_free(p->of);
    mem_free(p->ids);
    *p = (struct prompts){0};
}
