/* See paged.h. */
#include "engine/paged.h"

struct paged {
    struct paged_knobs k; /* first: select_active */
    struct page_stats stats;
};

uint64_t paged_model_bytes(const struct method_site *site, const void *knobs)
{
    (void)site, (void)knobs;
    return sizeof(struct paged);
}

hasten_status paged_attach(const struct method_site *site, const struct paged_knobs *k, enum page_stat kind,
                           void **state, struct hasten_error *err)
{
    struct paged *p = mem_alloc(sizeof *p);
    if (!p)
        return error_set(err, HASTEN_ERR_MEMORY, "--attend: out of memory");
    *p = (struct paged){*k, page_stats_of(site, kind, k->page)};
    *state = p;
    return HASTEN_OK;
}

size_t paged_seq_bytes(const struct method_site *site, const struct paged_knobs *k, enum page_stat kind)
{
    const struct page_stats s = page_stats_of(site, kind, k->page);
    return page_stats_bytes(site, &s);
}

/* Two arrays of scores, indices twice; append needs a key. */
static size_t paged_scratch(const struct method_site *site, const void *knobs)
{
    const int32_t n = site->settings->n_ctx / ((const struct paged_knobs *)knobs)->page + 1 + PAGE_GROUP;
    const size_t selecting = (2 * (size_t)n + PAGE_GROUP) * sizeof(float) + select_scratch(n),
                 key = page_stats_scratch(site);
    return selecting > key ? selecting : key;
}

static void paged_append(const void *state, void *seq, const struct kv_view *kv, int32_t from, void *scratch)
{
    page_stats_append(&((const struct paged *)state)->stats, seq, kv, from, scratch);
}

static void paged_select(const void *state, const void *seq, const struct attend_query *q, uint64_t *seen,
                         int64_t stride, void *scratch)
{
    const struct paged *s = state;
    const int32_t full = q->kv.n / s->k.page, n = (q->kv.n + s->k.page - 1) / s->k.page;
    float *score = scratch, *of_head = score + n;
    (void)stride;
    for (int32_t h = 0; h < q->n_heads; h++) {
        page_stats_score(&s->stats, seq, &q->kv, full, q->q + (int64_t)h * q->kv.d_k, q->scale, of_head);
        select_group_add((enum select_group)s->k.group, of_head, full, h, q->n_heads, score);
    }
    select_pages(&s->k.common, q, s->k.page, score, seen, (int32_t *)(void *)(of_head + n + PAGE_GROUP));
}

const struct attend_ops paged_ops = {
    .scratch_bytes = paged_scratch, .active = select_active, .append = paged_append, .select = paged_select};
