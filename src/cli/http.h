/* One GET of a file over http or https, with redirects, from a byte on. The one file that knows libcurl is http.c;
 * proxies are libcurl's (http_proxy, https_proxy, no_proxy). */
#ifndef HASTEN_CLI_HTTP_H
#define HASTEN_CLI_HTTP_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http; /* a handle: connections are kept between requests */

struct http_response {
    long status;
    int64_t length;            /* bytes that this answer promises, -1: unknown */
    int64_t range_from, total; /* of a 206; -1: not said. total of a 200 is its length */
    char etag[200];            /* strong ETag, or Last-Modified: what If-Range takes; "" : none */
    char sha256[65],
        sha1[41]; /* hashes that the trusted origin says, in lower case; "": none. sha1: git's of a blob */
    int64_t size; /* bytes that the trusted origin says, -1 */
    uint64_t retry_after_ms; /* 0: not said */
    bool again;              /* after a failure: may another try help? */
};

struct http_request {
    const char *url;
    uint64_t from;        /* ask for the bytes from here on */
    const char *if_range; /* validator of the bytes before; NULL: none */
    const char
        *token; /* NULL, or a bearer token for `trusted`: sent there alone, over https or on this machine */
    const char *trusted; /* origin (source_origin) whose headers name hashes; NULL: none */
    uint64_t stall_ms;   /* give up when less than HTTP_SLOWEST bytes a second come for so long */
    /* Once, before the first byte of a 200 or 206; then each piece. A failure ends the request with it. */
    hasten_status (*begin)(void *ctx, const struct http_response *r, struct hasten_error *err);
    hasten_status (*take)(void *ctx, const void *data, size_t n, struct hasten_error *err);
    bool (*stop)(void *ctx); /* polled about once a second and with each piece: cancel? */
    void (*note)(void *ctx,
                 const char *text); /* NULL, or hears of redirects and of a token that is held back */
    void *ctx;
};

#define HTTP_SLOWEST 64
#define HTTP_MAX_REDIRECTS 10

hasten_status http_open(struct http **out, struct hasten_error *err);
void http_close(struct http *h);
/* HASTEN_ERR_NETWORK names the host and what came; out->again says whether another try may help. */
hasten_status http_get(struct http *h, const struct http_request *r, struct http_response *out,
                       struct hasten_error *err);

#endif
