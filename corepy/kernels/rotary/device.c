/* Rotary embeddings. X, C and P are the dtypes of x, of the tables and of the positions. */

KERNEL(rope)(
    IN(X, x),
    ROWS(x),
    IN(C, cos),
    IN(C, sin),
    IN(P, positions),
    ROWS(positions),
    OUT(X, out),
    const i64 rows,
    const i64 length,
    const i64 half_size)
{
    for (i64 row = GROUP_ID(0) * GROUP_ROWS + ITEM / LANES; row < rows;
         row += GROUPS(0) * GROUP_ROWS) {
        const i64 place = HAS(positions) ? LOAD(P, POINTER(positions), ROW(positions, row))
                                         : remainder_of(row, length);
        GLOBAL const TYPE(X) *given = POINTER(x) + ROW(x, row);
        GLOBAL TYPE(X) *turned = POINTER(out) + row * 2 * half_size;
        for (i64 at = LANE * VECTOR; at < half_size; at += LANES * VECTOR) {
            /* Halves are pairs of vectors; interleaved, two vectors side by side hold pairs. */
            const i64 first = INTERLEAVED ? 2 * at : at;
            const i64 second = INTERLEAVED ? 2 * at + VECTOR : at + half_size;
            real a[VECTOR], b[VECTOR], c[VECTOR], s[VECTOR];
            LOAD_VECTOR(X, given + first, a);
            LOAD_VECTOR(X, given + second, b);
            LOAD_VECTOR(C, POINTER(cos) + place * half_size + at, c);
            LOAD_VECTOR(C, POINTER(sin) + place * half_size + at, s);
            real y[2 * VECTOR], z[2 * VECTOR];
            UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                y[j] = a[j];
                y[VECTOR + j] = b[j];
            }
            UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                const int left = INTERLEAVED ? 2 * j : j;
                const int right = INTERLEAVED ? 2 * j + 1 : VECTOR + j;
                z[left] = y[left] * c[j] - y[right] * s[j];
                z[right] = y[right] * c[j] + y[left] * s[j];
            }
            STORE_VECTOR(X, turned + first, z);
            STORE_VECTOR(X, turned + second, z + VECTOR);
        }
    }
}
