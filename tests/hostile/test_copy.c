/* A model read into memory (hasten_model_settings.copy) outlives its file: cut to nothing while the model is in use, it
 * gives the same bits. (What happens to a map: test_cut.py.) */
#include "harness.h"
#include "tiny_model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char path[] = "/tmp/hasten-copy-XXXXXX";
    const struct run_spec spec = {.n_threads = 2, .chunk = 7, .n_batch = 16, .in_place = true};
    struct tiny_options o;
    struct hasten_model *m = NULL;
    struct hasten_error err = {0};
    int32_t tokens[40];
    const int fd = mkstemp(path);
    if (fd < 0 || close(fd) || tiny_options_default("qwen2", 4, &o) || tiny_model_save(&o, path)) {
        fprintf(stderr, "FAILED: no model could be made\n");
        return 1;
    }
    die_unless_ok(hasten_model_open_with(path, &(struct hasten_model_settings){.copy = true}, &m, &err), &err,
                  "opening a copy");
    const int32_t n_vocab = hasten_model_n_vocab(m);
    random_tokens(3, n_vocab, tokens, 40);
    float *before = run_logits(m, &spec, tokens, 40);
    if (truncate(path, 0)) {
        fprintf(stderr, "FAILED: the file could not be cut\n");
        return 1;
    }
    float *after = run_logits(m, &spec, tokens, 40);
    const int32_t at = first_difference(before, after, 40, n_vocab);
    printf("40 tokens before and after the file was cut: %s\n",
           at < 0 ? "the same bits" : "FAILED: they differ");
    free(before);
    free(after);
    hasten_model_close(m);
    unlink(path);
    return at < 0 ? 0 : 1;
}
