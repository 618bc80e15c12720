# Which axes are reduced: one, several or all of them, in whatever order they lie in memory.
# Included by _hot_compiled.pyx.
#
# Axes that follow each other are one. So an array is a single row, rows, columns, or a stack of
# matrices whose columns are reduced; of axes that others lie between the last ones are reduced first.

ctypedef unsigned long long Axes  # a bit for each

cdef struct Rows:  # of a length each, or columns: contiguous
    npy_intp results, length
    npy_intp apart  # bytes from row to row
    bint by_column
    npy_intp blocks  # which as many rows or columns form each
    npy_intp beyond  # bytes from one of these to the next


cdef bint _axes_of(axis, int ndim, Axes* axes) noexcept:
    """Find which axes are meant by one, several, or None for all; False where they are none."""
    cdef PyObject* one = <PyObject*>axis
    cdef PyObject** part = &one
    cdef Py_ssize_t count = 1, i
    cdef int place
    axes[0] = (<Axes>1 << ndim) - 1
    if axis is None:
        return True
    if type(axis) is tuple:
        count, part = PyTuple_GET_SIZE(one), PySequence_Fast_ITEMS(axis)
    axes[0] = 0
    for i in range(count):
        place = _axis_of(part[i], ndim, 0)
        if place < 0 or axes[0] >> place & 1:
            return False
        axes[0] |= <Axes>1 << place
    return count > 0


cdef inline bint _is_run(Axes axes, int ndim, int* first, int* last) noexcept:
    """Find where axes that follow each other begin and end; False where others lie between them."""
    first[0] = 0
    while first[0] < ndim and not axes >> first[0] & 1:
        first[0] += 1
    last[0] = first[0]
    while last[0] < ndim and axes >> last[0] & 1:
        last[0] += 1
    return axes >> last[0] == 0


cdef inline npy_intp _least_of(Slot* slot, PyArrayObject* x, int first, int last) noexcept:
    """Return the elements from which the entry has the choice how to reduce axes."""
    cdef int ndim = PyArray_NDIM(x)
    if slot.row_loop != NULL and (slot.kind == VARIANCE or slot.kind == DEVIATION):
        return PY_SSIZE_T_MAX
    if last - first == ndim:
        return PY_SSIZE_T_MAX if slot.row_first else slot.leasts[ALL]
    if last - first > 1:
        return slot.unrouted
    if last == ndim:
        if slot.row_first and PyArray_DIMS(x)[first] > slot.row_longer:
            return PY_SSIZE_T_MAX
        return slot.leasts[ROWS]
    if first > 0:
        return slot.unrouted
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


cdef bint _lay_rows(Rows* rows, PyArrayObject* x, int first, int last) noexcept:
    """Find how rows or columns along some axes lie where there are gaps; False where others have to.

    The last axes are whole, that is without gaps. What stands along others is evenly apart, or forms
    blocks that are.
    """
    cdef npy_intp item = PyArray_ITEMSIZE(x), step = item
    cdef int whole = PyArray_NDIM(x), i, split
    if not PyArray_FLAGS(x) & NPY_ARRAY_ALIGNED:
        return False
    while whole > 0 and (
        PyArray_DIMS(x)[whole - 1] == 1 or PyArray_STRIDES(x)[whole - 1] == step
    ):
        whole -= 1
        step *= PyArray_DIMS(x)[whole]
    if rows.by_column:
        if whole > last:  # what stands between is of blocks, each of some columns
            if rows.blocks > 1 or whole == PyArray_NDIM(x):
                return False
            for i in range(last, whole):
                rows.blocks *= PyArray_DIMS(x)[i]
            if not _is_even(x, last, whole, &rows.beyond):
                return False
        elif not _is_even(x, 0, first, &rows.beyond):
            return False
        if not _is_even(x, first, last, &rows.apart):
            return False
    elif whole > first:
        return False
    elif not _is_even(x, 0, first, &rows.apart):
        split = first
        while _is_even(x, split - 1, first, &rows.apart):
            split -= 1
        if not _is_even(x, split, first, &rows.apart) or not _is_even(x, 0, split, &rows.beyond):
            return False
        for i in range(split):
            rows.blocks *= PyArray_DIMS(x)[i]
    return rows.apart != 0 and rows.apart % item == 0


cdef bint _is_even(PyArrayObject* x, int start, int stop, npy_intp* step) noexcept:
    """Find how far what stands along some axes is apart, 0 for a single one; False if that varies."""
    cdef npy_intp count = 1
    cdef int i
    step[0] = 0
    for i in range(stop - 1, start - 1, -1):
        if PyArray_DIMS(x)[i] == 1:
            continue
        if count == 1:
            step[0] = PyArray_STRIDES(x)[i]
        elif PyArray_STRIDES(x)[i] != count * step[0]:
            return False
        count *= PyArray_DIMS(x)[i]
    return True


cdef object _with_dimensions(PyArrayObject* x, int ndim, axis):
    """Give what an array was reduced to the dimensions that the array had."""
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int i, left = 0
    cdef Axes axes
    _axes_of(axis, ndim, &axes)
    for i in range(ndim):
        dims[i], strides[i] = 1, PyArray_ITEMSIZE(x)
        if not axes >> i & 1:
            dims[i], strides[i] = PyArray_DIMS(x)[left], PyArray_STRIDES(x)[left]
            left += 1
    return _view(x, ndim, dims, strides, <char*>PyArray_DATA(x))


cdef object _turned_reduction(Slot* slot, PyObject* a, axis, double correction):
    """Reduce an array whose axes lie in another order in memory, as if they stood in that one.

    None where they do, and where the entry has to.
    """
    cdef npy_intp strides[1][MOST_DIMENSIONS]
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef int order[MOST_DIMENSIONS]
    cdef int ndim, i
    cdef Axes axes, turned = 0
    cdef bint is_turned = False
    if not _is_array(a) or _is_plain(a):
        return None
    held = <object>a
    cdef PyArrayObject* x = <PyArrayObject*>a
    ndim = PyArray_NDIM(x)
    if ndim > MOST_DIMENSIONS or not _axes_of(axis, ndim, &axes):
        return None
    # Places among all are counted in the order of the array itself.
    if (slot.kind == ARGMAX or slot.kind == ARGMIN) and type(axis) is not int:
        return None
    _strides_beside(x, ndim, strides[0])
    _find_order(strides, 1, ndim, order)
    for i in range(ndim):
        turned |= (axes >> order[i] & 1) << i
        is_turned = is_turned or order[i] != i
        dims[i], strides[0][i] = PyArray_DIMS(x)[order[i]], PyArray_STRIDES(x)[order[i]]
    if not is_turned:
        return None
    view = _view(x, ndim, dims, strides[0], <char*>PyArray_DATA(x))
    made = _reduced(slot, <PyArrayObject*><PyObject*>view, turned, True, correction)
    if made is None or PyArray_NDIM(<PyArrayObject*><PyObject*>made) < 2:
        return made
    return _turned_back(<PyArrayObject*><PyObject*>made, ndim, order, turned)


cdef object _turned_back(PyArrayObject* x, int ndim, int* order, Axes axes):
    """Put the axes that are left of those in some order in their own."""
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef int place, i, k, left = 0
    for i in range(ndim):
        if not axes >> i & 1:
            place = 0  # behind those that are left and stand before it
            for k in range(ndim):
                place += not axes >> k & 1 and order[k] < order[i]
            dims[place], strides[place] = PyArray_DIMS(x)[left], PyArray_STRIDES(x)[left]
            left += 1
    return _view(x, left, dims, strides, <char*>PyArray_DATA(x))
