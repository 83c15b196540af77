/* The methods that an engine runs with: parsed and checked against each other and the model, their states, and what
 * the engine calls of them. With no methods everything here is one look at a counter. */
#ifndef HASTEN_ENGINE_METHOD_SET_H
#define HASTEN_ENGINE_METHOD_SET_H
#include "engine/attend.h"
#include "engine/cache.h"
#include "engine/depth.h"
#include "engine/head.h"
#include "engine/weights.h"
#include "engine/method.h"

struct hasten_engine;
struct hasten_seq;
struct layer;

/* What attend's driver works with (attend.c). words: [n_batch × sets × stride], a row's sets beside each other. */
struct attending {
    const struct method_use *use; /* NULL: every query reads all */
    int32_t sets;                 /* of a row: KV heads, or heads */
    int64_t stride;               /* words of a set */
    uint64_t *words;
    uint8_t *sparse; /* [n_batch] in this layer: 1 where words count */
    uint8_t *scratch;
    size_t scratch_bytes; /* of a worker */
};

struct method_set {
    struct method_use *use; /* [n], in the order given */
    int32_t n;
    size_t seq_bytes; /* flat state of one sequence, all methods */
    uint8_t *memory;  /* [n_seq_max × seq_bytes], then what attending points into */
    size_t bytes;
    struct attending attending;
    struct caching caching;
    struct deepening deepening;
    struct reweighting reweighting;
    struct heading heading;
};

/* Sequences that settings->methods keep beside n_seq_max; settings need not be settled. */
hasten_status method_set_sequences(const struct hasten_model *m, const struct hasten_engine_settings *s,
                                   int32_t *out, struct hasten_error *err);
/* Parses and checks settings->methods. On failure *out is closed. */
hasten_status method_set_open(const struct method_site *site, struct method_set *out,
                              struct hasten_error *err);
/* Bytes that method_set_attach will allocate. */
uint64_t method_set_plan(const struct method_site *site, struct method_set *set);
/* States and memory. The engine's set only. */
hasten_status method_set_attach(const struct method_site *site, struct method_set *set,
                                struct hasten_error *err);
void method_set_close(struct method_set *set);
/* kv_type as a method of the stage cache asks for it; no such method: it stays. HASTEN_ERR_USAGE where the setting asks
 * for something else already (f16, the default, asks for nothing). */
hasten_status method_kv_type(const struct hasten_engine_settings *s, enum hasten_kv_type *kv_type,
                             struct hasten_error *err);
struct method_site method_site_of(const struct hasten_model *m, const struct hasten_engine_settings *s);

/* Sequences: all NULL-safe in the sense that no methods mean no work. */
void method_seq_open(struct hasten_engine *e, const struct hasten_seq *s);
void method_seq_fork(struct hasten_engine *e, const struct hasten_seq *src, const struct hasten_seq *dst,
                     int32_t n_keep);
void method_seq_truncate(struct hasten_engine *e, const struct hasten_seq *s, int32_t n_keep);
/* A method's part of a sequence's state. */
void *method_seq_state(const struct hasten_engine *e, const struct method_use *u, const struct hasten_seq *s);

/* Of a layer whose lanes begin with first_lane, KV head head_kv: the entries of positions below end. */
struct kv_view kv_view_of(const struct hasten_engine *e, const struct hasten_seq *s, const struct layer *l,
                          int32_t layer, int32_t first_lane, int32_t head_kv, int32_t end);

/* attend.c: between the storing of a layer's keys and its attention. Returns whether any row's words count. */
void attend_append(struct hasten_engine *e, const struct layer *l, int32_t layer, int32_t first_lane);
bool attend_rows(struct hasten_engine *e, const struct layer *l, int32_t layer, int32_t first_lane);
/* A sequence's entries moved: what methods keep of them is made anew. */
void attend_rebuild(struct hasten_engine *e, const struct hasten_seq *s, int32_t length);
size_t attend_bytes(const struct method_site *site, const struct method_use *u, struct attending *out,
                    uint8_t *memory);

#endif
