/* Head pruning: the output head knows some tokens only. */
#include "base/file.h"
#include "engine/weights.h"
#include "model/loaded.h"
#include "model/lora.h"
#include "text/vocab.h"
#include <stdlib.h>
#include <string.h>

struct head_knobs {
    int32_t first;
    const char *ids, *text;
};

static const struct knob head_table[] = {
    {"first", KNOB_INT, offsetof(struct head_knobs, first), 0, 1 << 24, "0", NULL, "tokens",
     "the tokens with the lowest ids, in BPE vocabularies the commonest"},
    {"ids", KNOB_TEXT, offsetof(struct head_knobs, ids), 0, 0, NULL, NULL, NULL,
     "a file with ids of tokens, such as `hasten tokenize` prints"},
    {"text", KNOB_TEXT, offsetof(struct head_knobs, text), 0, 0, NULL, NULL, NULL,
     "a file with a text, whose tokens are kept"},
};

/* ---- the set -------------------------------------------------------------------------------------------------- */

struct token_set {
    uint64_t *bits; /* [n_vocab / 64, rounded up] */
    int32_t n_vocab;
};

static void add(struct token_set *s, int32_t id)
{
    s->bits[id / 64] |= (uint64_t)1 << (id % 64);
}

static bool is_empty(const struct token_set *s)
{
    for (int32_t i = 0; i < (s->n_vocab + 63) / 64; i++)
        if (s->bits[i])
            return false;
    return true;
}

/* Numbers with anything but digits between them. */
static hasten_status add_ids(struct token_set *s, const char *path, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    hasten_status st = file_slurp(path, LIMIT_TEXT_BYTES, &text, &len, err);
    for (size_t at = 0; at < len && !st;) {
        int64_t id = 0;
        const size_t begin = at;
        for (; at < len && text[at] >= '0' && text[at] <= '9' && id < INT32_MAX; at++)
            id = 10 * id + (text[at] - '0');
        if (at == begin && text[at] && strchr("-+.eE", text[at]))
            st = error_set(err, HASTEN_ERR_FILE, "%s: '%c' at byte %zu (expected ids: [1,2,3])", path,
                           text[at], at);
        else if (at == begin)
            at++;
        else if (id >= s->n_vocab)
            st = error_set(err, HASTEN_ERR_FILE, "%s: id %lld at byte %zu (expected 0 to %d)", path,
                           (long long)id, begin, (int)s->n_vocab - 1);
        else
            add(s, (int32_t)id);
    }
    mem_free(text);
    return st;
}

static hasten_status add_text(struct token_set *s, const struct vocab *v, const char *path,
                              struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    struct tokens ids = {0};
    hasten_status st = file_slurp(path, LIMIT_TEXT_BYTES, &text, &len, err);
    if (!st)
        st = vocab_encode(v, text, len, 0, &ids, err);
    for (int64_t i = 0; i < ids.n && !st; i++)
        if (ids.ids[i] < s->n_vocab)
            add(s, ids.ids[i]);
    tokens_free(&ids);
    mem_free(text);
    return st;
}

/* What ends turns, control tokens and single bytes: without them answers cannot end, nor say just anything. */
static void add_needed(struct token_set *s, const struct vocab *v)
{
    const int32_t n = vocab_size(v) < s->n_vocab ? vocab_size(v) : s->n_vocab;
    for (int32_t id = 0; id < n; id++) {
        const enum vocab_token_type type = vocab_type(v, id);
        if (type == VOCAB_CONTROL || type == VOCAB_USER_DEFINED || type == VOCAB_BYTE || vocab_is_eog(v, id))
            add(s, id);
    }
}

static hasten_status make_set(const struct method_site *site, const struct head_knobs *k, struct token_set *s,
                              struct hasten_error *err)
{
    const struct vocab *v = model_vocab(site->model);
    s->n_vocab = site->desc->n_vocab;
    s->bits = mem_calloc(((size_t)s->n_vocab + 63) / 64, sizeof *s->bits);
    if (!s->bits)
        return error_set(err, HASTEN_ERR_MEMORY, "--weights head: out of memory");
    hasten_status st = HASTEN_OK;
    for (int32_t id = 0; id < k->first && id < s->n_vocab; id++)
        add(s, id);
    if (k->ids)
        st = add_ids(s, k->ids, err);
    if (k->text && !st)
        st = add_text(s, v, k->text, err);
    if (!st && is_empty(s))
        st = error_set(err, HASTEN_ERR_USAGE, "--weights head: names no tokens (expected a file with some)");
    add_needed(s, v);
    return st;
}

/* ---- the method ----------------------------------------------------------------------------------------------- */

static hasten_status head_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct head_knobs *k = knobs;
    const struct hasten_engine_settings *settings = site->settings;
    struct token_set s = {0};
    if (k->first == 0 && !k->ids && !k->text)
        return error_set(
            err, HASTEN_ERR_USAGE,
            "--weights head: names no tokens (expected first, ids or text, such as head:first=32000)");
    for (int32_t i = 0; i < settings->n_loras && settings->loras; i++)
        for (int32_t j = 0; j < settings->loras[i].lora->n_pairs; j++)
            if (settings->loras[i].lora->pairs[j].base == &site->desc->output)
                return error_set(err, HASTEN_ERR_USAGE,
                                 "--weights head: not with an adapter that changes the output head");
    const hasten_status st = make_set(site, k, &s, err);
    mem_free(s.bits);
    return st;
}

static int32_t head_rows(const struct method_site *site, const void *knobs, int32_t *ids)
{
    struct token_set s = {0};
    int32_t n = 0;
    if (!make_set(site, knobs, &s, NULL))
        for (int32_t id = 0; id < s.n_vocab; id++)
            if (s.bits[id / 64] >> (id % 64) & 1) {
                if (ids)
                    ids[n] = id;
                n++;
            }
    mem_free(s.bits);
    return n;
}

static const struct weights_ops head_ops = {.rows = head_rows};

const struct method method_head = {
    .name = "head",
    .title = "computes the logits of some tokens only",
    .paper = "vocabulary pruning; as a draft's vocabulary in EAGLE-3, Li et al., arXiv:2503.01840",
    .stage = STAGE_WEIGHTS,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine with all other tokens forbidden: what is computed has the same bits",
    .role = "rows",
    .knobs = head_table,
    .n_knobs = sizeof head_table / sizeof *head_table,
    .knobs_bytes = sizeof(struct head_knobs),
    .exercise = "first=100",
    .neutral = "first=16777216",
    .tries = "first=16000\0first=64000\0",
    .needs = METHOD_NEEDS_DECODER,
    .text =
        "The rows that stay are copied when the engine is opened. Tokens that end turns, control tokens and single bytes "
        "always stay. Other logits are -inf, so probabilities and log-probabilities are those among the tokens that "
        "stayed. The head is a quarter of what small models with large vocabularies read for a token. It writes what it "
        "can spell: text in other languages comes out byte by byte, if at all.",
    .check = head_check,
    .weights = &head_ops,
};
