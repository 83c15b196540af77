/* GET / and /assets/NAME: the web page (page.h). Needs no key, as there is nothing in it: what it asks for does. */
#include "serve/inside.h"
#include "serve/page.h"

void api_page(struct server *s, struct exchange *x)
{
    const struct page_file *file = page_find(x->path);
    struct buf body = {0};
    struct fault f = {0};
    (void)s;
    if (!file) {
        fault_set(&f, 404, "not_found", NULL, "the page has no file %.200s", x->path);
        exchange_fail(x, &f);
        return;
    }
    const bool known = page_is_known(file, x->if_none_match);
    if (!known && buf_put(&body, file->bytes, file->len)) {
        buf_free(&body);
        fault_set(&f, 503, "out_of_memory", NULL, "no memory for the page");
        exchange_fail(x, &f);
        return;
    }
    x->etag = file->etag;
    x->headers = page_headers;
    x->n_headers = page_n_headers;
    exchange_answer(x, known ? 304 : 200, file->type, &body);
}
