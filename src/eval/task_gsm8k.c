/* gsm8k: grade-school mathematics (Cobbe et al., "Training verifiers to solve math word problems", 2021). Data: JSON
 * lines with "question" and "answer", whose number stands behind "####".
 *
 * Score: 1 when the answer's number is the right one. The number is what stands behind the last "####", else inside
 * the last \boxed{}, else the last number of the text; commas, a currency sign and a fraction .0 do not count. */
#include "eval/task.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_TOKENS 400

struct gsm8k {
    struct eval_task_settings s;
    struct eval_lines lines;
};

/* Worked examples for models without a template, our own. */
static const char shots[] =
    "Question: A baker has 3 trays with 12 rolls each and sells 20 rolls. How many rolls are left?\n"
    "Answer: There are 3 * 12 = 36 rolls. After selling 20 there are 36 - 20 = 16 left.\n#### 16\n\n"
    "Question: A ticket costs $4. Lena buys 5 tickets and pays with $50. How much does she get back?\n"
    "Answer: The tickets cost 5 * 4 = 20 dollars. She gets 50 - 20 = 30 dollars back.\n#### 30\n\n"
    "Question: A tank holds 240 liters. It is one third full, then 45 liters flow in. How much is in it?\n"
    "Answer: A third of 240 is 240 / 3 = 80 liters. With 45 more there are 80 + 45 = 125.\n#### 125\n\n"
    "Question: Tom reads 14 pages a day for a week, and Ida reads half as many pages in all. How many pages does "
    "Ida read?\nAnswer: Tom reads 14 * 7 = 98 pages. Ida reads 98 / 2 = 49.\n#### 49\n\n";

static const char *const raw_stops[] = {"\nQuestion:", "\n\n"};

static void gsm8k_close(void *state)
{
    struct gsm8k *g = state;
    if (g)
        eval_lines_free(&g->lines);
    mem_free(g);
}

static hasten_status gsm8k_open(const struct eval_task *task, const struct eval_task_settings *s,
                                void **state, int32_t *n_items, struct hasten_error *err)
{
    (void)task;
    struct gsm8k *g = mem_calloc(1, sizeof *g);
    if (!g)
        return eval_no_memory(err);
    g->s = *s;
    hasten_status st = eval_lines_read(s->data, &g->lines, err);
    if (st)
        gsm8k_close(g);
    else
        *n_items = g->lines.n;
    *state = st ? NULL : g;
    return st;
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* A number at text: its value, and where it ends; NULL: none begins here. */
static const char *number_at(const char *text, double *value)
{
    char digits[64];
    size_t n = 0;
    const char *at = text;
    if (*at == '-' && isdigit((unsigned char)at[1]))
        digits[n++] = *at++;
    if (!isdigit((unsigned char)*at))
        return NULL;
    while (n < sizeof digits - 1 &&
           (isdigit((unsigned char)*at) || (*at == ',' && isdigit((unsigned char)at[1])) ||
            (*at == '.' && isdigit((unsigned char)at[1])))) {
        if (*at != ',')
            digits[n++] = *at;
        at++;
    }
    digits[n] = '\0';
    *value = strtod(digits, NULL);
    return at;
}

/* The first (or the last) number of a text. */
static bool find_number(const char *text, bool last, double *value)
{
    bool found = false;
    while (*text) {
        const char *end = number_at(text, value);
        if (end && !last)
            return true;
        found |= end != NULL;
        if (end) {
            const char *next = end;
            double other;
            while (*next && !number_at(next, &other))
                next++;
            if (!*next)
                return true;
            text = next;
        } else {
            text++;
        }
    }
    return found;
}

static const char *behind_last(const char *text, const char *mark)
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, mark)); at++)
        found = at + strlen(mark);
    return found;
}

static bool answer_number(const char *text, double *value)
{
    const char *at = behind_last(text, "####");
    if (at && find_number(at, false, value))
        return true;
    at = behind_last(text, "\\boxed{");
    if (at && find_number(at, false, value))
        return true;
    return find_number(text, true, value);
}

/* ---- items --------------------------------------------------------------------------------------------- */

static hasten_status gsm8k_item(void *state, int32_t i, struct eval_item *item, struct hasten_error *err)
{
    struct gsm8k *g = state;
    const char *question = eval_line_string(&g->lines, i, "question", g->s.data, err);
    const char *answer = question ? eval_line_string(&g->lines, i, "answer", g->s.data, err) : NULL;
    if (!answer)
        return HASTEN_ERR_FILE;
    const char *number = behind_last(answer, "####");
    if (!number)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: the answer of item %d has no \"####\" (expected the number there)", g->s.data,
                         (int)i + 1);
    number += strspn(number, " \t");
    char *want = mem_strndup(number, strcspn(number, "\r\n"));
    item->n_turns = 1;
    item->max_new[0] = ANSWER_TOKENS;
    int bad = !want || buf_printf(&item->id, "%d", (int)i);
    if (g->s.raw) {
        bad |= buf_puts(&item->turns[0], shots) ||
               buf_printf(&item->turns[0], "Question: %s\nAnswer:", question);
        item->stops = raw_stops;
        item->n_stops = 2;
    } else {
        bad |= buf_printf(
            &item->turns[0],
            "%s\n\nWork it out step by step. Write the final number alone on the last line, after ####.",
            question);
    }
    hasten_status st = bad ? eval_no_memory(err) : eval_want(item, want, err);
    mem_free(want);
    return st;
}

static hasten_status gsm8k_score(void *state, const struct eval_item *item, const struct buf *answers,
                                 struct eval_score *out, struct hasten_error *err)
{
    (void)state;
    (void)err;
    double want = 0, got = 0;
    const bool have = answers[0].data && answer_number(answers[0].data, &got);
    find_number(json_string_value(json_array_get(item->want, 0)), false, &want);
    out->score = have && fabs(got - want) < 1e-6 * fmax(1, fabs(want));
    snprintf(out->note, sizeof out->note, have ? "%.10g" : "no number", got);
    return HASTEN_OK;
}

const struct eval_task eval_gsm8k = {.name = "gsm8k",
                                     .title = "grade-school mathematics",
                                     .data_prefix = "gsm8k",
                                     .whole = true,
                                     .open = gsm8k_open,
                                     .item = gsm8k_item,
                                     .score = gsm8k_score,
                                     .close = gsm8k_close};
