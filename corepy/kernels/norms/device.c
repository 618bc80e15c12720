/* Norms of rows, GROUP_ROWS of them side by side in a group; X, W and B are the dtypes of x, weight and bias.
 * RESIDUAL and WEIGHTED say whether there is one. */

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
        GLOBAL TYPE(X) *sums = POINTER(summed) + row * size;
        LOAD_ROW(X, given, length, values)
#if RESIDUAL
        GLOBAL const TYPE(X) *further = POINTER(residual) + ROW(residual, row);
        KEEP(added);
        LOAD_ROW(X, further, length, added)
#endif
        /* Before the sum, which would hold it back. */
        KEEP_WORDS(W, factors);
#if WEIGHTED
        READ_ROW(W, POINTER(weight), length, factors)
#endif
        real total = 0, some = 0;
        ROW_STEPS(step, length)
        {
            LOAD_STEP(X, given, values, step);
#if RESIDUAL
            LOAD_STEP(X, further, added, step);
            UNROLL
            for (int j = 0; j < VECTOR; ++j)
                KEPT(values, step)[j] = ROUND(X, KEPT(values, step)[j] + KEPT(added, step)[j]);
            if (IN_ROW(step, length))
                STORE_VECTOR(X, sums + ROW_AT(step), KEPT(values, step));
#endif
            UNROLL
            for (int j = 0; j < VECTOR; ++j)
                some += KEPT(values, step)[j] * KEPT(values, step)[j];
            SETTLE(total, some, step)
        }
        const real scale = 1 / sqrt(row_sum(total + some, scratch) / size + eps);
        ROW_STEPS(step, length)
        {
            if (!IN_ROW(step, length))
                continue;
            LOAD_STEP(X, RESIDUAL ? sums : given, values, step);
            UNROLL
            for (int j = 0; j < VECTOR; ++j)
                KEPT(values, step)[j] *= scale;
#if WEIGHTED
            real factor[VECTOR];
            DECODE_STEP(W, POINTER(weight), factors, step, factor);
            UNROLL
            for (int j = 0; j < VECTOR; ++j)
                KEPT(values, step)[j] *= factor[j];
#endif
            STORE_VECTOR(X, POINTER(out) + row * size + ROW_AT(step), KEPT(values, step));
        }
    }
}

/* The sum over a row of what is left of its elements less `high` and `low`, or of the squares. */
#define SUM_OF_REST(total, square) \
    real total = 0, total##_some = 0; \
    ROW_STEPS(step, length) \
    { \
        LOAD_STEP(X, given, values, step); \
        UNROLL for (int j = 0; j < VECTOR; ++j) \
        { \
            const real rest = KEPT(values, step)[j] - high - low; \
            if (IN_ROW(step, length)) \
                total##_some += square ? rest * rest : rest; \
        } \
        SETTLE(total, total##_some, step) \
    } \
    total = row_sum(total + total##_some, scratch) / size

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
        LOAD_ROW(X, given, length, values)
        /* The mean in two parts, so that values far from zero lose nothing by its rounding. */
        real high = 0, low = 0;
        SUM_OF_REST(mean, false);
        high = mean;
        SUM_OF_REST(left, false);
        low = left;
        SUM_OF_REST(variance, true);
        const real scale = 1 / sqrt(variance + eps);
        KEEP_WORDS(W, factors);
        KEEP_WORDS(B, terms);
        if (HAS(weight))
            READ_ROW(W, POINTER(weight), length, factors)
        if (HAS(bias))
            READ_ROW(B, POINTER(bias), length, terms)
        ROW_STEPS(step, length)
        {
            if (!IN_ROW(step, length))
                continue;
            LOAD_STEP(X, given, values, step);
            real factor[VECTOR], term[VECTOR];
            if (HAS(weight))
                DECODE_STEP(W, POINTER(weight), factors, step, factor);
            if (HAS(bias))
                DECODE_STEP(B, POINTER(bias), terms, step, term);
            UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                real value = (KEPT(values, step)[j] - high - low) * scale;
                if (HAS(weight))
                    value *= factor[j];
                if (HAS(bias))
                    value += term[j];
                KEPT(values, step)[j] = value;
            }
            STORE_VECTOR(X, POINTER(out) + row * size + ROW_AT(step), KEPT(values, step));
        }
    }
}
