/* Hasten: an LLM inference engine in C.
 *
 * The model of this library
 *
 * A *model* is a file that was opened: weights, vocabulary, chat template. It never changes, and any number of threads
 * may ask it things: how a text is cut into tokens, what a conversation looks like as a prompt (hasten/text.h).
 *
 * An *engine* is the machinery that runs one model: workers, a pool of pages for keys and values (KV), buffers. All of
 * it is planned and allocated when the engine is opened; hasten_engine_plan says beforehand how many bytes that is,
 * and while tokens flow nothing is allocated, so nothing can run out but KV pages, which is an ordinary answer
 * (HASTEN_ERR_FULL) and leaves everything as it was.
 *
 * A *sequence* is one timeline of tokens inside an engine, from position 0. It grows by steps, is cut back to any
 * length, and forks: a fork shares the pages of what both have in common, so a long prompt is computed and kept once
 * for any number of continuations. It can be saved to a file, from which an engine of the same model and settings goes on.
 *
 * A *step* takes a batch of (sequence, tokens to append), runs the forward pass over all of them at once, and hands
 * the rows of logits that were asked for to a function of yours, the *sink*. A prompt is a step with many tokens and
 * its last row wanted; decoding is a step with one token of each sequence. The weights are read once a step, whoever
 * shares it: eight sequences cost little more than one. Choosing a token from a row is not the engine's business: take
 * a sampler (hasten/sample.h), or write your own.
 *
 *     hasten_model_open(path, &model, &err);
 *     hasten_engine_open(model, &settings, &engine, &err);
 *     hasten_seq_open(engine, &seq, &err);
 *     hasten_tokenize(model, text, strlen(text), HASTEN_TEXT_BOS, &ids, &err);
 *     for (;;)      step: append the prompt, then each chosen token; the sink chooses the next one
 *     hasten_engine_close(engine);
 *     hasten_model_close(model);
 *
 * The same bits, always: on one instruction set, the logits of a position depend on the tokens up to it and on nothing
 * else: not on the number of threads, on how the prompt was cut into steps, on who shares a step, nor on whether the
 * sequence was forked or cut back before. memcmp is a fair test.
 *
 * Errors. What can fail returns a hasten_status and writes one sentence into *err, unless err is NULL: what was being
 * done, what was found, what was expected. Objects are given out on success only, so after a failure there is nothing
 * to close; and what existed before is as it was, unless a call says otherwise. The library never prints, never ends
 * the process, and leaves signals and the locale alone.
 *
 * Threads. A model and a chat may be used from any number of threads at once. An engine with its sequences belongs to
 * one thread at a time, and so does a stream or a sampler; different ones do not know of each other. The engine's own
 * workers never call into your code: sinks run in the thread that called hasten_step.
 *
 * Ownership. What hasten_*_open and hasten_seq_fork give out is the caller's, to be closed with the call of the same
 * name; close engines before their model. Pointers that are passed in are not kept, unless a call says so; pointers
 * that are returned belong to the object and live until it changes or is closed. Strings are NUL-terminated UTF-8
 * where no length stands beside them.
 *
 * Versions. Until 1.0 a new minor version may change calls and structs; the soname carries it (libhasten.so.0.1). Set
 * structs of settings with their *_default_settings call, or to zero where that is said, so that new fields have their
 * defaults. Two programs to begin with: examples/answer.c and examples/branches.c. */
#ifndef HASTEN_H
#define HASTEN_H
#include "hasten/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASTEN_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* HASTEN_VERSION of the library that is loaded. */
const char *hasten_version(void);

struct hasten_model;
struct hasten_engine;
struct hasten_seq;

/* ---- model -------------------------------------------------------------------------------------------- */

/* Opens a GGUF file, the first shard of a split one, or a folder with config.json, tokenizer.json and safetensors
 * (mapped; a thread reads it ahead meanwhile). HASTEN_ERR_FILE: cannot be read, damaged, hostile; HASTEN_ERR_UNSUPPORTED: an architecture, tensor type or tokenizer that Hasten does
 * not know, by name. The file must not be changed while it is open; hasten_model_settings.copy helps where it may be.
 *
 * "script:..." instead of a path opens a scripted model: no weights, logits from a file of rules or from a hash of the
 * tokens, everything else as usual. For tests of what is built on an engine; docs/scripted.md. */
hasten_status hasten_model_open(const char *path, struct hasten_model **out, struct hasten_error *err);
/* The same in another manner. Zero-initialised settings are hasten_model_open's. */
struct hasten_model_settings {
    bool copy; /* read the files into memory instead of mapping them: they may then be changed or cut */
    bool
        lock; /* keep them in memory (mlock): HASTEN_ERR_MEMORY with the figures when the system's limit is lower */
    /* NULL, or called while copying and locking with the bytes done; non-zero: HASTEN_ERR_CANCELLED. */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};
hasten_status hasten_model_open_with(const char *path, const struct hasten_model_settings *settings,
                                     struct hasten_model **out, struct hasten_error *err);
void hasten_model_close(struct hasten_model *m);            /* NULL is fine */
int32_t hasten_model_n_vocab(const struct hasten_model *m); /* logits of a row */
/* Positions the model was trained for; more are possible, hardly sensible. */
int32_t hasten_model_n_ctx_train(const struct hasten_model *m);
int32_t hasten_model_n_embd(const struct hasten_model *m);  /* length of an embedding */
bool hasten_model_is_encoder(const struct hasten_model *m); /* no logits: hasten_embed only */

/* How the vectors of a text's tokens become one. Values as in GGUF's pooling_type. */
enum hasten_pooling {
    HASTEN_POOLING_MODEL, /* as the model's file says */
    HASTEN_POOLING_MEAN,
    HASTEN_POOLING_CLS, /* that of the first token */
    HASTEN_POOLING_LAST
};
enum hasten_pooling
hasten_model_pooling(const struct hasten_model *m); /* HASTEN_POOLING_MODEL: it says nothing */

/* ---- adapters ----------------------------------------------------------------------------------------- */

struct hasten_lora;

/* Opens a low-rank adapter (LoRA) for a model: a GGUF file with general.type "adapter", the model's architecture, and
 * for each matrix NAME it changes the tensors NAME.lora_a [rank × k] and NAME.lora_b [n_rows × rank]. It is read into
 * memory and the file closed. HASTEN_ERR_FILE for another architecture, a name that the model does not have, shapes
 * that do not fit; HASTEN_ERR_UNSUPPORTED for what is not applied: embeddings, experts and their routers, norms.
 * Immutable; the model must outlive it. The caller closes it; engines that use it may live on. */
hasten_status hasten_lora_open(const struct hasten_model *m, const char *path, struct hasten_lora **out,
                               struct hasten_error *err);
void hasten_lora_close(struct hasten_lora *l); /* NULL is fine */

/* An adapter at a strength: y = W x becomes y + scale * alpha / rank * B (A x). Scale 0: as if it were not there. */
struct hasten_lora_use {
    const struct hasten_lora *lora;
    float scale; /* finite */
};

/* ---- methods ------------------------------------------------------------------------------------------ */

/* A method and its knobs: stage "attend", spec "quest:budget=0.125,page=16". `hasten methods` lists them; an unknown
 * name, a bad value, and methods that do not go together are HASTEN_ERR_USAGE when an engine is planned or opened. */
struct hasten_method_use {
    const char *stage, *spec;
    const void *method; /* NULL; inside: a struct method that is not in the list, spec being its knobs */
};

/* ---- engine ------------------------------------------------------------------------------------------- */

enum hasten_kv_type {
    HASTEN_KV_F16,
    HASTEN_KV_F32,
    HASTEN_KV_BF16,
    HASTEN_KV_Q8, /* int8 with scales: half the bytes of f16, and the fastest at depth */
    HASTEN_KV_Q4  /* four bits with scales: a little more than half of that again, and the most damage */
};

struct hasten_engine_settings {
    int32_t n_threads;    /* workers including the caller; 0: affinity and cgroup quota decide */
    int32_t n_ctx;        /* positions of one sequence; 0: the smaller of 4,096 and the model's context */
    int32_t n_seq_max;    /* sequences alive at once; default 1 */
    int32_t n_batch;      /* rows of one step, 1..4096; default 512 */
    int32_t n_logits;     /* rows of logits handed to the sink at once, 1..64; 0: n_seq_max, at least 8 */
    int64_t kv_positions; /* positions of KV for all sequences together; 0: n_ctx * n_seq_max */
    enum hasten_kv_type kv_type; /* default f16 */
    uint64_t memory_limit;       /* bytes, anonymous memory plus mapped file; 0: no limit */
    bool reference;              /* the plain-C float path (slow; KV should be f32) */
    bool plain;                  /* the plain-C twins of the fast kernels: the same bits, slower */
    bool in_place;               /* weights are never packed: read from the mapped file, the same bits */
    /* n_loras adapters (0..64), added in this order to every row of every sequence; copied when the engine is opened. */
    const struct hasten_lora_use *loras;
    int32_t n_loras;
    /* n_methods methods (0..64) that the engine runs with; copied when the engine is opened. */
    const struct hasten_method_use *methods;
    int32_t n_methods;
    int32_t
        n_kept; /* of the engine's: sequences that a method of the stage store keeps beside n_seq_max; set by it */
    bool poison; /* fill freed KV pages with NaN (tests) */
};
/* Always begin with this: the fields' defaults. */
void hasten_engine_default_settings(struct hasten_engine_settings *s);

/* What an engine with these settings will use, in bytes, computed before anything is allocated. */
struct hasten_plan {
    uint64_t file_bytes;    /* the mapped model file */
    uint64_t expert_bytes;  /* of these, of experts: all, or what memory_limit lets be present at once */
    uint64_t kv_bytes;      /* pool of KV pages with its tables */
    uint64_t compute_bytes; /* activations, logits, scratch of the workers */
    uint64_t base_bytes;    /* vocabulary, tables, program, stacks */
    uint64_t method_bytes;  /* of methods: their tables and what they keep for each sequence */
    uint64_t
        packed_bytes; /* of the file's, to be packed: moved to memory of the engine, not in total again */
    uint64_t total_bytes;
};
/* HASTEN_ERR_USAGE naming a setting out of range; HASTEN_ERR_MEMORY with the figures when the total exceeds
 * memory_limit, or what the machine has: *out is filled then too. */
hasten_status hasten_engine_plan(const struct hasten_model *m, const struct hasten_engine_settings *s,
                                 struct hasten_plan *out, struct hasten_error *err);

/* Plans, allocates, starts the workers (they sleep between steps). Errors as of hasten_engine_plan. m is kept: close it
 * after the engine. Settings are copied. */
hasten_status hasten_engine_open(const struct hasten_model *m, const struct hasten_engine_settings *s,
                                 struct hasten_engine **out, struct hasten_error *err);
void hasten_engine_close(struct hasten_engine *e);                /* closes its sequences too; NULL is fine */
int32_t hasten_engine_n_threads(const struct hasten_engine *e);   /* what a setting of 0 came to */
int32_t hasten_engine_n_ctx(const struct hasten_engine *e);       /* the same */
const char *hasten_engine_kernels(const struct hasten_engine *e); /* "avx512", "plain", "reference" */

/* ---- sequences ---------------------------------------------------------------------------------------- */

/* An empty sequence. HASTEN_ERR_FULL when n_seq_max are open. It takes KV pages only as it grows. */
hasten_status hasten_seq_open(struct hasten_engine *e, struct hasten_seq **out, struct hasten_error *err);
/* A new sequence with the first n_keep positions of src, sharing its pages (copy on write); src is not changed.
 * HASTEN_ERR_USAGE: n_keep is not 0 to its length; HASTEN_ERR_FULL: n_seq_max are open. */
hasten_status hasten_seq_fork(struct hasten_seq *src, int32_t n_keep, struct hasten_seq **out,
                              struct hasten_error *err);
/* Cuts back to n_keep positions: the exact inverse of having appended more. HASTEN_ERR_USAGE: n_keep is not 0 to the
 * length. Pages that nobody else shares go back to the pool. */
hasten_status hasten_seq_truncate(struct hasten_seq *s, int32_t n_keep, struct hasten_error *err);
/* Says that the first n positions are (or will be) a prompt, before they are appended; -1: nothing is known. Methods
 * may read prompts and answers differently; without methods it changes nothing. A fork inherits it. HASTEN_ERR_USAGE:
 * n is below -1. */
hasten_status hasten_seq_announce(struct hasten_seq *s, int32_t n, struct hasten_error *err);
void hasten_seq_close(struct hasten_seq *s);           /* NULL is fine; its pages go back to the pool */
int32_t hasten_seq_length(const struct hasten_seq *s); /* positions held */
const int32_t *hasten_seq_tokens(const struct hasten_seq *s); /* [length], until the sequence is closed */
uint64_t hasten_seq_bytes(const struct hasten_seq *s);        /* KV bytes; shared pages count in full */

/* Writes a sequence to a file, whole or not at all: what stood under the name stays until the new file is on the disk. The
 * file says what the keys and values in it depend on (the model's weights, arithmetic, representation, adapters, methods
 * with their knobs), and every part has a checksum. The first call of an engine reads the model's file once, to hash it.
 * HASTEN_ERR_UNSUPPORTED: an encoder, a method that cannot be saved, by name; HASTEN_ERR_DISK: no room, a failed write. */
hasten_status hasten_seq_save(const struct hasten_seq *s, const char *path, struct hasten_error *err);
/* A new sequence as it was saved: what is appended gives the same bits as if it had gone on. Nothing of it is taken before all
 * of the file has been looked at. HASTEN_ERR_FILE: damaged, cut, or made with another model, arithmetic, representation,
 * adapters or methods (the message says what was found and what was expected); HASTEN_ERR_UNSUPPORTED: of another
 * version; HASTEN_ERR_FULL: longer than the context, n_seq_max are open, or too few free pages. */
hasten_status hasten_seq_load(struct hasten_engine *e, const char *path, struct hasten_seq **out,
                              struct hasten_error *err);

/* ---- the step ----------------------------------------------------------------------------------------- */

struct hasten_item {
    struct hasten_seq *seq;
    const int32_t *tokens; /* appended at positions length .. length + n - 1; NULL with embd */
    int32_t n;
    int32_t want_from; /* logits for rows want_from .. n - 1 of this item (n: none; n - 1: the last) */
    /* NULL, or which logits of these rows are wanted: bit id % 64 of word id / 64, [n_vocab / 64 rounded up]; all others
     * are -INFINITY. Few of them take less time. Read during the step. */
    const uint64_t *mask;
    /* NULL, or soft input: vectors in place of tokens, [n × n_embd], as the first layer reads them (hasten_token_rows).
     * Read during the step. Not with encoders, scripted models, LongRoPE, nor methods that take entries out of the cache
     * (HASTEN_ERR_UNSUPPORTED), which may have to compute a prompt again from its tokens. */
    const float *embd;
};

/* Soft input in hasten_seq_tokens: a negative number made of the row's bits, so that rows that differ hardly ever have
 * the same (31 bits of a hash). */
int32_t hasten_soft_tag(const float *row, int32_t n_embd);
/* What the first layer reads for ids[n]: out [n × n_embd]. As soft input they give the bits of the ids.
 * HASTEN_ERR_USAGE for an id that is none; HASTEN_ERR_UNSUPPORTED for encoders and scripted models. */
hasten_status hasten_token_rows(const struct hasten_model *m, const int32_t *ids, int32_t n, float *out,
                                struct hasten_error *err);

/* Receives logits, at most n_logits rows at a time, in item order, then row order: logits[n_rows][n_vocab].
 * rows[i] = (item index, row within the item). Valid during the call only. Non-zero stops the step's
 * remaining deliveries (the KV is already complete). */
struct hasten_logits_row {
    int32_t item, row;
};
typedef int (*hasten_logits_fn)(void *ctx, const float *logits, const struct hasten_logits_row *rows,
                                int32_t n_rows, int32_t n_vocab);

/* Runs the items; items with more rows than n_batch are cut into several passes. On failure every sequence is
 * as long as before. A sequence may stand in one item only. sink: NULL when no logits are wanted. cancel: NULL, or
 * polled between passes and layers; another thread or a signal handler may set it to 1.
 *
 * HASTEN_ERR_USAGE: no open sequence of this engine, the same one twice, an id that is none, want_from out of range;
 * HASTEN_ERR_FULL: an item goes beyond n_ctx, or the pool lacks pages for all items (then none has run);
 * HASTEN_ERR_CANCELLED.
 *
 * Models with LongRoPE rotate long sequences otherwise than short ones: the step in which one outgrows the original
 * context, and the first after it was cut back below it, compute it again from its first token, and may need free
 * pages for those it shares with forks. */
hasten_status hasten_step(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                          hasten_logits_fn sink, void *sink_ctx, const volatile int *cancel,
                          struct hasten_error *err);

/* ---- embeddings --------------------------------------------------------------------------------------- */

struct hasten_text {
    const int32_t *tokens;
    int32_t n; /* 1 .. n_ctx */
};

/* One vector for each text: the last hidden states of its tokens (behind the final norm), pooled; with normalize, of
 * length 1. out: [n_texts × n_embd], the caller's. Texts share passes of up to n_batch rows, as many as there are free
 * sequences, and a text's vector has the same bits in any company. A text longer than n_ctx is HASTEN_ERR_FULL, before
 * anything is computed; HASTEN_POOLING_MODEL with a model that names none is HASTEN_ERR_USAGE; a vector that is not
 * finite is HASTEN_ERR_NON_FINITE. Nothing is kept in the engine. */
hasten_status hasten_embed(struct hasten_engine *e, const struct hasten_text *texts, int32_t n_texts,
                           enum hasten_pooling pooling, bool normalize, float *out,
                           const volatile int *cancel, struct hasten_error *err);

/* Counters since the engine was opened. */
struct hasten_counters {
    uint64_t passes;       /* forward passes */
    uint64_t rows;         /* rows computed in them */
    uint64_t head_rows;    /* rows of logits computed */
    uint64_t weight_bytes; /* bytes of weights read by matrix products (each weight once a pass) */
    uint64_t kv_pages_used, kv_pages_total;
    /* Under a method of the stage attend: pages that rows would have read of each layer and KV head, and did. */
    uint64_t attend_pages_all, attend_pages_read;
    uint64_t layer_rows; /* rows times layers that were run whole */
    uint64_t
        kv_bytes; /* bytes of KV pages that attention read (a page once for up to 16 rows of a sequence) */
};
void hasten_engine_counters(const struct hasten_engine *e, struct hasten_counters *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
