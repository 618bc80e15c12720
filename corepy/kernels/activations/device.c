/* Activations, element by element; FUNCTION is one of silu, gelu, gelu_tanh. */

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

/* FUNCTION of x, times what it opens if that is given. */
KERNEL(activation)(IN(X, x), IN(X, opened), OUT(X, out), const i64 size)
{
    const i64 stride = GROUPS(0) * BLOCK_X * VECTOR;
    for (i64 at = (GROUP_ID(0) * BLOCK_X + LOCAL_ID(0)) * VECTOR; at < size; at += stride) {
        real values[VECTOR], factors[VECTOR];
        LOAD_SOME(X, POINTER(x) + at, values, size - at);
        if (HAS(opened))
            LOAD_SOME(X, POINTER(opened) + at, factors, size - at);
        UNROLL
        for (int j = 0; j < VECTOR; ++j) {
            values[j] = FUNCTION(values[j]);
            if (HAS(opened))
                values[j] *= factors[j];
        }
        STORE_SOME(X, POINTER(out) + at, values, size - at);
    }
}
