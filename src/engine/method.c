/* The registry of methods and their specs, "name:key=value,...". Knows no stage. */
#include "engine/method.h"
#include "base/values.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the registry --------------------------------------------------------------------------------------------- */

#ifdef HASTEN_WITHOUT_PACKAGES
#define METHOD_HOSTED(name)
#else
#define METHOD_HOSTED(name) METHOD(name)
#endif
#define METHOD(name) extern const struct method method_##name;
#include "engine/methods.def"
#undef METHOD

static const struct method *const all[] = {
#define METHOD(name) &method_##name,
#include "engine/methods.def"
#undef METHOD
};

const struct method *const *methods_all(int32_t *n)
{
    *n = (int32_t)(sizeof all / sizeof *all);
    return all;
}

static const struct {
    const char *name, *title;
} stages[METHOD_STAGES] = {
    [STAGE_WEIGHTS] = {"weights", "what a matrix is made of, how it is multiplied"},
    [STAGE_DEPTH] = {"depth", "which layers a row runs through"},
    [STAGE_ATTEND] = {"attend", "what of the cache a query reads"},
    [STAGE_CACHE] = {"cache", "what the cache keeps, in which form"},
    [STAGE_STORE] = {"store", "what is kept between requests"},
    [STAGE_DRAFT] = {"draft", "who proposes tokens that one pass then checks"},
    [STAGE_SAMPLE] = {"sample", "which tokens may be chosen"},
    [STAGE_CONTEXT] = {"context", "what of the prompt is read"},
    [STAGE_STOP] = {"stop", "when it is enough"},
    [STAGE_SCHEDULE] = {"schedule", "whose tokens share a pass"},
    [STAGE_DECIDE] = {"decide", "which of several things to do, without generating"},
    [STAGE_MODALITY] = {"modality", "what is read besides text"},
};

const char *method_stage_name(enum method_stage s)
{
    return stages[s].name;
}

const char *method_stage_option(enum method_stage s)
{
    return s == STAGE_STOP ? "stop-when" : stages[s].name;
}

const char *method_stage_title(enum method_stage s)
{
    return stages[s].title;
}

const char *method_guarantee_name(enum method_guarantee g)
{
    static const char *const names[] = {"exact", "distribution-exact", "approximate"};
    return names[g];
}

/* The methods of a stage: their names into names[n_all], how many. */
static int names_of(enum method_stage stage, const char **names)
{
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->stage == stage)
            names[n++] = all[i]->name;
    return n;
}

const struct method *method_find(enum method_stage stage, const char *name, struct hasten_error *err)
{
    const char *names[sizeof all / sizeof *all];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->stage == stage && strcmp(all[i]->name, name) == 0)
            return all[i];
    const char *near = nearest_word(name, names, names_of(stage, names));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!near && strcmp(all[i]->name, name) == 0) {
            error_set(err, HASTEN_ERR_USAGE, "--%s: unknown method '%s' (it is one of --%s)",
                      method_stage_option(stage), name, method_stage_option(all[i]->stage));
            return NULL;
        }
    error_set(err, HASTEN_ERR_USAGE,
              near ? "--%s: unknown method '%s' (did you mean %s?)"
                   : "--%s: unknown method '%s' (hasten methods lists them)",
              method_stage_option(stage), name, near);
    return NULL;
}

/* ---- values of knobs ------------------------------------------------------------------------------------------ */

int32_t budget_of(double budget, int32_t n)
{
    if (!(budget < (double)INT32_MAX))
        return n;
    const double entries = budget < 1 ? ceil(budget * n) : budget;
    return entries >= n ? n : entries < 1 ? 1 : (int32_t)entries;
}

/* Digits, at most one point among them, perhaps a % at the end: no signs, exponents or other bases. */
static bool is_plain_number(const char *text)
{
    const size_t digits = strspn(text, "0123456789."), len = strlen(text);
    const char *point = strchr(text, '.');
    return digits > 0 && (digits == len || (digits + 1 == len && text[digits] == '%')) &&
           !(point && strchr(point + 1, '.'));
}

/* Numbers with a point or a % are shares: 1.0 is all. */
static hasten_status parse_budget(const char *text, double *out, struct hasten_error *err)
{
    const bool share = strpbrk(text, ".%") != NULL;
    double x = is_plain_number(text) ? strtod(text, NULL) : 0;
    if (strchr(text, '%'))
        x /= 100;
    if (strcmp(text, "all") == 0 || (share && x == 1))
        x = INFINITY;
    else if (!(x > 0) || x > INT32_MAX || (share && x > 1))
        return error_set(
            err, HASTEN_ERR_USAGE,
            "'%s' (expected all, a number of entries such as 1024, or a share of them such as 0.125)", text);
    *out = x;
    return HASTEN_OK;
}

/* One number or range of KNOB_LAYERS; *at moves behind it. */
static bool add_range(const char **at, struct layer_set *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    const long first = strtol(*at, &end, 10);
    long last = first;
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9')
            return false;
        last = strtol(end + 1, &end, 10);
    }
    if (first > last || last >= LIMIT_LAYERS)
        return false;
    for (long i = first; i <= last; i++)
        out->bits[i / 64] |= (uint64_t)1 << (i % 64);
    *at = end;
    return true;
}

static hasten_status parse_layers(const char *text, struct layer_set *out, struct hasten_error *err)
{
    memset(out, strcmp(text, "all") == 0 ? 0xff : 0, sizeof *out);
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0)
        return HASTEN_OK;
    const char *at = text;
    bool good = add_range(&at, out);
    while (good && *at == '+') {
        at++;
        good = add_range(&at, out);
    }
    if (!good || *at)
        return error_set(err, HASTEN_ERR_USAGE,
                         "'%s' (expected all, none, or layers and ranges joined by +, such as 0-1+8)", text);
    return HASTEN_OK;
}

static hasten_status set_knob(const struct knob *k, const char *text, void *knobs, struct hasten_error *err)
{
    void *at = (char *)knobs + k->offset;
    switch (k->type) {
    case KNOB_INT:
        return value_int(text, k->lo, k->hi, at, err);
    case KNOB_FLOAT:
        return value_float(text, k->lo, k->hi, at, err);
    case KNOB_BOOL:
        return value_flag(text, at, err);
    case KNOB_CHOICE:
        return value_choice(text, k->choices, at, err);
    case KNOB_BUDGET:
        return parse_budget(text, at, err);
    case KNOB_SIZE:
        *(uint64_t *)at = UINT64_MAX;
        return strcmp(text, "all") == 0 ? HASTEN_OK : value_size(text, at, err);
    case KNOB_LAYERS:
        return parse_layers(text, at, err);
    case KNOB_TEXT:
        if (!*text)
            return error_set(err, HASTEN_ERR_USAGE, "'' (expected a value)");
        *(const char **)at = text;
        return HASTEN_OK;
    }
    return error_set(err, HASTEN_ERR_INTERNAL, "knob %s has no type", k->name);
}

/* ---- specs ---------------------------------------------------------------------------------------------------- */

static const struct knob *find_knob(const struct method *m, const char *name, struct hasten_error *err)
{
    const char *names[64];
    for (int32_t i = 0; i < m->n_knobs; i++) {
        if (strcmp(m->knobs[i].name, name) == 0)
            return &m->knobs[i];
        names[i] = m->knobs[i].name;
    }
    const char *near = nearest_word(name, names, m->n_knobs);
    const char *stage = method_stage_option(m->stage);
    if (near)
        error_set(err, HASTEN_ERR_USAGE, "--%s %s: unknown knob '%s' (did you mean %s?)", stage, m->name,
                  name, near);
    else
        error_set(err, HASTEN_ERR_USAGE, "--%s %s: unknown knob '%s' (hasten methods %s lists them)", stage,
                  m->name, name, m->name);
    return NULL;
}

/* One "key=value" of the copy in u->texts; `text` is cut in place. */
static hasten_status take_pair(struct method_use *u, char *text, uint64_t *given, struct hasten_error *err)
{
    const struct method *m = u->m;
    const char *stage = method_stage_option(m->stage);
    char *equals = strchr(text, '=');
    if (!equals)
        return error_set(err, HASTEN_ERR_USAGE, "--%s %s: found '%s' (expected key=value)", stage, m->name,
                         text);
    *equals = 0;
    const struct knob *k = find_knob(m, text, err);
    if (!k)
        return HASTEN_ERR_USAGE;
    if (*given >> (k - m->knobs) & 1)
        return error_set(err, HASTEN_ERR_USAGE, "--%s %s: knob %s is given twice", stage, m->name, k->name);
    *given |= (uint64_t)1 << (k - m->knobs);
    const hasten_status st = set_knob(k, equals + 1, u->knobs, err);
    if (st)
        error_prefix(err, "--%s %s:%s", stage, m->name, k->name);
    return st;
}

hasten_status method_parse_knobs(const struct method *m, const char *values, struct method_use *out,
                                 struct hasten_error *err)
{
    uint64_t given = 0;
    hasten_status st = HASTEN_OK;
    *out = (struct method_use){.m = m,
                               .knobs = mem_calloc(1, m->knobs_bytes ? m->knobs_bytes : 1),
                               .texts = mem_strndup(values, strlen(values))};
    if (!out->knobs || !out->texts)
        st = error_set(err, HASTEN_ERR_MEMORY, "--%s %s: out of memory", method_stage_option(m->stage),
                       m->name);
    for (int32_t i = 0; i < m->n_knobs && !st; i++)
        if (m->knobs[i].value)
            st = set_knob(&m->knobs[i], m->knobs[i].value, out->knobs, err);
    char *next = *values ? out->texts : NULL;
    while (!st && next) {
        char *pair = next;
        next = strchr(pair, ',');
        if (next)
            *next++ = 0;
        st = take_pair(out, pair, &given, err);
    }
    out->state = out->knobs;
    if (st)
        method_use_close(out);
    return st;
}

hasten_status method_parse(enum method_stage stage, const char *spec, struct method_use *out,
                           struct hasten_error *err)
{
    char name[VALUE_WORD_BYTES + 1];
    const size_t n = strcspn(spec, ":");
    *out = (struct method_use){0};
    if (n == 0 || n >= sizeof name)
        return error_set(err, HASTEN_ERR_USAGE, "--%s: found '%s' (expected NAME or NAME:key=value,...)",
                         method_stage_option(stage), spec);
    memcpy(name, spec, n);
    name[n] = 0;
    const struct method *m = method_find(stage, name, err);
    return m ? method_parse_knobs(m, spec[n] ? spec + n + 1 : "", out, err) : HASTEN_ERR_USAGE;
}

void method_use_close(struct method_use *u)
{
    if (u->attached && u->m->detach)
        u->m->detach(u->state);
    mem_free(u->knobs);
    mem_free(u->texts);
    *u = (struct method_use){0};
}

/* ---- telling -------------------------------------------------------------------------------------------------- */

static int put_layers(const struct layer_set *s, struct buf *out)
{
    int rc = 0;
    bool any = false;
    for (int32_t i = 0; i < LIMIT_LAYERS; i++) {
        int32_t last = i;
        if (!layer_set_has(s, i))
            continue;
        while (last + 1 < LIMIT_LAYERS && layer_set_has(s, last + 1))
            last++;
        if (i == 0 && last == LIMIT_LAYERS - 1)
            return buf_puts(out, "all");
        rc |= buf_printf(out, last > i ? "%s%d-%d" : "%s%d", any ? "+" : "", (int)i, (int)last);
        any = true;
        i = last;
    }
    return any ? rc : buf_puts(out, "none");
}

static int put_value(const struct knob *k, const void *knobs, struct buf *out)
{
    const void *at = (const char *)knobs + k->offset;
    const char *choice = NULL, *list = k->choices;
    size_t n = 0;
    switch (k->type) {
    case KNOB_INT:
        return buf_printf(out, "%d", (int)*(const int32_t *)at);
    case KNOB_FLOAT:
        return buf_printf(out, "%.9g", (double)*(const float *)at);
    case KNOB_BOOL:
        return buf_puts(out, *(const bool *)at ? "on" : "off");
    case KNOB_CHOICE:
        for (int i = 0; i <= *(const int *)at; i++)
            n = value_choice_next(&list, &choice);
        return buf_put(out, choice, n);
    case KNOB_TEXT:
        return buf_puts(out, *(const char *const *)at);
    case KNOB_BUDGET:
        return *(const double *)at < (double)INT32_MAX ? buf_printf(out, "%.9g", *(const double *)at)
                                                       : buf_puts(out, "all");
    case KNOB_SIZE:
        return *(const uint64_t *)at == UINT64_MAX
                   ? buf_puts(out, "all")
                   : buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
    case KNOB_LAYERS:
        return put_layers(at, out);
    }
    return -1;
}

hasten_status method_describe(const struct method_use *u, struct buf *out)
{
    int rc = buf_puts(out, u->m->name);
    bool any = false;
    for (int32_t i = 0; i < u->m->n_knobs; i++) {
        const struct knob *k = &u->m->knobs[i];
        if (k->type == KNOB_TEXT && !*(const char *const *)((const char *)u->knobs + k->offset))
            continue;
        rc |= buf_printf(out, "%c%s=", any ? ',' : ':', k->name);
        rc |= put_value(k, u->knobs, out);
        any = true;
    }
    return rc ? HASTEN_ERR_MEMORY : HASTEN_OK;
}

/* ---- what goes together --------------------------------------------------------------------------------------- */

static const char *declared(const struct method *a, const struct method *b)
{
    for (int32_t i = 0; i < a->n_conflicts; i++) {
        const struct method_conflict *c = &a->conflicts[i];
        if (c->stage == b->stage && (!c->name || strcmp(c->name, b->name) == 0) &&
            (!c->role || (b->role && strcmp(c->role, b->role) == 0)))
            return c->why;
    }
    return NULL;
}

const char *method_clash(const struct method *a, const struct method *b)
{
    const char *why = declared(a, b);
    if (!why)
        why = declared(b, a);
    if (why)
        return why;
    if (a->stage == b->stage && a->role && b->role && strcmp(a->role, b->role) == 0)
        return a == b ? "it can be given once" : "both have the same role in their stage";
    const struct method *store = a->stage == STAGE_STORE ? a : b->stage == STAGE_STORE ? b : NULL;
    if (store && (a->traits | b->traits) & (METHOD_NO_FORK | METHOD_NO_TRUNCATE))
        return "a store forks sequences and cuts them back";
    const struct method *draft = a->stage == STAGE_DRAFT ? a : b->stage == STAGE_DRAFT ? b : NULL;
    const struct method *other = draft == a ? b : a;
    if (draft && other->traits & METHOD_PER_PASS)
        return "speculation needs decisions for each committed token";
    if (draft && other->traits & METHOD_NO_TRUNCATE)
        return "speculation takes back rejected tokens";
    return NULL;
}
