/* Fuzz target of names to pull: whatever a URL or hf: name spells, its place lies below the cache (no "..", no empty part,
 * nothing absolute, no control character), and its own name leads to the same place. */
#include "cli/source.h"
#include "fuzz.h"

static void check_place(const struct source *s)
{
    const char *place = s->place.data;
    check(place && place[0] != '/' && (strncmp(place, "hf/", 3) == 0 || strncmp(place, "url/", 4) == 0));
    for (const char *c = place; *c; c++)
        check((unsigned char)*c >= 0x20 && *c != 0x7f);
    for (const char *at = place; at;) {
        const char *slash = strchr(at, '/');
        const size_t n = slash ? (size_t)(slash - at) : strlen(at);
        check(n > 0 && n < 256 && !(n <= 2 && strncmp(at, "..", n) == 0));
        at = slash ? slash + 1 : NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char arg[1024], origin[SOURCE_ORIGIN_BYTES], of_url[SOURCE_ORIGIN_BYTES];
    struct source s = {0}, again = {0};
    struct hasten_error err = {0};
    if (size >= sizeof arg)
        return 0;
    memcpy(arg, data, size);
    arg[size] = 0;
    const bool has_origin = source_origin(arg, origin);
    const hasten_status st = source_parse(arg, &s, &err);
    check_error(st, &err);
    if (!st) {
        check_place(&s);
        check(source_origin(s.url.data, of_url) && (s.hub || (has_origin && strcmp(origin, of_url) == 0)));
        check(!source_parse(s.name.data, &again, &err) && strcmp(again.place.data, s.place.data) == 0);
        check(source_named(s.name.data));
    }
    source_is_loopback(arg);
    source_free(&s);
    source_free(&again);
    return 0;
}
