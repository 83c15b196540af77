/* What a name to pull means: a URL to fetch and a place in the cache. A place is made of the checked parts of the URL
 * alone: no header of a server, no `..`, no absolute path can lead out of the cache. */
#ifndef HASTEN_CLI_SOURCE_H
#define HASTEN_CLI_SOURCE_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>

struct source {       /* zero-initialise */
    bool hub;         /* hf:USER/REPO/FILE; else a URL */
    struct buf name;  /* as `list` shows it and every command takes it */
    struct buf url;   /* what to fetch first */
    struct buf place; /* path below models/: "hf/USER/REPO/FILE", "url/HOST/PATH" */
};

/* Does arg say where to fetch from: hf:..., http://..., https://...? */
bool source_named(const char *arg);
/* HASTEN_ERR_USAGE with one sentence: another scheme, credentials in the URL, no file name, a part that is no name. */
hasten_status source_parse(const char *arg, struct source *out, struct hasten_error *err);
void source_free(struct source *s);

/* "https://host:443" in lower case for any http or https URL; false for others and for one with credentials. */
#define SOURCE_ORIGIN_BYTES 320
bool source_origin(const char *url, char out[SOURCE_ORIGIN_BYTES]);
bool source_is_https(const char *url);
/* An address of this machine: localhost, 127.x.x.x, [::1]. */
bool source_is_loopback(const char *url);
/* Where hf: names lead: HF_ENDPOINT, or the public hub. */
const char *source_hub(void);

/* Ends of names that stand beside a pulled file and are no models. */
#define SOURCE_PART ".part"           /* what has come so far */
#define SOURCE_PART_META ".part.json" /* what it is part of */
#define SOURCE_RECORD ".pull.json"    /* where the whole file came from, and its hash */

#endif
