/* How a family reads its file: keys with ranges, tensors with shapes. Every message names the file, the key or
 * tensor, what was found and what was expected. Numbers from the file are checked here before anything is
 * multiplied or allocated. */
#include "base/checked.h"
#include "base/limits.h"
#include "base/mem.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void key_name(const struct model_desc *m, const char *name, char out[128])
{
    snprintf(out, 128, "%s.%s", m->arch, name);
}

/* The key's index, marked as read; -1 when the file has none of that name. A list is refused: it holds a value for
 * each layer, and layers that differ are not read here. */
static hasten_status find_key(const struct gguf *g, const struct model_desc *m, const char *key, int64_t *at,
                              struct hasten_error *err)
{
    *at = gguf_find(g, key);
    if (*at < 0)
        return HASTEN_OK;
    m->read_keys[*at] = 1;
    if (gguf_key_type(g, *at) == GGUF_ARRAY)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: %s: unsupported list of values (expected one for all layers)", gguf_path(g),
                         key);
    return HASTEN_OK;
}

hasten_status bind_i32(const struct gguf *g, const struct model_desc *m, const char *name, int32_t lo,
                       int32_t hi, const int32_t *default_value, int32_t *out, struct hasten_error *err)
{
    char key[128];
    key_name(m, name, key);
    uint32_t v = 0;
    int64_t at;
    hasten_status st = find_key(g, m, key, &at, err);
    if (st == HASTEN_OK && at < 0 && default_value) {
        *out = *default_value;
        return HASTEN_OK;
    }
    st = st ? st : gguf_get_u32(g, key, &v, err);
    if (st)
        return st;
    if ((int64_t)v < lo || (int64_t)v > hi)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s: found %u (expected %d to %d)", gguf_path(g), key, v,
                         lo, hi);
    *out = (int32_t)v;
    return HASTEN_OK;
}

hasten_status bind_f32(const struct gguf *g, const struct model_desc *m, const char *name, float lo, float hi,
                       const float *default_value, float *out, struct hasten_error *err)
{
    char key[128];
    key_name(m, name, key);
    int64_t at;
    hasten_status st = find_key(g, m, key, &at, err);
    if (st == HASTEN_OK && at < 0 && default_value) {
        *out = *default_value;
        return HASTEN_OK;
    }
    float v = 0;
    st = st ? st : gguf_get_f32(g, key, &v, err);
    if (st)
        return st;
    if (!(v >= lo && v <= hi))
        return error_set(err, HASTEN_ERR_FILE, "%s: %s: found %g (expected %g to %g)", gguf_path(g), key,
                         (double)v, (double)lo, (double)hi);
    *out = v;
    return HASTEN_OK;
}

/* The tensor, marked as used; NULL when the file has none of that name. */
static const struct gguf_tensor *claim(const struct gguf *g, struct model_desc *m, const char *name)
{
    const struct gguf_tensor *t = gguf_tensor_find(g, name);
    if (t)
        m->claimed[t - gguf_tensor_at(g, 0)] = 1;
    return t;
}

static hasten_status missing_tensor(const struct gguf *g, const char *name, struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_FILE, "%s: tensor '%s': missing (expected in this architecture)",
                     gguf_path(g), name);
}

/* A tensor must have exactly this shape; ne[3] is 1. */
static hasten_status check_shape(const struct gguf *g, const struct gguf_tensor *t, const int64_t ne[3],
                                 struct hasten_error *err)
{
    char expected[96];
    if (t->ne[0] == ne[0] && t->ne[1] == ne[1] && t->ne[2] == ne[2] && t->ne[3] == 1)
        return HASTEN_OK;
    int at = snprintf(expected, sizeof expected, "%lld", (long long)ne[0]);
    for (int i = 1; i < 3 && (ne[1] > 1 || ne[2] > 1) && (i == 1 || ne[2] > 1); i++)
        at += snprintf(expected + at, sizeof expected - (size_t)at, ", %lld", (long long)ne[i]);
    return error_set(err, HASTEN_ERR_FILE,
                     "%s: tensor '%s': found shape [%lld, %lld, %lld, %lld] (expected [%s])", gguf_path(g),
                     t->name, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2],
                     (long long)t->ne[3], expected);
}

/* What stands beside a matrix <part>.weight whose blocks leave a factor out, as those of NVFP4 do: <part>.scale, one F32
 * number a matrix, multiplies its products; <part>.input_scale is for who quantises activations to four bits, and is
 * passed over (llama.cpp: conversion/base.py, src/llama-model.cpp). Token embeddings have none: rows are read, too. */
static hasten_status bind_scales(const struct gguf *g, struct model_desc *m, const char *name, int32_t n,
                                 struct weight *out, struct hasten_error *err)
{
    static const char weight[] = ".weight";
    const size_t len = strlen(name) - (sizeof weight - 1);
    const float *scale = NULL;
    char full[128];
    if (strlen(name) < sizeof weight || len > 100 || strcmp(name + len, weight) != 0 ||
        strcmp(name, "token_embd.weight") == 0)
        return HASTEN_OK;
    snprintf(full, sizeof full, "%.*s.input_scale", (int)len, name);
    claim(g, m, full);
    snprintf(full, sizeof full, "%.*s.scale", (int)len, name);
    const hasten_status st = bind_vector(g, m, full, n, true, &scale, err);
    for (int32_t i = 0; i < n && scale; i++) {
        if (!isfinite(scale[i]))
            return error_set(err, HASTEN_ERR_FILE,
                             "%s: tensor '%s': value %d is %g (expected a finite number)", gguf_path(g), full,
                             i, (double)scale[i]);
        out[i].scale = &scale[i];
    }
    return st;
}

hasten_status bind_stack(const struct gguf *g, struct model_desc *m, const char *name, int64_t k,
                         int64_t n_rows, int32_t n, struct weight *out, struct hasten_error *err)
{
    const struct gguf_tensor *t = claim(g, m, name);
    if (!t)
        return missing_tensor(g, name, err);
    hasten_status st = check_shape(g, t, (const int64_t[]){k, n_rows, n}, err);
    if (st)
        return st;
    if (!kernels_supports(t->type))
        return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: tensor '%s': unsupported type %s", gguf_path(g),
                         name, t->type->name);
    for (int32_t i = 0; i < n; i++)
        out[i] = (struct weight){.type = t->type,
                                 .data = t->data + i * n_rows * t->row_bytes,
                                 .n_rows = n_rows,
                                 .k = k,
                                 .row_bytes = t->row_bytes};
    return bind_scales(g, m, name, n, out, err);
}

hasten_status bind_weight(const struct gguf *g, struct model_desc *m, const char *name, int64_t k,
                          int64_t n_rows, struct weight *out, struct hasten_error *err)
{
    return bind_stack(g, m, name, k, n_rows, 1, out, err);
}

hasten_status bind_own_vector(const struct gguf *g, struct model_desc *m, int64_t n, float **out,
                              struct hasten_error *err)
{
    if (m->n_decoded == m->cap_decoded) {
        int32_t cap = m->cap_decoded ? 2 * m->cap_decoded : 64;
        float **p = mem_realloc(m->decoded, (size_t)cap * sizeof *p);
        if (!p)
            return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for the model's tables",
                             gguf_path(g));
        m->decoded = p;
        m->cap_decoded = cap;
    }
    float *v = mem_aligned((size_t)n * sizeof *v);
    if (!v)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for %lld floats", gguf_path(g),
                         (long long)n);
    m->decoded[m->n_decoded++] = v;
    m->owned_bytes += (uint64_t)n * sizeof *v;
    *out = v;
    return HASTEN_OK;
}

static hasten_status decode_vector(const struct gguf *g, struct model_desc *m, const struct gguf_tensor *t,
                                   int64_t n, const float **out, struct hasten_error *err)
{
    if (!t->type->decode)
        return error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: tensor '%s': unsupported type %s", gguf_path(g),
                         t->name, t->type->name);
    float *v;
    const hasten_status st = bind_own_vector(g, m, n, &v, err);
    if (st)
        return st;
    t->type->decode(t->data, n, v);
    *out = v;
    return HASTEN_OK;
}

hasten_status bind_vectors(const struct gguf *g, struct model_desc *m, const char *name, int64_t n,
                           int32_t n_vectors, bool optional, const float **out, struct hasten_error *err)
{
    const struct gguf_tensor *t = claim(g, m, name);
    *out = NULL;
    if (!t)
        return optional ? HASTEN_OK : missing_tensor(g, name, err);
    hasten_status st = check_shape(g, t, (const int64_t[]){n, n_vectors, 1}, err);
    if (st)
        return st;
    /* Single vectors are copied, so that a step whose matrices are packed does not touch the map: a touch brings back
     * all of a large page. */
    if (n_vectors > 1 && t->type->id == QUANT_F32 && (uintptr_t)t->data % sizeof(float) == 0) {
        *out = (const float *)(const void *)t->data;
        return HASTEN_OK;
    }
    return decode_vector(g, m, t, n * n_vectors, out, err);
}

hasten_status bind_vector(const struct gguf *g, struct model_desc *m, const char *name, int64_t n,
                          bool optional, const float **out, struct hasten_error *err)
{
    return bind_vectors(g, m, name, n, 1, optional, out, err);
}

hasten_status bind_layer_vector(const struct gguf *g, struct model_desc *m, int32_t i, const char *suffix,
                                int64_t n, bool optional, const float **out, struct hasten_error *err)
{
    char name[128];
    snprintf(name, sizeof name, "blk.%d.%s", i, suffix);
    return bind_vector(g, m, name, n, optional, out, err);
}

static hasten_status bind_heads(const struct gguf *g, const struct model_desc *m, struct layer *proto,
                                struct hasten_error *err)
{
    hasten_status st;
    if ((st = bind_i32(g, m, "attention.head_count", 1, LIMIT_HEADS, NULL, &proto->n_head, err)) ||
        (st = bind_i32(g, m, "attention.head_count_kv", 1, LIMIT_HEADS, &proto->n_head, &proto->n_head_kv,
                       err)))
        return st;
    if (proto->n_head % proto->n_head_kv)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: %s.attention.head_count_kv: found %d (expected a divisor of %d heads)",
                         gguf_path(g), m->arch, proto->n_head_kv, proto->n_head);
    int32_t d_head = m->d_model / proto->n_head;
    if (m->d_model % proto->n_head == 0 && d_head > 1) {
        if ((st = bind_i32(g, m, "attention.key_length", 2, LIMIT_WIDTH, &d_head, &proto->d_k, err)))
            return st;
    } else if ((st = bind_i32(g, m, "attention.key_length", 2, LIMIT_WIDTH, NULL, &proto->d_k, err))) {
        return st;
    }
    if ((st = bind_i32(g, m, "attention.value_length", 1, LIMIT_WIDTH, &proto->d_k, &proto->d_v, err)))
        return st;
    if ((int64_t)proto->n_head * proto->d_k > LIMIT_WIDTH ||
        (int64_t)proto->n_head * proto->d_v > LIMIT_WIDTH)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: %s.attention.key_length: %d heads of %d (expected at most %d together)",
                         gguf_path(g), m->arch, proto->n_head, proto->d_k, LIMIT_WIDTH);
    return HASTEN_OK;
}

hasten_status bind_common(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    struct layer proto = {0};
    const float eps = 1e-5f;
    if ((st = bind_i32(g, m, "block_count", 1, LIMIT_LAYERS, NULL, &m->n_layer, err)) ||
        (st = bind_i32(g, m, "embedding_length", 1, LIMIT_WIDTH, NULL, &m->d_model, err)) ||
        (st = bind_i32(g, m, "context_length", 1, LIMIT_CONTEXT, NULL, &m->n_ctx_train, err)) ||
        (st = bind_i32(g, m, "feed_forward_length", 1, LIMIT_WIDTH, NULL, &proto.d_ff, err)) ||
        (st = bind_f32(g, m, "attention.layer_norm_rms_epsilon", 0.0f, 1.0f, &eps, &m->norm_eps, err)) ||
        (st = bind_heads(g, m, &proto, err)))
        return st;

    struct rope_spec *rope = &m->ropes[0];
    const float theta = 10000.0f;
    *rope = (struct rope_spec){.linear_scale = 1.0f, .magnitude = 1.0f};
    if ((st = gguf_opt_bool(g, "hasten.rope_halves", &rope->neox, err)) ||
        (st = bind_f32(g, m, "rope.freq_base", 1.0f, 1e12f, &theta, &rope->theta, err)) ||
        (st = bind_i32(g, m, "rope.dimension_count", 2, proto.d_k, &proto.d_k, &rope->n_rot, err)))
        return st;
    if (rope->n_rot % 2)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: %s.rope.dimension_count: found %d (expected an even number)", gguf_path(g),
                         m->arch, rope->n_rot);
    m->n_ropes = 1;
    if ((st = bind_rope_scaling(g, m, err)))
        return st;

    m->layers = mem_calloc((size_t)m->n_layer, sizeof *m->layers);
    if (!m->layers)
        return error_set(err, HASTEN_ERR_MEMORY, "%s: out of memory for %d layers", gguf_path(g), m->n_layer);
    m->owned_bytes += (uint64_t)m->n_layer * sizeof *m->layers;
    for (int32_t i = 0; i < m->n_layer; i++) {
        m->layers[i] = proto;
        m->layers[i].kv_slot = i;
    }
    m->n_kv_slots = m->n_layer;
    return bind_q_scale(g, m, proto.d_k, err);
}

hasten_status bind_ends(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_find(g, "token_embd.weight");
    if (!t)
        return missing_tensor(g, "token_embd.weight", err);
    if (t->ne[1] < 1 || t->ne[1] > LIMIT_VOCAB)
        return error_set(err, HASTEN_ERR_FILE,
                         "%s: tensor 'token_embd.weight': found %lld rows (expected 1 to %d)", gguf_path(g),
                         (long long)t->ne[1], LIMIT_VOCAB);
    m->n_vocab = (int32_t)t->ne[1];
    hasten_status st = bind_weight(g, m, "token_embd.weight", m->d_model, m->n_vocab, &m->token_embd, err);
    if (st)
        return st;
    if (gguf_tensor_find(g, "output.weight")) {
        if ((st = bind_weight(g, m, "output.weight", m->d_model, m->n_vocab, &m->output, err)))
            return st;
    } else {
        m->output = m->token_embd;
    }
    return bind_vector(g, m, "output_norm.weight", m->d_model, false, &m->output_norm, err);
}

/* Matrix "blk.<i>.<suffix>" of a layer. */
struct layer_matrix {
    const char *suffix;
    int64_t k, n_rows;
    struct weight *out;
};

static hasten_status bind_matrices(const struct gguf *g, struct model_desc *m, int32_t i,
                                   const struct layer_matrix *mats, size_t n, struct hasten_error *err)
{
    for (size_t j = 0; j < n; j++) {
        char name[128];
        snprintf(name, sizeof name, "blk.%d.%s", i, mats[j].suffix);
        hasten_status st = bind_weight(g, m, name, mats[j].k, mats[j].n_rows, mats[j].out, err);
        if (st)
            return st;
    }
    return HASTEN_OK;
}

hasten_status bind_attention(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    const int64_t d = m->d_model, dq = (int64_t)l->n_head * l->d_k, dk = (int64_t)l->n_head_kv * l->d_k,
                  dv = (int64_t)l->n_head_kv * l->d_v, da = (int64_t)l->n_head * l->d_v;
    const struct layer_matrix mats[] = {
        {"attn_q.weight", d, dq, &l->wq},
        {"attn_k.weight", d, dk, &l->wk},
        {"attn_v.weight", d, dv, &l->wv},
        {"attn_output.weight", da, d, &l->wo},
    };
    hasten_status st = bind_matrices(g, m, i, mats, sizeof mats / sizeof *mats, err);
    return st ? st : bind_layer_vector(g, m, i, "attn_norm.weight", d, false, &l->attn_norm, err);
}

hasten_status bind_gated(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    const int64_t d = m->d_model;
    const struct layer_matrix mats[] = {
        {"ffn_gate.weight", d, l->d_ff, &l->w_gate},
        {"ffn_up.weight", d, l->d_ff, &l->w_up},
        {"ffn_down.weight", l->d_ff, d, &l->w_down},
    };
    return bind_matrices(g, m, i, mats, sizeof mats / sizeof *mats, err);
}

hasten_status bind_block(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err)
{
    hasten_status st;
    if ((st = bind_attention(g, m, i, err)) || (st = bind_gated(g, m, i, err)))
        return st;
    return bind_layer_vector(g, m, i, "ffn_norm.weight", m->d_model, false, &m->layers[i].ffn_norm, err);
}

hasten_status bind_biases(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    const struct {
        const char *suffix;
        int64_t n;
        const float **out;
    } all[] = {
        {"attn_q.bias", (int64_t)l->n_head * l->d_k, &l->bq},
        {"attn_k.bias", (int64_t)l->n_head_kv * l->d_k, &l->bk},
        {"attn_v.bias", (int64_t)l->n_head_kv * l->d_v, &l->bv},
        {"attn_output.bias", m->d_model, &l->bo},
        {"ffn_gate.bias", l->d_ff, &l->b_gate},
        {"ffn_up.bias", l->d_ff, &l->b_up},
        {"ffn_down.bias", m->d_model, &l->b_down},
    };
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        const hasten_status st = bind_layer_vector(g, m, i, all[j].suffix, all[j].n, true, all[j].out, err);
        if (st)
            return st;
    }
    return HASTEN_OK;
}

hasten_status bind_q_scale(const struct gguf *g, struct model_desc *m, int32_t n, struct hasten_error *err)
{
    const float none = 0.0f;
    float scale = 0;
    hasten_status st = bind_f32(g, m, "attention.scale", 0.0f, 1e3f, &none, &scale, err);
    for (int32_t i = 0; st == HASTEN_OK && i < m->n_layer; i++)
        m->layers[i].q_scale = scale > 0 ? scale : 1.0f / sqrtf((float)(n > 1 ? n : 1));
    return st;
}

/* The pattern as a list: a value for each layer, not 0 for a local one. */
static hasten_status window_list(const struct gguf *g, struct model_desc *m, int64_t key, int32_t window,
                                 struct hasten_error *err)
{
    int64_t n;
    const enum gguf_value_type type = gguf_value_elements(g, key, &n);
    if (n != m->n_layer || type == GGUF_STRING || type == GGUF_ARRAY || type == GGUF_F32 || type == GGUF_F64)
        return error_set(err, HASTEN_ERR_FILE, "%s: %s: found %lld values of type %s (expected %d booleans)",
                         gguf_path(g), gguf_key(g, key), (long long)n, gguf_value_type_name(type),
                         m->n_layer);
    for (int32_t i = 0; i < m->n_layer; i++) {
        struct gguf_value v;
        gguf_value_at(g, key, i, &v);
        m->layers[i].window = v.boolean || v.magnitude ? window : 0;
    }
    return HASTEN_OK;
}

hasten_status bind_window(const struct gguf *g, struct model_desc *m, int32_t default_window, int32_t period,
                          struct hasten_error *err)
{
    static const char *const pattern = "attention.sliding_window_pattern";
    char key[128];
    int32_t window = 0;
    hasten_status st = bind_i32(g, m, "attention.sliding_window", period == BIND_ALL_LOCAL ? 0 : 1,
                                LIMIT_CONTEXT, &default_window, &window, err);
    if (st)
        return st;
    key_name(m, pattern, key);
    const int64_t at = gguf_find(g, key);
    if (at >= 0 && gguf_key_type(g, at) == GGUF_ARRAY) {
        m->read_keys[at] = 1;
        return window_list(g, m, at, window, err);
    }
    if ((st = bind_i32(g, m, pattern, 1, LIMIT_LAYERS, &period, &period, err)))
        return st;
    for (int32_t i = 0; i < m->n_layer; i++)
        m->layers[i].window = period == BIND_ALL_LOCAL || i % period < period - 1 ? window : 0;
    return HASTEN_OK;
}
