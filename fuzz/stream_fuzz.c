/* Fuzz target of streams: stop strings, each ended by a NUL, an empty one ends the list; then bytes, which are tokens of
 * the built-in vocabulary. What the stream gives is the text up to the first stop string that is complete, whatever it
 * held back meanwhile, and never half a character that became a whole one. */
#include "base/mem.h"
#include "fuzz.h"
#include "hasten/text.h"

#define MOST_STOPS 8

static struct hasten_model *model;

/* Where the text ends that may be shown: before the stop string that is complete first, of several the one that began
 * first. */
static size_t shown(const uint8_t *text, size_t size, char *const *stops, int n)
{
    for (size_t end = 1; end <= size; end++) {
        size_t best = SIZE_MAX;
        for (int i = 0; i < n; i++) {
            const size_t len = strlen(stops[i]);
            if (len <= end && memcmp(text + end - len, stops[i], len) == 0 && end - len < best)
                best = end - len;
        }
        if (best != SIZE_MAX)
            return best;
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *stops[MOST_STOPS];
    int n = 0;
    struct hasten_stream *s = NULL;
    struct hasten_bytes out = {0};
    struct hasten_error err = {0};
    bool stopped = false;
    if (!model)
        check(!hasten_model_open("script:hash=1", &model, &err));
    for (struct part p; size && n < MOST_STOPS && (p = next_part(&data, &size)).len > 0; n++)
        check((stops[n] = mem_strndup(p.text, p.len)) != NULL);
    hasten_status st = hasten_stream_open(model, (const char *const *)stops, n, true, &s, &err);
    check_error(st, &err);
    check(!st || st == HASTEN_ERR_LIMIT);
    for (size_t i = 0; i < size && !st; i++) {
        const size_t before = out.len;
        check(!hasten_stream_push(s, data[i], &out, &stopped, &err));
        check(!stopped || out.len >= before);
    }
    if (!st) {
        const size_t want = shown(data, size, stops, n);
        check(!hasten_stream_finish(s, &out, &err));
        check(out.len == want && (want == 0 || memcmp(out.data, data, want) == 0));
        check(stopped == (want < size || (n > 0 && want == size && stopped)));
    }
    hasten_stream_close(s);
    hasten_bytes_free(&out);
    for (int i = 0; i < n; i++)
        mem_free(stops[i]);
    return 0;
}
