/* The HTTP door on libmicrohttpd (http.h).
 *
 * The daemon runs without threads of its own: this file's thread waits on one epoll set that holds the daemon's, an
 * event by which other threads wake it, and the sockets of all clients, for their leaving alone (a suspended connection
 * is not looked at by the daemon, so it would go unnoticed). All calls of the library are made by this thread. */
#include "serve/http.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/rng.h"
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000ull
#define DISCARD_BYTES (64u << 20) /* of a body that is refused: read, so that the client reads the answer */
#define EVENTS 64
#define LINGER_MS 2000
#define LEFT_MS 100 /* what a client that sends no more has sent before is read within */

enum link_stage {
    LINK_IDLE,   /* nothing of a request has come, or not its first line */
    LINK_HEADER, /* its first line has */
    LINK_BODY,
    LINK_ANSWER
};

struct link { /* a connection */
    struct link *next, *prev;
    struct door *http;
    struct MHD_Connection *c;
    int fd;
    enum link_stage stage;
    uint64_t since; /* of the stage */
    struct exchange *x;
    struct fault refuse; /* what the body's end will be answered with */
    size_t discarded;
    bool first, handled, asleep, watched, cut;
    bool left; /* the client will send no more */
};

struct door {
    struct door_settings set;
    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd, event_fd;
    uint16_t port;
    pthread_t thread;
    bool running;
    atomic_bool stop;
    atomic_int n_links;
    atomic_size_t body_bytes;
    struct link *links; /* these two: of this thread */
    uint64_t
        next_look; /* when a connection may have lasted too long, or is to be pinged; UINT64_MAX: never */
    uint64_t id_key;
    uint64_t n_ids;
    pthread_mutex_t lock;
    struct exchange *ready; /* under the lock; each is referenced */
};

/* ---- waking ------------------------------------------------------------------------------------------------- */

void door_wake(struct door *h, struct exchange *x)
{
    pthread_mutex_lock(&h->lock);
    const bool first = !h->ready, add = !x->is_ready;
    if (add) {
        x->is_ready = true;
        x->next_ready = h->ready;
        h->ready = exchange_ref(x);
    }
    pthread_mutex_unlock(&h->lock);
    if (add && first)
        eventfd_write(h->event_fd, 1);
}

void door_body_freed(struct door *h, size_t len)
{
    atomic_fetch_sub(&h->body_bytes, len);
}

static void watch(struct link *l)
{
    struct epoll_event e = {.events = EPOLLRDHUP, .data.ptr = l};
    if (!l->watched && epoll_ctl(l->http->epoll_fd, EPOLL_CTL_ADD, l->fd, &e) == 0)
        l->watched = true;
}

static void unwatch(struct link *l)
{
    if (l->watched)
        epoll_ctl(l->http->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
    l->watched = false;
}

/* Until there is something to send. A client that has left already is told about at once. */
static void fall_asleep(struct link *l)
{
    l->asleep = true;
    MHD_suspend_connection(l->c);
    if (l->left && l->x) {
        exchange_leave(l->x);
        door_wake(l->http, l->x);
    }
}

static void wake_link(struct link *l)
{
    if (!l->asleep)
        return;
    l->asleep = false;
    MHD_resume_connection(l->c);
}

/* Wakes those that have something to send. */
static void wake_ready(struct door *h)
{
    for (;;) {
        pthread_mutex_lock(&h->lock);
        struct exchange *x = h->ready;
        if (x) {
            h->ready = x->next_ready;
            x->is_ready = false;
        }
        pthread_mutex_unlock(&h->lock);
        if (!x)
            return;
        if (x->link)
            wake_link(x->link);
        exchange_unref(x);
    }
}

/* ---- answers ------------------------------------------------------------------------------------------------ */

static ssize_t read_stream(void *cls, uint64_t pos, char *dst, size_t max)
{
    struct exchange *x = cls;
    enum exchange_state state;
    (void)pos;
    const size_t n = exchange_take(x, dst, max, &state);
    if (n)
        return (ssize_t)n;
    if (state != EXCHANGE_OPEN)
        return state == EXCHANGE_LEFT ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    if (x->link)
        fall_asleep(x->link);
    return 0;
}

static void drop_stream(void *cls)
{
    exchange_unref(cls);
}

static struct MHD_Response *make_response(struct exchange *x)
{
    struct MHD_Response *r;
    if (x->stream) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, exchange_ref(x),
                                              drop_stream);
        if (!r)
            exchange_unref(x);
        return r;
    }
    r = MHD_create_response_from_buffer_with_free_callback(x->out.len, x->out.data ? x->out.data : "",
                                                           x->out.data ? mem_free : NULL);
    if (r)
        x->out = (struct buf){0};
    return r;
}

static enum MHD_Result queue_answer(struct link *l, struct exchange *x)
{
    char seconds[16];
    struct MHD_Response *r = make_response(x);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", x->content_type);
    MHD_add_response_header(r, "X-Request-Id", x->id);
    if (x->sse)
        MHD_add_response_header(r, "Cache-Control", "no-cache");
    if (x->allow)
        MHD_add_response_header(r, "Allow", x->allow);
    if (x->etag)
        MHD_add_response_header(r, "ETag", x->etag);
    for (size_t i = 0; i < x->n_headers; i++)
        MHD_add_response_header(r, x->headers[i].name, x->headers[i].value);
    if (x->status == 401)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (x->retry_after) {
        snprintf(seconds, sizeof seconds, "%d", x->retry_after);
        MHD_add_response_header(r, "Retry-After", seconds);
    }
    if (l->refuse.status == 503 || l->cut)
        MHD_add_response_header(r, "Connection", "close");
    const enum MHD_Result ok = MHD_queue_response(l->c, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return ok;
}

/* The request is whole: its answer, or sleep until there is one. */
static enum MHD_Result give_answer(struct link *l, struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool there = x->status != 0, gone = x->gone;
    x->asleep = !there && !gone;
    pthread_mutex_unlock(&x->lock);
    if (there)
        return queue_answer(l, x);
    if (gone)
        return MHD_NO;
    fall_asleep(l);
    return MHD_YES;
}

/* ---- requests ----------------------------------------------------------------------------------------------- */

static struct link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i ? i->socket_context : NULL;
}

/* When a connection's stage has lasted too long; UINT64_MAX: never. */
static uint64_t deadline_of(const struct link *l)
{
    const struct door_settings *s = &l->http->set;
    if (l->left && l->stage != LINK_ANSWER)
        return l->since + LEFT_MS * MS;
    switch (l->stage) {
    case LINK_IDLE:
        return l->since + (l->first ? s->header_ms : s->idle_ms + s->header_ms) * MS;
    case LINK_HEADER:
        return l->since + s->header_ms * MS;
    case LINK_BODY: {
        const uint64_t bytes = l->x ? l->x->body.len + l->discarded : 0;
        return l->since + (s->header_ms + bytes * 1000 / (s->body_rate ? s->body_rate : 1)) * MS;
    }
    default:
        return UINT64_MAX; /* the daemon's own timeout ends those that take no byte */
    }
}

static void look_at(struct door *h, uint64_t at)
{
    h->next_look = at < h->next_look ? at : h->next_look;
}

static void set_stage(struct link *l, enum link_stage stage)
{
    l->stage = stage;
    l->since = clock_now_ns();
    look_at(l->http, stage == LINK_ANSWER ? l->since + l->http->set.ping_ms * MS : deadline_of(l));
}

static void *on_first_line(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct link *l = link_of(c);
    (void)cls;
    (void)uri;
    if (l)
        set_stage(l, LINK_HEADER);
    return NULL;
}

static char *copy_header(struct MHD_Connection *c, const char *name)
{
    const char *v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
    return v ? mem_strndup(v, strlen(v)) : NULL;
}

/* The client's id where it is one line of printable ASCII, else one of ours. */
static void set_id(struct door *h, struct exchange *x, const char *given)
{
    size_t n = 0;
    while (given && given[n] > 0x20 && given[n] < 0x7f && n < EXCHANGE_ID_BYTES)
        n++;
    if (given && n && !given[n] && n < EXCHANGE_ID_BYTES) {
        memcpy(x->id, given, n + 1);
        return;
    }
    const uint32_t counter[4] = {(uint32_t)h->n_ids, (uint32_t)(h->n_ids >> 32), 0, 0},
                   key[2] = {(uint32_t)h->id_key, (uint32_t)(h->id_key >> 32)};
    uint32_t out[4];
    h->n_ids++;
    philox4x32(counter, key, out);
    snprintf(x->id, sizeof x->id, "%08x%08x%08x", out[0], out[1], out[2]);
}

/* What comes behind "Bearer ", without blanks; x-api-key; NULL where there is nothing of the kind. */
static char *key_of(struct MHD_Connection *c)
{
    const char *v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
    if (v && strncasecmp(v, "Bearer", 6) == 0 && (v[6] == ' ' || !v[6])) {
        v += 6 + strspn(v + 6, " ");
        size_t n = strlen(v);
        while (n && v[n - 1] == ' ')
            n--;
        if (n)
            return mem_strndup(v, n);
    }
    v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "x-api-key");
    return v && *v ? mem_strndup(v, strlen(v)) : NULL;
}

static void check_size(struct link *l, struct exchange *x, uint64_t body)
{
    const struct door_settings *s = &l->http->set;
    if (atomic_load(&l->http->n_links) > s->max_connections)
        fault_set(&l->refuse, 503, "too_many_connections", NULL,
                  "more than %d connections are open (try again later)", s->max_connections);
    else if (body > s->max_body)
        fault_set(&l->refuse, 413, "request_too_large", NULL,
                  "the request's body has %llu bytes (expected at most %zu)", (unsigned long long)body,
                  s->max_body);
    else
        s->admit(s->ctx, x, &l->refuse);
}

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    int *n = ctx;
    (void)kind, (void)value;
    *n += strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0;
    return MHD_YES;
}

/* A body whose length is said twice: whoever stands before us may have read the other one, and what follows would be
 * taken for a request of somebody else (RFC 9112, section 6.3). */
static bool length_is_ambiguous(struct MHD_Connection *c)
{
    int n = 0;
    MHD_get_connection_values(c, MHD_HEADER_KIND, count_header, &n);
    return n > 1;
}

/* The header is whole. A request that is refused still has its body read, up to a bound, because a client that is cut
 * off while it writes does not see why; one that asked whether it may send is told at once. */
static enum MHD_Result begin_request(struct link *l, const char *url, const char *method, void **con_cls)
{
    struct door *h = l->http;
    struct exchange *x = exchange_open(h);
    if (!x)
        return MHD_NO;
    const char *length = MHD_lookup_connection_value(l->c, MHD_HEADER_KIND, "Content-Length");
    const char *expect = MHD_lookup_connection_value(l->c, MHD_HEADER_KIND, "Expect");
    const unsigned long long body = length ? strtoull(length, NULL, 10) : 0;
    snprintf(x->method, sizeof x->method, "%s", method);
    x->path = mem_strndup(url, strlen(url));
    x->key = key_of(l->c);
    x->origin = copy_header(l->c, "Origin");
    x->host = copy_header(l->c, "Host");
    x->if_none_match = copy_header(l->c, "If-None-Match");
    x->admin = h->set.admin;
    set_id(h, x, MHD_lookup_connection_value(l->c, MHD_HEADER_KIND, "X-Request-Id"));
    x->link = l;
    l->x = x;
    *con_cls = x;
    l->handled = false;
    l->discarded = 0;
    l->refuse = (struct fault){0};
    set_stage(l, LINK_BODY);
    if (!x->path)
        return MHD_NO;
    const bool ambiguous = length_is_ambiguous(l->c);
    if (ambiguous)
        fault_set(
            &l->refuse, 400, "invalid_request", NULL,
            "the length of the body is said more than once (expected one Content-Length, or Transfer-Encoding)");
    else
        check_size(l, x, body);
    if (l->refuse.status && (ambiguous || body > DISCARD_BYTES || expect)) {
        l->handled = l->cut = true;
        set_stage(l, LINK_ANSWER);
        exchange_fail(x, &l->refuse);
        return give_answer(l, x);
    }
    return MHD_YES;
}

static enum MHD_Result take_body(struct link *l, struct exchange *x, const char *data, size_t len)
{
    struct door *h = l->http;
    if (!l->refuse.status && x->body.len + len > h->set.max_body)
        fault_set(&l->refuse, 413, "request_too_large", NULL,
                  "the request's body has more than %zu bytes (expected fewer)", h->set.max_body);
    if (!l->refuse.status && atomic_load(&h->body_bytes) + len > LIMIT_SERVE_BODIES)
        fault_set(&l->refuse, 503, "overloaded", NULL,
                  "the requests under way hold all the memory that is set apart for them (try again later)");
    if (!l->refuse.status && buf_put(&x->body, data, len))
        fault_set(&l->refuse, 503, "out_of_memory", NULL, "no memory for the request's body");
    if (!l->refuse.status) {
        atomic_fetch_add(&h->body_bytes, len);
        return MHD_YES;
    }
    l->discarded += len;
    return l->discarded > DISCARD_BYTES ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *len, void **con_cls)
{
    struct door *h = cls;
    struct link *l = link_of(c);
    struct exchange *x = *con_cls;
    (void)version;
    if (!l)
        return MHD_NO;
    if (!x)
        return begin_request(l, url, method, con_cls);
    if (*len) {
        const enum MHD_Result ok = take_body(l, x, data, *len);
        *len = 0;
        return ok;
    }
    if (!l->handled) {
        l->handled = true;
        set_stage(l, LINK_ANSWER);
        if (l->refuse.status)
            exchange_fail(x, &l->refuse);
        else
            h->set.handle(h->set.ctx, x);
    }
    return give_answer(l, x);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **con_cls,
                         enum MHD_RequestTerminationCode how)
{
    struct door *h = cls;
    struct exchange *x = *con_cls;
    struct link *l = x ? x->link : link_of(c);
    if (l) {
        l->x = NULL;
        l->first = false;
        set_stage(l, LINK_IDLE);
    }
    if (!x)
        return;
    *con_cls = NULL;
    x->link = NULL;
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        exchange_leave(x);
    h->set.finished(h->set.ctx, x);
    exchange_unref(x);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct door *h = cls;
    struct link *l = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        l = mem_calloc(1, sizeof *l);
        *context = l;
        if (!l)
            return;
        *l = (struct link){.http = h, .c = c, .fd = i ? i->connect_fd : -1, .first = true, .next = h->links};
        set_stage(l, LINK_IDLE);
        watch(l);
        if (h->links)
            h->links->prev = l;
        h->links = l;
        atomic_fetch_add(&h->n_links, 1);
        return;
    }
    *context = NULL;
    if (!l)
        return;
    unwatch(l);
    if (l->next)
        l->next->prev = l->prev;
    *(l->prev ? &l->prev->next : &h->links) = l->next;
    atomic_fetch_sub(&h->n_links, 1);
    mem_free(l);
}

/* ---- time --------------------------------------------------------------------------------------------------- */

static void ping(struct link *l, uint64_t now)
{
    const uint64_t every = l->http->set.ping_ms * MS;
    struct exchange *x = l->x;
    pthread_mutex_lock(&x->lock);
    const bool due = x->last_ns + every <= now, say = due && x->sse && !x->ended && x->from == x->out.len;
    const uint64_t next = due ? now + every : x->last_ns + every;
    pthread_mutex_unlock(&x->lock);
    if (say)
        exchange_write(x, ": ping\n\n", 8);
    look_at(l->http, next);
}

/* Ends what is too late; milliseconds until something else may be, -1: nothing can. */
static int look_at_times(struct door *h)
{
    const uint64_t now = clock_now_ns();
    if (h->next_look <= now) {
        h->next_look = UINT64_MAX;
        for (struct link *l = h->links; l; l = l->next) {
            const uint64_t due = deadline_of(l);
            if (l->x && l->stage == LINK_ANSWER)
                ping(l, now);
            if (l->cut)
                continue;
            l->cut = due <= now;
            if (l->cut)
                shutdown(l->fd, SHUT_RDWR); /* the daemon sees the end of it, and does the rest */
            else
                look_at(h, due);
        }
    }
    if (h->next_look == UINT64_MAX)
        return -1;
    return h->next_look <= now               ? 0
           : h->next_look - now > 60000 * MS ? 60000
                                             : (int)((h->next_look - now) / MS) + 1;
}

/* ---- the thread --------------------------------------------------------------------------------------------- */

static void client_left(struct link *l)
{
    unwatch(l);
    l->left = true;
    if (l->asleep && l->x) {
        exchange_leave(l->x);
        wake_link(l);
    } else if (l->stage != LINK_ANSWER) {
        set_stage(l, l->stage); /* what it sent before is read; see deadline_of */
    }
}

static int wait_ms(struct door *h, int timers)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(h->daemon, &ms) != MHD_YES)
        return timers;
    return timers < 0 || ms < (MHD_UNSIGNED_LONG_LONG)timers ? (int)(ms > 60000 ? 60000 : ms) : timers;
}

/* At the end, answers that are on their way leave, for a while. */
static bool goes_on(const struct door *h, uint64_t *until)
{
    if (!atomic_load(&h->stop))
        return true;
    const uint64_t now = clock_now_ns();
    *until = *until ? *until : now + LINGER_MS * MS;
    for (const struct link *l = h->links; l && now < *until; l = l->next)
        if (l->x)
            return true;
    return false;
}

static void *serve(void *arg)
{
    struct door *h = arg;
    struct epoll_event events[EVENTS];
    eventfd_t n;
    uint64_t until = 0;
    while (goes_on(h, &until)) {
        const int ms = wait_ms(h, look_at_times(h));
        const int got = epoll_wait(h->epoll_fd, events, EVENTS, until && (ms < 0 || ms > 50) ? 50 : ms);
        for (int i = 0; i < got; i++) {
            if (events[i].data.ptr == &h->event_fd)
                eventfd_read(h->event_fd, &n);
            else if (events[i].data.ptr != h)
                client_left(events[i].data.ptr);
        }
        wake_ready(h);
        MHD_run(h->daemon);
    }
    return NULL;
}

/* ---- opening ------------------------------------------------------------------------------------------------ */

bool door_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static hasten_status cannot_listen(const struct door_settings *s, int why, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_NETWORK,
                     "listening on %s port %u: %s (expected an address that is free)", s->host,
                     (unsigned)s->port, strerror(why));
}

static int bound_socket(const struct addrinfo *a)
{
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static hasten_status open_socket(struct door *h, struct hasten_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_ADDRCONFIG};
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof own;
    struct addrinfo *list = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)h->set.port);
    const int rc = getaddrinfo(h->set.host, port, &hints, &list);
    if (rc)
        return error_set(err, HASTEN_ERR_USAGE,
                         "option --host: '%s': %s (expected an address of this machine)", h->set.host,
                         gai_strerror(rc));
    int why = EADDRNOTAVAIL;
    for (const struct addrinfo *a = list; a && h->listen_fd < 0; a = a->ai_next) {
        h->listen_fd = bound_socket(a);
        why = errno;
    }
    freeaddrinfo(list);
    if (h->listen_fd < 0)
        return cannot_listen(&h->set, why, err);
    getsockname(h->listen_fd, (struct sockaddr *)&own, &len);
    char name[NI_MAXSERV];
    if (getnameinfo((struct sockaddr *)&own, len, NULL, 0, name, sizeof name, NI_NUMERICSERV) == 0)
        h->port = (uint16_t)strtoul(name, NULL, 10);
    return HASTEN_OK;
}

static hasten_status start_daemon(struct door *h, struct hasten_error *err)
{
    const struct door_settings *s = &h->set;
    const bool tls = s->tls_cert != NULL;
    const unsigned idle = (unsigned)((s->idle_ms + 999) / 1000);
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, h->listen_fd, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, LIMIT_SERVE_HEADER + 16384, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, s->max_connections + 64, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)idle, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, h},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, h},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_first_line, h},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {tls ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0, (void *)(uintptr_t)s->tls_key},
        {tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, (void *)(uintptr_t)s->tls_cert},
        {MHD_OPTION_END, 0, NULL}};
    if (tls && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "TLS: unsupported by this libmicrohttpd (expected one built with GnuTLS)");
    h->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0), h->port,
                                 NULL, NULL, on_request, h, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (!h->daemon)
        return error_set(err, HASTEN_ERR_NETWORK, "listening on %s: %s", s->host,
                         tls ? "TLS could not begin (expected a certificate and its key in PEM)"
                             : "libmicrohttpd refused (expected it to begin)");
    h->listen_fd = -1; /* the daemon closes it */
    return HASTEN_OK;
}

static hasten_status start_thread(struct door *h, struct hasten_error *err)
{
    const union MHD_DaemonInfo *i = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event mhd = {.events = EPOLLIN, .data.ptr = h},
                       event = {.events = EPOLLIN, .data.ptr = &h->event_fd};
    sigset_t all, old;
    if (!i || epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, i->epoll_fd, &mhd) ||
        epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, h->event_fd, &event))
        return error_set(err, HASTEN_ERR_INTERNAL, "listening: epoll: %s", strerror(errno));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    h->running = pthread_create(&h->thread, NULL, serve, h) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return h->running ? HASTEN_OK
                      : error_set(err, HASTEN_ERR_MEMORY, "listening: no thread could be started");
}

hasten_status door_open(const struct door_settings *s, struct door **out, struct hasten_error *err)
{
    struct door *h = mem_calloc(1, sizeof *h);
    if (!h)
        return error_set(err, HASTEN_ERR_MEMORY, "listening: out of memory");
    h->set = *s;
    h->id_key = random_seed();
    h->next_look = UINT64_MAX;
    pthread_mutex_init(&h->lock, NULL);
    h->listen_fd = -1;
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hasten_status st = h->epoll_fd < 0 || h->event_fd < 0
                           ? error_set(err, HASTEN_ERR_MEMORY, "listening: no descriptors are left")
                           : open_socket(h, err);
    if (!st)
        st = start_daemon(h, err);
    if (!st)
        st = start_thread(h, err);
    if (st)
        door_close(h);
    else
        *out = h;
    return st;
}

uint16_t door_port(const struct door *h)
{
    return h->port;
}

int door_connections(const struct door *h)
{
    return atomic_load(&h->n_links);
}

void door_close(struct door *h)
{
    if (!h)
        return;
    if (h->running) {
        atomic_store(&h->stop, true);
        eventfd_write(h->event_fd, 1);
        pthread_join(h->thread, NULL);
    }
    for (struct link *l = h->links; l; l = l->next) {
        if (l->x)
            exchange_leave(l->x);
        wake_link(l); /* the daemon does not stop with connections that sleep */
    }
    if (h->daemon) {
        MHD_run(h->daemon);
        MHD_stop_daemon(h->daemon);
    }
    wake_ready(h);
    if (h->listen_fd >= 0)
        close(h->listen_fd);
    if (h->epoll_fd >= 0)
        close(h->epoll_fd);
    if (h->event_fd >= 0)
        close(h->event_fd);
    pthread_mutex_destroy(&h->lock);
    mem_free(h);
}
