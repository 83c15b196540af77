/* Checksums of what lies on a disk: XXH3, 128 bits (xxHash, Y. Collet), in its canonical order of bytes. They find
 * accidents, not attacks: what is read stays as suspect as any file. */
#ifndef HASTEN_BASE_CHECKSUM_H
#define HASTEN_BASE_CHECKSUM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKSUM_BYTES 16

struct checksum { /* of bytes that come piece by piece */
    _Alignas(64) uint8_t state[640];
};
void checksum_begin(struct checksum *c);
void checksum_add(struct checksum *c, const void *data, size_t size);
void checksum_end(const struct checksum *c, uint8_t out[CHECKSUM_BYTES]);

void checksum_of(const void *data, size_t size, uint8_t out[CHECKSUM_BYTES]);
/* Are they equal? Always, to fuzzers, which could not get past them. */
bool checksum_holds(const uint8_t found[CHECKSUM_BYTES], const uint8_t expected[CHECKSUM_BYTES]);
/* 32 hex digits and a NUL. */
void checksum_hex(const uint8_t sum[CHECKSUM_BYTES], char out[2 * CHECKSUM_BYTES + 1]);

#endif
