/* Sums of products in tiles, as of matrices: a group has a tile of TILE by TILE results, and each of
 * its work-items a FEW by FEW part of it. */
#define TILE 64
#define DEPTH 16
#define FEW 4
#define ACROSS (TILE / FEW)
/* Where in its tile the results [i] and [j] of a work-item are. */
#define TILE_ROW(i) (ITEM / ACROSS + (i) * ACROSS)
#define TILE_COLUMN(j) (ITEM % ACROSS + (j) * ACROSS)

/* Sum LEFT(k, i) * RIGHT(k, j) over k below `depth` into `sums`, for the rows i and columns j of a
 * tile. SUMMED is a multiple of DEPTH. `left` and `right` are SHARED, of TILE_SHARED elements. LEFT is
 * asked for neighbouring k side by side where `left_by_k` holds, else for neighbouring i; RIGHT alike.
 * Both have to give 0 where the tile reaches beyond the results. */
#define TILE_SHARED (DEPTH * (TILE + 1))
#define TILE_SUMS(sums, depth, left, left_by_k, LEFT, right, right_by_k, RIGHT) \
    real sums[FEW][FEW], some[FEW][FEW]; \
    UNROLL for (int i = 0; i < FEW; ++i) \
        UNROLL for (int j = 0; j < FEW; ++j) sums[i][j] = some[i][j] = 0; \
    for (i64 start = 0; start < depth; start += DEPTH) { \
        UNROLL for (int e = ITEM; e < DEPTH * TILE; e += ITEMS) \
        { \
            const int k = left_by_k ? e % DEPTH : e / TILE, i = left_by_k ? e / DEPTH : e % TILE; \
            left[k * (TILE + 1) + i] = start + k < depth ? (real)LEFT(start + k, i) : 0; \
        } \
        UNROLL for (int e = ITEM; e < DEPTH * TILE; e += ITEMS) \
        { \
            const int k = right_by_k ? e % DEPTH : e / TILE, j = right_by_k ? e / DEPTH : e % TILE; \
            right[k * (TILE + 1) + j] = start + k < depth ? (real)RIGHT(start + k, j) : 0; \
        } \
        BARRIER(); \
        for (int k = 0; k < DEPTH; ++k) { \
            real u[FEW], v[FEW]; \
            UNROLL for (int i = 0; i < FEW; ++i) \
            { \
                u[i] = left[k * (TILE + 1) + TILE_ROW(i)]; \
                v[i] = right[k * (TILE + 1) + TILE_COLUMN(i)]; \
            } \
            UNROLL for (int i = 0; i < FEW; ++i) \
                UNROLL for (int j = 0; j < FEW; ++j) some[i][j] += u[i] * v[j]; \
        } \
        if ((start + DEPTH) % SUMMED == 0 || start + DEPTH >= depth) { \
            UNROLL for (int i = 0; i < FEW; ++i) \
                UNROLL for (int j = 0; j < FEW; ++j) settle(&sums[i][j], &some[i][j]); \
        } \
        BARRIER(); \
    }
