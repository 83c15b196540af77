/* How /v1/completions answers: OpenAI's text_completion, whole and in pieces. */
#include "serve/inside.h"

static void piece(struct choice *c, const char *text, size_t len, bool with_tokens)
{
    struct generation *g = c->g;
    struct buf b = {0};
    int bad = part_head(&b, g, g->wire->chunk) ||
              buf_printf(&b, ",\"choices\":[{\"index\":%d,\"text\":", (int)c->index) ||
              out_text(&b, text, len) || buf_puts(&b, ",\"logprobs\":");
    bad = bad || (with_tokens ? part_completion_logprobs(&b, c, c->told, c->answer.ids.n, &c->told_bytes)
                              : buf_puts(&b, "null"));
    if (with_tokens)
        c->told = c->answer.ids.n;
    bad = bad || buf_puts(&b, ",\"finish_reason\":") || out_str(&b, c->over ? c->finish : NULL) ||
          buf_puts(&b, "}]") || (g->include_usage && buf_puts(&b, ",\"usage\":null")) ||
          (!c->begun && c->index == 0 && part_warnings(&b, g)) || buf_putc(&b, '}');
    generation_event(g, NULL, &b, bad);
    buf_free(&b);
}

/* Nothing of its own, but for the prompt that was to be echoed and warnings. */
static void begin(struct choice *c)
{
    const struct buf *echo = c->g->echoes ? &c->g->echoes[c->prompt] : NULL;
    if (echo || (c->index == 0 && c->g->warnings))
        piece(c, echo && echo->data ? echo->data : "", echo ? echo->len : 0, false);
}

static void text(struct choice *c, enum said what, const char *s, size_t len)
{
    (void)what;
    piece(c, s, len, true);
}

static void finish(struct choice *c)
{
    piece(c, "", 0, true);
}

static int put_choice(struct buf *b, struct choice *c)
{
    struct buf text = {0};
    const struct buf *echo = c->g->echoes ? &c->g->echoes[c->prompt] : NULL;
    size_t at = 0;
    const int bad = buf_puts(&text, "") || (echo && echo->len && buf_put(&text, echo->data, echo->len)) ||
                    (c->content.len && buf_put(&text, c->content.data, c->content.len)) || out_comma(b) ||
                    buf_printf(b, "{\"index\":%d,\"text\":", (int)c->index) ||
                    out_text(b, text.data, text.len) || buf_puts(b, ",\"logprobs\":") ||
                    part_completion_logprobs(b, c, 0, c->answer.ids.n, &at) ||
                    buf_puts(b, ",\"finish_reason\":") || out_str(b, c->finish) || buf_putc(b, '}');
    buf_free(&text);
    return bad;
}

static int whole(struct generation *g, struct buf *b)
{
    const struct usage u = generation_usage(g);
    int bad = part_head(b, g, g->wire->chunk) || buf_puts(b, ",\"choices\":[");
    for (int32_t i = 0; i < g->n_choices && !bad; i++)
        bad = put_choice(b, &g->choices[i]);
    return bad || buf_puts(b, "],\"usage\":") || part_usage(b, &u) || part_warnings(b, g) ||
           part_receipt(b, g) || buf_putc(b, '}');
}

static const struct wire completions_wire = {
    "cmpl-", begin,           part_stream_progress, text,  NULL,
    finish,  part_stream_end, part_stream_fail,     whole, "text_completion"};

/* ---- the request -------------------------------------------------------------------------------------------- */

static bool add(void *ctx, struct tokens *ids, struct fault *f)
{
    return generation_add_prompt(ctx, ids, f);
}

/* The prompts as texts: what was sent, or what the ids stand for. */
static bool take_echoes(struct generation *g, struct fault *f)
{
    const json_t *v = g->p.prompt;
    struct hasten_error err;
    g->echoes = mem_calloc((size_t)g->n_prompts, sizeof *g->echoes);
    if (!g->echoes)
        return fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
    for (int32_t i = 0; i < g->n_prompts; i++) {
        const json_t *t = json_is_string(v) ? v : json_array_get(v, (size_t)i);
        if (json_is_string(t)) {
            if (buf_put(&g->echoes[i], json_string_value(t), json_string_length(t)))
                return fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
        } else if (vocab_decode(g->server->vocab, g->prompts[i].ids, g->prompts[i].n, true, &g->echoes[i],
                                &err)) {
            return fault_of(f, &err);
        }
    }
    return true;
}

unsigned completion_flags(const struct params *p)
{
    const bool special = !FIELD_GIVEN(p, parse_special) || p->parse_special;
    return (special ? VOCAB_SPECIAL : 0u) | (p->add_special_tokens ? VOCAB_BOS : 0u);
}

/* With a suffix: one prompt, what stands before. */
static bool add_filling(struct generation *g, struct fault *f)
{
    struct tokens ids = {0};
    if (!json_is_string(g->p.prompt))
        return fault_set(f, 400, "invalid_value", "prompt", "prompt: expected a string beside suffix");
    const bool ok = prompt_of_fim(g->server, g->p.prompt, g->p.suffix, NULL, NULL, &ids, f) &&
                    generation_add_prompt(g, &ids, f);
    tokens_free(&ids);
    return ok;
}

static bool add_prompts(struct generation *g, struct fault *f)
{
    return g->p.suffix && json_string_length(g->p.suffix)
               ? add_filling(g, f)
               : prompts_of_value(g->server, "prompt", g->p.prompt, completion_flags(&g->p),
                                  LIMIT_SERVE_CHOICES, add, g, f);
}

void api_completions(struct server *s, struct exchange *x)
{
    struct generation *g;
    struct fault f = {0};
    if (!generation_open(s, x, EP_COMPLETIONS, &completions_wire, &g))
        return;
    if (add_prompts(g, &f) && (!g->p.echo || take_echoes(g, &f)) && generation_prepare(g, &f))
        generation_start(g);
    else
        generation_refuse(g, &f);
}
