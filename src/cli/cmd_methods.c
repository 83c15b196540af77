/* `hasten methods`: the list of methods, and the page of one. Everything stands in the methods' own descriptions. */
#include "cli/methods.h"
#include "cli/receipts.h"
#include <jansson.h>
#include <string.h>

struct methods_args {
    struct ui ui;
    bool pairs, markdown, schema;
};

static const struct option_def methods_defs[] = {
    {"pairs", NULL, OPT_FLAG, offsetof(struct methods_args, pairs), 0, 0, NULL, NULL,
     "which methods cannot be used together, and why"},
    {"markdown", NULL, OPT_FLAG, offsetof(struct methods_args, markdown), 0, 0, NULL, NULL,
     "as a page of documentation"},
    {"receipt-schema", NULL, OPT_FLAG, offsetof(struct methods_args, schema), 0, 0, NULL, NULL,
     "the JSON schema of receipts"},
};

static const struct {
    uint32_t bit;
    const char *name, *text;
} needs[] = {{METHOD_NEEDS_DECODER, "decoder", "a model with logits and a cache of keys and values"},
             {METHOD_NEEDS_GLOBAL, "global", "a layer that sees the whole sequence"}},
  traits[] = {{METHOD_SEQUENCE_SCOPE, "sequence_scope", "It can be chosen for one sequence"},
              {METHOD_CHANGES_KV, "changes_kv", "Later keys and values differ from the plain engine's"},
              {METHOD_PER_PASS, "per_pass", "It decides for a pass: not with speculation"},
              {METHOD_NO_FORK, "no_fork", "It cannot be forked"},
              {METHOD_NO_TRUNCATE, "no_truncate", "It cannot be cut back"},
              {METHOD_NO_SAVE, "no_save", "It cannot be saved"},
              {METHOD_BRANCHES, "branches", "It forks a sequence for a moment: one more must have room"},
              {METHOD_FOR_TESTS, "for_tests", "It is for comparison, not for work"}};
#define N_OF(a) ((int)(sizeof(a) / sizeof *(a)))

static void knob_range(const struct knob *k, struct buf *out)
{
    switch (k->type) {
    case KNOB_INT:
        buf_printf(out, "%.0f to %.0f", k->lo, k->hi);
        break;
    case KNOB_FLOAT:
        buf_printf(out, "%g to %g", k->lo, k->hi);
        break;
    case KNOB_BOOL:
        buf_puts(out, "on, off");
        break;
    case KNOB_CHOICE:
        buf_puts(out, k->choices);
        break;
    case KNOB_TEXT:
        buf_puts(out, "text");
        break;
    case KNOB_BUDGET:
        buf_puts(out, "all, a number, or a share");
        break;
    case KNOB_SIZE:
        buf_puts(out, "all, or bytes such as 512M");
        break;
    case KNOB_LAYERS:
        buf_puts(out, "all, none, 0-1+8");
        break;
    }
}

/* ---- the page of one ------------------------------------------------------------------------------------------ */

static void put_knobs(const struct method *m, bool markdown, struct buf *out)
{
    if (m->n_knobs)
        buf_puts(out, markdown ? "\n| knob | default | values | what it does |\n|---|---|---|---|\n"
                               : "\nKnobs:\n");
    for (int32_t i = 0; i < m->n_knobs; i++) {
        const struct knob *k = &m->knobs[i];
        struct buf range = {0};
        knob_range(k, &range);
        buf_printf(out,
                   markdown ? "| `%s` | %s | %s%s%s | %s |\n" : "  %-12s [%s]  %s%s%s\n               %s\n",
                   k->name, k->value ? k->value : "none", range.data ? range.data : "", k->unit ? ", " : "",
                   k->unit ? k->unit : "", k->help);
        buf_free(&range);
    }
}

/* What was measured here (receipts.h). */
static void put_receipts(const struct method *m, struct buf *out)
{
    json_t *list = receipts_of(m);
    if (json_array_size(list))
        buf_puts(out, "\nReceipts of this machine:\n");
    for (size_t i = 0; i < json_array_size(list); i++)
        receipt_line(json_array_get(list, i), out);
    json_decref(list);
}

static void put_page(const struct method *m, bool markdown, struct buf *out)
{
    const char *item = markdown ? "- " : "";
    buf_printf(out, markdown ? "# `%s`\n%s.\n\n" : "%s: %s\n\n", m->name, m->title);
    buf_printf(out, "%sStage: %s, %s. `--%s %s`\n", item, method_stage_name(m->stage),
               method_stage_title(m->stage), method_stage_option(m->stage), m->name);
    buf_printf(out, "%sGuarantee: %s: %s.\n", item, method_guarantee_name(m->guarantee), m->exact_to);
    buf_printf(out, "%sSource: %s.\n", item, m->paper);
    if (m->role)
        buf_printf(out, "%sRole: %s (one at a time).\n", item, m->role);
    if (m->neutral)
        buf_printf(out, "%sNeutral: with `%s` the bits are the plain engine's.\n", item, m->neutral);
    for (int i = 0; i < N_OF(needs); i++)
        if (m->needs & needs[i].bit)
            buf_printf(out, "%sNeeds %s.\n", item, needs[i].text);
    for (int i = 0; i < N_OF(traits); i++)
        if (m->traits & traits[i].bit)
            buf_printf(out, "%s%s.\n", item, traits[i].text);
    for (int32_t i = 0; i < m->n_conflicts; i++)
        buf_printf(out, "%sNot with --%s%s%s%s%s: %s.\n", item, method_stage_option(m->conflicts[i].stage),
                   m->conflicts[i].name ? " " : "", m->conflicts[i].name ? m->conflicts[i].name : "",
                   m->conflicts[i].role ? " of role " : "", m->conflicts[i].role ? m->conflicts[i].role : "",
                   m->conflicts[i].why);
    put_knobs(m, markdown, out);
    if (m->text)
        buf_printf(out, "\n%s\n", m->text);
    if (!markdown)
        put_receipts(m, out);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static json_t *knob_json(const struct knob *k)
{
    struct buf range = {0};
    knob_range(k, &range);
    json_t *v = json_pack("{s:s, s:s?, s:s, s:s?, s:s}", "name", k->name, "default", k->value, "values",
                          range.data ? range.data : "", "unit", k->unit, "help", k->help);
    buf_free(&range);
    return v;
}

static json_t *method_json(const struct method *m)
{
    json_t *knobs = json_array(), *need = json_array(), *trait = json_array(), *not_with = json_array();
    for (int32_t i = 0; i < m->n_knobs; i++)
        json_add(&knobs, knob_json(&m->knobs[i]));
    for (int i = 0; i < N_OF(needs); i++)
        if (m->needs & needs[i].bit)
            json_add(&need, json_string(needs[i].name));
    for (int i = 0; i < N_OF(traits); i++)
        if (m->traits & traits[i].bit)
            json_add(&trait, json_string(traits[i].name));
    for (int32_t i = 0; i < m->n_conflicts; i++)
        json_add(&not_with, json_pack("{s:s, s:s?, s:s}", "stage", method_stage_name(m->conflicts[i].stage),
                                      "name", m->conflicts[i].name, "why", m->conflicts[i].why));
    json_t *v = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:s?, s:s?}", "name", m->name, "title",
                          m->title, "stage", method_stage_name(m->stage), "paper", m->paper, "guarantee",
                          method_guarantee_name(m->guarantee), "exact_to", m->exact_to, "role", m->role,
                          "neutral", m->neutral, "text", m->text);
    json_put(&v, "knobs", knobs);
    json_put(&v, "needs", need);
    json_put(&v, "traits", trait);
    json_put(&v, "conflicts", not_with);
    json_put(&v, "receipts", receipts_of(m));
    return v;
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

static void put_line(const struct method *m, bool markdown, struct buf *out)
{
    const char *stage = method_stage_name(m->stage), *guarantee = method_guarantee_name(m->guarantee);
    if (markdown)
        buf_printf(out, "| [`%s`](%s.md) | %s | %s | %s |\n", m->name, m->name, stage, guarantee, m->title);
    else
        buf_printf(out, "%-14s %-9s %-19s %s\n", m->name, stage, guarantee, m->title);
}

static void put_list(bool markdown, struct buf *out)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    if (markdown)
        buf_puts(out, "| method | stage | guarantee | what it does |\n|---|---|---|---|\n");
    for (int stage = 0; stage < METHOD_STAGES; stage++)
        for (int32_t i = 0; i < n; i++)
            if ((int)all[i]->stage == stage)
                put_line(all[i], markdown, out);
}

/* ---- pairs ---------------------------------------------------------------------------------------------------- */

#define MAX_REASONS 64

/* Reasons in the order in which they come up. */
struct reasons {
    const char *text[MAX_REASONS];
    int n;
};

static int reason_of(struct reasons *r, const char *why)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->text[i], why) == 0)
            return i;
    if (r->n < MAX_REASONS)
        r->text[r->n++] = why;
    return r->n - 1;
}

/* "a" .. "z", then "aa" ..: the name of a reason. */
static const char *letters(int i, char out[3])
{
    out[0] = (char)('a' + (i < 26 ? i : i / 26 - 1));
    out[1] = (char)(i < 26 ? 0 : 'a' + i % 26);
    out[2] = 0;
    return out;
}

/* All pairs as a table: a row and a column for each method, a letter where the two are refused. */
static void put_table(struct buf *out)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    struct reasons r = {.n = 0};
    char name[3];
    buf_puts(out, "| | method |");
    for (int32_t i = 0; i < n; i++)
        buf_printf(out, " %d |", (int)i + 1);
    buf_puts(out, "\n|---|---|");
    for (int32_t i = 0; i < n; i++)
        buf_puts(out, "---|");
    for (int32_t i = 0; i < n; i++) {
        buf_printf(out, "\n| %d | %s `%s` |", (int)i + 1, method_stage_name(all[i]->stage), all[i]->name);
        for (int32_t j = 0; j < n; j++) {
            const char *why = j <= i ? method_clash(all[j], all[i]) : NULL;
            buf_printf(out, j > i ? " |" : " %s |", why ? letters(reason_of(&r, why), name) : "·");
        }
    }
    buf_puts(out, "\n\n");
    for (int i = 0; i < r.n; i++)
        buf_printf(out, "- **%s**: %s\n", letters(i, name), r.text[i]);
}

static void put_pairs(bool markdown, struct buf *out)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    if (markdown) {
        put_table(out);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = i; j < n; j++) {
            const char *why = method_clash(all[i], all[j]);
            if (why)
                buf_printf(out, "%s %s, %s %s: %s\n", method_stage_name(all[i]->stage), all[i]->name,
                           method_stage_name(all[j]->stage), all[j]->name, why);
        }
}

static int print_json(const char *name, bool pairs)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    json_t *list = json_array();
    for (int32_t i = 0; i < n && !pairs; i++)
        if (!name || strcmp(all[i]->name, name) == 0)
            json_add(&list, method_json(all[i]));
    for (int32_t i = 0; i < n && pairs; i++)
        for (int32_t j = i; j < n; j++) {
            const char *why = method_clash(all[i], all[j]);
            if (why)
                json_add(&list, json_pack("{s:[ss], s:[ss], s:s}", "a", method_stage_name(all[i]->stage),
                                          all[i]->name, "b", method_stage_name(all[j]->stage), all[j]->name,
                                          "why", why));
        }
    if (!name || json_array_size(list) != 1)
        return cli_json(list);
    json_t *one = json_incref(json_array_get(list, 0));
    json_decref(list);
    return cli_json(one);
}

static int print_schema(void)
{
    json_t *v = receipt_schema();
    char *text = v ? json_dumps(v, JSON_INDENT(2)) : NULL;
    struct buf out = {0};
    const int bad = !text || buf_printf(&out, "%s\n", text) || cli_out(out.data, out.len);
    mem_free(text);
    buf_free(&out);
    json_decref(v);
    return cli_finish(bad ? 4 : 0);
}

/* HASTEN_ERR_USAGE, with the nearest, unless there is a method called name in some stage. */
static hasten_status check_name(const char *name, struct hasten_error *err)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    const char *names[256];
    for (int32_t i = 0; i < n && i < 256; i++) {
        names[i] = all[i]->name;
        if (strcmp(all[i]->name, name) == 0)
            return HASTEN_OK;
    }
    const char *near = nearest_word(name, names, n < 256 ? n : 256);
    return error_set(err, HASTEN_ERR_USAGE,
                     near ? "methods: unknown method '%s' (did you mean %s?)"
                          : "methods: unknown method '%s' (hasten methods lists them)",
                     name, near);
}

int cmd_methods(const struct command *c, int argc, char **argv)
{
    struct methods_args a = {0};
    struct option_group groups[] = {
        ui_group(&a.ui), {.title = "Methods:", .defs = methods_defs, .n = N_OF(methods_defs), .dst = &a}};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 2, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    const char *name = pos.n ? pos.items[0] : NULL;
    options_free(groups, 2);
    if (a.schema)
        return print_schema();
    if (name && check_name(name, &err))
        return cli_fail(&err);
    if (a.ui.json)
        return print_json(name, a.pairs);
    struct buf out = {0};
    int32_t n;
    const struct method *const *all = methods_all(&n);
    if (a.pairs)
        put_pairs(a.markdown, &out);
    else if (!name)
        put_list(a.markdown, &out);
    for (int32_t i = 0; i < n && name && !a.pairs; i++)
        if (strcmp(all[i]->name, name) == 0)
            put_page(all[i], a.markdown, &out);
    rc = out.len && cli_out(out.data, out.len) ? 4 : 0;
    buf_free(&out);
    return cli_finish(rc);
}
