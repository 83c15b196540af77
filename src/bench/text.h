/* The built-in text of `bench` (text.c). */
#ifndef HASTEN_BENCH_TEXT_H
#define HASTEN_BENCH_TEXT_H

extern const char bench_text[]; /* ASCII, ends with a blank line */

#endif
