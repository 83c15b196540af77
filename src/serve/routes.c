/* Which path is answered by whom, and what every request goes through before: keys, phase, method (inside.h). */
#include "serve/inside.h"
#include <string.h>
#include <strings.h>

#define GET_OPEN (ROUTE_OPEN | ROUTE_ADMIN | ROUTE_LOADING)
#define POST_DESK (ROUTE_POST | ROUTE_DESK)

const struct route routes[] = {
    {"/health", GET_OPEN, api_health, "200 when requests are answered, else 503", 0},
    {"/metrics", GET_OPEN, api_metrics, "metrics for Prometheus", 0},
    {"/v1/models", 0, api_models, "the models", 0},
    {"/v1/models/*", 0, api_model, "one model", 0},
    {"/v1/chat/completions", POST_DESK, api_chat, "an answer to a conversation", EP_CHAT},
    {"/v1/responses", POST_DESK, api_responses, "an answer, as OpenAI's Responses API has it", 0},
    {"/v1/messages", POST_DESK, api_messages, "an answer, as Anthropic's Messages API has it", 0},
    {"/v1/messages/count_tokens", POST_DESK, api_count_tokens, "how many tokens such a conversation is", 0},
    {"/v1/completions", POST_DESK, api_completions, "the continuation of a text", EP_COMPLETIONS},
    {"/v1/chat/completions/render", POST_DESK, api_render_chat, "the token ids of a conversation", EP_CHAT},
    {"/v1/completions/render", POST_DESK, api_render_completions, "the token ids of prompts", EP_COMPLETIONS},
    {"/infill", POST_DESK, api_infill, "what fits between two texts", EP_INFILL},
    {"/v1/embeddings", POST_DESK, api_embeddings, "a vector for each text", EP_EMBEDDINGS},
    {"/tokenize", POST_DESK, api_tokenize, "text or messages to token ids", EP_TOKENIZE},
    {"/detokenize", POST_DESK, api_detokenize, "token ids to text", EP_DETOKENIZE},
    {"/apply-template", POST_DESK, api_apply_template, "messages to the prompt's text", EP_TEMPLATE},
    {"/slots", 0, api_slots, "what is being answered", 0},
    {"/props", 0, api_props, "the model and the defaults, as llama.cpp's clients read them", 0},
    {"/server_info", 0, api_server_info, "the server, for routers", 0},
    {"/get_server_info", 0, api_server_info, "the same", 0},
    {"/model_info", 0, api_model_info, "the model, for routers", 0},
    {"/get_model_info", 0, api_model_info, "the same", 0},
    {"/get_load", 0, api_load, "tokens in flight", 0},
    {"/kv_event_sources", 0, api_kv_event_sources, "where events about the cache are published", 0},
    {"/", ROUTE_OPEN | ROUTE_LOADING, api_page, "the web page", 0},
    {"/assets/*", ROUTE_OPEN | ROUTE_LOADING, api_page, "its files", 0},
    {"/openapi.json", ROUTE_OPEN | ROUTE_LOADING, api_openapi, "this description", 0},
};
const int n_routes = (int)(sizeof routes / sizeof *routes);

/* A path ends in '*' where anything but '/' and nothing may stand. One slash too many at the end is forgiven. */
static bool matches(const char *pattern, const char *path)
{
    size_t n = strlen(path);
    const size_t m = strcspn(pattern, "*");
    if (n > 1 && path[n - 1] == '/')
        n--;
    if (pattern[m] == '*')
        return n > m && strncmp(pattern, path, m) == 0 && strcspn(path + m, "?") == strlen(path + m);
    return n == m && strncmp(pattern, path, n) == 0;
}

static const struct route *find(const char *path)
{
    for (int i = 0; i < n_routes; i++)
        if (matches(routes[i].path, path))
            return &routes[i];
    return NULL;
}

static bool has_method(const struct route *r, const char *method)
{
    return r->flags & ROUTE_POST ? strcmp(method, "POST") == 0
                                 : strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* A page of another origin may not use a server that trusts whoever reaches it. */
static bool is_foreign(const struct exchange *x)
{
    const char *at = x->origin ? strstr(x->origin, "://") : NULL;
    return x->origin && (!at || !x->host || strcasecmp(at + 3, x->host) != 0);
}

static bool check_key(struct server *s, struct exchange *x, const struct route *r, struct fault *f)
{
    const bool allowed = keys_allow(s->keys, x->key, &x->tenant);
    if (allowed || (r && r->flags & ROUTE_OPEN) || (r && r->fn == api_models && s->set.public_models))
        return true;
    return fault_set(f, 401, "invalid_api_key", NULL, "%s (expected Authorization: Bearer KEY)",
                     x->key ? "the API key is not one of the server's" : "no API key");
}

/* Before the body is read: may this be asked at all? */
bool server_admit(void *ctx, struct exchange *x, struct fault *f)
{
    struct server *s = ctx;
    const struct route *r = find(x->path);
    metric_add(&s->metrics, COUNT_HTTP_REQUESTS, 1);
    if (x->admin && r && !(r->flags & ROUTE_ADMIN))
        r = NULL;
    if (!x->admin && s->set.admin_host && r && r->fn == api_metrics)
        r = NULL;
    if (is_foreign(x))
        return fault_set(f, 403, "foreign_origin", NULL,
                         "a page of another origin may not ask (origin %.80s)", x->origin);
    if (!check_key(s, x, r, f))
        return false;
    if (!r)
        return fault_set(f, 404, "not_found", NULL, "nothing is at %.200s (openapi.json lists what is)",
                         x->path);
    if (!has_method(r, x->method)) {
        x->allow = r->flags & ROUTE_POST ? "POST" : "GET, HEAD";
        return fault_set(f, 405, "method_not_allowed", NULL, "%s of %s (expected %s)", x->method, r->path,
                         x->allow);
    }
    if (!(r->flags & ROUTE_LOADING) && atomic_load(&s->phase) != PHASE_READY)
        return fault_set(f, 503, atomic_load(&s->phase) == PHASE_LOADING ? "loading" : "shutting_down", NULL,
                         "the server is %s (try again later)",
                         atomic_load(&s->phase) == PHASE_LOADING ? "loading its model" : "shutting down");
    return true;
}

void server_handle(void *ctx, struct exchange *x)
{
    struct server *s = ctx;
    const struct route *r = find(x->path);
    struct fault f = {0};
    if (!r) { /* it was admitted, so there is one */
        fault_set(&f, 404, "not_found", NULL, "nothing is there");
        exchange_fail(x, &f);
    } else if (r->flags & ROUTE_DESK) {
        desks_put(s->desks, s, x, r->fn);
    } else {
        r->fn(s, x);
    }
}

void server_ask(struct server *s, struct exchange *x)
{
    struct fault f = {0};
    if (server_admit(s, x, &f))
        server_handle(s, x);
    else
        exchange_fail(x, &f);
}

void server_finished(void *ctx, struct exchange *x)
{
    struct server *s = ctx;
    if (!s->set.log)
        return;
    pthread_mutex_lock(&x->lock);
    const struct server_event e = {.id = x->id,
                                   .method = x->method,
                                   .path = x->path,
                                   .status = x->status,
                                   .ms = (double)(clock_now_ns() - x->t0) / 1e6,
                                   .prompt_n = x->prompt_n,
                                   .cached_n = x->cached_n,
                                   .predicted_n = x->predicted_n,
                                   .finish = x->finish,
                                   .left = x->gone};
    pthread_mutex_unlock(&x->lock);
    s->set.log(s->set.log_ctx, &e);
}
