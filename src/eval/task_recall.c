/* recall: a conversation of many turns. Facts are told one by one, then a long passage is read, small questions come
 * between, and at the end each fact is asked for in a turn of its own. It shows what is lost when a cache drops or
 * rounds what was said early. Score: the share of the facts that are answered. Our own design; the facts are made up. */
#include "eval/prose.h"
#include <string.h>

#define N_FACTS 6
#define FIRST_QUESTION (N_FACTS + 2) /* behind the facts, the passage and a sum */

static const struct {
    const char *told, *asked;
    const char *value[8];
} facts[] = {
    {"My cat is called %s.",
     "What is my cat called?",
     {"Biscuit", "Marble", "Pepper", "Nimbus", "Waffles", "Cosmo", "Olive", "Tango"}},
    {"The door code of my office is %s.",
     "What is the door code of my office?",
     {"4719", "8052", "2396", "6134", "9527", "3081", "7465", "1948"}},
    {"My sister works as a %s.",
     "What does my sister work as?",
     {"dentist", "plumber", "florist", "pilot", "baker", "surgeon", "tailor", "welder"}},
    {"My flight leaves from gate %s.",
     "Which gate does my flight leave from?",
     {"B17", "C42", "A08", "D31", "F26", "E53", "G14", "H65"}},
    {"I was born in %s.",
     "Where was I born?",
     {"Lisbon", "Krakow", "Nairobi", "Osaka", "Toronto", "Bergen", "Quito", "Adelaide"}},
    {"My favourite dish is %s.",
     "What is my favourite dish?",
     {"lasagna", "ramen", "goulash", "paella", "moussaka", "risotto", "chili", "pierogi"}},
    {"My bicycle is %s.",
     "What colour is my bicycle?",
     {"turquoise", "orange", "silver", "purple", "yellow", "black", "green", "crimson"}},
    {"I play the %s.",
     "Which instrument do I play?",
     {"cello", "trumpet", "harp", "bassoon", "banjo", "oboe", "viola", "piano"}},
    {"My meeting is on %s.",
     "On which day is my meeting?",
     {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Wednesday"}},
    {"My neighbour is called %s.",
     "What is my neighbour called?",
     {"Okafor", "Lindqvist", "Moreau", "Tanaka", "Petrov", "Alvarez", "Hughes", "Rossi"}},
};
#define N_KINDS ((int32_t)(sizeof facts / sizeof *facts))

static const char *const raw_stops[] = {"\nUser:", "\n"};

struct recall {
    const struct eval_task *task;
    struct eval_task_settings s;
    struct eval_prose prose;
};

struct recall_item {
    const struct recall *r;
    int32_t fact[N_FACTS], value[N_FACTS], asked[N_FACTS], from, a, b;
};

static void recall_close(void *state)
{
    struct recall *r = state;
    if (r)
        eval_prose_close(&r->prose);
    mem_free(r);
}

static hasten_status recall_open(const struct eval_task *task, const struct eval_task_settings *s,
                                 void **state, int32_t *n_items, struct hasten_error *err)
{
    struct recall *r = mem_calloc(1, sizeof *r);
    *state = r;
    if (!r)
        return eval_no_memory(err);
    r->task = task;
    r->s = *s;
    *n_items = s->n_items;
    hasten_status st = eval_prose_open(s->data, &r->prose, err);
    if (st) {
        recall_close(r);
        *state = NULL;
    }
    return st;
}

/* A user's message as a turn; without a template as a line of a dialogue. */
static int put_turn(const struct recall_item *it, struct eval_item *item, int32_t turn, const char *text)
{
    if (!it->r->s.raw)
        return buf_puts(&item->turns[turn], text);
    return buf_printf(&item->turns[turn], "%sUser: %s\nAssistant:", turn ? "\n" : "", text);
}

static hasten_status recall_build(void *ctx, int32_t k, struct eval_item *item, struct hasten_error *err)
{
    const struct recall_item *it = ctx;
    struct buf text = {0};
    int bad = 0;
    for (int i = 0; i < N_FACTS && !bad; i++) {
        buf_clear(&text);
        bad = buf_puts(&text, "Please remember this. ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        bad |= buf_printf(&text, facts[it->fact[i]].told, facts[it->fact[i]].value[it->value[i]]);
#pragma GCC diagnostic pop
        bad |= buf_puts(&text, " Answer with OK alone.") || put_turn(it, item, i, text.data);
    }
    buf_clear(&text);
    bad |= buf_puts(&text, "Here is something to read. ") ||
           eval_haystack(&it->r->prose, it->from, k, NULL, 0, &text) ||
           buf_puts(&text, " That was all. Answer with OK alone.") || put_turn(it, item, N_FACTS, text.data);
    buf_clear(&text);
    bad |= buf_printf(&text, "What is %d plus %d? Answer with the number alone.", (int)it->a, (int)it->b) ||
           put_turn(it, item, N_FACTS + 1, text.data);
    for (int i = 0; i < N_FACTS && !bad; i++) {
        buf_clear(&text);
        bad = buf_printf(&text, "%s Answer in a few words.", facts[it->fact[it->asked[i]]].asked) ||
              put_turn(it, item, FIRST_QUESTION + i, text.data);
    }
    buf_free(&text);
    return bad ? eval_no_memory(err) : HASTEN_OK;
}

static hasten_status recall_item(void *state, int32_t index, struct eval_item *item, struct hasten_error *err)
{
    struct recall *r = state;
    struct recall_item it = {.r = r};
    struct eval_rng g;
    hasten_status st = HASTEN_OK;
    eval_rng_start(&g, r->s.seed, r->task->name, index);
    eval_choose(&g, N_KINDS, N_FACTS, it.fact);
    eval_choose(&g, N_FACTS, N_FACTS, it.asked);
    for (int i = 0; i < N_FACTS; i++)
        it.value[i] = eval_pick(&g, 8);
    it.from = eval_pick(&g, r->prose.n);
    it.a = 2 + eval_pick(&g, 40);
    it.b = 2 + eval_pick(&g, 40);
    item->n_turns = FIRST_QUESTION + N_FACTS;
    for (int i = 0; i < item->n_turns; i++)
        item->max_new[i] = i < FIRST_QUESTION ? 8 : 32;
    if (r->s.raw) {
        item->stops = raw_stops;
        item->n_stops = 2;
    }
    if (buf_printf(&item->id, "%d/%d", (int)r->s.length, (int)index))
        return eval_no_memory(err);
    for (int i = 0; i < N_FACTS && !st; i++)
        st = eval_want(item, facts[it.fact[it.asked[i]]].value[it.value[it.asked[i]]], err);
    return st ? st : eval_fit(&r->s, r->task->name, 1 << 20, recall_build, &it, item, err);
}

static hasten_status recall_score(void *state, const struct eval_item *item, const struct buf *answers,
                                  struct eval_score *out, struct hasten_error *err)
{
    (void)state;
    (void)err;
    out->score = 0;
    for (int i = 0; i < N_FACTS; i++)
        out->score += eval_share_found(item, i, i + 1, answers[FIRST_QUESTION + i].data) / N_FACTS;
    return HASTEN_OK;
}

const struct eval_task eval_recall = {.name = "recall",
                                      .title = "facts of a long conversation, asked for at its end",
                                      .open = recall_open,
                                      .item = recall_item,
                                      .score = recall_score,
                                      .close = recall_close};
