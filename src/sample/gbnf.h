/* Grammars in GBNF, the notation of llama.cpp (its grammars/README.md): text to rules.
 *
 *     root  ::= "yes" | "no" | list
 *     list  ::= item ("," item){0,9}    # a comment
 *     item  ::= [a-zA-Z_] [^ ,]*
 *
 * Text in quotes, classes of characters ([^...] any but these, `.` any), groups, `|`, and behind an item `?`, `*`, `+`,
 * `{n}`, `{n,}`, `{n,m}`. Escapes in text and classes: \n \r \t \\ \" \' \/ \[ \] \- \^, \xNN, \uNNNN, \UNNNNNNNN;
 * the last three are code points. A rule ends with its line, but not inside parentheses, behind `::=` or `|`, or
 * when the next line begins with `|`.
 *
 * A token of the vocabulary is `<name>`, its text with the angle brackets, or `<[id]>`: for control tokens, whose text no
 * quotes can say. Each of them is a byte of its own, from GBNF_TOKEN_BYTE on, which no UTF-8 has.
 *
 * What it does not do: give rules a meaning. That is rtn.h. */
#ifndef HASTEN_SAMPLE_GBNF_H
#define HASTEN_SAMPLE_GBNF_H
#include "base/error.h"
#include "sample/list.h"
#include <stdbool.h>

enum gbnf_kind {
    GBNF_TEXT,     /* bytes[first, first + n) */
    GBNF_CLASS,    /* one character of ranges[first, first + n) */
    GBNF_RULE,     /* rules[first] */
    GBNF_SEQUENCE, /* kids[first, first + n), one after another */
    GBNF_CHOICE,   /* one of these */
    GBNF_REPEAT    /* nodes[first], min to max times */
};

struct gbnf_node {
    enum gbnf_kind kind;
    int32_t first, n;
    int32_t min, max; /* max -1: without bound */
};

struct gbnf_range { /* code points lo ... hi; those of a class are ascending and apart, without surrogates */
    uint32_t lo, hi;
};

#define GBNF_TOKEN_BYTE 0xF5 /* the first of LIMIT_GRAMMAR_TOKENS */

struct gbnf_token {
    const char *name; /* into the text that was parsed, with its brackets; len 0: it is named by id */
    int32_t len, id;
};

struct gbnf_rule {
    const char *name; /* into the text that was parsed */
    int32_t name_len;
    int32_t first, body; /* its nodes are first ... body, kids before parents; body -1: not defined */
    size_t at;           /* where it is defined, in the text */
};

struct gbnf { /* all indices are of these lists */
    LIST(struct gbnf_node) nodes;
    LIST(int32_t) kids;
    LIST(struct gbnf_range) ranges;
    LIST(struct gbnf_rule) rules;   /* all defined once gbnf_parse is done */
    LIST(struct gbnf_token) tokens; /* token i is byte GBNF_TOKEN_BYTE + i */
    LIST(int32_t) table;            /* hash table over rules: index + 1 */
    struct buf bytes;
    char *text; /* a copy, which names point into */
    int32_t root;
};

/* text[0, len) as rules. HASTEN_ERR_FILE: not a grammar, HASTEN_ERR_UNSUPPORTED: any token but one,
 * HASTEN_ERR_LIMIT; each with NAME:line:column. */
hasten_status gbnf_parse(const char *name, const char *text, size_t len, struct gbnf **out,
                         struct hasten_error *err);
/* Line and column, both from 1, of a byte of the text. */
void gbnf_place(const struct gbnf *g, size_t at, int32_t *line, int32_t *column);
void gbnf_free(struct gbnf *g); /* NULL is fine */

#endif
