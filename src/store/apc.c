/* Automatic prefix caching: sequences that nobody uses stay, and a prompt begins with the longest beginning that one of
 * them holds. What they have in common is one set of pages: a radix tree (tree.h) finds it, forks share it, and what two
 * sequences computed apart is merged when the second is given. When room is wanted, the end of a sequence goes that is
 * worth least: what its tokens cost to compute again, per token, times how often and over how long ago they were of use. */
#include "engine/engine.h"
#include "engine/store.h"
#include "store/disk.h"
#include "store/tree.h"
#include <math.h>
#include <string.h>

struct apc_knobs {
    int32_t slots, min;
    uint64_t limit, disk;
    const char *dir;
};

static const struct knob apc_table[] = {
    {"slots", KNOB_INT, offsetof(struct apc_knobs, slots), 1, 4096, "64", NULL, "sequences",
     "sequences that are kept at most; each takes a table of pages and its tokens"},
    {"limit", KNOB_SIZE, offsetof(struct apc_knobs, limit), 0, 0, "all", NULL, "bytes",
     "keys and values that are kept at most; all: what the pool of pages has room for"},
    {"min", KNOB_INT, offsetof(struct apc_knobs, min), 1, LIMIT_CONTEXT, "16", NULL, "tokens",
     "shorter sequences are not kept"},
    {"dir", KNOB_TEXT, offsetof(struct apc_knobs, dir), 0, 0, NULL, NULL, NULL,
     "a folder for records of what is kept: found again by later processes; nothing is written without it"},
    {"disk", KNOB_SIZE, offsetof(struct apc_knobs, disk), 0, 0, "4G", NULL, "bytes",
     "records of at most so many bytes; those that were of no use for longest go"},
};

struct apc {
    struct hasten_engine *e;
    const struct apc_knobs *k;
    struct tree tree;
    struct disk *disk;       /* NULL: none */
    bool *unwritten;         /* [slots] to be written to disk, when that is free */
    struct hasten_seq **seq; /* [slots] by path of the tree; NULL: free */
    uint64_t now;            /* counts takes and gives */
    bool uniform;            /* all sequences with the same tokens hold the same rows */
    uint64_t position_bytes;
    struct store_figures f;
};

/* ---- opening -------------------------------------------------------------------------------------------------- */

static int32_t apc_sequences(const struct method_site *site, const void *knobs)
{
    (void)site;
    return ((const struct apc_knobs *)knobs)->slots;
}

static hasten_status apc_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    (void)knobs;
    return site->desc->encoder
               ? error_set(err, HASTEN_ERR_USAGE,
                           "--store apc: needs a model with a cache of keys and values (found an "
                           "encoder)")
               : HASTEN_OK;
}

static uint64_t apc_bytes(const struct method_site *site, const void *knobs)
{
    const uint64_t slots = (uint64_t)((const struct apc_knobs *)knobs)->slots;
    (void)site;
    return sizeof(struct apc) + slots * (sizeof(struct hasten_seq *) + sizeof(bool) +
                                         sizeof(struct tree_path) + 3 * sizeof(struct tree_node));
}

static void apc_close(void *store)
{
    struct apc *a = store;
    if (!a)
        return;
    for (int32_t i = 0; a->seq && i < a->k->slots; i++) {
        if (a->disk && a->seq[i])
            (void)disk_write(a->disk, a->tree.path[i].scope, a->seq[i], true);
        hasten_seq_close(a->seq[i]);
    }
    disk_close(a->disk);
    mem_free(a->seq);
    mem_free(a->unwritten);
    tree_close(&a->tree);
    mem_free(a);
}

static hasten_status apc_open(struct hasten_engine *e, const void *state, void **store,
                              struct hasten_error *err)
{
    struct apc *a = mem_calloc(1, sizeof *a);
    if (!a)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a store: out of memory");
    a->e = e;
    a->k = state;
    a->uniform = e->model->desc.rope_switch == 0 && store_rows_alike(e);
    for (int32_t i = 0; i < e->kv.n_lanes; i++)
        a->position_bytes += kv_page_bytes(e->kv.rep, &e->kv.lanes[i]) / KV_PAGE;
    a->seq = mem_calloc((size_t)a->k->slots, sizeof *a->seq);
    a->unwritten = mem_calloc((size_t)a->k->slots, sizeof *a->unwritten);
    hasten_status st = a->seq && a->unwritten
                           ? tree_open(&a->tree, a->k->slots, err)
                           : error_set(err, HASTEN_ERR_MEMORY, "opening a store: out of memory");
    if (!st && a->k->dir)
        st = disk_open(e, &(struct disk_settings){a->k->dir, a->k->disk, 64}, &a->disk, err);
    if (st)
        apc_close(a);
    else
        *store = a;
    return st;
}

/* ---- giving up ------------------------------------------------------------------------------------------------ */

/* What is being written to disk must stay as it is meanwhile. */
static bool is_busy(const struct apc *a, int32_t i)
{
    return a->disk && disk_writing(a->disk) == a->seq[i];
}

static void let_finish(const struct apc *a, int32_t i)
{
    if (is_busy(a, i))
        disk_wait(a->disk);
}

/* Starts the next writing, if none goes on. */
static void write_next(struct apc *a)
{
    for (int32_t i = 0; a->disk && i < a->k->slots && !disk_writing(a->disk); i++)
        if (a->seq[i] && a->unwritten[i])
            a->unwritten[i] = !disk_write(a->disk, a->tree.path[i].scope, a->seq[i], false);
}

/* Pages of the positions from `from` on that nobody else has. */
static int64_t own_pages(const struct apc *a, const struct hasten_seq *s, int32_t from)
{
    const struct kv_pool *p = &a->e->kv;
    int64_t n = 0;
    for (int32_t lane = 0; lane < p->n_lanes; lane++)
        for (int32_t page = s->kv.sealed ? 0 : from / KV_PAGE; page < kv_pages(&s->kv, lane); page++)
            n += p->refs[s->kv.table[(int64_t)page * p->n_lanes + lane]] == 1;
    return n;
}

/* Of a token at the end of a leaf. Later tokens cost more: they attend to all before them. */
static double worth(const struct apc *a, const struct tree_node *n)
{
    const double cost = 1 + n->to / 4096.0, age = (double)(a->now - n->used) + 1;
    return cost * (1 + n->hits) / age;
}

/* The path whose end is worth least; paged: among those that give pages back. -1: there is none. */
static int32_t least(const struct apc *a, bool paged, int32_t except)
{
    int32_t best = -1;
    double lowest = 0;
    for (int32_t i = 0; i < a->k->slots; i++) {
        if (!a->seq[i] || i == except)
            continue;
        const struct tree_node *n = &a->tree.node[a->tree.path[i].node];
        const double w = is_busy(a, i) ? INFINITY : worth(a, n);
        if (n->child >= 0 || (best >= 0 && w >= lowest) || (paged && own_pages(a, a->seq[i], n->from) == 0))
            continue;
        best = i;
        lowest = w;
    }
    return best;
}

static void drop(struct apc *a, int32_t i)
{
    let_finish(a, i);
    tree_remove(&a->tree, i);
    hasten_seq_close(a->seq[i]);
    a->seq[i] = NULL;
}

/* Cuts n tokens off the end of path i, whose node is a leaf: whole pages, the rest of the sequence if that is not worth
 * a place, what others hold too not at all. */
static void cut(struct apc *a, int32_t i, int64_t n)
{
    const struct tree_path p = a->tree.path[i];
    const struct tree_node leaf = a->tree.node[p.node];
    const int64_t want = (leaf.to - n) / KV_PAGE * KV_PAGE;
    a->f.evictions++;
    if (n >= leaf.to || want <= leaf.from || want < a->k->min || a->seq[i]->kv.sealed) {
        a->f.evicted_tokens += (uint64_t)(leaf.to - leaf.from);
        drop(a, i);
        return;
    }
    a->f.evicted_tokens += (uint64_t)(leaf.to - want);
    let_finish(a, i);
    tree_remove(&a->tree, i);
    hasten_seq_truncate(a->seq[i], (int32_t)want, NULL); /* cannot fail: want is within its length */
    tree_add(&a->tree, i, p.scope, a->seq[i]->tokens, (int32_t)want, leaf.used);
    a->tree.node[a->tree.path[i].node].hits = leaf.hits;
}

static bool apc_make_room(void *store, int64_t pages)
{
    struct apc *a = store;
    const struct kv_pool *p = &a->e->kv;
    while (p->n_free < pages) {
        const int32_t i = least(a, true, -1);
        if (i < 0)
            return false;
        cut(a, i, (pages - p->n_free + p->n_lanes - 1) / p->n_lanes * KV_PAGE);
    }
    return true;
}

/* ---- taking --------------------------------------------------------------------------------------------------- */

struct found {
    int32_t path, reach, node;
};

static int32_t common(const int32_t *a, const int32_t *b, int32_t n)
{
    int32_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

/* Where sequences with the same tokens may differ in what they hold, each is asked. */
static struct found find_best(const struct apc *a, uint64_t scope, const int32_t *ids, int64_t n)
{
    const int32_t most = n - 1 < a->e->settings.n_ctx ? (int32_t)(n - 1) : a->e->settings.n_ctx;
    const struct tree_hit h = tree_find(&a->tree, scope, ids, most);
    struct found best = {-1, 0, h.node};
    if (h.path >= 0 && a->uniform)
        return (struct found){h.path, store_reach(a->seq[h.path], h.common, n), h.node};
    for (int32_t i = 0; h.path >= 0 && i < a->k->slots; i++) {
        const struct tree_path *p = &a->tree.path[i];
        if (!a->seq[i] || p->scope != scope)
            continue;
        const int32_t same = common(p->tokens, ids, p->n < h.common ? p->n : h.common);
        const int32_t reach = store_reach(a->seq[i], same, n);
        if (reach > best.reach)
            best = (struct found){i, reach, p->node};
    }
    return best;
}

/* A sequence of its own with what was found; the kept one stays, unless there is no place for two. */
static hasten_status fork_found(struct apc *a, const struct found *f, struct hasten_seq **out,
                                struct hasten_error *err)
{
    hasten_status st = hasten_seq_fork(a->seq[f->path], f->reach, out, err);
    int32_t i;
    while (st == HASTEN_ERR_FULL && (i = least(a, false, f->path)) >= 0) {
        cut(a, i, INT32_MAX);
        st = hasten_seq_fork(a->seq[f->path], f->reach, out, err);
    }
    if (st != HASTEN_ERR_FULL)
        return st;
    let_finish(a, f->path);
    *out = a->seq[f->path];
    tree_remove(&a->tree, f->path);
    a->seq[f->path] = NULL;
    return hasten_seq_truncate(*out, f->reach, err);
}

static hasten_status open_new(struct apc *a, struct hasten_seq **out, struct hasten_error *err)
{
    hasten_status st = hasten_seq_open(a->e, out, err);
    int32_t i;
    while (st == HASTEN_ERR_FULL && (i = least(a, false, -1)) >= 0) {
        cut(a, i, INT32_MAX);
        st = hasten_seq_open(a->e, out, err);
    }
    return st;
}

/* From disk, if that holds a block more than what was found. What is kept in memory may go meanwhile. */
static struct hasten_seq *read_more(struct apc *a, uint64_t scope, const int32_t *ids, int64_t n,
                                    int32_t reach)
{
    bool full = false;
    struct hasten_seq *s = a->disk ? disk_read(a->disk, scope, ids, n, reach + DISK_BLOCK - 1, &full) : NULL;
    if (s || !full)
        return s;
    const int32_t i = least(a, false, -1);
    if (i < 0)
        return NULL;
    cut(a, i, INT32_MAX);
    return disk_read(a->disk, scope, ids, n, reach + DISK_BLOCK - 1, &full);
}

static hasten_status apc_take(void *store, uint64_t scope, const int32_t *ids, int64_t n,
                              struct hasten_seq **out, struct hasten_error *err)
{
    struct apc *a = store;
    struct found f = find_best(a, scope, ids, n);
    a->now++;
    write_next(a);
    if ((*out = read_more(a, scope, ids, n, f.reach)) != NULL) {
        a->f.hits++;
        a->f.hit_tokens += (uint64_t)(*out)->length;
        return HASTEN_OK;
    }
    if (a->disk)
        f = find_best(a, scope, ids, n);
    if (f.path < 0 || f.reach < 1)
        return open_new(a, out, err);
    tree_touch(&a->tree, f.node, a->now);
    const hasten_status st = fork_found(a, &f, out, err);
    if (!st) {
        a->f.hits++;
        a->f.hit_tokens += (uint64_t)f.reach;
    }
    return st;
}

/* ---- giving --------------------------------------------------------------------------------------------------- */

/* Sequences whose tokens all stand at the beginning of the new one hold nothing of their own any more. Below a node
 * there may be others, so each is looked for anew. */
static void drop_beginnings(struct apc *a, uint64_t scope, const struct hasten_seq *s)
{
    int32_t node = tree_find(&a->tree, scope, s->tokens, s->length).node;
    while (node >= 0) {
        const struct tree_node at = a->tree.node[node];
        node = at.parent;
        if (at.end < 0 || a->tree.path[at.end].n > s->length ||
            common(a->seq[at.end]->tokens, s->tokens, at.to) < at.to)
            continue;
        drop(a, at.end);
        node = tree_find(&a->tree, scope, s->tokens, s->length).node;
    }
}

static int32_t free_slot(struct apc *a)
{
    int32_t i = 0;
    while (i < a->k->slots && a->seq[i])
        i++;
    if (i < a->k->slots)
        return i;
    i = least(a, false, -1);
    cut(a, i, INT32_MAX);
    return i;
}

static uint64_t kept_bytes(const struct apc *a)
{
    return (uint64_t)tree_positions(&a->tree) * a->position_bytes;
}

static void keep_limit(struct apc *a)
{
    while (kept_bytes(a) > a->k->limit) {
        const int32_t i = least(a, false, -1);
        cut(a, i, (int64_t)((kept_bytes(a) - a->k->limit) / a->position_bytes) + 1);
    }
}

static void apc_give(void *store, uint64_t scope, struct hasten_seq *s)
{
    struct apc *a = store;
    a->now++;
    if (s->n_kv < s->length) /* a cancelled step: tokens without rows */
        hasten_seq_truncate(s, s->n_kv, NULL);
    if (s->length < a->k->min || a->k->limit == 0) {
        hasten_seq_close(s);
        return;
    }
    struct tree_hit h = tree_find(&a->tree, scope, s->tokens, s->length);
    const bool all = h.common == s->length;
    if (all && a->uniform) { /* held already */
        tree_touch(&a->tree, h.node, a->now);
        hasten_seq_close(s);
        return;
    }
    if (h.path >= 0 && a->seq[h.path]->beyond == s->beyond) {
        const int32_t theirs = store_reach(a->seq[h.path], h.common, s->length),
                      ours = store_reach(s, h.common, s->length);
        kv_merge(&a->e->kv, &a->seq[h.path]->kv, &s->kv, theirs < ours ? theirs : ours);
    }
    if (a->uniform)
        drop_beginnings(a, scope, s);
    else if (all && a->tree.node[h.node].end >= 0 && a->tree.node[h.node].to == s->length)
        drop(a, a->tree.node[h.node].end); /* the same tokens: the newer rows */
    const int32_t i = free_slot(a);
    a->seq[i] = s;
    a->unwritten[i] = true;
    tree_add(&a->tree, i, scope, s->tokens, s->length, a->now);
    keep_limit(a);
    write_next(a);
}

static void apc_figures(const void *store, struct store_figures *out)
{
    const struct apc *a = store;
    *out = a->f;
    for (int32_t i = 0; i < a->k->slots; i++)
        out->entries += a->seq[i] != NULL;
    out->positions = tree_positions(&a->tree);
    out->bytes = kept_bytes(a);
    if (a->disk)
        disk_figures(a->disk, out);
}

static const struct store_ops apc_ops = {.open = apc_open,
                                         .close = apc_close,
                                         .take = apc_take,
                                         .give = apc_give,
                                         .make_room = apc_make_room,
                                         .figures = apc_figures};

const struct method method_apc = {
    .name = "apc",
    .title = "keeps sequences that are not in use; a prompt begins with what one of them holds",
    .paper = "Kwon et al., Efficient Memory Management for Large Language Model Serving with PagedAttention, "
             "arXiv:2309.06180; Zheng et al., SGLang (RadixAttention), arXiv:2312.07104",
    .stage = STAGE_STORE,
    .guarantee = METHOD_EXACT,
    .exact_to = "the same engine without it: a hit gives the bits of a miss",
    .role = "keep",
    .knobs = apc_table,
    .n_knobs = sizeof apc_table / sizeof *apc_table,
    .knobs_bytes = sizeof(struct apc_knobs),
    .exercise = "slots=4,min=1",
    .neutral = "limit=0",
    .text =
        "A kept sequence shares its pages with whoever goes on from it, copy on write. Beginnings are found in a radix tree "
        "of tokens, compared in full: no hash decides. What is kept gives way to running sequences whenever pages are "
        "needed: the end goes first of what costs least to compute again and was of least use. With methods that read "
        "prompts otherwise than answers only the part that was read as a prompt is used again, and with methods of the "
        "stage cache only what lies behind the last eviction. With dir sequences are also written to records on disk, when "
        "they are given and at the end, and read from there when memory does not know them: a record counts only if its "
        "tokens, its scope, the model, everything else that its keys depend on and every checksum are right.",
    .check = apc_check,
    .model_bytes = apc_bytes,
    .sequences = apc_sequences,
    .hosted = &apc_ops,
};
