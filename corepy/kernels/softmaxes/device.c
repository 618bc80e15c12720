/* Softmax along rows and down columns; X is the dtype of x, and MASKED says whether there is a mask.
 * What that leaves out may be anything.
 *
 * The sum is at least 1 where anything takes part, for the greatest element adds exp(0). */

/* Scaled, by a part of the scale that is at most 1, and less the greatest such number by the other
 * part. The first is a number of its own: a fused subtraction would leave something of the greatest. */
#define SCALED(value) product(value, before)
#define LESS(scaled, top) (((scaled) - (top)) * after)
#define TAKEN(at) (!MASKED || POINTER(mask)[places + (at) * mask_step])
#define LEFT_OUT(at) (!TAKEN(at))

KERNEL(softmax_rows)(
    IN(X, x),
    ROWS(x),
    IN(uint8, mask),
    ROWS(mask),
    const i64 mask_step,
    OUT(X, out),
    const i64 rows,
    const i64 size,
    const real before,
    const real after)
{
    SHARED(real, scratch, ITEMS);
    KEEP(values);
    for (i64 first = GROUP_ID(0) * GROUP_ROWS; first < rows; first += GROUPS(0) * GROUP_ROWS) {
        const i64 row = first + ITEM / LANES;
        const i64 length = row < rows ? size : 0; /* beyond the last one there is nothing to do */
        GLOBAL const TYPE(X) *given = POINTER(x) + ROW(x, row);
        const i64 places = ROW(mask, row);
        LOAD_ROW(X, given, length, values)
        real top = -INFINITE;
        ROW_STEPS(step, length)
        {
            LOAD_STEP(X, given, values, step);
            UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                KEPT(values, step)[j] = SCALED(KEPT(values, step)[j]);
                if (IN_ROW(step, length) && TAKEN(ROW_AT(step) + j))
                    top = fmax(top, KEPT(values, step)[j]);
            }
        }
        top = row_max(top, scratch);
        real total = 0, some = 0;
        ROW_STEPS(step, length)
        {
            LOAD_STEP(X, given, values, step);
            UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                const real scaled = HELD ? KEPT(values, step)[j] : SCALED(KEPT(values, step)[j]);
                const int taken = IN_ROW(step, length) && TAKEN(ROW_AT(step) + j);
                const real weight = EXP_FOR(X, LESS(scaled, top)); /* of all, as a branch would take longer */
                KEPT(values, step)[j] = CHOSEN(taken, weight, 0);
                some += KEPT(values, step)[j];
            }
            SETTLE(total, some, step)
        }
        total = row_sum(total + some, scratch);
        const real share = total == 0 ? 0 : 1 / total;
        ROW_STEPS(step, length)
        {
            if (!IN_ROW(step, length))
                continue;
            LOAD_STEP(X, given, values, step);
            UNROLL
            for (int j = 0; j < VECTOR; ++j) {
                real weight = KEPT(values, step)[j];
                if (!HELD)
                    weight = TAKEN(ROW_AT(step) + j) ? EXP_FOR(X, LESS(SCALED(weight), top)) : 0;
                KEPT(values, step)[j] = weight * share;
            }
            STORE_VECTOR(X, POINTER(out) + row * size + ROW_AT(step), KEPT(values, step));
        }
        if (share != share) { /* what is left out is zero all the same */
            for (int step = 0; ROW_AT(step) < length; ++step) {
                for (int j = 0; j < VECTOR; ++j) {
                    if (LEFT_OUT(ROW_AT(step) + j))
                        STORE(X, POINTER(out), row * size + ROW_AT(step) + j, 0);
                }
            }
        }
    }
}

/* Of x (stack, length, columns), in C's order: a work-item goes down a column, and neighbours down
 * neighbouring ones. The greatest element and the sum of exponentials come from one look. */
KERNEL(softmax_columns)(
    IN(X, x),
    IN(uint8, mask),
    OUT(X, out),
    const i64 stack,
    const i64 length,
    const i64 columns,
    const real before,
    const real after)
{
    const i64 mask_step = columns;
    for (i64 i = GROUP_ID(0) * BLOCK_X + LOCAL_ID(0); i < stack * columns;
         i += GROUPS(0) * BLOCK_X) {
        const i64 places = i / columns * length * columns + i % columns;
        real top = -INFINITE, total = 0, some = 0, least = 0;
        for (i64 at = 0; at < length; ++at) {
            if (at % SUMMED == 0)
                settle(&total, &some);
            if (!TAKEN(at))
                continue;
            const real scaled = SCALED(LOAD(X, POINTER(x), places + at * columns));
            if (scaled > top) {
                const real less = EXP_FOR(X, LESS(top, scaled));
                total *= less;
                some = some * less + EXP_FOR(X, scaled - scaled); /* of infinity NaN */
                top = scaled;
            } else if (scaled == -INFINITE) {
                least = 1; /* nothing, beside anything that is greater */
            } else {
                some += EXP_FOR(X, LESS(scaled, top));
            }
        }
        total += some;
        if (total == 0 && least == 1)
            total = INFINITE - INFINITE;
        const real share = total == 0 ? 0 : 1 / total;
        for (i64 at = 0; at < length; ++at) {
            real value = 0;
            if (TAKEN(at))
                value = EXP_FOR(X, LESS(SCALED(LOAD(X, POINTER(x), places + at * columns)), top)) * share;
            STORE(X, POINTER(out), places + at * columns, value);
        }
    }
}
