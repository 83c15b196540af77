/* Endpoints that say how the server is: health, metrics, models, slots, and what routers ask. All are answered in the
 * door's thread from atomics and constants; none waits for the engine. */
#include "serve/inside.h"
#include <string.h>

static void answer(struct exchange *x, struct buf *b, int bad)
{
    exchange_answer_json(x, b, bad);
}

void api_health(struct server *s, struct exchange *x)
{
    static const char *const says[] = {"loading", "ok", "draining"};
    const int phase = atomic_load(&s->phase);
    struct buf b = {0};
    if (buf_printf(&b, "{\"status\":\"%s\"}", says[phase]))
        buf_clear(&b);
    exchange_answer(x, phase == PHASE_READY ? 200 : 503, "application/json", &b);
}

void api_metrics(struct server *s, struct exchange *x)
{
    const struct metrics_labels l = {s->set.id, server_kv_type(s)};
    const int64_t running = metric_gauge(&s->metrics, GAUGE_RUNNING), all = atomic_load(&s->tickets);
    struct buf b = {0};
    metric_set(&s->metrics, GAUGE_CONNECTIONS, door_connections(s->http));
    metric_set(&s->metrics, GAUGE_WAITING, all > running ? all - running : 0);
    if (metrics_render(&s->metrics, &l, &b)) {
        answer(x, &b, 1);
        return;
    }
    exchange_answer(x, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

static int put_model(struct buf *b, const struct server *s)
{
    return buf_puts(b, "{\"id\":") || out_str(b, s->set.id) ||
           buf_printf(b, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"hasten\",\"root\":",
                      (long long)s->started) ||
           out_str(b, server_path(s)) ||
           buf_printf(
               b,
               ",\"parent\":null,\"max_model_len\":%d,\"meta\":{\"n_vocab\":%d,\"n_ctx_train\":%d,\"n_embd\":%d}}",
               (int)s->n_ctx, (int)s->n_vocab, (int)hasten_model_n_ctx_train(s->model),
               (int)hasten_model_n_embd(s->model));
}

void api_models(struct server *s, struct exchange *x)
{
    struct buf b = {0};
    answer(x, &b, buf_puts(&b, "{\"object\":\"list\",\"data\":[") || put_model(&b, s) || buf_puts(&b, "]}"));
}

void api_model(struct server *s, struct exchange *x)
{
    const char *id = x->path + strlen("/v1/models/");
    json_t *name = json_string(id);
    struct fault f = {0};
    struct buf b = {0};
    if (!server_is_model(s, name, &f)) {
        if (!f.status)
            fault_set(&f, 404, "model_not_found", "model", "no such model (expected %s)", s->set.id);
        exchange_fail(x, &f);
    } else {
        answer(x, &b, put_model(&b, s));
    }
    json_decref(name);
}

void api_slots(struct server *s, struct exchange *x)
{
    static const char *const states[] = {"waiting", "reading", "answering", "paused"};
    struct buf b = {0};
    int bad = buf_putc(&b, '[');
    const int n = atomic_load(&s->n_slots_shown);
    const int total = s->set.n_slots < SLOTS_SHOWN ? s->set.n_slots : SLOTS_SHOWN;
    for (int i = 0; i < (n > total ? n : total) && !bad; i++) {
        const struct slot_view *v = &s->slots[i];
        const int state = (int)atomic_load(&v->state);
        bad = out_comma(&b) || buf_printf(&b, "{\"id\":%d,\"n_ctx\":%d,\"is_processing\":%s", i,
                                          (int)s->n_ctx, i < n ? "true" : "false");
        if (i < n)
            bad =
                bad ||
                buf_printf(
                    &b,
                    ",\"id_task\":%lld,\"state\":\"%s\",\"n_prompt\":%lld,\"n_cached\":%lld,\"n_held\":%lld,"
                    "\"n_decoded\":%lld,\"pages\":%lld",
                    (long long)atomic_load(&v->id), states[state & 3], (long long)atomic_load(&v->n_prompt),
                    (long long)atomic_load(&v->n_cached), (long long)atomic_load(&v->n_held),
                    (long long)atomic_load(&v->n_answer), (long long)atomic_load(&v->pages));
        bad = bad || buf_putc(&b, '}');
    }
    answer(x, &b, bad || buf_putc(&b, ']'));
}

static int put_token(struct buf *b, const struct server *s, int32_t id)
{
    if (id < 0)
        return buf_puts(b, "\"\"");
    const struct gguf_str t = vocab_text(s->vocab, id);
    return out_text(b, t.data, t.len);
}

void api_props(struct server *s, struct exchange *x)
{
    const struct sampler_settings *d = &s->defaults;
    const struct gguf_str t = vocab_chat_template(s->vocab);
    struct gguf_str source = t;
    struct hasten_error err;
    struct buf b = {0};
    if (source.len == 0 && gguf_opt_str(model_gguf(s->model), "tokenizer.chat_template", &source, &err))
        source = (struct gguf_str){"", 0};
    const int bad =
        buf_printf(&b, "{\"default_generation_settings\":{\"n_ctx\":%d,\"params\":{\"temperature\":",
                   (int)s->n_ctx) ||
        out_number(&b, (double)d->temperature) || buf_printf(&b, ",\"top_k\":%d,\"top_p\":", (int)d->top_k) ||
        out_number(&b, (double)d->top_p) || buf_puts(&b, ",\"min_p\":") || out_number(&b, (double)d->min_p) ||
        buf_puts(&b, ",\"repeat_penalty\":") || out_number(&b, (double)d->repeat_penalty) ||
        buf_printf(&b, "}},\"total_slots\":%d,\"model_alias\":", (int)s->set.n_slots) ||
        out_str(&b, s->set.id) || buf_puts(&b, ",\"model_path\":") || out_str(&b, server_path(s)) ||
        buf_puts(&b, ",\"modalities\":{\"vision\":false,\"audio\":false},\"chat_template\":") ||
        out_text(&b, source.data ? source.data : "", source.len) || buf_puts(&b, ",\"bos_token\":") ||
        put_token(&b, s, vocab_bos(s->vocab)) || buf_puts(&b, ",\"eos_token\":") ||
        put_token(&b, s, vocab_eos(s->vocab)) ||
        buf_puts(&b, ",\"build_info\":\"hasten " HASTEN_VERSION "\"}");
    answer(x, &b, bad);
}

void api_server_info(struct server *s, struct exchange *x)
{
    struct buf b = {0};
    char *methods = json_dumps(s->methods, JSON_COMPACT);
    const int64_t positions =
        metric_gauge(&s->metrics, GAUGE_PAGES_ALL) * metric_gauge(&s->metrics, GAUGE_PAGE_TOKENS);
    const int bad =
        !methods || buf_puts(&b, "{\"model_path\":") || out_str(&b, server_path(s)) ||
        buf_puts(&b, ",\"served_model_name\":") || out_str(&b, s->set.id) ||
        buf_printf(&b,
                   ",\"version\":\"%s\",\"max_running_requests\":%d,\"max_total_tokens\":%lld,"
                   "\"max_model_len\":%d,\"kernels\":\"%s\",\"threads\":%d,\"methods\":%s}",
                   HASTEN_VERSION, (int)s->set.n_slots, (long long)positions, (int)s->n_ctx,
                   hasten_engine_kernels(s->engine), (int)hasten_engine_n_threads(s->engine), methods);
    mem_free(methods);
    answer(x, &b, bad);
}

void api_model_info(struct server *s, struct exchange *x)
{
    struct buf b = {0};
    const int bad = buf_puts(&b, "{\"model_path\":") || out_str(&b, server_path(s)) ||
                    buf_puts(&b, ",\"tokenizer_path\":") || out_str(&b, server_path(s)) ||
                    buf_printf(&b, ",\"is_generation\":%s,\"model_type\":", s->batch ? "true" : "false") ||
                    out_str(&b, server_arch(s)) || buf_puts(&b, ",\"architectures\":[") ||
                    out_str(&b, server_arch(s)) || buf_puts(&b, "]}");
    answer(x, &b, bad);
}

/* Tokens in flight: what answers under way hold, and requests that wait count one. */
void api_load(struct server *s, struct exchange *x)
{
    struct buf b = {0};
    int64_t load = atomic_load(&s->tickets);
    const int n = atomic_load(&s->n_slots_shown);
    for (int i = 0; i < n; i++)
        load += atomic_load(&s->slots[i].n_prompt) + atomic_load(&s->slots[i].n_answer);
    answer(x, &b, buf_printf(&b, "{\"load\":%lld}", (long long)load));
}

void api_kv_event_sources(struct server *s, struct exchange *x)
{
    struct buf b = {0};
    (void)s;
    answer(x, &b, buf_puts(&b, "[]"));
}
