/* What a model is, once its file has been read: hyper-parameters and one array of layer descriptions that the
 * forward pass walks. A family (family_*.c) maps a file's names to them; nothing after it knows names.
 *
 * All matrices point into the mapped file. Vectors (norms, biases) are decoded once into memory owned by the
 * model, but for stacks of them (experts) that the file holds as F32. Immutable after model_map; shared by all engines. */
#ifndef HASTEN_MODEL_MODEL_H
#define HASTEN_MODEL_MODEL_H
#include "base/error.h"
#include "formats/gguf.h"
#include "kernels/kernels.h"
#include "text/vocab.h"

/* The kinds of attention and feed-forward that layers may have. A new kind joins here and gets one function in
 * engine/forward.c; families only choose among them. To come, each at the place where a layer or a pass differs:
 *     attention     mla (latent keys and values), gdn, kda (recurrent state of delta rules), parallax (two sets of
 *                   accumulators)
 *     layers        looped (one block at several depths: kv_slot is not the layer's index by right)
 *     the pass      diffusion (rows that see each other both ways, tokens filled in any order)
 * Until then the table `to_come` of model.c refuses their architectures by what they lack. */
enum attn_kind {
    ATTN_GQA,
    ATTN_ALL /* encoders: as GQA, but a position sees all of its item */
};
enum ffn_kind {
    FFN_SWIGLU,
    FFN_GEGLU,
    FFN_GELU, /* encoders: w_down gelu(w_up x + b_up) + b_down, no gate */
    FFN_MOE   /* struct moe */
};

/* What an expert does with gate and up. */
enum expert_act {
    EXPERT_SWIGLU,
    EXPERT_SWIGLU_CLAMPED /* gpt-oss: min(g, limit) sigmoid(alpha g) (clamp(u, -limit, limit) + 1) */
};

/* A mixture of experts (Shazeer et al., arXiv:1701.06538): a row goes through the n_used experts with the largest
 * router logits (of equal ones the lower id), and the sum of their outputs is weighted by the softmax of these
 * logits, over the chosen experts (Mixtral, arXiv:2401.04088) or over all of them. */
struct moe {
    int32_t n_expert, n_used;
    bool over_all; /* the softmax */
    enum expert_act act;
    struct weight router;             /* [n_expert × d] */
    const float *router_bias;         /* [n_expert] */
    struct weight *gate, *up, *down;  /* [n_expert] each, of one type; in model_desc.experts */
    const float *gate_bias, *up_bias; /* [n_expert × d_ff] */
    const float *down_bias;           /* [n_expert × d] */
};

#define EXPERT_ALPHA 1.702f /* gpt-oss */
#define EXPERT_LIMIT 7.0f

/* A rotation of positions (rope.c): n_rot / 2 frequencies, and what multiplies their cosines and sines. */
struct rope_spec {
    float theta;          /* base */
    float linear_scale;   /* frequencies are divided by it; 1: none */
    int32_t n_rot;        /* values rotated per head, even */
    bool neox;            /* pairs (i, i + n_rot/2), else (2i, 2i+1) */
    const float *factors; /* [n_rot / 2] each frequency is divided by its own; NULL: none */
    bool yarn;            /* linear_scale holds above pair yarn_high, not below yarn_low, in parts between */
    float yarn_low, yarn_high;
    float magnitude; /* of cosines and sines; scores grow by its square; 1: none */
    int32_t
        beyond; /* index of the spec that takes this one's place in sequences longer than rope_switch; or 0 */
};

/* One transformer block: x += post(attn(norm(x))); x += post(ffn(norm(x))). Absent parts are NULL. */
struct layer {
    enum attn_kind attn;
    int32_t n_head, n_head_kv, d_k, d_v;
    int32_t window;  /* positions a query sees, itself included; 0: all */
    int32_t rope;    /* index into model_desc.ropes */
    int32_t kv_slot; /* where its keys and values live; not the layer's index by right */
    float q_scale;   /* multiplies q before q.k */
    float softcap;   /* of attention scores; 0: none */
    struct weight wq, wk, wv,
        wo; /* [n_head*d_k × d], [n_head_kv*d_k × d], [n_head_kv*d_v × d], [d × n_head*d_v] */
    const float *bq, *bk, *bv, *bo;          /* biases, [rows of the matrix] */
    const float *attn_norm, *attn_post_norm; /* [d] */
    const float *q_norm, *k_norm;            /* [d_k], per head */
    const float *sinks; /* [n_head] a logit of each head that joins the softmax without a value */

    enum ffn_kind ffn;
    int32_t d_ff;
    struct weight w_gate, w_up, w_down;    /* [d_ff × d], [d_ff × d], [d × d_ff] */
    const float *b_gate, *b_up, *b_down;   /* biases */
    const float *ffn_norm, *ffn_post_norm; /* [d] */
    const float *attn_post_bias,
        *ffn_post_bias; /* encoders: the post norms are layer norms, of x + block(x) */
    struct moe moe;     /* FFN_MOE: then w_gate, w_up, w_down are empty and d_ff is an expert's */
};

#define LAYER_MATRICES 8
/* The matrices of a layer that every pass reads, whole: all but the experts. Returns their number. */
int32_t layer_matrices(const struct layer *l, const struct weight *out[LAYER_MATRICES]);

#define MODEL_MAX_ROPES 2

struct model_desc {
    const char *arch; /* "llama" */
    int32_t n_layer, d_model, n_vocab, n_ctx_train, n_kv_slots;
    float norm_eps;
    float embd_scale; /* multiplies token embeddings; 1: none */
    struct rope_spec ropes[MODEL_MAX_ROPES];
    int32_t n_ropes;
    int32_t rope_switch;    /* LongRoPE: sequences longer than this rotate by ropes[.].beyond; 0: none does */
    float logit_softcap;    /* of the final logits; 0: none */
    struct layer *layers;   /* [n_layer], owned */
    struct weight *experts; /* what the layers' struct moe point into, owned; NULL: no experts */
    struct weight token_embd; /* [n_vocab × d] */
    struct weight output;     /* the head; equals token_embd when tied; empty in encoders */
    const float *output_norm; /* [d] */
    bool encoder; /* engine/encode.c: no logits, no KV kept; position_embd .. embd_norm_bias are there */
    struct weight position_embd, token_types; /* [n_ctx_train × d], [types × d] */
    const float *embd_norm, *embd_norm_bias;  /* [d] */
    float **decoded;                          /* owned vectors */
    int32_t n_decoded, cap_decoded;
    uint8_t *claimed;     /* [tensors of the file] 1 for each that a binder took; only while mapping */
    uint8_t *read_keys;   /* [keys of the file] the same for keys */
    uint64_t owned_bytes; /* memory behind layers and decoded */
};

/* Reads hyper-parameters and tensors of g through its family. A tensor that the family has no use for is an error,
 * because ignoring it would give wrong answers without a word. HASTEN_ERR_UNSUPPORTED for an unknown
 * architecture (the message lists the supported ones) or tensor type, HASTEN_ERR_FILE for missing tensors,
 * wrong shapes and values out of range. g must outlive the description. */
hasten_status model_map(const struct gguf *g, struct model_desc *out, struct hasten_error *err);
void model_unmap(struct model_desc *m);

/* "llama, qwen2, ..." */
const char *model_families(void);

/* A family: fills what differs. m has been zeroed and has arch set. */
typedef hasten_status (*family_fn)(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_llama(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_qwen2(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_qwen3(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_gemma2(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_qwen3moe(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_gpt_oss(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_bert(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_gemma3(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
hasten_status family_phi3(const struct gguf *g, struct model_desc *m, struct hasten_error *err);

/* ---- for families: reading with checks (bind.c) ---- */

/* Keys "<arch>.<name>". The value must lie in [lo, hi]. has_default: used when the key is missing. */
hasten_status bind_i32(const struct gguf *g, const struct model_desc *m, const char *name, int32_t lo,
                       int32_t hi, const int32_t *default_value, int32_t *out, struct hasten_error *err);
hasten_status bind_f32(const struct gguf *g, const struct model_desc *m, const char *name, float lo, float hi,
                       const float *default_value, float *out, struct hasten_error *err);

/* Tensor "name" as a matrix [n_rows × k]; the shape must match exactly, the type must have kernels. */
hasten_status bind_weight(const struct gguf *g, struct model_desc *m, const char *name, int64_t k,
                          int64_t n_rows, struct weight *out, struct hasten_error *err);
/* Tensor "name" as n floats; NULL in *out when it is missing and optional. */
hasten_status bind_vector(const struct gguf *g, struct model_desc *m, const char *name, int64_t n,
                          bool optional, const float **out, struct hasten_error *err);

/* The same for n_vectors of them, [n_vectors × n]. */
hasten_status bind_vectors(const struct gguf *g, struct model_desc *m, const char *name, int64_t n,
                           int32_t n_vectors, bool optional, const float **out, struct hasten_error *err);

/* Memory for n floats that lives as long as the model. */
hasten_status bind_own_vector(const struct gguf *g, struct model_desc *m, int64_t n, float **out,
                              struct hasten_error *err);

/* What all decoder families share: layers, widths, heads, context, norm epsilon, ropes[0] and its scaling (LongRoPE:
 * ropes[1] too), the scale of queries; allocates m->layers with the heads and widths filled in. */
hasten_status bind_common(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
/* Token embedding, output norm, head (tied to the embedding when "output.weight" is missing). */
hasten_status bind_ends(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
/* The matrices of layer i: q, k, v, o, gate, up, down, and the two norms before attention and feed-forward. */
hasten_status bind_block(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err);
/* The same in two parts: attention with its norm; gate, up and down of a dense feed-forward block. */
hasten_status bind_attention(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err);
hasten_status bind_gated(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err);
/* A matrix of one tensor among several: tensor "name", [n × n_rows × k] with n > 1, as n weights. */
hasten_status bind_stack(const struct gguf *g, struct model_desc *m, const char *name, int64_t k,
                         int64_t n_rows, int32_t n, struct weight *out, struct hasten_error *err);
/* bind_moe.c. "expert_count" and "expert_used_count" of a family that may have experts; 0 when it has none. Sets
 * kind, numbers and d_ff (of "expert_feed_forward_length" where the file has it) of every layer. */
hasten_status bind_experts(const struct gguf *g, struct model_desc *m, int32_t *n_expert,
                           struct hasten_error *err);
/* Router and experts of layer i, with whatever biases the file has: stacked tensors, or one for each expert. */
hasten_status bind_moe(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err);
/* Tensor "blk.<i>.<suffix>" as a vector. */
hasten_status bind_layer_vector(const struct gguf *g, struct model_desc *m, int32_t i, const char *suffix,
                                int64_t n, bool optional, const float **out, struct hasten_error *err);

/* All biases that the matrices of layer i have: q, k, v, o, gate, up, down. */
hasten_status bind_biases(const struct gguf *g, struct model_desc *m, int32_t i, struct hasten_error *err);
/* Sets layers[.].window: "attention.sliding_window" (default_window when missing; 0: none) in the layers that are
 * local: of every `period` layers all but the last ("attention.sliding_window_pattern" overrides it, as a number or
 * as an array of one boolean a layer). */
#define BIND_ALL_LOCAL 0 /* as a period */
hasten_status bind_window(const struct gguf *g, struct model_desc *m, int32_t default_window, int32_t period,
                          struct hasten_error *err);
/* Queries of all layers times 1 / sqrt(n), or "attention.scale" where the file has it. */
hasten_status bind_q_scale(const struct gguf *g, struct model_desc *m, int32_t n, struct hasten_error *err);

/* ---- rope.c ---- */

/* The scaling of ropes[0] as the file says; called by bind_common. */
hasten_status bind_rope_scaling(const struct gguf *g, struct model_desc *m, struct hasten_error *err);
/* All ropes rotate pairs half a head apart. */
void bind_rope_neox(struct model_desc *m);
/* The same base without any scaling. */
void rope_unscaled(struct rope_spec *s);
/* [n_rot / 2] radians a position. */
void rope_frequencies(const struct rope_spec *s, double *out);

#endif
