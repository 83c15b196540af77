/* Packed weights: the blocks of 16 neighbouring rows (a panel) lying so that one vector holds the same 32-bit word of
 * all 16, which is what the fast kernels would otherwise make by transposing at every use. The bytes are those of
 * the file in another order, so that the same numbers come of them; how they lie depends on the type alone.
 *
 * A panel is a row of tiles of 256 k (64 of a float type), the last one perhaps shorter. A tile holds each piece of
 * the type's blocks in turn, for all its blocks: [block][word of the piece][row] 32-bit words, or [block][row]
 * 16-bit ones (bytes) for pieces of two bytes (of one). Tiles begin at multiples of 64 bytes. Rows that the last panel
 * lacks are copies of its first. */
#ifndef HASTEN_KERNELS_PACKED_H
#define HASTEN_KERNELS_PACKED_H
#include "kernels/kernels.h"

#define PACKED_PIECES 14
#define PACKED_MAX_BLOCK 256 /* no packed type has more bytes in a block */

/* Which bytes of a block stand together: from `at` on, a multiple of 4 or just 2 or 1; 0 bytes: no more pieces. */
struct packed_piece {
    uint16_t at, bytes;
};

struct packed_layout {
    uint32_t id;    /* enum quant_id */
    int32_t tile_k; /* values of k in a tile */
    struct packed_piece piece[PACKED_PIECES];
};

/* NULL: weights of the type are not packed. */
const struct packed_layout *packed_layout_of(const struct quant_type *type);

/* Bytes of a tile of k values; of a panel; of the whole weight. Multiples of 64; the last is 0 when the type has no
 * layout. */
size_t packed_tile_bytes(const struct quant_type *type, int64_t k);
size_t packed_panel_bytes(const struct weight *w);
size_t packed_bytes(const struct weight *w);

/* Row r once more as it stands in the file, block by block: block b (of row_bytes / block_bytes) to dst. */
void packed_block(const struct weight *w, int64_t r, int64_t b, uint8_t *dst);

/* Packs panels [begin, end) of w to dst (64-byte aligned), where panel `begin` goes. w->type has a layout. */
void packed_make(const struct weight *w, int64_t begin, int64_t end, uint8_t *dst);

#endif
