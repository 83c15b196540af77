/* What a mask costs on the vocabulary of a model: JSON and something like C, text by text as a tokenizer cuts it. The
 * first texts warm up (each mask there is one that was never asked for); of the later ones, which are others, the median
 * and the 99th percentile, in CPU time. Fails when a median is above the bound, which is generous.
 *
 *     test_mask_cost MODEL.gguf
 *     test_mask_cost texts       prints the schemas and their texts as lines of JSON, for other libraries */
#include "base/mem.h"
#include "formats/gguf.h"
#include "grammars.h"
#include "sample/grammar.h"
#include "sample/json_schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TEXTS = 80,
    WARM = 40,
    MAX_MASKS = 100000,
    BOUND_US = 200
};

static uint64_t seed = 7;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

static const char *const words[] = {"name",  "value", "count", "id",    "list",  "price",
                                    "x",     "total", "left",  "right", "index", "size",
                                    "color", "user",  "email", "title", "state", "node"};

static const char *word(void)
{
    return words[below(sizeof words / sizeof *words)];
}

static void quoted_words(struct buf *b)
{
    buf_puts(b, "\"");
    for (uint32_t i = 0, n = 1 + below(4); i < n; i++)
        buf_printf(b, "%s%s", i ? below(4) ? " " : below(2) ? "\\n" : ", \xC3\xA9t\xC3\xA9 " : "", word());
    buf_puts(b, "\"");
}

static void json_value(struct buf *b, int depth)
{
    const uint32_t kind = below(depth ? 8 : 5);
    if (kind < 2)
        quoted_words(b);
    else if (kind == 2)
        buf_printf(b, "%d.%u", (int)below(2000) - 1000, below(100));
    else if (kind == 3)
        buf_printf(b, "%u", below(100000));
    else if (kind == 4)
        buf_puts(b, below(2) ? "true" : "null");
    else {
        const bool object = kind > 5;
        buf_puts(b, object ? "{" : "[");
        for (uint32_t i = 0, n = below(4); i < n; i++) {
            buf_puts(b, i ? ", " : "");
            if (object)
                buf_printf(b, "\"%s\": ", word());
            json_value(b, depth - 1);
        }
        buf_puts(b, object ? "}" : "]");
    }
}

static void json_text(struct buf *b)
{
    buf_puts(b, "{");
    for (uint32_t i = 0, n = 2 + below(4); i < n; i++) {
        buf_printf(b, "%s\"%s\": ", i ? ",\n  " : "\n  ", word());
        json_value(b, 4);
    }
    buf_puts(b, "\n}");
}

static void c_expression(struct buf *b, int depth)
{
    static const char *const between[] = {" + ", " * ", " < ", " == ", " && ", " - ", "->next + ", "[0] || "};
    const uint32_t kind = below(depth ? 8 : 2);
    if (kind == 0)
        buf_puts(b, word());
    else if (kind == 1)
        buf_printf(b, "%u", below(1000));
    else if (kind == 2) {
        buf_printf(b, "%s(", word());
        c_expression(b, depth - 1);
        buf_puts(b, ", \"text %d\\n\")");
    } else if (kind == 3) {
        buf_printf(b, "%s[", word());
        c_expression(b, depth - 1);
        buf_puts(b, "]");
    } else if (kind == 4) {
        buf_puts(b, "(");
        c_expression(b, depth - 1);
        buf_puts(b, ")");
    } else {
        buf_printf(b, "%s%s", word(), between[below(sizeof between / sizeof *between)]);
        c_expression(b, depth - 1);
    }
}

static void c_statement(struct buf *b, int depth)
{
    const uint32_t kind = below(depth ? 6 : 3);
    if (kind == 0) {
        buf_printf(b, "%s = ", word());
        c_expression(b, 3);
        buf_puts(b, ";\n");
    } else if (kind == 1) {
        buf_puts(b, "return ");
        c_expression(b, 2);
        buf_puts(b, ";\n");
    } else if (kind == 2) {
        buf_printf(b, "int %s = ", word());
        c_expression(b, 2);
        buf_puts(b, ";\n");
    } else {
        buf_puts(b, kind == 3 ? "if (" : kind == 4 ? "while (" : "for (i = 0; i < ");
        c_expression(b, 2);
        buf_puts(b, kind == 5 ? "; i++) {\n" : ") {\n");
        for (uint32_t i = 0, n = 1 + below(3); i < n; i++)
            c_statement(b, depth - 1);
        buf_puts(b, "}\n");
    }
}

static void c_text(struct buf *b)
{
    buf_printf(b, "int %s(char *%s, int n)\n{\n", word(), word());
    for (uint32_t i = 0, n = 2 + below(4); i < n; i++)
        c_statement(b, 3);
    buf_puts(b, "}\n");
}

/* Schemas as pydantic writes them: a user, an order with items, shapes that hold shapes. */
static const char user_schema[] =
    "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":1},\"name\":{\"type\":\"string\"},\"email\":{\"type\":"
    "\"string\"},\"age\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},{\"type\":\"null\"}]},\"role\":{\"enum\":[\"admin\","
    "\"editor\",\"viewer\"],\"type\":\"string\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":[\"id\",\"name\","
    "\"email\",\"role\"],\"additionalProperties\":false}";
static const char order_schema[] =
    "{\"$defs\":{\"Item\":{\"type\":\"object\",\"properties\":{\"sku\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-[0-9]{4}$\"},\"title\":{\"type\":"
    "\"string\",\"maxLength\":60},\"count\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":99},\"price\":{\"type\":\"number\",\"minimum\":0}},"
    "\"required\":[\"sku\",\"title\",\"count\",\"price\"],\"additionalProperties\":false}},\"type\":\"object\",\"properties\":{\"number\":{\"type\":"
    "\"integer\"},\"date\":{\"type\":\"string\",\"format\":\"date\"},\"items\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/Item\"},\"minItems\":1},"
    "\"paid\":{\"type\":\"boolean\"}},\"required\":[\"number\",\"date\",\"items\",\"paid\"],\"additionalProperties\":false}";
static const char shape_schema[] =
    "{\"$defs\":{\"Circle\":{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"circle\"},\"radius\":{\"type\":\"number\"}},\"required\":[\"kind\","
    "\"radius\"],\"additionalProperties\":false},\"Group\":{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"group\"},\"name\":{\"type\":\"string\"},"
    "\"parts\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"$ref\":\"#/$defs/Circle\"},{\"$ref\":\"#/$defs/Group\"}]}}},\"required\":[\"kind\",\"name\","
    "\"parts\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/Group\"}";

static void user_text(struct buf *b)
{
    static const char *const roles[] = {"admin", "editor", "viewer"};
    buf_printf(b, "{\"id\": %u, \"name\": ", 1 + below(100000));
    quoted_words(b);
    buf_printf(b, ", \"email\": \"%s.%s@%s.org\"", word(), word(), word());
    if (below(2))
        buf_printf(b, below(3) ? ", \"age\": %u" : ", \"age\": null", below(100));
    buf_printf(b, ", \"role\": \"%s\"", roles[below(3)]);
    if (below(2)) {
        buf_puts(b, ", \"tags\": [");
        for (uint32_t i = 0, n = below(4); i < n; i++)
            buf_printf(b, "%s\"%s\"", i ? ", " : "", word());
        buf_puts(b, "]");
    }
    buf_puts(b, "}");
}

static void order_text(struct buf *b)
{
    buf_printf(b, "{\"number\": %u, \"date\": \"20%02u-%02u-%02u\", \"items\": [", below(100000), below(60),
               1 + below(12), 1 + below(28));
    for (uint32_t i = 0, n = 1 + below(3); i < n; i++) {
        buf_printf(b, "%s{\"sku\": \"%c%c-%04u\", \"title\": ", i ? ", " : "", (char)('A' + below(26)),
                   (char)('A' + below(26)), below(10000));
        buf_printf(b, "\"%s %s %s\"", word(), word(), word());
        buf_printf(b, ", \"count\": %u, \"price\": %u.%02u}", 1 + below(99), below(1000), below(100));
    }
    buf_printf(b, "], \"paid\": %s}", below(2) ? "true" : "false");
}

static void shape(struct buf *b, int depth)
{
    if (depth == 0 || !below(3)) {
        buf_printf(b, "{\"kind\": \"circle\", \"radius\": %u.%u}", below(100), below(100));
        return;
    }
    buf_puts(b, "{\"kind\": \"group\", \"name\": ");
    quoted_words(b);
    buf_puts(b, ", \"parts\": [");
    for (uint32_t i = 0, n = below(4); i < n; i++) {
        buf_puts(b, i ? ", " : "");
        shape(b, depth - 1);
    }
    buf_puts(b, "]}");
}

static void shape_text(struct buf *b)
{
    buf_puts(b, "{\"kind\": \"group\", \"name\": \"all\", \"parts\": [");
    shape(b, 3);
    buf_puts(b, "]}");
}

static const struct schema_case {
    const char *name, *schema;
    void (*make)(struct buf *b);
} schemas[] = {{"a user", user_schema, user_text},
               {"an order", order_schema, order_text},
               {"shapes", shape_schema, shape_text}};

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

struct costs {
    double us[MAX_MASKS];
    int n;
};

/* The masks of one text; 0, or -1 after saying what went wrong. */
static int measure(struct grammar_masks *m, const struct vocab *v, const struct buf *text, uint64_t *bits,
                   struct costs *c)
{
    struct hasten_error err;
    struct grammar_state *s = NULL;
    struct tokens ids = {0};
    hasten_status st = grammar_start(m, &s, &err);
    if (!st)
        st = vocab_encode(v, text->data, text->len, VOCAB_NO_PREFIX, &ids, &err);
    for (int64_t i = 0; i <= ids.n && !st; i++) {
        int32_t n;
        const double t0 = cpu_us();
        st = grammar_mask(s, bits, &n, &err);
        if (c->n < MAX_MASKS)
            c->us[c->n++] = cpu_us() - t0;
        if (!st && i < ids.n)
            st = grammar_accept(s, ids.ids[i], &err);
    }
    if (st)
        fprintf(stderr, "%s\n%s\n", text->data, err.message);
    grammar_end(s);
    tokens_free(&ids);
    return st ? -1 : 0;
}

static void report(const char *what, struct costs *c, double *median)
{
    double sum = 0;
    qsort(c->us, (size_t)c->n, sizeof *c->us, by_value);
    for (int i = 0; i < c->n; i++)
        sum += c->us[i];
    *median = c->us[c->n / 2];
    printf("%-16s %6d masks: median %8.1f us, p99 %8.1f us, worst %9.1f us, all %8.1f ms\n", what, c->n,
           *median, c->us[(int)(0.99 * c->n)], c->us[c->n - 1], sum / 1e3);
}

static int try_grammar(const char *name, const char *text, void (*make)(struct buf *b), const struct vocab *v,
                       const struct token_trie *t)
{
    static struct costs cold, warm;
    struct hasten_error err = {0};
    struct grammar *g = NULL;
    struct grammar_masks *m = NULL;
    struct buf gbnf = {0};
    const double t0 = cpu_us();
    if (text[0] == '{' && json_schema_grammar(text, strlen(text), &gbnf, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    if (grammar_open(name, gbnf.len ? gbnf.data : text, gbnf.len ? gbnf.len : strlen(text), &g, &err) ||
        grammar_masks_open(g, t, GRAMMAR_TRIE, false, &m, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    printf("%s: compiled in %.2f ms\n", name, (cpu_us() - t0) / 1e3);
    buf_free(&gbnf);
    uint64_t *bits = mem_array((size_t)grammar_masks_n_words(m), sizeof *bits);
    int bad = !bits;
    cold.n = warm.n = 0;
    for (int i = 0; i < TEXTS && !bad; i++) {
        struct buf b = {0};
        make(&b);
        bad = measure(m, v, &b, bits, i < WARM ? &cold : &warm);
        buf_free(&b);
    }
    double median = 0;
    if (!bad) {
        report("  the first", &cold, &median);
        report("  those after", &warm, &median);
        printf("  remembered: %.1f MiB\n", (double)grammar_masks_bytes(m) / (1 << 20));
    }
    mem_free(bits);
    grammar_masks_close(m);
    grammar_close(g);
    return bad || median > BOUND_US;
}

/* {"name", "schema", "texts"} of each schema. */
static int print_texts(void)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        struct buf b = {0};
        json_t *texts = json_array(), *schema = json_loads(schemas[i].schema, 0, NULL);
        for (int k = 0; k < TEXTS; k++) {
            buf_clear(&b);
            schemas[i].make(&b);
            json_array_append_new(texts, json_stringn(b.data, b.len));
        }
        json_t *line =
            json_pack("{s:s, s:o, s:o}", "name", schemas[i].name, "schema", schema, "texts", texts);
        json_dumpf(line, stdout, JSON_COMPACT);
        puts("");
        json_decref(line);
        buf_free(&b);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "texts") == 0)
        return print_texts();
    struct hasten_error err = {0};
    struct gguf *g;
    struct vocab *v;
    struct token_trie *t;
    if (argc < 2 || gguf_open(argv[1], &g, &err) || vocab_open(g, &v, &err))
        return fprintf(stderr, "test_mask_cost: %s\n", argc < 2 ? "no model" : err.message), 1;
    const double t0 = cpu_us();
    if (token_trie_open(v, vocab_size(v), &t, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    printf("%d tokens, trie made in %.1f ms\n", (int)vocab_size(v), (cpu_us() - t0) / 1e3);
    int bad = try_grammar("JSON", JSON_GRAMMAR, json_text, v, t);
    bad |= try_grammar("C-like", C_GRAMMAR, c_text, v, t);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        bad |= try_grammar(schemas[i].name, schemas[i].schema, schemas[i].make, v, t);
    token_trie_close(t);
    vocab_close(v);
    gguf_close(g);
    return bad;
}
