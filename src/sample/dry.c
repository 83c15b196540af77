/* DRY (sampler.h): tokens that would go on repeating what stands at the end of the path.
 *
 * A token b that follows an earlier place of the path repeats n tokens when the n tokens before it there are the last n
 * of the path. n is the longest common suffix of the path up to that place and of the whole path: Gusfield's Z function
 * of the path read backwards, linear in its length (Algorithms on Strings, Trees and Sequences, 1.4). No match crosses
 * a breaker: the matched end of the path is cut before the last one, and a breaker itself is never penalised. */
#include "base/mem.h"
#include "sample/scratch.h"
#include <math.h>

bool dry_on(const struct sampler_settings *p, int64_t n_path)
{
    return p->dry_multiplier > 0 && p->dry_last_n != 0 && n_path > 1;
}

static bool breaks(const struct sampler_settings *p, int32_t id)
{
    return p->dry_breakers && p->dry_breakers[id];
}

/* z[j], 0 < j < n: how many tokens t[n-1-j], t[n-2-j], ... equal t[n-1], t[n-2], ... */
static void suffix_matches(const int32_t *t, int64_t n, int32_t *z)
{
    for (int64_t j = 1, left = 0, right = 0; j < n;
         j++) { /* [left, right): the match that reaches furthest */
        int64_t k = 0;
        if (j < right)
            k = z[j - left] < right - j ? z[j - left] : right - j;
        while (j + k < n && t[n - 1 - k] == t[n - 1 - j - k])
            k++;
        z[j] = (int32_t)k;
        if (j + k > right) {
            left = j;
            right = j + k;
        }
    }
}

/* multiplier * base^e; products only, so that every machine gives the same bits. */
static double penalty(const struct sampler_settings *p, int32_t e)
{
    double x = (double)p->dry_multiplier, power = (double)p->dry_base;
    for (; e > 0; e >>= 1, power *= power)
        if (e & 1)
            x *= power;
    return x;
}

hasten_status dry_apply(struct sampler *s, const struct sampler_settings *p, const int32_t *path,
                        int64_t n_path, struct hasten_error *err)
{
    const int64_t n = p->dry_last_n < 0 || n_path < p->dry_last_n ? n_path : p->dry_last_n;
    const int32_t *t = path + (n_path - n);
    int64_t limit = 0; /* tokens at the end without a breaker */
    if (n > s->cap_match) {
        int32_t *grown = n > INT32_MAX / 2 ? NULL : mem_realloc(s->match, (size_t)(2 * n) * sizeof *grown);
        if (!grown)
            return error_set(err, HASTEN_ERR_MEMORY, "sampling: out of memory for a path of %lld tokens",
                             (long long)n);
        s->match = grown;
        s->cap_match = 2 * n;
    }
    while (limit < n && !breaks(p, t[n - 1 - limit]))
        limit++;
    if (limit < p->dry_allowed_length)
        return HASTEN_OK;
    suffix_matches(t, n, s->match);
    for (int64_t j = 1; j < n; j++) { /* the longest match that each token continues */
        const int32_t length = s->match[j] < limit ? s->match[j] : (int32_t)limit, next = t[n - j];
        if (length >= p->dry_allowed_length && length > s->counts[next] && !breaks(p, next))
            s->counts[next] = length;
    }
    for (int64_t j = 1; j < n; j++) {
        const int32_t next = t[n - j], length = s->counts[next];
        s->counts[next] = 0;
        if (length > 0 && s->copy[next] != -INFINITY)
            s->copy[next] = finite_f32((double)s->copy[next] - penalty(p, length - p->dry_allowed_length));
    }
    return HASTEN_OK;
}
