/* See identity.h. */
#include "engine/identity.h"
#include "base/checksum.h"
#include "base/cpu.h"
#include "engine/overlay.h"
#include "model/script.h"
#include <string.h>

/* Raised whenever the canonical arithmetic (kernels.h), the rotation tables or the layout of a page change. */
#define ARITHMETIC "canonical 1"

/* ---- the model ------------------------------------------------------------------------------------------------ */

#define PIECE_BYTES ((uint64_t)4 << 20)
#define ROUND_PIECES 16 /* hashed before the pages of weights that lie elsewhere by now are given back */

struct piece {
    const uint8_t *data;
    uint64_t size;
    uint8_t sum[CHECKSUM_BYTES];
};

static void hash_pieces(void *ctx, int64_t begin, int64_t end, int worker)
{
    struct piece *p = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        checksum_of(p[i].data, p[i].size, p[i].sum);
}

static int64_t cut(const struct gguf *g, struct piece *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        for (uint64_t at = 0; at < t->size_bytes; at += PIECE_BYTES, n++) {
            const uint64_t left = t->size_bytes - at;
            if (out)
                out[n] = (struct piece){t->data + at, left < PIECE_BYTES ? left : PIECE_BYTES, {0}};
        }
    }
    return n;
}

static hasten_status add_tensors(struct hasten_engine *e, struct checksum *c, struct hasten_error *err)
{
    const struct gguf *g = e->model->gguf;
    const int64_t n = cut(g, NULL);
    const bool forget = e->packing.memory || e->experts.states;
    struct piece *pieces = mem_array((size_t)n + 1, sizeof *pieces);
    if (!pieces)
        return error_set(err, HASTEN_ERR_MEMORY, "hashing the model: out of memory for %lld pieces",
                         (long long)n);
    cut(g, pieces);
    for (int64_t i = 0; i < n; i += ROUND_PIECES) {
        const int64_t left = n - i, some = left < ROUND_PIECES ? left : ROUND_PIECES;
        pool_for(e->pool, some, 1, hash_pieces, pieces + i);
        for (int64_t j = i; forget && j < i + some; j++)
            model_forget(e->model, pieces[j].data, pieces[j].size);
    }
    for (int64_t i = 0; i < n; i++)
        checksum_add(c, pieces[i].sum, sizeof pieces[i].sum);
    mem_free(pieces);
    return HASTEN_OK;
}

static void add_text(struct checksum *c, const char *text)
{
    checksum_add(c, text, strlen(text) + 1);
}

static void add_number(struct checksum *c, int64_t x)
{
    checksum_add(c, &x, sizeof x);
}

static void add_shapes(const struct gguf *g, struct checksum *c)
{
    for (int64_t i = 0; i < gguf_n_keys(g); i++) {
        const struct gguf_str raw = gguf_value_raw(g, i);
        add_text(c, gguf_key(g, i));
        add_number(c, (int64_t)raw.len);
        checksum_add(c, raw.data, raw.len);
    }
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        add_text(c, t->name);
        add_text(c, t->type->name);
        checksum_add(c, t->ne, sizeof t->ne);
    }
}

static void add_items(struct checksum *c, const struct script_items *s)
{
    add_number(c, s->n);
    checksum_add(c, s->ids, (size_t)s->n * sizeof *s->ids);
}

static void add_script(const struct script *s, struct checksum *c)
{
    add_number(c, s->hashed);
    add_number(c, (int64_t)s->seed);
    add_number(c, s->length);
    add_number(c, s->n_vocab);
    add_number(c, s->end);
    add_number(c, s->otherwise);
    for (int32_t i = 0; i < s->n_rules; i++) {
        add_number(c, s->rules[i].kind);
        add_number(c, s->rules[i].at);
        add_number(c, s->rules[i].condition);
        add_items(c, &s->rules[i].after);
        add_items(c, &s->rules[i].items);
    }
    for (int32_t i = 0; i < s->n_ifs; i++)
        add_items(c, &s->ifs[i]);
}

static hasten_status put_model(struct hasten_engine *e, struct buf *out, struct hasten_error *err)
{
    const struct model_desc *d = &e->model->desc;
    struct checksum c;
    uint8_t sum[CHECKSUM_BYTES];
    char hex[2 * CHECKSUM_BYTES + 1];
    checksum_begin(&c);
    add_shapes(e->model->gguf, &c);
    if (e->model->script)
        add_script(e->model->script, &c);
    const hasten_status st = add_tensors(e, &c, err);
    if (st)
        return st;
    checksum_end(&c, sum);
    checksum_hex(sum, hex);
    const int rc = e->model->script
                       ? buf_printf(out, "model: scripted, %s\n", hex)
                       : buf_printf(out, "model: %s, %d layers, %s\n", d->arch, (int)d->n_layer, hex);
    return rc ? error_set(err, HASTEN_ERR_MEMORY, "hashing the model: out of memory") : HASTEN_OK;
}

/* ---- the rest ------------------------------------------------------------------------------------------------- */

/* Sines and cosines of the rotation come from the system's library, which has other code where there is no fused
 * multiply-add. */
static int put_arithmetic(const struct hasten_engine *e, struct buf *out)
{
#if defined(__x86_64__)
    const char *arch = cpu_features() & CPU_AVX2 ? "x86_64" : "x86_64 without fma";
#elif defined(__aarch64__)
    const char *arch = "aarch64";
#else
    const char *arch = "generic";
#endif
    if (e->model->script)
        return buf_puts(out, "arithmetic: none\n");
    return buf_printf(out, "arithmetic: %s, %s\n", e->settings.reference ? "reference" : ARITHMETIC, arch);
}

static int put_adapters(const struct hasten_engine *e, struct buf *out)
{
    uint8_t sum[CHECKSUM_BYTES];
    char hex[2 * CHECKSUM_BYTES + 1];
    struct checksum c;
    if (e->overlays.n == 0)
        return buf_puts(out, "adapters: none\n");
    checksum_begin(&c);
    overlays_sum(e, &c);
    checksum_end(&c, sum);
    checksum_hex(sum, hex);
    return buf_printf(out, "adapters: %s\n", hex);
}

bool identity_has(const struct method *m)
{
    const bool begins_anew = m->stage == STAGE_STOP || m->stage == STAGE_STORE || m->stage == STAGE_SCHEDULE;
    if (m->cache && m->cache->represents)
        return false; /* the line kv says it */
    return m->traits & METHOD_CHANGES_KV || m->attend || m->cache || m->depth || m->weights ||
           (m->seq_bytes && !begins_anew);
}

static int put_methods(const struct hasten_engine *e, struct buf *out)
{
    int rc = buf_puts(out, "methods:");
    bool any = false;
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct method_use *u = &e->methods.use[i];
        if (!identity_has(u->m))
            continue;
        rc |= buf_printf(out, "%s %s ", any ? "," : "", method_stage_name(u->m->stage));
        const size_t from = out->len;
        rc |= method_describe(u, out) != HASTEN_OK;
        for (size_t j = from; j < out->len; j++) /* a knob may hold any text; a line is one line */
            if ((unsigned char)out->data[j] < ' ')
                out->data[j] = '?';
        any = true;
    }
    return rc | buf_puts(out, any ? "\n" : " none\n");
}

static bool has_state(const struct hasten_engine *e)
{
    for (int32_t i = 0; i < e->methods.n; i++) {
        const struct method *m = e->methods.use[i].m;
        if (identity_has(m) && (m->seq_bytes || m->cache))
            return true;
    }
    return false;
}

static int put_engine(const struct hasten_engine *e, struct buf *out)
{
    static const char *const reps[] = {
        [KV_F16] = "f16", [KV_F32] = "f32", [KV_BF16] = "bf16", [KV_Q8] = "q8", [KV_Q4] = "q4"};
    int rc = put_arithmetic(e, out);
    rc |= buf_printf(out, "kv: %s, pages of %d, %d lanes\n", reps[e->kv.rep], KV_PAGE, (int)e->kv.n_lanes);
    rc |= has_state(e) ? buf_printf(out, "context: %d\n", (int)e->settings.n_ctx)
                       : buf_puts(out, "context: any\n");
    return rc | put_adapters(e, out) | put_methods(e, out);
}

hasten_status engine_identity(struct hasten_engine *e, const char **out, struct hasten_error *err)
{
    struct buf text = {0};
    if (!e->identity) {
        hasten_status st = put_model(e, &text, err);
        if (!st && put_engine(e, &text))
            st = error_set(err, HASTEN_ERR_MEMORY, "describing the engine: out of memory");
        if (st) {
            buf_free(&text);
            return st;
        }
        e->identity = text.data;
    }
    *out = e->identity;
    return HASTEN_OK;
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

const char *identity_line(const char *text, const char *name, size_t *n)
{
    const size_t len = strlen(name);
    while (*text) {
        const size_t line = strcspn(text, "\n");
        if (line > len + 2 && strncmp(text, name, len) == 0 && text[len] == ':' && text[len + 1] == ' ') {
            *n = line - len - 2;
            return text + len + 2;
        }
        text += line + (text[line] == '\n');
    }
    *n = 0;
    return NULL;
}

hasten_status identity_compare(const char *doing, const char *found, const char *expected,
                               struct hasten_error *err)
{
    static const char *const names[] = {"model", "arithmetic", "kv", "context", "adapters", "methods"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n, m;
        const char *a = identity_line(found, names[i], &n), *b = identity_line(expected, names[i], &m);
        if (!a || !b || n != m || memcmp(a, b, n) != 0)
            return error_set(err, HASTEN_ERR_FILE, "%s: made otherwise: %s: found '%.*s' (expected '%.*s')",
                             doing, names[i], (int)(n < 300 ? n : 300), a ? a : "", (int)(m < 300 ? m : 300),
                             b ? b : "");
    }
    return strcmp(found, expected) == 0
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_FILE, "%s: found a description with other lines (expected six)",
                           doing);
}
