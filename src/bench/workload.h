/* Workloads: what people ask of a model, by kind, as texts. Those of bench/workloads/ are built into the library; a
 * file of the same form is one too. An item is a conversation that waits for an answer, and says how many tokens of it
 * are worth measuring, which half of the workload it belongs to (`edit` and `fresh` in code, else `all`), and whether
 * it is held back from what is tuned on the workload.
 *
 * The form: lines before the first item are a comment. Then, at the beginning of a line,
 *     %% item NAME HALF tune|held TOKENS     begins an item
 *     %% system, %% user, %% assistant       begins a message, which goes on to the next such line
 *     %% book FROM BYTES                     stands for a part of the built-in book (text.h), cut at blanks
 * Blank lines at both ends of a message are left out. It knows no models and no tokens. */
#ifndef HASTEN_BENCH_WORKLOAD_H
#define HASTEN_BENCH_WORKLOAD_H
#include "base/error.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdint.h>

#define WORKLOAD_NAME 32 /* bytes of names, with the NUL */
#define WORKLOAD_MAX_ITEMS 256
#define WORKLOAD_MAX_MESSAGES 64

enum workload_role {
    WORKLOAD_SYSTEM,
    WORKLOAD_USER,
    WORKLOAD_ASSISTANT
};
const char *workload_role_name(enum workload_role r);

struct workload_message {
    enum workload_role role;
    struct buf text;
};

struct workload_item {
    char name[WORKLOAD_NAME], half[WORKLOAD_NAME];
    bool held;
    int32_t n_answer;                  /* tokens, at most */
    struct workload_message *messages; /* [n_messages], the last one the user's */
    int32_t n_messages;
};

struct workload {
    char *name;
    struct workload_item *items; /* [n] at least one, of different names */
    int32_t n;
};

/* One of the built-in names, or a file. HASTEN_ERR_USAGE: neither (with the nearest name); HASTEN_ERR_FILE: a file of
 * another form, by its line. */
hasten_status workload_open(const char *name, struct workload **out, struct hasten_error *err);
void workload_close(struct workload *w); /* NULL is fine */

/* The texts of bench/workloads/, by name (CMake makes the table). */
struct workload_text {
    const char *name;
    const unsigned char *data;
    size_t len;
};
extern const struct workload_text workload_texts[]; /* ends with a NULL name */
/* "agent, chat, code, ..." */
void workload_names(struct buf *out);

#endif
