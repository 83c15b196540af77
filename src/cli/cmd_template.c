/* `hasten template`: a conversation through the model's chat template, as text. */
#include "base/file.h"
#include "base/limits.h"
#include "cli/session.h"
#include "text/prompt.h"
#include <string.h>

struct template_args {
    const char *model, *tools, *file;
    bool generation;
    struct ui ui;
};

static const struct option_def template_defs[] = {
    {"model", "m", OPT_STRING, offsetof(struct template_args, model), 0, 0, NULL, "MODEL",
     "a GGUF file or a name; also positional"},
    {"file", "f", OPT_STRING, offsetof(struct template_args, file), 0, 0, NULL, "FILE",
     "the messages from a file; - is stdin"},
    {"tools", NULL, OPT_STRING, offsetof(struct template_args, tools), 0, 0, NULL, "FILE",
     "a JSON array of tools"},
    {"add-generation-prompt", NULL, OPT_FLAG, offsetof(struct template_args, generation), 0, 0, NULL, NULL,
     "end with the beginning of an answer"},
};

static hasten_status read_json(const char *path, json_t **out, struct hasten_error *err)
{
    char *text = NULL;
    size_t len = 0;
    hasten_status st = file_slurp(path, LIMIT_JSON_BYTES, &text, &len, err);
    if (!st)
        st = json_parse(strcmp(path, "-") == 0 ? "stdin" : path, text, len, out, err);
    mem_free(text);
    return st;
}

static hasten_status render(const struct template_args *a, const struct model_text *m,
                            struct hasten_error *err)
{
    struct prompter *p = NULL;
    struct prompt out = {0};
    json_t *messages = NULL, *tools = NULL;
    hasten_status st = prompter_open(m->gguf, m->vocab, &p, err);
    if (!st && !p)
        st = error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: no chat template (expected tokenizer.chat_template)",
                       m->path.data);
    if (!st)
        st = read_json(a->file ? a->file : "-", &messages, err);
    if (!st && a->tools)
        st = read_json(a->tools, &tools, err);
    if (!st)
        st = prompter_render(p, messages, tools, a->generation, &out, err);
    if (!st)
        cli_out(out.text.data, out.text.len);
    json_decref(messages);
    json_decref(tools);
    prompt_free(&out);
    prompter_close(p);
    return st;
}

int cmd_template(const struct command *c, int argc, char **argv)
{
    struct template_args a = {0};
    struct option_group groups[] = {ui_group(&a.ui),
                                    {.title = "Template:", .defs = template_defs, .n = 4, .dst = &a}};
    struct option_positionals pos;
    struct hasten_error err;
    int rc = command_parse(c, &a.ui, groups, 2, 1, argc, argv, &pos);
    if (rc >= 0)
        return rc;
    const char *model = pos.n ? pos.items[0] : a.model;
    if (!model)
        return cli_usage(c, "no MODEL (expected a GGUF file or a name such as smollm2)");
    struct model_text m = {0};
    hasten_status st = model_text_open(model, &m, &err);
    if (!st)
        st = render(&a, &m, &err);
    rc = st ? cli_fail(&err) : cli_finish(0);
    model_text_close(&m);
    return rc;
}
