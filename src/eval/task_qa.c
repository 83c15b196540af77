/* RULER's questions (Hsieh et al. 2024, section 3.4), over text of our own choosing: qa_1 asks what one sentence of a
 * book says and hides it among others of the book, which may have been learned by heart; qa_2 joins two made-up facts
 * that lie apart (who keeps a thing, where that person lives), which cannot. Score: qa_1 1 when one of the right
 * answers is found, qa_2 when the town is. */
#include "eval/prose.h"
#include <string.h>

struct question {
    const char *mark; /* a part of the sentence that answers it */
    const char *text;
    const char *answer[3]; /* any of these */
};

/* Of "Alice's Adventures in Wonderland", chapters I to IV, as bench/text.c has them. */
static const struct question questions[] = {
    {"TOOK A WATCH OUT OF ITS", "What did the Rabbit take out of its waistcoat-pocket?", {"watch"}},
    {"ORANGE MARMALADE",
     "What was the label on the jar that Alice took from a shelf while falling?",
     {"marmalade"}},
    {"Dinah'll miss me", "What is the name of Alice's cat?", {"Dinah"}},
    {"three-legged table", "What was the little three-legged table made of?", {"glass"}},
    {"fifteen inches high",
     "How high was the little door behind the low curtain?",
     {"fifteen inches", "15 inches"}},
    {"words 'DRINK ME'",
     "Which words were printed on the label around the neck of the bottle?",
     {"drink me"}},
    {"'EAT ME' were", "Which words were marked in currants on the cake?", {"eat me"}},
    {"only ten inches high",
     "How high was Alice after she had drunk from the little bottle?",
     {"ten inches", "10 inches"}},
    {"more than nine feet high",
     "How high was Alice when her head struck the roof of the hall?",
     {"nine feet", "9 feet"}},
    {"white kid gloves in one hand",
     "What did the White Rabbit carry in one hand when it came back splendidly dressed?",
     {"gloves"}},
    {"a large fan in the other",
     "What did the White Rabbit carry beside a pair of gloves when it came back?",
     {"fan"}},
    {"the Duchess", "Whom did the White Rabbit fear to keep waiting?", {"duchess"}},
    {"Ou est ma chatte", "What was the first sentence in Alice's French lesson-book?", {"chatte"}},
    {"worth a hundred pounds",
     "How much does the farmer say his useful little dog is worth?",
     {"hundred pounds", "100 pounds"}},
    {"would be a Caucus-race", "What kind of race did the Dodo propose to get everybody dry?", {"caucus"}},
    {"a box of comfits", "What did Alice pull out of her pocket and hand round as prizes?", {"comfits"}},
    {"elegant thimble", "What did the Dodo beg Alice to accept as her prize?", {"thimble"}},
    {"Mary Ann",
     "By which name did the White Rabbit call Alice when it took her for its housemaid?",
     {"mary ann"}},
    {"brass plate", "What was the plate on the door of the neat little house made of?", {"brass"}},
    {"turning into little cakes", "What did the pebbles on the floor turn into?", {"cakes"}},
};
#define N_QUESTIONS ((int32_t)(sizeof questions / sizeof *questions))
#define N_PAIRS 6 /* people of qa_2 */

struct qa {
    const struct eval_task *task;
    struct eval_task_settings s;
    struct eval_prose prose;
    int32_t order[N_QUESTIONS];
    bool two_facts;
};

struct qa_item {
    const struct qa *q;
    const struct question *question;
    int32_t index, from, gold; /* gold: the sentence with the answer */
    int32_t person[N_PAIRS], thing[N_PAIRS], town[N_PAIRS];
    double depth[2 * N_PAIRS];
};

static void qa_close(void *state)
{
    struct qa *q = state;
    if (q)
        eval_prose_close(&q->prose);
    mem_free(q);
}

static hasten_status qa_open(const struct eval_task *task, const struct eval_task_settings *s, void **state,
                             int32_t *n_items, struct hasten_error *err)
{
    struct qa *q = mem_calloc(1, sizeof *q);
    struct eval_rng r;
    *state = q;
    if (!q)
        return eval_no_memory(err);
    q->task = task;
    q->s = *s;
    q->two_facts = *(const bool *)task->variant;
    *n_items = q->two_facts || s->n_items < N_QUESTIONS ? s->n_items : N_QUESTIONS;
    eval_rng_start(&r, s->seed, task->name, -1);
    eval_choose(&r, N_QUESTIONS, N_QUESTIONS, q->order);
    hasten_status st = eval_prose_open(q->two_facts ? s->data : NULL, &q->prose, err);
    if (st) {
        qa_close(q);
        *state = NULL;
    }
    return st;
}

/* The sentence of the book that holds mark, or -1. */
static int32_t find_sentence(const struct eval_prose *p, const char *mark)
{
    const size_t n = strlen(mark);
    for (int32_t i = 0; i < p->n; i++)
        for (size_t at = 0; at + n <= p->len[i]; at++)
            if (memcmp(p->text + p->at[i] + at, mark, n) == 0)
                return i;
    return -1;
}

static hasten_status make_item(struct qa_item *it, struct hasten_error *err)
{
    struct eval_rng r;
    eval_rng_start(&r, it->q->s.seed, it->q->task->name, it->index);
    it->from = eval_pick(&r, it->q->prose.n);
    eval_choose(&r, EVAL_NAMES, N_PAIRS, it->person);
    eval_choose(&r, EVAL_NOUNS, N_PAIRS, it->thing);
    eval_choose(&r, 32, N_PAIRS, it->town);
    for (int i = 0; i < 2 * N_PAIRS; i++)
        it->depth[i] = eval_pick(&r, 1000) / 999.0;
    if (it->q->two_facts)
        return HASTEN_OK;
    it->question = &questions[it->q->order[it->index]];
    it->gold = find_sentence(&it->q->prose, it->question->mark);
    return it->gold < 0 ? error_set(err, HASTEN_ERR_INTERNAL, "%s: '%s' is not in the text",
                                    it->q->task->name, it->question->mark)
                        : HASTEN_OK;
}

/* Three sentences around the answer stay together, so that "it" and "she" say whom they mean. */
static hasten_status build_book(const struct qa_item *it, int32_t k, struct buf *t, struct hasten_error *err)
{
    const struct eval_prose *p = &it->q->prose;
    struct buf passage = {0};
    int bad = 0;
    for (int32_t i = it->gold > 0 ? it->gold - 1 : 0; i <= it->gold + 1 && i < p->n; i++)
        bad |= buf_printf(&passage, "%s%.*s", passage.len ? " " : "", (int)p->len[i], p->text + p->at[i]);
    const struct eval_needle needle = {passage.data ? passage.data : "", it->depth[0]};
    bad |= eval_haystack(p, it->from, k, &needle, 1, t);
    buf_free(&passage);
    return bad ? eval_no_memory(err) : HASTEN_OK;
}

static hasten_status build_facts(const struct qa_item *it, int32_t k, struct buf *t, struct hasten_error *err)
{
    char text[2 * N_PAIRS][80];
    struct eval_needle needle[2 * N_PAIRS];
    for (int i = 0; i < 2 * N_PAIRS; i++) {
        const int p = i / 2;
        if (i % 2 == 0)
            snprintf(text[i], sizeof text[i], "The %s is kept by %s.", eval_noun(it->thing[p]),
                     eval_name(it->person[p]));
        else
            snprintf(text[i], sizeof text[i], "%s lives in %s.", eval_name(it->person[p]),
                     eval_town(it->town[p]));
        needle[i] = (struct eval_needle){text[i], it->depth[i]};
    }
    return eval_haystack(&it->q->prose, it->from, k, needle, 2 * N_PAIRS, t) ? eval_no_memory(err)
                                                                             : HASTEN_OK;
}

static hasten_status qa_build(void *ctx, int32_t k, struct eval_item *item, struct hasten_error *err)
{
    const struct qa_item *it = ctx;
    struct buf *t = &item->turns[0];
    if (buf_puts(t, "Answer the question at the end from the following text.\n\n"))
        return eval_no_memory(err);
    hasten_status st = it->q->two_facts ? build_facts(it, k, t, err) : build_book(it, k, t, err);
    if (st)
        return st;
    item->context = t->len;
    int bad = it->q->two_facts
                  ? buf_printf(t, "\n\nQuestion: In which town does the person live who keeps the %s?",
                               eval_noun(it->thing[0]))
                  : buf_printf(t, "\n\nQuestion: %s", it->question->text);
    bad |= buf_printf(t, " Answer in a few words.%s", it->q->s.raw ? "\nAnswer:" : "");
    return bad ? eval_no_memory(err) : HASTEN_OK;
}

static hasten_status qa_item(void *state, int32_t index, struct eval_item *item, struct hasten_error *err)
{
    struct qa *q = state;
    struct qa_item it = {.q = q, .index = index};
    item->n_turns = 1;
    item->max_new[0] = 40;
    if (q->s.raw) {
        item->stops = eval_stop_line;
        item->n_stops = 1;
    }
    hasten_status st = make_item(&it, err);
    if (!st && buf_printf(&item->id, "%d/%d", (int)q->s.length, (int)index))
        st = eval_no_memory(err);
    if (!st && q->two_facts)
        st = eval_want(item, eval_town(it.town[0]), err);
    for (int i = 0; i < 3 && !st && !q->two_facts && it.question->answer[i]; i++)
        st = eval_want(item, it.question->answer[i], err);
    return st ? st : eval_fit(&q->s, q->task->name, 1 << 20, qa_build, &it, item, err);
}

static hasten_status qa_score(void *state, const struct eval_item *item, const struct buf *answers,
                              struct eval_score *out, struct hasten_error *err)
{
    (void)state;
    (void)err;
    out->score = eval_share_found(item, 0, -1, answers[0].data) > 0;
    return HASTEN_OK;
}

#define QA(task_name, task_title, two)                                                                       \
    {                                                                                                        \
        .name = task_name, .title = task_title, .whole = true, .open = qa_open, .item = qa_item,             \
        .score = qa_score, .close = qa_close, .variant = &(const bool)                                       \
        {                                                                                                    \
            two                                                                                              \
        }                                                                                                    \
    }

const struct eval_task eval_ruler_qa[2] = {
    QA("qa_1", "what one sentence of a book says", false),
    QA("qa_2", "two facts of a text, joined", true),
};
