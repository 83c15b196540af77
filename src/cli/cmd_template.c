/* `hasten template`: a conversation through the model's chat template, as text. */
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

/* Arrays of objects, or the message says of which file not. */
static hasten_status read_objects(const char *path, json_t **out, struct hasten_error *err)
{
    const char *name = cli_input_name(path);
    hasten_status st = cli_read_json(path, out, err);
    if (!st && !json_is_array(*out))
        st = error_set(err, HASTEN_ERR_FILE, "%s: not a JSON array (expected an array of objects)", name);
    for (size_t i = 0; i < json_array_size(*out) && !st; i++)
        if (!json_is_object(json_array_get(*out, i)))
            st = error_set(err, HASTEN_ERR_FILE, "%s: element %zu is not an object (expected one)", name, i);
    return st;
}

static hasten_status print_text(const struct template_args *a, const struct buf *text,
                                struct hasten_error *err)
{
    if (!a->ui.json) {
        cli_out(text->data, text->len);
        return HASTEN_OK;
    }
    json_t *v = json_pack("{s:o}", "text", json_bytes(text->data ? text->data : "", text->len));
    if (!v)
        return error_set(err, HASTEN_ERR_MEMORY, "template: out of memory");
    cli_json(v); /* cmd_template looks at stdout at the end */
    return HASTEN_OK;
}

static hasten_status render(const struct template_args *a, const struct model_text *m,
                            struct hasten_error *err)
{
    struct prompter *p = NULL;
    struct prompt out = {0};
    json_t *messages = NULL, *tools = NULL;
    hasten_status st = HASTEN_OK;
    if (strcmp(cli_input_name(a->file), "stdin") == 0 && a->tools && strcmp(a->tools, "-") == 0)
        return error_set(err, HASTEN_ERR_USAGE,
                         "template: messages and --tools both from stdin (expected a file for one)");
    if (prompter_open(m->gguf, m->vocab, &p, err))
        st = error_prefix(err, "%s", m->path.data);
    if (!st && !p)
        st = error_set(err, HASTEN_ERR_UNSUPPORTED, "%s: no chat template (expected tokenizer.chat_template)",
                       m->path.data);
    if (!st)
        st = read_objects(a->file ? a->file : "-", &messages, err);
    if (!st && a->tools)
        st = read_objects(a->tools, &tools, err);
    if (!st && prompter_render(p, messages, tools, a->generation, &out, err))
        st = error_prefix(err, "%s", m->path.data);
    if (!st)
        st = print_text(a, &out.text, err);
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
    bool env_file = option_given(&groups[1], "file") && !option_on_line(&groups[1], "file");
    bool from_stdin = strcmp(cli_input_name(a.file), "stdin") == 0;
    if (from_stdin && a.tools && strcmp(a.tools, "-") == 0 && !option_on_line(&groups[1], "tools") &&
        !env_file)
        a.tools = NULL; /* the command line gave stdin to the messages */
    const char *model = pos.n ? pos.items[0] : a.model;
    if (!model)
        return cli_usage(c, "no MODEL (expected a GGUF file or a name such as smollm2)");
    struct model_text m = {0};
    hasten_status st = model_text_open(model, &m, &err);
    if (!st)
        st = render(&a, &m, &err);
    rc = st ? ui_fail(&a.ui, &err) : cli_finish(0);
    model_text_close(&m);
    return rc;
}
