/* Chat prompts that content cannot hijack (prompt.h says how). Owns the rendering context and the
 * recognition of control tokens in rendered text; leaves templates to template.c and encoding to vocab_*.c. */
#include "text/prompt.h"
#include "text/unicode.h"
#include <string.h>

struct control {
    const char *text;
    size_t len;
    int32_t id;
};

struct prompter {
    const struct vocab *vocab;
    struct template *template;
    struct gguf_str source, bos, eos;
    struct control *controls; /* [n_controls], sorted by bytes */
    int32_t n_controls;
};

/* ---- opening ------------------------------------------------------------------------------------------ */

static int compare_controls(const void *a, const void *b)
{
    const struct control *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->text, y->text, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static hasten_status list_controls(struct prompter *p, struct hasten_error *err)
{
    int32_t n = 0;
    for (int32_t id = 0; id < vocab_size(p->vocab); id++)
        n += vocab_type(p->vocab, id) == VOCAB_CONTROL && vocab_text(p->vocab, id).len > 0;
    p->controls = mem_array((size_t)n + 1, sizeof *p->controls);
    if (!p->controls)
        return error_set(err, HASTEN_ERR_MEMORY, "chat template: out of memory");
    for (int32_t id = 0; id < vocab_size(p->vocab); id++) {
        struct gguf_str s = vocab_text(p->vocab, id);
        if (vocab_type(p->vocab, id) == VOCAB_CONTROL && s.len > 0)
            p->controls[p->n_controls++] = (struct control){s.data, s.len, id};
    }
    qsort(p->controls, (size_t)p->n_controls, sizeof *p->controls, compare_controls);
    return HASTEN_OK;
}

static struct gguf_str token_text(const struct vocab *v, int32_t id)
{
    return id < 0 ? (struct gguf_str){"", 0} : vocab_text(v, id);
}

hasten_status prompter_open(const struct gguf *g, const struct vocab *v, struct prompter **out,
                            struct hasten_error *err)
{
    struct gguf_str source = {NULL, 0};
    *out = NULL;
    hasten_status st = HASTEN_OK;
    if (g)
        st = gguf_opt_str(g, "tokenizer.chat_template", &source, err);
    else
        source = vocab_chat_template(v);
    if (st || source.len == 0)
        return st;
    struct prompter *p = mem_calloc(1, sizeof *p);
    if (!p)
        return error_set(err, HASTEN_ERR_MEMORY, "chat template: out of memory");
    p->vocab = v;
    p->source = source;
    p->bos = token_text(v, vocab_bos(v));
    p->eos = token_text(v, vocab_eos(v));
    st = template_open("chat template", source.data, source.len, &p->template, err);
    if (!st)
        st = list_controls(p, err);
    if (st)
        prompter_close(p);
    else
        *out = p;
    return st;
}

void prompter_close(struct prompter *p)
{
    if (!p)
        return;
    template_close(p->template);
    mem_free(p->controls);
    mem_free(p);
}

void prompt_free(struct prompt *p)
{
    buf_free(&p->text);
    mem_free(p->spans);
    *p = (struct prompt){0};
}

/* ---- recognising control tokens ------------------------------------------------------------------------ */

/* The longest control token spelled at text[0, len), or NULL. Narrows the sorted table byte by byte. */
static const struct control *control_at(const struct prompter *p, const char *text, size_t len)
{
    const struct control *found = NULL;
    int32_t lo = 0, hi = p->n_controls;
    for (size_t d = 0; lo < hi; d++) {
        if (p->controls[lo].len == d)
            found = &p->controls[lo++];
        if (d == len)
            break;
        unsigned char c = (unsigned char)text[d];
        int32_t a = lo, b = hi; /* first entry whose byte d is >= c */
        while (a < b) {
            int32_t m = a + (b - a) / 2;
            if ((unsigned char)p->controls[m].text[d] < c)
                a = m + 1;
            else
                b = m;
        }
        int32_t first = a;
        b = hi;
        while (a < b) {
            int32_t m = a + (b - a) / 2;
            if ((unsigned char)p->controls[m].text[d] <= c)
                a = m + 1;
            else
                b = m;
        }
        lo = first;
        hi = a;
    }
    return found;
}

/* ---- rendering ----------------------------------------------------------------------------------------- */

/* Turns the bytes' origins into p->spans. */
static hasten_status take_spans(struct prompt *p, const struct buf *origin, struct hasten_error *err)
{
    const uint8_t *o = (const uint8_t *)origin->data;
    for (size_t i = 0, end; i < origin->len; i = end) {
        for (end = i + 1; end < origin->len && o[end] == o[i];)
            end++;
        if (!o[i])
            continue;
        if (p->n_spans == p->cap_spans) {
            size_t cap = p->cap_spans ? 2 * p->cap_spans : 16;
            struct prompt_span *grown = mem_realloc(p->spans, cap * sizeof *grown);
            if (!grown)
                return error_set(err, HASTEN_ERR_MEMORY, "chat prompt: out of memory");
            p->spans = grown;
            p->cap_spans = cap;
        }
        p->spans[p->n_spans++] = (struct prompt_span){i, end};
    }
    return HASTEN_OK;
}

static bool is_utf8(struct gguf_str s)
{
    return utf8_valid_run(s.data, s.len) == s.len;
}

/* What comes from outside, as variables. NULL when out of memory. */
static json_t *make_content(const json_t *messages, const json_t *tools, const json_t *variables)
{
    static const char *const own[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};
    json_t *content = variables ? json_copy((json_t *)(uintptr_t)variables) : json_object();
    for (size_t i = 0; i < sizeof own / sizeof *own && content; i++)
        json_object_del(content, own[i]);
    if (!content || json_object_set(content, "messages", (json_t *)(uintptr_t)messages) ||
        (tools ? json_object_set(content, "tools", (json_t *)(uintptr_t)tools)
               : json_object_set_new(content, "tools", json_null()))) {
        json_decref(content);
        return NULL;
    }
    return content;
}

static hasten_status render(const struct prompter *p, const json_t *messages, const json_t *tools,
                            const json_t *variables, bool generation, struct prompt *out,
                            struct hasten_error *err)
{
    struct buf origin = {0};
    if (!is_utf8(p->bos) || !is_utf8(p->eos))
        return error_set(err, HASTEN_ERR_FILE,
                         "chat template: the file's BOS or EOS is not UTF-8 (expected text)");
    json_t *content = make_content(messages, tools, variables);
    json_t *context = json_pack("{s:b, s:s%, s:s%}", "add_generation_prompt", (int)generation, "bos_token",
                                p->bos.data, p->bos.len, "eos_token", p->eos.data, p->eos.len);
    hasten_status st = !context || !content
                           ? error_set(err, HASTEN_ERR_MEMORY, "chat template: out of memory")
                           : template_render_origin(p->template, context, content, &out->text, &origin, err);
    if (!st)
        st = take_spans(out, &origin, err);
    buf_free(&origin);
    json_decref(context);
    json_decref(content);
    return st;
}

static hasten_status check_messages(const json_t *messages, struct hasten_error *err)
{
    if (!json_is_array(messages))
        return error_set(err, HASTEN_ERR_USAGE, "messages: not a JSON array (expected an array of objects)");
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!json_is_object(json_array_get(messages, i)))
            return error_set(err, HASTEN_ERR_USAGE,
                             "messages: element %zu is not an object (expected role and content)", i);
    return HASTEN_OK;
}

hasten_status prompter_render(const struct prompter *p, const json_t *messages, const json_t *tools,
                              bool add_generation_prompt, struct prompt *out, struct hasten_error *err)
{
    return prompter_render_with(p, messages, tools, NULL, add_generation_prompt, out, err);
}

hasten_status prompter_render_with(const struct prompter *p, const json_t *messages, const json_t *tools,
                                   const json_t *variables, bool add_generation_prompt, struct prompt *out,
                                   struct hasten_error *err)
{
    hasten_status st = check_messages(messages, err);
    return st ? st : render(p, messages, tools, variables, add_generation_prompt, out, err);
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

/* The first span that ends behind `at`; n_spans when there is none. */
static size_t span_after(const struct prompt *p, size_t at)
{
    size_t lo = 0, hi = p->n_spans;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->spans[mid].end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Where content begins at or behind `at`: `at` itself when it lies in a span. */
static size_t content_from(const struct prompt *p, size_t at)
{
    size_t i = span_after(p, at);
    if (i == p->n_spans)
        return p->text.len;
    return p->spans[i].begin > at ? p->spans[i].begin : at;
}

/* Does content spell a control token, or a part of one that the template completes? */
static bool content_spells_control(const struct prompter *p, const struct prompt *prompt, size_t from)
{
    const char *t = prompt->text.data;
    size_t len = prompt->text.len;
    for (size_t i = from; i < len && prompt->n_spans; i++) {
        const struct control *c = control_at(p, t + i, len - i);
        if (c && content_from(prompt, i) < i + c->len)
            return true;
    }
    return false;
}

/* Control tokens only where every byte of one is the template's own; plain text between. */
static hasten_status encode_apart(const struct prompter *p, const struct prompt *prompt, size_t from,
                                  unsigned flags, struct tokens *out, struct hasten_error *err)
{
    const char *t = prompt->text.data;
    size_t len = prompt->text.len, plain = from;
    for (size_t i = from; i < len;) {
        const size_t own = content_from(prompt, i) - i;
        const struct control *c = own ? control_at(p, t + i, own) : NULL;
        if (!c) {
            i = own ? i + 1 : prompt->spans[span_after(prompt, i)].end;
            continue;
        }
        if (i > plain || (flags & VOCAB_BOS)) {
            hasten_status st = vocab_encode(p->vocab, t + plain, i - plain, flags, out, err);
            if (st)
                return st;
        }
        flags = VOCAB_NO_PREFIX;
        if (tokens_push(out, c->id))
            return error_set(err, HASTEN_ERR_MEMORY, "chat prompt: out of memory");
        i += c->len;
        plain = i;
    }
    return plain < len || (flags & VOCAB_BOS)
               ? vocab_encode(p->vocab, t + plain, len - plain, flags, out, err)
               : HASTEN_OK;
}

hasten_status prompter_encode(const struct prompter *p, const struct prompt *prompt, size_t from,
                              struct tokens *out, struct hasten_error *err)
{
    const struct buf *t = &prompt->text;
    bool has_bos = p->bos.len > 0 && t->len >= p->bos.len && memcmp(t->data, p->bos.data, p->bos.len) == 0 &&
                   content_from(prompt, 0) >= p->bos.len;
    unsigned flags = from > 0 ? VOCAB_NO_PREFIX : has_bos ? 0 : VOCAB_BOS;
    if (!content_spells_control(p, prompt, from))
        return vocab_encode(p->vocab, t->data ? t->data + from : "", t->len - from, flags | VOCAB_SPECIAL,
                            out, err);
    return encode_apart(p, prompt, from, flags, out, err);
}
