/* Hostile GGUF files as lies about one valid file (cases.h). Every case has its valid twin: the file changed at
 * the same place by the same calls, but honestly; for a cut, a file that may end there or thereabouts; for a
 * file that is no GGUF at all, its bytes as the value of a string. */
#include "cases.h"

#include <stdio.h>
#include <string.h>

/* Tensors and keys beyond those of the base: "x.0", "x.1" ... */
static void add_extra_tensors(struct gguf_writer *w, const struct case_shape *shape)
{
    char name[24];
    for (uint32_t i = 0; i < shape->extra_tensors; i++) {
        snprintf(name, sizeof name, "x.%u", i);
        gguf_writer_tensor(w, name, QUANT_F32, 1, (uint64_t[]){4}, NULL, 16);
    }
}

static void add_extra_keys(struct gguf_writer *w, const struct case_shape *shape)
{
    char name[24];
    for (uint32_t i = 0; i < shape->extra_keys; i++) {
        snprintf(name, sizeof name, "x.%u", i);
        gguf_writer_u32(w, name, i);
    }
}

static struct gguf_writer *make(const struct case_shape *shape)
{
    static const struct gguf_str strings[] = {{"a", 1},
                                              {"b\xff"
                                               "c",
                                               3},
                                              {"", 0}};
    static const uint8_t bools[] = {0, 1, 1};
    static const uint16_t shorts[] = {1, 2, 65535};
    static const uint8_t nested[] = {9, 0, 0, 0, 2, 0, 0, 0, 0,   0,  0, 0,          /* two arrays: */
                                     0, 0, 0, 0, 3, 0, 0, 0, 0,   0,  0, 0, 7, 8, 9, /* u8 7 8 9 */
                                     8, 0, 0, 0, 1, 0, 0, 0, 0,   0,  0, 0,          /* one string: */
                                     2, 0, 0, 0, 0, 0, 0, 0, 'h', 'i'};
    static const float f32_data[16] = {0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, 0.5f, 0.25f, 1e-30f, 1e30f};
    struct gguf_writer *w = gguf_writer_new();
    if (!w)
        return NULL;
    gguf_writer_str(w, "general.architecture", "llama");
    gguf_writer_alignment(w, shape->alignment ? shape->alignment : 32);
    gguf_writer_bool(w, "t.bool", true);
    gguf_writer_f32(w, "t.f32", 0.1f);
    gguf_writer_number(w, "t.i64", GGUF_I64, (uint64_t)-5);
    gguf_writer_strs(w, "t.strings", strings, 3);
    gguf_writer_array(w, "t.bools", GGUF_BOOL, bools, 3);
    gguf_writer_array(w, "t.u16s", GGUF_U16, shorts, 3);
    gguf_writer_raw(w, "t.nested", GGUF_ARRAY, nested, sizeof nested);
    gguf_writer_u32(w, "t.u32", 7);
    add_extra_keys(w, shape);
    if (shape->rows)
        gguf_writer_tensor(w, "a.weight", QUANT_F32, 2, (uint64_t[]){8, shape->rows}, NULL, 32 * shape->rows);
    else
        gguf_writer_tensor(w, "a.weight", QUANT_F32, 2, (uint64_t[]){8, 2}, f32_data, sizeof f32_data);
    gguf_writer_tensor(w, "b.weight", QUANT_Q4_0, 2, (uint64_t[]){32, 3}, NULL, 54);
    gguf_writer_tensor(w, "c.weight", QUANT_F16, 1, (uint64_t[]){4}, NULL, 8);
    gguf_writer_tensor(w, "d.weight", QUANT_Q4_K, 1, (uint64_t[]){256}, NULL, 144);
    add_extra_tensors(w, shape);
    return w;
}

struct gguf_writer *case_base(void)
{
    return make(&(struct case_shape){0});
}

#define F HASTEN_ERR_FILE
#define U HASTEN_ERR_UNSUPPORTED
#define L HASTEN_ERR_LIMIT
#define SET(field, v) .lies = {{field, LIE_VALUE, v, NULL, 0}}
#define ADD(field, v) .lies = {{field, LIE_ADD, v, NULL, 0}}
#define BYTES(field, text) .lies = {{field, LIE_BYTES, 0, text, sizeof(text) - 1}}
#define CUT(field, len) .lies = {{field, LIE_CUT, 0, NULL, len}}
#define FLIP(field, at, mask) .lies = {{field, LIE_FLIP, mask, NULL, at}}
#define WHOLE(text) .whole = text, .whole_len = sizeof(text) - 1
#define MAX64 UINT64_MAX

/* The twin: the same field with a value that is true, or that the other edits make true. */
#define TWIN_SET(field, v) .twin = {{field, LIE_VALUE, v, NULL, 0}}
#define TWIN_HEADER /* a file of nothing but a header that says so */                                        \
    .twin = {{"n_tensors", LIE_VALUE, 0, NULL, 0},                                                           \
             {"n_keys", LIE_VALUE, 0, NULL, 0},                                                              \
             {"key[0].length", LIE_CUT, 0, NULL, 0}}
#define TWIN_BYTES(field, text) .twin = {{field, LIE_BYTES, 0, text, sizeof(text) - 1}}

/* A name of 257 bytes, and as many of its prefix as a case wants. */
#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define NAME_257 FIFTY FIFTY FIFTY FIFTY FIFTY "0123456"

/* Arrays five deep around one u8: element type 9 and count 1, four times, then u8 and count 1. */
#define ONE "\1\0\0\0\0\0\0\0"
#define DEEPER "\11\0\0\0" ONE
#define DEPTH_4 DEEPER DEEPER DEEPER "\0\0\0\0" ONE "x"
#define DEPTH_5 DEEPER DEEPER DEEPER DEEPER "\0\0\0\0" ONE "x"

/* Pieces of the nested arrays of key[8]: one byte of a count or length, then what it counts. */
#define COUNT(byte) byte "\0\0\0\0\0\0\0"
#define THREE COUNT("\3")
#define TWO_ARRAYS "\11\0\0\0" COUNT("\2")
#define U8S(n, bytes) "\0\0\0\0" COUNT(n) bytes
#define STRINGS(len, text)                                                                                   \
    "\10\0\0\0" ONE COUNT(len)                                                                               \
    text

const struct hostile_case hostile_cases[] = {
    /* ---- not GGUF ---- */
    {"magic-wrong", F, NULL, 0, "magic", "\"GGUF\"", "\"GGUX\"", BYTES("magic", "GGUX"),
     TWIN_BYTES("magic", "GGUF")},
    {"magic-swapped", U, NULL, 0, "magic", "\"GGUF\"", "big-endian", BYTES("magic", "FUGG"),
     TWIN_BYTES("magic", "GGUF")},
    {"magic-zero", F, NULL, 0, "magic", "\"GGUF\"", "\"\\x00\\x00\\x00\\x00\"", SET("magic", 0),
     TWIN_SET("magic", 0x46554747)},
    {"zip", U, NULL, 0, "magic", "\"GGUF\"", "zip", .whole = "PK\3\4\24\0\0\0\10\0", .whole_len = 10},
    {"elf", U, NULL, 0, "magic", "\"GGUF\"", "ELF", WHOLE("\177ELF\2\1\1\0\0\0\0\0")},
    {"safetensors", U, NULL, 0, "magic", "\"GGUF\"", "safetensors",
     WHOLE("\20\0\0\0\0\0\0\0{\"a\":{\"dtype\":")},
    {"ggml", U, NULL, 0, "magic", "\"GGUF\"", "before GGUF", WHOLE("lmgg\0\0\0\0\0\0\0\0")},
    {"ggjt", U, NULL, 0, "magic", "\"GGUF\"", "before GGUF", WHOLE("tjgg\3\0\0\0\0\0\0\0")},
    {"gzip", U, NULL, 0, "magic", "\"GGUF\"", "gzip", WHOLE("\x1f\x8b\10\0\0\0\0\0")},
    {"html", U, NULL, 0, "magic", "\"GGUF\"", "HTML", WHOLE("<!DOCTYPE html><html>")},
    {"json", U, NULL, 0, "magic", "\"GGUF\"", "JSON", WHOLE("{\"error\": \"not found\"}")},
    {"git-lfs", U, NULL, 0, "magic", "\"GGUF\"", "Git LFS",
     WHOLE("version https://git-lfs.github.com/spec/v1\n")},
    {"text", F, NULL, 0, "magic", "\"GGUF\"", "\"hell\"", WHOLE("hello world\n")},
    {"one-byte", F, NULL, 0, "magic", "4 bytes", "after 1", WHOLE("G")},

    /* ---- header ---- */
    {"version-0", F, "version", 0, "version", "2 or 3", "0", SET("version", 0), TWIN_SET("version", 2)},
    {"version-1", U, "version", 0, "version", "2 or 3", "1: GGUF version 1 is unsupported", SET("version", 1),
     TWIN_SET("version", 2)},
    {"version-4", U, "version", 0, "version", "2 or 3", "4: GGUF version 4 is unsupported", SET("version", 4),
     TWIN_SET("version", 2)},
    {"version-big-endian", U, "version", 0, "version", "2 or 3", "big-endian", SET("version", 0x03000000),
     TWIN_SET("version", 3)},
    {"cut-magic", F, "magic", 0, "magic", "4 bytes", "after 2", CUT("magic", 2), TWIN_HEADER},
    {"cut-after-magic", F, "version", 0, "version", "4 bytes", "after 0", CUT("version", 0), TWIN_HEADER},
    {"cut-version", F, "version", 0, "version", "4 bytes", "after 1", CUT("version", 1), TWIN_HEADER},
    {"cut-n-tensors", F, "n_tensors", 0, "number of tensors", "8 bytes", "after 4", CUT("n_tensors", 4),
     TWIN_HEADER},
    {"cut-n-keys", F, "n_keys", 0, "number of keys", "8 bytes", "after 7", CUT("n_keys", 7), TWIN_HEADER},
    {"cut-after-header", F, "n_tensors", 0, "number of tensors", "at most 0", "4", CUT("n_keys", 8),
     TWIN_HEADER},
    {"n-tensors-huge", F, "n_tensors", 0, "number of tensors", "at most", "18446744073709551615",
     SET("n_tensors", MAX64), .shape = {.extra_tensors = 300}},
    {"n-tensors-half", F, "n_tensors", 0, "number of tensors", "at most", "9223372036854775808",
     SET("n_tensors", 1ull << 63), .shape = {.extra_tensors = 200}},
    {"n-tensors-more", F, "padding", 0, "name length of tensor 4", "1 to 256", "0", ADD("n_tensors", 1),
     .shape = {.extra_tensors = 1}},
    {"n-keys-huge", F, "n_keys", 0, "number of keys", "at most", "18446744073709551615", SET("n_keys", MAX64),
     .shape = {.extra_keys = 100}},
    {"n-keys-many", F, "n_keys", 0, "number of keys", "at most", "1000", SET("n_keys", 1000),
     .shape = {.extra_keys = 990}},
    {"n-keys-less", F, "key[9].value", (uint64_t)-4, "number of dimensions", "1 to 4", "7",
     .lies = {{"n_keys", LIE_ADD, (uint64_t)-1, NULL, 0}, {"key[9].type", LIE_BYTES, 0, "", 0}},
     .twin = {{"n_keys", LIE_ADD, (uint64_t)-1, NULL, 0},
              {"key[9].length", LIE_BYTES, 0, "", 0},
              {"key[9].bytes", LIE_BYTES, 0, "", 0},
              {"key[9].type", LIE_BYTES, 0, "", 0},
              {"key[9].value", LIE_BYTES, 0, "", 0}}},

    /* ---- keys ---- */
    {"key-length-0", F, "key[3].length", 0, "key length of key 3", "1 to 65535", "0", SET("key[3].length", 0),
     .twin = {{"key[3].length", LIE_VALUE, 1, NULL, 0}, {"key[3].bytes", LIE_BYTES, 0, "t", 1}}},
    {"key-length-huge", F, "key[3].bytes", 0, "key bytes of key 3", "18446744073709551615 bytes",
     "end of the file", SET("key[3].length", MAX64),
     .twin = {{"key[3].length", LIE_VALUE, 250, NULL, 0}, {"key[3].bytes", LIE_BYTES, 0, NAME_257, 250}}},
    {"key-length-beyond", F, "key[9].bytes", 0, "key bytes of key 9", "100000 bytes", "end of the file",
     SET("key[9].length", 100000),
     .twin = {{"key[9].length", LIE_VALUE, 50, NULL, 0}, {"key[9].bytes", LIE_BYTES, 0, FIFTY, 50}}},
    {"key-cut", F, "key[4].bytes", 0, "key bytes of key 4", "5 bytes", "after 3",
     .lies = {{"key[4].bytes", LIE_CUT, 0, NULL, 3},
              {"n_keys", LIE_VALUE, 5, NULL, 0},
              {"n_tensors", LIE_VALUE, 0, NULL, 0}},
     .twin = {{"key[4].value", LIE_CUT, 0, NULL, 8},
              {"n_keys", LIE_VALUE, 5, NULL, 0},
              {"n_tensors", LIE_VALUE, 0, NULL, 0}}},
    {"key-nul", F, "key[3].bytes", 1, "key bytes of key 3", "UTF-8 without NUL", "0x00",
     BYTES("key[3].bytes", "t\0f32"),
     TWIN_BYTES("key[3].bytes", "t\1"
                                "f32")},
    {"key-byte-ff", F, "key[3].bytes", 2, "key bytes of key 3", "UTF-8", "0xff",
     BYTES("key[3].bytes", "t.\xff"
                           "32"),
     TWIN_BYTES("key[3].bytes", "t.\xc3\xbf"
                                "2")},
    {"key-byte-80", F, "key[3].bytes", 2, "key bytes of key 3", "UTF-8", "0x80",
     BYTES("key[3].bytes", "t.\x80"
                           "32"),
     TWIN_BYTES("key[3].bytes", "t.\xc2\x80"
                                "2")},
    {"key-byte-c1", F, "key[3].bytes", 3, "key bytes of key 3", "UTF-8", "0xc1",
     BYTES("key[3].bytes", "t.\x7f\xc1\x80"), TWIN_BYTES("key[3].bytes", "t.\x7f\xc2\x80")},
    {"key-overlong", F, "key[3].bytes", 0, "key bytes of key 3", "UTF-8", "0xc0",
     BYTES("key[3].bytes", "\xc0\x80"
                           "f32"),
     TWIN_BYTES("key[3].bytes", "\xc2\x80"
                                "f32")},
    {"key-surrogate", F, "key[3].bytes", 2, "key bytes of key 3", "UTF-8", "0xed",
     BYTES("key[3].bytes", "t.\xed\xa0\x80"), TWIN_BYTES("key[3].bytes", "t.\xed\x9f\xbf")},
    {"key-above-10ffff", F, "key[3].bytes", 1, "key bytes of key 3", "UTF-8", "0xf4",
     BYTES("key[3].bytes", "t\xf4\x90\x80\x80"), TWIN_BYTES("key[3].bytes", "t\xf4\x8f\xbf\xbf")},
    {"key-half-char", F, "key[3].bytes", 3, "key bytes of key 3", "UTF-8", "0xe2",
     BYTES("key[3].bytes", "t.f\xe2\x82"), TWIN_BYTES("key[3].bytes", "t.\xe2\x82\xac")},
    {"key-overlong-3", F, "key[3].bytes", 2, "key bytes of key 3", "UTF-8", "0xe0",
     BYTES("key[3].bytes", "t.\xe0\x80\x80"), TWIN_BYTES("key[3].bytes", "t.\xe0\xa0\x80")},
    {"key-overlong-4", F, "key[3].bytes", 1, "key bytes of key 3", "UTF-8", "0xf0",
     BYTES("key[3].bytes", "t\xf0\x80\x80\x80"), TWIN_BYTES("key[3].bytes", "t\xf0\x90\x80\x80")},
    {"key-bad-third", F, "key[3].bytes", 2, "key bytes of key 3", "UTF-8", "0xe2",
     BYTES("key[3].bytes", "t.\xe2\x82"
                           "A"),
     TWIN_BYTES("key[3].bytes", "t.\xe2\x82\x82")},
    {"key-twice", F, "key[9].bytes", 0, "name of key 9 \"t.f32\"", "a new name", "number 3",
     BYTES("key[9].bytes", "t.f32"), TWIN_BYTES("key[9].bytes", "t.f33")},

    /* ---- values ---- */
    {"value-type-13", F, "key[3].type", 0, "value type of key 3 \"t.f32\"", "0 to 12", "13",
     SET("key[3].type", 13), TWIN_SET("key[3].type", GGUF_U32)},
    {"value-type-max", F, "key[3].type", 0, "value type of key 3", "0 to 12", "4294967295",
     SET("key[3].type", 0xffffffff), TWIN_SET("key[3].type", GGUF_I32)},
    {"value-cut", F, "key[9].value", 0, "value of key 9", "4 bytes", "after 3", CUT("key[9].value", 3),
     .twin = {{"key[9].value", LIE_CUT, 0, NULL, 4}, {"n_tensors", LIE_VALUE, 0, NULL, 0}}},
    {"type-cut", F, "key[9].type", 0, "value type of key 9", "4 bytes", "after 2", CUT("key[9].type", 2),
     .twin = {{"key[9].length", LIE_CUT, 0, NULL, 0},
              {"n_keys", LIE_VALUE, 9, NULL, 0},
              {"n_tensors", LIE_VALUE, 0, NULL, 0}}},
    {"bool-2", F, "key[2].value", 0, "bool value of key 2", "0 or 1", "2", SET("key[2].value", 2),
     TWIN_SET("key[2].value", 0)},
    {"string-length-huge", F, "key[0].string_length", 0, "string length of key 0", "at most",
     "18446744073709551615", SET("key[0].string_length", MAX64),
     .twin = {{"key[0].string_length", LIE_VALUE, 10, NULL, 0},
              {"key[0].string_bytes", LIE_BYTES, 0, TEN, 10}}},
    {"string-length-beyond", F, "key[0].string_length", 0, "string length of key 0", "at most", "100000",
     SET("key[0].string_length", 100000),
     .twin = {{"key[0].string_length", LIE_VALUE, 257, NULL, 0},
              {"key[0].string_bytes", LIE_BYTES, 0, NAME_257, 257}}},
    {"string-cut", F, "key[0].string_length", 0, "string length of key 0", "at most the 2 bytes", "5",
     .lies = {{"key[0].string_bytes", LIE_CUT, 0, NULL, 2},
              {"n_keys", LIE_VALUE, 1, NULL, 0},
              {"n_tensors", LIE_VALUE, 0, NULL, 0}},
     .twin = {{"key[0].string_bytes", LIE_CUT, 0, NULL, 5},
              {"n_keys", LIE_VALUE, 1, NULL, 0},
              {"n_tensors", LIE_VALUE, 0, NULL, 0}}},
    {"elem-type-13", F, "key[5].elem_type", 0, "array element type of key 5", "0 to 12", "13",
     SET("key[5].elem_type", 13),
     .twin = {{"key[5].elem_type", LIE_VALUE, GGUF_U8, NULL, 0},
              {"key[5].array_length", LIE_VALUE, 28, NULL, 0}}},
    {"array-length-huge", F, "key[7].array_length", 0, "array length of key 7", "at most",
     "18446744073709551615", SET("key[7].array_length", MAX64),
     .twin = {{"key[7].array_length", LIE_VALUE, 5, NULL, 0}, {"key[7].elems", LIE_BYTES, 0, TEN, 10}}},
    {"array-length-wraps", F, "key[7].array_length", 0, "array length of key 7", "at most",
     "9223372036854775809", SET("key[7].array_length", (1ull << 63) + 1),
     .twin = {{"key[7].array_length", LIE_VALUE, 1, NULL, 0}, {"key[7].elems", LIE_BYTES, 0, "12", 2}}},
    {"array-length-beyond", F, "key[7].array_length", 0, "array length of key 7", "at most", "100000",
     SET("key[7].array_length", 100000),
     .twin = {{"key[7].array_length", LIE_VALUE, 25, NULL, 0}, {"key[7].elems", LIE_BYTES, 0, FIFTY, 50}}},
    {"array-cut", F, "key[7].array_length", 0, "array length of key 7", "8 bytes", "after 4",
     CUT("key[7].array_length", 4),
     .twin = {{"key[7].length", LIE_CUT, 0, NULL, 0},
              {"n_keys", LIE_VALUE, 7, NULL, 0},
              {"n_tensors", LIE_VALUE, 0, NULL, 0}}},
    {"strings-length-huge", F, "key[5].array_length", 0, "array length of key 5", "at most",
     "2305843009213693952", SET("key[5].array_length", 1ull << 61),
     .twin = {{"key[5].array_length", LIE_VALUE, 2, NULL, 0},
              {"key[5].elem[2].length", LIE_BYTES, 0, "", 0}}},
    {"element-length-huge", F, "key[5].elem[1].length", 0, "string length of key 5", "at most",
     "18446744073709551615", SET("key[5].elem[1].length", MAX64),
     .twin = {{"key[5].elem[1].length", LIE_VALUE, 10, NULL, 0},
              {"key[5].elem[1].bytes", LIE_BYTES, 0, TEN, 10}}},
    {"bools-2", F, "key[6].elems", 1, "bool value of key 6", "0 or 1", "2",
     .lies = {{"key[6].elems", LIE_FLIP, 3, NULL, 1}}, .twin = {{"key[6].elems", LIE_FLIP, 1, NULL, 1}}},
    {"nested-type", F, "key[8].raw", 12, "array element type of key 8", "0 to 12", "255",
     FLIP("key[8].raw", 12, 255), .twin = {{"key[8].raw", LIE_FLIP, GGUF_I8, NULL, 12}}},
    {"nested-length", F, "key[8].raw", 16, "array length of key 8", "at most", "4294967299",
     FLIP("key[8].raw", 20, 1), TWIN_BYTES("key[8].raw", TWO_ARRAYS U8S("\4", "789a") STRINGS("\2", "hi"))},
    {"nested-count-huge", F, "key[8].raw", 4, "array length of key 8", "at most", "72057594037927938",
     FLIP("key[8].raw", 11, 1), TWIN_BYTES("key[8].raw", DEEPER U8S("\3", "789"))},
    {"nested-string-length", F, "key[8].raw", 39, "string length of key 8", "at most", "4294967298",
     FLIP("key[8].raw", 43, 1), TWIN_BYTES("key[8].raw", TWO_ARRAYS U8S("\3", "789") STRINGS("\5", "hello"))},
    {"nested-too-deep", L, "key[8].raw", 48, "array element of key 8", "at most 4 deep", "more",
     BYTES("key[8].raw", DEPTH_5), TWIN_BYTES("key[8].raw", DEPTH_4)},
    {"alignment-0", F, "key[1].value", 0, "value of key 1 \"general.alignment\"", "power of two", "0",
     SET("key[1].value", 0), .shape = {.alignment = 16}},
    {"alignment-24", F, "key[1].value", 0, "value of key 1", "power of two", "24", SET("key[1].value", 24),
     .shape = {.alignment = 64}},
    {"alignment-4", F, "key[1].value", 0, "value of key 1", "from 8 to 65536", "4", SET("key[1].value", 4),
     .shape = {.alignment = 8}},
    {"alignment-131072", F, "key[1].value", 0, "value of key 1", "from 8 to 65536", "131072",
     SET("key[1].value", 131072), .shape = {.alignment = 65536}},
    {"alignment-float", F, "key[1].value", 0, "value of key 1", "type u32", "f32",
     SET("key[1].type", GGUF_F32), .shape = {.alignment = 128}},
    {"alignment-64", F, "tensor[3].offset", 0, "offset of tensor 3", "a multiple of 64", "160",
     SET("key[1].value", 64), .shape = {.alignment = 64}},

    /* ---- tensors ---- */
    {"name-length-0", F, "tensor[1].name_length", 0, "name length of tensor 1", "1 to 256", "0",
     SET("tensor[1].name_length", 0),
     .twin = {{"tensor[1].name_length", LIE_VALUE, 1, NULL, 0}, {"tensor[1].name", LIE_BYTES, 0, "b", 1}}},
    {"name-length-huge", F, "tensor[1].name", 0, "name bytes of tensor 1", "9223372036854775808 bytes",
     "end of the file", SET("tensor[1].name_length", 1ull << 63),
     .twin = {{"tensor[1].name_length", LIE_VALUE, 10, NULL, 0}, {"tensor[1].name", LIE_BYTES, 0, TEN, 10}}},
    {"name-length-257", L, "tensor[1].name_length", 0, "name length of tensor 1", "1 to 256", "257",
     .lies = {{"tensor[1].name_length", LIE_VALUE, 257, NULL, 0},
              {"tensor[1].name", LIE_BYTES, 0, NAME_257, 257}},
     .twin = {{"tensor[1].name_length", LIE_VALUE, 256, NULL, 0},
              {"tensor[1].name", LIE_BYTES, 0, NAME_257, 256}}},
    {"name-nul", F, "tensor[1].name", 7, "name bytes of tensor 1", "UTF-8 without NUL", "0x00",
     BYTES("tensor[1].name", "b.weigh\0"), TWIN_BYTES("tensor[1].name", "b.weigh\1")},
    {"name-latin1", F, "tensor[1].name", 3, "name bytes of tensor 1", "UTF-8", "0xe9",
     BYTES("tensor[1].name", "b.w\xe9ight"),
     TWIN_BYTES("tensor[1].name", "b.w\xc3\xa9"
                                  "ght")},
    {"name-twice", F, "tensor[1].name", 0, "name of tensor 1 \"a.weight\"", "a new name", "number 0",
     BYTES("tensor[1].name", "a.weight"), TWIN_BYTES("tensor[1].name", "a.weigh2")},
    {"n-dims-0", F, "tensor[1].n_dims", 0, "number of dimensions of tensor 1 \"b.weight\"", "1 to 4", "0",
     SET("tensor[1].n_dims", 0),
     .twin = {{"tensor[1].n_dims", LIE_VALUE, 1, NULL, 0}, {"tensor[1].ne[1]", LIE_BYTES, 0, "", 0}}},
    {"n-dims-5", F, "tensor[1].n_dims", 0, "number of dimensions of tensor 1", "1 to 4", "5",
     SET("tensor[1].n_dims", 5),
     .twin = {{"tensor[1].n_dims", LIE_VALUE, 3, NULL, 0}, {"tensor[1].ne[1]", LIE_BYTES, 0, THREE ONE, 16}}},
    {"n-dims-max", F, "tensor[1].n_dims", 0, "number of dimensions of tensor 1", "1 to 4", "4294967295",
     SET("tensor[1].n_dims", 0xffffffff),
     .twin = {{"tensor[1].n_dims", LIE_VALUE, 4, NULL, 0},
              {"tensor[1].ne[1]", LIE_BYTES, 0, ONE THREE ONE, 24}}},
    {"ne-0", F, "tensor[0].ne[0]", 0, "dimension 0 of tensor 0", "at least 1", "0", SET("tensor[0].ne[0]", 0),
     TWIN_SET("tensor[0].ne[0]", 4)},
    {"ne-1-is-0", F, "tensor[0].ne[1]", 0, "dimension 1 of tensor 0", "at least 1", "0",
     SET("tensor[0].ne[1]", 0), TWIN_SET("tensor[0].ne[1]", 1)},
    {"ne-negative", L, "tensor[0].ne[0]", 0, "dimension 0 of tensor 0", "at most 1099511627776",
     "18446744073709551615", SET("tensor[0].ne[0]", MAX64), TWIN_SET("tensor[0].ne[0]", 1)},
    {"ne-large", L, "tensor[0].ne[1]", 0, "dimension 1 of tensor 0", "at most 1099511627776", "1099511627777",
     SET("tensor[0].ne[1]", (1ull << 40) + 1), .shape = {.rows = 4}},
    {"ne-product-overflows", F, "tensor[0].ne[0]", 0, "dimensions of tensor 0", "below 2^63",
     "1099511627776 x 1099511627776",
     .lies = {{"tensor[0].ne[0]", LIE_VALUE, 1ull << 40, NULL, 0},
              {"tensor[0].ne[1]", LIE_VALUE, 1ull << 40, NULL, 0}},
     .twin = {{"tensor[0].ne[0]", LIE_VALUE, 16, NULL, 0}, {"tensor[0].ne[1]", LIE_VALUE, 1, NULL, 0}}},
    {"ne-product-2^63", F, "tensor[0].ne[0]", 0, "dimensions of tensor 0", "below 2^63",
     "2147483648 x 1073741824",
     .lies = {{"tensor[0].ne[0]", LIE_VALUE, 1ull << 31, NULL, 0},
              {"tensor[0].ne[1]", LIE_VALUE, 1ull << 30, NULL, 0}},
     .twin = {{"tensor[0].ne[0]", LIE_VALUE, 2, NULL, 0}, {"tensor[0].ne[1]", LIE_VALUE, 8, NULL, 0}}},
    {"ne-beyond-file", F, "tensor[0].data", 0, "data of tensor 0", "3200 bytes", "a file of",
     SET("tensor[0].ne[1]", 100), .shape = {.rows = 100}},
    {"block-32", F, "tensor[1].ne[0]", 0, "dimension 0 of tensor 1", "a multiple of 32 for type Q4_0", "33",
     SET("tensor[1].ne[0]", 33),
     .twin = {{"tensor[1].ne[0]", LIE_VALUE, 64, NULL, 0}, {"tensor[1].ne[1]", LIE_VALUE, 1, NULL, 0}}},
    {"block-256", F, "tensor[3].ne[0]", 0, "dimension 0 of tensor 3", "a multiple of 256 for type Q4_K",
     "128", SET("tensor[3].ne[0]", 128),
     .twin = {{"tensor[3].ne[0]", LIE_VALUE, 128, NULL, 0},
              {"tensor[3].type", LIE_VALUE, QUANT_Q4_0, NULL, 0}}},
    {"type-withdrawn", U, "tensor[0].type", 0, "type of tensor 0 \"a.weight\"", "known block format", "4",
     SET("tensor[0].type", 4), TWIN_SET("tensor[0].type", QUANT_F16)},
    {"type-unknown", U, "tensor[2].type", 0, "type of tensor 2 \"c.weight\"", "known block format", "42",
     SET("tensor[2].type", 42), TWIN_SET("tensor[2].type", QUANT_F32)},
    {"type-max", U, "tensor[2].type", 0, "type of tensor 2", "known block format", "4294967295",
     SET("tensor[2].type", 0xffffffff), TWIN_SET("tensor[2].type", QUANT_BF16)},
    {"offset-odd", F, "tensor[1].offset", 0, "offset of tensor 1", "a multiple of 32", "65",
     ADD("tensor[1].offset", 1),
     .twin = {{"tensor[1].offset", LIE_ADD, 32, NULL, 0}, {"tensor[1].ne[1]", LIE_VALUE, 1, NULL, 0}}},
    {"offset-by-8", F, "tensor[1].offset", 0, "offset of tensor 1", "a multiple of 32", "72",
     ADD("tensor[1].offset", 8), .shape = {.alignment = 8},
     .twin = {{"tensor[1].offset", LIE_ADD, 8, NULL, 0}, {"tensor[1].ne[1]", LIE_VALUE, 1, NULL, 0}}},
    {"offset-wraps", F, "tensor[0].data", 0, "data of tensor 1", "an end below 2^64", "18446744073709551584",
     SET("tensor[1].offset", MAX64 - 31),
     .twin = {{"tensor[1].offset", LIE_VALUE, 96, NULL, 0}, {"tensor[1].ne[1]", LIE_VALUE, 1, NULL, 0}}},
    {"offset-beyond", F, "tensor[0].data", 1u << 30, "data of tensor 1", "54 bytes", "a file of",
     SET("tensor[1].offset", 1u << 30),
     .twin = {{"tensor[1].offset", LIE_VALUE, 32, NULL, 0},
              {"tensor[1].ne[1]", LIE_VALUE, 1, NULL, 0},
              {"tensor[0].ne[1]", LIE_VALUE, 1, NULL, 0}}},
    {"offset-overlaps", F, "tensor[0].data", 0, "data of tensor", "a place after byte",
     "an overlap with tensor", SET("tensor[1].offset", 0),
     .twin = {{"tensor[1].offset", LIE_VALUE, 0, NULL, 0}, {"tensor[0].offset", LIE_VALUE, 64, NULL, 0}}},
    {"offset-inside", F, "tensor[0].data", 32, "data of tensor 2 \"c.weight\"", "a place after byte",
     "an overlap with tensor 0 \"a.weight\"", SET("tensor[2].offset", 32),
     .twin = {{"tensor[2].offset", LIE_VALUE, 32, NULL, 0}, {"tensor[0].ne[1]", LIE_VALUE, 1, NULL, 0}}},
    {"offset-same", F, "tensor[2].data", 0, "data of tensor", "a place after byte", "an overlap with tensor",
     SET("tensor[3].offset", 128),
     .twin = {{"tensor[3].offset", LIE_VALUE, 128, NULL, 0}, {"tensor[2].offset", LIE_VALUE, 288, NULL, 0}}},
    {"record-cut", F, "tensor[3].offset", 0, "offset of tensor 3", "8 bytes", "after 7",
     CUT("tensor[3].offset", 7),
     .twin = {{"n_tensors", LIE_VALUE, 0, NULL, 0}, {"tensor[0].name_length", LIE_CUT, 0, NULL, 0}}},
    {"type-cut-tensor", F, "tensor[3].type", 0, "type of tensor 3", "4 bytes", "after 0",
     CUT("tensor[3].type", 0),
     .twin = {{"n_tensors", LIE_VALUE, 0, NULL, 0}, {"tensor[3].type", LIE_CUT, 0, NULL, 4}}},
    {"padding-cut", F, "tensor[0].data", 0, "data of tensor 0", "64 bytes", "a file of", CUT("padding", 1),
     .twin = {{"n_tensors", LIE_VALUE, 0, NULL, 0}, {"padding", LIE_CUT, 0, NULL, 1}}},
    {"data-cut", F, "tensor[3].data", 0, "data of tensor 3 \"d.weight\"", "144 bytes", "a file of",
     CUT("tensor[3].data", 143), .twin = {{"tensor[3].data", LIE_CUT, 0, NULL, 144}}},
};
const size_t n_hostile_cases = sizeof hostile_cases / sizeof hostile_cases[0];

int case_build(const struct hostile_case *c, struct buf *out)
{
    size_t n_lies = 0;
    while (n_lies < 3 && c->lies[n_lies].field)
        n_lies++;
    if (c->whole) {
        buf_clear(out);
        return buf_put(out, c->whole, c->whole_len);
    }
    struct gguf_writer *w = case_base();
    int failed = !w || n_lies == 0 || gguf_writer_build(w, c->lies, n_lies, out);
    gguf_writer_free(w);
    return failed ? -1 : 0;
}

int case_build_twin(const struct hostile_case *c, struct buf *out)
{
    size_t n_edits = 0;
    while (n_edits < CASE_MAX_EDITS && c->twin[n_edits].field)
        n_edits++;
    bool shaped = c->shape.alignment || c->shape.rows || c->shape.extra_keys || c->shape.extra_tensors;
    struct gguf_writer *w = make(&c->shape);
    if (w && c->whole)
        gguf_writer_strn(w, "t.whole", c->whole, c->whole_len);
    int failed = !w || (!shaped && n_edits == 0 && !c->whole) || gguf_writer_build(w, c->twin, n_edits, out);
    gguf_writer_free(w);
    return failed ? -1 : 0;
}

struct wanted {
    const char *field;
    uint64_t offset;
};

static void note_offset(void *ctx, const char *field, uint64_t offset, uint64_t len)
{
    struct wanted *w = ctx;
    (void)len;
    if (strcmp(field, w->field) == 0)
        w->offset = offset;
}

uint64_t case_offset(const char *field)
{
    struct wanted wanted = {field, UINT64_MAX};
    struct gguf_writer *w = case_base();
    if (w)
        gguf_writer_fields(w, note_offset, &wanted);
    gguf_writer_free(w);
    return wanted.offset;
}
