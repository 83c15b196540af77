/* How keys and values are kept, as methods: what -ctk chooses, under the names under which everything else is chosen,
 * measured and combined. Nothing is done here; the engine's settings have one field for it (method_kv_type), and pages,
 * kernels and `-ctk` read that. */
#include "engine/cache.h"

#define REPRESENTATION(id, type, guarantee_of, title_of, exact, more)                                        \
    static const struct cache_ops id##_ops = {.represents = true, .kv_type = type};                          \
    const struct method method_kv_##id = {                                                                   \
        .name = #id,                                                                                         \
        .title = title_of,                                                                                   \
        .paper = "src/kernels/attention.h and docs/decisions.md: the layouts are Hasten's",                  \
        .stage = STAGE_CACHE,                                                                                \
        .guarantee = guarantee_of,                                                                           \
        .exact_to = exact,                                                                                   \
        .role = "represent",                                                                                 \
        .tries = guarantee_of == METHOD_EXACT ? "" : NULL,                                                   \
        .traits = guarantee_of == METHOD_EXACT ? 0 : METHOD_CHANGES_KV,                                      \
        .needs = METHOD_NEEDS_DECODER,                                                                       \
        .text = more " The same as `-ctk " #id "`; `--cache` again adds a method that takes entries out.",   \
        .cache = &id##_ops,                                                                                  \
    };

REPRESENTATION(f16, HASTEN_KV_F16, METHOD_EXACT, "keeps keys and values in half precision: the plain engine",
               "the plain engine", "What the engine does by itself.")
REPRESENTATION(
    q8, HASTEN_KV_Q8, METHOD_APPROXIMATE, "keeps keys and values in 8 bits: half the bytes of f16",
    "the plain engine but for rounding: keys to 1/127 of the largest of 32 components, values of the "
    "largest of a position, queries and probabilities to 8 bits in the products",
    "A bias of keys is taken out first, and rotary pairs lie side by side (key_mean.c). The fastest at "
    "depth, as products are of bytes.")
REPRESENTATION(
    q4, HASTEN_KV_Q4, METHOD_APPROXIMATE, "keeps keys and values in 4 bits: 0.31 of the bytes of f16",
    "the plain engine but for rounding: steps of 1/7.5 of the largest of 8 components, and q8's arithmetic",
    "Five bits a component with all scales. A page is made into "
    "one of q8, exactly, as it is read: fewer bytes than q8, more work. Four bits are few: mean KL 0.11 to "
    "0.23 on models of 135 to 500 million parameters, thirty times that of q8.")
