/* Names of what can be pulled (source.h): taking URLs apart, and refusing what is no plain name. */
#include "cli/source.h"
#include "base/values.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_URL 4096
#define MAX_SEGMENT 200
#define MAX_SEGMENTS 32

static bool starts(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

bool source_named(const char *arg)
{
    return starts(arg, "hf:") || strstr(arg, "://");
}

const char *source_hub(void)
{
    const char *own = getenv("HF_ENDPOINT");
    return own && *own ? own : "https://huggingface.co";
}

void source_free(struct source *s)
{
    buf_free(&s->name);
    buf_free(&s->url);
    buf_free(&s->place);
    *s = (struct source){0};
}

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "pull: out of memory");
}

/* ---- URLs ---------------------------------------------------------------------------------------------- */

/* "://" and what stands before it; 0: neither http nor https. */
static size_t scheme_len(const char *url)
{
    return starts(url, "https://") ? 8 : starts(url, "http://") ? 7 : 0;
}

bool source_is_https(const char *url)
{
    return starts(url, "https://");
}

/* Host and port of a URL: letters, digits and . - _ : [ ] only, so no credentials. */
static size_t authority_len(const char *at)
{
    const size_t n = strcspn(at, "/?#");
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]", at[i]))
            return 0;
    return n <= 256 ? n : 0;
}

bool source_origin(const char *url, char out[SOURCE_ORIGIN_BYTES])
{
    const size_t scheme = scheme_len(url), host = scheme ? authority_len(url + scheme) : 0;
    size_t n = 0;
    bool port = false;
    for (size_t i = 0; i < scheme + host; i++) {
        const char c = url[i];
        out[n++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        port = i < scheme ? false : c == ':' ? true : c == ']' ? false : port;
    }
    const char *standard = scheme == 8 ? ":443" : ":80";
    memcpy(out + n, port ? "" : standard, port ? 1 : strlen(standard) + 1);
    return scheme && host;
}

bool source_is_loopback(const char *url)
{
    const char *host = url + scheme_len(url);
    const size_t n = strcspn(host, host[0] == '[' ? "]/" : ":/?#");
    const char *c = host + (starts(host, "127.") ? 4 : 0);
    if ((n == 9 && starts(host, "localhost")) || starts(host, "[::1]"))
        return true;
    return c > host && strspn(c, "0123456789.") == n - 4;
}

/* ---- names --------------------------------------------------------------------------------------------- */

static bool ends(const char *text, size_t len, const char *with)
{
    const size_t n = strlen(with);
    return len >= n && memcmp(text + len - n, with, n) == 0;
}

/* One part of a path as a plain file name, `%41` decoded, behind '/' in out. */
static hasten_status add_segment(struct buf *out, const char *text, size_t len, bool percent, const char *arg,
                                 struct hasten_error *err)
{
    char name[MAX_SEGMENT];
    size_t n = 0;
    bool good = len > 0;
    for (size_t i = 0; i < len && good; i++) {
        char c = text[i];
        if (percent && c == '%') {
            good = i + 2 < len && value_hex_digit(text[i + 1]) >= 0 && value_hex_digit(text[i + 2]) >= 0;
            c = good ? (char)(16 * value_hex_digit(text[i + 1]) + value_hex_digit(text[i + 2])) : 0;
            i += 2;
        }
        good = good && n < sizeof name && c != '/' && c != '\\' && (unsigned char)c >= 32 && c != 127;
        if (good)
            name[n++] = c;
    }
    if (good)
        good = !(n == 1 && name[0] == '.') && !(n == 2 && name[0] == '.' && name[1] == '.') &&
               !ends(name, n, SOURCE_PART) && !ends(name, n, SOURCE_PART_META) &&
               !ends(name, n, SOURCE_RECORD);
    if (!good)
        return error_set(err, HASTEN_ERR_USAGE,
                         "'%s': part '%.*s' is no name of a file (expected a plain one)", arg,
                         (int)(len < 80 ? len : 80), text);
    return buf_putc(out, '/') || buf_put(out, name, n) ? no_memory(err) : HASTEN_OK;
}

/* The parts of path[0, len), split at '/'. */
static hasten_status add_path(struct buf *out, const char *path, size_t len, bool percent, const char *arg,
                              struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    int count = 0;
    for (size_t at = 0; at <= len && !st;) {
        const char *slash = memchr(path + at, '/', len - at);
        const size_t n = slash ? (size_t)(slash - (path + at)) : len - at;
        if (++count > MAX_SEGMENTS)
            return error_set(err, HASTEN_ERR_USAGE, "'%s': a path of more than %d parts (expected fewer)",
                             arg, MAX_SEGMENTS);
        st = add_segment(out, path + at, n, percent, arg, err);
        at += n + 1;
    }
    return st;
}

static hasten_status parse_url(const char *arg, struct source *s, struct hasten_error *err)
{
    const size_t scheme = scheme_len(arg), len = strlen(arg), host = scheme ? authority_len(arg + scheme) : 0;
    if (!scheme)
        return error_set(err, HASTEN_ERR_USAGE, "'%s': unknown scheme (expected https:// or http://)", arg);
    if (!host || len > MAX_URL || memchr(arg + scheme, '@', strcspn(arg + scheme, "/?#")))
        return error_set(err, HASTEN_ERR_USAGE,
                         "'%s': no plain host (expected HOST or HOST:PORT, no credentials)",
                         len > 200 ? "URL" : arg);
    const char *path = arg + scheme + host;
    const size_t n = strcspn(path, "?#"), whole = strcspn(arg, "#");
    for (const char *c = arg; *c; c++)
        if ((unsigned char)*c <= 32 || *c == 127)
            return error_set(err, HASTEN_ERR_USAGE, "'%s': a blank or control character (expected a URL)",
                             arg);
    if (n < 2 || path[n - 1] == '/')
        return error_set(err, HASTEN_ERR_USAGE, "'%s': no name of a file at its end (expected one)", arg);
    char origin[SOURCE_ORIGIN_BYTES];
    source_origin(arg, origin);
    if (buf_put(&s->url, arg, whole) || buf_put(&s->name, arg, whole) || buf_puts(&s->place, "url"))
        return no_memory(err);
    hasten_status st = add_segment(&s->place, arg + scheme, host, false, arg, err);
    return st ? st : add_path(&s->place, path + 1, n - 1, true, arg, err);
}

/* A path into a URL: all but unreserved characters and '/' as %XX. */
static int put_encoded(struct buf *out, const char *text, size_t len)
{
    int bad = 0;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("-._~/", c))
            bad |= buf_putc(out, (char)c);
        else
            bad |= buf_printf(out, "%%%02X", c);
    }
    return bad;
}

/* hf:USER/REPO[@REVISION]/FILE */
static hasten_status parse_hub(const char *arg, struct source *s, struct hasten_error *err)
{
    const char *path = arg + 3, *hub = source_hub();
    path += starts(path, "//") ? 2 : 0;
    const size_t user = strcspn(path, "/");
    const char *repo = path + user + (path[user] == '/');
    const size_t repo_len = strcspn(repo, "/"), name_len = strcspn(repo, "/@");
    const char *file = repo + repo_len + (repo[repo_len] == '/'), *revision = "main";
    size_t revision_len = 4, hub_len = strlen(hub);
    if (!user || !name_len || !*file || strlen(arg) > MAX_URL)
        return error_set(err, HASTEN_ERR_USAGE, "'%.200s': incomplete (expected hf:USER/REPO/FILE)", arg);
    if (repo[name_len] == '@' && repo_len == name_len + 1)
        return error_set(err, HASTEN_ERR_USAGE,
                         "'%.200s': an empty revision (expected hf:USER/REPO@REVISION/FILE)", arg);
    if (name_len < repo_len) {
        revision = repo + name_len + 1;
        revision_len = repo_len - name_len - 1;
    }
    if (!scheme_len(hub) || !authority_len(hub + scheme_len(hub)))
        return error_set(err, HASTEN_ERR_USAGE, "HF_ENDPOINT: '%s' (expected https://HOST)", hub);
    while (hub_len && hub[hub_len - 1] == '/')
        hub_len--;
    if (buf_puts(&s->place, "hf"))
        return no_memory(err);
    hasten_status st = add_path(&s->place, path, strlen(path), false, arg, err);
    if (st)
        return st;
    int bad = buf_put(&s->url, hub, hub_len) | buf_putc(&s->url, '/') | put_encoded(&s->url, path, user + 1) |
              put_encoded(&s->url, repo, name_len) | buf_puts(&s->url, "/resolve/") |
              put_encoded(&s->url, revision, revision_len) | buf_putc(&s->url, '/') |
              put_encoded(&s->url, file, strlen(file)) | buf_printf(&s->name, "hf:%s", path);
    return bad ? no_memory(err) : HASTEN_OK;
}

hasten_status source_parse(const char *arg, struct source *out, struct hasten_error *err)
{
    *out = (struct source){.hub = starts(arg, "hf:")};
    hasten_status st = out->hub ? parse_hub(arg, out, err) : parse_url(arg, out, err);
    if (st)
        source_free(out);
    return st;
}
