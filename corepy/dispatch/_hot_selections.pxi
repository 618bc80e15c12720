# Where extremes stand, choices by a condition, and keys, by NumPy's C interface.
# Included by _hot_compiled.pyx.

cdef object _short_search(Slot* slot, PyArrayObject* x, axis):
    """Return where the extremes stand, or how many elements are not zero."""
    cdef npy_intp size = _size(x, slot.least)
    cdef int ndim = PyArray_NDIM(x), place = NPY_RAVEL_AXIS
    if size < 1:
        return None
    if slot.kind == COUNT:
        if axis is not None:
            return None
        result = _new(slot.descr, 0, NULL)
        (<long long*>PyArray_DATA(<PyArrayObject*>result))[0] = PyArray_CountNonzero(x)
        return result
    if axis is not None:
        if type(axis) is not int or not -ndim <= axis < ndim:
            return None
        place = axis
    result = PyArray_ArgMax(x, place, NULL) if slot.kind == ARGMAX else PyArray_ArgMin(x, place, NULL)
    return result if _is_plain(<PyObject*>result) else None


cdef object _short_choice(Slot* slot, PyObject* which, x1, x2):
    """Return elements of one operand or the other; one of them may be a Python scalar."""
    if not _is_array(which):
        return None
    if PyArray_TYPE(<PyArrayObject*>which) != NPY_BOOL:
        return None
    cdef PyArrayObject* model = NULL
    natives = []
    for x in (x1, x2):
        if type(x) is _Array:
            native = (<Operand>x)._native
            if not _is_array(<PyObject*>native):
                return None
        else:
            native = _element(slot, x)
            if native is None:
                return None
        if _size(<PyArrayObject*>native, slot.least) < 0:
            return None
        natives.append(native)
    if _size(<PyArrayObject*>which, slot.least) < 0:
        return None
    try:
        result = PyArray_Where(<object>which, natives[0], natives[1])
    except ValueError:  # shapes that do not broadcast: the function says which
        return None
    if not _is_plain(<PyObject*>result) or PyArray_TYPE(<PyArrayObject*>result) != slot.type_num:
        return None
    return result


cdef object _short_item(Operand owner, Slot* slot, key):
    """Return what an int, a slice or a mask selects, None where the method has to."""
    cdef PyObject* a = <PyObject*>owner._native
    if not _is_array(a):
        return None
    cdef PyArrayObject* x = <PyArrayObject*>a
    cdef npy_intp place, length
    if type(key) is int and PyArray_NDIM(x) == 1:
        length = PyArray_DIMS(x)[0]
        try:
            place = key
        except OverflowError:
            return None
        if place < 0:
            place += length
        if not 0 <= place < length:
            return None
        result = _new(slot.descr, 0, NULL)
        memcpy(
            PyArray_DATA(<PyArrayObject*>result),
            <char*>PyArray_DATA(x) + place * PyArray_STRIDES(x)[0],
            slot.size,
        )
        return result
    if type(key) is slice:
        if not (
            _is_bound((<slice>key).start)
            and _is_bound((<slice>key).stop)
            and _is_bound((<slice>key).step)
        ):
            return None
    elif type(key) is _Array:
        if not _share(<Operand>key, owner):
            return None
        key = (<Operand>key)._native
        if (
            not _is_array(<PyObject*>key)
            or PyArray_TYPE(<PyArrayObject*><PyObject*>key) != NPY_BOOL
            or not _same_shape(<PyArrayObject*><PyObject*>key, x)
            or PyArray_NDIM(x) == 0
            or _size(x, slot.least) < 0
        ):
            return None
    elif type(key) is not int:
        return None
    try:
        result = PyObject_GetItem(<object>a, key)
    except (IndexError, ValueError, OverflowError):  # the method says what is wrong
        return None
    return result if _is_array(<PyObject*>result) else None


cdef inline bint _is_bound(value) noexcept:
    return value is None or type(value) is int
