/* Haystacks (prose.h). */
#include "eval/prose.h"
#include "base/file.h"
#include "base/limits.h"
#include "bench/text.h"
#include <ctype.h>
#include <string.h>

#define LEAST_SENTENCE 20 /* bytes; headings and the like are left out */
#define LEAST_SENTENCES 20

/* ---- sentences ----------------------------------------------------------------------------------------- */

/* Whether a sentence ends before text[i]: behind its mark and closing quotes, at white space; or at an empty line. */
static bool ends_before(const char *text, size_t i)
{
    if (text[i] == '\n' && text[i + 1] == '\n')
        return true;
    if (!isspace((unsigned char)text[i]))
        return false;
    while (i > 0 && strchr("'\")_", text[i - 1]))
        i--;
    return i > 0 && strchr(".!?", text[i - 1]);
}

static int add_sentence(struct eval_prose *p, size_t at, size_t end)
{
    while (at < end && isspace((unsigned char)p->text[at]))
        at++;
    if (end - at < LEAST_SENTENCE)
        return 0;
    if (p->n == p->cap) {
        const int32_t cap = p->cap ? 2 * p->cap : 1024;
        size_t *a = mem_realloc(p->at, (size_t)cap * sizeof *a);
        p->at = a ? a : p->at;
        size_t *l = mem_realloc(p->len, (size_t)cap * sizeof *l);
        p->len = l ? l : p->len;
        if (!a || !l)
            return -1;
        p->cap = cap;
    }
    p->at[p->n] = at;
    p->len[p->n++] = end - at;
    return 0;
}

hasten_status eval_prose_open(const char *data, struct eval_prose *out, struct hasten_error *err)
{
    size_t len = 0, begin = 0;
    hasten_status st = data ? file_slurp(data, LIMIT_TEXT_BYTES, &out->own, &len, err) : HASTEN_OK;
    out->text = data ? out->own : bench_text;
    if (!data)
        len = strlen(bench_text);
    for (size_t i = 0; i <= len && !st; i++)
        if (i == len || ends_before(out->text, i)) {
            st = add_sentence(out, begin, i) ? eval_no_memory(err) : HASTEN_OK;
            begin = i;
        }
    if (!st && out->n < LEAST_SENTENCES)
        st = error_set(err, HASTEN_ERR_FILE, "%s: %d sentences (expected at least %d)", data ? data : "text",
                       (int)out->n, LEAST_SENTENCES);
    if (st)
        eval_prose_close(out);
    return st;
}

void eval_prose_close(struct eval_prose *p)
{
    mem_free(p->own);
    mem_free(p->at);
    mem_free(p->len);
    *p = (struct eval_prose){0};
}

/* ---- haystacks ----------------------------------------------------------------------------------------- */

static const char *const nothing[] = {"The road is long and quiet.", "A cart goes by.",
                                      "The dust settles again.", "Somewhere a door is closed.",
                                      "It is neither early nor late."};

/* Needle numbers in order of depth. */
static void order(const struct eval_needle *needles, int32_t n, int32_t *out)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t j = i;
        for (; j > 0 && needles[out[j - 1]].depth > needles[i].depth; j--)
            out[j] = out[j - 1];
        out[j] = i;
    }
}

int eval_haystack(const struct eval_prose *p, int32_t from, int32_t n_sentences,
                  const struct eval_needle *needles, int32_t n_needles, struct buf *out)
{
    int32_t sorted[EVAL_MAX_NEEDLES], next = 0, bad = 0;
    bool first = true;
    order(needles, n_needles, sorted);
    for (int32_t i = 0; i <= n_sentences && !bad; i++) {
        while (next < n_needles &&
               (i == n_sentences || needles[sorted[next]].depth * n_sentences < i + 0.5)) {
            bad |= buf_printf(out, "%s%s", first ? "" : " ", needles[sorted[next++]].text);
            first = false;
        }
        if (i == n_sentences)
            break;
        const int32_t s = p ? (from + i) % p->n : (from + i) % (int32_t)(sizeof nothing / sizeof *nothing);
        bad |= first ? 0 : buf_putc(out, ' ');
        bad |= p ? buf_put(out, p->text + p->at[s], p->len[s]) : buf_puts(out, nothing[s]);
        first = false;
    }
    return bad;
}

/* ---- lengths ------------------------------------------------------------------------------------------- */

struct fit {
    const struct eval_task_settings *s;
    eval_build_fn build;
    void *ctx;
    struct eval_item *item;
};

static hasten_status measure(const struct fit *f, int32_t k, int64_t *n, struct hasten_error *err)
{
    for (int i = 0; i < EVAL_MAX_TURNS; i++)
        buf_clear(&f->item->turns[i]);
    hasten_status st = f->build(f->ctx, k, f->item, err);
    *n = st ? 0 : f->s->count(f->s->count_ctx, f->item, err);
    return st ? st : *n < 0 ? err->status : HASTEN_OK;
}

hasten_status eval_fit(const struct eval_task_settings *s, const char *task, int32_t most,
                       eval_build_fn build, void *ctx, struct eval_item *item, struct hasten_error *err)
{
    const struct fit f = {s, build, ctx, item};
    int64_t n = 0;
    int32_t lo = 0, hi = 8, built = 0;
    hasten_status st = measure(&f, 0, &n, err);
    if (!st && n > s->length)
        return error_set(err, HASTEN_ERR_USAGE,
                         "%s: --length %d, but an item takes %lld tokens without any filler", task,
                         (int)s->length, (long long)n);
    while (!st && hi <= most && !(st = measure(&f, built = hi, &n, err)) && n <= s->length) {
        lo = hi;
        const int64_t guess = (int64_t)((double)hi * s->length / (double)(n + 1)) + 2;
        hi = guess > 2 * (int64_t)hi ? (guess < most ? (int32_t)guess : most) : 2 * hi;
        if (lo == most)
            break;
        hi = hi > most ? most : hi;
    }
    while (!st && hi - lo > 1 + lo / 128) {
        const int32_t mid = lo + (hi - lo) / 2;
        st = measure(&f, built = mid, &n, err);
        if (n <= s->length)
            lo = mid;
        else
            hi = mid;
    }
    if (!st && built != lo)
        st = measure(&f, lo, &n, err);
    return st;
}

/* ---- words --------------------------------------------------------------------------------------------- */

static const char *const nouns[EVAL_NOUNS] = {
    "anchor", "basket",   "candle",  "dragon", "engine",  "feather", "garden",  "hammer", "island", "jacket",
    "kettle", "lantern",  "mirror",  "needle", "orchard", "pillow",  "quarry",  "ribbon", "saddle", "temple",
    "urn",    "violin",   "wagon",   "yard",   "acorn",   "bridge",  "canyon",  "door",   "eagle",  "flute",
    "glove",  "harbor",   "inkwell", "jar",    "kite",    "ladder",  "meadow",  "net",    "oven",   "parcel",
    "quilt",  "river",    "shovel",  "tower",  "barrel",  "valley",  "whistle", "anvil",  "button", "cellar",
    "drum",   "envelope", "fence",   "goblet", "helmet",  "ivory",   "jewel",   "knot",   "lemon",  "marble",
    "nest",   "onion",    "pebble",  "rope"};
static const char *const adjectives[32] = {
    "amber",  "brave",  "calm",    "dusty",  "early",  "frozen", "gentle", "hollow",
    "idle",   "jolly",  "keen",    "little", "mellow", "narrow", "old",    "patient",
    "quick",  "rusty",  "silent",  "tall",   "upper",  "velvet", "wooden", "yellow",
    "bitter", "clever", "distant", "empty",  "fancy",  "golden", "humble", "iron"};
static const char *const names[EVAL_NAMES] = {
    "Agnes", "Bruno", "Clara", "Dario", "Edith", "Felix",  "Greta", "Hugo",  "Irene",  "Jonas", "Klara",
    "Luca",  "Marta", "Nils",  "Olga",  "Pavel", "Renata", "Simon", "Tessa", "Ulrich", "Vera",  "Walter",
    "Xenia", "Yves",  "Zora",  "Anton", "Berta", "Cyril",  "Doris", "Emil",  "Flora",  "Georg"};
static const char *const towns[32] = {
    "Aberdeen",  "Bergen",  "Cadiz",   "Dresden", "Exeter",  "Florence",  "Ghent",    "Hanover",
    "Innsbruck", "Jena",    "Krakow",  "Lisbon",  "Malmo",   "Nantes",    "Oviedo",   "Porto",
    "Quebec",    "Riga",    "Seville", "Turin",   "Utrecht", "Verona",    "Warsaw",   "York",
    "Zurich",    "Antwerp", "Basel",   "Cork",    "Delft",   "Edinburgh", "Freiburg", "Graz"};

const char *eval_noun(int32_t i)
{
    return nouns[i % EVAL_NOUNS];
}

const char *eval_adjective(int32_t i)
{
    return adjectives[i % 32];
}

const char *eval_name(int32_t i)
{
    return names[i % EVAL_NAMES];
}

const char *eval_town(int32_t i)
{
    return towns[i % 32];
}

void eval_compound(int32_t i, char out[32])
{
    snprintf(out, 32, "%s%s", nouns[i / EVAL_NOUNS % EVAL_NOUNS], nouns[i % EVAL_NOUNS]);
}
