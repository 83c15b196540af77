/* What the tensors of a model folder are called in GGUF, and the few whose values differ.
 *
 * Names are those that the published models of transformers use; GGUF's are those of llama.cpp's converter. A tensor
 * that no table knows is refused by name, because ignoring it would give wrong answers without a word. Matrices stay
 * where they are, in the map; vectors that mean something else in GGUF (Gemma's norms, to which 1 is added) and
 * tensors that are not aligned to their type are copied. */
#include "base/limits.h"
#include "model/hf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECODERS (HF_LLAMA | HF_GEMMA)

struct name_map {
    const char *hf, *gguf; /* without ".weight" and ".bias"; gguf NULL: of no use to the family */
    unsigned styles;
};

static const struct name_map whole[] = {
    {"model.embed_tokens", "token_embd", DECODERS},
    {"model.norm", "output_norm", DECODERS},
    {"lm_head", "output", DECODERS},
    {"embeddings.word_embeddings", "token_embd", HF_BERT},
    {"embeddings.position_embeddings", "position_embd", HF_BERT},
    {"embeddings.token_type_embeddings", "token_types", HF_BERT},
    {"embeddings.LayerNorm", "token_embd_norm", HF_BERT},
    {"embeddings.position_ids", NULL, HF_BERT}, /* 0, 1, 2, ... */
    {"pooler.dense", NULL, HF_BERT},            /* of a training task; embeddings do not use it */
};

static const struct name_map in_layer[] = {
    {"input_layernorm", "attn_norm", DECODERS},
    {"post_attention_layernorm", "ffn_norm", HF_LLAMA},
    {"post_attention_layernorm", "post_attention_norm", HF_GEMMA},
    {"pre_feedforward_layernorm", "ffn_norm", HF_GEMMA},
    {"post_feedforward_layernorm", "post_ffw_norm", HF_GEMMA},
    {"self_attn.q_proj", "attn_q", DECODERS},
    {"self_attn.k_proj", "attn_k", DECODERS},
    {"self_attn.v_proj", "attn_v", DECODERS},
    {"self_attn.qkv_proj", "attn_qkv", HF_LLAMA},
    {"self_attn.o_proj", "attn_output", DECODERS},
    {"self_attn.q_norm", "attn_q_norm", DECODERS},
    {"self_attn.k_norm", "attn_k_norm", DECODERS},
    {"self_attn.rotary_emb.inv_freq", NULL, DECODERS}, /* follows from the configuration */
    {"mlp.gate_proj", "ffn_gate", DECODERS},
    {"mlp.up_proj", "ffn_up", DECODERS},
    {"mlp.gate_up_proj", "ffn_up", HF_LLAMA},
    {"mlp.down_proj", "ffn_down", DECODERS},
    {"mlp.gate", "ffn_gate_inp", HF_LLAMA},
    {"block_sparse_moe.gate", "ffn_gate_inp", HF_LLAMA},
    {"attention.self.query", "attn_q", HF_BERT},
    {"attention.self.key", "attn_k", HF_BERT},
    {"attention.self.value", "attn_v", HF_BERT},
    {"attention.output.dense", "attn_output", HF_BERT},
    {"attention.output.LayerNorm", "attn_output_norm", HF_BERT},
    {"intermediate.dense", "ffn_up", HF_BERT},
    {"output.dense", "ffn_down", HF_BERT},
    {"output.LayerNorm", "layer_output_norm", HF_BERT},
};

/* Matrices of one expert: "<before><expert>.<hf>" is "<gguf>.<expert>". */
static const struct {
    const char *before;
    struct name_map name;
} in_expert[] = {
    {"mlp.experts.", {"gate_proj", "ffn_gate", HF_LLAMA}},
    {"mlp.experts.", {"up_proj", "ffn_up", HF_LLAMA}},
    {"mlp.experts.", {"down_proj", "ffn_down", HF_LLAMA}},
    {"block_sparse_moe.experts.", {"w1", "ffn_gate", HF_LLAMA}},
    {"block_sparse_moe.experts.", {"w3", "ffn_up", HF_LLAMA}},
    {"block_sparse_moe.experts.", {"w2", "ffn_down", HF_LLAMA}},
};

#define NAME_BYTES 320

/* A tensor on its way: where its name stands, what it becomes. */
struct renamed {
    char gguf[NAME_BYTES];
    bool ignored, norm;
};

static const struct name_map *find(const struct name_map *map, size_t n, const char *name, size_t len,
                                   unsigned style)
{
    for (size_t i = 0; i < n; i++)
        if (map[i].styles & style && strlen(map[i].hf) == len && memcmp(map[i].hf, name, len) == 0)
            return &map[i];
    return NULL;
}

/* *at stands on a number: reads it and the '.' behind it. */
static bool take_number(const char **at, int32_t *out)
{
    int64_t v = 0;
    const char *p = *at;
    for (; *p >= '0' && *p <= '9' && v < LIMIT_ST_TENSORS; p++)
        v = 10 * v + (*p - '0');
    if (p == *at || *p != '.')
        return false;
    *out = (int32_t)v;
    *at = p + 1;
    return true;
}

static bool skip(const char **at, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (strncmp(*at, prefix, n) != 0)
        return false;
    *at += n;
    return true;
}

static bool rename_expert(const char *rest, size_t len, int32_t layer, unsigned style, const char *suffix,
                          char out[NAME_BYTES])
{
    for (size_t i = 0; i < sizeof in_expert / sizeof *in_expert; i++) {
        const char *at = rest;
        int32_t expert;
        if (!skip(&at, in_expert[i].before) || !take_number(&at, &expert) ||
            !find(&in_expert[i].name, 1, at, len - (size_t)(at - rest), style))
            continue;
        snprintf(out, NAME_BYTES, "blk.%d.%s.%d%s", layer, in_expert[i].name.gguf, expert, suffix);
        return true;
    }
    return false;
}

/* False: no table knows the name. */
static bool rename_tensor(const char *name, unsigned style, struct renamed *out)
{
    const char *at = name, *suffix = "";
    int32_t layer;
    if (style == HF_BERT)
        skip(&at, "bert.");
    size_t len = strlen(at);
    static const char *const suffixes[] = {".weight", ".bias"};
    for (size_t i = 0; i < 2; i++) {
        const size_t n = strlen(suffixes[i]);
        if (len > n && strcmp(at + len - n, suffixes[i]) == 0) {
            suffix = suffixes[i];
            len -= n;
            break;
        }
    }
    const struct name_map *m = find(whole, sizeof whole / sizeof *whole, at, len, style);
    const char *rest = at;
    *out = (struct renamed){.ignored = false};
    if (m) {
        snprintf(out->gguf, NAME_BYTES, "%s%s", m->gguf ? m->gguf : "", suffix);
    } else {
        if (!skip(&rest, style == HF_BERT ? "encoder.layer." : "model.layers.") ||
            !take_number(&rest, &layer))
            return false;
        len -= (size_t)(rest - at);
        m = find(in_layer, sizeof in_layer / sizeof *in_layer, rest, len, style);
        if (!m)
            return rename_expert(rest, len, layer, style, suffix, out->gguf);
        snprintf(out->gguf, NAME_BYTES, "blk.%d.%s%s", layer, m->gguf ? m->gguf : "", suffix);
    }
    out->ignored = !m->gguf;
    out->norm = m->gguf && strlen(m->gguf) > 4 && strcmp(m->gguf + strlen(m->gguf) - 4, "norm") == 0;
    return true;
}

/* ---- values ---- */

static hasten_status no_memory(const struct safetensors *s, const struct st_tensor *t,
                               struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "%s: tensor '%.100s': out of memory for a copy", st_path(s),
                     t->name);
}

/* In transformers a Gemma norm multiplies by 1 + w; in GGUF, and in our families, by w. */
static hasten_status add_one(struct hf_folder *f, const struct safetensors *s, const struct st_tensor *from,
                             struct gguf_tensor *t, struct hasten_error *err)
{
    float *v = hf_own(f, (size_t)t->ne[0] * sizeof *v);
    if (!v)
        return no_memory(s, from, err);
    from->type->decode(from->data, t->ne[0], v);
    for (int64_t i = 0; i < t->ne[0]; i++)
        v[i] += 1.0f;
    t->type = quant_type_get(QUANT_F32);
    t->data = (const uint8_t *)v;
    return HASTEN_OK;
}

static hasten_status copy_aligned(struct hf_folder *f, const struct safetensors *s,
                                  const struct st_tensor *from, struct gguf_tensor *t,
                                  struct hasten_error *err)
{
    uint8_t *v = hf_own(f, (size_t)from->size_bytes);
    if (!v)
        return no_memory(s, from, err);
    memcpy(v, from->data, (size_t)from->size_bytes);
    t->data = v;
    return HASTEN_OK;
}

static hasten_status enter(struct hf_folder *f, struct gguf_compose *c, const struct safetensors *s,
                           const struct st_tensor *from, int32_t part, struct hasten_error *err)
{
    struct renamed r;
    struct gguf_tensor t = {
        .name = r.gguf, .type = from->type, .data = from->data, .offset = from->offset, .part = part};
    if (!rename_tensor(from->name, f->arch->style, &r))
        return error_set(
            err, HASTEN_ERR_UNSUPPORTED,
            "%s: tensor '%.100s': unsupported in architecture %s (expected only tensors it has a use "
            "for)",
            st_path(s), from->name, f->arch->hf);
    if (r.ignored || (f->tied && strcmp(r.gguf, "output.weight") == 0))
        return HASTEN_OK;
    if (!from->type)
        return error_set(err, HASTEN_ERR_UNSUPPORTED,
                         "%s: tensor '%.100s': dtype: unsupported value %s (supported: F32, F16, BF16)",
                         st_path(s), from->name, from->dtype);
    if (from->n_dims < 1 || from->n_dims > 4 || !from->size_bytes)
        return error_set(
            err, HASTEN_ERR_FILE,
            "%s: tensor '%.100s': shape: found %d dimensions, %llu bytes (expected 1 to 4 and some)",
            st_path(s), from->name, from->n_dims, (unsigned long long)from->size_bytes);
    t.n_dims = from->n_dims;
    for (int32_t i = 0; i < t.n_dims; i++)
        t.ne[i] = from->shape[t.n_dims - 1 - i];
    hasten_status st = HASTEN_OK;
    if (f->arch->style == HF_GEMMA && r.norm && t.n_dims == 1)
        st = add_one(f, s, from, &t, err);
    else if ((uintptr_t)from->data % (uintptr_t)from->type->block_bytes)
        st = copy_aligned(f, s, from, &t, err);
    if (!st)
        gguf_compose_tensor(c, &t);
    return st;
}

hasten_status hf_write_tensors(struct hf_folder *f, struct gguf_compose *c, struct hasten_error *err)
{
    for (int32_t i = 0; i < f->n_shards; i++) {
        const struct safetensors *s = f->shards[i];
        const int32_t part = gguf_compose_part(
            c, (struct gguf_part){
                   .path = st_path(s), .data = st_bytes(s), .size = st_file_bytes(s), .mapped = true});
        for (int64_t j = 0; j < st_n_tensors(s); j++) {
            const hasten_status st = enter(f, c, s, st_tensor_at(s, j), part, err);
            if (st)
                return st;
        }
    }
    return HASTEN_OK;
}
