/* The law of a request's answers (run/run.h): the model's defaults, changed by what the request says. One for each choice,
 * as their streams and mirostat's memory are their own; everything else is shared among them. */
#include "serve/inside.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(struct fault *f)
{
    return fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
}

static void number(const struct params *p, size_t offset, double from, float *to)
{
    if (field_given(p, offset))
        *to = (float)from;
}

static void integer(const struct params *p, size_t offset, int64_t from, int32_t *to)
{
    if (field_given(p, offset))
        *to = (int32_t)from;
}

#define NUMBER(member) number(p, offsetof(struct params, member), p->member, &s->member)
#define INTEGER(member, to) integer(p, offsetof(struct params, member), p->member, &s->to)

static void take_settings(const struct params *p, struct sampler_settings *s)
{
    NUMBER(temperature);
    NUMBER(top_p);
    NUMBER(min_p);
    NUMBER(typical_p);
    NUMBER(presence_penalty);
    NUMBER(frequency_penalty);
    NUMBER(repeat_penalty);
    NUMBER(xtc_probability);
    NUMBER(xtc_threshold);
    NUMBER(dry_multiplier);
    NUMBER(dry_base);
    NUMBER(mirostat_tau);
    NUMBER(mirostat_eta);
    INTEGER(top_k, top_k);
    INTEGER(repeat_last_n, penalty_last_n);
    INTEGER(dry_allowed_length, dry_allowed_length);
    INTEGER(dry_penalty_last_n, dry_last_n);
    INTEGER(mirostat, mirostat);
    if (s->top_k < 0)
        s->top_k = 0;
    if (s->top_p <= 0)
        s->top_p = 1.2e-38f; /* the likeliest alone */
}

/* ---- bias --------------------------------------------------------------------------------------------------- */

static bool bad_bias(struct fault *f, const struct server *s, const char *key)
{
    return fault_set(f, 400, "invalid_value", "logit_bias",
                     "logit_bias: '%.32s' (expected token ids from 0 to %d, each with a number)", key,
                     (int)s->n_vocab - 1);
}

static bool add_bias(struct generation *g, long long id, const json_t *v, const char *key, int32_t *n,
                     struct fault *f)
{
    const bool never = json_is_false(v); /* as llama.cpp has it */
    const double b = json_number_value(v);
    if (id < 0 || id >= g->server->n_vocab || (!json_is_number(v) && !never) || !isfinite(b) ||
        fabs(b) > 1e30)
        return bad_bias(f, g->server, key);
    g->bias[(*n)++] = (struct logit_bias){(int32_t)id, never || b <= -100 ? -INFINITY : (float)b};
    return true;
}

static bool biases_of_object(struct generation *g, json_t *o, int32_t *n, struct fault *f)
{
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v)
    {
        char *end;
        const long long id = strtoll(key, &end, 10);
        const bool whole = key[0] >= '0' && key[0] <= '9' && !*end && strlen(key) < 12;
        if (!whole)
            return bad_bias(f, g->server, key);
        if (!add_bias(g, id, v, key, n, f))
            return false;
    }
    return true;
}

static bool biases_of_array(struct generation *g, const json_t *a, int32_t *n, struct fault *f)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *pair = json_array_get(a, i), *id = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !json_is_integer(id))
            return bad_bias(f, g->server, "an element");
        if (!add_bias(g, json_integer_value(id), json_array_get(pair, 1), "an element", n, f))
            return false;
    }
    return true;
}

static bool take_biases(struct generation *g, struct sampler_settings *s, struct fault *f)
{
    const struct server *srv = g->server;
    json_t *v = g->p.logit_bias;
    const int32_t n_eog = g->p.ignore_eos ? sampler_forbid_ends(srv->vocab, srv->n_vocab, NULL) : 0;
    int32_t n = 0;
    if (v && !json_is_object(v) && !json_is_array(v))
        return bad_bias(f, srv, "the value");
    const size_t most = json_object_size(v) + json_array_size(v) + (size_t)n_eog;
    if (most == 0)
        return true;
    g->bias = mem_array(most, sizeof *g->bias);
    if (!g->bias)
        return no_memory(f);
    if (!(json_is_array(v) ? biases_of_array(g, v, &n, f) : biases_of_object(g, v, &n, f)))
        return false;
    if (g->p.ignore_eos)
        n += sampler_forbid_ends(srv->vocab, srv->n_vocab, g->bias + n);
    s->bias = g->bias;
    s->n_bias = n;
    return true;
}

/* ---- texts -------------------------------------------------------------------------------------------------- */

static size_t n_texts(const json_t *v)
{
    return json_is_string(v) ? 1 : json_array_size(v);
}

static const json_t *text_at(const json_t *v, size_t i)
{
    return json_is_string(v) ? v : json_array_get(v, i);
}

static bool take_stops(struct generation *g, struct sampling *law, struct fault *f)
{
    const json_t *v = g->p.stop;
    const size_t n = n_texts(v);
    if (n > LIMIT_STOP_STRINGS)
        return fault_set(f, 400, "invalid_value", "stop", "stop: %zu texts (expected at most %d)", n,
                         LIMIT_STOP_STRINGS);
    g->stops = n ? mem_array(n, sizeof *g->stops) : NULL;
    if (n && !g->stops)
        return no_memory(f);
    for (size_t i = 0; i < n; i++) {
        const json_t *t = text_at(v, i);
        const size_t len = json_string_length(t);
        if (len == 0 || len > LIMIT_STOP_BYTES)
            return fault_set(f, 400, "invalid_value", "stop", "stop: a text of %zu bytes (expected 1 to %d)",
                             len, LIMIT_STOP_BYTES);
        g->stops[i] = (struct gguf_str){json_string_value(t), len};
    }
    law->stops = g->stops;
    law->n_stops = (int)n;
    return true;
}

/* DRY's breakers: the tokens in whose text one of the given ones stands. */
static bool take_breakers(struct generation *g, struct sampler_settings *s, struct fault *f)
{
    static const struct gguf_str usual[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};
    const json_t *v = g->p.dry_sequence_breakers;
    const size_t n = v ? n_texts(v) : sizeof usual / sizeof *usual;
    const struct vocab *vocab = g->server->vocab;
    struct buf bytes = {0};
    struct hasten_error err;
    if (s->dry_multiplier <= 0 || n == 0)
        return true;
    if (n > LIMIT_STOP_STRINGS)
        return fault_set(f, 400, "invalid_value", "dry_sequence_breakers",
                         "dry_sequence_breakers: %zu texts (expected at most %d)", n, LIMIT_STOP_STRINGS);
    g->breakers = mem_calloc((size_t)g->server->n_vocab, 1);
    if (!g->breakers)
        return no_memory(f);
    for (int32_t id = 0; id < g->server->n_vocab && id < vocab_size(vocab); id++) {
        buf_clear(&bytes);
        if (vocab_token_bytes(vocab, id, false, &bytes, &err))
            break;
        for (size_t i = 0; i < n && bytes.len; i++) {
            const struct gguf_str t =
                v ? (struct gguf_str){json_string_value(text_at(v, i)), json_string_length(text_at(v, i))}
                  : usual[i];
            g->breakers[id] |= t.len && memmem(bytes.data, bytes.len, t.data, t.len) != NULL;
        }
    }
    buf_free(&bytes);
    s->dry_breakers = g->breakers;
    return true;
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

static bool take_logprobs(struct generation *g, struct sampling *law, struct fault *f)
{
    const struct params *p = &g->p;
    const json_t *v = p->logprobs_any;
    if (g->endpoint != EP_COMPLETIONS) {
        if (p->top_logprobs && !p->logprobs_on)
            return fault_set(f, 400, "invalid_value", "top_logprobs",
                             "top_logprobs: without logprobs (expected both)");
        law->logprobs = p->logprobs_on;
        law->settings.n_logprobs = (int32_t)p->top_logprobs;
        return true;
    }
    if (!v || json_is_false(v))
        return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 20)
        return fault_set(f, 400, "invalid_value", "logprobs",
                         "logprobs: expected an integer from 0 to 20, or false");
    if (p->echo)
        return fault_set(f, 400, "unsupported_value", "logprobs",
                         "logprobs: not supported with echo (expected one of them)");
    law->logprobs = true;
    law->settings.n_logprobs = (int32_t)json_integer_value(v);
    return true;
}

static int32_t n_predict(const struct params *p)
{
    int64_t n = -1;
    if (FIELD_GIVEN(p, n_predict))
        n = p->n_predict;
    if (FIELD_GIVEN(p, max_tokens))
        n = p->max_tokens;
    if (FIELD_GIVEN(p, max_completion_tokens))
        n = p->max_completion_tokens;
    return n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

/* The law of all choices but for what each has of its own. */
static bool common_law(struct generation *g, struct sampling *law, struct fault *f)
{
    struct server *s = g->server;
    const struct params *p = &g->p;
    struct hasten_error err;
    *law = (struct sampling){.settings = s->defaults, .sampler = s->sampler};
    take_settings(p, &law->settings);
    law->settings.seed = p->seed >= 0 ? (uint64_t)p->seed : random_seed() >> 11;
    law->n_predict = n_predict(p);
    if (!take_logprobs(g, law, f) || !take_biases(g, &law->settings, f) || !take_stops(g, law, f) ||
        !take_breakers(g, &law->settings, f))
        return false;
    if (sampler_check(&law->settings, s->n_vocab, &err))
        return fault_of(f, &err);
    if (g->grammar) {
        law->grammar = g->grammar->grammar;
        law->masks = g->grammar->masks;
    }
    return true;
}

bool law_prepare(struct generation *g, struct fault *f)
{
    struct sampling law;
    struct hasten_error err;
    if (!common_law(g, &law, f))
        return false;
    for (int32_t i = 0; i < g->n_choices; i++) {
        struct choice *c = &g->choices[i];
        c->law = law;
        c->law.settings.stream = (uint32_t)(i % (int32_t)g->p.n);
        if (law.settings.mirostat && sampler_memory_open(&c->law.memory, &err))
            return fault_of(f, &err);
    }
    return true;
}
