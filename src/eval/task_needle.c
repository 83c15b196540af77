/* needle, and RULER's eight variants of it: sentences hidden in a long text, to be found again (Kamradt's "needle in a
 * haystack", 2023; Hsieh et al., "RULER: What's the real context size of your long-context language models?", 2024,
 * section 3.1, whose names and numbers of keys, values and queries these are; the wording is ours).
 *
 * Score: the share of the wanted values that the answer holds. */
#include "eval/prose.h"
#include <string.h>

enum haystack {
    NOTHING,
    PROSE,
    NEEDLES
};

struct niah {
    enum haystack haystack; /* sentences about nothing, a book, or further needles */
    bool codes;             /* values are codes of 32 hexadecimal digits in groups, not numbers of 7 digits */
    int32_t n_keys, n_values, n_queries; /* keys hidden, values of the first key, keys asked for */
    bool depths;                         /* the needle lies at 0, 25, 50, 75, 100 % in turn, else anywhere */
};

struct niah_state {
    const struct eval_task *task;
    const struct niah *v;
    struct eval_task_settings s;
    struct eval_prose prose;
};

#define KEYS 2048 /* adjectives × nouns */

struct niah_item { /* what an item hides and asks */
    const struct niah_state *st;
    int32_t index, from;
    int32_t key[EVAL_MAX_NEEDLES];
    char value[EVAL_MAX_NEEDLES][40];
    double depth[EVAL_MAX_NEEDLES];
    int32_t n; /* needles that are asked for or might be */
};

static void niah_close(void *state)
{
    struct niah_state *st = state;
    if (st)
        eval_prose_close(&st->prose);
    mem_free(st);
}

static hasten_status niah_open(const struct eval_task *task, const struct eval_task_settings *s, void **state,
                               int32_t *n_items, struct hasten_error *err)
{
    struct niah_state *st = mem_calloc(1, sizeof *st);
    *state = st;
    if (!st)
        return eval_no_memory(err);
    st->task = task;
    st->v = task->variant;
    st->s = *s;
    *n_items = s->n_items;
    hasten_status status = eval_prose_open(s->data, &st->prose, err);
    if (status) {
        niah_close(st);
        *state = NULL;
    }
    return status;
}

/* ---- values -------------------------------------------------------------------------------------------- */

static void make_value(struct eval_rng *r, bool code, char out[40])
{
    if (!code) {
        snprintf(out, 40, "%d", 1000000 + (int)eval_pick(r, 9000000));
        return;
    }
    snprintf(out, 40, "%08x-%04x-%04x-%04x-%06x%06x", (unsigned)eval_pick(r, INT32_MAX),
             (unsigned)eval_pick(r, 65536), (unsigned)eval_pick(r, 65536), (unsigned)eval_pick(r, 65536),
             (unsigned)eval_pick(r, 1 << 24), (unsigned)eval_pick(r, 1 << 24));
}

static int put_key(struct buf *out, int32_t key)
{
    return buf_printf(out, "%s %s", eval_adjective(key / EVAL_NOUNS), eval_noun(key % EVAL_NOUNS));
}

static const char *kind(const struct niah *v)
{
    return v->codes ? "code" : "number";
}

static void make_item(struct niah_item *it)
{
    const struct niah *v = it->st->v;
    struct eval_rng r;
    int32_t keys[EVAL_MAX_NEEDLES];
    eval_rng_start(&r, it->st->s.seed, it->st->task->name, it->index);
    eval_choose(&r, KEYS, v->n_keys, keys);
    it->from = eval_pick(&r, it->st->prose.n);
    it->n = 0;
    for (int32_t k = 0; k < v->n_keys; k++)
        for (int32_t j = 0; j < (k == 0 ? v->n_values : 1); j++, it->n++) {
            it->key[it->n] = keys[k];
            make_value(&r, v->codes, it->value[it->n]);
            it->depth[it->n] = v->depths ? it->index % 5 / 4.0 : eval_pick(&r, 1000) / 999.0;
        }
}

/* ---- the prompt ---------------------------------------------------------------------------------------- */

/* A haystack of needles: k more with keys and values of their own, in the order of their numbers. */
static int put_needles(const struct niah_item *it, int32_t k, struct buf *text)
{
    const struct niah *v = it->st->v;
    struct eval_rng r;
    int bad = 0;
    eval_rng_start(&r, it->st->s.seed ^ 0x6e65, it->st->task->name, it->index);
    for (int32_t i = 0; i <= k && !bad; i++) {
        char value[40];
        for (int32_t j = 0; j < it->n; j++)
            if ((int32_t)(it->depth[j] * k) == i) {
                bad |= buf_printf(text, "The secret %s of the ", kind(v)) || put_key(text, it->key[j]) ||
                       buf_printf(text, " is %s. ", it->value[j]);
            }
        int32_t key = eval_pick(&r, KEYS);
        for (int32_t j = 0; j < it->n; j++)
            key = key == it->key[j] ? (key + KEYS / 2 + 1) % KEYS : key;
        make_value(&r, v->codes, value);
        if (i < k)
            bad |= buf_printf(text, "The secret %s of the ", kind(v)) || put_key(text, key) ||
                   buf_printf(text, " is %s. ", value);
    }
    return bad;
}

static int put_text(const struct niah_item *it, int32_t k, struct buf *text)
{
    const struct niah *v = it->st->v;
    struct eval_needle needle[EVAL_MAX_NEEDLES];
    struct buf sentence[EVAL_MAX_NEEDLES] = {{0}};
    int bad = 0;
    if (v->haystack == NEEDLES)
        return put_needles(it, k, text);
    for (int32_t i = 0; i < it->n; i++) {
        bad |= buf_printf(&sentence[i], "The secret %s of the ", kind(v)) ||
               put_key(&sentence[i], it->key[i]) || buf_printf(&sentence[i], " is %s.", it->value[i]);
        needle[i] = (struct eval_needle){sentence[i].data ? sentence[i].data : "", it->depth[i]};
    }
    bad |= eval_haystack(v->haystack == PROSE ? &it->st->prose : NULL, it->from, k, needle, it->n, text);
    for (int32_t i = 0; i < it->n; i++)
        buf_free(&sentence[i]);
    return bad;
}

static hasten_status niah_build(void *ctx, int32_t k, struct eval_item *item, struct hasten_error *err)
{
    const struct niah_item *it = ctx;
    const struct niah *v = it->st->v;
    const char *what = kind(v);
    struct buf *t = &item->turns[0];
    int bad = buf_printf(
        t,
        "Secret %ss are hidden in the following text. Read it carefully; a question about them comes "
        "at its end.\n\n",
        what);
    bad |= put_text(it, k, t);
    item->context = t->len;
    bad |= v->n_values > 1 ? buf_printf(t, "\n\nWhat are all %d secret %ss of the ", (int)v->n_values, what)
           : v->n_queries > 1 ? buf_printf(t, "\n\nWhat are the secret %ss of the ", what)
                              : buf_printf(t, "\n\nWhat is the secret %s of the ", what);
    for (int32_t q = 0; q < v->n_queries; q++) {
        if (q > 0)
            bad |= buf_puts(t, q + 1 < v->n_queries ? ", the " : " and the ");
        bad |= put_key(t, it->key[q == 0 ? 0 : q + v->n_values - 1]);
    }
    const bool one = v->n_values == 1 && v->n_queries == 1;
    bad |= buf_printf(t, ", as the text above says? Answer with the %s%s alone.", what, one ? "" : "s");
    if (it->st->s.raw)
        bad |= buf_puts(t, "\nAnswer:");
    return bad ? eval_no_memory(err) : HASTEN_OK;
}

static hasten_status niah_item(void *state, int32_t index, struct eval_item *item, struct hasten_error *err)
{
    struct niah_state *st = state;
    struct niah_item it = {.st = st, .index = index};
    hasten_status status = HASTEN_OK;
    make_item(&it);
    const int32_t wanted = st->v->n_values + st->v->n_queries - 1;
    item->n_turns = 1;
    item->max_new[0] = 16 + wanted * (st->v->codes ? 48 : 16);
    if (st->s.raw) {
        item->stops = eval_stop_line;
        item->n_stops = 1;
    }
    if (st->v->depths
            ? buf_printf(&item->id, "%d/%d%%/%d", (int)st->s.length, (int)(index % 5 * 25), (int)index)
            : buf_printf(&item->id, "%d/%d", (int)st->s.length, (int)index))
        return eval_no_memory(err);
    for (int32_t i = 0; i < wanted && !status; i++)
        status = eval_want(item, it.value[i], err);
    return status ? status : eval_fit(&st->s, st->task->name, 1 << 20, niah_build, &it, item, err);
}

#define NIAH(task_name, task_title, ...)                                                                     \
    {                                                                                                        \
        .name = task_name, .title = task_title, .open = niah_open, .item = niah_item,                        \
        .score = eval_score_share, .close = niah_close, .variant = &(const struct niah)                      \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

const struct eval_task eval_needle =
    NIAH("needle", "one sentence in a book, at five depths", PROSE, false, 1, 1, 1, true);

const struct eval_task eval_ruler_niah[8] = {
    NIAH("niah_single_1", "one number among sentences about nothing", NOTHING, false, 1, 1, 1, false),
    NIAH("niah_single_2", "one number in a book", PROSE, false, 1, 1, 1, false),
    NIAH("niah_single_3", "one code in a book", PROSE, true, 1, 1, 1, false),
    NIAH("niah_multikey_1", "one of four numbers in a book", PROSE, false, 4, 1, 1, false),
    NIAH("niah_multikey_2", "one number among many", NEEDLES, false, 1, 1, 1, false),
    NIAH("niah_multikey_3", "one code among many", NEEDLES, true, 1, 1, 1, false),
    NIAH("niah_multivalue", "all four numbers of one key in a book", PROSE, false, 1, 4, 1, false),
    NIAH("niah_multiquery", "the numbers of four keys in a book", PROSE, false, 4, 1, 4, false),
};
