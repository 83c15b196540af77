/* The user's cache of models, and the table of models that `pull` can fetch.
 *
 * Layout, below ${HASTEN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hasten}/models: <name>/<file> for the table,
 * hf/<user>/<repo>/<file> and url/<host>/<path> for what was pulled by name of its source (source.h). */
#ifndef HASTEN_CLI_CACHE_H
#define HASTEN_CLI_CACHE_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdint.h>

/* A model that packages of the Python index carry: a file whole or in parts that are joined in order, or a
 * folder of files. */
struct table_model {
    const char *name;
    const char *file;    /* its name in the cache; of a folder: the file with the weights */
    const char *package; /* printf format with the part's number (from 1) when n_parts > 1 */
    const char *version;
    const char
        *member; /* path inside the package's folder, printf format likewise; "x/": the whole folder x */
    int n_parts, first_member; /* members are numbered from first_member */
    uint64_t bytes;            /* of `file` */
    const char *sha256;        /* of `file` */
    const char *about;
};
const struct table_model *model_table_find(const char *name);
const struct table_model *model_table_at(int i); /* NULL after the last */
/* Can the commands open it (a GGUF file, the weights of a model folder)? */
bool model_table_runs(const struct table_model *m);
/* The name nearest to a mistyped one, or NULL; runs: only of models that the commands can open. */
const char *model_table_nearest(const char *name, bool runs);

/* "…/models" into out. HASTEN_ERR_USAGE when neither variable nor HOME is set. */
hasten_status cache_models_dir(struct buf *out, struct hasten_error *err);
/* The path of a table model in the cache (present or not). */
hasten_status cache_path(const struct table_model *m, struct buf *out, struct hasten_error *err);
/* Removes the folders that path lies in, up to models/, while they are empty. */
void cache_prune(const char *path);

/* What is in the cache. Strings are valid during the call; a failure of fn ends the walk with it. */
struct cache_entry {
    const char *name, *path; /* name: what `pull` and MODEL take */
    uint64_t bytes;
    bool complete; /* false: a pull that was interrupted; path: where it will lie */
};
typedef hasten_status (*cache_fn)(void *ctx, const struct cache_entry *e, struct hasten_error *err);
hasten_status cache_each(cache_fn fn, void *ctx, struct hasten_error *err);

/* MODEL of the command line -> path: a file, or a name in the cache. */
hasten_status model_resolve(const char *arg, struct buf *out, struct hasten_error *err);

#endif
