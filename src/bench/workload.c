/* Reading workloads (workload.h). */
#include "bench/workload.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/values.h"
#include "bench/text.h"
#include <stdio.h>
#include <string.h>

struct reader {
    const char *what; /* of messages: the file */
    int line;
    struct workload *w;
    struct workload_item *item;       /* the current one; NULL: before the first */
    struct workload_message *message; /* the current one; NULL: before the item's first */
    struct hasten_error *err;
};

static const char *const roles[] = {"system", "user", "assistant"};

const char *workload_role_name(enum workload_role r)
{
    return roles[r];
}

static hasten_status bad(const struct reader *r, const char *found, const char *expected)
{
    return error_set(r->err, HASTEN_ERR_FILE, "workload %s line %d: %s (expected %s)", r->what, r->line,
                     found, expected);
}

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "workload: out of memory");
}

/* ---- parts ---------------------------------------------------------------------------------------------------- */

/* Blank lines at both ends go. */
static void trim(struct buf *b)
{
    size_t from = 0;
    while (b->len && strchr(" \t\r\n", b->data[b->len - 1]))
        b->len--;
    for (size_t i = 0; i < b->len && strchr(" \t\r\n", b->data[i]); i++)
        if (b->data[i] == '\n')
            from = i + 1;
    if (b->len) {
        memmove(b->data, b->data + from, b->len - from);
        b->len -= from;
        b->data[b->len] = 0;
    }
}

static hasten_status end_message(struct reader *r)
{
    if (!r->message)
        return HASTEN_OK;
    trim(&r->message->text);
    return r->message->text.len ? HASTEN_OK : bad(r, "a message without text", "some before it");
}

static hasten_status end_item(struct reader *r)
{
    const hasten_status st = end_message(r);
    if (st || !r->item)
        return st;
    if (!r->message || r->message->role != WORKLOAD_USER)
        return bad(r, "an item that does not end with a user's message", "a question to answer");
    r->message = NULL;
    return HASTEN_OK;
}

static hasten_status begin_item(struct reader *r, const char *line)
{
    struct workload *w = r->w;
    struct workload_item item = {0};
    char part[8], extra;
    hasten_status st = end_item(r);
    if (st)
        return st;
    if (sscanf(line, "%31s %31s %7s %d %c", item.name, item.half, part, &item.n_answer, &extra) != 4 ||
        item.n_answer < 1 || item.n_answer > LIMIT_CONTEXT ||
        (strcmp(part, "tune") != 0 && strcmp(part, "held") != 0))
        return bad(r, "not an item", "%% item NAME HALF tune|held TOKENS");
    item.held = strcmp(part, "held") == 0;
    for (int32_t i = 0; i < w->n; i++)
        if (strcmp(w->items[i].name, item.name) == 0)
            return bad(r, "a name that another item has", "one for each");
    if (w->n == WORKLOAD_MAX_ITEMS)
        return bad(r, "too many items", "at most 256");
    struct workload_item *more = mem_realloc(w->items, (size_t)(w->n + 1) * sizeof *more);
    if (!more)
        return no_memory(r->err);
    w->items = more;
    r->item = &w->items[w->n++];
    *r->item = item;
    return HASTEN_OK;
}

static hasten_status begin_message(struct reader *r, enum workload_role role)
{
    struct workload_item *i = r->item;
    const hasten_status st = end_message(r);
    if (st)
        return st;
    if (!i || i->n_messages == WORKLOAD_MAX_MESSAGES)
        return bad(r, i ? "too many messages" : "a message before the first item",
                   i ? "at most 64" : "%% item first");
    struct workload_message *more = mem_realloc(i->messages, (size_t)(i->n_messages + 1) * sizeof *more);
    if (!more)
        return no_memory(r->err);
    i->messages = more;
    r->message = &i->messages[i->n_messages++];
    *r->message = (struct workload_message){.role = role};
    return HASTEN_OK;
}

/* Behind the next blank from `at` on; the end of the book. */
static size_t behind_blank(size_t at, size_t len)
{
    while (at < len && at > 0 && !strchr(" \n", bench_text[at - 1]))
        at++;
    return at;
}

static hasten_status put_book(struct reader *r, const char *line)
{
    const size_t len = strlen(bench_text);
    size_t from, n;
    char extra;
    if (!r->message || sscanf(line, "%zu %zu %c", &from, &n, &extra) != 2 || n < 1 || from >= len ||
        n > len - from)
        return bad(r, "not a part of the book", "%% book FROM BYTES in a message, within the built-in book");
    const size_t begin = behind_blank(from, len), end = behind_blank(from + n, len);
    return buf_put(&r->message->text, bench_text + begin, end - begin) ? no_memory(r->err) : HASTEN_OK;
}

/* ---- lines ---------------------------------------------------------------------------------------------------- */

/* "%% word rest": whether it is one; *rest behind the word. */
static bool is_mark(const char *line, const char *word, const char **rest)
{
    const size_t n = strlen(word);
    if (strncmp(line, "%% ", 3) != 0 || strncmp(line + 3, word, n) != 0 ||
        (line[3 + n] && line[3 + n] != ' '))
        return false;
    *rest = line + 3 + n;
    return true;
}

static hasten_status take_line(struct reader *r, const char *line)
{
    const char *rest;
    if (is_mark(line, "item", &rest))
        return begin_item(r, rest);
    if (is_mark(line, "book", &rest))
        return put_book(r, rest);
    for (int i = 0; i < 3; i++)
        if (is_mark(line, roles[i], &rest))
            return begin_message(r, (enum workload_role)i);
    if (strncmp(line, "%%", 2) == 0)
        return bad(r, "a mark that is not known", "%% item, system, user, assistant or book");
    if (r->item && !r->message)
        return *line ? bad(r, "text before an item's first message", "%% system or %% user") : HASTEN_OK;
    return r->message && (buf_puts(&r->message->text, line) || buf_putc(&r->message->text, '\n'))
               ? no_memory(r->err)
               : HASTEN_OK;
}

static hasten_status take_text(struct reader *r, const char *text, size_t len)
{
    hasten_status st = HASTEN_OK;
    for (size_t at = 0; at < len && !st;) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t n = end ? (size_t)(end - text) - at : len - at;
        const bool ends = n > 0 && text[at + n - 1] == '\r';
        char *line = mem_strndup(text + at, n - ends);
        r->line++;
        st = line ? take_line(r, line) : no_memory(r->err);
        mem_free(line);
        at += n + 1;
    }
    if (!st)
        st = end_item(r);
    return !st && r->w->n == 0 ? bad(r, "no items", "%% item NAME HALF tune|held TOKENS") : st;
}

void workload_names(struct buf *out)
{
    for (int i = 0; workload_texts[i].name; i++)
        buf_printf(out, "%s%s", i ? ", " : "", workload_texts[i].name);
}

static hasten_status unknown(const char *name, struct hasten_error *err)
{
    const char *names[64];
    struct buf list = {0};
    int n = 0;
    for (; workload_texts[n].name && n < 64; n++)
        names[n] = workload_texts[n].name;
    const char *near = nearest_word(name, names, n);
    workload_names(&list);
    if (near)
        error_set(err, HASTEN_ERR_USAGE, "unknown workload '%s' (did you mean %s?)", name, near);
    else
        error_set(err, HASTEN_ERR_USAGE, "unknown workload '%s' (expected %s, or a file)", name,
                  list.data ? list.data : "");
    buf_free(&list);
    return HASTEN_ERR_USAGE;
}

hasten_status workload_open(const char *name, struct workload **out, struct hasten_error *err)
{
    const struct workload_text *t = workload_texts;
    char *own = NULL;
    size_t len = 0;
    while (t->name && strcmp(t->name, name) != 0)
        t++;
    if (!t->name && file_kind(name) == FILE_MISSING)
        return unknown(name, err);
    hasten_status st = t->name ? HASTEN_OK : file_slurp(name, LIMIT_TEXT_BYTES, &own, &len, err);
    struct workload *w = st ? NULL : mem_calloc(1, sizeof *w);
    if (!st && (!w || !(w->name = mem_strndup(name, strlen(name)))))
        st = no_memory(err);
    struct reader r = {.what = name, .w = w, .err = err};
    if (!st)
        st = take_text(&r, own ? own : (const char *)t->data, own ? len : t->len);
    mem_free(own);
    if (st)
        workload_close(w);
    else
        *out = w;
    return st;
}

void workload_close(struct workload *w)
{
    if (!w)
        return;
    for (int32_t i = 0; i < w->n; i++) {
        for (int32_t j = 0; j < w->items[i].n_messages; j++)
            buf_free(&w->items[i].messages[j].text);
        mem_free(w->items[i].messages);
    }
    mem_free(w->items);
    mem_free(w->name);
    mem_free(w);
}
