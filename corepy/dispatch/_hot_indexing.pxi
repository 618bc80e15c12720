# Indexing: reading and writing what a key selects.
# Included by _hot_compiled.pyx.

cdef object _short_item(Operand owner, Slot* slot, key):
    """Return what a key selects, None where the method has to."""
    native = owner._native  # a finalizer may put another in its place
    if not _is_array(<PyObject*>native):
        return None
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>native
    if type(key) is _Array:
        return _chosen(owner, slot, x, <Operand>key)
    if type(key) is tuple and _holds_array(key):
        if _holds_longer(<PyObject*>key):
            found = _picked_along(owner, slot, x, key)
            if found is None:
                found = _gathered_at(owner, slot, x, key)
        else:
            found = _picked_at(owner, slot, x, key)
        return _picked(owner, x, key) if found is None else found
    return _selected(owner, slot, x, key, False)


cdef inline bint _holds_array(key) noexcept:
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(<PyObject*>key)):
        if PyTuple_GET_ITEM(<PyObject*>key, i).ob_type == <void*>_Array:
            return True
    return False


cdef inline bint _holds_longer(PyObject* key) noexcept:
    """Say whether a key is or holds an array that has dimensions, or is none of NumPy's."""
    cdef Py_ssize_t parts = 1, i
    cdef PyObject** part = &key
    cdef PyArrayObject* x
    if key.ob_type == <void*>&PyTuple_Type:
        parts, part = PyTuple_GET_SIZE(key), PySequence_Fast_ITEMS(<object>key)
    for i in range(parts):
        if part[i].ob_type == <void*>_Array:
            x = _native_of(part[i])
            if not _is_array(<PyObject*>x) or PyArray_NDIM(x) != 0:
                return True
    return False


cdef object _picked_along(Operand owner, Slot* slot, PyArrayObject* x, key):
    """Return what indices along one axis select, None where a key has anything else but ``:``."""
    cdef Py_ssize_t parts = PyTuple_GET_SIZE(<PyObject*>key), i
    cdef int axis = -1
    cdef bint behind = False
    cdef PyObject* part
    which = None
    for i in range(parts):
        part = PyTuple_GET_ITEM(<PyObject*>key, i)
        if part.ob_type == <void*>_Array and which is None:
            which, axis = <object>part, PyArray_NDIM(x) - <int>(parts - i) if behind else <int>i
        elif part == <PyObject*>Ellipsis and not behind:
            behind = True
        elif part.ob_type != <void*>&PySlice_Type or not _is_all(part):
            return None
    if parts - behind > PyArray_NDIM(x) or _is_strict() or not _share(<Operand>which, owner):
        return None
    native = (<Operand>which)._native
    if not _is_array(<PyObject*>native) or PyArray_NDIM(<PyArrayObject*><PyObject*>native) == 0:
        return None  # beside one that has dimensions: NumPy broadcasts them
    return _gathered(slot, x, <PyArrayObject*><PyObject*>native, axis)


cdef object _picked_at(Operand owner, Slot* slot, PyArrayObject* x, key):
    """Copy the few elements that indices of no dimension select, None for other keys with arrays."""
    if _is_strict() or _size(x, PY_SSIZE_T_MAX) == 0:
        return None
    found = _selected(owner, slot, x, key, False)
    if found is None or PyArray_NDIM(<PyArrayObject*><PyObject*>found) == 0 and not _may_overlap(
        x, <PyArrayObject*><PyObject*>found
    ):
        return found
    return _packed(found)  # NumPy makes no view of it either


cdef inline bint _is_all(PyObject* value) noexcept:
    """Say whether a slice is ``:``."""
    cdef PySliceObject* bounds = <PySliceObject*>value
    return bounds.start == Py_None and bounds.stop == Py_None and bounds.step == Py_None


cdef object _picked(Operand owner, PyArrayObject* x, key):
    """Return what NumPy finds for a key with arrays of few elements; None where the method has to."""
    given = _with_natives(owner, x, key)
    if given is None:
        return None
    try:
        found = PyObject_GetItem(<object><PyObject*>x, given)
    except Exception as error:  # the method raises it again, in its own words
        let_through(error)
        return None
    return found if _is_array(<PyObject*>found) else owner._table.backend.normalize(found)


cdef object _with_natives(Operand owner, PyArrayObject* x, key):
    """Return a key with native arrays in the place of others, None for what is not plain.

    NumPy reads the rest as the standard has it, and raises where that has an error: but of indices
    into nothing, or beside an array that selects nothing, at which it does not look.
    """
    cdef Py_ssize_t parts = 1, i
    cdef PyObject* one = <PyObject*>key
    cdef PyObject** part = &one
    cdef PyArrayObject* which
    cdef npy_intp size
    cdef bint indexed = False, nothing = False
    cdef int arrays = 0
    if _is_strict() or _size(x, PY_SSIZE_T_MAX) == 0:
        return None
    if type(key) is tuple:
        parts, part = PyTuple_GET_SIZE(one), PySequence_Fast_ITEMS(key)
    natives = []
    for i in range(parts):
        value = <object>part[i]
        if type(value) is _Array:
            if not _share(<Operand>value, owner) or not _is_array(<PyObject*>(<Operand>value)._native):
                return None
            value = (<Operand>value)._native
            which = <PyArrayObject*><PyObject*>value
            size = _size(which, <npy_intp>SHORT)
            arrays += 1
            if size < 0:
                return None
            if PyArray_TYPE(which) == NPY_BOOL:
                if PyArray_NDIM(which) == 0:
                    return None
                if not _is_plain(<PyObject*>which) or memchr(PyArray_DATA(which), True, size) == NULL:
                    nothing = True
            elif not PyTypeNum_ISINTEGER(PyArray_TYPE(which)):
                return None
            elif PyTypeNum_ISUNSIGNED(PyArray_TYPE(which)) and PyArray_ITEMSIZE(which) == 8:
                return None  # NumPy has those that int64 does not hold count from the end
            else:
                indexed = True
                nothing |= size == 0
        elif type(value) is slice:
            if not _is_plain_slice(part[i]):
                return None
        elif type(value) is not int and value is not None and value is not Ellipsis:
            return None
        natives.append(value)
    if arrays > 1 and indexed and nothing:
        return None
    return tuple(natives) if type(key) is tuple else natives[0]


cdef inline bint _is_plain_slice(PyObject* value) noexcept:
    cdef PySliceObject* bounds = <PySliceObject*>value
    return _is_bound(bounds.start) and _is_bound(bounds.stop) and _is_bound(bounds.step)


cdef object _cut_by_library(Operand owner, Slot* slot, key):
    """Return what an int or a slice of ints selects by the entry; None where the method has to."""
    if slot.native == NULL or _strict:
        return None
    if type(key) is slice:
        if not _is_plain_slice(<PyObject*>key):
            return None
    elif type(key) is not int:
        return None
    native, held = <object>slot.native, owner._native  # as in `_binary`
    try:
        made = native(held, key)
    except Exception as error:  # the method raises it again, in its own words
        let_through(error)
        return None
    return made if type(made) is type(held) else owner._table.backend.normalize(made)


cdef inline bint _is_bound(PyObject* value) noexcept:
    return value == Py_None or value.ob_type == <void*>&PyLong_Type


cdef object _chosen(Operand owner, Slot* slot, PyArrayObject* x, Operand key):
    """Return the elements that a mask of the same shape, or an array of indices, selects."""
    if _is_strict() or not _share(key, owner) or not _is_array(<PyObject*>key._native):
        return None
    cdef PyArrayObject* which = <PyArrayObject*><PyObject*>key._native
    if PyArray_TYPE(which) == NPY_INTP:
        result = None if PyArray_NDIM(x) == 0 else _gathered(slot, x, which, 0)
        return _picked(owner, x, key) if result is None else result
    if PyArray_TYPE(which) != NPY_BOOL or PyArray_NDIM(x) == 0 or not _same_shape(which, x):
        return _picked(owner, x, key)
    if _size(x, slot.least) < 0:
        return None
    result = _masked(slot, x, which)
    if result is None:
        held, mask = owner._native, key._native
        try:
            result = PyObject_GetItem(held, mask)
        except MemoryError as error:  # the entry has what is kept for later freed
            let_through(error)
            return None
    return result if _is_array(<PyObject*>result) else None


cdef object _selected(Operand owner, Slot* slot, PyArrayObject* x, key, bint writing):
    """Return what ints, slices, None and Ellipsis select: a view, or a copy of one element.

    Arrays of no dimension stand for the ints that they hold.

    What is to be written is always a view. None where the method has to say what is wrong, or a key
    is of another kind.
    """
    cdef npy_intp dims[MOST_DIMENSIONS]
    cdef npy_intp strides[MOST_DIMENSIONS]
    cdef char* data = <char*>PyArray_DATA(x)
    cdef int ndim = PyArray_NDIM(x), used = 0, fresh = 0, source = 0, into = 0, i
    cdef bint filled = False
    cdef Py_ssize_t parts = 1, number
    cdef PyObject* one = <PyObject*>key
    cdef PyObject** part = &one
    cdef long place
    if type(key) is tuple:
        parts, part = PyTuple_GET_SIZE(one), PySequence_Fast_ITEMS(key)
    for number in range(parts):
        if part[number].ob_type == <void*>&PyLong_Type or part[number].ob_type == <void*>&PySlice_Type:
            used += 1
        elif part[number].ob_type == <void*>_Array:
            used += 1
        elif <object>part[number] is None:
            fresh += 1
        elif <object>part[number] is Ellipsis and not filled:
            filled = True
        else:
            return None
    if used > ndim or ndim + fresh > MOST_DIMENSIONS:
        return None
    if _is_strict() and (used < ndim or type(key) is not int):  # it wants more of a key
        return None
    for number in range(parts):
        if part[number].ob_type == <void*>&PyLong_Type or part[number].ob_type == <void*>_Array:
            if not _index_at(owner, part[number], &place):
                return None
            if place < 0:
                place += PyArray_DIMS(x)[source]
            if not 0 <= place < PyArray_DIMS(x)[source]:
                return None
            data += place * PyArray_STRIDES(x)[source]
            source += 1
        elif part[number].ob_type == <void*>&PySlice_Type:
            dims[into] = PyArray_DIMS(x)[source]
            strides[into] = PyArray_STRIDES(x)[source]
            if not _cut(owner, part[number], &dims[into], &strides[into], &data):
                return None
            source += 1
            into += 1
        elif <object>part[number] is None:
            dims[into], strides[into] = 1, 0
            into += 1
        else:
            for i in range(ndim - used):
                dims[into], strides[into] = PyArray_DIMS(x)[source], PyArray_STRIDES(x)[source]
                source += 1
                into += 1
    while source < ndim:
        dims[into], strides[into] = PyArray_DIMS(x)[source], PyArray_STRIDES(x)[source]
        source += 1
        into += 1
    if into or filled or writing:
        return _view(x, into, dims, strides, data)
    result = _new(slot.descr, 0, NULL)
    memcpy(_data(result), data, slot.size)
    return result


cdef inline bint _index_at(Operand owner, PyObject* value, long* into) noexcept:
    """Read an int, or an array of no dimension that holds one where the array with the key lives."""
    cdef Slots table
    cdef PyArrayObject* x
    if value.ob_type != <void*>_Array:
        return _whole(value, into)
    table = (<Operand>value)._table
    x = _native_of(value)
    if table.backend is not owner._table.backend or table.device is not owner._table.device:
        return False
    if not _is_plain(<PyObject*>x) or PyArray_NDIM(x) != 0:
        return False
    cdef int kind = PyArray_TYPE(x)
    cdef npy_intp size = PyArray_ITEMSIZE(x)
    cdef char* held = <char*>PyArray_DATA(x)
    cdef long long found
    if not PyTypeNum_ISINTEGER(kind):
        return False
    if PyTypeNum_ISUNSIGNED(kind):
        if size == 1:
            found = (<uint8_t*>held)[0]
        elif size == 2:
            found = (<uint16_t*>held)[0]
        elif size == 4:
            found = (<uint32_t*>held)[0]
        else:
            return False  # NumPy has those that int64 does not hold count from the end
    elif size == 8:
        found = (<int64_t*>held)[0]
    elif size == 4:
        found = (<int32_t*>held)[0]
    elif size == 2:
        found = (<int16_t*>held)[0]
    else:
        found = (<int8_t*>held)[0]
    into[0] = <long>found
    return -0x40000000 <= found <= 0x40000000


cdef inline bint _cut(
    Operand owner, PyObject* key, npy_intp* length, npy_intp* stride, char** data
) noexcept:
    """Apply a slice to a dimension; False if it is not one of ints, or they are great or a step 0."""
    cdef PySliceObject* bounds = <PySliceObject*>key
    cdef long first, last, pace = 1
    cdef Py_ssize_t start, stop
    if bounds.step != Py_None and (not _index_at(owner, bounds.step, &pace) or pace == 0):
        return False
    if bounds.start == Py_None:
        start = PY_SSIZE_T_MAX if pace < 0 else 0
    elif _index_at(owner, bounds.start, &first):
        start = first
    else:
        return False
    if bounds.stop == Py_None:
        stop = -PY_SSIZE_T_MAX if pace < 0 else PY_SSIZE_T_MAX
    elif _index_at(owner, bounds.stop, &last):
        stop = last
    else:
        return False
    length[0] = PySlice_AdjustIndices(length[0], &start, &stop, pace)
    data[0] += start * stride[0]
    stride[0] *= pace
    return True


cdef bint _short_store(Operand owner, key, value) except -1:
    """Write an array of the same table, or a Python scalar; False where the method has to."""
    cdef Slot* slot = &owner._table.slots[_SETITEM]
    cdef double element[2]  # room for any
    cdef char* into
    if not slot.short or _is_strict() or not _is_array(<PyObject*>owner._native):
        return False
    native = owner._native
    cdef PyArrayObject* x = <PyArrayObject*>native
    if not PyArray_FLAGS(x) & NPY_ARRAY_WRITEABLE:
        return False
    if type(value) is _Array:
        if (<Operand>value)._table is not owner._table:
            return False
        given = (<Operand>value)._native
        if not _is_array(<PyObject*>given):
            return False
        if PyArray_NDIM(<PyArrayObject*><PyObject*>given) == 0:
            into = _element_at(owner, x, key)
            if into != NULL:
                memcpy(into, _data(given), slot.size)
                return True
        elif type(key) is _Array and _mark_each(
            owner, slot, x, <Operand>key, <PyArrayObject*><PyObject*>given
        ):
            return True
    else:
        into = _element_at(owner, x, key)
        if into != NULL:
            if not _scalar(slot, value, element):
                return False
            memcpy(into, element, slot.size)
            return True
        given = _element(slot, value)
        if given is None:
            return False
    if type(key) is _Array and PyArray_NDIM(<PyArrayObject*>given) == 0:
        if _mark(owner, slot, x, <Operand>key, given):
            return True
    cdef bint indexed = type(key) is _Array or type(key) is tuple and _holds_array(key)
    target = None
    if not indexed or not _holds_longer(<PyObject*>key):
        target = _selected(owner, slot, x, key, True)
    if target is None and indexed:
        return _put_picked(owner, slot, x, key, given)
    if target is None or PyArray_NDIM(<PyArrayObject*>given) > PyArray_NDIM(<PyArrayObject*>target):
        return False
    if _reads_what_it_wrote(<PyArrayObject*>target, <PyArrayObject*>given):
        given = _packed(given)  # as of a row into a column of the same matrix
        if given is None:
            return False
    try:
        _copy_over(<PyArrayObject*>target, <PyArrayObject*>given)
    except (MemoryError, ValueError) as error:  # of shapes that do not fit: the method says so
        let_through(error)
        return False
    return True


cdef bint _put_picked(Operand owner, Slot* slot, PyArrayObject* x, key, given) except -1:
    """Write where a key with arrays says, or have NumPy if these are few; False where the method has to."""
    cdef PyArrayObject* source = <PyArrayObject*>given
    if PyArray_NDIM(source) and _may_overlap(x, source):
        return False
    if type(key) is tuple and len(key) == 1:
        key = key[0]
    if type(key) is _Array and _is_array(<PyObject*>(<Operand>key)._native):  # see `_setitem`
        if _may_overlap(x, <PyArrayObject*><PyObject*>(<Operand>key)._native):
            return False
        if _share(<Operand>key, owner) and _scattered(
            slot, x, <PyArrayObject*><PyObject*>(<Operand>key)._native, source
        ):
            return True
    where = _with_natives(owner, x, key)
    if where is None:
        return False
    try:
        PyObject_SetItem(<object><PyObject*>x, where, given)
    except Exception as error:  # the method raises it again, in its own words
        let_through(error)
        return False
    return True


cdef bint _may_overlap(PyArrayObject* x, PyArrayObject* y) noexcept:
    """Say whether the memory from the first to the last element of two arrays has a part in common."""
    cdef char* bounds[4]
    _bound_memory(x, &bounds[0], &bounds[1])
    _bound_memory(y, &bounds[2], &bounds[3])
    return bounds[0] < bounds[3] and bounds[2] < bounds[1]


cdef void _bound_memory(PyArrayObject* x, char** first, char** stop) noexcept:
    cdef npy_intp span
    cdef int i
    first[0] = <char*>PyArray_DATA(x)
    stop[0] = first[0] + PyArray_ITEMSIZE(x)
    for i in range(PyArray_NDIM(x)):
        span = (PyArray_DIMS(x)[i] - 1) * PyArray_STRIDES(x)[i]
        first[0] += min(span, <npy_intp>0)
        stop[0] += max(span, <npy_intp>0)


cdef char* _element_at(Operand owner, PyArrayObject* x, key) noexcept:
    """Find one element by an int for each dimension; NULL for other keys, and out of bounds."""
    cdef PyObject* number = <PyObject*>key
    cdef int ndim = PyArray_NDIM(x), i
    cdef bint several = type(key) is tuple
    cdef char* data = <char*>PyArray_DATA(x)
    cdef long place
    if ndim == 0 or (PyTuple_GET_SIZE(number) if several else 1) != ndim:
        return NULL
    for i in range(ndim):
        if several:
            number = PyTuple_GET_ITEM(<PyObject*>key, i)
        if not _index_at(owner, number, &place):
            return NULL
        if place < 0:
            place += PyArray_DIMS(x)[i]
        if not 0 <= place < PyArray_DIMS(x)[i]:
            return NULL
        data += place * PyArray_STRIDES(x)[i]
    return data


cdef bint _reads_what_it_wrote(PyArrayObject* target, PyArrayObject* given) noexcept:
    """Say whether NumPy copies an array into one that overlaps it as if it did not.

    A vector into one of another stride: see `_setitem` of `corepy.backends._numpy`.
    """
    cdef npy_intp into, source
    if PyArray_NDIM(target) != 1 or PyArray_NDIM(given) != 1:
        return False
    if PyArray_STRIDES(target)[0] == PyArray_STRIDES(given)[0] or PyArray_DIMS(given)[0] < 2:
        return False
    into = (PyArray_DIMS(target)[0] - 1) * PyArray_STRIDES(target)[0]
    source = (PyArray_DIMS(given)[0] - 1) * PyArray_STRIDES(given)[0]
    cdef char* first = <char*>PyArray_DATA(target)
    cdef char* other = <char*>PyArray_DATA(given)
    # Elements lie whole before or behind each other: their first bytes tell.
    return (
        first + min(into, 0) <= other + max(source, 0)
        and other + min(source, 0) <= first + max(into, 0)
    )
