/* The web page: web/, as it was built into the program (cmake/embed.cmake makes the table). */
#ifndef HASTEN_SERVE_PAGE_H
#define HASTEN_SERVE_PAGE_H
#include "serve/exchange.h"
#include <stdbool.h>
#include <stddef.h>

struct page_file {
    const char *path; /* "/", or "/assets/NAME" */
    const char *type; /* Content-Type */
    const char *etag; /* of its bytes, with its quotes */
    const unsigned char *bytes;
    size_t len;
};
extern const struct page_file page_files[];
extern const size_t page_n_files;

/* path: as requests have it, decoded, without the query. NULL: no part of the page. */
const struct page_file *page_find(const char *path);
/* Whether a client that sends this If-None-Match (NULL: none) has the file already: 304. */
bool page_is_known(const struct page_file *f, const char *if_none_match);

/* Headers of every answer with a file of the page, 304 too, beside Content-Type and ETag. The policy lets the page run
 * and fetch nothing but what this server gives, and forbids turning text into markup or code. */
extern const struct exchange_header page_headers[];
extern const size_t page_n_headers;

#endif
