/* Selectors that score pages by one statistic of their keys (page_stats.h) and read the best: what they share. Their
 * struct of knobs is struct paged_knobs; attach and seq_bytes name the statistic. */
#ifndef HASTEN_ENGINE_PAGED_H
#define HASTEN_ENGINE_PAGED_H
#include "engine/page_stats.h"
#include "engine/select.h"

struct paged_knobs {
    struct select_knobs common;
    int32_t page;
    int group; /* enum select_group */
};

/* For method.model_bytes, attach, detach (mem_free) and seq_bytes. */
uint64_t paged_model_bytes(const struct method_site *site, const void *knobs);
hasten_status paged_attach(const struct method_site *site, const struct paged_knobs *k, enum page_stat kind,
                           void **state, struct hasten_error *err);
size_t paged_seq_bytes(const struct method_site *site, const struct paged_knobs *k, enum page_stat kind);
/* method.attend */
extern const struct attend_ops paged_ops;

#endif
