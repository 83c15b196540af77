/* How /v1/chat/completions answers: OpenAI's chat.completion and its chunks. */
#include "serve/inside.h"
#include "serve/structured.h"

/* ---- chunks ------------------------------------------------------------------------------------------------- */

/* From here to chunk_end is the delta. */
static int chunk_begin(struct buf *b, const struct choice *c)
{
    return part_head(b, c->g, c->g->wire->chunk) ||
           buf_printf(b, ",\"choices\":[{\"index\":%d,\"delta\":{", (int)c->index);
}

static void chunk_end(struct choice *c, struct buf *b, int bad)
{
    struct generation *g = c->g;
    bad = bad || buf_puts(b, "},\"logprobs\":") || part_chat_logprobs(b, c, c->told, c->answer.ids.n);
    c->told = c->answer.ids.n;
    bad = bad || buf_puts(b, ",\"finish_reason\":") || out_str(b, c->over ? c->finish : NULL) ||
          buf_puts(b, "}]") || (g->include_usage && buf_puts(b, ",\"usage\":null")) || buf_putc(b, '}');
    generation_event(g, NULL, b, bad);
    buf_free(b);
}

/* The first chunk of a choice says whose message it is. It holds no token, so no log-probabilities. */
static void begin(struct choice *c)
{
    struct buf b = {0};
    struct generation *g = c->g;
    const int bad =
        chunk_begin(&b, c) ||
        buf_puts(&b, "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]") ||
        (g->include_usage && buf_puts(&b, ",\"usage\":null")) || (c->index == 0 && part_warnings(&b, g)) ||
        buf_putc(&b, '}');
    generation_event(g, NULL, &b, bad);
    buf_free(&b);
}

static void text(struct choice *c, enum said what, const char *s, size_t len)
{
    struct buf b = {0};
    const int bad = chunk_begin(&b, c) ||
                    out_key(&b, what == SAID_CONTENT ? "content" : "reasoning_content") ||
                    out_text(&b, s, len);
    chunk_end(c, &b, bad);
}

static void call(struct choice *c, int32_t index, const char *arguments, size_t len, bool begins)
{
    struct buf b = {0};
    const struct call *k = &c->calls[index];
    int bad = chunk_begin(&b, c) || buf_printf(&b, "\"tool_calls\":[{\"index\":%d", (int)index);
    if (begins)
        bad = bad || buf_puts(&b, ",\"id\":") || out_str(&b, k->id.data) ||
              buf_puts(&b, ",\"type\":\"function\",\"function\":{\"name\":") ||
              out_text(&b, k->name.data ? k->name.data : "", k->name.len) ||
              buf_puts(&b, ",\"arguments\":") || out_text(&b, arguments, len) || buf_puts(&b, "}}]");
    else
        bad = bad || buf_puts(&b, ",\"function\":{\"arguments\":") || out_text(&b, arguments, len) ||
              buf_puts(&b, "}}]");
    chunk_end(c, &b, bad);
}

static void finish(struct choice *c)
{
    struct buf b = {0};
    chunk_end(c, &b, chunk_begin(&b, c));
}

/* ---- whole -------------------------------------------------------------------------------------------------- */

static int put_calls(struct buf *b, const struct choice *c)
{
    int bad = buf_puts(b, ",\"tool_calls\":[");
    for (int32_t i = 0; i < c->n_calls && !bad; i++) {
        const struct call *k = &c->calls[i];
        bad = out_comma(b) || buf_puts(b, "{\"id\":") || out_str(b, k->id.data) ||
              buf_puts(b, ",\"type\":\"function\",\"function\":{\"name\":") ||
              out_text(b, k->name.data ? k->name.data : "", k->name.len) || buf_puts(b, ",\"arguments\":") ||
              out_text(b, k->arguments.data ? k->arguments.data : "", k->arguments.len) || buf_puts(b, "}}");
    }
    return bad || buf_putc(b, ']');
}

static int put_choice(struct buf *b, const struct choice *c)
{
    const struct buf *text = &c->content, *why = &c->reasoning;
    return out_comma(b) ||
           buf_printf(b, "{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", (int)c->index) ||
           (c->n_calls && text->len == 0 ? buf_puts(b, "null")
                                         : out_text(b, text->data ? text->data : "", text->len)) ||
           (why->len && (buf_puts(b, ",\"reasoning_content\":") || out_text(b, why->data, why->len))) ||
           buf_puts(b, ",\"refusal\":null") || (c->n_calls && put_calls(b, c)) ||
           buf_puts(b, "},\"logprobs\":") || part_chat_logprobs(b, c, 0, c->answer.ids.n) ||
           buf_puts(b, ",\"finish_reason\":") || out_str(b, c->finish) || buf_putc(b, '}');
}

static int whole(struct generation *g, struct buf *b)
{
    const struct usage u = generation_usage(g);
    int bad = part_head(b, g, "chat.completion") || buf_puts(b, ",\"choices\":[");
    for (int32_t i = 0; i < g->n_choices && !bad; i++)
        bad = put_choice(b, &g->choices[i]);
    return bad || buf_puts(b, "],\"usage\":") || part_usage(b, &u) || part_warnings(b, g) ||
           part_receipt(b, g) || buf_putc(b, '}');
}

static const struct wire chat_wire = {
    "chatcmpl-", begin,           part_stream_progress, text,  call,
    finish,      part_stream_end, part_stream_fail,     whole, "chat.completion.chunk"};

void api_chat(struct server *s, struct exchange *x)
{
    struct generation *g;
    if (generation_open(s, x, EP_CHAT, &chat_wire, &g))
        chat_start(g);
}
