/* Many POSTs at once (http_streams.h): one multi handle of libcurl, an easy handle for each place, kept with its
 * connection. */
#include "cli/http_streams.h"
#include "base/clock.h"
#include "cli/source.h"
#include "hasten/hasten.h"
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct place {
    CURL *curl;
    struct http_streams *of;
    int32_t slot;
    bool busy, refused; /* refused: the listener wanted no more */
    int32_t status;
    uint64_t retry_ms;
    char error[CURL_ERROR_SIZE];
};

struct http_streams {
    CURLM *multi;
    struct curl_slist *headers, *plain;
    struct http_streams_ops ops;
    uint64_t wait_ms;
    int32_t n;
    struct place *places; /* [n + 1]: the last is that of single requests */
    struct buf *answer;
    size_t most;
    bool asked; /* the single one is over */
    bool asked_whole;
};

static hasten_status out_of_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
}

static int add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *more = curl_slist_append(*list, text);
    *list = more ? more : *list;
    return more ? 0 : -1;
}

static int make_headers(struct http_streams *h, const char *key)
{
    struct buf text = {0};
    int bad = add_header(&h->headers, "Content-Type: application/json") ||
              add_header(&h->headers, "Expect:"); /* no 100 Continue */
    if (key && *key)
        bad = bad || buf_printf(&text, "Authorization: Bearer %s", key) ||
              add_header(&h->headers, text.data) || add_header(&h->plain, text.data);
    buf_free(&text);
    return bad;
}

hasten_status http_streams_open(int32_t n, const char *key, uint64_t wait_ms, struct http_streams **out,
                                struct hasten_error *err)
{
    struct http_streams *h = mem_calloc(1, sizeof *h);
    if (!h)
        return out_of_memory(err);
    const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == 0;
    h->multi = ready ? curl_multi_init() : NULL;
    h->places = mem_calloc((size_t)n + 1, sizeof *h->places);
    h->n = h->places ? n : -1;
    h->wait_ms = wait_ms;
    if (!h->multi || !h->places || make_headers(h, key)) {
        http_streams_close(h);
        return out_of_memory(err);
    }
    for (int32_t i = 0; i <= n; i++) {
        h->places[i].of = h;
        h->places[i].slot = i;
    }
    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)n + 1);
    *out = h;
    return HASTEN_OK;
}

void http_streams_close(struct http_streams *h)
{
    if (!h)
        return;
    for (int32_t i = 0; i <= h->n; i++) {
        http_streams_stop(h, i);
        curl_easy_cleanup(h->places[i].curl);
    }
    curl_multi_cleanup(h->multi);
    curl_slist_free_all(h->headers);
    curl_slist_free_all(h->plain);
    mem_free(h->places);
    mem_free(h);
    curl_global_cleanup();
}

void http_streams_listen(struct http_streams *h, const struct http_streams_ops *ops)
{
    h->ops = *ops;
}

/* ---- what comes ---------------------------------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct place *p = ctx;
    static const char name[] = "Retry-After:";
    const size_t len = size * n, from = sizeof name - 1;
    char text[16] = "";
    if (len <= from || len - from >= sizeof text || strncasecmp(line, name, from) != 0)
        return len;
    memcpy(text, line + from, len - from);
    const long s = strtol(text, NULL, 10); /* a date is as good as none */
    p->retry_ms = s > 0 ? (uint64_t)(s < 3600 ? s : 3600) * 1000 : 0;
    return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct place *p = ctx;
    struct http_streams *h = p->of;
    const size_t len = size * n;
    long status = 0;
    if (p->slot == h->n)
        return h->answer->len + len > h->most || buf_put(h->answer, data, len) ? 0 : len;
    curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
    p->refused = !h->ops.bytes(h->ops.ctx, p->slot, (int32_t)status, data, len);
    return p->refused ? 0 : len;
}

static void finish(struct http_streams *h, struct place *p, CURLcode rc)
{
    long status = 0;
    curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(h->multi, p->curl);
    p->busy = false;
    p->status = (int32_t)status;
    const char *why = *p->error ? p->error : curl_easy_strerror(rc);
    const bool nobody = rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_HOST ||
                        rc == CURLE_COULDNT_RESOLVE_PROXY || rc == CURLE_OPERATION_TIMEDOUT ||
                        rc == CURLE_SSL_CONNECT_ERROR || rc == CURLE_PEER_FAILED_VERIFICATION;
    if (p->status == 0 && !nobody)
        p->status = -1;
    if (p->slot == h->n) {
        h->asked = true;
        h->asked_whole = rc == CURLE_OK;
        return;
    }
    h->ops.end(h->ops.ctx, p->slot, p->status, rc == CURLE_OK, p->retry_ms, rc ? why : "");
}

/* ---- requests ------------------------------------------------------------------------------------------ */

static hasten_status start(struct http_streams *h, struct place *p, const char *url, const char *body,
                           size_t len, struct hasten_error *err)
{
    const char *certificates = getenv("SSL_CERT_FILE");
    p->curl = p->curl ? p->curl : curl_easy_init();
    if (!p->curl)
        return out_of_memory(err);
    CURL *c = p->curl;
    curl_easy_reset(c);
    *p->error = 0;
    p->retry_ms = 0;
    p->refused = false;
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "hasten/" HASTEN_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, body ? h->headers : h->plain);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)h->wait_ms);
    if (p->slot == h->n)
        curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)h->wait_ms);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, p->error);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, p);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(c, CURLOPT_PRIVATE, p);
    if (source_is_loopback(url))
        curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (certificates && *certificates)
        curl_easy_setopt(c, CURLOPT_CAINFO, certificates);
    if (body) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
        if (curl_easy_setopt(c, CURLOPT_COPYPOSTFIELDS, body) != CURLE_OK)
            return out_of_memory(err);
    }
    if (curl_multi_add_handle(h->multi, c) != CURLM_OK)
        return out_of_memory(err);
    p->busy = true;
    return HASTEN_OK;
}

hasten_status http_streams_start(struct http_streams *h, int32_t slot, const char *url, const char *body,
                                 size_t len, struct hasten_error *err)
{
    return start(h, &h->places[slot], url, body, len, err);
}

hasten_status http_streams_poll(struct http_streams *h, uint64_t wait_ms, struct hasten_error *err)
{
    int running, left;
    CURLMcode rc = curl_multi_perform(h->multi, &running);
    const CURLMsg *m = NULL;
    bool any = false;
    for (int round = 0; round < 2 && rc == CURLM_OK; round++) {
        while ((m = curl_multi_info_read(h->multi, &left))) {
            struct place *p = NULL;
            const CURLcode result = m->data.result; /* m goes with its handle */
            if (m->msg != CURLMSG_DONE || curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &p) || !p)
                continue;
            any = true;
            finish(h, p, result);
        }
        if (any || round == 1)
            break;
        rc = curl_multi_poll(h->multi, NULL, 0, (int)wait_ms, NULL);
        if (rc == CURLM_OK)
            rc = curl_multi_perform(h->multi, &running);
    }
    return rc == CURLM_OK ? HASTEN_OK
                          : error_set(err, HASTEN_ERR_NETWORK, "bench: %s", curl_multi_strerror(rc));
}

void http_streams_stop(struct http_streams *h, int32_t slot)
{
    struct place *p = &h->places[slot];
    if (p->busy)
        curl_multi_remove_handle(h->multi, p->curl);
    p->busy = false;
}

hasten_status http_streams_ask(struct http_streams *h, const char *url, const char *body, size_t most,
                               struct buf *answer, int32_t *status, struct hasten_error *err)
{
    struct place *p = &h->places[h->n];
    char host[SOURCE_ORIGIN_BYTES] = "";
    buf_clear(answer);
    h->answer = answer;
    h->most = most;
    h->asked = false;
    hasten_status st = start(h, p, url, body, body ? strlen(body) : 0, err);
    while (!st && !h->asked)
        st = http_streams_poll(h, 100, err);
    http_streams_stop(h, h->n);
    *status = p->status;
    if (st || (h->asked_whole && p->status > 0))
        return st;
    source_origin(url, host);
    return error_set(err, HASTEN_ERR_NETWORK, "%s: %s (expected a server that answers)", host, p->error);
}
