/* The inside of an engine: what hasten.h's calls share. Everything here is allocated by engine.c at the start,
 * sized by plan.c; nothing is allocated while tokens flow. */
#ifndef HASTEN_ENGINE_ENGINE_H
#define HASTEN_ENGINE_ENGINE_H
#include "base/pool.h"
#include "engine/kv.h"
#include "engine/method_set.h"
#include "engine/profile.h"
#include "engine/tap.h"
#include "model/loaded.h"

#define ATTN_SPAN 1024     /* positions folded into one partial result; aligned at 0 */
#define ATTN_BLOCK_ROWS 16 /* rows of a sequence that share the reading of a tile */
#define ATTN_SPLIT_ROWS 16 /* most rows of a pass whose attention is split by spans */
#define ENGINE_MAX_LOGITS 64

/* Positions that a step computes of a sequence, all rotated alike. */
struct stretch {
    int32_t from, to;
    bool beyond;
};

struct hasten_seq {
    struct hasten_engine *engine;
    bool open;
    int32_t length;
    int32_t *tokens; /* [n_ctx] negative: the tag of soft input */
    struct kv_seq kv;
    /* LongRoPE rotates by one list of frequencies in sequences up to model_desc.rope_switch positions, by another in
     * longer ones. What the pages hold: the first n_kv positions (all but after a cancelled step), rotated by
     * ropes[.].beyond or not; pages of the wrong kind are computed again from the tokens (step.c). */
    int32_t n_kv;
    bool beyond;
    int32_t n_prompt; /* announced; -1: not */
    int32_t n_lead;   /* positions from the first on that were computed as an announced prompt's */
    int32_t next_act; /* length at which a method of the stage cache acts next; INT32_MAX: none */
    /* of the step in progress */
    struct stretch todo[2];
    int32_t n_todo, old_length, wanted_from, reached;
    const float *embd;    /* of the item (hasten_item): rows from position old_length on */
    const uint64_t *mask; /* the same */
};

/* Whether a position of s holds soft input: nothing can compute it again, and its tag is a hash of 31 bits, too few for
 * what outlives a process or is shared beyond one. */
static inline bool seq_is_soft(const struct hasten_seq *s)
{
    for (int32_t i = 0; i < s->length; i++)
        if (s->tokens[i] < 0)
            return true;
    return false;
}

/* A run of rows of one sequence within a pass, at most ATTN_BLOCK_ROWS of them: the unit of attention. */
struct row_block {
    const struct hasten_seq *seq;
    int32_t first_row, n_rows, first_pos;
    int32_t
        whole; /* encoders: positions of the item, all of which its rows see; 0: a row sees those up to its own */
};

/* One forward pass over n_rows rows. */
struct pass {
    int32_t n_rows;
    int32_t *token, *pos;          /* [n_batch] */
    const struct hasten_seq **seq; /* [n_batch] */
    struct row_block *blocks;      /* [n_batch] */
    int32_t n_blocks;
    struct hasten_logits_row *head; /* [n_batch] rows whose logits are wanted, as the sink sees them */
    int32_t *head_row;              /* [n_batch] the same rows, as indices into the pass */
    int32_t n_head;
};

/* The rows of a pass at the experts of a layer (moe.c). An entry is a row at one of its experts; entries lie grouped
 * by expert, in a group by row. n_entries = n_batch × the most experts a row uses. */
struct moe_buffers {
    float *router;         /* [n_batch × n_expert] logits */
    int32_t *expert;       /* [n_entries] of each row its experts, ascending */
    float *weight;         /* [n_entries] their weights */
    int32_t *entry;        /* [n_entries] where they went: an index into what follows */
    int32_t *row;          /* [n_entries] of each entry */
    int32_t *next;         /* [n_expert] while grouping */
    int32_t *group_expert; /* [n_expert] of each group */
    int32_t *group_first;  /* [n_expert + 1] its first entry */
    uint8_t *act[3];       /* input in each form, by entry */
    float *gate, *up;      /* [n_entries × d_ff] */
    uint8_t *hidden;       /* input of the experts' last matrices in its form */
    float *out;            /* [n_entries × d] */
};

/* Activations of a pass, [n_batch rows] each, and what workers scribble on. */
struct buffers {
    float *x;         /* residual stream [d] */
    float *norm;      /* normed input of a group of matrices [d] */
    float *q, *k, *v; /* [n_head*d_k], [n_head_kv*d_k], [n_head_kv*d_v] */
    float *att;       /* output of attention [n_head*d_v] */
    float *gate, *up; /* [d_ff] */
    float *out;       /* output of a block's last matrix [d] */
    float *cos, *sin; /* [n_ropes][rows][n_rot/2] */
    double *inv_freq; /* [n_ropes][n_rot/2] */
    float *key_mean;  /* [n_layer × widths.k], negative (key_mean.c); NULL: not used */
    uint8_t *act[3];  /* activations in each form of enum act_form */
    uint8_t *hidden;  /* input of w_down in its form, made by linear_gated */
    struct moe_buffers moe;
    float *logits;    /* [n_logits × n_vocab] */
    int32_t *panels;  /* [n_vocab / 16, rounded up] of the head, that are to be multiplied (head.c) */
    uint8_t *partial; /* attention split by spans: partial results; NULL: never split */
    uint8_t *scratch; /* [n_threads × scratch_bytes] */
    size_t scratch_bytes;
};

/* Widths over all layers, from which buffers are sized. */
struct widths {
    int64_t d, q, k, v, att, ff, rot; /* floats a row */
    size_t act_row[3];                /* bytes a row of each form */
    size_t hidden_row;                /* bytes a row of the input of w_down */
    size_t matmul_scratch, attn_scratch;
    int64_t n_expert, n_used, expert_ff; /* experts of a layer, of a row; floats a row; 0: none */
    size_t expert_act_row[3], expert_hidden_row;
};

/* Which chunks of the files may be present (expert_memory.c). */
struct expert_memory {
    uint8_t *states; /* [chunks of all parts], owned; NULL: no limit */
    int64_t n_present, n_most;
};

/* Which weights are packed, in the order in which that happens (packing.c). */
struct packing_item {
    struct weight *w; /* in layers or output; w->packed is set when it is complete */
    size_t at;        /* where it goes in memory */
};
struct packing {
    struct packing_item *item; /* [n] */
    int32_t n, next;           /* items before next are done; of item next, the panels before `panel` */
    int64_t panel;
    uint8_t *memory; /* [bytes], or NULL: weights stay in place */
    size_t bytes;
};
#define PACKING_PIECE_BYTES ((size_t)8 << 20) /* packed at once, before the source is forgotten */

/* Low-rank adapters (overlay.h). */
struct overlay;
struct overlays {
    struct overlay *item; /* [n] owned, ascending by address of the matrix */
    int32_t n;
    uint8_t *memory; /* [bytes] owned: what follows, and the matrices */
    size_t bytes, scratch_bytes;
    uint8_t *x, *low_act; /* [n_batch] input rows and rows of A x, in the kernels' form */
    float *low;           /* [n_batch × rank] */
    uint8_t *scratch;     /* [n_threads × scratch_bytes] */
};

struct hasten_engine {
    const struct hasten_model *model;
    struct layer *layers;             /* [n_layer] the model's, their weights perhaps packed */
    struct weight output, token_embd; /* the same */
    struct packing packing;
    struct overlays overlays;
    struct hasten_engine_settings settings; /* with defaults filled in */
    const struct kernels *kernels;
    struct pool *pool;
    struct kv_pool kv;
    struct hasten_seq *seqs;          /* [n_seq_max] */
    int32_t *seq_tokens, *seq_tables; /* backing memory of all sequences */
    int32_t *seq_entries; /* the same of kv_seq.removed and .positions; NULL: no method of the stage cache */
    struct widths widths;
    struct buffers buf;
    uint8_t *arena; /* backing memory of buf and pass */
    size_t arena_bytes;
    struct pass pass;
    struct hasten_counters counters;
    struct engine_profile *profile; /* NULL: not recorded */
    struct expert_memory experts;   /* under a memory limit */
    struct taps taps;               /* who watches (tap.h) */
    struct method_set methods;
    char *identity;      /* identity.h; NULL until somebody asks */
    struct store *store; /* store.h: gives pages back when they run out; NULL: nobody keeps any */
};

/* A part of the scratch; from a NULL scratch only offsets come out. */
static inline void *carve(uintptr_t *at, size_t bytes)
{
    void *r = (void *)*at;
    *at += (bytes + 63) & ~(uintptr_t)63;
    return r;
}

static inline void widen(int64_t *to, int64_t v)
{
    *to = v > *to ? v : *to;
}

static inline void widen_size(size_t *to, size_t v)
{
    *to = v > *to ? v : *to;
}

/* Fills the defaults, checks ranges (HASTEN_ERR_USAGE naming the field). */
hasten_status engine_settle(const struct hasten_model *m, struct hasten_engine_settings *s,
                            struct hasten_error *err);
void engine_widths(const struct hasten_model *m, const struct kernels *k, enum kv_rep rep,
                   struct widths *out);
/* Widens what a product by w needs: rows of its input in its form, scratch. */
void widen_matrix(const struct kernels *k, const struct weight *w, struct widths *out);
/* Lays buf and pass out in arena (NULL: only measures); returns the bytes. */
size_t engine_layout(const struct hasten_model *m, const struct hasten_engine_settings *s,
                     const struct widths *w, uint8_t *arena, struct buffers *buf, struct pass *pass);
const struct kernels *engine_kernels(const struct hasten_engine_settings *s);
enum kv_rep engine_kv_rep(const struct hasten_engine_settings *s);
/* Writes the KV lanes of a model; returns their number (lanes may be NULL). */
int32_t engine_lanes(const struct model_desc *d, struct kv_lane *lanes);
/* Bytes of kv_seq.removed and .positions of a sequence. */
size_t entries_bytes(const struct hasten_engine_settings *s, int32_t n_lanes);
int64_t engine_kv_pages(const struct hasten_engine_settings *s);

/* What packing adds to the memory of an engine beside the file (padding and a piece), and the bytes packed in all. */
uint64_t packing_plan(const struct hasten_model *m, const struct hasten_engine_settings *s, uint64_t *bytes);
/* e->layers and e->output; memory for packed weights when they are wanted and the machine has room. */
hasten_status packing_open(struct hasten_engine *e, struct hasten_error *err);
void packing_close(struct hasten_engine *e);
/* Packs a part of the weights before a pass of n_rows rows, none before the first; or all that is left. */
void packing_advance(struct hasten_engine *e, int32_t n_rows);
void packing_finish(struct hasten_engine *e);

/* The forward pass over e->pass: x = residual stream after the last layer. Cancelled between layers. */
hasten_status forward_pass(struct hasten_engine *e, const volatile int *cancel, struct hasten_error *err);
/* The same for encoders (encode.c): items are whole in the pass. */
hasten_status encode_pass(struct hasten_engine *e, const volatile int *cancel, struct hasten_error *err);
/* KV pages that must be free for an item, whose logits have a sink; those of several items add up. */
int64_t step_need(struct hasten_engine *e, const struct hasten_item *it);
/* hasten_step without its logits: after is called behind each pass, until it returns false. */
typedef bool (*pass_fn)(struct hasten_engine *e, void *ctx);
hasten_status engine_run(struct hasten_engine *e, const struct hasten_item *items, int32_t n_items,
                         pass_fn after, void *ctx, const volatile int *cancel, struct hasten_error *err);
/* head.c: logits of pass rows e->pass.head_row[first .. first + n) into e->buf.logits. */
void forward_head(struct hasten_engine *e, int32_t first, int32_t n);

/* The same of n rows of the pass, as they are in buf.x now, n <= n_logits; of all tokens that the head has. */
void forward_logits(struct hasten_engine *e, const int32_t *rows, int32_t n);

/* scripted.c: the same for a scripted model. */
hasten_status scripted_pass(struct hasten_engine *e, const volatile int *cancel, struct hasten_error *err);
void scripted_head(struct hasten_engine *e, int32_t first, int32_t n);

/* Row `row` of the pass: its keys k [n_head_kv × d_k] and values v [n_head_kv × d_v] of a layer into its sequence's
 * pages, whose lanes begin with first_lane. */
void store_kv(struct hasten_engine *e, const struct layer *l, int32_t first_lane, int64_t row, const float *k,
              const float *v);
/* Rows of the pass that a claim takes which calls store_kv: positions of a transposed key share a cache line, which two
 * workers should not write. */
int64_t store_kv_claim(int32_t n_rows);

/* Attention of one layer over the pass: q, and the pages of each row's sequence, into buf.att. selected: rows read what
 * e->methods.attending says. */
void attention_layer(struct hasten_engine *e, const struct layer *l, int32_t first_lane, bool selected);
/* What is taken from keys in bf16 and q8 (key_mean.c): whether any layer of a model does; fills buf.key_mean, with
 * inv_freq and the pool set up; what is to be added to a row of a layer's keys [n_head_kv × d_k], or NULL. */
bool key_mean_used(enum kv_rep rep, const struct model_desc *d);
void key_mean_fill(struct hasten_engine *e);
const float *key_mean_of(const struct hasten_engine *e, const struct layer *l);
/* Whether a layer's queries and keys are reordered (i, i + d_k / 2) -> (2i, 2i + 1); does that to n_head heads. */
bool key_pairs_adjacent(const struct hasten_engine *e, const struct layer *l);
void key_make_pairs_adjacent(int64_t n_head, int64_t d_k, float *x, float *scratch);
/* Memory for partial results of a layer (0: its attention is never split); scratch of one worker. */
size_t attention_partial_bytes(const struct hasten_engine_settings *s, const struct layer *l);
size_t attention_scratch_bytes(const struct kernels *k, enum kv_rep rep, const struct layer *l);

/* y = W x for several matrices that share their input rows x [n × k] (input group), each y [n × n_rows]. */
struct linear {
    const struct weight *w;
    float *y;
};
/* norm_w: NULL, or rms-norm x by it first (into buf.norm). */
struct linear_input {
    const float *x;
    int64_t k;
    const float *norm_w;
};
void linear_group(struct hasten_engine *e, const struct linear_input *in, int32_t n, const struct linear *lin,
                  int32_t n_lin);
/* matmul, and w's scale where it has one: what every product of a model's matrix goes through. */
void weight_multiply(const struct kernels *kn, const struct weight *w, const struct act *a, int64_t row0,
                     int64_t row1, float *y, int64_t ldy, void *scratch);
/* The panels that a claim of a product takes: at least whole groups of CLAIM_PANELS and about 4 µs of work, of which
 * one group is `macs`; at most what n rows of results can be staged of. */
#define CLAIM_PANELS 2 /* panels that matmul is fastest with, together */
int64_t claim_least(int64_t macs);
int64_t claim_most(int64_t n);
/* A hint before a product: the matrices of the group after it (two, three: or NULL). The worker brings what it will
 * need of them nearer while it waits for the caller between the two. */
void linear_next(struct hasten_engine *e, const struct weight *one, const struct weight *two,
                 const struct weight *three);
/* The first half of linear_group: norm and quantisation of the input. */
void linear_prepare(struct hasten_engine *e, const struct linear_input *in, int32_t n,
                    const struct linear *lin, int32_t n_lin);

/* The second half: multiplies what linear_prepare made of the input. */
void linear_multiply(struct hasten_engine *e, int64_t k, int32_t n, const struct linear *lin, int32_t n_lin);

/* moe.c: the feed-forward block of a layer with experts, of the residual stream, into buf.out; its part of the plan. */
void moe_block(struct hasten_engine *e, const struct layer *l);
void moe_widths(const struct kernels *k, const struct layer *l, struct widths *w);

/* expert_memory.c: what of a model's files is experts only, and how much of it must be able to be present at once for
 * a pass of n_batch rows to run; bytes. */
struct expert_plan {
    uint64_t all, least;
};
hasten_status experts_plan(const struct hasten_model *m, int32_t n_batch, struct expert_plan *out,
                           struct hasten_error *err);
/* From now on at most so many of these bytes are present; what the experts of a layer's groups need is made room for
 * before they are read. */
hasten_status experts_limit(struct hasten_engine *e, uint64_t bytes, struct hasten_error *err);
void experts_make_room(struct hasten_engine *e, const struct layer *l, int32_t n_groups);

/* gated.c: gate, up and activation of a layer into buf.hidden, for passes of so many rows that gated_pays; books
 * no lap after ENGINE_OP_PREPARE. linear_hidden multiplies buf.hidden by w_down. */
bool gated_pays(const struct hasten_engine *e, int32_t n);
void linear_gated(struct hasten_engine *e, const struct linear_input *in, int32_t n, const struct layer *l);
void linear_hidden(struct hasten_engine *e, const struct weight *w, int32_t n, float *y);
size_t gated_scratch_bytes(void); /* of a worker, beside matmul's own */
/* gate = activation(gate) * up */
void engine_activate(const struct kernels *kn, enum ffn_kind kind, float *gate, const float *up, int64_t n);

#endif
