/* RULER's tasks beyond needles (Hsieh et al. 2024, sections 3.2 and 3.3): variable tracking, common words, frequent
 * words. Sizes and names are the paper's, the wording ours. Score: the share of the wanted words that the answer
 * holds. */
#include "eval/prose.h"
#include <math.h>
#include <string.h>

enum kind {
    TRACKING,
    COMMON,
    FREQUENT
};

struct ruler {
    const struct eval_task *task;
    struct eval_task_settings s;
    enum kind kind;
};

#define CHAIN 5 /* variables of a chain: four hops */
#define N_COMMON 10
#define LEAST_OTHERS 40 /* words beside the common ones */
#define N_FREQUENT 3
#define MOST_WORDS 4000 /* more than that eval_compound does not have */
#define MOST_UNITS (1 << 20)

struct ruler_item {
    const struct ruler *r;
    int32_t index;
    char word[N_COMMON][32]; /* wanted */
    int32_t number[N_COMMON];
    int32_t value;
    int32_t often; /* how often a common word comes */
};

static void ruler_close(void *state)
{
    mem_free(state);
}

static hasten_status ruler_open(const struct eval_task *task, const struct eval_task_settings *s,
                                void **state, int32_t *n_items, struct hasten_error *err)
{
    struct ruler *r = mem_calloc(1, sizeof *r);
    *state = r;
    if (!r)
        return eval_no_memory(err);
    *r = (struct ruler){task, *s, *(const enum kind *)task->variant};
    *n_items = s->n_items;
    return HASTEN_OK;
}

/* ---- variable tracking --------------------------------------------------------------------------------- */

static void make_names(struct eval_rng *g, char name[][32], int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        for (int j = 0; j < 5; j++)
            name[i][j] = (char)('A' + eval_pick(g, 26));
        name[i][5] = '\0';
        for (int32_t k = 0; k < i; k++)
            if (strcmp(name[k], name[i]) == 0) { /* once more */
                i--;
                break;
            }
    }
}

static hasten_status build_tracking(void *ctx, int32_t k, struct eval_item *item, struct hasten_error *err)
{
    const struct ruler_item *it = ctx;
    struct eval_needle needle[CHAIN];
    char text[CHAIN][64];
    struct eval_rng g;
    eval_rng_start(&g, it->r->s.seed ^ 0x7674, it->r->task->name, it->index);
    for (int32_t i = 0; i < CHAIN; i++) {
        if (i == 0)
            snprintf(text[i], sizeof text[i], "VAR %s = %d.", it->word[i], (int)it->value);
        else
            snprintf(text[i], sizeof text[i], "VAR %s = VAR %s.", it->word[i], it->word[i - 1]);
        needle[i] = (struct eval_needle){text[i], (i + eval_pick(&g, 900) / 999.0) / CHAIN}; /* in order */
    }
    struct buf *t = &item->turns[0];
    int bad =
        buf_puts(t, "Variables are set in the following text, some to a number, some to another variable. "
                    "Follow them.\n\n");
    bad |= eval_haystack(NULL, it->index % 5, k, needle, CHAIN, t);
    item->context = t->len;
    bad |=
        buf_printf(t,
                   "\n\nWhich %d variables have the value %d, directly or through others? Answer with their "
                   "names alone.%s",
                   CHAIN, (int)it->value, it->r->s.raw ? "\nAnswer:" : "");
    return bad ? eval_no_memory(err) : HASTEN_OK;
}

/* ---- words --------------------------------------------------------------------------------------------- */

/* Appends list[n] of words, shuffled, as "1. word". */
static hasten_status put_words(const struct ruler_item *it, int32_t *list, int32_t n, bool numbered,
                               struct buf *t, void (*spell)(const struct ruler_item *, int32_t, char[32]),
                               struct hasten_error *err)
{
    struct eval_rng g;
    int bad = 0;
    eval_rng_start(&g, it->r->s.seed ^ 0x776f, it->r->task->name, it->index);
    eval_shuffle(&g, list, n);
    for (int32_t i = 0; i < n && !bad; i++) {
        char word[32];
        spell(it, list[i], word);
        bad = numbered ? buf_printf(t, "%d. %s\n", (int)i + 1, word) : buf_printf(t, "%s ", word);
    }
    return bad ? eval_no_memory(err) : HASTEN_OK;
}

/* Word w of an item's order of all compounds: the first N_COMMON are the common ones. */
static void spell_common(const struct ruler_item *it, int32_t w, char out[32])
{
    if (w < N_COMMON)
        memcpy(out, it->word[w], sizeof it->word[w]);
    else
        eval_compound((it->number[0] + w * 1657) % 4096, out); /* 1657 is odd: all are visited */
}

static hasten_status build_common(void *ctx, int32_t more, struct eval_item *item, struct hasten_error *err)
{
    const struct ruler_item *it = ctx;
    const int32_t k = more + LEAST_OTHERS;
    const int32_t often = it->often, rarely = often >= 30 ? 3 : often >= 12 ? 2 : 1;
    const int32_t n = N_COMMON * often + k * rarely;
    struct buf *t = &item->turns[0];
    int32_t *list = mem_array((size_t)n, sizeof *list), at = 0;
    if (!list ||
        buf_puts(t, "In the following numbered list some words come much more often than the others.\n\n")) {
        mem_free(list);
        return eval_no_memory(err);
    }
    for (int32_t w = 0; w < N_COMMON + k; w++)
        for (int32_t i = 0; i < (w < N_COMMON ? often : rarely); i++)
            list[at++] = w;
    hasten_status st = put_words(it, list, n, true, t, spell_common, err);
    mem_free(list);
    item->context = t->len;
    if (!st && buf_printf(t, "\nWhich %d words come most often in this list? Answer with the words alone.%s",
                          N_COMMON, it->r->s.raw ? "\nAnswer:" : ""))
        st = eval_no_memory(err);
    return st;
}

/* Made-up words of six letters; the first N_FREQUENT are wanted. */
static void spell_coded(const struct ruler_item *it, int32_t w, char out[32])
{
    if (w < N_FREQUENT) {
        memcpy(out, it->word[w], sizeof it->word[w]);
        return;
    }
    struct eval_rng g;
    eval_rng_start(&g, it->r->s.seed ^ 0x636f, it->r->task->name, it->index * 100000 + w);
    for (int i = 0; i < 6; i++)
        out[i] = (char)('a' + eval_pick(&g, 26));
    out[6] = '\0';
}

/* k words by Zipf's law with exponent 2: the r-th of them k / (zeta(2) r^2) times, at least once while room is. */
static hasten_status build_frequent(void *ctx, int32_t k, struct eval_item *item, struct hasten_error *err)
{
    const struct ruler_item *it = ctx;
    struct buf *t = &item->turns[0];
    const int32_t n = k + 40; /* the three and the fourth differ in number: 24, 6, 2, 1 at least */
    int32_t *list = mem_array((size_t)n, sizeof *list), at = 0;
    if (!list ||
        buf_puts(
            t,
            "The following text is written in a code. Some of its words come more often than others.\n\n")) {
        mem_free(list);
        return eval_no_memory(err);
    }
    for (int32_t w = 0; at < n; w++) {
        int32_t times = (int32_t)(n / (1.6449340668 * (w + 1) * (w + 1)));
        for (times = times > 1 ? times : 1; times > 0 && at < n; times--)
            list[at++] = w;
    }
    hasten_status st = put_words(it, list, n, false, t, spell_coded, err);
    mem_free(list);
    item->context = t->len;
    if (!st &&
        buf_printf(t, "\n\nWhich %d words come most often in this text? Answer with the words alone.%s",
                   N_FREQUENT, it->r->s.raw ? "\nAnswer:" : ""))
        st = eval_no_memory(err);
    return st;
}

/* ---- items --------------------------------------------------------------------------------------------- */

static int32_t make_item(struct ruler_item *it)
{
    struct eval_rng g;
    eval_rng_start(&g, it->r->s.seed, it->r->task->name, it->index);
    switch (it->r->kind) {
    case TRACKING:
        it->value = 10000 + eval_pick(&g, 90000);
        make_names(&g, it->word, CHAIN);
        return CHAIN;
    case COMMON:
        it->number[0] = eval_pick(&g, 4096);
        for (int32_t i = 0; i < N_COMMON; i++) /* places that spell_common does not reach before w = 4096 */
            eval_compound((it->number[0] + i * 1657) % 4096, it->word[i]);
        return N_COMMON;
    default:
        make_names(&g, it->word, N_FREQUENT);
        for (int32_t i = 0; i < N_FREQUENT; i++) {
            for (int j = 0; j < 5; j++)
                it->word[i][j] = (char)(it->word[i][j] + 'a' - 'A');
            it->word[i][5] = (char)('a' + eval_pick(&g, 26));
            it->word[i][6] = '\0';
        }
        return N_FREQUENT;
    }
}

static hasten_status ruler_item(void *state, int32_t index, struct eval_item *item, struct hasten_error *err)
{
    static const eval_build_fn builders[] = {build_tracking, build_common, build_frequent};
    static const int32_t most[] = {MOST_UNITS, MOST_WORDS, MOST_UNITS}, room[] = {60, 120, 60};
    struct ruler *r = state;
    struct ruler_item it = {.r = r, .index = index};
    hasten_status st = HASTEN_OK;
    const int32_t n = make_item(&it);
    item->n_turns = 1;
    item->max_new[0] = room[r->kind];
    if (r->s.raw) {
        item->stops = eval_stop_line;
        item->n_stops = 1;
    }
    if (buf_printf(&item->id, "%d/%d", (int)r->s.length, (int)index))
        return eval_no_memory(err);
    for (int32_t i = 0; i < n && !st; i++)
        st = eval_want(item, it.word[i], err);
    if (st)
        return st;
    /* Common words come 30 times, as in the paper, where the length has room for that, else fewer. */
    for (it.often = 30;; it.often /= 2) {
        st = eval_fit(&r->s, r->task->name, most[r->kind], builders[r->kind], &it, item, err);
        if (st != HASTEN_ERR_USAGE || r->kind != COMMON || it.often < 6)
            return st;
    }
}

#define RULER(task_name, task_title, k)                                                                      \
    {                                                                                                        \
        .name = task_name, .title = task_title, .open = ruler_open, .item = ruler_item,                      \
        .score = eval_score_share, .close = ruler_close, .variant = &(const enum kind)                       \
        {                                                                                                    \
            k                                                                                                \
        }                                                                                                    \
    }

const struct eval_task eval_ruler_vt = RULER("vt", "variables followed through four assignments", TRACKING);
const struct eval_task eval_ruler_cwe = RULER("cwe", "the ten common words of a list", COMMON);
const struct eval_task eval_ruler_fwe = RULER("fwe", "the three frequent words of a coded text", FREQUENT);
