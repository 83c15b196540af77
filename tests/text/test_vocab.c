/* Tokenizers on tiny vocabularies: refusals, round trips of hostile bytes, control tokens, failing allocations. Ids against the reference are test_ids.py's business. */
#include "text_test.h"

#include "base/limits.h"
#include "text/unicode.h"

#include <stdio.h>
#include <string.h>

#define ALL_KINDS 4

static const struct text_options kinds[ALL_KINDS] = {
    {.kind = TINY_SMOLLM, .n_tokens = 600},
    {.kind = TINY_QWEN2, .n_tokens = 600},
    {.kind = TINY_GEMMA3, .n_tokens = 700},
    {.kind = TINY_GEMMA3, .n_tokens = 700, .prefix = 1},
};

static void open_kind(int i, struct text_vocab *t)
{
    struct hasten_error err = {0};
    if (text_vocab_open(&kinds[i], t, &err))
        fail_msg("%s", err.message);
}

/* What a round trip may change: NFC for qwen2, U+2581 for SentencePiece. */
static void expected(int kind, const char *text, size_t len, struct buf *out)
{
    struct unicode_nfc w = {0};
    for (size_t i = 0; i < len;) {
        size_t n = utf8_valid_run(text + i, len - i);
        const char *s = text + i;
        size_t m = n;
        if (kinds[kind].kind == TINY_QWEN2)
            assert_int_equal(unicode_nfc(&w, text + i, n, &s, &m), 0);
        for (size_t k = 0; k < m; k++) {
            bool space =
                kinds[kind].kind == TINY_GEMMA3 && m - k >= 3 && memcmp(s + k, "\xE2\x96\x81", 3) == 0;
            buf_putc(out, space ? ' ' : s[k]);
            k += space ? 2 : 0;
        }
        i += n;
        if (i < len)
            buf_putc(out, text[i++]);
    }
    unicode_nfc_free(&w);
}

static void round_trip(int kind, const struct vocab *v, const char *text, size_t len, unsigned flags)
{
    struct hasten_error err = {0};
    struct tokens ids = {0};
    struct buf back = {0}, want = {0};
    bool special = flags & VOCAB_SPECIAL;
    assert_int_equal(vocab_encode(v, text, len, flags, &ids, &err), HASTEN_OK);
    assert_int_equal(vocab_decode(v, ids.ids, ids.n, special, &back, &err), HASTEN_OK);
    expected(kind, text, len, &want);
    assert_int_equal(back.len, want.len);
    assert_true(want.len == 0 || memcmp(back.data, want.data, want.len) == 0);
    int64_t from = (flags & VOCAB_BOS) && vocab_add_bos(v) ? 1 : 0;
    for (int64_t i = from; i < ids.n && !special; i++)
        assert_int_not_equal(vocab_type(v, ids.ids[i]), VOCAB_CONTROL);
    tokens_free(&ids);
    buf_free(&back);
    buf_free(&want);
}

/* ---- refusals ----------------------------------------------------------------------------------------- */

struct refusal {
    enum text_fault fault;
    hasten_status status;
    const char *says;
    int kinds; /* bit 0: BPE, bit 1: SentencePiece */
};

static const struct refusal refusals[] = {
    {FAULT_NO_MODEL, HASTEN_ERR_FILE, "tokenizer.ggml.model", 3},
    {FAULT_MODEL, HASTEN_ERR_UNSUPPORTED,
     "unsupported tokenizer 'wordpiece' (supported: gpt2, gemma4, llama, bert)", 3},
    {FAULT_NO_PRE, HASTEN_ERR_UNSUPPORTED, "unsupported pre-tokenizer ''", 1},
    {FAULT_PRE, HASTEN_ERR_UNSUPPORTED, "unsupported pre-tokenizer 'deepseek' (tokenizer.ggml.pre)", 1},
    {FAULT_NO_TOKENS, HASTEN_ERR_FILE, "tokenizer.ggml.tokens is missing", 3},
    {FAULT_TOKENS_ARE_U32, HASTEN_ERR_FILE, "tokenizer.ggml.tokens", 3},
    {FAULT_TOKENS_EMPTY, HASTEN_ERR_FILE, "one or more strings", 3},
    {FAULT_TOKEN_TOO_LONG, HASTEN_ERR_LIMIT, "has 4097 bytes; the limit is 4096", 3},
    {FAULT_TYPES_SHORT, HASTEN_ERR_FILE, "token_type has", 3},
    {FAULT_TYPES_ARE_STRINGS, HASTEN_ERR_FILE, "token_type", 3},
    {FAULT_TYPE_RANGE, HASTEN_ERR_FILE, "is 9; types are 1 to 6", 3},
    {FAULT_BOS_RANGE, HASTEN_ERR_FILE, "bos_token_id", 3},
    {FAULT_EOS_RANGE, HASTEN_ERR_FILE, "eos_token_id", 3},
    {FAULT_EOT_RANGE, HASTEN_ERR_FILE, "eot_token_id", 3},
    {FAULT_EOS_LIST, HASTEN_ERR_FILE, "eos_token_ids[1]", 3},
    {FAULT_ADD_BOS_IS_STRING, HASTEN_ERR_FILE, "add_bos_token", 3},
    {FAULT_NO_MERGES_OR_SCORES, HASTEN_ERR_FILE, "is missing", 3},
    {FAULT_MERGES_OR_SCORES_TYPE, HASTEN_ERR_FILE, "tokenizer.ggml.", 3},
    {FAULT_SCORES_SHORT, HASTEN_ERR_FILE, "scores has", 2},
    {FAULT_SCORE_NAN, HASTEN_ERR_FILE, "is not a number", 2},
    {FAULT_NO_BYTE_TOKEN, HASTEN_ERR_UNSUPPORTED, "without byte fallback (no token <0x41>)", 2},
    {FAULT_BYTE_IS_CONTROL, HASTEN_ERR_FILE, "must have type 6", 2},
    {FAULT_BYTE_IS_CONTROL, HASTEN_ERR_FILE, "byte 0x41 but is a control token", 1},
    {FAULT_MERGE_NO_SPACE, HASTEN_ERR_FILE, "'ab' is not two tokens", 1},
    {FAULT_MERGE_TWO_SPACES, HASTEN_ERR_FILE, "'a b c' is not two tokens", 1},
    {FAULT_MERGE_LEFT, HASTEN_ERR_FILE, "left side of 'nothere b' is not in the vocabulary", 1},
    {FAULT_MERGE_RESULT, HASTEN_ERR_FILE, "result of 'Q Z' is not in the vocabulary", 1},
    {FAULT_MERGE_CONTROL, HASTEN_ERR_FILE, "a control token", 1},
};

static void test_refusals(void **state)
{
    (void)state;
    int tried = 0;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < N_ELEMENTS(refusals); i++) {
            const struct refusal *r = &refusals[i];
            if (!(r->kinds & (kinds[k].kind == TINY_GEMMA3 ? 2 : 1)))
                continue;
            struct text_options o = kinds[k];
            struct text_vocab t;
            struct hasten_error err = {0};
            o.fault = r->fault;
            hasten_status st = text_vocab_open(&o, &t, &err);
            if (st != r->status || !strstr(err.message, r->says))
                fail_msg("fault %d: status %d, '%s'; expected %d, '%s'", r->fault, st, err.message, r->status,
                         r->says);
            assert_null(t.v);
            text_vocab_close(&t);
            tried++;
        }
    assert_in_range(tried, 60, 100);
}

static void test_limits(void **state)
{
    (void)state;
    struct text_vocab t;
    struct hasten_error err = {0};
    struct tokens ids = {0};
    struct buf out = {0};
    open_kind(0, &t);
    assert_int_equal(vocab_encode(t.v, "", (size_t)LIMIT_TEXT_BYTES + 1, 0, &ids, &err), HASTEN_ERR_LIMIT);
    assert_non_null(strstr(err.message, "too long"));
    assert_int_equal(vocab_token_bytes(t.v, -1, true, &out, &err), HASTEN_ERR_USAGE);
    assert_int_equal(vocab_token_bytes(t.v, vocab_size(t.v), true, &out, &err), HASTEN_ERR_USAGE);
    assert_non_null(strstr(err.message, "600"));
    assert_int_equal(vocab_type(t.v, -5), VOCAB_UNKNOWN);
    assert_int_equal(vocab_text(t.v, 600).len, 0);
    assert_false(vocab_is_eog(t.v, 600));
    text_vocab_close(&t);
}

/* ---- behaviour ---------------------------------------------------------------------------------------- */

static const char *const hostile[] = {
    "",
    " ",
    "  ",
    "a",
    "\n",
    "\xFF",
    "\xC3",
    "\xC3\xA4",
    "\xE2\x82",
    "\xF0\x9F\x98",
    "\xED\xA0\x80",
    "\xC0\xAF",
    "\xE0\x80\xAF",
    "\xF4\x90\x80\x80",
    "\xF8\x88\x80\x80\x80",
    "caf\xC3\xA9\xFF ol\xC3",
    "e\xCC\x81 a\xCC\xA3\xCC\x87",
    "\xE2\x96\x81 \xE2\x96\x81x",
    "<|im_start|>user<|im_end|>",
    "<0x0A><bos><eos>",
    "it's WE'LL 's \t\r\n  x",
    "\xEF\xBF\xBF\xEF\xBB\xBF\xE2\x80\x8F",
    "\xCC\x81\xCC\x81",
    "\x80\xE4\xBD\xA0\x80\xE5\xA5\xBD",
};

static void test_round_trip(void **state)
{
    (void)state;
    static const unsigned flags[] = {0, VOCAB_BOS, VOCAB_SPECIAL | VOCAB_BOS};
    for (int k = 0; k < ALL_KINDS; k++) {
        struct text_vocab t;
        uint64_t seed = 7;
        open_kind(k, &t);
        for (size_t f = 0; f < N_ELEMENTS(flags); f++) {
            for (size_t i = 0; i < N_ELEMENTS(hostile); i++)
                round_trip(k, t.v, hostile[i], strlen(hostile[i]), flags[f]);
            round_trip(k, t.v, "a\0b\0\0 c", 8, flags[f]);
        }
        for (int i = 0; i < 3000; i++) { /* random bytes, random pieces of hostile text */
            char text[200];
            size_t len = next_random(&seed) % 60, n = 0;
            while (n < len) {
                const char *h = hostile[next_random(&seed) % N_ELEMENTS(hostile)];
                size_t m = strlen(h);
                if (next_random(&seed) % 2) {
                    text[n++] = (char)next_random(&seed);
                } else {
                    memcpy(text + n, h, m);
                    n += m;
                }
            }
            round_trip(k, t.v, text, n, 0);
        }
        text_vocab_close(&t);
    }
}

static int64_t count_type(const struct vocab *v, const char *text, unsigned flags, enum vocab_token_type type)
{
    struct tokens ids = {0};
    struct hasten_error err = {0};
    int64_t n = 0;
    assert_int_equal(vocab_encode(v, text, strlen(text), flags, &ids, &err), HASTEN_OK);
    for (int64_t i = 0; i < ids.n; i++)
        n += vocab_type(v, ids.ids[i]) == type;
    tokens_free(&ids);
    return n;
}

static void test_control_tokens(void **state)
{
    (void)state;
    struct text_vocab t;
    for (int k = 0; k < 2; k++) {
        open_kind(k, &t);
        const char *text = "<|im_start|>user\nhi<|im_end|><|im_end|><|im_end";
        assert_int_equal(count_type(t.v, text, 0, VOCAB_CONTROL), 0);
        assert_int_equal(count_type(t.v, text, VOCAB_SPECIAL, VOCAB_CONTROL), 3);
        assert_true(vocab_is_eog(t.v, vocab_find(t.v, "<|im_end|>", 10)));
        assert_true(vocab_is_eog(t.v, vocab_find(t.v, "<|endoftext|>", 13)));
        assert_false(vocab_is_eog(t.v, vocab_find(t.v, "<|im_start|>", 12)));
        assert_false(vocab_add_bos(t.v));
        text_vocab_close(&t);
    }
    open_kind(2, &t);
    assert_int_equal(count_type(t.v, "<bos><0x41>x", 0, VOCAB_CONTROL), 0);
    assert_int_equal(count_type(t.v, "<0x41>", 0, VOCAB_BYTE) +
                         count_type(t.v, "<0x41>", VOCAB_SPECIAL, VOCAB_BYTE),
                     2 * count_type(t.v, "<0x41", 0, VOCAB_BYTE) + 2 * count_type(t.v, ">", 0, VOCAB_BYTE));
    assert_int_equal(count_type(t.v, "<bos>x", VOCAB_SPECIAL, VOCAB_CONTROL), 1);
    assert_int_equal(count_type(t.v, "x", VOCAB_BOS, VOCAB_CONTROL), 1);
    assert_int_equal(count_type(t.v, "a\n\nb", 0, VOCAB_USER_DEFINED), 1); /* the longest run */
    assert_string_equal(vocab_describe(t.v), "spm");
    text_vocab_close(&t);
}

static void test_no_types(void **state)
{
    (void)state;
    struct text_options o = kinds[0];
    struct text_vocab t;
    struct hasten_error err = {0};
    o.no_types = 1;
    assert_int_equal(text_vocab_open(&o, &t, &err), HASTEN_OK);
    assert_int_equal(vocab_type(t.v, 0), VOCAB_NORMAL);
    assert_int_equal(count_type(t.v, "<|im_start|>", VOCAB_SPECIAL, VOCAB_NORMAL) > 1, 1);
    text_vocab_close(&t);
}

static void test_prefix(void **state)
{
    (void)state;
    struct text_vocab t;
    struct hasten_error err = {0};
    struct tokens with = {0}, without = {0};
    open_kind(3, &t);
    assert_int_equal(vocab_encode(t.v, "the", 3, 0, &with, &err), HASTEN_OK);
    assert_int_equal(vocab_encode(t.v, "the", 3, VOCAB_NO_PREFIX, &without, &err), HASTEN_OK);
    assert_int_equal(memcmp(vocab_text(t.v, with.ids[0]).data, "\xE2\x96\x81", 3), 0);
    assert_int_not_equal(memcmp(vocab_text(t.v, without.ids[0]).data, "\xE2\x96\x81", 3), 0);
    tokens_free(&with);
    tokens_free(&without);
    text_vocab_close(&t);
}

/* ---- allocations -------------------------------------------------------------------------------------- */

static void test_allocations(void **state)
{
    (void)state;
    const char text[] =
        "It's 12 caf\xC3\xA9s: e\xCC\x81\xCC\xA3 <|im_end|> the river runs past the old mill\xFF  and aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for (int k = 0; k < ALL_KINDS; k++)
        for (uint64_t every = 0; every < 2; every++) {
            struct text_vocab t;
            struct hasten_error err = {0};
            struct mem_stats before, after;
            open_kind(k, &t);
            vocab_close(t.v);
            t.v = NULL;
            mem_stats_get(&before);
            uint64_t n = 1;
            for (;; n++) {
                struct tokens ids = {0};
                struct buf back = {0};
                struct vocab *v = NULL;
                mem_fail_at(n, every);
                hasten_status st = vocab_open(t.g, &v, &err);
                if (!st)
                    st = vocab_encode(v, text, sizeof text - 1, VOCAB_BOS | VOCAB_SPECIAL, &ids, &err);
                if (!st)
                    st = vocab_decode(v, ids.ids, ids.n, true, &back, &err);
                uint64_t failed = mem_fail_count();
                mem_fail_at(0, 0);
                if (failed) {
                    assert_int_equal(st, HASTEN_ERR_MEMORY);
                    assert_int_equal(err.status, HASTEN_ERR_MEMORY);
                } else {
                    assert_int_equal(st, HASTEN_OK);
                }
                tokens_free(&ids);
                buf_free(&back);
                vocab_close(v);
                mem_stats_get(&after);
                assert_int_equal(after.live_bytes, before.live_bytes);
                if (!failed)
                    break;
            }
            assert_in_range(n, 10, 200);
            text_vocab_close(&t);
        }
}

/* Opens o's vocabulary from data: a GGUF file, or a tokenizer.json. */
static hasten_status open_again(const struct buf *json, const struct gguf *g, struct vocab **v,
                                struct hasten_error *err)
{
    struct vocab_json src = {
        .path = "tiny/tokenizer.json",
        .tokenizer = json->data,
        .tokenizer_len = json->len,
        .config = "{\"chat_template\": \"{{ x }}\", \"bos_token\": {\"content\": \"<|im_start|>\"}}"};
    src.config_len = strlen(src.config);
    return g ? vocab_open(g, v, err) : vocab_open_json(&src, v, err);
}

#define BYTES ", {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}"

/* Every allocation fails once, of opening, encoding and decoding; nothing leaks, and the error says memory. */
static void test_more_allocations(void **state)
{
    (void)state;
    static const char text[] =
        "The  caf\xC3\xA9 <|im_end|> e\xCC\x81\xCC\xA3 \xE4\xBD\xA0 the river\xFF runs1234 12 past";
    static const struct {
        struct text_options o;
        const char *normalizer, *pre_tokenizer; /* of a tokenizer.json */
    } cases[] = {
        {{.kind = TINY_GEMMA3, .n_tokens = 500, .model = TEXT_GEMMA4}, NULL, NULL},
        {{.kind = TINY_SMOLLM, .n_tokens = 400, .model = TEXT_BERT}, NULL, NULL},
        {{.kind = TINY_SMOLLM, .n_tokens = 400, .pre = "tiny_aya"}, NULL, NULL},
        {{.kind = TINY_SMOLLM, .n_tokens = 400},
         "{\"type\": \"NFKC\"}",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}" BYTES},
        {{.kind = TINY_GEMMA3, .n_tokens = 500},
         "{\"type\": \"Prepend\", \"prepend\": \"x\"}",
         "{\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\"}"},
        {{.kind = TINY_SMOLLM, .n_tokens = 400, .model = TEXT_BERT},
         "{\"type\": \"BertNormalizer\"}",
         "{\"type\": \"BertPreTokenizer\"}"},
    };
    for (size_t k = 0; k < N_ELEMENTS(cases); k++) {
        struct text_vocab t = {0};
        struct buf json = {0};
        struct hasten_error err = {0};
        struct mem_stats before, after;
        if (cases[k].pre_tokenizer)
            assert_int_equal(text_json(&cases[k].o, cases[k].normalizer, cases[k].pre_tokenizer, &json), 0);
        else
            assert_int_equal(text_vocab_open(&cases[k].o, &t, &err), HASTEN_OK);
        mem_stats_get(&before);
        uint64_t failed = 1;
        for (uint64_t n = 1; failed; n++) {
            struct tokens ids = {0};
            struct buf back = {0};
            struct vocab *v = NULL;
            mem_fail_at(n, 0);
            hasten_status st = open_again(&json, t.g, &v, &err);
            if (!st)
                st =
                    vocab_encode(v, text, sizeof text - 1, VOCAB_BOS | VOCAB_SPECIAL | VOCAB_EOS, &ids, &err);
            if (!st)
                st = vocab_decode(v, ids.ids, ids.n, true, &back, &err);
            failed = mem_fail_count();
            mem_fail_at(0, 0);
            if (st != (failed ? HASTEN_ERR_MEMORY : HASTEN_OK))
                fail_msg("case %zu, allocation %d: %d %s", k, (int)n, st, err.message);
            tokens_free(&ids);
            buf_free(&back);
            vocab_close(v);
            mem_stats_get(&after);
            assert_int_equal(after.live_bytes, before.live_bytes);
            assert_in_range(n, 1, 400);
        }
        buf_free(&json);
        text_vocab_close(&t);
    }
}

/* What a folder says beside its tokens. */
static void test_folder(void **state)
{
    (void)state;
    struct text_options o = {.kind = TINY_SMOLLM, .n_tokens = 400};
    struct buf json = {0};
    struct hasten_error err = {0};
    struct vocab *v;
    assert_int_equal(text_json(&o, NULL, "{\"type\": \"ByteLevel\"}", &json), 0);
    assert_int_equal(open_again(&json, NULL, &v, &err), HASTEN_OK);
    assert_int_equal(vocab_chat_template(v).len, 7);
    assert_memory_equal(vocab_chat_template(v).data, "{{ x }}", 7);
    assert_int_equal(vocab_bos(v), vocab_find(v, "<|im_start|>", 12));
    assert_false(vocab_add_bos(v));
    assert_int_equal(vocab_sep(v), -1);
    assert_true(vocab_is_eog(v, vocab_find(v, "<|im_end|>", 10)));
    assert_string_equal(vocab_describe(v), "bpe/tokenizer.json");
    assert_int_equal(count_type(v, "<|im_start|>", 0, VOCAB_CONTROL), 0);
    assert_int_equal(count_type(v, "<|im_start|>", VOCAB_SPECIAL, VOCAB_CONTROL), 1);
    vocab_close(v);
    struct vocab_json src = {.path = "x.json",
                             .tokenizer = json.data,
                             .tokenizer_len = json.len,
                             .template = "jinja",
                             .template_len = 5};
    assert_int_equal(vocab_open_json(&src, &v, &err), HASTEN_OK);
    assert_int_equal(vocab_chat_template(v).len, 5);
    vocab_close(v);
    /* control tokens of this file are to be found in normalised text; other cases of them are text all the same */
    assert_int_equal(text_json(&o, "{\"type\": \"Lowercase\"}", "{\"type\": \"ByteLevel\"}", &json), 0);
    src.tokenizer = json.data;
    src.tokenizer_len = json.len;
    assert_int_equal(vocab_open_json(&src, &v, &err), HASTEN_OK);
    assert_int_equal(count_type(v, "<|IM_END|> <|Im_End|>", VOCAB_SPECIAL, VOCAB_CONTROL), 0);
    assert_int_equal(count_type(v, "<|IM_END|> <|im_end|>", VOCAB_SPECIAL, VOCAB_CONTROL), 1);
    vocab_close(v);
    src.config = "[";
    src.config_len = 1;
    assert_int_equal(vocab_open_json(&src, &v, &err), HASTEN_ERR_FILE);
    assert_non_null(strstr(err.message, "tokenizer_config.json: line 1"));
    buf_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_control_tokens),
        cmocka_unit_test(test_no_types),    cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_more_allocations),
        cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
