/* What task files share (task.h): noise, what is wanted and found, lines of data. */
#include "eval/task.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/rng.h"
#include <string.h>

void eval_item_clear(struct eval_item *item)
{
    buf_free(&item->id);
    for (int i = 0; i < EVAL_MAX_TURNS; i++)
        buf_free(&item->turns[i]);
    json_decref(item->want);
    *item = (struct eval_item){0};
}

hasten_status eval_no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "eval: out of memory");
}

/* ---- noise --------------------------------------------------------------------------------------------- */

void eval_rng_start(struct eval_rng *r, uint64_t seed, const char *task, int32_t index)
{
    uint32_t name = 2166136261; /* FNV-1a */
    for (; *task; task++)
        name = (name ^ (unsigned char)*task) * 16777619;
    *r = (struct eval_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                           .counter = {0, (uint32_t)index, name, 0x7461736b}};
}

int32_t eval_pick(struct eval_rng *r, int32_t n)
{
    if (r->left == 0) {
        philox4x32(r->counter, r->key, r->word);
        r->counter[0]++;
        r->left = 4;
    }
    return (int32_t)((uint64_t)r->word[--r->left] * (uint64_t)n >> 32);
}

void eval_shuffle(struct eval_rng *r, int32_t *list, int32_t n)
{
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = eval_pick(r, i + 1), x = list[i];
        list[i] = list[j];
        list[j] = x;
    }
}

void eval_choose(struct eval_rng *r, int32_t of, int32_t n, int32_t *out)
{
    int32_t all[4096];
    const int32_t count = of < 4096 ? of : 4096;
    for (int32_t i = 0; i < count; i++)
        all[i] = i;
    for (int32_t i = 0; i < n && i < count; i++) {
        const int32_t j = i + eval_pick(r, count - i);
        out[i] = all[j];
        all[j] = all[i];
    }
}

/* ---- what is wanted ------------------------------------------------------------------------------------ */

const char *const eval_stop_line[1] = {"\n"};

hasten_status eval_want(struct eval_item *item, const char *text, struct hasten_error *err)
{
    if (!item->want)
        item->want = json_array();
    return item->want && !json_array_append_new(item->want, json_string(text)) ? HASTEN_OK
                                                                               : eval_no_memory(err);
}

static int lower(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

bool eval_contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && lower((unsigned char)text[i]) == lower((unsigned char)part[i]))
            i++;
        if (!part[i])
            return true;
    }
    return *part == '\0';
}

double eval_share_found(const struct eval_item *item, int32_t from, int32_t to, const char *answer)
{
    const int32_t n = to < 0 ? (int32_t)json_array_size(item->want) : to;
    int32_t found = 0;
    for (int32_t i = from; i < n; i++)
        found +=
            eval_contains(answer ? answer : "", json_string_value(json_array_get(item->want, (size_t)i)));
    return n > from ? (double)found / (n - from) : 0;
}

hasten_status eval_score_share(void *state, const struct eval_item *item, const struct buf *answers,
                               struct eval_score *out, struct hasten_error *err)
{
    (void)state;
    (void)err;
    out->score = eval_share_found(item, 0, -1, answers[0].data);
    return HASTEN_OK;
}

/* ---- data ---------------------------------------------------------------------------------------------- */

static hasten_status add_line(struct eval_lines *l, const char *path, int32_t line, const char *text,
                              size_t len, struct hasten_error *err)
{
    if (l->n == l->cap) {
        const int32_t cap = l->cap ? 2 * l->cap : 256;
        json_t **v = mem_realloc(l->v, (size_t)cap * sizeof *v);
        if (!v)
            return eval_no_memory(err);
        l->v = v;
        l->cap = cap;
    }
    hasten_status st = json_parse(path, text, len, &l->v[l->n], err);
    if (st)
        return error_prefix(err, "line %d", (int)line);
    l->n++;
    return HASTEN_OK;
}

hasten_status eval_lines_read(const char *path, struct eval_lines *out, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    int32_t line = 1;
    hasten_status st = file_slurp(path, LIMIT_JSON_BYTES, &text, &len, err);
    for (const char *at = text; !st && at < text + len; line++) {
        const char *end = memchr(at, '\n', len - (size_t)(at - text));
        end = end ? end : text + len;
        if (strspn(at, " \t\r") < (size_t)(end - at))
            st = add_line(out, path, line, at, (size_t)(end - at), err);
        at = end + 1;
    }
    mem_free(text);
    if (!st && out->n == 0)
        st = error_set(err, HASTEN_ERR_FILE, "%s: no lines (expected one JSON object a line)", path);
    if (st)
        eval_lines_free(out);
    return st;
}

void eval_lines_free(struct eval_lines *l)
{
    for (int32_t i = 0; i < l->n; i++)
        json_decref(l->v[i]);
    mem_free(l->v);
    *l = (struct eval_lines){0};
}

const char *eval_line_string(const struct eval_lines *l, int32_t i, const char *field, const char *path,
                             struct hasten_error *err)
{
    const char *text = json_string_value(json_object_get(l->v[i], field));
    if (!text)
        error_set(err, HASTEN_ERR_FILE, "%s: item %d has no \"%s\" (expected a string)", path, (int)i + 1,
                  field);
    return text;
}
