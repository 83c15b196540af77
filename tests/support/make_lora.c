/* make_lora BASE SEED OUT [rank=N] [alpha=X] [type=F16] [only=PART]: writes a random adapter for a model. */
#include "tiny_lora.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set(struct tiny_lora *o, const char *text)
{
    if (strncmp(text, "rank=", 5) == 0)
        o->rank = atoi(text + 5);
    else if (strncmp(text, "alpha=", 6) == 0)
        o->alpha = strtof(text + 6, NULL);
    else if (strncmp(text, "type=", 5) == 0)
        o->type = text + 5;
    else if (strncmp(text, "only=", 5) == 0)
        o->only = text + 5;
    else
        return -1;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "use: make_lora BASE SEED OUT [rank=N] [alpha=X] [type=F16] [only=PART]\n");
        return 2;
    }
    struct tiny_lora o = tiny_lora_default(strtoull(argv[2], NULL, 10));
    for (int i = 4; i < argc; i++)
        if (set(&o, argv[i])) {
            fprintf(stderr, "make_lora: bad option \"%s\"\n", argv[i]);
            return 2;
        }
    if (tiny_lora_save(argv[1], &o, argv[3])) {
        fprintf(stderr, "make_lora: cannot write %s for %s\n", argv[3], argv[1]);
        return 1;
    }
    return 0;
}
