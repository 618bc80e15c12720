# Reductions and running sums along an axis, by the inner loops of NumPy's ufuncs.
# Included by _hot_compiled.pyx.

cdef inline npy_intp _least_of(Slot* slot, PyArrayObject* x, axis) noexcept:
    """Return the elements from which the entry has the choice how to reduce."""
    cdef int ndim = PyArray_NDIM(x)
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
    if not _is_plain(a):
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
    if slot.kind >= ARGMAX:
        return _short_search(slot, x, axis)
    if slot.kind == ACCUMULATION:
        return _short_accumulation(slot, x, axis)
    cdef int ndim = PyArray_NDIM(x), i, count = 0
    cdef npy_intp* dims = PyArray_DIMS(x)
    cdef npy_intp size = _size(x, _least_of(slot, x, axis)), rows = 1, length, done
    cdef npy_intp shape[MOST_DIMENSIONS]
    cdef bint by_column = False
    if size <= 0 or ndim > MOST_DIMENSIONS:
        return None
    if axis is None:
        length = size
    elif type(axis) is int and ndim:
        if axis == -1 or axis == ndim - 1:
            count = ndim - 1
            for i in range(count):
                shape[i] = dims[i]
                rows *= dims[i]
            length = dims[ndim - 1]
        elif axis == 0 or axis == -ndim:
            by_column = True
            count = ndim - 1
            for i in range(count):
                shape[i] = dims[i + 1]
                rows *= dims[i + 1]
            length = dims[0]
        else:
            return None
    else:
        return None
    if slot.kind == VARIANCE or slot.kind == DEVIATION:
        return None if by_column else _short_variance(slot, x, count, shape, rows, length)
    result = _new(slot.descr, count, shape)
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* target = <char*>PyArray_DATA(<PyArrayObject*>result)
    cdef char* args[3]
    cdef npy_intp steps[3]
    cdef npy_intp first = 0 if slot.has_initial else 1
    if slot.has_initial:
        for done in range(rows):
            _put(slot.type_num, target + done * slot.size, slot.initial)
    elif by_column:
        memcpy(target, source, rows * slot.size)
    else:
        for done in range(rows):
            memcpy(target + done * slot.size, source + done * length * slot.size, slot.size)
    if by_column:
        steps[0] = steps[1] = steps[2] = slot.size
        args[0] = args[2] = target
        for done in range(first, length):
            args[1] = source + done * rows * slot.size
            if not _calls(slot, args, rows, steps):
                return None
    else:
        steps[0] = steps[2] = 0
        steps[1] = slot.size
        for done in range(rows):
            args[0] = args[2] = target + done * slot.size
            args[1] = source + (done * length + first) * slot.size
            if not _calls(slot, args, length - first, steps):
                return None
    if slot.kind == MEAN:
        _divide(slot.type_num, target, rows, <double>length)
    return result


cdef inline void _put(int type_num, char* into, double value) noexcept:
    if type_num == NPY_DOUBLE:
        (<double*>into)[0] = value
    elif type_num == NPY_FLOAT:
        (<float*>into)[0] = <float>value
    else:  # of 64 bits: `_find_loop` lets no others in
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
    cdef bint double = slot.type_num == NPY_DOUBLE
    cdef double mean
    cdef char* row
    cdef char* into
    cdef char* args[3]
    cdef npy_intp steps[3]
    cdef npy_intp i, j
    result = _new(slot.descr, count, shape)
    cdef char* target = <char*>PyArray_DATA(<PyArrayObject*>result)
    cdef char* squares = <char*>PyMem_Malloc(length * slot.size)
    if squares == NULL:
        raise MemoryError
    steps[0], steps[1], steps[2] = 0, slot.size, 0
    try:
        for i in range(rows):
            row = <char*>PyArray_DATA(x) + i * length * slot.size
            into = target + i * slot.size
            args[0], args[1], args[2] = into, row, into
            _put(slot.type_num, into, slot.initial)
            if not _calls(slot, args, length, steps):
                return None
            _divide(slot.type_num, into, 1, <double>length)
            if double:
                _squares(<double*>row, (<double*>into)[0], <double*>squares, length)
            else:
                _squares(<float*>row, (<float*>into)[0], <float*>squares, length)
            args[1] = squares
            _put(slot.type_num, into, slot.initial)
            if corepy_flags() or not _calls(slot, args, length, steps):
                return None
            _divide(slot.type_num, into, 1, <double>length)
            if slot.kind == DEVIATION and double:
                (<double*>into)[0] = sqrt((<double*>into)[0])
            elif slot.kind == DEVIATION:
                (<float*>into)[0] = sqrtf((<float*>into)[0])
    finally:
        PyMem_Free(squares)
    return None if corepy_flags() else result


ctypedef fused Real:
    float
    double


cdef inline void _squares(Real* x, Real mean, Real* into, npy_intp size) noexcept:
    cdef npy_intp i
    cdef Real off
    for i in range(size):
        off = x[i] - mean
        into[i] = off * off


cdef object _short_accumulation(Slot* slot, PyArrayObject* x, axis):
    """Return running sums or products of a 1-D array."""
    if PyArray_NDIM(x) != 1 or not (
        axis is None or type(axis) is int and (axis == 0 or axis == -1)
    ):
        return None
    cdef npy_intp size = _size(x, slot.least)
    if size < 1:
        return None
    result = _result(slot, x)
    cdef char* source = <char*>PyArray_DATA(x)
    cdef char* target = <char*>PyArray_DATA(<PyArrayObject*>result)
    cdef char* args[3]
    cdef npy_intp steps[3]
    memcpy(target, source, slot.size)
    args[0], args[1], args[2] = target, source + slot.size, target + slot.size
    steps[0] = steps[1] = steps[2] = slot.size
    return result if _calls(slot, args, size - 1, steps) else None
