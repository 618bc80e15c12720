/* Norms of rows, GROUP_ROWS of them side by side in a group; X and W are the dtypes of x and weight. */

KERNEL(rms_norm)(
    IN(X, x),
    ROWS(x),
    IN(X, residual),
    ROWS(residual),
    IN(W, weight),
    OUT(X, summed),
    OUT(X, out),
    const i64 rows,
    const i64 size,
    const real eps)
{
    SHARED(real, scratch, ITEMS);
    KEEP(values);
    for (i64 first = GROUP_ID(0) * GROUP_ROWS; first < rows; first += GROUPS(0) * GROUP_ROWS) {
        const i64 row = first + ITEM / LANES;
        const i64 length = row < rows ? size : 0; /* beyond the last one there is nothing to do */
        GLOBAL const TYPE(X) *given = POINTER(x) + ROW(x, row);
        real total = 0;
UNROLL
        for (int step = 0; step < ROW_STEPS(size); ++step) {
            const i64 at = ROW_AT(step);
            if (at >= length)
                break;
            LOAD_VECTOR(X, given + at, KEPT(values, step));
            if (HAS(residual)) {
                real added[VECTOR];
                LOAD_VECTOR(X, POINTER(residual) + ROW(residual, row) + at, added);
UNROLL
                for (int j = 0; j < VECTOR; ++j)
                    KEPT(values, step)[j] = ROUND(X, KEPT(values, step)[j] + added[j]);
                STORE_VECTOR(X, POINTER(summed) + row * size + at, KEPT(values, step));
            }
UNROLL
            for (int j = 0; j < VECTOR; ++j)
                total += KEPT(values, step)[j] * KEPT(values, step)[j];
        }
        const real scale = 1 / sqrt(row_sum(total, scratch) / size + eps);
        GLOBAL const TYPE(X) *again = HAS(residual) ? POINTER(summed) + row * size : given;
UNROLL
        for (int step = 0; step < ROW_STEPS(size); ++step) {
            const i64 at = ROW_AT(step);
            if (at >= length)
                break;
            if (!HELD)
                LOAD_VECTOR(X, again + at, KEPT(values, step));
            real factors[VECTOR];
            if (HAS(weight))
                LOAD_VECTOR(W, POINTER(weight) + at, factors);
UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                KEPT(values, step)[j] *= scale;
                if (HAS(weight))
                    KEPT(values, step)[j] *= factors[j];
            }
            STORE_VECTOR(X, POINTER(out) + row * size + at, KEPT(values, step));
        }
    }
}

/* The sum over a row of what is left of its elements less `high` and `low`, or of the squares. */
#define SUM_OF_REST(total, square) \
    real total = 0; \
    UNROLL for (int step = 0; step < ROW_STEPS(size); ++step) \
    { \
        const i64 at = ROW_AT(step); \
        if (at >= length) \
            break; \
        if (!HELD) \
            LOAD_VECTOR(X, given + at, KEPT(values, step)); \
        UNROLL for (int j = 0; j < VECTOR; ++j) \
        { \
            const real rest = KEPT(values, step)[j] - high - low; \
            total += square ? rest * rest : rest; \
        } \
    } \
    total = row_sum(total, scratch) / size

KERNEL(layer_norm)(
    IN(X, x),
    ROWS(x),
    IN(W, weight),
    IN(B, bias),
    OUT(X, out),
    const i64 rows,
    const i64 size,
    const real eps)
{
    SHARED(real, scratch, ITEMS);
    KEEP(values);
    for (i64 first = GROUP_ID(0) * GROUP_ROWS; first < rows; first += GROUPS(0) * GROUP_ROWS) {
        const i64 row = first + ITEM / LANES;
        const i64 length = row < rows ? size : 0;
        GLOBAL const TYPE(X) *given = POINTER(x) + ROW(x, row);
UNROLL
        for (int step = 0; step < HELD; ++step) {
            if (ROW_AT(step) < length)
                LOAD_VECTOR(X, given + ROW_AT(step), KEPT(values, step));
        }
        /* The mean in two parts, so that values far from zero lose nothing by its rounding. */
        real high = 0, low = 0;
        SUM_OF_REST(mean, false);
        high = mean;
        SUM_OF_REST(left, false);
        low = left;
        SUM_OF_REST(variance, true);
        const real scale = 1 / sqrt(variance + eps);
UNROLL
        for (int step = 0; step < ROW_STEPS(size); ++step) {
            const i64 at = ROW_AT(step);
            if (at >= length)
                break;
            if (!HELD)
                LOAD_VECTOR(X, given + at, KEPT(values, step));
            real factors[VECTOR], terms[VECTOR];
            if (HAS(weight))
                LOAD_VECTOR(W, POINTER(weight) + at, factors);
            if (HAS(bias))
                LOAD_VECTOR(B, POINTER(bias) + at, terms);
UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                real value = (KEPT(values, step)[j] - high - low) * scale;
                if (HAS(weight))
                    value *= factors[j];
                if (HAS(bias))
                    value += terms[j];
                KEPT(values, step)[j] = value;
            }
            STORE_VECTOR(X, POINTER(out) + row * size + at, KEPT(values, step));
        }
    }
}
