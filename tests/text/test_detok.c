/* The streaming detokenizer: whatever the tokens and the stop strings, it gives out what vocab_decode gives, only
 * whole characters, and stops where a naive search over the whole text says. */
#include "text_test.h"

#include "base/limits.h"
#include "text/detok.h"
#include "text/unicode.h"

#include <string.h>

static const struct text_options kinds[] = {
    {.kind = TINY_SMOLLM, .n_tokens = 500},
    {.kind = TINY_QWEN2, .n_tokens = 500},
    {.kind = TINY_GEMMA3, .n_tokens = 700},
    {.kind = TINY_GEMMA3, .n_tokens = 700, .prefix = 1},
};

/* The naive rule: the first end of any stop string; of those that end there the longest. Returns where the text is
 * to be cut, len when nothing stops. */
static size_t naive_stop(const char *text, size_t len, const struct gguf_str *stops, int n_stops,
                         bool *stopped)
{
    *stopped = false;
    for (size_t end = 1; end <= len; end++) {
        size_t longest = 0;
        for (int i = 0; i < n_stops; i++)
            if (stops[i].len <= end && stops[i].len > longest &&
                memcmp(text + end - stops[i].len, stops[i].data, stops[i].len) == 0)
                longest = stops[i].len;
        if (longest) {
            *stopped = true;
            return end - longest;
        }
    }
    return len;
}

/* Whether text may be cut at `cut`: a character border of the whole (bytes that are no characters are units). */
static bool at_border(const char *text, size_t len, size_t cut)
{
    size_t i = 0;
    while (i < cut) {
        uint32_t cp;
        int n = utf8_decode(text + i, len - i, &cp);
        if (n < 0)
            return false; /* a character that is not complete yet */
        i += n ? (size_t)n : 1;
    }
    return i == cut;
}

/* What may still become a stop string is not shown: no shown text ends in a proper beginning of one. */
static size_t longest_tail(const char *text, size_t len, const struct gguf_str *stops, int n_stops)
{
    size_t longest = 0;
    for (int i = 0; i < n_stops; i++)
        for (size_t n = 1; n < stops[i].len && n <= len; n++)
            if (n > longest && memcmp(text + len - n, stops[i].data, n) == 0)
                longest = n;
    return longest;
}

static void check_stream(const struct vocab *v, const int32_t *ids, int n, const struct gguf_str *stops,
                         int n_stops, bool special)
{
    struct hasten_error err = {0};
    struct buf whole = {0}, out = {0}, so_far = {0};
    struct detok *d = NULL;
    bool stopped = false, want_stop;
    assert_int_equal(vocab_decode(v, ids, n, special, &whole, &err), HASTEN_OK);
    size_t want = naive_stop(whole.data, whole.len, stops, n_stops, &want_stop);
    assert_int_equal(detok_open(v, stops, n_stops, special, false, &d, &err), HASTEN_OK);
    for (int i = 0; i < n; i++) {
        assert_int_equal(detok_push(d, ids[i], &out, &stopped, &err), HASTEN_OK);
        if (stopped)
            continue;
        buf_clear(&so_far);
        assert_int_equal(vocab_decode(v, ids, i + 1, special, &so_far, &err), HASTEN_OK);
        assert_true(at_border(so_far.data, so_far.len, out.len));
        size_t held = so_far.len - out.len, tail = longest_tail(so_far.data, so_far.len, stops, n_stops);
        assert_true(held >= tail);
        assert_true(held <= tail + 6); /* an unfinished character behind, one cut by the tail in front */
    }
    assert_int_equal(stopped, want_stop);
    assert_int_equal(detok_finish(d, &out, &err), HASTEN_OK);
    assert_int_equal(out.len, want);
    assert_true(want == 0 || memcmp(out.data, whole.data, want) == 0);
    detok_close(d);
    buf_free(&whole);
    buf_free(&out);
    buf_free(&so_far);
}

static int random_stops(uint64_t *seed, char text[8][8], struct gguf_str *stops)
{
    int n = (int)(next_random(seed) % 5);
    for (int i = 0; i < n; i++) {
        size_t len = 1 + next_random(seed) % 4;
        for (size_t k = 0; k < len; k++)
            text[i][k] = "ab\n \xC3\xA4"[next_random(seed) % 6];
        stops[i] = (struct gguf_str){text[i], len};
    }
    return n;
}

static void test_random_streams(void **state)
{
    (void)state;
    uint64_t seed = 3;
    int stopped = 0;
    for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
        struct text_vocab t;
        struct hasten_error err = {0};
        assert_int_equal(text_vocab_open(&kinds[k], &t, &err), HASTEN_OK);
        struct tokens alphabet = {0};
        assert_int_equal(vocab_encode(t.v, "a", 1, VOCAB_NO_PREFIX, &alphabet, &err), HASTEN_OK);
        assert_int_equal(vocab_encode(t.v, "b", 1, VOCAB_NO_PREFIX, &alphabet, &err), HASTEN_OK);
        assert_int_equal(vocab_encode(t.v, "\n \xFF\xC3\xA4\xC3", 6, VOCAB_NO_PREFIX, &alphabet, &err),
                         HASTEN_OK);
        for (int round = 0; round < 1500; round++) {
            int32_t ids[40];
            char text[8][8];
            struct gguf_str stops[8];
            int n = (int)(next_random(&seed) % 40);
            for (int i = 0; i < n; i++)
                ids[i] = round % 2 ? alphabet.ids[next_random(&seed) % (uint32_t)alphabet.n]
                                   : (int32_t)(next_random(&seed) % (uint32_t)vocab_size(t.v));
            int n_stops = random_stops(&seed, text, stops);
            check_stream(t.v, ids, n, stops, n_stops, round % 3 == 0);
            stopped += n_stops > 0;
        }
        tokens_free(&alphabet);
        text_vocab_close(&t);
    }
    assert_true(stopped > 2000);
}

/* Bytes of a character arrive one token each; nothing shows before the last. */
static void test_character_in_pieces(void **state)
{
    (void)state;
    struct text_vocab t;
    struct hasten_error err = {0};
    struct buf out = {0};
    struct detok *d;
    bool stopped;
    assert_int_equal(text_vocab_open(&kinds[2], &t, &err), HASTEN_OK);
    const char *names[] = {"<0xF0>", "<0x9F>", "<0x98>", "<0x80>"};
    assert_int_equal(detok_open(t.v, NULL, 0, false, true, &d, &err), HASTEN_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out.len, 0);
        assert_int_equal(detok_push(d, vocab_find(t.v, names[i], 6), &out, &stopped, &err), HASTEN_OK);
    }
    assert_string_equal(out.data, "\xF0\x9F\x98\x80");
    buf_clear(&out); /* F0 9F then a letter: what cannot become a character passes as it is */
    assert_int_equal(detok_push(d, vocab_find(t.v, names[0], 6), &out, &stopped, &err), HASTEN_OK);
    assert_int_equal(out.len, 0);
    assert_int_equal(detok_push(d, vocab_find(t.v, "<0x41>", 6), &out, &stopped, &err), HASTEN_OK);
    assert_string_equal(out.data, "\xF0"
                                  "A");
    detok_close(d);
    buf_free(&out);
    text_vocab_close(&t);
}

static void test_dummy_space(void **state)
{
    (void)state;
    struct text_vocab t;
    struct hasten_error err = {0};
    struct tokens ids = {0};
    assert_int_equal(text_vocab_open(&kinds[3], &t, &err), HASTEN_OK);
    assert_int_equal(vocab_encode(t.v, "the mill", 8, VOCAB_BOS, &ids, &err), HASTEN_OK);
    for (int continuation = 0; continuation < 2; continuation++) {
        struct buf out = {0};
        struct detok *d;
        bool stopped;
        assert_int_equal(detok_open(t.v, NULL, 0, false, continuation, &d, &err), HASTEN_OK);
        for (int64_t i = continuation; i < ids.n; i++)
            assert_int_equal(detok_push(d, ids.ids[i], &out, &stopped, &err), HASTEN_OK);
        assert_int_equal(detok_finish(d, &out, &err), HASTEN_OK);
        assert_string_equal(out.data, continuation ? " the mill" : "the mill");
        detok_close(d);
        buf_free(&out);
    }
    tokens_free(&ids);
    text_vocab_close(&t);
}

static void test_bounds(void **state)
{
    (void)state;
    static char long_text[LIMIT_STOP_BYTES + 1];
    struct text_vocab t;
    struct hasten_error err = {0};
    struct gguf_str stops[LIMIT_STOP_STRINGS + 1];
    struct detok *d;
    struct buf out = {0};
    bool stopped;
    memset(long_text, 'x', sizeof long_text);
    assert_int_equal(text_vocab_open(&kinds[0], &t, &err), HASTEN_OK);
    for (int i = 0; i <= LIMIT_STOP_STRINGS; i++)
        stops[i] = (struct gguf_str){long_text, LIMIT_STOP_BYTES - (size_t)i};
    assert_int_equal(detok_open(t.v, stops, LIMIT_STOP_STRINGS + 1, false, false, &d, &err),
                     HASTEN_ERR_LIMIT);
    assert_null(d);
    assert_int_equal(detok_open(t.v, stops, LIMIT_STOP_STRINGS, false, false, &d, &err), HASTEN_OK);
    assert_int_equal(detok_push(d, vocab_size(t.v), &out, &stopped, &err), HASTEN_ERR_USAGE);
    detok_close(d);
    stops[1] = (struct gguf_str){long_text, LIMIT_STOP_BYTES + 1};
    assert_int_equal(detok_open(t.v, stops, 2, false, false, &d, &err), HASTEN_ERR_LIMIT);
    stops[1].len = 0;
    assert_int_equal(detok_open(t.v, stops, 2, false, false, &d, &err), HASTEN_ERR_USAGE);
    assert_int_equal(detok_open(t.v, stops, -1, false, false, &d, &err), HASTEN_ERR_LIMIT);
    text_vocab_close(&t);
}

static hasten_status stream_once(const struct vocab *v, const struct tokens *ids, struct buf *out,
                                 struct hasten_error *err)
{
    struct gguf_str stops[2] = {{"never", 5}, {"village", 7}};
    struct detok *d;
    bool stopped;
    hasten_status st = detok_open(v, stops, 2, true, false, &d, err);
    for (int64_t i = 0; i < ids->n && !st; i++)
        st = detok_push(d, ids->ids[i], out, &stopped, err);
    if (!st)
        st = detok_finish(d, out, err);
    detok_close(d);
    return st;
}

static void test_allocations(void **state)
{
    (void)state;
    struct text_vocab t;
    struct hasten_error err = {0};
    struct tokens ids = {0};
    struct mem_stats before, after;
    const char *text = "the river runs past the old mill, caf\xC3\xA9 and the children of the village";
    assert_int_equal(text_vocab_open(&kinds[1], &t, &err), HASTEN_OK);
    assert_int_equal(vocab_encode(t.v, text, strlen(text), 0, &ids, &err), HASTEN_OK);
    mem_stats_get(&before);
    uint64_t n = 1, failed = 1;
    for (; failed; n++) {
        struct buf out = {0};
        mem_fail_at(n, 0);
        hasten_status st = stream_once(t.v, &ids, &out, &err);
        failed = mem_fail_count();
        mem_fail_at(0, 0);
        assert_int_equal(st, failed ? HASTEN_ERR_MEMORY : HASTEN_OK);
        if (!failed)
            assert_string_equal(out.data,
                                "the river runs past the old mill, caf\xC3\xA9 and the children of the ");
        buf_free(&out);
        mem_stats_get(&after);
        assert_int_equal(after.live_bytes, before.live_bytes);
    }
    assert_in_range(n, 6, 60);
    tokens_free(&ids);
    text_vocab_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_streams), cmocka_unit_test(test_character_in_pieces),
        cmocka_unit_test(test_dummy_space),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
