/* The grammar of an answer that may call tools: the forms of text/tools.h around arguments that fit their schemas. */
#ifndef HASTEN_SAMPLE_TOOL_GRAMMAR_H
#define HASTEN_SAMPLE_TOOL_GRAMMAR_H
#include "base/json.h"
#include "text/tools.h"
#include "text/vocab.h"

enum tool_choice {
    TOOL_CHOICE_AUTO,     /* text, calls, or text and then calls */
    TOOL_CHOICE_REQUIRED, /* calls */
    TOOL_CHOICE_NAMED     /* calls of one tool */
};

struct tool_wish {
    struct tool_format format;
    const json_t
        *tools; /* [{"type": "function", "function": {"name", "parameters", "strict"}}], as OpenAI has them */
    enum tool_choice choice;
    const char *name; /* TOOL_CHOICE_NAMED */
    const char *
        content; /* TOOL_CHOICE_AUTO: what text without calls is, a rule that the caller appends; NULL: anything */
    bool parallel; /* more than one call (where the format has it) */
    bool thinking; /* the answer begins inside <think> */
};

/* Appends GBNF with the rule root. Marks that are control tokens of v (NULL: none are) are tokens of the grammar. A schema
 * that json_schema.h refuses is an error for a tool with "strict": true; otherwise its arguments are any object, and notes
 * (NULL, or an array) gets a sentence. HASTEN_ERR_USAGE: tools that are none, a name that none has; HASTEN_ERR_UNSUPPORTED: a
 * template without a form of calls, a schema. */
hasten_status tool_grammar(const struct tool_wish *w, const struct vocab *v, json_t *notes, struct buf *gbnf,
                           struct hasten_error *err);
/* The first rules for an answer of another grammar behind reasoning: "root ::= ... NAME", for a rule NAME that the caller
 * appends. 0, or -1 when out of memory. */
int thinking_rules(bool inside, const char *name, struct buf *gbnf);

#endif
