/* Products of matrices and vectors; X is the dtype of all of them. */

/* out[r] = alpha * matrix[r % m] . vectors[r / m] + beta * added[r]: LANES have a row of the matrix. */
KERNEL(dots)(
    IN(X, matrix),
    ROWS(matrix),
    IN(X, vectors),
    IN(X, added),
    OUT(X, out),
    const i64 m,
    const i64 count,
    const i64 size,
    const real alpha,
    const real beta)
{
    SHARED(real, scratch, ITEMS);
    for (i64 first = GROUP_ID(0) * GROUP_ROWS; first < count; first += GROUPS(0) * GROUP_ROWS) {
        const i64 r = first + ITEM / LANES;
        const i64 length = r < count ? size : 0; /* beyond the last one there is nothing to do */
        GLOBAL const TYPE(X) *row = POINTER(matrix) + ROW(matrix, r % m);
        GLOBAL const TYPE(X) *vector = POINTER(vectors) + r / m * size;
        real total = 0, some = 0;
        for (i64 at = LANE * VECTOR; at < length;) {
            for (int n = 0; n < SUMMED && at < length; n += VECTOR, at += LANES * VECTOR) {
                real a[VECTOR], b[VECTOR];
                LOAD_VECTOR(X, row + at, a);
                LOAD_VECTOR(X, vector + at, b);
                UNROLL
                for (int j = 0; j < VECTOR; ++j)
                    some += a[j] * b[j];
            }
            settle(&total, &some);
        }
        total = alpha * row_sum(total, scratch);
        if (LANE == 0 && r < count) {
            if (HAS(added))
                total += beta * LOAD(X, POINTER(added), r);
            STORE(X, POINTER(out), r, total);
        }
    }
}

/* out[n] = sum of weights[n][i] * rows[n][i] over i: a work-item has VECTOR columns. */
KERNEL(sums)(
    IN(X, weights),
    IN(X, rows),
    OUT(X, out),
    const i64 total,
    const i64 count,
    const i64 size)
{
    const i64 per = size / VECTOR;
    for (i64 i = GROUP_ID(0) * BLOCK_X + LOCAL_ID(0); i < total; i += GROUPS(0) * BLOCK_X) {
        const i64 n = i / per, at = i % per * VECTOR;
        real sum[VECTOR], some[VECTOR], row[VECTOR];
        UNROLL
        for (int j = 0; j < VECTOR; ++j)
            sum[j] = some[j] = 0;
        for (i64 k = 0; k < count; ++k) {
            const real weight = LOAD(X, POINTER(weights), n * count + k);
            LOAD_VECTOR(X, POINTER(rows) + (n * count + k) * size + at, row);
            UNROLL
            for (int j = 0; j < VECTOR; ++j)
                some[j] += weight * row[j];
            if ((k + 1) % SUMMED != 0 && k + 1 < count)
                continue;
            UNROLL
            for (int j = 0; j < VECTOR; ++j)
                settle(&sum[j], &some[j]);
        }
        STORE_VECTOR(X, POINTER(out) + n * size + at, sum);
    }
}

/* out[n] = alpha * a[n] @ b[n] + beta * added[n], at any strides, in tiles. Heads share as in attention:
 * n is outer * heads + head, of b head / together. */
KERNEL(product_of_matrices)(
    IN(X, a),
    IN(X, b),
    IN(X, added),
    OUT(X, out),
    const i64 batch,
    const i64 heads,
    const i64 together,
    const i64 m,
    const i64 n,
    const i64 depth,
    const i64 a_outer,
    const i64 a_head,
    const i64 a_row,
    const i64 a_step,
    const i64 b_outer,
    const i64 b_head,
    const i64 b_step,
    const i64 b_column,
    const real alpha,
    const real beta)
{
    SHARED(real, left, TILE_SHARED);
    SHARED(real, right, TILE_SHARED);
    const i64 down = (m + TILE - 1) / TILE, across = (n + TILE - 1) / TILE;
    for (i64 task = GROUP_ID(0); task < batch * down * across; task += GROUPS(0)) {
        const i64 which = task / (down * across), rest = task % (down * across);
        const i64 row = rest / across * TILE, column = rest % across * TILE;
        const i64 outer = which / heads, head = which % heads;
        GLOBAL const TYPE(X) *x = POINTER(a) + outer * a_outer + head * a_head;
        GLOBAL const TYPE(X) *y = POINTER(b) + outer * b_outer + head / together * b_head;
#define FROM_A(k, i) (row + i < m ? LOAD(X, x, (row + i) * a_row + (k) * a_step) : 0)
#define FROM_B(k, j) (column + j < n ? LOAD(X, y, (k) * b_step + (column + j) * b_column) : 0)
        /* Neighbours read what lies side by side, if anything does. */
        TILE_SUMS(sums, depth, left, a_step == 1, FROM_A, right, b_step == 1, FROM_B)
        UNROLL
        for (int i = 0; i < FEW; ++i)
            UNROLL
            for (int j = 0; j < FEW; ++j) {
                const i64 r = row + TILE_ROW(i), c = column + TILE_COLUMN(j);
                if (r >= m || c >= n)
                    continue;
                const i64 at = (which * m + r) * n + c;
                real value = alpha * sums[i][j];
                if (HAS(added))
                    value += beta * LOAD(X, POINTER(added), at);
                STORE(X, POINTER(out), at, value);
            }
    }
}
