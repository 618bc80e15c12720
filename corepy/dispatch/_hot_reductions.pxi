# Reductions and running sums along an axis, by the inner loops of NumPy's ufuncs.
# Included by _hot_compiled.pyx.

cdef inline npy_intp _least_of(Slot* slot, PyArrayObject* x, axis) noexcept:
    """Return the elements from which the entry has the choice how to reduce."""
    cdef int ndim = PyArray_NDIM(x)
    if slot.row_first and ndim and (axis is None or PyArray_DIMS(x)[ndim - 1] > slot.row_longer) and (
        axis is None or ndim == 1 or type(axis) is int and (axis == -1 or axis == ndim - 1)
    ):
        return PY_SSIZE_T_MAX
    if axis is None or ndim == 1:
        return slot.leasts[ALL]
    if type(axis) is not int:
        return slot.least
    if axis == -1 or axis == ndim - 1:
        return slot.leasts[ROWS]
    if axis != 0 and axis != -ndim:
        return slot.least
    return slot.leasts[NARROW if _is_narrow(ndim, PyArray_DIMS(x)) else COLUMNS]


cdef inline bint _is_narrow(int ndim, npy_intp* dims) noexcept:
    """Say whether columns are few and long, as routes call it (`_reduced` of `_admitted`)."""
    cdef npy_intp columns = 1
    cdef int i
    for i in range(1, ndim):
        columns *= dims[i]
        if columns > NARROWEST:
            return False
    return columns > 1 and dims[0] >= LONGER * columns


cdef object _short_reduction(Slot* slot, PyObject* a, axis):
    """Return what an array is reduced to, None where the entry has to compute it."""
    held = _side_by_side(a)
    cdef bint gaps = held is None
    # What lies otherwise is rounded in another order: of complex numbers products may cancel then.
    if held is not <object>a and _is_complex(slot.operand.type_num) and slot.kind != COUNT:
        return None
    if gaps:
        if not _is_array(a) or slot.kind >= ARGMAX and axis is not None:
            return None
        held = <object>a
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>held
    if slot.kind >= ARGMAX and not gaps:
        return _short_search(slot, x, axis)
    cdef int ndim = PyArray_NDIM(x), first = 0, last = ndim, i, count = 0
    cdef npy_intp* dims = PyArray_DIMS(x)
    cdef npy_intp rows = 1, length, apart
    cdef npy_intp shape[MOST_DIMENSIONS]
    if ndim > MOST_DIMENSIONS or axis is not None and not _neighbours(axis, ndim, &first, &last):
        return None
    if first > 0 and last < ndim:
        return None
    if last - first == ndim and type(axis) is tuple:
        axis = None
    if gaps and last - first == ndim:
        return _reduced_over_grid(slot, x)
    cdef npy_intp size = _size(x, PY_SSIZE_T_MAX if gaps else _least_of(slot, x, axis))
    if size <= 0:
        return None
    for i in range(ndim):
        if not first <= i < last:
            shape[count] = dims[i]
            rows *= dims[i]
            count += 1
    length = size // rows
    cdef bint by_column = last < ndim and rows > 1  # a single one is a row
    apart = (rows if by_column else length) * slot.size
    if gaps and (rows == 1 or not _has_whole_rows(x, last if by_column else first, &apart)):
        return None
    if slot.kind == VARIANCE or slot.kind == DEVIATION:
        return None if by_column or gaps else _short_variance(slot, x, count, shape, rows, length)
    result = _new(slot.descr, count, shape)
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* target = _data(result)
    if not _reduces(slot, target, source, rows, length, by_column, apart, size):
        return None
    if slot.kind == MEAN:
        _divide(slot.type_num, target, rows, <double>length)
    return result


cdef bint _has_whole_rows(PyArrayObject* x, int split, npy_intp* apart) noexcept:
    """Say whether axes from one on are rows without gaps, and find how far these are apart."""
    cdef npy_intp step = PyArray_ITEMSIZE(x)
    cdef int i
    for i in range(PyArray_NDIM(x) - 1, split - 1, -1):
        if PyArray_DIMS(x)[i] != 1:
            if PyArray_STRIDES(x)[i] != step:
                return False
            step *= PyArray_DIMS(x)[i]
    if not PyArray_FLAGS(x) & NPY_ARRAY_ALIGNED or not _is_even(x, split, apart):
        return False
    return apart[0] != 0 and apart[0] % PyArray_ITEMSIZE(x) == 0


cdef bint _is_even(PyArrayObject* x, int stop, npy_intp* step) noexcept:
    """Find how far what stands along the first axes is apart, 0 for a single one; False if that varies."""
    cdef npy_intp count = 1
    cdef int i
    step[0] = 0
    for i in range(stop - 1, -1, -1):
        if PyArray_DIMS(x)[i] == 1:
            continue
        if count == 1:
            step[0] = PyArray_STRIDES(x)[i]
        elif PyArray_STRIDES(x)[i] != count * step[0]:
            return False
        count *= PyArray_DIMS(x)[i]
    return True


cdef bint _neighbours(axis, int ndim, int* first, int* last) noexcept:
    """Find where an axis, or several that follow each other, begin and end; False for others."""
    cdef PyObject* one = <PyObject*>axis
    cdef PyObject** part = &one
    cdef Py_ssize_t count = 1, i
    cdef unsigned int seen = 0
    cdef int place
    if type(axis) is tuple:
        count, part = PyTuple_GET_SIZE(one), PySequence_Fast_ITEMS(axis)
    first[0], last[0] = ndim, 0
    for i in range(count):
        place = _axis_of(part[i], ndim, 0)
        if place < 0 or seen >> place & 1:
            return False
        seen |= 1U << place
        first[0], last[0] = min(first[0], place), max(last[0], place + 1)
    return count > 0 and last[0] - first[0] == count


cdef inline bint _has_row_loop(Slot* slot, npy_intp size, npy_intp length) noexcept:
    """Say whether rows of a length of a contiguous array have a loop of their own."""
    return slot.row_loop != NULL and size >= slot.row_least and length > slot.row_longer


cdef bint _reduces(
    Slot* slot,
    char* into,
    char* source,
    npy_intp results,
    npy_intp length,
    bint by_column,
    npy_intp apart,
    npy_intp size,
) except -1:
    """Reduce contiguous rows, so many bytes apart, or columns of a length, of an array of a size.

    False if the result is not to be used.
    """
    cdef bint by_row_loop = not by_column and _has_row_loop(slot, size, length)
    cdef npy_intp many = results * length
    cdef Work work
    if results == 1 and length >= 2 * slot.chunk and (by_row_loop or slot.splits):
        return _reduces_in_chunks(slot, into, source, length, by_row_loop)
    memset(&work, 0, sizeof(Work))
    work.slot, work.operands[0], work.operands[1] = slot, into, source
    work.size, work.length, work.rows, work.steps[1] = results, length, results, apart
    if by_column:
        work.stretch = _columns_stretch
        # Threads wait for memory where they read parts of rows one row after the other, or short parts.
        work.group, work.parts = results, 1
        if slot.column_loop != NULL:
            work.group = GROUP // slot.size
        work.rows = (results + work.group - 1) // work.group
    else:
        work.stretch = _long_rows_stretch if by_row_loop else _rows_stretch
    if many >= SHORT:
        _do(&work, many, &slot.pace[COLUMNS if by_column else ROWS])
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
        work.operands[0], work.operands[1] = into, parts
        work.length, work.rows = count, 1
        _rows_stretch(&work, 0, 1)
        if _is_told_apart(slot.type_num, into):
            work.operands[1], work.length = source, length
            with nogil:
                _rows_stretch(&work, 0, 1)
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
    if PyArray_FLAGS(x) & NPY_ARRAY_F_CONTIGUOUS and _size(x, _least_of(slot, x, None)) < 0:
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
            work.operands[0], work.operands[1] = _data(result), parts
            work.length, work.rows = count, 1
            _rows_stretch(&work, 0, 1)
            if _is_told_apart(slot.type_num, _data(result)):
                return None
    finally:
        PyMem_Free(parts)
    if by_row_loop and corepy_all_flags() or not by_row_loop and not _is_clean(slot, size):
        return None
    if slot.kind == MEAN:
        _divide(slot.type_num, _data(result), 1, <double>size)
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
                row.operands[0], row.length = <char*>parts + count * slot.size, size
                _rows_stretch(&row, 0, 1)
            count += 1
        if work.forms[0] == BY_ROW_LOOP:
            (<double*>work.operands[1])[chunk] = slot.row_join(parts, count)
        else:
            row.operands[0], row.length = work.operands[1] + chunk * slot.size, count
            row.operands[1] = <char*>parts
            _rows_stretch(&row, 0, 1)


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
        row.operands[0] = work.operands[0] + chunk * work.slot.size
        row.operands[1] = work.operands[1] + first * work.slot.size
        _rows_stretch(&row, 0, 1)


cdef void _columns_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Reduce some groups of columns."""
    cdef Slot* slot = work.slot
    cdef npy_intp first = start * work.group, columns = min(stop * work.group, work.size) - first
    cdef npy_intp row = _begin_columns(work, first, columns)
    cdef npy_intp steps[3]
    cdef char* args[3]
    cdef char* into = work.operands[0] + first * slot.size
    cdef char* source = work.operands[1] + first * slot.size
    cdef npy_intp bytes_of_row = work.steps[1]
    if slot.column_loop != NULL:
        if not slot.column_loop(
            into, source + row * bytes_of_row, work.length - row, bytes_of_row // slot.size, columns
        ):
            return
        corepy_none_of_all()
        row = _begin_columns(work, first, columns)
    steps[0] = steps[1] = steps[2] = slot.size
    for row in range(row, work.length):
        args[0] = args[2] = into
        args[1] = source + row * bytes_of_row
        slot.loop(args, &columns, steps, slot.data)


cdef npy_intp _begin_columns(Work* work, npy_intp first, npy_intp columns) noexcept nogil:
    """Put what some columns begin with; return how many rows that takes."""
    cdef Slot* slot = work.slot
    cdef char* into = work.operands[0] + first * slot.size
    cdef npy_intp i
    if slot.has_initial:
        for i in range(columns):
            _put(slot.type_num, into + i * slot.size, slot.initial)
        return 0
    memcpy(into, work.operands[1] + first * slot.size, columns * slot.size)
    return 1


cdef void _rows_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp first = 0 if slot.has_initial else 1, length = work.length - first, row
    cdef npy_intp steps[3]
    cdef char* args[3]
    cdef char* into
    cdef char* source
    steps[0] = steps[2] = 0
    steps[1] = slot.size
    for row in range(start, stop):
        into = work.operands[0] + row * slot.size
        source = work.operands[1] + row * work.steps[1]
        if slot.has_initial:
            _put(slot.type_num, into, slot.initial)
        else:
            memcpy(into, source, slot.size)
        args[0] = args[2] = into
        args[1] = source + first * slot.size
        slot.loop(args, &length, steps, slot.data)


cdef void _long_rows_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    cdef Slot* slot = work.slot
    cdef npy_intp i, bytes_of_row = work.steps[1]
    for i in range(start, stop):
        _put(
            slot.descr.type_num,
            work.operands[0] + i * slot.size_out,
            slot.row_loop(work.operands[1] + i * bytes_of_row, work.length),
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


cdef inline void _divide(int type_num, char* values, npy_intp size, double count) noexcept:
    cdef npy_intp i
    for i in range(size):
        if type_num == NPY_DOUBLE:
            (<double*>values)[i] /= count
        else:
            (<float*>values)[i] = <float>(<double>(<float*>values)[i] / count)


cdef object _short_variance(
    Slot* slot, PyArrayObject* x, int count, npy_intp* shape, npy_intp rows, npy_intp length
):
    """Return variances or standard deviations of rows, in the steps in which NumPy finds them."""
    cdef bint doubles = slot.type_num == NPY_DOUBLE
    cdef npy_intp size = rows * length
    cdef char* row
    cdef char* into
    cdef npy_intp i
    result = _new(slot.descr, count, shape)
    cdef char* target = _data(result)
    cdef char* squares = <char*>PyMem_Malloc(length * slot.size)
    if squares == NULL:
        raise MemoryError
    try:
        for i in range(rows):
            row = <char*>PyArray_DATA(x) + i * length * slot.size
            into = target + i * slot.size
            if not _reduces(slot, into, row, 1, length, False, 0, size):
                return None
            _divide(slot.type_num, into, 1, <double>length)
            if doubles:
                _squares(<double*>row, (<double*>into)[0], <double*>squares, length)
            else:
                _squares(<float*>row, (<float*>into)[0], <float*>squares, length)
            if corepy_flags() or not _reduces(slot, into, squares, 1, length, False, 0, size):
                return None
            _divide(slot.type_num, into, 1, <double>length)
            if slot.kind == DEVIATION and doubles:
                (<double*>into)[0] = sqrt((<double*>into)[0])
            elif slot.kind == DEVIATION:
                (<float*>into)[0] = sqrtf((<float*>into)[0])
    finally:
        PyMem_Free(squares)
    return None if corepy_flags() else result


cdef inline void _squares(Real* x, Real mean, Real* into, npy_intp size) noexcept:
    cdef npy_intp i
    cdef Real off
    for i in range(size):
        off = x[i] - mean
        into[i] = off * off


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
