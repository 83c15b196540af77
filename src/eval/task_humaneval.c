/* humaneval: Python functions from their docstrings (Chen et al., "Evaluating large language models trained on code",
 * 2021). Data: JSON lines with "task_id", "prompt", "entry_point", "test". The greedy answer is the one sample, so the
 * score is pass@1: 1 when the program made of prompt, answer and test runs to its end in the sandbox (settings.run).
 *
 * With a template the model is asked for the whole function; the code is the first fenced block that defines it, else
 * the whole answer. The prompt stays in front, so its imports and helpers are there. Without a template the prompt is
 * continued until something begins in the first column. */
#include "eval/task.h"
#include <ctype.h>
#include <string.h>

#define ANSWER_TOKENS 512

struct humaneval {
    struct eval_task_settings s;
    struct eval_lines lines;
};

static const char *const raw_stops[] = {"\nclass ", "\ndef ", "\n#", "\nif ", "\nprint", "\n```", "\nassert"};

static void humaneval_close(void *state)
{
    struct humaneval *h = state;
    if (h)
        eval_lines_free(&h->lines);
    mem_free(h);
}

static hasten_status humaneval_open(const struct eval_task *task, const struct eval_task_settings *s,
                                    void **state, int32_t *n_items, struct hasten_error *err)
{
    if (!s->run)
        return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: running code is unsupported here", task->name);
    struct humaneval *h = mem_calloc(1, sizeof *h);
    if (!h)
        return eval_no_memory(err);
    h->s = *s;
    hasten_status st = eval_lines_read(s->data, &h->lines, err);
    if (st)
        humaneval_close(h);
    else
        *n_items = h->lines.n;
    *state = st ? NULL : h;
    return st;
}

static hasten_status humaneval_item(void *state, int32_t i, struct eval_item *item, struct hasten_error *err)
{
    static const char *const fields[] = {"task_id", "prompt", "entry_point", "test"};
    struct humaneval *h = state;
    const char *v[4];
    hasten_status st = HASTEN_OK;
    for (int k = 0; k < 4 && !st; k++)
        if (!(v[k] = eval_line_string(&h->lines, i, fields[k], h->s.data, err)))
            return HASTEN_ERR_FILE;
    item->n_turns = 1;
    item->max_new[0] = ANSWER_TOKENS;
    int bad = buf_puts(&item->id, v[0]);
    if (h->s.raw) {
        bad |= buf_puts(&item->turns[0], v[1]);
        item->stops = raw_stops;
        item->n_stops = sizeof raw_stops / sizeof *raw_stops;
    } else {
        bad |= buf_printf(
            &item->turns[0],
            "Complete this Python function. Answer with one code block that holds the whole function "
            "and nothing else.\n\n```python\n%s```\n",
            v[1]);
    }
    for (int k = 1; k < 4 && !bad && !st; k++)
        st = eval_want(item, v[k], err);
    return bad ? eval_no_memory(err) : st;
}

/* ---- the program --------------------------------------------------------------------------------------- */

static bool defines(const char *code, size_t len, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i + 4 + n < len; i++)
        if (memcmp(code + i, "def ", 4) == 0 && memcmp(code + i + 4, name, n) == 0 && code[i + 4 + n] == '(')
            return true;
    return false;
}

/* The code of an answer: the first fenced block that defines `name`, else the first block, else everything. */
static void find_code(const char *answer, const char *name, const char **code, size_t *len)
{
    *code = answer;
    *len = strlen(answer);
    bool found = false;
    for (const char *at = answer; (at = strstr(at, "```"));) {
        const char *begin = at + 3 + strcspn(at + 3, "\n");
        const char *end = strstr(begin, "```");
        const size_t n = end ? (size_t)(end - begin) : strlen(begin);
        const bool this = defines(begin, n, name);
        if (!found || this) {
            *code = begin;
            *len = n;
            found = true;
        }
        if (this || !end)
            return;
        at = end + 3;
    }
}

static hasten_status build(const struct humaneval *h, const struct eval_item *item, const char *answer,
                           struct buf *out, struct hasten_error *err)
{
    const char *prompt = json_string_value(json_array_get(item->want, 0));
    const char *name = json_string_value(json_array_get(item->want, 1));
    const char *test = json_string_value(json_array_get(item->want, 2));
    const char *code = answer;
    size_t len = strlen(answer);
    if (!h->s.raw)
        find_code(answer, name, &code, &len);
    int bad = buf_puts(out, prompt);
    /* A whole function stands behind the prompt's, whose docstring is a body; a body continues it. */
    if (!h->s.raw && defines(code, len, name))
        bad |= buf_puts(out, "\n    pass\n\n");
    bad |= buf_put(out, code, len) || buf_printf(out, "\n\n%s\n\ncheck(%s)\n", test, name);
    return bad ? eval_no_memory(err) : HASTEN_OK;
}

static hasten_status humaneval_score(void *state, const struct eval_item *item, const struct buf *answers,
                                     struct eval_score *out, struct hasten_error *err)
{
    struct humaneval *h = state;
    struct buf program = {0};
    bool passed = false;
    hasten_status st = build(h, item, answers[0].data ? answers[0].data : "", &program, err);
    if (!st)
        st = h->s.run(h->s.run_ctx, program.data, program.len, &passed, out->note, err);
    out->score = passed;
    buf_free(&program);
    return st;
}

const struct eval_task eval_humaneval = {.name = "humaneval",
                                         .title = "Python functions from their docstrings, run in a sandbox",
                                         .data_prefix = "humaneval",
                                         .runs_code = true,
                                         .whole = true,
                                         .open = humaneval_open,
                                         .item = humaneval_item,
                                         .score = humaneval_score,
                                         .close = humaneval_close};
