/* Grammars that are kept (grammars.h). */
#include "serve/grammars.h"
#include "base/limits.h"
#include "base/mem.h"
#include <pthread.h>
#include <string.h>

struct entry {
    struct kept_grammar kept; /* the first member: what is given out is the entry */
    char *text;
    size_t len;
    bool never_end;
    int n_users;
    uint64_t used_at;
};

struct grammars {
    const struct vocab *vocab;
    int32_t n_vocab;
    pthread_mutex_t making;  /* of who compiles, which may take seconds: taken before the lock */
    struct token_trie *trie; /* made with the first grammar, under `making` */
    pthread_mutex_t lock;    /* of what follows; never for long, as the engine's thread gives grammars back */
    struct entry *list[LIMIT_SERVE_GRAMMARS];
    uint64_t clock;
};

hasten_status grammars_open(const struct vocab *v, int32_t n_vocab, struct grammars **out,
                            struct hasten_error *err)
{
    struct grammars *g = mem_calloc(1, sizeof *g);
    if (!g)
        return error_set(err, HASTEN_ERR_MEMORY, "grammars: out of memory");
    g->vocab = v;
    g->n_vocab = n_vocab;
    pthread_mutex_init(&g->making, NULL);
    pthread_mutex_init(&g->lock, NULL);
    *out = g;
    return HASTEN_OK;
}

static void close_entry(struct entry *e)
{
    if (!e)
        return;
    grammar_masks_close(e->kept.masks);
    grammar_close(e->kept.grammar);
    mem_free(e->text);
    mem_free(e);
}

void grammars_close(struct grammars *g)
{
    if (!g)
        return;
    for (int i = 0; i < LIMIT_SERVE_GRAMMARS; i++)
        close_entry(g->list[i]);
    token_trie_close(g->trie);
    pthread_mutex_destroy(&g->making);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

static hasten_status compile(struct grammars *g, const char *name, const char *text, size_t len,
                             bool never_end, struct entry **out, struct hasten_error *err)
{
    struct entry *e = mem_calloc(1, sizeof *e);
    hasten_status st = e ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", name);
    if (!st)
        st = grammar_open(name, text, len, &e->kept.grammar, err);
    if (!st)
        st = grammar_masks_open(e->kept.grammar, g->trie, GRAMMAR_TRIE, never_end, &e->kept.masks, err);
    if (!st) {
        e->text = mem_strndup(text, len);
        e->len = len;
        e->never_end = never_end;
        if (!e->text)
            st = error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory", name);
    }
    if (st)
        close_entry(e);
    else
        *out = e;
    return st;
}

/* Under the lock: a place for one more; -1 when all are in use. */
static int place(const struct grammars *g)
{
    int best = -1;
    for (int i = 0; i < LIMIT_SERVE_GRAMMARS; i++) {
        if (!g->list[i])
            return i;
        if (!g->list[i]->n_users && (best < 0 || g->list[i]->used_at < g->list[best]->used_at))
            best = i;
    }
    return best;
}

/* One that is kept, with one user more; NULL: there is none. */
static struct entry *take_kept(struct grammars *g, const char *text, size_t len, bool never_end)
{
    struct entry *found = NULL;
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < LIMIT_SERVE_GRAMMARS && !found; i++) {
        struct entry *e = g->list[i];
        if (e && e->len == len && e->never_end == never_end && memcmp(e->text, text, len) == 0)
            found = e;
    }
    if (found) {
        found->n_users++;
        found->used_at = ++g->clock;
    }
    pthread_mutex_unlock(&g->lock);
    return found;
}

/* Keeps a new one, with one user, in place of the one that was used longest ago. False: all are in use. */
static bool keep(struct grammars *g, struct entry *e)
{
    struct entry *old = NULL;
    pthread_mutex_lock(&g->lock);
    const int at = place(g);
    if (at >= 0) {
        old = g->list[at];
        g->list[at] = e;
        e->n_users = 1;
        e->used_at = ++g->clock;
    }
    pthread_mutex_unlock(&g->lock);
    close_entry(old);
    return at >= 0;
}

/* Under `making`: two requests with one new grammar would else compile it twice. A hostile one is bounded by the limits of
 * grammars. */
static hasten_status make(struct grammars *g, const char *name, const char *text, size_t len, bool never_end,
                          struct entry **out, struct hasten_error *err)
{
    hasten_status st = g->trie ? HASTEN_OK : token_trie_open(g->vocab, g->n_vocab, &g->trie, err);
    if (!st)
        st = compile(g, name, text, len, never_end, out, err);
    if (!st && !keep(g, *out)) {
        close_entry(*out);
        st = error_set(err, HASTEN_ERR_MEMORY, "%s: %d grammars are in use (try again later)", name,
                       LIMIT_SERVE_GRAMMARS);
    }
    return st;
}

hasten_status grammars_take(struct grammars *g, const char *name, const char *text, size_t len,
                            bool never_end, const struct kept_grammar **out, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    struct entry *e = take_kept(g, text, len, never_end);
    if (!e) {
        pthread_mutex_lock(&g->making);
        e = take_kept(g, text, len, never_end);
        if (!e)
            st = make(g, name, text, len, never_end, &e, err);
        pthread_mutex_unlock(&g->making);
    }
    if (!st)
        *out = &e->kept;
    return st;
}

void grammars_give(struct grammars *g, const struct kept_grammar *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&g->lock);
    ((struct entry *)(uintptr_t)k)->n_users--;
    pthread_mutex_unlock(&g->lock);
}
