/* config.json put into GGUF's keys: which family, its sizes, its position encoding, its pooling. Field names are those
 * of transformers' configuration classes, and so are the values meant where a field is missing. What the families do
 * not compute (another activation, another scaling of positions, quantised weights) is refused by name; ranges are
 * checked where the keys are read (bind.c). */
#include "model/hf.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct hf_arch archs[] = {
    {"LlamaForCausalLM", "llama", HF_LLAMA, "silu", 10000, false, false},
    {"MistralForCausalLM", "llama", HF_LLAMA, "silu", 10000, true, false},
    {"MixtralForCausalLM", "llama", HF_LLAMA, "silu", 1e6, true, true},
    {"Qwen2ForCausalLM", "qwen2", HF_LLAMA, "silu", 10000, false, false},
    {"Qwen3ForCausalLM", "qwen3", HF_LLAMA, "silu", 10000, false, false},
    {"Qwen3MoeForCausalLM", "qwen3moe", HF_LLAMA, "silu", 10000, false, true},
    {"Phi3ForCausalLM", "phi3", HF_LLAMA, "silu", 10000, true, false},
    {"Gemma2ForCausalLM", "gemma2", HF_GEMMA, "gelu_pytorch_tanh", 10000, true, false},
    {"Gemma3ForCausalLM", "gemma3", HF_GEMMA, "gelu_pytorch_tanh", 1e6, true, false},
    {"BertModel", "bert", HF_BERT, "gelu", 0, false, false},
};

enum kind {
    WHOLE,
    REAL
};

/* Fields that become one key each; styles: who must have them. */
static const struct field {
    const char *hf, *key;
    enum kind kind;
    unsigned required;
} fields[] = {
    {"num_hidden_layers", "block_count", WHOLE, HF_LLAMA | HF_GEMMA | HF_BERT},
    {"hidden_size", "embedding_length", WHOLE, HF_LLAMA | HF_GEMMA | HF_BERT},
    {"max_position_embeddings", "context_length", WHOLE, HF_LLAMA | HF_GEMMA | HF_BERT},
    {"intermediate_size", "feed_forward_length", WHOLE, HF_LLAMA | HF_GEMMA | HF_BERT},
    {"num_attention_heads", "attention.head_count", WHOLE, HF_LLAMA | HF_GEMMA | HF_BERT},
    {"num_key_value_heads", "attention.head_count_kv", WHOLE, HF_GEMMA},
    {"head_dim", "attention.key_length", WHOLE, HF_GEMMA},
    {"head_dim", "attention.value_length", WHOLE, HF_GEMMA},
    {"vocab_size", "vocab_size", WHOLE, HF_LLAMA | HF_GEMMA | HF_BERT},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", REAL, HF_LLAMA | HF_GEMMA},
    {"layer_norm_eps", "attention.layer_norm_epsilon", REAL, HF_BERT},
    {"type_vocab_size", "token_type_count", WHOLE, HF_BERT},
    {"num_experts", "expert_count", WHOLE, 0},
    {"num_local_experts", "expert_count", WHOLE, 0},
    {"num_experts_per_tok", "expert_used_count", WHOLE, 0},
    {"moe_intermediate_size", "expert_feed_forward_length", WHOLE, 0},
    {"attn_logit_softcapping", "attn_logit_softcapping", REAL, 0},
    {"final_logit_softcapping", "final_logit_softcapping", REAL, 0},
};

/* Where the keys of one folder are written. */
struct keys {
    struct hf_folder *f;
    struct gguf_compose *c;
    struct hasten_error *err;
};

/* ---- reading fields ---- */

/* NULL for a field that is missing or null, which means the same. */
static const json_t *field(const json_t *of, const char *name)
{
    const json_t *v = json_object_get(of, name);
    return json_is_null(v) ? NULL : v;
}

static hasten_status refuse(const struct keys *k, hasten_status status, const char *name, const json_t *found,
                            const char *expected)
{
    char text[80] = "nothing";
    const size_t n = found ? json_dumpb(found, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT) : 0;
    if (found)
        text[n < sizeof text - 1 ? n : sizeof text - 1] = '\0'; /* a longer value is cut */
    return error_set(k->err, status, "%s/config.json: %s: %s%s (expected %s)", k->f->path, name,
                     status == HASTEN_ERR_UNSUPPORTED ? "unsupported value " : "found ", text, expected);
}

static const char *name_of(const struct keys *k, const char *key, char out[128])
{
    snprintf(out, 128, "%s.%s", k->f->arch->family, key);
    return out;
}

static hasten_status get_number(const struct keys *k, const json_t *of, const char *name, double *out)
{
    const json_t *v = field(of, name);
    if (!v)
        return HASTEN_OK;
    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        return refuse(k, HASTEN_ERR_FILE, name, v, "a number");
    *out = json_number_value(v);
    return HASTEN_OK;
}

static hasten_status put_field(const struct keys *k, const json_t *of, const struct field *d)
{
    char key[128];
    const json_t *v = field(of, d->hf);
    name_of(k, d->key, key);
    if (!v)
        return d->required & k->f->arch->style ? refuse(k, HASTEN_ERR_FILE, d->hf, NULL, "a number")
                                               : HASTEN_OK;
    if (d->kind == WHOLE) {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
            return refuse(k, HASTEN_ERR_FILE, d->hf, v, "a whole number from 0 to 2147483647");
        gguf_compose_u32(k->c, key, (uint32_t)json_integer_value(v));
        return HASTEN_OK;
    }
    double x = 0;
    const hasten_status st = get_number(k, of, d->hf, &x);
    if (!st)
        gguf_compose_f32(k->c, key, (float)x);
    return st;
}

static void put_real(const struct keys *k, const char *key, double v)
{
    char name[128];
    gguf_compose_f32(k->c, name_of(k, key, name), (float)v);
}

static void put_whole(const struct keys *k, const char *key, uint32_t v)
{
    char name[128];
    gguf_compose_u32(k->c, name_of(k, key, name), v);
}

static void put_word(const struct keys *k, const char *key, const char *v)
{
    char name[128];
    gguf_compose_str(k->c, name_of(k, key, name), v, strlen(v));
}

/* ---- the architecture ---- */

static hasten_status find_arch(const struct keys *k)
{
    const json_t *list = field(k->f->config, "architectures");
    const char *name = json_string_value(json_is_array(list) ? json_array_get(list, 0) : NULL);
    if (!name)
        return refuse(k, HASTEN_ERR_FILE, "architectures", list, "a list with one name");
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strcmp(archs[i].hf, name) == 0) {
            k->f->arch = &archs[i];
            return HASTEN_OK;
        }
    char known[400] = "";
    for (size_t i = 0, at = 0; i < sizeof archs / sizeof *archs && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", archs[i].hf);
    return error_set(k->err, HASTEN_ERR_UNSUPPORTED,
                     "%s/config.json: architectures: unsupported architecture '%.64s' (supported: %s)",
                     k->f->path, name, known);
}

static hasten_status check_kind(const struct keys *k)
{
    const json_t *config = k->f->config, *v;
    static const char *const names[] = {"hidden_act", "hidden_activation"};
    for (size_t i = 0; i < 2; i++) {
        const char *act = json_string_value(v = field(config, names[i]));
        /* gemma configurations may still name "gelu" in the first, which their code overrides by the second */
        if (i == 0 && k->f->arch->style == HF_GEMMA && field(config, names[1]))
            continue;
        if (v && (!act || strcmp(act, k->f->arch->act) != 0))
            return refuse(k, HASTEN_ERR_UNSUPPORTED, names[i], v, k->f->arch->act);
    }
    if ((v = field(config, "quantization_config")))
        return refuse(k, HASTEN_ERR_UNSUPPORTED, "quantization_config", v, "weights in F32, F16 or BF16");
    if ((v = field(config, "position_embedding_type")) &&
        (!json_is_string(v) || strcmp(json_string_value(v), "absolute") != 0))
        return refuse(k, HASTEN_ERR_UNSUPPORTED, "position_embedding_type", v, "\"absolute\"");
    if (k->f->arch->style == HF_BERT && json_is_true(field(config, "is_decoder")))
        return refuse(k, HASTEN_ERR_UNSUPPORTED, "is_decoder", field(config, "is_decoder"), "false");
    return HASTEN_OK;
}

/* ---- positions ---- */

/* The first of the objects that has the field. */
static const json_t *either(const json_t *a, const json_t *b, const char *name)
{
    const json_t *v = field(a, name);
    return v ? v : field(b, name);
}

static hasten_status put_factors(const struct keys *k, const json_t *rope, const char *field_name,
                                 const char *tensor)
{
    const json_t *list = field(rope, field_name);
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n < 1 || n > 4096)
        return refuse(k, HASTEN_ERR_FILE, field_name, list, "a list of numbers");
    float *v = hf_own(k->f, n * sizeof *v);
    if (!v)
        return error_set(k->err, HASTEN_ERR_MEMORY, "%s: out of memory for its factors", k->f->path);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(list, i);
        if (!json_is_number(x))
            return refuse(k, HASTEN_ERR_FILE, field_name, x, "a list of numbers");
        v[i] = (float)json_number_value(x);
    }
    gguf_compose_tensor(k->c, &(struct gguf_tensor){.name = tensor,
                                                    .type = quant_type_get(QUANT_F32),
                                                    .n_dims = 1,
                                                    .ne = {(int64_t)n},
                                                    .data = (const uint8_t *)v});
    return HASTEN_OK;
}

/* The parameters of a scaling, by its name. */
static hasten_status put_scaling(const struct keys *k, const char *type, const json_t *rope)
{
    static const struct {
        const char *type;
        struct field d;
    } params[] = {
        {"linear", {"factor", "rope.scaling.factor", REAL, 0}},
        {"yarn", {"factor", "rope.scaling.factor", REAL, 0}},
        {"yarn", {"beta_fast", "rope.scaling.yarn_beta_fast", REAL, 0}},
        {"yarn", {"beta_slow", "rope.scaling.yarn_beta_slow", REAL, 0}},
        {"yarn", {"attention_factor", "rope.scaling.yarn_attn_factor", REAL, 0}},
        {"llama3", {"factor", "rope.scaling.factor", REAL, 0}},
        {"llama3", {"low_freq_factor", "rope.scaling.low_freq_factor", REAL, 0}},
        {"llama3", {"high_freq_factor", "rope.scaling.high_freq_factor", REAL, 0}},
        {"longrope", {"attention_factor", "rope.scaling.attn_factor", REAL, 0}},
    };
    static const char original[] = "original_max_position_embeddings";
    hasten_status st = HASTEN_OK;
    put_word(k, "rope.scaling.type", type);
    for (size_t i = 0; i < sizeof params / sizeof *params && !st; i++)
        if (strcmp(params[i].type, type) == 0)
            st = put_field(k, rope, &params[i].d);
    const struct field d = {original, "rope.scaling.original_context_length", WHOLE, 0};
    if (!st && strcmp(type, "linear") != 0)
        st = put_field(k, field(rope, original) ? rope : k->f->config, &d);
    if (!st && strcmp(type, "longrope") == 0 &&
        !(st = put_factors(k, rope, "short_factor", "rope_factors_short.weight")))
        st = put_factors(k, rope, "long_factor", "rope_factors_long.weight");
    return st;
}

/* rope_scaling, or rope_parameters in folders of transformers 5, where Gemma 3 has one for each kind of layer. */
static hasten_status put_rope(const struct keys *k)
{
    const json_t *config = k->f->config, *rope = field(config, "rope_parameters");
    const json_t *local = field(rope, "sliding_attention");
    if (field(rope, "full_attention"))
        rope = field(rope, "full_attention");
    if (!rope)
        rope = field(config, "rope_scaling");
    double theta = k->f->arch->rope_theta, local_theta = 0, part = 1;
    hasten_status st = get_number(k, either(rope, NULL, "rope_theta") ? rope : config, "rope_theta", &theta);
    if (!st)
        st = get_number(k, local, "rope_theta", &local_theta);
    if (!st)
        st = get_number(k, config, "rope_local_base_freq", &local_theta);
    if (!st)
        st = get_number(k, either(rope, NULL, "partial_rotary_factor") ? rope : config,
                        "partial_rotary_factor", &part);
    if (st)
        return st;
    put_real(k, "rope.freq_base", theta);
    if (local_theta > 0)
        put_real(k, "rope.freq_base_swa", local_theta);
    if (part != 1) {
        double heads = 1, width = 0;
        st = get_number(k, config, "hidden_size", &width);
        if (!st)
            st = get_number(k, config, "num_attention_heads", &heads);
        double d = heads >= 1 ? floor(width / heads) : 0;
        if (!st)
            st = get_number(k, config, "head_dim", &d);
        if (st)
            return st;
        if (!(part > 0 && part < 1 && d > 0 && d < 65536))
            return refuse(k, HASTEN_ERR_FILE, "partial_rotary_factor",
                          either(rope, config, "partial_rotary_factor"), "a number from 0 to 1");
        put_whole(k, "rope.dimension_count", (uint32_t)(part * d));
    }
    const json_t *said = either(rope, NULL, "rope_type");
    const char *type = json_string_value(said = said ? said : field(rope, "type"));
    if (!said || (type && strcmp(type, "default") == 0))
        return HASTEN_OK;
    if (type && strcmp(type, "su") == 0) /* its name in the first Phi-3 files */
        type = "longrope";
    static const char *const known[] = {"linear", "yarn", "llama3", "longrope"};
    for (size_t i = 0; type && i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i]) == 0)
            return put_scaling(k, type, rope);
    return refuse(k, HASTEN_ERR_UNSUPPORTED, "rope_type", said, "default, linear, yarn, llama3, longrope");
}

/* ---- windows, queries, experts ---- */

/* Every how many layers one is global, from layer_types; 0: said nowhere. */
static hasten_status put_pattern(const struct keys *k)
{
    const json_t *types = field(k->f->config, "layer_types");
    const size_t n = json_array_size(types);
    if (k->f->arch->style != HF_GEMMA)
        return HASTEN_OK;
    const struct field d = {"sliding_window_pattern", "attention.sliding_window_pattern", WHOLE, 0};
    if (!types)
        return put_field(k, k->f->config, &d);
    size_t period = 0;
    for (size_t i = 0; i < n; i++) {
        const char *t = json_string_value(json_array_get(types, i));
        const bool global = t && strcmp(t, "full_attention") == 0;
        if (!t || (!global && strcmp(t, "sliding_attention") != 0) ||
            (period && global != ((i + 1) % period == 0)))
            return refuse(k, HASTEN_ERR_UNSUPPORTED, "layer_types", types, "every n-th layer full_attention");
        if (global && !period)
            period = i + 1;
    }
    put_whole(k, "attention.sliding_window_pattern", (uint32_t)(period ? period : n + 1));
    return HASTEN_OK;
}

static hasten_status put_window(const struct keys *k)
{
    const json_t *config = k->f->config;
    const struct field d = {"sliding_window", "attention.sliding_window", WHOLE, 0};
    if (json_is_true(field(config, "use_sliding_window")) && !k->f->arch->window)
        return refuse(k, HASTEN_ERR_UNSUPPORTED, "use_sliding_window", field(config, "use_sliding_window"),
                      "false");
    if (!k->f->arch->window)
        return HASTEN_OK;
    const hasten_status st = put_field(k, config, &d);
    return st ? st : put_pattern(k);
}

/* Families scale queries by the head size, in the largest Gemmas by width / heads. */
static hasten_status check_query_scale(const struct keys *k)
{
    const json_t *config = k->f->config;
    double scalar = 0, d = 0, layers = 0, width = 0, heads = 1;
    hasten_status st;
    if ((st = get_number(k, config, "query_pre_attn_scalar", &scalar)) ||
        (st = get_number(k, config, "head_dim", &d)) ||
        (st = get_number(k, config, "num_hidden_layers", &layers)) ||
        (st = get_number(k, config, "hidden_size", &width)) ||
        (st = get_number(k, config, "num_attention_heads", &heads)))
        return st;
    const double expected = (layers == 46 || layers == 62) && heads > 0 ? width / heads : d;
    if (k->f->arch->style == HF_GEMMA && scalar != 0 && scalar != expected)
        return refuse(k, HASTEN_ERR_UNSUPPORTED, "query_pre_attn_scalar",
                      field(config, "query_pre_attn_scalar"), "the size of a head");
    return HASTEN_OK;
}

static hasten_status put_experts(const struct keys *k)
{
    const json_t *config = k->f->config, *norm = field(config, "norm_topk_prob");
    char key[128];
    if (!k->f->arch->experts)
        return HASTEN_OK;
    const json_t *dense = field(config, "mlp_only_layers"), *step = field(config, "decoder_sparse_step");
    if (json_array_size(dense))
        return refuse(k, HASTEN_ERR_UNSUPPORTED, "mlp_only_layers", dense, "none");
    if (step && json_integer_value(step) != 1)
        return refuse(k, HASTEN_ERR_UNSUPPORTED, "decoder_sparse_step", step, "1");
    if (strcmp(k->f->arch->family, "qwen3moe") == 0)
        gguf_compose_bool(k->c, name_of(k, "expert_weights_norm", key), json_is_true(norm));
    return HASTEN_OK;
}

/* ---- pooling ---- */

/* sentence-transformers: 1_Pooling/config.json says how rows become one vector; numbers as in GGUF's pooling_type.
 * Another kind is left out, and must then be chosen by the caller. */
static hasten_status put_pooling(const struct keys *k)
{
    static const struct {
        const char *mode;
        uint32_t type;
    } modes[] = {
        {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};
    static const char name[] = "1_Pooling/config.json";
    char *text = NULL, path[1024];
    size_t len = 0;
    json_t *pooling = NULL;
    if (!hf_has(k->f->path, name))
        return HASTEN_OK;
    snprintf(path, sizeof path, "%s/%s", k->f->path, name);
    hasten_status st = hf_slurp(k->f->path, name, &text, &len, k->err);
    if (!st)
        st = json_parse(path, text, len, &pooling, k->err);
    for (size_t i = 0; i < sizeof modes / sizeof *modes && !st; i++)
        if (json_is_true(json_object_get(pooling, modes[i].mode))) {
            put_whole(k, "pooling_type", modes[i].type);
            break;
        }
    json_decref(pooling);
    mem_free(text);
    return st;
}

/* ---- the whole ---- */

static void put_general(const struct keys *k)
{
    const char *slash = strrchr(k->f->path, '/'), *name = slash && slash[1] ? slash + 1 : k->f->path;
    gguf_compose_str(k->c, "general.architecture", k->f->arch->family, strlen(k->f->arch->family));
    gguf_compose_str(k->c, "general.name", name, strlen(name));
    gguf_compose_bool(k->c, "hasten.rope_halves", true);
}

hasten_status hf_write_keys(struct hf_folder *f, struct gguf_compose *c, struct hasten_error *err)
{
    const struct keys k = {f, c, err};
    hasten_status st;
    if ((st = find_arch(&k)) || (st = check_kind(&k)))
        return st;
    put_general(&k);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if ((st = put_field(&k, f->config, &fields[i])))
            return st;
    /* transformers ties unless told otherwise in Gemma; elsewhere it does not */
    const json_t *tied = field(f->config, "tie_word_embeddings");
    f->tied = tied ? json_is_true(tied) : f->arch->style == HF_GEMMA;
    if (f->arch->style != HF_BERT && ((st = put_rope(&k)) || (st = put_window(&k)) ||
                                      (st = check_query_scale(&k)) || (st = put_experts(&k))))
        return st;
    return put_pooling(&k);
}
