# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Sums and counts of floats in rows, in registers as wide as the processor has them.

NumPy's own loops for these fill registers of 128 bits on any processor. In a sum, four registers
collect a part of the row each, as often as NumPy's pairwise summation adds to one, and what is
rounded off between parts is added at the end (Knuth's TwoSum): a long row loses no more than a
short one. `corepy.backends._numpy_rows` says what they are used for.
"""

from libc.stdint cimport uintptr_t

__all__ = ["LOOPS", "SOURCE", "reduce"]


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

    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
    #if __has_attribute(target_clones)
    /* The one for the processor at hand is chosen when the module is loaded. */
    #define COREPY_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
    #endif
    #endif
    #ifndef COREPY_WIDE
    #define COREPY_WIDE
    #endif

    typedef double (*corepy_row)(const void*, ptrdiff_t);

    #if defined(__GNUC__)
    #define COREPY_SUMS 1
    typedef double corepy_doubles __attribute__((vector_size(64)));
    typedef float corepy_floats __attribute__((vector_size(64)));
    typedef float corepy_half __attribute__((vector_size(32)));

    /* The sum of ITEMs that vectors of them collect, WIDENED to doubles by eights. */
    #define COREPY_SUM(NAME, ITEM, VECTOR, EIGHT) \\
        typedef VECTOR NAME##_vector __attribute__((aligned(sizeof(ITEM)))); \\
        typedef EIGHT NAME##_eight __attribute__((aligned(sizeof(ITEM)))); \\
        COREPY_WIDE static double NAME(const void* row, ptrdiff_t size) { \\
            const ITEM* x = (const ITEM*)row; \\
            const ptrdiff_t step = 4 * (ptrdiff_t)(sizeof(VECTOR) / sizeof(ITEM)), part = 1024; \\
            double total = 0.0, lost = 0.0, value, before, added; \\
            ptrdiff_t i = 0, stop, k; \\
            while (i < size) { \\
                corepy_doubles e = {0}; \\
                if (size - i < step) { \\
                    for (; i + 8 <= size; i += 8) { \\
                        e += __builtin_convertvector(*(const NAME##_eight*)(x + i), corepy_doubles); \\
                    } \\
                } else { \\
                    const NAME##_vector* from = (const NAME##_vector*)(x + i); \\
                    VECTOR a = from[0], b = from[1], c = from[2], d = from[3]; \\
                    EIGHT eights[sizeof(VECTOR) / sizeof(EIGHT)]; \\
                    stop = (size - i < part ? size : i + part) - step; \\
                    for (i += step; i <= stop; i += step) { \\
                        from += 4; \\
                        a += from[0]; b += from[1]; c += from[2]; d += from[3]; \\
                    } \\
                    a = (a + b) + (c + d); \\
                    memcpy(eights, &a, sizeof a); \\
                    for (k = 0; k < (ptrdiff_t)(sizeof(VECTOR) / sizeof(EIGHT)); k++) { \\
                        e += __builtin_convertvector(eights[k], corepy_doubles); \\
                    } \\
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
    COREPY_SUM(corepy_sum_doubles, double, corepy_doubles, corepy_doubles)
    COREPY_SUM(corepy_sum_floats, float, corepy_floats, corepy_half)
    #else
    #define COREPY_SUMS 0
    #define corepy_sum_doubles NULL
    #define corepy_sum_floats NULL
    #endif

    #define COREPY_COUNT(NAME, ITEM) \\
        COREPY_WIDE static double NAME(const void* row, ptrdiff_t size) { \\
            const ITEM* x = (const ITEM*)row; \\
            ptrdiff_t count = 0, i; \\
            for (i = 0; i < size; i++) count += x[i] != 0; \\
            return (double)count; \\
        }
    COREPY_COUNT(corepy_count_doubles, double)
    COREPY_COUNT(corepy_count_floats, float)

    /* Whether there were conditions of which NumPy would warn. */
    static inline int corepy_conditions(void) {
        return fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    }
    """
    ctypedef double (*Row "corepy_row")(const void*, Py_ssize_t) noexcept nogil
    bint COREPY_SUMS  # whether the compiler knows vectors
    Row corepy_sum_doubles
    Row corepy_sum_floats
    Row corepy_count_doubles
    Row corepy_count_floats
    int corepy_conditions() noexcept nogil
    int feclearexcept(int) noexcept nogil
    int FE_ALL_EXCEPT


#: By operation and dtype, addresses of ``double (*)(const void *row, ptrdiff_t size)``.
LOOPS = {
    "count_nonzero": {
        "float32": <uintptr_t>corepy_count_floats,
        "float64": <uintptr_t>corepy_count_doubles,
    }
}
if COREPY_SUMS:
    LOOPS["sum"] = {
        "float32": <uintptr_t>corepy_sum_floats,
        "float64": <uintptr_t>corepy_sum_doubles,
    }


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
