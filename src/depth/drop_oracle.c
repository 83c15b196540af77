/* The oracle of static layer skip: the layers whose absence does least to the very text that is then read. */
#include "base/file.h"
#include "base/rng.h"
#include "engine/depth.h"
#include "model/loaded.h"
#include "text/vocab.h"
#include <math.h>
#include <string.h>

struct oracle_knobs {
    int32_t n, tokens;
    const char *text;
};

static const struct knob oracle_table[] = {
    {"n", KNOB_INT, offsetof(struct oracle_knobs, n), 0, LIMIT_LAYERS - 1, "1", NULL, "layers",
     "how many are left out"},
    {"tokens", KNOB_INT, offsetof(struct oracle_knobs, tokens), 2, LIMIT_BATCH_ROWS, "256", NULL, "tokens",
     "of the text, that are judged by"},
    {"text", KNOB_TEXT, offsetof(struct oracle_knobs, text), 0, 0, NULL, NULL, NULL,
     "a file with the text that will be read [tokens drawn at random]"},
};

struct search {
    const struct method_site *site;
    struct hasten_engine_settings settings;
    struct tokens ids;
    struct layer_set layers; /* left out so far */
    double nll;              /* of the run at hand */
};

static hasten_status find_tokens(struct search *s, const struct oracle_knobs *k, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    hasten_status st = HASTEN_OK;
    if (k->text) {
        st = file_slurp(k->text, LIMIT_TEXT_BYTES, &text, &len, err);
        if (!st)
            st = vocab_encode(model_vocab(s->site->model), text, len, VOCAB_BOS, &s->ids, err);
        mem_free(text);
    }
    for (uint32_t i = 0; !k->text && !st && i < (uint32_t)k->tokens; i++) {
        uint32_t r[4];
        philox4x32((const uint32_t[4]){i, 0, 0, 13}, (const uint32_t[2]){1, 0}, r);
        if (tokens_push(&s->ids, (int32_t)(r[0] % (uint32_t)s->site->desc->n_vocab)))
            st = error_set(err, HASTEN_ERR_MEMORY, "--depth drop_oracle: out of memory");
    }
    if (!st && s->ids.n < 2)
        st = error_set(err, HASTEN_ERR_USAGE, "--depth drop_oracle:text: %lld tokens (expected at least 2)",
                       (long long)s->ids.n);
    s->ids.n = s->ids.n < k->tokens ? s->ids.n : k->tokens;
    return st;
}

static int add_nll(void *ctx, const float *logits, const struct hasten_logits_row *rows, int32_t n_rows,
                   int32_t n_vocab)
{
    struct search *s = ctx;
    for (int32_t i = 0; i < n_rows; i++) {
        const float *row = logits + (int64_t)i * n_vocab;
        const int64_t next = rows[i].row + 1;
        double max = -INFINITY, sum = 0;
        for (int32_t j = 0; j < n_vocab; j++)
            max = (double)row[j] > max ? (double)row[j] : max;
        for (int32_t j = 0; j < n_vocab; j++)
            sum += exp((double)row[j] - max);
        if (next < s->ids.n)
            s->nll += max + log(sum) - (double)row[s->ids.ids[next]];
    }
    return 0;
}

static hasten_status spec_of(const struct layer_set *layers, struct buf *out, struct hasten_error *err)
{
    int bad = buf_puts(out, "drop:layers=");
    bool any = false;
    for (int32_t i = 0; i < LIMIT_LAYERS; i++)
        if (layer_set_has(layers, i)) {
            bad |= buf_printf(out, any ? "+%d" : "%d", (int)i);
            any = true;
        }
    return bad ? error_set(err, HASTEN_ERR_MEMORY, "--depth drop_oracle: out of memory") : HASTEN_OK;
}

/* The text's -log p without these layers. */
static hasten_status judge(struct search *s, const struct layer_set *layers, struct hasten_error *err)
{
    struct buf spec = {0};
    struct hasten_engine *e = NULL;
    struct hasten_seq *seq = NULL;
    hasten_status st = spec_of(layers, &spec, err);
    const struct hasten_method_use use = {.stage = "depth", .spec = spec.data};
    struct hasten_engine_settings settings = s->settings;
    settings.methods = &use;
    settings.n_methods = 1;
    s->nll = 0;
    if (!st)
        st = hasten_engine_open(s->site->model, &settings, &e, err);
    if (!st)
        st = hasten_seq_open(e, &seq, err);
    if (!st)
        st = hasten_step(e, &(struct hasten_item){.seq = seq, .tokens = s->ids.ids, .n = (int32_t)s->ids.n},
                         1, add_nll, s, NULL, err);
    hasten_engine_close(e);
    buf_free(&spec);
    return st;
}

/* One layer more, the one that costs least. */
static hasten_status drop_one(struct search *s, struct hasten_error *err)
{
    int32_t best = -1;
    double least = INFINITY;
    hasten_status st = HASTEN_OK;
    for (int32_t i = 0; i < s->site->desc->n_layer && !st; i++) {
        struct layer_set with = s->layers;
        if (layer_set_has(&with, i))
            continue;
        with.bits[i / 64] |= (uint64_t)1 << (i % 64);
        st = judge(s, &with, err);
        if (best < 0 || s->nll < least) {
            least = s->nll;
            best = i;
        }
    }
    if (!st && best >= 0)
        s->layers.bits[best / 64] |= (uint64_t)1 << (best % 64);
    return st;
}

static struct hasten_engine_settings probe_settings(const struct method_site *site,
                                                    const struct oracle_knobs *k)
{
    struct hasten_engine_settings s = *site->settings;
    s.n_ctx = s.n_batch = k->tokens;
    s.n_seq_max = 1;
    s.n_logits = 0;
    s.kv_positions = 0;
    s.memory_limit = 0; /* of the whole: the plan has these bytes */
    s.in_place = true;
    s.methods = NULL;
    s.n_methods = 0;
    return s;
}

static uint64_t oracle_bytes(const struct method_site *site, const void *knobs)
{
    const struct hasten_engine_settings s = probe_settings(site, knobs);
    struct hasten_plan plan = {0};
    if (((const struct oracle_knobs *)knobs)->n > 0)
        hasten_engine_plan(site->model, &s, &plan, NULL);
    return sizeof(struct layer_set) + plan.kv_bytes + plan.compute_bytes;
}

static hasten_status oracle_attach(const struct method_site *site, const void *knobs, void **state,
                                   struct hasten_error *err)
{
    const struct oracle_knobs *k = knobs;
    struct search s = {.site = site, .settings = probe_settings(site, k)};
    struct layer_set *out = mem_calloc(1, sizeof *out);
    if (!out)
        return error_set(err, HASTEN_ERR_MEMORY, "--depth drop_oracle: out of memory");
    hasten_status st = k->n ? find_tokens(&s, k, err) : HASTEN_OK;
    for (int32_t i = 0; i < k->n && !st; i++)
        st = drop_one(&s, err);
    *out = s.layers;
    tokens_free(&s.ids);
    if (st)
        mem_free(out);
    else
        *state = out;
    return st;
}

static void oracle_detach(void *state)
{
    mem_free(state);
}

static void oracle_program(const void *state, const struct model_desc *d, struct layer_set *skipped)
{
    const struct layer_set *s = state;
    (void)d;
    for (size_t i = 0; i < LIMIT_LAYERS / 64; i++)
        skipped->bits[i] |= s->bits[i];
}

static hasten_status oracle_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct oracle_knobs *k = knobs;
    return k->n < site->desc->n_layer
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_USAGE,
                           "--depth drop_oracle:n: found %d (expected fewer than %d layers)", (int)k->n,
                           (int)site->desc->n_layer);
}

static const struct depth_ops oracle_ops = {.program = oracle_program};

const struct method method_drop_oracle = {
    .name = "drop_oracle",
    .title = "leaves out the layers that a text misses least, known from that text",
    .paper = "Song et al., SLEB, arXiv:2402.09025: greedy by perplexity, here on the text itself",
    .stage = STAGE_DEPTH,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine of a model without these layers",
    .role = "program",
    .knobs = oracle_table,
    .n_knobs = sizeof oracle_table / sizeof *oracle_table,
    .knobs_bytes = sizeof(struct oracle_knobs),
    .exercise = "n=1,tokens=16",
    .neutral = "n=0",
    .traits = METHOD_CHANGES_KV | METHOD_FOR_TESTS,
    .needs = METHOD_NEEDS_DECODER,
    .text =
        "When an engine is opened each layer in turn is left out, and the text's probability taken; the one that costs least "
        "goes, and so on: as many passes as layers for each one left out. `drop` with a list from elsewhere can hardly do "
        "less damage on this text.",
    .check = oracle_check,
    .model_bytes = oracle_bytes,
    .attach = oracle_attach,
    .detach = oracle_detach,
    .depth = &oracle_ops,
};
