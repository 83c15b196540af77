/* Cutting a text into windows (windows.h). */
#include "eval/windows.h"
#include <stddef.h>

static bool window_at(const struct eval_windows *s, int64_t begin, int64_t scored_to, struct eval_window *w)
{
    const int64_t end = begin + s->n_ctx < s->n ? begin + s->n_ctx : s->n;
    const int32_t prefix = s->prefix > 1 ? s->prefix : 1;
    const int64_t first =
        begin + prefix > scored_to ? begin + prefix : scored_to; /* first target scored here */
    w->begin = begin;
    w->n = (int32_t)(end - begin);
    w->from = (int32_t)(first - 1 - begin);
    w->scored_to = end > scored_to ? end : scored_to;
    return first < end;
}

bool eval_next_window(const struct eval_windows *s, struct eval_window *w)
{
    struct eval_window next = *w;
    const bool fresh = w->n == 0;
    int64_t begin = fresh ? 0 : w->begin + s->stride;
    if (s->n_limit > 0 && !fresh && w->index + 1 >= s->n_limit)
        return false;
    for (; begin < s->n - 1; begin += s->stride)
        if (window_at(s, begin, next.scored_to, &next)) {
            next.index = fresh ? 0 : w->index + 1;
            *w = next;
            return true;
        }
    return false;
}

int64_t eval_count_targets(const struct eval_windows *s)
{
    struct eval_window w = {0};
    int64_t n = 0;
    while (eval_next_window(s, &w))
        n += w.n - 1 - w.from;
    return n;
}

static uint64_t hash_word(uint64_t h, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        h = (h ^ (word >> 8 * i & 0xff)) * 0x100000001b3;
    return h;
}

uint64_t eval_windows_hash(const struct eval_windows *s)
{
    const int32_t convention[] = {s->n_ctx, s->stride, s->prefix, s->n_limit};
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < sizeof convention / sizeof *convention; i++)
        h = hash_word(h, (uint32_t)convention[i]);
    for (int64_t i = 0; i < s->n; i++)
        h = hash_word(h, (uint32_t)s->ids[i]);
    return h;
}
