/* The radix tree beside the simplest thing that does the same: a list of sequences, compared one by one. Random paths over
 * few tokens come and go; what is found, what is counted and how it hangs together must agree at every step. */
#include "base/rng.h"
#include "store/tree.h"
#include <stdio.h>
#include <string.h>

#define N_PATHS 12
#define N_TOKENS 40

static uint64_t counter;
static uint32_t chance(uint32_t n)
{
    uint32_t r[4];
    philox4x32((const uint32_t[4]){(uint32_t)counter, (uint32_t)(counter >> 32), 0, 3},
               (const uint32_t[2]){1, 2}, r);
    counter++;
    return r[0] % n;
}

struct naive {
    int32_t tokens[N_TOKENS];
    int32_t n; /* 0: free */
    uint64_t scope;
};

static int32_t common(const int32_t *a, int32_t na, const int32_t *b, int32_t nb)
{
    int32_t i = 0;
    while (i < na && i < nb && a[i] == b[i])
        i++;
    return i;
}

/* Distinct beginnings: what sequences have in common counts once. */
static int64_t positions(const struct naive *list)
{
    int64_t n = 0;
    for (int i = 0; i < N_PATHS; i++) {
        int32_t shared = 0;
        for (int j = 0; j < i; j++)
            if (list[i].n && list[j].n && list[i].scope == list[j].scope) {
                const int32_t c = common(list[i].tokens, list[i].n, list[j].tokens, list[j].n);
                shared = c > shared ? c : shared;
            }
        n += list[i].n - shared;
    }
    return n;
}

static const char *look(const struct tree *t, const struct naive *list)
{
    int32_t query[N_TOKENS];
    const int32_t n = (int32_t)chance(N_TOKENS + 1);
    const uint64_t scope = chance(3);
    int32_t best = 0;
    for (int32_t i = 0; i < n; i++)
        query[i] = (int32_t)chance(2);
    if (chance(2)) /* a beginning of one that is there */
        memcpy(query, list[chance(N_PATHS)].tokens, sizeof query);
    for (int i = 0; i < N_PATHS; i++)
        if (list[i].n && list[i].scope == scope) {
            const int32_t c = common(list[i].tokens, list[i].n, query, n);
            best = c > best ? c : best;
        }
    const struct tree_hit h = tree_find(t, scope, query, n);
    if (h.common != best)
        return "finds another length";
    if (best &&
        (list[h.path].scope != scope || common(list[h.path].tokens, list[h.path].n, query, n) != best))
        return "finds a sequence that does not begin so";
    return tree_problem(t);
}

static const char *step(struct tree *t, struct naive *list)
{
    const int32_t i = (int32_t)chance(N_PATHS);
    struct naive *p = &list[i];
    if (p->n) {
        tree_remove(t, i);
        p->n = 0;
    } else {
        struct naive made = {.n = 1 + (int32_t)chance(N_TOKENS - 1), .scope = chance(3)};
        for (int32_t j = 0; j < made.n; j++)
            made.tokens[j] = (int32_t)chance(2);
        const int32_t from = (int32_t)chance(N_PATHS), keep = (int32_t)chance(N_TOKENS);
        if (chance(3))
            memcpy(made.tokens, list[from].tokens,
                   (size_t)(keep < made.n ? keep : made.n) * sizeof *made.tokens);
        for (int j = 0; j < N_PATHS; j++)
            if (list[j].n == made.n && list[j].scope == made.scope &&
                memcmp(list[j].tokens, made.tokens, (size_t)made.n * sizeof *made.tokens) == 0)
                return ""; /* there is one already */
        *p = made;
        tree_add(t, i, p->scope, p->tokens, p->n, counter);
    }
    if (tree_positions(t) != positions(list))
        return "counts other positions";
    return look(t, list);
}

int main(void)
{
    struct tree t;
    static struct naive list[N_PATHS];
    struct hasten_error err;
    if (tree_open(&t, N_PATHS, &err))
        return 1;
    for (int i = 0; i < 100000; i++) {
        const char *what = step(&t, list);
        if (*what) {
            printf("step %d: %s\n", i, what);
            return 1;
        }
    }
    for (int i = 0; i < N_PATHS; i++)
        tree_remove(&t, i);
    if (tree_positions(&t) || t.roots >= 0) {
        printf("something is left\n");
        return 1;
    }
    tree_close(&t);
    printf("100000 steps\n");
    return 0;
}
