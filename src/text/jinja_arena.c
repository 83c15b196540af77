/* The memory of one rendering, and where the bytes of its strings come from.
 *
 * Owns the arena: blocks that are freed all at once, bounded by LIMIT_TEMPLATE_MEMORY. And the origins: when they are
 * followed (template_render_origin), a chunk that holds content has a second array of the same size that says for
 * each byte whether it stems from content. Strings that were cut out of others lie in the same bytes, so that strip,
 * split, slices and the like need do nothing; whoever copies text copies its origins (jb_put, jinja_concat, capture),
 * and whoever makes new bytes out of a character of content says so (jbuild.content). Text outside of the arena is
 * the template's own: its source, its constants, the interpreter's words, the caller's variables. */
#include "text/jinja.h"
#include "base/mem.h"
#include <string.h>

struct jchunk {
    struct jchunk *next;
    size_t size;
    uint8_t *origin; /* [size], or NULL: no content in it */
};
enum {
    CHUNK_MIN = 16 << 10,
    CHUNK_MAX = 4 << 20
};

static bool arena_chunk(struct jarena *a, size_t need)
{
    size_t size = a->chunks ? a->chunks->size * 2 : CHUNK_MIN;
    if (size > CHUNK_MAX)
        size = CHUNK_MAX;
    if (need > a->limit) {
        a->over = true;
        return false;
    }
    if (size < need + need / 2 + 64)
        size = need + need / 2 + 64; /* room for a string that keeps growing */
    if (size > a->limit - a->used)
        size = need + 64;
    if (size > a->limit - a->used) {
        a->over = true;
        return false;
    }
    struct jchunk *c = mem_alloc(size);
    if (!c) {
        a->over = false;
        return false;
    }
    *c = (struct jchunk){.next = a->chunks, .size = size};
    a->chunks = c;
    a->used += size;
    a->base = a->cur = (char *)(c + 1);
    a->end = (char *)c + size;
    return true;
}

char *jarena_bytes(struct jarena *a, size_t size)
{
    if (size > (size_t)(a->end - a->cur) && !arena_chunk(a, size + sizeof(struct jchunk)))
        return NULL;
    if (!a->cur && !arena_chunk(a, size + sizeof(struct jchunk)))
        return NULL;
    char *p = a->cur;
    a->cur += size;
    return p;
}

void *jarena_alloc(struct jarena *a, size_t size)
{
    if (size > a->limit) {
        a->over = true;
        return NULL;
    }
    size_t pad = a->cur ? (size_t)(-(intptr_t)a->cur & 15) : 0;
    if (!a->cur || pad > (size_t)(a->end - a->cur) || size > (size_t)(a->end - a->cur) - pad) {
        if (!arena_chunk(a, size + 16 + sizeof(struct jchunk)))
            return NULL;
        pad = (size_t)(-(intptr_t)a->cur & 15);
    }
    char *p = a->cur + pad;
    a->cur = p + size;
    return p;
}

char *jarena_grow(struct jarena *a, const char *p, size_t old, size_t size)
{
    if (p && p >= a->base && p + old == a->cur && size - old <= (size_t)(a->end - a->cur)) {
        a->cur += size - old;
        return a->cur - size;
    }
    char *q = jarena_bytes(a, size);
    if (q && old) {
        memcpy(q, p, old);
        if (a->tracked && !jarena_mark(a, q, old, jarena_origin(a, p), false))
            return NULL;
    }
    return q;
}

void jarena_free(struct jarena *a)
{
    for (struct jchunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        mem_free(c->origin);
        mem_free(c);
    }
    *a = (struct jarena){0};
}

/* ---- origins ------------------------------------------------------------------------------------------ */

static struct jchunk *chunk_of(const struct jarena *a, const char *p)
{
    struct jchunk *c = a->chunks;
    while (c && ((uintptr_t)p < (uintptr_t)c || (uintptr_t)p - (uintptr_t)c >= c->size))
        c = c->next;
    return c;
}

const uint8_t *jarena_origin(const struct jarena *a, const char *p)
{
    const struct jchunk *c = a->tracked ? chunk_of(a, p) : NULL;
    return c && c->origin ? c->origin + (p - (const char *)c) : NULL;
}

bool jarena_mark(struct jarena *a, const char *dst, size_t len, const uint8_t *from, bool all)
{
    struct jchunk *c = a->tracked && len ? chunk_of(a, dst) : NULL;
    if (!c || (!c->origin && !all && (!from || !memchr(from, 1, len))))
        return true;
    if (!c->origin) {
        a->over = c->size > a->limit - a->used;
        c->origin = a->over ? NULL : mem_calloc(1, c->size);
        if (!c->origin)
            return false;
        a->used += c->size;
    }
    uint8_t *to = c->origin + (dst - (const char *)c);
    if (from)
        memmove(to, from, len);
    else
        memset(to, all, len);
    return true;
}

/* Gives dst[0, len), in the arena, the origins of src; `otherwise` when src lies outside. */
bool jinja_copy_origin(struct jrun *r, const char *dst, const char *src, size_t len, bool otherwise)
{
    if (!r->origin || !len)
        return true;
    bool inside = chunk_of(&r->arena, src) != NULL;
    if (jarena_mark(&r->arena, dst, len, jarena_origin(&r->arena, src), !inside && otherwise))
        return true;
    return jinja_no_memory(r);
}

bool jinja_is_content(const struct jrun *r, const struct jval *s)
{
    const uint8_t *o = r->origin && s->len ? jarena_origin(&r->arena, s->u.s) : NULL;
    return o && memchr(o, 1, s->len);
}

bool jinja_own_string(struct jrun *r, struct jval *s)
{
    if (!r->content || !s->len)
        return true;
    char *p = jarena_bytes(&r->arena, s->len);
    if (!p)
        return jinja_no_memory(r);
    memcpy(p, s->u.s, s->len);
    s->u.s = p;
    return jarena_mark(&r->arena, p, s->len, NULL, true) || jinja_no_memory(r);
}

/* The names that templates put between the signs of a control token: '<|' + message.role + '|>'. */
bool jinja_trusted(const char *key, size_t key_len, const json_t *v)
{
    static const char *const roles[] = {
        "assistant",   "context", "developer", "environment", "function",      "ipython",      "model",
        "observation", "system",  "tool",      "tool_call",   "tool_response", "tool_results", "user"};
    if (key_len != 4 || memcmp(key, "role", 4) != 0 || !json_is_string(v))
        return false;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strlen(roles[i]) == json_string_length(v) &&
            memcmp(roles[i], json_string_value(v), json_string_length(v)) == 0)
            return true;
    return false;
}
