/* Conversations in files (chat.h): the messages alone, as JSON or as the text of a transcript; or, where the file's name
 * ends with .seq, a snapshot of the sequence whose label is the conversation, so that going on computes nothing again.
 * What comes from a file may be anything: a conversation that this chat could not have had is refused. */
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/chat.h"
#include "engine/snapshot.h"
#include <string.h>

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "chat: out of memory");
}

static bool is_snapshot_name(const char *path)
{
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".seq") == 0;
}

/* ---- saving --------------------------------------------------------------------------------------------------- */

static hasten_status save_text(const struct chat *c, const char *path, struct hasten_error *err)
{
    struct file *f = NULL;
    struct buf text = {0};
    hasten_status st = HASTEN_OK;
    if (c->prompter) {
        char *json = json_dumps(c->messages, JSON_INDENT(2));
        if (!json || buf_puts(&text, json) || buf_putc(&text, '\n'))
            st = no_memory(err);
        mem_free(json);
    } else {
        st = vocab_decode(c->session->vocab, c->ids.ids, c->ids.n, true, &text, err);
    }
    if (!st)
        st = file_open(path, FILE_WRITE_NEW, &f, err);
    if (!st)
        st = file_write(f, text.data ? text.data : "", text.len, err);
    file_close(f);
    buf_free(&text);
    return st;
}

/* The conversation with what chat.c knows of its tokens. Text that is not UTF-8 cannot stand in it: then a raw chat
 * cannot write its last answer again. */
static json_t *label_of(const struct chat *c)
{
    json_t *ids = json_array(), *said = json_stringn(c->said.data ? c->said.data : "", c->said.len);
    for (int64_t i = 0; i < c->ids.n; i++)
        json_add(&ids, json_integer(c->ids.ids[i]));
    const bool answered = c->answered && said;
    return json_pack("{s:i, s:b, s:O, s:o, s:o, s:I, s:b}", "chat", 1, "raw", c->prompter == NULL, "messages",
                     c->messages, "said", said ? said : json_string(""), "tokens", ids, "asked_at",
                     (json_int_t)c->asked_at, "answered", answered);
}

static hasten_status save_whole(const struct chat *c, const char *path, struct hasten_error *err)
{
    if (file_kind(path) != FILE_MISSING)
        return error_set(err, HASTEN_ERR_FILE, "saving %s: File exists (expected a new file)", path);
    json_t *label = label_of(c);
    char *text = label ? json_dumps(label, JSON_COMPACT) : NULL;
    const hasten_status st =
        text ? snapshot_save(c->session->seq, (struct snapshot_label){text, strlen(text)}, path, true, err)
             : no_memory(err);
    mem_free(text);
    json_decref(label);
    return st;
}

hasten_status chat_save(const struct chat *c, const char *path, struct hasten_error *err)
{
    return is_snapshot_name(path) ? save_whole(c, path, err) : save_text(c, path, err);
}

/* ---- loading -------------------------------------------------------------------------------------------------- */

/* What becomes of the chat once all of it is there. */
struct loaded {
    json_t *messages;
    struct tokens ids;
    struct buf said;
    int64_t asked_at;
    bool answered;
};

static void loaded_free(struct loaded *l)
{
    json_decref(l->messages);
    tokens_free(&l->ids);
    buf_free(&l->said);
}

static bool has_role(const json_t *m, const char *role)
{
    const char *found = json_string_value(json_object_get(m, "role"));
    return found && strcmp(found, role) == 0 && json_is_string(json_object_get(m, "content"));
}

/* Perhaps a system message, then questions and answers in turn. */
static hasten_status check_messages(const char *path, const json_t *messages, struct hasten_error *err)
{
    const size_t n = json_array_size(messages), first = has_role(json_array_get(messages, 0), "system");
    bool good = json_is_array(messages) && (n - first) % 2 == 0;
    for (size_t i = first; i < n && good; i++)
        good = has_role(json_array_get(messages, i), (i - first) % 2 ? "assistant" : "user");
    return good
               ? HASTEN_OK
               : error_set(
                     err, HASTEN_ERR_FILE,
                     "%s: not a conversation (expected messages of user and assistant in turn, perhaps behind "
                     "one of system)",
                     path);
}

static hasten_status read_ids(const struct chat *c, const char *path, const json_t *ids, struct loaded *out,
                              struct hasten_error *err)
{
    const json_int_t n_vocab = hasten_model_n_vocab(c->session->model);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *x = json_array_get(ids, i);
        const json_int_t id = json_is_integer(x) ? json_integer_value(x) : -1;
        if (id < 0 || id >= n_vocab)
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: token %zu of the conversation is none (expected 0 to %lld)", path, i,
                             (long long)n_vocab - 1);
        if (tokens_push(&out->ids, (int32_t)id))
            return no_memory(err);
    }
    return HASTEN_OK;
}

static hasten_status read_label(const struct chat *c, const char *path, const struct buf *label,
                                struct loaded *out, struct hasten_error *err)
{
    json_t *v = NULL;
    hasten_status st = label->len ? json_parse(path, label->data, label->len, &v, err)
                                  : error_set(err, HASTEN_ERR_FILE,
                                              "%s: holds no conversation (expected a file of /save)", path);
    if (st)
        return st;
    const json_t *said = json_object_get(v, "said");
    if (json_integer_value(json_object_get(v, "chat")) != 1 || !json_is_string(said))
        st = error_set(err, HASTEN_ERR_FILE, "%s: holds no conversation (expected a file of /save)", path);
    else if (json_is_true(json_object_get(v, "raw")) != (c->prompter == NULL))
        st = error_set(err, HASTEN_ERR_FILE, "%s: of a chat %s --raw (expected the same kind)", path,
                       c->prompter ? "with" : "without");
    st = st ? st : check_messages(path, json_object_get(v, "messages"), err);
    st = st ? st : read_ids(c, path, json_object_get(v, "tokens"), out, err);
    if (!st) {
        out->messages = json_incref(json_object_get(v, "messages"));
        out->asked_at = json_integer_value(json_object_get(v, "asked_at"));
        out->answered = json_is_true(json_object_get(v, "answered")) && out->asked_at >= 0 &&
                        out->asked_at <= out->ids.n && !c->prompter;
        if (buf_put(&out->said, json_string_value(said), json_string_length(said)))
            st = no_memory(err);
    }
    json_decref(v);
    return st;
}

/* There may be no room for two sequences, so the old one goes first; without any the next turn begins anew. */
static hasten_status take_sequence(struct session *s, const char *path, struct hasten_error *err)
{
    hasten_seq_close(s->seq);
    s->seq = NULL;
    hasten_status st = hasten_seq_load(s->engine, path, &s->seq, err);
    if (st)
        hasten_seq_open(s->engine, &s->seq, NULL);
    return st;
}

static hasten_status load_whole(struct chat *c, const char *path, struct loaded *out,
                                struct hasten_error *err)
{
    struct snapshot_info info = {0};
    hasten_status st = snapshot_inspect(path, false, &info, err);
    st = st ? st : read_label(c, path, &info.label, out, err);
    snapshot_info_free(&info);
    return st ? st : take_sequence(c->session, path, err);
}

static hasten_status load_text(const struct chat *c, const char *path, struct loaded *out,
                               struct hasten_error *err)
{
    char *text = NULL;
    size_t len;
    hasten_status st;
    if (c->prompter) {
        st = cli_read_json(path, &out->messages, err);
        return st ? st : check_messages(path, out->messages, err);
    }
    st = file_slurp(path, LIMIT_TEXT_BYTES, &text, &len, err);
    st = st ? st : vocab_encode(c->session->vocab, text, len, VOCAB_BOS, &out->ids, err);
    out->messages = json_array();
    mem_free(text);
    return !st && !out->messages ? no_memory(err) : st;
}

hasten_status chat_load(struct chat *c, const char *path, struct hasten_error *err)
{
    struct loaded l = {0};
    const hasten_status st =
        snapshot_named(path) ? load_whole(c, path, &l, err) : load_text(c, path, &l, err);
    if (st) {
        loaded_free(&l);
        return st;
    }
    struct loaded old = {.messages = c->messages, .ids = c->ids, .said = c->said};
    c->messages = l.messages;
    c->ids = l.ids;
    c->said = l.said;
    c->asked_at = l.asked_at;
    c->answered = l.answered;
    loaded_free(&old);
    return HASTEN_OK;
}
