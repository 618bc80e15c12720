# Variances: the sums of parts of rows and columns, and of what is between their elements and means.
# Included by the module of row loops, and by the hot path.
#
# Elements are read once. Of each part the sum is found and, while it is near, the sum of the squares of
# what lies between its elements and its mean. They are merged as by Chan, Golub and LeVeque (1979).

cdef enum:
    SQUARES = 2048  # elements of a row of which squares are there at a time
    SQUARED_COLUMNS = 512
    SQUARED_ROWS = 64  # that are added up before float64 takes them
    SQUARED = 32768  # elements of a part of columns

cdef extern from *:
    """
    /* Several at a time: a loop of so few instructions takes twice as long where it lies unluckily. */
    #ifdef __GNUC__
    #define COREPY_SEVERAL _Pragma("GCC unroll 4")
    #else
    #define COREPY_SEVERAL
    #endif

    typedef struct {
        void (*square_floats)(const float*, float, float*, ptrdiff_t);
        void (*square_doubles)(const double*, double, double*, ptrdiff_t);
        void (*add_floats)(const float*, float*, ptrdiff_t);
        void (*add_doubles)(const double*, double*, ptrdiff_t);
        void (*add_squares_of_floats)(const float*, const float*, float*, ptrdiff_t);
        void (*add_squares_of_doubles)(const double*, const double*, double*, ptrdiff_t);
    } corepy_square_loops;

    #define COREPY_SQUARE(REAL, NAME, TARGET) \\
        TARGET static void corepy_square_##NAME( \\
            const REAL* COREPY_ONLY x, REAL mean, REAL* COREPY_ONLY into, ptrdiff_t size \\
        ) { \\
            COREPY_SEVERAL for (ptrdiff_t i = 0; i < size; i++) { \\
                into[i] = (x[i] - mean) * (x[i] - mean); \\
            } \\
        } \\
        TARGET static void corepy_add_##NAME( \\
            const REAL* COREPY_ONLY x, REAL* COREPY_ONLY into, ptrdiff_t size \\
        ) { \\
            COREPY_SEVERAL for (ptrdiff_t i = 0; i < size; i++) into[i] += x[i]; \\
        } \\
        TARGET static void corepy_add_squares_of_##NAME( \\
            const REAL* COREPY_ONLY x, const REAL* COREPY_ONLY means, REAL* COREPY_ONLY into, \\
            ptrdiff_t size \\
        ) { \\
            COREPY_SEVERAL for (ptrdiff_t i = 0; i < size; i++) { \\
                into[i] += (x[i] - means[i]) * (x[i] - means[i]); \\
            } \\
        }
    #define COREPY_SQUARES(W, TARGET) \\
        COREPY_SQUARE(float, floats_##W, TARGET) \\
        COREPY_SQUARE(double, doubles_##W, TARGET) \\
        static const corepy_square_loops corepy_squares_##W = { \\
            corepy_square_floats_##W, corepy_square_doubles_##W, \\
            corepy_add_floats_##W, corepy_add_doubles_##W, \\
            corepy_add_squares_of_floats_##W, corepy_add_squares_of_doubles_##W, \\
        };
    COREPY_SQUARES(16, )
    #ifdef COREPY_VARIANTS
    COREPY_SQUARES(32, COREPY_AVX2)
    COREPY_SQUARES(64, COREPY_AVX512)
    #endif

    static corepy_square_loops corepy_squares;

    static void corepy_choose_squares(int widely) {
        corepy_squares = corepy_squares_16;
    #ifdef COREPY_VARIANTS
        if (widely && corepy_fills(32)) corepy_squares = corepy_squares_32;
        if (widely && corepy_fills(64)) corepy_squares = corepy_squares_64;
    #endif
    }
    """
    ctypedef struct SquareLoops "corepy_square_loops":
        void (*square_floats)(const float*, float, float*, Py_ssize_t) noexcept nogil
        void (*square_doubles)(const double*, double, double*, Py_ssize_t) noexcept nogil
        void (*add_floats)(const float*, float*, Py_ssize_t) noexcept nogil
        void (*add_doubles)(const double*, double*, Py_ssize_t) noexcept nogil
        void (*add_squares_of_floats)(const float*, const float*, float*, Py_ssize_t) noexcept nogil
        void (*add_squares_of_doubles)(const double*, const double*, double*, Py_ssize_t) noexcept nogil
    SquareLoops corepy_squares
    void corepy_choose_squares(bint)


cdef struct Spread:
    const char* x  # of blocks of rows, contiguous
    double (*total)(const void*, Py_ssize_t) noexcept nogil  # of a row
    bint doubles
    Py_ssize_t results, length  # of as many elements each
    Py_ssize_t columns  # of a block; 1 where elements of a result stand side by side
    Py_ssize_t each, parts  # elements of a part of a result, and parts of it
    double* sums  # of each part, by column
    double* squares


cdef inline bint _part(Spread* s) noexcept:
    """Divide rows and columns into parts, and make room for what these come to; False without any.

    Parts that stand together are found at a time. The caller frees the sums.
    """
    s.each = SQUARES if s.columns == 1 else max(SQUARED // s.columns, <Py_ssize_t>SQUARED_ROWS)
    s.parts = (s.length + s.each - 1) // s.each
    s.sums = <double*>malloc(2 * s.results * s.parts * sizeof(double))
    s.squares = s.sums + s.results * s.parts
    return s.sums != NULL


cdef void _find_parts(const Spread* s, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Find the sums of some parts, of all columns at once."""
    cdef Py_ssize_t place, block, first, size
    for place in range(start, stop):
        block = place // s.parts
        first = (place - block * s.parts) * s.each
        size = min(s.each, s.length - first)
        first += block * s.length
        if s.columns == 1:
            _find_part(s, place, s.x + first * (8 if s.doubles else 4), size)
        else:
            _find_columns(s, place, s.x + first * s.columns * (8 if s.doubles else 4), size)


cdef inline double _less(double squares, double rounding) noexcept nogil:
    """Take from squares what their mean was rounded by, which is no more than all of them."""
    return 0 if squares <= rounding else squares - rounding


cdef inline void _find_part(
    const Spread* s, Py_ssize_t place, const char* x, Py_ssize_t size
) noexcept nogil:
    cdef double squares[SQUARES]
    cdef double total = s.total(x, size), mean = total / size, off = 0
    if s.doubles:
        corepy_squares.square_doubles(<const double*>x, mean, squares, size)
    else:
        corepy_squares.square_floats(<const float*>x, <float>mean, <float*>squares, size)
        off = mean - <float>mean
    s.sums[place] = total
    s.squares[place] = _less(s.total(squares, size), size * off * off)


cdef inline void _find_columns(
    const Spread* s, Py_ssize_t place, const char* x, Py_ssize_t rows
) noexcept nogil:
    cdef double means[SQUARED_COLUMNS]
    cdef Py_ssize_t column, count, i
    cdef double* sums
    cdef double* squares
    cdef double off
    for column from 0 <= column < s.columns by SQUARED_COLUMNS:
        count = min(<Py_ssize_t>SQUARED_COLUMNS, s.columns - column)
        sums, squares = s.sums + place * s.columns + column, s.squares + place * s.columns + column
        _add_by_column(s, x, rows, count, NULL, sums)
        for i in range(count):
            if s.doubles:
                means[i] = sums[i] / rows
            else:
                (<float*>means)[i] = <float>(sums[i] / rows)
        _add_by_column(s, x, rows, count, means, squares)
        for i in range(0 if s.doubles else count):
            off = sums[i] / rows - (<float*>means)[i]
            squares[i] = _less(squares[i], rows * off * off)
        x += count * (8 if s.doubles else 4)


cdef void _add_by_column(
    const Spread* s,
    const char* x,
    Py_ssize_t rows,
    Py_ssize_t count,
    const void* means,
    double* into,
) noexcept nogil:
    """Add up elements by column, or squares beside means: of few columns several rows as one."""
    cdef double some[SQUARED_COLUMNS]
    cdef double beside[SQUARED_COLUMNS]
    cdef Py_ssize_t item = 8 if s.doubles else 4, row = 0, size, i, k, at
    cdef Py_ssize_t together = SQUARED_COLUMNS // count if count == s.columns else 1
    memset(into, 0, count * sizeof(double))
    for k in range(together if means != NULL else 0):
        memcpy(<char*>beside + k * count * item, means, count * item)
    while row < rows:
        memset(some, 0, together * count * item)
        for i in range(SQUARED_ROWS):
            size = min(together, rows - row)
            if means == NULL and s.doubles:
                corepy_squares.add_doubles(<const double*>x, some, size * count)
            elif means == NULL:
                corepy_squares.add_floats(<const float*>x, <float*>some, size * count)
            elif s.doubles:
                corepy_squares.add_squares_of_doubles(<const double*>x, beside, some, size * count)
            else:
                corepy_squares.add_squares_of_floats(
                    <const float*>x, <float*>beside, <float*>some, size * count
                )
            x += size * s.columns * item
            row += size
            if row == rows:
                break
        for k in range(together):
            for i in range(count):
                at = k * count + i
                into[i] += some[at] if s.doubles else (<float*>some)[at]


cdef double _merged(const Spread* s, Py_ssize_t result, double* of_all) noexcept nogil:
    """Return the sum of the squares of what is between a result's elements and their mean; tell that."""
    cdef Py_ssize_t first = result // s.columns * s.parts * s.columns + result % s.columns, k, size
    cdef double mean = 0, all_squares = 0, off
    for k in range(s.parts):
        mean += s.sums[first + k * s.columns]
    mean /= s.length
    of_all[0] = mean
    for k in range(s.parts):
        size = min(s.each, s.length - k * s.each)
        off = s.sums[first + k * s.columns] / size - mean
        all_squares += s.squares[first + k * s.columns] + size * off * off
    return all_squares
