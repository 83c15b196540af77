/* make_corpus FOLDER: writes the corpus of fuzz/gguf_fuzz.c: small valid files, tiny vocabularies of the
 * three families without tensors, and every hostile case. The folder must exist. */
#include "base/file.h"
#include "cases.h"
#include "tiny_model.h"

#include <stdio.h>
#include <string.h>

static int write_file(const char *folder, const char *name, const struct buf *b)
{
    char path[1024];
    struct file *f = NULL;
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    int failed = file_open(path, FILE_WRITE_TRUNC, &f, NULL) || file_write(f, b->data, b->len, NULL);
    file_close(f);
    if (failed)
        fprintf(stderr, "make_corpus: cannot write %s\n", path);
    return failed;
}

/* One valid file with each number type, as a single value and as an array. */
static struct gguf_writer *all_types(void)
{
    static const uint8_t zeros[32];
    char key[16];
    struct gguf_writer *w = gguf_writer_new();
    for (int type = 0; w && type <= GGUF_F64; type++) {
        if (type == GGUF_STRING || type == GGUF_ARRAY)
            continue;
        snprintf(key, sizeof key, "v%d", type);
        gguf_writer_number(w, key, (enum gguf_value_type)type, type == GGUF_BOOL ? 1 : 0x3ff1c0ffee);
        snprintf(key, sizeof key, "a%d", type);
        gguf_writer_array(w, key, (enum gguf_value_type)type, zeros, 3);
    }
    return w;
}

static int write_writer(const char *folder, const char *name, struct gguf_writer *w, struct buf *b)
{
    int failed = !w || gguf_writer_build(w, NULL, 0, b) || write_file(folder, name, b);
    gguf_writer_free(w);
    return failed;
}

int main(int argc, char **argv)
{
    static const char *const families[] = {"llama", "qwen2", "gemma3"};
    struct buf b = {0};
    int failed = argc != 2;
    if (failed)
        fprintf(stderr, "use: make_corpus FOLDER\n");
    for (size_t i = 0; i < n_hostile_cases && !failed; i++) {
        char name[100];
        snprintf(name, sizeof name, "hostile-%s", hostile_cases[i].name);
        failed = case_build(&hostile_cases[i], &b) || write_file(argv[1], name, &b);
    }
    if (!failed)
        failed = write_writer(argv[1], "valid-small", case_base(), &b) ||
                 write_writer(argv[1], "valid-types", all_types(), &b) ||
                 write_writer(argv[1], "valid-empty", gguf_writer_new(), &b);
    for (size_t i = 0; i < 3 && !failed; i++) {
        struct tiny_options o;
        char name[100];
        snprintf(name, sizeof name, "valid-%s", families[i]);
        failed = tiny_options_default(families[i], 1, &o) != 0;
        o.n_vocab = 384;
        o.vocab_only = 1;
        failed = failed || write_writer(argv[1], name, tiny_model_writer(&o), &b);
    }
    buf_free(&b);
    return failed ? 1 : 0;
}
