# Elementwise operations: of two operands, of one, beside Python scalars, and in place.
# Included by _hot_compiled.pyx.

cdef inline bint _share(Operand x, Operand y) except -1:
    """Say whether two operands have one backend and device."""
    cdef Slots a = x._table, b = y._table
    return a is b or a.backend is b.backend and a.device is b.device


cdef object _binary(str name, int place, Operand x, Operand y):
    """Run an operation on two operands of one table."""
    cdef Slots table = x._table
    cdef Slot* slot = &table.slots[place]
    cdef object native, out
    if slot.short:
        made = _short_binary(slot, <PyObject*>x._native, <PyObject*>y._native)
        if made is not None:
            return _make(made, <Slots>slot.result)
    if slot.native != NULL:
        native = <object>slot.native
        out = None if slot.result == NULL else <object>slot.result
    else:
        native, out = table[name]
    left, right = x._native, y._native  # a finalizer may put others in their place meanwhile
    try:
        made = native(left, right)
    except Exception as error:
        made = _recover(name, table, (x, y), error, native, left, right)
    if type(made) is not type(left):
        return _wrap(made, table, out)
    return _make(made, <Slots>out)


cdef object _unary(str name, int place, Operand x):
    cdef Slots table = x._table
    cdef Slot* slot = &table.slots[place]
    cdef object native, out
    if slot.short:
        made = _short_unary(slot, <PyObject*>x._native)
        if made is not None:
            return _make(made, <Slots>slot.result)
    if slot.native != NULL:
        native = <object>slot.native
        out = None if slot.result == NULL else <object>slot.result
    else:
        native, out = table[name]
    held = x._native  # as in `_binary`
    try:
        made = native(held)
    except Exception as error:
        made = _recover(name, table, (x,), error, native, held)
    if type(made) is not type(held):
        return _wrap(made, table, out)
    return _make(made, <Slots>out)


def _recover_beside(name, Operand x, error, native, element, first):
    # Not cdef: a C compiler puts that into what calls it, which then takes 8 ns longer.
    held = x._native
    if first:
        return _recover(name, x._table, (x,), error, native, element, held)
    return _recover(name, x._table, (x,), error, native, held, element)


cdef object _beside_scalar(str name, int place, Operand x, value, bint first):
    """Return the result beside a Python scalar, None where it may not fit, or is not plain."""
    cdef Slot* slot = &x._table.slots[place]
    if x._table.dtype is _bool:
        return _widened_beside(place, x, value, first)
    if place == _POW and not first and _is_squared(x._table, value):
        return _unary("square", _SQUARE, x)
    if not slot.short:
        if slot.scalar_first if first else slot.scalar_second:
            return _beside_taken(name, place, x, value, first)
        return _widened_beside(place, x, value, first)
    if type(value) is float and PyTypeNum_ISINTEGER(slot.type_num):
        return _widened_beside(place, x, value, first)
    if not first and _is_refused(slot, place, value):
        return None
    made = _short_scalar(slot, <PyObject*>x._native, value, first)
    if made is None:
        element = _element(slot, value)
        if element is None or slot.native == NULL:  # another thread cleared the table meanwhile
            return None
        native, result = <object>slot.native, <object>slot.result
        held = x._native  # as in `_binary`
        try:
            made = native(element, held) if first else native(held, element)
        except Exception as error:
            made = _recover_beside(name, x, error, native, element, first)
        if not _is_array(<PyObject*>made):
            made = x._table.backend.normalize(made)
        return _make(made, <Slots>result)
    return _make(made, <Slots>slot.result)


cdef inline bint _is_squared(Slots table, value) except -1:
    """As `corepy.dispatch._short_scalars.squares`."""
    if type(value) is int:
        return value == 2 and table.dtype is not _bool
    return type(value) is float and <double>value == 2.0 and table.dtype in FLOATING


cdef object _with_scalar(Slots table, int place, native, value, bint first):
    """Return the result of an operand that was converted for a scalar's sake; None as elsewhere.

    Powers to 2 are squares.
    """
    cdef Slot* slot = &table.slots[place]
    if place == _POW and not first and <object>value == 2:
        slot = _resolved_if_any(table, _SQUARE)
        made = None if slot == NULL else _short_unary(slot, <PyObject*>native)
    else:
        made = _short_scalar(slot, <PyObject*>native, value, first)
    return None if made is None else _make(made, <Slots>slot.result)


cdef inline bint _is_refused(Slot* slot, int place, value) except -1:
    """Say whether a scalar is what integers are not shifted by, nor raised to: a negative one."""
    if place != _POW and place != _LEFT_SHIFT and place != _RIGHT_SHIFT:
        return False
    return type(value) is int and PyTypeNum_ISINTEGER(slot.type_num) and value < 0


cdef bint _fits_beside(Operand x, value) except -1:
    """Say whether the dtype of integers holds an int that stands beside them; of booleans int64."""
    cdef PyArrayObject* native = <PyArrayObject*><PyObject*>x._native
    cdef long long room
    cdef Slot own
    own.type_num, own.size = PyArray_TYPE(native), PyArray_ITEMSIZE(native)
    if own.type_num == NPY_BOOL:
        own.type_num, own.size = NPY_INT64, 8
    return _integer(&own, value, &room)


cdef object _widened_beside(int place, Operand x, value, bint first):
    """Return the result of integers beside a float, or divided, in the default dtype of floats.

    Or that of booleans beside a number, in the default dtype of its kind.
    """
    cdef PyObject* found
    if _is_strict() or not _is_array(<PyObject*>x._native):
        return None
    cdef int type_num = PyArray_TYPE(<PyArrayObject*><PyObject*>x._native)
    cdef bint floats = type(value) is float or place == _DIVIDE
    if type_num != NPY_BOOL and not PyTypeNum_ISINTEGER(type_num):
        return None
    if type(value) is int:
        if type_num != NPY_BOOL and not floats or not _fits_beside(x, value):
            return None
        if not first and value < 0 and place in (_POW, _LEFT_SHIFT, _RIGHT_SHIFT):
            return None
    found = PyDict_GetItemWithError(x._table.siblings, _float64 if floats else _int64)
    if found == NULL:
        return None
    cdef Slot* slot = _resolved_if_any(<Slots>found, place)
    if slot == NULL or slot.type_num != (NPY_DOUBLE if floats else NPY_INT64):
        return None
    native = _converted(slot, x)
    return None if native is None else _with_scalar(<Slots>found, place, native, value, first)


cdef object _divided(Operand x, Operand y):
    """Return the quotients of integers of one dtype, as floats; None where the entry has to."""
    cdef PyObject* found
    if _is_strict() or not _is_array(<PyObject*>x._native):
        return None
    if not PyTypeNum_ISINTEGER(PyArray_TYPE(<PyArrayObject*><PyObject*>x._native)):
        return None
    found = PyDict_GetItemWithError(x._table.siblings, _float64)
    if found == NULL:
        return None
    cdef Slot* slot = _resolved_if_any(<Slots>found, _DIVIDE)
    if slot == NULL or slot.type_num != NPY_DOUBLE:
        return None
    left, right = _converted(slot, x), _converted(slot, y)
    if left is None or right is None:
        return None
    made = _short_binary(slot, <PyObject*>left, <PyObject*>right)
    return None if made is None else _make(made, <Slots>slot.result)


cdef Slot* _resolved_if_any(Slots table, int place) except? NULL:
    """As `_resolved`, NULL too where the dtype has no such operation: whoever asks words that."""
    try:
        return _resolved(table, place)
    except TypeError:
        return NULL


cdef object _beside_truth(str name, int place, Operand x, value, bint first):
    """Return the result beside a boolean, which numbers take as one of theirs; None for others."""
    cdef Slot* slot
    if _is_strict():
        return None
    if x._table.dtype is not _bool:
        return _beside_scalar(name, place, x, 1 if value is True else 0, first)
    slot = &x._table.slots[place]
    held = _side_by_side(<PyObject*>x._native) if slot.short else None
    if held is None:
        return None
    made = _short_scalar(slot, <PyObject*>held, value, first)
    return None if made is None else _make(made, <Slots>slot.result)


cdef object _beside_complex(int place, Operand x, value, bint first):
    """Return the result beside a complex number, in a complex dtype; None where others have to."""
    cdef PyObject* found
    native = held = x._native
    if not _is_plain(<PyObject*>held) and place in (_ADD, _SUBTRACT, _EQUAL, _NOT_EQUAL):
        native = held = _side_by_side(<PyObject*>held)  # products are rounded otherwise there
    if _is_strict() or not _is_plain(<PyObject*>held):
        return None
    cdef PyArrayObject* real = <PyArrayObject*><PyObject*>held
    cdef int type_num = PyArray_TYPE(real)
    if type_num == NPY_BOOL:
        return None
    if type_num == NPY_CFLOAT or type_num == NPY_CDOUBLE:
        found = <PyObject*>x._table
    else:
        wide = complex64 if type_num == NPY_FLOAT else complex128
        found = PyDict_GetItemWithError(x._table.siblings, wide)
        if found == NULL:
            return None
    cdef Slot* slot = &(<Slots>found).slots[place]
    if not slot.short or _size(real, slot.leasts[ALIKE]) < 0:
        return None
    if found != <PyObject*>x._table:
        native = _new_if_any(slot.operand, PyArray_NDIM(real), PyArray_DIMS(real))
        if native is None:
            return None
        PyArray_CopyInto(<PyArrayObject*><PyObject*>native, real)
    return _with_scalar(<Slots>found, place, native, value, first)


cdef object _beside_taken(str name, int place, Operand x, value, bint first):
    """As `_beside_scalar`, where the entry takes Python scalars."""
    cdef Slots table = x._table
    cdef Slot* slot = &table.slots[place]
    cdef object native, out
    given = _fitted(table, value, not first and (place == _LEFT_SHIFT or place == _RIGHT_SHIFT))
    if given is None or slot.native == NULL:
        return None
    native = <object>slot.native
    out = None if slot.result == NULL else <object>slot.result
    held = x._native  # as in `_binary`
    try:
        made = native(given, held) if first else native(held, given)
    except Exception as error:
        made = _recover_beside(name, x, error, native, given, first)
    if type(made) is not type(held):
        return _wrap(made, table, out)
    return _make(made, <Slots>out)


cdef object _fitted(Slots table, value, bint natural):
    """Return a Python float or int as the dtype's, None unless that surely holds it.

    As `corepy.dispatch._short_scalars.fitted`, and None for a negative one where it is `natural`.
    """
    cdef int overflow = 0
    cdef long long number
    if type(value) is float:
        if table.floating == 8 or (table.floating == 4 and -_large <= <double>value <= _large):
            return value
        return None
    number = PyLong_AsLongLongAndOverflow(<PyObject*>value, &overflow)
    if overflow or not table.least <= number <= table.most or (natural and number < 0):
        return None
    return <double>number if table.floating else value


cdef object _number(Operand x, bint any_kind):
    """Return the value of a real array of no dimension, or one of any kind; None for others."""
    cdef PyArrayObject* native
    if not _is_array(<PyObject*>x._native):
        return None
    native = <PyArrayObject*><PyObject*>x._native
    if PyArray_NDIM(native) != 0:
        return None
    cdef int kind = PyArray_TYPE(native)
    if _is_plain(<PyObject*>native):  # what programs ask most, without NumPy's help
        if kind == NPY_DOUBLE:
            return (<double*>PyArray_DATA(native))[0]
        if kind == NPY_INT64:
            return (<int64_t*>PyArray_DATA(native))[0]
        if kind == NPY_BOOL:
            return (<char*>PyArray_DATA(native))[0] != 0
    if kind == NPY_DOUBLE or kind == NPY_FLOAT or kind == NPY_BOOL or PyTypeNum_ISINTEGER(kind):
        return PyArray_GETITEM(native, <char*>PyArray_DATA(native))
    if any_kind and _is_complex(kind):
        return PyArray_GETITEM(native, <char*>PyArray_DATA(native))
    return None


cdef object _promoted(int place, Operand x, Operand y):
    """Return the result of operands of two dtypes and one backend, None where others have to."""
    cdef Slots a = x._table, b = y._table
    cdef PyObject* found
    if _is_strict() or not _share(x, y):
        return None
    found = _common(a.dtype, b.dtype)
    if found == NULL:
        return None
    found = PyDict_GetItemWithError(a.siblings, <object>found)
    if found == NULL:
        return None
    cdef Slot* slot = &(<Slots>found).slots[place]
    if not slot.short:
        return None
    left = x._native if a is <Slots>found else _converted(slot, x)
    right = y._native if b is <Slots>found else _converted(slot, y)
    if left is None or right is None:
        return None
    made = _short_binary(slot, <PyObject*>left, <PyObject*>right)
    return None if made is None else _make(made, <Slots>slot.result)


cdef object _converted(Slot* slot, Operand x):
    """Return a small array in the dtype of an operation, None where the entry has to."""
    return _converted_native(slot, x._native)


cdef object _converted_native(Slot* slot, given):
    if not _is_array(<PyObject*>given):
        return None
    cdef PyArrayObject* native = <PyArrayObject*><PyObject*>given
    cdef npy_intp size = _size(native, slot.least)
    cdef bint plain = _is_plain(<PyObject*>native)
    if size < 0:
        return None
    if not plain and PyArray_NDIM(native) <= MOST_DIMENSIONS and _lies_by_columns(native):
        made = _converted_native(slot, _reversed(native))
        return None if made is None else _reversed(<PyArrayObject*><PyObject*>made)
    made = _new_if_any(slot.operand, PyArray_NDIM(native), PyArray_DIMS(native))
    if made is None:
        return None
    if plain and not _casts_alone(PyArray_TYPE(native), slot.operand.type_num):
        if _cast_array(native, <PyArrayObject*>made, size, NULL):
            return made
        if not _wraps_around(PyArray_TYPE(native)):
            return None
    PyArray_CopyInto(<PyArrayObject*>made, native)
    return made


cdef object _packed(native):
    """Copy the few elements of a part of an array, None where there are many."""
    cdef PyArrayObject* x = <PyArrayObject*><PyObject*>native
    return None if _size(x, LONG) < 1 else _without_gaps(x)


cdef object _side_by_side(PyObject* x):
    """Return an array if it is contiguous, else a copy that is, None where that has many elements."""
    held = <object>x  # others may put another one into its Array while NumPy copies it
    if _is_plain(x):
        return held
    return _packed(held) if _is_array(x) else None


cdef bint _short_inplace(int place, Operand x, other) except -1:
    """Write the result of an operation into its first operand; False where the method has to.

    Of few elements it is computed beside it first: where a flag was raised, the method needs the
    operand as it was.
    """
    cdef Slot* slot = &x._table.slots[place]
    cdef PyArrayObject* native
    if _is_array(<PyObject*>other):
        other = _adopted(<PyObject*>other, _adopting)
        if other is None:
            return False
    elif type(other) is not _Array and type(other) is not float and type(other) is not int:
        scalar = _scalar_over(x, other)
        other = other if scalar is None else scalar
    if slot.native == NULL:
        try:
            slot = _resolved(x._table, place)
        except Exception as error:  # the method raises it again, in the operator's name
            let_through(error)
            return False
        if slot == NULL:
            return False
    if not slot.short or slot.result != <PyObject*>x._table or not _is_array(<PyObject*>x._native):
        return False
    held = x._native
    native = <PyArrayObject*><PyObject*>held
    if not PyArray_FLAGS(native) & NPY_ARRAY_WRITEABLE:
        return False
    if not _is_plain(<PyObject*>held) and _is_turned_with(x, other):
        right = _turned(<Operand>other) if type(other) is _Array else other
        return _short_inplace(place, _turned(x), right)
    cdef bint lone = _size(native, 2) >= 0  # what is computed beside it, as NumPy does
    if lone and _overwritten_alone(slot, place, native, x, other):
        return True
    if _is_complex(slot.type_num) and place != _POW or _never_warns(slot.type_num, place):
        if not lone and _overwritten(slot, place, x, native, other):
            return True
        if _is_complex(slot.type_num):
            # Products that are not written over are rounded otherwise.
            if place != _ADD and place != _SUBTRACT or _size(native, LONG) < 0:
                return False
    if not lone and _overwritten_at_once(slot, place, x, native, other):
        return True
    cdef bint plain = _is_plain(<PyObject*>native)
    left = held if plain else _packed(held)
    if left is None:
        return False
    if type(other) is _Array and (<Operand>other)._table is x._table:
        right = (<Operand>other)._native
        if not _is_array(<PyObject*>right):
            return False
        if not _fits_over(native, <PyArrayObject*><PyObject*>right):
            return False  # before anything is computed, which may warn
        if not plain and not _is_plain(<PyObject*>right):
            right = _packed(right)
        made = _short_binary(slot, <PyObject*>left, <PyObject*>right)
    elif place == _POW and _is_squared(x._table, other):
        slot = _resolved_if_any(x._table, _SQUARE)
        made = None if slot == NULL else _short_unary(slot, <PyObject*>left)
    elif (type(other) is float or type(other) is int) and not _is_refused(slot, place, other):
        made = _short_scalar(slot, <PyObject*>left, other, False)
    else:
        return False
    if made is None or not _same_shape(<PyArrayObject*>made, native):
        return False
    if not plain:
        PyArray_CopyInto(native, <PyArrayObject*>made)
        return True
    memcpy(
        PyArray_DATA(native),
        _data(made),
        _size(native, PY_SSIZE_T_MAX) * slot.size,
    )
    return True


cdef inline bint _is_turned_with(Operand x, other) noexcept:
    """Say whether an array lies by columns, and an array beside it does in the same shape."""
    cdef PyArrayObject* native = _native_of(<PyObject*>x)
    cdef PyArrayObject* beside
    if not _lies_by_columns(native) or PyArray_NDIM(native) > MOST_DIMENSIONS:
        return False
    if type(other) is not _Array:
        return True
    beside = _native_of(<PyObject*>other)
    return (
        (<Operand>other)._table is x._table
        and _is_array(<PyObject*>beside)
        and _lies_by_columns(beside)
        and _same_shape(native, beside)
    )


cdef inline Operand _turned(Operand x):
    return _make(_reversed(_native_of(<PyObject*>x)), x._table)


cdef inline bint _never_warns(int type_num, int place) noexcept:
    """Say whether an operation's loop raises no flag, whatever its operands are."""
    if type_num != NPY_BOOL and not PyTypeNum_ISINTEGER(type_num):
        return False
    return place in (_ADD, _SUBTRACT, _MULTIPLY, _AND, _OR, _XOR)


cdef npy_intp _place_over(
    Slot* slot, Operand owner, PyArrayObject* x, other, npy_intp most,
    char** args, npy_intp* steps, double* element,
) except -2:
    """Find the operands of an operation whose result goes over the first, and how many elements.

    -1 where the method has to. The caller holds the native arrays.
    """
    cdef npy_intp size = _size(x, most)
    cdef PyArrayObject* y
    if size < 2 or not _is_plain(<PyObject*>x):
        return -1  # NumPy copies a single one
    steps[0] = steps[1] = steps[2] = slot.size
    args[0] = args[2] = <char*>PyArray_DATA(x)
    if type(other) is _Array:
        right = (<Operand>other)._native
        if (<Operand>other)._table is not owner._table or not _is_plain(<PyObject*>right):
            return -1
        y = <PyArrayObject*><PyObject*>right
        if PyArray_NDIM(y) == 0:
            steps[1] = 0
        elif not _same_shape(x, y):
            return -1
        args[1] = <char*>PyArray_DATA(y)
        if (args[0] != args[1] or steps[1] == 0) and _may_overlap(x, y):
            return -1
    elif _scalar(slot, other, element):
        args[1], steps[1] = <char*>element, 0
    else:
        return -1
    return size


cdef bint _overwritten(Slot* slot, int place, Operand owner, PyArrayObject* x, other) except -1:
    """Write a result over its first operand, element by element; False where the method has to.

    NumPy's loops for complex numbers round otherwise there. Few of these are kept for a flag.
    """
    cdef double element[2]
    cdef char* args[3]
    cdef npy_intp steps[3]
    cdef bint kept = not _never_warns(slot.type_num, place)
    held = (<Operand>other)._native if type(other) is _Array else None
    cdef npy_intp size = _place_over(
        slot, owner, x, other, SHORT if kept else slot.leasts[ALIKE], args, steps, element
    )
    if size < 0:
        return False
    if not kept:
        return _maps(slot, args, 3, size, steps)
    before = _without_gaps(x)
    if before is None:
        return False
    if _calls(slot, args, size, steps):
        return True
    memcpy(args[0], PyArray_DATA(<PyArrayObject*>before), size * slot.size)
    return False


cdef bint _overwritten_alone(
    Slot* slot, int place, PyArrayObject* x, Operand owner, other
) except -1:
    """Compute a single real number, and put it over the first operand; False where the method has to."""
    cdef double element[2]
    cdef double made[2]
    cdef char* args[3]
    cdef npy_intp steps[3]
    cdef PyArrayObject* y
    if place == _POW or slot.finite or _is_complex(slot.type_num):
        return False
    if _size(x, min(<npy_intp>2, slot.leasts[ALIKE])) != 1 or not _is_plain(<PyObject*>x):
        return False
    if type(other) is _Array:
        y = _native_of(<PyObject*>other)
        if (<Operand>other)._table is not owner._table or not _is_plain(<PyObject*>y):
            return False
        if PyArray_NDIM(y) != 0:
            return False
        memcpy(element, PyArray_DATA(y), slot.size)
    elif type(other) is not float and type(other) is not int or _is_refused(slot, place, other):
        return False
    elif not _scalar(slot, other, element):
        return False
    args[0], args[1], args[2] = <char*>PyArray_DATA(x), <char*>element, <char*>made
    steps[0] = steps[1] = steps[2] = slot.size
    if not _maps(slot, args, 3, 1, steps):
        return False
    memcpy(args[0], made, slot.size)
    return True


#: What Python calls operations that are written over many numbers, but for squares.
cdef dict _OVER = {
    "add": "__iadd__",
    "subtract": "__isub__",
    "multiply": "__imul__",
    "divide": "__itruediv__",
}


cdef bint _overwritten_at_once(
    Slot* slot, int place, Operand owner, PyArrayObject* x, other
) except -1:
    """Do so with many real numbers. Nothing is kept to be computed again: NumPy is told of flags."""
    cdef double element[2]
    cdef char* args[3]
    cdef npy_intp steps[3]
    cdef npy_intp size
    cdef bint floats = slot.type_num == NPY_DOUBLE or slot.type_num == NPY_FLOAT
    held = (<Operand>other)._native if type(other) is _Array else None
    if place == _POW:
        if _is_complex(slot.type_num) or not _is_squared(owner._table, other):
            return False
        if not _is_plain(<PyObject*>x):
            return False
        place, slot = _SQUARE, _resolved_if_any(owner._table, _SQUARE)
        if slot == NULL or not slot.shares or slot.finite:
            return False
        size = _size(x, slot.leasts[ALIKE])
        if size < LONG:
            return False
        args[0] = args[1] = <char*>PyArray_DATA(x)
        steps[0] = steps[1] = slot.size
        _map_over(slot, args, 2, size, steps)
    elif not slot.shares or slot.finite or not (
        _never_warns(slot.type_num, place)
        or floats and place in (_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE)
    ):
        return False
    elif type(other) is not _Array and type(other) is not float and type(other) is not int:
        return False
    else:
        size = _place_over(slot, owner, x, other, slot.leasts[ALIKE], args, steps, element)
        if size >= LONG:
            _map_over(slot, args, 3, size, steps)
        elif not _laid_over(slot, owner, x, other, held, <char*>element):
            return False
    if corepy_all_flags():
        try:
            _tell(slot.told)
        except Exception as error:
            from corepy.dispatch._run import fail

            fail(_OVER.get(_names[place], _names[place]), (owner, other), error)
    return True


cdef inline bint _laid_over(
    Slot* slot, Operand owner, PyArrayObject* x, other, held, char* element
) except -1:
    """Do so where operands are laid out otherwise."""
    if held is None:
        return _scalar(slot, other, element) and _grid_over(slot, x, NULL, element)
    cdef PyArrayObject* y = <PyArrayObject*><PyObject*>held
    if (<Operand>other)._table is not owner._table or not _is_array(<PyObject*>held):
        return False
    if _is_plain(<PyObject*>x) and _is_plain(<PyObject*>held) and _spread_over(slot, x, y):
        return True
    return _grid_over(slot, x, y, NULL)


cdef int _map_over(
    Slot* slot, char** args, int count, npy_intp size, npy_intp* steps
) except -1:
    """Call an elementwise loop on many elements, whatever flags that raises."""
    cdef Work work
    _describe(&work, slot, args, count, size, steps)
    work.stretch, work.rows = _map_stretch, (size + ROW - 1) // ROW
    return _do(&work, size, &slot.pace[ALIKE])


cdef object _quick(str name, int place, x1, x2):
    """Return the result where nothing has to be converted, None elsewhere."""
    if type(x1) is _Array:
        if type(x2) is _Array:
            if (<Operand>x1)._table is (<Operand>x2)._table:
                if place == _DIVIDE and not (<Operand>x1)._table.slots[place].short:
                    made = _divided(<Operand>x1, <Operand>x2)
                    if made is not None:
                        return made
                return _binary(name, place, <Operand>x1, <Operand>x2)
            return _promoted(place, <Operand>x1, <Operand>x2)
        elif type(x2) is float or type(x2) is int:
            return _beside_scalar(name, place, <Operand>x1, x2, False)
        elif type(x2) is complex:
            return _beside_complex(place, <Operand>x1, x2, False)
        elif type(x2) is bool:
            return _beside_truth(name, place, <Operand>x1, x2, False)
    elif type(x2) is _Array:
        if type(x1) is float or type(x1) is int:
            return _beside_scalar(name, place, <Operand>x2, x1, True)
        elif type(x1) is complex:
            return _beside_complex(place, <Operand>x2, x1, True)
        elif type(x1) is bool:
            return _beside_truth(name, place, <Operand>x2, x1, True)
    return None


cdef object _promoting_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Return the dtype that arrays and dtypes promote to."""
    cdef PyObject* found = NULL
    cdef PyObject* dtype
    cdef Py_ssize_t i
    if names != NULL:
        return None
    for i in range(count):
        if args[i].ob_type == <void*>_Array:
            dtype = <PyObject*>(<Operand>args[i])._table.dtype
        elif args[i].ob_type == <void*>_DType:
            dtype = args[i]
        else:
            return None
        if found == NULL:
            found = dtype
        elif found != dtype:
            found = _common(<object>found, <object>dtype)
            if found == NULL:
                return None
    return None if found == NULL else <object>found


cdef PyObject* _common(a, b) except? NULL:
    """Return what two dtypes promote to, NULL where that is nothing, or the strict reading asks."""
    pair = a, b
    cdef PyObject* found = PyDict_GetItemWithError(_promotion, pair)
    if found == NULL and not _is_strict():
        found = PyDict_GetItemWithError(_mixed_promotion, pair)
    return found


cdef object _operator(str name, int place, x1, x2):
    made = _quick(name, place, x1, x2)
    if made is not None:
        return made
    if (x1 is None or x2 is None) and not _is_strict():
        return NotImplemented  # which Python takes for unequal, or refuses
    if _is_array(<PyObject*>x2):
        native = _adopted(<PyObject*>x2, _adopting)
        made = None if native is None else _quick(name, place, x1, native)
    elif _is_array(<PyObject*>x1):
        native = _adopted(<PyObject*>x1, _adopting)
        made = None if native is None else _quick(name, place, native, x2)
    elif type(x1) is _Array:
        native = _scalar_beside(<Operand>x1, x2)
        made = None if native is None else _quick(name, place, x1, native)
    elif type(x2) is _Array:
        native = _scalar_beside(<Operand>x2, x1)
        made = None if native is None else _quick(name, place, native, x2)
    return _beside(name, x1, x2) if made is None else made


def binary_function(str name):
    """As `corepy.dispatch._hot_python.binary_function`, which takes what is not plain."""
    return _before(_binary_way, name, _hot_python.binary_function(name))


def unary_function(str name):
    """As `corepy.dispatch._hot_python.unary_function`, which takes what is not plain."""
    return _before(_unary_way, name, _hot_python.unary_function(name))
