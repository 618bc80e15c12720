/* A step of Adam; X, G and M are the dtypes of the parameter, the gradient and both moments. */

KERNEL(adam_step)(
    IN(X, parameter),
    IN(G, gradient),
    IN(M, first),
    IN(M, second),
    OUT(X, new_parameter),
    OUT(M, new_first),
    OUT(M, new_second),
    const i64 size,
    const real rate,
    const real decay,
    const real beta1,
    const real rest1,
    const real beta2,
    const real rest2,
    const real correction,
    const real eps)
{
    const i64 stride = GROUPS(0) * BLOCK_X * VECTOR;
    for (i64 at = (GROUP_ID(0) * BLOCK_X + LOCAL_ID(0)) * VECTOR; at < size; at += stride) {
        real p[VECTOR], g[VECTOR], m[VECTOR], v[VECTOR];
        LOAD_SOME(X, POINTER(parameter) + at, p, size - at);
        LOAD_SOME(G, POINTER(gradient) + at, g, size - at);
        LOAD_SOME(M, POINTER(first) + at, m, size - at);
        LOAD_SOME(M, POINTER(second) + at, v, size - at);
        UNROLL
        for (int j = 0; j < VECTOR; ++j) {
            m[j] = beta1 * m[j] + rest1 * g[j];
            v[j] = beta2 * v[j] + rest2 * (g[j] * g[j]);
            p[j] = p[j] * decay - rate * m[j] / (sqrt(v[j]) * correction + eps);
        }
        STORE_SOME(X, POINTER(new_parameter) + at, p, size - at);
        STORE_SOME(M, POINTER(new_first) + at, m, size - at);
        STORE_SOME(M, POINTER(new_second) + at, v, size - at);
    }
}
