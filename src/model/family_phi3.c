/* Phi 3, 3.5 and 4 (arXiv:2404.14219): as Llama with RoPE on halves, of a part of the head in some; q, k and v are the
 * rows of one matrix, gate and up of another; a window in every layer where the file has one; LongRoPE. */
#include "model/model.h"
#include <stdio.h>

/* Rows [first, first + n) of a matrix, as a matrix. */
static struct weight rows_of(const struct weight *w, int64_t first, int64_t n)
{
    struct weight r = *w;
    r.data += first * w->row_bytes;
    r.n_rows = n;
    return r;
}

static hasten_status bind_fused(const struct gguf *g, struct model_desc *m, int32_t i, const char *suffix,
                                int64_t n_rows, struct weight *out, struct hasten_error *err)
{
    char name[128];
    snprintf(name, sizeof name, "blk.%d.%s", i, suffix);
    return bind_weight(g, m, name, m->d_model, n_rows, out, err);
}

static hasten_status bind_layer(const struct gguf *g, struct model_desc *m, int32_t i,
                                struct hasten_error *err)
{
    struct layer *l = &m->layers[i];
    const int64_t dq = (int64_t)l->n_head * l->d_k, dk = (int64_t)l->n_head_kv * l->d_k,
                  dv = (int64_t)l->n_head_kv * l->d_v, da = (int64_t)l->n_head * l->d_v;
    struct weight qkv, gate_up;
    char output[64], down[64];
    hasten_status st;
    snprintf(output, sizeof output, "blk.%d.attn_output.weight", i);
    snprintf(down, sizeof down, "blk.%d.ffn_down.weight", i);
    if ((st = bind_fused(g, m, i, "attn_qkv.weight", dq + dk + dv, &qkv, err)) ||
        (st = bind_fused(g, m, i, "ffn_up.weight", 2 * (int64_t)l->d_ff, &gate_up, err)) ||
        (st = bind_weight(g, m, output, da, m->d_model, &l->wo, err)) ||
        (st = bind_weight(g, m, down, l->d_ff, m->d_model, &l->w_down, err)))
        return st;
    l->wq = rows_of(&qkv, 0, dq);
    l->wk = rows_of(&qkv, dq, dk);
    l->wv = rows_of(&qkv, dq + dk, dv);
    l->w_gate = rows_of(&gate_up, 0, l->d_ff);
    l->w_up = rows_of(&gate_up, l->d_ff, l->d_ff);
    st = bind_layer_vector(g, m, i, "attn_norm.weight", m->d_model, false, &l->attn_norm, err);
    return st ? st : bind_layer_vector(g, m, i, "ffn_norm.weight", m->d_model, false, &l->ffn_norm, err);
}

hasten_status family_phi3(const struct gguf *g, struct model_desc *m, struct hasten_error *err)
{
    hasten_status st;
    if ((st = bind_common(g, m, err)) || (st = bind_ends(g, m, err)) ||
        (st = bind_window(g, m, 0, BIND_ALL_LOCAL, err)))
        return st;
    bind_rope_neox(m);
    for (int32_t i = 0; i < m->n_layer; i++) {
        m->layers[i].attn = ATTN_GQA;
        m->layers[i].ffn = FFN_SWIGLU;
        if ((st = bind_layer(g, m, i, err)))
            return st;
    }
    return HASTEN_OK;
}
