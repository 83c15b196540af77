/* The web page's files (page.h): finding one, the headers that go with them. Their bytes are in a generated table. */
#include "serve/page.h"
#include <string.h>

const struct exchange_header page_headers[] = {
    {"Content-Security-Policy",
     "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"Cache-Control", "no-cache"}, /* kept, and asked for by its tag each time */
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
};
const size_t page_n_headers = sizeof page_headers / sizeof *page_headers;

const struct page_file *page_find(const char *path)
{
    for (size_t i = 0; i < page_n_files; i++)
        if (strcmp(page_files[i].path, path) == 0)
            return &page_files[i];
    return NULL;
}

/* A list of tags, or "*" (RFC 9110, section 13.1.2). Weak ones compare equal here. */
bool page_is_known(const struct page_file *f, const char *if_none_match)
{
    const size_t n = strlen(f->etag);
    for (const char *s = if_none_match; s && *s;) {
        s += strspn(s, " \t,");
        if (*s == '*')
            return true;
        if (s[0] == 'W' && s[1] == '/')
            s += 2;
        if (strncmp(s, f->etag, n) == 0 && strchr(" \t,", s[n])) /* finds the end, too */
            return true;
        const char *end = *s == '"' ? strchr(s + 1, '"') : NULL;
        s = end ? end + 1 : s + strcspn(s, ",");
    }
    return false;
}
