/* make_corpus FOLDER: writes the corpus of fuzz/tokenizer_fuzz.c: tiny vocabularies, whole with many texts, and
 * one file for every fault, and some that let an allocation fail. */
#include "text_support.h"

#include <stdio.h>
#include <string.h>

struct entry {
    const char *name;
    unsigned mode;
    const char *text;
    size_t len;
};

#define TEXT(s) s, sizeof(s) - 1

static const struct entry texts[] = {
    {"words", 0, TEXT("It's what we've got, isn't it? The river runs past the old mill; I'LL GO 1984.")},
    {"special", 2, TEXT("<|im_start|>user\nhi<|im_end|>\n<bos>x<eos><|im_star")},
    {"plain", 9, TEXT("<|im_start|>user\nhi<|im_end|> <0x0A>\n\n\n the end")},
    {"unicode", 1,
     TEXT(
         "caf\xC3\xA9 e\xCC\x81\xCC\xA3 \xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8 \xD0\xBF\xD1\x80\xD0\xB8 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x99\x82 \xD9\xA3 \xC2\xBD \xE2\x96\x81x")},
    {"invalid", 8, TEXT("\xFF\xC3 a\x00\x00 \xED\xA0\x80 \xE2\x82 \xF4\x90\x80\x80 ok \xC0\xAF\xF0\x9F")},
    {"spaces", 4, TEXT("  \t\n \r\n\r\n x  \xC2\xA0\xE2\x80\xA8 \xE3\x80\x80y \n\n\n\n z   ")},
    {"long", 0,
     TEXT(
         "theriverrunspasttheoldmillandthechildrenofthevillagecomethereaaaaaaaaaaaaaaaaaaabababab''''''''''''''''''''''''''''''''")},
    {"marks", 0,
     TEXT(
         "a\xCC\x81\xCC\xA3\xCC\x87\xCC\x81\xCC\xA3\xCC\x87\xCC\x81\xCC\xA3\xCC\x87\xCC\x81\xCC\xA3\xCC\x87\xCC\x81\xCC\xA3\xCC\x87\xCC\x81\xCC\xA3\xCC\x87\xCC\x81\xCC\xA3\xCC\x87 'S 'LL '\xC5\xBF")},
};

static int save(const char *folder, const char *kind, const char *name, unsigned mode, const struct buf *file,
                const char *text, size_t len)
{
    char path[512];
    unsigned char head[5] = {(unsigned char)mode, (unsigned char)file->len, (unsigned char)(file->len >> 8),
                             (unsigned char)(file->len >> 16), 0};
    snprintf(path, sizeof path, "%s/%s-%s", folder, kind, name);
    FILE *f = fopen(path, "wb");
    if (!f)
        return -1;
    int ok = fwrite(head, 1, sizeof head, f) == sizeof head &&
             fwrite(file->data, 1, file->len, f) == file->len && fwrite(text, 1, len, f) == len;
    return fclose(f) || !ok ? -1 : 0;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"smollm", "qwen2", "spm", "spm-prefix"};
    static const struct text_options kinds[] = {{.kind = TINY_SMOLLM, .n_tokens = 480},
                                                {.kind = TINY_QWEN2, .n_tokens = 480},
                                                {.kind = TINY_GEMMA3, .n_tokens = 500},
                                                {.kind = TINY_GEMMA3, .n_tokens = 500, .prefix = 1}};
    if (argc != 2)
        return 2;
    for (size_t k = 0; k < 4; k++) {
        struct buf file = {0};
        if (text_file(&kinds[k], &file))
            return 1;
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            if (save(argv[1], names[k], texts[i].name, texts[i].mode, &file, texts[i].text, texts[i].len))
                return 1;
        for (unsigned n = 1; n < 16; n++) { /* allocations that fail */
            const struct entry *e = &texts[n % 2 ? 6 : 7];
            char name[32];
            snprintf(name, sizeof name, "alloc-%u", n);
            if (save(argv[1], names[k], name, n << 4 | 9, &file, e->text, e->len))
                return 1;
        }
        for (int fault = 1; fault < FAULT_N && k < 3; fault++) {
            struct text_options o = kinds[k];
            char name[32];
            if (k == 1) /* the same faults as smollm */
                continue;
            o.fault = fault;
            snprintf(name, sizeof name, "fault-%d", fault);
            if (text_file(&o, &file) || save(argv[1], names[k], name, 0, &file, "text", 4))
                return 1;
        }
        buf_free(&file);
    }
    return 0;
}
