/* Profiles, read by libyaml's event parser (profile.h). Of YAML: one document, mappings two deep, plain lists of
 * scalars; no anchors, aliases or tags. The nesting is a state, not a recursion. */
#include "cli/profile.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

struct profile {
    char *path;
    struct profile_line *lines;
    int n, cap;
};

struct reader {
    struct profile *p;
    yaml_parser_t yaml;
    yaml_event_t event; /* the current one, while has_event */
    bool has_event;
    int section_line; /* where the name of the section stands */
    struct hasten_error *err;
};

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "profile: out of memory");
}

static hasten_status bad(struct reader *r, const char *found, const char *expected)
{
    const size_t line = r->has_event ? r->event.start_mark.line + 1 : r->yaml.problem_mark.line + 1;
    return error_set(r->err, HASTEN_ERR_FILE, "profile %s line %zu: %s (expected %s)", r->p->path, line,
                     found, expected);
}

static hasten_status next(struct reader *r)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = false;
    if (!yaml_parser_parse(&r->yaml, &r->event))
        return r->yaml.error == YAML_MEMORY_ERROR
                   ? no_memory(r->err)
                   : bad(r, r->yaml.problem ? r->yaml.problem : "unreadable", "YAML");
    r->has_event = true;
    return HASTEN_OK;
}

/* The text of the current scalar; NULL after an error. */
static char *scalar(struct reader *r, const char *expected, hasten_status *st)
{
    if (r->event.type != YAML_SCALAR_EVENT) {
        *st =
            bad(r, r->event.type == YAML_ALIAS_EVENT ? "an alias" : "a list, a mapping or an end", expected);
        return NULL;
    }
    const char *text = (const char *)r->event.data.scalar.value;
    const size_t len = r->event.data.scalar.length;
    const bool plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (r->event.data.scalar.anchor || r->event.data.scalar.tag)
        *st = bad(r, "an anchor or a tag", expected);
    else if (strlen(text) != len)
        *st = bad(r, "a NUL character", expected);
    else if (plain && (len == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        *st = bad(r, "no value", expected);
    if (*st)
        return NULL;
    char *copy = mem_strndup(text, len);
    if (!copy)
        *st = no_memory(r->err);
    return copy;
}

static const struct profile_line *find(const struct profile *p, const char *command, const char *key)
{
    for (int i = 0; i < p->n; i++) {
        const struct profile_line *l = &p->lines[i];
        const bool same = command && l->command ? strcmp(command, l->command) == 0 : command == l->command;
        if (same && strcmp(key, l->key) == 0)
            return l;
    }
    return NULL;
}

static int line_of(const struct reader *r)
{
    return (int)r->event.start_mark.line + 1;
}

/* Takes a copy of command and key, and the value itself. */
static hasten_status add(struct reader *r, const char *command, const char *key, int line, char *value)
{
    struct profile *p = r->p;
    if (p->n == LIMIT_PROFILE_LINES) {
        mem_free(value);
        return bad(r, "too many options", "at most 1024");
    }
    if (p->n == p->cap) {
        const int cap = p->cap ? 2 * p->cap : 32;
        struct profile_line *more = mem_realloc(p->lines, (size_t)cap * sizeof *more);
        if (!more) {
            mem_free(value);
            return no_memory(r->err);
        }
        p->lines = more;
        p->cap = cap;
    }
    struct profile_line *l = &p->lines[p->n++];
    *l = (struct profile_line){.command = command ? mem_strndup(command, strlen(command)) : NULL,
                               .key = mem_strndup(key, strlen(key)),
                               .value = value,
                               .line = line,
                               .command_line = command ? r->section_line : 0};
    return l->key && (l->command || !command) ? HASTEN_OK : no_memory(r->err);
}

/* The value of key, whose event is current: a scalar, or a list of scalars. */
static hasten_status take_value(struct reader *r, const char *command, const char *key, int line)
{
    hasten_status st = HASTEN_OK;
    char *value;
    if (r->event.type != YAML_SEQUENCE_START_EVENT) {
        value = scalar(r, "a value", &st);
        return value ? add(r, command, key, line, value) : st;
    }
    while (!(st = next(r)) && r->event.type != YAML_SEQUENCE_END_EVENT) {
        value = scalar(r, "a list of values", &st);
        if (value)
            st = add(r, command, key, line_of(r), value);
        if (st)
            return st;
    }
    return st;
}

/* One key and what follows it; a mapping under a key opens the section of that command. */
static hasten_status take_key(struct reader *r, char **section)
{
    hasten_status st = HASTEN_OK;
    const int line = line_of(r);
    char *key = scalar(r, "the name of an option", &st), found[128];
    for (char *c = key; c && *c; c++)
        *c = *c == '_' ? '-' : *c;
    const struct profile_line *before = key ? find(r->p, *section, key) : NULL;
    if (before) {
        snprintf(found, sizeof found, "'%.40s' again, first on line %d", key, before->line);
        st = bad(r, found, "each option once");
    }
    if (!st)
        st = next(r);
    if (!st && !*section && r->event.type == YAML_MAPPING_START_EVENT) {
        *section = key;
        r->section_line = line;
        return HASTEN_OK;
    }
    if (!st)
        st = take_value(r, *section, key, line);
    mem_free(key);
    return st;
}

static hasten_status read_document(struct reader *r)
{
    char *section = NULL;
    hasten_status st = next(r); /* STREAM-START */
    if (!st)
        st = next(r);
    if (!st && r->event.type == YAML_STREAM_END_EVENT)
        return HASTEN_OK; /* an empty file says nothing */
    if (!st)
        st = next(r); /* after DOCUMENT-START */
    if (!st && r->event.type != YAML_MAPPING_START_EVENT)
        st = bad(r, "no mapping", "lines such as temp: 0.2");
    while (!st && !(st = next(r))) {
        if (r->event.type != YAML_MAPPING_END_EVENT) {
            st = take_key(r, &section);
        } else if (section) {
            mem_free(section);
            section = NULL;
        } else {
            break;
        }
    }
    mem_free(section);
    if (!st)
        st = next(r); /* DOCUMENT-END */
    if (!st)
        st = next(r);
    return !st && r->event.type != YAML_STREAM_END_EVENT ? bad(r, "a second document", "one") : st;
}

hasten_status profile_open(const char *path, struct profile **out, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    struct profile *p = mem_calloc(1, sizeof *p);
    *out = p;
    if (!p || !(p->path = mem_strndup(path, strlen(path)))) {
        profile_close(p);
        *out = NULL;
        return no_memory(err);
    }
    hasten_status st = file_slurp(path, LIMIT_PROFILE_BYTES, &text, &len, err);
    struct reader r = {.p = p, .err = err};
    if (!st && !yaml_parser_initialize(&r.yaml))
        st = no_memory(err);
    if (!st) {
        yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, len);
        st = read_document(&r);
        if (r.has_event)
            yaml_event_delete(&r.event);
        yaml_parser_delete(&r.yaml);
    }
    mem_free(text);
    if (st) {
        profile_close(p);
        *out = NULL;
    }
    return st;
}

void profile_close(struct profile *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n; i++) {
        mem_free((void *)(uintptr_t)p->lines[i].command);
        mem_free((void *)(uintptr_t)p->lines[i].key);
        mem_free((void *)(uintptr_t)p->lines[i].value);
    }
    mem_free(p->lines);
    mem_free(p->path);
    mem_free(p);
}

const char *profile_path(const struct profile *p)
{
    return p->path;
}

const struct profile_line *profile_at(const struct profile *p, int i)
{
    return p && i >= 0 && i < p->n ? &p->lines[i] : NULL;
}
