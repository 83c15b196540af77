/* Fuzz target of conversations: messages and tools as JSON, separated by a NUL, through a fixed template (ChatML) to ids.
 * What is encoded holds as many control tokens as the template writes, never one more from content. */
#include "fuzz.h"
#include "hasten/text.h"

static struct hasten_model *model;
static struct hasten_chat *chat;

static void open_once(void)
{
    struct hasten_error err;
    if (chat)
        return;
    check(!hasten_model_open("script:hash=1", &model, &err));
    check(!hasten_chat_open(model, &chat, &err));
}

/* A turn is <|im_start|> (257) ROLE CONTENT <|im_end|> (258); what begins the answer is one more beginning. */
static void check_turns(const struct hasten_ids *ids)
{
    int64_t begun = 0, ended = 0;
    for (int64_t i = 0; i < ids->n; i++) {
        check(ids->ids[i] >= 0 && ids->ids[i] <= 258 && ids->ids[i] != 256);
        begun += ids->ids[i] == 257;
        ended += ids->ids[i] == 258;
        check(begun == ended || begun == ended + 1);
    }
    check(begun == ended + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char messages[4097], tools[1025];
    struct hasten_ids ids = {0};
    struct hasten_error err = {0};
    const struct part m = next_part(&data, &size), t = {(const char *)data, size};
    if (m.len >= sizeof messages || t.len >= sizeof tools)
        return 0;
    open_once();
    snprintf(messages, sizeof messages, "%.*s", (int)m.len, m.text);
    snprintf(tools, sizeof tools, "%.*s", (int)t.len, t.text);
    const hasten_status st =
        hasten_chat_encode_json(chat, messages, tools[0] ? tools : NULL, true, &ids, &err);
    check_error(st, &err);
    if (!st)
        check_turns(&ids);
    hasten_ids_free(&ids);
    return 0;
}
