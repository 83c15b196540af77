/* What `hasten quantize` gives to each tensor: the table of TYPEs and the rules behind it. */
#ifndef HASTEN_CLI_QUANTIZE_H
#define HASTEN_CLI_QUANTIZE_H
#include "cli/options.h"
#include "formats/gguf.h"

/* Which layers of n a rule is for. */
enum layer_choice {
    LAYERS_NONE,
    LAYERS_ALL,
    LAYERS_OUTER, /* the first and the last eighth, and every third between */
    LAYERS_FIRST_8TH,
    LAYERS_FIRST_16TH,
    LAYERS_FIRST_2,
    LAYERS_FIRST_4
};

struct layer_rule {
    uint32_t id; /* format in the layers chosen ... */
    enum layer_choice choice;
    uint32_t other; /* ... and in the others */
};

/* A TYPE. The names, their general.file_type and their mixtures follow what users of GGUF files know: values and
 * down projections, where errors hurt most, get more bits. */
struct quantize_type {
    const char *name;
    uint32_t file_type;                         /* value of general.file_type */
    uint32_t base;                              /* format of the matrices; QUANT_* */
    uint32_t ends;                              /* of token embedding and output head */
    struct layer_rule value, down, attn_output; /* choice LAYERS_NONE: base */
};

const struct quantize_type *quantize_type_find(const char *name); /* in any case; NULL: unknown */
/* "F32 F16 ..." for messages and --help. */
const char *quantize_type_names(void);
bool quantize_type_read_only(const char *name);      /* a format, in any case, that models are read in only */
const char *quantize_type_nearest(const char *name); /* NULL: none is near */

/* --tensor PATTERN=FORMAT: `*` any characters, `?` one. The last that matches counts. */
struct quantize_override {
    const char *pattern;
    size_t pattern_len;
    const struct quant_type *type;
    bool used;
};
/* HASTEN_ERR_USAGE naming what is wrong with the text. */
hasten_status quantize_override_parse(const char *text, struct quantize_override *out,
                                      struct hasten_error *err);
bool quantize_pattern_matches(const char *pattern, size_t len, const char *name);

struct quantize_rules {
    const struct quantize_type *type;
    bool pure; /* every matrix in type->base */
    int32_t n_layer;
    struct quantize_override *overrides;
    int n_overrides;
};

/* The format of a tensor. Vectors and what is no weight matrix stay or become F32 (integers stay). *wanted: the
 * format before a row length that its blocks do not divide forced a fallback; the same pointer if none. */
const struct quant_type *quantize_choose(const struct quantize_rules *r, const struct gguf_tensor *t,
                                         const struct quant_type **wanted);

#endif
