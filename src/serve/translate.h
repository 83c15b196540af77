/* Bodies of other APIs as bodies of chat completions: what their endpoints share. A translation reads the fields that differ
 * and hands on the others, which the table of fields (fields.h) then reads. */
#ifndef HASTEN_SERVE_TRANSLATE_H
#define HASTEN_SERVE_TRANSLATE_H
#include "serve/inside.h"

/* A body under translation; bad: memory ran out somewhere. */
struct translation {
    const json_t *from; /* the client's */
    json_t *to;         /* chat's */
    json_t *messages;   /* of to */
    bool bad;
    struct fault *f;
};

/* Reads the exchange's body into from (the caller's) and makes to. False after filling f. */
bool translation_open(struct translation *t, struct exchange *x, json_t **from, struct fault *f);
/* Takes over the value under a name of chat's. */
void translation_set(struct translation *t, const char *name, json_t *value);
/* Hands on all fields but those that are listed ("a b c"), null ones aside. */
void translation_pass(struct translation *t, const char *but);
/* Adds a message; takes both. content NULL: null. */
json_t *translation_message(struct translation *t, const char *role, json_t *content);
/* A function that a model may call, in chat's words. */
void translation_tool(struct translation *t, const char *name, const json_t *description,
                      const json_t *schema, const json_t *strict);
/* The text of a string, or of a list of parts {"type": text, "text"}: a new string; NULL after filling f. types: of parts,
 * "a b". where: for messages. */
json_t *translation_text(struct translation *t, const json_t *v, const char *types, const char *where);
/* A message with what a tool answered; id: of its call, where that is a string. False after filling f. */
bool translation_result(struct translation *t, const json_t *id, const json_t *content, const char *types,
                        const char *where);
/* Whether something went wrong: false after filling f and dropping to. */
bool translation_done(struct translation *t);

#endif
