/* `hasten tokenize` and `hasten detokenize`: text to ids and back, byte for byte. Need only a vocabulary. */
#include "base/file.h"
#include "base/limits.h"
#include "cli/session.h"
#include "text/template.h"
#include <stdio.h>
#include <string.h>

struct text_args {
    const char *prompt, *file;
    bool special, no_bos;
    struct ui ui;
    const char *model;
};

static const struct option_def tokenize_defs[] = {
    {"model", "m", OPT_STRING, offsetof(struct text_args, model), 0, 0, NULL, "MODEL",
     "a GGUF file or a name; also positional"},
    {"prompt", "p", OPT_STRING, offsetof(struct text_args, prompt), 0, 0, NULL, "TEXT", "the text [stdin]"},
    {"file", "f", OPT_STRING, offsetof(struct text_args, file), 0, 0, NULL, "FILE",
     "the text from a file; - is stdin"},
    {"special", NULL, OPT_FLAG, offsetof(struct text_args, special), 0, 0, NULL, NULL,
     "text may form control tokens"},
    {"no-bos", NULL, OPT_FLAG, offsetof(struct text_args, no_bos), 0, 0, NULL, NULL,
     "no BOS, even if the file asks for one"},
};
static const struct option_def detokenize_defs[] = {
    {"model", "m", OPT_STRING, offsetof(struct text_args, model), 0, 0, NULL, "MODEL",
     "a GGUF file or a name; also positional"},
    {"file", "f", OPT_STRING, offsetof(struct text_args, file), 0, 0, NULL, "FILE",
     "the ids from a file; - is stdin"},
    {"special", NULL, OPT_FLAG, offsetof(struct text_args, special), 0, 0, NULL, NULL,
     "write control tokens out"},
};

/* Opens MODEL and reads the input. */
static hasten_status begin(const struct text_args *a, const struct option_positionals *pos,
                           struct model_text *m, char **text, size_t *len, struct hasten_error *err)
{
    const char *model = pos->n ? pos->items[0] : a->model;
    if (!model)
        return error_set(err, HASTEN_ERR_USAGE, "no MODEL (expected a GGUF file or a name such as smollm2)");
    hasten_status st = model_text_open(model, m, err);
    if (st)
        return st;
    if (!a->prompt)
        return file_slurp(a->file ? a->file : "-", LIMIT_TEXT_BYTES, text, len, err);
    *len = strlen(a->prompt);
    *text = mem_strndup(a->prompt, *len);
    return *text ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "tokenize: out of memory");
}

static hasten_status print_ids(const struct tokens *ids, struct hasten_error *err)
{
    struct buf b = {0};
    int bad = buf_putc(&b, '[');
    for (int64_t i = 0; i < ids->n && !bad; i++)
        bad = buf_printf(&b, i ? ",%d" : "%d", (int)ids->ids[i]);
    bad |= buf_puts(&b, "]\n");
    if (!bad)
        cli_out(b.data, b.len);
    buf_free(&b);
    return bad ? error_set(err, HASTEN_ERR_MEMORY, "tokenize: out of memory") : HASTEN_OK;
}

int cmd_tokenize(const struct command *c, int argc, char **argv)
{
    struct text_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Text:", .defs = tokenize_defs, .n = 5, .dst = &a}};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 2, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    struct model_text m = {0};
    struct tokens ids = {0};
    char *text = NULL;
    size_t len = 0;
    unsigned flags = (a.no_bos ? 0u : VOCAB_BOS) | (a.special ? VOCAB_SPECIAL : 0u);
    hasten_status st = begin(&a, &pos, &m, &text, &len, &err);
    if (!st)
        st = vocab_encode(m.vocab, text, len, flags, &ids, &err);
    if (!st)
        st = print_ids(&ids, &err);
    rc = st ? cli_fail(&err) : cli_finish(0);
    tokens_free(&ids);
    mem_free(text);
    model_text_close(&m);
    return rc;
}

static hasten_status parse_ids(const char *text, size_t len, struct tokens *ids, struct hasten_error *err)
{
    json_t *v = NULL;
    hasten_status st = json_parse("ids", text, len, &v, err);
    if (!st && !json_is_array(v))
        st = error_set(err, HASTEN_ERR_USAGE, "ids: not a JSON array (expected [1,2,3])");
    for (size_t i = 0; i < json_array_size(v) && !st; i++) {
        const json_t *x = json_array_get(v, i);
        json_int_t id = json_integer_value(x);
        if (!json_is_integer(x) || id < 0 || id > INT32_MAX)
            st = error_set(err, HASTEN_ERR_USAGE, "ids: element %zu is not a token id (expected an integer)",
                           i);
        else if (tokens_push(ids, (int32_t)id))
            st = error_set(err, HASTEN_ERR_MEMORY, "detokenize: out of memory");
    }
    json_decref(v);
    return st;
}

int cmd_detokenize(const struct command *c, int argc, char **argv)
{
    struct text_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Text:", .defs = detokenize_defs, .n = 3, .dst = &a}};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 2, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    struct model_text m = {0};
    struct tokens ids = {0};
    struct buf out = {0};
    char *text = NULL;
    size_t len = 0;
    hasten_status st = begin(&a, &pos, &m, &text, &len, &err);
    if (!st)
        st = parse_ids(text, len, &ids, &err);
    if (!st)
        st = vocab_decode(m.vocab, ids.ids, ids.n, a.special, &out, &err);
    if (!st)
        cli_out(out.data, out.len);
    rc = st ? cli_fail(&err) : cli_finish(0);
    buf_free(&out);
    tokens_free(&ids);
    mem_free(text);
    model_text_close(&m);
    return rc;
}
