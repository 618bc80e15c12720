# Floors of quotients and remainders, which NumPy finds one by one, of floats with the C library's fmod.
# Included by _wide_loops.pyx.

cdef extern from *:
    """
    #ifdef COREPY_VARIANTS
    #include <fenv.h>
    #include <immintrin.h>
    #include <math.h>
    #include <stdint.h>

    /* What no register finds at once: of quotients beyond the integers that a float holds, by zero,
       of infinities and NaN. As NumPy does, but for floors of quotients of infinities, where the
       standard has others: see `floor_divide` in _numpy_elementwise.py. */
    #define COREPY_RARE(ITEM, FMOD, FLOOR, SIGNED) \\
        static ITEM corepy_remainder_of_##ITEM(ITEM x, ITEM y) { \\
            const ITEM rest = FMOD(x, y); \\
            if (y == 0 || rest != rest) return rest; \\
            if (rest == 0) return SIGNED(0, y); \\
            return (y < 0) != (rest < 0) ? rest + y : rest; \\
        } \\
        static ITEM corepy_quotient_of_##ITEM(ITEM x, ITEM y) { \\
            ITEM rest, quotient, whole; \\
            if (y == 0) return x / y; \\
            if (!__builtin_isinf(x) != !__builtin_isinf(y)) return FLOOR(x / y); \\
            rest = FMOD(x, y); \\
            quotient = (x - rest) / y; \\
            if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1; \\
            if (quotient == 0) return SIGNED(0, x / y); \\
            whole = FLOOR(quotient); \\
            return quotient - whole > (ITEM)0.5 ? whole + 1 : whole; \\
        } \\
        static inline ITEM corepy_rest_of_##ITEM(ITEM rest, ITEM y) { \\
            return rest == 0 ? SIGNED(0, y) : rest; \\
        }
    COREPY_RARE(float, fmodf, floorf, __builtin_copysignf)
    COREPY_RARE(double, fmod, floor, __builtin_copysign)

    /* Integers beyond 2**53, by zero, and the one quotient that does not fit: whoever sees these
       flags has NumPy's own loop say what is to be said. */
    static int64_t corepy_remainder_of_long(int64_t x, int64_t y) {
        if (y == 0) feraiseexcept(FE_DIVBYZERO);
        if (y == 0 || y == -1) return 0;
        return x % y + ((x % y != 0 && (x < 0) != (y < 0)) ? y : 0);
    }
    static int64_t corepy_quotient_of_long(int64_t x, int64_t y) {
        if (y == 0) feraiseexcept(FE_DIVBYZERO);
        if (y == -1 && x == INT64_MIN) feraiseexcept(FE_OVERFLOW);
        if (y == 0) return 0;
        if (y == -1) return (int64_t)(0 - (uint64_t)x);
        return x / y - (x % y != 0 && (x < 0) != (y < 0));
    }

    /* Elsewhere products and sums that are written apart are to be rounded apart. */
    #define COREPY_FUSED __attribute__((target("avx2,fma")))

    /* The rounded quotient never lies below the floor of the exact one, and above it by one at most
       while it is less than LIMIT, from where on a float holds integers only. The exact remainder,
       of the sign opposite to that of y then, tells. */
    #define COREPY_FLOATS(ITEM, FLOOR, FMA, FABS, LIMIT) \\
        const ITEM quotient = x / y, whole = FLOOR(quotient), rest = FMA(-whole, y, x); \\
        rare |= !(FABS(quotient) < LIMIT) | (rest != rest); \\
        const int above = ((rest < 0) != (y < 0)) & (rest != 0);
    #define COREPY_OF_FLOATS \\
        COREPY_FLOATS(float, __builtin_floorf, __builtin_fmaf, __builtin_fabsf, 0x1p23f)
    #define COREPY_OF_DOUBLES \\
        COREPY_FLOATS(double, __builtin_floor, __builtin_fma, __builtin_fabs, 0x1p52)
    /* Up to 2**53 all integers are floats. */
    #define COREPY_LARGE(X) ((X) > (int64_t)1 << 53 | (X) < -((int64_t)1 << 53))
    #define COREPY_OF_LONGS \\
        rare |= COREPY_LARGE(x) | COREPY_LARGE(y) | (y == 0); \\
        const int64_t whole = (int64_t)__builtin_floor((double)x / (double)(y == 0 ? 1 : y)); \\
        const int64_t rest = x - whole * y; \\
        const int above = ((rest ^ y) < 0) & (rest != 0);

    /* Results are put into place by blocks, when no operand is read any more that they may replace.
       Of the flags those stay that the C library raises for what is rare, or none. */
    #define COREPY_DIVISION(NAME, ITEM, TARGET, OF, VALUE, RARELY, QUIET) COREPY_LOOP(NAME, TARGET, \\
        enum { BLOCK = 512 }; \\
        ITEM some[BLOCK]; \\
        for (; i < size; i += BLOCK) { \\
            const ptrdiff_t count = size - i < BLOCK ? size - i : BLOCK; \\
            const ITEM* a = (const ITEM*)args[0] + (steps[0] ? i : 0); \\
            const ITEM* b = (const ITEM*)args[1] + (steps[1] ? i : 0); \\
            const unsigned flags = _mm_getcsr(); \\
            int rare = 0; \\
            if (steps[0] && steps[1]) { \\
                for (ptrdiff_t k = 0; k < count; k++) { \\
                    const ITEM x = a[k], y = b[k]; OF some[k] = VALUE; \\
                } \\
            } else if (steps[0]) { \\
                const ITEM y = *b; \\
                for (ptrdiff_t k = 0; k < count; k++) { const ITEM x = a[k]; OF some[k] = VALUE; } \\
            } else { \\
                const ITEM x = *a; \\
                for (ptrdiff_t k = 0; k < count; k++) { const ITEM y = b[k]; OF some[k] = VALUE; } \\
            } \\
            _mm_setcsr(flags); \\
            if (rare) { \\
                for (ptrdiff_t k = 0; k < count; k++) { \\
                    some[k] = RARELY(a[steps[0] ? k : 0], b[steps[1] ? k : 0]); \\
                } \\
                if (QUIET) _mm_setcsr(flags); \\
            } \\
            memcpy((ITEM*)args[2] + i, some, count * sizeof(ITEM)); \\
        })
    #define COREPY_QUOTIENT (above ? whole - 1 : whole)
    #define COREPY_FLOAT_REST corepy_rest_of_float(above ? __builtin_fmaf(1 - whole, y, x) : rest, y)
    #define COREPY_DOUBLE_REST corepy_rest_of_double(above ? __builtin_fma(1 - whole, y, x) : rest, y)
    #define COREPY_LONG_REST (rest + (above ? y : 0))

    #define COREPY_FLOAT_DIVISIONS(W, TARGET) \\
        COREPY_DIVISION(corepy_quotients_float_##W, float, TARGET, \\
            COREPY_OF_FLOATS, COREPY_QUOTIENT, corepy_quotient_of_float, 1) \\
        COREPY_DIVISION(corepy_quotients_double_##W, double, TARGET, \\
            COREPY_OF_DOUBLES, COREPY_QUOTIENT, corepy_quotient_of_double, 1) \\
        COREPY_DIVISION(corepy_remainders_float_##W, float, TARGET, \\
            COREPY_OF_FLOATS, COREPY_FLOAT_REST, corepy_remainder_of_float, 0) \\
        COREPY_DIVISION(corepy_remainders_double_##W, double, TARGET, \\
            COREPY_OF_DOUBLES, COREPY_DOUBLE_REST, corepy_remainder_of_double, 0)
    #define COREPY_LONG_DIVISIONS(W, TARGET) \\
        COREPY_DIVISION(corepy_quotients_long_##W, int64_t, TARGET, \\
            COREPY_OF_LONGS, COREPY_QUOTIENT, corepy_quotient_of_long, 0) \\
        COREPY_DIVISION(corepy_remainders_long_##W, int64_t, TARGET, \\
            COREPY_OF_LONGS, COREPY_LONG_REST, corepy_remainder_of_long, 0)
    #endif
    """
