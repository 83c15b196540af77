/* Answers that have a form: response_format, tools, reasoning. What a request says of these becomes a grammar, and the answer
 * is taken apart as it comes. Shared by the endpoints of conversations, whatever their wire format. */
#ifndef HASTEN_SERVE_STRUCTURED_H
#define HASTEN_SERVE_STRUCTURED_H
#include "serve/request.h"

/* From messages, tools and all else of g->p to the queue: renders, sets the grammar and the splitters, starts; or answers with
 * what is wrong. g is gone afterwards. */
void chat_start(struct generation *g);
/* The answer's form where there are no tools and no reasoning (/v1/completions). */
bool structured_format(struct generation *g, struct fault *f);
/* The calls of an assistant's message as the model's template wants them: m is a copy that may be changed. */
bool structured_calls(const struct server *s, json_t *m, size_t i, struct fault *f);
/* The number of prompt tokens of g->p's conversation: for count_tokens. */
bool chat_count(struct generation *g, int64_t *n, struct fault *f);

#endif
