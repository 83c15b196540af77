/* JSON from outside, read by jansson behind a pre-scan of depth and size (LIMIT_JSON_*). */
#ifndef HASTEN_BASE_JSON_H
#define HASTEN_BASE_JSON_H
#include "base/error.h"
#include <jansson.h>
#include <stddef.h>

/* Parses a document of len bytes; errors name line and column. what: for messages ("messages.json"). Of equal keys in
 * an object the last counts. The caller owns *out (json_decref). */
hasten_status json_parse(const char *what, const char *text, size_t len, json_t **out,
                         struct hasten_error *err);
/* The same; equal keys in an object are refused. */
hasten_status json_parse_unique(const char *what, const char *text, size_t len, json_t **out,
                                struct hasten_error *err);

#endif
