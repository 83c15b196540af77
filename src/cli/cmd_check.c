/* `hasten check FILE`: reads a whole model file once. Opening it checks what it says of itself; here its bytes are
 * hashed and its tensors searched for values that are not finite (formats/finite.h), over the workers, piece by piece
 * in the order of the file. Whether the numbers make sense is not asked. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/pool.h"
#include "cli/cache.h"
#include "cli/cli.h"
#include "cli/hash.h"
#include "cli/session.h"
#include "engine/identity.h"
#include "engine/snapshot.h"
#include "formats/finite.h"
#include "model/source.h"
#include "store/disk.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLICE_BYTES (2u << 20) /* of a tensor, searched by one worker at once */
#define ROUND_SLICES 64        /* between two looks at Ctrl-C */

struct check_args {
    int32_t n_threads;
    bool no_hash;
    const char *store;
    struct ui ui;
};

static const struct option_def check_defs[] = {
    {"no-hash", NULL, OPT_FLAG, offsetof(struct check_args, no_hash), 0, 0, NULL, NULL,
     "leave the hashes out"},
    {"store", NULL, OPT_STRING, offsetof(struct check_args, store), 0, 0, NULL, "DIR",
     "instead of a file: all records of a store (--store apc:dir=DIR), whose index is made anew"},
    {"threads", "t", OPT_INT, offsetof(struct check_args, n_threads), 0, LIMIT_THREADS, "0", "N",
     "workers; 0: as affinity and cgroup allow"},
};

struct slice { /* blocks [from, from + n) of a tensor, and what is wrong with them */
    int64_t tensor, from, n, n_bad;
    struct finite_find first;
};

struct check {
    struct check_args *args;
    struct gguf *g;
    struct slice *slices; /* [n_slices], tensor after tensor */
    int64_t n_slices;
    int64_t n_unsearched;         /* tensors of types without decoder */
    uint64_t bytes, searched, t0; /* of all files; of tensors */
    char (*hex)[65];              /* [parts], empty: not hashed */
    struct hash *hash;            /* of part `part`, up to hashed */
    int32_t part;
    uint64_t hashed;
    struct hasten_error hash_error; /* status 0: none */
    int64_t first;                  /* of the slices in this round */
    uint64_t hash_bytes;            /* to be hashed in it */
};

/* ---- the work ----------------------------------------------------------------------------------------------- */

static hasten_status cut(struct check *c, struct hasten_error *err)
{
    int64_t n = 0, cap = 0;
    for (int64_t i = 0; i < gguf_n_tensors(c->g); i++)
        cap += (int64_t)(gguf_tensor_at(c->g, i)->size_bytes / (SLICE_BYTES / 2)) + 1;
    c->slices = mem_array((size_t)(cap ? cap : 1), sizeof *c->slices);
    c->hex = mem_calloc((size_t)gguf_n_parts(c->g), sizeof *c->hex);
    if (!c->slices || !c->hex)
        return error_set(err, HASTEN_ERR_MEMORY, "check: out of memory for %" PRId64 " pieces", cap);
    for (int64_t i = 0; i < gguf_n_tensors(c->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(c->g, i);
        const int64_t blocks = (int64_t)(t->size_bytes / (uint64_t)t->type->block_bytes),
                      most = (int64_t)SLICE_BYTES / t->type->block_bytes;
        if (!t->type->decode || t->type->block > FINITE_BLOCK) {
            c->n_unsearched++;
            continue;
        }
        c->searched += t->size_bytes;
        for (int64_t from = 0; from < blocks; from += most)
            c->slices[n++] =
                (struct slice){.tensor = i, .from = from, .n = blocks - from < most ? blocks - from : most};
    }
    c->n_slices = n;
    for (int32_t i = 0; i < gguf_n_parts(c->g); i++)
        c->bytes += gguf_part_at(c->g, i).size;
    return HASTEN_OK;
}

/* Hashes the next `bytes` of the files, one after another. */
static void hash_next(struct check *c, uint64_t bytes)
{
    struct hasten_error *err = &c->hash_error;
    while (bytes && c->part < gguf_n_parts(c->g)) {
        const struct gguf_part p = gguf_part_at(c->g, c->part);
        const uint64_t left = p.size - c->hashed, n = left < bytes ? left : bytes;
        if ((!c->hash && hash_begin(&c->hash, err)) || hash_add(c->hash, p.data + c->hashed, (size_t)n, err))
            return;
        c->hashed += n;
        bytes -= n;
        if (c->hashed < p.size)
            continue;
        struct hash *whole = c->hash;
        c->hash = NULL;
        c->hashed = 0;
        if (hash_end(whole, c->hex[c->part++], err))
            return;
    }
}

/* Iteration 0 hashes, the others search a slice each. */
static void do_piece(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct check *c = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        if (i == 0) {
            hash_next(c, c->hash_bytes);
            continue;
        }
        struct slice *s = &c->slices[c->first + i - 1];
        const struct gguf_tensor *t = gguf_tensor_at(c->g, s->tensor);
        s->n_bad = finite_search(t->type, t->data + s->from * t->type->block_bytes, s->n, &s->first);
    }
}

static hasten_status search(struct check *c, struct hasten_error *err)
{
    const volatile int *stop = interrupt_arm();
    struct pool *pool = NULL;
    hasten_status st = pool_create(cli_threads(c->args->n_threads, &c->args->ui), &pool, err);
    const int64_t rounds = c->n_slices / ROUND_SLICES + 1;
    const uint64_t share = c->args->no_hash ? 0 : c->bytes / (uint64_t)rounds + 1;
    c->t0 = clock_now_ns();
    for (int64_t r = 0; r < rounds && !st; r++) {
        const int64_t left = c->n_slices - r * ROUND_SLICES;
        c->first = r * ROUND_SLICES;
        c->hash_bytes = share;
        pool_for(pool, 1 + (left < ROUND_SLICES ? left : ROUND_SLICES), 1, do_piece, c);
        ui_progress(&c->args->ui, "checking", (uint64_t)(r + 1) * c->bytes / (uint64_t)rounds, c->bytes, "B",
                    c->t0);
        if (c->hash_error.status) {
            *err = c->hash_error;
            st = err->status;
        } else if (*stop)
            st = error_set(err, HASTEN_ERR_CANCELLED, "interrupted");
    }
    ui_progress_end(&c->args->ui);
    pool_destroy(pool);
    interrupt_disarm();
    return st;
}

/* ---- the report --------------------------------------------------------------------------------------------- */

struct find { /* what is wrong with a tensor */
    const struct gguf_tensor *tensor;
    int64_t n_bad, row, block,
        column; /* blocks; the first value: its row, block in the row, place in the row */
    float value;
};

/* The next tensor with a find, from slice *at on: false when there is none. */
static bool next_find(const struct check *c, int64_t *at, struct find *f)
{
    while (*at < c->n_slices && !c->slices[*at].n_bad)
        ++*at;
    if (*at == c->n_slices)
        return false;
    const struct slice *s = &c->slices[*at];
    const struct gguf_tensor *t = gguf_tensor_at(c->g, s->tensor);
    const int64_t per_row = t->ne[0] / t->type->block, block = s->from + s->first.block;
    *f = (struct find){.tensor = t,
                       .row = block / per_row,
                       .block = block % per_row,
                       .column = block % per_row * t->type->block + s->first.index,
                       .value = s->first.value};
    for (const int64_t tensor = s->tensor; *at < c->n_slices && c->slices[*at].tensor == tensor; ++*at)
        f->n_bad += c->slices[*at].n_bad;
    return true;
}

static const char *value_text(float v)
{
    return isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity";
}

static json_t *finds_json(const struct check *c)
{
    json_t *list = json_array();
    struct find f;
    for (int64_t at = 0; next_find(c, &at, &f);)
        json_add(&list, json_pack("{s:o, s:s, s:I, s:I, s:I, s:s, s:I}", "tensor",
                                  json_bytes(f.tensor->name, strlen(f.tensor->name)), "type",
                                  f.tensor->type->name, "row", (json_int_t)f.row, "block",
                                  (json_int_t)f.block, "column", (json_int_t)f.column, "value",
                                  value_text(f.value), "blocks", (json_int_t)f.n_bad));
    return list;
}

static int print_json(const struct check *c, double seconds)
{
    json_t *files = json_array();
    for (int32_t i = 0; i < gguf_n_parts(c->g); i++) {
        const struct gguf_part p = gguf_part_at(c->g, i);
        json_add(&files, json_pack("{s:o, s:I, s:s?}", "path", json_bytes(p.path, strlen(p.path)), "bytes",
                                   (json_int_t)p.size, "sha256", c->args->no_hash ? NULL : c->hex[i]));
    }
    return cli_json(json_pack("{s:o, s:I, s:I, s:I, s:o, s:f}", "files", files, "n_tensors",
                              (json_int_t)gguf_n_tensors(c->g), "bytes_searched", (json_int_t)c->searched,
                              "tensors_unsearched", (json_int_t)c->n_unsearched, "non_finite", finds_json(c),
                              "seconds", seconds));
}

static int print_table(const struct check *c)
{
    struct find f;
    for (int32_t i = 0; i < gguf_n_parts(c->g); i++) {
        const struct gguf_part p = gguf_part_at(c->g, i);
        printf("file         %s, %" PRIu64 " bytes\n", p.path, p.size);
        if (!c->args->no_hash)
            printf("sha256       %s\n", c->hex[i]);
    }
    printf("tensors      %" PRId64 ", %" PRIu64 " bytes searched", gguf_n_tensors(c->g), c->searched);
    if (c->n_unsearched)
        printf(", %" PRId64 " tensors of whole numbers not", c->n_unsearched);
    putchar('\n');
    for (int64_t at = 0; next_find(c, &at, &f);)
        printf("not finite   %s (%s): row %" PRId64 ", block %" PRId64 ", column %" PRId64 ": %s; %" PRId64
               " block%s in all\n",
               f.tensor->name, f.tensor->type->name, f.row, f.block, f.column, value_text(f.value), f.n_bad,
               f.n_bad == 1 ? "" : "s");
    return cli_finish(0);
}

static int report(const struct check *c)
{
    const double seconds = (double)(clock_now_ns() - c->t0) * 1e-9;
    int64_t n_tensors = 0, n_blocks = 0;
    struct find f, first = {0};
    struct hasten_error err;
    int rc = c->args->ui.json ? print_json(c, seconds) : print_table(c);
    for (int64_t at = 0; next_find(c, &at, &f);) {
        first = n_tensors++ ? first : f;
        n_blocks += f.n_bad;
    }
    ui_detail(&c->args->ui, "check: %.2f GB/s", (double)c->bytes / seconds * 1e-9);
    if (rc || !n_tensors)
        return rc;
    error_set(&err, HASTEN_ERR_NON_FINITE,
              "%s: tensor '%s', row %" PRId64 ", block %" PRId64
              ": found %s (expected finite values; %" PRId64 " such blocks in %" PRId64 " tensors)",
              gguf_path(c->g), first.tensor->name, first.row, first.block, value_text(first.value), n_blocks,
              n_tensors);
    return cli_fail(&err);
}

/* ---- snapshots ---------------------------------------------------------------------------------------------- */

static const char *const described[] = {"model", "arithmetic", "kv", "context", "adapters", "methods"};

static int snapshot_json(const char *path, const struct snapshot_info *i)
{
    json_t *made_by = json_object();
    for (size_t k = 0; k < sizeof described / sizeof *described; k++) {
        size_t n;
        const char *value = identity_line(i->identity.data, described[k], &n);
        json_put(&made_by, described[k], value ? json_bytes(value, n) : json_null());
    }
    return cli_json(json_pack("{s:{s:o, s:I, s:i, s:i, s:i, s:I, s:I, s:I, s:o}}", "snapshot", "path",
                              json_bytes(path, strlen(path)), "bytes", (json_int_t)i->file_bytes, "version",
                              SNAPSHOT_VERSION, "tokens", (int)i->sequence.length, "positions",
                              (int)i->sequence.n_kv, "page_bytes", (json_int_t)i->page_bytes, "state_bytes",
                              (json_int_t)i->state_bytes, "label_bytes", (json_int_t)i->label.len, "made_by",
                              made_by));
}

static int snapshot_table(const char *path, const struct snapshot_info *i)
{
    printf("snapshot     %s, %" PRIu64 " bytes, version %d\n", path, i->file_bytes, SNAPSHOT_VERSION);
    printf("tokens       %d, keys and values of %d\n", (int)i->sequence.length, (int)i->sequence.n_kv);
    for (size_t k = 0; k < sizeof described / sizeof *described; k++) {
        size_t n;
        const char *value = identity_line(i->identity.data, described[k], &n);
        printf("%-12s %.*s\n", described[k], (int)n, value ? value : "");
    }
    printf("checksums    all hold\n");
    return cli_finish(0);
}

/* A snapshot of a sequence instead of a model: every checksum, every number that can be judged without its engine. */
static int check_snapshot(const struct check_args *a, const char *path)
{
    struct snapshot_info info = {0};
    struct hasten_error err = {0};
    if (snapshot_inspect(path, true, &info, &err))
        return cli_fail(&err);
    const int rc = a->ui.json ? snapshot_json(path, &info) : snapshot_table(path, &info);
    snapshot_info_free(&info);
    return rc;
}

/* ---- stores ------------------------------------------------------------------------------------------------- */

static int check_store(const struct check_args *a)
{
    struct disk_report r;
    struct hasten_error err = {0};
    int rc = 0;
    if (disk_check(a->store, &r, &err))
        return cli_fail(&err);
    if (a->ui.json) {
        rc = cli_json(json_pack("{s:{s:o, s:I, s:I, s:I, s:I, s:I}}", "store", "path",
                                json_bytes(a->store, strlen(a->store)), "records", (json_int_t)r.records,
                                "bytes", (json_int_t)r.bytes, "tokens", (json_int_t)r.tokens, "damaged",
                                (json_int_t)r.bad, "foreign", (json_int_t)r.foreign));
    } else {
        printf("store        %s\nrecords      %" PRId64 ", %" PRIu64 " bytes, %" PRIu64 " tokens\n", a->store,
               r.records, r.bytes, r.tokens);
        printf("damaged      %" PRId64 "%s\nindex        made anew\n", r.bad, r.bad ? ", removed" : "");
        if (r.foreign)
            printf("foreign      %" PRId64 " files, left alone\n", r.foreign);
        rc = cli_finish(0);
    }
    if (rc || !r.bad)
        return rc;
    error_set(&err, HASTEN_ERR_FILE, "%s (%" PRId64 " damaged record%s removed)", r.first.message, r.bad,
              r.bad == 1 ? "" : "s");
    return cli_fail(&err);
}

int cmd_check(const struct command *c, int argc, char **argv)
{
    struct check_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "Check:", .defs = check_defs, .n = sizeof check_defs / sizeof *check_defs, .dst = &a}};
    struct option_positionals pos;
    struct hasten_error err = {0};
    int rc = command_parse(c, &a.ui, groups, 2, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    if (pos.n == 1 && a.store)
        return cli_usage(c, "a FILE and --store (expected one of them)");
    if (a.store)
        return check_store(&a);
    if (pos.n != 1)
        return cli_usage(c, "no FILE given");
    if (snapshot_named(pos.items[0]))
        return check_snapshot(&a, pos.items[0]);
    struct buf path = {0};
    struct check k = {.args = &a};
    hasten_status st = model_resolve(pos.items[0], &path, &err);
    if (!st)
        st = source_open(path.data, &k.g, &err);
    if (!st)
        st = cut(&k, &err);
    if (!st)
        st = search(&k, &err);
    rc = st ? ui_fail(&a.ui, &err) : report(&k);
    hash_end(k.hash, NULL, NULL);
    mem_free(k.slices);
    mem_free(k.hex);
    gguf_close(k.g);
    buf_free(&path);
    return rc;
}
