/* The server within this process, where its threads and its memory can be watched: many clients at once, some of which
 * leave; every allocation of a request failing in turn. Afterwards answers are the same bytes as before, and no byte of
 * memory is held that was not held then. */
#include "base/clock.h"
#include "base/mem.h"
#include "model/loaded.h"
#include "serve/server.h"
#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const bodies[] = {
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"seed\":1,\"max_tokens\":12,\"logprobs\":true,\"ignore_eos\":true}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"seed\":2,\"stream\":true,\"max_tokens\":8,\"stop\":[\"zz\"],"
    "\"stream_options\":{\"include_usage\":true},\"grammar\":\"root ::= [a-z]+\"}",
    "{\"prompt\":[\"a\",[66,67]],\"seed\":3,\"max_tokens\":6,\"logprobs\":2,\"logit_bias\":{\"65\":1},\"frobnicate\":1,"
    "\"repeat_penalty\":1.1,\"mirostat\":2,\"ignore_eos\":true}",
    "{\"prompt\":\"abc\",\"seed\":4,\"max_tokens\":9,\"echo\":true,\"stream\":true,\"dry_multiplier\":0.5}",
    "{\"content\":\"h\\u00e9llo\"}",
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}]}",
};
static const char *const paths[] = {
    "/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/v1/completions", "/tokenize",
    "/apply-template"};
#define N_REQUESTS (int)(sizeof bodies / sizeof *bodies)

struct world {
    struct hasten_model *model;
    struct hasten_engine *engine;
    struct server *server;
};

static void open_world(struct world *w)
{
    struct hasten_engine_settings s;
    struct server_settings set;
    struct hasten_error err = {0};
    hasten_engine_default_settings(&s);
    s.n_ctx = 256;
    s.n_seq_max = 4;
    s.n_threads = 1;
    server_default_settings(&set);
    set.port = 0;
    set.id = set.argument = "m";
    set.n_slots = 4;
    assert_int_equal(hasten_model_open("script:hash=7,length=30", &w->model, &err), HASTEN_OK);
    assert_int_equal(hasten_engine_open(w->model, &s, &w->engine, &err), HASTEN_OK);
    assert_int_equal(server_open(&set, &w->server, &err), HASTEN_OK);
    if (server_load(w->server, w->model, w->engine, json_array(), &err))
        fail_msg("%s", err.message);
}

static void close_world(struct world *w)
{
    server_close(w->server);
    hasten_engine_close(w->engine);
    hasten_model_close(w->model);
}

/* ---- a client ---- */

static int dial(const struct world *w)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(server_port(w->server))};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a)) {
        fprintf(stderr, "no connection\n");
        exit(1);
    }
    return fd;
}

static void send_request(int fd, int i)
{
    char text[2048];
    const int n = snprintf(
        text, sizeof text,
        "POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: r\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
        paths[i], strlen(bodies[i]), bodies[i]);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        fprintf(stderr, "the server does not read\n");
}

/* What comes until the end; from the part on that is the same each time. The caller frees it. */
static char *read_all(int fd)
{
    size_t len = 0, cap = 1 << 16;
    char *text = malloc(cap);
    for (ssize_t n; text && len + 1 < cap && (n = recv(fd, text + len, cap - len - 1, 0)) > 0;)
        len += (size_t)n;
    if (!text)
        exit(1);
    text[len] = 0;
    close(fd);
    return text;
}

/* Joins the chunks of a body: where they were cut follows from timing. */
static void join_chunks(char *text)
{
    char *from = strstr(text, "\r\n\r\n");
    if (!from || !strstr(text, "chunked"))
        return;
    from += 4;
    char *to = from, *end;
    for (size_t n; (n = strtoul(from, &end, 16)) && strlen(end) >= n + 4; from = end + 2 + n + 2) {
        memmove(to, end + 2, n);
        to += n;
    }
    *to = 0;
}

static void blank(char *text, const char *key)
{
    for (char *at = text; (at = strstr(at, key));) {
        at += strlen(key);
        const size_t n = strspn(at, "0123456789");
        memmove(at, at + n, strlen(at + n) + 1);
    }
}

/* What may differ in an answer goes: times, and how much was found computed. */
static char *ask(const struct world *w, int i)
{
    const int fd = dial(w);
    send_request(fd, i);
    char *text = read_all(fd);
    join_chunks(text);
    blank(text, "\"created\":");
    blank(text, "\"cached_tokens\":");
    blank(text, "Content-Length: ");
    char *date = strstr(text, "Date: ");
    if (date)
        memset(date, '-', strcspn(date, "\r"));
    return text;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Until nothing is under way: the answer leaves before the books are closed. */
static void settle(const struct world *w)
{
    for (int i = 0; i < 20000 && server_busy(w->server); i++)
        nap();
}

/* ---- many ---- */

struct client {
    const struct world *w;
    char *const *expected;
    int number, wrong;
};

static void *be_a_client(void *arg)
{
    struct client *c = arg;
    for (int k = 0; k < 12; k++) {
        const int i = (c->number + k) % N_REQUESTS;
        if ((c->number + k) % 5 == 4) { /* leaves in the middle */
            const int fd = dial(c->w);
            char some[32];
            send_request(fd, 1);
            if (k % 2 && recv(fd, some, sizeof some, 0) < 0)
                c->wrong++;
            close(fd);
            continue;
        }
        char *got = ask(c->w, i);
        if (strcmp(got, c->expected[i]) != 0) {
            c->wrong++;
            fprintf(stderr, "request %d: %s\nexpected: %s\n", i, got, c->expected[i]);
        }
        free(got);
    }
    return NULL;
}

static void test_many(void **state)
{
    struct world w;
    char *expected[N_REQUESTS];
    struct client clients[8];
    pthread_t threads[8];
    (void)state;
    open_world(&w);
    for (int i = 0; i < N_REQUESTS; i++)
        expected[i] = ask(&w, i);
    for (int t = 0; t < 8; t++) {
        clients[t] = (struct client){&w, expected, t, 0};
        assert_int_equal(pthread_create(&threads[t], NULL, be_a_client, &clients[t]), 0);
    }
    for (int t = 0; t < 8; t++) {
        pthread_join(threads[t], NULL);
        assert_int_equal(clients[t].wrong, 0);
    }
    for (int i = 0; i < N_REQUESTS; i++)
        free(expected[i]);
    close_world(&w);
}

/* ---- memory ---- */

/* Live bytes, once they stay. */
static uint64_t live(const struct world *w)
{
    struct mem_stats s = {0};
    uint64_t last = 1;
    settle(w);
    for (int same = 0; same < 10;) {
        nap();
        mem_stats_get(&s);
        same = s.live_bytes == last ? same + 1 : 0;
        last = s.live_bytes;
    }
    return last;
}

static void test_memory(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    for (int i = 0; i < N_REQUESTS;
         i++) { /* what is kept for good is made now: buffers, a grammar, sequences */
        free(ask(&w, i));
        char *expected = ask(&w, i);
        assert_non_null(strstr(expected, " 200 OK"));
        const uint64_t before = live(&w);
        uint64_t failures = 1;
        for (uint64_t n = 1; failures; n++) {
            mem_fail_at(n, 0);
            char *got = ask(&w, i);
            settle(&w);
            failures = mem_fail_count();
            mem_fail_at(0, 0);
            if (*got && !strstr(got, " 200 OK") && !strstr(got, " 503 ") && !strstr(got, " 400 "))
                fail_msg("allocation %llu of request %d: %.200s", (unsigned long long)n, i, got);
            free(got);
            if (n > 20000)
                fail_msg("request %d has no end of allocations", i);
        }
        char *again = ask(&w, i);
        assert_string_equal(again, expected);
        assert_true(live(&w) <= before + (64 << 10));
        free(again);
        free(expected);
    }
    const uint64_t before = live(&w);
    for (int k = 0; k < 20; k++)
        for (int i = 0; i < N_REQUESTS; i++)
            free(ask(&w, i));
    assert_int_equal(live(&w), before);
    close_world(&w);
}

/* jansson 2.14 is not sound when its own allocations fail (it reads on behind a token that it could not store), so that
 * those are given: one that is told to fail is asked for again. */
static void *json_alloc(size_t n)
{
    void *p = mem_alloc(n);
    return p ? p : mem_alloc(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many), cmocka_unit_test(test_memory)};
    struct mem_stats before, after;
    json_set_alloc_funcs(json_alloc, mem_free);
    json_decref(json_object());
    mem_stats_get(&before);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    mem_stats_get(&after);
    if (after.live_bytes != before.live_bytes) {
        fprintf(stderr, "%llu bytes are left\n", (unsigned long long)(after.live_bytes - before.live_bytes));
        rc = 1;
    }
    return rc;
}
