/* Pieces of answers that several wire formats share (request.h). */
#include "serve/inside.h"
#include <math.h>

int part_usage(struct buf *b, const struct usage *u)
{
    return buf_printf(b,
                      "{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
                      (long long)u->prompt, (long long)u->answer, (long long)(u->prompt + u->answer),
                      (long long)u->cached);
}

int part_warnings(struct buf *b, const struct generation *g)
{
    if (!g->warnings)
        return 0;
    int bad = buf_puts(b, ",\"warnings\":[");
    for (size_t i = 0; i < json_array_size(g->warnings) && !bad; i++) {
        const json_t *w = json_array_get(g->warnings, i);
        bad = out_comma(b) || out_text(b, json_string_value(w), json_string_length(w));
    }
    return bad || buf_putc(b, ']');
}

int part_receipt(struct buf *b, const struct generation *g)
{
    if (!g->p.receipt)
        return 0;
    char *methods = json_dumps(g->server->methods, JSON_COMPACT);
    int bad = !methods || buf_printf(b, ",\"receipt\":{\"methods\":%s,\"choices\":[", methods);
    mem_free(methods);
    for (int32_t i = 0; i < g->n_choices && !bad; i++) {
        const struct choice *c = &g->choices[i];
        const struct answer *a = &c->answer;
        const struct batch_times *t = &c->times;
        const double queued = t->admitted ? (double)(t->admitted - g->x->t0) / 1e6 : 0;
        bad =
            out_comma(b) ||
            buf_printf(
                b,
                "{\"index\":%d,\"seed\":%llu,\"stream\":%u,\"prompt_n\":%d,\"cached_n\":%d,\"queue_ms\":%.3f,"
                "\"prompt_ms\":%.3f,\"predicted_n\":%d,\"predicted_ms\":%.3f,\"passes\":%d,\"drafted_n\":%d,"
                "\"accepted_n\":%d,\"injected_n\":%d,\"preempted\":%d}",
                (int)c->index, (unsigned long long)c->law.settings.seed, c->law.settings.stream,
                (int)a->prompt_n, (int)a->cached_n, queued, a->prompt_ms, (int)a->predicted_n,
                a->predicted_ms, (int)a->passes, (int)a->drafted_n, (int)a->accepted_n, (int)a->injected_n,
                (int)t->preempted);
    }
    return bad || buf_puts(b, "]}");
}

int part_head(struct buf *b, const struct generation *g, const char *object)
{
    const struct server *s = g->server;
    return buf_puts(b, "{\"id\":") || out_str(b, g->id) ||
           buf_printf(b, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object, (long long)g->created) ||
           out_str(b, s->set.id) ||
           buf_printf(b, ",\"system_fingerprint\":\"hasten-%s-%s\"", HASTEN_VERSION,
                      hasten_engine_kernels(s->engine));
}

/* ---- events of OpenAI's streams ---- */

void part_stream_progress(struct choice *c, uint64_t done, uint64_t total)
{
    struct buf b = {0};
    const uint64_t cached = (uint64_t)c->answer.cached_n;
    const int bad =
        part_head(&b, c->g, c->g->wire->chunk) ||
        buf_printf(
            &b,
            ",\"choices\":[],\"prompt_progress\":{\"index\":%d,\"total\":%llu,\"cache\":%llu,\"processed\":%llu,"
            "\"time_ms\":%.0f}}",
            (int)c->index, (unsigned long long)(total + cached), (unsigned long long)cached,
            (unsigned long long)(done + cached),
            c->times.admitted ? (double)(clock_now_ns() - c->times.admitted) / 1e6 : 0.0);
    generation_event(c->g, NULL, &b, bad);
    buf_free(&b);
}

void part_stream_end(struct generation *g)
{
    const struct usage u = generation_usage(g);
    struct buf b = {0};
    if (g->include_usage || g->p.receipt) {
        const int bad = part_head(&b, g, g->wire->chunk) || buf_puts(&b, ",\"choices\":[],\"usage\":") ||
                        part_usage(&b, &u) || part_receipt(&b, g) || buf_putc(&b, '}');
        generation_event(g, NULL, &b, bad);
        buf_free(&b);
    }
    exchange_write(g->x, "data: [DONE]\n\n", 14);
}

void part_stream_fail(struct generation *g, const struct fault *f)
{
    struct buf b = {0};
    const int bad = fault_json(f, &b);
    generation_event(g, NULL, &b, bad);
    buf_free(&b);
    exchange_write(g->x, "data: [DONE]\n\n", 14);
}

/* ---- log-probabilities -------------------------------------------------------------------------------------- */

static int put_logprob(struct buf *b, float v)
{
    return isnan(v) ? buf_puts(b, "null") : isinf(v) ? buf_puts(b, "-9999.0") : out_number(b, (double)v);
}

static int put_token(struct buf *b, const struct choice *c, const struct token_logprob *t)
{
    struct buf bytes = {0};
    struct hasten_error err;
    int bad = vocab_token_bytes(c->g->server->vocab, t->id, true, &bytes, &err) != HASTEN_OK;
    const char *text = bytes.data ? bytes.data : "";
    bad = bad || buf_puts(b, "{\"token\":") || out_text(b, text, bytes.len) || buf_puts(b, ",\"logprob\":") ||
          put_logprob(b, t->logprob) || buf_puts(b, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.len && !bad; i++)
        bad = buf_printf(b, i ? ",%u" : "%u", (unsigned)(unsigned char)text[i]);
    bad = bad || buf_printf(b, "],\"id\":%d", (int)t->id);
    buf_free(&bytes);
    return bad;
}

int part_chat_logprobs(struct buf *b, const struct choice *c, int64_t from, int64_t to)
{
    const struct answer *a = &c->answer;
    const int64_t n_top = c->law.settings.n_logprobs;
    if (!c->law.logprobs)
        return buf_puts(b, "null");
    int bad = buf_puts(b, "{\"content\":[");
    for (int64_t i = from; i < to && !bad; i++) {
        bad = out_comma(b) || put_token(b, c, &a->chosen[i]) || buf_puts(b, ",\"top_logprobs\":[");
        for (int64_t j = 0; j < n_top && !bad; j++)
            if (a->top[i * n_top + j].id >= 0)
                bad = out_comma(b) || put_token(b, c, &a->top[i * n_top + j]) || buf_putc(b, '}');
        bad = bad || buf_puts(b, "]}");
    }
    return bad || buf_puts(b, "],\"refusal\":null}");
}

static int put_token_text(struct buf *b, const struct choice *c, int32_t id, size_t *len)
{
    struct buf bytes = {0};
    struct hasten_error err;
    const int bad = vocab_token_bytes(c->g->server->vocab, id, true, &bytes, &err) != HASTEN_OK ||
                    out_text(b, bytes.data ? bytes.data : "", bytes.len);
    *len = bytes.len;
    buf_free(&bytes);
    return bad;
}

static int put_alternatives(struct buf *b, const struct choice *c, int64_t at)
{
    const int64_t n_top = c->law.settings.n_logprobs;
    size_t len;
    int bad = buf_putc(b, '{');
    for (int64_t j = 0; j < n_top && !bad; j++) {
        const struct token_logprob *t = &c->answer.top[at * n_top + j];
        if (t->id >= 0)
            bad = out_comma(b) || put_token_text(b, c, t->id, &len) || buf_putc(b, ':') ||
                  put_logprob(b, t->logprob);
    }
    return bad || buf_putc(b, '}');
}

int part_completion_logprobs(struct buf *b, const struct choice *c, int64_t from, int64_t to, size_t *at)
{
    const struct answer *a = &c->answer;
    struct buf numbers = {0}, offsets = {0};
    size_t len;
    if (!c->law.logprobs)
        return buf_puts(b, "null");
    int bad = buf_puts(b, "{\"tokens\":[");
    for (int64_t i = from; i < to && !bad; i++) {
        bad = out_comma(b) || put_token_text(b, c, a->ids.ids[i], &len) ||
              buf_printf(&offsets, i > from ? ",%zu" : "%zu", *at) || (i > from && buf_putc(&numbers, ',')) ||
              put_logprob(&numbers, a->chosen[i].logprob);
        *at += len;
    }
    bad = bad || buf_printf(b, "],\"token_logprobs\":[%s],\"text_offset\":[%s],\"top_logprobs\":[",
                            numbers.data ? numbers.data : "", offsets.data ? offsets.data : "");
    for (int64_t i = from; i < to && !bad; i++)
        bad = out_comma(b) || put_alternatives(b, c, i);
    buf_free(&numbers);
    buf_free(&offsets);
    return bad || buf_puts(b, "]}");
}
