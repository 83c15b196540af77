/* Regular expressions as grammars: the subset that JSON Schema's authors write (ECMA 262), read into nodes and written
 * as GBNF (gbnf.h).
 *
 *     ^[A-Z]{2}-\d{4}$    (?:re|un)do    [^\s"]+    \u00e9    (?i)yes|no
 *
 * Characters, `.` (not a line end), classes with ranges, \d \w \s and their opposites (ASCII, as ECMA has them; \s is
 * Unicode's), \t \n \r \f \v \0 \xHH \uHHHH \u{H...} \cX, groups with and without a name, `|`, ? * + {n} {n,} {n,m} (lazy
 * forms are the same set of texts), (?i) at the beginning, ^ and $ at the ends. What a grammar cannot say (looking ahead
 * or behind, back references, word boundaries, anchors inside, possessive forms, \p{...}, other flags) is refused by
 * name.
 *
 * What it does not do: match. The parser of grammars does that. */
#ifndef HASTEN_SAMPLE_REGEX_H
#define HASTEN_SAMPLE_REGEX_H
#include "base/error.h"
#include "sample/list.h"
#include <stdbool.h>

enum regex_kind {
    REGEX_CLASS,    /* one character of ranges[first, first + n) */
    REGEX_SEQUENCE, /* kids[first, first + n), one after another; n 0: nothing */
    REGEX_CHOICE,   /* one of these */
    REGEX_REPEAT,   /* nodes[first], min to max times */
    REGEX_BEGIN,    /* ^ and $; none is left behind regex_parse */
    REGEX_END
};

struct regex_node {
    enum regex_kind kind;
    int32_t first, n;
    int32_t min, max; /* max -1: without bound */
};

struct regex_range { /* code points lo ... hi; those of a class are ascending and apart, without surrogates */
    uint32_t lo, hi;
};

struct regex { /* kids stand before their parents */
    LIST(struct regex_node) nodes;
    LIST(int32_t) kids;
    LIST(struct regex_range) ranges;
    int32_t root;
};

/* How the characters of a text are spelled. */
enum regex_spelling {
    REGEX_PLAIN, /* as they are */
    REGEX_JSON   /* inside the quotes of a JSON string: `"`, `\` and control characters by their escapes */
};

/* pattern[0, len). search: a text fits when a part of it does, so that without ^ or $ anything may stand before or
 * behind; else the whole of it does. what is for messages. HASTEN_ERR_FILE, HASTEN_ERR_UNSUPPORTED, HASTEN_ERR_LIMIT
 * with "WHAT: character N: ...". Zero-initialise out; regex_free in any case. */
hasten_status regex_parse(const char *what, const char *pattern, size_t len, bool search, struct regex *out,
                          struct hasten_error *err);
void regex_free(struct regex *r);

/* Characters of the shortest and of the longest text; *longest -1: without bound. */
int regex_lengths(const struct regex *r, int64_t *shortest, int64_t *longest);
/* Appends the expression as the body of a rule: 0, or -1 when out of memory. */
int regex_put(const struct regex *r, enum regex_spelling spelling, struct buf *gbnf);
/* The texts of min to max characters (max -1: without bound) among them. Where the expression bounds them already, or has one part whose length is free, that is all
 * it takes; else rules that count are written to `rules`, whose names begin with prefix. *done false, and nothing was
 * written: that would be too many rules. part: rather fewer texts than none: parts of free length share what is left, as far as
 * possible. */
int regex_put_bounded(const struct regex *r, enum regex_spelling spelling, int64_t min, int64_t max,
                      bool part, const char *prefix, struct buf *gbnf, struct buf *rules, bool *done);

/* The whole texts of a pattern, as a grammar with the rule root. */
hasten_status regex_grammar(const char *pattern, size_t len, struct buf *gbnf, struct hasten_error *err);

#endif
