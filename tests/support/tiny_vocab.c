/* The trainer behind tiny_vocab.h: counts neighbours, merges the most frequent pair, repeats. Slow and
 * obvious, which is right for a page of text. */
#include "tiny_vocab.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char sample[] =
    "The river runs past the old mill, and the children of the village come there in the evening to throw "
    "stones into the water. One of them has a question: how long does a stone remember the hand that threw "
    "it? Nobody answers, because the answer is in the stone. When the sun goes down they walk home together, "
    "talking about the things that they will do when they are older: build a house, learn a language, sail "
    "around the world, write a program that writes programs. The user asked the assistant to explain the "
    "system; the assistant explained it, and the user was happy with the explanation.\n\n"
    "int main(int argc, char **argv)\n{\n    for (int i = 0; i < argc; i++)\n"
    "        printf(\"%s\\n\", argv[i]);\n"
    "    return 0;\n}\n\ndef function(self, value):\n    if value is None:\n        return self.value\n"
    "    self.value = value\n\nimport numpy as np\n"
    "{\"name\": \"value\", \"list\": [1, 2, 3], \"other\": null}\n"
    "In 1984 there were 365 days and 12 months; 3.14159 is not 22/7. It's what we've got, isn't it? I'll go, "
    "you're here, they'd stay. HELLO WORLD! Don't SHOUT, please...\n"
    "Quel ramo del lago di Como, che volge a mezzogiorno, perch\xc3\xa9 la citt\xc3\xa0 \xc3\xa8 l\xc3\xa0. "
    "Stra\xc3\x9f"
    "e, \xc3\xbc"
    "ber, na\xc3\xafve, caf\xc3\xa9. "
    "\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd0\xbc\xd0\xb8\xd1\x80, "
    "\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82. "
    "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xb8\x96\xe7\x95\x8c\xef\xbc\x8c\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82 "
    "\xe3\x81\x93\xe3\x82\x93\xe3\x81\xab\xe3\x81\xa1\xe3\x81\xaf \xf0\x9f\x99\x82 \xf0\x9f\x8c\x8d\n";

#define MAX_SYMBOLS 8192
#define PAIR_SLOTS 16384
#define BORDER (-1) /* between words: nothing merges across it */

struct trainer {
    struct tiny_vocab *v;
    int32_t capacity, max_merges;
    int32_t symbols[MAX_SYMBOLS]; /* token ids of the sample, words set apart by BORDER */
    int32_t n_symbols;
    struct pair {
        int32_t left, right, count, first;
    } pairs[PAIR_SLOTS];
};

/* ---- tokens ---- */

static int32_t find_token(const struct tiny_vocab *v, const char *text, uint32_t len)
{
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (v->tokens[i].len == len && memcmp(v->tokens[i].text, text, len) == 0)
            return i;
    return -1;
}

static int32_t add_token(struct trainer *t, const char *text, uint32_t len, int32_t type, float score)
{
    struct tiny_vocab *v = t->v;
    if (v->n_tokens == t->capacity)
        return -1;
    struct tiny_token *token = &v->tokens[v->n_tokens];
    memcpy(token->text, text, len);
    token->len = len;
    token->type = type;
    token->score = score;
    return v->n_tokens++;
}

static int32_t add_text(struct trainer *t, const char *text, int32_t type, float score)
{
    return add_token(t, text, (uint32_t)strlen(text), type, score);
}

/* GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 onwards, in order. */
static uint32_t byte_char(uint32_t byte, char out[2])
{
    uint32_t code = byte, n = 0;
    bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    for (uint32_t b = 0; b < byte; b++)
        n += !((b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad));
    if (!printable)
        code = 256 + n;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
}

/* ---- the sample as symbols ---- */

static uint32_t char_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static bool is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

/* A word border lies before a space, a digit, a newline, and where letters meet others. */
static bool border_before(const char *p)
{
    uint8_t c = (uint8_t)p[0], before = (uint8_t)p[-1];
    if (c == ' ' || c == '\n' || (c >= '0' && c <= '9') || (before >= '0' && before <= '9') || before == '\n')
        return true;
    return before != ' ' && is_letter(c) != is_letter(before);
}

static void push(struct trainer *t, int32_t symbol)
{
    if (t->n_symbols < MAX_SYMBOLS)
        t->symbols[t->n_symbols++] = symbol;
}

static void split_bytes(struct trainer *t)
{
    char text[2];
    for (const char *p = sample; *p; p++) {
        if (p > sample && ((uint8_t)*p & 0xc0) != 0x80 && border_before(p))
            push(t, BORDER);
        uint32_t len = byte_char((uint8_t)*p, text);
        push(t, find_token(t->v, text, len));
    }
}

/* Characters; space becomes U+2581. Characters without a token (byte fallback) end the word. */
static void split_chars(struct trainer *t)
{
    uint32_t n;
    for (const char *p = sample; *p; p += n) {
        n = char_bytes((uint8_t)*p);
        if (p > sample && border_before(p))
            push(t, BORDER);
        int32_t id = *p == ' '    ? find_token(t->v, "\xe2\x96\x81", 3)
                     : *p == '\n' ? -1
                                  : find_token(t->v, p, n);
        push(t, id < 0 ? BORDER : id);
    }
}

/* ---- training ---- */

static struct pair *count_pairs(struct trainer *t)
{
    struct pair *best = NULL;
    memset(t->pairs, 0, sizeof t->pairs);
    for (int32_t i = 0; i + 1 < t->n_symbols; i++) {
        int32_t left = t->symbols[i], right = t->symbols[i + 1];
        if (left == BORDER || right == BORDER ||
            t->v->tokens[left].len + t->v->tokens[right].len >= TINY_TOKEN_BYTES)
            continue;
        uint32_t slot = ((uint32_t)left * 2654435761u ^ (uint32_t)right * 40503u) % PAIR_SLOTS;
        while (t->pairs[slot].count && (t->pairs[slot].left != left || t->pairs[slot].right != right))
            slot = (slot + 1) % PAIR_SLOTS;
        struct pair *p = &t->pairs[slot];
        if (p->count == 0)
            *p = (struct pair){left, right, 0, i};
        p->count++;
        if (!best || p->count > best->count || (p->count == best->count && p->first < best->first))
            best = p;
    }
    return best;
}

static void replace_pair(struct trainer *t, const struct pair *p, int32_t merged)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_symbols; i++) {
        bool hit = i + 1 < t->n_symbols && t->symbols[i] == p->left && t->symbols[i + 1] == p->right;
        t->symbols[n++] = hit ? merged : t->symbols[i];
        i += hit;
    }
    t->n_symbols = n;
}

/* Merges until there are n_tokens tokens or no pair is left. */
static void train(struct trainer *t, int32_t n_tokens)
{
    struct tiny_vocab *v = t->v;
    while (v->n_tokens < n_tokens && v->n_merges < t->max_merges) {
        const struct pair *p = count_pairs(t);
        if (!p)
            return;
        struct tiny_token left = v->tokens[p->left], right = v->tokens[p->right];
        char text[TINY_TOKEN_BYTES];
        memcpy(text, left.text, left.len);
        memcpy(text + left.len, right.text, right.len);
        int32_t merged = find_token(v, text, left.len + right.len);
        if (merged < 0)
            merged = add_token(t, text, left.len + right.len, TINY_NORMAL, -(float)v->n_merges);
        struct tiny_merge *m = &v->merges[v->n_merges++];
        memcpy(m->text, left.text, left.len);
        m->text[left.len] = ' ';
        memcpy(m->text + left.len + 1, right.text, right.len);
        m->len = left.len + 1 + right.len;
        replace_pair(t, p, merged);
    }
}

static void fill_up(struct trainer *t, int32_t n_tokens, const char *format_name, int32_t type, float score)
{
    for (int32_t i = 0; t->v->n_tokens < n_tokens; i++) {
        char text[TINY_TOKEN_BYTES];
        snprintf(text, sizeof text, "<%s%d>", format_name, i);
        add_text(t, text, type, score);
    }
}

static void add_chatml(struct trainer *t)
{
    struct tiny_vocab *v = t->v;
    int32_t end = add_text(t, "<|endoftext|>", TINY_CONTROL, 0);
    int32_t start = add_text(t, "<|im_start|>", TINY_CONTROL, 0);
    v->eos = add_text(t, "<|im_end|>", TINY_CONTROL, 0);
    v->bos = start;
    v->pad = v->unk = end;
}

static void make_bpe(struct trainer *t, enum tiny_vocab_kind kind, int32_t n_tokens)
{
    char text[2];
    if (kind == TINY_SMOLLM)
        add_chatml(t);
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t len = byte_char(b, text);
        add_token(t, text, len, TINY_NORMAL, 0);
    }
    split_bytes(t);
    train(t, kind == TINY_SMOLLM ? n_tokens : n_tokens - 3);
    if (kind == TINY_QWEN2)
        add_chatml(t);
    fill_up(t, n_tokens, "unused", TINY_UNUSED, 0);
}

static void add_sentencepiece_base(struct trainer *t)
{
    struct tiny_vocab *v = t->v;
    char text[16];
    v->pad = add_text(t, "<pad>", TINY_CONTROL, -1000);
    v->eos = add_text(t, "<eos>", TINY_CONTROL, -1000);
    v->bos = add_text(t, "<bos>", TINY_CONTROL, -1000);
    v->unk = add_text(t, "<unk>", TINY_CONTROL, -1000);
    add_text(t, "<start_of_turn>", TINY_CONTROL, -1000);
    add_text(t, "<end_of_turn>", TINY_CONTROL, -1000);
    for (uint32_t n = 1; n <= 3; n++)
        add_token(t, "\n\n\n", n, TINY_USER_DEFINED, -1000);
    for (uint32_t n = 2; n <= 4; n++)
        add_token(t, "    ", n, TINY_USER_DEFINED, -1000);
    for (uint32_t b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", b);
        add_text(t, text, TINY_BYTE, 0);
    }
}

static void make_sentencepiece(struct trainer *t, int32_t n_tokens)
{
    float score = -10000; /* characters come after every merge */
    add_sentencepiece_base(t);
    add_text(t, "\xe2\x96\x81", TINY_NORMAL, score--);
    for (const char *p = sample; *p; p += char_bytes((uint8_t)*p)) {
        uint32_t len = char_bytes((uint8_t)*p);
        bool by_bytes = len == 4 || *p == ' ' || *p == '\n' || *p == '{' || *p == '}';
        if (!by_bytes && find_token(t->v, p, len) < 0)
            add_token(t, p, len, TINY_NORMAL, score--);
    }
    split_chars(t);
    train(t, n_tokens);
    fill_up(t, n_tokens, "unused", TINY_CONTROL, -1000);
}

int tiny_vocab_make(enum tiny_vocab_kind kind, int32_t n_tokens, struct tiny_vocab *out)
{
    *out = (struct tiny_vocab){0};
    if (n_tokens < TINY_MIN_VOCAB)
        return -1;
    struct trainer *t = mem_calloc(1, sizeof *t);
    out->tokens = mem_calloc((size_t)n_tokens, sizeof *out->tokens);
    out->merges = mem_calloc((size_t)n_tokens * 2, sizeof *out->merges);
    if (!t || !out->tokens || !out->merges) {
        mem_free(t);
        tiny_vocab_free(out);
        return -1;
    }
    t->v = out;
    t->capacity = n_tokens;
    t->max_merges = n_tokens * 2;
    if (kind == TINY_GEMMA3)
        make_sentencepiece(t, n_tokens);
    else
        make_bpe(t, kind, n_tokens);
    mem_free(t);
    return 0;
}

void tiny_vocab_free(struct tiny_vocab *v)
{
    mem_free(v->tokens);
    mem_free(v->merges);
    *v = (struct tiny_vocab){0};
}
