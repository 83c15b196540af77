/* /infill, as editors that speak llama.cpp's server ask: what stands before and behind in, `content` out. */
#include "serve/inside.h"
#include <string.h>

/* How many tokens, and how fast. */
static int put_counts(struct buf *b, const struct choice *c)
{
    const struct answer *a = &c->answer;
    const double prompt_s = a->prompt_ms / 1e3, answer_s = a->predicted_ms / 1e3;
    return buf_printf(
        b,
        ",\"tokens_predicted\":%d,\"tokens_evaluated\":%d,\"tokens_cached\":%d,\"truncated\":false,"
        "\"timings\":{\"prompt_n\":%d,\"prompt_ms\":%.3f,\"prompt_per_second\":%.3f,\"predicted_n\":%d,"
        "\"predicted_ms\":%.3f,\"predicted_per_second\":%.3f}",
        (int)a->predicted_n, (int)a->prompt_n, (int)a->cached_n, (int)(a->prompt_n - a->cached_n),
        a->prompt_ms, prompt_s > 0 ? (a->prompt_n - a->cached_n) / prompt_s : 0.0, (int)a->predicted_n,
        a->predicted_ms, answer_s > 0 ? a->predicted_n / answer_s : 0.0);
}

static int put_end(struct buf *b, const struct choice *c)
{
    const char *type = c->finish && strcmp(c->finish, "length") == 0 ? "limit"
                       : c->answer.by_stop_string                    ? "word"
                                                                     : "eos";
    return buf_printf(b, ",\"stop\":true,\"stop_type\":\"%s\",\"finish_reason\":", type) ||
           out_str(b, c->finish) || buf_puts(b, ",\"model\":") || out_str(b, c->g->server->set.id) ||
           put_counts(b, c) || part_warnings(b, c->g) || part_receipt(b, c->g);
}

static void begin(struct choice *c)
{
    (void)c;
}

static void text(struct choice *c, enum said what, const char *s, size_t len)
{
    struct buf b = {0};
    (void)what;
    const int bad = buf_printf(&b, "{\"index\":%d,\"content\":", (int)c->index) || out_text(&b, s, len) ||
                    buf_puts(&b, ",\"stop\":false}");
    generation_event(c->g, NULL, &b, bad);
    buf_free(&b);
}

static void finish(struct choice *c)
{
    struct buf b = {0};
    const int bad = buf_printf(&b, "{\"index\":%d,\"content\":\"\"", (int)c->index) || put_end(&b, c) ||
                    buf_putc(&b, '}');
    generation_event(c->g, NULL, &b, bad);
    buf_free(&b);
}

static void end(struct generation *g)
{
    (void)g;
}

static void fail(struct generation *g, const struct fault *f)
{
    struct buf b = {0};
    const int bad = fault_json(f, &b);
    generation_event(g, NULL, &b, bad);
    buf_free(&b);
}

static int whole(struct generation *g, struct buf *b)
{
    const struct choice *c = &g->choices[0];
    return buf_printf(b, "{\"index\":0,\"content\":") ||
           out_text(b, c->content.data ? c->content.data : "", c->content.len) || put_end(b, c) ||
           buf_putc(b, '}');
}

static const struct wire infill_wire = {"infill-", begin, NULL, text, NULL, finish, end, fail, whole, NULL};

/* ---- the request -------------------------------------------------------------------------------------------- */

static bool no_memory(struct fault *f)
{
    return fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
}

/* Other files, each behind its mark where the model has one. */
static bool add_files(struct server *s, const json_t *files, struct tokens *ids, struct fault *f)
{
    struct hasten_error err;
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *text = json_object_get(json_array_get(files, i), "text"),
                     *name = json_object_get(json_array_get(files, i), "filename");
        struct buf b = {0};
        if (!json_is_string(text) || (name && !json_is_string(name)))
            return fault_set(f, 400, "invalid_value", "input_extra",
                             "input_extra: element %zu (expected objects with filename and text)", i);
        bool ok = !(s->fim.file >= 0 && tokens_push(ids, s->fim.file)) || no_memory(f);
        if (ok && (buf_printf(&b, "%s\n", name ? json_string_value(name) : "file") ||
                   buf_put(&b, json_string_value(text), json_string_length(text)) || buf_putc(&b, '\n')))
            ok = no_memory(f);
        if (ok && vocab_encode(s->vocab, b.data, b.len, VOCAB_NO_PREFIX, ids, &err))
            ok = fault_of(f, &err);
        buf_free(&b);
        if (!ok)
            return false;
    }
    return true;
}

static struct gguf_str text_of(const json_t *v)
{
    return v ? (struct gguf_str){json_string_value(v), json_string_length(v)} : (struct gguf_str){"", 0};
}

bool prompt_of_fim(struct server *s, const json_t *before, const json_t *behind, const json_t *files,
                   const json_t *more, struct tokens *ids, struct fault *f)
{
    struct hasten_error err;
    const bool bos = json_array_size(files) == 0;
    if (!s->has_fim)
        return fault_set(
            f, 400, "unsupported_parameter", "suffix",
            "the model has no tokens for filling in the middle (expected one that was trained for it)");
    if (!add_files(s, files, ids, f))
        return false;
    if (json_array_size(files) && s->fim.file >= 0 && tokens_push(ids, s->fim.file))
        return no_memory(f);
    const struct gguf_str m = text_of(more);
    if (fim_encode(&s->fim, s->vocab, text_of(before), text_of(behind), bos, ids, &err) ||
        (m.len && vocab_encode(s->vocab, m.data, m.len, VOCAB_NO_PREFIX, ids, &err)))
        return fault_of(f, &err);
    return true;
}

void api_infill(struct server *s, struct exchange *x)
{
    struct generation *g;
    struct fault f = {0};
    struct tokens ids = {0};
    if (!generation_open(s, x, EP_INFILL, &infill_wire, &g))
        return;
    const struct params *p = &g->p;
    bool ok = p->input_prefix || p->input_suffix ||
              fault_set(&f, 400, "missing_required_parameter", "input_prefix",
                        "input_prefix: missing (expected input_prefix, input_suffix or both)");
    ok = ok && prompt_of_fim(s, p->input_prefix, p->input_suffix, p->input_extra, p->middle, &ids, &f) &&
         generation_add_prompt(g, &ids, &f) && generation_prepare(g, &f);
    tokens_free(&ids);
    if (ok)
        generation_start(g);
    else
        generation_refuse(g, &f);
}
