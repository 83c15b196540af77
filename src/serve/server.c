/* The server's life (server.h): what is opened in which order, and closed in the other. */
#include "engine/engine.h"
#include "sample/of_file.h"
#include "serve/inside.h"
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

void server_default_settings(struct server_settings *s)
{
    *s = (struct server_settings){.host = "127.0.0.1",
                                  .port = 8642,
                                  .n_slots = 16,
                                  .queue = 1024,
                                  .header_ms = 10000,
                                  .idle_ms = 60000,
                                  .ping_ms = 5000,
                                  .max_body = LIMIT_SERVE_BODY,
                                  .max_connections = 2048,
                                  .n_desks = 2};
}

/* ---- listening ---------------------------------------------------------------------------------------------- */

static struct door_settings door_at(struct server *s, const char *host, uint16_t port, bool admin)
{
    return (struct door_settings){.host = host,
                                  .port = port,
                                  .tls_cert = s->set.tls_cert,
                                  .tls_key = s->set.tls_key,
                                  .max_connections = s->set.max_connections,
                                  .max_body = s->set.max_body,
                                  .header_ms = s->set.header_ms,
                                  .idle_ms = s->set.idle_ms,
                                  .body_rate = 1024,
                                  .ping_ms = s->set.ping_ms,
                                  .admin = admin,
                                  .handle = server_handle,
                                  .finished = server_finished,
                                  .admit = server_admit,
                                  .ctx = s};
}

static hasten_status listen_all(struct server *s, struct hasten_error *err)
{
    if (!s->set.host)
        return HASTEN_OK;
    const struct door_settings first = door_at(s, s->set.host, s->set.port, false);
    hasten_status st = door_open(&first, &s->http, err);
    if (!st && s->set.admin_host) {
        const struct door_settings second = door_at(s, s->set.admin_host, s->set.admin_port, true);
        st = door_open(&second, &s->admin, err);
    }
    return st;
}

hasten_status server_open(const struct server_settings *set, struct server **out, struct hasten_error *err)
{
    if (set->host && !door_is_loopback(set->host) && !set->key_file && !set->no_auth)
        return error_set(
            err, HASTEN_ERR_USAGE,
            "--host %s: others reach this address, and there are no keys (expected --api-key-file FILE, "
            "or --no-auth to let everybody ask)",
            set->host);
    struct server *s = mem_calloc(1, sizeof *s);
    if (!s)
        return error_set(err, HASTEN_ERR_MEMORY, "serving: out of memory");
    s->set = *set;
    s->started = clock_unix_s();
    hasten_status st = keys_open(set->key_file, &s->keys, err);
    if (!st)
        st = desks_open(set->n_desks, &s->desks, err);
    if (!st)
        st = listen_all(s, err);
    if (st)
        server_close(s);
    else
        *out = s;
    return st;
}

uint16_t server_port(const struct server *s)
{
    return s->http ? door_port(s->http) : 0;
}

uint16_t server_admin_port(const struct server *s)
{
    return s->admin ? door_port(s->admin) : 0;
}

/* ---- the model ---------------------------------------------------------------------------------------------- */

static void show_slot(struct slot_view *v, const struct batch_slot *now)
{
    atomic_store_explicit(&v->id, (int64_t)now->id, memory_order_relaxed);
    atomic_store_explicit(&v->state, now->state, memory_order_relaxed);
    atomic_store_explicit(&v->n_prompt, now->n_prompt, memory_order_relaxed);
    atomic_store_explicit(&v->n_cached, now->n_cached, memory_order_relaxed);
    atomic_store_explicit(&v->n_held, now->n_held, memory_order_relaxed);
    atomic_store_explicit(&v->n_answer, now->n_answer, memory_order_relaxed);
    atomic_store_explicit(&v->pages, now->pages, memory_order_relaxed);
}

/* Of the running jobs; returns the pages that they hold, those in common counted for each. */
static int64_t show_slots(struct server *s)
{
    int32_t n = batch_slots(s->batch, s->slots_now, s->set.n_slots);
    int64_t pages = 0;
    n = n < s->set.n_slots ? n : s->set.n_slots;
    while (n && s->slots_now[n - 1].state == BATCH_WAITING)
        n--;
    for (int32_t i = 0; i < n; i++) {
        pages += s->slots_now[i].pages;
        if (i < SLOTS_SHOWN)
            show_slot(&s->slots[i], &s->slots_now[i]);
    }
    atomic_store(&s->n_slots_shown, n < SLOTS_SHOWN ? n : SLOTS_SHOWN);
    return pages;
}

/* After a turn, in the engine's thread: what others may know of the engine. */
static void look(void *ctx)
{
    struct server *s = ctx;
    struct metrics *m = &s->metrics;
    struct batch_figures f;
    if (!s->batch)
        return;
    batch_figures(s->batch, &f);
    metric_set(m, GAUGE_RUNNING, f.running);
    metric_set(m, GAUGE_PAGES_ALL, f.pages_all / s->n_lanes);
    const int64_t live = show_slots(s);
    metric_set(m, GAUGE_PAGES_USED, (live < f.pages_used ? live : f.pages_used) / s->n_lanes);
    metric_set(m, GAUGE_STORED_POSITIONS, (int64_t)f.store.positions);
    metric_add(m, COUNT_PREEMPTIONS, f.preemptions - s->seen.preemptions);
    metric_add(m, COUNT_RECOMPUTED, f.recomputed - s->seen.recomputed);
    metric_add(m, COUNT_DRAFTED, f.drafted - s->seen.drafted);
    metric_add(m, COUNT_ACCEPTED, f.accepted - s->seen.accepted);
    s->seen = f;
}

/* What makes KV of one request unfit for another beside the key: fixed for the life of an engine, and so no secret. */
static uint64_t scope_base(const struct server *s)
{
    return XXH3_64bits(s->set.id, strlen(s->set.id));
}

static hasten_status open_batch(struct server *s, struct hasten_error *err)
{
    const struct batch_settings b = {
        .n_slots = s->set.n_slots, .queue_limit = LIMIT_SERVE_QUEUE, .itl_target = s->set.itl_ms};
    struct batch_figures f;
    hasten_status st = batch_open(s->engine, &b, &s->batch, err);
    if (!st)
        st = sampler_open(s->n_vocab, &s->sampler, err);
    if (!st)
        st = grammars_open(s->vocab, s->n_vocab, &s->grammars, err);
    if (st)
        return st;
    batch_figures(s->batch, &f);
    s->set.n_slots = f.n_slots;
    s->slots_now = mem_array((size_t)f.n_slots, sizeof *s->slots_now);
    s->n_lanes = s->engine->kv.n_lanes > 0 ? s->engine->kv.n_lanes : 1;
    if (!s->slots_now)
        return error_set(err, HASTEN_ERR_MEMORY, "serving: out of memory");
    metric_set(&s->metrics, GAUGE_PAGE_TOKENS, KV_PAGE);
    return HASTEN_OK;
}

/* A token stands for at most the longest text of the vocabulary, of three times as many bytes before normalisation (three
 * letters of Hangul become one). Encoders may take a word of any length for one unknown token. */
static size_t most_text(const struct server *s)
{
    size_t longest = 1;
    if (s->model->desc.encoder)
        return SIZE_MAX;
    for (int32_t id = 0; id < s->n_vocab; id++) {
        const size_t n = vocab_text(s->vocab, id).len;
        longest = n > longest ? n : longest;
    }
    return 3 * longest * (size_t)s->n_ctx;
}

hasten_status server_load(struct server *s, const struct hasten_model *m, struct hasten_engine *e,
                          json_t *methods, struct hasten_error *err)
{
    s->model = m;
    s->engine = e;
    s->methods = methods;
    s->vocab = model_vocab(m);
    s->n_ctx = hasten_engine_n_ctx(e);
    s->n_vocab = hasten_model_n_vocab(m);
    s->most_text = most_text(s);
    s->scope_base = scope_base(s);
    sampler_default_settings(&s->defaults);
    hasten_status st = methods ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "serving: out of memory");
    if (!st)
        st = sampler_settings_of_file(model_gguf(m), &s->defaults, err);
    s->has_fim = fim_find(model_gguf(m), s->vocab, &s->fim);
    if (!st && !hasten_model_is_encoder(m)) {
        if (prompter_open(model_gguf(m), s->vocab, &s->prompter, err))
            st = error_prefix(err, "%s", server_path(s));
        if (!st)
            st = open_batch(s, err);
    }
    if (!st)
        st = motor_open(s->batch, look, s, &s->motor, err);
    if (st)
        return st;
    atomic_store(&s->most_tickets, s->set.n_slots + s->set.queue);
    atomic_store(&s->phase, PHASE_READY);
    return HASTEN_OK;
}

/* ---- what endpoints share ----------------------------------------------------------------------------------- */

bool server_read_body(struct exchange *x, enum endpoint ep, json_t **body, struct params *p,
                      json_t **warnings)
{
    struct hasten_error err;
    struct fault f = {0};
    bool ok = true;
    if (json_parse("body", x->body.data ? x->body.data : "", x->body.len, body, &err)) {
        ok = fault_of(&f, &err);
        f.code = f.status == 400 ? "invalid_json" : f.code;
    }
    ok = ok && fields_parse(*body, ep, p, warnings, &f);
    if (!ok)
        exchange_fail(x, &f);
    return ok;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool server_is_model(const struct server *s, const json_t *model, struct fault *f)
{
    const char *id = json_string_value(model);
    if (!model || strcmp(id, s->set.id) == 0 || strcmp(id, s->set.argument) == 0 ||
        strcmp(id, base_name(s->set.argument)) == 0)
        return true;
    return fault_set(f, 404, "model_not_found", "model", "the model '%.100s' is not here (expected %s)", id,
                     s->set.id);
}

bool server_check_length(const struct server *s, int64_t n, const char *param, struct fault *f)
{
    if (n <= s->n_ctx)
        return true;
    return fault_set(f, 400, "context_length_exceeded", param,
                     "the prompt has %lld tokens, the model's context holds %d (expected fewer)",
                     (long long)n, (int)s->n_ctx);
}

bool server_check_text(const struct server *s, size_t bytes, const char *param, struct fault *f)
{
    if (bytes <= s->most_text)
        return true;
    return fault_set(
        f, 400, "context_length_exceeded", param,
        "the prompt has more than %lld tokens (%zu bytes), the model's context holds %d (expected fewer)",
        (long long)s->n_ctx, bytes, (int)s->n_ctx);
}

const char *server_kv_type(const struct server *s)
{
    static const char *const names[] = {"f16", "f32", "bf16", "q8", "q4"};
    if (atomic_load(&s->phase) == PHASE_LOADING) /* metrics are asked for before the engine is there */
        return "auto";
    const unsigned type = (unsigned)s->engine->settings.kv_type;
    return type < sizeof names / sizeof *names ? names[type] : "auto";
}

const char *server_path(const struct server *s)
{
    return gguf_path(model_gguf(s->model));
}

const char *server_arch(const struct server *s)
{
    return s->model->desc.arch;
}

/* ---- the end ------------------------------------------------------------------------------------------------ */

hasten_status server_reload(struct server *s, struct hasten_error *err)
{
    return keys_reload(s->keys, err);
}

void server_drain(struct server *s)
{
    atomic_store(&s->phase, PHASE_DRAINING);
}

int server_busy(struct server *s)
{
    return atomic_load(&s->n_generations);
}

void server_close(struct server *s)
{
    if (!s)
        return;
    atomic_store(&s->phase, PHASE_DRAINING);
    desks_close(s->desks); /* what lies there still becomes jobs */
    motor_stop(s->motor);
    batch_close(s->batch); /* what still runs ends, with what it has */
    motor_close(s->motor);
    door_close(s->admin);
    door_close(s->http);
    keys_close(s->keys);
    prompter_close(s->prompter);
    grammars_close(s->grammars);
    sampler_close(s->sampler);
    mem_free(s->slots_now);
    json_decref(s->methods);
    mem_free(s);
}
