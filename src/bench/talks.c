/* Conversations for a load test (talks.h). */
#include "bench/talks.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/rng.h"
#include "bench/text.h"
#include "bench/workload.h"
#include "text/unicode.h"
#include <stdio.h>
#include <string.h>

#define SAMPLE_BYTES 8192

static hasten_status out_of_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
}

/* ---- JSON lines ---------------------------------------------------------------------------------------- */

static json_t *message(const char *role, const char *text, size_t len)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", len ? text : "", len);
}

/* "conversations": [{"from": "human", "value": "..."}, ...] as messages; NULL: it is none. */
static json_t *from_conversation(const json_t *turns)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(turns) && out; i++) {
        const json_t *t = json_array_get(turns, i), *value = json_object_get(t, "value"),
                     *from = json_object_get(t, "from");
        if (!json_is_string(value) || !json_is_string(from)) {
            json_decref(out);
            return NULL;
        }
        const char *who = json_string_value(from);
        const char *role = strcmp(who, "human") == 0 || strcmp(who, "user") == 0 ? "user"
                           : strcmp(who, "system") == 0                          ? "system"
                                                                                 : "assistant";
        json_array_append_new(out, message(role, json_string_value(value), json_string_length(value)));
    }
    return out;
}

static json_t *from_text(const json_t *text)
{
    return json_pack("[o]", message("user", json_string_value(text), json_string_length(text)));
}

/* The messages of a line; NULL: there are none. */
static json_t *messages_of(const json_t *line)
{
    const json_t *body = json_object_get(line, "body"), *from = json_is_object(body) ? body : line;
    json_t *messages = json_object_get(from, "messages");
    const json_t *prompt = json_object_get(from, "prompt"), *turns = json_object_get(from, "conversations");
    if (json_is_string(line))
        return from_text(line);
    if (json_is_array(messages))
        return json_incref(messages);
    if (json_is_string(prompt))
        return from_text(prompt);
    return json_is_array(turns) ? from_conversation(turns) : NULL;
}

static bool is_user(const json_t *m)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    return role && strcmp(role, "user") == 0;
}

static int64_t n_users(const json_t *messages)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(messages); i++)
        n += is_user(json_array_get(messages, i));
    return n;
}

/* Takes the messages. */
static hasten_status add_item(struct talks *w, json_t *messages, struct hasten_error *err)
{
    json_t **more = messages ? mem_realloc(w->items, (size_t)(w->n_items + 1) * sizeof *more) : NULL;
    if (!more) {
        json_decref(messages);
        return out_of_memory(err);
    }
    w->items = more;
    w->items[w->n_items++] = messages;
    return HASTEN_OK;
}

static hasten_status add_line(struct talks *w, const char *path, int64_t number, const char *text, size_t len,
                              struct hasten_error *err)
{
    json_t *line;
    char what[48];
    snprintf(what, sizeof what, "line %lld", (long long)number);
    hasten_status st = json_parse(what, text, len, &line, err);
    if (st) {
        if (err)
            error_prefix(err, "%s", path);
        return st;
    }
    json_t *messages = messages_of(line);
    json_decref(line);
    if (!messages || n_users(messages) == 0) {
        json_decref(messages);
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: line %lld: no message of a user (expected a string, or an object with "
                         "\"prompt\", \"messages\", \"body\" or \"conversations\")",
                         path, (long long)number);
    }
    return add_item(w, messages, err);
}

static hasten_status read_lines(struct talks *w, const char *path, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    int64_t number = 0;
    for (size_t at = 0; at < w->len && !st;) {
        const char *end = memchr(w->text + at, '\n', w->len - at);
        const size_t stop = end ? (size_t)(end - w->text) : w->len;
        number++;
        if (strspn(w->text + at, " \t\r") < stop - at)
            st = add_line(w, path, number, w->text + at, stop - at, err);
        at = stop + 1;
    }
    if (!st && w->n_items == 0)
        st = error_set(err, HASTEN_ERR_FILE, "%s: no line (expected prompts)", path);
    return st;
}

static hasten_status take_workload(struct talks *w, struct hasten_error *err)
{
    struct workload *from;
    hasten_status st = workload_open(w->set.workload, &from, err);
    if (st)
        return st;
    for (int32_t i = 0; i < from->n && !st; i++) {
        json_t *messages = json_array();
        for (int32_t j = 0; j < from->items[i].n_messages && messages; j++) {
            const struct workload_message *m = &from->items[i].messages[j];
            if (json_array_append_new(messages,
                                      message(workload_role_name(m->role), m->text.data, m->text.len))) {
                json_decref(messages);
                messages = NULL;
            }
        }
        st = add_item(w, messages, err);
    }
    workload_close(from);
    return st;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static bool is_lines(const char *path)
{
    const size_t n = strlen(path);
    return (n > 6 && strcmp(path + n - 6, ".jsonl") == 0) || (n > 7 && strcmp(path + n - 7, ".ndjson") == 0);
}

hasten_status talks_open(const struct talks_settings *set, struct talks *out, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    *out = (struct talks){.set = *set, .bytes_per_token = TALKS_BYTES_PER_TOKEN};
    if (set->path)
        st = file_slurp(set->path, LIMIT_TEXT_BYTES, &out->text, &out->len, err);
    if (!st && out->text && utf8_valid_run(out->text, out->len) != out->len)
        st = error_set(err, HASTEN_ERR_FILE, "%s: byte %zu is not UTF-8 (expected a text)", set->path,
                       utf8_valid_run(out->text, out->len));
    if (!st && set->path && is_lines(set->path)) {
        st = read_lines(out, set->path, err);
        mem_free(out->text);
        out->text = NULL;
        out->len = 0;
    }
    if (!st && set->workload)
        st = take_workload(out, err);
    if (!st && !out->text) {
        out->len = strlen(bench_text);
        out->text = mem_strndup(bench_text, out->len);
        st = out->text ? HASTEN_OK : out_of_memory(err);
    }
    if (!st && out->len < 64)
        st = error_set(err, HASTEN_ERR_FILE, "%s: %zu bytes (expected a text of 64 or more)", set->path,
                       out->len);
    if (st)
        talks_close(out);
    return st;
}

void talks_close(struct talks *w)
{
    for (int64_t i = 0; i < w->n_items; i++)
        json_decref(w->items[i]);
    mem_free(w->items);
    mem_free(w->text);
    *w = (struct talks){0};
}

const char *talks_sample(const struct talks *w, size_t *len)
{
    size_t n = w->len < SAMPLE_BYTES ? w->len : SAMPLE_BYTES;
    while (n > 32 && n < w->len && ((unsigned char)w->text[n] & 0xC0) == 0x80) /* no half character */
        n--;
    *len = n;
    return w->text;
}

static size_t bytes_of(const struct talks *w, int32_t tokens)
{
    return (size_t)((double)tokens * w->bytes_per_token);
}

bool talks_repeats(const struct talks *w)
{
    return !w->items && bytes_of(w, w->set.prompt_tokens) > w->len;
}

/* ---- conversations ------------------------------------------------------------------------------------- */

static uint64_t chosen(const struct talks *w, int64_t chat, int32_t turn)
{
    const uint32_t counter[4] = {(uint32_t)chat, (uint32_t)(chat >> 32), (uint32_t)turn, 0x776F726Bu},
                   key[2] = {(uint32_t)w->set.seed, (uint32_t)(w->set.seed >> 32)};
    uint32_t out[4];
    philox4x32(counter, key, out);
    return (uint64_t)out[0] << 32 | out[1];
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* About n bytes of the text from a word on at or behind `from`, to the end of a word; around its end if need be. */
static int put_piece(const struct talks *w, size_t from, size_t n, struct buf *out)
{
    size_t at = from % w->len;
    for (size_t i = 0; i < 256 && at > 0 && !is_space(w->text[at - 1]); i++)
        at = (at + 1) % w->len;
    while (((unsigned char)w->text[at] & 0xC0) == 0x80)
        at = (at + 1) % w->len;
    int bad = 0;
    while (n > 0 && !bad) {
        size_t take = w->len - at < n ? w->len - at : n;
        const bool cut = at + take < w->len;
        for (size_t i = 0; cut && take > 1 && i < 64 && !is_space(w->text[at + take]); i++)
            take--;
        while (cut && take > 1 && ((unsigned char)w->text[at + take] & 0xC0) == 0x80)
            take--;
        bad = buf_put(out, w->text + at, take);
        n = cut ? 0 : n - take;
        at = 0;
    }
    return bad;
}

static json_t *text_message(const char *role, const struct buf *text)
{
    return message(role, text->data, text->len);
}

static json_t *begin_text(const struct talks *w, int64_t chat)
{
    struct buf shared = {0}, own = {0};
    json_t *messages = json_array();
    int bad = messages ? 0 : -1;
    if (w->set.shared_tokens > 0) {
        bad = bad || put_piece(w, 0, bytes_of(w, w->set.shared_tokens), &shared) ||
              json_array_append_new(messages, text_message("system", &shared));
    }
    bad = bad ||
          buf_printf(&own, "%08llx. ",
                     (unsigned long long)(chosen(w, chat, INT32_MAX) & 0xFFFFFFFF)) || /* unlike any other */
          put_piece(w, (size_t)(chosen(w, chat, 0) % w->len), bytes_of(w, w->set.prompt_tokens), &own) ||
          json_array_append_new(messages, text_message("user", &own));
    buf_free(&shared);
    buf_free(&own);
    if (!bad)
        return messages;
    json_decref(messages);
    return NULL;
}

/* The line's messages up to its last message of a user, or its first. */
static json_t *begin_item(const json_t *item, bool whole)
{
    json_t *messages = json_array();
    const size_t n = json_array_size(item);
    size_t to = 0;
    for (size_t i = 0; i < n && (whole || to == 0); i++)
        if (is_user(json_array_get(item, i)))
            to = i + 1;
    for (size_t i = 0; i < to && messages; i++)
        if (json_array_append(messages, json_array_get(item, i))) {
            json_decref(messages);
            messages = NULL;
        }
    return messages;
}

json_t *talks_begin(const struct talks *w, int64_t chat, bool whole)
{
    return w->items ? begin_item(w->items[chat % w->n_items], whole) : begin_text(w, chat);
}

/* Message number `turn` of a user in the line; NULL: it has fewer. */
static json_t *nth_user(const json_t *item, int32_t turn)
{
    int32_t n = 0;
    for (size_t i = 0; i < json_array_size(item); i++)
        if (is_user(json_array_get(item, i)) && n++ == turn)
            return json_array_get(item, i);
    return NULL;
}

hasten_status talks_next(const struct talks *w, json_t *messages, int64_t chat, int32_t turn,
                         const char *answer, size_t len, struct hasten_error *err)
{
    json_t *next = w->items ? json_incref(nth_user(w->items[chat % w->n_items], turn)) : NULL;
    struct buf text = {0};
    int bad = 0;
    if (!next) {
        bad = put_piece(w, (size_t)(chosen(w, chat, turn) % w->len), bytes_of(w, w->set.turn_tokens), &text);
        next = bad ? NULL : text_message("user", &text);
    }
    bad = bad || json_array_append_new(messages, message("assistant", answer, len));
    if (bad)
        json_decref(next);
    bad = bad || json_array_append_new(messages, next);
    buf_free(&text);
    return bad ? out_of_memory(err) : HASTEN_OK;
}
