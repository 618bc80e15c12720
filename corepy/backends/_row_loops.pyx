# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Sums and counts of floats in rows, in registers as wide as the processor has them.

NumPy's own loops for these fill registers of 128 bits on any processor. A sum is taken by parts of
1,024 elements, in 256 bytes of lanes, to each of which as few are added as in NumPy's pairwise
summation, and what is rounded off between parts is added at the end (Knuth's TwoSum): a long row
loses no more than a short one. `corepy.backends._numpy_rows` says what they are used for.
"""

from libc.stdint cimport uintptr_t

__all__ = ["BY_WIDTH", "LOOPS", "SOURCE", "reduce"]


cdef extern from *:
    """
    #ifndef COREPY_SOURCE
    #define COREPY_SOURCE ""
    #endif
    """
    const char* COREPY_SOURCE


#: SHA-256 of the file that this was compiled from.
SOURCE = COREPY_SOURCE.decode()


cdef extern from *:
    """
    #include <fenv.h>
    #include <stddef.h>
    #include <string.h>

    typedef double (*corepy_row)(const void*, ptrdiff_t);

    /* The sum of ITEMs in registers of so many BYTES. Lanes and their order do not depend on that,
       so that the bits are the same on all processors. */
    #define COREPY_SUM(NAME, ITEM, BYTES, TARGET) \\
        typedef ITEM NAME##_vector __attribute__((vector_size(BYTES), aligned(sizeof(ITEM)))); \\
        TARGET static double NAME(const void* row, ptrdiff_t size) { \\
            enum { COUNT = 256 / BYTES, APART = COUNT / 4, LANES = 64 / sizeof(ITEM) }; \\
            const ptrdiff_t step = 256 / sizeof(ITEM), part = 1024; \\
            const ITEM* x = (const ITEM*)row; \\
            double total = 0.0, lost = 0.0, value, before, added; \\
            ptrdiff_t i = 0, stop; \\
            int k; \\
            while (i < size) { \\
                double e[8] = {0}; \\
                if (size - i < step) { \\
                    for (; i + 8 <= size; i += 8) { \\
                        for (k = 0; k < 8; k++) e[k] += x[i + k]; \\
                    } \\
                } else { \\
                    const NAME##_vector* from = (const NAME##_vector*)(x + i); \\
                    NAME##_vector sums[COUNT]; \\
                    ITEM lanes[LANES]; \\
                    for (k = 0; k < COUNT; k++) sums[k] = from[k]; \\
                    stop = (size - i < part ? size : i + part) - step; \\
                    for (i += step; i <= stop; i += step) { \\
                        from += COUNT; \\
                        for (k = 0; k < COUNT; k++) sums[k] += from[k]; \\
                    } \\
                    for (k = 0; k < APART; k++) { \\
                        sums[k] = (sums[k] + sums[k + APART]) \\
                                + (sums[k + 2 * APART] + sums[k + 3 * APART]); \\
                    } \\
                    memcpy(lanes, sums, sizeof lanes); \\
                    for (k = 0; k < LANES; k++) e[k % 8] += lanes[k]; \\
                } \\
                value = ((e[0] + e[1]) + (e[2] + e[3])) + ((e[4] + e[5]) + (e[6] + e[7])); \\
                for (; size - i < 8 && i < size; i++) value += x[i]; \\
                before = total; \\
                total = before + value; \\
                added = total - before; \\
                lost += (before - (total - added)) + (value - added); \\
            } \\
            return (ITEM)(lost == lost ? total + lost : total);  /* of infinity nothing is lost */ \\
        }
    #define COREPY_COUNT(NAME, ITEM, TARGET) \\
        TARGET static double NAME(const void* row, ptrdiff_t size) { \\
            const ITEM* x = (const ITEM*)row; \\
            ptrdiff_t count = 0, i; \\
            for (i = 0; i < size; i++) count += x[i] != 0; \\
            return (double)count; \\
        }

    typedef struct {
        corepy_row sum_doubles, sum_floats, count_doubles, count_floats;
    } corepy_row_loops;

    #if defined(__GNUC__)
    COREPY_SUM(corepy_sum_doubles_16, double, 16, )
    COREPY_SUM(corepy_sum_floats_16, float, 16, )
    #if defined(__x86_64__)
    #define COREPY_AVX2 __attribute__((target("avx2")))
    #define COREPY_AVX512 __attribute__((target("avx512f")))
    COREPY_SUM(corepy_sum_doubles_32, double, 32, COREPY_AVX2)
    COREPY_SUM(corepy_sum_floats_32, float, 32, COREPY_AVX2)
    COREPY_COUNT(corepy_count_doubles_32, double, COREPY_AVX2)
    COREPY_COUNT(corepy_count_floats_32, float, COREPY_AVX2)
    COREPY_SUM(corepy_sum_doubles_64, double, 64, COREPY_AVX512)
    COREPY_SUM(corepy_sum_floats_64, float, 64, COREPY_AVX512)
    COREPY_COUNT(corepy_count_doubles_64, double, COREPY_AVX512)
    COREPY_COUNT(corepy_count_floats_64, float, COREPY_AVX512)
    #endif
    #endif

    /* The loops in registers of so many bytes; of zeros where there are none. Registers of 128 bits
       count no faster than NumPy does. */
    static corepy_row_loops corepy_loops_of(int bytes) {
        corepy_row_loops none = {0};
    #if defined(__GNUC__)
        corepy_row_loops narrow = {corepy_sum_doubles_16, corepy_sum_floats_16, NULL, NULL};
        if (bytes == 16) return narrow;
    #if defined(__x86_64__)
        corepy_row_loops wide = {
            corepy_sum_doubles_32, corepy_sum_floats_32,
            corepy_count_doubles_32, corepy_count_floats_32
        };
        corepy_row_loops widest = {
            corepy_sum_doubles_64, corepy_sum_floats_64,
            corepy_count_doubles_64, corepy_count_floats_64
        };
        __builtin_cpu_init();
        if (bytes == 64 && __builtin_cpu_supports("avx512f")) return widest;
        if (bytes == 32 && __builtin_cpu_supports("avx2")) return wide;
    #endif
    #endif
        return none;
    }

    /* Whether there were conditions of which NumPy would warn. */
    static inline int corepy_conditions(void) {
        return fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    }
    """
    ctypedef double (*Row "corepy_row")(const void*, Py_ssize_t) noexcept nogil
    ctypedef struct RowLoops "corepy_row_loops":
        Row sum_doubles
        Row sum_floats
        Row count_doubles
        Row count_floats
    RowLoops corepy_loops_of(int)
    int corepy_conditions() noexcept nogil
    int feclearexcept(int) noexcept nogil
    int FE_ALL_EXCEPT


def _addresses(int width):
    """Return the loops in registers of so many bytes, as `LOOPS`."""
    cdef RowLoops found = corepy_loops_of(width)
    made = {}
    if found.sum_floats != NULL:
        made["sum"] = {
            "float32": <uintptr_t>found.sum_floats, "float64": <uintptr_t>found.sum_doubles
        }
    if found.count_floats != NULL:
        made["count_nonzero"] = {
            "float32": <uintptr_t>found.count_floats, "float64": <uintptr_t>found.count_doubles
        }
    return made


#: By the bytes of a register, for those that the processor has: by operation and dtype, addresses of
#: ``double (*)(const void *row, ptrdiff_t size)``.
BY_WIDTH = {width: loops for width in (16, 32, 64) if (loops := _addresses(width))}

#: Of the widest.
LOOPS = BY_WIDTH[max(BY_WIDTH)] if BY_WIDTH else {}


def reduce(
    uintptr_t loop, uintptr_t source, Py_ssize_t bytes_of_row, Py_ssize_t length, double[::1] into
):
    """Reduce contiguous rows; return whether nothing was met of which NumPy would warn.

    Parameters
    ----------
    loop : int
        An address of `LOOPS`.
    source : int
        The address of the first row.
    bytes_of_row : int
    length : int
        Elements of a row.
    into : buffer of doubles
        As many as there are rows.
    """
    cdef Py_ssize_t i
    cdef bint clean
    with nogil:
        feclearexcept(FE_ALL_EXCEPT)
        for i in range(into.shape[0]):
            into[i] = (<Row>loop)(<const void*>(source + i * bytes_of_row), length)
        clean = not corepy_conditions()
        feclearexcept(FE_ALL_EXCEPT)
    return clean
