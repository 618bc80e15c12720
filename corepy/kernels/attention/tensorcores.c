/* Attention by tensor cores: tiles of 16-bit floats, products and sums in float32.
 *
 * Each warp has TILES times 16 rows, and goes with the others through tiles of TILE_KEYS keys, the
 * next of which is copied while one is computed. Scores lie in registers as mma leaves them, and
 * the weights, rounded to X, are in just the layout of its first operand. D is head_dim, 64 or 128.
 * There is no mask and no bias, and `scale` is positive.
 */

#define TILE_ROWS (ITEMS / WARP * 16 * TILES)

/* Where piece `number`, of 8 elements, of a row is in a tile. Pieces change places by row, so that
 * those of 8 rows that are read together lie in different banks. */
DEVICE int piece_at(int row, int number)
{
    return row * D + (number ^ row % 8) * 8;
}

/* The keys that all of some rows see, from `low` to below `high`, or fewer. */
DEVICE Row seen_by_all(int first, int count, const Pair *pair)
{
    const int last = min(first + count, pair->rows) - 1, queries = pair->queries;
    const int alone = first / queries == last / queries;
    const int to = alone ? last % queries : queries - 1;
    Row all;
    all.head = pair->kv_head * pair->shared + first / queries;
    all.query = alone ? first % queries : 0;
    all.low = first_seen(to, pair);
    all.high = to < pair->asking ? end_of_seen(all.query, pair) : 0;
    return all;
}

#define COPY_KEYS(x, first, at) \
    for (int n = ITEM; n < TILE_KEYS * (D / 8); n += ITEMS) { \
        const int row = n / (D / 8), number = (first) + row, inside = number < pair.length; \
        begin_copy(tiles + (at) + piece_at(row, n % (D / 8)), \
                   inside ? KEY(x, number) + n % (D / 8) * 8 : POINTER(x), inside); \
    }

KERNEL(attention_tensorcores)(PROBLEM)
{
    SHARED_DYNAMIC(u16, tiles, (TILE_ROWS + 4 * TILE_KEYS) * D); /* of Q, and two of K and V */
    SHARED(u32, scratch, SCRATCH_WORDS);

    const int tiles_of_rows = PARTS_OF_ROWS(TILE_ROWS);
    PAIR((int)(GROUP_ID(0) / tiles_of_rows));
    /* Under a causal mask the last rows have the most to do: they begin. */
    const int start = (tiles_of_rows - 1 - (int)(GROUP_ID(0) % tiles_of_rows)) * TILE_ROWS;
    const Row reach = reach_of(start, TILE_ROWS, &pair);
    const Row whole = seen_by_all(start, TILE_ROWS, &pair);
    const int lane = WARP_LANE, of_warp = ITEM / WARP * 16 * TILES;
    /* Which row of four matrices a lane shows to `load_matrices`, in 16 rows of 16 elements: those
     * of all rows' first 8 elements come before the others, or those of the first 8 rows before the
     * others. `^ 16 * d` goes 16 * d elements further along the row. */
    const int by_rows = piece_at(lane % 16, lane / 16);
    const int by_pieces = piece_at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    const float steep = scale * 1.44269504f; /* exp(scale * x) = 2**(steep * x) */

    for (int n = ITEM; n < TILE_ROWS * (D / 8); n += ITEMS) {
        const int number = start + n / (D / 8), inside = number < pair.rows;
        const Row row = row_of(number, &pair);
        begin_copy(tiles + piece_at(n / (D / 8), n % (D / 8)), QUERY(row) + n % (D / 8) * 8, inside);
    }
    COPY_KEYS(k, reach.low, TILE_ROWS * D)
    COPY_KEYS(v, reach.low, (TILE_ROWS + TILE_KEYS) * D)
    end_copies();

    /* Of the rows lane / 4 and lane / 4 + 8 of each 16: the greatest score, the lane's part of the
     * sum of the weights, and of the result. */
    float top[TILES][2], sum[TILES][2], result[TILES][D / 8][4];
    UNROLL for (int m = 0; m < TILES; ++m)
    {
        top[m][0] = top[m][1] = -INFINITE;
        sum[m][0] = sum[m][1] = 0;
        UNROLL for (int j = 0; j < D / 8; ++j)
            UNROLL for (int i = 0; i < 4; ++i) result[m][j][i] = 0;
    }

    int of_keys = TILE_ROWS * D, of_next = (TILE_ROWS + 2 * TILE_KEYS) * D;
    for (int first = reach.low; first < reach.high; first += TILE_KEYS) {
        wait_for_copies();
        BARRIER(); /* all is there, and nobody reads the tile before it any more */
        if (first + TILE_KEYS < reach.high) {
            COPY_KEYS(k, first + TILE_KEYS, of_next)
            COPY_KEYS(v, first + TILE_KEYS, of_next + TILE_KEYS * D)
        }
        end_copies();

        float score[TILES][TILE_KEYS / 8][4];
        UNROLL for (int m = 0; m < TILES; ++m)
            UNROLL for (int j = 0; j < TILE_KEYS / 8; ++j)
                UNROLL for (int i = 0; i < 4; ++i) score[m][j][i] = 0;
        UNROLL for (int d = 0; d < D / 16; ++d)
        {
            u32 a[TILES][4], b[4];
            UNROLL for (int m = 0; m < TILES; ++m)
                load_matrices(a[m], tiles, (of_warp + 16 * m) * D + (by_rows ^ 16 * d), 0, scratch);
            UNROLL for (int j = 0; j < TILE_KEYS / 16; ++j)
            {
                load_matrices(b, tiles, of_keys + 16 * j * D + (by_pieces ^ 16 * d), 0, scratch);
                UNROLL for (int m = 0; m < TILES; ++m)
                {
                    multiply_add(score[m][2 * j], a[m], b, scratch);
                    multiply_add(score[m][2 * j + 1], a[m], b + 2, scratch);
                }
            }
        }

        UNROLL for (int m = 0; m < TILES; ++m) UNROLL for (int part = 0; part < 2; ++part)
        {
            if (first < whole.low || first + TILE_KEYS > whole.high) {
                const Row row = row_of(start + of_warp + 16 * m + 8 * part + lane / 4, &pair);
                UNROLL for (int j = 0; j < TILE_KEYS / 8; ++j) UNROLL for (int i = 0; i < 2; ++i)
                {
                    const int key = first + 8 * j + lane % 4 * 2 + i;
                    if (key < row.low || key >= row.high)
                        score[m][j][2 * part + i] = -INFINITE;
                }
            }
            float greatest = top[m][part];
            UNROLL for (int j = 0; j < TILE_KEYS / 8; ++j) UNROLL for (int i = 0; i < 2; ++i)
                greatest = fmax(greatest, score[m][j][2 * part + i]);
            greatest = fmax(greatest, of_lane(greatest, 1, scratch));
            greatest = fmax(greatest, of_lane(greatest, 2, scratch));
            /* While nothing was seen, all weights are zero. Differences come first: those of great
             * scores times `steep` would be off by their rounding. */
            const float base = greatest == -INFINITE ? 0 : greatest;
            const float shrink = power_of_two(steep * (top[m][part] - base));
            top[m][part] = greatest;
            sum[m][part] *= shrink;
            UNROLL for (int j = 0; j < D / 8; ++j) UNROLL for (int i = 0; i < 2; ++i)
                result[m][j][2 * part + i] *= shrink;
            UNROLL for (int j = 0; j < TILE_KEYS / 8; ++j) UNROLL for (int i = 0; i < 2; ++i)
            {
                const float weight = power_of_two(steep * (score[m][j][2 * part + i] - base));
                score[m][j][2 * part + i] = weight;
                sum[m][part] += weight;
            }
        }

        UNROLL for (int j = 0; j < TILE_KEYS / 16; ++j)
        {
            u32 a[TILES][4], b[4];
            UNROLL for (int m = 0; m < TILES; ++m)
                UNROLL for (int i = 0; i < 4; ++i)
                    a[m][i] = pack(score[m][2 * j + i / 2][i % 2 * 2],
                                   score[m][2 * j + i / 2][i % 2 * 2 + 1]);
            UNROLL for (int d = 0; d < D / 16; ++d)
            {
                const int at = (TILE_KEYS + 16 * j) * D + (by_rows ^ 16 * d);
                load_matrices(b, tiles, of_keys + at, 1, scratch);
                UNROLL for (int m = 0; m < TILES; ++m)
                {
                    multiply_add(result[m][2 * d], a[m], b, scratch);
                    multiply_add(result[m][2 * d + 1], a[m], b + 2, scratch);
                }
            }
        }
        const int before = of_keys;
        of_keys = of_next;
        of_next = before;
    }
    wait_for_copies();

    UNROLL for (int m = 0; m < TILES; ++m) UNROLL for (int part = 0; part < 2; ++part)
    {
        float total = sum[m][part];
        total += of_lane(total, 1, scratch);
        total += of_lane(total, 2, scratch);
        const float share = total == 0 ? 0 : 1 / total;
        const int number = start + of_warp + 16 * m + 8 * part + lane / 4;
        const Row row = row_of(number, &pair);
        if (number < pair.rows) {
            GLOBAL u32 *to = (GLOBAL u32 *)(POINTER(out) + PLACE(row) * D);
            UNROLL for (int j = 0; j < D / 8; ++j)
                to[4 * j + lane % 4] = pack(share * result[m][j][2 * part],
                                            share * result[m][j][2 * part + 1]);
            if (lane % 4 == 0 && HAS(lse))
                POINTER(lse)[PLACE(row)] =
                    total == 0 ? -INFINITE : log(total) + scale * top[m][part];
        }
    }
}
