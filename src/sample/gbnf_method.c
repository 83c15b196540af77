/* Grammars as a method: what --grammar does, with its engine and its head to be chosen. */
#include "engine/sample.h"

struct gbnf_knobs {
    const char *file;
    int engine, head;
};

static const struct knob gbnf_table[] = {
    {"file", KNOB_TEXT, offsetof(struct gbnf_knobs, file), 0, 0, NULL, NULL, NULL,
     "the grammar (docs/grammars.md)"},
    {"engine", KNOB_CHOICE, offsetof(struct gbnf_knobs, engine), 0, 0, "trie", "trie|scan", NULL,
     "trie: a trie of the vocabulary, walked once a place; scan: the reference, which tries every token"},
    {"head", KNOB_CHOICE, offsetof(struct gbnf_knobs, head), 0, 0, "sparse", "sparse|full", NULL,
     "sparse: logits that the grammar forbids are not computed"},
};

static hasten_status gbnf_check(const struct method_site *site, const void *knobs, struct hasten_error *err)
{
    (void)site;
    return ((const struct gbnf_knobs *)knobs)->file
               ? HASTEN_OK
               : error_set(err, HASTEN_ERR_USAGE,
                           "--sample gbnf:file: found none (expected a grammar's file)");
}

static void gbnf_grammar(const void *knobs, struct sample_grammar *out)
{
    const struct gbnf_knobs *k = knobs;
    *out = (struct sample_grammar){k->file, k->engine == 1, k->head == 1};
}

static const struct sample_ops gbnf_ops = {.grammar = gbnf_grammar};

static const struct method_conflict gbnf_conflicts[] = {
    {STAGE_STOP, NULL, "what it puts in is not of the grammar", NULL},
};

const struct method method_gbnf = {
    .name = "gbnf",
    .title = "writes only what a grammar says",
    .paper =
        "GBNF after llama.cpp; masks as Willard and Louf, arXiv:2307.09702, walked over a trie as XGrammar, "
        "Dong et al., arXiv:2411.15100, keeps them",
    .stage = STAGE_SAMPLE,
    .guarantee = METHOD_EXACT,
    .exact_to = "sampling under the grammar's masks; against the free run it is another distribution",
    .role = "grammar",
    .knobs = gbnf_table,
    .n_knobs = sizeof gbnf_table / sizeof *gbnf_table,
    .knobs_bytes = sizeof(struct gbnf_knobs),
    .conflicts = gbnf_conflicts,
    .n_conflicts = sizeof gbnf_conflicts / sizeof *gbnf_conflicts,
    .text =
        "`--grammar FILE` is `--sample gbnf:file=FILE`. The mask of a token is known before the step that chooses it, so the "
        "output head is asked for the tokens of the mask alone where these lie in less than a quarter of its panels of "
        "16 rows: where the structure of the text is due, a large part of a small model's weights is then not read. Not with "
        "--logprobs (they are the model's own, before the mask), with mirostat, or beside proposed tokens. A token that "
        "alone is allowed costs no step at all.",
    .check = gbnf_check,
    .hosted = &gbnf_ops,
};
