/* Chat prompts that content cannot hijack (prompt.h says how). Owns the marking, the rendering context and the
 * recognition of control tokens in rendered text; leaves templates to template.c and encoding to vocab_*.c. */
#include "text/prompt.h"
#include "base/depth.h"
#include "base/limits.h"
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

#define MARK_TRIES 4096
#define MARK_END "\xEE\x80\x80" /* U+E000 */
#define MARK_MID "\xEE\x80\x81" /* U+E001 */

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
    hasten_status st = gguf_opt_str(g, "tokenizer.chat_template", &source, err);
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
    mem_free(p->marks);
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

/* Could template text after s complete a control token that begins in s? */
static bool ends_in_prefix(const struct prompter *p, const char *s, size_t len)
{
    for (int32_t i = 0; i < p->n_controls; i++)
        for (size_t n = 1; n < p->controls[i].len && n <= len; n++)
            if (memcmp(s + len - n, p->controls[i].text, n) == 0)
                return true;
    return false;
}

static bool starts_with_suffix(const struct prompter *p, const char *s, size_t len)
{
    for (int32_t i = 0; i < p->n_controls; i++)
        for (size_t n = 1; n < p->controls[i].len && n <= len; n++)
            if (memcmp(s, p->controls[i].text + p->controls[i].len - n, n) == 0)
                return true;
    return false;
}

/* ---- marking ------------------------------------------------------------------------------------------- */

struct marking {
    const struct prompter *p;
    const char *mark; /* NULL: only look whether any mark is needed */
    size_t mark_len;
    bool needed, failed;
    struct depth depth;
};

/* s with marks inside every spelling and at dangerous ends. Marks go behind the first byte of a spelling, or
 * behind its first character when that is longer. */
static void mark_string(struct marking *m, const char *s, size_t len, struct buf *out)
{
    int bad = 0;
    if (len && starts_with_suffix(m->p, s, len)) {
        m->needed = true;
        bad |= m->mark ? buf_put(out, m->mark, m->mark_len) : 0;
    }
    for (size_t i = 0; i < len && !bad; i++) {
        bad |= m->mark ? buf_putc(out, s[i]) : 0;
        size_t start = i;
        if (((unsigned char)s[i] & 0xC0) == 0x80 || !control_at(m->p, s + start, len - start))
            continue;
        m->needed = true;
        while (i + 1 < len && ((unsigned char)s[i + 1] & 0xC0) == 0x80) {
            i++;
            bad |= m->mark ? buf_putc(out, s[i]) : 0;
        }
        bad |= m->mark ? buf_put(out, m->mark, m->mark_len) : 0;
    }
    if (len && ends_in_prefix(m->p, s, len)) {
        m->needed = true;
        bad |= m->mark ? buf_put(out, m->mark, m->mark_len) : 0;
    }
    if (bad)
        m->failed = true;
}

static json_t *mark_value(struct marking *m, const json_t *v);

static json_t *mark_text(struct marking *m, const char *s, size_t len)
{
    struct buf b = {0};
    if (buf_puts(&b, ""))
        m->failed = true;
    mark_string(m, s, len, &b);
    json_t *r = m->mark && !m->failed ? json_stringn(b.data, b.len) : json_null();
    buf_free(&b);
    return r;
}

static json_t *mark_object(struct marking *m, const json_t *v)
{
    json_t *r = json_object();
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        json_t *k = mark_text(m, key, strlen(key)), *x = mark_value(m, item);
        if (m->mark && json_object_set(r, json_is_string(k) ? json_string_value(k) : key, x))
            m->failed = true;
        json_decref(k);
        json_decref(x);
    }
    return r;
}

static json_t *mark_value(struct marking *m, const json_t *v)
{
    if (depth_enter(&m->depth)) {
        m->failed = true;
        return json_null();
    }
    json_t *r;
    if (json_is_string(v)) {
        r = mark_text(m, json_string_value(v), json_string_length(v));
    } else if (json_is_object(v)) {
        r = mark_object(m, v);
    } else if (json_is_array(v)) {
        r = json_array();
        for (size_t i = 0; i < json_array_size(v); i++)
            if (json_array_append_new(r, mark_value(m, json_array_get(v, i))))
                m->failed = true;
    } else {
        r = json_incref((json_t *)(uintptr_t)v);
    }
    depth_leave(&m->depth);
    return r;
}

static bool occurs(const json_t *v, const char *needle, size_t n)
{
    json_free_t release;
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    bool found = text && memmem(text, strlen(text), needle, n);
    json_get_alloc_funcs(NULL, &release); /* the program may have given jansson another allocator */
    release(text);
    return found;
}

/* A mark that occurs nowhere in the input: U+E000, k times U+E001, U+E000. */
static hasten_status pick_mark(const struct prompter *p, const json_t *messages, const json_t *tools,
                               struct buf *out, struct hasten_error *err)
{
    for (int k = 1; k <= MARK_TRIES; k++) {
        buf_clear(out);
        int bad = buf_puts(out, MARK_END);
        for (int i = 0; i < k; i++)
            bad |= buf_puts(out, MARK_MID);
        if (bad | buf_puts(out, MARK_END))
            return error_set(err, HASTEN_ERR_MEMORY, "chat template: out of memory");
        if (!memmem(p->source.data, p->source.len, out->data, out->len) &&
            !occurs(messages, out->data, out->len) && !occurs(tools, out->data, out->len))
            return HASTEN_OK;
    }
    return error_set(err, HASTEN_ERR_LIMIT,
                     "chat prompt: the messages use all %d private marks (expected one free)", MARK_TRIES);
}

/* Takes the marks out of p->text and notes their places. */
static hasten_status take_marks(struct prompt *p, const struct buf *mark, struct hasten_error *err)
{
    char *t = p->text.data;
    size_t w = 0, r = 0, len = p->text.len;
    while (r < len) {
        if (len - r < mark->len || memcmp(t + r, mark->data, mark->len) != 0) {
            t[w++] = t[r++];
            continue;
        }
        if (p->n_marks == p->cap_marks) {
            size_t cap = p->cap_marks ? 2 * p->cap_marks : 16;
            size_t *grown = mem_realloc(p->marks, cap * sizeof *grown);
            if (!grown)
                return error_set(err, HASTEN_ERR_MEMORY, "chat prompt: out of memory");
            p->marks = grown;
            p->cap_marks = cap;
        }
        p->marks[p->n_marks++] = w;
        r += mark->len;
    }
    p->text.len = w;
    if (t)
        t[w] = 0;
    return HASTEN_OK;
}

/* ---- rendering ----------------------------------------------------------------------------------------- */

static hasten_status render(const struct prompter *p, json_t *messages, json_t *tools, bool generation,
                            struct buf *out, struct hasten_error *err)
{
    json_t *context = json_pack("{s:o, s:o, s:b, s:s%, s:s%}", "messages", messages, "tools",
                                tools ? tools : json_null(), "add_generation_prompt", (int)generation,
                                "bos_token", p->bos.data, p->bos.len, "eos_token", p->eos.data, p->eos.len);
    if (!context)
        return error_set(err, HASTEN_ERR_FILE,
                         "chat template: the file's BOS or EOS is not UTF-8 (expected text)");
    hasten_status st = template_render(p->template, context, out, err);
    json_decref(context);
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
    hasten_status st = check_messages(messages, err);
    if (st)
        return st;
    struct marking m = {.p = p, .depth = {0, LIMIT_JSON_DEPTH + 2}};
    json_decref(mark_value(&m, messages));
    if (tools)
        json_decref(mark_value(&m, tools));
    struct buf mark = {0};
    json_t *own_messages = json_incref((json_t *)(uintptr_t)messages);
    json_t *own_tools = tools ? json_incref((json_t *)(uintptr_t)tools) : NULL;
    if (m.needed && !m.failed) {
        st = pick_mark(p, messages, tools, &mark, err);
        m.mark = mark.data;
        m.mark_len = mark.len;
        json_decref(own_messages);
        json_decref(own_tools);
        own_messages = st ? json_null() : mark_value(&m, messages);
        own_tools = st || !tools ? NULL : mark_value(&m, tools);
    }
    if (!st && m.failed)
        st = error_set(err, HASTEN_ERR_MEMORY, "chat prompt: out of memory, or nested deeper than %d",
                       LIMIT_JSON_DEPTH);
    if (st) {
        json_decref(own_messages);
        json_decref(own_tools);
    } else {
        st = render(p, own_messages, own_tools, add_generation_prompt, &out->text, err);
    }
    if (!st && m.needed)
        st = take_marks(out, &mark, err);
    buf_free(&mark);
    return st;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

static bool marked(const struct prompt *p, size_t begin, size_t end)
{
    size_t lo = 0, hi = p->n_marks; /* first mark > begin */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->marks[mid] <= begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->n_marks && p->marks[lo] < end;
}

/* Text that carries marks: control tokens where none lies inside, plain text between. */
static hasten_status encode_marked(const struct prompter *p, const struct prompt *prompt, size_t from,
                                   unsigned flags, struct tokens *out, struct hasten_error *err)
{
    const char *t = prompt->text.data;
    size_t len = prompt->text.len, plain = from;
    for (size_t i = from; i < len;) {
        const struct control *c = control_at(p, t + i, len - i);
        if (!c || marked(prompt, i, i + c->len)) {
            i++;
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
                   !marked(prompt, 0, p->bos.len);
    unsigned flags = from > 0 ? VOCAB_NO_PREFIX : has_bos ? 0 : VOCAB_BOS;
    if (prompt->n_marks == 0)
        return vocab_encode(p->vocab, t->data ? t->data + from : "", t->len - from, flags | VOCAB_SPECIAL,
                            out, err);
    return encode_marked(p, prompt, from, flags, out, err);
}
