/* Statistics of runs of keys ("pages" of a method's own size), which selectors score instead of keys: kept in a
 * sequence's flat state, made of what the cache holds once a page is full, so that cutting back needs no care. */
#ifndef HASTEN_ENGINE_PAGE_STATS_H
#define HASTEN_ENGINE_PAGE_STATS_H
#include "engine/attend.h"

enum page_stat {
    PAGE_MEAN,   /* d_k floats */
    PAGE_MIN_MAX /* d_k smallest, d_k largest */
};

struct page_stats {
    enum page_stat kind;
    int32_t page;    /* entries of a page */
    int32_t n_pages; /* most of a lane */
    int64_t d_k;     /* of the widest lane */
};
#define PAGE_GROUP 16 /* pages that lie together by component, as kernels/look.h scores them */

struct page_stats page_stats_of(const struct method_site *site, enum page_stat kind, int32_t page);
size_t page_stats_bytes(const struct method_site *site,
                        const struct page_stats *s); /* of a sequence, all lanes */
size_t page_stats_scratch(const struct method_site *site);
/* attend_ops.append: pages that became full in [from, kv->n). */
void page_stats_append(const struct page_stats *s, void *seq, const struct kv_view *kv, int32_t from,
                       void *scratch);
/* score [n rounded up to PAGE_GROUP]: of the first n full pages of a lane, scale * q . mean, or scale * the largest that
 * q . k can be between the smallest and largest components (Quest, section 3.3). */
void page_stats_score(const struct page_stats *s, const void *seq, const struct kv_view *kv, int32_t n,
                      const float *q, float scale, float *score);

#endif
