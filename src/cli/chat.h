/* A conversation over one sequence: messages in, answers out, only new tokens prefilled. */
#ifndef HASTEN_CLI_CHAT_H
#define HASTEN_CLI_CHAT_H
#include "cli/generate.h"
#include "text/prompt.h"

struct chat { /* zero-initialise, then chat_open */
    struct session *session;
    struct sampling *law;
    struct ui *ui;
    struct prompter *prompter; /* NULL: raw completion; the transcript is the prompt */
    struct json_t *messages;   /* the conversation */
    struct buf said;           /* exact text behind the ids; raw: the last question */
    struct tokens ids;         /* what the sequence was last asked to hold: prompt and answer */
    int64_t asked_at;          /* raw: ids before the last question */
    bool answered;             /* raw: the ids end with a question and its answer */
};

/* raw: do not use the template. system: NULL, or the first message. */
hasten_status chat_open(struct chat *c, struct session *s, struct sampling *law, struct ui *ui, bool raw,
                        const char *system, struct hasten_error *err);
void chat_close(struct chat *c);

/* Adds the user's text, answers, adds the answer. A failed turn leaves the conversation as it was. */
hasten_status chat_turn(struct chat *c, const char *text, size_t len, answer_fn show, void *show_ctx,
                        struct answer *out, struct hasten_error *err);
/* Forgets the conversation but the system message; system non-NULL: replaces it ("" removes it). */
hasten_status chat_restart(struct chat *c, const char *system, struct hasten_error *err);
bool chat_can_repeat(const struct chat *c); /* is there a last answer? */
/* Answers the last question again, in place of its answer. When that fails the conversation is as it was. */
hasten_status chat_repeat(struct chat *c, answer_fn show, void *show_ctx, struct answer *out,
                          struct hasten_error *err);

/* chat_file.c. The conversation into a new file: a JSON array of messages, as `template` takes them; raw, the
 * transcript's text; where the name ends with .seq, a snapshot of the sequence with the conversation in it.
 * HASTEN_ERR_FILE when there is such a file. */
hasten_status chat_save(const struct chat *c, const char *path, struct hasten_error *err);

/* Such a file in the place of the conversation; whichever it is, its bytes say. When it is refused the conversation is
 * as it was. */
hasten_status chat_load(struct chat *c, const char *path, struct hasten_error *err);

/* The loop on a terminal; returns an exit status. history: NULL, or the file that keeps the lines typed. */
int chat_loop(struct chat *c, const char *history);

#endif
