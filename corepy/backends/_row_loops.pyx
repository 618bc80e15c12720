# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Sums, products and counts of rows, in registers as wide as the processor has them; triangles.

NumPy's own loops for these fill registers of 128 bits on any processor, or none. A sum is taken by
parts of 1,024 elements, in 256 bytes of lanes, to each of which as few are added as in NumPy's
pairwise summation, and what is rounded off between parts is added at the end (Knuth's TwoSum): a
long row loses no more than a short one. A product is taken in float64, in 32 lanes; where one
leaves the range a flag of the processor's tells, and somebody else has to find it.

Rows of more than `CHUNK` elements are reduced chunk by chunk, and then what came of these: so
threads can share them, and the bits do not depend on who has found them. A chunk counts as float64
until all are joined. `corepy.backends._numpy_rows` says what these loops are used for.
"""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

__all__ = ["BY_WIDTH", "CHUNK", "JOINS", "LOOPS", "SOURCE", "join", "reduce", "spread", "triangle"]


include "_targets.pxi"
include "_spreads.pxi"
include "_triangles.pxi"


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #ifdef COREPY_FLAGS
    /* Whether a product has left the range, or is of infinity and zero. */
    #define COREPY_HAS_LEFT() ((_mm_getcsr() & 0x19) != 0)
    #else
    #define COREPY_HAS_LEFT() 0
    #endif

    /* Elements that threads take at a time, and that lanes add up before their sum is rounded. */
    enum { COREPY_CHUNK = 32768, COREPY_PART = 1024 };

    typedef double (*corepy_row)(const void*, ptrdiff_t);
    typedef double (*corepy_joining)(const double*, ptrdiff_t);

    /* What chunks come to: the value so far, and what was rounded off. */
    typedef struct { double total, lost; } corepy_sofar;
    static inline void corepy_add(corepy_sofar* sofar, double value) {
        const double before = sofar->total, total = before + value, added = total - before;
        sofar->lost += (before - (total - added)) + (value - added);
        sofar->total = total;
    }
    static inline void corepy_multiply(corepy_sofar* sofar, double value) { sofar->total *= value; }
    static inline double corepy_ended(const corepy_sofar* sofar) {
        /* Of infinity nothing is lost, nor of -0. */
        return sofar->lost == sofar->lost && sofar->lost != 0 ? sofar->total + sofar->lost : sofar->total;
    }
    #define COREPY_JOIN(NAME, STEP) \\
        static double NAME(const double* parts, ptrdiff_t count) { \\
            corepy_sofar sofar = {parts[0], 0.0}; \\
            for (ptrdiff_t i = 1; i < count; i++) STEP(&sofar, parts[i]); \\
            return corepy_ended(&sofar); \\
        }
    COREPY_JOIN(corepy_sum_of, corepy_add)
    COREPY_JOIN(corepy_product_of, corepy_multiply)

    /* Of rows of any length, by a function for chunks. */
    #define COREPY_ROW(NAME, ITEM, STEP) \\
        static double NAME(const void* row, ptrdiff_t size) { \\
            const ITEM* x = (const ITEM*)row; \\
            corepy_sofar sofar = {0.0, 0.0}; \\
            if (size <= COREPY_CHUNK) return NAME##_chunk(x, size); \\
            sofar.total = NAME##_chunk(x, COREPY_CHUNK); \\
            for (ptrdiff_t i = COREPY_CHUNK; i < size; i += COREPY_CHUNK) { \\
                STEP(&sofar, NAME##_chunk(x + i, size - i < COREPY_CHUNK ? size - i : COREPY_CHUNK)); \\
            } \\
            return corepy_ended(&sofar); \\
        }

    /* The sum of ITEMs in registers of so many BYTES. Lanes and their order do not depend on that,
       so that the bits are the same on all processors. */
    #define COREPY_SUM(NAME, ITEM, BYTES, TARGET) \\
        typedef ITEM NAME##_vector __attribute__((vector_size(BYTES), aligned(sizeof(ITEM)))); \\
        TARGET static double NAME##_chunk(const ITEM* x, ptrdiff_t size) { \\
            enum { COUNT = 256 / BYTES, APART = COUNT / 4, LANES = 64 / sizeof(ITEM) }; \\
            const ptrdiff_t step = 256 / sizeof(ITEM), part = COREPY_PART; \\
            corepy_sofar sofar = {0.0, 0.0}; \\
            double value; \\
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
                corepy_add(&sofar, value); \\
            } \\
            return corepy_ended(&sofar); \\
        } \\
        COREPY_ROW(NAME, ITEM, corepy_add)

    /* The same of floats that are doubles first, part by part: to the bits of doubles. */
    #define COREPY_DOUBLED(NAME, DOUBLES, TARGET) \\
        TARGET static double NAME##_chunk(const float* x, ptrdiff_t size) { \\
            corepy_sofar sofar = {0.0, 0.0}; \\
            double wide[COREPY_PART]; \\
            for (ptrdiff_t i = 0; i < size; i += COREPY_PART) { \\
                const ptrdiff_t count = size - i < COREPY_PART ? size - i : COREPY_PART; \\
                for (ptrdiff_t j = 0; j < count; j++) wide[j] = x[i + j]; \\
                corepy_add(&sofar, DOUBLES##_chunk(wide, count)); \\
            } \\
            return corepy_ended(&sofar); \\
        } \\
        COREPY_ROW(NAME, float, corepy_add)

    /* The product likewise. Once it has left the range what it returns means nothing. */
    #define COREPY_PRODUCT(NAME, ITEM, BYTES, TARGET) \\
        typedef double NAME##_wide __attribute__((vector_size(BYTES))); \\
        typedef ITEM NAME##_items __attribute__(( \\
            vector_size(BYTES / sizeof(double) * sizeof(ITEM)), aligned(sizeof(ITEM)))); \\
        TARGET static double NAME##_chunk(const ITEM* x, ptrdiff_t size) { \\
            enum { COUNT = 256 / BYTES, LANES = 32 }; \\
            const ptrdiff_t part = COREPY_PART; \\
            double total = 1.0, lanes[LANES]; \\
            ptrdiff_t i = 0, stop; \\
            int k, apart; \\
            if (size >= LANES) { \\
                const NAME##_items* from = (const NAME##_items*)x; \\
                NAME##_wide products[COUNT]; \\
                for (k = 0; k < COUNT; k++) products[k] = __builtin_convertvector(from[k], NAME##_wide); \\
                for (i = LANES; i + LANES <= size;) { \\
                    stop = (size - i < part ? size : i + part) - LANES; \\
                    for (; i <= stop; i += LANES) { \\
                        from += COUNT; \\
                        for (k = 0; k < COUNT; k++) { \\
                            products[k] *= __builtin_convertvector(from[k], NAME##_wide); \\
                        } \\
                    } \\
                    if (COREPY_HAS_LEFT()) return total; \\
                } \\
                memcpy(lanes, products, sizeof lanes); \\
                for (apart = LANES / 2; apart; apart /= 2) { \\
                    for (k = 0; k < apart; k++) lanes[k] *= lanes[k + apart]; \\
                } \\
                total = lanes[0]; \\
            } \\
            for (; i < size; i++) total *= x[i]; \\
            return total; \\
        } \\
        COREPY_ROW(NAME, ITEM, corepy_multiply)

    #define COREPY_COUNT(NAME, ITEM, TARGET) \\
        TARGET static double NAME##_chunk(const ITEM* x, ptrdiff_t size) { \\
            ptrdiff_t count = 0, i; \\
            for (i = 0; i < size; i++) count += x[i] != 0; \\
            return (double)count; \\
        } \\
        COREPY_ROW(NAME, ITEM, corepy_add)

    typedef struct { const char* name; const char* dtype; corepy_row loop; } corepy_row_loop;

    #if defined(__GNUC__)
    #define COREPY_ROWS(W, TARGET, ...) \\
        COREPY_SUM(corepy_sum_doubles_##W, double, W, TARGET) \\
        COREPY_SUM(corepy_sum_floats_##W, float, W, TARGET) \\
        COREPY_DOUBLED(corepy_sum_doubled_##W, corepy_sum_doubles_##W, TARGET) \\
        COREPY_PRODUCT(corepy_product_doubles_##W, double, W, TARGET) \\
        COREPY_PRODUCT(corepy_product_floats_##W, float, W, TARGET) \\
        static const corepy_row_loop corepy_rows_##W[] = { \\
            {"sum", "float64", corepy_sum_doubles_##W}, \\
            {"sum", "float32", corepy_sum_floats_##W}, \\
            {"sum in float64", "float32", corepy_sum_doubled_##W}, \\
            {"prod", "float64", corepy_product_doubles_##W}, \\
            {"prod", "float32", corepy_product_floats_##W}, \\
            __VA_ARGS__ \\
            {NULL, NULL, NULL} \\
        };
    COREPY_ROWS(16, )  /* which counts no faster than NumPy does */
    #ifdef COREPY_VARIANTS
    #define COREPY_COUNTS(W, TARGET) \\
        COREPY_COUNT(corepy_count_doubles_##W, double, TARGET) \\
        COREPY_COUNT(corepy_count_floats_##W, float, TARGET) \\
        COREPY_COUNT(corepy_count_longs_##W, int64_t, TARGET)
    #define COREPY_COUNTED(W) \\
        {"count_nonzero", "float64", corepy_count_doubles_##W}, \\
        {"count_nonzero", "float32", corepy_count_floats_##W}, \\
        {"count_nonzero", "int64", corepy_count_longs_##W}, \\
        {"count_nonzero", "uint64", corepy_count_longs_##W},
    COREPY_COUNTS(32, COREPY_AVX2)
    COREPY_ROWS(32, COREPY_AVX2, COREPY_COUNTED(32))
    COREPY_COUNTS(64, COREPY_AVX512)
    COREPY_ROWS(64, COREPY_AVX512, COREPY_COUNTED(64))
    #endif
    #endif

    /* The loops in registers of so many bytes, up to one without a name; NULL if there are none. */
    static const corepy_row_loop* corepy_loops_of(int bytes) {
    #if defined(__GNUC__)
        if (bytes == 16) return corepy_rows_16;
    #endif
    #ifdef COREPY_VARIANTS
        if (corepy_fills(bytes)) return bytes == 32 ? corepy_rows_32 : corepy_rows_64;
    #endif
        return NULL;
    }
    """
    ctypedef double (*Row "corepy_row")(const void*, Py_ssize_t) noexcept nogil
    ctypedef double (*Join "corepy_joining")(const double*, Py_ssize_t) noexcept nogil
    ctypedef struct RowLoop "corepy_row_loop":
        const char* name
        const char* dtype
        Row loop
    const RowLoop* corepy_loops_of(int)
    int COREPY_CHUNK
    double corepy_sum_of(const double*, Py_ssize_t) noexcept nogil
    double corepy_product_of(const double*, Py_ssize_t) noexcept nogil


def _addresses(int width):
    """Return the loops in registers of so many bytes, as `LOOPS`."""
    cdef const RowLoop* found = corepy_loops_of(width)
    made = {}
    while found != NULL and found.name != NULL:
        made.setdefault(found.name.decode(), {})[found.dtype.decode()] = <uintptr_t>found.loop
        found += 1
    return made


#: Elements of a chunk.
CHUNK = COREPY_CHUNK

#: By operation, addresses of ``double (*)(const double *parts, ptrdiff_t count)``, which make one of
#: what chunks come to.
JOINS = {
    "sum": <uintptr_t>&corepy_sum_of,
    "prod": <uintptr_t>&corepy_product_of,
    "count_nonzero": <uintptr_t>&corepy_sum_of,
    "sum in float64": <uintptr_t>&corepy_sum_of,
}

#: By the bytes of a register, for those that the processor has: by operation and dtype, addresses of
#: ``double (*)(const void *row, ptrdiff_t size)``.
BY_WIDTH = {width: loops for width in (16, 32, 64) if (loops := _addresses(width))}

#: Of the widest.
LOOPS = BY_WIDTH[max(BY_WIDTH)] if BY_WIDTH else {}


def reduce(
    uintptr_t loop,
    uintptr_t source,
    Py_ssize_t bytes_of_row,
    Py_ssize_t length,
    bint single,
    double[::1] into,
):
    """Reduce contiguous rows; return whether the results are to be used.

    Parameters
    ----------
    loop : int
        An address of `LOOPS`.
    source : int
        The address of the first row.
    bytes_of_row : int
    length : int
        Elements of a row.
    single : bool
        Whether results are rounded to single precision.
    into : buffer of doubles
        As many as there are rows.
    """
    cdef Py_ssize_t i
    cdef bint clean
    with nogil:
        corepy_none_of_all()
        for i in range(into.shape[0]):
            into[i] = (<Row>loop)(<const void*>(source + i * bytes_of_row), length)
            if single:
                into[i] = <float>into[i]
        clean = not corepy_all_flags()
        corepy_none_of_all()
    return clean


def join(uintptr_t joining, double[::1] parts):
    """Return what the results of some chunks come to, by an address of `JOINS`."""
    return (<Join>joining)(&parts[0], parts.shape[0])


corepy_choose_squares(True)


def spread(
    uintptr_t loop,
    uintptr_t source,
    bint single,
    Py_ssize_t columns,
    Py_ssize_t length,
    double[::1] squares,
    double[::1] means,
):
    """Find means, and the sums of the squares of what is between them and elements.

    Parameters
    ----------
    loop : int
        An address of `LOOPS`, of sums.
    source : int
        The address of the first element.
    single : bool
        Whether elements are float32, or float64.
    columns : int
        Of each of several blocks; 1 of rows.
    length : int
        Elements of a row or column.
    squares, means : buffer of doubles
        As many as there are rows, or columns in all blocks.

    Returns
    -------
    bool
        Whether the results are to be used.
    """
    cdef Spread s
    cdef Py_ssize_t i
    cdef bint clean
    s.x, s.total, s.doubles = <const char*>source, <Row>loop, not single
    s.results, s.length, s.columns = squares.shape[0], length, columns
    if not _part(&s):
        raise MemoryError
    with nogil:
        corepy_none_of_all()
        _find_parts(&s, 0, s.results // columns * s.parts)
        for i in range(s.results):
            squares[i] = _merged(&s, i, &means[i])
        clean = not corepy_all_flags()
        corepy_none_of_all()
        free(s.sums)
    return clean


def triangle(
    uintptr_t source,
    uintptr_t into,
    Py_ssize_t rows,
    Py_ssize_t columns,
    Py_ssize_t item,
    Py_ssize_t apart,
    bint upper,
):
    """Copy what a matrix has on and above its diagonal, or below it, and put zeros elsewhere.

    Parameters
    ----------
    source, into : int
        The addresses of the first elements of two matrices, or of one.
    rows, columns : int
    item : int
        Bytes of an element.
    apart : int
        Bytes from one row of the source to the next; those of the result have no gaps between them.
    upper : bool
        Whether what is below the diagonal is zero, or what is above.
    """
    cdef Triangle t
    t.rows, t.columns, t.item, t.apart, t.k, t.upper = rows, columns, item, apart, 0, upper
    with nogil:
        _keep_triangle(&t, <char*>into, <char*>source, 0, rows)
