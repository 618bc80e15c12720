# Elements, rows and columns at indices, read and written.
# Included by _hot_compiled.pyx.

cdef npy_intp* _counts(PyObject* array, PyObject* counts, npy_intp length) except? NULL:
    """Return as many integers of 64 bits that an `Array` beside another one holds; NULL for others."""
    if counts.ob_type != <void*>_Array or not _share(<Operand>array, <Operand>counts):
        return NULL
    cdef PyArrayObject* y = _native_of(counts)
    if not _is_plain(<PyObject*>y) or PyArray_TYPE(y) != NPY_INTP:
        return NULL
    if PyArray_NDIM(y) != 1 or PyArray_DIMS(y)[0] != length:
        return NULL
    return <npy_intp*>PyArray_DATA(y)


cdef object _taking_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Copy what stands along an axis at indices."""
    cdef PyObject* axis = NULL
    if count != 2 or not _words(args, count, names, ("axis",), &axis):
        return None
    cdef Slot* slot = _slot_of(args[0], self.place)
    if slot == NULL or args[1].ob_type != <void*>_Array:
        return None
    if not _share(<Operand>args[0], <Operand>args[1]):
        return None
    cdef PyArrayObject* x = _native_of(args[0])
    cdef PyArrayObject* which = _native_of(args[1])
    if not _is_array(<PyObject*>x) or not _is_array(<PyObject*>which):
        return None
    held, also_held = <object><PyObject*>x, <object><PyObject*>which  # others may let go of them
    cdef int place = _axis_of(axis, PyArray_NDIM(x), 0)
    if place < 0 or axis == NULL and PyArray_NDIM(x) != 1:
        return None
    made = _gathered(slot, x, which, place)
    if made is None:
        made = _taken_along(slot, x, which, place)
    return None if made is None else _make(made, (<Operand>args[0])._table)


cdef object _taken_along(Slot* slot, PyArrayObject* x, PyArrayObject* which, int place):
    """Have NumPy copy parts along an axis at few indices; None where the entry has to."""
    if PyArray_TYPE(which) != NPY_INTP or _size(which, slot.least) < 0:
        return None
    if _size(x, slot.least) < 1:
        return None
    if not _is_plain(<PyObject*>x) and _size(x, SHORT) < 0:
        return None  # NumPy would copy all of it first
    held = <object><PyObject*>x
    try:
        return PyArray_TakeFrom(x, <object><PyObject*>which, place, NULL, NPY_RAISE)
    except (IndexError, MemoryError) as error:  # the function says which
        let_through(error)
        return None


cdef object _gathered(Slot* slot, PyArrayObject* x, PyArrayObject* which, int axis):
    """Copy parts of a contiguous array at indices of 64 bits, None for others, and bad indices."""
    cdef npy_intp dims[2 * MOST_DIMENSIONS]
    cdef npy_intp length, chunk = 1, blocks = 1, number
    cdef int j, ndim = PyArray_NDIM(x), more = PyArray_NDIM(which)
    cdef npy_intp least = slot.least if ndim == 1 else slot.unrouted
    if PyArray_TYPE(which) != NPY_INTP or ndim == 0 or ndim + more > MOST_DIMENSIONS:
        return None
    if not _is_plain(<PyObject*>x) or not _is_plain(<PyObject*>which):
        return None
    length, number = PyArray_DIMS(x)[axis], _size(which, least)
    for j in range(more):
        dims[axis + j] = PyArray_DIMS(which)[j]
    for j in range(ndim):
        if j < axis:
            dims[j] = PyArray_DIMS(x)[j]
            blocks *= dims[j]
        elif j > axis:
            dims[more + j - 1] = PyArray_DIMS(x)[j]
            chunk *= PyArray_DIMS(x)[j]
    if number < 0 or chunk == 0 or blocks == 0 or _size(x, least) < 0:
        return None
    if number > (least - 1) // (blocks * chunk):
        return None
    made = _new_if_any(slot.descr, ndim + more - 1, dims)
    if made is None:
        return None
    cdef Work work
    memset(&work, 0, sizeof(Work))
    work.stretch, work.rows = _gather_stretch, (blocks * number + ROW - 1) // ROW
    work.size, work.group, work.length, work.slot = blocks * number, number, length, slot
    work.operands[0], work.operands[1] = <char*>PyArray_DATA(x), <char*>PyArray_DATA(which)
    work.operands[2], work.steps[2] = _data(made), chunk * slot.size
    held, also_held = <object>x, <object>which  # somebody else may let go of them meanwhile
    if blocks * number * chunk < LONG:
        _gather_stretch(&work, 0, work.rows)
    else:
        _do(&work, blocks * number * chunk, &slot.pace[0])
    return None if work.failed else made


cdef object _gathered_at(Operand owner, Slot* slot, PyArrayObject* x, key):
    """Copy what stands at indices of one shape, and ints, along the first axes; None for others."""
    cdef npy_intp* indices[MOST_DIMENSIONS]
    cdef npy_intp dims[2 * MOST_DIMENSIONS]
    cdef PyArrayObject* model = NULL
    cdef PyArrayObject* which
    cdef int parts = <int>PyTuple_GET_SIZE(<PyObject*>key), ndim = PyArray_NDIM(x), more, i
    cdef npy_intp chunk = 1, number, place, k
    cdef char* data = <char*>PyArray_DATA(x)
    cdef char* source
    cdef PyObject* part
    cdef long single
    if parts > ndim or parts < ndim and not _is_plain(<PyObject*>x) or _is_strict():
        return None
    if not PyArray_FLAGS(x) & NPY_ARRAY_ALIGNED or ndim > MOST_DIMENSIONS:
        return None
    for i in range(parts):
        part = PyTuple_GET_ITEM(<PyObject*>key, i)
        indices[i] = NULL
        if _index_at(owner, part, &single):
            place = _wrapped(single, PyArray_DIMS(x)[i])
            if place < 0:
                return None
            data += place * PyArray_STRIDES(x)[i]
            continue
        if part.ob_type != <void*>_Array or not _share(<Operand>part, owner):
            return None
        which = _native_of(part)
        if not _is_plain(<PyObject*>which) or PyArray_TYPE(which) != NPY_INTP:
            return None
        if model != NULL and not _same_shape(which, model):
            return None
        model, indices[i] = which, <npy_intp*>PyArray_DATA(which)
    more = 0 if model == NULL else PyArray_NDIM(model)
    if more == 0 or more + ndim - parts > MOST_DIMENSIONS:
        return None
    for i in range(more):
        dims[i] = PyArray_DIMS(model)[i]
    for i in range(parts, ndim):
        dims[more + i - parts] = PyArray_DIMS(x)[i]
        chunk *= PyArray_DIMS(x)[i]
    number = _size(model, LONG)
    if number < 1 or not 0 < chunk < LONG or number * chunk >= LONG:
        return None  # of many parts NumPy's own way costs little beside them
    made = _new(slot.descr, more + ndim - parts, dims)
    cdef char* into = _data(made)
    chunk *= slot.size
    for k in range(number):
        source = data
        for i in range(parts):
            if indices[i] != NULL:
                place = _wrapped(indices[i][k], PyArray_DIMS(x)[i])
                if place < 0:
                    return None
                source += place * PyArray_STRIDES(x)[i]
        memcpy(into + k * chunk, source, chunk)
    return made


cdef void _gather_stretch(Work* work, npy_intp start, npy_intp stop) noexcept nogil:
    """Copy some chunks, of one block of an array after the other."""
    cdef npy_intp chunk = work.steps[2], first = start * ROW, end = min(stop * ROW, work.size)
    cdef npy_intp* indices = <npy_intp*>work.operands[1]
    cdef npy_intp block, at, number
    while first < end:
        block = first // work.group
        at = first - block * work.group
        number = min(work.group - at, end - first)
        if not _gather(
            work.operands[2] + first * chunk,
            work.operands[0] + block * work.length * chunk,
            indices + at,
            number,
            work.length,
            chunk,
        ):
            work.failed = True
            return
        first += number


cdef inline npy_intp _wrapped(npy_intp place, npy_intp length) noexcept nogil:
    """Return the place that an index means, -1 if it is out of bounds."""
    if place < 0:
        place += length
    return place if 0 <= place < length else -1


cdef bint _gather_items(
    Chunk* into, Chunk* source, npy_intp* indices, npy_intp number, npy_intp length
) noexcept nogil:
    cdef npy_intp i, place
    for i in range(number):
        place = _wrapped(indices[i], length)
        if place < 0:
            return False
        # Several items of a smaller dtype need not be aligned as one of so many bytes is.
        memcpy(&into[i], &source[place], sizeof(Chunk))
    return True


cdef bint _gather(
    char* into, char* source, npy_intp* indices, npy_intp number, npy_intp length, npy_intp chunk
) noexcept nogil:
    """Copy chunks of bytes at indices; False if there is a bad one."""
    cdef npy_intp i, place
    # Of each size a loop of its own: to ask for it at each index takes a third of the time more.
    if chunk == 8:
        return _gather_items(<long long*>into, <long long*>source, indices, number, length)
    if chunk == 4:
        return _gather_items(<int*>into, <int*>source, indices, number, length)
    if chunk == 1:
        return _gather_items(<signed char*>into, <signed char*>source, indices, number, length)
    if chunk == 2:
        return _gather_items(<short*>into, <short*>source, indices, number, length)
    if chunk == 16:
        return _gather_items(<TwoWords*>into, <TwoWords*>source, indices, number, length)
    for i in range(number):
        place = _wrapped(indices[i], length)
        if place < 0:
            return False
        memcpy(into + i * chunk, source + place * chunk, chunk)
    return True


cdef bint _scattered(Slot* slot, PyArrayObject* x, PyArrayObject* which, PyArrayObject* given) noexcept:
    """Write parts of a contiguous array at indices of 64 bits; False for others, and bad indices.

    They are written one after the other: of an index that is there twice the last one stays.
    """
    cdef npy_intp chunk = slot.size, step, i, number = _size(which, PY_SSIZE_T_MAX)
    cdef int j, ndim = PyArray_NDIM(x), more = PyArray_NDIM(which)
    if PyArray_TYPE(which) != NPY_INTP or ndim == 0 or more == 0:
        return False
    if not _is_plain(<PyObject*>x) or not _is_plain(<PyObject*>which) or not _is_plain(<PyObject*>given):
        return False
    if PyArray_NDIM(given) == 0:
        if ndim > 1:
            return False
        step = 0
    else:
        if PyArray_NDIM(given) != ndim + more - 1:
            return False
        for j in range(more):
            if PyArray_DIMS(given)[j] != PyArray_DIMS(which)[j]:
                return False
        for j in range(1, ndim):
            if PyArray_DIMS(given)[more + j - 1] != PyArray_DIMS(x)[j]:
                return False
            chunk *= PyArray_DIMS(x)[j]
        step = chunk
    cdef npy_intp length = PyArray_DIMS(x)[0]
    cdef npy_intp* indices = <npy_intp*>PyArray_DATA(which)
    if chunk == 0:
        return False  # NumPy has a word on indices into nothing
    for i in range(number):
        if not -length <= indices[i] < length:
            return False
    _scatter(<char*>PyArray_DATA(x), <char*>PyArray_DATA(given), step, indices, number, length, chunk)
    return True


cdef inline void _scatter_items(
    Chunk* into, char* source, npy_intp step, npy_intp* indices, npy_intp number, npy_intp length
) noexcept:
    cdef npy_intp i
    for i in range(number):
        memcpy(&into[_wrapped(indices[i], length)], source + i * step, sizeof(Chunk))


cdef void _scatter(
    char* into,
    char* source,
    npy_intp step,
    npy_intp* indices,
    npy_intp number,
    npy_intp length,
    npy_intp chunk,
) noexcept:
    """Copy chunks of bytes, which stand a step apart, to indices that are good."""
    cdef npy_intp i
    if chunk == 8:
        _scatter_items(<long long*>into, source, step, indices, number, length)
    elif chunk == 4:
        _scatter_items(<int*>into, source, step, indices, number, length)
    elif chunk == 1:
        _scatter_items(<signed char*>into, source, step, indices, number, length)
    elif chunk == 2:
        _scatter_items(<short*>into, source, step, indices, number, length)
    elif chunk == 16:
        _scatter_items(<TwoWords*>into, source, step, indices, number, length)
    else:
        for i in range(number):
            memcpy(into + _wrapped(indices[i], length) * chunk, source + i * step, chunk)
