/* What a mask costs on the vocabulary of a model: JSON and something like C, text by text as a tokenizer cuts it. The
 * first texts warm up (each mask there is one that was never asked for); of the later ones, which are others, the median
 * and the 99th percentile, in CPU time. Fails when a median is above the bound, which is generous.
 *
 *     test_mask_cost MODEL.gguf */
#include "base/mem.h"
#include "formats/gguf.h"
#include "grammars.h"
#include "sample/grammar.h"
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

static void json_string(struct buf *b)
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
        json_string(b);
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
    const double t0 = cpu_us();
    if (grammar_open(name, text, strlen(text), &g, &err) ||
        grammar_masks_open(g, t, GRAMMAR_TRIE, false, &m, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    printf("%s: compiled in %.2f ms\n", name, (cpu_us() - t0) / 1e3);
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

int main(int argc, char **argv)
{
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
    token_trie_close(t);
    vocab_close(v);
    gguf_close(g);
    return bad;
}
