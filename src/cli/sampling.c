/* The sampling law of a run: which value comes from an option, which from the file, which is the default
 * (generate.h declares it beside the loop that uses it). */
#include "base/file.h"
#include "base/limits.h"
#include "base/rng.h"
#include "cli/generate.h"
#include "engine/sample.h"
#include "sample/json_schema.h"
#include "sample/of_file.h"
#include "sample/regex.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct sample_args, field)

static const struct option_def sample_defs[] = {
    {"n-predict", "n", OPT_INT, AT(n_predict), -1, 1 << 24, "-1", "N",
     "tokens to generate; -1: until the model stops"},
    {"seed", "s", OPT_SEED, AT(seed), 0, 0, NULL, "N", "seed of the noise [random; --json tells it]"},
    {"temp", "temperature", OPT_FLOAT, AT(temperature), 0, 1e6, NULL, "X",
     "temperature; 0: the likeliest token [0.8]"},
    {"top-k", NULL, OPT_INT, AT(top_k), 0, 1 << 24, NULL, "N", "keep the N likeliest; 0: off [40]"},
    {"top-p", NULL, OPT_FLOAT, AT(top_p), VALUE_ABOVE_ZERO, 1, NULL, "X",
     "keep the likeliest with X of the mass; 1: off [0.95]"},
    {"min-p", NULL, OPT_FLOAT, AT(min_p), 0, 1, NULL, "X",
     "keep those with X of the best's probability [0.05]"},
    {"typical", "typical-p", OPT_FLOAT, AT(typical_p), VALUE_ABOVE_ZERO, 1, NULL, "X",
     "keep the most typical with X of the mass; 1: off [1]"},
    {"xtc-probability", NULL, OPT_FLOAT, AT(xtc_probability), 0, 1, NULL, "X",
     "how often top choices are excluded; 0: never [0]"},
    {"xtc-threshold", NULL, OPT_FLOAT, AT(xtc_threshold), 0, 1, NULL, "X",
     "XTC: top choices have X of the mass; above 0.5: off [0.1]"},
    {"mirostat", NULL, OPT_INT, AT(mirostat), 0, 2, NULL, "N",
     "hold surprise, version 1 or 2, instead of top-k to XTC [0]"},
    {"mirostat-tau", "mirostat-ent", OPT_FLOAT, AT(mirostat_tau), VALUE_ABOVE_ZERO, 1e6, NULL, "X",
     "mirostat: the surprise to hold, in bits [5]"},
    {"mirostat-eta", "mirostat-lr", OPT_FLOAT, AT(mirostat_eta), 0, 1, NULL, "X",
     "mirostat: how fast its bound follows [0.1]"},
    {"dry-multiplier", NULL, OPT_FLOAT, AT(dry_multiplier), 0, 1e6, NULL, "X",
     "subtract X * base^(n - allowed) from what repeats n tokens; 0: off [0]"},
    {"dry-base", NULL, OPT_FLOAT, AT(dry_base), 1, 1e6, NULL, "X", "DRY: the base [1.75]"},
    {"dry-allowed-length", NULL, OPT_INT, AT(dry_allowed_length), 1, 1 << 24, NULL, "N",
     "DRY: the shortest repetition to lower [2]"},
    {"dry-penalty-last-n", NULL, OPT_INT, AT(dry_last_n), -1, 1 << 24, NULL, "N",
     "DRY: tokens to look at; -1: all [-1]"},
    {"dry-sequence-breaker", NULL, OPT_LIST, AT(breakers), 0, 0, NULL, "TEXT",
     "DRY: tokens with TEXT end a sequence; none: no breakers; repeatable [newline : \" *]"},
    {"repeat-penalty", NULL, OPT_FLOAT, AT(repeat_penalty), VALUE_ABOVE_ZERO, 1e6, NULL, "X",
     "divide seen tokens' logits; 1: off [1]"},
    {"presence-penalty", NULL, OPT_FLOAT, AT(presence_penalty), -1e6, 1e6, NULL, "X", "subtract if seen [0]"},
    {"frequency-penalty", NULL, OPT_FLOAT, AT(frequency_penalty), -1e6, 1e6, NULL, "X",
     "subtract per occurrence [0]"},
    {"repeat-last-n", NULL, OPT_INT, AT(penalty_last_n), -1, 1 << 24, NULL, "N",
     "tokens penalties look at; -1: all [64]"},
    {"logit-bias", NULL, OPT_LIST, AT(bias), 0, 0, NULL, "ID=B",
     "add B to a token's logit (-inf forbids); repeatable"},
    {"stop", NULL, OPT_LIST, AT(stops), 0, 0, NULL, "TEXT", "end before this text; repeatable"},
    {"ignore-eos", NULL, OPT_FLAG, AT(ignore_eos), 0, 0, NULL, NULL, "forbid the tokens that end a turn"},
    {"grammar", "grammar-file", OPT_STRING, AT(grammar), 0, 0, NULL, "FILE",
     "write only what this GBNF grammar says; - is stdin"},
    {"grammar-text", NULL, OPT_STRING, AT(grammar_text), 0, 0, NULL, "TEXT", "the same, the grammar itself"},
    {"json-schema", "json-schema-file", OPT_STRING, AT(json_schema), 0, 0, NULL, "FILE",
     "write only JSON that this schema validates; - is stdin"},
    {"json-schema-text", NULL, OPT_STRING, AT(json_schema_text), 0, 0, NULL, "TEXT",
     "the same, the schema itself"},
    {"regex", NULL, OPT_STRING, AT(regex), 0, 0, NULL, "PATTERN",
     "write only what this regular expression matches, whole"},
    {"logprobs", NULL, OPT_INT, AT(n_logprobs), 0, 64, NULL, "N",
     "with --json: log-probabilities, N alternatives"},
};

void sample_args_init(struct sample_args *a)
{
    *a = (struct sample_args){.temperature = NAN,
                              .top_p = NAN,
                              .min_p = NAN,
                              .repeat_penalty = NAN,
                              .presence_penalty = NAN,
                              .frequency_penalty = NAN,
                              .typical_p = NAN,
                              .xtc_probability = NAN,
                              .xtc_threshold = NAN,
                              .dry_multiplier = NAN,
                              .dry_base = NAN,
                              .mirostat_tau = NAN,
                              .mirostat_eta = NAN,
                              .dry_allowed_length = -1,
                              .dry_last_n = -2,
                              .mirostat = -1,
                              .top_k = -1,
                              .penalty_last_n = -2,
                              .n_logprobs = -1,
                              .n_predict = -1};
}

struct option_group sample_group(struct sample_args *a)
{
    return (struct option_group){.title = "Sampling:",
                                 .defs = sample_defs,
                                 .n = (int)(sizeof sample_defs / sizeof *sample_defs),
                                 .dst = a,
                                 .exclusive = "grammar grammar-text json-schema json-schema-text regex"};
}

static void from_option(float *value, float option)
{
    if (!isnan(option))
        *value = option;
}

static void from_options(struct sampler_settings *p, const struct sample_args *a)
{
    from_option(&p->temperature, a->temperature);
    from_option(&p->top_p, a->top_p);
    from_option(&p->min_p, a->min_p);
    from_option(&p->typical_p, a->typical_p);
    from_option(&p->xtc_probability, a->xtc_probability);
    from_option(&p->xtc_threshold, a->xtc_threshold);
    from_option(&p->dry_multiplier, a->dry_multiplier);
    from_option(&p->dry_base, a->dry_base);
    from_option(&p->mirostat_tau, a->mirostat_tau);
    from_option(&p->mirostat_eta, a->mirostat_eta);
    from_option(&p->repeat_penalty, a->repeat_penalty);
    from_option(&p->presence_penalty, a->presence_penalty);
    from_option(&p->frequency_penalty, a->frequency_penalty);
    if (a->top_k >= 0)
        p->top_k = a->top_k;
    if (a->penalty_last_n >= -1)
        p->penalty_last_n = a->penalty_last_n;
    if (a->dry_allowed_length >= 1)
        p->dry_allowed_length = a->dry_allowed_length;
    if (a->dry_last_n >= -1)
        p->dry_last_n = a->dry_last_n;
    if (a->mirostat >= 0)
        p->mirostat = a->mirostat;
    if (a->n_logprobs >= 0)
        p->n_logprobs = a->n_logprobs;
}

/* "ID=B" */
static hasten_status parse_bias(const char *text, struct logit_bias *out, struct hasten_error *err)
{
    char *end, *end2;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '=' || errno || id < 0 || id > INT32_MAX)
        return error_set(err, HASTEN_ERR_USAGE, "option --logit-bias: '%s' (expected ID=B, such as 42=-1.5)",
                         text);
    float b = strtof(end + 1, &end2);
    if (isspace((unsigned char)end[1]) || end2 == end + 1 || *end2)
        return error_set(err, HASTEN_ERR_USAGE, "option --logit-bias: '%s' (expected ID=B, such as 42=-1.5)",
                         text);
    if (isnan(b) || b == INFINITY)
        return error_set(err, HASTEN_ERR_USAGE,
                         "option --logit-bias: '%s' (expected a finite number, or -inf)", text);
    *out = (struct logit_bias){(int32_t)id, b};
    return HASTEN_OK;
}

static hasten_status take_biases(const struct sample_args *a, const struct session *s, struct sampling *out,
                                 struct hasten_error *err)
{
    const int32_t n_logits = hasten_model_n_vocab(s->model),
                  n_eog = a->ignore_eos ? sampler_forbid_ends(s->vocab, n_logits, NULL) : 0;
    out->bias = mem_array((size_t)(a->bias.n + n_eog) + 1, sizeof *out->bias);
    if (!out->bias)
        return error_set(err, HASTEN_ERR_MEMORY, "sampling: out of memory");
    int32_t n = 0;
    for (int i = 0; i < a->bias.n; i++) {
        hasten_status st = parse_bias(a->bias.items[i], &out->bias[n++], err);
        if (!st && out->bias[n - 1].id >= n_logits)
            st = error_set(err, HASTEN_ERR_USAGE, "option --logit-bias: '%s' (expected an ID from 0 to %d)",
                           a->bias.items[i], (int)n_logits - 1);
        if (st)
            return st;
    }
    if (a->ignore_eos)
        n += sampler_forbid_ends(s->vocab, n_logits, out->bias + n);
    out->settings.bias = out->bias;
    out->settings.n_bias = n;
    return HASTEN_OK;
}

/* DRY's breakers: the tokens in whose text one of the given texts stands. The usual ones when none is given. */
static hasten_status take_breakers(const struct sample_args *a, const struct session *s, struct sampling *out,
                                   struct hasten_error *err)
{
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const char *const *texts = a->breakers.n ? a->breakers.items : usual;
    const int n = a->breakers.n ? a->breakers.n : (int)(sizeof usual / sizeof *usual);
    const int32_t n_vocab = hasten_model_n_vocab(s->model), n_text = vocab_size(s->vocab);
    struct buf bytes = {0};
    if (n == 1 && strcmp(texts[0], "none") == 0)
        return HASTEN_OK;
    for (int i = 0; i < n; i++)
        if (!texts[i][0])
            return error_set(err, HASTEN_ERR_USAGE,
                             "option --dry-sequence-breaker: an empty text (expected one, or 'none')");
    out->breakers = mem_calloc((size_t)n_vocab, 1);
    hasten_status st =
        out->breakers ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "sampling: out of memory");
    for (int32_t id = 0; id < n_vocab && id < n_text && !st; id++) {
        buf_clear(&bytes);
        st = vocab_token_bytes(s->vocab, id, false, &bytes, err);
        for (int i = 0; i < n && !st && bytes.len; i++)
            out->breakers[id] |= memmem(bytes.data, bytes.len, texts[i], strlen(texts[i])) != NULL;
    }
    buf_free(&bytes);
    out->settings.dry_breakers = out->breakers;
    return st;
}

/* The detokeniser has the same bounds; here they are a wrong option. */
static hasten_status check_stops(const struct sample_args *a, struct hasten_error *err)
{
    if (a->stops.n > LIMIT_STOP_STRINGS)
        return error_set(err, HASTEN_ERR_USAGE, "option --stop: given %d times (expected at most %d)",
                         a->stops.n, LIMIT_STOP_STRINGS);
    for (int i = 0; i < a->stops.n; i++) {
        size_t len = strlen(a->stops.items[i]);
        if (len == 0 || len > LIMIT_STOP_BYTES)
            return error_set(err, HASTEN_ERR_USAGE, "option --stop: a text of %zu bytes (expected 1 to %d)",
                             len, LIMIT_STOP_BYTES);
    }
    return HASTEN_OK;
}

static hasten_status take_stops(const struct sample_args *a, struct sampling *out, struct hasten_error *err)
{
    hasten_status st = check_stops(a, err);
    if (st)
        return st;
    out->stops = mem_array((size_t)a->stops.n + 1, sizeof *out->stops);
    if (!out->stops)
        return error_set(err, HASTEN_ERR_MEMORY, "sampling: out of memory");
    for (int i = 0; i < a->stops.n; i++)
        out->stops[i] = (struct gguf_str){a->stops.items[i], strlen(a->stops.items[i])};
    out->n_stops = a->stops.n;
    return HASTEN_OK;
}

/* ---- the grammar --------------------------------------------------------------------------------------- */

/* What is wrong with a text of the command line is a wrong option. */
static hasten_status as_option(hasten_status st, struct hasten_error *err)
{
    return st && st != HASTEN_ERR_MEMORY ? (err->status = HASTEN_ERR_USAGE) : st;
}

/* Compiles what a schema or an expression was written as. */
static hasten_status open_written(const char *name, const struct buf *gbnf, struct sampling *out,
                                  struct hasten_error *err)
{
    return grammar_open(name, gbnf->data, gbnf->len, &out->grammar, err);
}

static hasten_status take_schema(const struct sample_args *a, struct sampling *out, struct hasten_error *err)
{
    const char *name = a->json_schema_text           ? "option --json-schema-text"
                       : strcmp(a->json_schema, "-") ? a->json_schema
                                                     : "stdin";
    char *text = NULL;
    size_t len = a->json_schema_text ? strlen(a->json_schema_text) : 0;
    struct buf gbnf = {0};
    hasten_status st = HASTEN_OK;
    if (!a->json_schema_text && a->json_schema[0] == '{')
        return error_set(
            err, HASTEN_ERR_USAGE,
            "option --json-schema: a schema's text (expected a file with it; --json-schema-text takes text)");
    if (!a->json_schema_text)
        st = file_slurp(a->json_schema, LIMIT_GRAMMAR_BYTES, &text, &len, err);
    if (st)
        return st;
    st = json_schema_grammar(text ? text : a->json_schema_text, len, &gbnf, err);
    if (!st)
        st = open_written("JSON schema", &gbnf, out, err);
    if (st) {
        const hasten_status found = st;
        error_prefix(err, "%s", name);
        st = a->json_schema_text ? as_option(found, err) : found;
    }
    buf_free(&gbnf);
    mem_free(text);
    return st;
}

static hasten_status take_regex(const struct sample_args *a, struct sampling *out, struct hasten_error *err)
{
    struct buf gbnf = {0};
    hasten_status st = regex_grammar(a->regex, strlen(a->regex), &gbnf, err);
    if (!st)
        st = open_written("regular expression", &gbnf, out, err);
    if (st) {
        const hasten_status found = st;
        error_prefix(err, "option --regex");
        st = as_option(found, err);
    }
    buf_free(&gbnf);
    return st;
}

/* --sample gbnf. */
static hasten_status take_method(const struct sample_args *a, const char *spec, struct sampling *out,
                                 struct hasten_error *err)
{
    struct method_use u;
    struct sample_grammar g;
    hasten_status st = method_parse(STAGE_SAMPLE, spec, &u, err);
    if (st)
        return st;
    ((const struct sample_ops *)u.m->hosted)->grammar(u.knobs, &g);
    if (a->grammar || a->grammar_text || a->json_schema || a->json_schema_text || a->regex)
        st = error_set(err, HASTEN_ERR_USAGE,
                       "options --sample %s and another grammar (expected one of them)", u.m->name);
    else if (!g.file)
        st = error_set(err, HASTEN_ERR_USAGE, "--sample %s:file: found none (expected a grammar's file)",
                       u.m->name);
    else
        st = grammar_open_file(g.file, &out->grammar, err);
    out->full_head = g.full_head;
    out->scan = g.scan;
    method_use_close(&u);
    return st;
}

hasten_status sampling_take_grammar(const struct sample_args *a, const struct method_args *methods,
                                    struct sampling *out, struct hasten_error *err)
{
    if (methods->spec[STAGE_SAMPLE].n == 1) /* several are refused by the engine */
        return take_method(a, methods->spec[STAGE_SAMPLE].items[0], out, err);
    if (a->json_schema || a->json_schema_text)
        return take_schema(a, out, err);
    if (a->regex)
        return take_regex(a, out, err);
    if (a->grammar_text)
        return as_option(grammar_open("option --grammar-text", a->grammar_text, strlen(a->grammar_text),
                                      &out->grammar, err),
                         err);
    if (a->grammar && strstr(a->grammar, "::="))
        return error_set(
            err, HASTEN_ERR_USAGE,
            "option --grammar: a grammar's text (expected a file with it; --grammar-text takes text)");
    return a->grammar ? grammar_open_file(a->grammar, &out->grammar, err) : HASTEN_OK;
}

static hasten_status open_masks(const struct sample_args *a, const struct session *s, struct sampling *out,
                                struct hasten_error *err)
{
    const int32_t n_vocab = hasten_model_n_vocab(s->model);
    const hasten_status st = token_trie_open(s->vocab, n_vocab, &out->trie, err);
    return st ? st
              : grammar_masks_open(out->grammar, out->trie, out->scan ? GRAMMAR_SCAN : GRAMMAR_TRIE,
                                   a->ignore_eos, &out->masks, err);
}

hasten_status sampling_open(const struct sample_args *a, const struct option_group *g,
                            const struct session *s, struct sampling *out, struct hasten_error *err)
{
    sampler_default_settings(&out->settings);
    hasten_status st = sampler_settings_of_file(s->gguf, &out->settings, err);
    from_options(&out->settings, a);
    out->settings.seed =
        option_given(g, "seed") ? a->seed : random_seed() >> 11; /* 53 bits: exact in any JSON reader */
    out->n_predict = a->n_predict;
    out->logprobs = a->n_logprobs >= 0;
    if (!st)
        st = take_biases(a, s, out, err);
    if (!st)
        st = take_stops(a, out, err);
    if (!st && out->settings.dry_multiplier > 0)
        st = take_breakers(a, s, out, err);
    if (!st && out->grammar)
        st = open_masks(a, s, out, err);
    if (!st && out->settings.mirostat)
        st = sampler_memory_open(&out->memory, err);
    if (!st)
        st = sampler_check(&out->settings, hasten_model_n_vocab(s->model), err);
    if (!st)
        st = sampler_open(hasten_model_n_vocab(s->model), &out->sampler, err);
    if (st)
        sampling_close(out);
    return st;
}

void sampling_close(struct sampling *s)
{
    sampler_close(s->sampler);
    sampler_memory_close(s->memory);
    mem_free(s->bias);
    mem_free(s->breakers);
    mem_free(s->stops);
    grammar_masks_close(s->masks);
    token_trie_close(s->trie);
    grammar_close(s->grammar);
    *s = (struct sampling){0};
}
