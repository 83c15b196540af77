/* The table of TYPEs of `hasten quantize`, and which tensor gets which format (quantize.h). */
#include "cli/quantize.h"
#include "formats/encode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define Q2 QUANT_Q2_K
#define Q3 QUANT_Q3_K
#define Q4 QUANT_Q4_K
#define Q5 QUANT_Q5_K
#define Q6 QUANT_Q6_K
#define BASE                                                                                                 \
    {                                                                                                        \
        0, LAYERS_NONE, 0                                                                                    \
    }

static const struct quantize_type types[] = {
    {"F32", 0, QUANT_F32, QUANT_F32, BASE, BASE, BASE},
    {"F16", 1, QUANT_F16, QUANT_F16, BASE, BASE, BASE},
    {"BF16", 32, QUANT_BF16, QUANT_BF16, BASE, BASE, BASE},
    {"Q8_0", 7, QUANT_Q8_0, QUANT_Q8_0, BASE, BASE, BASE},
    {"Q6_K", 18, Q6, Q6, BASE, BASE, BASE},
    {"Q5_0", 8, QUANT_Q5_0, Q6, BASE, BASE, BASE},
    {"Q5_1", 9, QUANT_Q5_1, Q6, BASE, BASE, BASE},
    {"Q5_K_S", 16, Q5, Q6, BASE, BASE, BASE},
    {"Q5_K_M", 17, Q5, Q6, {Q6, LAYERS_OUTER, Q5}, {Q6, LAYERS_OUTER, Q5}, BASE},
    {"Q4_0", 2, QUANT_Q4_0, Q6, BASE, BASE, BASE},
    {"Q4_1", 3, QUANT_Q4_1, Q6, BASE, BASE, BASE},
    {"Q4_K_S", 14, Q4, Q6, {Q5, LAYERS_FIRST_4, Q4}, {Q5, LAYERS_FIRST_8TH, Q4}, BASE},
    {"Q4_K_M", 15, Q4, Q6, {Q6, LAYERS_OUTER, Q4}, {Q6, LAYERS_OUTER, Q4}, BASE},
    {"Q3_K_S", 11, Q3, Q6, BASE, BASE, BASE},
    {"Q3_K_M", 12, Q3, Q6, {Q5, LAYERS_FIRST_2, Q4}, {Q5, LAYERS_FIRST_16TH, Q4}, {Q4, LAYERS_ALL, Q4}},
    {"Q3_K_L", 13, Q3, Q6, {Q5, LAYERS_ALL, Q5}, {Q5, LAYERS_ALL, Q5}, {Q5, LAYERS_ALL, Q5}},
    {"Q2_K", 10, Q2, Q6, {Q4, LAYERS_ALL, Q4}, {Q3, LAYERS_ALL, Q3}, {Q3, LAYERS_ALL, Q3}},
};

#define N_TYPES ((int)(sizeof types / sizeof *types))

const struct quantize_type *quantize_type_find(const char *name)
{
    static const char *const aliases[][2] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcasecmp(name, aliases[i][0]) == 0)
            name = aliases[i][1];
    for (int i = 0; i < N_TYPES; i++)
        if (strcasecmp(name, types[i].name) == 0)
            return &types[i];
    return NULL;
}

const char *quantize_type_names(void)
{
    return "F32 F16 BF16 Q8_0 Q6_K Q5_0 Q5_1 Q5_K_S Q5_K_M Q4_0 Q4_1 Q4_K_S Q4_K_M Q3_K_S Q3_K_M Q3_K_L Q2_K";
}

const char *quantize_type_nearest(const char *name)
{
    const char *names[N_TYPES + QUANT_NVFP4 + 1];
    int n = N_TYPES;
    for (int i = 0; i < N_TYPES; i++)
        names[i] = types[i].name;
    for (uint32_t id = 0; id <= QUANT_NVFP4; id++) /* whoever is nearer to one of these did not mean ours */
        if (quant_type_get(id) && !quant_encodable(quant_type_get(id)->name))
            names[n++] = quant_type_get(id)->name;
    const char *near = nearest_word(name, names, n);
    return near && quantize_type_find(near) ? near : NULL;
}

bool quantize_type_read_only(const char *name)
{
    for (uint32_t id = 0; id <= QUANT_NVFP4; id++) {
        const struct quant_type *t = quant_type_get(id);
        if (t && t->decode && !quant_encodable(t->name) && strcasecmp(t->name, name) == 0)
            return true;
    }
    return false;
}

/* ---- overrides ----------------------------------------------------------------------------------------------- */

hasten_status quantize_override_parse(const char *text, struct quantize_override *out,
                                      struct hasten_error *err)
{
    const char *eq = strrchr(text, '=');
    if (!eq || eq == text)
        return error_set(err, HASTEN_ERR_USAGE,
                         "option --tensor: '%.200s': no pattern and format (expected PATTERN=FORMAT)", text);
    *out = (struct quantize_override){.pattern = text, .pattern_len = (size_t)(eq - text)};
    out->type = quant_encodable(eq + 1);
    if (!out->type)
        return error_set(
            err, HASTEN_ERR_USAGE,
            "option --tensor: '%.200s': unknown format '%.32s' (expected F32 F16 BF16 Q8_0 Q6_K Q5_K Q5_0 Q5_1 "
            "Q4_K Q4_0 Q4_1 Q3_K or Q2_K)",
            text, eq + 1);
    return HASTEN_OK;
}

/* Greedy with one point of return: linear in name times pattern, no recursion. */
bool quantize_pattern_matches(const char *pattern, size_t len, const char *name)
{
    size_t p = 0, star = len, back = 0, n = 0;
    while (name[n]) {
        if (p < len && pattern[p] == '*') {
            star = p++;
            back = n;
        } else if (p < len && (pattern[p] == '?' || pattern[p] == name[n])) {
            p++;
            n++;
        } else if (star < len) {
            p = star + 1;
            n = ++back;
        } else {
            return false;
        }
    }
    while (p < len && pattern[p] == '*')
        p++;
    return p == len;
}

/* ---- the choice ------------------------------------------------------------------------------------------------ */

static bool layer_chosen(enum layer_choice choice, int32_t i, int32_t n)
{
    switch (choice) {
    case LAYERS_ALL:
        return true;
    case LAYERS_OUTER:
        return i < n / 8 || i >= n - n / 8 || (i - n / 8) % 3 == 2;
    case LAYERS_FIRST_8TH:
        return i < n / 8;
    case LAYERS_FIRST_16TH:
        return i < n / 16;
    case LAYERS_FIRST_2:
        return i < 2;
    case LAYERS_FIRST_4:
        return i < 4;
    case LAYERS_NONE:
        break;
    }
    return false;
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static uint32_t rule_format(const struct layer_rule *rule, const struct quantize_rules *r, const char *name)
{
    int layer = 0;
    if (rule->choice == LAYERS_NONE)
        return r->type->base;
    if (sscanf(name, "blk.%9d.", &layer) != 1)
        return rule->other;
    return layer_chosen(rule->choice, layer, r->n_layer) ? rule->id : rule->other;
}

/* By the names that GGUF files give to tensors. */
static uint32_t matrix_format(const struct quantize_rules *r, const char *name)
{
    if (r->pure)
        return r->type->base;
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "output.weight") == 0)
        return r->type->ends;
    if (ends_with(name, "attn_v.weight"))
        return rule_format(&r->type->value, r, name);
    if (ends_with(name, "ffn_down.weight") || ends_with(name, "ffn_down_exps.weight"))
        return rule_format(&r->type->down, r, name);
    if (ends_with(name, "attn_output.weight"))
        return rule_format(&r->type->attn_output, r, name);
    return r->type->base;
}

static uint32_t fallback_of(uint32_t id)
{
    switch (id) {
    case QUANT_Q2_K:
    case QUANT_Q3_K:
        return QUANT_Q4_0;
    case QUANT_Q4_K:
        return QUANT_Q5_0;
    case QUANT_Q5_K:
        return QUANT_Q5_1;
    case QUANT_Q6_K:
        return QUANT_Q8_0;
    default:
        return QUANT_F16;
    }
}

/* Weight matrices; not vectors, nor the router of experts, which is small and decides much. */
static bool is_matrix(const struct gguf_tensor *t)
{
    return t->n_dims >= 2 && ends_with(t->name, ".weight") && !strstr(t->name, "ffn_gate_inp") &&
           !strstr(t->name, "_norm.");
}

const struct quant_type *quantize_choose(const struct quantize_rules *r, const struct gguf_tensor *t,
                                         const struct quant_type **wanted)
{
    const struct quant_type *type = quant_type_get(QUANT_F32);
    if (is_matrix(t)) {
        type = quant_type_get(matrix_format(r, t->name));
        for (int i = 0; i < r->n_overrides; i++)
            if (quantize_pattern_matches(r->overrides[i].pattern, r->overrides[i].pattern_len, t->name)) {
                type = r->overrides[i].type;
                r->overrides[i].used = true;
            }
    } else if (!t->type->decode) {
        type = t->type;
    }
    *wanted = type;
    while (t->ne[0] % type->block)
        type = quant_type_get(fallback_of(type->id));
    return type;
}
