/* What the dialect of the device kernels promises, for the tests of its header. */

KERNEL(decode)(IN(X, words), OUT(float32, out), const i64 size)
{
    const i64 i = GROUP_ID(0) * BLOCK_X + LOCAL_ID(0);
    if (i < size)
        STORE(float32, POINTER(out), i, LOAD(X, POINTER(words), i));
}

KERNEL(encode)(IN(float32, values), OUT(X, out), const i64 size)
{
    const i64 i = GROUP_ID(0) * BLOCK_X + LOCAL_ID(0);
    if (i < size)
        STORE(X, POINTER(out), i, LOAD(float32, POINTER(values), i));
}

/* Elements through `real` and back, VECTOR at a time. */
KERNEL(move)(IN(X, x), OUT(X, out), const i64 size)
{
    const i64 at = (GROUP_ID(0) * BLOCK_X + LOCAL_ID(0)) * VECTOR;
    real values[VECTOR];
    if (at < size) {
        LOAD_SOME(X, POINTER(x) + at, values, size - at);
        STORE_SOME(X, POINTER(out) + at, values, size - at);
    }
}

/* Sums and greatest elements over LANES, and the neighbour's value. */
KERNEL(across)(IN(float32, x), OUT(float32, sums), OUT(float32, greatest), OUT(float32, others))
{
    SHARED(real, scratch, ITEMS);
    const real value = POINTER(x)[ITEM];
    POINTER(sums)[ITEM] = row_sum(value, scratch);
    POINTER(greatest)[ITEM] = row_max(value, scratch);
    POINTER(others)[ITEM] = SHUFFLE_XOR(value, 5, scratch);
}

/* a * b + c with the product rounded. */
KERNEL(rounded)(IN(float32, a), IN(float32, b), IN(float32, c), OUT(float32, out), const i64 size)
{
    const i64 i = GROUP_ID(0) * BLOCK_X + LOCAL_ID(0);
    if (i < size)
        POINTER(out)[i] = product(POINTER(a)[i], POINTER(b)[i]) + POINTER(c)[i];
}
