/* What the files of the server share (server.h). */
#ifndef HASTEN_SERVE_INSIDE_H
#define HASTEN_SERVE_INSIDE_H
#include "base/clock.h"
#include "base/limits.h"
#include "model/loaded.h"
#include "serve/fim.h"
#include "serve/http.h"
#include "serve/json_out.h"
#include "serve/keys.h"
#include "serve/metrics.h"
#include "serve/request.h"
#include "serve/server.h"
#include "text/prompt.h"

enum server_phase {
    PHASE_LOADING,
    PHASE_READY,
    PHASE_DRAINING
};

#define SLOTS_SHOWN 64
struct slot_view { /* what /slots says of one, each number for itself */
    atomic_int_fast64_t id, state, n_prompt, n_cached, n_held, n_answer, pages;
};

struct server {
    struct server_settings set;
    atomic_int phase;
    struct door *http, *admin;
    struct keys *keys;
    struct desks *desks;
    struct metrics metrics;
    int64_t started; /* seconds since 1970 */
    /* of the model */
    const struct hasten_model *model;
    struct hasten_engine *engine;
    const struct vocab *vocab;
    struct fim fim;
    bool has_fim;
    struct prompter *prompter; /* NULL: the model has no template */
    int32_t n_ctx, n_vocab;
    size_t
        most_text; /* bytes of a prompt; longer ones have more tokens than the context, whatever they say */
    json_t *methods;
    struct sampler_settings defaults; /* of the file */
    struct sampler *sampler;          /* scratch of the engine's thread, for all its runs */
    struct grammars *grammars;
    struct batch *batch;
    struct motor *motor;
    uint64_t scope_base; /* a hash of what else must not be shared */
    /* requests for text */
    atomic_int tickets, most_tickets; /* choices accepted and not over; at most */
    atomic_int n_generations;
    struct slot_view slots[SLOTS_SHOWN];
    atomic_int n_slots_shown;
    struct batch_slot *slots_now; /* [n_slots] these three: of the engine's thread */
    int32_t n_lanes;              /* the engine counts pages of each */
    struct batch_figures seen;    /* at the last look */
};

/* routes.c: endpoints and who answers them. */
typedef void (*endpoint_fn)(struct server *s, struct exchange *x);
enum route_flags {
    ROUTE_POST = 1,    /* else GET and HEAD */
    ROUTE_DESK = 2,    /* at a desk: it may take time */
    ROUTE_OPEN = 4,    /* needs no key */
    ROUTE_ADMIN = 8,   /* also at the admin door */
    ROUTE_LOADING = 16 /* also before the model is there, and while draining */
};
struct route {
    const char *path;
    unsigned flags;
    endpoint_fn fn;
    const char *summary;
    unsigned fields; /* enum endpoint: the table's columns of its body; 0: none */
};
extern const struct route routes[];
extern const int n_routes;
void server_handle(void *ctx, struct exchange *x);
bool server_admit(void *ctx, struct exchange *x, struct fault *f);
void server_finished(void *ctx, struct exchange *x);

/* desks.c: a few threads that answer what takes thinking. */
struct desks;
hasten_status desks_open(int n, struct desks **out, struct hasten_error *err);
void desks_put(struct desks *d, struct server *s, struct exchange *x, endpoint_fn fn);
void desks_close(struct desks *d); /* after what is queued; NULL is fine */

/* A request's body by the table; *body is the caller's. False after the exchange was answered. */
bool server_read_body(struct exchange *x, enum endpoint ep, json_t **body, struct params *p,
                      json_t **warnings);
/* Is `model` this server's? */
bool server_is_model(const struct server *s, const json_t *model, struct fault *f);
bool server_check_length(const struct server *s, int64_t n, const char *param, struct fault *f);
/* The same of a text that has not been encoded: encoding some megabytes only to refuse them takes seconds. */
bool server_check_text(const struct server *s, size_t bytes, const char *param, struct fault *f);
const char *server_kv_type(const struct server *s);
const char *server_path(const struct server *s); /* of the model's file */
const char *server_arch(const struct server *s);

/* wire_completions.c: flags of vocab_encode for a prompt. */
unsigned completion_flags(const struct params *p);

/* wire_infill.c: the prompt of filling in (NULL: empty): before, behind, other files, how the answer begins. */
bool prompt_of_fim(struct server *s, const json_t *before, const json_t *behind, const json_t *files,
                   const json_t *more, struct tokens *ids, struct fault *f);

/* law.c */
bool law_prepare(struct generation *g, struct fault *f);

/* Endpoints. */
void api_health(struct server *s, struct exchange *x);
void api_metrics(struct server *s, struct exchange *x);
void api_models(struct server *s, struct exchange *x);
void api_model(struct server *s, struct exchange *x);
void api_slots(struct server *s, struct exchange *x);
void api_props(struct server *s, struct exchange *x);
void api_server_info(struct server *s, struct exchange *x);
void api_model_info(struct server *s, struct exchange *x);
void api_load(struct server *s, struct exchange *x);
void api_kv_event_sources(struct server *s, struct exchange *x);
void api_openapi(struct server *s, struct exchange *x);
void api_page(struct server *s, struct exchange *x);
void api_tokenize(struct server *s, struct exchange *x);
void api_detokenize(struct server *s, struct exchange *x);
void api_apply_template(struct server *s, struct exchange *x);
void api_render_chat(struct server *s, struct exchange *x);
void api_render_completions(struct server *s, struct exchange *x);
void api_chat(struct server *s, struct exchange *x);
void api_completions(struct server *s, struct exchange *x);
void api_infill(struct server *s, struct exchange *x);
void api_embeddings(struct server *s, struct exchange *x);
void api_messages(struct server *s, struct exchange *x);
void api_count_tokens(struct server *s, struct exchange *x);
void api_responses(struct server *s, struct exchange *x);

#endif
