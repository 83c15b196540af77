/* Shows Python tests what src/formats/quant.c does.
 *   decode_dump table             one line per type: id name block bytes decodable
 *   decode_dump decode ID         blocks on stdin, float32 on stdout
 *   decode_dump NAME              f16_to_f32 f32_to_f16 bf16_to_f32 f32_to_bf16: arrays, stdin to stdout */
#include "base/mem.h"
#include "formats/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_table(void)
{
    for (uint32_t id = 0; id < 1000; id++) {
        const struct quant_type *t = quant_type_get(id);
        if (t)
            printf("%u %s %d %d %d\n", t->id, t->name, t->block, t->block_bytes, t->decode != NULL);
    }
    return 0;
}

static int decode(uint32_t id, const struct buf *in)
{
    const struct quant_type *t = quant_type_get(id);
    if (!t || !t->decode || in->len % (size_t)t->block_bytes)
        return 2;
    int64_t n = (int64_t)(in->len / (size_t)t->block_bytes) * t->block;
    float *out = mem_array((size_t)n + 1, sizeof *out);
    if (!out)
        return 3;
    out[n] = 12345.0f;
    t->decode(in->data, n, out);
    int bad = out[n] != 12345.0f || fwrite(out, sizeof *out, (size_t)n, stdout) != (size_t)n;
    mem_free(out);
    return bad ? 4 : 0;
}

static int convert(const char *name, const struct buf *in)
{
    int widen = strcmp(name, "f16_to_f32") == 0 || strcmp(name, "bf16_to_f32") == 0;
    size_t n = in->len / (widen ? 2 : 4);
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        float f;
        memcpy(&half, in->data + 2 * i, 2);
        if (!widen)
            memcpy(&f, in->data + 4 * i, 4);
        if (strcmp(name, "f16_to_f32") == 0)
            f = f16_to_f32(half);
        else if (strcmp(name, "bf16_to_f32") == 0)
            f = bf16_to_f32(half);
        else if (strcmp(name, "f32_to_f16") == 0)
            half = f32_to_f16(f);
        else if (strcmp(name, "f32_to_bf16") == 0)
            half = f32_to_bf16(f);
        else
            return 2;
        if (fwrite(widen ? (void *)&f : (void *)&half, widen ? 4 : 2, 1, stdout) != 1)
            return 4;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static char chunk[65536];
    struct buf in = {0};
    size_t got;
    if (argc == 2 && strcmp(argv[1], "table") == 0)
        return print_table();
    while ((got = fread(chunk, 1, sizeof chunk, stdin)) > 0)
        if (buf_put(&in, chunk, got))
            return 3;
    int rc = argc == 3 && strcmp(argv[1], "decode") == 0 ? decode((uint32_t)strtoul(argv[2], NULL, 10), &in)
             : argc == 2                                 ? convert(argv[1], &in)
                                                         : 2;
    buf_free(&in);
    return rc;
}
