/* The receipts of this machine: JSON files, one for a method on a model, in
 * ${XDG_DATA_HOME:-$HOME/.local/share}/hasten/receipts (bench/receipts.py writes them; docs/receipts.md has ours). */
#ifndef HASTEN_CLI_RECEIPTS_H
#define HASTEN_CLI_RECEIPTS_H
#include "base/error.h"
#include "base/mem.h"
#include "engine/method.h"
#include <stdbool.h>

/* Where they lie, into out; false: no variable says it, or no memory. */
bool receipts_folder(struct buf *out);
/* A new array of the receipts of m, by name of file; NULL when out of memory. Files that are no receipts are left out.
 * No folder: none. */
struct json_t *receipts_of(const struct method *m);
/* "smollm2  quest:budget=256,...  decode 1.21 x (1.15 to 1.34)  KL 0.1302  top-1 80.1 %  2026-11-30", and a line end. */
void receipt_line(const struct json_t *receipt, struct buf *out);
/* The JSON schema of receipts, with the methods that are registered: docs/receipt.schema.json. NULL when out of memory. */
struct json_t *receipt_schema(void);

#endif
