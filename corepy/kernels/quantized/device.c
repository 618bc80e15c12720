/* Integers of BITS bits with a scale for each group, and products with matrices of them.
 *
 * X is the dtype of what is rounded or multiplied, VALUES that of the integers in memory: int8, or
 * uint8 with two of them in a byte, the first one in its lower half.
 */

/* Integer `i` of those from `memory` on. */
DEVICE real integer(GLOBAL const TYPE(VALUES) *memory, i64 i)
{
#if BITS == 8
    return (real)memory[i];
#else
    return (real)((memory[i / 2] >> i % 2 * 4 & 15) - 8);
#endif
}

#ifdef X

#define MOST ((1 << (BITS - 1)) - 1)

/* The number of scales nearest to a value, ties to even, or 0 where scales are not usable. A subnormal
 * scale may have been rounded much. */
DEVICE int nearest(real value, real scale, int usable)
{
    const int steps = usable ? (int)rint(value / scale) : 0;
    return steps > MOST ? MOST : steps < -MOST ? -MOST : steps;
}

/* LANES work-items for a group of `size` elements. */
KERNEL(quantize)(IN(X, x), OUT(VALUES, values), OUT(WIDE, scales), const i64 groups, const i64 size)
{
    SHARED(real, scratch, ITEMS);
    const i64 step = GROUPS(0) * GROUP_ROWS;
    for (i64 together = GROUP_ID(0) * GROUP_ROWS; together < groups; together += step) {
        const i64 group = together + ITEM / LANES, first = group * size;
        const i64 end = group < groups ? size : 0;
        real greatest = 0, strange = 0;
        for (i64 i = LANE; i < end; i += LANES) {
            const real value = LOAD(X, POINTER(x), first + i);
            greatest = fmax(greatest, fabs(value));
            strange = value == value ? strange : 1;
        }
        greatest = row_max(greatest, scratch);
        strange = row_max(strange, scratch);
        real scale = strange == 0 ? greatest / MOST : INFINITE - INFINITE;
        /* Rounded up, the scale of the greatest numbers overflows when it is multiplied again. */
        scale *= scale * MOST < INFINITE ? 1 : 1 - 1.0f / (1 << 20);
        /* What has no scale, or none that is finite, is zero: then NaN comes of the scale. */
        const int usable = scale > 0 && scale < INFINITE;
        for (i64 i = LANE; i < end / (8 / BITS); i += LANES) {
#if BITS == 8
            POINTER(values)[first + i] = (i8)nearest(LOAD(X, POINTER(x), first + i), scale, usable);
#else
            const int low = nearest(LOAD(X, POINTER(x), first + 2 * i), scale, usable) + 8;
            const int high = nearest(LOAD(X, POINTER(x), first + 2 * i + 1), scale, usable) + 8;
            POINTER(values)[first / 2 + i] = (u8)(low | high << 4);
#endif
        }
        if (LANE == 0 && group < groups)
            POINTER(scales)[group] = scale;
    }
}

#endif

/* `size` integers share a scale. */
KERNEL(dequantize)(IN(VALUES, values), IN(WIDE, scales), OUT(WIDE, out), const i64 total, const i64 size)
{
    for (i64 i = GROUP_ID(0) * ITEMS + ITEM; i < total; i += GROUPS(0) * ITEMS)
        POINTER(out)[i] = integer(POINTER(values), i) * POINTER(scales)[i / size];
}

#ifdef TOGETHER

/* LANES work-items have EACH rows of the matrix, whose elements it shares, and TOGETHER
 * vectors, so that each vector in registers serves for several rows and each row for several
 * vectors. Where `packed`, RUN integers in a row are read at once: their scale is one. */

/* RUN integers, in 16 or 8 bytes. */
DEVICE void read_run(GLOBAL const TYPE(VALUES) *memory, real *into)
{
#if BITS == 8
    u32 words[4];
    load_words(memory, 0, words);
    UNROLL for (int i = 0; i < RUN; ++i) into[i] = (real)(i8)(words[i / 4] >> i % 4 * 8 & 255);
#else
    const u64 words = *(GLOBAL const u64 *)memory;
    const u32 word[2] = {(u32)words, (u32)(words >> 32)};
    UNROLL for (int i = 0; i < RUN; ++i)
        into[i] = (real)((int)(word[i / 8] >> i % 8 * 4 & 15) - 8);
#endif
}

/* `out[t, r]` is the sum of `x[t, i] * scale * values[r, i]`; `step` integers share a scale. */
KERNEL(matmul)(IN(X, x), IN(VALUES, values), IN(WIDE, scales), OUT(X, out), const int vectors,
               const int rows, const int size, const int step, const int packed)
{
    SHARED(real, scratch, ITEMS);
    /* Groups with the same rows of the matrix follow one another. */
    const int parts = (vectors + TOGETHER - 1) / TOGETHER;
    const int row = (int)(GROUP_ID(0) / parts * (ITEMS / LANES) + ITEM / LANES) * EACH;
    const int vector = (int)(GROUP_ID(0) % parts) * TOGETHER;
    /* Beyond the last row or vector the last one is computed again, and not written. */
    GLOBAL const TYPE(VALUES) *from[EACH];
    GLOBAL const real *scale[EACH];
    GLOBAL const TYPE(X) *given[TOGETHER];
    UNROLL for (int r = 0; r < EACH; ++r)
    {
        const i64 number = row + r < rows ? row + r : rows - 1;
        from[r] = POINTER(values) + number * size / (8 / BITS);
        scale[r] = POINTER(scales) + number * (size / step);
    }
    UNROLL for (int t = 0; t < TOGETHER; ++t)
        given[t] = POINTER(x) + (i64)(vector + t < vectors ? vector + t : vectors - 1) * size;

    real sum[TOGETHER][EACH];
    UNROLL for (int t = 0; t < TOGETHER; ++t) UNROLL for (int r = 0; r < EACH; ++r) sum[t][r] = 0;
#if LONG /* else rows too short for sums of their own, which take registers */
    real whole[TOGETHER][EACH];
    UNROLL for (int t = 0; t < TOGETHER; ++t) UNROLL for (int r = 0; r < EACH; ++r) whole[t][r] = 0;
#define SETTLE_ALL(step) \
    if ((i / (step) + 1) % SUMMED == 0) { \
        UNROLL for (int t = 0; t < TOGETHER; ++t) \
            UNROLL for (int r = 0; r < EACH; ++r) settle(&whole[t][r], &sum[t][r]); \
    }
#else
#define SETTLE_ALL(step)
#endif
    if (packed) {
        for (int i = RUN * LANE; i < size; i += RUN * LANES) {
            real run[EACH][RUN], numbers[RUN];
            UNROLL for (int r = 0; r < EACH; ++r)
                read_run(from[r] + i / (8 / BITS), run[r]);
            UNROLL for (int t = 0; t < TOGETHER; ++t)
            {
                UNROLL for (int n = 0; n < RUN; n += VECTOR)
                    LOAD_VECTOR(X, given[t] + i + n, numbers + n);
                UNROLL for (int r = 0; r < EACH; ++r)
                {
                    real product = 0;
                    UNROLL for (int n = 0; n < RUN; ++n)
                        product = fma(run[r][n], numbers[n], product);
                    sum[t][r] = fma(scale[r][i / step], product, sum[t][r]);
                }
            }
            SETTLE_ALL(RUN * LANES)
        }
    } else {
        for (int i = LANE; i < size; i += LANES) {
            real weight[EACH];
            UNROLL for (int r = 0; r < EACH; ++r)
                weight[r] = integer(from[r], i) * scale[r][i / step];
            UNROLL for (int t = 0; t < TOGETHER; ++t)
            {
                const real number = LOAD(X, given[t], i);
                UNROLL for (int r = 0; r < EACH; ++r)
                    sum[t][r] = fma(weight[r], number, sum[t][r]);
            }
            SETTLE_ALL(LANES)
        }
    }
    UNROLL for (int t = 0; t < TOGETHER; ++t)
        UNROLL for (int r = 0; r < EACH; ++r)
        {
#if LONG
            sum[t][r] += whole[t][r];
#endif
            const real total = row_sum(sum[t][r], scratch);
            if (LANE == 0 && row + r < rows && vector + t < vectors)
                STORE(X, POINTER(out), (i64)(vector + t) * rows + row + r, total);
        }
}

#endif
