/* Activations, element by element; FUNCTION is one of silu, gelu, gelu_tanh, and OPENED says whether
 * it opens something. */

/* 1 / (1 + exp(-x)), where nothing overflows and small results keep their digits. */
DEVICE real sigmoid(real x)
{
    const real small = exp(-fabs(x));
    return (x < 0 ? small : 1) * reciprocal(1 + small);
}

DEVICE real silu(real x)
{
    return (x < (real)SILU_FLOOR ? (real)SILU_FLOOR : x) * sigmoid(x);
}

/* The normal distribution's tail beyond u. */
DEVICE real tail(real u)
{
    const real t = 1 / ((real)POLE + u), s = 2 * u * t - 1;
    /* u * u in two parts, so that its rounding does not spoil the exponential. */
    const real near = rint(16 * u) / 16;
    return exp((real)-0.5 * near * near) * exp((real)-0.5 * (u - near) * (u + near)) * t
           * (real)TAIL(s);
}

DEVICE real gelu(real x)
{
    const real y = x < (real)GELU_FLOOR ? (real)GELU_FLOOR : x;
    const real u = fabs(y);
    const real beyond = tail(u > -(real)GELU_FLOOR ? -(real)GELU_FLOOR : u);
    return y * (y < 0 ? beyond : 1 - beyond);
}

/* (1 + tanh(v)) / 2 is sigmoid(2 * v), which keeps its digits where tanh is near -1. */
DEVICE real gelu_tanh(real x)
{
    const real y = x < (real)GELU_FLOOR ? (real)GELU_FLOOR : x;
    return y * sigmoid((real)GELU_SLOPE * y * (1 + (real)GELU_CUBE * y * y));
}

/* FUNCTION of x, times what it opens. Whole vectors have a way without branches, so that no load waits
 * for another one to be converted. */
KERNEL(activation)(IN(X, x), IN(X, opened), OUT(X, out), const i64 size)
{
    const i64 stride = GROUPS(0) * BLOCK_X * VECTOR;
    for (i64 at = (GROUP_ID(0) * BLOCK_X + LOCAL_ID(0)) * VECTOR; at < size; at += stride) {
        if (size - at < VECTOR) {
            ROLLED
            for (i64 i = at; i < size; ++i) {
                const real value = FUNCTION(LOAD(X, POINTER(x), i));
                STORE(X, POINTER(out), i, OPENED ? value * LOAD(X, POINTER(opened), i) : value);
            }
            continue;
        }
        real values[VECTOR], factors[VECTOR];
        LOAD_VECTOR(X, POINTER(x) + at, values);
        if (OPENED)
            LOAD_VECTOR(X, POINTER(opened) + at, factors);
        UNROLL
        for (int j = 0; j < VECTOR; ++j) {
            values[j] = FUNCTION(values[j]);
            if (OPENED)
                values[j] *= factors[j];
        }
        STORE_VECTOR(X, POINTER(out) + at, values);
    }
}
