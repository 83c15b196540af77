/* The outside of the template interpreter: opening, closing, rendering. See jinja.h for the inside. */
#include "text/template.h"
#include "text/jinja.h"
#include <string.h>
#include <utf8proc.h>

/* Offset of the first byte that is not UTF-8, or len. */
static size_t check_utf8(const char *s, size_t len)
{
    size_t at = 0;
    while (at < len) {
        utf8proc_int32_t cp;
        utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)s + at, (utf8proc_ssize_t)(len - at), &cp);
        if (n <= 0)
            return at;
        at += (size_t)n;
    }
    return len;
}

/* Line ends become '\n'; one at the very end goes, as jinja2 does it. */
static void normalise(struct template *t, const char *source, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r') {
            t->source[n++] = '\n';
            i += i + 1 < len && source[i + 1] == '\n';
        } else {
            t->source[n++] = source[i];
        }
    }
    if (n && t->source[n - 1] == '\n')
        n--;
    t->source[n] = 0;
    t->len = n;
}

hasten_status template_open(const char *name, const char *source, size_t len, struct template **out,
                            struct hasten_error *err)
{
    if (len > LIMIT_TEMPLATE_BYTES)
        return error_set(err, HASTEN_ERR_TEMPLATE, "%s: the template has %zu bytes, at most %u are read",
                         name, len, LIMIT_TEMPLATE_BYTES);
    struct template *t = mem_calloc(1, sizeof *t);
    if (t) {
        t->arena.limit = LIMIT_TEMPLATE_MEMORY;
        t->name = mem_strndup(name, strlen(name));
        t->source = mem_alloc(len + 1);
    }
    if (!t || !t->name || !t->source) {
        template_close(t);
        return error_set(err, HASTEN_ERR_MEMORY, "%s: no memory for a template of %zu bytes", name, len);
    }
    normalise(t, source, len);
    struct jparse p = {.t = t, .err = err};
    size_t bad = check_utf8(t->source, t->len);
    if (bad < t->len)
        jinja_syntax(&p, (uint32_t)bad, "the template is not valid UTF-8");
    else if (jinja_parse_body(&p)) {
        *out = t;
        return HASTEN_OK;
    }
    template_close(t);
    return p.status;
}

void template_close(struct template *t)
{
    if (!t)
        return;
    jarena_free(&t->arena);
    mem_free(t->name);
    mem_free(t->source);
    mem_free(t);
}

/* The variables: those of context, then those of content, whose strings are marked. */
static bool take_variables(struct jrun *r, const json_t *context, const json_t *content)
{
    struct jval v, from;
    r->depth.limit = LIMIT_JSON_DEPTH + 1;
    if (!jinja_from_json(r, context, &v))
        return false;
    r->context = v.u.dict;
    r->content = true;
    if (content && !jinja_from_json(r, content, &from))
        return false;
    r->content = false;
    for (size_t i = 0; content && i < from.u.dict->n; i++)
        if (!jdict_set(r, r->context, &from.u.dict->e[i].key, &from.u.dict->e[i].val))
            return false;
    r->depth = (struct depth){.limit = LIMIT_TEMPLATE_DEPTH};
    return true;
}

static hasten_status render(const struct template *t, const json_t *context, const json_t *content,
                            struct buf *out, struct buf *origin, struct hasten_error *err)
{
    struct jrun r = {.t = t, .err = err, .out = out, .out_start = out->len, .origin = origin};
    const size_t origin_start = origin ? origin->len : 0;
    if (!json_is_object(context) || (content && !json_is_object(content)))
        return error_set(err, HASTEN_ERR_TEMPLATE, "%s: line 1, column 1: the context is not a JSON object",
                         t->name);
    r.arena.limit = LIMIT_TEMPLATE_MEMORY;
    r.arena.tracked = origin != NULL;
    bool ok = take_variables(&r, context, content) && jinja_run(&r);
    jarena_free(&r.arena);
    if (ok)
        return HASTEN_OK;
    out->len = r.out_start;
    if (out->data)
        out->data[out->len] = 0;
    if (origin)
        origin->len = origin_start;
    return r.status;
}

hasten_status template_render(const struct template *t, const json_t *context, struct buf *out,
                              struct hasten_error *err)
{
    return render(t, context, NULL, out, NULL, err);
}

hasten_status template_render_origin(const struct template *t, const json_t *context, const json_t *content,
                                     struct buf *out, struct buf *origin, struct hasten_error *err)
{
    return render(t, context, content, out, origin, err);
}
