/* See receipts.h. */
#include "cli/receipts.h"
#include "base/file.h"
#include "cli/cli.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool receipts_folder(struct buf *out)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data)
        return !buf_printf(out, "%s/hasten/receipts", data);
    return home && *home && !buf_printf(out, "%s/.local/share/hasten/receipts", home);
}

static double number_at(const json_t *v, const char *a, const char *b, const char *c, const char *d)
{
    const char *path[] = {a, b, c, d};
    for (int i = 0; i < 4 && path[i]; i++)
        v = json_object_get(v, path[i]);
    return json_number_value(v);
}

/* "stage name", or with knobs. */
static bool names(const char *text, const struct method *m)
{
    const char *stage = method_stage_name(m->stage);
    const size_t n = strlen(stage), k = strlen(m->name);
    return text && strncmp(text, stage, n) == 0 && text[n] == ' ' && strncmp(text + n + 1, m->name, k) == 0 &&
           (text[n + 1 + k] == ':' || text[n + 1 + k] == '\0');
}

/* A receipt of the method, alone or with others. */
static bool is_of(const json_t *v, const struct method *m)
{
    const json_t *knobs = json_object_get(v, "knobs");
    bool any = names(json_string_value(json_object_get(v, "method")), m);
    for (size_t i = 0; i < json_array_size(knobs); i++)
        any |= names(json_string_value(json_array_get(knobs, i)), m);
    return any && json_integer_value(json_object_get(v, "schema")) == 1;
}

static void add_file(const char *path, const struct method *m, json_t **list)
{
    struct hasten_error err;
    json_t *v = NULL;
    if (!cli_read_json(path, &v, &err) && is_of(v, m))
        json_add(list, json_incref(v));
    json_decref(v);
}

json_t *receipts_of(const struct method *m)
{
    struct buf folder = {0};
    struct file_names names = {0};
    struct hasten_error err;
    json_t *list = json_array();
    if (receipts_folder(&folder) && !file_list(folder.data, &names, &err))
        for (size_t i = 0; i < names.n; i++) {
            struct buf path = {0};
            const size_t n = strlen(names.names[i]);
            if (n > 5 && strcmp(names.names[i] + n - 5, ".json") == 0 &&
                !buf_printf(&path, "%s/%s", folder.data, names.names[i]))
                add_file(path.data, m, &list);
            buf_free(&path);
        }
    file_names_free(&names);
    buf_free(&folder);
    return list;
}

void receipt_line(const json_t *r, struct buf *out)
{
    const char *model = json_string_value(json_object_get(r, "model")),
               *method = json_string_value(json_object_get(r, "method")),
               *date = json_string_value(json_object_get(r, "date")),
               *workload = json_string_value(json_object_get(json_object_get(r, "workload"), "name"));
    const char *knobs = method ? strchr(method, ' ') : NULL;
    const char *phase = json_object_get(json_object_get(r, "gain"), "decode") ? "decode" : "answer";
    buf_printf(out, "  %-12s %-36s %s%s%s %.2f x (%.2f to %.2f)  KL %.4f  top-1 %.1f %%  %s\n",
               model ? model : "?", knobs ? knobs + 1 : "?", workload ? workload : "", workload ? ": " : "",
               phase, number_at(r, "gain", phase, "ratio", "median"),
               number_at(r, "gain", phase, "ratio", "lo"), number_at(r, "gain", phase, "ratio", "hi"),
               number_at(r, "damage", "kl", "value", NULL),
               100 * number_at(r, "damage", "top1_agreement", "value", NULL), date ? date : "");
}
