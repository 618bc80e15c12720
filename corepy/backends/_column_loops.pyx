# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""What columns come to, several rows at a time, with NumPy's values.

NumPy adds one row after the other to the results, and loads and stores these each time. Here rows
are taken by sixteen, in the same order: each column meets the same numbers one after the other, so
that bits and flags are NumPy's. A loop may be given some of the columns, which threads share.

Rows multiplied by a number each and added up are a vector times a matrix, which BLAS computes in
all its threads from some 9,000 elements on, and in one for as many of them as threads of ours take
at a time; but only where these are whole rows. So are rows whose elements are multiplied by those of
a vector: four at a time, for memory gives these in two thirds of what it takes for one after the
other, and BLAS gets two rows of 4,096 elements at a time.
`corepy.backends._numpy_loops` says what these loops are used for.
"""

from libc.stdint cimport uintptr_t

__all__ = [
    *("BY_WIDTH", "DOTTED", "DOTTED_BY_WIDTH", "LOOPS", "SOURCE", "WEIGHTED", "WEIGHTED_BY_WIDTH")
]


include "_targets.pxi"


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #if defined(__GNUC__)
    #define COREPY_APART __attribute__((noinline))
    #elif defined(_MSC_VER)
    #define COREPY_APART __declspec(noinline)
    #else
    #define COREPY_APART
    #endif

    enum { COREPY_TILE = 16384 };  /* bytes of results that stay in the first cache */

    typedef int (*corepy_columns)(void*, const void*, ptrdiff_t, ptrdiff_t, ptrdiff_t);
    typedef struct { const char* name; const char* dtype; corepy_columns loop; } corepy_column_loop;
    /* A loop by a dtype's name; whoever asks for it knows what it takes. */
    typedef void (*corepy_any)(void);
    typedef struct { const char* dtype; corepy_any loop; } corepy_of_dtype;

    /* Whether a number was compared with NaN since somebody last put that aside. */
    static inline int corepy_met_nan(void) { return (corepy_flags() & FE_INVALID) != 0; }

    #define COREPY_ROW(OP, K) value = OP(value, from[i + (K) * step]);
    #define COREPY_FOUR(OP, K) \\
        COREPY_ROW(OP, K) COREPY_ROW(OP, K + 1) COREPY_ROW(OP, K + 2) COREPY_ROW(OP, K + 3)
    #define COREPY_PASS(PART, BEGIN, PUT, COUNT, STEPS) \\
        for (; row + COUNT <= rows; row += COUNT, from += COUNT * step) { \\
            for (ptrdiff_t i = 0; i < columns; i++) { \\
                PART value = BEGIN; \\
                STEPS \\
                into[i] PUT value; \\
            } \\
        }

    /* Rows of some columns into results that are there already: either begun with or put to. */
    #define COREPY_RUN(NAME, RESULT, ITEM, PART, BEGIN, PUT, TARGET, OP) \\
        TARGET COREPY_APART static void NAME##_run( \\
            RESULT* COREPY_ONLY into, const ITEM* COREPY_ONLY from, ptrdiff_t rows, ptrdiff_t step, \\
            ptrdiff_t columns \\
        ) { \\
            ptrdiff_t row = 0; \\
            COREPY_PASS(PART, BEGIN, PUT, 16, \\
                COREPY_FOUR(OP, 0) COREPY_FOUR(OP, 4) COREPY_FOUR(OP, 8) COREPY_FOUR(OP, 12)) \\
            COREPY_PASS(PART, BEGIN, PUT, 4, COREPY_FOUR(OP, 0)) \\
            COREPY_PASS(PART, BEGIN, PUT, 1, COREPY_ROW(OP, 0)) \\
        }
    #define COREPY_COLUMNS(NAME, ITEM, TARGET, OP, BEFORE, IS_OTHER) \\
        COREPY_RUN(NAME, ITEM, ITEM, ITEM, into[i], =, TARGET, OP) \\
        COREPY_TILES(NAME, ITEM, ITEM, BEFORE, IS_OTHER)
    #define COREPY_TILES(NAME, RESULT, ITEM, BEFORE, IS_OTHER) \\
        static int NAME( \\
            void* results, const void* source, ptrdiff_t rows, ptrdiff_t step, ptrdiff_t columns \\
        ) { \\
            const ptrdiff_t tile = COREPY_TILE / (ptrdiff_t)sizeof(RESULT); \\
            RESULT* into = (RESULT*)results; \\
            const ITEM* from = (const ITEM*)source; \\
            BEFORE; \\
            for (ptrdiff_t i = 0; i < columns; i += tile) { \\
                NAME##_run(into + i, from + i, rows, step, columns - i < tile ? columns - i : tile); \\
            } \\
            return IS_OTHER; \\
        }

    #define COREPY_SUM(A, B) ((A) + (B))
    #define COREPY_PRODUCT(A, B) ((A) * (B))
    #define COREPY_MORE(A, B) ((B) > (A) ? (B) : (A))
    #define COREPY_LESS(A, B) ((B) < (A) ? (B) : (A))

    /* Of zeros of both signs, and of NaN, NumPy's loops may choose another one. By their bits: compared
       as floats these loops would not fill vector registers. The upper bit of `~(w | -w)` is set where
       `w` is zero. */
    #define COREPY_ANY_ZERO(NAME, ITEM, BITS, TARGET) \\
        TARGET static int NAME##_any_zero(const ITEM* values, ptrdiff_t size) { \\
            const BITS* x = (const BITS*)values; \\
            BITS found = 0; \\
            for (ptrdiff_t i = 0; i < size; i++) { \\
                const BITS w = x[i] << 1; \\
                found |= ~(w | -w); \\
            } \\
            return (int)(found >> (8 * sizeof(BITS) - 1)); \\
        }
    /* Clang compares single numbers on ARM without raising a flag for NaN. */
    #if defined(__clang__) && defined(__aarch64__)
    #define COREPY_ANY_NAN(ITEM) \\
        static int corepy_any_nan_##ITEM( \\
            const ITEM* x, ptrdiff_t rows, ptrdiff_t step, ptrdiff_t columns \\
        ) { \\
            int found = 0; \\
            for (; rows > 0 && !found; rows--, x += step) { \\
                for (ptrdiff_t i = 0; i < columns; i++) found |= x[i] != x[i]; \\
            } \\
            return found; \\
        }
    COREPY_ANY_NAN(double)
    COREPY_ANY_NAN(float)
    #else
    #define corepy_any_nan_double(x, rows, step, columns) corepy_met_nan()
    #define corepy_any_nan_float(x, rows, step, columns) corepy_met_nan()
    #endif
    #define COREPY_EXTREMES(NAME, ITEM, BITS, TARGET, OP) \\
        COREPY_ANY_ZERO(NAME, ITEM, BITS, TARGET) \\
        COREPY_COLUMNS(NAME, ITEM, TARGET, OP, corepy_no_flags(), \\
            corepy_any_nan_##ITEM(from, rows, step, columns) \\
                || NAME##_any_zero(into, columns))
    #define COREPY_ALIKE(NAME, ITEM, TARGET, OP) COREPY_COLUMNS(NAME, ITEM, TARGET, OP, (void)0, 0)

    /* Sums of integers of fewer bits than their sums have: sixteen rows are added up in as many bits
       as hold that, which are a quarter of the work. */
    #define COREPY_GROWN(NAME, ITEM, PART, TARGET) \\
        COREPY_RUN(NAME, int64_t, ITEM, PART, 0, +=, TARGET, COREPY_SUM) \\
        COREPY_TILES(NAME, int64_t, ITEM, (void)0, 0)

    /* Rows, each times its weight, into results that are there already. */
    #define COREPY_TERM(K) value += w##K * from[i + (K) * step];
    #define COREPY_HEAVY(ITEM, K) const ITEM w##K = weights[(K) * apart];
    #define COREPY_WEIGHED(NAME, ITEM, TARGET) \\
        TARGET COREPY_APART static void NAME##_run( \\
            ITEM* COREPY_ONLY into, const ITEM* COREPY_ONLY from, const ITEM* COREPY_ONLY weights, \\
            ptrdiff_t rows, ptrdiff_t step, ptrdiff_t apart, ptrdiff_t columns \\
        ) { \\
            for (; rows >= 8; rows -= 8, from += 8 * step, weights += 8 * apart) { \\
                COREPY_HEAVY(ITEM, 0) COREPY_HEAVY(ITEM, 1) COREPY_HEAVY(ITEM, 2) \\
                COREPY_HEAVY(ITEM, 3) COREPY_HEAVY(ITEM, 4) COREPY_HEAVY(ITEM, 5) \\
                COREPY_HEAVY(ITEM, 6) COREPY_HEAVY(ITEM, 7) \\
                for (ptrdiff_t i = 0; i < columns; i++) { \\
                    ITEM value = into[i]; \\
                    COREPY_TERM(0) COREPY_TERM(1) COREPY_TERM(2) COREPY_TERM(3) \\
                    COREPY_TERM(4) COREPY_TERM(5) COREPY_TERM(6) COREPY_TERM(7) \\
                    into[i] = value; \\
                } \\
            } \\
            for (; rows; rows--, from += step, weights += apart) { \\
                COREPY_HEAVY(ITEM, 0) \\
                for (ptrdiff_t i = 0; i < columns; i++) into[i] += w0 * from[i]; \\
            } \\
        } \\
        static void NAME( \\
            void* results, const void* source, const void* weights, ptrdiff_t rows, \\
            ptrdiff_t step, ptrdiff_t apart, ptrdiff_t columns \\
        ) { \\
            const ptrdiff_t tile = COREPY_TILE / (ptrdiff_t)sizeof(ITEM); \\
            for (ptrdiff_t i = 0; i < columns; i += tile) { \\
                NAME##_run((ITEM*)results + i, (const ITEM*)source + i, (const ITEM*)weights, \\
                    rows, step, apart, columns - i < tile ? columns - i : tile); \\
            } \\
        }

    /* Rows times a vector each: ROWS of them at once, in lanes that are added up PART by PART. Their
       bits do not depend on how many there are. */
    enum { COREPY_PART = 4096 };
    #define COREPY_DOT_ROWS(NAME, ITEM, ROWS, TARGET) \\
        TARGET COREPY_APART static void NAME##_##ROWS( \\
            ITEM* COREPY_ONLY into, const ITEM* COREPY_ONLY from, const ITEM* COREPY_ONLY x, \\
            ptrdiff_t step, ptrdiff_t size \\
        ) { \\
            enum { LANES = sizeof(NAME##_vector) / sizeof(ITEM) }; \\
            ITEM total[ROWS] = {0}; \\
            int r, k; \\
            for (ptrdiff_t first = 0; first < size; first += COREPY_PART) { \\
                const ptrdiff_t end = size - first < COREPY_PART ? size : first + COREPY_PART; \\
                NAME##_vector sums[ROWS], more[ROWS]; \\
                ptrdiff_t i = first; \\
                for (r = 0; r < ROWS; r++) sums[r] = more[r] = (NAME##_vector){0}; \\
                for (; i + 2 * LANES <= end; i += 2 * LANES) { \\
                    const NAME##_vector one = *(const NAME##_vector*)(x + i); \\
                    const NAME##_vector other = *(const NAME##_vector*)(x + i + LANES); \\
                    for (r = 0; r < ROWS; r++) { \\
                        sums[r] += one * *(const NAME##_vector*)(from + r * step + i); \\
                        more[r] += other * *(const NAME##_vector*)(from + r * step + i + LANES); \\
                    } \\
                } \\
                for (r = 0; r < ROWS; r++) { \\
                    ITEM lanes[LANES], value = 0; \\
                    sums[r] += more[r]; \\
                    memcpy(lanes, &sums[r], sizeof lanes); \\
                    for (int apart = LANES / 2; apart; apart /= 2) { \\
                        for (k = 0; k < apart; k++) lanes[k] += lanes[k + apart]; \\
                    } \\
                    for (ptrdiff_t j = i; j < end; j++) value += x[j] * from[r * step + j]; \\
                    total[r] += lanes[0] + value; \\
                } \\
            } \\
            for (r = 0; r < ROWS; r++) into[r] = total[r]; \\
        }
    #define COREPY_DOTTED(NAME, ITEM, BYTES, TARGET) \\
        typedef ITEM NAME##_vector __attribute__((vector_size(BYTES), aligned(sizeof(ITEM)))); \\
        COREPY_DOT_ROWS(NAME, ITEM, 4, TARGET) \\
        COREPY_DOT_ROWS(NAME, ITEM, 1, TARGET) \\
        static void NAME( \\
            void* results, const void* source, const void* vector, ptrdiff_t rows, \\
            ptrdiff_t step, ptrdiff_t size \\
        ) { \\
            ITEM* into = (ITEM*)results; \\
            const ITEM* from = (const ITEM*)source; \\
            const ITEM* x = (const ITEM*)vector; \\
            for (; rows >= 4; rows -= 4, into += 4, from += 4 * step) { \\
                NAME##_4(into, from, x, step, size); \\
            } \\
            for (; rows; rows--, into++, from += step) NAME##_1(into, from, x, step, size); \\
        }
    #if defined(__GNUC__)
    #define COREPY_ALL_DOTTED(W, TARGET) \\
        COREPY_DOTTED(corepy_dot_double_##W, double, W, TARGET) \\
        COREPY_DOTTED(corepy_dot_float_##W, float, W, TARGET) \\
        static const corepy_of_dtype corepy_dotting_##W[] = { \\
            {"float64", (corepy_any)corepy_dot_double_##W}, \\
            {"float32", (corepy_any)corepy_dot_float_##W}, \\
            {NULL, NULL} \\
        };
    #else  /* whose compiler keeps the lanes in memory */
    #define COREPY_ALL_DOTTED(W, TARGET) \\
        static const corepy_of_dtype corepy_dotting_##W[] = { {NULL, NULL} };
    #endif
    COREPY_ALL_DOTTED(16, )
    #ifdef COREPY_VARIANTS
    COREPY_ALL_DOTTED(32, COREPY_AVX2_FUSED)
    COREPY_ALL_DOTTED(64, COREPY_AVX512)
    #endif

    #define COREPY_LOOPS(W, TARGET) \\
        COREPY_WEIGHED(corepy_weigh_double_##W, double, TARGET) \\
        COREPY_WEIGHED(corepy_weigh_float_##W, float, TARGET) \\
        static const corepy_of_dtype corepy_weighing_##W[] = { \\
            {"float64", (corepy_any)corepy_weigh_double_##W}, \\
            {"float32", (corepy_any)corepy_weigh_float_##W}, \\
            {NULL, NULL} \\
        }; \\
        COREPY_ALIKE(corepy_sum_double_##W, double, TARGET, COREPY_SUM) \\
        COREPY_ALIKE(corepy_sum_float_##W, float, TARGET, COREPY_SUM) \\
        COREPY_ALIKE(corepy_sum_long_##W, uint64_t, TARGET, COREPY_SUM) \\
        COREPY_GROWN(corepy_sum_bytes_##W, int8_t, int16_t, TARGET) \\
        COREPY_GROWN(corepy_sum_unsigned_bytes_##W, uint8_t, uint16_t, TARGET) \\
        COREPY_GROWN(corepy_sum_shorts_##W, int16_t, int32_t, TARGET) \\
        COREPY_GROWN(corepy_sum_unsigned_shorts_##W, uint16_t, uint32_t, TARGET) \\
        COREPY_GROWN(corepy_sum_ints_##W, int32_t, int64_t, TARGET) \\
        COREPY_GROWN(corepy_sum_unsigned_ints_##W, uint32_t, int64_t, TARGET) \\
        COREPY_ALIKE(corepy_product_double_##W, double, TARGET, COREPY_PRODUCT) \\
        COREPY_ALIKE(corepy_product_float_##W, float, TARGET, COREPY_PRODUCT) \\
        COREPY_ALIKE(corepy_product_long_##W, uint64_t, TARGET, COREPY_PRODUCT) \\
        COREPY_EXTREMES(corepy_max_double_##W, double, uint64_t, TARGET, COREPY_MORE) \\
        COREPY_EXTREMES(corepy_max_float_##W, float, uint32_t, TARGET, COREPY_MORE) \\
        COREPY_ALIKE(corepy_max_long_##W, int64_t, TARGET, COREPY_MORE) \\
        COREPY_ALIKE(corepy_max_int_##W, int32_t, TARGET, COREPY_MORE) \\
        COREPY_EXTREMES(corepy_min_double_##W, double, uint64_t, TARGET, COREPY_LESS) \\
        COREPY_EXTREMES(corepy_min_float_##W, float, uint32_t, TARGET, COREPY_LESS) \\
        COREPY_ALIKE(corepy_min_long_##W, int64_t, TARGET, COREPY_LESS) \\
        COREPY_ALIKE(corepy_min_int_##W, int32_t, TARGET, COREPY_LESS) \\
        static const corepy_column_loop corepy_loops_##W[] = { \\
            {"sum", "float64", corepy_sum_double_##W}, \\
            {"sum", "float32", corepy_sum_float_##W}, \\
            {"sum", "int64", corepy_sum_long_##W}, \\
            {"sum", "uint64", corepy_sum_long_##W}, \\
            {"sum", "int8", corepy_sum_bytes_##W}, \\
            {"sum", "uint8", corepy_sum_unsigned_bytes_##W}, \\
            {"sum", "int16", corepy_sum_shorts_##W}, \\
            {"sum", "uint16", corepy_sum_unsigned_shorts_##W}, \\
            {"sum", "int32", corepy_sum_ints_##W}, \\
            {"sum", "uint32", corepy_sum_unsigned_ints_##W}, \\
            {"prod", "float64", corepy_product_double_##W}, \\
            {"prod", "float32", corepy_product_float_##W}, \\
            {"prod", "int64", corepy_product_long_##W}, \\
            {"prod", "uint64", corepy_product_long_##W}, \\
            {"max", "float64", corepy_max_double_##W}, \\
            {"max", "float32", corepy_max_float_##W}, \\
            {"max", "int64", corepy_max_long_##W}, \\
            {"max", "int32", corepy_max_int_##W}, \\
            {"min", "float64", corepy_min_double_##W}, \\
            {"min", "float32", corepy_min_float_##W}, \\
            {"min", "int64", corepy_min_long_##W}, \\
            {"min", "int32", corepy_min_int_##W}, \\
            {NULL, NULL, NULL} \\
        };

    COREPY_LOOPS(16, )
    #ifdef COREPY_VARIANTS
    COREPY_LOOPS(32, COREPY_AVX2)
    COREPY_LOOPS(64, COREPY_AVX512)
    #endif

    /* The loops in registers of so many bytes, up to one without a name; NULL if there are none. */
    static const corepy_column_loop* corepy_loops_of(int bytes) {
        if (bytes == 16) return corepy_loops_16;
    #ifdef COREPY_VARIANTS
        if (corepy_fills(bytes)) return bytes == 32 ? corepy_loops_32 : corepy_loops_64;
    #endif
        return NULL;
    }
    static const corepy_of_dtype* corepy_weighing_of(int bytes) {
        if (bytes == 16) return corepy_weighing_16;
    #ifdef COREPY_VARIANTS
        if (corepy_fills(bytes)) return bytes == 32 ? corepy_weighing_32 : corepy_weighing_64;
    #endif
        return NULL;
    }
    static const corepy_of_dtype* corepy_dotting_of(int bytes) {
        if (bytes == 16) return corepy_dotting_16;
    #ifdef COREPY_VARIANTS
        if (corepy_fills(bytes)) return bytes == 32 ? corepy_dotting_32 : corepy_dotting_64;
    #endif
        return NULL;
    }
    """
    ctypedef struct ColumnLoop "corepy_column_loop":
        const char* name
        const char* dtype
        void* loop
    ctypedef struct OfDtype "corepy_of_dtype":
        const char* dtype
        void* loop
    const ColumnLoop* corepy_loops_of(int)
    const OfDtype* corepy_weighing_of(int)
    const OfDtype* corepy_dotting_of(int)


def _addresses(int width):
    """Return the loops in registers of so many bytes, as `LOOPS`."""
    cdef const ColumnLoop* found = corepy_loops_of(width)
    made = {}
    while found != NULL and found.name != NULL:
        made.setdefault(found.name.decode(), {})[found.dtype.decode()] = <uintptr_t>found.loop
        found += 1
    return made


cdef dict _by_dtype(const OfDtype* found):
    """Return the addresses of loops, up to one without a name."""
    made = {}
    while found != NULL and found.dtype != NULL:
        made[found.dtype.decode()] = <uintptr_t>found.loop
        found += 1
    return made


#: By the bytes of a register, for those that the processor has: by operation and dtype, addresses of
#: ``int (*)(void *results, const void *rows, ptrdiff_t count, ptrdiff_t step, ptrdiff_t columns)``.
#: So many rows, each a step of elements after the other, are put into the results of so many columns.
#: Whether NumPy's loop may have found another NaN, or a zero of another sign, is what they return.
#: Results are of the elements' dtype; of sums of smaller integers they have 64 bits.
BY_WIDTH = {width: loops for width in (16, 32, 64) if (loops := _addresses(width))}

#: Of the widest.
LOOPS = BY_WIDTH[max(BY_WIDTH)]

#: By the bytes of a register: by dtype, addresses of ``void (*)(void *results, const void *rows, const
#: void *weights, ptrdiff_t count, ptrdiff_t step, ptrdiff_t apart, ptrdiff_t columns)``. So many rows,
#: each a step of elements after the other, are multiplied by weights so far apart, and added to the
#: results of so many columns.
WEIGHTED_BY_WIDTH = {width: _by_dtype(corepy_weighing_of(width)) for width in BY_WIDTH}

#: Of the widest.
WEIGHTED = WEIGHTED_BY_WIDTH[max(BY_WIDTH)]

#: By the bytes of a register: by dtype, addresses of ``void (*)(void *results, const void *rows, const
#: void *vector, ptrdiff_t count, ptrdiff_t step, ptrdiff_t size)``. The sums of the products of so many
#: rows of some size, each a step of elements after the other, and a vector are put into the results.
DOTTED_BY_WIDTH = {width: _by_dtype(corepy_dotting_of(width)) for width in BY_WIDTH}

#: Of the widest.
DOTTED = DOTTED_BY_WIDTH[max(BY_WIDTH)]
