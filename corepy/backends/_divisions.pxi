# Floors of quotients and remainders, which NumPy finds one by one, of floats with the C library's fmod.
# Included by _wide_loops.pyx.

cdef extern from *:
    """
    #ifdef COREPY_VARIANTS
    #include <immintrin.h>
    #include <math.h>
    #include <stdint.h>

    /* What no register finds at once: of quotients beyond the integers that a float holds, by zero,
       of infinities and NaN. As NumPy does, but for floors of quotients of infinities, where the
       standard has others: see `floor_divide` in _numpy_elementwise.py. Other floors stay as they
       were found: NumPy's may be one off, and what an element becomes is none of its neighbours'. */
    #define COREPY_RARE(ITEM, FMOD, FLOOR, SIGNED, LIMIT) \\
        static ITEM corepy_remainder_of_##ITEM(ITEM x, ITEM y, ITEM found) { \\
            const ITEM rest = FMOD(x, y); \\
            if (y == 0 || rest != rest) return rest; \\
            if (rest == 0) return SIGNED(0, y); \\
            return (y < 0) != (rest < 0) ? rest + y : rest; \\
        } \\
        static ITEM corepy_quotient_of_##ITEM(ITEM x, ITEM y, ITEM found) { \\
            ITEM rest, quotient = x / y, whole; \\
            if (y == 0) return quotient; \\
            if (!__builtin_isinf(x) != !__builtin_isinf(y)) return FLOOR(quotient); \\
            if (quotient < LIMIT && quotient > -LIMIT) return found; \\
            rest = FMOD(x, y); \\
            quotient = (x - rest) / y; \\
            if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1; \\
            if (quotient == 0) return SIGNED(0, x / y); \\
            whole = FLOOR(quotient); \\
            return quotient - whole > (ITEM)0.5 ? whole + 1 : whole; \\
        }
    COREPY_RARE(float, fmodf, floorf, __builtin_copysignf, 0x1p23f)
    COREPY_RARE(double, fmod, floor, __builtin_copysign, 0x1p52)

    /* Integers beyond 2**53, by zero, and the one quotient that does not fit: whoever sees these
       flags has NumPy's own loop say what is to be said. */
    static int64_t corepy_remainder_of_long(int64_t x, int64_t y, int64_t found) {
        if (y == 0) feraiseexcept(FE_DIVBYZERO);
        if (y == 0 || y == -1) return 0;
        return x % y + ((x % y != 0 && (x < 0) != (y < 0)) ? y : 0);
    }
    static int64_t corepy_quotient_of_long(int64_t x, int64_t y, int64_t found) {
        if (y == 0) feraiseexcept(FE_DIVBYZERO);
        if (y == -1 && x == INT64_MIN) feraiseexcept(FE_OVERFLOW);
        if (y == 0) return 0;
        if (y == -1) return (int64_t)(0 - (uint64_t)x);
        return x / y - (x % y != 0 && (x < 0) != (y < 0));
    }

    /* The integer next to the rounded quotient is the floor of the exact one or one above it while
       that is less than LIMIT, from where on a float holds integers only. The exact remainder, of
       the sign opposite to that of y then, tells. A compiler that minds flags takes no floors in
       registers, nor compares in them: so it is the next integer, and bits are compared. */
    typedef union { float number; uint32_t bits; } corepy_float;
    typedef union { double number; uint64_t bits; } corepy_double;
    #define COREPY_FLOATS(ITEM, NEXT, FMA, SIGN, INFINITE, LIMIT) \\
        const corepy_##ITEM quotient = {.number = x / y}, divisor = {.number = y}; \\
        const ITEM whole = NEXT(quotient.number); \\
        const corepy_##ITEM rest = {.number = FMA(-whole, y, x)}; \\
        rare |= ((quotient.bits & ~SIGN) >= LIMIT) | ((rest.bits & ~SIGN) > INFINITE); \\
        const ITEM above = (((rest.bits ^ divisor.bits) & SIGN) != 0) & ((rest.bits & ~SIGN) != 0);
    #define COREPY_OF_FLOATS COREPY_FLOATS(float, __builtin_rintf, __builtin_fmaf, \\
        0x80000000u, 0x7F800000u, 0x4B000000u)
    #define COREPY_OF_DOUBLES COREPY_FLOATS(double, __builtin_rint, __builtin_fma, \\
        0x8000000000000000u, 0x7FF0000000000000u, 0x4330000000000000u)
    #define COREPY_REST(ITEM, FMA, SIGN) \\
        const corepy_##ITEM exact = {.number = FMA(above - whole, y, x)}; \\
        const corepy_##ITEM found = { \\
            .bits = (exact.bits & ~SIGN) == 0 ? divisor.bits & SIGN : exact.bits \\
        };

    #define COREPY_QUOTIENT_OF_FLOATS COREPY_OF_FLOATS some[k] = whole - above;
    #define COREPY_QUOTIENT_OF_DOUBLES COREPY_OF_DOUBLES some[k] = whole - above;
    #define COREPY_REST_OF_FLOATS COREPY_OF_FLOATS \\
        COREPY_REST(float, __builtin_fmaf, 0x80000000u) some[k] = found.number;
    #define COREPY_REST_OF_DOUBLES COREPY_OF_DOUBLES \\
        COREPY_REST(double, __builtin_fma, 0x8000000000000000u) some[k] = found.number;

    /* Up to 2**53 all integers are floats; in the place of others 0 is divided. */
    #define COREPY_LARGE(X) (((X) > (int64_t)1 << 53) | ((X) < -((int64_t)1 << 53)))
    #define COREPY_OF_LONGS \\
        const int64_t left = COREPY_LARGE(x) | COREPY_LARGE(y) | (y == 0), taken = x & (left - 1); \\
        rare |= left; \\
        const int64_t whole = (int64_t)__builtin_rint((double)taken / (double)(y + (y == 0))); \\
        const int64_t rest = taken - whole * y; \\
        const int64_t above = ((rest ^ y) < 0) & (rest != 0);
    #define COREPY_QUOTIENT_OF_LONGS COREPY_OF_LONGS some[k] = whole - above;
    #define COREPY_REST_OF_LONGS COREPY_OF_LONGS some[k] = rest + (above ? y : 0);

    /* Results are put into place by blocks, when no operand is read any more that they may replace.
       Of the flags those stay that the C library raises for what is rare, or none. */
    #define COREPY_DIVISION(NAME, ITEM, BITS, TARGET, STEP, RARELY, QUIET) COREPY_LOOP(NAME, TARGET, \\
        enum { BLOCK = 512 }; \\
        ITEM some[BLOCK]; \\
        for (; i < size; i += BLOCK) { \\
            const ptrdiff_t count = size - i < BLOCK ? size - i : BLOCK; \\
            const ITEM* a = (const ITEM*)args[0] + (steps[0] ? i : 0); \\
            const ITEM* b = (const ITEM*)args[1] + (steps[1] ? i : 0); \\
            const unsigned flags = _mm_getcsr(); \\
            BITS rare = 0; \\
            if (steps[0] && steps[1]) { \\
                for (ptrdiff_t k = 0; k < count; k++) { const ITEM x = a[k], y = b[k]; STEP } \\
            } else if (steps[0]) { \\
                const ITEM y = *b; \\
                for (ptrdiff_t k = 0; k < count; k++) { const ITEM x = a[k]; STEP } \\
            } else { \\
                const ITEM x = *a; \\
                for (ptrdiff_t k = 0; k < count; k++) { const ITEM y = b[k]; STEP } \\
            } \\
            _mm_setcsr(flags); \\
            if (rare) { \\
                for (ptrdiff_t k = 0; k < count; k++) { \\
                    some[k] = RARELY(a[steps[0] ? k : 0], b[steps[1] ? k : 0], some[k]); \\
                } \\
                if (QUIET) _mm_setcsr(flags); \\
            } \\
            memcpy((ITEM*)args[2] + i, some, count * sizeof(ITEM)); \\
        })
    #define COREPY_FLOAT_DIVISIONS(W, TARGET) \\
        COREPY_DIVISION(corepy_quotients_float_##W, float, uint32_t, TARGET, \\
            COREPY_QUOTIENT_OF_FLOATS, corepy_quotient_of_float, 1) \\
        COREPY_DIVISION(corepy_quotients_double_##W, double, uint64_t, TARGET, \\
            COREPY_QUOTIENT_OF_DOUBLES, corepy_quotient_of_double, 1) \\
        COREPY_DIVISION(corepy_remainders_float_##W, float, uint32_t, TARGET, \\
            COREPY_REST_OF_FLOATS, corepy_remainder_of_float, 0) \\
        COREPY_DIVISION(corepy_remainders_double_##W, double, uint64_t, TARGET, \\
            COREPY_REST_OF_DOUBLES, corepy_remainder_of_double, 0)
    #define COREPY_LONG_DIVISIONS(W, TARGET) \\
        COREPY_DIVISION(corepy_quotients_long_##W, int64_t, uint64_t, TARGET, \\
            COREPY_QUOTIENT_OF_LONGS, corepy_quotient_of_long, 0) \\
        COREPY_DIVISION(corepy_remainders_long_##W, int64_t, uint64_t, TARGET, \\
            COREPY_REST_OF_LONGS, corepy_remainder_of_long, 0)
    #endif
    """
