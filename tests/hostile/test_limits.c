/* Hard bounds. A document nested 10^6 deep is refused by every recursive parser within 100 ms on a stack of 256 KiB;
 * and the bounds of base/limits.h on models, engines, tokens, shards, templates and profiles hold on both sides: at
 * the bound nothing is said of it, one beyond is refused by name. What JSON is written is valid, whatever bytes it holds. (GGUF's own bounds: tests/formats/test_limits.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include <jansson.h>
#include "formats/safetensors.h"
#include "model/hf.h"
#include "model/loaded.h"
#include "text/template.h"
#include "tiny_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEEP 1000000

static char folder[40];

static const char *path_of(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const void *data, size_t len)
{
    struct file *f = NULL;
    assert_int_equal(file_open(path, FILE_WRITE_TRUNC, &f, NULL), HASTEN_OK);
    assert_int_equal(file_write(f, data, len, NULL), HASTEN_OK);
    file_close(f);
}

/* ---- depth -------------------------------------------------------------------------------------------------- */

typedef hasten_status (*parse_fn)(const char *text, size_t len, struct hasten_error *err);

static hasten_status parse_json(const char *text, size_t len, struct hasten_error *err)
{
    json_t *v = NULL;
    const hasten_status st = json_parse("deep.json", text, len, &v, err);
    json_decref(v);
    return st;
}

static hasten_status parse_template(const char *text, size_t len, struct hasten_error *err)
{
    struct template *t = NULL;
    const hasten_status st = template_open("deep", text, len, &t, err);
    template_close(t);
    return st;
}

static hasten_status parse_tokenizer(const char *text, size_t len, struct hasten_error *err)
{
    struct vocab *v = NULL;
    const struct vocab_json src = {.path = "tokenizer.json", .tokenizer = text, .tokenizer_len = len};
    const hasten_status st = vocab_open_json(&src, &v, err);
    vocab_close(v);
    return st;
}

static hasten_status parse_gguf(const char *text, size_t len, struct hasten_error *err)
{
    struct gguf *g = NULL;
    const hasten_status st = gguf_open_memory(text, len, "deep.gguf", &g, err);
    gguf_close(g);
    return st;
}

static hasten_status parse_profile(const char *text, size_t len, struct hasten_error *err)
{
    struct profile *p = NULL;
    (void)text, (void)len; /* written before: the clock runs for the parser */
    const hasten_status st = profile_open(path_of("deep.yaml"), &p, err);
    profile_close(p);
    return st;
}

struct deep_run {
    parse_fn parse;
    const char *text;
    size_t len;
    hasten_status status;
    struct hasten_error err;
    uint64_t ns;
};

static void *run(void *arg)
{
    struct deep_run *r = arg;
    const uint64_t t0 = clock_thread_ns((int)gettid());
    r->status = r->parse(r->text, r->len, &r->err);
    r->ns = clock_thread_ns((int)gettid()) - t0;
    return NULL;
}

static void refused(parse_fn parse, const char *name, const char *text, size_t len)
{
#ifdef HASTEN_SANITIZED
    const size_t stack = 4 << 20; /* the sanitizers' frames are several times larger */
    const uint64_t most_ns = 1000000000;
#else
    const size_t stack = 256 << 10;
    const uint64_t most_ns = 100000000;
#endif
    struct deep_run r = {.parse = parse, .text = text, .len = len};
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, stack), 0);
    assert_int_equal(pthread_create(&thread, &attr, run, &r), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (r.status == HASTEN_OK || strlen(r.err.message) < 20 || r.ns > most_ns)
        fail_msg("%s: status %d, %.3f ms: '%s'", name, (int)r.status, (double)r.ns * 1e-6, r.err.message);
}

static void repeat(struct buf *out, const char *head, const char *unit, size_t n)
{
    buf_clear(out);
    assert_int_equal(buf_puts(out, head), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(buf_puts(out, unit), 0);
}

static void deep_documents(void **state)
{
    (void)state;
    struct buf b = {0};
    static const char *const json[][2] = {{"", "["}, {"", "{\"a\":"}, {"", "[{\"a\":["}, {"[1,", "[\"]\",["}};
    for (size_t i = 0; i < sizeof json / sizeof *json; i++) {
        repeat(&b, json[i][0], json[i][1], DEEP);
        refused(parse_json, json[i][1], b.data, b.len);
        refused(parse_tokenizer, json[i][1], b.data, b.len);
    }
    /* Sources longer than their bound are refused for that: as deep as fits in it, and 10^6 where a level is a byte. */
    static const char *const units[] = {"(",    "[",    "{1:",          "-",   "+",    "a[",     "a(",
                                        "not ", "a.b(", "1 if a else ", "a~(", "a|f(", "a is f("};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = (LIMIT_TEMPLATE_BYTES - 8) / strlen(units[i]);
        repeat(&b, "{{ ", units[i], n < DEEP ? n : DEEP);
        refused(parse_template, units[i], b.data, b.len);
    }
    static const char *const blocks[] = {"{% if a %}",      "{% for a in b %}",  "{% macro a() %}",
                                         "{% set a %}",     "{% filter trim %}", "{% call a() %}",
                                         "{%if a%}{%else%}"};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        repeat(&b, "", blocks[i], (LIMIT_TEMPLATE_BYTES - 8) / strlen(blocks[i]));
        refused(parse_template, blocks[i], b.data, b.len);
    }
    buf_free(&b);
}

static void deep_arrays_of_gguf(void **state)
{
    (void)state;
    struct gguf_writer *w = gguf_writer_new();
    struct buf levels = {0}, file = {0};
    for (int i = 0; i < DEEP; i++)
        assert_int_equal(buf_put(&levels, "\11\0\0\0\1\0\0\0\0\0\0\0", 12), 0);
    gguf_writer_raw(w, "deep", GGUF_ARRAY, levels.data, levels.len);
    assert_int_equal(gguf_writer_build(w, NULL, 0, &file), 0);
    refused(parse_gguf, "nested arrays", file.data, file.len);
    buf_free(&file);
    buf_free(&levels);
    gguf_writer_free(w);
}

static void deep_profiles(void **state)
{
    (void)state;
    static const char *const units[] = {"[", "{", "{a: ", "- ", "? ", "&a [", "!!x ["};
    struct buf b = {0};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = (LIMIT_PROFILE_BYTES - 8) / strlen(units[i]);
        repeat(&b, "stop: ", units[i], n < DEEP ? n : DEEP);
        write_file(path_of("deep.yaml"), b.data, b.len);
        refused(parse_profile, units[i], NULL, 0);
    }
    buf_free(&b);
}

/* ---- bounds ------------------------------------------------------------------------------------------------- */

/* The sentence with which a llama (or what `option` makes of it) with this number in a key is refused; "" if taken. */
static const char *said_of(const char *option, const char *key, uint64_t value)
{
    static struct hasten_error err;
    struct tiny_options o;
    struct gguf *g = NULL;
    struct model_desc m = {0};
    struct buf b = {0};
    char field[40];
    assert_int_equal(tiny_options_default("llama", 1, &o), 0);
    assert_int_equal(tiny_options_set(&o, option), 0);
    struct gguf_writer *w = tiny_model_writer(&o);
    assert_int_equal(gguf_writer_build(w, NULL, 0, &b), 0);
    assert_int_equal(gguf_open_memory(b.data, b.len, "tiny.gguf", &g, &err), HASTEN_OK);
    snprintf(field, sizeof field, "key[%lld].value", (long long)gguf_find(g, key));
    gguf_close(g);
    const struct gguf_lie lie = {field, LIE_VALUE, value, NULL, 0};
    assert_int_equal(gguf_writer_build(w, &lie, 1, &b), 0);
    err = (struct hasten_error){0};
    assert_int_equal(gguf_open_memory(b.data, b.len, "tiny.gguf", &g, &err), HASTEN_OK);
    if (model_map(g, &m, &err) == HASTEN_OK)
        model_unmap(&m);
    gguf_close(g);
    buf_free(&b);
    gguf_writer_free(w);
    return err.message;
}

static void numbers_of_models(void **state)
{
    (void)state;
    static const struct {
        const char *option, *key;
        uint64_t limit;
    } bounds[] = {
        {"n_layer=2", "llama.block_count", LIMIT_LAYERS},
        {"n_layer=2", "llama.embedding_length", LIMIT_WIDTH},
        {"n_layer=2", "llama.feed_forward_length", LIMIT_WIDTH},
        {"n_layer=2", "llama.attention.head_count", LIMIT_HEADS},
        {"n_layer=2", "llama.context_length", LIMIT_CONTEXT},
        {"n_expert=4", "llama.expert_count", LIMIT_EXPERTS},
        {"n_expert=80", "llama.expert_used_count", LIMIT_EXPERTS_USED},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        char says[120];
        snprintf(says, sizeof says, "%s: found %llu (expected", bounds[i].key,
                 (unsigned long long)bounds[i].limit + 1);
        const char *beyond = said_of(bounds[i].option, bounds[i].key, bounds[i].limit + 1);
        if (!strstr(beyond, says))
            fail_msg("%s, one beyond: '%s'", bounds[i].key, beyond);
        const char *at = said_of(bounds[i].option, bounds[i].key, bounds[i].limit);
        snprintf(says, sizeof says, "%s: found", bounds[i].key);
        if (strstr(at, says))
            fail_msg("%s, at its bound: '%s'", bounds[i].key, at);
    }
}

static void numbers_of_engines(void **state)
{
    (void)state;
    struct tiny_options o;
    struct hasten_model *m = NULL;
    struct hasten_error err;
    struct hasten_plan plan;
    assert_int_equal(tiny_options_default("llama", 1, &o), 0);
    assert_int_equal(tiny_model_save(&o, path_of("tiny.gguf")), 0);
    assert_int_equal(model_open_unread(path_of("tiny.gguf"), &m, &err), HASTEN_OK);
    for (int beyond = 0; beyond < 2; beyond++) {
        struct hasten_engine_settings s[3];
        static const char *const names[] = {"n_batch", "n_threads", "n_ctx"};
        for (int i = 0; i < 3; i++)
            hasten_engine_default_settings(&s[i]);
        s[0].n_batch = LIMIT_BATCH_ROWS + beyond;
        s[1].n_threads = LIMIT_THREADS + beyond;
        s[2].n_ctx = LIMIT_CONTEXT + beyond;
        for (int i = 0; i < 3; i++) {
            const hasten_status st = hasten_engine_plan(m, &s[i], &plan, &err);
            if (!beyond && st == HASTEN_ERR_USAGE && strstr(err.message, names[i]))
                fail_msg("%s at its bound: '%s'", names[i], err.message);
            if (beyond && (st != HASTEN_ERR_USAGE || !strstr(err.message, names[i])))
                fail_msg("%s beyond: status %d, '%s'", names[i], (int)st, err.message);
        }
    }
    hasten_model_close(m);
}

/* A vocabulary of n tokens, the first of `len` bytes. */
static hasten_status with_tokens(int64_t n, size_t len, struct hasten_error *err)
{
    struct gguf_writer *w = gguf_writer_new();
    struct gguf_str *tokens = mem_calloc((size_t)n, sizeof *tokens);
    char *text = mem_alloc(len + 1);
    struct buf b = {0};
    struct gguf *g = NULL;
    struct vocab *v = NULL;
    assert_true(w && tokens && text);
    memset(text, 'x', len);
    for (int64_t i = 0; i < n; i++)
        tokens[i] = (struct gguf_str){"", 0};
    tokens[0] = (struct gguf_str){text, len};
    gguf_writer_str(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_str(w, "tokenizer.ggml.pre", "qwen2");
    gguf_writer_strs(w, "tokenizer.ggml.tokens", tokens, (uint64_t)n);
    assert_int_equal(gguf_writer_build(w, NULL, 0, &b), 0);
    gguf_writer_free(w);
    *err = (struct hasten_error){0};
    hasten_status st = gguf_open_memory(b.data, b.len, "tokens.gguf", &g, err);
    if (!st)
        st = vocab_open(g, &v, err);
    vocab_close(v);
    gguf_close(g);
    buf_free(&b);
    mem_free(tokens);
    mem_free(text);
    return st;
}

static void numbers_of_vocabularies(void **state)
{
    (void)state;
    struct hasten_error err;
    with_tokens(4, LIMIT_TOKEN_BYTES, &err);
    assert_null(strstr(err.message, "the limit is"));
    assert_int_equal(with_tokens(4, LIMIT_TOKEN_BYTES + 1, &err), HASTEN_ERR_LIMIT);
    assert_non_null(strstr(err.message, "tokenizer.ggml.tokens[0] has 4097 bytes; the limit is 4096"));
    assert_int_equal(with_tokens((int64_t)LIMIT_VOCAB + 1, 1, &err), HASTEN_ERR_LIMIT);
    assert_non_null(strstr(err.message, "tokenizer.ggml.tokens has 4194305 entries; the limit is 4194304"));
    with_tokens(LIMIT_VOCAB, 1, &err); /* most of these are the same empty token */
    assert_null(strstr(err.message, "entries; the limit is"));
}

static void numbers_of_shards(void **state)
{
    (void)state;
    for (uint32_t beyond = 0; beyond < 2; beyond++) {
        struct gguf_writer *w = gguf_writer_new();
        struct gguf *g = NULL;
        struct hasten_error err = {0};
        char name[60];
        snprintf(name, sizeof name, "m-00001-of-%05u.gguf", LIMIT_GGUF_SHARDS + beyond);
        gguf_writer_number(w, "split.no", GGUF_U16, 0);
        gguf_writer_number(w, "split.count", GGUF_U16, LIMIT_GGUF_SHARDS + beyond);
        gguf_writer_number(w, "split.tensors.count", GGUF_I32, 0);
        assert_int_equal(gguf_writer_save(w, NULL, 0, path_of(name)), 0);
        gguf_writer_free(w);
        const hasten_status st = gguf_open(path_of(name), &g, &err);
        assert_int_equal(st, beyond ? HASTEN_ERR_LIMIT : HASTEN_ERR_FILE); /* the others are missing */
        assert_true(!strstr(err.message, "found 4097 shards (expected at most 4096)") == !beyond);
        unlink(path_of(name));
    }
}

static hasten_status rendered(const char *source, struct hasten_error *err)
{
    struct template *t = NULL;
    struct buf out = {0};
    json_t *context = json_object();
    *err = (struct hasten_error){0};
    hasten_status st = template_open("t", source, strlen(source), &t, err);
    if (!st)
        st = template_render(t, context, &out, err);
    template_close(t);
    json_decref(context);
    buf_free(&out);
    return st;
}

static void numbers_of_templates(void **state)
{
    (void)state;
    struct hasten_error err;
    char source[100];
    const struct {
        const char *format, *says;
        unsigned within, beyond;
    } bounds[] = {
        {"{{ 'x' * %u }}", "output", LIMIT_TEMPLATE_OUTPUT, LIMIT_TEMPLATE_OUTPUT + 1},
        {"{% set a = 'x' * %u %}", "memory", LIMIT_TEMPLATE_MEMORY / 4 * 3, LIMIT_TEMPLATE_MEMORY + 1},
        {"{% for i in range(10) %}{% for j in range(%u) %}{{ '' }}{% endfor %}{% endfor %}", "steps",
         LIMIT_TEMPLATE_STEPS / 10 / 8, LIMIT_TEMPLATE_STEPS / 10},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        for (int beyond = 0; beyond < 2; beyond++) {
            const char *number = strstr(bounds[i].format, "%u");
            snprintf(source, sizeof source, "%.*s%u%s", (int)(number - bounds[i].format), bounds[i].format,
                     beyond ? bounds[i].beyond : bounds[i].within, number + 2);
            const hasten_status st = rendered(source, &err);
            if (st != (beyond ? HASTEN_ERR_TEMPLATE : HASTEN_OK))
                fail_msg("%s: status %d, '%s'", source, (int)st, err.message);
        }
}

static hasten_status profile_of(size_t lines, size_t bytes, struct hasten_error *err)
{
    struct buf b = {0};
    struct profile *p = NULL;
    char line[40];
    for (size_t i = 0; i < lines; i++) {
        snprintf(line, sizeof line, "a%zu: 1\n", i);
        assert_int_equal(buf_puts(&b, line), 0);
    }
    assert_int_equal(buf_puts(&b, "#"), 0);
    while (b.len < bytes)
        assert_int_equal(buf_putc(&b, 'x'), 0);
    write_file(path_of("p.yaml"), b.data, b.len);
    buf_free(&b);
    *err = (struct hasten_error){0};
    const hasten_status st = profile_open(path_of("p.yaml"), &p, err);
    profile_close(p);
    return st;
}

static void numbers_of_profiles(void **state)
{
    (void)state;
    struct hasten_error err;
    assert_int_equal(profile_of(LIMIT_PROFILE_LINES, 0, &err), HASTEN_OK);
    assert_int_equal(profile_of(LIMIT_PROFILE_LINES + 1, 0, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "at most 1024"));
    assert_int_equal(profile_of(1, LIMIT_PROFILE_BYTES, &err), HASTEN_OK);
    assert_int_not_equal(profile_of(1, LIMIT_PROFILE_BYTES + 1, &err), HASTEN_OK);
    assert_non_null(strstr(err.message, "p.yaml"));
}

/* A safetensors file with this header. */
static hasten_status safetensors_of(const struct buf *header, struct hasten_error *err)
{
    struct safetensors *s = NULL;
    struct buf b = {0};
    const uint64_t len = header->len;
    assert_int_equal(buf_put(&b, &len, 8) | buf_put(&b, header->data, header->len), 0);
    *err = (struct hasten_error){0};
    const hasten_status st = st_open_memory(b.data, b.len, "limit.safetensors", &s, err);
    st_close(s);
    buf_free(&b);
    return st;
}

static void numbers_of_safetensors(void **state)
{
    (void)state;
    struct hasten_error err;
    struct buf b = {0};
    for (int beyond = 0; beyond < 2; beyond++) {
        repeat(&b, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,0],\"shape\":[0", ",1",
               (size_t)(LIMIT_ST_DIMS - 1 + beyond));
        assert_int_equal(buf_puts(&b, "]}}"), 0);
        safetensors_of(&b, &err);
        assert_true(!strstr(err.message, "at most 8 dimensions") == !beyond);
    }
    for (int beyond = 0; beyond < 2; beyond++) { /* tensors that are no tensors: they are counted first */
        char name[24];
        buf_clear(&b);
        for (int i = 0; i < LIMIT_ST_TENSORS + beyond; i++) {
            snprintf(name, sizeof name, "%s\"%d\":0", i ? "," : "{", i);
            assert_int_equal(buf_puts(&b, name), 0);
        }
        assert_int_equal(buf_puts(&b, "}"), 0);
        assert_int_equal(safetensors_of(&b, &err), beyond ? HASTEN_ERR_LIMIT : HASTEN_ERR_FILE);
        assert_true(!strstr(err.message, "found 262145 tensors (expected at most 262144)") == !beyond);
    }
    buf_free(&b);
}

/* Folders whose index names so many files, all of them one that holds nothing. */
static void numbers_of_files_in_a_folder(void **state)
{
    (void)state;
    struct hasten_error err = {0};
    struct buf index = {0};
    char text[80], inside[60] = "hf";
    assert_int_equal(file_mkdirs(path_of("hf"), NULL), HASTEN_OK);
    write_file(path_of("hf/config.json"), "{}", 2);
    write_file(path_of("hf/0.safetensors"), "\2\0\0\0\0\0\0\0{}", 10);
    for (int beyond = 0; beyond < 2; beyond++) {
        struct hf_folder *f = NULL;
        buf_clear(&index);
        for (int i = 0; i < LIMIT_ST_SHARDS + beyond; i++) {
            char from[100];
            snprintf(from, sizeof from, "%s", path_of("hf/0.safetensors"));
            snprintf(inside, sizeof inside, "hf/%d.safetensors", i);
            if (i && !(beyond && i < LIMIT_ST_SHARDS))
                assert_int_equal(link(from, path_of(inside)), 0);
            snprintf(text, sizeof text, "%s\"t%d\":\"%d.safetensors\"", i ? "," : "{\"weight_map\":{", i, i);
            assert_int_equal(buf_puts(&index, text), 0);
        }
        assert_int_equal(buf_puts(&index, "}}"), 0);
        write_file(path_of("hf/model.safetensors.index.json"), index.data, index.len);
        const hasten_status st = hf_folder_open(path_of("hf"), &f, &err);
        if (!st)
            hf_folder_close(f);
        if (!strstr(err.message, "more than 4096 files") != !beyond || (beyond && st != HASTEN_ERR_LIMIT))
            fail_msg("%d files: status %d, '%s'", LIMIT_ST_SHARDS + beyond, (int)st, err.message);
    }
    for (int i = 0; i <= LIMIT_ST_SHARDS; i++) {
        snprintf(inside, sizeof inside, "hf/%d.safetensors", i);
        unlink(path_of(inside));
    }
    unlink(path_of("hf/config.json"));
    unlink(path_of("hf/model.safetensors.index.json"));
    rmdir(path_of("hf"));
    buf_free(&index);
}

/* Rules of a scripted model: one with so many tokens, and a comment that makes the file so long. */
static hasten_status script_of(int n_tokens, size_t bytes, struct hasten_error *err)
{
    struct hasten_model *m = NULL;
    struct buf b = {0};
    char name[120];
    assert_int_equal(buf_puts(&b, "at 0:"), 0);
    for (int i = 0; i < n_tokens; i++)
        assert_int_equal(buf_puts(&b, " 65"), 0);
    assert_int_equal(buf_puts(&b, "\n#"), 0);
    while (b.len < bytes)
        assert_int_equal(buf_putc(&b, 'x'), 0);
    write_file(path_of("rules"), b.data, b.len);
    buf_free(&b);
    snprintf(name, sizeof name, "script:%s", path_of("rules"));
    *err = (struct hasten_error){0};
    const hasten_status st = hasten_model_open(name, &m, err);
    hasten_model_close(m);
    unlink(path_of("rules"));
    return st;
}

static void numbers_of_scripts(void **state)
{
    (void)state;
    struct hasten_error err;
    assert_int_equal(script_of(LIMIT_SCRIPT_ITEMS, 0, &err), HASTEN_OK);
    assert_int_equal(script_of(LIMIT_SCRIPT_ITEMS + 1, 0, &err), HASTEN_ERR_LIMIT);
    assert_non_null(strstr(err.message, "line 1: 65537 tokens (expected at most 65536)"));
    assert_int_equal(script_of(1, LIMIT_SCRIPT_BYTES, &err), HASTEN_OK);
    assert_int_not_equal(script_of(1, LIMIT_SCRIPT_BYTES + 1, &err), HASTEN_OK);
    assert_non_null(strstr(err.message, "rules"));
}

/* ---- JSON out ----------------------------------------------------------------------------------------------- */

/* Every beginning of a character, and halves of surrogate pairs, between two letters: valid JSON with U+FFFD. */
static void half_characters_in_json(void **state)
{
    (void)state;
    static const char *const pieces[] = {"\xc3",     "\xe2\x82",     "\xf0\x9f\x98", "\xf0\x9f",
                                         "\xf0",     "\xed\xa0\x80", "\xed\xb0\x80", "\x80",
                                         "\xc0\x80", "\xff",         "\xe2\x82\xe2", "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char text[12];
        const int len = snprintf(text, sizeof text, "a%sb", pieces[i]);
        json_t *v = json_bytes(text, (size_t)len), *back = NULL;
        struct hasten_error err = {0};
        assert_non_null(v);
        const char *said = json_string_value(v);
        assert_true(said[0] == 'a' && said[strlen(said) - 1] == 'b');
        assert_non_null(strstr(said, "\xef\xbf\xbd"));
        char *dumped = json_dumps(v, JSON_ENCODE_ANY);
        assert_non_null(dumped);
        struct buf list = {0};
        assert_true(!buf_putc(&list, '[') && !buf_puts(&list, dumped) && !buf_putc(&list, ']'));
        assert_int_equal(json_parse("out", list.data, list.len, &back, &err), HASTEN_OK);
        assert_true(json_equal(json_array_get(back, 0), v));
        json_decref(back);
        json_decref(v);
        free(dumped);
        buf_free(&list);
    }
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/hasten-limits-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const names[] = {"deep.yaml", "p.yaml", "tiny.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_documents),
        cmocka_unit_test(deep_arrays_of_gguf),
        cmocka_unit_test(deep_profiles),
        cmocka_unit_test(numbers_of_models),
        cmocka_unit_test(numbers_of_engines),
        cmocka_unit_test(numbers_of_vocabularies),
        cmocka_unit_test(numbers_of_shards),
        cmocka_unit_test(numbers_of_templates),
        cmocka_unit_test(numbers_of_profiles),
        cmocka_unit_test(half_characters_in_json),
        cmocka_unit_test(numbers_of_safetensors),
        cmocka_unit_test(numbers_of_scripts),
        cmocka_unit_test(numbers_of_files_in_a_folder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
