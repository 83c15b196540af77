/* Builds the tiny models of tiny_model.h: keys, vocabulary, tensors, in the order of real files. */
#include "tiny_model.h"

#include "tiny_vocab.h"
#include "tiny_weights.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char chatml_template[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a small test model.<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static const char gemma_template[] =
    "{{ bos_token }}{% for message in messages %}"
    "{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

/* ---- options ---- */

int tiny_options_default(const char *family, uint64_t seed, struct tiny_options *out)
{
    *out = (struct tiny_options){.family = family,
                                 .seed = seed,
                                 .type = "mix",
                                 .n_layer = 3,
                                 .d_model = 64,
                                 .n_head = 4,
                                 .n_head_kv = 2,
                                 .head_dim = 16,
                                 .d_ff = 128,
                                 .n_vocab = 512,
                                 .context = 4096,
                                 .tied = 1,
                                 .rope = "none",
                                 .original = 256,
                                 .expert_type = "mix",
                                 .n_used = 2,
                                 .d_expert = 128};
    if (strcmp(family, "llama") == 0)
        return 0;
    if (strcmp(family, "qwen3moe") == 0) {
        out->tied = 0;
        out->head_dim = 32;
        out->n_expert = 8;
        out->n_used = 3;
        out->d_expert = 96;
        return 0;
    }
    if (strcmp(family, "gpt-oss") == 0) {
        out->tied = 0;
        out->n_layer = 4;
        out->n_head = 8;
        out->window = 48;
        out->context = 131072;
        out->expert_type = "MXFP4";
        out->n_expert = 5;
        out->d_expert = 64;
        return 0;
    }
    if (strcmp(family, "qwen2") == 0) {
        out->tied = 0;
        return 0;
    }
    if (strcmp(family, "qwen3") == 0) {
        out->head_dim = 32;
        return 0;
    }
    if (strcmp(family, "phi3") == 0) {
        out->tied = 0;
        out->n_rot = 12;
        out->n_vocab = 768;
        out->rope = "longrope";
        out->original = 160;
        return 0;
    }
    if (strcmp(family, "gemma2") == 0) {
        out->n_layer = 4;
        out->head_dim = 32;
        out->n_vocab = 768;
        out->window = 96;
        return 0;
    }
    if (strcmp(family, "gemma3") != 0)
        return -1;
    out->n_layer = 7;
    out->n_head_kv = 1;
    out->head_dim = 32;
    out->n_vocab = 768;
    out->window = 96;
    return 0;
}

static int32_t round_up(int32_t v, int32_t to)
{
    return (v + to - 1) / to * to;
}

void tiny_options_widen(struct tiny_options *o)
{
    o->d_model = round_up(o->d_model, 256);
    o->d_ff = round_up(o->d_ff, 256);
    o->d_expert = round_up(o->d_expert, 256);
    if (!o->n_expert && (strcmp(o->family, "llama") == 0 || strcmp(o->family, "qwen2") == 0))
        o->head_dim = o->d_model / o->n_head;
    else /* heads need not add up to d_model */
        o->head_dim = round_up(o->n_head * o->head_dim, 256) / o->n_head;
}

int tiny_options_set(struct tiny_options *o, const char *assignment)
{
    static const struct {
        const char *name;
        size_t offset;
    } numbers[] = {
#define NUMBER(field) {#field, offsetof(struct tiny_options, field)}
        NUMBER(n_layer),       NUMBER(d_model),    NUMBER(n_head),   NUMBER(n_head_kv), NUMBER(head_dim),
        NUMBER(d_ff),          NUMBER(n_vocab),    NUMBER(context),  NUMBER(window),    NUMBER(pattern),
        NUMBER(tied),          NUMBER(vocab_only), NUMBER(n_expert), NUMBER(n_used),    NUMBER(d_expert),
        NUMBER(split_experts), NUMBER(original),   NUMBER(n_rot),    NUMBER(biases),
#undef NUMBER
    };
    const char *equals = strchr(assignment, '=');
    if (!equals || !equals[1])
        return -1;
    if (strncmp(assignment, "type=", 5) == 0) {
        o->type = equals + 1;
        return 0;
    }
    if (strncmp(assignment, "rope=", 5) == 0) {
        o->rope = equals + 1;
        return 0;
    }
    if (strncmp(assignment, "expert_type=", 12) == 0) {
        o->expert_type = equals + 1;
        return 0;
    }
    char *end;
    long value = strtol(equals + 1, &end, 10);
    if (*end || value < 0 || value > 1 << 24)
        return -1;
    if (strncmp(assignment, "wide=", 5) == 0) {
        if (value)
            tiny_options_widen(o);
        return 0;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strlen(numbers[i].name) == (size_t)(equals - assignment) &&
            strncmp(numbers[i].name, assignment, (size_t)(equals - assignment)) == 0) {
            *(int32_t *)(void *)((char *)o + numbers[i].offset) = (int32_t)value;
            return 0;
        }
    return -1;
}

/* ---- keys ---- */

struct maker {
    const struct tiny_options *o;
    struct gguf_writer *w;
    uint32_t n_matrices; /* made so far: turns the mix */
    uint32_t stream;     /* of the random numbers: one per tensor */
    int failed;
};

static const char *family_key(const struct maker *m, char out[96], const char *name)
{
    snprintf(out, 96, "%s.%s", m->o->family, name);
    return out;
}

static void put_u32(struct maker *m, const char *name, int32_t value)
{
    char key[96];
    gguf_writer_u32(m->w, family_key(m, key, name), (uint32_t)value);
}

static void put_f32(struct maker *m, const char *name, float value)
{
    char key[96];
    gguf_writer_f32(m->w, family_key(m, key, name), value);
}

static int is_family(const struct maker *m, const char *family)
{
    return strcmp(m->o->family, family) == 0;
}

/* SentencePiece instead of byte-level BPE. */
static int has_spm(const struct maker *m)
{
    return is_family(m, "gemma2") || is_family(m, "gemma3") || is_family(m, "phi3");
}

static int has_rope(const struct maker *m, const char *rope)
{
    return strcmp(m->o->rope, rope) == 0;
}

static void put_general(struct maker *m)
{
    static const struct gguf_str languages[] = {{"en", 2}}, tags[] = {{"gemma3", 6}, {"test", 4}};
    gguf_writer_str(m->w, "general.architecture", m->o->family);
    gguf_writer_str(m->w, "general.type", "model");
    gguf_writer_str(m->w, "general.name", "Tiny test model");
    gguf_writer_str(m->w, "general.basename", "tiny");
    gguf_writer_str(m->w, "general.size_label", "0.1M");
    gguf_writer_str(m->w, "general.license", "apache-2.0");
    if (is_family(m, "llama"))
        gguf_writer_strs(m->w, "general.languages", languages, 1);
    if (is_family(m, "gemma3"))
        gguf_writer_strs(m->w, "general.tags", tags, 2);
}

static void put_rope(struct maker *m)
{
    const int keys = has_rope(m, "llama3_keys");
    const char *type = has_rope(m, "linear")                             ? "linear"
                       : keys                                            ? "llama3"
                       : has_rope(m, "yarn") || has_rope(m, "yarn_keys") ? "yarn"
                                                                         : NULL;
    char key[96];
    if (type) {
        gguf_writer_str(m->w, family_key(m, key, "rope.scaling.type"), type);
        put_f32(m, "rope.scaling.factor", keys ? 8 : 4);
    }
    if (has_rope(m, "longrope")) /* as files have it: without a type */
        put_f32(m, "rope.scaling.attn_factor", 1.25f);
    if ((type && !has_rope(m, "linear")) || has_rope(m, "longrope"))
        put_u32(m, "rope.scaling.original_context_length", m->o->original);
    if (keys) {
        put_f32(m, "rope.scaling.low_freq_factor", 1);
        put_f32(m, "rope.scaling.high_freq_factor", 4);
    }
    if (has_rope(m, "yarn_keys")) {
        put_f32(m, "rope.scaling.yarn_beta_fast", 16);
        put_f32(m, "rope.scaling.yarn_beta_slow", 0.5f);
        put_f32(m, "rope.scaling.yarn_attn_factor", 1.2f);
    }
}

static void put_hyper(struct maker *m)
{
    const struct tiny_options *o = m->o;
    put_u32(m, "block_count", o->n_layer);
    put_u32(m, "context_length", o->context);
    put_u32(m, "embedding_length", o->d_model);
    put_u32(m, "feed_forward_length", o->d_ff);
    if (o->n_expert) {
        put_u32(m, "expert_count", o->n_expert);
        put_u32(m, "expert_used_count", o->n_used);
        if (!is_family(m, "llama") || o->d_expert != o->d_ff)
            put_u32(m, "expert_feed_forward_length", o->d_expert);
    }
    put_u32(m, "attention.head_count", o->n_head);
    put_u32(m, "attention.head_count_kv", o->n_head_kv);
    put_f32(m, "rope.freq_base",
            is_family(m, "llama")     ? 100000.0f
            : is_family(m, "gpt-oss") ? 150000.0f
                                      : 1000000.0f);
    if (is_family(m, "gpt-oss")) { /* as in the published models */
        char key[96];
        gguf_writer_str(m->w, family_key(m, key, "rope.scaling.type"), "yarn");
        put_f32(m, "rope.scaling.factor", 32.0f);
        put_u32(m, "rope.scaling.original_context_length", 4096);
    }
    put_f32(m, "attention.layer_norm_rms_epsilon", is_family(m, "llama") ? 1e-5f : 1e-6f);
    if (is_family(m, "llama"))
        put_u32(m, "vocab_size", o->n_vocab);
    if (is_family(m, "llama") || o->n_rot)
        put_u32(m, "rope.dimension_count", o->n_rot ? o->n_rot : o->head_dim);
    if (is_family(m, "gemma3") || is_family(m, "qwen3moe") || is_family(m, "gpt-oss") ||
        o->n_head * o->head_dim != o->d_model) {
        put_u32(m, "attention.key_length", o->head_dim);
        put_u32(m, "attention.value_length", o->head_dim);
    }
    if (o->window)
        put_u32(m, "attention.sliding_window", o->window);
    if (o->pattern)
        put_u32(m, "attention.sliding_window_pattern", o->pattern);
    if (is_family(m, "gemma2")) {
        put_f32(m, "attn_logit_softcapping", 6);
        put_f32(m, "final_logit_softcapping", 10);
    }
    put_rope(m);
    gguf_writer_u32(m->w, "general.file_type", 0);
}

static void put_tokens(struct maker *m, const struct tiny_vocab *v)
{
    size_t n = (size_t)v->n_tokens, n_strs = n > (size_t)v->n_merges ? n : (size_t)v->n_merges;
    struct gguf_str *strs = mem_array(n_strs, sizeof *strs);
    int32_t *types = mem_array(n, sizeof *types);
    float *scores = mem_array(n, sizeof *scores);
    if (strs && types && scores) {
        for (size_t i = 0; i < n; i++) {
            strs[i] = (struct gguf_str){v->tokens[i].text, v->tokens[i].len};
            types[i] = v->tokens[i].type;
            scores[i] = v->tokens[i].score;
        }
        gguf_writer_strs(m->w, "tokenizer.ggml.tokens", strs, n);
        if (has_spm(m))
            gguf_writer_array(m->w, "tokenizer.ggml.scores", GGUF_F32, scores, n);
        gguf_writer_array(m->w, "tokenizer.ggml.token_type", GGUF_I32, types, n);
        for (int32_t i = 0; i < v->n_merges; i++)
            strs[i] = (struct gguf_str){v->merges[i].text, v->merges[i].len};
        if (!has_spm(m))
            gguf_writer_strs(m->w, "tokenizer.ggml.merges", strs, (uint64_t)v->n_merges);
    } else {
        m->failed = 1;
    }
    mem_free(strs);
    mem_free(types);
    mem_free(scores);
}

static void put_tokenizer(struct maker *m)
{
    struct tiny_vocab v;
    int gemma = has_spm(m), llama = is_family(m, "llama");
    if (tiny_vocab_make(gemma ? TINY_GEMMA3 : llama ? TINY_SMOLLM : TINY_QWEN2, m->o->n_vocab, &v)) {
        m->failed = 1;
        return;
    }
    gguf_writer_str(m->w, "tokenizer.ggml.model", gemma ? "llama" : "gpt2");
    gguf_writer_str(m->w, "tokenizer.ggml.pre", gemma ? "default" : llama ? "smollm" : "qwen2");
    put_tokens(m, &v);
    gguf_writer_u32(m->w, "tokenizer.ggml.bos_token_id", (uint32_t)v.bos);
    gguf_writer_u32(m->w, "tokenizer.ggml.eos_token_id", (uint32_t)v.eos);
    gguf_writer_u32(m->w, "tokenizer.ggml.padding_token_id", (uint32_t)v.pad);
    if (gemma || llama)
        gguf_writer_u32(m->w, "tokenizer.ggml.unknown_token_id", (uint32_t)v.unk);
    gguf_writer_bool(m->w, "tokenizer.ggml.add_bos_token", gemma);
    if (gemma) {
        gguf_writer_bool(m->w, "tokenizer.ggml.add_sep_token", false);
        gguf_writer_bool(m->w, "tokenizer.ggml.add_eos_token", false);
    }
    if (gemma || llama)
        gguf_writer_bool(m->w, "tokenizer.ggml.add_space_prefix", false);
    gguf_writer_str(m->w, "tokenizer.chat_template", gemma ? gemma_template : chatml_template);
    gguf_writer_u32(m->w, "general.quantization_version", 2);
    tiny_vocab_free(&v);
}

/* ---- tensors ---- */

/* The type of the next matrix with rows of n_in elements, or NULL if the wanted one does not divide them. */
static const struct quant_type *next_type(struct maker *m, const char *wanted, int64_t n_in)
{
    static const uint32_t ids[] = {QUANT_Q4_0, QUANT_Q4_K, QUANT_Q8_0, QUANT_Q6_K, QUANT_F16,
                                   QUANT_Q5_0, QUANT_Q5_K, QUANT_Q4_1, QUANT_Q3_K, QUANT_BF16,
                                   QUANT_Q5_1, QUANT_Q2_K, QUANT_F32};
    const uint32_t n_ids = sizeof ids / sizeof ids[0];
    const int mix = strcmp(wanted, "mix") == 0;
    const uint32_t n = mix ? n_ids : 64; /* else any public type */
    for (uint32_t i = 0; i < n; i++) {
        const struct quant_type *t =
            quant_type_get(mix ? ids[(m->n_matrices + (uint32_t)m->o->seed + i) % n_ids] : i);
        if (t && (mix || strcmp(t->name, wanted) == 0) && n_in % t->block == 0)
            return t;
    }
    return NULL;
}

static void add_tensor(struct maker *m, const char *name, const struct quant_type *type, uint32_t n_dims,
                       const uint64_t *ne, float std, float mean)
{
    int64_t n = (int64_t)(ne[0] * (n_dims > 1 ? ne[1] : 1) * (n_dims > 2 ? ne[2] : 1));
    size_t size = (size_t)(n / type->block) * (size_t)type->block_bytes;
    struct tiny_rng r = tiny_rng_make(m->o->seed, m->stream++);
    uint8_t *data = mem_alloc(size);
    if (!data || tiny_weights(type, n, std, &r, data)) {
        m->failed = 1;
        mem_free(data);
        return;
    }
    if (type->id == QUANT_F32)
        for (int64_t i = 0; i < n; i++) {
            float f;
            memcpy(&f, data + 4 * i, 4);
            f += mean;
            memcpy(data + 4 * i, &f, 4);
        }
    gguf_writer_tensor(m->w, name, type->id, n_dims, ne, data, size);
    mem_free(data);
}

/* [n_out rows × n_in]; standard deviation gain / sqrt(n_in), so that rms 1 in gives rms gain out. */
static void add_matrix(struct maker *m, const char *name, int32_t n_in, int32_t n_out, float gain)
{
    uint64_t ne[2] = {(uint64_t)n_in, (uint64_t)n_out};
    const struct quant_type *type = next_type(m, m->o->type, n_in);
    m->n_matrices++;
    if (type)
        add_tensor(m, name, type, 2, ne, gain / sqrtf((float)n_in), 0);
    else
        m->failed = 1;
}

static void add_vector(struct maker *m, const char *name, int32_t n, float std, float mean)
{
    uint64_t ne[2] = {(uint64_t)n, 1};
    add_tensor(m, name, quant_type_get(QUANT_F32), 1, ne, std, mean);
}

/* Matrix "blk.<layer>.<part>" of each expert: one tensor of all, or one tensor each. */
static void add_expert_matrices(struct maker *m, int32_t layer, const char *part, int32_t n_in, int32_t n_out,
                                float gain)
{
    const struct tiny_options *o = m->o;
    uint64_t ne[3] = {(uint64_t)n_in, (uint64_t)n_out, (uint64_t)o->n_expert};
    const struct quant_type *type = next_type(m, o->expert_type, n_in);
    const float std = gain / sqrtf((float)n_in);
    char name[64];
    m->n_matrices++;
    if (!type) {
        m->failed = 1;
        return;
    }
    snprintf(name, sizeof name, "blk.%d.%s_exps.weight", layer, part);
    if (!o->split_experts)
        add_tensor(m, name, type, 3, ne, std, 0);
    for (int32_t i = 0; o->split_experts && i < o->n_expert; i++) {
        snprintf(name, sizeof name, "blk.%d.%s.%d.weight", layer, part, i);
        add_tensor(m, name, type, 2, ne, std, 0);
    }
}

static void add_biases(struct maker *m, int32_t layer, const char *part, int32_t n, float std)
{
    const uint64_t ne[2] = {(uint64_t)n, (uint64_t)m->o->n_expert};
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s_exps.bias", layer, part);
    add_tensor(m, name, quant_type_get(QUANT_F32), 2, ne, std, 0);
}

/* Router logits of spread about 2. The gain of gate and up in gpt-oss drives some of them beyond its clamps. */
static void add_experts(struct maker *m, int32_t layer)
{
    const struct tiny_options *o = m->o;
    const uint64_t ne[2] = {(uint64_t)o->d_model, (uint64_t)o->n_expert};
    const float gain = is_family(m, "gpt-oss") ? 3.0f : 1.5f;
    char name[64];
    add_expert_matrices(m, layer, "ffn_down", o->d_expert, o->d_model, is_family(m, "gpt-oss") ? 0.3f : 1.5f);
    add_expert_matrices(m, layer, "ffn_gate", o->d_model, o->d_expert, gain);
    add_expert_matrices(m, layer, "ffn_up", o->d_model, o->d_expert, gain);
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", layer);
    add_tensor(m, name, quant_type_get(QUANT_F32), 2, ne, 2.0f / sqrtf((float)o->d_model), 0);
    if (!is_family(m, "gpt-oss"))
        return;
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.bias", layer);
    add_vector(m, name, o->n_expert, 0.5f, 0);
    add_biases(m, layer, "ffn_down", o->d_model, 0.2f);
    add_biases(m, layer, "ffn_gate", o->d_expert, 0.5f);
    add_biases(m, layer, "ffn_up", o->d_expert, 0.5f);
}

/* ---- layers ---- */

#define LAYER_NAME(out, layer, suffix) (snprintf(out, sizeof out, "blk.%d.%s", layer, suffix), out)

static void add_values(struct maker *m, const char *name, const float *values, int32_t n)
{
    uint64_t ne[1] = {(uint64_t)n};
    gguf_writer_tensor(m->w, name, QUANT_F32, 1, ne, values, (size_t)n * sizeof *values);
}

/* Divisors of the frequencies: from 1 to `last`, growing as files have them. */
static void add_factors(struct maker *m, const char *name, int32_t n, float last)
{
    float values[64];
    if (n > 64) {
        m->failed = 1;
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const float at = n > 1 ? (float)i / (float)(n - 1) : 1;
        values[i] = 1 + (last - 1) * at * at;
    }
    add_values(m, name, values, n);
}

static void add_rope(struct maker *m)
{
    const int32_t n = (m->o->n_rot ? m->o->n_rot : m->o->head_dim) / 2;
    if (has_rope(m, "llama3"))
        add_factors(m, "rope_freqs.weight", n, 8);
    if (has_rope(m, "longrope")) {
        add_factors(m, "rope_factors_long.weight", n, 24);
        add_factors(m, "rope_factors_short.weight", n, 1.5f);
    }
}

static void add_feed_forward(struct maker *m, int32_t layer)
{
    const int32_t d = m->o->d_model, ff = m->o->d_ff;
    char name[64];
    add_matrix(m, LAYER_NAME(name, layer, "ffn_down.weight"), ff, d, 1.5f);
    if (is_family(m, "phi3")) {
        add_matrix(m, LAYER_NAME(name, layer, "ffn_up.weight"), d, 2 * ff, 1.5f);
        return;
    }
    add_matrix(m, LAYER_NAME(name, layer, "ffn_gate.weight"), d, ff, 1.5f);
    add_matrix(m, LAYER_NAME(name, layer, "ffn_up.weight"), d, ff, 1);
    if (m->o->biases) {
        add_vector(m, LAYER_NAME(name, layer, "ffn_gate.bias"), ff, 0.5f, 0);
        add_vector(m, LAYER_NAME(name, layer, "ffn_up.bias"), ff, 0.5f, 0);
        add_vector(m, LAYER_NAME(name, layer, "ffn_down.bias"), d, 0.2f, 0);
    }
}

static void add_attention(struct maker *m, int32_t layer)
{
    const struct tiny_options *o = m->o;
    const int32_t d = o->d_model, q = o->n_head * o->head_dim, kv = o->n_head_kv * o->head_dim;
    char name[64];
    if (is_family(m, "gpt-oss") || o->biases)
        add_vector(m, LAYER_NAME(name, layer, "attn_output.bias"), d, 0.2f, 0);
    if (is_family(m, "qwen2") || is_family(m, "gpt-oss") || o->biases) {
        add_vector(m, LAYER_NAME(name, layer, "attn_k.bias"), kv, 0.5f, 0);
        add_vector(m, LAYER_NAME(name, layer, "attn_q.bias"), q, 0.5f, 0);
        add_vector(m, LAYER_NAME(name, layer, "attn_v.bias"), kv, 0.2f, 0);
    }
    if (is_family(m, "phi3")) {
        add_matrix(m, LAYER_NAME(name, layer, "attn_output.weight"), q, d, 1);
        add_matrix(m, LAYER_NAME(name, layer, "attn_qkv.weight"), d, q + 2 * kv, 1.3f);
        return;
    }
    add_matrix(m, LAYER_NAME(name, layer, "attn_k.weight"), d, kv, 1.5f);
    add_matrix(m, LAYER_NAME(name, layer, "attn_output.weight"), q, d, 1);
    add_matrix(m, LAYER_NAME(name, layer, "attn_q.weight"), d, q, 1.5f);
    add_matrix(m, LAYER_NAME(name, layer, "attn_v.weight"), d, kv, 1);
    if (is_family(m, "gemma3") || is_family(m, "qwen3moe") || is_family(m, "qwen3")) {
        add_vector(m, LAYER_NAME(name, layer, "attn_k_norm.weight"), o->head_dim, 0.1f, 1.5f);
        add_vector(m, LAYER_NAME(name, layer, "attn_q_norm.weight"), o->head_dim, 0.1f, 1.5f);
    }
}

static void add_layer(struct maker *m, int32_t layer)
{
    const int32_t d = m->o->d_model;
    const int oss = is_family(m, "gpt-oss");
    char name[64];
    add_vector(m, LAYER_NAME(name, layer, "attn_norm.weight"), d, 0.1f, 1);
    if (m->o->n_expert)
        add_experts(m, layer);
    else
        add_feed_forward(m, layer);
    add_vector(m, LAYER_NAME(name, layer, oss ? "post_attention_norm.weight" : "ffn_norm.weight"), d, 0.1f,
               1);
    if (oss)
        add_vector(m, LAYER_NAME(name, layer, "attn_sinks.weight"), m->o->n_head, 2, 1);
    add_attention(m, layer);
    if (is_family(m, "gemma2") || is_family(m, "gemma3")) {
        add_vector(m, LAYER_NAME(name, layer, "post_attention_norm.weight"), d, 0.1f, 1);
        add_vector(m, LAYER_NAME(name, layer, "post_ffw_norm.weight"), d, 0.1f, 1);
    }
}

struct gguf_writer *tiny_model_writer(const struct tiny_options *o)
{
    struct maker m = {.o = o, .w = gguf_writer_new()};
    if (!m.w)
        return NULL;
    put_general(&m);
    put_hyper(&m);
    put_tokenizer(&m);
    if (!o->vocab_only) {
        add_matrix(&m, "token_embd.weight", o->d_model, o->n_vocab, 1);
        for (int32_t i = 0; i < o->n_layer; i++)
            add_layer(&m, i);
        add_rope(&m);
        add_vector(&m, "output_norm.weight", o->d_model, 0.5f, 4); /* logits of spread about 4 */
        if (!o->tied)
            add_matrix(&m, "output.weight", o->d_model, o->n_vocab, 1);
    }
    if (m.failed) {
        gguf_writer_free(m.w);
        return NULL;
    }
    return m.w;
}

int tiny_model_build(const struct tiny_options *o, struct buf *out)
{
    struct gguf_writer *w = tiny_model_writer(o);
    int failed = !w || gguf_writer_build(w, NULL, 0, out);
    gguf_writer_free(w);
    return failed ? -1 : 0;
}

int tiny_model_save(const struct tiny_options *o, const char *path)
{
    struct gguf_writer *w = tiny_model_writer(o);
    int failed = !w || gguf_writer_save(w, NULL, 0, path);
    gguf_writer_free(w);
    return failed ? -1 : 0;
}
