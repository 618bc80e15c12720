/* Convolutions of images; X and B are the dtypes of x and bias, HEIGHT and WIDTH the kernel's size.
 *
 * A result is the sum over k, which counts the channels of a group and the elements of the kernel, of
 * weight[filter][k] * seen(k). `rows` and `columns` are those of the results, `lines` and `line` those
 * of an image. */
#define AREA (HEIGHT * WIDTH)

/* What element k of a window sees, from the first channel of its group on: zeros around the image. */
DEVICE real seen(
    GLOBAL const TYPE(X) *image,
    i64 k,
    i64 top,
    i64 left,
    i64 lines,
    i64 line,
    i64 row_step,
    i64 column_step)
{
    const i64 channel = k / AREA;
    const int part = (int)(k - channel * AREA);
    const i64 y = top + part / WIDTH * row_step, x = left + part % WIDTH * column_step;
    if (y < 0 || y >= lines || x < 0 || x >= line)
        return 0;
    return LOAD(X, image, (channel * lines + y) * line + x);
}

#define WINDOWS \
    const i64 batch, const i64 filters, const i64 depth, const i64 groups, const i64 lines, \
        const i64 line, const i64 rows, const i64 columns, const i64 down, const i64 right, \
        const i64 above, const i64 before, const i64 row_step, const i64 column_step

/* As products of matrices, of the filters of a group and of what the windows of all images see. */
KERNEL(in_tiles)(IN(X, x), IN(X, weight), IN(B, bias), OUT(X, out), WINDOWS)
{
    SHARED(real, left, TILE_SHARED);
    SHARED(real, other, TILE_SHARED);
    const i64 plane = rows * columns, places = batch * plane;
    const i64 together = filters / groups, size = depth * AREA;
    const i64 high = (together + TILE - 1) / TILE, across = (places + TILE - 1) / TILE;
    for (i64 task = GROUP_ID(0); task < groups * high * across; task += GROUPS(0)) {
        const i64 group = task / (high * across), rest = task % (high * across);
        const i64 row = rest / across * TILE, column = rest % across * TILE;
        GLOBAL const TYPE(X) *w = POINTER(weight) + group * together * size;
        /* ITEMS is a multiple of TILE, so a work-item reads for one place in all steps. */
        const i64 place = column + ITEM % TILE, within = place % plane;
        GLOBAL const TYPE(X) *image =
            POINTER(x) + (place / plane * groups + group) * depth * lines * line;
        const i64 y = within / columns * down - above, z = within % columns * right - before;
#define OF_FILTER(k, i) (row + i < together ? LOAD(X, w, (row + i) * size + (k)) : 0)
#define OF_PLACE(k, j) \
    (place < places ? seen(image, k, y, z, lines, line, row_step, column_step) : 0)
        TILE_SUMS(sums, size, left, true, OF_FILTER, other, false, OF_PLACE)
        UNROLL
        for (int i = 0; i < FEW; ++i)
            UNROLL
            for (int j = 0; j < FEW; ++j) {
                const i64 r = row + TILE_ROW(i), p = column + TILE_COLUMN(j);
                if (r >= together || p >= places)
                    continue;
                const i64 f = group * together + r;
                real value = sums[i][j];
                if (HAS(bias))
                    value += LOAD(B, POINTER(bias), f);
                STORE(X, POINTER(out), (p / plane * filters + f) * plane + p % plane, value);
            }
    }
}

/* Result by result, where groups have too few filters to fill a tile. */
KERNEL(one_by_one)(IN(X, x), IN(X, weight), IN(B, bias), OUT(X, out), WINDOWS)
{
    const i64 plane = rows * columns, total = batch * filters * plane;
    const i64 together = filters / groups, size = depth * AREA;
    for (i64 at = GROUP_ID(0) * BLOCK_X + LOCAL_ID(0); at < total; at += GROUPS(0) * BLOCK_X) {
        const i64 within = at % plane, n = at / plane / filters, f = at / plane % filters;
        GLOBAL const TYPE(X) *image =
            POINTER(x) + (n * groups + f / together) * depth * lines * line;
        const i64 y = within / columns * down - above, z = within % columns * right - before;
        real value = 0, some = 0;
        for (i64 k = 0; k < size;) {
            const i64 end = k + SUMMED < size ? k + SUMMED : size;
            for (; k < end; ++k)
                some += (real)LOAD(X, POINTER(weight), f * size + k)
                        * seen(image, k, y, z, lines, line, row_step, column_step);
            settle(&value, &some);
        }
        if (HAS(bias))
            value += LOAD(B, POINTER(bias), f);
        STORE(X, POINTER(out), at, value);
    }
}
