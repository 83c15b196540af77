/* The small valid GGUF file of these tests and the table of lies about it. */
#ifndef HASTEN_TESTS_FORMATS_CASES_H
#define HASTEN_TESTS_FORMATS_CASES_H
#include "gguf_writer.h"

/* A file of about 1 KiB with every value type and four tensors. The fields that cases lie about:
 * key[0] general.architecture   key[1] general.alignment   key[2] t.bool    key[3] t.f32     key[4] t.i64
 * key[5] t.strings (3)          key[6] t.bools (3)         key[7] t.u16s    key[8] t.nested  key[9] t.u32 ...
 * tensor[0] a.weight F32 8 × 2  tensor[1] b.weight Q4_0 32 × 3
 * tensor[2] c.weight F16 4      tensor[3] d.weight Q4_K 256 */
struct gguf_writer *case_base(void);

#define CASE_MAX_EDITS 5

/* What the writer is told otherwise than for case_base; 0: as there. */
struct case_shape {
    uint32_t alignment;
    uint32_t rows; /* of a.weight */
    uint32_t extra_keys, extra_tensors;
};

struct hostile_case {
    const char *name;
    hasten_status status; /* how it must be refused */
    const char *at_field; /* the message must give this field's offset in the file (NULL: byte 0) ... */
    uint64_t at_delta;    /* ... plus this */
    const char *field;    /* and hold these pieces */
    const char *expected;
    const char *found;
    struct gguf_lie lies[3]; /* about case_base; none: see whole */
    const char *whole;       /* the whole file instead (not GGUF at all), NUL-terminated */
    size_t whole_len;
    /* The valid twin: case_base so shaped and so edited, with `whole` as the value of a string. */
    struct case_shape shape;
    struct gguf_lie twin[CASE_MAX_EDITS];
};

extern const struct hostile_case hostile_cases[];
extern const size_t n_hostile_cases;

/* The bytes of a case: 0, or -1. */
int case_build(const struct hostile_case *c, struct buf *out);
/* The bytes of its twin: 0, or -1, also when the case says of no change that makes the twin its own. */
int case_build_twin(const struct hostile_case *c, struct buf *out);
/* Offset in the honest file of case_base of a field, or UINT64_MAX. */
uint64_t case_offset(const char *field);

#endif
