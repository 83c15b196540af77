/* The fields of requests: one table says of each its name, type, range, default, which endpoints know it and what becomes
 * of it. From it come the parser, the table in docs/http.md, /openapi.json and the sweep of hostile values in
 * tests/serve.
 *
 * A field that nobody knows is ignored and named in the answer's `warnings`. A known one of a wrong type or out of range
 * is refused by name. null counts as not given. */
#ifndef HASTEN_SERVE_FIELDS_H
#define HASTEN_SERVE_FIELDS_H
#include "serve/errors.h"
#include <jansson.h>
#include <stdint.h>

enum endpoint { /* bits */
    EP_CHAT = 1,
    EP_COMPLETIONS = 2,
    EP_EMBEDDINGS = 4,
    EP_TOKENIZE = 8,
    EP_DETOKENIZE = 16,
    EP_TEMPLATE = 32,
    EP_INFILL = 64,
    EP_GENERATE = EP_CHAT | EP_COMPLETIONS | EP_INFILL
};
#define ENDPOINT_BITS 7

enum field_type { /* what it is in JSON; what it becomes in struct params */
    FIELD_BOOL,   /* bool */
    FIELD_INT,    /* int64_t in [lo, hi] */
    FIELD_NUMBER, /* double in [lo, hi] */
    FIELD_STRING, /* json_t *, a string without NUL */
    FIELD_TEXTS,  /* json_t *: a string, or an array of strings */
    FIELD_OBJECT, /* json_t * */
    FIELD_ARRAY,  /* json_t * */
    FIELD_ANY     /* json_t *: whoever uses it looks */
};

enum field_use {
    FIELD_USED,
    FIELD_NEUTRAL, /* nothing happens at `value`, which routers and clients send; anything else is refused */
    FIELD_REFUSED, /* known, not supported: refused unless null, false, or empty */
    FIELD_IGNORED, /* taken without effect, named in `warnings` */
    FIELD_SILENT   /* taken without effect, and none is expected of an engine: whom it is for */
};

struct field {
    const char *name;
    unsigned endpoints;
    enum field_type type;
    enum field_use use;
    size_t offset;     /* into struct params */
    double lo, hi;     /* of numbers */
    const char *value; /* JSON: the default, or the neutral value; NULL: none, or it depends on the model */
    const char *doc;   /* one line */
};
extern const struct field fields[];
extern const int n_fields;

/* What the fields of one request came to. Zero where a field has no default. json_t are borrowed from the request. */
struct params {
    json_t *model, *messages, *prompt, *input, *tokens, *content;
    bool stream, echo, logprobs_on, ignore_eos, cache_prompt, return_progress, receipt, parse_special,
        add_special, add_special_tokens, add_generation_prompt, normalize;
    int64_t max_tokens, max_completion_tokens, n_predict, n, best_of, seed, top_k, repeat_last_n,
        top_logprobs, n_logprobs, priority, mirostat, dry_allowed_length, dry_penalty_last_n, dimensions;
    double temperature, top_p, min_p, typical_p, presence_penalty, frequency_penalty, repeat_penalty,
        xtc_probability, xtc_threshold, dry_multiplier, dry_base, mirostat_tau, mirostat_eta, timeout;
    json_t *stop, *logit_bias, *grammar, *stream_options, *chat_template_kwargs, *tools, *tool_choice,
        *response_format, *json_schema, *cache_salt, *encoding_format, *pooling, *dry_sequence_breakers,
        *suffix, *input_prefix, *input_suffix, *input_extra, *middle, *reasoning_effort, *parallel_tool_calls,
        *methods, *logprobs_any;
    /* by field: was it given (and not null)? */
    uint8_t given[192];
};
/* Whether the field at offsetof(struct params, member) was given under any of its names. */
#define FIELD_GIVEN(p, member) field_given(p, offsetof(struct params, member))
bool field_given(const struct params *p, size_t offset);

/* Reads an object. warnings: gets names of what was ignored (strings), or NULL. False after filling f. */
bool fields_parse(const json_t *object, enum endpoint ep, struct params *out, json_t **warnings,
                  struct fault *f);
const struct field *field_find(const char *name, unsigned endpoints);
/* The names of an endpoint, as the table shows it: "chat". bit: 0 to ENDPOINT_BITS - 1. */
const char *endpoint_name(int bit);
const char *field_type_name(enum field_type t);
const char *field_use_name(enum field_use u);

#endif
