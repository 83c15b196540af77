/* Scripted models: their names, and what their logits are (script.h). */
#include "model/script.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char PREFIX[] = "script:";

bool script_named(const char *path)
{
    return strncmp(path, PREFIX, sizeof PREFIX - 1) == 0;
}

void script_close(struct script *s)
{
    if (!s)
        return;
    for (int32_t i = 0; i < s->n_rules; i++) {
        mem_free(s->rules[i].after.ids);
        mem_free(s->rules[i].items.ids);
    }
    for (int32_t i = 0; i < s->n_ifs; i++)
        mem_free(s->ifs[i].ids);
    mem_free(s->rules);
    mem_free(s->spoken);
    mem_free(s->file);
    mem_free(s);
}

/* ---- names ---------------------------------------------------------------------------------------------- */

struct spec { /* what the name says; texts are copies, NUL-terminated */
    char *file, *vocab;
    uint64_t seed, n_vocab, n_ctx, length;
    bool hashed;
};

static hasten_status bad_name(const char *path, const char *part, size_t len, const char *expected,
                              struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_USAGE, "opening '%.200s': found '%.*s' (expected %s)", path,
                     (int)(len < 80 ? len : 80), part, expected);
}

static bool number(const char *text, size_t len, uint64_t most, uint64_t *out)
{
    uint64_t v = 0;
    if (len == 0 || len > 19)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    *out = v;
    return v <= most;
}

/* value of "key=value" in part[0, len), or NULL. */
static const char *value_of(const char *part, size_t len, const char *key)
{
    const size_t n = strlen(key);
    return len > n && memcmp(part, key, n) == 0 && part[n] == '=' ? part + n + 1 : NULL;
}

static hasten_status take_part(struct spec *s, const char *path, const char *part, size_t len, bool first,
                               struct hasten_error *err)
{
    const char *v, *end = part + len;
    if ((v = first ? value_of(part, len, "hash") : NULL)) {
        s->hashed = true;
        return number(v, (size_t)(end - v), INT64_MAX, &s->seed)
                   ? HASTEN_OK
                   : bad_name(path, part, len, "hash=SEED, a whole number", err);
    }
    if (first) {
        s->file = len ? mem_strndup(part, len) : NULL;
        return s->file ? HASTEN_OK
               : len   ? error_set(err, HASTEN_ERR_MEMORY, "opening '%.200s': out of memory", path)
                       : bad_name(path, part, len, "script:FILE or script:hash=SEED", err);
    }
    if ((v = value_of(part, len, "vocab"))) {
        if (number(v, (size_t)(end - v), UINT64_MAX, &s->n_vocab))
            return s->n_vocab >= SCRIPT_MIN_VOCAB && s->n_vocab <= 1 << 20
                       ? HASTEN_OK
                       : bad_name(path, part, len, "vocab=N, 259 to 1048576, or a GGUF file", err);
        mem_free(s->vocab);
        s->vocab = mem_strndup(v, (size_t)(end - v));
        return s->vocab ? HASTEN_OK
                        : error_set(err, HASTEN_ERR_MEMORY, "opening '%.200s': out of memory", path);
    }
    if ((v = value_of(part, len, "ctx")))
        return number(v, (size_t)(end - v), LIMIT_CONTEXT, &s->n_ctx) && s->n_ctx > 0
                   ? HASTEN_OK
                   : bad_name(path, part, len, "ctx=N, at least 1", err);
    if ((v = value_of(part, len, "length")) && s->hashed)
        return number(v, (size_t)(end - v), INT32_MAX, &s->length)
                   ? HASTEN_OK
                   : bad_name(path, part, len, "length=N", err);
    return bad_name(path, part, len, s->hashed ? "vocab=, ctx= or length=" : "vocab= or ctx=", err);
}

static hasten_status parse_name(const char *path, struct spec *s, struct hasten_error *err)
{
    const char *at = path + sizeof PREFIX - 1;
    hasten_status st = HASTEN_OK;
    *s = (struct spec){.n_vocab = SCRIPT_MIN_VOCAB, .n_ctx = 4096, .length = 64};
    for (bool first = true; !st; first = false) {
        const size_t len = strcspn(at, ",");
        st = take_part(s, path, at, len, first, err);
        at += len;
        if (!*at)
            break;
        at++;
    }
    return st;
}

/* ---- opening -------------------------------------------------------------------------------------------- */

static hasten_status open_vocab(struct hasten_model *m, const struct spec *s, const char *path,
                                struct hasten_error *err)
{
    size_t size = 0;
    hasten_status st;
    if (s->vocab) {
        st = gguf_open(s->vocab, &m->gguf, err);
    } else {
        st = script_make_vocab((int32_t)s->n_vocab, (int32_t)s->n_ctx, &m->script->file, &size, err);
        if (!st)
            st = gguf_open_memory(m->script->file, size, path, &m->gguf, err);
    }
    return st ? st : vocab_open(m->gguf, &m->vocab, err);
}

/* One layer of one head: its KV pages hold struct script_state (engine/scripted.c). */
static hasten_status describe(struct hasten_model *m, const struct spec *s, struct hasten_error *err)
{
    struct model_desc *d = &m->desc;
    d->arch = "scripted";
    d->layers = mem_calloc(1, sizeof *d->layers);
    if (!d->layers)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a scripted model: out of memory");
    d->n_layer = d->n_kv_slots = 1;
    d->layers[0].n_head = d->layers[0].n_head_kv = 1;
    d->layers[0].d_k = d->layers[0].d_v = 32;
    d->d_model = 1;
    d->n_vocab = vocab_size(m->vocab);
    d->n_ctx_train = (int32_t)s->n_ctx;
    return HASTEN_OK;
}

/* A hashed model speaks printable text: tokens that are it whole. */
static hasten_status find_spoken(struct script *s, const struct vocab *v, struct hasten_error *err)
{
    struct buf b = {0};
    hasten_status st = HASTEN_OK;
    s->spoken = mem_calloc((size_t)s->n_vocab, 1);
    if (!s->spoken)
        return error_set(err, HASTEN_ERR_MEMORY, "opening a scripted model: out of memory");
    for (int32_t id = 0; id < s->n_vocab && !st; id++) {
        buf_clear(&b);
        st = vocab_token_bytes(v, id, false, &b, err);
        bool plain = b.len > 0 && !vocab_is_eog(v, id);
        for (size_t i = 0; i < b.len; i++)
            plain = plain && b.data[i] >= ' ' && b.data[i] < 0x7f;
        s->spoken[id] = plain;
    }
    buf_free(&b);
    return st;
}

static hasten_status load(struct hasten_model *m, const struct spec *spec, const char *path,
                          struct hasten_error *err)
{
    struct script *s = m->script;
    hasten_status st = open_vocab(m, spec, path, err);
    if (st || (st = describe(m, spec, err)))
        return st;
    s->hashed = spec->hashed;
    s->seed = spec->seed;
    s->length = (int32_t)spec->length;
    s->n_vocab = m->desc.n_vocab;
    s->end = s->otherwise = vocab_eos(m->vocab);
    if (s->hashed)
        return find_spoken(s, m->vocab, err);
    char *text = NULL;
    size_t len = 0;
    if (s->otherwise < 0)
        s->otherwise = 0;
    st = file_slurp(spec->file, LIMIT_SCRIPT_BYTES, &text, &len, err);
    if (!st)
        st = script_read_rules(s, m->vocab, spec->file, text, len, err);
    mem_free(text);
    return st;
}

hasten_status script_load(struct hasten_model *m, const char *path, struct hasten_error *err)
{
    struct spec spec;
    m->script = mem_calloc(1, sizeof *m->script);
    if (!m->script)
        return error_set(err, HASTEN_ERR_MEMORY, "opening '%.200s': out of memory", path);
    hasten_status st = parse_name(path, &spec, err);
    if (!st)
        st = load(m, &spec, path, err);
    mem_free(spec.file);
    mem_free(spec.vocab);
    return st;
}

/* ---- logits --------------------------------------------------------------------------------------------- */

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Whether the tokens up to position pos end with items [0, n). */
static bool ends_with(const int32_t *ids, int64_t n, int32_t pos, script_back_fn back, const void *ctx)
{
    if (n > (int64_t)pos + 1)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (back(ctx, pos - (int32_t)i) != ids[n - 1 - i])
            return false;
    return true;
}

struct script_state script_next(const struct script *s, const struct script_state *before, int32_t pos,
                                int32_t token, script_back_fn back, const void *ctx)
{
    struct script_state at = {.token = token, .seen = before ? before->seen : 0};
    at.hash = mix((before ? before->hash : mix(s->seed)) ^ mix((uint64_t)token));
    for (int32_t i = 0; i < s->n_ifs; i++)
        if (!(at.seen >> i & 1) && s->ifs[i].ids[s->ifs[i].n - 1] == token &&
            ends_with(s->ifs[i].ids, s->ifs[i].n - 1, pos - 1, back, ctx))
            at.seen |= (uint64_t)1 << i;
    return at;
}

/* How many items of an `after` rule have been said when the tokens up to pos are those before its next one: the
 * longest match; -1: none. */
static int64_t said_of(const struct script_rule *r, int32_t token, int32_t pos, script_back_fn back,
                       const void *ctx)
{
    for (int64_t said = r->items.n - 1; said > 0; said--)
        if (r->items.ids[said - 1] == token && ends_with(r->items.ids, said, pos, back, ctx) && pos >= said &&
            ends_with(r->after.ids, r->after.n, pos - (int32_t)said, back, ctx))
            return said;
    return ends_with(r->after.ids, r->after.n, pos, back, ctx) ? 0 : -1;
}

/* The rule that matches the most tokens says what comes next; of equal ones the first. */
static int32_t by_rules(const struct script *s, const struct script_state *at, int32_t pos,
                        script_back_fn back, const void *ctx)
{
    int64_t most = -1;
    int32_t item = s->otherwise;
    for (int32_t i = 0; i < s->n_rules; i++) {
        const struct script_rule *r = &s->rules[i];
        if (r->kind == SCRIPT_AT) {
            const int64_t said = (int64_t)pos + 1 - r->at;
            if (said >= 0 && said < r->items.n)
                return r->items.ids[said];
            continue;
        }
        if (r->condition >= 0 && !(at->seen >> r->condition & 1))
            continue;
        const int64_t said = said_of(r, at->token, pos, back, ctx);
        if (said >= 0 && said + r->after.n > most) {
            most = said + r->after.n;
            item = r->items.ids[said];
        }
    }
    return item;
}

static void by_hash(const struct script *s, const struct script_state *at, float *row)
{
    const uint64_t h = at->hash;
    for (int32_t i = 0; i < s->n_vocab; i++)
        row[i] = (float)(mix(h + (uint64_t)i) >> 40) * 0x1p-24f * 4 + (s->spoken[i] ? 8.0f : 0.0f);
    if (s->end >= 0)
        row[s->end] = s->length && mix(~h) % (uint64_t)s->length == 0 ? 40.0f : -40.0f;
}

void script_logits(const struct script *s, const struct script_state *at, int32_t pos, script_back_fn back,
                   const void *ctx, float *row)
{
    if (s->hashed) {
        by_hash(s, at, row);
        return;
    }
    const int32_t item = by_rules(s, at, pos, back, ctx);
    for (int32_t i = 0; i < s->n_vocab; i++)
        row[i] = item == SCRIPT_NAN ? NAN : 0.0f;
    if (item >= 0)
        row[item] = 100.0f;
}
