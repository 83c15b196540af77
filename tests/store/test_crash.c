/* The tier on disk survives anything: after a crash it opens, what it gives is right to the bit, and at worst something is
 * missed. States of crashes are made from the log of what a run did to its folder (file_watch): at every point, with data
 * that was not synced lost, torn by sectors, or in another order, names that were not yet on the disk lost, an index of any
 * age, torn or none; and bytes damaged besides. Opening such a state is logged too, and crashes again.
 *
 *     test_crash FOLDER states N [SEED]      so many states; FOLDER should lie in memory
 *     test_crash FOLDER kills N [SEED]       a child that writes is killed so many times
 *     test_crash FOLDER hashes               hashes of 8 bits, an index of garbage, two processes, limits */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "harness.h"
#include "store/disk.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_CTX 512
#define N_PROMPTS 10
#define VOCAB_MOST 1024
#define FILES_MOST 64
#define SECTOR 512

static uint64_t seed, counter;
static uint32_t chance(uint32_t n)
{
    uint32_t r[4];
    philox4x32((const uint32_t[4]){(uint32_t)counter++, 1, 0, 5}, (const uint32_t[2]){(uint32_t)seed, 11}, r);
    return r[0] % n;
}

static struct hasten_error err;
static struct hasten_model *model;
static struct hasten_engine *engine;
static char work[400], state[400];
static int64_t n_problems, n_found, n_missed;

static void problem(const char *what)
{
    n_problems++;
    printf("problem: %s\n", what);
}

/* ---- prompts -------------------------------------------------------------------------------------------------- */

struct row {
    float v[VOCAB_MOST];
};

struct prompt {
    int32_t ids[N_CTX];
    int32_t n;
    uint64_t scope;
    struct row last; /* what a fresh sequence says */
};
static struct prompt prompts[N_PROMPTS];

static int keep(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                int32_t n_vocab)
{
    (void)rows;
    memcpy(ctx, logits + (int64_t)(n_rows - 1) * n_vocab, (size_t)n_vocab * sizeof *logits);
    return 0;
}

static void run_rest(struct hasten_seq *s, const struct prompt *p, struct row *out)
{
    const int32_t at = hasten_seq_length(s), n = p->n - at;
    die_unless_ok(
        hasten_step(engine,
                    &(struct hasten_item){.seq = s, .tokens = p->ids + at, .n = n, .want_from = n - 1}, 1,
                    keep, out, NULL, &err),
        &err, "a step");
}

static struct hasten_seq *fresh(struct prompt *p)
{
    struct hasten_seq *s = NULL;
    die_unless_ok(hasten_seq_open(engine, &s, &err), &err, "a sequence");
    run_rest(s, p, &p->last);
    return s;
}

/* Chats that grow by turns, one of them under another scope with the same words. */
static void make_prompts(void)
{
    static const int32_t lengths[N_PROMPTS] = {70, 150, 470, 90, 400, 64, 66, 200, 70, 150};
    for (int i = 0; i < N_PROMPTS; i++) {
        struct prompt *p = &prompts[i];
        const int chat = i < 3 || i > 7 ? 0 : i < 5 ? 1 : 2;
        p->n = lengths[i];
        p->scope = i > 7 ? 2 : 1;
        for (int32_t j = 0; j < p->n; j++)
            p->ids[j] = 40 + (j * (7 + 2 * chat) + j / 11) % 50;
        if (i % 2)
            p->ids[p->n - 3] = 99; /* an edited turn: the end is another */
        hasten_seq_close(fresh(p));
    }
}

static struct disk *open_disk(const char *folder, uint64_t limit, int bits)
{
    struct disk *d = NULL;
    die_unless_ok(disk_open(engine, &(struct disk_settings){folder, limit, bits}, &d, &err), &err, "opening");
    return d;
}

static void write_prompt(struct disk *d, int i, bool last)
{
    struct hasten_seq *s = fresh(&prompts[i]);
    if (!disk_write(d, prompts[i].scope, s, last))
        problem("a writing is said to go on");
    disk_wait(d);
    hasten_seq_close(s);
}

/* What the disk gives for a prompt is right, if it gives anything. */
static bool right(struct disk *d, const struct prompt *p)
{
    struct row row = {{0}};
    bool full;
    struct hasten_seq *s = disk_read(d, p->scope, p->ids, p->n, 0, &full);
    n_missed += !s;
    if (!s)
        return false;
    n_found++;
    if (hasten_seq_length(s) >= p->n ||
        memcmp(hasten_seq_tokens(s), p->ids, (size_t)hasten_seq_length(s) * 4))
        problem("other tokens");
    else
        run_rest(s, p, &row);
    if (memcmp(&row, &p->last, sizeof row))
        problem("other bits");
    hasten_seq_close(s);
    return true;
}

static void check_folder(const char *folder, const char *when)
{
    struct disk_report r;
    die_unless_ok(disk_check(folder, &r, &err), &err, when);
    die_unless_ok(disk_check(folder, &r, &err), &err, when);
    if (r.bad)
        problem("damaged records are left after a check");
    const size_t used = (size_t)(engine->kv.n_blocks - engine->kv.n_free);
    if (used)
        problem("pages are left");
}

/* Opens whatever lies in a folder, asks for everything, writes, asks again, checks. */
static void survive(const char *folder, bool watch_only)
{
    struct disk *d = open_disk(folder, UINT64_MAX, 64);
    for (int i = 0; i < N_PROMPTS; i++)
        right(d, &prompts[i]);
    bool full;
    struct hasten_seq *s = disk_read(d, 77, prompts[0].ids, prompts[0].n, 0, &full);
    if (s)
        problem("found under a scope that was never written");
    hasten_seq_close(s);
    const int i = (int)chance(N_PROMPTS);
    write_prompt(d, i, true);
    if (prompts[i].n > DISK_BLOCK && !right(d, &prompts[i]))
        problem("what was just written is not found");
    disk_close(d);
    if (!watch_only)
        check_folder(folder, "checking");
}

/* ---- the log -------------------------------------------------------------------------------------------------- */

struct event {
    enum file_change change;
    char *path, *to;
    uint8_t *data;
    size_t size;
    char *index; /* index.sqlite as it was then, sometimes; index_len */
    size_t index_len;
};
struct log {
    struct event *e;
    size_t n, cap;
    const char *folder;
    bool deaf;
};

static char *copy_text(const char *s)
{
    return s ? strdup(s) : NULL;
}

static void note_event(void *ctx, const struct file_event *f)
{
    struct log *l = ctx;
    if (l->deaf || strncmp(f->path, l->folder, strlen(l->folder)) != 0)
        return;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->e = realloc(l->e, l->cap * sizeof *l->e);
    }
    struct event *e = &l->e[l->n++];
    *e = (struct event){.change = f->change,
                        .path = copy_text(strrchr(f->path, '/') + 1),
                        .to = f->to ? copy_text(strrchr(f->to, '/') + 1) : NULL,
                        .size = f->size};
    if (f->data) {
        e->data = malloc(f->size);
        memcpy(e->data, f->data, f->size);
    }
    if (f->change == FILE_CHANGE_RENAME || f->change == FILE_CHANGE_UNLINK) {
        char path[500];
        snprintf(path, sizeof path, "%s/index.sqlite", l->folder);
        l->deaf = true;
        FILE *in = fopen(path, "rb");
        if (in) {
            e->index = malloc(1 << 20);
            e->index_len = fread(e->index, 1, 1 << 20, in);
            fclose(in);
        }
        l->deaf = false;
    }
}

static void log_free(struct log *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->e[i].path);
        free(l->e[i].to);
        free(l->e[i].data);
        free(l->e[i].index);
    }
    free(l->e);
    l->e = NULL;
    l->n = l->cap = 0;
}

/* ---- a state -------------------------------------------------------------------------------------------------- */

struct inode {
    uint8_t *data;
    size_t len, synced; /* bytes that are on the disk for certain */
    size_t cap;
};
struct name {
    char text[200];
    int inode;
};
struct picture { /* of a folder */
    struct inode inode[512];
    int n_inodes;
    struct name name[FILES_MOST];
    int n_names;
};

static int find_name(const struct picture *p, const char *text)
{
    int i = 0;
    while (i < p->n_names && strcmp(p->name[i].text, text) != 0)
        i++;
    return i;
}

static void set_name(struct picture *p, const char *text, int inode)
{
    const int i = find_name(p, text);
    if (i == FILES_MOST) {
        fprintf(stderr, "test_crash: too many files\n");
        exit(1);
    }
    snprintf(p->name[i].text, sizeof p->name[i].text, "%s", text);
    p->name[i].inode = inode;
    p->n_names += i == p->n_names;
}

static void drop_name(struct picture *p, const char *text)
{
    const int i = find_name(p, text);
    if (i < p->n_names)
        p->name[i] = p->name[--p->n_names];
}

static void put(struct inode *x, const void *data, size_t n)
{
    if (x->len + n > x->cap) {
        x->cap = 2 * (x->len + n);
        x->data = realloc(x->data, x->cap);
    }
    if (n)
        memcpy(x->data + x->len, data, n);
    x->len += n;
}

/* The folder before the log, as it lies there. */
static void begin_picture(struct picture *p, const char *folder)
{
    struct file_names f = {0};
    p->n_inodes = p->n_names = 0;
    if (file_list_if_any(folder, &f, NULL))
        return;
    for (size_t i = 0; i < f.n; i++) {
        char path[700];
        char *data = NULL;
        size_t len;
        snprintf(path, sizeof path, "%s/%s", folder, f.names[i]);
        if (file_slurp(path, (size_t)1 << 24, &data, &len, NULL))
            continue;
        struct inode *x = &p->inode[p->n_inodes];
        *x = (struct inode){0};
        put(x, data, len);
        x->synced = len;
        set_name(p, f.names[i], p->n_inodes++);
        mem_free(data);
    }
    file_names_free(&f);
}

/* Applies the first k events. Names of creations and removals behind the last rename may be lost. */
static void apply(struct picture *p, const struct log *l, size_t k)
{
    size_t durable = 0;
    for (size_t i = 0; i < k; i++)
        if (l->e[i].change == FILE_CHANGE_RENAME)
            durable = i;
    for (size_t i = 0; i < k; i++) {
        const struct event *e = &l->e[i];
        const bool lost = i > durable && chance(3) == 0;
        const int at = find_name(p, e->path), inode = at < p->n_names ? p->name[at].inode : -1;
        if (e->change == FILE_CHANGE_CREATE && p->n_inodes < 512) {
            p->inode[p->n_inodes] = (struct inode){0};
            set_name(p, e->path, p->n_inodes++);
        } else if (e->change == FILE_CHANGE_WRITE && inode >= 0) {
            put(&p->inode[inode], e->data, e->size);
        } else if (e->change == FILE_CHANGE_SYNC && inode >= 0) {
            p->inode[inode].synced = p->inode[inode].len;
        } else if (e->change == FILE_CHANGE_RENAME && inode >= 0) {
            drop_name(p, e->path);
            set_name(p, e->to, inode);
        } else if (e->change == FILE_CHANGE_UNLINK && !lost) {
            drop_name(p, e->path);
        }
    }
}

/* Data that nobody waited for: each sector is there, or zeros, or garbage; the file may be shorter. */
static void tear(struct inode *x)
{
    const uint32_t how = chance(4);
    if (how == 0 || x->len == x->synced)
        return;
    if (how == 1)
        x->len = x->synced + chance((uint32_t)(x->len - x->synced) + 1);
    for (size_t at = x->synced; at < x->len; at += SECTOR) {
        const size_t n = x->len - at < SECTOR ? x->len - at : SECTOR;
        const uint32_t what = chance(8);
        if (what == 0)
            memset(x->data + at, 0, n);
        if (what == 1)
            memset(x->data + at, (int)chance(256), n);
    }
}

static void write_file(const char *folder, const char *name, const void *data, size_t n)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(data, 1, n, f) != n) || fclose(f)) {
        fprintf(stderr, "test_crash: cannot write %s\n", path);
        exit(1);
    }
}

static void empty(const char *folder)
{
    struct file_names f = {0};
    char path[700];
    mkdir(folder, 0700);
    die_unless_ok(file_list(folder, &f, &err), &err, "listing");
    for (size_t i = 0; i < f.n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, f.names[i]);
        unlink(path);
    }
    file_names_free(&f);
}

static void lay_out(struct picture *p, const char *folder, bool damage)
{
    empty(folder);
    for (int i = 0; i < p->n_names; i++)
        if (strncmp(p->name[i].text, "index", 5) != 0) {
            struct inode x = p->inode[p->name[i].inode];
            tear(&x);
            for (uint32_t k = damage && x.len && chance(2) ? 1 + chance(3) : 0; k > 0; k--)
                x.data[chance((uint32_t)x.len)] ^= (uint8_t)(1 + chance(255));
            write_file(folder, p->name[i].text, x.data, x.len);
        }
}

/* An index of any age, perhaps torn. */
static void lay_index(const struct log *l, const char *folder)
{
    const size_t from = l->n ? chance((uint32_t)l->n) : 0;
    for (size_t i = from; i < l->n && chance(5); i++)
        if (l->e[i].index) {
            struct inode x = {0};
            put(&x, l->e[i].index, l->e[i].index_len);
            if (chance(2))
                tear(&x);
            if (chance(4) == 0 && x.len)
                x.data[chance((uint32_t)x.len)] ^= (uint8_t)(1 + chance(255));
            write_file(folder, "index.sqlite", x.data, x.len);
            free(x.data);
            return;
        }
}

static void picture_free(struct picture *p)
{
    for (int i = 0; i < p->n_inodes; i++)
        free(p->inode[i].data);
    p->n_inodes = p->n_names = 0;
}

/* ---- crashes -------------------------------------------------------------------------------------------------- */

/* Two lives of a store: what it holds grows, is replaced, and is given up for room. */
static void live(const char *folder)
{
    struct disk *d = open_disk(folder, UINT64_MAX, 64);
    for (int i = 0; i < 6; i++)
        write_prompt(d, i, i % 2);
    disk_close(d);
    d = open_disk(folder, 150000, 64);
    right(d, &prompts[2]);
    for (int i = 6; i < N_PROMPTS; i++)
        write_prompt(d, i, true);
    disk_close(d);
}

static int states(int n)
{
    static struct picture p;
    struct log l = {.folder = work}, again = {.folder = state};
    empty(work);
    file_watch(note_event, &l);
    live(work);
    file_watch(NULL, NULL);
    for (int i = 0; i < n; i++) {
        const size_t k = i < (int)l.n ? (size_t)i + 1 : 1 + chance((uint32_t)l.n);
        apply(&p, &l, k);
        lay_out(&p, state, i % 3 != 0);
        picture_free(&p);
        lay_index(&l, state);
        if (chance(4) == 0) { /* opening it crashes too */
            begin_picture(&p, state);
            file_watch(note_event, &again);
            survive(state, true);
            file_watch(NULL, NULL);
            apply(&p, &again, again.n ? chance((uint32_t)again.n + 1) : 0);
            lay_out(&p, state, false);
            picture_free(&p);
            lay_index(&again, state);
            log_free(&again);
        }
        survive(state, false);
    }
    printf("%zu changes, %d states, %lld answers from disk, %lld missed, %lld problems\n", l.n, n,
           (long long)n_found, (long long)n_missed, (long long)n_problems);
    log_free(&l);
    return n_problems || n_found < n / 2;
}

static int kills(int n)
{
    for (int i = 0; i < n; i++) {
        const pid_t child = fork();
        if (child == 0) {
            for (;;) {
                if (chance(3) == 0)
                    empty(work);
                live(work);
            }
        }
        usleep(500 + chance(40000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        survive(work, false);
        counter += 1000;
    }
    printf("%d kills, %lld answers from disk, %lld missed, %lld problems\n", n, (long long)n_found,
           (long long)n_missed, (long long)n_problems);
    return n_problems != 0 || n_found < n / 2;
}

/* ---- other rules ---------------------------------------------------------------------------------------------- */

static int64_t records_of(struct disk *d)
{
    struct store_figures f = {0};
    disk_figures(d, &f);
    return f.disk_entries;
}

static int hashes(void)
{
    /* Hashes of 8 bits: nearly every look finds something else first. */
    empty(work);
    struct disk *d = open_disk(work, UINT64_MAX, 8);
    for (int i = 0; i < N_PROMPTS; i++)
        write_prompt(d, i, true);
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < N_PROMPTS; i++) {
            struct prompt other = prompts[i];
            other.ids[chance((uint32_t)other.n)] = 55;
            hasten_seq_close(fresh(&other));
            right(d, &prompts[i]);
            right(d, &other);
        }
    /* Another process may not have it. */
    struct disk *second = NULL;
    if (disk_open(engine, &(struct disk_settings){work, UINT64_MAX, 64}, &second, &err) != HASTEN_ERR_USAGE ||
        !strstr(err.message, "another process"))
        problem("two processes have one folder");
    disk_close(d);
    /* An index of garbage, and one that is a folder: made anew, or gone without. */
    char path[500];
    snprintf(path, sizeof path, "%s/index.sqlite", work);
    write_file(work, "index.sqlite", "this is no database, whatever its name says", 40);
    d = open_disk(work, UINT64_MAX, 64);
    const int64_t all = records_of(d);
    if (all < 4 || !right(d, &prompts[2]))
        problem("the index was not made anew");
    disk_close(d);
    unlink(path);
    mkdir(path, 0700);
    d = open_disk(work, UINT64_MAX, 64);
    if (right(d, &prompts[2]))
        problem("found without an index");
    disk_close(d);
    rmdir(path);
    /* A limit holds, from the beginning too. */
    struct store_figures f = {0};
    d = open_disk(work, UINT64_MAX, 64);
    disk_figures(d, &f);
    disk_close(d);
    const uint64_t half = f.disk_bytes / 2;
    d = open_disk(work, half, 64);
    disk_figures(d, &f);
    if (f.disk_bytes > half || f.disk_entries == 0 || f.disk_entries >= all)
        problem("the limit of the folder does not hold");
    disk_close(d);
    check_folder(work, "checking");
    printf("%lld answers from disk, %lld missed, %lld problems\n", (long long)n_found, (long long)n_missed,
           (long long)n_problems);
    return n_problems != 0;
}

int main(int argc, char **argv)
{
    struct hasten_engine_settings s;
    if (argc < 3) {
        fprintf(stderr, "usage: test_crash FOLDER states|kills|hashes [N [SEED]]\n");
        return 2;
    }
    const int n = argc > 3 ? atoi(argv[3]) : 0;
    seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    mkdir(argv[1], 0700);
    snprintf(work, sizeof work, "%s/work", argv[1]);
    snprintf(state, sizeof state, "%s/state", argv[1]);
    model = open_or_exit("script:hash=5");
    hasten_engine_default_settings(&s);
    s.n_threads = 1;
    s.n_ctx = N_CTX;
    s.n_seq_max = 3;
    s.n_batch = 512;
    s.poison = true;
    die_unless_ok(hasten_engine_open(model, &s, &engine, &err), &err, "opening an engine");
    make_prompts();
    int rc = 2;
    if (strcmp(argv[2], "states") == 0)
        rc = states(n);
    else if (strcmp(argv[2], "kills") == 0)
        rc = kills(n);
    else if (strcmp(argv[2], "hashes") == 0)
        rc = hashes();
    hasten_engine_close(engine);
    hasten_model_close(model);
    return rc;
}
