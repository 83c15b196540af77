/* Random low-rank adapters for any GGUF model, with the keys and names that published adapters have. */
#ifndef HASTEN_TESTS_TINY_LORA_H
#define HASTEN_TESTS_TINY_LORA_H
#include "gguf_writer.h"

struct tiny_lora {
    uint64_t seed;
    int32_t rank;
    float alpha;
    const char *type; /* "F32", "F16", "Q8_0" ... whose block divides the widths and the rank */
    const char *only; /* NULL, or a part of the names of the matrices to adapt */
};

struct tiny_lora tiny_lora_default(uint64_t seed); /* rank 4, alpha 6, F32, all matrices */
/* Adapts the matrices of base that can be: attention, dense feed-forward blocks, output. NULL: out of memory, or the
 * type's block does not divide. Free with gguf_writer_free. */
struct gguf_writer *tiny_lora_writer(const struct gguf *base, const struct tiny_lora *o);
int tiny_lora_save(const char *base, const struct tiny_lora *o, const char *path); /* 0, or -1 */

#endif
