# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""What columns come to, several rows at a time, with NumPy's values.

NumPy adds one row after the other to the results, and loads and stores these each time. Here rows
are taken by sixteen, in the same order: each column meets the same numbers one after the other, so
that bits and flags are NumPy's. A loop may be given some of the columns, which threads share.
`corepy.backends._numpy_loops` says what these loops are used for.
"""

from libc.stdint cimport uintptr_t

__all__ = ["BY_WIDTH", "LOOPS", "SOURCE"]


include "_targets.pxi"


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    enum { COREPY_TILE = 16384 };  /* bytes of results that stay in the first cache */

    typedef int (*corepy_columns)(void*, const void*, ptrdiff_t, ptrdiff_t, ptrdiff_t);
    typedef struct { const char* name; const char* dtype; corepy_columns loop; } corepy_column_loop;

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

    #define COREPY_LOOPS(W, TARGET) \\
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
    """
    ctypedef struct ColumnLoop "corepy_column_loop":
        const char* name
        const char* dtype
        void* loop
    const ColumnLoop* corepy_loops_of(int)


def _addresses(int width):
    """Return the loops in registers of so many bytes, as `LOOPS`."""
    cdef const ColumnLoop* found = corepy_loops_of(width)
    made = {}
    while found != NULL and found.name != NULL:
        made.setdefault(found.name.decode(), {})[found.dtype.decode()] = <uintptr_t>found.loop
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
