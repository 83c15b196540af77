/* API keys (keys.h). Every key is compared with every byte of what was sent, whatever was found before, so that the time
 * tells nothing but the number of keys. */
#include "serve/keys.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include <pthread.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct key {
    size_t len;
    unsigned char text[LIMIT_SERVE_KEY_BYTES]; /* zeros behind len */
};

struct keys {
    char *path; /* NULL: none */
    pthread_mutex_t lock;
    struct key *list; /* under the lock */
    int n;
};

static hasten_status add_key(struct key **list, int *n, int *cap, const char *path, int line,
                             const char *text, size_t len, struct hasten_error *err)
{
    if (len > LIMIT_SERVE_KEY_BYTES)
        return error_set(err, HASTEN_ERR_FILE, "%s: line %d: a key of %zu bytes (expected at most %d)", path,
                         line, len, LIMIT_SERVE_KEY_BYTES);
    if (*n == LIMIT_SERVE_KEYS)
        return error_set(err, HASTEN_ERR_FILE, "%s: more than %d keys (expected fewer)", path,
                         LIMIT_SERVE_KEYS);
    if (*n == *cap) {
        const int grown = *cap ? 2 * *cap : 16;
        struct key *p = mem_realloc(*list, (size_t)grown * sizeof *p);
        if (!p)
            return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", path);
        *list = p;
        *cap = grown;
    }
    struct key *k = &(*list)[(*n)++];
    *k = (struct key){.len = len};
    memcpy(k->text, text, len);
    return HASTEN_OK;
}

static hasten_status parse(const char *path, const char *text, size_t len, struct key **list, int *n,
                           struct hasten_error *err)
{
    int cap = 0, number = 0;
    hasten_status st = HASTEN_OK;
    for (size_t at = 0; at < len && !st;) {
        const char *line = text + at, *end = memchr(line, '\n', len - at);
        const size_t bytes = end ? (size_t)(end - line) : len - at;
        size_t from = 0;
        number++;
        at += bytes + 1;
        while (from < bytes && (line[from] == ' ' || line[from] == '\t'))
            from++;
        size_t to = from;
        while (to < bytes && (unsigned char)line[to] > ' ')
            to++;
        if (to > from && line[from] != '#')
            st = add_key(list, n, &cap, path, number, line + from, to - from, err);
    }
    if (!st && *n == 0)
        st = error_set(err, HASTEN_ERR_FILE, "%s: no key (expected one a line)", path);
    return st;
}

static hasten_status read_keys(const char *path, struct key **list, int *n, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    *list = NULL;
    *n = 0;
    hasten_status st = file_slurp(path, LIMIT_SERVE_KEYS * (size_t)LIMIT_SERVE_KEY_BYTES, &text, &len, err);
    if (!st)
        st = parse(path, text, len, list, n, err);
    mem_free(text);
    if (st) {
        mem_free(*list);
        *list = NULL;
    }
    return st;
}

hasten_status keys_open(const char *path, struct keys **out, struct hasten_error *err)
{
    struct keys *k = mem_calloc(1, sizeof *k);
    if (!k)
        return error_set(err, HASTEN_ERR_MEMORY, "keys: out of memory");
    pthread_mutex_init(&k->lock, NULL);
    k->path = path ? mem_strndup(path, strlen(path)) : NULL;
    hasten_status st =
        path && !k->path ? error_set(err, HASTEN_ERR_MEMORY, "keys: out of memory") : HASTEN_OK;
    if (!st && path)
        st = read_keys(path, &k->list, &k->n, err);
    if (st)
        keys_close(k);
    else
        *out = k;
    return st;
}

hasten_status keys_reload(struct keys *k, struct hasten_error *err)
{
    struct key *list;
    int n;
    hasten_status st = k->path ? read_keys(k->path, &list, &n, err) : HASTEN_OK;
    if (st || !k->path)
        return st;
    pthread_mutex_lock(&k->lock);
    struct key *old = k->list;
    k->list = list;
    k->n = n;
    pthread_mutex_unlock(&k->lock);
    mem_free(old);
    return HASTEN_OK;
}

void keys_close(struct keys *k)
{
    if (!k)
        return;
    pthread_mutex_destroy(&k->lock);
    mem_free(k->list);
    mem_free(k->path);
    mem_free(k);
}

int keys_count(struct keys *k)
{
    pthread_mutex_lock(&k->lock);
    const int n = k->n;
    pthread_mutex_unlock(&k->lock);
    return n;
}

bool keys_allow(struct keys *k, const char *key, uint64_t *tenant)
{
    unsigned char sent[LIMIT_SERVE_KEY_BYTES] = {0};
    const size_t len = key ? strlen(key) : 0;
    volatile unsigned found = 0;
    memcpy(sent, key ? key : "", len < sizeof sent ? len : sizeof sent);
    *tenant = 0;
    if (!k->path)
        return true;
    pthread_mutex_lock(&k->lock);
    for (int i = 0; i < k->n; i++) {
        size_t differ = k->list[i].len ^ len;
        for (size_t j = 0; j < sizeof sent; j++)
            differ |= (size_t)(k->list[i].text[j] ^ sent[j]);
        found |= differ == 0;
    }
    pthread_mutex_unlock(&k->lock);
    if (!found || !len)
        return false;
    *tenant = XXH3_64bits(sent, sizeof sent) | 1;
    return true;
}
