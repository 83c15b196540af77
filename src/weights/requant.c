/* Re-quantising matrices when a model is opened. */
#include "engine/weights.h"
#include "formats/encode.h"
#include <string.h>

struct requant_knobs {
    const char *type;
    int tensors;
    struct layer_set layers;
};
enum {
    TENSORS_ALL,
    TENSORS_ATTENTION,
    TENSORS_FFN,
    TENSORS_HEAD
};

static const struct knob requant_table[] = {
    {"type", KNOB_TEXT, offsetof(struct requant_knobs, type), 0, 0, "q8_0", NULL, NULL,
     "the format: one that `hasten quantize` writes"},
    {"tensors", KNOB_CHOICE, offsetof(struct requant_knobs, tensors), 0, 0, "ffn", "all|attention|ffn|head",
     NULL, "which matrices"},
    {"layers", KNOB_LAYERS, offsetof(struct requant_knobs, layers), 0, 0, "all", NULL, NULL,
     "of which layers; the head is of none"},
};

static bool chosen(const struct requant_knobs *k, int32_t layer, enum matrix_role role)
{
    if (role == MATRIX_HEAD)
        return k->tensors == TENSORS_ALL || k->tensors == TENSORS_HEAD;
    return layer_set_has(&k->layers, layer) &&
           (k->tensors == TENSORS_ALL || (k->tensors == TENSORS_ATTENTION && role <= MATRIX_O) ||
            (k->tensors == TENSORS_FFN && role > MATRIX_O));
}

/* NULL too where rows are no whole blocks, or it is in this format already. */
static const struct quant_type *requant_becomes(const void *knobs, int32_t layer, enum matrix_role role,
                                                const struct weight *w)
{
    const struct requant_knobs *k = knobs;
    const struct quant_type *type = quant_encodable(k->type);
    return type && type != w->type && w->k % type->block == 0 && chosen(k, layer, role) ? type : NULL;
}

static hasten_status requant_make(const void *knobs, const struct weight *w, const struct quant_type *type,
                                  struct pool *pool, uint8_t *dst, struct hasten_error *err)
{
    (void)knobs;
    return weights_encode(w, type, pool, dst, err);
}

static hasten_status requant_check(const struct method_site *site, const void *knobs,
                                   struct hasten_error *err)
{
    const struct requant_knobs *k = knobs;
    (void)site;
    return quant_encodable(k->type)
               ? HASTEN_OK
               : error_set(
                     err, HASTEN_ERR_USAGE,
                     "--weights requant:type: unknown format '%s' (expected one such as q8_0, q4_k, f16)",
                     k->type);
}

static const struct weights_ops requant_ops = {.becomes = requant_becomes, .make = requant_make};

const struct method method_requant = {
    .name = "requant",
    .title = "re-quantises matrices when a model is opened",
    .paper = "round to nearest with a search of scales (formats/encode.h): the control of every format",
    .stage = STAGE_WEIGHTS,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the same file written by `hasten quantize` with these formats and no importance matrix",
    .role = "type",
    .knobs = requant_table,
    .n_knobs = sizeof requant_table / sizeof *requant_table,
    .knobs_bytes = sizeof(struct requant_knobs),
    .tries = "type=q4_0,tensors=ffn\0type=q8_0,tensors=ffn\0type=q4_0,tensors=all\0",
    .exercise = "type=q4_0,tensors=all",
    .neutral = "layers=none",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER,
    .text =
        "Matrices whose rows are no whole blocks of the format stay as they are, and so do embeddings and experts. It "
        "takes the time of a conversion at each start, and the memory of the new matrices beside the file's pages, "
        "which the system can drop. Their damage adds to that of the file's own format: the full model is the file.",
    .check = requant_check,
    .weights = &requant_ops,
};
