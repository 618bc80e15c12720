# Variances: what elements have between them and their mean, squared, comes to.
# Included by _hot_compiled.pyx.

cdef object _short_variance(
    Slot* slot,
    PyArrayObject* x,
    int count,
    npy_intp* shape,
    Rows* rows,
    npy_intp size,
    double divisor,
):
    """Return variances or standard deviations, in the steps in which NumPy finds them."""
    cdef bint doubles = slot.type_num == NPY_DOUBLE
    cdef char* source = <char*>PyArray_DATA(x)
    cdef npy_intp i
    result = _new(slot.descr, count, shape)
    cdef char* target = _data(result)
    cdef double few[SOME]
    cdef char* squares = <char*>few
    if size > SOME:
        squares = <char*>PyMem_Malloc(size * slot.size)
    if squares == NULL:
        raise MemoryError
    try:
        if not _reduces(slot, target, source, rows, size):
            return None
        _divides(slot.type_num, target, rows.results, <double>rows.length)
        if doubles:
            _squares(<double*>source, <double*>target, <double*>squares, rows)
        else:
            _squares(<float*>source, <float*>target, <float*>squares, rows)
        if corepy_flags() or not _reduces(slot, target, squares, rows, size):
            return None
        _divides(slot.type_num, target, rows.results, divisor)
        for i in range(rows.results if slot.kind == DEVIATION else 0):
            if doubles:
                (<double*>target)[i] = sqrt((<double*>target)[i])
            else:
                (<float*>target)[i] = sqrtf((<float*>target)[i])
    finally:
        if squares != <char*>few:
            PyMem_Free(squares)
    return None if corepy_flags() else result


cdef double _squaring = 0.0  # seconds that an element takes


cdef object _long_variance(
    Slot* slot,
    PyArrayObject* x,
    int count,
    npy_intp* shape,
    Rows* rows,
    npy_intp size,
    double divisor,
):
    """Return variances or standard deviations of many elements, by parts that threads share."""
    cdef Spread spread
    cdef Work work
    cdef double value, mean
    cdef npy_intp i
    result = _new_if_any(slot.descr, count, shape)
    if result is None:
        return None
    spread.x, spread.total = <const char*>PyArray_DATA(x), slot.row_loop
    spread.doubles = slot.type_num == NPY_DOUBLE
    spread.results, spread.length = rows.results, rows.length
    spread.columns = rows.results // rows.blocks if rows.by_column else 1
    if not _part(&spread):
        raise MemoryError
    memset(&work, 0, sizeof(Work))
    work.stretch, work.data = _spread_stretch, &spread
    work.rows = spread.results // spread.columns * spread.parts
    try:
        _do(&work, size, &_squaring)
        if corepy_all_flags():
            return None
        for i in range(spread.results):
            value = _merged(&spread, i, &mean) / divisor
            if slot.kind == DEVIATION:
                value = sqrt(value)
            _put(slot.type_num, _data(result) + i * slot.size, value)
    finally:
        free(spread.sums)
    return None if corepy_all_flags() else result


cdef void _spread_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    _find_parts(<Spread*>work.data, start, stop)


cdef inline void _square_apart(Real* x, Real mean, Real* into, npy_intp size) noexcept nogil:
    """Square what lies between elements and their mean."""
    if Real is double:
        corepy_squares.square_doubles(x, mean, into, size)
    else:
        corepy_squares.square_floats(x, mean, into, size)


cdef inline void _squares(Real* x, Real* means, Real* into, Rows* rows) noexcept:
    """Square what lies between each element and the mean of its row or column."""
    cdef npy_intp columns = rows.results // rows.blocks, block, row, i
    cdef Real off
    if not rows.by_column:
        for row in range(rows.results):
            _square_apart(x, means[row], into, rows.length)
            x += rows.length
            into += rows.length
        return
    for block in range(rows.blocks):
        for row in range(rows.length):
            for i in range(columns):
                off = x[i] - means[i]
                into[i] = off * off
            x += columns
            into += columns
        means += columns
