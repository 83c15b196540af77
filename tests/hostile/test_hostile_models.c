/* Hostile models: well-formed GGUF files that lie about the model in them. Each is made from a tiny model that loads
 * (which is tried first) by one change, is taken through all that opening a model and its chat template does, in this
 * process, and must be refused with the documented status and a sentence that begins with the file's name and names
 * the key, tensor or template. Nothing may be left allocated, and no file may take long.
 *
 * The files that break GGUF itself are in tests/formats (cases.c), split models in test_shards.c, vocabularies in
 * tests/text (text_support.h). */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/loaded.h"
#include "text/prompt.h"
#include "tiny_model.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "hostile.gguf"
#define MAX_NS 2000000000ull

static char path[64];
static int n_files, n_failures;
static uint64_t worst_ns;
static char worst_name[200];

struct verdict {
    hasten_status status;
    struct hasten_error err;
    uint64_t ns;
};

/* A file that is taken here is opened once more as a program would open it: a model is held against its vocabulary
 * there. */
static hasten_status open_whole(const struct buf *file, struct hasten_error *err)
{
    struct file *f = NULL;
    struct hasten_model *m = NULL;
    hasten_status st = file_open(path, FILE_WRITE_TRUNC, &f, err);
    if (!st)
        st = file_write(f, file->data, file->len, err);
    file_close(f);
    if (!st && (st = model_open_unread(path, &m, err)) && strncmp(err->message, path, strlen(path)) == 0)
        memmove(err->message, strstr(err->message, FILE_NAME), strlen(strstr(err->message, FILE_NAME)) + 1);
    hasten_model_close(m);
    return st;
}

/* All that stands between a file and its first answer, but the engine. */
static hasten_status take(const struct buf *file, struct hasten_error *err)
{
    struct gguf *g = NULL;
    struct vocab *v = NULL;
    struct prompter *p = NULL;
    struct model_desc m = {0};
    struct prompt out = {0};
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Who goes there?");
    hasten_status st = gguf_open_memory(file->data, file->len, FILE_NAME, &g, err);
    const bool mapped = !st && !(st = model_map(g, &m, err));
    if (mapped && !(st = vocab_open(g, &v, err)) && !(st = prompter_open(g, v, &p, err)) && p)
        st = prompter_render(p, messages, NULL, true, &out, err);
    prompt_free(&out);
    prompter_close(p);
    vocab_close(v);
    if (mapped)
        model_unmap(&m);
    gguf_close(g);
    json_decref(messages);
    return st ? st : open_whole(file, err);
}

static void judge(struct verdict *v, const struct buf *file)
{
    struct mem_stats before, after;
    mem_stats_get(&before);
    v->err = (struct hasten_error){0};
    const uint64_t t0 = clock_now_ns();
    v->status = take(file, &v->err);
    v->ns = clock_now_ns() - t0;
    mem_stats_get(&after);
    if (after.live_bytes != before.live_bytes) {
        printf("FAILED: %" PRIu64 " bytes left behind\n", after.live_bytes - before.live_bytes);
        n_failures++;
    }
}

/* Builds base with the lies and holds the refusal to status and to the piece of its sentence. other: NULL, or another
 * pair that is as good. */
struct refusal {
    hasten_status status;
    const char *says;
};

static bool fits(const struct verdict *v, const struct refusal *r)
{
    return r && v->status == r->status && strstr(v->err.message, r->says);
}

static void expect(struct gguf_writer *w, const struct gguf_lie *lies, size_t n_lies, const char *name,
                   const struct refusal *want, const struct refusal *other)
{
    struct buf file = {0};
    struct verdict v = {0};
    n_files++;
    if (!w || gguf_writer_build(w, lies, n_lies, &file)) {
        printf("FAILED %s: could not be made\n", name);
        n_failures++;
        return;
    }
    judge(&v, &file);
    const char *m = v.err.message;
    const char *wrong = v.ns > MAX_NS                         ? "took too long"
                        : !fits(&v, want) && !fits(&v, other) ? "was not refused as it should"
                        : v.status && strncmp(m, FILE_NAME ": ", 14) && strncmp(m, "chat template: ", 15)
                            ? "does not begin with the file"
                        : v.status && (strchr(m, '\n') || strlen(m) < 30) ? "is no sentence"
                                                                          : NULL;
    if (wrong) {
        printf("FAILED %s: %s: status %d, '%s' (expected %d, '%s')\n", name, wrong, (int)v.status, m,
               (int)want->status, want->says);
        n_failures++;
    }
    if (v.ns > worst_ns) {
        worst_ns = v.ns;
        snprintf(worst_name, sizeof worst_name, "%s", name);
    }
    buf_free(&file);
}

/* ---- the bases ---------------------------------------------------------------------------------------------- */

struct base {
    const char *family, *option;
    struct gguf_writer *w;
    struct buf file;
    struct gguf *g; /* the honest file: where keys and tensors stand */
};

static struct gguf_writer *writer_of(const char *family, const char *option)
{
    struct tiny_options o;
    if (tiny_options_default(family, 3, &o) || tiny_options_set(&o, "n_layer=2") ||
        (option && tiny_options_set(&o, option)))
        return NULL;
    return tiny_model_writer(&o);
}

/* 0, and the honest file loads; -1. */
static int base_open(struct base *b)
{
    struct verdict v = {0};
    b->w = writer_of(b->family, b->option);
    if (!b->w || gguf_writer_build(b->w, NULL, 0, &b->file) ||
        gguf_open_memory(b->file.data, b->file.len, FILE_NAME, &b->g, &v.err))
        return -1;
    judge(&v, &b->file);
    if (v.status)
        printf("FAILED: the honest %s %s is refused: %s\n", b->family, b->option ? b->option : "",
               v.err.message);
    return v.status ? -1 : 0;
}

static void base_close(struct base *b)
{
    gguf_close(b->g);
    buf_free(&b->file);
    gguf_writer_free(b->w);
}

/* ---- keys --------------------------------------------------------------------------------------------------- */

enum key_lie {
    KEY_MISSING,
    KEY_STRING,
    KEY_LIST,
    KEY_ZERO,
    KEY_HUGE,
    KEY_NAN,
    KEY_LIES
};

/* Payloads of a string "12" and of a list of two u32. */
static const char string_12[] = "\2\0\0\0\0\0\0\0"
                                "12";
static const char list_2[] = "\4\0\0\0"
                             "\2\0\0\0\0\0\0\0"
                             "\2\0\0\0"
                             "\2\0\0\0";

static void lie_about_key(const struct base *b, const char *key, enum key_lie kind)
{
    static const char *const kinds[KEY_LIES] = {"missing", "string", "list", "zero", "huge", "NaN"};
    static const struct {
        uint32_t type;
        const char *bytes;
        size_t len;
    } forms[KEY_LIES] = {
        [KEY_STRING] = {GGUF_STRING, string_12, sizeof string_12 - 1},
        [KEY_LIST] = {GGUF_ARRAY, list_2, sizeof list_2 - 1},
        [KEY_ZERO] = {GGUF_U32, "\0\0\0\0", 4},
        [KEY_HUGE] = {GGUF_U32, "\xff\xff\xff\xff", 4},
        [KEY_NAN] = {GGUF_F32, "\0\0\xc0\x7f", 4},
    };
    char fields[3][64], name[160];
    const int64_t i = gguf_find(b->g, key);
    const bool real = i >= 0 && gguf_key_type(b->g, i) == GGUF_F32;
    if (i < 0 || (kind == KEY_NAN) != real) { /* NaN for numbers with a point, counts for the others */
        if (i < 0 || (kind != KEY_MISSING && kind != KEY_STRING))
            return;
    }
    snprintf(fields[0], sizeof fields[0], "key[%lld].bytes", (long long)i);
    snprintf(fields[1], sizeof fields[1], "key[%lld].type", (long long)i);
    snprintf(fields[2], sizeof fields[2], "key[%lld].value", (long long)i);
    struct gguf_lie lies[2] = {{fields[1], LIE_VALUE, forms[kind].type, NULL, 0},
                               {fields[2], LIE_BYTES, 0, forms[kind].bytes, forms[kind].len}};
    if (kind == KEY_MISSING)
        lies[0] = (struct gguf_lie){fields[0], LIE_FLIP, 0x10, NULL, 0};
    snprintf(name, sizeof name, "%s: %s %s", b->family, key, kinds[kind]);
    const struct refusal file = {HASTEN_ERR_FILE, key}, unsupported = {HASTEN_ERR_UNSUPPORTED, key};
    expect(b->w, lies, kind == KEY_MISSING ? 1 : 2, name, kind == KEY_LIST ? &unsupported : &file, NULL);
}

/* Keys that every family must have, and those of its own. */
static void keys(const struct base *b)
{
    static const char *const needed[] = {"block_count",          "context_length",
                                         "embedding_length",     "feed_forward_length",
                                         "attention.head_count", "attention.layer_norm_rms_epsilon"};
    for (size_t k = 0; k < sizeof needed / sizeof *needed; k++) {
        char key[100];
        const struct gguf_str arch = {b->family, strlen(b->family)};
        snprintf(key, sizeof key, "%.*s.%s", (int)arch.len, arch.data, needed[k]);
        for (int kind = k == 5 ? KEY_STRING : KEY_MISSING; kind < KEY_LIES; kind++) /* it has a default */
            lie_about_key(b, key, (enum key_lie)kind);
    }
}

/* ---- tensors ------------------------------------------------------------------------------------------------ */

static void tensors(const struct base *b)
{
    for (int64_t i = 0; i < gguf_n_tensors(b->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(b->g, i);
        char field[64], name[400], missing[300], unknown[300], shape[300];
        if (strncmp(t->name, "blk.1.", 6) == 0)
            continue;
        snprintf(missing, sizeof missing, "tensor '%s': missing", t->name);
        snprintf(unknown, sizeof unknown, "tensor 'X%s': unsupported", t->name + 1);
        snprintf(shape, sizeof shape, "tensor '%s': found", t->name);
        snprintf(name, sizeof name, "%s: %s renamed", b->family, t->name);
        snprintf(field, sizeof field, "tensor[%lld].name", (long long)i);
        const struct gguf_lie renamed = {field, LIE_FLIP, (uint64_t)(t->name[0] ^ 'X'), NULL, 0};
        expect(b->w, &renamed, 1, name, &(struct refusal){HASTEN_ERR_FILE, missing},
               &(struct refusal){HASTEN_ERR_UNSUPPORTED, unknown});
        snprintf(name, sizeof name, "%s: %s of another shape", b->family, t->name);
        snprintf(field, sizeof field, "tensor[%lld].ne[%d]", (long long)i, t->n_dims - 1);
        const struct gguf_lie shaped = {field, LIE_VALUE, 1, NULL, 0};
        /* The rows of the embedding are the size of the vocabulary, which others are held against. */
        const char *rows = gguf_tensor_find(b->g, "output.weight")    ? "tensor 'output.weight': found"
                           : gguf_find(b->g, "llama.vocab_size") >= 0 ? "llama.vocab_size: found"
                                                                      : "tokenizer.ggml.tokens: found";
        expect(b->w, &shaped, 1, name, &(struct refusal){HASTEN_ERR_FILE, shape},
               strcmp(t->name, "token_embd.weight") == 0 ? &(struct refusal){HASTEN_ERR_FILE, rows} : NULL);
        if (t->type->id != QUANT_F32 || t->n_dims != 1)
            continue;
        snprintf(name, sizeof name, "%s: %s of whole numbers", b->family, t->name);
        snprintf(field, sizeof field, "tensor[%lld].type", (long long)i);
        snprintf(shape, sizeof shape, "tensor '%s': unsupported type I16", t->name);
        const struct gguf_lie typed = {field, LIE_VALUE, 25, NULL, 0};
        expect(b->w, &typed, 1, name, &(struct refusal){HASTEN_ERR_UNSUPPORTED, shape}, NULL);
    }
}

/* Numbers in names are never used as an index: such a tensor is one that nobody asked for. */
static void names_with_numbers(void)
{
    static const char *const names[] = {"blk.999999999.attn_q.weight",
                                        "blk.2.attn_q.weight",
                                        "blk.-1.attn_q.weight",
                                        "blk.18446744073709551616.attn_q.weight",
                                        "blk.4294967296.attn_q.weight",
                                        "blk.00.attn_q.weight",
                                        "blk.0x0.attn_q.weight",
                                        "blk. 0.attn_q.weight",
                                        "blk..attn_q.weight",
                                        "blk.0.attn_q.weight.0",
                                        "blk.0.ffn_gate.999999999.weight",
                                        "blk.%s%n.attn_q.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gguf_writer *w = writer_of("llama", NULL);
        if (w)
            gguf_writer_tensor(w, names[i], QUANT_F32, 1, (const uint64_t[]){8}, NULL, 32);
        expect(w, NULL, 0, names[i], &(struct refusal){HASTEN_ERR_UNSUPPORTED, names[i]}, NULL);
        gguf_writer_free(w);
    }
}

/* ---- templates ---------------------------------------------------------------------------------------------- */

static const char *const templates[] = {
    "{{ messages[0].content",
    "{% for m in messages %}{{ m.content }}",
    "{% endfor %}",
    "{{ nope.content }}",
    "{{ messages[7].content }}",
    "{{ 1 // 0 }}",
    "{{ messages|nosuchfilter }}",
    "{{ messages.__class__.__mro__ }}",
    "{{ ''.__class__.x }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{{ raise_exception('no such role') }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% for a in range(9223372036854775807) %}x{% endfor %}",
    "{{ 'x' * 1000000000000 }}",
    "{{ ('x' * 60000000) ~ ('y' * 60000000) }}",
    "{{ 'x'|center(4000000000) }}",
    "{{ [0] * 1000000000 }}",
    "{{ range(1000000000)|list }}",
    "{% set n = namespace(s='x') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
    "{{ 10 ** 100000 }}",
    "{{ 'a'.replace('', 'x' * 100000) * 100000 }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ '{:>999999999999}'.format('x') }}",
    "{{ 'abc'.encode().decode() }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ '\xff' }}",
    "{{ '\xed\xa0\x80' }}",
};

static void hostile_templates(void)
{
    char name[40];
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct base b = {"llama", NULL, writer_of("llama", NULL), {0}, NULL};
        struct hasten_error err;
        if (!b.w || gguf_writer_build(b.w, NULL, 0, &b.file) ||
            gguf_open_memory(b.file.data, b.file.len, FILE_NAME, &b.g, &err)) {
            n_failures++;
            base_close(&b);
            continue;
        }
        char fields[2][64];
        const long long key = (long long)gguf_find(b.g, "tokenizer.chat_template");
        snprintf(fields[0], sizeof fields[0], "key[%lld].string_length", key);
        snprintf(fields[1], sizeof fields[1], "key[%lld].string_bytes", key);
        const struct gguf_lie lies[] = {{fields[0], LIE_VALUE, strlen(templates[i]), NULL, 0},
                                        {fields[1], LIE_BYTES, 0, templates[i], strlen(templates[i])}};
        snprintf(name, sizeof name, "template %zu", i);
        expect(b.w, lies, 2, name, &(struct refusal){HASTEN_ERR_TEMPLATE, "chat template: line 1, column "},
               NULL);
        base_close(&b);
    }
}

/* ---- all ---------------------------------------------------------------------------------------------------- */

int main(void)
{
    static struct base bases[] = {
        {.family = "llama"},   {.family = "qwen2"},    {.family = "qwen3"},
        {.family = "gemma2"},  {.family = "gemma3"},   {.family = "phi3"},
        {.family = "gpt-oss"}, {.family = "qwen3moe"}, {.family = "llama", .option = "n_expert=4"}};
    char folder[] = "/tmp/hasten-hostile-XXXXXX";
    if (!mkdtemp(folder)) {
        fprintf(stderr, "no temporary folder\n");
        return 1;
    }
    snprintf(path, sizeof path, "%s/%s", folder, FILE_NAME);
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (base_open(&bases[i]))
            n_failures++;
        else {
            keys(&bases[i]);
            tensors(&bases[i]);
        }
        base_close(&bases[i]);
    }
    names_with_numbers();
    hostile_templates();
    unlink(path);
    rmdir(folder);
    printf("%d hostile models, %d failures; worst: %" PRIu64 " us (%s)\n", n_files, n_failures,
           worst_ns / 1000, worst_name);
    if (n_files < 250) {
        printf("FAILED: only %d files\n", n_files);
        return 1;
    }
    return n_failures ? 1 : 0;
}
