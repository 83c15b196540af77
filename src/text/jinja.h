/* Inside of the template interpreter (template.h is the outside): values, syntax tree, the state of one
 * rendering, and what its files offer to each other.
 *
 *     jinja_lex.c    source -> tokens (whitespace control lives here)
 *     jinja_expr.c   tokens -> expression nodes        jinja_stmt.c  tokens -> statement nodes
 *     jinja_eval.c   expressions                       jinja_exec.c  statements, scopes, macros
 *     jinja_arena.c  memory, and the origin of each byte in it
 *     jinja_value.c  lists, dicts, iteration           jinja_ops.c   operators, comparison
 *     jinja_subscript.c  attributes, items, slices
 *     jinja_text.c   str, repr, JSON text              jinja_case.c  code points, upper and lower case
 *     jinja_filter.c, jinja_filter_seq.c, jinja_test.c, jinja_global.c, jinja_string.c, jinja_method.c (of strings,
 *     of the rest), jinja_format.c   the builtins
 *
 * Conventions. Functions that can fail return bool; false means that r->status and the error are set (once,
 * by jinja_fail or jinja_no_memory). Values are small structs passed by pointer; what they point to lives in
 * the arena of the rendering, in the template or in the context, is never changed after it was made (a
 * namespace, a generator's position and loop state excepted) and is freed all at once. */
#ifndef HASTEN_TEXT_JINJA_H
#define HASTEN_TEXT_JINJA_H
#include "base/depth.h"
#include "base/limits.h"
#include "text/template.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- arena -------------------------------------------------------------------------------------------- */

struct jchunk;
struct jarena {
    struct jchunk *chunks;
    char *base, *cur, *end; /* of the newest chunk */
    size_t used, limit;     /* bytes taken from the allocator, and how many may be */
    bool over;              /* the last failure was the limit, not the allocator */
    bool tracked;           /* the origin of text bytes is followed */
};
void *jarena_alloc(struct jarena *a, size_t size); /* aligned for any value; NULL on failure */
char *jarena_bytes(struct jarena *a, size_t size); /* unaligned */
/* Grows the block [p, p + old) to size bytes, in place when it is the newest one. p itself stays readable. */
char *jarena_grow(struct jarena *a, const char *p, size_t old, size_t size);
void jarena_free(struct jarena *a);
/* Origins, one byte per byte of the arena: 1 for content, 0 for the template's own. NULL: all that stands at p
 * (in the arena or not) is the template's own. */
const uint8_t *jarena_origin(const struct jarena *a, const char *p);
/* Sets those of dst[0, len), which lies in the arena: from[len], or all the same when from is NULL. false: no
 * memory. */
bool jarena_mark(struct jarena *a, const char *dst, size_t len, const uint8_t *from, bool all);

/* ---- values ------------------------------------------------------------------------------------------- */

enum jtype {
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STR,
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_RANGE,
    J_VIEW,
    J_ITER,
    J_NS,
    J_LOOP,
    J_MACRO,
    J_FUNC,
    J_METHOD
};
enum {
    J_HINT_NAME,
    J_HINT_ATTR,
    J_HINT_UNSAFE,
    J_HINT_TEXT
}; /* flag of J_UNDEF: what s means */
enum {
    J_VIEW_ITEMS,
    J_VIEW_KEYS,
    J_VIEW_VALUES
}; /* flag of J_VIEW */

struct jval {
    uint8_t type, flag; /* flag of J_STR: 1 if marked safe; of J_TUPLE: 1 if it is a group of groupby */
    uint32_t len;       /* bytes of s */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* UTF-8, not terminated */
        struct jlist *list;
        struct jdict *dict; /* J_DICT, J_VIEW, J_NS */
        struct jrange *range;
        struct jiter *iter;
        struct jloop *loop;
        struct jmacro *macro;
        const struct jbuiltin *fn;
        struct jmethod *method;
    } u;
};

struct jlist {
    size_t n;
    struct jval *v;
    size_t cap; /* while it is being built */
};
struct jentry {
    struct jval key, val;
    uint32_t hash;
};
struct jdict {              /* keeps insertion order */
    size_t n, cap, n_slots; /* n_slots: 0 for small ones, searched in order */
    struct jentry *e;
    uint32_t *slots; /* index + 1, open addressing */
};
struct jrange {
    int64_t start, stop, step, n;
};
struct jiter { /* what Python would give as a generator: can be walked once */
    struct jlist *list;
    size_t pos;
    const char *what;
    const char *error; /* not NULL: what walking it fails with */
};
struct jloop {
    struct jlist *items;
    size_t index0;
    bool has_changed;
    struct jlist *changed;
    bool known_length;        /* false when Python would print the length only after a walk */
    const struct jnode *node; /* N_FOR, and where it stands: a recursive loop can be called */
    struct jscope *scope;
    int64_t depth0;
};
struct jmethod {
    struct jval self;
    const struct jbuiltin *fn;
    struct jval *bound; /* loop.cycle, loop.changed */
};
struct jmacro {
    const struct jnode *node; /* N_MACRO or N_CALLBLOCK */
    struct jscope *scope;     /* where it was defined */
};

/* ---- calls -------------------------------------------------------------------------------------------- */

struct jkw {
    const char *name;
    uint32_t len;
    struct jval v;
};
struct jargs {
    struct jval *v;
    size_t n, cap;
    struct jkw *kw;
    size_t n_kw, cap_kw;
};
#define J_MAX_PARAMS 6
struct jcall {
    const struct jbuiltin *fn;
    struct jval self; /* of a method, filter or test: the value it is applied to */
    struct jval a[J_MAX_PARAMS];
    bool given[J_MAX_PARAMS];
    const struct jargs *raw;
};
struct jrun;
/* One builtin. params: names separated by spaces; "name?" is optional, "/" is positional only, "*" at the end
 * passes everything through raw. op: for functions that serve several names. */
struct jbuiltin {
    const char *name, *params;
    bool (*fn)(struct jrun *r, struct jcall *c, struct jval *out);
    int op;
};

/* ---- syntax tree -------------------------------------------------------------------------------------- */

enum jtok {
    T_EOF,
    T_DATA,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_VAR_BEGIN,
    T_VAR_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_DIV,
    T_FLOORDIV,
    T_MUL,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GE,
    T_LT,
    T_LE,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
    T_IN,
    T_NOT_IN,
    T_AND,
    T_OR /* only as operators of chains */
};

enum jkind {
    N_CONST,
    N_NAME,
    N_LIST,
    N_TUPLE,
    N_DICT,
    N_NOT,
    N_NEG,
    N_POS,
    N_CHAIN,   /* a op b op c ... of one precedence: operands in list, op on each but the first */
    N_COND,    /* a if b else c (c may be NULL) */
    N_POSTFIX, /* a, then the suffixes in list: */
    N_ATTR,
    N_ITEM,
    N_SLICE,
    N_CALL,
    N_FILTER,
    N_TEST,
    N_NOT_TEST,
    N_ARG,
    N_KWARG,
    N_STAR,
    N_STARSTAR, /* arguments: a is the value */
    N_NSREF,    /* assignment target ns.attr */
    N_DATA,
    N_PRINT,
    N_FOR,
    N_IF,
    N_SET,
    N_SETBLOCK,
    N_MACRO,
    N_CALLBLOCK,
    N_FILTERBLOCK,
    N_WITH,
    N_SCOPE,
    N_BREAK,
    N_CONTINUE
};
enum { /* levels of binary operators, loosest first */
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_ADD,
    LEVEL_CONCAT,
    LEVEL_MUL,
    LEVEL_POW,
    LEVEL_UNARY
};
enum { /* flags of N_FOR */
    FOR_ELSE = 1,
    FOR_RECURSIVE = 2
};
enum { /* flags of N_MACRO and N_CALLBLOCK: special names that the body mentions */
    MACRO_CALLER = 1,
    MACRO_KWARGS = 2,
    MACRO_VARARGS = 4
};

struct jnode {
    uint8_t kind, op, level, flags;
    uint32_t pos;              /* byte offset in the source */
    uint32_t len;              /* of name */
    const char *name;          /* interned: equal names have equal pointers */
    const struct jbuiltin *fn; /* N_FILTER, N_TEST: NULL when unknown (fails when reached) */
    struct jnode *a, *b, *c;
    struct jnode *list, *els, *next;
    struct jval value; /* N_CONST, N_DATA */
};

enum {
    NAME_LOOP,
    NAME_CALLER,
    NAME_KWARGS,
    NAME_VARARGS,
    N_NAMES
};

struct template
{
    char *name;
    char *source; /* line ends normalised */
    size_t len;
    struct jarena arena;
    struct jnode *body;
    const char *special[N_NAMES]; /* the interned names that the interpreter itself assigns */
};

/* ---- parser ------------------------------------------------------------------------------------------- */

struct jtoken {
    enum jtok type;
    uint32_t pos, len;
    const char *s; /* T_NAME: interned; T_STRING: decoded; T_DATA */
    int64_t i;
    double f;
};
struct jname {
    const char *s;
    uint32_t len;
};
struct jparse {
    struct template *t;
    struct hasten_error *err;
    hasten_status status;
    /* lexer */
    size_t at;
    enum {
        LEX_ROOT,
        LEX_BLOCK,
        LEX_VAR,
        LEX_BEGIN,
        LEX_RAW
    } mode, next_mode;
    enum jtok begin; /* LEX_BEGIN: the token that follows the data */
    uint32_t begin_pos, begin_len;
    bool line_starting;
    char brackets[LIMIT_TEMPLATE_DEPTH];
    int n_brackets;
    struct jname *names;
    size_t n_names, cap_names;
    /* parser */
    struct jtoken cur, ahead;
    bool has_ahead;
    struct depth depth;
    int loops;     /* for statements around, up to the macro */
    int all_loops; /* and across macros */
    bool soft;     /* inside a condition: unknown filters fail when reached, not here */
    uint8_t *macro_flags;
};

bool jinja_syntax(struct jparse *p, uint32_t pos, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool jinja_parse_memory(struct jparse *p);
bool jinja_next(struct jparse *p); /* p->cur becomes the next token */
bool jinja_look(struct jparse *p); /* p->ahead becomes the one after p->cur */
bool jinja_lex_token(struct jparse *p, struct jtoken *t);
const char *jinja_intern(struct jparse *p, const char *s, size_t len); /* NULL: p->status is set */
void jinja_position(const struct template *t, uint32_t pos, int *line, int *column);

struct jnode *jinja_node(struct jparse *p, enum jkind kind, uint32_t pos);
bool jinja_is(const struct jparse *p, const char *name); /* the current token is this name */
bool jinja_expect(struct jparse *p, enum jtok type);
bool jinja_unexpected(struct jparse *p, const struct jtoken *t);
bool jinja_expr(struct jparse *p, bool with_cond, struct jnode **out);
bool jinja_tuple(struct jparse *p, bool with_cond, bool explicit_parens, struct jnode **out);
bool jinja_primary(struct jparse *p, struct jnode **out);
bool jinja_filter_suffix(struct jparse *p, struct jnode **out);
bool jinja_parse_body(struct jparse *p); /* the whole template into p->t->body */

/* ---- one rendering ------------------------------------------------------------------------------------ */

struct jvar {
    const char *name;
    struct jval v;
};
struct jscope {
    struct jscope *parent;
    struct jvar *vars;
    size_t n, cap;
};
struct jrun {
    const struct template *t;
    struct hasten_error *err;
    hasten_status status;
    struct jarena arena;
    struct buf *out;
    size_t out_start;
    struct depth depth;
    uint64_t steps;
    uint32_t pos; /* in the source: what errors name */
    struct jscope *scope;
    struct jdict *context;
    struct buf *origin; /* NULL, or one byte for each of out from out_start on (template.h) */
    bool content;       /* jinja_from_json reads what came from outside */
};

bool jinja_fail(struct jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool jinja_no_memory(struct jrun *r);
bool jinja_work(struct jrun *r, uint64_t n_bytes); /* counts steps for a walk over that many bytes */
bool jinja_enter(struct jrun *r);
void jinja_leave(struct jrun *r);
bool jinja_eval(struct jrun *r, const struct jnode *n, struct jval *out);
bool jinja_eval_args(struct jrun *r, const struct jnode *list, struct jargs *out);
bool jinja_call(struct jrun *r, const struct jval *f, struct jargs *args, struct jval *out);
bool jinja_call_builtin(struct jrun *r, const struct jbuiltin *fn, const struct jval *self,
                        const struct jargs *args, struct jval *out);
bool jinja_call_macro(struct jrun *r, const struct jmacro *m, struct jargs *args, struct jval *out);
bool jinja_call_loop(struct jrun *r, const struct jloop *l, const struct jargs *args, struct jval *out);
bool jinja_apply_suffix(struct jrun *r, const struct jnode *s, struct jval *v);
bool jinja_run(struct jrun *r);
bool jinja_args_push(struct jrun *r, struct jargs *a, const struct jval *v);
bool jinja_args_kw(struct jrun *r, struct jargs *a, const char *name, size_t len, const struct jval *v);

/* values */
static inline struct jval jv_none(void)
{
    return (struct jval){.type = J_NONE};
}
static inline struct jval jv_bool(bool b)
{
    return (struct jval){.type = J_BOOL, .u.b = b};
}
static inline struct jval jv_int(int64_t i)
{
    return (struct jval){.type = J_INT, .u.i = i};
}
static inline struct jval jv_float(double f)
{
    return (struct jval){.type = J_FLOAT, .u.f = f};
}
static inline struct jval jv_str(const char *s, size_t len)
{
    return (struct jval){.type = J_STR, .len = (uint32_t)len, .u.s = s};
}
static inline struct jval jv_list(struct jlist *l)
{
    return (struct jval){.type = J_LIST, .u.list = l};
}
static inline struct jval jv_dict(struct jdict *d)
{
    return (struct jval){.type = J_DICT, .u.dict = d};
}
struct jval jv_text(const char *s); /* of a literal */
struct jval jv_undef(int hint, const char *s, size_t len);
const char *jv_type_name(const struct jval *v); /* as Python calls it */
bool jv_is(const struct jval *v, const char *s);
bool jv_true(const struct jval *v);
bool jv_is_int(const struct jval *v); /* integer or boolean */
int64_t jv_as_int(const struct jval *v);
bool jv_is_num(const struct jval *v);
double jv_as_float(const struct jval *v);

bool jlist_new(struct jrun *r, size_t cap, struct jlist **out);
bool jlist_push(struct jrun *r, struct jlist *l, const struct jval *v);
bool jdict_new(struct jrun *r, size_t cap, struct jdict **out);
bool jdict_set(struct jrun *r, struct jdict *d, const struct jval *key, const struct jval *v);
bool jdict_get(struct jrun *r, const struct jdict *d, const struct jval *key,
               struct jval **out); /* or NULL */
bool jdict_find_str(struct jrun *r, const struct jdict *d, const char *s, size_t len, struct jval **out);
bool jinja_hash(struct jrun *r, const struct jval *v, uint32_t *out);
bool jinja_list_of(struct jrun *r, const struct jval *v, struct jlist **out); /* walks any iterable */
bool jinja_iterable(const struct jval *v);
bool jinja_iter_new(struct jrun *r, const char *what, struct jlist *l, struct jval *out);
bool jinja_pair(struct jrun *r, const struct jval *a, const struct jval *b, struct jval *out);
bool jinja_len(struct jrun *r, const struct jval *v, int64_t *out);
bool jinja_from_json(struct jrun *r, const json_t *j, struct jval *out);

/* operators */
bool jinja_binary(struct jrun *r, enum jtok op, const struct jval *a, const struct jval *b, struct jval *out);
bool jinja_compare(struct jrun *r, enum jtok op, const struct jval *a, const struct jval *b, bool *out);
bool jinja_equal(struct jrun *r, const struct jval *a, const struct jval *b, bool *out);
bool jinja_order(struct jrun *r, const struct jval *a, const struct jval *b,
                 int *out); /* 2: unordered (NaN) */
bool jinja_contains(struct jrun *r, const struct jval *set, const struct jval *v, bool *out);
bool jinja_unary(struct jrun *r, bool minus, const struct jval *a, struct jval *out);
bool jinja_attr(struct jrun *r, const struct jval *v, const char *name, size_t len, struct jval *out);
bool jinja_item(struct jrun *r, const struct jval *v, const struct jval *key, struct jval *out);
bool jinja_slice(struct jrun *r, const struct jval *v, const struct jval *lo, const struct jval *hi,
                 const struct jval *step, struct jval *out);
bool jinja_undef_error(struct jrun *r, const struct jval *v);

/* text */
struct jbuild { /* a string that grows in the arena */
    struct jrun *r;
    char *p;
    size_t len, cap;
    bool
        content; /* origin of what is put in from elsewhere than a value: an escape made of a value's character */
};
bool jb_put(struct jbuild *b, const char *s, size_t len);
bool jb_puts(struct jbuild *b, const char *s);
bool jb_cp(struct jbuild *b, uint32_t cp);
bool jb_done(struct jbuild *b, struct jval *out);
bool jinja_str(struct jrun *r, const struct jval *v, struct jval *out); /* str(v) */
bool jinja_copy_origin(struct jrun *r, const char *dst, const char *src, size_t len, bool otherwise);
bool jinja_is_content(const struct jrun *r, const struct jval *s); /* any byte of a string */
bool jinja_own_string(struct jrun *r, struct jval *s);             /* moves content into the arena, marked */
bool jinja_trusted(const char *key, size_t key_len, const json_t *v);
bool jinja_put_str(struct jbuild *b, const struct jval *v);
bool jinja_put_repr(struct jbuild *b, const struct jval *v);
bool jinja_put_float(struct jbuild *b, double f);
struct jjson {
    bool ascii, sort_keys, has_indent;
    struct jval indent; /* string: one level */
    struct jval item_sep, key_sep;
};
bool jinja_put_json(struct jbuild *b, const struct jval *v, const struct jjson *o);
bool jinja_concat(struct jrun *r, const struct jval *a, const struct jval *b, struct jval *out);
bool jinja_escape_html(struct jrun *r, const struct jval *v, struct jval *out);
bool jinja_percent(struct jrun *r, const struct jval *fmt, const struct jval *args, struct jval *out);
bool jinja_str_format(struct jrun *r, const struct jval *fmt, const struct jargs *args, struct jval *out);
bool jinja_parse_number(const char *s, size_t len, bool want_float, int base, struct jval *out,
                        bool *overflow);
double jinja_strtod(const char *s, size_t len); /* digits checked before; independent of the locale */

/* code points */
uint32_t jcp_next(const char *s, size_t len, size_t *at); /* valid UTF-8 is taken for granted */
size_t jcp_put(char *dst, uint32_t cp);                   /* bytes written, at most 4 */
size_t jcp_count(const char *s, size_t len);
size_t jcp_offset(const char *s, size_t len, size_t n); /* byte offset of code point n, or len */
bool jcp_space(uint32_t cp);
bool jcp_printable(uint32_t cp);
bool jcp_cased(uint32_t cp, int *which); /* which: 1 upper, -1 lower, 0 title */
bool jcp_alpha(uint32_t cp);
bool jcp_digit(uint32_t cp, int which); /* 0 decimal, 1 digit, 2 numeric */
enum jcase {
    CASE_UPPER,
    CASE_LOWER,
    CASE_TITLE,
    CASE_CAPITAL,
    CASE_SWAP,
    CASE_FOLD
};
bool jinja_case(struct jrun *r, const struct jval *v, enum jcase how, struct jval *out);
struct jval jinja_strip(const struct jval *v, const struct jval *chars, bool left, bool right);
bool jinja_replace(struct jrun *r, const struct jval *s, const struct jval *old, const struct jval *with,
                   int64_t max, struct jval *out);
bool jinja_splitlines(struct jrun *r, const struct jval *s, bool keep, struct jlist **out);
size_t jinja_find(const char *s, size_t n, const char *sub, size_t m, size_t from); /* SIZE_MAX: not there */
bool jinja_join(struct jrun *r, const struct jval *sep, const struct jlist *l, bool strict, struct jval *out);

/* tables; NULL when there is none of that name */
const struct jbuiltin *jinja_find_filter(const char *s, size_t len);
const struct jbuiltin *jinja_find_seq_filter(const char *s, size_t len);
const struct jbuiltin *jinja_find_test(const char *s, size_t len);
const struct jbuiltin *jinja_find_method(const struct jval *self, const char *s, size_t len);
const struct jbuiltin *jinja_find_str_method(const char *s, size_t len);
const struct jbuiltin *jinja_find_global(const char *s, size_t len);
bool jinja_mutator(const struct jval *self, const char *s, size_t len); /* forbidden by the sandbox */
const struct jbuiltin *jinja_search(const struct jbuiltin *table, size_t n, const char *s, size_t len);
bool jinja_run_test(struct jrun *r, const struct jbuiltin *t, const struct jval *v, const struct jargs *args,
                    bool *out);
bool jinja_attr_path(struct jrun *r, const struct jval *v, const struct jval *path, const struct jval *dflt,
                     struct jval *out);

#endif
