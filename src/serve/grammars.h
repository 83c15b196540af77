/* Compiled grammars, kept: the masks of a grammar fill as they are used, so a second request with the same grammar finds
 * them. At most LIMIT_SERVE_GRAMMARS; the one that was used longest ago goes, once nobody holds it. */
#ifndef HASTEN_SERVE_GRAMMARS_H
#define HASTEN_SERVE_GRAMMARS_H
#include "sample/grammar.h"
#include <stdbool.h>

struct grammars;
struct kept_grammar {
    struct grammar *grammar;
    struct grammar_masks *masks;
};

/* v must outlive it. n_vocab: rows of the logits. */
hasten_status grammars_open(const struct vocab *v, int32_t n_vocab, struct grammars **out,
                            struct hasten_error *err);
void grammars_close(struct grammars *g); /* when nothing is held; NULL is fine */
/* The grammar of a text, compiled or kept; never_end as in grammar_masks_open. To be given back. Any thread. name is for
 * messages. Errors as of grammar_open. */
hasten_status grammars_take(struct grammars *g, const char *name, const char *text, size_t len,
                            bool never_end, const struct kept_grammar **out, struct hasten_error *err);
void grammars_give(struct grammars *g, const struct kept_grammar *k); /* NULL is fine */

#endif
