# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Loops in registers as wide as the processor has them, with NumPy's values.

NumPy's own loops of these operations fill registers of 128 bits on any processor, or none. These
have the signature of a ufunc's loops, and take contiguous operands and single values where there are
several; sums and products reduce, to a single value or to those of columns.
`corepy.backends._numpy_loops` says what they stand for.
"""

from libc.stdint cimport uintptr_t

__all__ = ["BY_WIDTH", "LOOPS", "SOURCE", "accumulate"]


include "_buffers.pxi"
include "_targets.pxi"
include "_divisions.pxi"


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    typedef struct { const char* name; const char* dtype; void* loop; } corepy_wide_loop;
    typedef void (*corepy_ufunc_loop)(char**, const ptrdiff_t*, const ptrdiff_t*, void*);

    /* Give each element of rows and all before it to a loop; whether it met no condition that NumPy
       would warn of. */
    static int corepy_accumulate(
        uintptr_t loop, const char* from, char* into, ptrdiff_t rows, ptrdiff_t length, ptrdiff_t item
    ) {
        const ptrdiff_t rest = length - 1, steps[3] = {item, item, item};
        int clean;
        corepy_none_of_all();
        for (; rows > 0; rows--, from += length * item, into += length * item) {
            char* args[3] = {into, (char*)from + item, into + item};
            memcpy(into, from, item);
            ((corepy_ufunc_loop)loop)(args, &rest, steps, NULL);
        }
        clean = !corepy_all_flags();
        corepy_none_of_all();
        return clean;
    }

    #ifdef COREPY_VARIANTS
    #include <immintrin.h>

    #define COREPY_LOOP(NAME, TARGET, ...) \\
        TARGET static void NAME( \\
            char** args, const ptrdiff_t* dims, const ptrdiff_t* steps, void* data \\
        ) { \\
            const ptrdiff_t size = dims[0]; \\
            ptrdiff_t i = 0; \\
            __VA_ARGS__ \\
        }

    /* Of floats by their bits: no flag is raised for NaN, and nothing keeps a compiler from
       registers. */
    #define COREPY_MAP(NAME, ITEM, RESULT, TARGET, VALUE) COREPY_LOOP(NAME, TARGET, \\
        const ITEM* restrict from = (const ITEM*)args[0]; \\
        RESULT* restrict into = (RESULT*)args[1]; \\
        for (; i < size; i++) { \\
            const ITEM x = from[i]; \\
            into[i] = VALUE; \\
        })
    #define COREPY_SIGN(ONE, INFINITE, REST) \\
        ((x & REST) == 0 ? 0 : (x & REST) > INFINITE ? x : (x & ~REST) | ONE)

    /* Two complex numbers over their moduli, by the steps of `sign` in _numpy_elementwise.py: those
       in double precision beside their larger parts, whose squares would overflow. */
    #define COREPY_SWAPPED(X) _mm256_permute_pd(X, 5)
    COREPY_AVX2 static inline __m256d corepy_sign_of_two(__m256d x, int wide) {
        const __m256d size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
        const __m256d largest = _mm256_max_pd(size, COREPY_SWAPPED(size));
        const __m256d zero = _mm256_cmp_pd(
            _mm256_or_pd(size, COREPY_SWAPPED(size)), _mm256_setzero_pd(), _CMP_EQ_OQ);
        const __m256d infinite = _mm256_cmp_pd(
            largest, _mm256_set1_pd(__builtin_inf()), _CMP_EQ_OQ);
        __m256d square, modulus;
        if (wide) x = _mm256_div_pd(x, largest);
        square = _mm256_mul_pd(x, x);
        modulus = _mm256_sqrt_pd(_mm256_add_pd(square, COREPY_SWAPPED(square)));
        if (wide) modulus = _mm256_blendv_pd(modulus, _mm256_set1_pd(1), infinite);
        return _mm256_andnot_pd(zero, _mm256_div_pd(x, modulus));
    }
    #define COREPY_COMPLEX_SIGN(NAME, ITEM, LOAD, STORE) COREPY_LOOP(NAME, COREPY_AVX2, \\
        const ITEM* from = (const ITEM*)args[0]; \\
        ITEM* into = (ITEM*)args[1]; \\
        for (; i + 2 <= size; i += 2) { \\
            STORE(into + 2 * i, corepy_sign_of_two(LOAD(from + 2 * i), sizeof(ITEM) == 8)); \\
        } \\
        if (i < size) { \\
            ITEM last[4] = {from[2 * i], from[2 * i + 1], 1, 1}; \\
            STORE(last, corepy_sign_of_two(LOAD(last), sizeof(ITEM) == 8)); \\
            into[2 * i] = last[0]; \\
            into[2 * i + 1] = last[1]; \\
        })
    #define COREPY_LOAD_FLOATS(FROM) _mm256_cvtps_pd(_mm_loadu_ps(FROM))
    #define COREPY_STORE_FLOATS(INTO, X) _mm_storeu_ps(INTO, _mm256_cvtpd_ps(X))
    COREPY_COMPLEX_SIGN(corepy_sign_floats, float, COREPY_LOAD_FLOATS, COREPY_STORE_FLOATS)
    COREPY_COMPLEX_SIGN(corepy_sign_doubles, double, _mm256_loadu_pd, _mm256_storeu_pd)

    /* By the instruction, for a compiler has to mind what a C library would say of each root. */
    #define COREPY_ROOT(NAME, ITEM, TARGET, COUNT, LOAD, ROOT, STORE, ONE) COREPY_LOOP(NAME, TARGET, \\
        const ITEM* from = (const ITEM*)args[0]; \\
        ITEM* into = (ITEM*)args[1]; \\
        for (; i + COUNT <= size; i += COUNT) STORE(into + i, ROOT(LOAD(from + i))); \\
        for (; i < size; i++) into[i] = ONE;)
    #define COREPY_FLOAT_ROOT _mm_cvtss_f32(_mm_sqrt_ss(_mm_load_ss(from + i)))
    #define COREPY_DOUBLE_ROOT _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_load_sd(from + i)))

    /* Between two bounds, each of which may be a single value; NaN where an element or a bound is. */
    #define COREPY_CLIPPED(ITEM, LESS, X, LOW, HIGH) \\
        for (; i < size; i++) { \\
            const ITEM low = LOW, high = HIGH; \\
            ITEM x = X; \\
            x = LESS(x, low) ? low : x; \\
            x = low != low ? low : x; \\
            x = LESS(high, x) ? high : x; \\
            into[i] = high != high ? high : x; \\
        }
    #define COREPY_CLIP(NAME, ITEM, TARGET, LESS) COREPY_LOOP(NAME, TARGET, \\
        const ITEM* restrict from = (const ITEM*)args[0]; \\
        const ITEM* restrict lows = (const ITEM*)args[1]; \\
        const ITEM* restrict highs = (const ITEM*)args[2]; \\
        const ITEM first = *lows, last = *highs; \\
        ITEM* restrict into = (ITEM*)args[3]; \\
        if (!steps[1] && !steps[2] && steps[0] && first == first && last == last) { \\
            for (; i < size; i++) { \\
                ITEM x = from[i]; \\
                x = LESS(x, first) ? first : x; \\
                into[i] = LESS(last, x) ? last : x; \\
            } \\
        } else if (steps[0] && steps[1] && steps[2]) { \\
            COREPY_CLIPPED(ITEM, LESS, from[i], lows[i], highs[i]) \\
        } else if (steps[0] && steps[1]) { \\
            COREPY_CLIPPED(ITEM, LESS, from[i], lows[i], last) \\
        } else if (steps[0] && steps[2]) { \\
            COREPY_CLIPPED(ITEM, LESS, from[i], first, highs[i]) \\
        } else { \\
            const int whole = steps[0] != 0, below = steps[1] != 0, above = steps[2] != 0; \\
            COREPY_CLIPPED(ITEM, LESS, from[whole * i], lows[below * i], highs[above * i]) \\
        })
    #define COREPY_IS_LESS(A, B) ((A) < (B))

    /* Of which one may be a single value. */
    #define COREPY_TIMES(NAME, ITEM, TARGET) COREPY_LOOP(NAME, TARGET, \\
        const ITEM* restrict a = (const ITEM*)args[steps[0] ? 0 : 1]; \\
        const ITEM* restrict b = (const ITEM*)args[steps[0] ? 1 : 0]; \\
        ITEM* restrict into = (ITEM*)args[2]; \\
        if (steps[0] && steps[1]) { \\
            for (; i < size; i++) into[i] = a[i] * b[i]; \\
        } else { \\
            const ITEM single = *b; \\
            for (; i < size; i++) into[i] = a[i] * single; \\
        })

    /* Of integers, which come to the same in any order: one row to a value, or values of columns. */
    #define COREPY_FOLD(NAME, BYTES, TARGET, OP) \\
        typedef uint64_t NAME##_vector __attribute__((vector_size(BYTES), aligned(8))); \\
        COREPY_LOOP(NAME, TARGET, \\
            enum { COUNT = 8, LANES = COUNT * BYTES / 8 }; \\
            const uint64_t* restrict from = (const uint64_t*)args[1]; \\
            uint64_t* restrict into = (uint64_t*)args[2]; \\
            if (steps[2]) { \\
                for (; i < size; i++) into[i] = into[i] OP from[i]; \\
            } else { \\
                uint64_t total = *into; \\
                if (size >= 2 * LANES) { \\
                    const NAME##_vector* some = (const NAME##_vector*)from; \\
                    NAME##_vector parts[COUNT]; \\
                    for (int k = 0; k < COUNT; k++) parts[k] = some[k]; \\
                    for (i = LANES; i + LANES <= size; i += LANES) { \\
                        some += COUNT; \\
                        for (int k = 0; k < COUNT; k++) parts[k] = parts[k] OP some[k]; \\
                    } \\
                    for (int k = 1; k < COUNT; k++) parts[0] = parts[0] OP parts[k]; \\
                    for (int k = 0; k < BYTES / 8; k++) total = total OP parts[0][k]; \\
                } \\
                for (; i < size; i++) total = total OP from[i]; \\
                *into = total; \\
            })

    /* Each of an element and all before it: a ufunc's loop reads from memory what it has stored
       there just now, which takes longer than adding to it. Nothing is wide here. */
    #define COREPY_RUN(NAME, ITEM, OP) COREPY_LOOP(NAME, , \\
        ITEM sofar = *(const ITEM*)args[0]; \\
        const ITEM* restrict from = (const ITEM*)args[1]; \\
        ITEM* restrict into = (ITEM*)args[2]; \\
        for (; i < size; i++) into[i] = sofar = sofar OP from[i];)
    COREPY_RUN(corepy_sums_float, float, +)
    COREPY_RUN(corepy_sums_double, double, +)
    COREPY_RUN(corepy_sums_long, uint64_t, +)
    COREPY_RUN(corepy_products_float, float, *)
    COREPY_RUN(corepy_products_double, double, *)
    COREPY_RUN(corepy_products_long, uint64_t, *)
    #define COREPY_RUNS \\
        {"cumulative_sum", "float32", (void*)corepy_sums_float}, \\
        {"cumulative_sum", "float64", (void*)corepy_sums_double}, \\
        {"cumulative_sum", "int64", (void*)corepy_sums_long}, \\
        {"cumulative_sum", "uint64", (void*)corepy_sums_long}, \\
        {"cumulative_prod", "float32", (void*)corepy_products_float}, \\
        {"cumulative_prod", "float64", (void*)corepy_products_double}, \\
        {"cumulative_prod", "int64", (void*)corepy_products_long}, \\
        {"cumulative_prod", "uint64", (void*)corepy_products_long},

    #define COREPY_LOOPS(W, TARGET) \\
        COREPY_MAP(corepy_sign_float_##W, uint32_t, uint32_t, TARGET, \\
            COREPY_SIGN(0x3F800000u, 0x7F800000u, 0x7FFFFFFFu)) \\
        COREPY_MAP(corepy_sign_double_##W, uint64_t, uint64_t, TARGET, COREPY_SIGN( \\
            0x3FF0000000000000u, 0x7FF0000000000000u, 0x7FFFFFFFFFFFFFFFu)) \\
        COREPY_FOLD(corepy_sum_long_##W, W, TARGET, +) \\
        COREPY_CLIP(corepy_clip_float_##W, float, TARGET, __builtin_isless) \\
        COREPY_CLIP(corepy_clip_double_##W, double, TARGET, __builtin_isless) \\
        COREPY_CLIP(corepy_clip_int_##W, int32_t, TARGET, COREPY_IS_LESS) \\
        COREPY_CLIP(corepy_clip_long_##W, int64_t, TARGET, COREPY_IS_LESS) \\
        COREPY_CLIP(corepy_clip_short_##W, int16_t, TARGET, COREPY_IS_LESS) \\
        COREPY_CLIP(corepy_clip_byte_##W, int8_t, TARGET, COREPY_IS_LESS) \\
        COREPY_CLIP(corepy_clip_uint_##W, uint32_t, TARGET, COREPY_IS_LESS) \\
        COREPY_CLIP(corepy_clip_ulong_##W, uint64_t, TARGET, COREPY_IS_LESS) \\
        COREPY_CLIP(corepy_clip_ushort_##W, uint16_t, TARGET, COREPY_IS_LESS) \\
        COREPY_CLIP(corepy_clip_ubyte_##W, uint8_t, TARGET, COREPY_IS_LESS) \\
        static const corepy_wide_loop corepy_loops_##W[] = { \\
            {"sqrt", "float32", (void*)corepy_sqrt_float_##W}, \\
            {"sqrt", "float64", (void*)corepy_sqrt_double_##W}, \\
            {"sign", "float32", (void*)corepy_sign_float_##W}, \\
            {"sign", "float64", (void*)corepy_sign_double_##W}, \\
            {"sign", "complex64", (void*)corepy_sign_floats}, \\
            {"sign", "complex128", (void*)corepy_sign_doubles}, \\
            {"sum", "int64", (void*)corepy_sum_long_##W}, \\
            {"sum", "uint64", (void*)corepy_sum_long_##W}, \\
            {"floor_divide", "float32", (void*)corepy_quotients_float_##W}, \\
            {"floor_divide", "float64", (void*)corepy_quotients_double_##W}, \\
            {"remainder", "float32", (void*)corepy_remainders_float_##W}, \\
            {"remainder", "float64", (void*)corepy_remainders_double_##W}, \\
            {"clip", "float32", (void*)corepy_clip_float_##W}, \\
            {"clip", "float64", (void*)corepy_clip_double_##W}, \\
            {"clip", "int32", (void*)corepy_clip_int_##W}, \\
            {"clip", "int64", (void*)corepy_clip_long_##W}, \\
            {"clip", "int16", (void*)corepy_clip_short_##W}, \\
            {"clip", "int8", (void*)corepy_clip_byte_##W}, \\
            {"clip", "uint32", (void*)corepy_clip_uint_##W}, \\
            {"clip", "uint64", (void*)corepy_clip_ulong_##W}, \\
            {"clip", "uint16", (void*)corepy_clip_ushort_##W}, \\
            {"clip", "uint8", (void*)corepy_clip_ubyte_##W}, \\
            COREPY_RUNS \\
            {NULL, NULL, NULL} \\
        };

    COREPY_ROOT(corepy_sqrt_float_32, float, COREPY_AVX2, 8,
        _mm256_loadu_ps, _mm256_sqrt_ps, _mm256_storeu_ps, COREPY_FLOAT_ROOT)
    COREPY_ROOT(corepy_sqrt_double_32, double, COREPY_AVX2, 4,
        _mm256_loadu_pd, _mm256_sqrt_pd, _mm256_storeu_pd, COREPY_DOUBLE_ROOT)
    COREPY_FLOAT_DIVISIONS(32, COREPY_AVX2_FUSED)
    COREPY_LOOPS(32, COREPY_AVX2)
    COREPY_ROOT(corepy_sqrt_float_64, float, COREPY_AVX512, 16,
        _mm512_loadu_ps, _mm512_sqrt_ps, _mm512_storeu_ps, COREPY_FLOAT_ROOT)
    COREPY_ROOT(corepy_sqrt_double_64, double, COREPY_AVX512, 8,
        _mm512_loadu_pd, _mm512_sqrt_pd, _mm512_storeu_pd, COREPY_DOUBLE_ROOT)
    COREPY_FLOAT_DIVISIONS(64, COREPY_AVX512)
    COREPY_LOOPS(64, COREPY_AVX512)
    /* With AVX2 NumPy's are quicker for these, or there is no instruction. */
    COREPY_MAP(corepy_finite_float_64, uint32_t, uint8_t, COREPY_AVX512,
        (x & 0x7FFFFFFFu) < 0x7F800000u)
    COREPY_MAP(corepy_finite_double_64, uint64_t, uint8_t, COREPY_AVX512,
        (x & 0x7FFFFFFFFFFFFFFFu) < 0x7FF0000000000000u)
    COREPY_MAP(corepy_infinite_float_64, uint32_t, uint8_t, COREPY_AVX512,
        (x & 0x7FFFFFFFu) == 0x7F800000u)
    COREPY_MAP(corepy_infinite_double_64, uint64_t, uint8_t, COREPY_AVX512,
        (x & 0x7FFFFFFFFFFFFFFFu) == 0x7FF0000000000000u)
    COREPY_MAP(corepy_nan_float_64, uint32_t, uint8_t, COREPY_AVX512,
        (x & 0x7FFFFFFFu) > 0x7F800000u)
    COREPY_MAP(corepy_nan_double_64, uint64_t, uint8_t, COREPY_AVX512,
        (x & 0x7FFFFFFFFFFFFFFFu) > 0x7FF0000000000000u)
    COREPY_MAP(corepy_to_double_64, int64_t, double, COREPY_AVX512, (double)x)
    COREPY_TIMES(corepy_times_64, uint64_t, COREPY_AVX512)
    COREPY_LONG_DIVISIONS(64, COREPY_AVX512)
    COREPY_FOLD(corepy_product_long_64, 64, COREPY_AVX512, *)
    static const corepy_wide_loop corepy_more_64[] = {
        {"isfinite", "float32", (void*)corepy_finite_float_64},
        {"isfinite", "float64", (void*)corepy_finite_double_64},
        {"isinf", "float32", (void*)corepy_infinite_float_64},
        {"isinf", "float64", (void*)corepy_infinite_double_64},
        {"isnan", "float32", (void*)corepy_nan_float_64},
        {"isnan", "float64", (void*)corepy_nan_double_64},
        {"prod", "int64", (void*)corepy_product_long_64},
        {"prod", "uint64", (void*)corepy_product_long_64},
        {"to float64", "int64", (void*)corepy_to_double_64},
        {"multiply", "int64", (void*)corepy_times_64},
        {"multiply", "uint64", (void*)corepy_times_64},
        {"floor_divide", "int64", (void*)corepy_quotients_long_64},
        {"remainder", "int64", (void*)corepy_remainders_long_64},
        {NULL, NULL, NULL}
    };

    static const corepy_wide_loop* corepy_loops_in(int bytes, int more) {
        if (!corepy_fills(bytes)) return NULL;
        if (bytes == 32) return more ? NULL : corepy_loops_32;
        return more ? corepy_more_64 : corepy_loops_64;
    }
    #else
    static const corepy_wide_loop* corepy_loops_in(int bytes, int more) { return NULL; }
    #endif
    """
    ctypedef struct WideLoop "corepy_wide_loop":
        const char* name
        const char* dtype
        void* loop
    const WideLoop* corepy_loops_in(int, bint)
    bint corepy_accumulate(
        uintptr_t, const char*, char*, Py_ssize_t, Py_ssize_t, Py_ssize_t
    ) noexcept nogil


def _addresses(int width):
    """Return the loops in registers of so many bytes, as `LOOPS`."""
    cdef const WideLoop* found
    made = {}
    for more in (False, True):
        found = corepy_loops_in(width, more)
        while found != NULL and found.name != NULL:
            by_dtype = made.setdefault(found.name.decode(), {})
            by_dtype[found.dtype.decode()] = <uintptr_t>found.loop
            found += 1
    return made


#: By the bytes of a register, for those that the processor has: by operation and dtype, addresses of
#: ``void (*)(char **args, const npy_intp *sizes, const npy_intp *steps, void *data)``.
BY_WIDTH = {width: loops for width in (32, 64) if (loops := _addresses(width))}

#: Of the widest.
LOOPS = BY_WIDTH[max(BY_WIDTH)] if BY_WIDTH else {}


def accumulate(uintptr_t loop, x, out, Py_ssize_t length):
    """Accumulate contiguous rows; return whether the results are to be used.

    Parameters
    ----------
    loop : int
        The address in `LOOPS` of an operation of running values.
    x, out : buffer
        Rows of elements, of which there is one at least; `out` is as long, and elsewhere.
    length : int
        Elements of a row.
    """
    cdef Py_buffer source, into
    cdef bint clean
    _hold(x, out, &source, &into)
    cdef Py_ssize_t item = into.itemsize, rows = into.len // (item * length)
    with nogil:
        clean = corepy_accumulate(
            loop, <const char*>source.buf, <char*>into.buf, rows, length, item
        )
    _let_go(&source, &into)
    return clean
