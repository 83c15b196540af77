/* `hasten tokenize` and `hasten detokenize`: text to ids and back, byte for byte. Need only a vocabulary. */
#include "base/file.h"
#include "base/limits.h"
#include "cli/session.h"
#include <jansson.h>
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

static hasten_status open_model(const struct text_args *a, const struct option_positionals *pos,
                                struct model_text *m, struct hasten_error *err)
{
    const char *model = pos->n ? pos->items[0] : a->model;
    if (!model)
        return error_set(err, HASTEN_ERR_USAGE, "no MODEL (expected a GGUF file or a name such as smollm2)");
    return model_text_open(model, m, err);
}

static hasten_status read_text(const struct text_args *a, char **text, size_t *len, struct hasten_error *err)
{
    if (!a->prompt)
        return file_slurp(a->file ? a->file : "-", LIMIT_TEXT_BYTES, text, len, err);
    *len = strlen(a->prompt);
    *text = mem_strndup(a->prompt, *len);
    return *text ? HASTEN_OK : error_set(err, HASTEN_ERR_MEMORY, "tokenize: out of memory");
}

/* Bytes of the text that the vocabulary has no token for (none with byte fallback): a byte alone gives no id. */
static hasten_status count_dropped(const struct vocab *v, const char *text, size_t len, uint64_t *dropped,
                                   struct hasten_error *err)
{
    uint64_t count[256] = {0};
    hasten_status st = HASTEN_OK;
    for (size_t i = 0; i < len; i++)
        count[(unsigned char)text[i]]++;
    for (int b = 0; b < 256 && !st; b++) {
        struct tokens one = {0};
        char byte = (char)b;
        if (count[b])
            st = vocab_encode(v, &byte, 1, VOCAB_NO_PREFIX, &one, err);
        if (count[b] && !st && one.n == 0)
            *dropped += count[b];
        tokens_free(&one);
    }
    return st;
}

/* Some vocabularies cannot say every byte, as their reference cannot: say so when this text met it. */
static hasten_status warn_of_loss(struct ui *ui, const struct vocab *v, const struct tokens *ids,
                                  bool special, const char *text, size_t len, struct hasten_error *err)
{
    struct buf back = {0};
    uint64_t dropped = 0;
    hasten_status st = ui->quiet ? HASTEN_OK : vocab_decode(v, ids->ids, ids->n, special, &back, err);
    bool same = ui->quiet || (back.len == len && (len == 0 || memcmp(back.data, text, len) == 0));
    if (!st && !same)
        st = count_dropped(v, text, len, &dropped, err);
    if (!st && dropped)
        ui_warn(ui, "%llu byte%s of the text dropped: the vocabulary has no token for %s",
                (unsigned long long)dropped, dropped > 1 ? "s" : "", dropped > 1 ? "them" : "it");
    else if (!st && !same)
        ui_warn(ui, "the ids stand for a normalised form of the text, not for its bytes");
    buf_free(&back);
    return st;
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
    struct option_group groups[] = {
        ui_group(&a.ui),
        {.title = "Text:", .defs = tokenize_defs, .n = 5, .dst = &a, .exclusive = "prompt file"}};
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
    hasten_status st = open_model(&a, &pos, &m, &err);
    if (!st)
        st = read_text(&a, &text, &len, &err);
    if (!st)
        st = vocab_encode(m.vocab, text, len, flags, &ids, &err);
    if (!st)
        st = warn_of_loss(&a.ui, m.vocab, &ids, a.special, text, len, &err);
    if (!st)
        st = print_ids(&ids, &err);
    rc = st ? ui_fail(&a.ui, &err) : cli_finish(0);
    tokens_free(&ids);
    mem_free(text);
    model_text_close(&m);
    return rc;
}

static hasten_status print_bytes(const struct ui *ui, const struct buf *bytes, struct hasten_error *err)
{
    if (!ui->json) {
        cli_out(bytes->data, bytes->len);
        return HASTEN_OK;
    }
    json_t *v = json_pack("{s:o}", "text", json_bytes(bytes->data ? bytes->data : "", bytes->len));
    if (!v)
        return error_set(err, HASTEN_ERR_MEMORY, "detokenize: out of memory");
    cli_json(v); /* cmd_detokenize looks at stdout at the end */
    return HASTEN_OK;
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
    hasten_status st = open_model(&a, &pos, &m, &err);
    if (!st)
        st = cli_read_ids(a.file ? a.file : "-", vocab_size(m.vocab), &ids, &err);
    if (!st)
        st = vocab_decode(m.vocab, ids.ids, ids.n, a.special, &out, &err);
    if (!st)
        st = print_bytes(&a.ui, &out, &err);
    rc = st ? ui_fail(&a.ui, &err) : cli_finish(0);
    buf_free(&out);
    tokens_free(&ids);
    model_text_close(&m);
    return rc;
}
