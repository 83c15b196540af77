/* See page_stats.h. */
#include "engine/page_stats.h"
#include "engine/engine.h"
#include "kernels/look.h"

struct page_stats page_stats_of(const struct method_site *site, enum page_stat kind, int32_t page)
{
    return (struct page_stats){
        .kind = kind, .page = page, .n_pages = site->settings->n_ctx / page, .d_k = kv_widest_key(site)};
}

static int64_t groups(const struct page_stats *s)
{
    return (s->n_pages + PAGE_GROUP - 1) / PAGE_GROUP;
}

/* Floats of a group of a lane: means, or the smallest and then the largest components. */
static int64_t group_floats(const struct page_stats *s)
{
    return s->d_k * PAGE_GROUP * (s->kind == PAGE_MIN_MAX ? 2 : 1);
}

static float *group_at(const struct page_stats *s, const void *seq, int32_t lane, int32_t page)
{
    return (float *)(uintptr_t)seq + (lane * groups(s) + page / PAGE_GROUP) * group_floats(s);
}

size_t page_stats_bytes(const struct method_site *site, const struct page_stats *s)
{
    return (size_t)engine_lanes(site->desc, NULL) * (size_t)(groups(s) * group_floats(s)) * sizeof(float);
}

size_t page_stats_scratch(const struct method_site *site)
{
    return (size_t)kv_widest_key(site) * sizeof(float);
}

static void add_key(const struct page_stats *s, const float *k, int32_t d_k, bool first, float *low)
{
    float *high = low + s->d_k * PAGE_GROUP;
    for (int32_t d = 0; d < d_k; d++) {
        float *at = &low[d * PAGE_GROUP];
        if (s->kind == PAGE_MEAN) {
            *at = first ? k[d] : *at + k[d];
        } else {
            *at = first || k[d] < *at ? k[d] : *at;
            high[d * PAGE_GROUP] = first || k[d] > high[d * PAGE_GROUP] ? k[d] : high[d * PAGE_GROUP];
        }
    }
}

void page_stats_append(const struct page_stats *s, void *seq, const struct kv_view *kv, int32_t from,
                       void *scratch)
{
    float *key = scratch;
    for (int32_t p = from / s->page; p < kv->n / s->page; p++) {
        float *low = group_at(s, seq, kv->lane, p) + p % PAGE_GROUP;
        for (int32_t i = 0; i < s->page; i++) {
            kv_view_read(kv, p * s->page + i, 1, key, NULL);
            add_key(s, key, kv->d_k, i == 0, low);
        }
        for (int32_t d = 0; s->kind == PAGE_MEAN && d < kv->d_k; d++)
            low[d * PAGE_GROUP] /= (float)s->page;
    }
}

void page_stats_score(const struct page_stats *s, const void *seq, const struct kv_view *kv, int32_t n,
                      const float *q, float scale, float *score)
{
    for (int32_t p = 0; p < n; p += PAGE_GROUP) {
        const float *low = group_at(s, seq, kv->lane, p);
        if (s->kind == PAGE_MEAN)
            look_dot16(low, kv->d_k, q, scale, score + p);
        else
            look_bound16(low, low + s->d_k * PAGE_GROUP, kv->d_k, q, scale, score + p);
    }
}
