/* Forms of tool calls, and the parser of answers (tools.h).
 *
 * The parser keeps what it has not understood yet, and makes one step after another on it: each takes something from its
 * beginning, or asks for more. So a text gives the same events however it is cut, but for where pieces end. */
#include "text/tools.h"
#include "base/json.h"
#include <string.h>

/* ---- forms ---------------------------------------------------------------------------------------------------- */

static bool holds(const char *source, size_t len, const char *what)
{
    return memmem(source, len, what, strlen(what)) != NULL;
}

#define BAR "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"

struct tool_format tool_format_detect(const char *source, size_t len)
{
    struct tool_format f = {.thinks = holds(source, len, "<think>") || holds(source, len, "</think>")};
    const bool wide = holds(source, len, "tool" BLANK "call" BLANK "begin");
    if (wide || holds(source, len, "<|tool_call_begin|>")) {
        f.family = holds(source, len, "```json") || holds(source, len, "tool_sep|>' + tool['function']")
                       ? TOOLS_DEEPSEEK
                       : TOOLS_DEEPSEEK_BARE;
        f.wide = wide;
    } else if (holds(source, len, "[TOOL_CALLS]")) {
        f.family = holds(source, len, "[ARGS]") ? TOOLS_MISTRAL_ARGS : TOOLS_MISTRAL;
    } else if (holds(source, len, "<tool_call>")) {
        f.family =
            holds(source, len, "<function=") || holds(source, len, "<arg_key>") ? TOOLS_NONE : TOOLS_HERMES;
    } else if (holds(source, len, "<|start_header_id|>") && holds(source, len, "\"parameters\": ") &&
               holds(source, len, "tool_calls")) {
        f.family = TOOLS_LLAMA3;
    }
    return f;
}

const char *tool_family_name(enum tool_family f)
{
    static const char *const names[] = {"none",    "hermes",   "llama3",  "mistral",
                                        "mistral", "deepseek", "deepseek"};
    return names[f];
}

const char *tool_mark(struct tool_format f, enum tool_mark m)
{
    static const char *const deepseek[2][5] = {
        {"<|tool_calls_begin|>", "<|tool_calls_end|>", "<|tool_call_begin|>", "<|tool_call_end|>",
         "<|tool_sep|>"},
        {"<" BAR "tool" BLANK "calls" BLANK "begin" BAR ">", "<" BAR "tool" BLANK "calls" BLANK "end" BAR ">",
         "<" BAR "tool" BLANK "call" BLANK "begin" BAR ">", "<" BAR "tool" BLANK "call" BLANK "end" BAR ">",
         "<" BAR "tool" BLANK "sep" BAR ">"}};
    static const char *const hermes[5] = {"<tool_call>", "</tool_call>"},
                             *const llama[5] = {"<|python_tag|>"}, *const mistral[5] = {"[TOOL_CALLS]"},
                             *const args[5] = {"[TOOL_CALLS]", NULL, NULL, NULL, "[ARGS]"};
    switch (f.family) {
    case TOOLS_HERMES:
        return hermes[m];
    case TOOLS_LLAMA3:
        return llama[m];
    case TOOLS_MISTRAL:
        return mistral[m];
    case TOOLS_MISTRAL_ARGS:
        return args[m];
    case TOOLS_DEEPSEEK:
    case TOOLS_DEEPSEEK_BARE:
        return deepseek[f.wide][m];
    default:
        return NULL;
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool tool_prompt_thinks(const char *prompt, size_t len)
{
    static const char mark[] = "<think>";
    while (len && is_blank(prompt[len - 1]))
        len--;
    return len >= sizeof mark - 1 && memcmp(prompt + len - (sizeof mark - 1), mark, sizeof mark - 1) == 0;
}

/* ---- the parser ------------------------------------------------------------------------------------------------- */

enum state {
    AT_BEGIN,     /* of the answer: perhaps <think> */
    AT_REASONING, /* blanks before it go */
    IN_REASONING, /* up to </think> */
    AT_CONTENT,   /* blanks before it go */
    IN_CONTENT,   /* up to the mark of a call */
    AT_CALLS,     /* behind the mark: what form is it? */
    AT_NAME,      /* of a call that is not an object */
    AT_ARGUMENTS, /* of such a call */
    AT_OBJECT,    /* a call that is an object: its brace */
    AT_KEY,       /* a key, or the object's end */
    AT_COLON,
    IN_VALUE,
    BEHIND_CALL /* up to the next one, or the end of calls */
};

#define MOST_NAME 1024  /* bytes of a call's name, or of a key */
#define MOST_BLANKS 256 /* are held back */

enum what { /* a value is */
    VALUE_OTHER,
    VALUE_NAME,
    VALUE_ARGUMENTS
};

struct value { /* JSON as far as its end can be seen */
    int depth;
    bool begun, in_string, escaped, scalar;
};

struct tool_parser {
    struct tool_format format;
    struct tool_events on;
    struct buf held; /* what is not understood yet is held.data[at, held.len) */
    size_t at;
    struct buf raw; /* of a call without a name yet: all its text, in case it is none */
    struct buf name, early,
        text; /* of the call; arguments before its name; the value at hand, where it is kept */
    enum state state;
    enum what what;
    struct value value;
    bool final, list;    /* mistral: calls are in a list */
    bool object;         /* the call at hand is one */
    bool said;           /* content: something of it was given out */
    bool named, argued;  /* the call at hand */
    bool text_arguments; /* they came as a string */
    int32_t n_calls;
    bool failed;
};

enum step {
    MORE,  /* text is needed */
    AGAIN, /* a step was made */
    FAILED /* out of memory */
};

static const char *here(const struct tool_parser *p)
{
    return p->held.data + p->at;
}

static size_t left(const struct tool_parser *p)
{
    return p->held.len - p->at;
}

static enum step go(struct tool_parser *p, enum state s)
{
    p->state = s;
    return AGAIN;
}

static enum step say(struct tool_parser *p, enum tool_said what, const char *text, size_t len)
{
    if (!len)
        return AGAIN;
    return p->on.text && p->on.text(p->on.ctx, what, text, len) ? FAILED : AGAIN;
}

/* Does what is held begin with the mark? 1, 0, or -1: it could, with more. */
static int begins_with(const struct tool_parser *p, const char *mark)
{
    const size_t n = strlen(mark), m = left(p) < n ? left(p) : n;
    if (m && memcmp(here(p), mark, m) != 0)
        return 0;
    return m == n ? 1 : p->final ? 0 : -1;
}

static void skip_blanks(struct tool_parser *p)
{
    while (left(p) && is_blank(*here(p)))
        p->at++;
}

/* How much of the end of text could be blanks and the beginning of a mark. */
static size_t tail(const char *text, size_t len, const char *const *marks, int n)
{
    size_t longest = 0;
    for (int i = 0; i < n; i++) {
        size_t m = strlen(marks[i]) - 1;
        m = m < len ? m : len;
        while (m && memcmp(text + len - m, marks[i], m) != 0)
            m--;
        longest = m > longest ? m : longest;
    }
    for (int blanks = 0; longest < len && blanks < MOST_BLANKS && is_blank(text[len - longest - 1]); blanks++)
        longest++;
    return longest;
}

/* Text up to a mark, which is taken too, or as far as none can begin. found: which. */
static enum step take_until(struct tool_parser *p, enum tool_said what, const char *const *marks, int n,
                            int *found)
{
    const char *text = here(p);
    const size_t len = left(p);
    size_t first = len;
    *found = -1;
    for (int i = 0; i < n; i++) {
        const char *at =
            len ? memmem(text, first < len ? first + strlen(marks[i]) : len, marks[i], strlen(marks[i]))
                : NULL;
        if (at && (size_t)(at - text) < first) {
            first = (size_t)(at - text);
            *found = i;
        }
    }
    size_t sure = first, taken = first;
    if (*found >= 0) {
        taken += strlen(marks[*found]);
        while (sure && is_blank(text[sure - 1]))
            sure--;
    } else if (!p->final) {
        sure = taken = len - tail(text, len, marks, n);
    } else if (what == TOOL_SAID_REASONING) {
        while (sure && is_blank(text[sure - 1]))
            sure--;
    }
    p->said |= sure > 0;
    const enum step st = say(p, what, text, sure);
    p->at += taken;
    return st == FAILED ? FAILED : *found >= 0 || taken ? AGAIN : MORE;
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* The next len bytes of a call are taken; kept while it may turn out to be none. */
static int take(struct tool_parser *p, size_t len)
{
    if (!p->named && len && buf_put(&p->raw, here(p), len))
        return -1;
    p->at += len;
    return 0;
}

static int take_blanks(struct tool_parser *p)
{
    size_t n = 0;
    while (n < left(p) && is_blank(here(p)[n]))
        n++;
    return take(p, n);
}

static void new_call(struct tool_parser *p)
{
    p->named = p->argued = p->text_arguments = false;
    buf_clear(&p->name);
    buf_clear(&p->early);
}

/* It is no call: what was taken for one is content, unless it had begun. */
static enum step no_call(struct tool_parser *p)
{
    const enum step st = p->named ? AGAIN : say(p, TOOL_SAID_CONTENT, p->raw.data, p->raw.len);
    p->said |= p->raw.len > 0 && !p->named;
    buf_clear(&p->raw);
    p->list = false;
    new_call(p);
    return st == FAILED ? FAILED : go(p, IN_CONTENT);
}

static int put_arguments(struct tool_parser *p, const char *text, size_t len)
{
    p->argued |= len > 0;
    return len && p->on.arguments ? p->on.arguments(p->on.ctx, p->n_calls - 1, text, len) : 0;
}

/* The call has its name. */
static enum step begin_call(struct tool_parser *p)
{
    if (p->on.call && p->on.call(p->on.ctx, p->n_calls, p->name.data ? p->name.data : "", p->name.len))
        return FAILED;
    p->n_calls++;
    p->named = true;
    buf_clear(&p->raw);
    return put_arguments(p, p->early.data, p->early.len) ? FAILED : AGAIN;
}

static enum step end_call(struct tool_parser *p)
{
    if (!p->named)
        return no_call(p);
    if (!p->argued && put_arguments(p, "{}", 2))
        return FAILED;
    new_call(p);
    return go(p, BEHIND_CALL);
}

/* Bytes of a JSON value at the beginning of text[0, len); *whole: it ends there. */
static size_t scan_value(struct value *v, const char *text, size_t len, bool *whole)
{
    *whole = false;
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (v->in_string) {
            v->in_string = v->escaped || c != '"';
            v->escaped = !v->escaped && c == '\\';
            *whole = !v->in_string && !v->depth;
        } else if (v->scalar && (c == ',' || c == '}' || c == ']' || is_blank(c))) {
            *whole = true;
            return i;
        } else if (c == '"') {
            v->in_string = true;
        } else if (c == '{' || c == '[') {
            v->depth++;
        } else if (c == '}' || c == ']') {
            v->depth--;
            *whole = v->depth <= 0;
        } else if (!v->depth && !v->begun) {
            v->scalar = true;
        }
        v->begun = true;
        if (*whole)
            return i + 1;
    }
    return len;
}

/* What a JSON string, with its quotes, says: 1, 0 when it is none, or -1. */
static int unquote(const struct buf *text, struct buf *out)
{
    struct hasten_error err;
    json_t *v = NULL;
    const hasten_status st = json_parse("a call", text->data ? text->data : "", text->len, &v, &err);
    buf_clear(out);
    int is = st == HASTEN_ERR_MEMORY ? -1 : !st && json_is_string(v);
    if (is > 0 && buf_put(out, json_string_value(v), json_string_length(v)))
        is = -1;
    json_decref(v);
    return is;
}

/* A value that was kept has come to its end. */
static enum step kept_value(struct tool_parser *p)
{
    struct buf said = {0};
    int is = unquote(&p->text, &said);
    enum step st = is < 0 ? FAILED : AGAIN;
    if (st != FAILED && p->what == VALUE_NAME && !p->named) {
        if (is && said.len && said.len <= MOST_NAME)
            st = buf_put(&p->name, said.data, said.len) ? FAILED : begin_call(p);
        else
            st = no_call(p);
    } else if (st != FAILED &&
               p->what == VALUE_ARGUMENTS) { /* a string that holds them; else as it is written */
        const struct buf *b = is ? &said : &p->text;
        if (p->named ? put_arguments(p, b->data, b->len) : buf_put(&p->early, b->data, b->len))
            st = FAILED;
    }
    buf_free(&said);
    return st;
}

static enum step in_value(struct tool_parser *p)
{
    bool whole;
    if (!p->value.begun && take_blanks(p))
        return FAILED;
    if (!left(p))
        return MORE;
    if (!p->value.begun && p->what == VALUE_ARGUMENTS)
        p->text_arguments = *here(p) == '"';
    const size_t n = scan_value(&p->value, here(p), left(p), &whole);
    int bad = 0;
    if (p->what == VALUE_ARGUMENTS && !p->text_arguments)
        bad = p->named ? put_arguments(p, here(p), n) : buf_put(&p->early, here(p), n);
    else if (p->what != VALUE_OTHER)
        bad = buf_put(&p->text, here(p), n);
    if (bad || take(p, n))
        return FAILED;
    if (!whole)
        return n ? AGAIN : MORE;
    if (!p->object)
        return end_call(p);
    p->state = AT_KEY;
    return p->what == VALUE_NAME || (p->what == VALUE_ARGUMENTS && p->text_arguments) ? kept_value(p) : AGAIN;
}

static enum step begin_value(struct tool_parser *p, enum what what, bool object)
{
    p->what = what;
    p->object = object;
    p->value = (struct value){0};
    buf_clear(&p->text);
    return go(p, IN_VALUE);
}

/* ---- calls that are objects --------------------------------------------------------------------------------------- */

static enum step at_object(struct tool_parser *p)
{
    if (take_blanks(p))
        return FAILED;
    if (!left(p))
        return MORE;
    if (*here(p) != '{')
        return no_call(p);
    return take(p, 1) ? FAILED : go(p, AT_KEY);
}

static bool is_key(const struct tool_parser *p, size_t len, const char *key)
{
    return len == strlen(key) + 2 && memcmp(here(p) + 1, key, len - 2) == 0;
}

static enum step at_key(struct tool_parser *p)
{
    struct value v = {0};
    bool whole;
    while (left(p) && (is_blank(*here(p)) || *here(p) == ','))
        if (take(p, 1))
            return FAILED;
    if (!left(p))
        return MORE;
    if (*here(p) == '}')
        return take(p, 1) ? FAILED : end_call(p);
    if (*here(p) != '"')
        return no_call(p);
    const size_t n = scan_value(&v, here(p), left(p) < MOST_NAME ? left(p) : MOST_NAME, &whole);
    if (!whole)
        return n < MOST_NAME ? MORE : no_call(p);
    p->what = is_key(p, n, "name")                                      ? VALUE_NAME
              : is_key(p, n, "arguments") || is_key(p, n, "parameters") ? VALUE_ARGUMENTS
                                                                        : VALUE_OTHER;
    return take(p, n) ? FAILED : go(p, AT_COLON);
}

static enum step at_colon(struct tool_parser *p)
{
    if (take_blanks(p))
        return FAILED;
    if (!left(p))
        return MORE;
    if (*here(p) != ':')
        return no_call(p);
    return take(p, 1) ? FAILED : begin_value(p, p->what, true);
}

/* ---- calls that are not --------------------------------------------------------------------------------------------- */

static enum step take_name(struct tool_parser *p, size_t len, size_t taken)
{
    const char *text = here(p);
    while (len && is_blank(*text)) {
        text++;
        len--;
    }
    while (len && is_blank(text[len - 1]))
        len--;
    if (!len)
        return no_call(p);
    buf_clear(&p->name);
    if (buf_put(&p->name, text, len) || take(p, taken) || begin_call(p) == FAILED)
        return FAILED;
    return go(p, AT_ARGUMENTS);
}

/* Where the mark is in what is held, and -1 with *too_long set once it does not come. */
static int64_t find(const struct tool_parser *p, const char *mark, size_t from, bool *too_long)
{
    const char *at = left(p) > from ? memmem(here(p) + from, left(p) - from, mark, strlen(mark)) : NULL;
    *too_long = !at && left(p) > MOST_NAME;
    return at ? at - here(p) : -1;
}

static enum step at_name(struct tool_parser *p)
{
    const bool deepseek = p->format.family >= TOOLS_DEEPSEEK;
    const char *mark = deepseek ? tool_mark(p->format, TOOL_MARK_NAME_END) : "[ARGS]";
    bool too_long;
    const int64_t end = find(p, mark, 0, &too_long);
    if (!deepseek) { /* f[ARGS]{...}, f[CALL_ID]...[ARGS]{...}, or f{...} */
        const char *brace = left(p) ? memchr(here(p), '{', left(p)) : NULL;
        const char *bracket = left(p) ? memchr(here(p), '[', left(p)) : NULL;
        if (brace && (end < 0 || brace - here(p) < end))
            return take_name(p, (size_t)((bracket && bracket < brace ? bracket : brace) - here(p)),
                             (size_t)(brace - here(p)));
        if (end >= 0)
            return take_name(p, (size_t)(bracket - here(p)), (size_t)end + strlen(mark));
        return too_long ? no_call(p) : MORE;
    }
    if (end < 0)
        return too_long ? no_call(p) : MORE;
    size_t name = (size_t)end + strlen(mark), blanks = name;
    while (blanks < left(p) && is_blank(here(p)[blanks]))
        blanks++;
    if (blanks == left(p))
        return MORE;
    if (here(p)[blanks] == '{') /* f<sep>{...} */
        return take_name(p, (size_t)end, name);
    const int64_t line = find(p, "\n", name, &too_long); /* function<sep>f, line end */
    if (line < 0)
        return too_long ? no_call(p) : MORE;
    if (take(p, name))
        return FAILED;
    return take_name(p, (size_t)line - name, (size_t)line - name + 1);
}

static enum step at_arguments(struct tool_parser *p)
{
    if (take_blanks(p))
        return FAILED;
    if (!left(p))
        return MORE;
    const int fence = begins_with(p, "```json");
    if (fence)
        return fence < 0 ? MORE : take(p, strlen("```json")) ? FAILED : AGAIN;
    return *here(p) == '{' ? begin_value(p, VALUE_ARGUMENTS, false) : end_call(p);
}

/* ---- between calls ---------------------------------------------------------------------------------------------------- */

static enum step at_calls(struct tool_parser *p)
{
    if (p->format.family == TOOLS_HERMES || p->format.family == TOOLS_LLAMA3)
        return go(p, AT_OBJECT);
    if (take_blanks(p))
        return FAILED;
    if (!left(p))
        return MORE;
    if (p->format.family >= TOOLS_DEEPSEEK) {
        const char *mark = tool_mark(p->format, TOOL_MARK_CALL);
        const int is = begins_with(p, mark);
        return is < 0 ? MORE : !is ? no_call(p) : take(p, strlen(mark)) ? FAILED : go(p, AT_NAME);
    }
    p->list = *here(p) == '[';
    if (p->list && take(p, 1))
        return FAILED;
    return go(p, p->list || *here(p) == '{' ? AT_OBJECT : AT_NAME);
}

static enum step behind_deepseek(struct tool_parser *p)
{
    const char *const marks[] = {"```", tool_mark(p->format, TOOL_MARK_CALL_END),
                                 tool_mark(p->format, TOOL_MARK_CALL), tool_mark(p->format, TOOL_MARK_END)};
    for (int i = 0; i < 4; i++) {
        const int is = begins_with(p, marks[i]);
        if (is < 0)
            return MORE;
        if (is) {
            p->at += strlen(marks[i]);
            return i < 2 ? AGAIN : go(p, i == 2 ? AT_NAME : AT_CONTENT);
        }
    }
    return go(p, AT_CONTENT);
}

static enum step behind_call(struct tool_parser *p)
{
    skip_blanks(p);
    if (!left(p))
        return MORE;
    if (p->format.family == TOOLS_HERMES) {
        const char *mark = tool_mark(p->format, TOOL_MARK_END);
        const int is = begins_with(p, mark);
        p->at += is > 0 ? strlen(mark) : 0;
        return is < 0 ? MORE : go(p, AT_CONTENT);
    }
    if (p->format.family >= TOOLS_DEEPSEEK)
        return behind_deepseek(p);
    if (p->list && (*here(p) == ',' || *here(p) == ']')) {
        p->list = *here(p) == ',';
        p->at++;
        return go(p, p->list ? AT_OBJECT : AT_CONTENT);
    }
    p->list = false;
    return go(p, AT_CONTENT);
}

/* ---- content and reasoning ---------------------------------------------------------------------------------------------- */

static enum step at_begin(struct tool_parser *p)
{
    static const char mark[] = "<think>";
    const size_t from = p->at;
    skip_blanks(p);
    const int is = left(p) ? begins_with(p, mark) : p->final ? 0 : -1;
    if (is > 0) {
        p->at += sizeof mark - 1;
        return go(p, AT_REASONING);
    }
    p->at = from;
    return is < 0 ? MORE : go(p, IN_CONTENT);
}

static enum step at_text(struct tool_parser *p, enum state next)
{
    skip_blanks(p);
    return left(p) ? go(p, next) : MORE;
}

static enum step in_reasoning(struct tool_parser *p)
{
    static const char *const mark[] = {"</think>"};
    int found;
    const enum step st = take_until(p, TOOL_SAID_REASONING, mark, 1, &found);
    if (found >= 0 && st != FAILED) {
        p->said = false;
        return go(p, AT_CONTENT);
    }
    return st;
}

static enum step in_content(struct tool_parser *p)
{
    const char *marks[2] = {tool_mark(p->format, TOOL_MARK_BEGIN), NULL};
    int n = marks[0] != NULL, found;
    if (p->format.family >= TOOLS_DEEPSEEK)
        marks[n++] = tool_mark(p->format, TOOL_MARK_CALL);
    if (p->format.family == TOOLS_LLAMA3 && !p->said && !p->n_calls) {
        size_t i = 0;
        while (i < left(p) && is_blank(here(p)[i]))
            i++;
        if (i == left(p) && !p->final)
            return MORE;
        if (i < left(p) && here(p)[i] == '{')
            return go(p, AT_CALLS);
    }
    if (!n) {
        const enum step st = say(p, TOOL_SAID_CONTENT, here(p), left(p));
        const bool any = left(p) > 0;
        p->at = p->held.len;
        return st == FAILED ? FAILED : any ? AGAIN : MORE;
    }
    const enum step st = take_until(p, TOOL_SAID_CONTENT, marks, n, &found);
    if (found < 0 || st == FAILED)
        return st;
    new_call(p);
    buf_clear(&p->raw);
    return buf_puts(&p->raw, marks[found]) ? FAILED : go(p, found ? AT_NAME : AT_CALLS);
}

static enum step make_step(struct tool_parser *p)
{
    switch (p->state) {
    case AT_BEGIN:
        return at_begin(p);
    case AT_REASONING:
        return at_text(p, IN_REASONING);
    case IN_REASONING:
        return in_reasoning(p);
    case AT_CONTENT:
        return at_text(p, IN_CONTENT);
    case IN_CONTENT:
        return in_content(p);
    case AT_CALLS:
        return at_calls(p);
    case AT_NAME:
        return at_name(p);
    case AT_ARGUMENTS:
        return at_arguments(p);
    case AT_OBJECT:
        return at_object(p);
    case AT_KEY:
        return at_key(p);
    case AT_COLON:
        return at_colon(p);
    case IN_VALUE:
        return in_value(p);
    default:
        return behind_call(p);
    }
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------ */

hasten_status tool_parser_open(struct tool_format format, bool thinking, const struct tool_events *events,
                               struct tool_parser **out, struct hasten_error *err)
{
    struct tool_parser *p = mem_calloc(1, sizeof *p);
    *out = p;
    if (!p || buf_puts(&p->held, "")) {
        tool_parser_close(p);
        *out = NULL;
        return error_set(err, HASTEN_ERR_MEMORY, "an answer's parser: out of memory");
    }
    p->format = format;
    p->on = *events;
    p->state = thinking ? AT_REASONING : AT_BEGIN;
    return HASTEN_OK;
}

void tool_parser_close(struct tool_parser *p)
{
    if (!p)
        return;
    buf_free(&p->held);
    buf_free(&p->raw);
    buf_free(&p->name);
    buf_free(&p->early);
    buf_free(&p->text);
    mem_free(p);
}

int32_t tool_parser_n_calls(const struct tool_parser *p)
{
    return p->n_calls;
}

static hasten_status no_memory(struct tool_parser *p, struct hasten_error *err)
{
    p->failed = true;
    return error_set(err, HASTEN_ERR_MEMORY, "an answer's parser: out of memory");
}

static hasten_status make_steps(struct tool_parser *p, struct hasten_error *err)
{
    enum step st;
    do
        st = make_step(p);
    while (st == AGAIN);
    if (st == FAILED)
        return no_memory(p, err);
    if (p->at) { /* what is understood is not kept */
        memmove(p->held.data, here(p), left(p) + 1);
        p->held.len -= p->at;
        p->at = 0;
    }
    return HASTEN_OK;
}

hasten_status tool_parser_push(struct tool_parser *p, const char *text, size_t len, struct hasten_error *err)
{
    if (p->failed || (len && buf_put(&p->held, text, len)))
        return no_memory(p, err);
    return make_steps(p, err);
}

hasten_status tool_parser_finish(struct tool_parser *p, struct hasten_error *err)
{
    p->final = true;
    hasten_status st = p->failed ? no_memory(p, err) : make_steps(p, err);
    while (!st && p->state >= AT_CALLS && p->state < BEHIND_CALL && !p->named) {
        if (no_call(p) == FAILED)
            return no_memory(p, err);
        st = make_steps(p, err);
    }
    return st;
}
