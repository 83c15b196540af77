/* `hasten serve`: a model behind HTTP (src/serve/). Owns what only the command knows: options, the log on stderr, signals,
 * the port's file, the word to a service manager. */
#include "base/limits.h"
#include "cli/many.h"
#ifdef HASTEN_SERVE
#include "base/clock.h"
#include "base/file.h"
#include "serve/json_out.h"
#include "serve/server.h"
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#endif

struct serve_args {
    const char *host, *port_file, *key_file, *alias, *admin, *cert, *key;
    int32_t port, slots, queue, max_connections, desks;
    float itl_target;
    uint64_t grace, timeout, header_timeout, idle_timeout, ping, max_body, kv_size;
    int log_format, cache_scope, pooling;
    bool no_auth, public_models;
    struct ui ui;
    struct model_args model;
};

#define AT(field) offsetof(struct serve_args, field)

static const struct option_def serve_defs[] = {
    {"host", NULL, OPT_STRING, AT(host), 0, 0, "127.0.0.1", "ADDRESS", "where to listen"},
    {"port", NULL, OPT_INT, AT(port), 0, 65535, "8642", "N", "on which port; 0: any, see --port-file"},
    {"port-file", NULL, OPT_STRING, AT(port_file), 0, 0, NULL, "FILE",
     "write the port there once it listens"},
    {"api-key-file", NULL, OPT_STRING, AT(key_file), 0, 0, NULL, "FILE",
     "who may ask: a key a line; SIGHUP reads it again"},
    {"no-auth", NULL, OPT_FLAG, AT(no_auth), 0, 0, NULL, NULL,
     "let everybody ask who reaches another address than this machine's own"},
    {"alias", NULL, OPT_STRING, AT(alias), 0, 0, NULL, "NAME", "the model's id [its name or file]"},
    {"slots", "np parallel", OPT_INT, AT(slots), 1, LIMIT_SERVE_SLOTS, "16", "N", "answers that run at once"},
    {"queue", NULL, OPT_INT, AT(queue), 0, LIMIT_SERVE_QUEUE, "1024", "N",
     "answers that may wait; then 429 with Retry-After"},
    {"kv-size", NULL, OPT_SIZE, AT(kv_size), 0, 0, "0", "N",
     "positions of keys and values for all answers together; 0: four contexts"},
    {"itl-target", NULL, OPT_FLOAT, AT(itl_target), 0, 1e6, "0", "MS",
     "cut prompts so that running answers get a token about every MS; 0: as large as a step may be"},
    {"timeout", NULL, OPT_DURATION, AT(timeout), 0, 1e6, "0", "TIME", "end an answer after this; 0: never"},
    {"grace", NULL, OPT_DURATION, AT(grace), 0, 1e6, "30s", "TIME",
     "after SIGTERM: how long running answers may go on"},
    {"admin-listen", NULL, OPT_STRING, AT(admin), 0, 0, NULL, "ADDRESS:PORT",
     "/metrics there and not at the other port, /health at both"},
    {"public-models", NULL, OPT_FLAG, AT(public_models), 0, 0, NULL, NULL, "list models without a key"},
    {"cache-scope", NULL, OPT_CHOICE, AT(cache_scope), 0, 0, NULL, "key|all",
     "who may begin with what an earlier prompt left: prompts of the same API key, or all [key]"},
    {"pooling", NULL, OPT_CHOICE, AT(pooling), 0, 0, NULL, "model|mean|cls|last",
     "for embeddings: how the tokens' vectors become one [model: as its file says]"},
    {"tls-cert", NULL, OPT_STRING, AT(cert), 0, 0, NULL, "FILE", "serve HTTPS: a certificate in PEM"},
    {"tls-key", NULL, OPT_STRING, AT(key), 0, 0, NULL, "FILE", "its key"},
    {"log-format", NULL, OPT_CHOICE, AT(log_format), 0, 0, NULL, "text|json",
     "a line for each request on stderr, also when that is no terminal [text, on a terminal]"},
    {"max-body", NULL, OPT_SIZE, AT(max_body), 0, 0, "16M", "BYTES", "of one request"},
    {"max-connections", NULL, OPT_INT, AT(max_connections), 1, 65536, "2048", "N", "open at once; then 503"},
    {"header-timeout", NULL, OPT_DURATION, AT(header_timeout), 0.05, 3600, "10s", "TIME",
     "in which a request's header must be whole"},
    {"idle-timeout", NULL, OPT_DURATION, AT(idle_timeout), 0.05, 86400, "60s", "TIME",
     "between requests, and for a client that takes nothing of its answer"},
    {"ping", NULL, OPT_DURATION, AT(ping), 0.05, 60, "5s", "TIME", "a comment into streams that say nothing"},
    {"desks", NULL, OPT_INT, AT(desks), 1, 16, "2", "N", "threads that read requests"},
};

#ifndef HASTEN_SERVE

static int serve(struct serve_args *a, struct option_group *groups, const char *model)
{
    struct hasten_error err;
    (void)groups;
    (void)model;
    error_set(&err, HASTEN_ERR_UNSUPPORTED,
              "serve: not built in (expected libmicrohttpd when Hasten is built; scripts/deps installs it)");
    return ui_fail(&a->ui, &err);
}

#else

/* ---- the log ------------------------------------------------------------------------------------------- */

struct log {
    bool json, requests; /* requests: also when they went well */
};

static void time_text(char out[32])
{
    const time_t now = (time_t)clock_unix_s();
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int put_json(struct buf *b, const struct server_event *e)
{
    char now[32];
    time_text(now);
    int bad = buf_printf(b, "{\"time\":\"%s\",\"level\":\"%s\"", now, e->failed ? "error" : "info");
    if (!e->id)
        return bad || buf_puts(b, ",\"message\":") || out_str(b, e->message) || buf_puts(b, "}\n");
    bad = bad || buf_puts(b, ",\"message\":\"request\",\"request_id\":") || out_str(b, e->id) ||
          buf_puts(b, ",\"method\":") || out_str(b, e->method) || buf_puts(b, ",\"path\":") ||
          out_str(b, e->path) || buf_printf(b, ",\"status\":%d,\"ms\":%.1f", e->status, e->ms);
    if (e->finish)
        bad = bad ||
              buf_printf(b,
                         ",\"prompt_tokens\":%d,\"cached_tokens\":%d,\"completion_tokens\":%d,"
                         "\"finish_reason\":",
                         (int)e->prompt_n, (int)e->cached_n, (int)e->predicted_n) ||
              out_str(b, e->finish);
    return bad || (e->left && buf_puts(b, ",\"client_left\":true")) || buf_puts(b, "}\n");
}

static int put_text(struct buf *b, const struct server_event *e)
{
    char now[32];
    struct hasten_error clean; /* a path from outside, made one line */
    time_text(now);
    if (!e->id)
        return buf_printf(b, "%s %s\n", now, e->message);
    error_set(&clean, HASTEN_ERR_USAGE, "%s %.200s", e->method, e->path);
    int bad = buf_printf(b, "%s %s %d %.1f ms", now, clean.message, e->status, e->ms);
    if (e->finish)
        bad = bad || buf_printf(b, ", %d tokens read (%d kept), %d written, %s", (int)e->prompt_n,
                                (int)e->cached_n, (int)e->predicted_n, e->finish);
    return bad || buf_printf(b, "%s, %s\n", e->left ? ", the client left" : "", e->id);
}

static void write_log(void *ctx, const struct server_event *e)
{
    const struct log *l = ctx;
    struct buf b = {0};
    if (!l->requests && e->id)
        return;
    if (!(l->json ? put_json(&b, e) : put_text(&b, e)))
        fputs(b.data, stderr);
    buf_free(&b);
}

/* ---- the service manager ------------------------------------------------------------------------------- */

/* systemd's protocol (sd_notify(3)): a datagram to the socket that the environment names. */
static void notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@')
        to.sun_path[0] = 0;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* "ADDRESS:PORT", "[::1]:PORT": copies of both parts. */
static hasten_status split_address(const char *text, char **host, uint16_t *port, struct hasten_error *err)
{
    const char *colon = strrchr(text, ':'), *from = text, *to = colon;
    int32_t n;
    if (!colon || value_int(colon + 1, 0, 65535, &n, err))
        return error_set(err, HASTEN_ERR_USAGE, "option --admin-listen: '%s' (expected ADDRESS:PORT)", text);
    if (*from == '[' && to > from && to[-1] == ']') {
        from++;
        to--;
    }
    *host = mem_strndup(from, (size_t)(to - from));
    *port = (uint16_t)n;
    return *host ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "serve: out of memory");
}

static hasten_status write_port(const char *path, uint16_t port, struct hasten_error *err)
{
    struct buf name = {0};
    struct file *f = NULL;
    char text[16];
    snprintf(text, sizeof text, "%u\n", (unsigned)port);
    hasten_status st = buf_printf(&name, "%s.new", path)
                           ? error_set(err, HASTEN_ERR_MEMORY, "serve: out of memory")
                           : file_open(name.data, FILE_WRITE_TRUNC, &f, err);
    if (!st)
        st = file_write(f, text, strlen(text), err);
    file_close(f);
    if (!st)
        st = file_rename(name.data, path, err);
    buf_free(&name);
    return st;
}

struct serving {
    struct serve_args *a;
    struct server_settings set;
    struct server *server;
    struct session session;
    struct log log;
    char *id, *cert, *key, *admin;
};

static hasten_status take_tls(struct serving *s, struct hasten_error *err)
{
    const struct serve_args *a = s->a;
    size_t len;
    if (!a->cert != !a->key)
        return error_set(err, HASTEN_ERR_USAGE, "serve: %s without %s (expected both)",
                         a->cert ? "--tls-cert" : "--tls-key", a->cert ? "--tls-key" : "--tls-cert");
    if (!a->cert)
        return HASTEN_OK;
    hasten_status st = file_slurp(a->cert, 1 << 20, &s->cert, &len, err);
    if (!st)
        st = file_slurp(a->key, 1 << 20, &s->key, &len, err);
    s->set.tls_cert = s->cert;
    s->set.tls_key = s->key;
    return st;
}

static hasten_status take_settings(struct serving *s, const char *argument, struct hasten_error *err)
{
    const struct serve_args *a = s->a;
    struct server_settings *set = &s->set;
    server_default_settings(set);
    s->id = many_model_id(a->alias, argument);
    if (!s->id)
        return error_set(err, HASTEN_ERR_MEMORY, "serve: out of memory");
    set->host = a->host;
    set->port = (uint16_t)a->port;
    set->key_file = a->key_file;
    set->no_auth = a->no_auth;
    set->public_models = a->public_models;
    set->shared_cache = a->cache_scope == 1;
    set->id = s->id;
    set->argument = argument;
    set->n_slots = a->slots;
    set->queue = a->queue;
    set->itl_ms = (double)a->itl_target;
    set->timeout_ms = a->timeout;
    set->header_ms = a->header_timeout;
    set->idle_ms = a->idle_timeout;
    set->ping_ms = a->ping;
    set->max_body = a->max_body ? (size_t)a->max_body : 1;
    set->max_connections = a->max_connections;
    set->n_desks = a->desks;
    set->pooling = (enum hasten_pooling)a->pooling;
    set->log = write_log;
    set->log_ctx = &s->log;
    hasten_status st = a->admin ? split_address(a->admin, &s->admin, &set->admin_port, err) : HASTEN_OK;
    set->admin_host = s->admin;
    return st ? st : take_tls(s, err);
}

/* Each connection is a descriptor; the soft limit may be lower than what the system would allow. */
static void raise_descriptors(int most)
{
    struct rlimit r;
    const rlim_t wanted = (rlim_t)most + 256;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= wanted)
        return;
    r.rlim_cur = r.rlim_max < wanted ? r.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &r);
}

static void adjust(void *ctx, const struct hasten_model *m, struct hasten_engine_settings *settings)
{
    struct serve_args *a = ctx;
    many_adjust(&a->model, a->slots, a->kv_size, m, settings);
}

static hasten_status open_all(struct serving *s, const char *argument, struct option_group *groups,
                              struct hasten_error *err)
{
    struct serve_args *a = s->a;
    struct hasten_engine_settings settings;
    hasten_status st = model_settings(&a->model, &groups[2], &settings, err);
    if (st || (st = take_settings(s, argument, err)))
        return st;
    s->session.adjust = adjust;
    s->session.adjust_ctx = a;
    raise_descriptors(a->max_connections);
    st = server_open(&s->set, &s->server, err);
    if (!st && a->port_file)
        st = write_port(a->port_file, server_port(s->server), err);
    if (!st)
        st = session_open(argument, &a->model, &settings, &a->ui, &s->session, err);
    if (st)
        return st;
    hasten_seq_close(s->session.seq); /* the batch has its own, and its own store */
    store_close(s->session.store);
    s->session.seq = NULL;
    s->session.store = NULL;
    return server_load(s->server, s->session.model, s->session.engine, methods_json(&s->session.settings),
                       err);
}

/* ---- running ------------------------------------------------------------------------------------------- */

static void say_start(struct serving *s)
{
    struct serve_args *a = s->a;
    const bool v6 = strchr(a->host, ':') != NULL;
    ui_warn(&a->ui, "serving %s at %s://%s%s%s:%u (%d at once, context %d%s)", s->id,
            s->cert ? "https" : "http", v6 ? "[" : "", a->host, v6 ? "]" : "",
            (unsigned)server_port(s->server), (int)a->slots, (int)hasten_engine_n_ctx(s->session.engine),
            a->key_file      ? ", with keys"
            : s->set.no_auth ? ", open to everybody"
                             : "");
    if (s->admin)
        ui_warn(&a->ui, "metrics and health at port %u", (unsigned)server_admin_port(s->server));
}

static void reload(struct serving *s)
{
    struct hasten_error err;
    struct server_event e = {.message = "the keys were read again"};
    notify("RELOADING=1");
    if (server_reload(s->server, &err)) {
        e.failed = true;
        e.message = err.message;
    }
    if (!s->a->ui.quiet)
        write_log(&s->log, &e);
    notify("READY=1");
}

/* Until the running answers are over, or the grace is. */
static void drain(struct serving *s)
{
    const uint64_t until = clock_now_ns() + s->a->grace * 1000000;
    notify("STOPPING=1");
    server_drain(s->server);
    while (server_busy(s->server) && clock_now_ns() < until)
        poll(NULL, 0, 20);
}

static int serve_until_signal(struct serving *s)
{
    say_start(s);
    notify("READY=1");
    for (;;) {
        const int sig = interrupt_serve_wait();
        if (sig == INTERRUPT_RELOAD) {
            reload(s);
            continue;
        }
        drain(s);
        return sig == INTERRUPT_BY_KEY ? 130 : 0;
    }
}

static void close_all(struct serving *s)
{
    server_close(s->server);
    session_close(&s->session);
    mem_free(s->id);
    mem_free(s->cert);
    mem_free(s->key);
    mem_free(s->admin);
}

static int serve(struct serve_args *a, struct option_group *groups, const char *model)
{
    struct hasten_error err;
    struct serving s = {.a = a};
    int rc;
    s.log.json = a->log_format == 1;
    s.log.requests =
        !a->ui.quiet && (option_given(&groups[1], "log-format") || a->ui.verbose || isatty(STDERR_FILENO));
    hasten_status st = open_all(&s, model, groups, &err);
    if (!st)
        st = interrupt_serve(&err);
    rc = st ? ui_fail(&a->ui, &err) : serve_until_signal(&s);
    close_all(&s);
    if (a->port_file && !st)
        file_unlink(a->port_file, &err);
    return rc;
}

#endif

int cmd_serve(const struct command *c, int argc, char **argv)
{
    struct serve_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Server:",
                                     .defs = serve_defs,
                                     .n = (int)(sizeof serve_defs / sizeof *serve_defs),
                                     .dst = &a},
                                    model_group(&a.model),
                                    methods_group(&a.model.methods, METHODS_BATCH)};
    const char *model = NULL;
    int rc = command_parse_model(c, &a.ui, groups, 4, &a.model, argc, argv, &model);
    if (rc >= 0)
        return rc;
    rc = serve(&a, groups, model);
    options_free(groups, 4);
    return rc;
}
