/* make_tiny FAMILY SEED OUT [name=value ...]: writes a tiny random model (tiny_model.h has the names). */
#include "tiny_model.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct tiny_options o;
    if (argc < 4) {
        fprintf(stderr, "use: make_tiny FAMILY SEED OUT [name=value ...]\n");
        return 2;
    }
    if (tiny_options_default(argv[1], strtoull(argv[2], NULL, 10), &o)) {
        fprintf(
            stderr,
            "make_tiny: no family \"%s\"; there are llama, qwen2, qwen3, gemma2, gemma3, phi3, qwen3moe, gpt-oss\n",
            argv[1]);
        return 2;
    }
    for (int i = 4; i < argc; i++)
        if (tiny_options_set(&o, argv[i])) {
            fprintf(stderr, "make_tiny: bad option \"%s\"\n", argv[i]);
            return 2;
        }
    if (tiny_model_save(&o, argv[3])) {
        fprintf(stderr, "make_tiny: cannot write %s (type %s with rows of %d, n_vocab %d?)\n", argv[3],
                o.type, o.d_model, o.n_vocab);
        return 1;
    }
    return 0;
}
