/* Endpoints about text: tokenize, detokenize, apply-template, and render, which says what a generation would read. They
 * use what generations use (prompts.c), and take no place in the queue. */
#include "serve/inside.h"

struct asked { /* a request that is read */
    json_t *body, *warnings;
    struct params p;
};

static bool read_asked(struct exchange *x, enum endpoint ep, struct asked *a)
{
    *a = (struct asked){0};
    return server_read_body(x, ep, &a->body, &a->p, &a->warnings);
}

static void free_asked(struct asked *a)
{
    json_decref(a->body);
    json_decref(a->warnings);
}

/* ---- tokenize ----------------------------------------------------------------------------------------------- */

static bool tokens_of_text(struct server *s, const struct params *p, struct tokens *ids, struct fault *f)
{
    const json_t *v = p->content ? p->content : p->prompt;
    const bool bos = p->content ? p->add_special : p->add_special_tokens;
    struct hasten_error err;
    if (!v)
        return fault_set(f, 400, "missing_required_parameter", "content",
                         "content: missing (expected content, prompt or messages)");
    if (!json_is_string(v))
        return fault_set(f, 400, "invalid_value", "prompt", "prompt: expected a string");
    return !vocab_encode(s->vocab, json_string_value(v), json_string_length(v),
                         (bos ? VOCAB_BOS : 0u) | (p->parse_special ? VOCAB_SPECIAL : 0u), ids, &err) ||
           fault_of(f, &err);
}

static int put_strings(struct buf *b, const struct server *s, const struct tokens *ids)
{
    struct buf text = {0};
    struct hasten_error err;
    int bad = buf_putc(b, '[');
    for (int64_t i = 0; i < ids->n && !bad; i++) {
        buf_clear(&text);
        if (ids->ids[i] < vocab_size(s->vocab))
            bad = vocab_token_bytes(s->vocab, ids->ids[i], true, &text, &err) != HASTEN_OK;
        bad = bad || out_comma(b) || out_text(b, text.data ? text.data : "", text.len);
    }
    buf_free(&text);
    return bad || buf_putc(b, ']');
}

void api_tokenize(struct server *s, struct exchange *x)
{
    struct asked a;
    struct fault f = {0};
    struct tokens ids = {0};
    if (read_asked(x, EP_TOKENIZE, &a)) {
        const bool ok = server_is_model(s, a.p.model, &f) &&
                        (a.p.messages && !a.p.content && !a.p.prompt ? prompt_of_chat(s, &a.p, &ids, NULL, &f)
                                                                     : tokens_of_text(s, &a.p, &ids, &f));
        if (ok) {
            struct buf b = {0};
            const int bad =
                buf_printf(&b, "{\"count\":%lld,\"max_model_len\":%d,\"tokens\":", (long long)ids.n,
                           (int)s->n_ctx) ||
                out_ids(&b, ids.ids, ids.n) || buf_puts(&b, ",\"token_strs\":") || put_strings(&b, s, &ids) ||
                buf_putc(&b, '}');
            exchange_answer_json(x, &b, bad);
        } else {
            exchange_fail(x, &f);
        }
    }
    tokens_free(&ids);
    free_asked(&a);
}

/* ---- detokenize --------------------------------------------------------------------------------------------- */

static bool one_list(void *ctx, struct tokens *ids, struct fault *f)
{
    struct tokens *out = ctx;
    (void)f;
    *out = *ids;
    *ids = (struct tokens){0};
    return true;
}

static bool check_text_ids(const struct server *s, const struct tokens *ids, struct fault *f)
{
    for (int64_t i = 0; i < ids->n; i++)
        if (ids->ids[i] >= vocab_size(s->vocab))
            return fault_set(f, 400, "invalid_value", "tokens",
                             "tokens: element %lld has no text (expected ids below %d)", (long long)i,
                             (int)vocab_size(s->vocab));
    return true;
}

void api_detokenize(struct server *s, struct exchange *x)
{
    struct asked a;
    struct fault f = {0};
    struct tokens ids = {0};
    struct buf text = {0}, b = {0};
    struct hasten_error err;
    if (read_asked(x, EP_DETOKENIZE, &a)) {
        bool ok = server_is_model(s, a.p.model, &f);
        if (ok && (!a.p.tokens || json_array_size(a.p.tokens)))
            ok = prompts_of_value(s, "tokens", a.p.tokens, 0, 1, one_list, &ids, &f);
        ok = ok && check_text_ids(s, &ids, &f);
        if (ok && vocab_decode(s->vocab, ids.ids, ids.n, true, &text, &err))
            ok = fault_of(&f, &err);
        if (ok) {
            const char *t = text.data ? text.data : "";
            const int bad = buf_puts(&b, "{\"content\":") || out_text(&b, t, text.len) ||
                            buf_puts(&b, ",\"prompt\":") || out_text(&b, t, text.len) || buf_putc(&b, '}');
            exchange_answer_json(x, &b, bad);
        } else {
            exchange_fail(x, &f);
        }
    }
    buf_free(&text);
    tokens_free(&ids);
    free_asked(&a);
}

/* ---- templates ---------------------------------------------------------------------------------------------- */

void api_apply_template(struct server *s, struct exchange *x)
{
    struct asked a;
    struct fault f = {0};
    struct buf text = {0}, b = {0};
    if (read_asked(x, EP_TEMPLATE, &a)) {
        if (server_is_model(s, a.p.model, &f) && prompt_of_chat(s, &a.p, NULL, &text, &f)) {
            const int bad = buf_puts(&b, "{\"prompt\":") ||
                            out_text(&b, text.data ? text.data : "", text.len) || buf_putc(&b, '}');
            exchange_answer_json(x, &b, bad);
        } else {
            exchange_fail(x, &f);
        }
    }
    buf_free(&text);
    free_asked(&a);
}

static int put_rendered(struct buf *b, const struct server *s, const struct exchange *x,
                        const struct tokens *ids)
{
    return out_comma(b) || buf_puts(b, "{\"token_ids\":") || out_ids(b, ids->ids, ids->n) ||
           buf_puts(b, ",\"request_id\":") || out_str(b, x->id) || buf_puts(b, ",\"model\":") ||
           out_str(b, s->set.id) || buf_putc(b, '}');
}

void api_render_chat(struct server *s, struct exchange *x)
{
    struct asked a;
    struct fault f = {0};
    struct tokens ids = {0};
    struct buf b = {0};
    if (read_asked(x, EP_CHAT, &a)) {
        if (server_is_model(s, a.p.model, &f) && prompt_of_chat(s, &a.p, &ids, NULL, &f))
            exchange_answer_json(x, &b, put_rendered(&b, s, x, &ids));
        else
            exchange_fail(x, &f);
    }
    tokens_free(&ids);
    free_asked(&a);
}

struct rendering {
    struct server *s;
    struct exchange *x;
    struct buf b;
};

static bool add_rendered(void *ctx, struct tokens *ids, struct fault *f)
{
    struct rendering *r = ctx;
    return !put_rendered(&r->b, r->s, r->x, ids) ||
           fault_set(f, 503, "out_of_memory", NULL, "no memory for the answer");
}

void api_render_completions(struct server *s, struct exchange *x)
{
    struct asked a;
    struct fault f = {0};
    struct rendering r = {s, x, {0}};
    if (read_asked(x, EP_COMPLETIONS, &a)) {
        const bool bad = buf_putc(&r.b, '[') != 0;
        if (server_is_model(s, a.p.model, &f) &&
            prompts_of_value(s, "prompt", a.p.prompt, completion_flags(&a.p), LIMIT_SERVE_CHOICES,
                             add_rendered, &r, &f))
            exchange_answer_json(x, &r.b, bad || buf_putc(&r.b, ']'));
        else
            exchange_fail(x, &f);
    }
    buf_free(&r.b);
    free_asked(&a);
}
