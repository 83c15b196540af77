/* Fuzz target of the pre-tokenisers: the name of a recipe and, behind a NUL, a text. The words cover the text byte for
 * byte (unless a step drops some), each not empty, and cutting takes no more steps than there are bytes. */
#include "fuzz.h"
#include "text/vocab_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text_recipe r;
    struct pretok p;
    const struct part name = next_part(&data, &size);
    if (!recipe_by_name((struct gguf_str){name.text, name.len}, &r))
        return 0;
    const char *text = (const char *)data;
    if (size == 0 || utf8_valid_run(text, size) != size) /* what is no UTF-8 is cut before */
        return 0;
    bool drops = false;
    for (int i = 0; i < r.n_split; i++)
        drops |= r.split[i].drop != DROP_NOTHING;
    size_t start = 0, end = 0, done = 0, n = 0;
    pretok_begin(&p, r.split, r.n_split, text, size);
    while (pretok_next(&p, &start, &end)) {
        check(start >= done && end > start && end <= size && (drops || start == done) && ++n <= size);
        check(((unsigned char)text[start] & 0xC0) != 0x80); /* never inside a character */
        done = end;
    }
    check(drops || done == size);
    return 0;
}
