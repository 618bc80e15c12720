# Arrays of NumPy's as they come: wrapped at once, where one of their dtype was wrapped before. Scalars
# of NumPy's beside its arrays, and in keys.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    #define COREPY_IS_SCALAR(x) PyArray_IsScalar(x, Generic)
    #define COREPY_IS_INTEGER(x) (PyArray_IsScalar(x, Integer) && !PyArray_IsScalar(x, Timedelta))
    /* None of their subclasses, whose methods may give them other values. */
    #define COREPY_IS_FLOAT64(x) (Py_TYPE(x) == &PyDoubleArrType_Type)
    #define COREPY_IS_COMPLEX128(x) (Py_TYPE(x) == &PyCDoubleArrType_Type)
    #define COREPY_IS_SCALAR_OF(x, descr) (Py_TYPE(x) == (descr)->typeobj)
    """
    bint COREPY_IS_SCALAR(object) noexcept
    bint COREPY_IS_INTEGER(object) noexcept
    bint COREPY_IS_SCALAR_OF(object, PyArray_Descr*) noexcept
    bint COREPY_IS_FLOAT64(object) noexcept
    bint COREPY_IS_COMPLEX128(object) noexcept
    object PyArray_FromScalar(object, PyArray_Descr*)
    object PyNumber_Index(object)


#: By their own dtypes, the tables into which plain arrays of NumPy's are wrapped.
cdef dict _adopting = {}


def adopts(native, Slots table, bint stays):
    """As `corepy.dispatch._hot_python.adopts`."""
    _use_numpy()
    if COREPY_IS_SCALAR_OF(native, <PyArray_Descr*><PyObject*>table.native_dtype):
        descr = table.native_dtype
    elif _is_array(<PyObject*>native):
        descr = <object>PyArray_DESCR(<PyArrayObject*><PyObject*>native)
    else:
        return
    if descr != table.native_dtype:  # in another byte order than the machine's
        return
    if stays:
        homes(False)  # so that they are those of the wish in force
    cdef dict tables = _leaving if stays else _adopting
    tables[descr] = table


cdef object _adopted(PyObject* value, dict tables):
    """Wrap a plain array of NumPy's, in a view of its own; None of others, or where nobody was before.

    Whoever has the array may give it another shape or dtype in place.
    """
    cdef PyArrayObject* x = <PyArrayObject*>value
    cdef PyObject* found
    # Only the dtypes that there are hints of: others may have no hash.
    if not _is_array(value) or not 0 <= PyArray_TYPE(x) <= NPY_CDOUBLE or _is_strict():
        return None
    found = PyDict_GetItemWithError(tables, <object>PyArray_DESCR(x))
    if found == NULL:
        return None
    table = <Slots>found  # another thread may forget it meanwhile
    made = _view(x, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x), <char*>PyArray_DATA(x))
    return _make(made, table)


cdef object _scalar_alone(value):
    """Wrap a scalar of NumPy's where arrays of its dtype went; None of others."""
    cdef PyObject* found
    if not _has_numpy or not COREPY_IS_SCALAR(value) or _is_strict():
        return None
    if PyDict_GetItemWithError(_classes, type(value)) == NULL:
        return None
    native = PyArray_FromScalar(value, NULL)
    descr = <object>PyArray_DESCR(<PyArrayObject*><PyObject*>native)
    found = PyDict_GetItemWithError(_adopting, descr)
    return None if found == NULL else _make(native, <Slots>found)


cdef object _scalar_beside(Operand x, value):
    """Wrap a scalar of NumPy's beside an array of its; None of others."""
    cdef PyObject* dtype
    cdef PyObject* found
    if not _is_array(<PyObject*>x._native) or not COREPY_IS_SCALAR(value) or _is_strict():
        return None
    table = x._table
    native = PyArray_FromScalar(value, NULL)
    if not COREPY_IS_SCALAR_OF(value, PyArray_DESCR(<PyArrayObject*><PyObject*>x._native)):
        dtype = PyDict_GetItemWithError(_classes, type(value))
        if dtype == NULL:
            return None
        found = PyDict_GetItemWithError(table.siblings, <object>dtype)
        if found == NULL and <object>dtype not in table.dtypes:
            return None
        table = <Slots>(table.sibling(<object>dtype) if found == NULL else <object>found)
    # Not one with metadata.
    if <object>PyArray_DESCR(<PyArrayObject*><PyObject*>native) is not table.native_dtype:
        return None
    return _make(native, table)


cdef object _scalar_over(Operand x, value):
    """Return a scalar of NumPy's in the dtype of an array that it is not to widen; None of others."""
    cdef Slot* slot
    scalar = _scalar_beside(x, value)
    if scalar is None or (<Operand>scalar)._table is x._table:
        return scalar
    if _common(x._table.dtype, (<Operand>scalar)._table.dtype) != <PyObject*>x._table.dtype:
        return None
    slot = _resolved(x._table, _FULL)
    native = None if slot == NULL else _converted(slot, <Operand>scalar)
    return None if native is None else _make(native, x._table)


cdef object _scalar_converted(value, PyObject** words):
    """Make an array of a scalar of NumPy's, where `asarray` leaves arrays of its dtype; None of others.

    `words` are a dtype, a device, and whether to copy.
    """
    if not _has_numpy or not COREPY_IS_SCALAR(value):
        return None
    native = PyArray_FromScalar(value, NULL)
    if not COREPY_IS_SCALAR_OF(value, PyArray_DESCR(<PyArrayObject*><PyObject*>native)):
        return None
    made = _adopted(<PyObject*>native, _leaving)
    if made is None or not _is_there(words[1], (<Operand>made)._table):
        return None
    return _converted_to(<Operand>made, words[0], <object>words[2])


cdef object _value_for(Operand x, value):
    """Return what is written for a scalar of NumPy's, of which some are Python's; None of others."""
    cdef PyObject* dtype
    if COREPY_IS_FLOAT64(value):
        return PyFloat_AS_DOUBLE(<PyObject*>value)
    if COREPY_IS_COMPLEX128(value):
        return complex(value)
    dtype = PyDict_GetItemWithError(_classes, type(value)) if COREPY_IS_INTEGER(value) else NULL
    if dtype != NULL and _common(x._table.dtype, <object>dtype) == <PyObject*>x._table.dtype:
        return PyNumber_Index(value)  # which the array's dtype takes
    return _scalar_beside(x, value)


cdef object _in_ints(key):
    """Return a key with Python's integers in the place of NumPy's; None where there are none of these."""
    cdef list parts = []
    cdef bint changed = False
    if COREPY_IS_INTEGER(key):
        return PyNumber_Index(key)
    if type(key) is slice:
        given = key.start, key.stop, key.step
    elif type(key) is tuple:
        given = <tuple>key
    else:
        return None
    for part in given:
        made = None
        if COREPY_IS_INTEGER(part) or type(part) is slice and type(key) is tuple:  # once, if nested
            made = _in_ints(part)
        changed = changed or made is not None
        parts.append(part if made is None else made)
    if not changed:
        return None
    return slice(parts[0], parts[1], parts[2]) if type(key) is slice else tuple(parts)


cdef object _in_numbers(value):
    """Return Python's number for one of NumPy's, or for an array of no dimension; None for others.

    In a tuple for each of them.
    """
    cdef bint changed = False
    if type(value) is _Array:
        number = _number(<Operand>value, False)
        return None if type(number) is bool else number
    if COREPY_IS_INTEGER(value):
        return PyNumber_Index(value)
    if COREPY_IS_FLOAT64(value):
        return PyFloat_AS_DOUBLE(<PyObject*>value)
    if type(value) is not tuple:
        return None
    parts = []
    for part in <tuple>value:
        made = None if type(part) is tuple else _in_numbers(part)
        changed = changed or made is not None
        parts.append(part if made is None else made)
    return tuple(parts) if changed else None


cdef int _first_number(Way way) noexcept:
    """Return from which positional argument on a function takes numbers; -1 for others."""
    if way is _creation_way or way is _filling_way or way is _range_way or way is _spacing_way:
        return 0
    if way is _identity_way:
        return 0
    return 1 if way is _likeness_way or way is _reshaping_way or way is _rolling_way else -1


cdef object _called_on_natives(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Take the short way with native arrays among the positional arguments; None without any.

    Where sizes and other numbers are called for, with Python's in the place of others.
    """
    cdef PyObject* given[MOST_ARGUMENTS]
    cdef int numbers = _first_number(self.way)
    cdef Py_ssize_t total = count, i
    # Where two stand beside each other, of which one may be a scalar.
    cdef Py_ssize_t first = 1 if self.way is _choice_way else 0, last = 2 * first + 1
    cdef bint paired = first or self.way is _binary_way
    cdef list made = []
    if names != NULL:
        total += PyTuple_GET_SIZE(names)
    if total > MOST_ARGUMENTS or self.way is _run_way or self.way is _conversion_way:
        return None
    for i in range(total):
        given[i] = args[i]
        one = None
        if i < count and _is_array(args[i]):
            one = _adopted(args[i], _adopting)
            if one is None:
                return None
        elif 0 <= numbers <= i < count and _has_numpy and not _is_strict():
            one = _in_numbers(<object>args[i])
        elif paired and first <= i < count == first + 2 and args[last - i].ob_type == <void*>_Array:
            one = _scalar_beside(<Operand>args[last - i], <object>args[i])
        elif i == 0 and not first and i < count:
            one = _scalar_alone(<object>args[i])
        if one is not None:
            made.append(one)
            given[i] = <PyObject*>one
    return self.way(self, given, count, names) if made else None


cdef object _item_at_native(Operand x, Slot* slot, key):
    """Select by a native array, or by integers of NumPy's; None where the method has to."""
    native = _adopted(<PyObject*>key, _adopting)
    if native is None and _is_array(<PyObject*>x._native) and not _is_strict():
        native = _in_ints(key)
    found = None if native is None else _short_item(x, slot, native)
    return None if found is None else _make(found, x._table)


cdef bint _stored_natives(Operand x, key, value) except -1:
    """Write where a key, a value or both are of NumPy's; False where the method has to."""
    where, what = _adopted(<PyObject*>key, _adopting), _adopted(<PyObject*>value, _adopting)
    if _is_array(<PyObject*>x._native) and not _is_strict():
        where = _in_ints(key) if where is None else where
        what = _value_for(x, value) if what is None else what
    if where is None and what is None:
        return False
    return _short_store(x, key if where is None else where, value if what is None else what)
