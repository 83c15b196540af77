/* make_corpus FOLDER: writes the corpus of fuzz/tokenizer_fuzz.c: tiny vocabularies, whole with many texts,
 * one file for every fault, some that let an allocation fail; a small one for every pre-tokeniser, and documents in
 * the manner of tokenizer.json, honest and not. */
#include "gguf_writer.h"
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

/* ---- one small vocabulary for every pre-tokeniser ------------------------------------------------------ */

static const struct entry cuts[] = {
    {"cut-digits", 0,
     TEXT("12 1234567 \xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4 1234a 3.14,000 x99y \xC2\xBD"
          "1")},
    {"cut-letters", 1,
     TEXT(
         "HelloWORLD it's WE'LL \xD0\x96\xD0\xB6\xE4\xB8\xAD"
         "A\xC7\x85 \xCC\x81"
         "A\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82\xEA\xB0\x80\xE3\x84\xB1\xE3\x84\x85 a b\xCC\x81 c")},
    {"cut-others", 2,
     TEXT(
         "// <=>\n\r/ !abc...\r\n\n $`+|~ (a|b) \xE2\x80\xA6 <sentinel:12> <sentinel: IMGIMGABZ IMGIMGABCDEZ\x01\x02"
         "a \xEF\xBC\x81\xE2\x80\x9C")},
    {"cut-spaces", 8,
     TEXT(
         "a  b   c                                         d\t\t\n \n  \r  e \xE3\x80\x80\xE3\x80\x81 \xC2\xA0\n\n\nf    ")},
};

static const char *const small_tokens[] = {"<|im_end|>",
                                           "a",
                                           "b",
                                           "c",
                                           "d",
                                           "e",
                                           "1",
                                           "2",
                                           "3",
                                           "\xC4\xA0",
                                           "\xC4\x8A",
                                           "'",
                                           "s",
                                           "/",
                                           "<",
                                           "\xE2\x96\x81",
                                           "l",
                                           "ab",
                                           "\xC4\xA0"
                                           "a",
                                           "12",
                                           "\xC4\xA0\xC4\xA0",
                                           "[UNK]",
                                           "[CLS]",
                                           "[SEP]",
                                           "\xE2\x96\x81"
                                           "a",
                                           "\xE2\x96\x81the",
                                           "h",
                                           "o",
                                           "ll"};
static const char *const small_merges[] = {"a b", "\xC4\xA0 a", "1 2", "\xC4\xA0 \xC4\xA0", "l l"};

static int small_file(const char *model, const char *pre, struct buf *out)
{
    enum {
        N = sizeof small_tokens / sizeof *small_tokens,
        M = sizeof small_merges / sizeof *small_merges
    };
    struct gguf_str tokens[N], merges[M];
    int32_t types[N];
    struct gguf_writer *w = gguf_writer_new();
    for (int i = 0; i < N; i++) {
        tokens[i] = (struct gguf_str){small_tokens[i], strlen(small_tokens[i])};
        types[i] = i == 0 || small_tokens[i][0] == '[' ? 3 : 1;
    }
    for (int i = 0; i < M; i++)
        merges[i] = (struct gguf_str){small_merges[i], strlen(small_merges[i])};
    if (!w)
        return -1;
    gguf_writer_str(w, "tokenizer.ggml.model", model);
    gguf_writer_str(w, "tokenizer.ggml.pre", pre);
    gguf_writer_strs(w, "tokenizer.ggml.tokens", tokens, N);
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, N);
    gguf_writer_strs(w, "tokenizer.ggml.merges", merges, M);
    int rc = gguf_writer_build(w, NULL, 0, out);
    gguf_writer_free(w);
    return rc;
}

static int save_cuts(const char *folder)
{
    struct buf file = {0};
    int rc = 0;
    for (int i = 0; i < text_n_pre_names + 2 && !rc; i++) {
        const char *model = i == text_n_pre_names ? "gemma4" : i > text_n_pre_names ? "bert" : "gpt2";
        const char *pre = i < text_n_pre_names ? text_pre_names[i] : model;
        rc = small_file(model, pre, &file);
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts && !rc; k++)
            rc = save(folder, pre, cuts[k].name, cuts[k].mode, &file, cuts[k].text, cuts[k].len);
    }
    buf_free(&file);
    return rc;
}

/* ---- tokenizer.json ------------------------------------------------------------------------------------ */

struct document {
    const char *name, *text, *config;
};

#define ADDED(id, text, more) "{\"id\":" #id ",\"content\":\"" text "\"" more "}"
#define VOCAB                                                                                                \
    "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"\xC4\xA0\":3,\"ab\":4,\"<unk>\":5,\"1\":6,\"\xE2\x96\x81\":7,"     \
    "\"\xE2\x96\x81\xE2\x96\x81\":8,\"[UNK]\":9,\"##a\":10,\"##b\":11,\"<0x0A>\":12}"
#define BPE(more)                                                                                            \
    "\"model\":{\"type\":\"BPE\"," more VOCAB ",\"merges\":[\"a b\",[\"\xE2\x96\x81\",\"\xE2\x96\x81\"]]}"
#define PART(part, text) ",\"" part "\":" text
#define STEPS(part, list, text) ",\"" part "\":{\"type\":\"Sequence\",\"" list "\":[" text "]}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define PIECE "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
#define SPLIT(text, how) "{\"type\":\"Split\",\"pattern\":" text ",\"behavior\":\"" how "\",\"invert\":true}"
#define META(more) "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"" more "}"

static const struct document documents[] = {
    {"bytes",
     "{" BPE("")
         PART("pre_tokenizer", BYTES) ",\"added_tokens\":[" ADDED(20, "<s>", ",\"special\":true,\"lstrip\":true") "," ADDED(
             21, "ab ",
             ",\"rstrip\":true") "," ADDED(22, "one",
                                           ",\"single_word\":true") "," ADDED(4, "ab",
                                                                              ",\"normalized\":true") "]}",
     "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"one\",\"add_bos_token\":true,\"add_eos_token\":true,\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"}]}"},
    {"prefix",
     "{" BPE("\"ignore_merges\":true,") PART("pre_tokenizer", "{\"type\":\"ByteLevel\"}")
         PART("post_processor", "{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",1]}") "}",
     NULL},
    {"legacy",
     "{" BPE("\"byte_fallback\":true,\"unk_token\":\"<unk>\",") STEPS(
         "normalizer", "normalizers",
         "{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}")
         STEPS("decoder", "decoders", "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}") "}",
     "{\"chat_template\":\"{{ x }}\"}"},
    {"metaspace",
     "{" BPE("\"unk_token\":\"<unk>\",\"fuse_unk\":true,")
         PART("pre_tokenizer", META(",\"prepend_scheme\":\"first\"")) PART(
             "post_processor",
             "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<unk>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<unk>\":{\"ids\":[5]}}}]}") "}",
     "{\"add_bos_token\":false}"},
    {"gemma",
     "{" BPE("\"byte_fallback\":true,") PART("normalizer", "{\"type\":\"NFKC\"}")
         PART("pre_tokenizer",
              "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\"}") "}",
     NULL},
    {"steps",
     "{" BPE("") STEPS(
         "normalizer", "normalizers",
         "{\"type\":\"NFKD\"},{\"type\":\"Lowercase\"},{\"type\":\"StripAccents\"},{\"type\":\"Strip\"}")
         STEPS(
             "pre_tokenizer", "pretokenizers",
             "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"},{\"type\":\"Digits\"},{\"type\":\"WhitespaceSplit\"}," SPLIT(
                 "{\"Regex\":\"\\\\p{N}\"}", "Isolated") "," BYTES) "}",
     NULL},
    {"kept", "{" BPE("") PART("pre_tokenizer", SPLIT("{\"Regex\":\"\\\\s?\\\\p{L}+\"}", "Removed")) "}",
     NULL},
    {"bert",
     "{\"model\":" PIECE "\"max_input_chars_per_word\":9," VOCAB
     "}" PART("normalizer", "{\"type\":\"BertNormalizer\"}")
         PART("pre_tokenizer", "{\"type\":\"BertPreTokenizer\"}") PART("decoder", "{\"type\":\"WordPiece\"}")
             PART("post_processor", "{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",1]}") "}",
     NULL},
    {"words",
     "{\"model\":" PIECE VOCAB
     "}" PART("pre_tokenizer",
              "{\"type\":\"Whitespace\"}") ",\"added_tokens\":[" ADDED(9, "[UNK]", ",\"special\":true") "]}",
     NULL},
    {"no-model", "{\"added_tokens\":[]}", NULL},
    {"no-unk", "{\"model\":{\"type\":\"WordPiece\"," VOCAB "}}", NULL},
    {"no-vocab", "{\"model\":{\"type\":\"BPE\",\"vocab\":[]}}", NULL},
    {"no-merges", "{\"model\":{\"type\":\"BPE\"," VOCAB "}}", NULL},
    {"empty", "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", NULL},
    {"unigram", "{\"model\":{\"type\":\"Unigram\"}}", NULL},
    {"dropout", "{" BPE("\"dropout\":0.5,") "}", NULL},
    {"same-id", "{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", NULL},
    {"bad-id", "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", NULL},
    {"bad-merge", "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", NULL},
    {"bad-added", "{" BPE("") ",\"added_tokens\":[{\"id\":1}]}", NULL},
    {"other-added", "{" BPE("") ",\"added_tokens\":[" ADDED(7, "a", "") "]}", NULL},
    {"bad-norm", "{" BPE("") PART("normalizer", "{\"type\":\"Precompiled\"}") "}", NULL},
    {"bad-replace",
     "{" BPE("") PART("normalizer", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x\"}}") "}", NULL},
    {"growth",
     "{" BPE("")
         PART("normalizer", "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"a\"}") "}",
     NULL},
    {"bad-split", "{" BPE("") PART("pre_tokenizer", SPLIT("{\"Regex\":\"\\\\w\"}", "Isolated")) "}", NULL},
    {"bad-how", "{" BPE("") PART("pre_tokenizer", SPLIT("{\"Regex\":\"x\"}", "Contiguous")) "}", NULL},
    {"bad-text", "{" BPE("") PART("pre_tokenizer", SPLIT("{\"String\":\"x\"}", "Isolated")) "}", NULL},
    {"bad-letters",
     "{" BPE("") PART("pre_tokenizer", SPLIT("{\"Regex\":\"\\\\s?[A-Za-z0-9]+\"}", "Isolated")) "}", NULL},
    {"bad-order", "{" BPE("") STEPS("pre_tokenizer", "pretokenizers", "{\"type\":\"Digits\"}," META("")) "}",
     NULL},
    {"bad-mark", "{" BPE("") PART("pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"_\"}") "}",
     NULL},
    {"bad-scheme", "{" BPE("") PART("pre_tokenizer", META(",\"prepend_scheme\":\"sometimes\"")) "}", NULL},
    {"bad-decoder", "{" BPE("") PART("decoder", "{\"type\":\"CTC\"}") "}", NULL},
    {"bad-post", "{" BPE("") PART("post_processor", "{\"type\":\"Other\"}") "}", NULL},
    {"bad-pair", "{" BPE("") PART("post_processor", "{\"type\":\"BertProcessing\"}") "}", NULL},
    {"bad-template",
     "{" BPE("") PART(
         "post_processor",
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"a\"}}],\"special_tokens\":{}}") "}",
     NULL},
    {"bad-sequence", "{" BPE("") PART("normalizer", "{\"type\":\"Sequence\"}") "}", NULL},
    {"many",
     "{" BPE("") STEPS(
         "pre_tokenizer", "pretokenizers",
         "{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"}") "}",
     NULL},
    {"cut-short", "{\"model\":", NULL},
};

static int save_documents(const char *folder)
{
    static const struct entry said = {"", 0,
                                      TEXT("ab aab <s> one xone ab  c [UNK] \xC4\xB0\xEF\xAC\x81 \xE4\xBD\xA0"
                                           "A \n 12, -- \xC3\xA9t\xC3\xA9 \xFF the a\tbbbbbbbbbbbbb")};
    struct buf file = {0};
    int rc = 0;
    for (size_t i = 0; i < sizeof documents / sizeof *documents && !rc; i++) {
        const struct document *d = &documents[i];
        buf_clear(&file);
        rc = buf_puts(&file, d->text) || (d->config && (buf_putc(&file, 0) || buf_puts(&file, d->config)));
        for (unsigned mode = 0; mode < 4 && !rc; mode += 3) {
            char name[64];
            snprintf(name, sizeof name, "%s-%u", d->name, mode);
            rc = save(folder, "json", name, mode, &file, said.text, said.len);
        }
        for (unsigned n = 1; n < 12 && !rc && (i == 0 || i == 2 || i == 7);
             n += 2) { /* allocations that fail */
            char name[64];
            snprintf(name, sizeof name, "%s-alloc-%u", d->name, n);
            rc = save(folder, "json", name, n << 4 | 3, &file, said.text, said.len);
        }
    }
    buf_free(&file);
    return rc;
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
    return save_cuts(argv[1]) || save_documents(argv[1]) ? 1 : 0;
}
