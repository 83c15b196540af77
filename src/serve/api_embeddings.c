/* /v1/embeddings: one vector for each text, as `hasten embed` makes them. Texts go to the engine's thread a few at a time,
 * between turns of the batch, so that answers under way keep their pace. */
#include "serve/inside.h"
#include <string.h>

#define AT_ONCE 512 /* tokens of one visit, or one text */

struct embedding {
    struct work work;
    struct server *s;
    struct exchange *x;
    json_t *body, *warnings;
    struct params p;
    enum hasten_pooling pooling;
    struct tokens *lists; /* [n] */
    struct hasten_text *texts;
    int32_t n, done;
    float *vectors; /* [n × d] */
    int64_t n_tokens;
    bool base64;
};

static void drop(struct embedding *e)
{
    for (int32_t i = 0; i < e->n; i++)
        tokens_free(&e->lists[i]);
    mem_free(e->lists);
    mem_free(e->texts);
    mem_free(e->vectors);
    json_decref(e->body);
    json_decref(e->warnings);
    exchange_unref(e->x);
    mem_free(e);
}

static bool out_of_memory(struct fault *f)
{
    return fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
}

static bool add(void *ctx, struct tokens *ids, struct fault *f)
{
    struct embedding *e = ctx;
    if (!server_check_length(e->s, ids->n, "input", f))
        return false;
    struct tokens *grown = mem_realloc(e->lists, (size_t)(e->n + 1) * sizeof *grown);
    if (!grown)
        return out_of_memory(f);
    e->lists = grown;
    e->n_tokens += ids->n;
    e->lists[e->n++] = *ids;
    *ids = (struct tokens){0};
    return true;
}

static bool take_pooling(struct embedding *e, struct fault *f)
{
    static const char *const names[] = {"model", "mean", "cls", "last"};
    const char *asked = json_string_value(e->p.pooling);
    e->pooling = e->s->set.pooling;
    for (int i = 0; asked && i < 4; i++)
        if (strcmp(asked, names[i]) == 0) {
            e->pooling = (enum hasten_pooling)i;
            asked = NULL;
        }
    if (asked)
        return fault_set(f, 400, "invalid_value", "pooling",
                         "pooling: '%.32s' (expected model, mean, cls or last)", asked);
    if (e->pooling == HASTEN_POOLING_MODEL && hasten_model_pooling(e->s->model) == HASTEN_POOLING_MODEL)
        return fault_set(
            f, 400, "invalid_value", "pooling",
            "pooling: the model names none (expected mean, cls or last, here or as the server's --pooling)");
    return true;
}

static bool take_format(struct embedding *e, struct fault *f)
{
    const char *v = json_string_value(e->p.encoding_format);
    const int d = (int)hasten_model_n_embd(e->s->model);
    e->base64 = v && strcmp(v, "base64") == 0;
    if (v && !e->base64 && strcmp(v, "float") != 0)
        return fault_set(f, 400, "invalid_value", "encoding_format",
                         "encoding_format: '%.32s' (expected float or base64)", v);
    if (e->p.dimensions && e->p.dimensions != d)
        return fault_set(f, 400, "unsupported_value", "dimensions",
                         "dimensions: %lld (expected %d, the model's own)", (long long)e->p.dimensions, d);
    return true;
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

static int put_vector(struct buf *b, const struct embedding *e, const float *v, int32_t d)
{
    int bad = 0;
    if (e->base64)
        return buf_putc(b, '"') || out_base64(b, v, (size_t)d * sizeof *v) || buf_putc(b, '"');
    bad = buf_putc(b, '[');
    for (int32_t i = 0; i < d && !bad; i++)
        bad = (i && buf_putc(b, ',')) || out_number(b, (double)v[i]);
    return bad || buf_putc(b, ']');
}

static void answer(struct embedding *e)
{
    const int32_t d = hasten_model_n_embd(e->s->model);
    struct buf b = {0};
    int bad = buf_puts(&b, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < e->n && !bad; i++)
        bad = out_comma(&b) ||
              buf_printf(&b, "{\"object\":\"embedding\",\"index\":%d,\"embedding\":", (int)i) ||
              put_vector(&b, e, e->vectors + (int64_t)i * d, d) || buf_putc(&b, '}');
    bad = bad || buf_puts(&b, "],\"model\":") || out_str(&b, e->s->set.id) ||
          buf_printf(&b, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}", (long long)e->n_tokens,
                     (long long)e->n_tokens);
    if (e->warnings && !bad) {
        char *w = json_dumps(e->warnings, JSON_COMPACT);
        bad = !w || buf_printf(&b, ",\"warnings\":%s", w);
        mem_free(w);
    }
    e->x->prompt_n = (int32_t)e->n_tokens;
    metric_add(&e->s->metrics, COUNT_PROMPT_TOKENS, (uint64_t)e->n_tokens);
    exchange_answer_json(e->x, &b, bad || buf_putc(&b, '}'));
}

static int32_t next_texts(const struct embedding *e)
{
    int64_t tokens = 0;
    int32_t n = 0;
    while (e->done + n < e->n && (n == 0 || tokens + e->texts[e->done + n].n <= AT_ONCE))
        tokens += e->texts[e->done + n++].n;
    return n;
}

/* In the engine's thread: a few texts, then back to the end of the inbox. */
static void visit(struct work *w)
{
    struct embedding *e = (struct embedding *)(void *)w;
    struct server *s = e->s;
    struct hasten_error err;
    const int32_t n = next_texts(e);
    if (!exchange_gone(e->x)) {
        if (hasten_embed(s->engine, e->texts + e->done, n, e->pooling, e->p.normalize,
                         e->vectors + (int64_t)e->done * hasten_model_n_embd(s->model), NULL, &err)) {
            exchange_answer_error(e->x, &err);
        } else if ((e->done += n) < e->n) {
            motor_put(s->motor, &e->work);
            return;
        } else {
            answer(e);
        }
    }
    atomic_fetch_sub(&s->tickets, 1);
    atomic_fetch_sub(&s->n_generations, 1);
    drop(e);
}

static bool prepare(struct embedding *e, struct fault *f)
{
    struct server *s = e->s;
    if (!server_is_model(s, e->p.model, f) || !take_pooling(e, f) || !take_format(e, f) ||
        !prompts_of_value(s, "input", e->p.input, VOCAB_BOS | VOCAB_EOS, LIMIT_SERVE_INPUTS, add, e, f))
        return false;
    e->texts = mem_array((size_t)e->n, sizeof *e->texts);
    e->vectors = mem_array((size_t)e->n * (size_t)hasten_model_n_embd(s->model), sizeof *e->vectors);
    if (!e->texts || !e->vectors)
        return out_of_memory(f);
    for (int32_t i = 0; i < e->n; i++)
        e->texts[i] = (struct hasten_text){e->lists[i].ids, (int32_t)e->lists[i].n};
    if (atomic_load(&s->phase) != PHASE_READY)
        return fault_set(f, 503, "shutting_down", NULL, "the server is shutting down (try again later)");
    if (atomic_fetch_add(&s->tickets, 1) >= atomic_load(&s->most_tickets)) {
        atomic_fetch_sub(&s->tickets, 1);
        metric_add(&s->metrics, COUNT_REFUSED, 1);
        return fault_set(f, 429, "queue_full", NULL, "the queue is full (try again later)");
    }
    return true;
}

void api_embeddings(struct server *s, struct exchange *x)
{
    struct fault f = {0};
    struct embedding *e = mem_calloc(1, sizeof *e);
    if (!e) {
        exchange_answer_json(x, &(struct buf){0}, 1);
        return;
    }
    e->s = s;
    e->x = exchange_ref(x);
    e->work.run = visit;
    if (!server_read_body(x, EP_EMBEDDINGS, &e->body, &e->p, &e->warnings)) {
        drop(e);
    } else if (!prepare(e, &f)) {
        exchange_fail(x, &f);
        drop(e);
    } else {
        atomic_fetch_add(&s->n_generations, 1);
        motor_put(s->motor, &e->work);
    }
}
