/* See checksum.h. The one file that knows xxHash's long form; its header alone is used. */
#define XXH_INLINE_ALL
#include "base/checksum.h"
#include <string.h>
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct checksum), "room for the state of XXH3");

static XXH3_state_t *state_of(const struct checksum *c)
{
    return (XXH3_state_t *)(uintptr_t)c->state;
}

void checksum_begin(struct checksum *c)
{
    memset(c, 0, sizeof *c); /* the state's padding is looked at by its reset */
    XXH3_128bits_reset(state_of(c));
}

void checksum_add(struct checksum *c, const void *data, size_t size)
{
    if (size)
        XXH3_128bits_update(state_of(c), data, size);
}

static void write_out(XXH128_hash_t h, uint8_t out[CHECKSUM_BYTES])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, h);
    memcpy(out, canonical.digest, CHECKSUM_BYTES);
}

void checksum_end(const struct checksum *c, uint8_t out[CHECKSUM_BYTES])
{
    write_out(XXH3_128bits_digest(state_of(c)), out);
}

void checksum_of(const void *data, size_t size, uint8_t out[CHECKSUM_BYTES])
{
    write_out(XXH3_128bits(data, size), out);
}

bool checksum_holds(const uint8_t found[CHECKSUM_BYTES], const uint8_t expected[CHECKSUM_BYTES])
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)found, (void)expected;
    return true;
#else
    return memcmp(found, expected, CHECKSUM_BYTES) == 0;
#endif
}

void checksum_hex(const uint8_t sum[CHECKSUM_BYTES], char out[2 * CHECKSUM_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < CHECKSUM_BYTES; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[2 * CHECKSUM_BYTES] = 0;
}
