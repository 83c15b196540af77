/* See prompt_cache.h. */
#include "cli/prompt_cache.h"
#include "base/file.h"
#include "cli/session.h"

hasten_status prompt_cache_load(struct session *s, struct ui *ui, struct hasten_error *err)
{
    const char *path = s->cache.path;
    const hasten_status may = path && !s->cache.read_only && file_kind(path) == FILE_MISSING
                                  ? file_may_create(path, err)
                                  : HASTEN_OK;
    if (may)
        return may;
    if (!path || file_kind(path) == FILE_MISSING ||
        (file_kind(path) == FILE_REGULAR && file_bytes(path) == 0))
        return HASTEN_OK;
    hasten_seq_close(s->seq);
    s->seq = NULL;
    const hasten_status st = hasten_seq_load(s->engine, path, &s->seq, err);
    if (!st)
        ui_detail(ui, "%s: %d tokens restored", path, (int)hasten_seq_length(s->seq));
    return st;
}

void prompt_cache_save(struct session *s, bool answered, int n_cached, struct ui *ui)
{
    struct prompt_cache *c = &s->cache;
    const bool nothing_new = !answered && n_cached > 0 && n_cached >= hasten_seq_length(s->seq) - 1;
    if (!c->path || c->read_only || c->failed.status || answered > c->all || nothing_new)
        return;
    if (!hasten_seq_save(s->seq, c->path, &c->failed))
        ui_detail(ui, "%s: %d tokens saved", c->path, (int)hasten_seq_length(s->seq));
}
