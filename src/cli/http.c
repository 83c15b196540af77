/* GET by libcurl (http.h). Redirects are followed here and not by libcurl, because each one is judged: http and https
 * only, never from https to http, a bounded number, and the token goes to its own origin alone. No cookies, no netrc, no
 * content encodings, no HTTP/0.9. */
#include "cli/http.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/source.h"
#include "hasten/hasten.h"
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct http {
    CURL *curl;
};

struct transfer {
    const struct http_request *r;
    struct http_response *out;
    struct hasten_error *err;
    CURL *curl;
    const char *url; /* of this hop */
    bool trusted;    /* does it go to r->trusted? */
    bool begun;
    hasten_status status; /* of begin and take */
    bool stopped, stalled;
    uint64_t got, window_got, window_ns;
};

hasten_status http_open(struct http **out, struct hasten_error *err)
{
    struct http *h = mem_calloc(1, sizeof *h);
    if (h && curl_global_init(CURL_GLOBAL_DEFAULT) == 0)
        h->curl = curl_easy_init();
    if (h && h->curl) {
        *out = h;
        return HASTEN_OK;
    }
    mem_free(h);
    return error_set(err, HASTEN_ERR_MEMORY, "pull: out of memory");
}

void http_close(struct http *h)
{
    if (!h)
        return;
    curl_easy_cleanup(h->curl);
    curl_global_cleanup();
    mem_free(h);
}

/* ---- headers ------------------------------------------------------------------------------------------- */

/* "Name: value" of line[0, len): the value without blanks into out, "" when it does not fit or is not plain text. */
static bool header(const char *line, size_t len, const char *name, char *out, size_t size)
{
    const size_t n = strlen(name);
    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    size_t from = n + 1, to = len;
    while (from < to && (line[from] == ' ' || line[from] == '\t'))
        from++;
    while (to > from && strchr("\r\n\t ", line[to - 1]))
        to--;
    bool plain = to - from < size;
    for (size_t i = from; i < to && plain; i++)
        plain = (unsigned char)line[i] >= 32 && (unsigned char)line[i] < 127;
    out[0] = 0;
    if (plain) {
        memcpy(out, line + from, to - from);
        out[to - from] = 0;
    }
    return true;
}

/* The digits that text begins with, before an end, a '-' or a '/'; -1 otherwise. */
static int64_t number(const char *text)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return -1;
    const long long v = strtoll(text, &end, 10);
    return errno || (*end && *end != '/' && *end != '-') ? -1 : v;
}

/* The hash in an ETag: exactly n hex digits, quoted or not, weak or not. */
static void take_hash(const char *etag, size_t n, char *out)
{
    etag += strncmp(etag, "W/", 2) == 0 ? 2 : 0;
    etag += *etag == '"';
    if (strspn(etag, "0123456789abcdefABCDEF") != n || (etag[n] && etag[n] != '"'))
        return;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(etag[i] >= 'A' && etag[i] <= 'F' ? etag[i] + 32 : etag[i]);
    out[n] = 0;
}

static void take_range(const char *value, struct http_response *r)
{
    const char *slash = strchr(value, '/');
    if (strncasecmp(value, "bytes ", 6) != 0 || !slash)
        return;
    r->range_from = number(value + 6);
    r->total = number(slash + 1);
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    struct http_response *r = t->out;
    const size_t len = size * n;
    char v[512];
    if (len > 5 && strncmp(line, "HTTP/", 5) == 0) { /* of the next answer, also after a 100 */
        r->etag[0] = 0;
        r->length = r->range_from = r->total = -1;
        r->retry_after_ms = 0;
    }
    if (header(line, len, "ETag", v, sizeof v)) {
        if (*v && strncmp(v, "W/", 2) != 0 && strlen(v) < sizeof r->etag)
            snprintf(r->etag, sizeof r->etag, "%.*s", (int)sizeof r->etag - 1, v);
        if (t->trusted && !*r->sha256) {
            take_hash(v, 64, r->sha256);
            take_hash(v, 40, r->sha1);
        }
    } else if (header(line, len, "X-Linked-ETag", v, sizeof v) && t->trusted) {
        take_hash(v, 64, r->sha256);
    } else if (header(line, len, "X-Linked-Size", v, sizeof v) && t->trusted) {
        r->size = number(v);
    } else if (header(line, len, "Last-Modified", v, sizeof v) && !*r->etag && strlen(v) < sizeof r->etag) {
        snprintf(r->etag, sizeof r->etag, "%.*s", (int)sizeof r->etag - 1, v);
    } else if (header(line, len, "Content-Length", v, sizeof v)) {
        r->length = number(v);
    } else if (header(line, len, "Content-Range", v, sizeof v)) {
        take_range(v, r);
    } else if (header(line, len, "Retry-After", v, sizeof v)) {
        const int64_t s = number(v);
        r->retry_after_ms = s > 0 ? (uint64_t)(s < 3600 ? s : 3600) * 1000 : 0;
    }
    return len;
}

/* ---- the body ------------------------------------------------------------------------------------------ */

static bool carries(long status)
{
    return status == 200 || status == 206;
}

static bool redirects(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static hasten_status begin_body(struct transfer *t)
{
    if (t->begun)
        return HASTEN_OK;
    t->begun = true;
    t->out->total = t->out->status == 200 ? t->out->length : t->out->total;
    return t->r->begin(t->r->ctx, t->out, t->err);
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->out->status);
    if (!carries(t->out->status))
        return redirects(t->out->status) ? size * n : 0; /* the page of an error is nobody's */
    t->status = begin_body(t);
    if (!t->status)
        t->status = t->r->take(t->r->ctx, data, size * n, t->err);
    t->got += size * n;
    return t->status ? 0 : size * n;
}

/* Polled by libcurl, also when nothing comes. */
static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    struct transfer *t = ctx;
    (void)total, (void)now, (void)up_total, (void)up;
    const uint64_t time = clock_now_ns(), passed_ms = (time - t->window_ns) / 1000000;
    t->stopped |= t->r->stop(t->r->ctx);
    if (passed_ms >= t->r->stall_ms) {
        t->stalled |= (t->got - t->window_got) * 1000 < HTTP_SLOWEST * passed_ms;
        t->window_got = t->got;
        t->window_ns = time;
    }
    return t->stopped || t->stalled;
}

/* ---- one hop ------------------------------------------------------------------------------------------- */

static struct curl_slist *request_headers(const struct transfer *t, bool *failed)
{
    const struct http_request *r = t->r;
    struct curl_slist *list = NULL, *more;
    char text[4096];
    *failed = false;
    if (r->from > 0 && r->if_range && *r->if_range) {
        snprintf(text, sizeof text, "If-Range: %s", r->if_range);
        more = curl_slist_append(list, text);
        *failed |= !more;
        list = more ? more : list;
    }
    if (r->token && t->trusted && (source_is_https(t->url) || source_is_loopback(t->url))) {
        snprintf(text, sizeof text, "Authorization: Bearer %s", r->token);
        more = curl_slist_append(list, text);
        *failed |= !more;
        list = more ? more : list;
    } else if (r->token && r->note && t->trusted) {
        r->note(r->ctx, "the token is not sent: the connection is not encrypted");
    }
    return list;
}

static CURLcode perform(struct transfer *t)
{
    CURL *c = t->curl;
    char range[64];
    bool failed;
    struct curl_slist *headers = request_headers(t, &failed);
    const char *certificates = getenv("SSL_CERT_FILE");
    snprintf(range, sizeof range, "%llu-", (unsigned long long)t->r->from);
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, t->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "hasten/" HASTEN_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)t->r->stall_ms);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (t->r->from > 0)
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    if (certificates && *certificates)
        curl_easy_setopt(c, CURLOPT_CAINFO, certificates);
    t->window_ns = clock_now_ns();
    t->window_got = t->got;
    const CURLcode rc = failed ? CURLE_OUT_OF_MEMORY : curl_easy_perform(c);
    curl_slist_free_all(headers);
    return rc;
}

/* What a failed hop means. */
static hasten_status explain(struct transfer *t, CURLcode rc)
{
    char host[SOURCE_ORIGIN_BYTES] = "";
    struct http_response *o = t->out;
    source_origin(t->url, host);
    if (t->status)
        return t->status;
    if (t->stopped)
        return error_set(t->err, HASTEN_ERR_CANCELLED, "interrupted");
    if (rc == CURLE_OUT_OF_MEMORY)
        return error_set(t->err, HASTEN_ERR_MEMORY, "out of memory");
    o->again = true;
    if (t->stalled)
        return error_set(t->err, HASTEN_ERR_NETWORK,
                         "%s sends nothing, or less than %d bytes a second (expected data within %llu s)",
                         host, HTTP_SLOWEST, (unsigned long long)((t->r->stall_ms + 999) / 1000));
    o->again = rc != CURLE_PEER_FAILED_VERIFICATION && rc != CURLE_SSL_CACERT_BADFILE &&
               rc != CURLE_UNSUPPORTED_PROTOCOL && rc != CURLE_URL_MALFORMAT;
    return error_set(t->err, HASTEN_ERR_NETWORK, "%s: %s", host, curl_easy_strerror(rc));
}

static hasten_status refuse_status(struct transfer *t)
{
    const long s = t->out->status;
    char host[SOURCE_ORIGIN_BYTES] = "";
    source_origin(t->url, host);
    t->out->again = s == 408 || s == 429 || s >= 500;
    const char *expected = s == 401 || s == 403 ? "expected access; HF_TOKEN may hold a token for hf: names"
                           : s == 404           ? "expected the file there"
                           : s == 429           ? "expected fewer requests"
                                                : "expected 200 or 206";
    return error_set(t->err, HASTEN_ERR_NETWORK, "%s answers with status %ld (%s)", host, s, expected);
}

/* The next URL of a redirect into *next (to be freed), judged. */
static hasten_status follow(struct transfer *t, char **next)
{
    char *to = NULL, host[SOURCE_ORIGIN_BYTES], origin[SOURCE_ORIGIN_BYTES],
         note[2 * SOURCE_ORIGIN_BYTES + 32];
    source_origin(t->url, host);
    curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &to);
    if (!to)
        return error_set(t->err, HASTEN_ERR_NETWORK, "%s redirects to nowhere (expected a Location)", host);
    if (!source_origin(to, origin))
        return error_set(t->err, HASTEN_ERR_NETWORK,
                         "%s redirects to '%.200s' (expected a plain http or https URL)", host, to);
    if (source_is_https(t->url) && !source_is_https(to))
        return error_set(t->err, HASTEN_ERR_NETWORK, "%s redirects from https to http (expected https)",
                         host);
    snprintf(note, sizeof note, "%s redirects to %s", host, origin);
    if (t->r->note)
        t->r->note(t->r->ctx, note);
    *next = mem_strndup(to, strlen(to));
    return *next ? HASTEN_OK : error_set(t->err, HASTEN_ERR_MEMORY, "out of memory");
}

/* One hop; *next: where it redirects to, NULL when it is the last. */
static hasten_status hop(struct transfer *t, char **next)
{
    char origin[SOURCE_ORIGIN_BYTES];
    *next = NULL;
    t->trusted = t->r->trusted && source_origin(t->url, origin) && strcmp(origin, t->r->trusted) == 0;
    const CURLcode rc = perform(t);
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->out->status);
    if (redirects(t->out->status) && !t->stopped && !t->stalled)
        return follow(t, next);
    if (t->out->status && !carries(t->out->status) && !t->stopped && !t->stalled)
        return refuse_status(t);
    if (rc != CURLE_OK)
        return explain(t, rc);
    t->status = begin_body(t); /* of an empty file */
    return t->status;
}

hasten_status http_get(struct http *h, const struct http_request *r, struct http_response *out,
                       struct hasten_error *err)
{
    struct transfer t = {.r = r, .out = out, .err = err, .curl = h->curl, .url = r->url};
    char *url = NULL, *next = NULL, host[SOURCE_ORIGIN_BYTES] = "";
    *out = (struct http_response){.length = -1, .range_from = -1, .total = -1, .size = -1};
    for (int i = 0; i <= HTTP_MAX_REDIRECTS; i++) {
        hasten_status st = hop(&t, &next);
        if (st || !next) {
            mem_free(url);
            return st;
        }
        mem_free(url);
        t.url = url = next;
    }
    source_origin(r->url, host);
    mem_free(url);
    return error_set(err, HASTEN_ERR_NETWORK, "%s redirects more than %d times (expected the file)", host,
                     HTTP_MAX_REDIRECTS);
}
