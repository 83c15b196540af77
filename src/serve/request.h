/* A request for text, from its fields to its last byte, whatever the wire format.
 *
 *     exchange -> fields_parse -> struct generation: prompts (ids), the law, n -> generation_start
 *     generation_start: a place in the queue, jobs into the engine's inbox, one for each choice (prompt × n)
 *     engine's thread: text comes -> parts (content, reasoning, calls) -> the wire's functions -> exchange
 *
 * A *wire* is a table of functions that write one endpoint's answers. In a stream it writes as things come; else only its
 * `whole` is called, with everything that was said kept in the choices. All of a wire's functions run in the engine's
 * thread: they must be quick, and reach nothing but the generation.
 *
 * Who parses an answer (tool calls, reasoning) sits between the text and the wire: a *splitter* gets the text as it comes
 * and calls generation_say, generation_call. Without one all text is content. */
#ifndef HASTEN_SERVE_REQUEST_H
#define HASTEN_SERVE_REQUEST_H
#include "run/batch.h"
#include "serve/exchange.h"
#include "serve/fields.h"
#include "serve/grammars.h"
#include "serve/motor.h"

struct server;
struct generation;
struct choice;

enum said {
    SAID_CONTENT,
    SAID_REASONING
};

struct call { /* a tool call */
    struct buf id, name, arguments;
};

/* Splits one choice's text. Opened by the endpoint, closed with the choice. */
struct splitter {
    const struct splitter_ops *ops;
    void *state;
};
struct splitter_ops {
    hasten_status (*push)(void *state, struct choice *c, const char *text, size_t len,
                          struct hasten_error *err);
    hasten_status (*finish)(void *state, struct choice *c,
                            struct hasten_error *err); /* no text will follow */
    void (*close)(void *state);
};

struct choice {
    struct generation *g;
    int32_t index;  /* in the answer */
    int32_t prompt; /* which of the prompts */
    struct sampling law;
    struct answer answer;
    struct batch_times times;
    uint64_t job; /* of the batch; 0: none */
    bool over, begun;
    const char *finish; /* finish_reason, once it is over; static */
    /* what was said so far; in a stream content and reasoning are not kept */
    struct buf content, reasoning;
    struct call *calls; /* [n_calls] */
    int32_t n_calls, cap_calls;
    struct splitter splitter; /* ops NULL: none */
    int64_t told;             /* tokens whose log-probabilities have been written */
    size_t told_bytes;        /* of their texts */
    uint64_t last_ns;         /* of the last token */
    int64_t last_n;           /* tokens then */
};

struct usage {
    int64_t prompt, cached, answer; /* tokens */
};

/* One endpoint's answers. Of a stream: begin (once a choice, before anything else of it), text, call, finish, then end
 * once all are over, or fail. */
struct wire {
    const char *id_prefix; /* "chatcmpl-" */
    void (*begin)(struct choice *c);
    void (*progress)(struct choice *c, uint64_t done, uint64_t total); /* NULL: not told */
    void (*text)(struct choice *c, enum said what, const char *text, size_t len);
    /* A call begins (arguments are empty, id and name whole), or its arguments go on. */
    void (*call)(struct choice *c, int32_t index, const char *arguments, size_t len, bool begins);
    void (*finish)(struct choice *c);
    void (*end)(struct generation *g);
    void (*fail)(struct generation *g, const struct fault *f);
    /* The whole body, of all choices: 0, or -1 when out of memory. */
    int (*whole)(struct generation *g, struct buf *out);
    const char *chunk; /* what part_stream_* call an event; NULL: they are not of this wire */
};

struct generation { /* generation_open makes it; counted */
    struct server *server;
    struct exchange *x;
    const struct wire *wire;
    enum endpoint endpoint;
    json_t *body, *warnings; /* warnings: strings, or NULL */
    struct params p;
    bool stream, include_usage;
    /* of the answer */
    char id[EXCHANGE_ID_BYTES + 16];
    int64_t created;        /* seconds since 1970 */
    struct tokens *prompts; /* [n_prompts] */
    int32_t n_prompts;
    struct buf *echoes;     /* [n_prompts] texts of the prompts; NULL: not asked for */
    struct choice *choices; /* [n_choices], index = prompt * n + i */
    int32_t n_choices, n_left;
    const struct kept_grammar *grammar;
    struct logit_bias *bias;
    struct gguf_str *stops;
    uint8_t *breakers;
    uint64_t scope, deadline;
    bool failed, cancel; /* of the engine's thread: an error was answered; nobody waits any more */
    int32_t n_tickets;
    void *wire_state; /* the wire's own; free_state (NULL: none) frees it at the very end */
    void (*free_state)(void *state);
    atomic_int refs;
    struct work submit, cancelling;
};

/* A request's body read by the table: false after the exchange was answered with what is wrong. */
bool generation_open(struct server *s, struct exchange *x, enum endpoint ep, const struct wire *wire,
                     struct generation **out);
/* The same of a body that another one was translated into, with what was said of that; takes both (NULL: the exchange's). */
bool generation_open_as(struct server *s, struct exchange *x, enum endpoint ep, const struct wire *wire,
                        json_t *body, json_t *warnings, struct generation **out);
/* Adds a prompt; takes ids' memory. */
bool generation_add_prompt(struct generation *g, struct tokens *ids, struct fault *f);
/* Only what a grammar says may be written; name for messages ("grammar", "response_format"). Once. */
bool generation_set_grammar(struct generation *g, const char *name, const char *gbnf, size_t len,
                            struct fault *f);
/* Makes the laws and choices; afterwards splitters may be set, before the start. False after filling f. */
bool generation_prepare(struct generation *g, struct fault *f);
/* Queues it; from here on it belongs to the engine's thread. Answers 429 and the like itself. */
void generation_start(struct generation *g);
/* Drops a generation that was not started; answers with f unless NULL. */
void generation_refuse(struct generation *g, const struct fault *f);

/* For splitters: a piece of text; a call that begins (id and name whole), and a piece of its arguments. */
void generation_say(struct choice *c, enum said what, const char *text, size_t len);
hasten_status generation_call_begin(struct choice *c, const char *id, const char *name, size_t name_len,
                                    struct hasten_error *err);
hasten_status generation_call_arguments(struct choice *c, const char *text, size_t len,
                                        struct hasten_error *err);

/* For wires. */
struct usage generation_usage(const struct generation *g);
/* One event: "event: NAME\n" unless name is NULL, then the data, which is JSON of one line. */
void generation_event(struct generation *g, const char *name, const struct buf *data, int bad);

/* ---- parts of an answer that several wires write (parts.c): 0, or -1 when out of memory -------------------------- */

int part_head(struct buf *b, const struct generation *g, const char *object); /* {"id":...,"object":... */
/* Events of OpenAI's streams, as entries of a wire. */
void part_stream_progress(struct choice *c, uint64_t done, uint64_t total);
void part_stream_end(struct generation *g);
void part_stream_fail(struct generation *g, const struct fault *f);
int part_usage(struct buf *b, const struct usage *u);
int part_warnings(struct buf *b, const struct generation *g); /* ,"warnings":[...] where there are any */
int part_receipt(struct buf *b, const struct generation *g);  /* ,"receipt":{...} where it was asked for */
/* Log-probabilities of the choice's tokens [from, to), as chat and as completions have them. */
int part_chat_logprobs(struct buf *b, const struct choice *c, int64_t from, int64_t to);
/* *at: bytes of the tokens before them, then of these too. */
int part_completion_logprobs(struct buf *b, const struct choice *c, int64_t from, int64_t to, size_t *at);

/* ---- prompts (prompts.c) ------------------------------------------------------------------------------------- */

/* The conversation of p as ids, and as text unless NULL. */
bool prompt_of_chat(struct server *s, const struct params *p, struct tokens *ids, struct buf *text,
                    struct fault *f);
/* A prompt in one of its four forms; each is given to add (which takes the ids). name: of the field. */
typedef bool (*prompt_add_fn)(void *ctx, struct tokens *ids, struct fault *f);
bool prompts_of_value(struct server *s, const char *name, const json_t *v, unsigned flags, int32_t most,
                      prompt_add_fn add, void *ctx, struct fault *f);

#endif
