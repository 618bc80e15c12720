# Reductions and running sums along an axis, by the inner loops of NumPy's ufuncs.
# Included by _hot_compiled.pyx.

cdef object _short_reduction(Slot* slot, PyObject* a, axis, double correction):
    """Return what an array is reduced to, None where the entry has to compute it.

    The correction is for variances: what is taken from the count of elements.
    """
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef Axes axes
    if axis is None and _is_plain(a) and PyArray_NDIM(x) <= MOST_DIMENSIONS:  # the usual case
        held = <object>a
        if _is_short_row(slot, x):
            return _reduced_whole(slot, x)
        return _reduced(slot, x, (<Axes>1 << PyArray_NDIM(x)) - 1, False, correction)
    cdef bint is_complex = _is_complex(slot.operand.type_num)
    held = None
    if axis is None and (is_complex or slot.kind == COUNT) and _is_array(a):
        # NumPy takes all in the order of memory.
        if PyArray_NDIM(x) <= MOST_DIMENSIONS and _lies_by_columns(x):
            held = _reversed(x)
    if held is None:
        held = _side_by_side(a)
        # What lies otherwise is rounded in another order: of complex numbers products may cancel
        # then. A vector has but one.
        if is_complex and slot.kind != COUNT and held is not <object>a:
            if held is None or PyArray_NDIM(x) != 1:
                return None
    cdef bint gaps = held is None
    if gaps:
        if not _is_array(a):
            return None
        held = <object>a
    x = <PyArrayObject*><PyObject*>held
    if PyArray_NDIM(x) > MOST_DIMENSIONS or not _axes_of(axis, PyArray_NDIM(x), &axes):
        return None
    if (slot.kind == ARGMAX or slot.kind == ARGMIN) and type(axis) is tuple:
        return None  # they are along one
    return _reduced(slot, x, axes, gaps, correction)


cdef inline bint _is_short_row(Slot* slot, PyArrayObject* x) noexcept:
    """Say whether few elements are to be reduced to one, by a loop of NumPy's."""
    cdef npy_intp size
    if slot.kind != REDUCTION and slot.kind != MEAN:
        return False
    size = _size(x, LONG)
    if size < 1 or _has_row_loop(slot, size, size):
        return False
    return slot.row_first or size < slot.leasts[ALL]


cdef object _reduced_whole(Slot* slot, PyArrayObject* x):
    """Reduce a short row; None where the entry has to."""
    cdef npy_intp size = _size(x, PY_SSIZE_T_MAX)
    result = _new(slot.descr, 0, NULL)
    if not _reduces_short_row(slot, _data(result), <char*>PyArray_DATA(x), size):
        return None
    if slot.kind == MEAN and not _divides(slot.type_num, _data(result), 1, <double>size):
        return None
    return result


cdef inline bint _reduces_short_row(Slot* slot, char* into, char* source, npy_intp size) except -1:
    """Reduce few elements to one; False if the result is not to be used."""
    _forget_flags(slot, size)
    if slot.grows:
        _grow_row(slot, <long long*>into, source, size)
    else:
        _reduce_row(slot, into, source, size)
    return _is_clean(slot, size)


cdef object _reduced(Slot* slot, PyArrayObject* x, Axes axes, bint gaps, double correction):
    """Reduce axes of an array, which may lie with gaps; None where the entry has to."""
    cdef int ndim = PyArray_NDIM(x), first, last
    cdef bint run = _is_run(axes, ndim, &first, &last)
    if slot.kind >= ARGMAX:
        return _short_search(slot, x, first, last, gaps) if run else None
    if not run:
        made = _reduced_in_steps(slot, x, axes, gaps)
    elif gaps and last - first == ndim:
        return _reduced_over_grid(slot, x)
    else:
        made = _reduced_along(slot, x, first, last, gaps, correction)
    if made is None or slot.kind != MEAN:
        return made
    return made if _divides_by(slot, <PyArrayObject*><PyObject*>made, x) else None


cdef inline bint _divides_by(Slot* slot, PyArrayObject* sums, PyArrayObject* x) noexcept:
    """Make means of the sums of an array's elements, as `_divides`."""
    cdef npy_intp count = _size(sums, PY_SSIZE_T_MAX)
    return _divides(
        slot.type_num, <char*>PyArray_DATA(sums), count, <double>(_size(x, PY_SSIZE_T_MAX) // count)
    )


cdef object _reduced_in_steps(Slot* slot, PyArrayObject* x, Axes axes, bint gaps):
    """Reduce axes that others lie between: the last ones first, and then what these come to.

    Of means, without the division.
    """
    cdef int first = 0, last = PyArray_NDIM(x), i
    if slot.kind != REDUCTION and slot.kind != MEAN:
        return None
    if slot.operand.type_num != slot.descr.type_num and not slot.grows or _is_complex(slot.type_num):
        return None
    if slot.has_initial and slot.initial == 1 and not PyTypeNum_ISINTEGER(slot.type_num):
        return None  # products of floats, which overflow elsewhere in another order
    for i in range(last):
        if not axes >> i & 1 and PyArray_DIMS(x)[i] == 1:
            return None  # NumPy takes what is around it as one
    made = <object><PyObject*>x
    while axes:
        while not axes >> (last - 1) & 1:
            last -= 1
        first = last - 1
        while first > 0 and axes >> (first - 1) & 1:
            first -= 1
        made = _reduced_along(slot, <PyArrayObject*><PyObject*>made, first, last, gaps, 0)
        if made is None:
            return None
        if slot.grows:  # not any more
            slot = _resolved(<Slots>slot.result, _SUM)
            if slot == NULL:
                return None
        axes &= (<Axes>1 << first) - 1
        last, gaps = first, False
    return made


cdef object _reduced_along(
    Slot* slot, PyArrayObject* x, int first, int last, bint gaps, double correction
):
    """Reduce axes that follow each other; None where the entry has to. Of means, without the division."""
    cdef int ndim = PyArray_NDIM(x), count = 0, i
    cdef npy_intp* dims = PyArray_DIMS(x)
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef Rows rows
    cdef bint squares = slot.kind == VARIANCE or slot.kind == DEVIATION
    cdef npy_intp size = _size(x, slot.unrouted if gaps else _least_of(slot, x, first, last))
    if size <= 0:
        return None
    rows.results = rows.blocks = 1
    for i in range(ndim):
        if not first <= i < last:
            shape[count] = dims[i]
            rows.results *= dims[i]
            count += 1
            if i < first:
                rows.blocks *= dims[i]
    rows.by_column = rows.results > rows.blocks  # else rows, of which a single column is one
    rows.length = size // rows.results
    rows.apart = rows.length * slot.size
    rows.beyond = 0
    if not rows.by_column:
        rows.blocks = 1
    else:
        rows.apart = rows.results // rows.blocks * slot.size
        rows.beyond = rows.length * rows.apart
    if gaps and (rows.results == 1 or not _lay_rows(&rows, x, first, last)):
        return None
    if squares:
        if gaps or not rows.length > correction:
            return None
        if size < SHORT or slot.row_loop == NULL:
            return _short_variance(slot, x, count, shape, &rows, size, rows.length - correction)
        return _long_variance(slot, x, count, shape, &rows, size, rows.length - correction)
    result = _new_large(slot.descr, count, shape)
    return result if _reduces(slot, _data(result), <char*>PyArray_DATA(x), &rows, size) else None


cdef inline bint _has_row_loop(Slot* slot, npy_intp size, npy_intp length) noexcept:
    """Say whether rows of a length of a contiguous array have a loop of their own."""
    return slot.row_loop != NULL and size >= slot.row_least and length > slot.row_longer


cdef bint _reduces(Slot* slot, char* into, char* source, Rows* rows, npy_intp size) except -1:
    """Reduce rows or columns of an array of a size; False if the result is not to be used."""
    cdef bint by_row_loop = not rows.by_column and _has_row_loop(slot, size, rows.length)
    cdef npy_intp many = rows.results * rows.length
    cdef Work work
    if rows.results == 1 and many < LONG and slot.kind < ACCUMULATION and not by_row_loop:
        return _reduces_short_row(slot, into, source, many)
    if rows.results == 1 and rows.length >= 2 * slot.chunk and (by_row_loop or slot.splits):
        return _reduces_in_chunks(slot, into, source, rows.length, by_row_loop)
    memset(&work, 0, sizeof(Work))
    work.slot, work.operands[0], work.operands[1] = slot, into, source
    work.size, work.length, work.rows = rows.results // rows.blocks, rows.length, rows.results
    work.steps[1], work.steps[2], work.group = rows.apart, rows.beyond, work.size
    if rows.by_column:
        work.stretch = _columns_stretch
        # Threads wait for memory where they read parts of rows one row after the other, or short parts.
        work.parts = rows.blocks == 1
        if slot.column_loop != NULL:
            work.group = min(work.size, GROUP // slot.size)
        work.rows = rows.blocks * ((work.size + work.group - 1) // work.group)
    elif by_row_loop:
        work.stretch = _long_rows_stretch
    elif slot.kind == COUNT:
        work.stretch = _counted_rows_stretch
    else:
        work.stretch = _rows_stretch if slot.kind < ARGMAX else _searched_rows_stretch
    if many >= SHORT:
        _do(&work, many, &slot.pace[COLUMNS if rows.by_column else ROWS])
    else:
        if by_row_loop:
            corepy_none_of_all()  # of before
        else:
            _forget_flags(slot, many)
        if many < LONG:
            work.stretch(&work, 0, work.rows)
        else:
            with nogil:
                work.stretch(&work, 0, work.rows)
    # What is added up in another order may overflow where NumPy does not.
    return not corepy_all_flags() if by_row_loop else _is_clean(slot, many)


cdef bint _reduces_in_chunks(
    Slot* slot, char* into, char* source, npy_intp length, bint by_row_loop
) except -1:
    """Reduce a row by chunks, and what these come to; False if the result is not to be used."""
    cdef npy_intp count = (length + slot.chunk - 1) // slot.chunk
    cdef char* parts = <char*>PyMem_Malloc(count * sizeof(double))  # of at most 8 bytes each
    if parts == NULL:
        raise MemoryError
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.slot, work.operands[0], work.operands[1] = slot, parts, source
    work.size, work.length, work.rows = length, slot.chunk, count
    work.stretch = _row_chunks_stretch if by_row_loop else _chunks_stretch
    try:
        _do(&work, length, &slot.pace[ALL])
        if by_row_loop:
            _put(slot.descr.type_num, into, slot.row_join(<double*>parts, count))
            return not corepy_all_flags()
        _reduce_row(slot, into, parts, count)
        if _is_told_apart(slot.type_num, into):
            with nogil:
                _reduce_row(slot, into, source, length)
        return _is_clean(slot, length)
    finally:
        PyMem_Free(parts)


cdef enum:
    BY_ROW_LOOP = 1  # how chunks are reduced


cdef object _reduced_over_grid(Slot* slot, PyArrayObject* x):
    """Reduce all of many elements that lie with gaps or in another order; None where the entry has to.

    They are taken in the order of memory, by chunks as those of one row are.
    """
    cdef npy_intp strides[1][MOST_DIMENSIONS]
    cdef int order[MOST_DIMENSIONS]
    cdef int ndim = PyArray_NDIM(x)
    cdef npy_intp size = _size(x, PY_SSIZE_T_MAX)
    cdef bint by_row_loop = _has_row_loop(slot, size, size)
    cdef Grid grid
    cdef Work work
    if size < LONG or not PyArray_FLAGS(x) & NPY_ARRAY_ALIGNED:
        return None
    if slot.kind == VARIANCE or slot.kind == DEVIATION:
        return None  # whose loops are for the sums that they take
    if not by_row_loop and not (slot.splits and slot.kind == REDUCTION):
        return None
    if PyArray_FLAGS(x) & NPY_ARRAY_F_CONTIGUOUS and _size(x, _least_of(slot, x, 0, ndim)) < 0:
        return None
    memset(&work, 0, sizeof(Work))
    _strides_beside(x, ndim, strides[0])
    _find_order(strides, 1, ndim, order)
    if not _find_grid(&grid, 0, ndim, PyArray_DIMS(x), order, strides):  # in a result's place
        return None
    cdef npy_intp count = (size + slot.chunk - 1) // slot.chunk
    cdef char* parts = <char*>PyMem_Malloc(count * sizeof(double))  # of at most 8 bytes each
    if parts == NULL:
        raise MemoryError
    work.slot, work.grid, work.count, work.size = slot, &grid, 2, size
    work.operands[0], work.operands[1], work.steps[0] = <char*>PyArray_DATA(x), parts, slot.size
    work.stretch, work.length, work.rows = _grid_chunks_stretch, slot.chunk, count
    work.forms[0] = BY_ROW_LOOP if by_row_loop else WHOLE_OPERAND
    try:
        _do(&work, size, &slot.pace[ALL])
        result = _new(slot.descr, 0, NULL)
        if by_row_loop:
            if corepy_all_flags():
                return None
            _put(slot.descr.type_num, _data(result), slot.row_join(<double*>parts, count))
        else:
            _reduce_row(slot, _data(result), parts, count)
            if _is_told_apart(slot.type_num, _data(result)):
                return None
    finally:
        PyMem_Free(parts)
    if by_row_loop and corepy_all_flags() or not by_row_loop and not _is_clean(slot, size):
        return None
    if slot.kind == MEAN and not _divides(slot.type_num, _data(result), 1, <double>size):
        return None
    return result


cdef void _grid_chunks_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Reduce some chunks of an array's elements, whose rows are long, or packed some at a time."""
    cdef double packed[2 * ROW]
    cdef double parts[CHUNK / ROW * 2 + 2]
    cdef npy_intp index[AXES]
    cdef Grid* grid = work.grid
    cdef Slot* slot = work.slot
    cdef int last = grid.ndim - 1, count
    cdef bint whole = grid.strides[0][last] == slot.size and grid.dims[last] >= ROW
    cdef npy_intp chunk, first, end, size
    cdef Work row = work[0]
    row.rows = 1
    for chunk in range(start, stop):
        first, end, count = chunk * work.length, min(work.size, (chunk + 1) * work.length), 0
        while first < end:
            _locate(grid, first, index)
            if whole:
                size = min(end - first, grid.dims[last] - index[last])
                row.operands[1] = _placed(work, 0, index)
            else:
                size = min(end - first, <npy_intp>ROW)
                _pack_some(work, 0, index, size, <char*>packed)
                row.operands[1] = <char*>packed
            first += size
            if work.forms[0] == BY_ROW_LOOP:
                parts[count] = slot.row_loop(row.operands[1], size)
            else:
                row.operands[0], row.length = <char*>parts + count * slot.size_out, size
                _rows_stretch(&row, 0, 1)
            count += 1
        if work.forms[0] == BY_ROW_LOOP:
            (<double*>work.operands[1])[chunk] = slot.row_join(parts, count)
        else:
            _reduce_row(slot, work.operands[1] + chunk * slot.size_out, <char*>parts, count)


cdef inline bint _is_told_apart(int type_num, char* value) noexcept:
    """Say whether there are several values that compare like this one, or as it does not at all."""
    if type_num == NPY_DOUBLE:
        return not (<double*>value)[0] < 0 and not (<double*>value)[0] > 0
    if type_num == NPY_FLOAT:
        return not (<float*>value)[0] < 0 and not (<float*>value)[0] > 0
    return False


cdef void _row_chunks_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp chunk, first
    for chunk in range(start, stop):
        first = chunk * work.length
        (<double*>work.operands[0])[chunk] = slot.row_loop(
            work.operands[1] + first * slot.size, min(work.length, work.size - first)
        )


cdef void _chunks_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef npy_intp chunk, first
    cdef Work row = work[0]
    row.rows = 1
    for chunk in range(start, stop):
        first = chunk * work.length
        row.length = min(work.length, work.size - first)
        row.operands[0] = work.operands[0] + chunk * work.slot.size_out
        row.operands[1] = work.operands[1] + first * work.slot.size
        _rows_stretch(&row, 0, 1)


cdef void _columns_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Reduce some groups of columns, of one block after the other."""
    cdef npy_intp groups = (work.size + work.group - 1) // work.group, block, end, first
    while start < stop:
        block = start // groups
        end = min(stop, (block + 1) * groups)
        first = (start - block * groups) * work.group
        _reduce_columns(
            work, block, first, min((end - block * groups) * work.group, work.size) - first
        )
        start = end


cdef enum:
    COLUMNS_TILE = 16384  # bytes of results that stay in the first cache, as in `_column_loops.pyx`


cdef void _reduce_columns(
    Work* work, npy_intp block, npy_intp first, npy_intp columns
) noexcept nogil:
    """Reduce some columns, as many at a time as stay in the first cache from beginning to end."""
    cdef npy_intp part = columns
    if work.slot.column_loop != NULL:
        part = min(columns, <npy_intp>COLUMNS_TILE // work.slot.size_out)
    while columns > 0:
        _reduce_tile(work, block, first, min(part, columns))
        first += part
        columns -= part


cdef void _reduce_tile(
    Work* work, npy_intp block, npy_intp first, npy_intp columns
) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef char* into = work.operands[0] + (block * work.size + first) * slot.size_out
    cdef char* source = work.operands[1] + block * work.steps[2] + first * slot.size
    cdef npy_intp row = _begin_columns(slot, into, source, columns), bytes_of_row = work.steps[1]
    cdef npy_intp steps[3]
    cdef char* args[3]
    if slot.column_loop != NULL:
        if not slot.column_loop(
            into, source + row * bytes_of_row, work.length - row, bytes_of_row // slot.size, columns
        ):
            return
        corepy_none_of_all()
        row = _begin_columns(slot, into, source, columns)
    steps[0] = steps[1] = steps[2] = slot.size
    for row in range(row, work.length):
        args[0] = args[2] = into
        args[1] = source + row * bytes_of_row
        slot.loop(args, &columns, steps, slot.data)


cdef npy_intp _begin_columns(
    Slot* slot, char* into, char* source, npy_intp columns
) noexcept nogil:
    """Put what some columns begin with; return how many rows that takes."""
    if slot.has_initial:
        _put(slot.descr.type_num, into, slot.initial)
        _fill(into, columns, slot.size_out, into)
        return 0
    memcpy(into, source, columns * slot.size)
    return 1


cdef inline char* _row_at(Work* work, npy_intp row) noexcept nogil:
    """Return where a row begins, of so many in each block."""
    cdef npy_intp block = row // work.group if 0 < work.group <= row else 0
    return work.operands[1] + block * work.steps[2] + (row - block * work.group) * work.steps[1]


cdef void _rows_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp row
    cdef char* into
    for row in range(start, stop):
        into = work.operands[0] + row * slot.size_out
        if slot.grows:
            _grow_row(slot, <long long*>into, _row_at(work, row), work.length)
        else:
            _reduce_row(slot, into, _row_at(work, row), work.length)


cdef inline void _reduce_row(
    Slot* slot, char* into, char* source, npy_intp length
) noexcept nogil:
    """Reduce elements of the result's dtype."""
    cdef npy_intp first = 0 if slot.has_initial else 1
    cdef npy_intp steps[3]
    cdef char* args[3]
    if slot.has_initial:
        _put(slot.type_num, into, slot.initial)
    else:
        memcpy(into, source, slot.size_out)
    steps[0] = steps[2] = 0
    steps[1] = slot.size_out
    args[0] = args[2] = into
    args[1] = source + first * slot.size_out
    length -= first
    slot.loop(args, &length, steps, slot.data)


cdef inline void _grow_row(
    Slot* slot, long long* into, char* source, npy_intp length
) noexcept nogil:
    """Add up integers of fewer bits than their sum, as so many columns, and then what these come to."""
    cdef long long sums[GROWN]
    cdef npy_intp columns = min(<npy_intp>GROWN, length), i
    cdef npy_intp rows = length // columns, rest = length % columns
    memset(sums, 0, columns * sizeof(long long))
    slot.column_loop(sums, source, rows, columns, columns)
    if rest:
        slot.column_loop(sums, source + rows * columns * slot.size, 1, rest, rest)
    into[0] = 0
    for i in range(columns):
        into[0] += sums[i]


cdef void _long_rows_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp row
    for row in range(start, stop):
        _put(
            slot.descr.type_num,
            work.operands[0] + row * slot.size_out,
            slot.row_loop(_row_at(work, row), work.length),
        )


cdef inline void _put(int type_num, char* into, double value) noexcept nogil:
    if type_num == NPY_DOUBLE:
        (<double*>into)[0] = value
    elif type_num == NPY_FLOAT:
        (<float*>into)[0] = <float>value
    elif type_num == NPY_CDOUBLE:
        (<double*>into)[0], (<double*>into)[1] = value, 0
    elif type_num == NPY_CFLOAT:
        (<float*>into)[0], (<float*>into)[1] = <float>value, 0
    else:  # of 64 bits: `_find_ufunc` lets no others in
        (<long long*>into)[0] = <long long>value


cdef inline bint _divides(int type_num, char* values, npy_intp size, double count) noexcept:
    """Divide some numbers; False if one is too small for its digits, which the entry tells of."""
    cdef npy_intp i
    for i in range(size):
        if type_num == NPY_DOUBLE:
            (<double*>values)[i] /= count
        else:
            (<float*>values)[i] = <float>(<double>(<float*>values)[i] / count)
    return corepy_flags() == 0


cdef object _short_accumulation(Slot* slot, native, PyObject* axis, bint initial):
    """Return running sums or products along an axis; None where the entry has to compute them."""
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef Running run
    held = _side_by_side(<PyObject*>native)  # another thread may put other memory into its Array
    if held is None:
        return None
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    cdef int ndim = PyArray_NDIM(x), place, i
    # Products of complex numbers round otherwise where they lie otherwise.
    if slot.initial and _is_complex(slot.type_num) and (ndim != 1 or held is not native):
        return None
    place = 0 if axis == Py_None and ndim == 1 else _axis_of(axis, ndim, 0)
    if place < 0 or ndim > MOST_DIMENSIONS or initial and not slot.has_initial:
        return None
    cdef npy_intp least = min(slot.least, <npy_intp>SHORT)
    cdef npy_intp size = _size(x, max(slot.least, slot.first) if ndim == 1 else least)
    if size < 1:
        return None
    run.slot, run.across, run.initial = slot, NULL, initial
    run.outer = run.inner = 1
    for i in range(ndim):
        shape[i] = PyArray_DIMS(x)[i]
        if i < place:
            run.outer *= shape[i]
        elif i > place:
            run.inner *= shape[i]
    run.length = shape[place]
    shape[place] += initial
    if run.inner > 1:
        table = <Slots>slot.result
        run.across = _resolved(table, _ADD if slot.initial == 0 else _MULTIPLY)
        if run.across == NULL:
            return None
    result = _new_large(slot.descr, ndim, shape)
    run.source, run.into = <char*>PyArray_DATA(x), _data(result)
    _forget_flags(slot, size)
    if size < LONG:
        _run_along(&run)
    else:
        with nogil:
            _run_along(&run)
    return result if _is_clean(slot, size) else None


cdef struct Running:
    Slot* slot  # of the running sums
    Slot* across  # of the sums of two rows each, where rows are added up
    bint initial  # whether they begin with zero, or one
    npy_intp outer, length, inner  # elements before, along and behind the axis
    char* source
    char* into


cdef void _run_along(Running* run) noexcept nogil:
    cdef npy_intp row = run.inner * run.slot.size, length = run.length - 1, inner = run.inner
    cdef npy_intp steps[3]
    cdef char* args[3]
    cdef char* source = run.source
    cdef char* into = run.into
    cdef npy_intp block, i
    steps[0] = steps[1] = steps[2] = run.slot.size
    for block in range(run.outer):
        if run.initial:
            for i in range(inner):
                _put(run.slot.type_num, into + i * run.slot.size, run.slot.initial)
            into += row
        memcpy(into, source, row)
        args[0], args[1], args[2] = into, source + row, into + row
        if run.across == NULL:
            run.slot.loop(args, &length, steps, run.slot.data)
        else:
            for i in range(length):
                run.across.loop(args, &inner, steps, run.across.data)
                args[0] += row
                args[1] += row
                args[2] += row
        source += run.length * row
        into += run.length * row
