/* Batch normalization, element by element, of the channel at / after % channels. X, M, V, W and B are
 * the dtypes of x, mean, variance, weight and bias; VECTOR is 1 where neighbours have different channels. */

KERNEL(batch_norm)(
    IN(X, x),
    IN(M, mean),
    IN(V, variance),
    IN(W, weight),
    IN(B, bias),
    OUT(X, out),
    const i64 size,
    const i64 channels,
    const i64 after,
    const real eps)
{
    const i64 stride = GROUPS(0) * BLOCK_X * VECTOR;
    for (i64 at = (GROUP_ID(0) * BLOCK_X + LOCAL_ID(0)) * VECTOR; at < size; at += stride) {
        const i64 channel = at / after % channels;
        const real middle = LOAD(M, POINTER(mean), channel);
        const real spread = sqrt(LOAD(V, POINTER(variance), channel) + eps);
        const real factor = HAS(weight) ? (real)LOAD(W, POINTER(weight), channel) : 1;
        const real term = HAS(bias) ? (real)LOAD(B, POINTER(bias), channel) : 0;
        real values[VECTOR];
        LOAD_VECTOR(X, POINTER(x) + at, values);
UNROLL
        for (int j = 0; j < VECTOR; ++j)
            values[j] = (values[j] - middle) / spread * factor + term;
        STORE_VECTOR(X, POINTER(out) + at, values);
    }
}
