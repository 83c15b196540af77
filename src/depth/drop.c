/* Static layer skip: a list of layers that nobody runs. */
#include "engine/depth.h"

struct drop_knobs {
    struct layer_set layers;
};

static const struct knob drop_table[] = {
    {"layers", KNOB_LAYERS, offsetof(struct drop_knobs, layers), 0, 0, "none", NULL, NULL,
     "layers that are left out, such as 10-13+20"},
};

static void drop_program(const void *state, const struct model_desc *d, struct layer_set *skipped)
{
    const struct drop_knobs *k = state;
    for (int32_t i = 0; i < d->n_layer; i++)
        if (layer_set_has(&k->layers, i))
            skipped->bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static hasten_status drop_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    const struct drop_knobs *k = knobs;
    for (int32_t i = 0; i < site->desc->n_layer; i++)
        if (!layer_set_has(&k->layers, i))
            return HASTEN_OK;
    return error_set(err, HASTEN_ERR_USAGE, "--depth drop:layers: all %d layers (expected one to stay)",
                     (int)site->desc->n_layer);
}

static const struct depth_ops drop_ops = {.program = drop_program};

const struct method method_drop = {
    .name = "drop",
    .title = "leaves out a list of layers",
    .paper = "the control of every pruning of layers (ShortGPT, arXiv:2403.03853, chooses the list)",
    .stage = STAGE_DEPTH,
    .guarantee = METHOD_APPROXIMATE,
    .exact_to = "the plain engine of a model without these layers",
    .role = "program",
    .knobs = drop_table,
    .n_knobs = sizeof drop_table / sizeof *drop_table,
    .knobs_bytes = sizeof(struct drop_knobs),
    .tries = "layers=8\0layers=20\0",
    .exercise = "layers=1",
    .neutral = "layers=none",
    .traits = METHOD_CHANGES_KV,
    .needs = METHOD_NEEDS_DECODER,
    .text =
        "The work of a layer is saved for every row, prompts too. The head is a large part of a small model, so layers "
        "saved are not time saved in the same measure; and a model that was not trained for it loses much with few "
        "layers. Pages of the cache are still set aside for the layers left out.",
    .check = drop_check,
    .depth = &drop_ops,
};
